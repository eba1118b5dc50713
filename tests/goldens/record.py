"""Record what the project computes, or compare two records.

python tests/goldens/record.py OUTPUT.json [--data FOLDER] [--only part,part]
python tests/goldens/record.py --compare A.json B.json
"""

# ruff: noqa: E402 - `goldens` and the helpers of the tests are imported from this checkout
import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch

import goldens  # noqa: F401 - sets the number of threads before torch is imported
from goldens.evaluation import record_evaluate
from goldens.linking import record_candidates, record_demo, record_fingerprints
from goldens.training_data import record_data
from goldens.training_runs import record_losses
from goldens.values import compare, format_record, read_json
from goldens.workspace import Workspace

RECORDERS = {
    "demo": record_demo,
    "candidates": record_candidates,
    "fingerprints": record_fingerprints,
    "losses": record_losses,
    "data": record_data,
    "evaluate": record_evaluate,
}
TOLERANCE = 1e-6


def record(output: Path, data: Path | None, parts: list[str], vectors: Path | None = None) -> None:
    """Record parts of what the project computes. A file keeps the parts that are not recorded now."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # "auto" then means fp32 on every processor.
    torch.cpu._is_avx512_bf16_supported = lambda: False
    torch.cpu._is_amx_tile_supported = lambda: False
    found = read_json(output) if output.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), data, vectors)
        for part in parts:
            start = time.perf_counter()
            found[part] = json.loads(json.dumps(RECORDERS[part](workspace)))
            print(f"{part}: {len(found[part])} entries in {time.perf_counter() - start:.0f} s", flush=True)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(format_record({name: found[name] for name in RECORDERS if name in found}), "utf8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--data", type=Path, help="a folder with rrf_mini, benchmarks and raw")
    parser.add_argument("--vectors", type=Path, help="a folder that keeps vectors of large terminologies between calls")
    parser.add_argument("--only", default=",".join(RECORDERS), help="parts to record or compare (default: %(default)s)")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="list the differences of two records")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="for floats (default: %(default)s)")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(RECORDERS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}. The parts are {', '.join(RECORDERS)}")
    if arguments.compare:
        left, right = ({part: read_json(path).get(part, {}) for part in parts} for path in arguments.compare)
        differences = list(compare(left, right, arguments.tolerance))
        print("\n".join([*differences, f"{len(differences)} differences"]))
        sys.exit(bool(differences))
    if arguments.output is None:
        parser.error("give a file to write, or --compare")
    record(arguments.output, arguments.data, parts, arguments.vectors)


if __name__ == "__main__":
    main()
