"""Checks of the linker's settings that types cannot express."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, get_args

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
    labels = "a list of labels"
    checks = (
        ("k", linker.k, _is_whole(linker.k, 1), "a whole number, 1 or more"),
        ("threshold", linker.threshold, _is_cosine(linker.threshold), "a cosine, -1 to 1"),
        ("set_nil", linker.set_nil, isinstance(linker.set_nil, bool), "true or false"),
        ("overwrite", linker.overwrite, isinstance(linker.overwrite, bool), "true or false"),
        ("use_gold_ents", linker.use_gold_ents, isinstance(linker.use_gold_ents, bool), "true or false"),
        ("link_labels", linker.link_labels, linker.link_labels is None or _is_list(linker.link_labels), labels),
        ("skip_labels", linker.skip_labels, _is_list(linker.skip_labels), labels),
        ("spans_key", linker.spans_key, isinstance(linker.spans_key, str | None), "the name of a span group"),
        ("abbreviations", linker.abbreviations, linker.abbreviations in forms, f"one of {', '.join(forms)}"),
        ("batch_size", linker.batch_size, _is_whole(linker.batch_size, 1), "a whole number, 1 or more"),
        ("cache_size", linker.cache_size, _is_whole(linker.cache_size, 0), "a whole number, 0 or more"),
        ("kb_url", linker.kb_url, _is_template(linker.kb_url), "an address with one {} where the concept's id goes"),
    )
    for key, value, is_valid, allowed in checks:
        if not is_valid:
            raise ValueError(Errors.E404.format(key=key, value=value, allowed=allowed))


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_cosine(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1.0 <= value <= 1.0


def _is_list(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and value.count("{}") == 1 and "{" not in value.replace("{}", "")
