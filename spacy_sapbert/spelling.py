"""The normal form of words, by which names and mentions that are spelt in different ways can be compared.

It is for features and look-ups, not for display: where several forms are possible, all become the same one.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from .normalization import normalize_name, normalize_writing

# Words whose normal form is cached.
CACHED = 1 << 16
# Vowel signs, tones and accents that stand behind their letters. For Python's `re`, they are no part of words.
MARKS = "".join(filter(lambda character: unicodedata.category(character)[0] == "M", map(chr, range(0x300, 0x10000))))
_WORD = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*(?:'s(?![^\W_]))?")

# Words that end like plurals and are none.
_SINGULAR = frozenset(
    "aids alias ascites asbestos atlas bias biceps caries chaos cosmos cutis diabetes facies faeces feces forceps "
    "herpes hives kudos lens measles menses mumps news pancreas pathos pertussis pes physics rabies rickets "
    "scabies series shingles species tabes triceps yaws".split()
)
_PLURALS = {
    **{"bacteria": "bacterium", "septa": "septum", "atria": "atrium", "diverticula": "diverticulum", "ova": "ovum"},
    **{"testes": "testis", "crises": "crisis", "nares": "naris", "axes": "axis", "doses": "dose", "noses": "nose"},
    **{"cortices": "cortex", "indices": "index", "appendices": "appendix", "varices": "varix", "matrices": "matrix"},
    **{"feet": "foot", "teeth": "tooth", "children": "child", "women": "woman", "men": "man", "abuses": "abuse"},
    **{"fungi": "fungus", "emboli": "embolus", "thrombi": "thrombus", "nuclei": "nucleus", "bronchi": "bronchus"},
    **{"phalanges": "phalanx", "larynges": "larynx", "pharynges": "pharynx"},
    **{"foci": "focus", "calculi": "calculus", "bacilli": "bacillus", "cocci": "coccus", "nevi": "nevus"},
}
# Endings of plurals and of their singulars; the first that fits counts.
_ENDINGS = (
    ("aches", "ache"),
    ("mata", "ma"),
    ("brae", "bra"),
    ("ulae", "ula"),
    ("llae", "lla"),
    ("iae", "ia"),
    ("oses", "osis"),
    ("stases", "stasis"),
    ("theses", "thesis"),
    ("lyses", "lysis"),
    ("plegiae", "plegia"),
    ("auses", "ause"),
    ("uses", "us"),
    ("sses", "ss"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ies", "y"),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
)
_BRITISH = (
    (re.compile("haem"), "hem"),
    (re.compile("aemi(?=[ac]|$)"), "emi"),
    (re.compile("(?<=[nlrchgdkptv])aem"), "em"),
    (re.compile("oedem"), "edem"),
    (re.compile("oesoph"), "esoph"),
    (re.compile("oestr"), "estr"),
    (re.compile("(?<=rrh|.pn)oe(?=a|ic)"), "e"),
    (re.compile("foet(?=al|us|o)"), "fet"),
    (re.compile("coelia"), "celia"),
    (re.compile("(?<=[pc])aed(?=i|o)"), "ed"),
    (re.compile("gynaec"), "gynec"),
    (re.compile("an?aesth"), "anesth"),
    (re.compile("(?<=[fc])aec"), "ec"),
    (re.compile("aetio"), "etio"),
    (re.compile("sulph"), "sulf"),
    (re.compile("(?<=[abdilmv])our(?=s?$|al|ed|less)"), "or"),
    (re.compile("(?<=[bt])re(?=s?$)"), "er"),
    (re.compile("(?<=[clmnrt])is(?=ation|ed$|ing$)"), "iz"),
    (re.compile("lyse(?=[ds]?$)"), "lyze"),
    (re.compile("aluminium"), "aluminum"),
)
# Nearly all words have none of these, and are not looked at any further.
_MAYBE_BRITISH = re.compile("ae|oe|our|re|is[aei]|lyse|sulph|alumin")
_NUMERAL = re.compile("(x{0,3})(ix|iv|v?i{0,3})([a-c]?)")
# A single letter is a numeral only after one of these.
_NUMBERED = frozenset("class degree factor grade group level phase stage type".split())
NUMERALS_AFTER_WORDS = frozenset(numeral + letter for numeral in "ivx" for letter in ("", *"abc"))


def normal_words(text: str, before: str = "") -> tuple[str, ...]:
    """Return the normal forms of a string's words: small letters, no possessive, singular, American, Arabic numerals.

    text (str): A name or a mention.
    before (str): The word before it, by which "i", "v" and "x" are numerals or not.
    RETURNS (tuple[str, ...]): The words, in their order; without punctuation.
    """
    if not text.isascii():
        # Before the writing, which knows composed letters only.
        text = normalize_writing(normalize_name(text))
    words = _WORD.findall(text.casefold())
    normal = map(_normalize, words)
    if NUMERALS_AFTER_WORDS.isdisjoint(words):
        return tuple(normal)
    return tuple(to_arabic(word, last) for word, last in zip(normal, [before.lower(), *words], strict=False))


@lru_cache(CACHED)
def _normalize(word: str) -> str:
    word = to_singular(to_american(word.removesuffix("'s")))
    return to_arabic(word) if word[:1] in ("i", "v", "x") else word


def to_singular(word: str) -> str:
    """Return the singular of a word, by its ending.

    word (str): A word in small letters.
    RETURNS (str): The singular; the word itself if it has no ending of a plural.
    """
    if word in _SINGULAR or word in _PLURALS or len(word) < 4:
        return _PLURALS.get(word, word)
    for ending, singular in _ENDINGS:
        if word.endswith(ending):
            return word[: -len(ending)] + singular
    return word


def to_american(word: str) -> str:
    """Return the American spelling of a word.

    word (str): A word in small letters.
    RETURNS (str): The spelling: "edema" for "oedema", "tumor" for "tumour".
    """
    if not _MAYBE_BRITISH.search(word):
        return word
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return word


def to_arabic(word: str, before: str = "") -> str:
    """Return a Roman numeral up to 39, with a letter from a to c behind it or not, in Arabic digits.

    word (str): A word in small letters.
    before (str): The word before it; "i", "v" and "x" are numerals only after words such as "type".
    RETURNS (str): The number: "2b" for "iib"; the word itself if it is no numeral.
    """
    found = _NUMERAL.fullmatch(word)
    if found is None or not found[1] + found[2] or (len(found[1] + found[2]) == 1 and before not in _NUMBERED):
        return word
    tens, ones, letter = found.groups()
    value = {"ix": 9, "iv": 4}.get(ones, 5 * ones.count("v") + ones.count("i"))
    return f"{10 * len(tens) + value}{letter}"
