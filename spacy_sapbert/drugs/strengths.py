"""The strengths of drugs: amounts of an ingredient, in units that can be compared."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

# Units as amounts of another.
BASES = {
    "mcg": ("mg", Fraction(1, 1000)),
    "ng": ("mg", Fraction(1, 10**6)),
    "g": ("mg", Fraction(1000)),
    "L": ("mL", Fraction(1000)),
    "day": ("hr", Fraction(24)),
    "min": ("hr", Fraction(1, 60)),
}
# RxNorm rounds to three digits: 0.1 mg in 24 hours are 0.00417 mg an hour.
TOLERANCE = 0.005
ONE = Fraction(1)


class Strength(NamedTuple):
    """An amount of an ingredient, such as 400 mg in 5 mL."""

    amount: Fraction
    unit: str
    per: Fraction = ONE
    per_unit: str = ""

    def __str__(self) -> str:
        """Write it with the units of `drugs.json`."""
        per = "" if self.per == 1 else f"{write_number(self.per)} "
        gap = "" if self.unit == "%" else " "
        return f"{write_number(self.amount)}{gap}{self.unit}" + (f"/{per}{self.per_unit}" if self.per_unit else "")

    @property
    def size(self) -> tuple[str, float]:
        """The amount in the base of its unit, for one of what it is in."""
        unit, factor = BASES.get(self.unit, (self.unit, ONE))
        per_unit, per_factor = BASES.get(self.per_unit, (self.per_unit, ONE)) if self.per_unit != "g" else ("g", ONE)
        if self.per_unit == "mg":
            per_unit = "g"
            per_factor = Fraction(1, 1000)
        return f"{unit}/{per_unit}", float(self.amount * factor / (self.per * per_factor))

    def equals(self, other: Strength) -> bool:
        """Whether it is the same amount, in any units."""
        (kind, size), (other_kind, other_size) = self.size, other.size
        if "%/" in (kind, other_kind) and kind != other_kind:
            # 1 % are 10 mg in a mL, or in a g.
            size, other_size = (value * (10 if which == "%/" else 1) for which, value in (self.size, other.size))
            kind, other_kind = ("mg/mL" if which in ("%/", "mg/g") else which for which in (kind, other_kind))
        return kind == other_kind and abs(size - other_size) <= TOLERANCE * max(size, other_size)


def write_number(number: Fraction) -> str:
    """Write a number in decimals."""
    return f"{float(number):.10f}".rstrip("0").rstrip(".")
