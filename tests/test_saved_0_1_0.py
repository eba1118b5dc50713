"""A pipeline saved by version 0.1.0 loads: its config and the form of its folders have not changed since."""

import json

import pytest
import spacy
from thinc.api import Config

# The linker's part of `config.cfg` as version 0.1.0 wrote it, with all settings that the linker had.
CONFIG = """
[components]

[components.sapbert_linker]
factory = "sapbert_linker"
k = 3
threshold = 0.1
set_nil = false
overwrite = true
link_labels = null
skip_labels = []
spans_key = null
abbreviations = "both"
types = null
sources = null
languages = null
ids = null
output_source = null
batch_size = 256
cache_size = 20000
use_gold_ents = true
kb_url = "https://uts.nlm.nih.gov/uts/umls/concept/{}"

[components.sapbert_linker.model]
@architectures = "spacy-sapbert.NameEncoder.v1"
pooling = null
max_length = null
lower_case = null
pad_to_length = null
attention_mask = null
precision = "auto"

[components.sapbert_linker.index]
@misc = "spacy-sapbert.ScannIndex.v1"
recall_target = 0.99

[components.sapbert_linker.label_types]

[components.sapbert_linker.scorer]
@scorers = "spacy-sapbert.linker_scorer.v1"
"""
# Settings that came later or have another default now.
CHANGED = {
    "attribute": "kb_candidates",
    "set_kb_id": True,
    "kb_url": None,
    "below": None,
    "index": {"@misc": "spacy-sapbert.AutoIndex.v1", "recall_target": 0.995},
}
# The same of its encoder.
CHANGED_MODEL = {"normalize_writing": None, "device": "auto"}
FORMATS = {
    "linker.json": 1,
    "encoder/name_encoder.json": 1,
    "terminology/terminology.json": 1,
    "retriever/retriever.json": 2,
    "retriever/index/index.json": 1,
}
# What each manifest holds, apart from `format`, `files` and `checksum`: what version 0.1.0 wrote, and "settings", which
# it ignores.
KEYS = {
    "linker.json": {"parts"},
    "encoder/name_encoder.json": {"fingerprint", "settings"},
    "terminology/terminology.json": {"counts", "fingerprint", "report"},
    "retriever/retriever.json": {"terminology", "encoder", "index"},
    "retriever/index/index.json": {"kind", "rows", "fingerprint", "configuration", "recall", "settings"},
}
ARRAYS = [  # the last four came later
    "retriever/index/dataset.npy",
    "retriever/keys.npy",
    "retriever/name_rows.npy",
    "retriever/offsets.npy",
    "terminology/concepts.arrow",
    "terminology/names.arrow",
    "retriever/writing_is_prefix.npy",
    "retriever/writing_keys.npy",
    "retriever/writing_name_rows.npy",
    "retriever/writing_offsets.npy",
]
TEXT = "She had a heart attack and a cold ."


def links(nlp):
    return [(ent.text, ent.kb_id_, ent._.kb_candidates) for ent in nlp(TEXT).ents]


@pytest.fixture
def saved(make_nlp, tmp_path):
    """Save a pipeline. Return what it links, and its folder."""
    nlp = make_nlp(k=3, threshold=0.1)
    nlp.to_disk(tmp_path / "pipeline")
    return links(nlp), tmp_path / "pipeline"


def test_the_folder_has_the_files_and_manifests_of_0_1_0(saved):
    folder = saved[1] / "sapbert_linker"
    for name, version in FORMATS.items():
        manifest = json.loads((folder / name).read_text(encoding="utf8"))
        assert manifest["format"] == version
        assert set(manifest) == KEYS[name] | {"format", "files", "checksum"}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert sorted(name for name in found - set(FORMATS) if not name.startswith("encoder/")) == sorted(ARRAYS)


def test_the_config_is_that_of_0_1_0_apart_from_what_changed(saved):
    config = Config().from_disk(saved[1] / "config.cfg", interpolate=False)
    expected = Config().from_str(CONFIG)["components"]["sapbert_linker"]
    model = {**expected["model"], **CHANGED_MODEL}
    assert config["components"]["sapbert_linker"] == {**expected, **CHANGED, "model": model}


def test_a_pipeline_with_the_config_of_0_1_0_loads_and_links_alike(saved):
    expected, folder = saved
    path = folder / "config.cfg"
    config = Config().from_disk(path, interpolate=False)
    config["components"]["sapbert_linker"] = Config().from_str(CONFIG)["components"]["sapbert_linker"]
    config.to_disk(path)
    loaded = spacy.load(folder)
    assert links(loaded) == expected and len(expected) == 2
    linker = loaded.get_pipe("sapbert_linker")
    assert (linker.k, linker.threshold, linker.abbreviations, linker.skip_labels) == (3, 0.1, "both", ())


def test_the_config_of_0_1_0_makes_an_empty_pipeline():
    config = Config().from_str(f'[nlp]\nlang = "en"\npipeline = ["sapbert_linker"]\n{CONFIG}')
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert nlp.get_pipe("sapbert_linker").threshold == 0.1
