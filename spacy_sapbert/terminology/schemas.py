"""The tables of a terminology: what their columns hold, and the files that they are saved in."""

from __future__ import annotations

import numpy as np

TEXT, OPTIONAL_TEXT, FEW_TEXTS, LISTS, FEW_LISTS = "text", "optional text", "few texts", "lists", "few lists"
NUMBER, FLAG = "number", "flag"
Schema = dict[str, str]

CONCEPTS: Schema = {
    "id": TEXT,
    "canonical_name": TEXT,
    "types": FEW_LISTS,
    "definition": OPTIONAL_TEXT,
    "codes": LISTS,
    "parents": LISTS,
}
NAMES: Schema = {
    "name": TEXT,
    "concept": NUMBER,
    "language": FEW_TEXTS,
    "source": FEW_TEXTS,
    "term_type": FEW_TEXTS,
    "preferred": FLAG,
}
# Ids that no concept has any longer, the concept that took an id's place (which may be retired too), and concepts that
# a reader should consider instead.
RETIRED: Schema = {"id": TEXT, "replaced_by": OPTIONAL_TEXT, "consider": LISTS}
# Relations between concepts, by their rows: the head has the relation to the tail, as "tradename_of".
RELATIONS: Schema = {"head": NUMBER, "label": FEW_TEXTS, "tail": NUMBER}
FILES = {"concepts.bin": CONCEPTS, "names.bin": NAMES, "retired.bin": RETIRED, "relations.bin": RELATIONS}
# The files of tables that are only saved if they have rows.
OPTIONAL = ("relations.bin",)
# The key of a name: a concept has each name once in each language.
NAME_KEY = ("concept", "name", "language")
# What the lists of a column hold.
CHILDREN = {LISTS: TEXT, FEW_LISTS: FEW_TEXTS}
DTYPES = {NUMBER: np.uint32, FLAG: np.bool_}
