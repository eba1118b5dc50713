"""What clients may ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from ..annotations import NIL


def _check_text(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it has half of a character (a lone surrogate)")
    return text


Text = Annotated[str, AfterValidator(_check_text)]


class Request(BaseModel):
    """Base of all requests: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Choice(Request):
    """What of the candidates to give.

    k (int | None): Candidates of a mention; at most as many as the linker proposes.
    threshold (float | None): Cosine that a candidate needs.
    types (list[str] | None): Semantic types, of which a candidate needs one; by identifier or name.
    utf16 (bool): Give offsets in UTF-16 units, as Java and JavaScript count, and not in code points.
    """

    k: Annotated[int, Field(ge=1, le=1000)] | None = None
    threshold: Annotated[float, Field(ge=-1, le=1)] | None = None
    types: list[Text] | None = None
    utf16: bool = False

    @property
    def is_narrower(self) -> bool:
        """Whether it may leave out the chosen concept."""
        return self.threshold is not None or self.types is not None


class LinkRequest(Choice):
    """Texts whose mentions to find and link, or mentions to look up; one of both.

    texts (list[str] | None): Texts.
    mentions (list[str] | None): Mentions, which are looked up without a document.
    gold (bool): Give the corrections that are kept of each text as well.
    """

    texts: list[Text] | None = None
    mentions: list[Text] | None = None
    gold: bool = False


class GoldPlace(Request):
    """The place of a mention.

    start (int): Its start in the text, in code points.
    end (int): Its end.
    """

    start: int = Field(ge=0)
    end: int = Field(ge=1)


class GoldSpan(GoldPlace):
    """A corrected mention.

    label (str): Its label.
    kb_id (str): The concept's id, or "NIL".
    """

    label: Text = Field(min_length=1)
    kb_id: Text = Field(default=NIL, min_length=1)


class GoldRequest(Request):
    """A text with corrected mentions, in the form of Prodigy.

    text (str): The text.
    spans (list[GoldSpan]): The mentions to keep.
    withdrawn (list[GoldPlace]): Mentions that are kept of the text, to be so no longer.
    """

    text: Text
    spans: list[GoldSpan] = []
    withdrawn: list[GoldPlace] = []

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        if any(not place.start < place.end <= len(self.text) for place in (*self.spans, *self.withdrawn)):
            raise ValueError("a span lies outside of the text")
        return self
