"""Link drug strings to the concepts of a terminology with clinical drugs, such as RxNorm: the most specific one that
says all that a string says, and never one that says something else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from ..ragged import sum_lists
from ..terminology.table import Terminology
from .reader import read_drug
from .reading import ANOTHER, DrugString
from .strengths import Strength, write_number
from .words import clean_string, load_words

# The term types of RxNorm.
INGREDIENTS = ("IN", "PIN", "MIN")
BRAND = "BN"
# Products with all that can be said of them, and those that leave something out.
CLINICAL = ("SCD", "SBD")
PARTIAL = ("SCDC", "SBDC", "SCDF", "SBDF")
# These are found by their whole names only.
OTHERS = ("SCDG", "SBDG", "GPCK", "BPCK")
TERM_TYPES = (*INGREDIENTS, BRAND, *CLINICAL, *PARTIAL, *OTHERS)
BRANDED = (BRAND, "SBD", "SBDC", "SBDF", "SBDG", "BPCK")
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
    bases: tuple[int, ...]
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
        self._read: dict[int, Product | None] = {}
        self._index_names()

    def _index_names(self) -> None:
        kinds = pl.DataFrame({"concept": [*self._kinds], "kind": [*self._kinds.values()]})
        rows = self.terminology.names.to_polars("name", "concept", "term_type").join(
            kinds.with_columns(pl.col("concept").cast(pl.UInt32)), on="concept", maintain_order="left"
        )
        for name, row, term_type, kind in rows.iter_rows():
            is_given = term_type in TERM_TYPES and (term_type in BRANDED) != (kind in BRANDED)
            table = self._given if is_given else self._rows
            if row not in table[fold_drug_name(name)]:
                table[fold_drug_name(name)].append(row)
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
        rows = [row for row in self._rows.get(fold_drug_name(words), ()) if self._is_name(row)]
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
        word = fold_drug_name(words)
        if len(word) < LEAST_LETTERS:
            return ""
        names = {name for short in _shorten(word) for name in self._shortened.get(short, ())}
        near = [name for name in names if name[0] == word[0]]
        close = [name for name in near if _is_one_error(word, name)] or near
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
            targets = self._tradenames.get(row) or self._given_brands.get(fold_drug_name(self._names[row]), [])
            combined = [target for target in targets if self._kinds[target] == "MIN"]
            return self._unite(combined or targets)
        if kind == "MIN":
            return frozenset(map(self._find_base, self._split_combination(row)))
        return frozenset([self._find_base(row)])

    def _split_combination(self, row: int) -> list[int]:
        """List the parts of a combination in the order of its name; itself, if one of them has no concept."""
        if self._kinds[row] != "MIN":
            return [row]
        named = [self.find_named(name) for name in self._names[row].split(" / ")]
        parts = [part for part in named if part is not None and part != row]
        return parts if len(parts) == len(named) else [row]

    def _find_base(self, row: int) -> int:
        if row in self._bases:
            return self._bases[row]
        base = None if self._kinds[row] == "IN" else self._strip_salts(self._names[row])
        return row if base is None else base

    def _strip_salts(self, name: str) -> int | None:
        """Find the ingredient whose salt a name is."""
        words = name.split()
        salts = _load_salts()
        while len(words) > 1 and words[-1].lower() in salts:
            words.pop()
            base = self.find_named(" ".join(words))
            if base is not None and self._kinds[base] != BRAND:
                return base
        return None

    @cached_property
    def _bases(self) -> dict[int, int]:
        rows = self.terminology.relations.to_polars().filter(pl.col("label") == FORM_OF).select("head", "tail").rows()
        return {head: tail for head, tail in rows if self._kinds.get(head) == "PIN" and self._kinds.get(tail) == "IN"}

    @cached_property
    def _tradenames(self) -> dict[int, list[int]]:
        """What brands are names of."""
        table: dict[int, list[int]] = defaultdict(list)
        rows = (
            self.terminology.relations.to_polars().filter(pl.col("label") == TRADENAME_OF).select("head", "tail").rows()
        )
        for head, tail in rows:
            if self._kinds.get(head) == BRAND and self._kinds.get(tail, BRAND) != BRAND:
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
    def _rows_by_word(self) -> dict[str, list[int]]:
        """The clinical drugs by the words of their names: reading those of an ingredient is much faster than all."""
        table: dict[str, list[int]] = defaultdict(list)
        for row in self._products:
            name = fold_drug_name(self._names[row])
            words = name.replace("[", "").replace("]", "").split()
            for word in set(words):
                table[word].append(row)
        return table

    @cached_property
    def _salts_of(self) -> dict[int, list[int]]:
        table: dict[int, list[int]] = defaultdict(list)
        for salt, base in self._bases.items():
            table[base].append(salt)
        return table

    def _list_generic(self, parts: Parts) -> list[Product]:
        """List the clinical drugs without a brand that have these ingredients and no others."""
        rows = [self._find_rows(part, *self._salts_of.get(part, ())) for part in parts]
        together = set.intersection(*rows) if rows else set()
        products = filter(None, map(self._read_product, sorted(together)))
        return [product for product in products if product.brand is None and parts == {*product.bases}]

    def _list_branded(self, brand: int) -> list[Product]:
        products = filter(None, map(self._read_product, sorted(self._find_rows(brand))))
        return [product for product in products if product.brand == brand]

    def _find_rows(self, *named: int) -> set[int]:
        """Find the clinical drugs with the first word of a name in theirs."""
        words = {fold_drug_name(self._names[row]).split()[0] for row in named}
        return {row for word in words for row in self._rows_by_word.get(word, ())}

    def _read_product(self, row: int) -> Product | None:
        """Read the name of a clinical drug; None if it is about ingredients that have no concept."""
        if row not in self._read:
            reading = read_drug(self._names[row], self)
            rows = [self.find_named(name.text) for name in reading.names]
            named = [one for one in rows if one is not None]
            brand = next((one for one in named if self._kinds[one] == BRAND), None)
            ingredients = tuple(one for one in named if one != brand)
            bases = tuple(map(self._find_base, ingredients))
            is_whole = len(named) == len(rows) and bool(ingredients)
            product = Product(row, self._kinds[row], ingredients, bases, brand, reading)
            self._read[row] = product if is_whole else None
        return self._read[row]

    # Strings

    def list_ingredients(self, reading: DrugString) -> list[str]:
        """List the names of the ingredients that a string names, itself or by a brand."""
        named = [name.text for name in reading.names if name.kind not in ("brand", "several", ANOTHER)]
        rows = [self.find_named(name) for name in named]
        if named:
            return [name if row is None else self._names[row] for name, row in zip(named, rows, strict=True)]
        brands = [self.find_named(name.text) for name in reading.names if name.kind == "brand"]
        return [self._names[row] for row in sorted(self._unite(row for row in brands if row is not None))]

    def answer(self, text: str) -> DrugAnswer:
        """Link a drug string."""
        reading = read_drug(text, self)
        answer = self._link(text, reading)
        notes = [f"spelt {name.text}" for name in reading.names if name.is_spelt]
        if not reading.is_unit_read and answer.row is not None:
            notes.append(f"no unit: read as {reading.strengths[0].unit}")
        # Such a drug is not taken, or is not the only one of its strengths that is.
        notes += [f"says {word}" for word in reading.rest if word in load_words()["not taken"]]
        amount, _, unit = reading.quantity.partition(" ")
        if any(one.unit == unit in ("mg", "mcg") and write_number(one.amount) != amount for one in reading.strengths):
            notes.append(f"also {reading.quantity}")
        return answer._replace(notes=(*notes, *answer.notes), ingredients=tuple(self.list_ingredients(reading)))

    def _link(self, text: str, reading: DrugString) -> DrugAnswer:
        if choices := [choice for name in reading.names for choice in name.choices]:
            rows = [row for row in map(self.find_named, choices) if row is not None]
            return DrugAnswer(reading, None, "several", (f"may be {' or '.join(choices)}",), tuple(rows))
        if any(name.kind == ANOTHER for name in reading.names):
            rows = [row for row in (self.find_named(name.text) for name in reading.names) if row is not None]
            return DrugAnswer(reading, None, "several", ("names of several drugs",), tuple(rows))
        whole = [row for row in self._rows.get(fold_drug_name(text), ()) if self._kinds[row] not in PARTIAL]
        if len(whole) == 1:
            return DrugAnswer(reading, whole[0], "name")
        row_of = {name.text: self.find_named(name.text) for name in reading.names}
        rows = [row for row in row_of.values() if row is not None]
        if not row_of or len(rows) < len(row_of):
            unknown = [name for name, row in row_of.items() if row is None]
            bases = [base for base in map(self._strip_salts, unknown) if base is not None]
            notes = tuple(f"no name: {name}" for name in unknown)
            return DrugAnswer(reading, None, "no name", notes, (*rows, *bases))
        if reading.has_other_strength:
            return DrugAnswer(reading, None, "several", ("several strengths",), tuple(rows))
        brands = [row for row in rows if self._kinds[row] == BRAND]
        ingredients = [part for row in rows if self._kinds[row] != BRAND for part in self._split_combination(row)]
        parts, of_brand = (self._unite(listed) for listed in (ingredients, brands))
        if len(brands) > 1 or (brands and parts and of_brand and not of_brand >= parts):
            return DrugAnswer(reading, None, "several", ("names of different drugs",), tuple(rows))
        if not brands:
            return self._choose(reading, ingredients, parts, self._list_generic(parts))
        # What is generic may have another release, so it stands in only for a brand without any product here.
        family = self._list_branded(brands[0]) or self._list_generic(of_brand or parts)
        answer = self._choose(reading, ingredients, of_brand or parts, family, brands[0])
        is_generic = answer.row is not None and self._kinds[answer.row] not in BRANDED
        return answer._replace(notes=(*answer.notes, "no product of the brand")) if is_generic else answer

    def _unite(self, rows: Iterable[int]) -> Parts:
        return frozenset[int]().union(*map(self.find_parts, rows))

    def _choose(
        self,
        reading: DrugString,
        ingredients: list[int],
        parts: Parts,
        family: list[Product],
        brand: int | None = None,
    ) -> DrugAnswer:
        """Choose the concept of a string: a product of a family, else of its names."""
        is_clinical = bool(reading.strengths or reading.form or reading.release)
        full = _add_only_release(family, reading, ingredients)
        product, several = _choose_product(family if is_clinical else [], full, ingredients, brand)
        if product is not None:
            is_added = full.release != reading.release and bool(product.reading.form)
            return DrugAnswer(reading, product.row, "drug", (f"only as {full.release}",) if is_added else ())
        if several:
            rows = tuple(one.row for one in several)
            return DrugAnswer(reading, None, "several", (f"{len(rows)} drugs are all that it says",), rows)
        notes = tuple(_find_missing(family, reading, ingredients)) if is_clinical else ()
        strong = [product for product in family if reading.strengths and _is_of_strength(product, reading, ingredients)]
        # If the string names no salt, this one may belong to another form.
        if reading.is_unit_read and len(strong) == 1 and {*strong[0].ingredients} <= {*ingredients, *parts}:
            return DrugAnswer(reading, strong[0].row, "strength only", notes)
        names = [brand] if brand is not None else ingredients
        if len(names) > 1 and parts in self._combinations:
            names = [self._combinations[parts]]
        if len(names) > 1:
            return DrugAnswer(reading, None, "no combination", ("no concept has all its parts",), tuple(sorted(parts)))
        others = tuple(sorted(parts)) if brand is not None else ()
        only = "brand only" if brand is not None else "ingredient only"
        return DrugAnswer(reading, names[0], only if is_clinical else "name", notes, others)


def _find_kinds(terminology: Terminology) -> dict[int, str]:
    """Find the term type of each concept of drugs: that of RxNorm's normalized name, which is the preferred one unless
    other sources have names of it too. Without RxNorm, concepts with a semantic type of drugs have none."""
    is_own = pl.col("preferred") | pl.col("source").str.contains("RXNORM")
    rows = terminology.names.to_polars().filter(is_own, pl.col("term_type").is_in(TERM_TYPES))
    best = rows.sort("concept", ~pl.col("preferred"), maintain_order=True).unique("concept", keep="first")
    kinds = dict(best.select("concept", "term_type").sort("concept").rows())
    if any(kind in INGREDIENTS for kind in kinds.values()):
        return kinds
    types = terminology.concepts["types"]
    is_drug = sum_lists(types.child.is_in(load_words()["drug types"]), types.offsets) > 0
    return {row: kinds.get(row, "") for row in np.flatnonzero(is_drug).tolist()} | kinds


def fold_drug_name(name: str) -> str:
    """Write a name as names are compared: without case, repeated spaces and full stops in abbreviations."""
    return " ".join(clean_string(name).casefold().split())


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
        "salt": lambda: all(row in product.ingredients + product.bases for row in ingredients),
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
    release = reading.release if reading.release != "immediate release" else ""
    if own.release not in _list_broader("broader releases", release):
        return False
    return not (own.hours and reading.hours) or own.hours == reading.hours


def _has_route(own: DrugString, reading: DrugString) -> bool:
    words = load_words()
    defaults = words["default routes"]
    route = reading.route or defaults.get(reading.form, "")
    own_route = own.route or defaults.get(own.form, "")
    if not (route and own_route):
        return True
    return route == own_route or route in words["routes"].get(own_route, ())


def _have_strengths(product: Product, reading: DrugString, ingredients: Sequence[int]) -> bool:
    """Whether a product has the strengths of a string: in their order if the string names as many ingredients, else in
    any. One that says fewer may leave those of other parts out."""
    if not reading.strengths:
        return True
    own = [_list_writings(strength, product.reading) for strength in product.reading.strengths]
    if len(own) != len(product.ingredients):
        return False
    strengths = list(reading.strengths)
    if len(ingredients) == len(strengths) == len(own):
        # Names that a string has in another order have their strengths in that order.
        places = [_find_place(product, row) for row in ingredients]
        if None in places:
            return False
        ordered = [own[place] for place in places if place is not None]
        return all(any(map(one.equals, writings)) for one, writings in zip(strengths, ordered, strict=True))
    return _take(strengths, own)


def _list_writings(strength: Strength, reading: DrugString) -> list[Strength]:
    """List how a product's strength may be written: in a puff without the puff, and in a mL as all in the container."""
    writings = [strength]
    if strength.per_unit == "actuation":
        writings.append(Strength(strength.amount / strength.per, strength.unit))
    size, _, unit = reading.quantity.partition(" ")
    if strength.per_unit == unit == "mL":
        writings.append(Strength(strength.amount / strength.per * Fraction(size), strength.unit))
    return writings


def _find_place(product: Product, row: int) -> int | None:
    rows = product.ingredients if row in product.ingredients else product.bases
    return rows.index(row) if row in rows else None


def _take(strengths: Iterable[Strength], own: list[list[Strength]]) -> bool:
    for strength in strengths:
        match = next((one for one in own if any(map(strength.equals, one))), None)
        if match is None:
            return False
        own.remove(match)
    return True


def _choose_product(
    family: list[Product], reading: DrugString, ingredients: Sequence[int], brand: int | None
) -> tuple[Product | None, list[Product]]:
    """Choose the one product that says all, or list several. Of a string without a form, or with a brand of which there
    is no product, a product with a form is chosen only if there is no other, in any release; else what says nothing of
    the form."""
    differences = [(product, find_differences(product, reading, ingredients)) for product in family]
    full = [product for product, differs in differences if not differs]
    clinical = [product for product in full if product.kind in CLINICAL]
    best = _keep_best(clinical, reading)
    partial = [product for product in full if product.kind not in CLINICAL]
    is_generic = brand is not None and any(product.brand is None for product in family)
    is_open = False
    if (is_generic or not reading.form) and not reading.release:
        released = [product for product, differs in differences if differs == ["release"] and product.kind in CLINICAL]
        forms = {product.reading.form for product in clinical}
        is_sized = bool(reading.quantity) and any(product.reading.quantity == reading.quantity for product in best)
        is_open = bool(released) or (len(forms) > 1 and not is_sized)
    if len(best) == 1 and not is_open:
        return best[0], []
    if len(partial) == 1:
        return partial[0], []
    return None, partial if is_open and partial else best or partial


def _keep_best(products: list[Product], reading: DrugString) -> list[Product]:
    """Keep the products that last as long as the string says, and those with as much in a container."""
    lasting = [product for product in products if product.reading.hours == reading.hours] or products
    sized = [product for product in lasting if product.reading.quantity == reading.quantity]
    unsized = [product for product in lasting if not product.reading.quantity]
    return (sized if reading.quantity else []) or unsized or sized or lasting


def _add_only_release(family: list[Product], reading: DrugString, ingredients: Sequence[int]) -> DrugString:
    """Add the release that all products with the form and the salt of a string have, as a string need not say it."""
    if reading.release:
        return reading
    releases = {
        (product.reading.release, product.reading.hours)
        for product in family
        if product.kind in CLINICAL
        and not {"form", "salt"}.intersection(find_differences(product, reading, ingredients))
    }
    if len(releases) != 1:
        return reading
    release, hours = releases.pop()
    return reading._replace(release=release, hours=reading.hours or hours)


def _is_of_strength(product: Product, reading: DrugString, ingredients: Sequence[int]) -> bool:
    """Whether a product says nothing of the form, and has the strength and the salt that a string says."""
    differs = find_differences(product, reading, ingredients)
    return not product.reading.form and not {"strength", "salt"}.intersection(differs)


def _find_missing(products: list[Product], reading: DrugString, ingredients: Sequence[int]) -> list[str]:
    """Say what of a string no product has."""
    if not products:
        return ["no drugs with it here"]
    of_each = [(product, find_differences(product, reading, ingredients)) for product in products]
    if all("strength" in differs for _, differs in of_each):
        return ["no such strength"]
    strong = [differs for product, differs in of_each if product.reading.form and "strength" not in differs]
    if not strong:
        return ["no such form" if reading.form else "no such release"]
    nearest = [differs for differs in strong if len(differs) == min(map(len, strong))]
    missing = [what for what in ("form", "release", "salt", "route") if all(what in differs for differs in nearest)]
    if "release" in missing and not reading.release:
        return ["the release is not said"]
    return [f"no such {what}" for what in missing] if missing else ["not all of it together"]
