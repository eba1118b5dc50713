"""Strings compared all at once, against plain sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.reranker.network import compute_columns
from spacy_sapbert.reranker.strings import COMPARISONS, Comparison, Strings, compare_trigrams

TEXTS = st.lists(st.text(alphabet="ab αIV2 -'s", max_size=12), min_size=1, max_size=6)


def list_trigrams(text):
    padded = f" {text.lower()} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def compare_plainly(mention, name):
    first, second = list_words(mention), list_words(name)
    extra, missing = set(second) - set(first), set(first) - set(second)
    numbers = [{word for word in words if len(word) == 1 or word.isdigit()} for words in (first, second)]
    trigrams = list_trigrams(mention), list_trigrams(name)
    either = trigrams[0] | trigrams[1]
    return [
        len(trigrams[0] & trigrams[1]) / len(either) if either else 0,
        first == second,
        set(first) == set(second),
        len(extra),
        len(missing),
        sum(map(len, extra)),
        sum(map(len, missing)),
        len(numbers[0] ^ numbers[1]),
        first[:1] == second[:1],
        first[-1:] == second[-1:],
    ]


@given(TEXTS, TEXTS)
def test_all_pairs_are_compared_as_with_plain_sets(mentions, names):
    pairs = [(mention, name) for mention in mentions for name in names]
    strings = Strings([*mentions, *names])
    first = np.repeat(np.arange(len(mentions)), len(names))
    second = np.tile(np.arange(len(names)), len(mentions)) + len(mentions)
    columns = compute_columns(COMPARISONS, Comparison(strings, first, second))
    expected = [compare_plainly(mention, name) for mention, name in pairs]
    np.testing.assert_allclose(np.stack(columns, axis=1).astype(float), expected, atol=1e-12)
    spelt = compare_trigrams(*(list(texts) for texts in zip(*pairs, strict=True)))
    np.testing.assert_allclose(spelt, [row[0] for row in expected], atol=1e-12)
    lengths = [len(" ".join(list_words(text))) for text in (*mentions, *names)]
    assert strings.length.tolist() == lengths
