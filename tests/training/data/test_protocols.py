"""What protocols do to mentions and dictionaries."""

import re
import string

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st

from training.data.mentions import Mention
from training.data.protocols import (
    PROTOCOLS,
    clean,
    find_long_forms,
    get_protocol,
    make_plain,
    make_task,
    resolve_composite,
    spell_out,
)

PUBLISHED = PROTOCOLS["published"]
NAMES = {"D1|OMIM:1": "Lip fever", "D2": "palate-fever", "D3": "FEVER, lip", "D4": "Lip Fever", "D5": "!"}
DICTIONARY = list(NAMES.items())
SEEN = [Mention("knee fever", ["D2"]), Mention("lip fever", ["D9"]), Mention("knee and lip fever", ["D2", "D1"])]
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=5).filter(
    lambda word: word not in {"and", "or", "of", "the"}
)


@cases("composites")
def test_composites_are_taken_apart(mention, parts):
    n = len(parts) if parts else 2
    assert resolve_composite(mention, n) == (parts or [mention])
    assert resolve_composite(mention, 1) == resolve_composite(mention, 17) == [mention]


@given(st.lists(WORDS, min_size=2, max_size=5), st.sampled_from(["and", "or", "and/or"]), WORDS)
def test_a_list_of_names_gives_each_of_them(names, conjunction, ending):
    mention = f"{', '.join(names[:-1])} {conjunction} {names[-1]} {ending}"
    assert resolve_composite(mention, len(names)) == [f"{name} {ending}" for name in names]


@given(st.text(st.sampled_from("ab ,/"), max_size=12).map(lambda text: f"{text} and of"), st.integers(0, 4))
def test_there_are_as_many_parts_as_concepts_or_one(mention, n):
    parts = resolve_composite(mention, n)
    assert parts == [mention] or (len(parts) == n and all(parts))


@pytest.mark.parametrize(
    "mention, expected",
    [
        ("LF", "lip fever"),
        ("LF, severe", "lip fever, severe"),
        ("mild  LF/CF", "mild lip fever/chin heat"),
        ("(LF)", "(LF)"),
        ("LF-like", "LF-like"),
        ("X1", "type 1 chin heat"),
        ("A", "B of A"),
        ("lf", "lf"),
    ],
)
def test_abbreviations_are_spelled_out_until_none_is_left(mention, expected):
    long_forms = {"LF": "lip fever", "CF": "chin heat", "X1": "type 1 CF", "A": "B of A", "B": "B"}
    assert spell_out(mention, long_forms) == expected


@given(st.dictionaries(st.sampled_from("ABCDE"), st.lists(st.sampled_from("ABCDEx"), max_size=2).map(" ".join)))
def test_circles_of_definitions_end(long_forms):
    spell_out("A B/C D,", long_forms)


def test_the_first_definition_beside_a_mention_counts():
    text = "Lip fever syndrome (LFS) is rare. LFS may stay; long finger stiffness (LFS) may not."
    windows = [("1", text[34:]), ("2", text[:40]), ("2", text[34:]), ("3", text[34:50]), ("", text)]
    found = find_long_forms(Mention("LFS", ["D1"], doc_id, window) for doc_id, window in windows)
    assert found == {"1": {"LFS": "long finger stiffness"}, "2": {"LFS": "Lip fever syndrome"}, "3": {}}


@given(st.text())
def test_what_is_clean_stays_as_it_is(text):
    once = clean(text)
    assert clean(once) == once or not text.isascii()
    assert not set(once) & set(string.punctuation) and "  " not in once


def test_the_published_protocol():
    mentions = [
        Mention("Lip or palate fever", ["D1", "D2"], "7"),
        Mention("LF", ["OMIM:1"], "7", "A lip fever (LF) is mild."),
        Mention("lip fievre", ["OMIM:8", "D3"]),
        Mention("?", []),
        Mention("lips", ["D1", "D2"], parts=["lip fever", "toe fever"]),
    ]
    task = make_task(mentions, DICTIONARY, PUBLISHED, seen=SEEN, spelling={"fievre": "fever"})
    assert task.queries == ["lip fever", "palate fever", "lip fever", "lip fever", "?", "lip fever", "toe fever"]
    assert task.mention_of == [0, 0, 1, 2, 3, 4, 4]
    assert task.gold == [["D1", "D2"], ["D1", "D2"], ["1"], ["D3"], [], ["D1", "D2"], ["D1", "D2"]]
    expected = {"lip fever": "D1|1|D4|D9", "palate fever": "D2", "fever lip": "D3", "knee fever": "D2"}
    assert dict(zip(task.names, task.ids, strict=True)) == {**expected, "knee fever lip fever": "D2|D1"}
    counts = {"mentions": 5, "unanswerable": 1, "names": 5, "names_of_dictionary": 5, "names_before": 3}
    counts |= {"empty_names": 1, "left_out": 0, "spelled_out": 1, "composites": 2, "unresolved_composites": 0}
    assert task.report == counts


def test_the_strict_protocol_leaves_everything_as_it_is():
    mentions = [Mention("Lip and  palate Fever", ["D1", "OMIM:1"])]
    task = make_task(mentions, [*DICTIONARY, DICTIONARY[1]], get_protocol("strict"), seen=SEEN)
    assert task.queries == ["Lip and  palate Fever"] and task.gold == [["D1", "1"]] and not task.mention_of
    assert not task.folds
    assert task.names == [name for _, name in DICTIONARY] and task.ids[0] == "D1|1"


def test_the_refined_protocol_asks_only_for_what_is_new():
    mentions = [Mention(text, ["D1"]) for text in ("Knee-fever", "new", "lip fever", "New", "newer")]
    task = make_task(mentions, DICTIONARY, get_protocol("refined"), seen=SEEN)
    assert task.queries == ["new", "newer"] and task.report["left_out"] == 3


def test_what_can_not_be_measured_is_refused():
    with pytest.raises(ValueError, match="mentions seen before"):
        make_task([Mention("x", ["D1"])], DICTIONARY, PUBLISHED)
    with pytest.raises(ValueError, match="nothing to measure"):
        make_task(SEEN, DICTIONARY, get_protocol("refined"), seen=SEEN)
    with pytest.raises(ValueError, match="nothing to measure"):
        make_task(SEEN, [], get_protocol("strict"))
    with pytest.raises(ValueError, match="loose.*refined"):
        get_protocol("loose")


def test_folds_stay_with_their_mentions():
    mentions = [Mention("lip fever", ["D1"]), Mention("knee|lip fever", ["D2", "D1"], fold=1)]
    task = make_task(mentions, DICTIONARY, PROTOCOLS["processed"])
    assert task.queries == ["lip fever", "knee", "lip fever"]
    assert task.folds == [0, 1, 1] and task.mention_of == [0, 1, 1] and task.report["composites"] == 1


def test_spelling_is_corrected_but_beside_the_sign_between_parts():
    mentions = [Mention("pineal and retinal tumours", ["D1", "D2"]), Mention("tumours-like", ["D1"])]
    task = make_task(mentions, DICTIONARY, PROTOCOLS["published"], seen=SEEN, spelling={"tumours": "tumors"})
    # As in BioSyn's file of NCBI disease (9400934).
    assert task.queries == ["pineal tumours", "retinal tumors", "tumours like"]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("Pain NOS (finding)", "pain"),
        ("pain (nos)", "pain"),
        ("pain,NOS", "pain,nos"),
        ("Alpha-1 (a) chain (b)", "alpha 1 chain"),
        ("((a)b)  c", "b) c"),
        ("(disorder)", ""),
        ("Nos nodes", "nodes"),
    ],
)
def test_names_are_written_as_coder_does(name, expected):
    assert make_plain(name) == as_released(name) == expected


def as_released(name):
    """Write a name as the released code does, word for word (pretrain/load_umls.py)."""
    text = re.sub("\\(.*?\\)", "", (" " + name + " ").lower().replace(" NOS ", " ").replace(" nos ", " "))
    return " ".join(word for word in text.replace("-", " ").split() if word)


@given(st.text("()-aNOSnos ", max_size=12))
def test_any_name_is_written_as_coder_does(name):
    assert make_plain(name) == as_released(name)


def test_the_protocol_of_coder_changes_names_alone():
    names = [("C1", "Pain NOS"), ("C1", "pain"), ("C2", "Pain-(finding)"), ("C3", "(x)")]
    task = make_task([Mention("Pain-NOS (x)", ["C1"])], names, PROTOCOLS["coder"])
    assert list(zip(task.ids, task.names, strict=True)) == [("C1", "pain"), ("C2", "pain")]
    assert task.queries == ["Pain-NOS (x)"] and task.report["empty_names"] == 1
