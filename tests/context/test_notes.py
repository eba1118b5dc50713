"""What notes say of their mentions: items with answers, headings, wrapped lines, relatives, doubts."""

import textwrap
from itertools import product

import pytest
import spacy
from case_tables import cases
from context_rows import read, read_marked, write_marks
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin, Span, SpanGroup
from spacy.tokens.underscore import Underscore
from spacy.vocab import Vocab

from spacy_sapbert.context import FLAGS, MentionContext, read_context, read_cue_spans
from spacy_sapbert.context.cues import KINDS, Cues, list_cue_languages, read_cues, read_words
from spacy_sapbert.context.labels import read_label_context
from spacy_sapbert.context.scopes import find_contexts
from spacy_sapbert.exchange.fhir import describe_context
from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.lexicon.sections import find_headings, hide_headings, split_sentences

FINDINGS = (
    "anaemia|ankle oedema|asthma|blood transfusion|chest pain|chills|confusion|cough|deep vein thrombosis|"
    "diarrhoea|dyspnoea|epilepsy|fatigue|fever|gastric ulcer|glaucoma|haemoptysis|headache|heart murmur|hepatomegaly|"
    "hypertension|iron deficiency|jaundice|lymphadenopathy|malignancy|migraine|nausea|osteoporosis|palpitations|"
    "pleural effusion|pneumonia|pneumothorax|pulmonary embolism|rash|seizures|shortness of breath|splenomegaly|stroke|"
    "syncope|tuberculosis|vomiting|weakness|weight loss|wheeze"
).split("|")


def make_pipeline(**settings):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "D", "pattern": name} for name in FINDINGS])
    nlp.add_pipe("note_context", config=settings)
    return nlp


NLP = make_pipeline()


def read_mentions(text, nlp=NLP):
    """Write "-" before each mention that is denied, "?" before each that is uncertain, as `context_rows` does."""
    return [write_marks(read_context(ent).words) + " ".join(ent.text.lower().split()) for ent in nlp(text).ents]


# Inputs of public threads, and their kin.
@cases("notes")
def test_what_notes_deny_and_what_they_leave_open(text, expected):
    known = [f"{mark}{name}" for mark in ("", "-", "?", "<") for name in FINDINGS]
    mentions = read_mentions(text)
    assert " ".join(mentions) == expected and set(mentions) <= set(known)


@cases("contexts_en")
def test_what_texts_say_of_their_mentions(text, expected):
    assert read(text) == expected


@cases("label_contexts")
def test_what_labels_are_about(label, kind):
    context = read_label_context(label, ENGLISH)
    assert (context.kind if context else "") == kind


@pytest.mark.parametrize(
    "label, finding",
    [("FH: deafness", "deafness"), ("mother with gout", "gout"), ("r/o pneumonia", "pneumonia"), ("no_edema", "edema")],
)
def test_labels_have_a_finding(label, finding):
    assert read_label_context(label, ENGLISH).finding == finding


@pytest.mark.parametrize("behind", ["", ", ", "; ", ".\n", "\n", "\n\n", "\r\n"])
def test_each_form_of_an_answer_denies_its_item_and_no_other(behind):
    forms = [
        *product(
            (": ", ":", " : ", " - ", " – ", " — "), ("none", "absent", "nil", "no", "not present", "denied"), [""]
        ),
        *product((": ",), ("negative", "neg", "-"), [""]),
        *product((" (",), ("-", "no", "none", "absent", "neg", "negative"), [")"]),
        *product((" [",), ("-", "no"), ["]"]),
    ]
    for (before, answer, after), written in product(forms, (str, str.upper, str.title)):
        no, yes = (f"{before}{written(word)}{after}" for word in (answer, "yes"))
        assert read_mentions(f"Fever{no}{behind}") == ["-fever"]
        text = behind.join([f"Chills{yes}", f"Fever{no}", f"Cough{yes}", f"Wheeze{no}"])
        assert not behind or read_mentions(text) == ["chills", "-fever", "cough", "-wheeze"], text


NOTES = [
    # A visit, with headings and lists.
    """Visit, 12 May
No known drug allergies
Hypertension
Stroke in 2019

Complaint
Tiredness, no fever
Shortness of breath on exertion
Findings
No jaundice
Iron deficiency
Ankle oedema - present
Splenomegaly - absent, lymphadenopathy - absent
Heart murmur (+), hepatomegaly (-)

Plan:
1. No aspirin
2. Anaemia: iron tablets
3. CT to rule out malignancy
4. Gastric ulcer cannot be excluded, no pleural effusion
""",
    # A form.
    """REVIEW OF SYSTEMS
Fever: No
Chills: No
Weight loss: Yes, 4 kg
Chest pain, palpitations: none
Cough: yes; haemoptysis: denied; wheeze: no
Seizures: no  Headache: yes  Confusion: no
Chest: no dyspnoea
Rash: none known
Past: asthma (+), epilepsy (-), migraine (+)
Blood transfusion: No
Osteoporosis""",
    # A dictation, wrapped at 72 characters.
    """The patient is a 67 year old woman who came with fever and productive
cough for three days. She denies chest pain, haemoptysis, palpitations,
syncope or weight loss, and she has neither nausea nor vomiting. There is no
diarrhoea. On examination she had no respiratory distress, no wheeze and no
ankle oedema, but a heart murmur. No jaundice was seen. Her chest film
showed a possible pneumonia without pleural effusion or
pneumothorax. Pulmonary embolism is unlikely, and deep vein thrombosis was
ruled out. No hypertension due to her kidneys.

Past history
Tuberculosis in childhood. No asthma.
Fatigue""",
]
EXPECTED = [
    "hypertension|<stroke|-fever|shortness of breath|-jaundice|iron deficiency|ankle oedema|-splenomegaly|"
    "-lymphadenopathy|heart murmur|-hepatomegaly|anaemia|?malignancy|?gastric ulcer|-pleural effusion",
    "-fever|-chills|weight loss|-chest pain|-palpitations|cough|-haemoptysis|-wheeze|-seizures|headache|-confusion|"
    "-dyspnoea|-rash|asthma|-epilepsy|migraine|-blood transfusion|osteoporosis",
    "fever|cough|-chest pain|-haemoptysis|-palpitations|-syncope|-weight loss|-nausea|-vomiting|-diarrhoea|-wheeze|"
    "-ankle oedema|heart murmur|-jaundice|?pneumonia|-pleural effusion|-pneumothorax|?pulmonary embolism|"
    "-deep vein thrombosis|-hypertension|<tuberculosis|-asthma|fatigue",
]


@pytest.mark.parametrize("number", range(len(NOTES)))
def test_notes(number):
    assert read_mentions(NOTES[number]) == EXPECTED[number].split("|")
    # No finding that a note does not deny leaves as one that is refuted.
    for ent in NLP(NOTES[number]).ents:
        context = read_context(ent)
        code = describe_context(context).get("verificationStatus", {"coding": [{"code": None}]})["coding"][0]["code"]
        assert code == ("unconfirmed" if context.uncertain else "refuted" if context.negated else None)


@pytest.mark.parametrize("cue", ["no", "denies", "without", "has no", "no evidence of", "negative for", "neither"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_cue_at_the_end_of_a_line_reaches_the_next(cue, line_end):
    for text in (f"The patient {cue}{line_end}fever or cough", f"She came today, {cue}{line_end}fever."):
        mentions = read_mentions(text)
        assert mentions and all(mention.startswith("-") for mention in mentions), text


def test_a_mention_says_which_words_say_what_and_who_has_it():
    [fever] = NLP("She had neither fever").ents
    assert fever._.is_negated and not fever._.is_family
    assert [(cue.flag, cue.text) for cue in fever._.context_cues] == [("negated", "neither")]
    doc = NLP("FAMILY HISTORY:\nMother: asthma. Grandad had a stroke.\n\nPLAN:\nReturn if fever.")
    assert [(ent.text, ent._.context_person) for ent in doc.ents if ent._.is_family] == [
        ("asthma", "mother"),
        ("stroke", "grandfather"),
    ]
    assert [(span.label_, span[0].text) for span in doc.spans["sections"]] == [
        ("family_history", "FAMILY"),
        ("plan", "PLAN"),
    ]
    assert doc.ents[-1]._.is_hypothetical and not doc.ents[-1]._.is_negated
    # Whoever has looked at a mention has something to say of it.
    assert read_context(NLP("Fever").ents[0]) == MentionContext()


def test_a_process_without_the_component_reads_what_it_stored(monkeypatch):
    data = DocBin(docs=[NLP("Her mother had no fever.")], store_user_data=True).to_bytes()
    monkeypatch.setattr(Underscore, "span_extensions", {})
    [doc] = DocBin().from_bytes(data).get_docs(Vocab())
    context = read_context(doc.ents[0])
    assert context == MentionContext(negated=True, family=True, person="mother", cues=context.cues)
    assert {cue.text for cue in read_cue_spans(doc.ents[0])} == {"had no", "mother"}
    # Of a part of the document, the cues that lie in it.
    assert read_cue_spans(doc[4:5].as_doc()[:1]) == []


def test_a_saved_pipeline_says_the_same(tmp_path):
    NLP.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert [read_mentions(note, loaded) for note in NOTES] == [read_mentions(note) for note in NOTES]


def test_cues_of_ones_own_add_to_those_of_the_package_and_replace_them(tmp_path):
    own = {"negated before list": ["free of any"], "pseudo": ["no fever"]}
    nlp = make_pipeline(cues=own)
    assert read_mentions("free of any cough; no fever", nlp) == ["-cough", "fever"]
    nlp.to_disk(tmp_path)
    assert read_mentions("free of any cough", spacy.load(tmp_path)) == ["-cough"]
    nlp.get_pipe("note_context").cues = {}
    assert read_mentions("no fever", nlp) == ["-fever"]


def test_spans_are_mentions_as_well():
    nlp = make_pipeline(spans_key="sc", sections_key="parts")
    doc = nlp.make_doc("Exam: no rash.")
    doc.spans["sc"] = SpanGroup(doc, spans=[Span(doc, 3, 4, "D")])
    doc = nlp.get_pipe("note_context")(doc)
    assert doc.spans["sc"][0]._.is_negated and [span.label_ for span in doc.spans["parts"]] == ["examination"]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"language": "ja"}, "no cues for the language 'ja'. It has some for de, en, es, fr, it, nl, pt"),
        ({"cues": {"negated": ["not"]}}, "'negated' does not say what cues mean"),
        ({"cues": {"negated behind list": ["not"]}}, "'negated behind list' does not say what cues mean"),
        ({"cues": {"pseudo": [" "]}}, "' ' has no words, so it is no cue"),
        ({"spans_key": 1}, "spans_key"),
        ({"cue": {}}, "cue"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_pipeline(**settings)


@pytest.mark.parametrize("code", list_cue_languages())
def test_cues_of_the_package_say_one_thing_each(code):
    groups = read_cues(code)
    for kind, direction in product(KINDS, ("before", "after")):
        keys = [key for key in groups if key.startswith((f"{kind} {direction} ", f"{kind} both "))]
        words = [tuple(word.text for word in read_words(phrase)) for key in keys for phrase in groups[key]]
        assert all(words) and len(words) == len(set(words)), (kind, direction)
    assert Cues(groups).open_ends


WORDS = st.lists(
    st.sampled_from("fever and or the a no cough of wheeze, with 38.5 seen today breathlessness".split()),
    min_size=3,
    max_size=30,
)


@given(st.lists(WORDS, min_size=1, max_size=6), st.integers(60, 100), st.sampled_from(["\n", "\r\n"]))
def test_wrapped_text_says_the_same_as_in_one_line(sentences, width, line_end):
    text = " ".join(f"She {' '.join(words)} now." for words in sentences)
    wrapped = line_end.join(textwrap.wrap(text, width, break_on_hyphens=False))
    assert read_mentions(wrapped) == read_mentions(text)


@given(st.text("ab:-–([+]), \n\r\t\x85no.yes?", min_size=1, max_size=60), st.data())
def test_any_text_has_sentences_and_contexts(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    place = (start, data.draw(st.integers(start + 1, len(text))))
    sentences = split_sentences(text, ENGLISH)
    assert all(first.end <= second.start for first, second in zip(sentences, sentences[1:], strict=False))
    covered = "".join(text[sentence.start : sentence.end] for sentence in sentences)
    assert "".join(covered.split()) == "".join(text.split())
    [findings] = find_contexts(text, [place], ENGLISH, NLP.get_pipe("note_context")._cues)
    kinds = [finding.kind for finding in findings]
    assert set(kinds) <= set(FLAGS) and len(kinds) == len(set(kinds))
    assert all(0 <= finding.start <= finding.end <= len(text) for finding in findings)


@pytest.mark.parametrize("text", ["::?\t ", "no:?\n ", "a::?\t b", "yes?\t "])
def test_white_space_behind_the_last_word_has_no_context(text):
    cues = NLP.get_pipe("note_context")._cues
    places = [(start, end) for start in range(len(text)) for end in range(start + 1, len(text) + 1)]
    for place, findings in zip(
        places, (find_contexts(text, [place], ENGLISH, cues)[0] for place in places), strict=True
    ):
        assert text[slice(*place)].strip() or all(finding.kind != "negated" for finding in findings)


@given(st.text(max_size=80))
def test_any_label_has_a_context_or_none(label):
    context = read_label_context(label, ENGLISH)
    assert context is None or context.finding


@cases("headings")
def test_headings_have_words_of_headings_only(text, headings):
    hidden = hide_headings(text, find_headings(text, ENGLISH))
    for heading in headings:
        assert heading in text
        text = text.replace(heading, " " * len(heading), 1)
    assert hidden == text


@given(st.text("Skin:. \n-|and", max_size=60))
def test_hiding_headings_moves_nothing(text):
    hidden = hide_headings(text, find_headings(text, ENGLISH))
    assert len(hidden) == len(text)
    assert all(
        after == before or (after == " " and before.isalnum()) for before, after in zip(text, hidden, strict=True)
    )
    sections = list(find_headings(text, ENGLISH))
    assert all(first.end == second.start for first, second in zip(sections, sections[1:], strict=False))


def test_brackets_of_the_tables_are_read():
    assert read_marked("a [[b c]] [[d]]") == ("a b c d", [(2, 5), (6, 7)])
