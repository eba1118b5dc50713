"""All that is known of the names of a terminology by their words, in one saved table, and the one answer to the
question what a text is a name of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from typing_extensions import TypedDict

from ..arrays import ArrayFolder, save_array
from ..columns import ColumnReader
from ..files import CHANGED, fill_folder, read_manifest, write_manifest
from ..forking import kept_property
from ..ragged import KeyTable, as_hashes
from ..text import normalize_writing
from .bags import ARRAYS as BAG_ARRAYS
from .bags import BagTable, KeyFilter, make_key_filter
from .bridge import BridgedTerminology
from .contradictions import contradicts
from .derived import hash_lists, list_bases
from .initialisms import OWN_CASE_LENGTH, find_acronyms, own_case_forms
from .languages import Language
from .said import FILES as SAID_ARRAYS
from .said import Phrases, SaidTable, read_package
from .scan import key_names, key_texts, list_words, make_turned_keys
from .spelling import find_misspelt

if TYPE_CHECKING:
    from ..terminology.table import Terminology

FILE = "names.json"
FORMAT_VERSION = 1
KEYS = "ordered", "turned"
KEY_ARRAYS = tuple(f"{kind}_{name}" for kind in KEYS for name in KeyTable._fields)
ACRONYMS = "acronyms"
# What rerankers need of all names, if it has been made.
BRIDGE_ARRAYS = ("bridge_names", "bridge_concepts")
# How a text may be a name: its words are those of the name, also in another form; the same from another word on, or
# before their commas; it is derived from the name; people say it; it is the name but for a typing error.
FORM, TURNED, DERIVED, SAID, MISSPELT = "form", "turned", "derived", "said", "misspelt"
# Linkers leave words in another order to their encoder. A label is a name or not, and what people say is none.
LINKED, LABELS = (FORM, DERIVED, SAID, MISSPELT), (FORM, TURNED, DERIVED)
_COMMA = re.compile(r"\s*,\s*")
# Signs and other punctuation belong to the word beside them, so that such names are not turned.
_MARK = re.compile(r"[^\w\s,'-]|-(?!\w)|(?<!\w)-")


class Naming(NamedTuple):
    """What a text is a name of."""

    rows: list[int]  # of names; none if all are excluded
    how: str  # "" if it is no name


class NamesManifest(TypedDict):
    """What the manifest says of the arrays."""

    terminology: str  # its fingerprint
    lists: str  # the hash of the lists of words that bags and the bridge were made with
    bags: bool  # whether they are there
    bridge: bool


class Lexicon:
    """The names of a terminology by their words."""

    def __init__(
        self,
        terminology: Terminology,
        language: Language,  # that texts and names are read in
        ordered: KeyTable,  # names by their words in their order
        turned: KeyTable,  # and in any order
        said: SaidTable,  # what people say in place of names
        is_acronym: np.ndarray,  # which names are acronyms
        bags: BagTable | None = None,
        bridge: Sequence[np.ndarray] = (),
    ) -> None:
        self.terminology = terminology
        self.language = language
        self.ordered = ordered
        self.turned = turned
        self.said = said
        self.is_acronym = is_acronym
        if bags is not None:
            self.bags = bags
        self.bridge = BridgedTerminology(terminology, *bridge, language=language)
        self._texts = ColumnReader(terminology.names["name"])

    @classmethod
    def build(cls, terminology: Terminology, language: Language, said: SaidTable | Phrases | None = None) -> Lexicon:
        """Read all names. `said` is what people say in place of names: by default, what the package has for the
        language."""
        keys = key_names(terminology.names["name"], language)
        rows = np.arange(terminology.n_names)
        ordered = KeyTable.make(keys.ordered, rows)
        turned = KeyTable.make(keys.turned, rows)
        phrases = said or read_package(language)
        if not isinstance(phrases, SaidTable):
            phrases = SaidTable.build(phrases, terminology, ordered, language)
        is_acronym = np.zeros(terminology.n_names, dtype=bool)
        is_acronym[find_acronyms(terminology, np.arange(len(terminology)))] = True
        return cls(terminology, language, ordered, turned, phrases, is_acronym)

    def edited(self, terminology: Terminology, places: np.ndarray, language: Language) -> Lexicon:
        """Make the lexicon of an edited terminology, given the new row of each name, or -1. Only new names are read,
        unless the language is another one."""
        phrases = self.said.moved(places)
        if language != self.language:
            return Lexicon.build(terminology, language, phrases)
        is_left = places >= 0
        is_new = np.ones(terminology.n_names, dtype=bool)
        is_new[places[is_left]] = False
        new = np.flatnonzero(is_new)
        keys = key_names(terminology.names["name"][new], language)
        ordered = self.ordered.moved(places).joined(KeyTable.make(keys.ordered, new))
        turned = self.turned.moved(places).joined(KeyTable.make(keys.turned, new))
        is_acronym = np.zeros(terminology.n_names, dtype=bool)
        is_acronym[places[is_left]] = self.is_acronym[is_left]
        is_acronym[find_acronyms(terminology, np.unique(terminology.name_concept[new]))] = True
        return Lexicon(terminology, language, ordered, turned, phrases, is_acronym)

    @kept_property
    def bags(self) -> BagTable:
        """The names as matchers look for them, which takes seconds to make of large terminologies."""
        return BagTable.of(self.terminology, self.language, self.said)

    @property
    def made_bags(self) -> BagTable | None:
        """The same, if they have been made."""
        return vars(self).get("bags")

    def ask(
        self, texts: Sequence[str], ways: Sequence[str] = LABELS, is_allowed: np.ndarray | None = None
    ) -> list[Naming]:
        """Ask what each text is a name of, in the first of some ways that there is. `is_allowed` says which names
        count.

        Two others ask otherwise. Matchers look for names inside texts, whose words they read in any order, with the
        same scan. Rerankers ask whether a concept has a name with the mention's words or others of their classes, and
        have the concept already.
        """
        keys = key_texts(texts, self.language)
        matches = [Naming([], "")] * len(texts)
        for way in ways:
            open_ = [place for place, match in enumerate(matches) if not match.how]
            if not open_:
                break
            open_texts = [texts[place] for place in open_]
            for place, rows in self._find(way, open_texts, keys[open_]).items():
                allowed = (rows if is_allowed is None else rows[is_allowed[rows]]).tolist()
                if way != SAID:
                    allowed = self._list_in_own_case(open_texts[place], allowed)
                matches[open_[place]] = Naming(allowed, way)
        return matches

    def find_equal(self, text: str) -> list[int]:
        """Find the names that are a text, character by character."""
        (entry,) = self.ordered.find(key_texts([text], self.language)).tolist()
        rows = self._wordless if entry < 0 else self.ordered.rows_of(entry)
        return [row for row in rows.tolist() if self._texts.get(row) == text]

    @kept_property
    def _wordless(self) -> np.ndarray:
        """The names without words, which have no keys."""
        is_wordless = np.ones(self.terminology.n_names, dtype=bool)
        is_wordless[self.ordered.rows] = False
        return np.flatnonzero(is_wordless)

    def _find(self, way: str, texts: Sequence[str], keys: np.ndarray) -> Mapping[int, np.ndarray]:
        """Find the names that texts are in one way, by the places of texts."""
        tables = {FORM: self.ordered, SAID: self.said.whole}
        if way in tables:
            return _look_up(tables[way], keys)
        finders = {DERIVED: self._find_derived, TURNED: self._find_turned, MISSPELT: self._find_misspelt}
        return finders[way](texts)

    def _find_derived(self, texts: Sequence[str]) -> dict[int, np.ndarray]:
        """Find the names that texts are derived from: "drowsy" from "drowsiness"."""
        bases = [list_bases(text, self.language) for text in texts]
        keys = key_texts([*chain.from_iterable(bases)], self.language)
        of_bases = iter(self.ordered.find(keys).tolist())
        entries = [[entry for _, entry in zip(of_text, of_bases, strict=False)] for of_text in bases]
        firsts = (next((entry for entry in of_text if entry >= 0), -1) for of_text in entries)
        return {place: self.ordered.rows_of(entry) for place, entry in enumerate(firsts) if entry >= 0}

    def _find_misspelt(self, texts: Sequence[str]) -> dict[int, np.ndarray]:
        """Find the names that texts are with a typing error, where no other way finds any."""
        if not self.language.has_speller:
            return {}
        keys = find_misspelt(texts, self.ordered.keys, self._may_be, self.language)
        entries = self.ordered.find(as_hashes(keys.values())).tolist()
        names = {place: self.ordered.rows_of(entry) for place, entry in zip(keys, entries, strict=True)}
        return {place: rows for place, rows in names.items() if not self._contradicts(texts[place], rows)}

    def _contradicts(self, text: str, rows: np.ndarray) -> bool:
        return any(contradicts(text, name, self.language) for name in self._texts.list(rows))

    @kept_property
    def _may_be(self) -> KeyFilter:
        return make_key_filter(self.ordered.keys)

    def _find_turned(self, texts: Sequence[str]) -> dict[int, np.ndarray]:
        """Find the names whose words texts have from another word on ("shock, hypovolemic"), or between commas from
        the last ("anemia, hemolytic, congenital")."""
        matches = {}
        for place, rows in _look_up(self.turned, make_turned_keys(texts, self.language)).items():
            is_turned = [self._is_turned(texts[place], name) for name in self._texts.list(rows)]
            if any(is_turned):
                matches[place] = rows[is_turned]
        return matches

    def _is_turned(self, text: str, name: str) -> bool:
        if any(_MARK.search(normalize_writing(one)) for one in (text, name)):
            return False
        words = list_words(text, self.language)
        of_name = list_words(name, self.language)
        if any(words[start:] + words[:start] == of_name for start in range(len(words))):
            return True
        backwards = (list_words(" ".join(_COMMA.split(one)[::-1]), self.language) for one in (text, name))
        return next(backwards) == of_name or next(backwards) == words

    def _list_in_own_case(self, text: str, rows: list[int]) -> list[int]:
        """List the names that a short text has the case of."""
        if len(text) > OWN_CASE_LENGTH:
            return rows
        forms = own_case_forms(text)
        of_names = [own_case_forms(self._texts.get(row)) for row in rows]
        same = [row for row, of_name in zip(rows, of_names, strict=True) if not forms.isdisjoint(of_name)]
        # An ordinary word may be in capitals.
        words = [row for row, of_name in zip(rows, of_names, strict=True) if "" in of_name]
        return same or (words if text.isupper() else [])

    def to_disk(self, path: Path) -> None:
        """Save to a folder."""
        # Another thread may make them meanwhile.
        bags = self.made_bags
        bridge = self.bridge.made
        with fill_folder(path, last=FILE, remove=[f"{name}.npy" for name in (*BAG_ARRAYS, *BRIDGE_ARRAYS)]) as folder:
            for name, array in zip(KEY_ARRAYS, (*self.ordered, *self.turned), strict=True):
                save_array(folder / f"{name}.npy", array)
            save_array(folder / f"{ACRONYMS}.npy", self.is_acronym)
            self.said.to_disk(folder)
            if bags is not None:
                bags.to_disk(folder)
            for name, array in zip(BRIDGE_ARRAYS, bridge, strict=False):
                save_array(folder / f"{name}.npy", array)
            data = {
                "terminology": self.terminology.fingerprint,
                "lists": hash_lists(),
                "bags": bags is not None,
                "bridge": bool(bridge),
            }
            write_manifest(folder / FILE, FORMAT_VERSION, data)

    @classmethod
    def from_disk(cls, path: Path, terminology: Terminology, language: Language, *, memory_map: bool = True) -> Lexicon:
        """Load what `to_disk` saved; OSError if a file is missing, damaged or made of another terminology."""
        used = [f"{name}.npy" for name in (*KEY_ARRAYS, ACRONYMS, *SAID_ARRAYS)]
        parts = [*used, *(f"{name}.npy" for name in (*BAG_ARRAYS, *BRIDGE_ARRAYS))]
        data = read_manifest(path / FILE, FORMAT_VERSION, NamesManifest, parts=parts, used=used)
        if data["terminology"] != terminology.fingerprint:
            raise OSError(CHANGED.format(path=path / FILE))
        arrays = ArrayFolder(path, memory_map=memory_map)
        n_names = terminology.n_names
        ordered, turned = (arrays.read_keys(kind, n_names) for kind in KEYS)
        phrases = SaidTable.from_disk(arrays, n_names)
        is_acronym = arrays.read(ACRONYMS, bool, shape=(n_names,))
        bags: BagTable | None = None
        bridge: Sequence[np.ndarray] = ()
        # What was made with other lists of words is made again when it is asked for.
        is_current = data["lists"] == hash_lists()
        if is_current and data["bags"]:
            bags = BagTable.from_disk(arrays, n_names, language, phrases)
        if is_current and data["bridge"]:
            bridge = _read_bridge(arrays, terminology)
        return cls(terminology, language, ordered, turned, phrases, is_acronym, bags, bridge)

    def __reduce__(self) -> tuple[Any, ...]:
        tables = self.ordered, self.turned, self.said, self.is_acronym, self.made_bags, self.bridge.made
        return Lexicon, (self.terminology, self.language, *tables)


def _look_up(table: KeyTable, keys: np.ndarray) -> dict[int, np.ndarray]:
    entries = table.find(keys)
    return {place: table.rows_of(int(entries[place])) for place in np.flatnonzero(entries >= 0).tolist()}


def _read_bridge(arrays: ArrayFolder, terminology: Terminology) -> tuple[np.ndarray, np.ndarray]:
    of_names, of_concepts = BRIDGE_ARRAYS
    names = arrays.read(of_names, np.uint64, shape=(terminology.n_names,))
    return names, arrays.read(of_concepts, np.uint64, shape=(len(terminology), 2))
