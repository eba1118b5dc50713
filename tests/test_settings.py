import copy
import inspect
import pickle
import sys
from typing import Annotated, Literal, get_type_hints

import pytest
import spacy
from case_tables import cases
from pydantic import AfterValidator, Field, model_validator

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.matcher import MatcherSettings, TerminologyMatcher
from spacy_sapbert.reranker.component import SapbertReranker
from spacy_sapbert.settings import Settings, Strings, list_settings


def check_name(name):
    if not name.isupper():
        raise ValueError("a capital letter")
    return name


class Batch(Settings):
    pairs: int = Field(default=256, ge=2, description="Pairs in a step, so half as many as names.")
    dropout: float | None = Field(default=None, ge=0, lt=1, description="In place of the encoder's own.")


class Sizes(Settings):
    low: int = 0
    high: int = 1

    @model_validator(mode="after")
    def _check(self):
        if self.low > self.high:
            raise ValueError("low is more than high")
        return self


class Run(Settings):
    output: str = Field(description="Where the run writes.")
    precision: Literal["fp32", "bf16"] = Field(default="fp32", description="Of the forward pass.")
    labels: Strings | None = Field(default=None, description="Labels to link.")
    types: dict[str, Strings] = Field(default={}, description="Types by label.")
    batch: Batch = Batch()
    sizes: Sizes = Sizes()
    name: Annotated[str, AfterValidator(check_name)] = "A"

    @model_validator(mode="after")
    def _check(self):
        if self.labels == ():
            raise ValueError("Give labels that are not empty, or null.")
        return self


def test_values_are_kept_and_changes_leave_the_original():
    run = Run.read({"output": "here", "labels": ["A"], "batch": {"pairs": 8}})
    assert (run.output, run.labels, run.batch.pairs, run.batch.dropout) == ("here", ("A",), 8, None)
    assert Run.read(run.to_dict()) == run
    assert run.batch.changed(pairs=4).pairs == 4 and run.batch.pairs == 8
    with pytest.raises(ValueError, match="pairs of the linker: .*, not 0"):
        run.batch.changed("the linker", pairs=0)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"pairs": True}, "pairs of [batch]: Input should be a valid integer, not True"),
        ({"pairs": "8"}, "pairs of [batch]: Input should be a valid integer, not '8'"),
        ({"dropout": float("nan")}, "dropout of [batch]: Input should be a finite number, not nan"),
        ({"dropuot": 0.1}, "dropuot of [batch]: There is no such setting. Did you mean dropout? There are: dropout, "),
        ({"pairs": 1, "dropout": 1}, "or equal to 2, not 1; dropout of [batch]: Input should be less than 1, not 1"),
    ],
)
def test_what_has_no_meaning_is_refused(values, message):
    with pytest.raises(ValueError, match="spacy-sapbert: ") as caught:
        Batch.read(values, "[batch]")
    assert message in str(caught.value) and "\n" not in str(caught.value)


@cases("setting_refusals")
def test_sections_and_lists(values, message):
    with pytest.raises(ValueError) as caught:
        Run.read({"output": "", **values})
    assert message in str(caught.value)


def test_every_setting_is_listed_once():
    with pytest.raises(ValueError, match="output: It has to be given"):
        Run.read({})
    rows = {row.name: row for row in list_settings(Run)}
    assert " ".join(rows) == "output precision labels types batch.pairs batch.dropout sizes.low sizes.high name"
    meaning = "Pairs in a step, so half as many as names."
    assert rows["batch.pairs"] == ("batch.pairs", "int, ≥ 2", "256", meaning)
    assert rows["output"] == ("output", "str", "", "Where the run writes.")
    assert [rows[name].allowed for name in ("labels", "name")] == ["tuple[str, ...] | None", "str"]


@pytest.mark.parametrize("component", [SapbertLinker, SapbertReranker, TerminologyMatcher])
def test_type_checkers_see_the_settings_of_a_component(component):
    annotated = {
        name: eval(text, vars(sys.modules[component.__module__]))
        for name, text in inspect.get_annotations(component).items()
        if name in component.settings_class.model_fields
    }
    assert annotated == get_type_hints(component.settings_class, include_extras=True)


class OwnSettings(SapbertLinker.settings_class):
    k: int = Field(default=7, ge=1)
    depth: int = Field(default=1, ge=1, description="How deep.")


class OwnLinker(SapbertLinker):
    """A linker of somebody else's, with a setting more."""

    settings_class = OwnSettings
    notes = ""


def test_settings_are_properties_of_the_class_and_of_subclasses():
    assert inspect.getdoc(SapbertLinker.k).startswith("Concepts proposed") and not hasattr(SapbertLinker, "depth")
    plain = spacy.blank("xx").add_pipe("sapbert_linker")
    linker = OwnLinker(plain.vocab, plain.model, plain._index, skip_labels=["A"])
    linker.depth, linker.notes = 3, "mine"
    for twin in (linker, copy.deepcopy(linker), pickle.loads(pickle.dumps(linker))):
        assert (twin.k, twin.depth, twin.skip_labels, twin.notes) == (7, 3, ("A",), "mine")
        with pytest.raises(ValueError, match="depth of the linker 'sapbert_linker': .*, not 0"):
            twin.depth = 0
        with pytest.raises(AttributeError, match=r"dept of the linker 'sapbert_linker': .*Did you mean depth\?"):
            twin.dept = 2
    assert OwnLinker.depth.__doc__ == "How deep." and plain.k == 5


def test_a_set_has_the_same_order_in_every_process():
    sources = [f"S{number}" for number in range(10, 40)]
    for given in (set(sources), frozenset(sources), dict.fromkeys(sources).keys()):
        assert MatcherSettings(sources=given).sources == tuple(sources)
    assert MatcherSettings(sources=sources[::-1]).sources == tuple(sources[::-1])
    with pytest.raises(ValueError, match="ids"):
        MatcherSettings.read({"ids": {"C1", 2}})
