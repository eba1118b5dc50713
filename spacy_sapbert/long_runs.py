"""Texts that spaCy's tokenizer would take minutes for.

It splits what stands between white space piece by piece, and looks at the whole rest after each piece: 100,000 opening
brackets take many minutes.
"""

import re

# The longest that passes by default. Text of 100,000 characters in runs of this length takes seconds.
MAX_RUN = 500
# White space, and letters of scripts without spaces: Han, kana, Thai, Lao, Tibetan, Burmese, Khmer.
_END = re.compile(
    r"[\s々〇\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u103f\u1050-\u109f"
    r"\u1780-\u17d3]+"
)


def measure_run(text: str) -> int:
    """Measure the longest run of characters without white space or a letter of a script without spaces."""
    # Colons count up to the next white space, because the search for addresses (user:password@host) starts at each.
    colons = max((stretch.count(":") for stretch in text.split()), default=0)
    return max(colons, *map(len, _END.split(text)))
