"""Type aliases shared by the rooms of the package."""

from typing import Literal

# "raise" stops at the first malformed record, "skip" counts it in the report and goes on.
OnMalformed = Literal["raise", "skip"]
Suppressed = Literal["keep", "drop"]
Tradenames = Literal["union", "last", "off"]
TradenameDirection = Literal["both", "generic", "brand"]
Pooling = Literal["cls", "mean", "mean_all_tok", "pooler"]
Precision = Literal["auto", "fp32", "bf16"]
