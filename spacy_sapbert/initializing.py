"""Read what a linker is initialized with, without changing the linker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Errors
from .snapshot import Snapshot

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .terminology.table import Terminology


def load_encoder(encoder: Any, present: Snapshot) -> EncoderShim:
    """Load an encoder beside the present one.

    encoder (str | Path | Callable[[Model], None] | None): A folder, a name on the Hugging Face hub, or a function that
        loads weights into a model; None for the present encoder or, if there is none, the one that is bundled with the
        package.
    present (Snapshot): What the linker works with.
    RETURNS (EncoderShim): The encoder.
    RAISES (ValueError): If there is no encoder: a function loaded none, or the installation lacks the bundled one.
    RAISES (TypeError): If it is something else.
    """
    from .encoder.settings import find_bundled
    from .encoder.shim import get_encoder, make_model

    loaded = present.encoder
    if encoder is None and not loaded.is_loaded:
        encoder = find_bundled()
    if isinstance(encoder, str | Path):
        loaded = present.encoder.unloaded()
        loaded.load(encoder)
    elif callable(encoder):
        model = make_model(present.encoder.unloaded())
        encoder(model)
        loaded = get_encoder(model)
    elif encoder is not None:
        found, expected = type(encoder).__name__, "a folder, a hub name, or a function"
        raise TypeError(Errors.E405.format(name=present.name, key="encoder", found=found, expected=expected))
    if not loaded.is_loaded:
        example = "spacy-sapbert.HuggingFaceEncoder.v1"
        raise ValueError(Errors.E403.format(name=present.name, what="an encoder", key="encoder", example=example))
    return loaded


def read_terminology(terminology: Any, present: Snapshot) -> Terminology:
    """Read the terminology that a linker is to have.

    terminology (Terminology | Callable[[], Terminology] | None): A terminology or its reader; None for the present one.
    present (Snapshot): What the linker works with.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If there is none.
    RAISES (TypeError): If it is something else.
    """
    from .progress import say
    from .terminology.table import Terminology, summarize

    if terminology is None:
        if present.built is None:
            what, key, example = "a terminology", "terminology", "spacy-sapbert.OboTerminology.v1"
            raise ValueError(Errors.E403.format(name=present.name, what=what, key=key, example=example))
        return present.built.terminology
    is_read = callable(terminology)
    terminology = terminology() if is_read else terminology
    if not isinstance(terminology, Terminology):
        found, expected = type(terminology).__name__, "a Terminology"
        raise TypeError(Errors.E405.format(name=present.name, key="terminology", found=found, expected=expected))
    if is_read:
        say(f"The linker '{present.name}' has {summarize(terminology)}")
    return terminology
