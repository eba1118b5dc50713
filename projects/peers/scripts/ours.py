"""Comparisons of strings, and this plugin, as contestants."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foreign import (
    CONTEXT,
    MENTIONS,
    Found,
    Ranking,
    annotate_loaded,
    annotate_texts,
    describe,
    look_up,
    read_dictionary,
    tell_of_mentions,
)

PACKAGES = ("spacy-sapbert", "torch", "transformers", "tokenizers", "scann", "scikit-learn", "scipy", "numpy")


def to_rankings(ids: Sequence[str], rows: Any, scores: Any) -> list[Ranking]:
    """Turn rows of the dictionary, padded with -1, into rankings."""
    return [
        ([ids[row] for row in of_query[of_query >= 0]], scores_of_query[of_query >= 0].tolist())
        for of_query, scores_of_query in zip(rows, scores, strict=True)
    ]


def exact_match(given: dict[str, Any]) -> Iterator[Any]:
    """Equal names but for upper and lower case."""
    names, ids = read_dictionary(given)
    yield "read", describe(*PACKAGES)
    ids_of: dict[str, list[str]] = {}
    for name, concept_id in zip(names, ids, strict=True):
        ids_of.setdefault(name.lower(), []).append(concept_id)
    yield "build"

    def search(queries: Sequence[str]) -> list[Ranking]:
        answers = [ids_of.get(query.lower(), []) for query in queries]
        return [(concepts, [1.0] * len(concepts)) for concepts in answers]

    yield from look_up(given, search)


def tfidf(given: dict[str, Any]) -> Iterator[Any]:
    """TF-IDF of one and two characters, all products."""
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    names, ids = read_dictionary(given)
    yield "read", describe(*PACKAGES)
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32)
    matrix = vectorizer.fit_transform(names).T.tocsr()
    yield "build"

    def search(queries: Sequence[str]) -> list[Ranking]:
        products = (vectorizer.transform(queries) @ matrix).toarray()
        rows = np.argsort(-products, axis=1, kind="stable")[:, : given["neighbours"]]
        return to_rankings(ids, rows, np.take_along_axis(products, rows, axis=1))

    yield from look_up(given, search)


def plugin(given: dict[str, Any]) -> Iterator[Any]:
    """The encoder and an index of the plugin; not the linker: no cache, and no documents."""
    from spacy_sapbert.encoder.folder import write_encoder
    from spacy_sapbert.encoder.shim import EncoderShim
    from spacy_sapbert.index import Index, ScannIndex, read_index
    from training.encoders.bases import find_base

    names, ids = read_dictionary(given)
    base = find_base(given["encoder"])
    encoder = EncoderShim({"pooling": base.pooling, "lower_case": base.lower_case}, "auto")
    encoder.load(str(base.name))
    index = ScannIndex() if given["is_approximate"] else Index()
    yield "read", {**describe(*PACKAGES), "dtype": str(encoder.dtype).removeprefix("torch.")}
    index.build(encoder.encode(names), fingerprint=encoder.fingerprint)
    yield "build", {"recall": index.recall, "configuration": index.configuration}

    def search(queries: Sequence[str]) -> list[Ranking]:
        return to_rankings(ids, *index.search(encoder.encode(queries), given["neighbours"]))

    yield from look_up(given, search)
    with TemporaryDirectory() as folder:
        write_encoder(encoder.content, Path(folder, "encoder"))
        index.to_disk(Path(folder, "index"))
        begin = time.perf_counter()
        encoder.unloaded().load(Path(folder, "encoder"))
        read_index(Path(folder, "index"))
        yield "loaded", {"load": time.perf_counter() - begin}


def recognise(given: dict[str, Any]) -> Iterator[Any]:
    """A pipeline of raw texts: the plugin's components, or spaCy's PhraseMatcher if no settings are given."""
    import spacy

    from training.evaluation.documents import PipelineSystem
    from training.evaluation.recognition import PhraseMatcherSystem, find_spans_key

    yield "read", describe(*PACKAGES)
    shared = {"terminology": given["terminology"], "lang": given["lang"]}
    if given["settings"] is None:
        nlp = PhraseMatcherSystem(**shared).nlp
    else:
        nlp = PipelineSystem(**shared, encoder=given["encoder"], **given["settings"]).nlp
    yield "build"

    def annotate(texts: Sequence[str], nlp: Any = nlp) -> list[list[Found]]:
        key = find_spans_key(nlp)
        docs = ((doc, doc.ents if key is None else doc.spans[key]) for doc in nlp.pipe(texts))
        return [[(span.start_char, span.end_char, span.kb_id_) for span in spans] for _, spans in docs]

    yield from annotate_texts(given, annotate)
    with TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        # Last, so that the peak of memory counts one pipeline only.
        yield from annotate_loaded(given, lambda: partial(annotate, nlp=spacy.load(folder)))


def tell_contexts(given: dict[str, Any]) -> Iterator[Any]:
    """The plugin's component `note_context`, over mentions that are given."""
    import spacy

    nlp = spacy.blank(given["lang"])
    yield "read", describe("spacy-sapbert", "spacy")
    nlp.add_pipe("note_context", config={"spans_key": MENTIONS})
    yield "build"
    yield from tell_of_mentions(given, nlp, CONTEXT)
