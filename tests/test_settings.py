from typing import Literal

import numpy as np
import pytest
from pydantic import Field, model_validator
from spacy.util import SimpleFrozenList

from spacy_sapbert.settings import Settings, Strings, format_table, list_settings


class Batch(Settings):
    renamed = {"size": "pairs"}

    pairs: int = Field(default=256, ge=2, description="Pairs in a step, so half as many as names.")
    dropout: float | None = Field(default=None, ge=0, lt=1, description="In place of the encoder's own.")


class Run(Settings):
    output: str = Field(description="Where the run writes.")
    precision: Literal["fp32", "bf16"] = Field(default="fp32", description="Of the forward pass.")
    labels: Strings | None = Field(default=None, description="Labels to link.")
    types: dict[str, Strings] = Field(default={}, description="Types by label.")
    batch: Batch = Batch()

    @model_validator(mode="after")
    def _check(self):
        if self.labels == ():
            raise ValueError("null, or a list that is not empty")
        return self


def test_defaults_and_given_values():
    run = Run.read({"output": "here", "labels": ["A"], "batch": {"pairs": 8}})
    assert (run.output, run.labels, run.batch.pairs, run.batch.dropout) == ("here", ("A",), 8, None)
    assert Run.read(run.to_dict()) == run


@pytest.mark.parametrize("number", [np.int64(8), np.int32(8), np.array(8)])
def test_numpy_numbers_are_numbers(number):
    assert Batch.read({"pairs": number}).pairs == 8
    assert Batch.read({"dropout": np.float32(0.5)}).dropout == 0.5


@pytest.mark.parametrize("labels", [["A"], ("A",), {"A"}, SimpleFrozenList(["A"])])
def test_any_collection_is_a_list(labels):
    assert Run.read({"output": "", "labels": labels}).labels == ("A",)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"pairs": True}, "pairs of [batch] is True, but has to be a whole number, 2 or more"),
        ({"pairs": "8"}, "pairs of [batch] is '8', but"),
        ({"pairs": 1}, "pairs of [batch] is 1, but has to be a whole number, 2 or more"),
        ({"pairs": 8.5}, "pairs of [batch] is 8.5, but"),
        ({"dropout": 1}, "dropout of [batch] is 1, but has to be a number, 0 or more and less than 1 or null"),
        ({"dropout": float("nan")}, "dropout of [batch] is nan, but"),
        ({"dropuot": 0.1}, "no setting dropuot of [batch]. Did you mean dropout? There are: dropout, pairs."),
        ({"size": 8}, "no setting size of [batch]. Did you mean pairs?"),
    ],
)
def test_what_has_no_meaning_is_refused(values, message):
    with pytest.raises(ValueError) as caught:
        Batch.read(values, "[batch]")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "values, message",
    [
        ({}, "[E407] The setting output is missing"),
        ({"output": "", "batch": {"pairs": 0}}, "batch.pairs is 0, but has to be a whole number, 2 or more"),
        ({"output": "", "batch": {"steps": 1}}, "no setting batch.steps"),
        ({"output": "", "precision": "fp8"}, 'precision is \'fp8\', but has to be "fp32", "bf16"'),
        ({"output": "", "labels": "A"}, "labels is 'A', but has to be a list of strings or null"),
        ({"output": "", "labels": [1]}, "labels is 1, but has to be a list of strings or null"),
        ({"output": "", "labels": []}, "but has to be null, or a list that is not empty"),
        ({"output": "", "types": {"A": "T"}}, "types is 'T', but has to be a map from names to lists of strings"),
    ],
)
def test_sections_and_lists(values, message):
    with pytest.raises(ValueError) as caught:
        Run.read(values)
    assert message in str(caught.value)


def test_changes_are_checked_and_leave_the_original():
    batch = Batch()
    assert batch.changed(pairs=4).pairs == 4 and batch.pairs == 256
    with pytest.raises(ValueError, match="E404.*pairs of the linker is 0"):
        batch.changed("the linker", pairs=0)


def test_a_table_has_every_setting_once():
    rows = {row.name: row for row in list_settings(Run)}
    assert list(rows) == ["output", "precision", "labels", "types", "batch.pairs", "batch.dropout"]
    assert rows["batch.pairs"] == (
        "batch.pairs",
        "a whole number, 2 or more",
        "256",
        "Pairs in a step, so half as many as names.",
    )
    table = format_table(Run)
    assert "| `output` | text | must be given | Where the run writes. |" in table
    assert '| `precision` | "fp32", "bf16" | `"fp32"` | Of the forward pass. |' in table


def test_a_changed_default_keeps_the_help_text():
    class Longer(Batch):
        more: int = Field(default=1, description="Of its own.")
        dropout: float | None = 0.5
        limit: int = 2

    meanings = [row.meaning for row in list_settings(Longer)]
    assert meanings == [
        "Pairs in a step, so half as many as names.",
        "In place of the encoder's own.",
        "Of its own.",
        "",
    ]
