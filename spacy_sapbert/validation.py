"""Checks of the linker's settings that types cannot express."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, get_args

from .errors import Errors
from .types import AbbreviationForms

if TYPE_CHECKING:
    from .linker import SapbertLinker

FILTER = "a list of strings, or null for all"


def check_settings(linker: SapbertLinker) -> None:
    """Refuse settings that have no meaning.

    linker (SapbertLinker): The linker.
    RAISES (ValueError): Naming the setting, its value and what is allowed.
    """
    forms = get_args(AbbreviationForms)
    labels = "a list of labels"
    label_types = "a map from labels to lists of semantic types"
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
        ("types", linker.types, _is_filter(linker.types), FILTER),
        ("sources", linker.sources, _is_filter(linker.sources), FILTER),
        ("languages", linker.languages, _is_filter(linker.languages), FILTER),
        ("ids", linker.ids, _is_filter(linker.ids), FILTER),
        ("label_types", linker.label_types, _is_map_of_lists(linker.label_types), label_types),
        ("output_source", linker.output_source, _is_source(linker.output_source), "the name of a source, or null"),
        ("batch_size", linker.batch_size, _is_whole(linker.batch_size, 1), "a whole number, 1 or more"),
        ("cache_size", linker.cache_size, _is_whole(linker.cache_size, 0), "a whole number, 0 or more"),
        ("kb_url", linker.kb_url, _is_template(linker.kb_url), "an address with one {} where the concept's id goes"),
    )
    for check in checks:
        _refuse_unless_valid(*check)


def check_find(texts: Any, k: Any, filters: Mapping[str, Any]) -> None:
    """Refuse arguments of the linker's `find` that have no meaning.

    texts (Any): The strings.
    k (Any): Concepts wanted.
    filters (Mapping[str, Any]): Allow-lists by setting.
    RAISES (ValueError): Naming the argument, its value and what is allowed.
    """
    # A string is a sequence of strings too, each a letter.
    if not _is_list(texts) or not all(isinstance(text, str) for text in texts):
        raise ValueError(Errors.E432.format(found=f"{texts!r:.80}"))
    _refuse_unless_valid("k", k, _is_whole(k, 1), "a whole number, 1 or more")
    for key, value in filters.items():
        _refuse_unless_valid(key, value, _is_filter(value), FILTER)


def _refuse_unless_valid(key: str, value: Any, is_valid: bool, allowed: str) -> None:
    if not is_valid:
        raise ValueError(Errors.E404.format(name=key, where=" of the linker", value=value, allowed=allowed))


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_cosine(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1.0 <= value <= 1.0


def _is_list(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _is_filter(value: Any) -> bool:
    # By type first: a list of ids can be long, and this is checked at each call.
    return value is None or (_is_list(value) and all(issubclass(kind, str) for kind in set(map(type, value))))


def _is_map_of_lists(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(label, str) and types is not None and _is_filter(types) for label, types in value.items())


def _is_source(value: Any) -> bool:
    return value is None or (isinstance(value, str) and bool(value))


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and value.count("{}") == 1 and "{" not in value.replace("{}", "")
