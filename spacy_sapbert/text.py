"""One form of names and mentions, however they were typed or copied; one writing; and the normal forms of words. Normal
forms are for features and look-ups, not for display: where several are possible, all become the same one."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import chain, filterfalse
from pathlib import Path

# The id of a mention that names no concept.
NIL = "NIL"
# Stands between several ids of one mention.
ID_SEPARATOR = "|"
# Words whose normal form is cached.
CACHED = 1 << 16

# Format characters with a shape of their own (number signs, the end of a verse) or that arrange hieroglyphs.
_VISIBLE = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")
# The zero-width non-joiner and joiner. In these blocks, from Arabic to Mongolian, they change the shape of words.
_JOINERS = "\u200c\u200d"
_JOINING = re.compile(
    "[\u0600-\u0dff\u1000-\u109f\u1700-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010d00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
_LIGATURES = {ord(sign): unicodedata.normalize("NFKC", sign) for sign in "ﬀﬁﬂﬃﬄﬅﬆ"}


def normalize_name(text: str) -> str:
    """Normalize white space, invisible characters and composed letters of a name or a mention. White space becomes
    single spaces, with none around the text. Control characters (category Cc) and invisible format characters (Cf),
    such as soft hyphens and marks of direction, are removed. A zero-width joiner or non-joiner stays after a letter of
    a script in which it changes the shape of words. Ligatures of "f", which come from PDFs, become letters. The result
    is in Unicode's normal form C."""
    text = " ".join(text.split())
    # Control and format characters are not printable. Nearly all texts have neither.
    if not text.isprintable():
        text = " ".join(_remove_invisible(text).split())
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_LIGATURES))


def _remove_invisible(text: str) -> str:
    kept = []
    may_join = False
    for character in text:
        if character in _JOINERS:
            if may_join:
                kept.append(character)
            may_join = False
            continue
        if unicodedata.category(character) in ("Cc", "Cf") and not _VISIBLE.match(character):
            continue
        # Combining marks may stand between a letter and its joiner, in an order that normal form C changes.
        if not unicodedata.combining(character):
            may_join = _JOINING.match(character) is not None
        kept.append(character)
    return "".join(kept)


# The English names of the Greek letters from α to ω, in Unicode's order, which has the final sigma before sigma.
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon "
    "phi chi psi omega"
).split()
_GREEK = {chr(ord("α") + place): name for place, name in enumerate(_GREEK_NAMES)}
_GREEK |= {letter.upper(): name.capitalize() for letter, name in _GREEK.items()}
_FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
# What normal form KC would damage (an acute accent becomes a space with a mark) or leaves as it is.
_WRITING = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−⁃˗﹘﹣－", "-"),
        **dict.fromkeys("‘’‚‛ʼʹˈ´`′", "'"),
        **dict.fromkeys("“”„‟«»″ʺ", '"'),
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("™℠®©", " "),
        **{fraction: f" {unicodedata.normalize('NFKC', fraction)}" for fraction in _FRACTIONS},
        **{"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"},
        **{"ı": "i", "∆": "Δ", "º": "°", "ɑ": "α"},
    }
)
# Exponents, which would become digits of the number before them.
_EXPONENT = re.compile("(?<=[0-9])([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)")
_MICRO = re.compile(r"μ(?=(?:g|l|L|m|M|s|mol|kat|Ci|Gy|Sv|V|A)\b)")
# German has an eszett only after small letters.
_BETA = re.compile("(?<![a-zà-öø-ÿ])ß")
# Cyrillic letters, and the omicron, that look like Latin ones. Words have them from copying and from reading images.
_ALIKE = str.maketrans("аеорсухіјѕһԁԛԝАВЕКМНОРСТХУІЈЅοΟ", "aeopcyxijshdqwABEKMHOPCTXYIJSoO")
_ALIKE_LETTER = f"[{''.join(map(chr, _ALIKE))}]"
_MIXED = re.compile(rf"[^\W\d_]*(?:[A-Za-z]{_ALIKE_LETTER}|{_ALIKE_LETTER}[A-Za-z])[^\W\d_]*")
_CYRILLIC = re.compile("[\u0400-\u052f]")
# Letters, and marks upon them, of all scripts except Latin.
_OTHER_LETTER = "[\u0370-\u1dff\u1f00-\u1fff\u2c00-\U0010ffff]"
_LATIN = "LATIN"
# Scripts whose characters are words, and what other scripts' names of letters do not begin with.
_WHOLE = ("CJK", "IDEOGRAPHIC", _LATIN, "")
# Of a vocabulary's tokens of several letters, in a script whose words it knows. Bases for many languages have more.
_LEAST_SHARE = 1 / 500
_GREEK_WORD = re.compile("[\u0370-\u03ff\u1f00-\u1fff]{3}")
_GREEK_LETTER = re.compile(f"[{''.join(_GREEK)}]")


def list_letters(tokens: Mapping[str, int]) -> frozenset[int]:
    """List tokens of scripts in which a vocabulary spells words letter by letter. Letters say nothing of a word's
    meaning, except in Chinese. Vocabularies learn them from symbols, and from a few names in other languages.

    tokens (Mapping[str, int]): The vocabulary's tokens and their ids.
    RETURNS (frozenset[int]): The ids of the tokens in these scripts.
    """
    # Compiled here, because it takes long, and spaCy imports this module whenever it makes a pipeline.
    other_letter = re.compile(_OTHER_LETTER)
    by_script: dict[str, list[int]] = defaultdict(list)
    # Nearly all tokens of most vocabularies are ASCII.
    others = [(token, id_) for token, id_ in tokens.items() if not token.isascii()]
    longer = Counter({_LATIN: sum(len(token.strip("#")) > 1 for token in tokens if token.isascii())})
    for token, id_ in others:
        letter = other_letter.search(token)
        # A letter's name begins with its script: "GREEK SMALL LETTER ALPHA".
        script = re.split("[ -]", unicodedata.name(letter[0], ""))[0] if letter else _LATIN
        by_script[script].append(id_)
        # Words may begin with a mark.
        longer[script] += len(token.strip("▁#")) > 1
    least = _LEAST_SHARE * longer.total()
    spelt = (ids for script, ids in by_script.items() if script not in _WHOLE and longer[script] < least)
    return frozenset(chain.from_iterable(spelt))


def normalize_writing(text: str) -> str:
    """Unify characters that names are written with in several ways. ASCII text stays as it is.

    Dashes, quotes, primes and slashes become those of ASCII; ligatures become two letters, and letters with a stroke
    lose it. Cyrillic letters that look like Latin ones are these in a word that is Latin otherwise. Compatibility
    forms, such as full-width letters, subscripts and Roman numerals in one character, become ordinary ones, except
    exponents of numbers. Greek letters become their names, as words of their own, unless the text has Greek words. The
    micro sign of a unit becomes "u", and an eszett that stands for beta becomes "beta".

    text (str): The text.
    RETURNS (str): The text in its unified form. Where anything but ASCII was in it, it has single spaces.
    """
    if text.isascii():
        return text
    parts = _EXPONENT.split(_MIXED.sub(_write_latin, text.translate(_WRITING)))
    # Every second part is an exponent. Normal form KC has dashes and slashes of its own.
    parts[::2] = [unicodedata.normalize("NFKC", part).translate(_WRITING) for part in parts[::2]]
    text = _MICRO.sub("u", "".join(parts))
    if not _GREEK_WORD.search(text):
        text = _GREEK_LETTER.sub(_name_letter, _BETA.sub("β", text))
    return " ".join(text.split())


def _write_latin(found: re.Match[str]) -> str:
    latin = found[0].translate(_ALIKE)
    return found[0] if _CYRILLIC.search(latin) else latin


def _name_letter(found: re.Match[str]) -> str:
    # Apart from letters and digits before it and from letters behind it.
    text, start, end = found.string, found.start(), found.end()
    before = " " if text[start - 1 : start].isalnum() else ""
    after = " " if text[end : end + 1].isalpha() else ""
    return before + _GREEK[found[0]] + after


# "&eacute;", also escaped twice, with the "s" of "Crohn&#39;s"; and the plural of "seizure(s)".
HTML_ENTITY = re.compile(r"&(?:amp;)*(#?[0-9A-Za-z]{1,31});(s\b)?")
_PLURAL = re.compile(r"\((?<=[^\W\d_]\()(?:s|es|ies)\)")
# The number of a note behind a word.
_NOTE = re.compile("(?<=[^\\W\\d_A-Z]{3})[¹²³⁰⁴-⁹]+(?!\\w)")
# It is not seen, and parts no words.
_FILLER = "\u2060"


def write_plainly(text: str) -> str:
    """Replace HTML entities by their characters, and take plurals in brackets and numbers of notes from their words:
    "seizure(s)", "seizure²". Nothing moves, because invisible characters or spaces fill the places."""
    if "&" in text:
        text = HTML_ENTITY.sub(_unescape, text)
    if not text.isascii():
        text = _NOTE.sub(lambda note: _FILLER * len(note[0]), text)
    return _PLURAL.sub(lambda plural: _FILLER * len(plural[0]), text) if "s)" in text else text


def _unescape(found: re.Match[str]) -> str:
    character, ending = html.unescape(f"&{found[1]};"), found[2] or ""
    if len(character) != 1:
        return found[0]
    n_filled = len(found[0]) - 1 - len(ending)
    # A possessive has nothing between the apostrophe and the "s".
    if ending and character in "'’":
        return _FILLER * n_filled + character + ending
    is_inside = character.isalnum() or character in "-‐‑–"
    return character + (_FILLER if is_inside else " ") * n_filled + ending


def is_written_alike(first: str, second: str) -> bool:
    """Check if two strings differ only in white space, capitals, accents and the writing of characters: "TNF-α" is also
    written as "TNF-a" or "TNF-alpha"."""
    return not _list_writings(first).isdisjoint(_list_writings(second))


def _list_writings(text: str) -> set[str]:
    text = "".join(filterfalse(unicodedata.combining, unicodedata.normalize("NFD", normalize_name(text))))
    ways = text, _GREEK_LETTER.sub(lambda letter: _GREEK[letter[0]][0], text)
    return {"".join(normalize_writing(way).split()).casefold() for way in ways} - {""}


# Where marks are: not among Han characters and Korean syllables, through which a search would take long.
_MARKED = range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xF900, 0x10000)


@cache
def list_marks() -> str:
    """List vowel signs, tones and accents that stand behind their letters. For Python's `re`, no word has them."""
    others = "".join(map(chr, chain.from_iterable(_MARKED)))
    return "".join(mark for mark in re.findall(r"\W", others) if unicodedata.category(mark)[0] == "M")


# Compiled at first use, as is `_list_british`, because spaCy imports this module whenever it makes a pipeline.
@cache
def _get_word() -> re.Pattern[str]:
    return re.compile(rf"[^\W_]+(?:[{list_marks()}]+[^\W_]*)*(?:'s(?![^\W_]))?")


# English words that only seem to be plurals; plurals without a rule; endings of plurals and of their singulars, where
# the first that fits counts; and patterns of British spellings.
_FORMS = json.loads(Path(__file__).with_name("word_forms.json").read_text(encoding="utf8"))
_SINGULAR = frozenset(_FORMS["singular"].split())
_PLURALS: dict[str, str] = _FORMS["plurals"]
_ENDINGS: dict[str, str] = _FORMS["plural_endings"]
_LAST_LETTERS = frozenset(ending[-1] for ending in _ENDINGS)
# But for the tilde of "ñ", which makes another letter: "año" is not "ano".
_ACCENTS = re.compile("(?<=[a-z])(?!(?<=n)\u0303)[\u0300-\u036f]+")
# Nearly all words have none of these, and are not looked at any further.
_MAYBE_BRITISH = re.compile("ae|oe|our|re|is[aei]|leuc|lyse|sulph|alumin")
_NUMERAL = re.compile("(x{0,3})(ix|iv|v?i{0,3})([a-c]?)")
# A single letter is a numeral only after one of these.
_NUMBERED = frozenset(
    "class degree factor grade group level phase stage type clase estadio fase grado grupo tipo classe degré facteur "
    "groupe stade grau gruppo stadio faktor grad gruppe klasse phase stadium typ graad groep stupeň evre tip".split()
)
NUMERALS_AFTER_WORDS = frozenset(numeral + letter for numeral in "ivx" for letter in ("", *"abc"))


def normal_words(text: str, before: str = "", *, english_forms: bool = True) -> tuple[str, ...]:
    """Return the normal forms of a string's words: small letters, no accents on Latin ones, no possessive, singular,
    American, Arabic numerals, simplified Chinese.

    text (str): A name or a mention.
    before (str): The word before it, by which "i", "v" and "x" are numerals or not.
    english_forms (bool): Whether words become singular and American.
    RETURNS (tuple[str, ...]): The words, in their order; without punctuation.
    """
    if not text.isascii():
        # Before the writing, which knows composed letters only.
        text = normalize_writing(normalize_name(text))
    # Most texts are a word, whose search would take as long as the rest.
    words = [text.lower()] if text.isascii() and text.isalpha() else _get_word().findall(text.casefold())
    normal = map(_normalize if english_forms else _normalize_other, words)
    if NUMERALS_AFTER_WORDS.isdisjoint(words):
        return tuple(normal)
    return tuple(to_arabic(word, last) for word, last in zip(normal, [before.lower(), *words], strict=False))


@lru_cache(CACHED)
def _normalize(word: str) -> str:
    return to_arabic(to_singular(to_american(strip_accents(word).removesuffix("'s"))))


@lru_cache(CACHED)
def _normalize_other(word: str) -> str:
    return to_arabic(strip_accents(word).removesuffix("'s"))


def strip_accents(word: str) -> str:
    """Take the accents from Latin letters, and simplify Chinese ones."""
    if word.isascii():
        return word
    word = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word)))
    return simplify_chinese(word)


def simplify_chinese(text: str) -> str:
    """Replace traditional Chinese characters by simplified ones."""
    return text.translate(_read_simplified())


@cache
def _read_simplified() -> dict[int, int]:
    lines = Path(__file__).with_name("simplified_chinese.txt").read_text(encoding="utf8").splitlines()
    traditional, simplified = (line for line in lines if line[0] != "#")
    return str.maketrans(traditional, simplified)


def to_singular(word: str) -> str:
    """Return the singular of a word in small letters, by its ending; the word itself if it has none of a plural."""
    if word in _SINGULAR or word in _PLURALS or len(word) < 4:
        return _PLURALS.get(word, word)
    if word[-1] not in _LAST_LETTERS:
        return word
    for ending, singular in _ENDINGS.items():
        if word.endswith(ending):
            return word[: -len(ending)] + singular
    return word


def to_american(word: str) -> str:
    """Return the American spelling of a word in small letters: "edema" for "oedema", "tumor" for "tumour"."""
    if not _MAYBE_BRITISH.search(word):
        return word
    for british, american in _list_british():
        word = british.sub(american, word)
    return word


@cache
def _list_british() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(british), american) for british, american in _FORMS["british"].items()]


def to_arabic(word: str, before: str = "") -> str:
    """Return a Roman numeral up to 39, with a letter from a to c behind it or not, in digits: "2b" for "iib". "i", "v"
    and "x" are numerals only if the word before them is such as "type"."""
    found = _NUMERAL.fullmatch(word) if word[:1] in ("i", "v", "x") else None
    if found is None or not found[1] + found[2] or (len(found[1] + found[2]) == 1 and before not in _NUMBERED):
        return word
    tens, ones, letter = found.groups()
    value = {"ix": 9, "iv": 4}.get(ones, 5 * ones.count("v") + ones.count("i"))
    return f"{10 * len(tens) + value}{letter}"


# Programs for tables take a cell that begins with one of these for a formula. With the mark before it, it is text.
FORMULA, MARK = tuple("=+-@\t\r'"), "'"


def escape_formula(cell: str) -> str:
    """Mark a cell that looks like a formula, or has the mark already, as text."""
    return MARK + cell if cell.startswith(FORMULA) else cell


# The longest run of characters that passes by default. spaCy's tokenizer splits what stands between white space piece
# by piece, and looks at the whole rest after each piece: 100,000 opening brackets take many minutes. Text of 100,000
# characters in runs of this length takes seconds.
MAX_RUN = 500
# White space, and letters of scripts without spaces: Han, kana, Thai, Lao, Tibetan, Burmese, Khmer.
_RUN_END = (
    r"[\s々〇\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u103f\u1050-\u109f"
    r"\u1780-\u17d3]+"
)


def measure_run(text: str) -> int:
    """Measure the longest run of characters without white space or a letter of a script without spaces."""
    # Colons count up to the next white space, because the search for addresses (user:password@host) starts at each.
    colons = max((stretch.count(":") for stretch in text.split()), default=0)
    return max(colons, *map(len, re.split(_RUN_END, text)))
