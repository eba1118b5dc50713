"""Saving and loading: nothing is lost, nothing damaged is loaded, nothing is copied."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injection import DAMAGE, check_damage, flip_bits

from spacy_sapbert.columns import CodedColumn, ListColumn, NumberColumn, TextColumn
from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from spacy_sapbert.terminology.rows import Table, make_table
from spacy_sapbert.terminology.schemas import CONCEPTS, FILES, NAMES, OPTIONAL
from spacy_sapbert.terminology.storage import save_folder

ALWAYS = [name for name in FILES if name not in OPTIONAL]

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
concept = st.tuples(
    st.text("CT0123456789:é漢", min_size=1, max_size=8),
    st.lists(st.tuples(text, text, st.booleans()), max_size=4),
    st.lists(text, max_size=3),
    st.none() | text,
)


def build(concepts):
    builder = TerminologyBuilder()
    builder.add_name("C0000001", "always here")
    for concept_id, names, words, definition in concepts:
        builder.add_concept(concept_id, types=words, codes=words, parents=words, definition=definition)
        for name, label, preferred in names:
            builder.add_name(concept_id, name, source=label, language=label, preferred=preferred)
    return builder.build({"files": [], "source_version": "läuft"})


@pytest.fixture()
def terminology():
    concepts = []
    for i in range(40):
        names = [(f"name {i} of more than twelve bytes {'ü' * j}", "S", j == 0) for j in range(3)]
        concepts.append((f"C{i}", names, ["T1"], None))
    return build(concepts)


@settings(max_examples=15)
@given(st.lists(concept, max_size=8))
def test_round_trips_lose_nothing(tmp_path, concepts):
    terminology = build(concepts)
    terminology.to_disk(tmp_path / "saved")
    for other in (Terminology.from_disk(tmp_path / "saved"), Terminology.from_bytes(terminology.to_bytes())):
        assert other == terminology
        assert other.concepts.rows() == terminology.concepts.rows()
        assert other.names.rows() == terminology.names.rows()
        assert other.fingerprint == terminology.fingerprint
        assert other.report == terminology.report
        assert other.to_bytes() == terminology.to_bytes()


def test_same_input_gives_same_bytes(tmp_path, terminology):
    terminology.to_disk(tmp_path / "a")
    Terminology.from_disk(tmp_path / "a").to_disk(tmp_path / "b")
    # The same names, but laid out in memory in another way.
    names = terminology.names
    joined = Table.from_polars(names.to_polars(), NAMES)
    Terminology(terminology.concepts, joined, report=terminology.report).to_disk(tmp_path / "c")
    # And with texts in front of them and behind.
    rows = np.arange(names.height)
    around = names.take(np.concatenate([rows[-3:], rows, rows[:3]])).slice(3, 3 + names.height)
    Terminology(terminology.concepts, around, report=terminology.report).to_disk(tmp_path / "d")
    for name in (*ALWAYS, "terminology.json"):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abcd"}) == 1, name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_forked_process_loads_and_saves_after_its_parent_has_used_polars(tmp_path, terminology):
    terminology.to_disk(tmp_path / "saved")
    script = """
import os, signal, sys
import polars as pl
from spacy_sapbert.terminology import Terminology
terminology = Terminology.from_disk(sys.argv[1])
terminology.names.to_polars().lazy().group_by("concept").agg(pl.col("name").str.len_bytes().sum()).collect()
if not os.fork():
    signal.alarm(20)
    loaded = Terminology.from_disk(sys.argv[1])
    loaded.to_disk(sys.argv[1] + "_again")
    same = Terminology.from_bytes(loaded.to_bytes())["C7"] == terminology["C7"] == loaded["C7"]
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "saved")], check=True, timeout=60)
    assert Terminology.from_disk(tmp_path / "saved_again") == terminology


def test_saving_over_the_mapped_folder(tmp_path, terminology):
    folder = tmp_path / "saved"
    terminology.to_disk(folder)
    (folder / "notes.txt").write_text("not ours")
    loaded = Terminology.from_disk(folder)
    loaded.to_disk(folder)
    build([]).to_disk(folder)
    assert loaded == terminology and loaded["C7"] == terminology["C7"]
    assert len(Terminology.from_disk(folder)) == 1
    assert sorted(p.name for p in folder.iterdir()) == sorted([*ALWAYS, "notes.txt", "terminology.json"])


def test_loading_maps_and_does_not_copy(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    builder = TerminologyBuilder()
    for i in range(20_000):
        builder.add_concept(f"C{i:07}", types=["T047"], definition="x" * 600)
        builder.add_name(f"C{i:07}", f"{i} a name that is a good deal longer than twelve bytes " * 9)
    builder.build().to_disk(tmp_path / "saved")
    size = sum(path.stat().st_size for path in (tmp_path / "saved").iterdir()) / 1024
    # In a process of its own: this one's memory has been used for other things.
    script = """
import sys
from spacy_sapbert.terminology import Terminology
anon = lambda: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon"))
Terminology.from_disk(sys.argv[2]).name_offsets  # whatever is loaded or set up on first use
before = anon()
terminology = Terminology.from_disk(sys.argv[1])
terminology["C0000007"], terminology.name_concept
print(anon() - before)
"""
    build([]).to_disk(tmp_path / "small")
    command = [sys.executable, "-c", script, str(tmp_path / "saved"), str(tmp_path / "small")]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert size > 30_000, "large enough to tell"
    assert grown < size / 4, f"{grown} of {size:.0f} KiB are in memory"


def test_damage_is_never_loaded(tmp_path, terminology):
    terminology.to_disk(tmp_path)
    check_damage(tmp_path, Terminology.from_disk)
    whole = terminology.to_bytes()
    for damaged in (b"", whole[:7], whole[: len(whole) // 2], whole[:-1], *flip_bits(whole, 30)):
        with pytest.raises((OSError, ValueError), match=DAMAGE):
            Terminology.from_bytes(damaged)


def test_mixed_folders_are_refused(tmp_path, terminology):
    terminology.to_disk(tmp_path / "a")
    build([]).to_disk(tmp_path / "b")
    shutil.copy(tmp_path / "b" / "names.bin", tmp_path / "a" / "names.bin")
    with pytest.raises(OSError, match="names.bin"):
        Terminology.from_disk(tmp_path / "a")


class ForgedColumn(NumberColumn):
    """A column that is saved as other arrays."""

    def __init__(self, column, forge):
        super().__init__(np.zeros(len(column)))
        # Conditions as bytes.
        self._saved = [np.array(of.view(np.uint8) if of.dtype == bool else of) for of in column.buffers()]
        forge(*self._saved)

    def buffers(self):
        return self._saved


def put(buffer, place, value):
    """Put a value at a place of a buffer of the column."""

    def forge(*buffers):
        buffers[buffer][place] = value

    return forge


def swap_texts(data, offsets, *rest):
    """Swap the first two texts, which have one length."""
    data[: offsets[2]] = np.roll(data[: offsets[2]], offsets[1])


DATA, PLACES, CODES = 0, 1, 3
FORGERIES = {
    "no UTF-8": ("names.bin", "name", put(DATA, 3, 0xFF), "can't decode"),
    "half a character": ("names.bin", "name", put(DATA, -1, 0xC3), "can't decode"),
    "a place inside of a character": ("names.bin", "name", put(DATA, slice(0, 2), [0xC3, 0xBC]), "inside of a char"),
    "a place that descends": ("names.bin", "name", put(PLACES, 2, 0), "do not ascend"),
    "a place beyond the bytes": ("names.bin", "name", put(PLACES, 2, 0xFFFFFFFF), "do not ascend"),
    "an end before the bytes": ("names.bin", "name", put(PLACES, -1, 8), "do not ascend"),
    "a concept that is not there": ("names.bin", "concept", put(0, -1, 9), "the concept is missing"),
    "names in disorder": ("names.bin", "concept", put(0, -1, 0), "not sorted by concept"),
    "no such number of a text": ("names.bin", "language", put(CODES, 0, 2), "number of a text"),
    "distinct texts in disorder": ("names.bin", "language", swap_texts, "do not ascend"),
    "one distinct text twice": ("names.bin", "language", put(DATA, slice(0, 6), [*b"ENGENG"]), "do not ascend"),
    "no condition": ("names.bin", "preferred", put(0, 0, 2), "neither 0 nor 1"),
    "ids in disorder": ("concepts.bin", "id", swap_texts, "not sorted by id"),
    "an id twice": ("concepts.bin", "id", put(DATA, slice(0, 4), [*b"C1C1"]), "ids repeat"),
    "a missing text with bytes": ("concepts.bin", "definition", put(2, 0, 0), "has bytes"),
    "a list beyond its texts": ("concepts.bin", "codes", put(-1, 1, 99), "do not ascend"),
    "a list of few texts that descends": ("concepts.bin", "types", put(-1, 1, 0xFFFFFFFF), "do not ascend"),
}


@pytest.mark.parametrize("memory_map", [True, False])
@pytest.mark.parametrize(("file", "column", "forge", "reason"), FORGERIES.values(), ids=FORGERIES)
def test_forged_tables_are_refused(tmp_path, file, column, forge, reason, memory_map):
    builder = TerminologyBuilder()
    for concept_id, name, language, definition in (("C1", "u", "ENG", "one"), ("C2", "v", "FRE", None)):
        builder.add_concept(concept_id, definition=definition, types=["T1"], codes=["A:1"])
        builder.add_name(concept_id, name, language=language, preferred=True)
    builder.add_name("C2", "ü", language="FRE")
    terminology = builder.build()
    tables = {"concepts.bin": terminology.concepts, "names.bin": terminology.names, "retired.bin": terminology.retired}
    forged = tables[file].replace(**{column: ForgedColumn(tables[file][column], forge)})
    save_folder(tmp_path, {**tables, file: forged}, terminology.report)
    with pytest.raises(OSError, match=f"(?s){tmp_path}.*{reason}"):
        Terminology.from_disk(tmp_path, memory_map=memory_map)


@pytest.mark.parametrize("column", ["name", "language", "preferred", "concept"])
@pytest.mark.parametrize("other", [TextColumn.make([None, "a"]), NumberColumn(np.zeros(2)), CodedColumn.make("ab")])
def test_what_could_not_be_loaded_is_refused(column, other):
    terminology = build([("C1", [("a", "", False)], [], None)])
    names = terminology.names.replace(**{column: other})
    if column == "language" and isinstance(other, CodedColumn):
        Terminology(terminology.concepts, names)
        return
    with pytest.raises(ValueError, match=f"names have other values in {column}, or lack some"):
        Terminology(terminology.concepts, names)


def test_a_missing_text_of_a_list_is_refused(terminology):
    lists = ListColumn.make(TextColumn, [["a", None]] * len(terminology))
    with pytest.raises(ValueError, match="concepts have other values in codes, or lack some"):
        Terminology(terminology.concepts.replace(codes=lists), terminology.names)


def test_names_without_concepts_are_refused(terminology):
    with pytest.raises(ValueError, match="the concept is missing"):
        Terminology(make_table(CONCEPTS), terminology.names.slice(0, 3))
