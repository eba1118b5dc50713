"""Type aliases shared by the rooms of the package."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from thinc.api import Model
    from thinc.types import Floats2d

    from .terminology.table import Terminology

    NameEncoderModel = Model[list[str], Floats2d]

# "raise" stops at the first malformed record, "skip" counts it in the report and goes on.
OnMalformed = Literal["raise", "skip"]
Suppressed = Literal["keep", "drop"]
Tradenames = Literal["union", "last", "off"]
TradenameDirection = Literal["both", "generic", "brand"]
Pooling = Literal["cls", "mean", "mean_all_tok", "pooler"]
AbbreviationForms = Literal["both", "long_form", "short_form"]
Precision = Literal["auto", "fp32", "bf16"]
TerminologyReader = Callable[[], "Terminology"]
EncoderLoader = Callable[["NameEncoderModel"], Any]


class Candidate(TypedDict):
    """One concept proposed for a mention, as stored in `span._.kb_candidates`: plain data for any serialiser.

    The `id` is the concept's code in the linker's `output_source`, or else the same as `concept_id`, its id in the
    terminology.
    """

    id: str
    concept_id: str
    score: float
    name: str
    canonical_name: str
    types: list[str]
    mention: str
