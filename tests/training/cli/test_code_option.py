"""Commands that take a pipeline: a folder or the name of a package, and Python that registers its parts."""

import re
import shutil

import pytest
import spacy
from gold_documents import write_documents
from pair_rows import build
from thinc.api import Config
from typer.testing import CliRunner

from spacy_sapbert import __main__
from spacy_sapbert.command_line import load_pipeline
from training.cli import app

# Of each command that takes a pipeline: its application, and its words before the pipeline and behind it.
COMMANDS = {
    "link": (__main__.app, ["link", "labels.csv", "--pipeline"], []),
    "check": (__main__.app, ["check", "labels.csv", "--terminology"], []),
    "expect": (app, ["expect"], ["output"]),
    "measure": (app, ["measure", "measure.cfg", "output", "--systems.mine.pipeline"], []),
}
CODE = """
from spacy.language import Language

Language.component("{factory}", func=lambda doc: doc)
"""
INIT = """
from spacy.util import load_model_from_init_py
from . import components

def load(**overrides):
    return load_model_from_init_py(__file__, **overrides)
"""
MEASUREMENT = {
    "systems": {"mine": {"kind": "pipeline", "pipeline": ""}},
    "tasks": {"documents": {"kind": "documents", "files": "gold.spacy"}},
}


def run(command, pipeline, *options):
    application, before, behind = COMMANDS[command]
    return CliRunner().invoke(application, [*before, pipeline, *behind, *options], catch_exceptions=False)


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Return a function that saves a pipeline with a component whose factory only `components.py` registers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("id,label\nA,heart attack\n")
    write_documents(tmp_path / "gold.spacy", ("A heart attack.", [(2, 14, "A")]))
    Config(MEASUREMENT).to_disk(tmp_path / "measure.cfg")

    def save(factory):
        nlp = spacy.blank("en")
        nlp.add_pipe("merge_entities")
        linker = nlp.add_pipe("sapbert_linker")
        linker.initialize(terminology=build({"A": ["heart attack"]}))
        nlp.to_disk("saved")
        config = tmp_path / "saved" / "config.cfg"
        config.write_text(config.read_text().replace('factory = "merge_entities"', f'factory = "{factory}"'))
        (tmp_path / "components.py").write_text(CODE.format(factory=factory))

    return save


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipeline_with_a_part_of_others_opens_with_code_and_without_it_the_factory_is_named(save, command):
    factory = f"part_for_{command}"
    save(factory)
    message = rf"^saved: .*'{factory}'.*--code FILE.*`import negspacy\.negation`"
    with pytest.raises(ValueError, match=message) as refused:
        run(command, "saved")
    assert "Available" not in str(refused.value) and "\n" not in str(refused.value)
    assert run(command, "saved", "--code", "components.py").exit_code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_an_installed_package_opens_by_its_name(save, command, tmp_path, monkeypatch):
    name = f"en_part_of_{command}"
    save(name)
    package = tmp_path / "site" / name
    shutil.copytree("saved", package / f"{name}-0.0.0")
    meta = (package / f"{name}-0.0.0" / "meta.json").read_text()
    meta = re.sub(r'"name": ?"[^"]*"', f'"name": "{name.removeprefix("en_")}"', meta, count=1)
    (package / "meta.json").write_text(meta)
    (package / "__init__.py").write_text(INIT)
    shutil.copy("components.py", package)
    distribution = tmp_path / "site" / f"{name}-0.0.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert run(command, name).exit_code == 0


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("nowhere", None, "There is no pipeline nowhere, seen from"),
        ("labels.csv", None, "There is no pipeline labels.csv"),
        ("saved", "saved", "--code is .*saved, but has to be a file of Python"),
        ("saved", "nowhere.py", "No such file"),
        ("saved", "imports.py", "imports.py imports negation_of_nobody, which is not installed"),
    ],
)
def test_what_is_no_pipeline_and_no_code_is_refused(save, tmp_path, name, code, message):
    save("part_of_nobody")
    (tmp_path / "imports.py").write_text("import negation_of_nobody.cues")
    with pytest.raises((OSError, ImportError, ValueError), match=message):
        load_pipeline(name, None if code is None else tmp_path / code)
