"""Link labels of laboratories to tests of LOINC: by the analyte, and among its tests by what else a label says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..lexicon.spelling import find_near
from ..terminology.codes import LESSER_SCOPES
from ..text import normal_words, normalize_name
from .items import PRESENCE, QUANTITY, Analyte, LaboratoryItem, list_systems, read_analytes, read_item
from .parts import POINT, LoincParts, counts_share, read_long_name, read_specified_name, read_word_lists

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# The term type of fully specified names, in UMLS too; a rank may stand behind it.
SPECIFIED = "LN"
UNRANKED = 1 << 30
# How many other tests are listed.
MAX_OTHERS = 5


class LaboratoryTest(NamedTuple):
    """A test of LOINC."""

    id: str
    name: str
    parts: LoincParts
    rank: int
    is_molecular: bool
    # The ways in which labels write its component, and the component's words.
    analytes: tuple[Analyte, ...]
    words: frozenset[str]


class LaboratoryLink(NamedTuple):
    """What a label was linked to."""

    test: LaboratoryTest | None
    # "name", "parts"; without a test "no name", "other parts", "several tests", "unknown specimen", "empty".
    how: str
    item: LaboratoryItem
    # Other tests of the analyte, the likeliest first.
    others: tuple[LaboratoryTest, ...] = ()


class LaboratoryLinker:
    """The tests of a terminology, by their analytes and names."""

    def __init__(self, terminology: Terminology) -> None:
        """Read the parts of tests from their names.

        terminology (Terminology): LOINC, UMLS with LOINC's fully specified names, or a table of long common names.
        """
        self._tests: list[LaboratoryTest] = []
        self._by_analyte: dict[Analyte, dict[int, None]] = defaultdict(dict)
        self._by_name: dict[str, set[int]] = defaultdict(set)
        for test, names in _list_tests(terminology):
            place = len(self._tests)
            self._tests.append(test)
            for analyte in test.analytes:
                self._by_analyte[analyte][place] = None
            for name in names:
                self._by_name[name.casefold()].add(place)
        self._words = {word for analyte in self._by_analyte for side in analyte for word in side}
        self._hashes = {hash_string(word) for word in self._words if word.isascii()}

    def __len__(self) -> int:
        return len(self._tests)

    def link(self, label: str, specimen: str = "", unit: str = "") -> LaboratoryLink:
        """Link a label.

        label (str): The label, "Creatinine, Urine".
        specimen (str): What a column says of the specimen.
        unit (str): The unit of its values.
        RETURNS (LaboratoryLink): The test, if one is meant, and how it was found.
        """
        item = read_item(label, specimen, unit)
        if not any(map(str.isalnum, label)):
            return LaboratoryLink(None, "empty", item)
        if not item.specimens and any(column.startswith("specimen") for column in item.unread):
            return LaboratoryLink(None, "unknown specimen", item)
        named = self._by_name.get(normalize_name(label).casefold(), set())
        if len(named) == 1:
            test = self._tests[min(named)]
            if _fits(test, read_item("", specimen, unit)):
                return LaboratoryLink(test, "name", item)
        tests = self._find(item)
        if not tests:
            return LaboratoryLink(None, "no name", item)
        fitting = [test for test in tests if _fits(test, item)]
        ordered = sorted(fitting or tests, key=lambda test: (_order(test, item), test.id))
        if not fitting:
            return LaboratoryLink(None, "other parts", item, tuple(ordered[:MAX_OTHERS]))
        first, *others = ordered
        if any(_is_as_likely(other, first, item) for other in others):
            return LaboratoryLink(None, "several tests", item, tuple(ordered[:MAX_OTHERS]))
        return LaboratoryLink(first, "parts", item, tuple(others[:MAX_OTHERS]))

    def _find(self, item: LaboratoryItem) -> list[LaboratoryTest]:
        """Find the tests of an item's analyte, by its first reading that names one."""
        for correct in (False, True):
            for analyte in map(self._correct, item.analytes) if correct else item.analytes:
                readings = [analyte]
                if not _is_ratio(analyte, item):
                    # "ALT/SGPT" are two names of one.
                    readings.append(Analyte(analyte.words | analyte.divisor))
                for reading in dict.fromkeys(readings):
                    if places := self._by_analyte.get(reading):
                        return [self._tests[place] for place in places]
        return []

    def _correct(self, analyte: Analyte) -> Analyte:
        """Correct the words that no test has and that are nearly one."""
        unknown = sorted((analyte.words | analyte.divisor) - self._words)
        near = find_near(unknown, lambda _, hashes: _is_among(hashes, self._hashes))
        corrections = {word: near.get(place, word) for place, word in enumerate(unknown)}
        return Analyte(*(frozenset(corrections.get(word, word) for word in side) for side in analyte))


def _is_ratio(analyte: Analyte, item: LaboratoryItem) -> bool:
    """Say whether a slash divides: the label says so, or one side is a part of the other, as of "Chol/HDL"."""
    words, divisor = analyte
    return bool(divisor) and ("ratio" in item.kinds or words < divisor or divisor < words)


def link_laboratory_items(
    terminology: Terminology,
    labels: Sequence[str],
    specimens: Sequence[str | None] | None = None,
    units: Sequence[str | None] | None = None,
) -> list[LaboratoryLink]:
    """Link labels of laboratories to tests, each distinct row once.

    A test has to be of the analyte that the label names, and must not contradict what label, specimen and unit say. Of
    several, the usual one for what is left open is meant: that with the best rank, if the terminology has ranks.

    terminology (Terminology): LOINC, UMLS with LOINC's names, or a table of long common names.
    labels (Sequence[str]): The labels.
    specimens (Sequence[str | None] | None): The specimen of each label.
    units (Sequence[str | None] | None): The unit of each label's values.
    RETURNS (list[LaboratoryLink]): What each label was linked to, in their order.
    RAISES (ValueError): If there are not as many specimens or units as labels.
    """
    columns = {"specimens": specimens, "units": units}
    for name, column in columns.items():
        if column is not None and len(column) != len(labels):
            raise ValueError(f"There are {len(column):,} {name}, but {len(labels):,} labels. Give one for each label.")
    linker = LaboratoryLinker(terminology)
    empty = [""] * len(labels)
    cells = zip(labels, specimens or empty, units or empty, strict=True)
    rows = [tuple(cell or "" for cell in row) for row in cells]
    links = {row: linker.link(*row) for row in dict.fromkeys(rows)}
    return [links[row] for row in rows]


def _list_tests(terminology: Terminology) -> Iterator[tuple[LaboratoryTest, list[str]]]:
    """List the tests and their names. If any concept has a fully specified name, others are no tests."""
    import polars as pl

    names = terminology.names.to_polars()
    kind = pl.col("term_type").str.split(" ").list.first()
    specified = names.filter(kind == SPECIFIED)
    full_names: dict[int, tuple[str, str]] = {}
    for concept, name, term_type in specified.select("concept", "name", "term_type").iter_rows():
        full_names.setdefault(concept, (name, term_type))
    proper = names.filter(~kind.is_in(LESSER_SCOPES))
    if full_names:
        # UMLS has millions of others.
        proper = proper.filter(pl.col("concept").is_in(specified["concept"].implode()))
    grouped: dict[int, list[str]] = defaultdict(list)
    for concept, name in proper.select("concept", "name").iter_rows():
        grouped[concept].append(name)
    acids = set(read_word_lists("words")["acids"])
    for row, (id_, name) in enumerate(terminology.concepts.select("id", "canonical_name").rows()):
        full_name, term_type = full_names.get(row, ("", ""))
        parts = read_specified_name(full_name) if full_name else None
        if parts is None and full_names:
            continue
        parts = parts or read_long_name(name)
        rank = term_type.partition(" ")[2]
        is_molecular = not acids.isdisjoint(parts.component.lower().split())
        # Of the long name too, which may call the analyte otherwise.
        components = dict.fromkeys((parts.component, read_long_name(name).component))
        analytes = tuple(dict.fromkeys(analyte for one in components for analyte in read_analytes(one)))
        words = frozenset(normal_words(parts.component))
        number = int(rank) if rank.isdigit() else UNRANKED
        yield LaboratoryTest(id_, name, parts, number, is_molecular, analytes, words), grouped[row]


def _is_among(hashes: Any, listed: Iterable[int]) -> Any:
    import numpy as np

    return np.isin(hashes, np.fromiter(listed, dtype=np.uint64))


def _fits(test: LaboratoryTest, item: LaboratoryItem) -> bool:
    """Say if a test contradicts nothing that an item says."""
    parts = test.parts
    if item.specimens and parts.system:
        system = parts.system.partition("^")[0]
        systems = [one for specimen in item.specimens for one in list_systems(specimen)]
        if system not in (*systems, *read_word_lists("words")["any_system"]):
            return False
    if item.time and parts.time != item.time:
        return False
    if item.methods and _rate_methods(parts.method, item.methods) is None:
        return False
    if item.is_molecular and not (test.is_molecular or _rate_methods(parts.method, ("pcr",)) == 0):
        return False
    # What a unit says is more than what words say.
    if item.unit:
        return not parts.property or parts.property in item.unit
    return all(_has_kind(parts, kind) for kind in item.kinds)


def _has_kind(parts: LoincParts, kind: str) -> bool:
    if kind == QUANTITY:
        return parts.scale == "Qn"
    if kind == PRESENCE and parts.scale == "Ord":
        return True
    return not parts.property or parts.property in read_word_lists("words")["properties"][kind]


def _rate_methods(method: str, methods: Iterable[str]) -> int | None:
    """Rate a test's method by methods that were said: 0 if it is one of them, 1 if it has none, None for another."""
    listed = read_word_lists("words")["methods"]
    written = method.lower()
    if all(any(one in written for one in listed[phrase]) for phrase in methods):
        return 0
    return None if method else 1


def _order(test: LaboratoryTest, item: LaboratoryItem) -> tuple[int | bool, ...]:
    """Order the tests of an analyte: what is usual where an item leaves something open comes first."""
    data = read_word_lists("words")
    parts = test.parts
    system, _, subject = parts.system.partition("^")
    own_systems = [one for specimen in item.specimens for one in list_systems(specimen)]
    systems = [*_list_usual("systems", test.analytes, own_systems), *(own_systems or data["system_order"])]
    properties = [*_list_usual("properties", test.analytes), *data["property_order"]]
    if item.time:
        properties = [*data["rates"], *properties]
    return (
        # Of a donor or a fetus, over hours, of what may be in any specimen: only if nothing else is there.
        bool(subject),
        not item.time and parts.time not in (POINT, ""),
        bool(item.methods) and _rate_methods(parts.method, item.methods) != 0,
        # Laboratories report both; without the word "count", a label means the percentage of cells.
        not item.kinds and not item.unit and not counts_share(parts.component),
        test.is_molecular and not item.kinds and parts.property in data["properties"]["load"],
        test.rank,
        0 if own_systems or _is_of_blood(parts) else 1 + _find_place(systems, system),
        _find_place(properties, parts.property),
        _order_method(parts.method, _list_usual("methods", test.analytes)),
        test.is_molecular and not item.is_molecular,
        _find_place(systems, system),
        _find_place(data["scale_order"], parts.scale),
        # "Albumin" rather than "Microalbumin", which is read as the same.
        len(item.words.symmetric_difference(test.words)),
    )


def _is_of_blood(parts: LoincParts) -> bool:
    """Say if a test is of blood, or does not say of what: such are meant where a label says nothing of it."""
    system = parts.system.partition("^")[0]
    return not system or system in (*list_systems("blood"), *read_word_lists("words")["any_system"])


def _is_as_likely(test: LaboratoryTest, best: LaboratoryTest, item: LaboratoryItem) -> bool:
    """Say if a test may be meant as well as the best one: nothing tells them apart, or neither a specimen nor ranks do
    where the best one is not of blood."""
    if _order(test, item) == _order(best, item):
        return True
    is_open = not item.specimens and best.rank == UNRANKED and not _is_of_blood(best.parts)
    # A sediment is of the urine.
    kinds = {one.parts.system.partition(" sed")[0] for one in (test, best)}
    return is_open and len(kinds) > 1


def _list_usual(kind: str, analytes: Iterable[Analyte], codes: Sequence[str] = ()) -> list[str]:
    """List the usual properties, systems or methods of an analyte, of those that are said."""
    listed = _read_usual(kind)
    usual = [listed[analyte] for analyte in analytes if analyte in listed]
    if kind == "properties":
        words = read_word_lists("analytes")["usual_property_of_word"]
        usual += [words[word] for analyte in analytes for word in analyte.words if word in words]
    return [code for code in usual if not codes or code in codes]


@cache
def _read_usual(kind: str) -> dict[Analyte, str]:
    listed = read_word_lists("analytes")[f"usual_{kind}"].items()
    pairs = [(code, name) for code, names in listed for name in names]
    return {analyte: code for code, name in pairs for analyte in read_analytes(name)}


def _order_method(method: str, usual: Sequence[str]) -> int:
    """Order methods: the usual ones, others, and those that a label would name."""
    order = read_word_lists("words")["method_order"]
    written = method.lower()
    first = [*usual, *order["first"]]
    if any(one in written for one in order["last"] if one not in usual):
        return len(first) + 1
    places = (place for place, one in enumerate(first) if (one in written if one else not written))
    return next(places, len(first))


def _find_place(order: Sequence[str], value: str) -> int:
    return order.index(value) if value in order else len(order)
