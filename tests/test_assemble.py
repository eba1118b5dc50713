"""Pipelines built from a config alone, with `spacy assemble` and `nlp.initialize`."""

import shutil

import pytest
import spacy
from spacy.cli import app
from spacy.util import load_model_from_config
from thinc.api import Config
from typer.testing import CliRunner

CONFIG = """
[nlp]
lang = "en"
pipeline = ["entity_ruler", "schwartz_hearst", "sapbert_linker"]

[components]

[components.entity_ruler]
factory = "entity_ruler"
phrase_matcher_attr = "LOWER"

[components.schwartz_hearst]
factory = "schwartz_hearst"

[components.sapbert_linker]
factory = "sapbert_linker"
k = 2

[initialize]

[initialize.components]

[initialize.components.entity_ruler]

[initialize.components.entity_ruler.patterns]
@readers = "srsly.read_json.v1"
path = "PATTERNS"

[initialize.components.sapbert_linker]

[initialize.components.sapbert_linker.terminology]
@misc = "spacy-sapbert.TableTerminology.v1"
path = "TABLE"
types_column = "types"

[initialize.components.sapbert_linker.encoder]
@misc = "spacy-sapbert.HuggingFaceEncoder.v1"
name = "ENCODER"
"""
TABLE = """id\tname\ttypes
D1\theart attack\tT047
D1\tmyocardial infarction\tT047
D2\tcold\tT047|T184
"""


@pytest.fixture
def builder_folder(tmp_path, encoder_folder):
    """A folder with everything that a pipeline is built from."""
    folder = tmp_path / "the_builders_own_folder"
    folder.mkdir()
    shutil.copytree(encoder_folder, folder / "encoder")
    (folder / "names.tsv").write_text(TABLE, encoding="utf8")
    (folder / "patterns.json").write_text(
        '[{"label": "DISORDER", "pattern": "heart attack"}, {"label": "DISORDER", "pattern": "cold"}]', encoding="utf8"
    )
    config = CONFIG.replace("PATTERNS", str(folder / "patterns.json"))
    config = config.replace("TABLE", str(folder / "names.tsv")).replace("ENCODER", str(folder / "encoder"))
    (folder / "config.cfg").write_text(config, encoding="utf8")
    return folder


def assemble(config, output, *overrides):
    return CliRunner().invoke(app, ["assemble", str(config), str(output), *overrides])


def links(doc):
    return [(ent.text, ent.kb_id_, len(ent._.kb_candidates)) for ent in doc.ents]


def test_spacy_assemble_builds_a_pipeline_that_links_without_its_sources(builder_folder, tmp_path):
    done = assemble(builder_folder / "config.cfg", tmp_path / "out")
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
    nlp.initialize()
    assert links(nlp("A cold .")) == [("cold", "D2", 2)]
    (builder_folder / "names.tsv").write_text(TABLE.replace("D2", "E2"), encoding="utf8")
    nlp.initialize()
    assert links(nlp("A cold .")) == [("cold", "E2", 2)]


@pytest.mark.parametrize(
    "key, broken, code", [("path", "gone.tsv", "Can't find the file"), ("name", "./gone", "can't read an encoder")]
)
def test_paths_that_lead_nowhere_are_named(builder_folder, key, broken, code):
    config = Config().from_disk(builder_folder / "config.cfg")
    block = config["initialize"]["components"]["sapbert_linker"]
    block["terminology" if key == "path" else "encoder"][key] = broken
    nlp = load_model_from_config(config, auto_fill=True)
    with pytest.raises(OSError, match=f"{code}.*{broken}"):
        nlp.initialize()
