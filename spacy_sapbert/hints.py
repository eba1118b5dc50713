"""What a linker tells of itself: what it is made of, settings that name what its terminology lacks, and a pipeline that
brings it no mentions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.tokens import Doc

from .errors import warn
from .sharing import LinkerUser, comes_from, find_pipelines

if TYPE_CHECKING:
    from .snapshot import Snapshot

# Languages and labels that a message lists.
LISTED = 10


def describe_parts(snapshot: Snapshot) -> list[str]:
    """List the terminology, the encoder and the index of a linker, with their sizes and kinds."""
    retriever = snapshot.built
    if retriever is None:
        return ["no concepts"]
    terminology = retriever.terminology
    encoder = snapshot.encoder
    parts = [f"{terminology.n_names:,} names of {len(terminology):,} concepts"]
    if encoder.is_loaded:
        parts.append(f"encoder {'bundled' if encoder.fingerprint == read_bundled() else encoder.content.kind}")
    return [*parts, f"index {retriever.index.kind}"]


def read_bundled() -> str:
    """Read the fingerprint of the bundled encoder; empty if it is not installed."""
    from .encoder.settings import ENCODER_FILE, find_bundled

    folder = find_bundled()
    return "" if folder is None else str(json.loads((folder / ENCODER_FILE).read_bytes())["fingerprint"])


def warn_of_misfits(linker: Any, components: Iterable[Any]) -> None:
    """Warn of filters, the linker's or its matchers', that name what the terminology lacks: the next text would be
    refused."""
    if not linker.is_ready:
        return
    filters = linker.retriever.filters
    for part in components:
        try:
            part.check_filters(filters)
        except ValueError as error:
            warn(f"A setting of the {part.kind} '{part.name}' does not fit the terminology. {error}")


def warn_of_silence(linker: Any, docs: Sequence[Doc], tokens: int) -> None:
    """Warn that a linker has met no mention, if its pipeline shows why. Texts may just be about something else."""
    nlp = next((nlp for nlp in find_pipelines(linker) if comes_from(docs, nlp)), None)
    if nlp is None:
        return
    if reason := _find_labels(linker, docs) or _find_missing(linker, nlp) or _find_languages(linker, nlp):
        warn(f"The linker '{linker.name}' met no mention in {tokens:,} tokens. {reason}")


def _find_labels(linker: Any, docs: Sequence[Doc]) -> str:
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    if not labels:
        return ""
    return (
        f"Entities have the labels {', '.join(map(repr, labels[:LISTED]))}, which its `link_labels` or `skip_labels` "
        "leave out."
    )


def _find_missing(linker: Any, nlp: Language) -> str:
    """Say that nothing in front of a linker finds mentions. What declares nothing may do so."""
    in_front = nlp.pipe_names[: [part for _, part in nlp.pipeline].index(linker)]
    assigned = [nlp.get_pipe_meta(name).assigns for name in in_front]
    needed = {"doc.ents", "doc.spans"} if linker.spans_key else {"doc.ents"}
    if any(not attributes or needed.intersection(attributes) for attributes in assigned):
        return ""
    return (
        "No component in front of it sets `doc.ents`. Add `terminology_matcher` there, which finds the terminology's "
        "names, or an entity recogniser."
    )


def _find_languages(linker: Any, nlp: Language) -> str:
    """Say that no name is in the pipeline's language, so that a matcher finds none."""
    parts: list[Any] = [part for _, part in nlp.pipeline]
    if not any(isinstance(part, LinkerUser) and part.kind == "matcher" for part in parts):
        return ""
    from .lexicon.languages import UNKNOWN, get_language

    language = get_language(nlp.lang or "")
    codes = linker.retriever.filters.list_languages()
    if language is UNKNOWN or any(get_language(code) is language for code in codes):
        return ""
    return (
        f"The pipeline's language is '{nlp.lang}', and the terminology's names are in {', '.join(codes[:LISTED])}. "
        "Give the linker a terminology with names in the language of the texts."
    )
