"""Link labels, such as a column of a table. Labels have habits that mentions in texts do not have, such as codes, "NOS"
and "Other ..."."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import polars as pl
from spacy.language import Language
from spacy.util import minibatch

from ..candidates import MAX_LENGTH, Candidate
from ..context.labels import LabelContext, read_label_context
from ..errors import NO_LIST
from ..files import write_whole
from ..lexicon.initialisms import is_initialism
from ..lexicon.languages import LANGUAGES, get_language, join_phrases
from ..lexicon.languages import Language as LabelLanguage
from ..linker import SapbertLinker
from ..progress import show_progress
from ..sharing import Decider, LinkerUser
from ..terminology.codes import LESSER_SCOPES
from ..terminology.table import Terminology
from ..text import NIL, escape_formula, normalize_name, write_plainly
from .checking import LabelTable, get_linker

if TYPE_CHECKING:
    import pandas as pd

# Labels that are linked together.
AT_ONCE = 2048
COLUMNS = (
    "linked_id",
    "linked_name",
    "linked_match",
    "linked_score",
    "linked_how",
    "linked_note",
    "linked_others",
    "linked_context",
)
ADDED_TEXTS = [name for name in COLUMNS if name != "linked_score"]
REPAIRED = "characters repaired"
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")

# UTF-8 that was read as Latin-1 or Windows-1252 gives letters of European languages, and such signs. Anything else is
# chance: "CAFÉ’S" could also be UTF-8.
_REPAIRED_TO = re.compile("[\0-\u017f\u0391-\u03c9\u2010-\u2044\u2122]*")
# Codes that are known by their form: CURIEs, CUIs, those of MeSH, ATC, ICD with a full stop or a range, long numbers.
_CODE = (
    r"[A-Za-z][\w.-]*[:_]\w*\d[\w.-]*|[CD]\d{6,9}|[A-Z]\d\d[A-Z]{2}\d\d|\d{6,18}|\d{3}\.\d{1,2}|"
    r"[A-Z]\d[0-9A-Z](?:\.\w{1,4}|(?:\.\w{1,4})?[-–][A-Z]\d[0-9A-Z](?:\.\w{1,4})?)"
)
# Those of ICD without either look like "B12", and are codes only if brackets or a dash set them off.
_SHORT = r"[A-Z]\d[0-9AB]"


def _join(name: str) -> str:
    """Write an expression of what all languages have in a list, since nobody says in which one a label is."""
    lists = (getattr(language, name) for language in dict.fromkeys(LANGUAGES.values()))
    return join_phrases(chain.from_iterable(of.split() if isinstance(of, str) else of for of in lists))


# What may be left out, because a label names the same without it.
_LEFT_OUT = [
    re.compile(pattern)
    for pattern in (
        "[\"'“‘„«](?P<rest>.+)[\"'”’“»]",
        rf"[(\[]?(?P<code>{_CODE}|{_SHORT}(?=[)\]|:]|\s+[|–-]))(?:[\s)\]|:–-]+(?P<rest>.*?)\|?)?",
        rf"(?P<rest>.*?)[\s,;:–-]*(?:\s(?P<code>{_CODE})|[(\[|](?P<marked>{_CODE}|{_SHORT})[)\]|]?)",
        # Of Read codes: "[D]", "[X]".
        rf"(?:\[[A-Z]{{1,4}}\]\s*|(?i:{_join('vague_starts')})\s+)(?P<rest>.+)",
        rf"(?P<rest>.*?)[\s,;:(\[–-]+(?i:{_join('vague_ends')})[)\]]?",
        # Semantic tags of SNOMED CT and MONDO.
        rf"(?P<rest>.*\S)\s*\((?:{_join('tags')})\)",
    )
]
# What stands between several names in a cell.
_BETWEEN = re.compile(r"\s*[;|]\s*")
_BRACKETED = re.compile(r"(.*\S)\s*[(\[]([^()\[\]]+)[)\]]")
# What is left of a class when its kinds have been named.
_RESIDUAL = re.compile(
    rf"(?i:.*\b(?:{_join('residual_parts')})\b(?! (?:{_join('comparisons')})\b).*|"
    rf"(?:{_join('residual_starts')})\b.*|{_join('residual_labels')})|.*\b(?:{_join('residual_codes')})\W*"
)


@overload
def link_table(
    nlp: Language,
    table: pl.DataFrame,
    column: str = ...,
    *,
    exact: bool = ...,
    n_candidates: int = ...,
    any_context: bool = ...,
) -> pl.DataFrame: ...
@overload
def link_table(
    nlp: Language,
    table: list[str] | tuple[str, ...],
    column: str = ...,
    *,
    exact: bool = ...,
    n_candidates: int = ...,
    any_context: bool = ...,
) -> list[dict[str, Any]]: ...
@overload
def link_table(
    nlp: Language,
    table: pd.DataFrame,
    column: str = ...,
    *,
    exact: bool = ...,
    n_candidates: int = ...,
    any_context: bool = ...,
) -> pd.DataFrame: ...
def link_table(
    nlp: Language,
    table: Any,
    column: str = "label",
    *,
    exact: bool = False,
    n_candidates: int = 0,
    any_context: bool = False,
) -> Any:
    """Link a column of labels, each distinct one once. The pipeline's reranker decides, if it has one, else the linker.

    A label "Other ..." is linked only to a concept with such a name. Codes, "NOS" and what else adds nothing to a
    label are left out if no name has them, which `linked_note` says. A label that is no name and is about something
    else, such as "family history of diabetes", "screening for HIV" and "no asthma", is not linked; `linked_context`
    says what it is about: "family", "negated", "uncertain", "historical", "hypothetical" or "other".

    `linked_how` is "name", "form of a name" or "vectors"; where nothing is linked "no name", "context", "residual
    class", "empty", or "several concepts": of names with ";" or "|" between them, or in the exact mode of one name.

    nlp (Language): The pipeline, with a linker.
    table (pl.DataFrame | pd.DataFrame | list[str]): A data frame of polars or pandas, or labels.
    column (str): The column of labels.
    exact (bool): Link only labels that are a name of one concept, in any form or with its words from another word on.
    n_candidates (int): How many of the first candidates to list in `linked_others`, which always has all concepts of a
        name; at most the `k` of the component that decides.
    any_context (bool): Link labels that are about something else as well, by the finding that they name.
    RETURNS (pl.DataFrame | pd.DataFrame | list[dict[str, Any]]): The frame with the columns of `COLUMNS` added; for
        labels, a dict for each.
    RAISES (ValueError): If there is no such column, it does not hold text, or the frame has the new columns already.
    RAISES (TypeError): If the table is something else.
    """
    if isinstance(table, (list, tuple)):
        labels = _list_labels(table, column)
        rows = _link_labels(nlp, labels, exact, n_candidates, any_context)
        names = (column, *COLUMNS)
        return [dict(zip(names, (label, *row), strict=True)) for label, row in zip(labels, rows, strict=True)]
    if not hasattr(table, "columns"):
        given = f"{table!r:.80} was given"
        raise TypeError(NO_LIST.format(function="link_table", what="labels, or a data frame", found=given))
    labels = _list_labels(_get_column(table, column), column)
    if clashes := set(COLUMNS).intersection(table.columns):
        raise ValueError(f"The table has a column {min(clashes)!r} already. Rename it, or leave it out.")
    rows = _link_labels(nlp, labels, exact, n_candidates, any_context)
    schema = {name: pl.String if name in ADDED_TEXTS else pl.Float64 for name in COLUMNS}
    added = pl.DataFrame(rows, schema, orient="row")
    return table.hstack(added) if isinstance(table, pl.DataFrame) else table.assign(**added.to_dict(as_series=False))


def _link_labels(
    nlp: Language, labels: list[str], exact: bool, n_candidates: int, any_context: bool
) -> list[tuple[Any, ...]]:
    """Make the new cells of labels."""
    linker = get_linker(nlp, nlp.meta["name"])
    parts: list[Any] = [part for _, part in nlp.pipeline]
    deciders = [part for part in parts if isinstance(part, LinkerUser) and isinstance(part, Decider)]
    decider: Any = next((part for part in deciders if part.linker == linker.name), linker)
    distinct = show_progress(list(dict.fromkeys(labels)), description="Linking labels", unit="labels")
    rows: dict[str, tuple[Any, ...]] = {}
    for part in minibatch(distinct, AT_ONCE):  # type: ignore[no-untyped-call]
        rows |= zip(part, _link(linker, decider, part, exact, n_candidates, any_context), strict=True)
    return [rows[label] for label in labels]


def _get_column(table: Any, column: str) -> Any:
    columns = list(table.columns)
    if column not in columns:
        names = list(map(str, columns))
        hint = "".join(f" Did you mean {name!r}?" for name in get_close_matches(str(column), names, 1))
        raise ValueError(f"The table has no column {column!r}.{hint} It has: {', '.join(names)}.")
    return table[column]


def _list_labels(cells: Any, column: str) -> list[str]:
    """List the labels in the cells of a column; empty strings where there is none."""
    if getattr(cells, "ndim", 1) > 1:
        raise ValueError(f"The table has several columns {column!r}. Give the one with the labels a name of its own.")
    if hasattr(cells, "notna"):
        # pandas has several values for nothing.
        cells = cells.astype(object).where(cells.notna(), None)
    labels = ["" if cell is None else cell for cell in cells]
    for row, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            raise ValueError(f"Row {row} of {column!r} is {label!r:.80}, but labels are text. Give a column of text.")
    return labels


def _link(
    linker: SapbertLinker, decider: Any, labels: list[str], exact: bool, n_candidates: int, any_context: bool
) -> list[tuple[Any, ...]]:
    """Make the new cells of distinct labels."""
    terminology = linker.terminology
    read = [_read_label(label, terminology) for label in labels]
    forms = list(dict.fromkeys(chain.from_iterable(forms for forms, *_ in read)))
    named = dict(zip(forms, linker.fixed().find_named(forms), strict=True))
    # If the label is a name with all that it has, nothing is left out.
    asked = [next((form for form in forms if named[form]), forms[-1]) for forms, *_ in read]
    languages = [get_language(code) for code in linker.retriever.filters.list_languages()]
    contexts = [None if named[form] or _RESIDUAL.fullmatch(form) else _read_context(form, languages) for form in asked]
    if any_context:
        asked = [context.finding if context else form for form, context in zip(asked, contexts, strict=True)]
        named |= zip(asked, linker.fixed().find_named(asked), strict=True)
    decided: dict[str, tuple[list[Candidate], str]] = dict.fromkeys(asked, ([], ""))
    if n_candidates or not exact:
        found = decider.decide(list(decided))
        decided = dict(zip(decided, zip(found.candidates, found.kb_ids, strict=True), strict=True))
    several = _find_several(linker, [form for form in decided if not named[form]])
    rows = []
    for (forms, code, code_id, is_repaired), form, context in zip(read, asked, contexts, strict=True):
        candidates, kb_id = decided[form]
        best = None if exact or kb_id in ("", NIL) else candidates[0]
        chosen, how, same = _choose(form, code_id, named[form], best, exact)
        if form in several:
            chosen, how, same = None, "several concepts", several[form]
        if context and not any_context:
            chosen, how, same = None, "context", []
        cells: tuple[Any, ...] = (None,) * 4
        if chosen:
            score = round(chosen.get("probability", chosen["score"]), 4)
            cells = chosen["id"], chosen["canonical_name"], chosen["name"], score
        notes = [REPAIRED] if is_repaired else []
        if form != forms[0]:
            notes.append(f"looked up as {form!r}")
        if code:
            known = f"the id of {terminology[code_id].canonical_name}" if code_id else "no id here"
            notes.append(f"{code} is {'its id' if chosen and chosen['concept_id'] == code_id else known}")
        if chosen and how != "vectors" and not _is_proper(chosen):
            notes.append(f"a {chosen['term_type']} synonym")
        others = {one["id"]: one["canonical_name"] for one in (*same, *candidates[:n_candidates])}
        listed = "; ".join(f"{id_} {name}" for id_, name in others.items() if id_ != cells[0])
        kind = context.kind if context else None
        rows.append((*cells, how, "; ".join(notes) or None, listed or None, kind))
    return rows


def _read_context(label: str, languages: Sequence[LabelLanguage]) -> LabelContext | None:
    """Read what a label that is no name says of a finding, in the first language in which it says something."""
    contexts = (read_label_context(label, language) for language in dict.fromkeys(languages))
    return next(filter(None, contexts), None)


def _find_several(linker: SapbertLinker, labels: list[str]) -> dict[str, list[Candidate]]:
    """Find the labels with several names in them, and the concepts of these names."""
    split = {label: [*filter(None, _BETWEEN.split(label))] for label in labels if _BETWEEN.search(label)}
    parts = list(dict.fromkeys(chain.from_iterable(split.values())))
    named = dict(zip(parts, linker.fixed().find_named(parts), strict=True))
    several = {}
    for label, names in split.items():
        same = [list(filter(_is_proper, named[name])) or named[name] for name in names if named[name]]
        listed = [*chain.from_iterable(same)]
        if len(same) > 1 and len({one["id"] for one in listed}) > 1:
            several[label] = listed
    return several


def _choose(
    form: str, code_id: str | None, named: list[Candidate], best: Candidate | None, exact: bool
) -> tuple[Candidate | None, str, list[Candidate]]:
    """Choose the concept of a label: the one with its code, the only one that has it as a name, or the best candidate.
    Also return how it was found, and the concepts that have the label as a name."""
    coded = [candidate for candidate in named if candidate["concept_id"] == code_id]
    # A name in the proper sense comes before a RELATED synonym of another concept.
    proper = list(filter(_is_proper, named)) or named
    same = coded or proper
    if exact and len(same) > 1:
        return None, "several concepts", same
    chosen = same[0] if coded or (exact and same) else best
    is_residual = _RESIDUAL.fullmatch(form) is not None
    if chosen is None:
        return None, "residual class" if is_residual else "no name" if form else "empty", same
    if any(chosen["id"] == one["id"] for one in named):
        return chosen, "name" if chosen["name"].casefold() == form.casefold() else "form of a name", same
    if is_residual != (_RESIDUAL.fullmatch(chosen["name"]) is not None):
        return None, "residual class", same
    return chosen, "vectors", same


def _is_proper(candidate: Candidate) -> bool:
    return candidate["term_type"].partition(" ")[0] not in LESSER_SCOPES


def _read_label(label: str, terminology: Terminology) -> tuple[list[str], str, str | None, bool]:
    """Read what to look up, from the label to what is left of it without code and qualifiers; its code, and the id of
    that; and whether characters were repaired."""
    repaired, code = _repair(label), ""
    forms = [normalize_name(write_plainly(repaired))]
    # What is longer can't be a name.
    while len(forms[0]) <= MAX_LENGTH and (shorter := _shorten(forms[-1], terminology)) is not None:
        forms.append(shorter[0])
        code = shorter[1] or code
    code_id = terminology.find_id(code) or terminology.find_id(code.replace("_", ":"))
    if code_id and not forms[-1]:
        forms[-1] = terminology[code_id].canonical_name
    return forms if any(map(str.isalnum, forms[0])) else [""], code, code_id, repaired != label


def _repair(text: str) -> str:
    """Repair UTF-8 that was read as Latin-1 or Windows-1252, where nothing else is likely: "MÃ©niÃ¨re"."""
    try:
        # Windows has signs where Latin-1 has control characters, but not for all.
        repaired = b"".join(sign.encode("latin-1" if sign < "\u0100" else "cp1252") for sign in text).decode("utf8")
    except UnicodeError:
        return text
    return text if repaired == text or not _REPAIRED_TO.fullmatch(repaired) else _repair(repaired)


def _shorten(form: str, terminology: Terminology) -> tuple[str, str] | None:
    """Leave out of a label one thing that does not change what it names. Return the rest, and a code that is out."""
    for pattern in _LEFT_OUT:
        if found := pattern.fullmatch(form):
            groups = found.groupdict("")
            return groups["rest"].strip(), groups.get("code", "") or groups.get("marked", "")
    if found := _BRACKETED.fullmatch(form):
        before, inside = found.groups()
        words = before.split()
        if any(is_initialism(inside, " ".join(words[start:])) for start in range(len(words))):
            return before, ""
        if is_initialism(before, inside):
            return inside, ""
    # Ids in forms of their own, at either end.
    for code, rest in (form.partition(" ")[::2], form.rpartition(" ")[::-2]):
        code = code.strip("()[]|:,;")
        is_like_one = len(code) > 2 and not code.isdigit() and any(map(str.isdigit, code))
        if rest and is_like_one and terminology.find_id(code) is not None:
            return rest.strip(" |:,;–-"), code
    return None


def write_linked(linked: pl.DataFrame, output: Path, source: LabelTable) -> None:
    """Write a linked table as the table that it comes from is written."""
    kind = output.suffix.lower()
    with write_whole(output) as temporary:
        if kind == ".jsonl":
            linked.write_ndjson(temporary)
        elif kind == ".parquet":
            linked.write_parquet(temporary)
        else:
            added = linked.drop(source.frame.columns).select(pl.col(pl.String)).columns
            escaped = linked.with_columns(pl.col(added).map_elements(escape_formula, pl.String))
            # In files with tabs, quotes belong to the text.
            is_plain = (source.delimiter, kind) == ("\t", ".tsv")
            quotes: Literal["never", "necessary"] = "never" if is_plain else "necessary"
            escaped.write_csv(temporary, separator=source.delimiter, quote_style=quotes, include_bom=source.has_bom)
