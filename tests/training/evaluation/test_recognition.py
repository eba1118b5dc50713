"""Recognition: what is found in raw texts, counted beside a naive loop; ids, branches and the matchers."""

import pytest
from gold_documents import annotate, by_name, write_documents, write_word_encoder
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import build
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import get_probability
from training.evaluation.documents import PipelineSystem, read_any_terminology
from training.evaluation.recognition import (
    THRESHOLDS,
    ConceptIds,
    PhraseMatcherSystem,
    RecognitionTask,
    list_errors,
    score,
    score_overlap,
)

TEXT = "Severe muscle pain and head cold in colds. The cold was mild."
# One mention has two ids, and either is right; one has a code of its concept, and one has none.
GOLD = [(0, 18, "D3"), (7, 18, "MESH:D9|D3"), (23, 32, "OLD:7"), (36, 41, "NIL")]
NAMES = {"D1": ["cold", "head cold"], "D2": ["cold", "low temperature", "Chill"], "D3": ["muscle pain"], "D4": ["mild"]}
PARENTS = {"D1": ["D0"], "D3": ["D0"], "D4": ["D9"]}


def build_terminology():
    facts = {concept: {"parents": parents} for concept, parents in PARENTS.items()}
    facts["D1"]["codes"] = ["OLD:7"]
    return build({"D0": ["disease"], "D9": ["severity"], **NAMES}, **facts)


@pytest.fixture
def folder(tmp_path):
    write_word_encoder(tmp_path / "encoder", "disease severity cold head muscle pain mild low temperature chill")
    build_terminology().to_disk(tmp_path / "names")
    write_documents(tmp_path / "toy.spacy", (TEXT, GOLD), ("Nothing", []))
    return tmp_path


def count_naively(golds, founds):
    """Count single mentions and single concepts, one after the other, as one would by hand."""
    counts = {"mention": [0, 0, 0], "document": [0, 0, 0]}
    for every, found in zip(golds, founds, strict=True):
        gold = {bounds: ids for bounds, ids in every.items() if ids}
        hit = set()
        for start, end, id_ in found:
            if (start, end) in gold and id_ in gold[start, end]:
                hit.add((start, end))
            else:
                counts["mention"][1] += 1
        counts["mention"][0] += len(hit)
        counts["mention"][2] += len(gold) - len(hit)
        ids = {id_ for _, _, id_ in found}
        single = {min(one) for one in gold.values() if len(one) == 1}
        composite = {one for one in gold.values() if len(one) > 1}
        met = {one for one in composite if one & ids}
        counts["document"][0] += len(ids & single) + len(met)
        counts["document"][1] += len(ids - single - {id_ for one in composite for id_ in one})
        counts["document"][2] += len(single - ids) + len(composite - met)
    figures = {}
    for level, (right, wrong, missed) in counts.items():
        p, r = (right / n if n else 0.0 for n in (right + wrong, right + missed))
        figures |= {f"{level}_p": p, f"{level}_r": r, f"{level}_f": 2 * p * r / (p + r) if p + r else 0.0}
    return figures


places, ids = st.tuples(st.integers(0, 3), st.integers(4, 6)), st.sampled_from("ABCD")
documents = st.tuples(
    st.dictionaries(places, st.frozensets(ids, max_size=2), max_size=5),
    st.sets(st.tuples(places, ids).map(lambda found: (*found[0], found[1])), max_size=6),
)


@given(st.lists(documents, max_size=4))
def test_figures_are_those_of_a_naive_loop(corpus):
    golds, founds = [gold for gold, _ in corpus], [found for _, found in corpus]
    assert by_name(score(golds, founds)) == pytest.approx(count_naively(golds, founds))


def touch(one, other):
    return bool({*range(*one[:2])} & {*range(*other[:2])})


@given(st.lists(st.tuples(st.text("abcA", min_size=6, max_size=6), documents), max_size=4))
def test_places_and_known_concepts_are_those_of_a_naive_loop(corpus):
    texts, golds, founds = [text for text, _ in corpus], [gold for _, (gold, _) in corpus], [f for _, (_, f) in corpus]
    # A and B have a name in common, and nobody knows D.
    names, groups = {"A": ["aab", "Abc"], "B": ["abc"], "C": ["c", "ca"]}, ["AB", "C", "D"]
    figures = {figure.metric: figure for figure in score_overlap(texts, golds, founds, ConceptIds([build(names)]))}
    spans = [{one[:2] for one in found} for found in founds]
    for key, ours, theirs in (("p", spans, golds), ("r", golds, spans)):
        pairs = [(one, other) for one, other in zip(ours, theirs, strict=True)]
        equal = sum(bounds in other for one, other in pairs for bounds in one)
        over = sum(any(touch(bounds, place) for place in other) for one, other in pairs for bounds in one)
        n = sum(map(len, ours))
        assert figures[f"span_{key}"][2:] == (equal / max(n, 1), n)
        assert figures[f"overlap_{key}"][2:] == (over / max(n, 1), n)
    lists = {key: [] for key in ("id_p", "id_r", "named_r", "other_r")}
    for text, (gold, found) in corpus:

        def is_right(one, bounds, wanted):
            return touch(bounds, one) and any(one[2] in group and {*group} & wanted for group in groups)

        for one in found:
            over = [wanted for bounds, wanted in gold.items() if touch(bounds, one)]
            known = {bounds: wanted for bounds, wanted in gold.items() if wanted & {*"ABC"}}
            if not over or any(wanted & {*"ABC"} for wanted in over):
                lists["id_p"].append(any(is_right(one, *entry) for entry in known.items()))
        for bounds, wanted in gold.items():
            if wanted & {*"ABC"}:
                written = text[bounds[0] : bounds[1]].lower()
                is_named = any(written == name.lower() for id_ in wanted & {*"ABC"} for name in names[id_])
                for key in ("id_r", "named_r" if is_named else "other_r"):
                    lists[key].append(any(is_right(one, bounds, wanted) for one in found))
    for key, right in lists.items():
        assert figures[key][2:] == (sum(right) / max(len(right), 1), len(right))
    assert ConceptIds([]).knows(["D"]) and not ConceptIds([]).is_right("A", ["B"])


def test_ids_stand_for_concepts_and_those_below_others_count():
    doc = annotate(TEXT, GOLD)
    every = ConceptIds([build_terminology()]).read_gold(doc)
    # An alternative id stands for its concept. Prefixes do not matter, and NIL has no concept.
    assert every == {(0, 18): {"D3"}, (7, 18): {"D9", "D3"}, (23, 32): {"D1"}, (36, 41): frozenset()}
    below = ConceptIds([build_terminology()], ["D9"])
    assert below.read_gold(doc) == {(7, 18): {"D9", "D3"}, (36, 41): frozenset()}
    doc.ents = [Span(doc, 12, 13, label="X", kb_id="D4"), Span(doc, 0, 1, label="X", kb_id="D3")]
    doc.spans["more"] = [Span(doc, 4, 6, label="X", kb_id="OLD:7"), Span(doc, 4, 5, label="X", kb_id="NIL")]
    assert {id_ for _, _, id_ in below.read_found(doc)} == {"D4"}
    assert ConceptIds([build_terminology()], ["D0"]).read_found(doc, "more") == {(23, 32, "D1")}
    # Equal ids of a concept in one, as a table gives them; and ids that nobody knows.
    joined = ConceptIds([build({"A|B": ["a"]})])
    assert joined.resolve(["B"]) == joined.resolve(["A|B"]) == {"A|B"} and joined.resolve(["C"]) == {"C"}
    with pytest.raises(ValueError, match="no terminology with parents"):
        ConceptIds([], ["D0"])
    assert ConceptIds([]).read_found(Doc(doc.vocab)) == set()


def test_the_phrase_matcher_takes_the_longest_name_and_the_concept_with_the_most(folder):
    nlp = PhraseMatcherSystem(terminology=str(folder / "names")).nlp
    found = [(ent.text, ent.kb_id_) for ent in nlp("A Head Cold is COLD, no chills")[:].ents]
    assert found == [("Head Cold", "D1"), ("COLD", "D2")]
    with pytest.raises(FileNotFoundError, match="needs a `terminology`"):
        PhraseMatcherSystem().load()


def test_terminologies_are_folders_ontologies_and_dictionaries(folder):
    (folder / "hp.obo").write_text(
        'ontology: hp\n\n[Term]\nid: HP:1\nname: deafness\nalt_id: HP:9\nsynonym: "hearing loss" RELATED []\n'
    )
    (folder / "names.tsv").write_text("D5|77\tgout\n")
    assert read_any_terminology(str(folder / "hp.obo"))["HP:1"].names == ("deafness", "hearing loss")
    assert read_any_terminology(str(folder / "names.tsv"))["D5"].codes == ("OTHER:77",)
    assert read_any_terminology(str(folder / "names")) == build_terminology()
    with pytest.raises(FileNotFoundError):
        read_any_terminology(str(folder / "gone"))


def load(folder, reranker=None, **matcher):
    given = {"terminology": str(folder / "names"), "encoder": str(folder / "encoder")}
    return PipelineSystem(**given, abbreviations="off", matcher=matcher, linker={"k": 3}, reranker=reranker)


def test_the_matcher_finds_mentions_in_texts_alone(folder):
    task = RecognitionTask("toy.recognition", folder / "toy.spacy")
    figures, details, _ = task.measure(load(folder, matches="longest"))
    # Found are muscle pain, head cold, colds, cold and mild; two concepts have "cold", and D2 has more names.
    expected = {"mention_p": 0.4, "mention_r": 2 / 3, "mention_f": 0.5}
    expected |= {"document_p": 0.6, "document_r": 1.0, "document_f": 0.75}
    # "colds" is a mention without a concept: its place is right.
    expected |= {"span_p": 0.6, "span_r": 0.75, "overlap_p": 0.6, "overlap_r": 1.0}
    expected |= {"id_p": 0.5, "id_r": 1.0, "named_r": 1.0, "other_r": 1.0}
    expected |= {"acc_at_1": 1.0, "acc_at_5": 1.0, "without_id": 0.0}
    assert by_name(figures) == pytest.approx(expected)
    assert {figure.n for figure in figures if figure.metric[:4] in ("ment", "docu", "id_r", "acc")} == {3}
    assert details["documents"] == 2 and details["words_per_second"] > 0 and details["first_seconds"] > 0
    rows = [(error["kind"], error["mention"], error["gold"], error["chosen"]) for error in details["errors"]]
    assert rows == [
        ("other bounds", "Severe muscle pain", "D3", ""),
        ("unknown concept", "colds", "", "D2"),
        ("false positive", "cold", "", "D2"),
        ("false positive", "mild", "", "D4"),
    ]
    assert details["errors"][0]["context"].startswith("[[Severe muscle pain]] and head cold")
    assert details["errors"][0]["gold_name"] == "muscle pain"
    # All names, in a group of spans that the linker reads as well.
    system = load(folder, matches="all", spans_key="found")
    more = by_name(task.measure(system).figures)
    assert more["mention_p"] < 0.4 and more["mention_r"] == pytest.approx(2 / 3)
    assert system.identity["matcher"] == {"matches": "all", "spans_key": "found"}
    other = {(23, 32, "D2")}
    known = ConceptIds(system.terminologies)
    (error,) = list_errors(annotate(TEXT, []), {(23, 32): frozenset({"D3"})}, other, known, system)
    assert (error["kind"], error["gold"], error["chosen_name"]) == ("wrong concept", "D3", "cold")
    gold = {(28, 32): frozenset({"D1"}), (23, 27): frozenset()}
    errors = list_errors(annotate(TEXT, []), gold, other, known, system)
    found = [(error["kind"], error["mention"], error["gold"], error["chosen"]) for error in errors]
    assert found == [("other bounds", "head cold", "D1", "D2"), ("other bounds", "cold", "D1", "")]
    (error,) = list_errors(annotate(TEXT, []), {(23, 32): frozenset({"D3"})}, set(), known, system)
    assert (error["kind"], error["mention"]) == ("false negative", "head cold")


def test_probabilities_of_links_are_judged(folder):
    task, system = RecognitionTask("toy.recognition", folder / "toy.spacy"), load(folder, reranker={})
    figures, details, _ = task.measure(system)
    gold, judged = ConceptIds(system.terminologies).read_gold(annotate(TEXT, GOLD)), []
    for ent in system.nlp(TEXT).ents:
        over = [ids for bounds, ids in gold.items() if touch(bounds, (ent.start_char, ent.end_char))]
        if ent.kb_id_ and (not over or any(over)):
            judged.append((get_probability(ent), any(ent.kb_id_ in ids for ids in over)))
    right, wrong = ([p for p, is_right in judged if is_right == wanted] for wanted in (True, False))
    assert right and wrong
    found = by_name(figures)
    pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
    assert found["auroc"] == pytest.approx(sum(pairs) / len(pairs))
    bins = details["reliability"]
    assert sum(n for *_, n in bins) == len(judged)
    assert found["ece"] == pytest.approx(sum(abs(mean - share) * n for mean, share, n in bins) / len(judged))
    for per_cent in THRESHOLDS:
        assert found[f"kept_at_{per_cent}"] == sum(p >= per_cent / 100 for p in right) / len(right)


def test_a_pipeline_that_finds_nothing_is_refused(folder):
    system = PipelineSystem(terminology=str(folder / "names"), encoder=str(folder / "encoder"))
    with pytest.raises(ValueError, match="find no mention with an id.*needs a `matcher`"):
        RecognitionTask("toy.recognition", folder / "toy.spacy").measure(system)
    with pytest.raises(ValueError, match="give `matcher`.* with a `terminology` only"):
        PipelineSystem.read({"pipeline": "x", "matcher": {}})
