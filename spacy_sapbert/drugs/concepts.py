"""Link drug strings to the concepts of a terminology with clinical drugs, such as RxNorm: the most specific one that
says all that a string says, and never one that says something else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import polars as pl

from ..terminology.table import Terminology
from .reader import DrugName, DrugString, Strength, load_words, read_drug

# The term types of RxNorm.
INGREDIENTS = ("IN", "PIN", "MIN")
BRAND = "BN"
# Products with all that can be said of them, and those that leave something out.
CLINICAL = ("SCD", "SBD")
PARTIAL = ("SCDC", "SBDC", "SCDF", "SBDF", "SCDG", "SBDG", "SCDFP", "SBDFP", "SCDGP")
OTHERS = ("GPCK", "BPCK", "DF", "DFG")
TERM_TYPES = (*INGREDIENTS, BRAND, *CLINICAL, *PARTIAL, *OTHERS)
# The relations that are used: of a brand to what it contains, and of a salt to its base.
TRADENAME_OF, FORM_OF = RELATIONS = ("tradename_of", "form_of")
# Shorter names are nearly any other word.
LEAST_LETTERS = 6

Parts = frozenset[int]


class Product(NamedTuple):
    """A clinical drug of the terminology."""

    row: int
    kind: str
    ingredients: tuple[int, ...]  # As they are named: salts, if the name says them.
    parts: Parts  # Their bases.
    brand: int | None
    reading: DrugString


class DrugAnswer(NamedTuple):
    """What a drug string is linked to."""

    reading: DrugString
    row: int | None
    how: str
    notes: tuple[str, ...] = ()
    others: tuple[int, ...] = ()
    ingredients: tuple[str, ...] = ()


class DrugConcepts:
    """The ingredients, brands and clinical drugs of a terminology, by what their names say."""

    def __init__(self, terminology: Terminology) -> None:
        """Index the names of drugs. Of RxNorm, they have its term types (IN, BN, SCD and so on); of any other
        terminology, all concepts with a semantic type of drugs are ingredients, and those with the term type BN
        brands."""
        self.terminology = terminology
        self._names = terminology.concepts["canonical_name"]
        self._kinds = _find_kinds(terminology)
        # The concepts that have a name of their own, and those that have it from their brands or ingredients.
        self._rows: dict[str, list[int]] = defaultdict(list)
        self._given: dict[str, list[int]] = defaultdict(list)
        self._products: list[int] = []
        self._index_names()

    def _index_names(self) -> None:
        kinds = pl.DataFrame({"concept": [*self._kinds], "kind": [*self._kinds.values()]})
        rows = self.terminology.names.select("name", "concept", "term_type").join(
            kinds.with_columns(pl.col("concept").cast(pl.UInt32)), on="concept", maintain_order="left"
        )
        for name, row, term_type, kind in rows.iter_rows():
            is_own = kind != BRAND and term_type in (BRAND, "SBD", "SBDC", "SBDF", "SBDG") and kind[:1] != "S"
            is_generic = kind == BRAND and term_type in (*INGREDIENTS, *CLINICAL)
            table = self._given if is_own or is_generic else self._rows
            if row not in table[fold_name(name)]:
                table[fold_name(name)].append(row)
        self._products = [row for row, kind in self._kinds.items() if kind in (*CLINICAL, *PARTIAL)]

    # Names

    def find_kind(self, words: str) -> str:
        """Find whether words are an "ingredient", a "brand" or no name ("")."""
        row = self.find_named(words)
        if row is None:
            return ""
        return "brand" if self._kinds[row] == BRAND else "ingredient"

    def find_named(self, words: str) -> int | None:
        """Find the ingredient or the brand with a name."""
        rows = [row for row in self._rows.get(fold_name(words), ()) if self._is_name(row)]
        order = (*INGREDIENTS, BRAND, "")
        return min(rows, key=lambda row: order.index(self._kinds[row]), default=None)

    def spell(self, words: str) -> str:
        """Find the name of one ingredient or brand that is written like misspelt words but for a letter, or with one
        letter in another place, and its salt; empty if there is none."""
        if self.find_kind(words):
            return words
        salts = _load_salts()
        start, _, last = words.rpartition(" ")
        if start and last.lower() in salts:
            base = self.spell(start)
            return f"{base} {salts[last.lower()]}" if base else ""
        for written, salt in salts.items():
            base = words[: -len(written)]
            if len(written) >= LEAST_LETTERS and words.lower().endswith(written) and self.find_kind(base):
                return f"{base} {salt}"
        word = fold_name(words)
        if len(word) < LEAST_LETTERS:
            return ""
        near = {name for short in _shorten(word) for name in self._shortened.get(short, ()) if name[0] == word[0]}
        close = [name for name in near if _is_one_error(word, name)] or [*near]
        rows = {self.find_named(name) for name in close}
        return min(close) if len(rows) == 1 else ""

    @cached_property
    def _shortened(self) -> dict[str, list[str]]:
        """The names without one of their letters."""
        table: dict[str, list[str]] = defaultdict(list)
        for name, rows in self._rows.items():
            if len(name) >= LEAST_LETTERS and any(map(self._is_name, rows)):
                for short in _shorten(name):
                    table[short].append(name)
        return table

    def _is_name(self, row: int) -> bool:
        return self._kinds[row] in (*INGREDIENTS, BRAND, "")

    # Ingredients

    def find_parts(self, row: int) -> Parts:
        """Find the bases of an ingredient, a combination or a brand."""
        kind = self._kinds[row]
        if kind == BRAND:
            targets = self._tradenames.get(row) or self._given_brands.get(fold_name(self._names[row]), [])
            combined = [target for target in targets if self._kinds[target] == "MIN"]
            return frozenset().union(*map(self.find_parts, combined or targets))
        if kind == "MIN":
            named = [self.find_named(name) for name in self._names[row].split(" / ")]
            return frozenset(self._find_base(part) for part in named if part is not None)
        return frozenset([self._find_base(row)])

    def _find_base(self, row: int) -> int:
        if row in self._bases:
            return self._bases[row]
        words = self._names[row].split()
        if self._kinds[row] == "IN":
            return row
        salts = _load_salts()
        while len(words) > 1 and words[-1].lower() in salts:
            words.pop()
            base = self.find_named(" ".join(words))
            if base is not None and self._kinds[base] != BRAND:
                return base
        return row

    @cached_property
    def _bases(self) -> dict[int, int]:
        return {head: tail for head, label, tail in self.terminology.relations.iter_rows() if label == FORM_OF}

    @cached_property
    def _tradenames(self) -> dict[int, list[int]]:
        """What brands are names of."""
        table: dict[int, list[int]] = defaultdict(list)
        for head, label, tail in self.terminology.relations.iter_rows():
            if label == TRADENAME_OF and self._kinds.get(head) == BRAND and self._kinds.get(tail, BRAND) != BRAND:
                table[head].append(tail)
        return table

    @cached_property
    def _given_brands(self) -> dict[str, list[int]]:
        """The ingredients that have a brand's name, of a terminology without relations."""
        return {name: [row for row in rows if self._kinds[row] != BRAND] for name, rows in self._given.items()}

    @cached_property
    def _combinations(self) -> dict[Parts, int]:
        return {self.find_parts(row): row for row, kind in self._kinds.items() if kind == "MIN"}

    # Products

    @cached_property
    def _families(self) -> dict[tuple[Parts, int | None], list[Product]]:
        """The clinical drugs by their ingredients and their brand."""
        families: dict[tuple[Parts, int | None], list[Product]] = defaultdict(list)
        for row in self._products:
            reading = read_drug(self._names[row], self)
            rows = [self.find_named(name.text) for name in reading.names]
            named = [one for one in rows if one is not None]
            brand = next((one for one in named if self._kinds[one] == BRAND), None)
            ingredients = tuple(one for one in named if one != brand)
            if len(named) < len(rows) or not ingredients:
                continue
            parts = frozenset[int]().union(*map(self.find_parts, ingredients))
            families[parts, brand].append(Product(row, self._kinds[row], ingredients, parts, brand, reading))
        return families

    # Strings

    def list_ingredients(self, reading: DrugString) -> list[str]:
        """List the names of the ingredients that a string names, itself or by a brand."""
        named = [name.text for name in reading.names if name.kind not in ("brand", "several")]
        rows = [self.find_named(name) for name in named]
        if named:
            return [name if row is None else self._names[row] for name, row in zip(named, rows, strict=True)]
        brands = [self.find_named(name.text) for name in reading.names if name.kind == "brand"]
        parts = frozenset[int]().union(*(self.find_parts(row) for row in brands if row is not None))
        return [self._names[row] for row in sorted(parts)]

    def answer(self, text: str) -> DrugAnswer:
        """Link a drug string."""
        reading = read_drug(text, self)
        row, how, notes, others = self._link(text, reading)
        if not reading.is_unit_read and row is not None:
            notes.append("no unit")
        ingredients = tuple(self.list_ingredients(reading))
        return DrugAnswer(reading, row, how, tuple(notes), tuple(others), ingredients)

    def _link(self, text: str, reading: DrugString) -> tuple[int | None, str, list[str], list[int]]:
        choices = [choice for name in reading.names for choice in name.choices]
        if choices:
            rows = [row for row in map(self.find_named, choices) if row is not None]
            return None, "several", [f"may be {' or '.join(choices)}"], rows
        whole = self._rows.get(fold_name(text), [])
        if len(whole) == 1:
            return whole[0], "name", [], []
        named = {name: self.find_named(name.text) for name in reading.names}
        unknown = [name.text for name, row in named.items() if row is None]
        if not named or unknown:
            notes = [f"no name: {name}" for name in unknown] if len(unknown) < len(named) else []
            return None, "no name", notes, [row for row in named.values() if row is not None]
        rows = [row for row in named.values() if row is not None]
        notes = [f"spelt {name.text}" for name in named if fold_name(name.text) not in fold_name(text)]
        notes = [note for note, name in zip(notes, named, strict=False) if not self._is_short(name, text)]
        brands = [row for row in rows if self._kinds[row] == BRAND]
        ingredients = [row for row in rows if self._kinds[row] != BRAND]
        parts = frozenset[int]().union(*map(self.find_parts, ingredients))
        of_brand = frozenset[int]().union(*map(self.find_parts, brands[:1]))
        if len(brands) > 1 or (brands and parts and of_brand and not of_brand & parts):
            return None, "several", [*notes, "names of different drugs"], rows
        return self._choose(reading, ingredients, parts or of_brand, brands[0] if brands else None, notes)

    @staticmethod
    def _is_short(name: DrugName, text: str) -> bool:
        """Whether a name is the long form of what a string has."""
        words = load_words()
        return any(name.text in parts for parts in words["names"].values()) and name.text.lower() not in text.lower()

    def _choose(
        self, reading: DrugString, ingredients: list[int], parts: Parts, brand: int | None, notes: list[str]
    ) -> tuple[int | None, str, list[str], list[int]]:
        """Choose the concept of a string with known names."""
        is_clinical = bool(reading.strengths or reading.form or reading.release)
        families = [self._families.get((parts, brand), [])]
        if brand is not None:
            families = [self._list_of_brand(brand), self._families.get((parts, None), [])]
        for family in families if is_clinical else ():
            full = [product for product in family if says_all(product, reading, ingredients)]
            chosen, several = _choose_product(full, reading)
            if chosen is not None:
                is_other = brand is not None and chosen.brand is None
                return chosen.row, "drug", [*notes, *(["no product of the brand"] if is_other else [])], []
            if several:
                rows = [product.row for product in several]
                return None, "several", [*notes, f"{len(rows)} drugs are all that it says"], rows
        if is_clinical:
            products = [product for family in families for product in family]
            notes = [*notes, *_find_missing(products, reading, ingredients)]
        if brand is not None:
            return brand, "brand only" if is_clinical else "name", notes, sorted(parts)
        if len(ingredients) == 1:
            return ingredients[0], "ingredient only" if is_clinical else "name", notes, []
        combination = self._combinations.get(parts)
        if combination is None or len(parts) < 2:
            return None, "no combination", [*notes, "no concept has all its parts"], sorted(parts)
        return combination, "ingredient only" if is_clinical else "name", notes, []

    def _list_of_brand(self, brand: int) -> list[Product]:
        return [product for (_, own), family in self._families.items() if own == brand for product in family]


def _find_kinds(terminology: Terminology) -> dict[int, str]:
    """Find the term type of each concept of drugs: that of RxNorm's normalized name, which is the preferred one; of
    other concepts with a semantic type of drugs none."""
    preferred = terminology.names.filter(pl.col("preferred"), pl.col("term_type").is_in(TERM_TYPES))
    kinds = dict(preferred.unique("concept", keep="first", maintain_order=True).select("concept", "term_type").rows())
    if any(kind in INGREDIENTS for kind in kinds.values()):
        return kinds
    types = terminology.concepts["types"]
    is_drug = types.list.eval(pl.element().is_in(load_words()["drug types"])).list.any()
    return {row: kinds.get(row, "") for row in is_drug.fill_null(False).arg_true().to_list()} | kinds


def fold_name(name: str) -> str:
    """Write a name as names are compared: without case and repeated spaces."""
    return " ".join(name.casefold().split())


def _load_salts() -> dict[str, str]:
    return {written: salt for salt, listed in load_words()["salts"].items() for written in listed}


def _shorten(word: str) -> list[str]:
    """List a word, and the word without each of its letters."""
    return [word, *(word[:place] + word[place + 1 :] for place in range(len(word)))]


def _is_one_error(word: str, name: str) -> bool:
    """Whether two words differ in one letter only."""
    shorter, longer = sorted((word, name), key=len)
    if len(shorter) == len(longer):
        return sum(a != b for a, b in zip(shorter, longer, strict=True)) == 1
    return shorter in _shorten(longer)


def says_all(product: Product, reading: DrugString, ingredients: Sequence[int]) -> bool:
    """Whether a product says all that a string says, and nothing else of what both say."""
    return not find_differences(product, reading, ingredients)


def find_differences(product: Product, reading: DrugString, ingredients: Sequence[int]) -> list[str]:
    """List in what a product differs from a string, or says less."""
    own = product.reading
    checks: dict[str, Callable[[], bool]] = {
        "salt": lambda: all(row in product.ingredients for row in ingredients if row not in product.parts),
        "strength": lambda: _have_strengths(product, reading, ingredients),
        "form": lambda: not reading.form or own.form in _list_broader("broader", reading.form),
        "release": lambda: _has_release(own, reading),
        "route": lambda: _has_route(own, reading),
    }
    return [what for what, check in checks.items() if not check()]


def _list_broader(table: str, word: str) -> list[str]:
    listed: list[str] = load_words()[table].get(word, [word])
    return listed


def _has_release(own: DrugString, reading: DrugString) -> bool:
    """Whether a product has the release that a string says, or none if it says none."""
    said = reading.release if reading.release != "immediate release" else ""
    if own.release not in _list_broader("broader releases", said):
        return False
    return not (own.hours and reading.hours) or own.hours == reading.hours


def _has_route(own: DrugString, reading: DrugString) -> bool:
    words = load_words()
    said, has = (one.route or words["default routes"].get(one.form, "") for one in (reading, own))
    return not (said and has) or said == has or said in words["routes"].get(has, ())


def _have_strengths(product: Product, reading: DrugString, ingredients: Sequence[int]) -> bool:
    """Whether a product has the strengths of a string: in their order if the string names as many ingredients, else in
    any. One that says fewer may leave those of other parts out."""
    if not reading.strengths:
        return True
    own = product.reading.strengths
    if len(own) != len(product.ingredients):
        return False
    said = list(reading.strengths)
    if len(ingredients) == len(said) == len(own):
        # Names that a string has in another order have their strengths in that order.
        places = [_find_place(product, row) for row in ingredients]
        return None not in places and all(
            strength.equals(own[place]) for strength, place in zip(said, places, strict=True) if place is not None
        )
    return _take(said, list(own))


def _find_place(product: Product, row: int) -> int | None:
    if row in product.ingredients:
        return product.ingredients.index(row)
    # The base of a salt: parts are in no order, so it has to be the only part that is not named as it is.
    left = [place for place, one in enumerate(product.ingredients) if one not in product.parts]
    return left[0] if row in product.parts and len(left) == 1 else None


def _take(said: Iterable[Strength], own: list[Strength]) -> bool:
    for strength in said:
        match = next((one for one in own if one.equals(strength)), None)
        if match is None:
            return False
        own.remove(match)
    return True


def _choose_product(full: list[Product], reading: DrugString) -> tuple[Product | None, list[Product]]:
    """Choose the one product that says all, or list several: those with all that can be said, and of these those that
    add least to what the string says; else what leaves it out."""
    clinical = [product for product in full if product.kind in CLINICAL]
    for condition in (
        lambda product: product.reading.hours == reading.hours,
        lambda product: product.reading.quantity in ("", reading.quantity),
        lambda product: product.reading.quantity == reading.quantity,
    ):
        clinical = list(filter(condition, clinical)) or clinical
    if len(clinical) == 1:
        return clinical[0], []
    partial = [product for product in full if product.kind not in CLINICAL]
    if len(partial) == 1:
        return partial[0], []
    return None, clinical or partial


def _find_missing(products: list[Product], reading: DrugString, ingredients: Sequence[int]) -> list[str]:
    """Say what of a string no product has."""
    if not products:
        return ["no such drug here"]
    of_each = [find_differences(product, reading, ingredients) for product in products]
    missing = [what for what in ("strength", "form", "release", "salt", "route") if all(what in one for one in of_each)]
    return [f"no such {what}" for what in missing] or ["not in this strength, form and release together"]
