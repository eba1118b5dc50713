"""Concepts found against a comparison of the mention with every name of every concept."""

import copy
import random

import numpy as np
import pytest
from conftest import load_encoder
from found_rows import ExactEncoder, list_hits
from injection import check_damage

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import list_files
from spacy_sapbert.index import Index, ScannIndex
from spacy_sapbert.lexicon.initialisms import own_case_forms
from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.lexicon.names import Lexicon
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import TerminologyBuilder

WORDS = ["heart", "cold", "acute", "attack", "skin", "type", "one", "two", "pain", "a", "b"]
SOURCES = ["A", "B", "A|B", "B", "B|C"]
KINDS = ["EXACT", "RELATED", "", "NARROW abbreviation"]


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    return load_encoder(encoder_folder)


class BagEncoder(ExactEncoder):
    """Gives names with the same tokens in any order one vector."""

    def encode_tokens(self, tokens, *, batch_size=256):
        return super().encode_tokens([sorted(ids) for ids in tokens])


def make_terminology(names, definitions=()):
    """Build a terminology from (concept, name, preferred), and (concept, definition)."""
    builder = TerminologyBuilder()
    for i, (concept, name, preferred) in enumerate(names):
        source, kind = SOURCES[i % len(SOURCES)], KINDS[i % len(KINDS)]
        builder.add_name(concept, name, preferred=preferred, source=source, term_type=kind)
    for concept, definition in definitions:
        builder.add_concept(concept, definition=definition)
    return builder.build()


def random_terminology(rng, concepts=40, names=160):
    """Few words and many names: homonyms, case variants and names that differ in blanks only abound."""
    rows = []
    for i in range(names):
        name = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 4)))
        name = rng.choice([str.lower, str.upper, str.title, lambda text: text.replace(" ", "  ")])(name)
        concept = i if i < concepts else min(rng.randrange(concepts), rng.randrange(concepts))
        rows.append((f"C{concept:03d}", name, rng.random() < 0.3))
    definitions = [(f"C{concept:03d}", rng.choice(["", "Something."])) for concept in range(concepts)]
    return make_terminology(rows, definitions)


# The vectors of strings that were encoded for the comparison.
VECTORS = {}


def embed(encoder, strings):
    keys = [(type(encoder), string) for string in strings]
    missing = [key for key in dict.fromkeys(keys) if key not in VECTORS]
    VECTORS.update(zip(missing, encoder.encode([string for _, string in missing]) if missing else (), strict=True))
    return np.array([VECTORS[key] for key in keys])


def naive_search(terminology, encoder, text, k, reported, allowed=None, sources=()):
    """Compare with all names, or with those in the mask `allowed`. Earlier `sources` come first.

    Give (score, rank, concept, rows of the names that may be reported), best first. Of several, the one that has been
    `reported` for the concept decides about ties.
    """
    strings = terminology.names["name"].to_list()
    preferred = terminology.names["preferred"].to_list()
    owners = terminology.names["concept"].to_list()
    # The encoder is uncased and ignores blanks; written alike, strings have one vector in this reference.
    plain = [" ".join(string.lower().split()) for string in strings]
    distinct = sorted(set(plain))
    cosines = dict(zip(distinct, (embed(encoder, distinct) @ embed(encoder, [text])[0]).tolist(), strict=True))
    best = {}
    for row, owner in enumerate(owners):
        if allowed is not None and not allowed[row]:
            continue
        best[owner] = max(best.get(owner, -np.inf), cosines[plain[row]])
    ranked = []
    for owner, score in best.items():
        rows = [row for row in range(len(strings)) if owners[row] == owner and cosines[plain[row]] > score - 1e-6]
        rows = [row for row in rows if allowed is None or allowed[row]]
        ranks = {row: (strings[row] != text, not preferred[row]) for row in rows}
        top = min(ranks.values())
        ranked.append((score, top, owner, [row for row in rows if ranks[row] == top]))
    ranked.sort(key=lambda item: -item[0])
    groups = []
    for item in ranked:
        if groups and groups[-1][-1][0] - item[0] < 1e-6:
            groups[-1].append(item)
        else:
            if sum(map(len, groups)) >= k:
                break
            groups.append([item])

    def place(item):
        _, (_, is_synonym), owner, rows = item
        row = dict(zip(terminology.names.columns, terminology.names.row(reported.get(owner, rows[0])), strict=True))
        given = terminology.concept(owner)
        name, lowered = row["name"], row["name"].lower()
        is_other_case = lowered == text.lower() and not own_case_forms(name) & own_case_forms(text)
        is_lesser = is_synonym and row["term_type"].startswith(("RELATED", "NARROW"))
        source = min([place for place, one in enumerate(sources) if one in row["source"].split("|")], default=9)
        keys = lowered != text.lower(), lowered != given.canonical_name.lower(), is_other_case, is_synonym, is_lesser
        return *keys, source, name != text, not given.definition, -len(given.names), owner

    return [item for group in groups for item in sorted(group, key=place)]


def search(retriever, *arguments):
    return list_hits(retriever.search(*arguments))


def assert_equals_naive(retriever, encoder, texts, k, concept_filter=None):
    found = search(retriever, texts, encoder.encode(texts), k, concept_filter)
    allowed = None if concept_filter is None else retriever.allow(concept_filter).names
    assert len(found) == len(texts)
    for text, hits in zip(texts, found, strict=True):
        sources = () if concept_filter is None else concept_filter.source_order
        reported = {hit.concept: hit.name for hit in hits}
        expected = naive_search(retriever.terminology, encoder, text, k, reported, allowed, sources)
        assert [hit.concept for hit in hits] == [owner for _, _, owner, _ in expected], text
        np.testing.assert_allclose([hit.score for hit in hits], [item[0] for item in expected], atol=1e-5)
        for hit, (_, _, _, rows) in zip(hits, expected, strict=True):
            assert hit.name in rows


@pytest.mark.parametrize("kind", [EncoderShim, BagEncoder])
@pytest.mark.parametrize("seed, chunk, batch_size", [(0, 7, 3), (1, 10**6, 256)])
def test_search_equals_comparing_with_every_name(encoder_folder, monkeypatch, kind, seed, chunk, batch_size):
    encoder = kind({}, "fp32")
    encoder.load(encoder_folder)
    monkeypatch.setattr("spacy_sapbert.retrieval.encoding.CHUNK", chunk)
    rng = random.Random(seed)
    terminology = random_terminology(rng)
    retriever = Retriever.build(terminology, encoder, Index(), batch_size=batch_size)
    assert len(retriever.index) < terminology.n_names  # equal tokens share a row
    strings = terminology.names["name"].to_list()
    texts = rng.sample(strings, 12) + [" ".join(rng.sample(WORDS, 2)) for _ in range(8)] + ["zzz", ""]
    for k in (1, 5, 39, 40, 60):
        assert_equals_naive(retriever, encoder, texts, k)


# The ways of searching with a filter, which are chosen by size.
STRATEGIES = {
    "exact at once": {"retrieval.filters.FREE_ROWS": 10**6},
    "fetching first": {"retrieval.filters.FREE_ROWS": -(10**6), "retrieval.filters.MOST_FETCHED": 100},
    "fetching only": {"retrieval.filters.FREE_ROWS": -(10**6), "retrieval.filters.MOST_FETCHED": 10**6},
    "subset gathered at each search": {
        **{"retrieval.filters.FREE_ROWS": 10**6, "index.base.COPIED_BYTES": 0, "index.base.ROW_BLOCK": 7}
    },
}


@pytest.fixture(params=STRATEGIES)
def strategy(request, monkeypatch):
    for name, value in STRATEGIES[request.param].items():
        monkeypatch.setattr(f"spacy_sapbert.{name}", value)


@pytest.mark.parametrize(
    "fields",
    [
        {"sources": ["C"]},
        {"sources": ["C", "B", "A"]},
        {"ids": [f"C{i:03d}" for i in range(0, 40, 4)], "sources": ["B"]},
        {"ids": ["C003"], "languages": ["ENG"]},
    ],
    ids=str,
)
def test_search_with_a_filter_equals_comparing_with_every_allowed_name(encoder, built, strategy, fields):
    rng = random.Random(0)
    # A copy, which has no filter applied yet.
    retriever = copy.deepcopy(built)
    strings = retriever.terminology.names["name"].to_list()
    texts = rng.sample(strings, 8) + [" ".join(rng.sample(WORDS, 2)) for _ in range(4)] + ["zzz", ""]
    for k in (1, 5, 60):
        assert_equals_naive(retriever, encoder, texts, k, ConceptFilter(**fields))


def test_k_concepts_survive_a_filter_however_far_they_are(encoder, strategy):
    near = [("C0", f"heart attack {a}{b}", False) for a in "abcdefghij" for b in "abcdefghij"]
    far = [(f"D{i}", f"skin {word}", False) for i, word in enumerate(WORDS)]
    retriever = Retriever.build(make_terminology([*near, *far]), encoder, Index())
    allowed = ConceptFilter(ids=[f"D{i}" for i in range(7)])
    for k in (1, 6, 7, 50):
        (hits,) = search(retriever, ["heart attack bb"], encoder.encode(["heart attack bb"]), k, allowed)
        assert len(hits) == min(k, 7)
    assert_equals_naive(retriever, encoder, ["heart attack bb", "skin one"], 3, allowed)


def test_filters_that_allow_nothing_or_everything(encoder, built, monkeypatch):
    vectors = encoder.encode(WORDS)
    for fields in ({"sources": []}, {"ids": ["C000"], "sources": []}):
        assert search(built, WORDS, vectors, 3, ConceptFilter(**fields)) == [[]] * len(WORDS)
    assert search(built, WORDS, vectors, 4, ConceptFilter()) == search(built, WORDS, vectors, 4)
    for allowed in (None, ConceptFilter(sources=["A"])):
        assert search(built, [], vectors[:0], 3, allowed) == []
    # A filter is applied once.
    expected = search(built, WORDS, vectors, 3, ConceptFilter(sources=["A", "C"]))
    monkeypatch.setattr("spacy_sapbert.retrieval.filters.FilterTable.apply", None)
    assert search(built, WORDS, vectors, 3, ConceptFilter(sources=("A", "C"))) == expected
    with pytest.raises(ValueError, match="are not finite"):
        search(built, ["x"], np.full((1, 32), np.nan, dtype=np.float32), 3, ConceptFilter(sources=["A", "C"]))


def test_an_approximate_index_with_a_filter_gives_what_exact_search_gives(monkeypatch):
    pytest.importorskip("scann")
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [(f"C{i // 3:04d}", f"name {i}", False) for i in range(3000)]
    monkeypatch.setattr("spacy_sapbert.index.approximate.EXACT_BELOW", 0)
    monkeypatch.setattr("spacy_sapbert.retrieval.filters.FREE_ROWS", 0)
    monkeypatch.setattr("spacy_sapbert.retrieval.filters.ROWS_PER_FETCHED", 5)
    retrievers, made = [], make_terminology(names)
    rows = np.arange(3001), np.arange(3000), np.zeros((3000, 2))
    for index in (Index(), ScannIndex(recall_target=0.95)):
        index.build(vectors)
        retrievers.append(Retriever(made, index, *rows, Lexicon.build(made, ENGLISH)))
    # The half that is farthest from the queries, where the index has to look in other leaves than it would.
    queries = vectors[np.argsort(vectors[:, 0])[:100]]
    far = {f"C{row // 3:04d}" for row in np.argsort(-vectors[:, 0])[:1000]}
    for allowed in (ConceptFilter(ids=far), ConceptFilter(sources=["A"])):
        exact, approximate = (search(retriever, [""] * 100, queries, 5, allowed) for retriever in retrievers)
        found = [a[0].score > e[0].score - 1e-5 for a, e in zip(approximate, exact, strict=True)]
        assert sum(found) >= 95 and all(len(hits) == 5 for hits in approximate)
        assert {hit.name for hits in approximate for hit in hits} <= set(
            np.flatnonzero(retrievers[0].allow(allowed).names)
        )


def test_many_synonyms_do_not_crowd_out_other_concepts_and_cost_only_their_mentions_a_second_search(encoder):
    letters = "abcdefghijklmnopqrst"
    variants = [("C0", f"heart attack {a}{b}", False) for a in letters for b in letters]
    terminology = make_terminology([*variants, *((f"C{i}", f"skin {w}", False) for i, w in enumerate(WORDS, 1))])
    retriever = Retriever.build(terminology, encoder, Index())
    assert len(retriever.index) == 411
    asked = []
    searched = retriever.index.search
    retriever.index.search = lambda queries, k: asked.append((len(queries), k)) or searched(queries, k)
    assert_equals_naive(retriever, encoder, ["heart attack bb", "skin one"], 2)
    assert asked[0] == (2, 28) and asked[1:] and all(n == 1 for n, _ in asked[1:])


def test_names_in_an_unknown_script_are_counted_and_near_to_nothing(encoder):
    names = [("C1", "感冒", False), ("C2", "心筋梗塞", False)]
    terminology = make_terminology([*names, ("C1", "cold", False)])
    with pytest.warns(UserWarning, match="2 of 3 names have no vector"):
        retriever = Retriever.build(terminology, encoder, Index())
    assert len(retriever.index) == 1
    (hits,) = search(retriever, ["感冒"], encoder.encode(["感冒"]), 5)
    assert [terminology.names["name"][hit.name] for hit in hits] == ["cold"]
    with pytest.warns(UserWarning, match="2 of 2 names have no vector"):
        retriever = Retriever.build(make_terminology(names), encoder, Index())
    assert len(retriever.index) == 0 and search(retriever, ["cold"], encoder.encode(["cold"]), 5) == [[]]


@pytest.fixture(scope="module")
def built(encoder):
    return Retriever.build(random_terminology(random.Random(1)), encoder, Index())


def test_a_terminology_or_an_index_of_another_retriever_is_refused(built, terminology, encoder, tmp_path):
    built.to_disk(tmp_path / "a")
    with pytest.raises(OSError, match=r"The index in.*saved with the terminology"):
        Retriever.from_disk(tmp_path / "a", terminology)
    other = Retriever.build(terminology, encoder, ScannIndex())
    other.to_disk(tmp_path / "b")
    assert type(Retriever.from_disk(tmp_path / "b", terminology).index) is ScannIndex
    twin = Index()
    twin.build(built.index.vectors, fingerprint="another encoder")
    for index in (other.index, twin):
        index.to_disk(tmp_path / "a" / "index")
        with pytest.raises(OSError, match=r"The index in.*saved with this pipeline"):
            Retriever.from_disk(tmp_path / "a", built.terminology)


def test_damage_in_any_file_is_noticed(built, tmp_path):
    built.to_disk(tmp_path / "a")
    assert {"retriever.json", "offsets.npy", "name_rows.npy", "index/index.json"} < set(list_files(tmp_path / "a"))
    check_damage(tmp_path / "a", lambda folder: Retriever.from_disk(folder, built.terminology))


def test_a_name_that_the_mention_is_derived_from_comes_first(encoder):
    names = [("C1", "Drowsiness", True), ("C2", "drowsy driving", True), ("C3", "somnolence", True)]
    names += [("C4", "Anaemia", True), ("C5", "anaemia", True), ("C6", "icteric", True), ("C7", "jaundice", True)]
    retriever = Retriever.build(make_terminology(names), encoder, Index())
    texts = ["drowsy", "anemic", "icteric", "driving"]
    found = retriever.find(texts, embed(encoder, texts), 7)
    ids = [retriever.get_id(concept) for concept in found.concept.tolist()]
    best = [[*zip(ids[rows], found.score[rows].round(6).tolist(), strict=True)][:2] for rows in found.slices]
    assert best[0][0] == ("C1", 0.99) and sorted(best[1]) == [("C4", 0.99), ("C5", 0.99)]
    assert best[2][0] == ("C6", 1.0) and best[3][0][1] < 0.99
    found = retriever.find_named(["drowsy", "anemic"], ConceptFilter(ids=("C2", "C5")))
    assert [retriever.get_id(concept) for concept in found.concept.tolist()] == ["C5"]
