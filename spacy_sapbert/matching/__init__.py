"""The component `terminology_matcher`, which finds the names of a terminology in texts, and its settings."""

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from ..candidates import ConceptFilter
from ..settings import Settings, Strings

Matches = Literal["longest", "longest+", "all"]
Words = Literal["classes", "exact"]


class MatcherSettings(Settings):
    """Which names a matcher looks for, and what it makes of them. All can be changed on a loaded matcher."""

    linker: str = Field(default="sapbert_linker", description="The linker whose terminology has the names.")
    matches: Matches = Field(
        default="longest",
        description='Keep the longest of overlapping names; with "longest+" also names inside coordinated ones '
        '("foot deformities" in "hand and foot deformities"); or all. The latter two need `spans_key`.',
    )
    words: Words = Field(
        default="classes",
        description='Find names in other words that stand for theirs, and in coordination; "exact" for neither.',
    )
    spans_key: str | None = Field(default=None, description="A group of `doc.spans` to write to; null for `doc.ents`.")
    overwrite: bool = Field(
        default=False,
        description="Replace entities that overlap a name; but none with an id that the linker may not `overwrite`.",
    )
    label: str = Field(default="CONCEPT", min_length=1, description="Label of names without one in `label_types`.")
    label_types: dict[str, Strings] = Field(
        default={}, description="For labels: the semantic types that get them. The first label that fits counts."
    )
    types: Strings | None = Field(default=None, description="Semantic types of the concepts to find; null for all.")
    sources: Strings | None = Field(default=None, description="Sources whose names to look for; null for all.")
    languages: Strings | None = Field(default=None, description="Languages whose names to look for; null for all.")
    ids: Strings | None = Field(default=None, description="Ids of the concepts whose names to look for; null for all.")
    below: Strings | None = Field(
        default=None, description="Ids of concepts, to find these and their descendants only; null for all."
    )
    not_below: Strings | None = Field(
        default=None, description="Ids of concepts, to find neither these nor their descendants; null for none."
    )
    skip_names: Strings = Field(default=(), description="Names to leave out, in any order of their words.")
    min_length: int = Field(default=2, ge=1, description="Characters that a name has at least.")
    own_case_length: int = Field(
        default=5, ge=0, description='Names of up to so many characters match in their own case only: "ALL", not "all".'
    )
    define_length: int = Field(
        default=3,
        ge=0,
        description='Short forms of up to so many letters ("RA", "RB1") match only where the document defines '
        "them, because many are ambiguous; 0 to match all. Needs `schwartz_hearst` before the matcher.",
    )
    skip_stop_words: bool = Field(
        default=True, description="Leave out single words that are stop words, unless they are written in capitals."
    )
    abbreviations: bool = Field(
        default=True, description="Find short forms that the document defines; needs `schwartz_hearst` before it."
    )

    def make_filter(self) -> ConceptFilter:
        """Make the filter for names with any label."""
        fields = self.types, self.sources, self.languages, self.ids
        return ConceptFilter(*fields, below=self.below, not_below=self.not_below)

    @model_validator(mode="after")
    def _check_overlaps(self) -> Self:
        if self.matches != "longest" and self.spans_key is None:
            raise ValueError(
                f"With matches = '{self.matches}', names may overlap, which entities can't. Set `spans_key` as well, "
                "to write them to a group of `doc.spans`, or keep 'longest'."
            )
        return self
