"""Strange strings, made from a seed."""

from __future__ import annotations

import random
import unicodedata

from inputs import WORDS, make_name

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u200e\u200f\u202a\u202b\u202e\u2066\u2069\u180e\ufe0f\U000e0061"
SPACES = " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"
SCRIPTS = ((0x5D0, 0x5EA), (0x621, 0x64A), (0x900, 0x97F), (0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0x1F300, 0x1F9FF))
MARKS = "\u0301\u0308\u0327\u0323\u20dd\u1ab0"
LOOKALIKES = str.maketrans("aeopcxi", "\u0430\u0435\u043e\u0440\u0441\u0445\u0456")


def make_string(rng: random.Random) -> str:
    """Make a string without lone surrogates, which no text of spaCy can hold.

    rng (Random): The source of chance.
    RETURNS (str): The string.
    """
    kind = rng.choice(KINDS)
    return kind(rng)


def make_surrogates(rng: random.Random) -> str:
    """Make a string with a lone surrogate.

    rng (Random): The source of chance.
    RETURNS (str): The string, which cannot be encoded in UTF-8.
    """
    return rng.choice(("", "cold ", "\u05d0")) + chr(rng.randint(0xD800, 0xDFFF)) + rng.choice(("", " cold", "x"))


def _any_plane(rng: random.Random) -> str:
    found = (rng.randint(0, 0x10FFFF) for _ in range(rng.randint(1, 30)))
    return "".join(chr(point) for point in found if not 0xD800 <= point <= 0xDFFF)


def _low(rng: random.Random) -> str:
    return "".join(chr(rng.randint(0, 0x2FF)) for _ in range(rng.randint(1, 20)))


def _script(rng: random.Random) -> str:
    first, last = rng.choice(SCRIPTS)
    words = ["".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 8))) for _ in range(rng.randint(1, 4))]
    return " ".join([*words, *rng.choices(WORDS, k=rng.randint(0, 2))])


def _sprinkled(rng: random.Random) -> str:
    return "".join(c + (rng.choice(INVISIBLE) if rng.random() < 0.3 else "") for c in make_name(rng))


def _accented(rng: random.Random) -> str:
    name = "".join(c + (rng.choice(MARKS) if rng.random() < 0.3 else "") for c in make_name(rng))
    return unicodedata.normalize(rng.choice(("NFC", "NFD", "NFKC")), name)


def _lookalike(rng: random.Random) -> str:
    return make_name(rng).translate(LOOKALIKES)


def _misspelt(rng: random.Random) -> str:
    name = list(make_name(rng))
    place = rng.randrange(len(name))
    name[place : place + rng.randint(0, 2)] = rng.choice(("", "x", "-", "(", "|", "\x00"))
    return "".join(name)


def _spaces(rng: random.Random) -> str:
    return "".join(rng.choices(SPACES, k=rng.randint(0, 6))) + rng.choice(("", "", make_name(rng)))


def _marks(rng: random.Random) -> str:
    return "".join(rng.choices("()[]{}<>|&;:'\"/\\%$#@!?*+-=_~^`.,", k=rng.randint(1, 12))) + rng.choice(("", "a", "7"))


def _long(rng: random.Random) -> str:
    # spaCy's tokenizer takes seconds for thousands of brackets or emoji in a row.
    if rng.random() < 0.3:
        return rng.choice(("(", "\U0001f600")) * rng.choice((50, 500, 1001))
    return rng.choice(("a", "cold ", "\u0301", "\u05d0")) * rng.choice((50, 200, 999, 1001, 20_000))


def _nested(rng: random.Random) -> str:
    name = make_name(rng)
    short = "".join(word[0] for word in name.split()).upper()
    return rng.choice((f"{name} ({short})", f"{short} ({name})", f"({name} ({short}))", f"{short} {short}"))


KINDS = (
    *(_any_plane, _any_plane, _low, _script, _sprinkled, _accented, _lookalike, _misspelt, _misspelt, _spaces, _marks),
    *(_nested, make_name, make_name),
)
LONG = 100


def make_strings(n: int, seed: int) -> list[str]:
    """Make strings of all kinds, some of them equal.

    n (int): How many.
    seed (int): The seed.
    RETURNS (list[str]): The strings.
    """
    rng = random.Random(seed)
    return ["", *(_long(rng) if number % LONG == 0 else make_string(rng) for number in range(n - 1))]
