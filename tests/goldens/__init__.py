"""Record what the project computes, and compare it with what it computed before: see README.md."""

import os

# Set before anything that computes is imported: sums differ in the last digits with the number of threads.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS")
os.environ |= dict.fromkeys(THREADS, "1") | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}
