"""What the package registers. What importing it costs is in tests/core and in test_static_pipeline.py."""

import configparser
import importlib.metadata
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.util import registry

from spacy_sapbert.linker import SapbertLinker, make_linker
from spacy_sapbert.snapshot import LinkerSettings

REGISTRIES = {
    "spacy_factories": "_entry_point_factories",
    "spacy_architectures": "architectures",
    "spacy_misc": "misc",
    "spacy_scorers": "scorers",
    "spacy_callbacks": "callbacks",
}


def read_entry_points():
    """Read (group, name, target) from setup.cfg."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).parent.parent / "setup.cfg", encoding="utf8")
    for group, lines in config["options.entry_points"].items():
        for line in lines.strip().splitlines():
            name, _, target = line.partition("=")
            yield group, name.strip(), target.strip()


ENTRY_POINTS = list(read_entry_points())


@pytest.mark.parametrize("group, name, target", ENTRY_POINTS, ids=lambda value: str(value))
def test_every_entry_point_is_found_by_spacy_and_is_a_function_of_ours(group, name, target):
    function = getattr(registry, REGISTRIES[group]).get(name)
    assert isinstance(function, types.FunctionType | type)
    module, _, attribute = target.partition(":")
    assert function.__name__ == attribute and function.__module__.startswith("spacy_sapbert.")
    assert getattr(sys.modules[module], attribute) is function


def test_the_installed_entry_points_are_those_of_setup_cfg():
    installed = {(e.group, e.name, e.value) for e in importlib.metadata.distribution("spacy-sapbert").entry_points}
    assert installed == set(ENTRY_POINTS) and {group for group, _, _ in ENTRY_POINTS} == set(REGISTRIES)


def test_the_class_and_the_factory_have_the_same_defaults():
    nlp = spacy.blank("xx")
    settings = nlp.add_pipe("sapbert_linker").settings.to_dict()
    config = nlp.config["components"]["sapbert_linker"]
    assert settings == LinkerSettings().to_dict() == {name: config[name] for name in settings}
    defaults = Language.get_factory_meta("sapbert_linker").default_config
    for function in (SapbertLinker.__init__, make_linker):
        parameters = inspect.signature(function).parameters
        for name in LinkerSettings.model_fields:
            assert defaults[name] == parameters[name].default, name


def test_the_fixtures_of_the_tests_import_neither_spacy_nor_pytorch():
    script = "import conftest, index_vectors, sys; print(*{'spacy', 'thinc', 'torch', 'transformers'} & {*sys.modules})"
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "\n", done.stderr
