"""Pipelines built from a config alone, with `spacy assemble` and `nlp.initialize`."""

import json
import shutil

import pytest
import spacy
from spacy.cli import app
from spacy.util import load_model_from_config
from thinc.api import Config
from typer.testing import CliRunner

TABLE = "id\tname\ttypes\nD1\theart attack\tT047\nD1\tmyocardial infarction\tT047\nD2\tcold\tT047|T184\n"


@pytest.fixture
def builder_folder(tmp_path, encoder_folder):
    """A folder with everything that a pipeline is built from."""
    folder = tmp_path / "the_builders_own_folder"
    shutil.copytree(encoder_folder, folder / "encoder")
    (folder / "names.tsv").write_text(TABLE, encoding="utf8")
    patterns = [{"label": "DISORDER", "pattern": name} for name in ("heart attack", "cold")]
    (folder / "patterns.json").write_text(json.dumps(patterns), encoding="utf8")
    table = {"@misc": "spacy-sapbert.TableTerminology.v1", "path": str(folder / "names.tsv"), "types_column": "types"}
    encoder = {"@misc": "spacy-sapbert.HuggingFaceEncoder.v1", "name": str(folder / "encoder")}
    patterns = {"@readers": "srsly.read_json.v1", "path": str(folder / "patterns.json")}
    names = ["entity_ruler", "schwartz_hearst", "sapbert_linker"]
    config = {
        "nlp": {"lang": "en", "pipeline": names},
        "components": {name: {"factory": name} for name in names},
        "initialize": {
            "components": {
                "entity_ruler": {"patterns": patterns},
                "sapbert_linker": {"terminology": table, "encoder": encoder},
            }
        },
    }
    config["components"]["sapbert_linker"]["k"] = 2
    Config(config).to_disk(folder / "config.cfg")
    return folder


def links(doc):
    return [(ent.text, ent.kb_id_, len(ent._.kb_candidates)) for ent in doc.ents]


def test_spacy_assemble_builds_a_pipeline_that_links_without_its_sources(builder_folder, tmp_path):
    done = CliRunner().invoke(app, ["assemble", str(builder_folder / "config.cfg"), str(tmp_path / "out")])
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert "The linker 'sapbert_linker' has 2 concepts with 3 names" in done.output
    # Nothing but the [initialize] block tells where it was built.
    hidden = str(builder_folder).encode()
    found = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file() and hidden in path.read_bytes()]
    assert found == ["config.cfg"]
    config = Config().from_disk(tmp_path / "out" / "config.cfg", interpolate=False)
    del config["initialize"]
    assert str(builder_folder) not in config.to_str()
    shutil.rmtree(builder_folder)
    nlp = spacy.load(tmp_path / "out")
    assert links(nlp("A heart attack and a cold .")) == [("heart attack", "D1", 2), ("cold", "D2", 2)]
    assert nlp("a cold").ents[0]._.kb_candidates[0]["types"] == ["T047", "T184"]


def test_initialize_again_reads_a_changed_terminology(builder_folder):
    nlp = load_model_from_config(Config().from_disk(builder_folder / "config.cfg"), auto_fill=True)
    assert not nlp.get_pipe("sapbert_linker").is_ready
    for concept in ("D2", "E2"):
        (builder_folder / "names.tsv").write_text(TABLE.replace("D2", concept), encoding="utf8")
        nlp.initialize()
        assert links(nlp("A cold .")) == [("cold", concept, 2)]


@pytest.mark.parametrize(
    "section, key, broken, message",
    [
        ("terminology", "path", "gone.tsv", "Can't find the file"),
        ("encoder", "name", "./gone", "Can't read an encoder"),
    ],
)
def test_paths_that_lead_nowhere_are_named(builder_folder, section, key, broken, message):
    config = Config().from_disk(builder_folder / "config.cfg")
    config["initialize"]["components"]["sapbert_linker"][section][key] = broken
    with pytest.raises(OSError, match=f"{message}.*{broken}"):
        load_model_from_config(config, auto_fill=True).initialize()
