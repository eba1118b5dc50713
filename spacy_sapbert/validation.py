"""Checks of the linker's settings that types cannot express."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from .errors import Errors
from .types import AbbreviationForms

if TYPE_CHECKING:
    from .linker import SapbertLinker


def check_settings(linker: SapbertLinker) -> None:
    """Refuse settings that have no meaning.

    linker (SapbertLinker): The linker.
    RAISES (ValueError): Naming the setting, its value and what is allowed.
    """
    forms = get_args(AbbreviationForms)
    checks = (
        ("k", linker.k, linker.k >= 1, "1 or more"),
        ("threshold", linker.threshold, -1.0 <= linker.threshold <= 1.0, "a cosine, -1 to 1"),
        ("batch_size", linker.batch_size, linker.batch_size >= 1, "1 or more"),
        ("cache_size", linker.cache_size, linker.cache_size >= 0, "0 or more"),
        ("abbreviations", linker.abbreviations, linker.abbreviations in forms, f"one of {', '.join(forms)}"),
        ("kb_url", linker.kb_url, "{}" in linker.kb_url, "an address with {} where the concept's id goes"),
        ("link_labels", linker.link_labels, not isinstance(linker.link_labels, str), "a list of labels"),
        ("skip_labels", linker.skip_labels, not isinstance(linker.skip_labels, str), "a list of labels"),
    )
    for key, value, is_valid, allowed in checks:
        if not is_valid:
            raise ValueError(Errors.E404.format(key=key, value=value, allowed=allowed))
