"""Read the atoms of MRCONSO, keep those that pass the filters, and count all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import polars as pl

from ...errors import Errors
from ..licences import STRICTEST
from ..names import normalize_names
from .folder import RrfFolder
from .settings import RrfSettings
from .sources import parse_level

COLUMNS = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS")
# The columns by which atoms are counted, and the columns of names that they become.
LABELS = {"SAB": "source", "LAT": "language", "TTY": "term_type"}
# Longer names exist (laboratory tests, chemicals), but an encoder reads only their beginning.
LONG = 1000
# The characters that `str.strip` removes. polars' default lacks the separators U+001C to U+001F.
WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# White space and control characters, as in the builder.
NOT_IN_ID = r"[\s\x00-\x1f\x7f-\x9f]"


@dataclass
class AtomCounts:
    """Counts of the atoms of MRCONSO.

    ids (pl.Series): The ids of all concepts of the release.
    labels (pl.DataFrame): The columns SAB, LAT, TTY, SRL and `rows`, the number of atoms.
    normalized (int): The number of atoms whose names were changed by normalizing them.
    dropped (Counter[str]): The number of dropped atoms, by reason.
    """

    ids: pl.Series
    labels: pl.DataFrame
    normalized: int
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def levels(self) -> dict[str, int | None]:
        """The strictest restriction level of each source's atoms; None if an atom has none."""
        levels: dict[str, int | None] = {}
        for source, text in self.labels.select("SAB", "SRL").unique().sort("SAB", "SRL").iter_rows():
            level, other = parse_level(text), levels.get(source, -1)
            levels[source] = None if level is None or other is None else max(level, other)
        return levels

    def by(self, column: str) -> dict[str, int]:
        """Count rows by the values of a label.

        column (str): "SAB", "LAT" or "TTY".
        RETURNS (dict[str, int]): Rows by value, the most frequent first.
        """
        totals = self.labels.group_by(column).agg(pl.sum("rows")).sort("rows", column, descending=[True, False])
        return dict(totals.iter_rows())

    def by_kept(self, column: str, atoms: pl.DataFrame) -> dict[str, dict[str, int]]:
        """Count all rows and the kept rows by the values of a label.

        column (str): "SAB", "LAT" or "TTY".
        atoms (pl.DataFrame): The kept atoms.
        RETURNS (dict[str, dict[str, int]]): `rows` and `kept` by value, the most frequent first.
        """
        kept = dict(atoms[LABELS[column]].value_counts().iter_rows())
        return {value: {"rows": rows, "kept": kept.get(value, 0)} for value, rows in self.by(column).items()}


def read_atoms(folder: RrfFolder, settings: RrfSettings) -> tuple[pl.DataFrame, AtomCounts]:
    """Read MRCONSO.

    folder (RrfFolder): The release.
    settings (RrfSettings): The filters.
    RETURNS (tuple[pl.DataFrame, AtomCounts]): The kept atoms, in the order of the file, with the columns CUI, name,
        language, source, term_type, preferred, code and rank (0 for the best canonical name); and the counts.
    RAISES (ValueError): If the file is damaged or empty, it lacks a value that a setting names, or no atom is kept.
    """
    kept, ids, labels = [], [], []
    normalized = 0
    dropped: Counter[str] = Counter()
    conditions = _make_conditions(settings)
    for block in folder.tables("MRCONSO", COLUMNS):
        n = block.height
        block, own_ids = _with_good_ids(block, folder)
        dropped["bad_id"] += n - block.height
        ids.append(own_ids)
        labels.append(block.group_by(*LABELS, "SRL").len("rows"))
        block = _keep(block, conditions, dropped)
        n = block.height
        block, n_changed = _as_atoms(block, settings.lower_case)
        kept.append(block)
        normalized += n_changed
        dropped["empty_name"] += n - block.height
    counts = AtomCounts(pl.concat(ids).unique(), pl.concat(labels), normalized, dropped)
    atoms = pl.concat(kept)
    _check(folder, settings, counts, atoms)
    return atoms, counts


def keep_semantic_types(
    atoms: pl.DataFrame, types: pl.DataFrame, wanted: Collection[str] | None, folder: RrfFolder, counts: AtomCounts
) -> pl.DataFrame:
    """Keep the atoms of concepts with one of the given semantic types, and count the others.

    atoms (pl.DataFrame): The atoms that `read_atoms` returned.
    types (pl.DataFrame): The columns CUI and TUI.
    wanted (Collection[str] | None): The semantic types (TUI) to keep; None for all.
    folder (RrfFolder): The release.
    counts (AtomCounts): The counts, to which the dropped atoms are added.
    RETURNS (pl.DataFrame): The kept atoms.
    RAISES (ValueError): If no concept has one of the types, or no atom is kept.
    """
    if wanted is None:
        return atoms
    known = types["TUI"].value_counts(sort=True)["TUI"].to_list()
    _check_values(folder, "MRSTY", "semantic type", wanted, known)
    allowed = types.filter(pl.col("TUI").is_in(sorted(wanted))).select("CUI").unique()
    left = atoms.join(allowed, on="CUI", how="semi", maintain_order="left")
    counts.dropped["semantic_type"] = atoms.height - left.height
    _check_any(folder, counts, left)
    return left


def _make_conditions(settings: RrfSettings) -> dict[str, pl.Expr]:
    """Express the settings as conditions, by the reason for dropping an atom that fails one."""
    conditions = {}
    labels = {
        "language": ("LAT", settings.languages),
        "source": ("SAB", settings.sources),
        "term_type": ("TTY", settings.term_types),
    }
    for reason, (column, values) in labels.items():
        if values is not None:
            conditions[reason] = pl.col(column).is_in(sorted(values))
    if settings.suppressed == "drop":
        conditions["suppressed"] = pl.col("SUPPRESS") == "N"
    if settings.max_restriction_level is not None:
        level = pl.col("SRL").cast(pl.Int16(), strict=False).fill_null(STRICTEST)
        conditions["restriction_level"] = level <= settings.max_restriction_level
    return conditions


def _keep(block: pl.DataFrame, conditions: dict[str, pl.Expr], dropped: Counter[str]) -> pl.DataFrame:
    """Keep the atoms that meet all conditions, and count the others by the first condition that they fail."""
    if not conditions:
        return block
    # Rows are copied once, whatever the number of conditions.
    masks = block.select(condition.alias(reason) for reason, condition in conditions.items())
    kept = masks.get_columns()[0]
    n = block.height
    for mask in masks.iter_columns():
        kept = kept & mask
        left = int(kept.sum())
        dropped[mask.name] += n - left
        n = left
    return block.filter(kept)


def _with_good_ids(block: pl.DataFrame, folder: RrfFolder) -> tuple[pl.DataFrame, pl.Series]:
    """Drop or refuse atoms with a concept id that cannot be written to a document, and list the distinct ids."""
    # A release is nearly sorted by concept: most repeated ids follow each other.
    ids = block["CUI"].filter((block["CUI"] != block["CUI"].shift()).fill_null(True)).unique()
    is_bad = (ids == "") | ids.str.contains(NOT_IN_ID)
    if not is_bad.any():
        return block, ids
    bad = pl.col("CUI").is_in(ids.filter(is_bad).implode())
    if folder.errors == "raise":
        first = block.filter(bad).row(0, named=True)
        raise ValueError(Errors.E126.format(file=folder.path / "MRCONSO", id=first["CUI"], name=first["STR"]))
    return block.filter(~bad), ids.filter(~is_bad)


def _as_atoms(block: pl.DataFrame, lower_case: bool) -> tuple[pl.DataFrame, int]:
    """Make atoms of lines, without those that have no name, and count the names changed by normalizing them."""
    stripped = block["STR"].str.strip_chars(WHITE_SPACE)
    if lower_case:
        stripped = stripped.str.to_lowercase()
    name = normalize_names(stripped)
    is_best = {column: pl.col(column) == best for column, best in (("TS", "P"), ("STT", "PF"), ("ISPREF", "Y"))}
    # The best canonical name is English, not suppressed, and preferred by UMLS.
    faults = (pl.col("LAT") != "ENG", pl.col("SUPPRESS") != "N", *(~best for best in is_best.values()))
    rank = sum((fault.cast(pl.UInt8()) * 2**place for place, fault in enumerate(reversed(faults))), start=pl.lit(0))
    atoms = block.select(
        "CUI",
        name=name,
        language="LAT",
        source="SAB",
        term_type="TTY",
        preferred=pl.all_horizontal(is_best.values()),
        code="CODE",
        rank=rank.cast(pl.UInt8()),
    )
    return atoms.filter(pl.col("name") != ""), int((name != stripped).sum())


def _check(folder: RrfFolder, settings: RrfSettings, counts: AtomCounts, atoms: pl.DataFrame) -> None:
    """Refuse an empty file, settings with values that do not occur (probably misspelt), and an empty result."""
    if not folder.read["MRCONSO"]:
        raise ValueError(Errors.E103.format(file=folder.path / "MRCONSO", found="is empty"))
    wanted = {"LAT": settings.languages, "SAB": settings.sources, "TTY": settings.term_types}
    for column, values in wanted.items():
        _check_values(folder, "MRCONSO", column, values, list(counts.by(column)))
    _check_any(folder, counts, atoms)


def _check_values(
    folder: RrfFolder, file: str, what: str, wanted: Collection[str] | None, known: Collection[str]
) -> None:
    for value in sorted(set(wanted or ()) - set(known)):
        found = ", ".join(list(known)[:30]) + (", ..." if len(known) > 30 else "") or "none at all"
        raise ValueError(Errors.E125.format(file=folder.path / file, what=what, value=value, found=found))


def _check_any(folder: RrfFolder, counts: AtomCounts, atoms: pl.DataFrame) -> None:
    if not atoms.height:
        raise ValueError(
            Errors.E124.format(
                file=folder.path / "MRCONSO",
                filters=", ".join(f"{reason}: {n} dropped" for reason, n in counts.dropped.items() if n) or "none",
                languages=", ".join(list(counts.by("LAT"))[:30]),
                sources=", ".join(list(counts.by("SAB"))[:30]),
            )
        )
