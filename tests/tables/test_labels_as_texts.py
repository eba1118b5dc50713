"""Labels that are no names, read as texts, and the codes, homonyms and rows that go with them."""

import polars as pl
import pytest
import spacy
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert import TerminologyBuilder, link_table
from spacy_sapbert.__main__ import app
from spacy_sapbert.lexicon.modifiers import get_modifier_words, read_modifiers
from spacy_sapbert.tables.codes import find_codes
from spacy_sapbert.tables.link import COLUMNS, JOINT

# The id, the name and the synonyms of each concept; the number of an id says where it stands.
CONCEPTS = """
nausea | vomiting, emesis | fever, pyrexia | cough | headache, cephalalgia, head pain | pulmonary embolism, PE
hypertension, HTN, high blood pressure | diabetes mellitus, diabetes | type 2 diabetes mellitus, type 2 diabetes
asthma | epilepsy | pleural effusion | respiratory failure | acute respiratory failure
knee pain, gonalgia, pain of the knee | pain | osteoarthritis | cellulitis | cataract | migraine
migraine without aura | gallstone, cholelithiasis | cholecystitis | heart failure, CHF, congestive heart failure
pneumonia | chronic kidney disease, CKD | stroke, cerebrovascular accident | non-small cell lung carcinoma, NSCLC
lung carcinoma, lung cancer | depression | anxiety | vitamin B12 deficiency | COVID-19, SARS-CoV-2 infection
left ventricular hypertrophy | hearing loss, hearing impairment, deafness | severe combined immunodeficiency
liver injury | rash, skin rash | other insomnia | insomnia | seizure | febrile seizure | chest pain
dyspnea, shortness of breath | edema, oedema, swelling | fracture | gout | psoriasis | mitral regurgitation, MR
intellectual disability, MR, mental retardation | anemia, anaemia | sepsis
"""
NAMES = [of.strip().split(", ") for of in CONCEPTS.replace("\n", " | ").split(" | ") if of]
IDS = {names[0]: f"T:{number:02}" for number, names in enumerate(NAMES, start=1)}
# Languages have few names each, with numbers in their order.
ELSEWHERE = {
    "es": "fiebre, tos, neumonía, gonalgia, asma, catarata",
    "de": "Fieber, Husten, Pneumonie, Gonarthrose, Asthma bronchiale, Katarakt",
    "fr": "fièvre, toux, pneumonie, gonarthrose, asthme, cataracte",
    "it": "febbre, tosse, polmonite, gonartrosi, asma, cataratta",
    "nl": "koorts, hoest, longontsteking, gonartrose, astma, cataract",
    "pt": "febre, tosse, pneumonia, gonartrose, asma, catarata",
    "zh": "发热, 咳嗽, 肺炎, 高血压, 哮喘, 白内障",
}
ASTHMA, EPILEPSY, SEIZURE, GOUT = (IDS[name] for name in ("asthma", "epilepsy", "seizure", "gout"))
CODES = {
    "asthma": ["ICD10CM:J45.9", "ICD9CM:493.9"],
    "seizure": ["ICD10CM:R56.9", "SNOMEDCT_US:91175000", "UMLS:C0036572"],
    "gout": ["ICD10CM:M10.9", "ICD10:M10.9"],
    "osteoarthritis": ["ICD10CM:M10.9"],
}


def make_pipeline(code, concepts, **settings):
    builder = TerminologyBuilder()
    for id_, names in concepts.items():
        for name in names:
            builder.add_name(id_, name)
        builder.add_concept(id_, codes=CODES.get(names[0], ()))
    builder.add_name("12345", "numbered finding")
    builder.add_name("A/1", "finding with a slash")
    builder.add_retired("T:97", replaced_by=[SEIZURE])
    builder.add_retired("T:98", consider=[SEIZURE, ASTHMA])
    builder.add_retired("T:99")
    nlp = spacy.blank(code)
    nlp.add_pipe("sapbert_linker", config=settings).initialize(terminology=builder.build())
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return make_pipeline("en", {IDS[names[0]]: names for names in NAMES})


@pytest.fixture(scope="module")
def elsewhere():
    with pytest.warns(UserWarning, match="have no vector"):
        return {
            code: make_pipeline(code, {f"{code}:{n}": [name] for n, name in enumerate(names.split(", "), start=1)})
            for code, names in ELSEWHERE.items()
        }


def check(row, ids, how, side, severity, site, context):
    said = [row[f"linked_{name}"] or "" for name in ("id", "how", "side", "severity", "site", "context")]
    assert said == [ids, how, side, severity, site, context], row


@cases("labels_as_texts")
def test_labels_are_read_as_texts(nlp, label, ids, how, side, severity, site, context):
    check(link_table(nlp, [label])[0], ids, how, side, severity, site, context)


@cases("labels_as_texts_elsewhere")
def test_labels_are_read_in_their_language(elsewhere, language, label, ids, side, severity, context):
    [row] = link_table(elsewhere[language], [label])
    numbers = (row["linked_id"] or "").replace(f"{language}:", "")
    said = [row[f"linked_{name}"] or "" for name in ("side", "severity", "context")]
    assert [numbers, *said] == [ids, side, severity, context], row


@pytest.mark.parametrize("unit", ["fever; ", "odd ", "x", "(", ",", "fever\n", "🤒", "no ", "left ", "发热，"])
def test_a_very_long_cell_is_answered(nlp, unit):
    cell = (unit * 10_000)[:10_000]
    [row] = link_table(nlp, [cell])
    assert row["label"] == cell and row["linked_id"] == (IDS["fever"] if "fever" in unit else None)


def test_what_is_about_something_else_is_linked_if_that_is_asked_for(nlp):
    labels = ["family history of asthma", "asthma, no seizure", "no seizure", "r/o gout; asthma"]
    expected = [None, ASTHMA, None, ASTHMA], [ASTHMA, f"{ASTHMA}|{SEIZURE}", SEIZURE, f"{GOUT}|{ASTHMA}"]
    contexts = ["family", None, "negated", None], ["family", "|negated", "negated", "uncertain|"]
    for any_context, ids, said in zip((False, True), expected, contexts, strict=True):
        rows = link_table(nlp, labels, any_context=any_context)
        assert [row["linked_id"] for row in rows] == ids
        assert [row["linked_context"] for row in rows] == said


def test_the_next_concept_is_there_with_why_it_was_not_taken(nlp):
    named, listed, near = link_table(nlp, ["MR", "MR; asthma", "first seizure"])
    assert named["linked_id"] == IDS["intellectual disability"]
    assert named["linked_second"] == f"{IDS['mitral regurgitation']} mitral regurgitation"
    assert named["linked_second_why"] == "it has this name, too, and 2 in all; the chosen one has 3"
    assert listed["linked_id"] == f"{IDS['intellectual disability']}|{ASTHMA}"
    assert listed["linked_others"] == f"{IDS['mitral regurgitation']} mitral regurgitation"
    assert near["linked_id"] == SEIZURE
    [unnamed] = link_table(nlp, ["severe asthma"])
    assert unnamed["linked_second_why"].startswith("score 0.")


@cases("codes_of_concepts")
def test_codes_stand_for_their_concepts(nlp, code, names, note):
    terminology = nlp.get_pipe("sapbert_linker").terminology
    match = find_codes(terminology, ["x", code])[code]
    assert [terminology.concepts["canonical_name"][row] for row in match.rows] == names
    assert match.note == note


@cases("code_columns")
def test_codes_of_a_column_come_before_words(nlp, label, cells, ids, how, notes):
    frame = pl.DataFrame({"label": [label] * len(cells), "code": cells})
    for row in link_table(nlp, frame, id_column="code").iter_rows(named=True):
        assert [row["linked_id"] or "", row["linked_how"]] == [ids, how], row
        assert notes in (row["linked_note"] or "")


def test_codes_outside_of_the_filters_are_no_answer():
    nlp = make_pipeline("en", {IDS[names[0]]: names for names in NAMES}, ids=[ASTHMA])
    frame = pl.DataFrame({"label": ["odd thing"], "code": ["R56.9"]})
    [row] = link_table(nlp, frame, id_column="code").iter_rows(named=True)
    assert row["linked_id"] is None and "R56.9 is outside of the linker's filters" in row["linked_note"]


LABELS = [
    "fever; cough",
    "nausea, no vomiting",
    "Right pleural effusion with severe respiratory failure",
    "odd thing",
    "",
    "asthma",
    "r/o PE; HTN; left cataract",
]


def join(values):
    return JOINT.join(value or "" for value in values) if any(values) else None


def test_rows_of_each_concept_are_the_joined_ones(nlp):
    frame = pl.DataFrame({"n": range(len(LABELS)), "label": LABELS, "x": [*map(str.upper, LABELS)]})
    joined, rows = link_table(nlp, frame), link_table(nlp, frame, explode=True)
    assert rows["n"].to_list() == [0, 0, 1, 2, 2, 3, 4, 5, 6, 6]
    assert rows.select("n", "label", "x").unique(maintain_order=True).equals(frame)
    for row in joined.iter_rows(named=True):
        of = rows.filter(pl.col("n") == row["n"])
        for name in ("id", "name", "match", "side", "severity", "site", "context"):
            assert row[f"linked_{name}"] == join(of[f"linked_{name}"]), (row, name)
        assert row["linked_score"] == of["linked_score"].min()
    assert link_table(nlp, LABELS) == joined.select("label", *COLUMNS).to_dicts()
    assert link_table(nlp, LABELS, explode=True) == rows.select("label", *COLUMNS).to_dicts()


def test_a_table_without_rows_gets_the_columns(nlp):
    for explode in (False, True):
        linked = link_table(nlp, pl.DataFrame({"label": []}, {"label": pl.String}), explode=explode)
        assert linked.columns == ["label", *COLUMNS] and linked.height == 0


def test_the_command_gives_each_concept_a_row(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    frame = pl.DataFrame({"n": range(len(LABELS)), "label": LABELS})
    frame.write_csv(tmp_path / "a.csv")
    words = ["link", str(tmp_path / "a.csv"), "--pipeline", str(tmp_path / "pipeline"), "--explode"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    linked = pl.read_csv(tmp_path / "a_linked.csv")
    expected = link_table(nlp, frame, explode=True)
    assert linked.select("n", "linked_id").equals(expected.select("n", "linked_id"))


WORDS = st.sampled_from(
    [*IDS, *"no with left severe knee , ; / | and history of other 3 mm ( ) - . \n 🤒 MR J45.9".split(" ")]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=40)


@given(st.lists(TEXTS, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_any_text_is_answered_with_ids_of_the_terminology(nlp, labels, any_context, exact):
    terminology = nlp.get_pipe("sapbert_linker").terminology
    joined = link_table(nlp, labels, any_context=any_context, exact=exact)
    rows = link_table(nlp, labels, any_context=any_context, exact=exact, explode=True)
    assert all(row["linked_id"] is None or row["linked_id"] in terminology for row in rows)
    distinct = dict.fromkeys(labels)
    for label in distinct:
        count = labels.count(label)
        ids = [row["linked_id"] for row in rows if row["label"] == label]
        assert next(row["linked_id"] for row in joined if row["label"] == label) == join(ids[: len(ids) // count])


@given(st.lists(TEXTS, min_size=1, max_size=8), st.randoms())
def test_the_order_of_rows_does_not_matter(nlp, labels, random):
    shuffled = random.sample(labels, len(labels))
    by_label = {row["label"]: row for row in link_table(nlp, labels)}
    for row in link_table(nlp, shuffled):
        # Sums of vectors differ in their last digits.
        expected = {**by_label[row["label"]], "linked_score": pytest.approx(by_label[row["label"]]["linked_score"])}
        assert {**row, "linked_second_why": ""} == {**expected, "linked_second_why": ""}


# Some say what a label is about ("possible"), or a name has them ("acute respiratory failure").
ABOUT = "apparent ddx healed hx likely pmh possible presumed presumptive probable remote resolved suspected f/u"
OWN = "other acute painful infected"
NEUTRAL = sorted(get_modifier_words("en").neutral - {*ABOUT.split(), *OWN.split()})


@given(st.lists(st.tuples(st.sampled_from(NEUTRAL), st.sampled_from([*IDS])), min_size=1, max_size=8))
def test_neutral_words_before_a_name_change_nothing(nlp, pairs):
    linked = link_table(nlp, [f"{word} {name}" for word, name in pairs])
    assert [row["linked_id"] for row in linked] == [IDS[name] for _, name in pairs]


SPOKEN = "left right bilateral severe mild knee both R fever cough of , ; with moderate-to-severe very".split()


@given(st.lists(st.tuples(st.sampled_from(SPOKEN), st.booleans()), max_size=12))
def test_words_inside_of_mentions_say_nothing_of_others(words):
    text = " ".join(word for word, _ in words)
    starts = [sum(len(word) + 1 for word, _ in words[:place]) for place in range(len(words))]
    pairs = [(start, word) for start, (word, is_mention) in zip(starts, words, strict=True) if is_mention]
    mentions = [(start, start + len(word)) for start, word in pairs]
    plain = text
    for start, end in mentions:
        plain = plain[:start] + "x" * (end - start) + plain[end:]
    assert read_modifiers(text, mentions, "en") == read_modifiers(plain, mentions, "en")
