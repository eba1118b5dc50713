"""The look-up of bags: what it finds, beside a naive loop; word classes, coordination and what stops a name."""

import itertools
from collections import Counter

import numpy as np
import pytest
from case_tables import cases
from hypothesis import example, given
from hypothesis import strategies as st
from spacy.strings import hash_string

from spacy_sapbert.columns import TextColumn
from spacy_sapbert.lexicon.bags import MOST_AROUND, MOST_IDLE, BagTable, make_key_filter
from spacy_sapbert.lexicon.bridge import _get_classes
from spacy_sapbert.lexicon.classes import MOST_ALTERNATIVES, count_pairs, join_classes
from spacy_sapbert.lexicon.derived import read_list
from spacy_sapbert.lexicon.scan import scan
from spacy_sapbert.text import normal_words

WORDS = "renal failure acute tumours of the hand".split()
PHRASES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def read_words(text):
    return tuple(scan(text).read_content().hashes.tolist())


def make_table(names, pairs=()):
    """Make the table of names, each of a concept of its own, or of concepts with several names."""
    listed = [[entry] if isinstance(entry, str) else entry for entry in names]
    concept = np.repeat(np.arange(len(listed)), [*map(len, listed)])
    return BagTable.build(TextColumn.make([name for entry in listed for name in entry]), concept, pairs)


def find(table, text):
    """Find bags: the texts from the first word to the last, sorted."""
    reading = table.read(text)
    start, end, then, until, *_ = table.find(reading, make_key_filter(table.keys))
    stop = np.where(until > then, until, end)
    return sorted(
        text[reading.starts[i] : reading.ends[j - 1]] for i, j in {*zip(start.tolist(), stop.tolist(), strict=True)}
    )


@given(st.lists(PHRASES, min_size=1, max_size=8), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_windows_with_the_words_of_a_name_are_found_and_nothing_else(names, text):
    def read_bag(phrase):
        return frozenset(Counter(w for w in normal_words(phrase) if w not in ("of", "the")).items())

    words = [word for word in text.split() if word not in ("of", "the")]
    bags = {read_bag(name) for name in names} - {frozenset()}
    windows = [words[i:j] for i in range(len(words)) for j in range(i + 1, len(words) + 1)]
    expected = [window for window in windows if read_bag(" ".join(window)) in bags]
    found = find(make_table(names), text)
    assert Counter(map(read_bag, found)) == Counter(read_bag(" ".join(window)) for window in expected)


@given(
    st.lists(PHRASES, min_size=1, max_size=8),
    st.lists(st.sampled_from([*WORDS, "is", "his", "left", "not"]), max_size=14).map(" ".join),
)
@example(["renal renal renal"], "renal is renal his left renal")
def test_words_that_names_lack_may_stand_inside_a_mention(names, text):
    def is_idle(word):
        return word in ("is", "his", "left")

    table, words = make_table(names), [word for word in text.split() if word not in ("of", "the")]
    bags = {tuple(sorted(scan(name).read_content().hashes.tolist())) for name in names} - {()}
    expected = set()
    for start in range(len(words)):
        for end in range(start + 2, len(words) + 1):
            window = words[start:end]
            kept = [word for word in window if not is_idle(word)]
            if is_idle(window[0]) or is_idle(window[-1]) or not 0 < len(window) - len(kept) <= MOST_IDLE:
                continue
            if len(kept) <= MOST_AROUND and tuple(sorted(scan(" ".join(kept)).read_content().hashes.tolist())) in bags:
                expected.add((start, end))
    found = table.find(table.read(text), make_key_filter(table.keys))
    starts, ends = found.start[found.has_gap].tolist(), found.until[found.has_gap].tolist()
    assert sorted(zip(starts, ends, strict=True)) == sorted(expected)


@given(st.text(max_size=80))
def test_every_word_is_where_its_offsets_say(text):
    reading = scan(text).read_content()
    places = sorted({*zip(reading.starts.tolist(), reading.ends.tolist(), strict=True)})
    assert places == [*dict.fromkeys(zip(reading.starts.tolist(), reading.ends.tolist(), strict=True))]
    for (_, before), (start, end) in zip([(0, 0), *places], places, strict=False):
        assert before <= start < end <= len(text)
    assert all((np.diff(column) >= 0).all() for column in reading[5:])


def escape(character, way):
    names = {" ": "nbsp", "\u00e9": "eacute", "'": "rsquo", "\u2013": "ndash", ",": "comma"}
    ways = "{c}", "&#{n};", "&#x{n:X};", "&{name};"
    return ways[way].format(c=character, n=ord(character), name=names.get(character, f"#{ord(character)}"))


@given(st.lists(st.tuples(st.sampled_from("naive caf\u00e9 crohn's hand a of x-ray guillain\u2013barr\u00e9".split()),
    st.sampled_from([" ", ", ", " (", " and "]))), st.lists(st.integers(0, 3), min_size=1, max_size=90))  # fmt: skip
def test_accents_and_entities_move_nothing(words, ways):
    plain = "".join(word + gap for word, gap in words)
    # The "s" of a possessive stays.
    ways = [0 if before == "'" else way for before, way in zip(f" {plain}", itertools.cycle(ways), strict=False)]
    escaped = [escape(character, way) for character, way in zip(plain, ways, strict=False)]
    offsets = np.cumsum([0, *map(len, escaped)])
    expected, found = scan(plain).read_content(), scan("".join(escaped)).read_content()
    for name, column in zip(expected._fields, expected, strict=True):
        is_place = name in ("starts", "ends")
        assert getattr(found, name).tolist() == (offsets[column] if is_place else column).tolist(), name
    bare = scan(plain.replace("\u00e9", "e")).read_content()
    assert all((one == other).all() for one, other in zip(bare, expected, strict=True))


@cases("bags")
def test_what_stands_between_words_and_what_joins_them(names, text, expected):
    assert find(make_table(names), text) == expected


def test_words_that_concepts_use_for_one_another_are_one_class():
    concepts = [[f"{organ} loss", f"{organ} impairment"] for organ in ("hearing", "vision", "memory")]
    table = make_table(
        [*concepts, "smell loss", ["renal cyst", "renals cysts"], ["cardiac arrest", "cardiacal arrest"]]
    )
    assert find(table, "impairment of smell, smells loss") == ["impairment of smell", "smells loss"]
    # Where they tell concepts apart, they are none, even if they are given.
    concepts += [[f"{name} loss"] for name in ("a b", "c d", "e f", "g h")] + [
        [f"{name} impairment"] for name in ("a b", "c d", "e f", "g h")
    ]
    assert find(make_table([*concepts, "smell loss"], [("loss", "impairment")]), "impairment of smell") == []
    assert find(make_table(["kidney stone"], [("kidney", "renal")]), "renal stones") == ["renal stones"]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.integers(0, 3)), min_size=1, max_size=20)
)
def test_pairs_are_counted_as_a_loop_counts_them(names):
    names = [(sorted(map(ord, words)), concept) for *words, concept in names]
    hashes = np.array([word for words, _ in names for word in words], dtype=np.uint64)
    concept = np.array([concept for _, concept in names])
    contexts = {}
    for words, of_concept in names:
        for place in (0, 1):
            contexts.setdefault(words[1 - place], {}).setdefault(words[place], set()).add(of_concept)
    expected = {}
    for at in contexts.values():
        for a in at:
            for b in at:
                if a < b:
                    same, both = expected.get((a, b), (0, 0))
                    expected[a, b] = same + bool(at[a] & at[b]), both + 1
    counted = count_pairs(hashes, np.repeat(np.arange(len(names)), 2), concept)
    assert counted == {pair: counts for pair, counts in expected.items() if counts[0]}
    assert MOST_ALTERNATIVES > 4


def test_all_words_of_a_class_are_pairs():
    classes = join_classes({(1, 2): 9, (2, 3): 5, (3, 4): 4, (1, 3): 1})
    assert classes[1] == classes[2] == classes[3] and 4 not in classes
    assert join_classes({(1, 2): 2, (2, 3): 1}) == {1: 1, 2: 1}


def test_every_two_words_of_a_shipped_class_are_a_pair():
    pairs = (sorted(map(hash_string, pair)) for pair in read_list("word_pairs"))
    classes = join_classes({(first, second): 1 for first, second in pairs})
    words, class_of = _get_classes()
    assert dict(zip(words.tolist(), class_of.tolist(), strict=True)) == classes


def test_shipped_pairs_are_given_once_and_shipped_synonyms_are_several_names():
    pairs, groups = read_list("word_pairs"), read_list("synonyms")
    assert len({*map(tuple, pairs)}) == len(pairs) > 3000 and all(first < second for first, second in pairs)
    assert len(groups) > 1000 and all(len({*map(normal_words, names)}) == len(names) > 1 for names in groups)


def test_what_is_derived_stands_for_the_first_name_there_is_unless_it_is_a_name():
    derived = [
        ["fever", "febrile", "feverish"],
        ["pyrexia", "febrile", "pyrexial"],
        ["dyspnea", "short of breath"],
        ["obesity", "obese"],
        ["jaundice", "icteric", "jaundiced"],
        ["scurvy", "scorbutic"],
    ]
    names = ["Pyrexia", "fever", "obesity", "obesity", "dyspnea", "jaundice", "icteric", "anemia", "fever"]
    concept = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8])
    table = BagTable.build(TextColumn.make(names), concept, [], derived=derived)
    others = {
        row: sorted(words for _, words, _, how in table.list_others([row]) if how == "derived")
        for row in range(len(names))
    }
    expected = [
        ["pyrexial", "pyrexic"],
        ["febrile", "feverish"],
        ["obese"],
        ["obese"],
        ["dyspneic", "short breath"],
        ["jaundiced"],
    ]
    expected += [[], ["anemic"], ["febrile", "feverish"]]
    # Several concepts may have the name.
    assert [*others.values()] == [sorted(read_words(w) for w in row) for row in expected]
    found = find(table, "jaundiced, short of breath, febrile, icteric, scorbutic, shorts")
    assert found == ["febrile", "icteric", "jaundiced", "short of breath"]


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), st.data())
def test_derived_words_are_those_that_a_loop_lists(names, data):
    entry = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=3)
    derived = data.draw(st.lists(entry, max_size=5))
    concept = np.arange(len(names))
    table = BagTable.build(TextColumn.make(names), concept, [], derived=derived)
    expected = {}
    for name, *words in derived:
        for word in words:
            if name in names and word not in names:
                expected.setdefault(word, name)
    of_rows = [(names[row], words) for row, words, *_ in table.list_others(concept.tolist())]
    assert {words: name for name, words in of_rows} == {read_words(word): name for word, name in expected.items()}


def test_other_words_for_a_whole_name_are_no_name_of_another_concept():
    synonyms = [["nephropathy", "kidney disease", "renal disease"], ["wasting", "tabes"], ["gout attack", "podagra"]]
    names = [["kidney disease", "renal disease"], "tabes", "wasting", "gout attack", "attack, gout"]
    table = BagTable.build(TextColumn.make([*names[0], *names[1:]]), np.array([0, 0, 1, 2, 3, 4]), [], synonyms)
    assert [*table.list_others([1, 0])] == [(0, read_words("nephropathy"), (0, 0), "classes")]
    # What two concepts are called, and what one is called that has another name of the list, stay as they are.
    assert len(table.other_rows) == 1 and find(table, "podagra, nephropathy, wasting") == ["nephropathy", "wasting"]


def test_a_table_of_no_names_or_long_ones_finds_nothing():
    assert find(make_table(["x " * 300]), "x " * 400) == []
    assert find(make_table([]), "renal failure") == [] and find(make_table(["renal failure"]), "") == []


@pytest.mark.parametrize("is_name, expected", [(True, []), (False, ["wheeze"])])
def test_an_ordinary_word_that_is_a_name_may_be_derived_from_one(is_name, expected):
    names, derived = TextColumn.make(["wheezing", "wheeze"]), [["wheezing", "wheeze"]]
    table = BagTable.build(names, np.array([0, 1]), [], derived=derived, is_name=np.array([True, is_name]))
    assert [of for _, of, *_ in table.list_others([0])] == [read_words(word) for word in expected]


def test_different_words_are_in_no_class():
    pairs = [("syndrome", "type"), ("syndrome", "sequence")]
    assert find(make_table(["noonan syndrome"], pairs), "noonan type; noonan sequence") == ["noonan sequence"]
    kinds = "b", "t", "mature", "atypical", "rare"
    for word, n_found in ("cell", 0), ("corpuscle", 1):
        names = [[f"{kind} lymphocyte", f"{kind} {word}"] for kind in kinds]
        assert len(find(make_table([*names, "low lymphocyte"]), f"low {word}")) == n_found


@cases("enzymes")
def test_an_enzyme_stands_for_its_activity_unless_it_is_a_name(name, others):
    table = make_table([name, "kinase"])
    assert [of for _, of, *_ in table.list_others([0])] == [read_words(words) for words in others]
