"""Settings that are changed on a component are saved and copied with its pipelines, as if their configs had them."""

import copy
import gc
import pickle
from typing import get_args
from weakref import ref

import pytest
import spacy
from case_tables import cases
from spacy.util import load_model_from_config

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.settings import SettingsAttributes

PARTS = ("schwartz_hearst", "terminology_matcher", "sapbert_linker", "sapbert_reranker", "note_context")
# What a setting may be changed to: the first of these that is another value and valid.
URL = "https://example.org/{}"
VALUES = [True, False, 0.5, 7, "de", URL, ["A"], {"pseudo": ["no wonder"]}, {"A": ["T047"]}]


def make_pipeline(*parts):
    nlp = spacy.blank("en")
    for name in parts or PARTS:
        nlp.add_pipe(name)
    return nlp


def list_changes():
    """List each setting of each component that can be changed."""
    nlp = make_pipeline()
    parts = [(name, part) for name, part in nlp.components if isinstance(part, SettingsAttributes)]
    assert [name for name, _ in parts] == [*PARTS]
    return [
        (name, setting)
        for name, part in parts
        for setting, field in part.settings_class.model_fields.items()
        if not field.frozen
    ]


def change(part, setting):
    """Change a setting to another value, and return it."""
    before = getattr(part, setting)
    for value in [*get_args(part.settings_class.model_fields[setting].annotation), *VALUES]:
        if value == before or isinstance(value, type):
            continue
        try:
            setattr(part, setting, value)
        except ValueError:
            continue
        after = getattr(part, setting)
        assert after != before
        return after
    raise AssertionError(f"no other value for {setting}")


def save_and_load(nlp, path):
    nlp.to_disk(path)
    return spacy.load(path)


def restore(nlp, path):
    return load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())


def source(nlp, path):
    twin = spacy.blank("en")
    for name in PARTS:
        twin.add_pipe(name, source=nlp)
    return save_and_load(twin, path)


WAYS = {
    "disk": save_and_load,
    "bytes": restore,
    "config": lambda nlp, path: spacy.blank("en").from_config(nlp.config),
    "source": source,
    "pickle": lambda nlp, path: save_and_load(pickle.loads(pickle.dumps(nlp)), path),
    "deepcopy": lambda nlp, path: save_and_load(copy.deepcopy(nlp), path),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_changed_setting_is_in_every_copy(tmp_path, way):
    nlp = make_pipeline()
    values = {key: change(nlp.get_pipe(key[0]), key[1]) for key in list_changes()}
    twin = WAYS[way](nlp, tmp_path)
    for (name, setting), value in values.items():
        assert getattr(twin.get_pipe(name), setting) == value, (name, setting)
        assert twin.config["components"][name][setting] == nlp.config["components"][name][setting]


def make_copies(nlp):
    """Make copies of a pipeline that have parts of their own."""
    return [pickle.loads(pickle.dumps(nlp)), copy.deepcopy(nlp), spacy.blank("en").from_config(nlp.config)]


def read(nlp, name="sapbert_linker"):
    return nlp.config["components"][name]["k"]


def test_copies_that_are_changed_are_saved_with_their_own_settings(tmp_path):
    nlp = make_pipeline("sapbert_linker")
    nlp.get_pipe("sapbert_linker").k = 9
    for number, twin in enumerate(make_copies(nlp), 10):
        twin.get_pipe("sapbert_linker").k = number
        assert save_and_load(twin, tmp_path).get_pipe("sapbert_linker").k == number
        assert read(nlp) == 9


def test_all_pipelines_with_a_component_are_saved_with_its_settings_whatever_it_is_called_there():
    first, second, third = make_pipeline("sapbert_linker"), spacy.blank("en"), spacy.blank("en")
    linker = second.add_pipe("sapbert_linker", source=first, name="other")
    third.add_pipe("other", source=second, name="sapbert_linker")
    second.rename_pipe("other", "renamed")
    second.disable_pipe("renamed")
    first.remove_pipe("sapbert_linker")
    own = first.add_pipe("sapbert_linker")
    linker.k = 9
    assert (read(first), read(second, "renamed"), read(third)) == (5, 9, 9)
    own.k = 2
    assert (read(first), read(second, "renamed"), read(third)) == (2, 9, 9)


def test_what_is_given_at_loading_wins(tmp_path):
    nlp = make_pipeline("sapbert_linker")
    nlp.get_pipe("sapbert_linker").k = 9
    nlp.to_disk(tmp_path)
    for k in (5, 7):
        twin = spacy.load(tmp_path, config={"components": {"sapbert_linker": {"k": k}}})
        assert twin.get_pipe("sapbert_linker").k == k


def test_variables_stay_but_for_the_setting_that_is_changed(tmp_path):
    nlp = make_pipeline("sapbert_linker", "sapbert_reranker")
    config = nlp.config
    config["variables"] = {"depth": 3}
    config["components"]["sapbert_linker"]["k"] = config["components"]["sapbert_reranker"]["k"] = "${variables.depth}"
    nlp = load_model_from_config(config)
    nlp.get_pipe("sapbert_linker").k = 9
    twin = save_and_load(nlp, tmp_path)
    assert [part.k for _, part in twin.components] == [9, 3]
    assert twin.config["components"]["sapbert_reranker"]["k"] == "${variables.depth}"


@cases("values_in_configs")
def test_values_that_a_config_cannot_hold_are_named(tmp_path, recwarn, setting, value, kept):
    """A pipeline with them in its config would load other values, or not at all."""
    nlp = make_pipeline("terminology_matcher")
    matcher = nlp.get_pipe("terminology_matcher")
    before = getattr(matcher, setting)
    setattr(matcher, setting, value)
    messages = [str(warning.message) for warning in recwarn if "saving the pipeline" in str(warning.message)]
    assert len(messages) == (not kept) and all(f"{setting} of the matcher 'termin" in text for text in messages)
    twin = save_and_load(nlp, tmp_path)
    expected = getattr(matcher, setting) if kept else before
    assert getattr(twin.get_pipe("terminology_matcher"), setting) == expected


@spacy.Language.factory("linker_of_another_package", default_config={"model": {}})
def make_other_linker(nlp, name, model):
    """Make a linker whose settings are decided elsewhere."""
    plain = spacy.blank("xx").add_pipe("sapbert_linker")
    return SapbertLinker(plain.vocab, plain.model, plain._index, name, k=3)


def test_a_config_without_a_setting_gets_none(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("linker_of_another_package").k = 9
    assert save_and_load(nlp, tmp_path).get_pipe("linker_of_another_package").k == 3


def test_a_pipeline_is_not_kept_by_its_components():
    nlp = make_pipeline("note_context")
    part, weak = nlp.get_pipe("note_context"), ref(nlp)
    del nlp
    gc.collect()
    assert weak() is None
    part.language = "de"


def test_short_forms_are_checked_and_used(tmp_path):
    nlp = make_pipeline("schwartz_hearst")
    finder = nlp.get_pipe("schwartz_hearst")
    with pytest.raises(ValueError, match="clinical"):
        finder.short_forms = "clinic"
    with pytest.raises(AttributeError, match="Did you mean short_forms"):
        finder.short_form = {}
    finder.short_forms = {"SOB": ["shortness of breath"]}
    twin = save_and_load(nlp, tmp_path)
    assert twin("SOB")._.abbreviation_offsets == [[0, 3, "shortness of breath"]]
    finder.short_forms = {}
    assert save_and_load(nlp, tmp_path).get_pipe("schwartz_hearst").short_forms == {}
