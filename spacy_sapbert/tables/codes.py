"""Look up the codes in a table, from any source."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import NamedTuple

from ..columns import read_chunks
from ..terminology.codes import make_key
from ..terminology.table import Terminology


class CodeMatch(NamedTuple):
    """The concepts of a code."""

    rows: tuple[int, ...] = ()
    note: str = ""  # what there is to say of the code


def find_codes(terminology: Terminology, codes: Collection[str]) -> dict[str, CodeMatch]:
    """Find the concepts of codes: ids, in other writings such as "hp_0001250" too, and codes in other sources.

    terminology (Terminology): Where concepts have codes.
    codes (Collection[str]): Ids and codes. One without a source, such as "E11.9" or "E119", may be of any.
    RETURNS (dict[str, CodeMatch]): What each one stands for. A retired id stands for what took its place.
    """
    matches = {code: _find_id(terminology, code) for code in codes}
    for find in (_find_retired, _find_other_codes):
        others = [code for code, match in matches.items() if not match.rows and not match.note]
        matches |= find(terminology, others) if others else {}
    return matches


def _list_writings(code: str) -> list[str]:
    """List how an id may be written in its terminology."""
    return list(dict.fromkeys((code, code.replace("_", ":", 1), code.upper().replace("_", ":", 1))))


def _find_id(terminology: Terminology, code: str) -> CodeMatch:
    for written in _list_writings(code):
        row = terminology.find_row(written)
        if row is not None:
            id_ = terminology.concepts["id"][row]
            return CodeMatch((row,), "" if id_ == written else f"{written} is retired, {id_} took its place")
    return CodeMatch()


def _find_retired(terminology: Terminology, codes: list[str]) -> dict[str, CodeMatch]:
    """Find codes among the retired ids that nothing took the place of."""
    writings = {code: _list_writings(code) for code in codes}
    wanted = {*chain.from_iterable(writings.values())}
    retired = terminology.retired
    ids = chain.from_iterable(read_chunks(retired["id"]))
    places = {id_: place for place, id_ in enumerate(ids) if id_ in wanted}
    matches = {}
    for code, written in writings.items():
        if id_ := next(filter(places.__contains__, written), ""):
            instead = ", ".join(retired["consider"][places[id_]].to_list()) or "nothing"
            matches[code] = CodeMatch((), f"{id_} is retired, and its source says to consider {instead}")
    return matches


def _find_other_codes(terminology: Terminology, codes: list[str]) -> dict[str, CodeMatch]:
    """Find codes among those that concepts have in other sources, all at once."""
    plain_codes = {code: _write_plain(code) for code in codes}
    rows_of: dict[str, list[tuple[int, str]]] = {plain: [] for plain in plain_codes.values()}
    # By Python, because polars' threads are not there in forked processes.
    for row, listed in enumerate(chain.from_iterable(read_chunks(terminology.concepts["codes"]))):
        for written in listed:
            of_code = rows_of.get(_write_plain(written))
            if of_code is not None:
                of_code.append((row, written))
    matches = {}
    for code in codes:
        source = _read_source(code)
        rows = dict.fromkeys(
            row for row, written in rows_of[plain_codes[code]] if source in ("", _read_source(written))
        )
        names = [terminology.concepts["canonical_name"][row] for row in rows]
        matches[code] = CodeMatch(tuple(rows), f"{code} is a code of {names[0]}" if len(names) == 1 else "")
    return matches


def _write_plain(code: str) -> str:
    """Write a code without its source and full stops, which are left out in some tables."""
    return code.rpartition(":")[2].upper().replace(".", "")


def _read_source(code: str) -> str:
    """Read the source of a code; empty if it has none."""
    key = make_key(code)
    return key[0] if key else ""
