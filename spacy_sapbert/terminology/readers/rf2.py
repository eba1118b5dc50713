"""Read a Snapshot of SNOMED CT in Release Format 2 (RF2): the International Edition, a national one, or an extension
beside the edition that it extends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from ...errors import warn
from ...forking import check_polars
from ...settings import OnMalformed, Settings, Strings
from ..assembly import assemble
from ..builder import check_any
from ..codes import LANGUAGES
from ..licences import STRICTEST, Source
from ..table import Terminology
from .lines import MAX_EXAMPLES, SourceFile, check_values, make_factory, report_files, takes_settings
from .rrf_lines import TabLines

# The names of files, as in section 3.3.2 of the specification of release files. In packages of extensions, the date may
# stand before the owner or the type.
FILE_NAME = re.compile(
    r"(?=.*_(?P<date>\d{8})[_.])x?(?:sct2_(?P<component>Concept|Description|TextDefinition|Relationship)_"
    r"|der2_cRefset_[^_]*?(?P<refset>Language|Association))(?:\d{8}_)?(?P<part>[^_]*?)(?P<type>Snapshot|Full|Delta)"
    r"[^_.]*(?:_\d{8}|_(?P<owner>[^_.]*)){1,2}\.txt(?:\.gz)?"
)
# What is read of each kind of file, beside id, effectiveTime and active.
COLUMNS = {
    "Concept": (),
    "Description": ("conceptId", "languageCode", "typeId", "term"),
    "TextDefinition": ("conceptId", "languageCode", "typeId", "term"),
    "Relationship": ("sourceId", "destinationId", "typeId"),
    "Language": ("refsetId", "referencedComponentId", "acceptabilityId"),
    "Association": ("refsetId", "referencedComponentId", "targetComponentId"),
}
# What a terminology is without if a release has no file of a kind. Many releases have no definitions.
GIVES = {"Relationship": "parents", "Language": "preferred names", "Association": "successors of retired concepts"}
ANY, IS_ACTIVE = pl.lit(True), pl.col("active") == "1"
FULLY_SPECIFIED, DEFINITION = "900000000000003001", "900000000000550004"
IS_A, PREFERRED = "116680003", "900000000000548007"
# "Asthma (disorder)"; East Asian brackets are wider.
TAGGED = r"^(.*\S)\s*[(\uff08]([^()\uff08\uff09]+)[)\uff09]\s*$"
SCTID = r"^[1-9][0-9]{5,17}$"
# Historical associations. A concept that is the SAME AS another, or was REPLACED BY it, is answered by it.
REPLACING = ("900000000000527005", "900000000000526001")
# POSSIBLY EQUIVALENT TO, POSSIBLY REPLACED BY, PARTIALLY EQUIVALENT TO, ALTERNATIVE and SIMILAR TO: a reader has to
# choose. Others are no help: MOVED TO names a namespace, WAS A a wider concept, REFERS TO the concept of a name.
TO_CONSIDER = ("900000000000523009", "1186921001", "1186924009", "900000000000530003", "900000000000529008")
# The language reference sets of the International Edition.
DIALECTS = {"en-US": "900000000000509007", "en-GB": "900000000000508004"}
# UMLS calls the source so. All editions get this name.
SOURCE = "SNOMEDCT_US"
UNPACK = "Unpack a release of SNOMED CT and give its folder, with its own names of files."
AS_RELEASED = "Another program has probably changed the file. Take it as it was released."
# A larger share of parents that are not there suggests that an extension was read without what it extends.
UNKNOWN_SHARE = 0.05


class Rf2Settings(Settings):
    """Settings of the reader of SNOMED CT."""

    languages: Strings | None = Field(
        default=None, description='Languages of the names to keep, as in UMLS ("ENG", "SPA"); null for all.'
    )
    dialects: Strings | None = Field(
        default=None,
        description='Language reference sets whose preferred terms are the preferred names, the best first: "en-US", '
        '"en-GB", or ids; null for all, these two first. All other names stay as well.',
    )
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed row, or "skip" and count it.')


@takes_settings(Rf2Settings)
def read_rf2(path: Path, settings: Rf2Settings) -> Terminology:
    """Read the active concepts of a Snapshot of SNOMED CT.

    Names are the active descriptions, the fully specified one without its semantic tag, which is the concept's type. An
    inactive concept is retired: by its id, the one that it is the SAME AS, or was REPLACED BY, is found.

    path (str | Path): The folder of the release. Files are found by their names, in folders below it too.
    settings (Rf2Settings): Given as keyword arguments: `read_rf2(path, dialects=["en-GB"])`.
    RETURNS (Terminology): The terminology.
    RAISES (FileNotFoundError): If the folder has no concepts or descriptions.
    RAISES (ValueError): If the folder holds a Full or Delta release only, or files of two releases; if a row is
        malformed and `errors` is "raise"; or if a setting names nothing in the release.
    """
    check_polars("read a terminology")
    release, dropped = _Release(path, settings.errors), Counter[str]()
    concepts = release.table("Concept")
    current, retired = (concepts.filter(pl.col("active") == flag)["id"] for flag in "10")
    dropped["retired_concepts"] = len(retired)
    texts = _keep(release.texts(), IS_ACTIVE, "inactive_names", dropped)
    is_definition = pl.col("typeId") == DEFINITION
    terms = _split_tags(texts.filter(~is_definition))
    names = _keep(terms, _is_in("conceptId", current), "names_of_retired_concepts", dropped)
    tags = names.drop_nulls("tag").unique("conceptId", keep="first").select("conceptId", "tag")
    if settings.languages is not None:
        check_values(path, "language", settings.languages, names["language"])
        names = _keep(names, pl.col("language").is_in(sorted(settings.languages)), "language", dropped)
    definition = pl.col("term").str.strip_chars()
    columns = {
        "canonical_name": pl.DataFrame(schema={"id": pl.String(), "canonical_name": pl.String()}),
        "types": tags.select(id="conceptId", types="tag"),
        "definition": texts.filter(is_definition, definition != "").select(id="conceptId", definition=definition),
        "codes": pl.DataFrame({"id": current}).with_columns(codes=pl.format(f"{SOURCE}:{{}}", "id")),
        "parents": release.parents(current),
    }
    ranked = _rank_names(release, names, settings.dialects, terms)
    return check_any(assemble(ranked, columns, release.list_retired(retired), len(current), release.describe(dropped)))


make_rf2_reader = make_factory("make_rf2_reader", read_rf2, Rf2Settings)


class _Release:
    """The files of one Snapshot, and counts of what was read."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        if not path.is_dir():
            raise FileNotFoundError(f"There is no folder {path} (seen from {Path.cwd()}). {UNPACK}")
        self.path, self.errors = path, errors
        self.lines: list[TabLines] = []
        names = {file: FILE_NAME.fullmatch(file.name) for file in sorted(path.rglob("*2_*.txt*"))}
        found = [(file, name) for file, name in names.items() if name]
        snapshot = [(file, name) for file, name in found if name["type"] == "Snapshot"]
        if found and not snapshot:
            raise ValueError(
                f"{path} holds a Full or Delta release ({found[0][0].name}), with all versions of each row or with "
                "changes only. Give the folder of the Snapshot, which has each row as it is now."
            )
        self.version = _read_version(path, snapshot)
        self.files: dict[str, list[Path]] = {kind: [] for kind in COLUMNS}
        for file, name in snapshot:
            self.files[name["component"] or name["refset"]].append(file)
        for kind in (kind for kind in COLUMNS if kind != "TextDefinition" and not self.files[kind]):
            if kind not in GIVES:
                similar = sorted(file.name for file in path.rglob(f"*{kind}*"))[:MAX_EXAMPLES]
                others = ", ".join(similar) or "none like it"
                raise FileNotFoundError(
                    f"There is no file sct2_{kind}_Snapshot_OWNER_DATE.txt in {path}, but {others}. {UNPACK}"
                )
            message = f"{path} has no {kind} file, so the terminology is without {GIVES[kind]}. Copy the file there."
            warn(message)

    def table(self, kind: str, where: pl.Expr = ANY) -> pl.DataFrame:
        """Read the rows of a kind of file that meet a condition. An extension may have a newer version of a row of its
        edition, and the newest counts."""
        columns = ("id", "effectiveTime", "active", *COLUMNS[kind])
        tables = [self._read(file, columns, where) for file in self.files[kind]]
        rows = pl.concat([pl.DataFrame(schema=dict.fromkeys(columns, pl.String())), *tables])
        if len(tables) > 1:
            rows = rows.sort("effectiveTime", maintain_order=True).unique("id", keep="last", maintain_order=True)
        return rows

    def _read(self, path: Path, columns: Sequence[str], where: pl.Expr) -> pl.DataFrame:
        header = next((text for _, text in SourceFile(path).lines()), "").split("\t")
        if missing := [column for column in columns if column not in header]:
            raise ValueError(f"{path} has no column {missing[0]!r}, but {', '.join(header)!r:.200}. {AS_RELEASED}")
        lines = TabLines([path], len(header), self.errors)
        self.lines.append(lines)
        blocks = lines.map(lambda data: _check_rows(lines.parse(data, header, columns), path).filter(where))
        rows = pl.concat(blocks)
        lines.warn()
        if (repeated := rows["id"].filter(rows["id"].is_duplicated())).len():
            raise ValueError(
                f"{path} has several rows with the id {repeated[0]}, as a Full release has. Give the folder of the "
                "Snapshot, which has each row as it is now."
            )
        return rows

    def texts(self) -> pl.DataFrame:
        """Read names and definitions, English ones first."""
        texts = pl.concat(map(self.table, ("Description", "TextDefinition")))
        language = pl.col("languageCode").str.slice(0, 2).replace(LANGUAGES)
        texts = texts.select("conceptId", "term", "id", "active", "typeId", language=language)
        return texts.sort(pl.col("language") != "ENG", maintain_order=True)

    def parents(self, current: pl.Series) -> pl.DataFrame:
        """Read the parents of concepts."""
        rows = self.table("Relationship", pl.col("typeId") == IS_A).filter(IS_ACTIVE)
        unknown = rows.filter(~_is_in("destinationId", current)).height
        if unknown > UNKNOWN_SHARE * rows.height:
            message = (
                f"{unknown:,} of {rows.height:,} parents are not among the concepts of {self.path}. An extension needs "
                "the edition that it extends: unpack both below one folder."
            )
            warn(message)
        return rows.select(id="sourceId", parents="destinationId")

    def list_retired(self, retired: pl.Series) -> pl.DataFrame:
        """List for each retired concept what took its place, and what to consider."""
        rows, other = self.table("Association").filter(IS_ACTIVE), pl.col("targetComponentId")
        found = rows.group_by(id="referencedComponentId", maintain_order=True).agg(
            replaced_by=other.filter(pl.col("refsetId").is_in(REPLACING)),
            consider=other.filter(pl.col("refsetId").is_in(TO_CONSIDER)),
        )
        listed = pl.DataFrame({"id": retired}).join(found, on="id", how="left")
        return listed.with_columns(pl.col("replaced_by", "consider").fill_null([]))

    def describe(self, dropped: Counter[str]) -> dict[str, Any]:
        """Report what was read and dropped."""
        licence = Source("SNOMED CT", self.version, "https://www.snomed.org/get-snomed", "", STRICTEST)
        read = {lines.path.name: lines.rows - 1 for lines in self.lines}
        report = report_files(self.lines, read, dropped)
        return {**report, "source_version": self.version, "sources": {SOURCE: licence._asdict()}}


def _read_version(path: Path, files: Sequence[tuple[Path, re.Match[str]]]) -> str:
    """Return the date of each owner's files, or refuse files of two releases. An extension has a date of its own, also
    one that has no owner of its own ("SpanishExtension")."""
    releases: dict[tuple[str, str, str], Path] = {}
    names: dict[str, list[Path]] = {}
    for file, name in files:
        extension = name["part"] if "Extension" in name["part"] else ""
        releases.setdefault((name["owner"] or "", extension, name["date"]), file)
        names.setdefault(file.name, []).append(file)
    versions = ", ".join(sorted({f"{owner} {date}".strip() for owner, _, date in releases}))
    n_owners = len({release[:2] for release in releases})
    if len(releases) > n_owners or len(names) < len(files):
        several = next((of for of in names.values() if len(of) > 1), [*releases.values()])
        listed = ", ".join(str(file.relative_to(path)) for file in several)
        raise ValueError(
            f"{path} holds files of two releases, or of two dates, or a file twice: {versions}. Leave one release "
            f"there, with all files of one date. Such files are {listed}."
        )
    return versions


def _check_rows(rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Refuse rows that another program has changed, and leave out the header."""
    rows = rows.filter(pl.col("active") != "active")
    is_odd = ~pl.col("active").is_in(["0", "1"])
    if "sct2" in path.name:
        is_odd |= ~pl.col("id").str.contains(SCTID)
    if (odd := rows.filter(is_odd)).height:
        raise ValueError(
            f"{path} has a row with the id {odd['id'][0]!r} that is active {odd['active'][0]!r}, but ids have 6 to 18 "
            f"digits, and active is 0 or 1. {AS_RELEASED}"
        )
    return rows


def _split_tags(terms: pl.DataFrame) -> pl.DataFrame:
    """Split fully specified names into names and tags."""
    is_full = pl.col("typeId") == FULLY_SPECIFIED
    parts = pl.when(is_full).then(pl.col("term").str.extract_groups(TAGGED)).struct
    name = pl.coalesce(parts.field("1"), "term")
    return terms.select("id", "conceptId", "language", name=name, tag=parts.field("2"), is_full=is_full)


def _is_in(column: str, values: pl.Series) -> pl.Expr:
    return pl.col(column).is_in(values.implode())


def _keep(rows: pl.DataFrame, condition: pl.Expr, reason: str, dropped: Counter[str]) -> pl.DataFrame:
    kept = rows.filter(condition)
    dropped[reason] += rows.height - kept.height
    return kept


def _rank_names(release: _Release, names: pl.DataFrame, wanted: Strings | None, terms: pl.DataFrame) -> pl.DataFrame:
    """Make rows of names. Those that the best reference set prefers come first, so that they are canonical; without
    reference sets, the fully specified names."""
    members = release.table("Language").filter(IS_ACTIVE)
    found, known = members["refsetId"].unique().sort(), list(DIALECTS.values())
    order = [*known, *found.filter(~found.is_in(known))]
    if wanted is not None:
        order = [DIALECTS.get(dialect, dialect) for dialect in wanted]
        titles = dict(terms.filter(_is_in("conceptId", found)).select("conceptId", "name").iter_rows())
        dialects = {number: dialect for dialect, number in DIALECTS.items()}
        given, has = ([dialects.get(number, number) for number in numbers] for numbers in (order, found))
        check_values(release.path, "language reference set", given, has, titles)
    rank = pl.col("refsetId").replace_strict(order, range(len(order)), default=None, return_dtype=pl.UInt32)
    ranks = members.filter(pl.col("acceptabilityId") == PREFERRED).select(id="referencedComponentId", rank=rank)
    names = names.join(ranks.group_by("id").agg(pl.min("rank")), on="id", how="left", maintain_order="left")
    preferred = pl.col("rank").is_not_null() & ~pl.col("is_full")
    kind = pl.when("is_full").then(pl.lit("FN")).when(preferred).then(pl.lit("PT")).otherwise(pl.lit("SY"))
    names = names.sort(~preferred, "rank", ~pl.col("is_full"), maintain_order=True, nulls_last=True)
    return names.select("name", "language", id="conceptId", source=pl.lit(SOURCE), term_type=kind, preferred=preferred)
