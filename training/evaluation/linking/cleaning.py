"""Names and mentions as BioSyn writes them: lower case, no punctuation, one row for each name; and names as CODER's."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping

from ...data.corpus_files import EQUAL_IDS

# The corrections of NCBI disease in BioSyn (preprocess/resources/ncbi-spell-check.txt), with its errors.
NCBI_SPELLING = {
    "abcess": "abscess",
    "abdominla": "abdominal",
    "adomen": "abdomen",
    "arrrest": "arrest",
    "atelctasis": "atelectasis",
    "atrialfibrillation": "atrial fibrillation",
    "bactermia": "bacteremia",
    "cerebeller": "cerebellar",
    "cirrohsis": "cirrhosis",
    "collectionan": "collection",
    "congenitcal": "congenital",
    "conolidation": "consolidation",
    "delerium": "delirium",
    "dispress": "distress",
    "dysarthira": "dysarthria",
    "edamatous": "edematous",
    "fist": "first",
    "forhead": "forehead",
    "hemmorhage": "haemorrhage",
    "hemorrhage": "haemorrhage",
    "hepatosplenomegally": "hepatosplenomegaly",
    "hernation": "herniation",
    "hyperpigementation": "hyperpigmentation",
    "illeus": "ileus",
    "le": "leg",
    "leukaemia": "leukemia",
    "occlussion": "occlusion",
    "parasthesias": "paresthesias",
    "pneumococcl": "pneumococcal",
    "pnuemonia": "pneumonia",
    "processess": "processes",
    "smallbowel": "small bowel",
    "sytem": "system",
    "three": "triple",
    "tumour": "tumor",
    "tumours": "tumors",
    "withdrawel": "withdrawal",
}

_BRACKETS = re.compile(r"\(.*?\)")
_NOT_WORDS = re.compile(rf"[{re.escape(string.punctuation)}\s]+")


def correct_spelling(text: str, spelling: Mapping[str, str]) -> str:
    """Correct words between spaces; those beside punctuation are not found.

    text (str): The text, in lower case.
    spelling (Mapping[str, str]): Corrections of whole words.
    RETURNS (str): The text, with single spaces.
    """
    return " ".join(spelling.get(word, word) for word in text.split())


def clean(text: str) -> str:
    """Lower-case text, and put one space in place of punctuation (that of ASCII) and of spaces.

    text (str): A name or a mention.
    RETURNS (str): The text; empty if there is nothing but punctuation.
    """
    return _NOT_WORDS.sub(" ", text.lower()).strip()


def group_by_name(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give each name one row, with the ids of all concepts that have this name.

    rows (Iterable[tuple[str, str]]): Ids, with "|" between equal ones, and names.
    RETURNS (dict[str, str]): The ids of each name, with "|" between them, both in the order in which they come.
    """
    grouped: dict[str, dict[str, None]] = {}
    for joined, name in rows:
        grouped.setdefault(name, {}).update(dict.fromkeys(joined.split(EQUAL_IDS)))
    return {name: EQUAL_IDS.join(ids) for name, ids in grouped.items()}


def make_plain(name: str) -> str:
    """Write a name as CODER does: lower-cased, without "NOS" and what stands in brackets, with hyphens as spaces.

    name (str): The name.
    RETURNS (str): The name, with single spaces; empty if nothing is left.
    """
    # In the order of the released code.
    text = _BRACKETS.sub("", f" {name.lower()} ".replace(" nos ", " "))
    return " ".join(text.replace("-", " ").split())
