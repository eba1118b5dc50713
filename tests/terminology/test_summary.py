from rrf_files import atom, write_release

from spacy_sapbert.terminology import TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.table import summarize


def test_a_summary_counts_concepts_names_and_what_was_dropped():
    builder = TerminologyBuilder()
    for name in ("cold", "common cold", "cold", " "):
        builder.add_name("C1", name)
    assert summarize(builder.build()) == "1 concepts with 2 names; dropped: 1 empty names, 1 duplicate names"


def test_reasons_of_releases_are_words(tmp_path):
    lines = [atom("C1", "cold"), atom("C1", "Erkältung", LAT="GER"), atom("C2", "old", SUPPRESS="O")]
    terminology = read_rrf(write_release(tmp_path, MRCONSO=lines, MRREL=[]), suppressed="drop")
    assert summarize(terminology) == (
        "1 concepts with 1 names; dropped: 1 names in other languages, 1 suppressed names, 1 concepts without names"
    )


def test_nothing_dropped_is_not_mentioned():
    builder = TerminologyBuilder()
    builder.add_name("C1", "cold")
    assert summarize(builder.build()) == "1 concepts with 1 names"
