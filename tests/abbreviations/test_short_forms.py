"""Short forms that a document does not define, and the names that they can stand for."""

import pytest
import spacy
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.abbreviations.component import abbreviations_by_start, is_initialism
from spacy_sapbert.abbreviations.short_forms import LongForm, ShortForms, read_clinical
from spacy_sapbert.text import normal_words

TABLE = {
    "SOB": ["shortness of breath"],
    "N/V": ["nausea and vomiting"],
    "MS": ["multiple sclerosis: brain interferon", "mitral stenosis: valve murmurs"],
    "RA": ["rheumatoid arthritis: joint", "room air: oxygen saturation"],
}


DISORDERS = [
    *(
        "hypertension",
        "type 2 diabetes mellitus",
        "coronary artery disease",
        "erectile dysfunction",
        "pulmonary embolism",
    ),
    *(
        "rheumatoid arthritis",
        "mitral regurgitation",
        "ulcerative colitis",
        "Alzheimer disease",
        "Guillain-Barre syndrome",
    ),
    *("thrombotic thrombocytopenic purpura", "hypertrophic cardiomyopathy", "normal pressure hydrocephalus"),
]


def make_pipeline(short_forms):
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst", config={"short_forms": short_forms})
    return nlp


def read(text, short_forms):
    doc = make_pipeline(short_forms)(text)
    return {doc[start].text: long for start, (_, long) in abbreviations_by_start(doc).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No SOB, but N/V at night.", {"SOB": "shortness of breath", "N": "nausea and vomiting"}),
        ("She denies SOB, N/V.", {"SOB": "shortness of breath", "N": "nausea and vomiting"}),
        ("A sob story about SOBs", {}),
        # Units, and texts in capitals, where nothing tells those that are words as well from words.
        ("Brain: 5 MS for her", {}),
        ("NO SOB, BUT N/V AT NIGHT", {"SOB": "shortness of breath", "N": "nausea and vomiting"}),
        ("MS. SMITH HAS A MURMUR, NO SOB", {"SOB": "shortness of breath"}),
        ("MS. SMITH HAS A MURMUR, SATURATION 96% ON RA", {"RA": "room air"}),
        ("PMH: SOB, MS (valve), CABG", {"SOB": "shortness of breath", "MS": "mitral stenosis"}),
        # Near words, or else those of the section, have to say which.
        ("MS for years.", {}),
        ("MS for years, with a murmur.", {"MS": "mitral stenosis"}),
        ("MS for years, a murmur, interferon, lesions of the brain.", {"MS": "multiple sclerosis"}),
        ("A murmur of MS. Interferon for the brain.", {"MS": "mitral stenosis"}),
        ("MS for years, her brain was seen: a murmur.", {"MS": "multiple sclerosis"}),
        (f"MS {'and so on ' * 9} a murmur.", {"MS": "mitral stenosis"}),
        (f"MS {'and so on ' * 9} \nHeart: a murmur.", {}),
        (f"MS {'and so on ' * 9} \n\na murmur.", {}),
        # What the document says comes first, also for what stands before it.
        ("MS of the heart valve, by mass spectrometry (MS)", {"MS": "mass spectrometry"}),
    ],
)
def test_readings(text, expected):
    assert read(text, TABLE) == expected
    assert "SOB" not in read(text, {})


def test_documents_tell_what_they_define_from_what_was_given():
    doc = make_pipeline(TABLE)("SOB after mitral stenosis (MS)")
    assert [short.text for short in doc._.abbreviations] == ["MS"]
    assert doc[0:1]._.long_form is None and doc[5:6]._.long_form.text == "mitral stenosis"
    loaded = spacy.tokens.Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert abbreviations_by_start(loaded) == abbreviations_by_start(doc)


def test_a_short_form_does_not_speak_for_itself():
    assert read("NPH at night.", {"NPH": ["NPH insulin", "hydrocephalus"]}) == {}


@pytest.mark.parametrize("gap", ["", "\n\n", "\nExam: "])
def test_each_place_has_its_own_reading(gap):
    text = f"The brain of MS on interferon.{gap or ' and so on ' * 9}A valve with MS and a murmur."
    readings = ["multiple sclerosis", "mitral stenosis"]
    assert [row[2] for row in make_pipeline(TABLE)(text)._.abbreviation_offsets] == readings


@given(*2 * [st.lists(st.sampled_from("brain interferon valve murmur pain multiple mitral x".split()), max_size=14)])
def test_the_reading_with_the_most_and_nearest_words_is_chosen(before, behind):
    text = " ".join([*before, "MS", *behind])
    start = sum(len(word) + 1 for word in before)
    support = []
    for reading in map(LongForm.read, TABLE["MS"]):
        distances = [
            [side.index(word) + 1 for side in (before[::-1][:10], behind[:10]) if word in side]
            for word in ("brain interferon valve murmur multiple mitral").split()
            if word in reading.words
        ]
        support.append(sum(1 / min(found) for found in distances if found))
    expected = TABLE["MS"][support[0] < support[1] - 1e-9].partition(":")[0]
    if not any(support):
        in_section = [len({*before, *behind} & LongForm.read(reading).words) for reading in TABLE["MS"]]
        expected = TABLE["MS"][in_section[0] < in_section[1]].partition(":")[0] if any(in_section) else ""
    assert ShortForms(TABLE).make_reader(text)(start, start + 2) == expected or abs(support[0] - support[1]) < 1e-9


def test_mentions_are_found_and_linked_by_their_readings(tmp_path):
    names = {"D": ["Dyspnea", "Shortness of breath"], "M": ["Mitral valve stenosis"], "S": ["Sobbing"]}
    nlp = make_pipeline(TABLE)
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    assert [(ent.text, ent.kb_id_) for ent in nlp("She had SOB.").ents] == [("SOB", "D")]
    doc = nlp.make_doc("A valve with MS")
    doc.ents = [doc.char_span(13, 15, label="X")]
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        linked = pipeline.get_pipe("sapbert_linker")(pipeline.get_pipe("schwartz_hearst")(doc.copy()))
        (ent,) = linked.ents
        assert (ent.kb_id_, ent._.kb_candidates[0]["mention"]) == ("M", "mitral stenosis")


def test_the_table_of_the_package():
    table = read_clinical()
    readings = [LongForm.read(text) for texts in table.values() for text in texts]
    assert len(table) > 140 and all(reading.text and "\t" not in reading.text for reading in readings)
    # Which of several is meant has to be in the document.
    for texts in table.values():
        assert len(texts) == 1 or all(
            LongForm.read(text).words - {*normal_words(text.partition(":")[0])} for text in texts
        )
    assert read("HTN, CP, troponin", "clinical") == {"HTN": "hypertension", "CP": "chest pain"}
    assert read("spastic gait since birth, CP", "clinical") == {"CP": "cerebral palsy"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seen in the ED for abdominal pain.", []),
        ("PE unremarkable.", []),
        ("Weaned to RA.", []),
        ("MR angiogram.", []),
        ("UC sent, no growth.", []),
        ("AD lib diet.", []),
        ("Taken to ED, PE, RA, MR, UC and AD.", []),
        ("NPH 10 units, TTP over the spine. GBS swab negative. HCM: mammogram due.", []),
        ("PMH: HTN, DM2, CAD s/p CABG", ["HTN", "DM2", "CAD"]),
        ("PATIENT WITH HTN AND CAD. MR. SMITH WALKS.", ["HTN", "CAD"]),
        ("CTA: PE, heparin given. RA on methotrexate. Sats 97% on RA. UC with colectomy.", ["PE", "RA", "UC"]),
        ("Sildenafil for ED. Seen in ED by EMS.", ["ED"]),
    ],
)
def test_what_is_no_disorder_is_none(diagnoses, text, expected):
    assert [ent.text for ent in diagnoses(text).ents] == expected


@pytest.fixture(scope="module")
def diagnoses():
    nlp = make_pipeline("clinical")
    nlp.add_pipe("terminology_matcher")
    terminology = build_terminology((f"D:{number}", name) for number, name in enumerate(DISORDERS))
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp


@pytest.mark.parametrize("language, found", [("en", [[6, 9, "hypertension"]]), ("fr", [])])
def test_english_pipelines_have_the_short_forms_of_notes(language, found):
    nlp = spacy.blank(language)
    nlp.add_pipe("schwartz_hearst")
    assert nlp("Known HTN.")._.abbreviation_offsets == found


@pytest.mark.parametrize(
    ("short_forms", "message"),
    [
        ("clinic", 'has to be "clinical" or a table'),
        ({"SOB": "shortness of breath"}, "have to be a list of long forms"),
        ({"SOB": []}, "have to be a list of long forms"),
        ({"SOB": [": breath"]}, "have to be a list of long forms"),
        ({"SOB": None}, "have to be a list of long forms"),
        ({"SOB": [5]}, "have to be a list of long forms"),
        (["SOB"], 'has to be "clinical" or a table'),
        ({"SOB ": ["shortness of breath"]}, "can't be a short form"),
        ({"S:B": ["shortness of breath"]}, "can't be a short form"),
        ({"": ["shortness of breath"]}, "can't be a short form"),
    ],
)
def test_tables_that_are_refused(short_forms, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("schwartz_hearst", config={"short_forms": short_forms})


FITTING = [
    ("AMI", "acute myocardial infarction"),
    ("AMI", "Acute Myocardial Infarction"),
    ("AMIs", "acute myocardial infarction"),
    ("PD", "Parkinson's disease"),
    ("PD", "Parkinson Disease"),
    ("PD", "Disease, Parkinson"),
    ("HTN", "hypertension"),
    ("GERD", "gastroesophageal reflux disease"),
    ("GERD", "gastro-esophageal reflux disease"),
    ("COPD", "Chronic Obstructive Pulmonary Disease"),
    ("ROP", "retinopathy of prematurity"),
    ("T2D", "type 2 diabetes"),
    ("CHD", "congenital (heart) disease"),
    ("A-T", "ataxia telangiectasia"),
    ("ALL", "leukemia, acute lymphoblastic"),
]
OTHERS = [
    ("AMI", "acute infarction"),
    ("AMI", "acute anterior myocardial infarction"),
    ("AMI", "myocardial infarction"),
    ("PD", "pulmonary"),
    ("PD", "disease of Parkinson's"),
    ("PD", "Parkinson disease, late onset"),
    ("PD", "PD"),
    ("PD", "PD (disorder)"),
    ("pd", "Parkinson disease"),
    ("cold", "chronic obstructive lung disease"),
    ("Parkinson", "Parkinson disease"),
    ("P", "pain"),
    ("P D", "Parkinson disease"),
    ("ABCDEFGHIJK", "a b c d e f g h i j k"),
    ("", ""),
    ("AMI", ""),
    ("12", "1 2"),
]


@pytest.mark.parametrize("pairs, fits", [(FITTING, True), (OTHERS, False)])
def test_initials_fit_and_other_strings_do_not(pairs, fits):
    assert [pair for pair in pairs if is_initialism(*pair) != fits] == []


WORDS = st.lists(st.text("abcdexyz", min_size=2, max_size=6), min_size=2, max_size=8)


@given(WORDS)
def test_the_initials_of_any_words_fit(words):
    short = "".join(word[0] for word in words)
    assert is_initialism(short.upper(), " ".join(words)) == (short not in words)
