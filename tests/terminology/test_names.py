"""Names and their sources, united, against a plain loop."""

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology.names import unite_names
from spacy_sapbert.terminology.table import NAME_KEY, NAME_SCHEMA

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ä"]),
        st.integers(0, 2),
        st.sampled_from(["ENG", "GER"]),
        # None at all, several, and what only the builder lets through: an empty one among several, one twice.
        st.sampled_from(["", "A", "B", "A|B", "B|C", "A||B", "|A", "A|A", "|"]),
        st.sampled_from(["PT", "SY"]),
        st.booleans(),
    ),
    max_size=20,
)


def unite_in_a_loop(rows):
    """Each distinct name's first row, with the sources of all its rows and the preference of any."""
    groups = {}
    for row in rows:
        groups.setdefault(row[:3], []).append(row)
    united = []
    for key, members in groups.items():
        sources = [row[3] for row in members]
        source = sources[0]
        if set(sources) != {source}:
            source = "|".join(dict.fromkeys(part for joined in sources for part in joined.split("|") if part))
        united.append((*key, source, members[0][4], any(row[5] for row in members)))
    return united


@settings(deadline=None, max_examples=100)
@given(ROWS, st.booleans())
@example([("a", 0, "ENG", "", "PT", False), ("a", 0, "ENG", "A", "SY", True)], False)
@example([("a", 0, "ENG", "A||B", "PT", False)] * 2, False)
@example([("a", 0, "ENG", "A||B", "PT", False), ("a", 0, "ENG", "C", "PT", False)], False)
@example([("a", 0, "ENG", "", "PT", False), ("a", 0, "ENG", "|", "PT", False)], False)
@example([("a", 0, "ENG", "|", "PT", False), ("a", 0, "ENG", "", "PT", False)], True)
def test_names_are_united_as_in_a_plain_loop_whatever_their_hashes(rows, have_one_hash):
    names = pl.DataFrame(rows, NAME_SCHEMA, orient="row")
    with pytest.MonkeyPatch.context() as patch:
        if have_one_hash:
            patch.setattr(pl.DataFrame, "hash_rows", lambda frame: pl.zeros(frame.height, pl.UInt64(), eager=True))
        united = unite_names(names)
    assert united.schema == NAME_SCHEMA and united.rows() == unite_in_a_loop(rows)
    assert unite_names(united).equals(united)
    assert united.select(NAME_KEY).is_unique().all()


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_another_key_unites_alike_and_other_columns_are_those_of_the_first_row(rows):
    names = pl.DataFrame(rows, NAME_SCHEMA, orient="row").rename({"concept": "id"}).with_row_index("row")
    united = unite_names(names, key=("id", "name", "language"))
    assert united.columns == names.columns
    assert united.drop("row").rows() == unite_in_a_loop(rows)
    first = {}
    for row, name in enumerate(rows):
        first.setdefault(name[:3], row)
    assert united["row"].to_list() == list(first.values())
