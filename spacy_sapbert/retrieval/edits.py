"""Add and remove names of a retriever. Only new names are encoded. An edit makes a new retriever and leaves the old one
unchanged, so a failed edit has no effect and a search in another thread is not disturbed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..index import fit_kind, is_as_configured
from ..lexicon.languages import find_language
from ..progress import say
from ..ragged import TokenLists
from ..terminology.edits import Edit, add_terminology
from .encoding import encode_altered_names, encode_groups, find_keys, group_by_tokens, make_row_table, warn_of_unsayable
from .retriever import Retriever

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim
    from ..index import Index
    from ..terminology import Terminology


def with_names(retriever: Retriever, encoder: EncoderShim, added: Terminology, *, batch_size: int = 256) -> Retriever:
    """Make a retriever with more names."""
    edit = add_terminology(retriever.terminology, added)
    row_of_name = _carry_over(retriever, edit)
    is_new = np.ones(edit.terminology.n_names, dtype=bool)
    is_new[edit.name_rows] = False
    new = np.flatnonzero(is_new)
    groups = group_by_tokens(edit.terminology.names["name"][new], encoder, simplified=retriever.is_simplified)
    warn_of_unsayable(groups)
    index, keys, tokens = retriever.index, retriever.keys, retriever.tokens
    # Names with the tokens of a row belong to that row, even if it lost its own names before.
    index_rows = find_keys(keys, groups.keys)
    unknown = np.flatnonzero(index_rows < 0)
    if len(unknown):
        index_rows[unknown] = np.arange(len(index), len(index) + len(unknown))
        index = index.extended(encode_groups(groups.take(unknown), encoder, batch_size=batch_size))
        keys = np.concatenate([keys, groups.keys[unknown]])
        tokens = None if tokens is None else TokenLists.join([tokens, groups.tokens.take(unknown)])
    is_sayable = groups.row_of_name >= 0
    row_of_name[new[is_sayable]] = index_rows[groups.row_of_name[is_sayable]]
    make_altered = partial(encode_altered_names, edit.terminology.names["name"], encoder, batch_size=batch_size)
    return _make_retriever(retriever, edit, index, keys, tokens, row_of_name, make_altered)


def with_removed(retriever: Retriever, edit: Edit) -> Retriever:
    """Make a retriever for a terminology from which concepts or names were removed."""
    return _make_retriever(
        retriever, edit, retriever.index, retriever.keys, retriever.tokens, _carry_over(retriever, edit)
    )


def with_configured_index(retriever: Retriever, configured: Index, encoder: EncoderShim) -> Retriever:
    """Make a retriever with the index that a config asks for, built from the vectors of the present one."""
    present = retriever.index
    if is_as_configured(present, configured):
        return retriever
    say(f"The index of {len(present):,} rows is built again, because the config asks for another one")
    make_altered = partial(encode_altered_names, retriever.terminology.names["name"], encoder)
    index = fit_kind(configured, len(present))
    index.build(
        present.vectors, fingerprint=present.fingerprint, make_altered=make_altered if encoder.is_loaded else None
    )
    rows = retriever.offsets, retriever.name_rows, retriever.keys
    return Retriever(retriever.terminology, index, *rows, retriever.lexicon, retriever.lang, retriever.tokens)


def _carry_over(retriever: Retriever, edit: Edit) -> np.ndarray:
    """Get the index row of each name of the new terminology, -1 for new names."""
    row_of_name = np.full(edit.terminology.n_names, -1, dtype=np.int64)
    is_kept = edit.name_rows >= 0
    row_of_name[edit.name_rows[is_kept]] = retriever.row_of_name[is_kept]
    return row_of_name


def _make_retriever(
    present: Retriever,
    edit: Edit,
    index: Index,
    keys: np.ndarray,
    tokens: TokenLists | None,
    row_of_name: np.ndarray,
    make_altered: Callable[[], np.ndarray] | None = None,
) -> Retriever:
    """Make the retriever. If many rows have no names, drop these rows."""
    is_used = np.zeros(len(index), dtype=bool)
    is_used[row_of_name[row_of_name >= 0]] = True
    used = np.flatnonzero(is_used)
    if index.is_worn(len(index) - len(used)):
        index, keys = index.rearranged(used, make_altered), keys[used]
        tokens = None if tokens is None else tokens.take(used)
        row_of_name = np.where(row_of_name < 0, -1, (np.cumsum(is_used) - 1)[row_of_name])
    language = find_language(edit.terminology.names["language"], present.lang)
    lexicon = present.lexicon.edited(edit.terminology, edit.name_rows, language)
    rows = make_row_table(row_of_name, len(index))
    return Retriever(edit.terminology, index, *rows, keys, lexicon, present.lang, tokens)
