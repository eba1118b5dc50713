"""What the package registers, and what importing it costs."""

import configparser
import importlib.metadata
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.util import registry

from spacy_sapbert.snapshot import LinkerSettings

REGISTRIES = {
    "spacy_factories": "_entry_point_factories",
    "spacy_architectures": "architectures",
    "spacy_misc": "misc",
    "spacy_scorers": "scorers",
    "spacy_callbacks": "callbacks",
}
HEAVY = ("scann", "polars", "pyarrow", "fastobo")


def read_entry_points():
    """Read (group, name, target) from setup.cfg."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).parent.parent / "setup.cfg", encoding="utf8")
    for group, lines in config["options.entry_points"].items():
        for line in lines.strip().splitlines():
            name, _, target = line.partition("=")
            yield group, name.strip(), target.strip()


ENTRY_POINTS = list(read_entry_points())


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_there_are_entry_points_of_all_kinds():
    assert {group for group, _, _ in ENTRY_POINTS} == set(REGISTRIES)
    assert len({(group, name) for group, name, _ in ENTRY_POINTS}) == len(ENTRY_POINTS)


@pytest.mark.parametrize("group, name, target", ENTRY_POINTS, ids=lambda value: str(value))
def test_every_entry_point_is_found_by_spacy_and_is_a_function_of_ours(group, name, target):
    function = getattr(registry, REGISTRIES[group]).get(name)
    assert isinstance(function, types.FunctionType | type)
    module, _, attribute = target.partition(":")
    assert function.__name__ == attribute and function.__module__.startswith("spacy_sapbert.")
    assert getattr(sys.modules[module], attribute) is function


def test_the_installed_entry_points_are_those_of_setup_cfg():
    installed = {(e.group, e.name, e.value) for e in importlib.metadata.distribution("spacy-sapbert").entry_points}
    assert installed == set(ENTRY_POINTS)


def test_factories_need_no_import_and_a_blank_pipeline_imports_nothing_heavy():
    # scikit-learn, which spacy-transformers imports, imports pandas and pyarrow wherever they are installed.
    code = f"""
import sys, spacy, spacy_transformers
others = set(sys.modules)
nlp = spacy.blank("en")
nlp.add_pipe("schwartz_hearst")
print("spacy_sapbert.linker" in sys.modules, *[name for name in {HEAVY} if name in sys.modules and name not in others])
nlp.add_pipe("sapbert_linker")
print(*nlp.pipe_names)
"""
    assert run_python(code) == ["True", "schwartz_hearst", "sapbert_linker"]


@pytest.mark.parametrize(
    "config, named",
    [
        ({"treshold": 0.5}, "treshold"),
        ({"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "poling": "cls"}}, "poling"),
        ({"index": {"@misc": "spacy-sapbert.ScannIndex.v1", "recal": 0.9}}, "recal"),
        ({"scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1", "sorted": True}}, "sorted"),
    ],
)
def test_unknown_settings_are_refused_by_name(config, named):
    with pytest.raises(ValueError, match=named):
        spacy.blank("en").add_pipe("sapbert_linker", config=config)


def test_unknown_settings_of_initialize_are_refused_by_name(encoder_folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    nlp.config["initialize"]["components"]["sapbert_linker"] = {"terminolgy": "x"}
    with pytest.raises(ValueError, match="terminolgy"):
        nlp.initialize()


def test_default_settings_are_all_in_the_config_of_a_pipeline():
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    config = nlp.config["components"]["sapbert_linker"]
    assert (
        LinkerSettings().to_dict()
        == linker.settings.to_dict()
        == {key: config[key] for key in LinkerSettings.model_fields}
    )
    assert config["k"] == linker.k == 5 and config["skip_labels"] == [] and linker.skip_labels == ()
    assert config["model"]["pooling"] is None and config["model"]["precision"] == "auto"
    assert config["index"]["recall_target"] == 0.995
    assert config["cache_size"] == 20000 == linker.cache_size


def test_the_class_and_the_factory_have_the_same_defaults():
    import inspect

    from spacy_sapbert.linker import SapbertLinker, make_linker

    defaults = Language.get_factory_meta("sapbert_linker").default_config
    for function in (SapbertLinker.__init__, make_linker):
        parameters = inspect.signature(function).parameters
        for name in LinkerSettings.model_fields:
            assert defaults[name] == parameters[name].default, name


def test_initialize_helpers_are_configured_not_run():
    loader = registry.misc.get("spacy-sapbert.HuggingFaceEncoder.v1")(name="no such encoder")
    reader = registry.misc.get("spacy-sapbert.TableTerminology.v1")(path="no such file.tsv")
    assert isinstance(loader, partial) and callable(reader)
