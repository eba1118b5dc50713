"""The table of candidates, the merging of forms, and candidates as plain data."""

from dataclasses import replace

import numpy as np
import pytest
from found_rows import list_hits
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.candidates import Candidates, merge_forms

IDS = "ABCDEF"


def table(*mentions):
    """Make a table of (forms, then for each form a list of (letter, score)); the row of a name is that of its form."""
    rows = [
        (mention, IDS.index(id_), form, score)
        for mention, (_, *by_form) in enumerate(mentions)
        for form, found in enumerate(by_form)
        for id_, score in found
    ]
    mention, concept, form, score = np.array(rows).reshape(-1, 4).T
    mention, concept, form = (column.astype(np.int64) for column in (mention, concept, form))
    return replace(Candidates.of_rows([forms for forms, *_ in mentions], mention, concept, form, score), form=form)


def merge(long, short, k=5, forms=("long form", "same words long")):
    """Merge the candidates of two forms, and list letters and scores."""
    found = table((forms, long, short))
    (rows,) = list_hits(merge_forms(found, found.concept).cut(k))
    return [(IDS[row.concept], row.score) for row in rows]


def ids(pairs):
    return "".join(id_ for id_, _ in pairs)


def test_merging_prefers_the_first_form_where_scores_are_equal():
    found = table((("long", "short long"), [("A", 1.0)], [("A", 1.0)]))
    assert merge_forms(found, found.concept).form.tolist() == [0]
    assert ids(merge([("B", 0.9999999)], [("A", 1.0)])) == "BA"


def test_a_short_form_alone_stays_behind_what_the_document_says():
    forms, long = ("myotonic dystrophy", "DM"), [("A", 0.7), ("B", 0.5)]
    short = [("C", 1.0), ("D", 0.9), ("B", 0.85)]
    merged = merge(long, short, forms=forms)
    assert ids(merged) == "ACDB"
    assert [score for _, score in merged] == pytest.approx([0.7, 0.699, 0.599, 0.549])
    # Scores that are lower anyway stay, and without the other form there is nothing to stay behind.
    assert merge(long, [("C", 0.6)], forms=forms)[1] == ("C", 0.6)
    assert merge([], short, forms=forms) == short and merge(long, [], forms=forms) == long


def test_a_mention_with_other_words_than_the_short_form_may_win():
    forms = "diminished galactosylceramidase activity", "diminished GALC activity"
    assert ids(merge([("A", 0.76)], [("B", 1.0)], forms=forms)) == "BA"


candidate_lists = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from([-0.5, 0.0, 0.3, 0.30000001, 0.9, 1.0])),
    unique_by=lambda pair: pair[0],
    max_size=6,
).map(lambda pairs: sorted(pairs, key=lambda pair: -pair[1]))


@given(candidate_lists, candidate_lists, st.integers(1, 7))
def test_merging_gives_the_best_score_of_the_best_concepts_and_cuts_not_between_equal_scores(first, second, k):
    merged = [(id_, round(score, 6)) for id_, score in merge(first, second, k)]
    best: dict[str, float] = {}
    for id_, score in (*first, *second):
        best[id_] = max(best.get(id_, -1.0), round(score, 6))
    scores = sorted(best.values(), reverse=True)
    assert [score for _, score in merged] == [score for score in scores if score >= scores[:k][-1]]
    assert dict(merged).items() <= best.items() and len(dict(merged)) == len(merged)


@given(st.lists(st.tuples(candidate_lists, candidate_lists), max_size=5), st.integers(1, 4), st.randoms())
def test_mentions_of_a_batch_do_not_depend_on_one_another(lists, k, rng):
    forms = ("long form", "SF")
    found = table(*((forms, *of_mention) for of_mention in lists))
    numbers = [rng.randrange(len(lists)) for _ in range(7)] if lists else []
    merged = merge_forms(found, found.concept).cut(k).take_mentions(np.array(numbers, dtype=np.int64))
    alone = [merge(*lists[number], k, forms) for number in numbers]
    assert [[(IDS[row.concept], row.score) for row in rows] for rows in list_hits(merged)] == alone
    assert list_hits(Candidates.join([merged, merged])) == 2 * list_hits(merged)
    reranked = merged.take(np.lexsort((merged.score, merged.mention)))
    assert [sorted(rows) for rows in list_hits(reranked)] == [sorted(rows) for rows in list_hits(merged)]
