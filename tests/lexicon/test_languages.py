"""Names and texts in other languages than English: words that names are not made of, plurals, heads, joins."""

import copy
import pickle

import numpy as np
import pytest

from spacy_sapbert import TerminologyBuilder
from spacy_sapbert.lexicon.bags import BagTable
from spacy_sapbert.lexicon.derived import read_list
from spacy_sapbert.lexicon.find import NameFinder
from spacy_sapbert.lexicon.languages import ENGLISH, LANGUAGES, UNKNOWN, find_language, get_language, get_reader
from spacy_sapbert.lexicon.names import NameTable
from spacy_sapbert.lexicon.scan import scan
from spacy_sapbert.text import strip_accents


def build_in(language, names):
    """Build a terminology of names, each of a concept of its own."""
    builder = TerminologyBuilder()
    for number, name in enumerate(names):
        builder.add_name(f"C{number}", name, language=language)
    return builder.build()


def find(language, names, text):
    """Find names in a text: what is found, and the name."""
    terminology = build_in(language, names)
    allowed = np.ones(len(names), dtype=bool)
    table = BagTable.of(terminology, get_language(language))
    rules = {"is_exact": False, "own_case_length": 5, "skip_names": ()}
    found = NameFinder(table, terminology, allowed, (), **rules).find([text])[0]
    return {(text[hit.start : hit.end], terminology.names["name"][hit.rows[0]]) for hit in found}


# Each has another number, article or elision than the name, other words for an abnormality, or is coordinated.
FOUND = [
    ("SPA", "Agenesia del cuerpo calloso", "agenesia de cuerpo calloso"),
    ("SPA", "dolor de la articulación", "dolores de las articulaciones"),
    ("es", "lesión renal", "lesiones renales"),
    ("SPA", "raíz nerviosa", "raíces nerviosas"),
    ("SPA", "calambre muscular", "calambres musculares"),
    ("SPA", "malformación cardíaca", "anomalías cardíacas"),
    ("SPA", "dolor abdominal", "dolor torácico y abdominal"),
    ("SPA", "vitamina A y vitamina E", "vitaminas A y vitaminas E"),
    ("FRE", "Métrorragie", "métrorragies"),
    ("FRE", "anévrisme de l'aorte", "anévrismes d'aorte"),
    ("fr", "lésion cérébrale", "lésions cérébrales"),
    ("FRE", "canal artériel", "canaux artériels"),
    ("FRE", "douleur du membre", "douleurs des membres"),
    ("FRE", "anomalie du rein", "malformations des reins"),
    ("ITA", "Allucinazione visiva", "allucinazioni visive"),
    ("ITA", "dolore del ginocchio", "dolori alle ginocchia"),
    ("it", "occhio secco", "occhi secchi"),
    ("ITA", "Emorragia", "emorragie"),
    ("ITA", "prolungamento dell'intervallo", "prolungamento d’intervalli"),
    ("POR", "lesão renal", "lesões renais"),
    ("pt", "tumor do pulmão", "tumores pulmões"),
    ("GER", "akuter Schmerz", "akute Schmerzen"),
    ("de", "Störung der Niere", "Störungen von Nieren"),
    ("DUT", "afwijking van de nier", "afwijkingen van nieren"),
    ("DUT", "droog oog", "droge ogen"),
    ("nl", "pijn in het been", "pijn in de benen"),
    ("nl", "bot", "botten"),
    ("GER", "schwere Niereninsuffizienz", "schwerer Niereninsuffizienz"),
    ("GER", "schwer verlaufend", "schweren verlaufenden"),
    ("GER", "Ekzem der Hand", "Ekzeme der Hände"),
    ("GER", "Grauer Star", "grauen Star"),
    ("GER", "Blaue Skleren", "blauen Skleren"),
    ("GER", "Niere", "Nieren"),
    ("CZE", "svalová slabost", "svalovou slabostí"),
    ("cs", "Abnormalita kyčelní kosti", "abnormality kyčelních kostí"),
    ("CZE", "bolest a porucha", "bolesti a poruchy"),
    ("TUR", "Geniş ayak", "geniş ayaklar"),
    ("tr", "hücre anormalliği", "hücreler anormalliği"),
    # Ordinal numbers with a full stop.
    ("CZE", "Kamptodaktylie 4. prstu", "kamptodaktylie 4. prstu"),
    ("TUR", "2. ayak parmağı", "2. Ayak Parmağı"),
    ("GER", "Brachydaktylie der 2. Zehe", "Brachydaktylie der 2. Zehen"),
    # Numerals behind the words of a language.
    ("SPA", "diabetes tipo I", "diabetes tipo 1"),
    ("FRE", "obésité de classe V", "obésité de classe 5"),
    ("GER", "Diabetes Typ I", "Diabetes Typ 1"),
    ("DUT", "diabetes graad V", "diabetes graad 5"),
    ("ITA", "tumore stadio I", "tumori stadio 1"),
    ("CZE", "nádor stupeň I", "nádor stupeň 1"),
]
# Each with and without accents, in pieces, in other widths, and in capitals, where one letter may be "and".
FOUND += [
    ("SPA", "lesión muscular y ósea", "LESION MUSCULAR Y OSEA"),
    ("SPA", "lesión muscular", "lesio\u0301nes musculares"),
    ("SPA", "raíz nerviosa", "rai\u0301ces nerviosas"),
    ("SPA", "raíz nerviosa", "ｒａíｃｅｓ ｎｅｒｖｉｏｓａｓ"),
    ("FRE", "Myélodysplasie à lignée multiple", "MYELODYSPLASIE A LIGNEE MULTIPLE"),
    ("FRE", "Myélodysplasie à lignée multiple", "myelodysplasie a lignees multiples"),
    ("POR", "lesão renal", "lesoes renais"),
    ("POR", "lesão do olho", "LESO\u0303ES DO OLHO"),
    ("ITA", "tosse né febbre", "tosse ne febbre"),
    ("CZE", "Cysta v podpaží", "CYSTA V PODPAZI"),
    ("CZE", "Vysoká hladina argininu v moči", "VYSOKA HLADINA ARGININU V MOCI"),
    ("TUR", "İshal ve kusma", "ISHAL VE KUSMA"),
    ("TUR", "ışık hassasiyeti", "isik hassasiyeti"),
    ("TUR", "göğüs ağrısı", "GOGUS AGRISI"),
    ("DUT", "intracraniële bloeding", "intracraniele bloedingen"),
    ("GER", "Störung der Niere", "STOERUNGEN DER NIEREN"),
    ("GER", "Fußödem", "Fussoedeme"),
    ("GER", "Fussoedem", "Fußödem"),
    ("GER", "Übelkeit", "Uebelkeit"),
]
# Without spaces, a name begins and ends at any character but inside a word of katakana or Latin letters.
FOUND += [
    ("CHI", "肝癌", "肝癌"),
    ("zh", "2型糖尿病", "Ⅱ型糖尿病"),
    ("CHI", "2型糖尿病", "２型糖尿病"),
    ("CHI", "肝肿瘤", "肝腫瘤"),
    ("CHI", "母体循环绒毛膜促性腺激素水平高", "母體循環絨毛膜促性腺激素水平高"),
    ("JPN", "クローン病", "ｸﾛｰﾝ病"),
    ("ja", "めまい", "めまい"),
    ("JPN", "ビタミンB12欠乏症", "ヒ\u3099タミンＢ１２欠乏症"),
]


# Words that are derived from names, and names of Greek and Latin words that stand for them.
OTHER_WORDS = [
    ("SPA", "Fiebre", "febriles"),
    ("SPA", "obesidad", "obesa"),
    ("SPA", "Dolor de espalda", "dorsalgia"),
    ("SPA", "leucopenia", "leucocitopenia"),
    ("FRE", "Douleur", "douloureuses"),
    ("FRE", "Perte de poids", "amaigrissement"),
    ("ITA", "Disidratazione", "disidratati"),
    ("ITA", "Trombocitopenia", "piastrinopenie"),
]


@pytest.mark.parametrize("language, name, text", FOUND + OTHER_WORDS)
def test_names_in_other_numbers_and_with_other_function_words(language, name, text):
    assert (text, name) in find(language, [name], text)


@pytest.mark.parametrize("language, name, text", [case for case in FOUND if not get_language(case[0]).is_spaced])
def test_names_of_languages_without_spaces_are_found_inside_sentences(language, name, text):
    for before, behind in [("患者有", "，没有发热。"), ("再", "と診断された"), ("ＣＴ：", "\n")]:
        assert find(language, [name], before + text + behind) == {(text, name)}


# Other words, or an order, articles or letters that say something else.
NOT_FOUND = [
    ("SPA", "lesión renal", "lesión con renal"),
    ("SPA", "agenesia", "agenes"),
    ("SPA", "virus", "viru"),
    ("FRE", "douleur sans fièvre", "douleur fièvre"),
    ("ITA", "tipo I", "i tipi"),
    ("GER", "Leber", "leben"),
    ("GER", "Ni", "Nieren"),
    ("GER", "Vergiftung durch Ti", "Vergiftung durch Tiere"),
    ("CZE", "bolest of hlavy", "bolest hlavy"),
    # Another letter than "n".
    ("SPA", "años", "anos"),
    # In full: another order, and a part of a word; what a full stop parts; items of a list.
    ("CHI", "心病", "病心"),
    ("CHI", "肝癌", "肝。癌"),
    ("CHI", "肝癌", "肝、肺癌"),
    ("CHI", "肝癌", "肝/肺癌"),
    ("JPN", "ガン", "オルガン"),
    ("JPN", "ガ", "オルガン"),
    # A sentence ends in front of a capital but behind an ordinal number.
    ("SPA", "tipo 2 grave", "tipo 2. Grave"),
    ("GER", "Diabetes Störung", "Diabetes. Störung"),
    # Stop words are no items of a list.
    ("GER", "Schmerz am Handgelenk", "das Handgelenk und können nicht nur Schmerz"),
    ("FRE", "douleur du genou", "genou et peuvent aussi douleur"),
]
# English plurals, spellings, articles, possessives and joins are none elsewhere. ("Oe" and "ae" are German.)
ENGLISH_FORMS = [
    ("disease at the kidney", "disease kidney"),
    ("women", "woman"),
    ("axes of bone", "axis bone"),
    ("haemorrhage", "hemorrhage"),
    ("oesophagus", "esophagus"),
    ("tumour", "tumor"),
    ("hospitalisation", "hospitalization"),
    ("bone and lung mass", "bone mass"),
    ("calculi", "calculus"),
    ("pain of foot", "foot pain"),
    ("vaginoses", "vaginosis"),
]
OTHERS = [code for code, language in LANGUAGES.items() if len(code) == 2 and language is not ENGLISH]


@pytest.mark.parametrize("language, name, text", NOT_FOUND)
def test_what_is_no_other_form_of_a_name(language, name, text):
    assert find(language, [name], text) == set()


@pytest.mark.parametrize(
    "language, name, text",
    [
        ("SPA", "lesión renal", "LESIONES RENALES"),
        ("FRE", "Métrorragie", "métrorragies"),
        ("ITA", "visione doppia", "Visioni doppie"),
        ("ENG", "kidney lesion", "kidney lesions"),
        ("CZE", "poranění kosti", "poranění kostí"),
        ("GER", "Ödem", "Oedeme"),
        ("CHI", "腫瘤", "肿瘤"),
    ],
)
def test_a_mention_in_another_number_is_the_name(language, name, text):
    names = build_in(language, [name, "x"]).names
    table = NameTable.build(names["name"], find_language(names["language"]))
    assert table.find_whole([text, name, "y"]).tolist() == [*table.find_whole([name, name]), -1]


@pytest.mark.parametrize("language", [*LANGUAGES.values(), UNKNOWN], ids=[*LANGUAGES, "unknown"])
def test_a_copy_of_a_language_is_the_same_one(language):
    assert pickle.loads(pickle.dumps(language)) is language is copy.deepcopy(language)


@pytest.mark.parametrize("code", [code for code in LANGUAGES if LANGUAGES[code].lists])
def test_the_lists_of_words_that_stand_for_others_have_several_on_a_line(code):
    language = LANGUAGES[code]
    for kind, least in [("synonyms", 200), ("derived_words", 100)]:
        lines = read_list(kind, language)
        assert len({*map(tuple, lines)}) == len(lines) > least
        readings = [[tuple(scan(name, language).read_content().hashes) for name in line] for line in lines]
        assert all(len(line) > 1 and () not in line for line in readings)
        # Several numbers or spellings of a name may be one to a reader, but not what is derived from it.
        assert kind == "synonyms" or all(words[0] not in words[1:] for words in readings)


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_lists_of_a_language_contradict_neither_each_other_nor_themselves(code):
    language = LANGUAGES[code]
    words = [*map(strip_accents, " ".join([language.function, language.links, language.joins]).split())]
    assert sorted(words) == sorted(language.word_kinds) == sorted(map(str.lower, words))
    assert all(get_reader(language)(word) == ((), kind) for word, kind in language.word_kinds.items())
    assert len(language.abnormal) == len(set(language.abnormal.tolist()))
    assert bool(len(language.abnormal)) == bool(language.kinds) == language.is_spaced
    # A singular stays as it is, or becomes what its plural becomes.
    for ending, other in language.endings.items():
        assert language.to_singular(f"metamorf{ending}") == language.to_singular(f"metamorf{other}")


@pytest.mark.parametrize("code", [*OTHERS, "pl"])
@pytest.mark.parametrize("text, name", ENGLISH_FORMS)
def test_no_english_form_is_one_in_another_language(code, text, name):
    assert (text, name) in find("ENG", [name], text)
    assert (text, name) not in find(code, [name], text)
    names = build_in(code, [name]).names["name"]
    assert NameTable.build(names, get_language(code)).find_whole([text]).tolist() == [-1]


def test_the_language_is_that_of_the_pipeline_or_of_most_names():
    names = build_in("SPA", ["uno", "dos"]).names["language"]
    assert find_language(names) is LANGUAGES["SPA"] is LANGUAGES["es"]
    assert find_language(names[:0]) is ENGLISH is LANGUAGES["en"]
    assert find_language(build_in("", ["one"]).names["language"]) is UNKNOWN
    mixed = names.append(build_in("ENG", ["one", "two", "three"]).names["language"])
    assert find_language(mixed) is find_language(mixed, "xx") is find_language(names, "en") is ENGLISH
    assert find_language(mixed, "es") is LANGUAGES["SPA"] and find_language(mixed, "pl") is UNKNOWN


# A name that is an English word, and a common one or not: what a text in another language says is that, too.
def test_english_names_beside_others_are_as_probable_as_in_english():
    builder = TerminologyBuilder()
    words = ["hat", "person", "seizure", "men", "multiple endocrine neoplasia"]
    for number, word in enumerate(words):
        builder.add_name(f"C{min(number, 3)}", word, language="ENG")
        builder.add_name(f"D{number}", f"{word}o", language="SPA")
    terminology = builder.build()
    english, spanish = (BagTable.of(terminology, get_language(code)) for code in ("en", "es"))
    for row, name in enumerate(terminology.names["name"]):
        assert name not in words or spanish.trust[row] == english.trust[row]
    named = terminology.names["name"].to_list()
    assert spanish.trust[named.index("hat")] < spanish.trust[named.index("hato")]
    assert [named[row] for row in spanish.acronyms] == ["men"]


def test_no_english_list_is_for_names_in_another_language():
    # "Defect" and "malformation" are one class, "hypertensive" is hypertension, and "renal" the kidney's, in English.
    for name, text in [("defect heart", "heart malformation"), ("Hypertension", "hypertensive"), ("of heart", "heart")]:
        assert find("CZE", [name, "heart of heart"], text) == set() != find("ENG", [name], text)
