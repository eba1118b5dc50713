"""Opposites: a mention has to be nearer to a synonym than to every name of the opposite."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from training.cli import app
from training.data.opposites import OppositePair, write_opposites
from training.evaluation.measure import ResultStore, measure
from training.evaluation.probes.opposites import OppositesTask, list_rows, measure_opposites
from training.evaluation.side_by_side import list_encoders

PAIRS = [
    OppositePair("acute/chronic", "A", "acute pain", ["sudden pain", "pain attack"], "B", ["chronic pain", "ache"]),
    OppositePair("acute/chronic", "B", "chronic pain", ["ache"], "A", ["acute pain", "sudden pain"]),
    OppositePair("left/right", "C", "left heart", ["heart side"], "D", ["right heart"]),
]
VECTORS = {
    "acute pain": (1, 0),
    "sudden pain": (0, 1),
    "pain attack": (5, 1),  # nearest of all, though long
    "chronic pain": (1, 1),
    "ache": (-1, 1),
    "left heart": (1, 2),
    "heart side": (1, 2),
    "right heart": (2, 4),  # as near as the synonym
}


class Table:
    fingerprint = "table"

    def encode(self, strings):
        assert len(set(strings)) == len(strings)
        found = np.array([VECTORS.get(string, (0, 0)) for string in strings], dtype=np.float32)
        return found, found.any(axis=1)


def test_the_nearest_synonym_has_to_be_nearer_than_the_nearest_name_of_the_opposite():
    figures = measure_opposites(Table(), PAIRS)
    assert figures["kinds"] == {
        "acute/chronic": {"accuracy": 0.5, "pairs": 2},
        "left/right": {"accuracy": 0.0, "pairs": 1},
    }
    assert figures["accuracy"] == pytest.approx(1 / 3) and figures["mean_of_kinds"] == 0.25 and figures["pairs"] == 3
    assert list_rows([figures, figures])[-1] == ["all pairs", "3", "33.3", "33.3"]


def test_mentions_without_a_vector_are_wrong():
    unknown = replace(PAIRS[0], mention="unknown words")
    assert measure_opposites(Table(), [unknown])["accuracy"] == 0


def test_results_are_stored_by_pairs_and_encoder(encoder_folder, tmp_path):
    systems = list_encoders(str(encoder_folder))
    (first,) = measure(systems, {"dev": OppositesTask(PAIRS)}, ResultStore(tmp_path)).values()
    (again,) = measure(systems, {"other": OppositesTask(PAIRS)}, ResultStore(tmp_path)).values()
    (fewer,) = measure(systems, {"dev": OppositesTask(PAIRS[:2])}, ResultStore(tmp_path)).values()
    assert first["dev"] == again["other"] and fewer["dev"].key != first["dev"].key
    assert len(list(tmp_path.glob("results/*.json"))) == 2


def test_the_command_writes_a_table_of_kinds(encoder_folder, static_folder, tmp_path):
    write_opposites(PAIRS, tmp_path / "mine.json")
    arguments = ["opposites", f"{encoder_folder},{static_folder}", str(tmp_path / "mine.json"), str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    table = (tmp_path / "out" / "opposites.md").read_text()
    assert result.exit_code == 0 and table in result.output and "## mine" in table
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")][2:]
    assert [(kind.strip(), int(n)) for kind, n in rows] == [
        ("acute/chronic", 2),
        ("left/right", 1),
        ("mean of kinds", 3),
        ("all pairs", 3),
    ]
