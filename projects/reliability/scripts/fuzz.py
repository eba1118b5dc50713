"""Strange strings and documents for a linker and the naive linker."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from checks import Check
from naive import NaiveLinker, find_difference, unite
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans
from strings import make_surrogates

from spacy_sapbert.linker import SapbertLinker

LABELS = ("A", "B", "SKIPPED")
LABEL_TYPES = {"A": ["T047"], "B": ["T184", "T033"]}
BATCH = 64
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"types": ["T047"]},
    {"sources": ["HPO"]},
    {"languages": ["GER", "SPA"]},
    {"ids": ["F001", "F004", "F007"]},
    {"types": ["T184", "T033"], "languages": ["ENG"]},
)


def compare_strings(linker: SapbertLinker, naive: NaiveLinker, strings: Sequence[str], seed: int, check: Check) -> None:
    """Find strings and compare the candidates with the naive linker's.

    linker (SapbertLinker): The linker.
    naive (NaiveLinker): The naive linker, with the same names.
    strings (Sequence[str]): The strings.
    seed (int): The seed of filters and numbers of candidates.
    check (Check): Takes counts and failures.
    """
    rng = random.Random(seed)
    before = linker.terminology.fingerprint
    for start in range(0, len(strings), BATCH):
        texts, allowed, k = strings[start : start + BATCH], rng.choice(FILTERS), rng.randint(1, 12)
        try:
            found = linker.find(texts, k=k, **allowed)
        except Exception as error:  # any error is what is looked for
            check.fail(f"find under {allowed} ended with {error!r}: {texts!r}")
            continue
        for text, candidates in zip(texts, found, strict=True):
            if difference := find_difference(candidates, naive.find(text, allowed), k):
                check.fail(f"{text!r:.80} under {allowed}: {difference}")
        check.count("strings", len(texts))
    if linker.terminology.fingerprint != before:
        check.fail("the terminology has changed")


def compare_surrogates(linker: SapbertLinker, n: int, seed: int, check: Check) -> None:
    """Find strings with lone surrogates, which may be refused in words, or have no candidates.

    linker (SapbertLinker): The linker.
    n (int): Strings.
    seed (int): The seed.
    check (Check): Takes counts and failures.
    """
    rng = random.Random(seed)
    for text in (make_surrogates(rng) for _ in range(n)):
        check.count("lone surrogates")
        try:
            linker.find([text, "cold"])
        except Exception as error:  # an error of the catalogue has its code in front
            if not str(error).startswith("[E"):
                check.fail(f"{text!r} ended with {error!r}")


def make_docs(nlp: Language, strings: Sequence[str], n: int, seed: int) -> Iterator[Doc]:
    """Make documents of strings, with random entities and spans that overlap.

    nlp (Language): The pipeline whose tokenizer is used.
    strings (Sequence[str]): The strings; documents repeat them, so that the vocabulary stays as it is.
    n (int): Documents.
    seed (int): The seed.
    YIELDS (Doc): The documents.
    """
    rng = random.Random(seed)
    for _ in range(n):
        texts = rng.choices(strings, k=rng.randint(1, 4))
        doc = Doc.from_docs([nlp.make_doc(text) for text in texts if text] or [nlp.make_doc("")])
        assert doc is not None
        spans = [make_span(doc, rng) for _ in range(rng.randint(0, 5) if len(doc) else 0)]
        doc.ents = filter_spans(spans)
        # Some have the boundaries of an entity and another label.
        same = [Span(doc, ent.start, ent.end, label=rng.choice(LABELS)) for ent in doc.ents if rng.random() < 0.5]
        doc.spans["sc"] = [*(make_span(doc, rng) for _ in spans), *same]
        yield doc


def make_span(doc: Doc, rng: random.Random) -> Span:
    """Make a span of a few tokens.

    doc (Doc): The document, not empty.
    rng (Random): The source of chance.
    RETURNS (Span): The span.
    """
    start = rng.randrange(len(doc))
    return Span(doc, start, min(len(doc), start + rng.randint(1, 6)), label=rng.choice(LABELS))


def compare_docs(nlp: Language, linker: SapbertLinker, naive: NaiveLinker, docs: Iterator[Doc], check: Check) -> None:
    """Link documents and compare ids and candidates with the naive linker's.

    nlp (Language): The pipeline: abbreviations, then the linker.
    linker (SapbertLinker): Its linker, which links the group "sc" too.
    naive (NaiveLinker): The naive linker, with the same names.
    docs (Iterator[Doc]): The documents.
    check (Check): Takes counts and failures.
    """
    for batch in iter(lambda: list(take(docs, BATCH)), []):
        texts = [doc.text for doc in batch]
        try:
            linked = list(nlp.pipe(batch, batch_size=BATCH))
        except Exception as error:  # any error is what is looked for
            check.fail(f"pipe ended with {error!r}: {texts!r}")
            continue
        if [doc.text for doc in linked] != texts:
            check.fail("documents have changed")
        mentions, candidates = linker.predict(linked)
        places = zip(mentions.document, mentions.is_ent, mentions.place, strict=True)
        found = dict(zip(places, candidates, strict=True))
        for number, doc in enumerate(linked):
            links = {place[1:]: of_mention for place, of_mention in found.items() if place[0] == number}
            compare_doc(doc, links, linker, naive, check)
        check.count("documents", len(batch))


def take(docs: Iterator[Doc], n: int) -> Iterator[Doc]:
    """Take the next few documents.

    docs (Iterator[Doc]): The documents.
    n (int): How many.
    YIELDS (Doc): At most `n` of them.
    """
    for _, doc in zip(range(n), docs, strict=False):
        yield doc


def compare_doc(doc: Doc, links: Any, linker: SapbertLinker, naive: NaiveLinker, check: Check) -> None:
    """Compare what a linked document holds with the naive linker's answers.

    doc (Doc): The document.
    links (dict): What the linker predicts for it: candidates by whether the mention is an entity, and its place.
    linker (SapbertLinker): The linker.
    naive (NaiveLinker): The naive linker.
    check (Check): Takes counts and failures.
    """
    for kind, spans in (("entity", doc.ents), ("span", doc.spans["sc"])):
        for place, span in enumerate(spans):
            candidates = links.get((kind == "entity", place))
            check.count("mentions")
            where = f"{kind} {span.text!r:.80} {span.label_}"
            if span.label_ == "SKIPPED":
                if span.kb_id_ or candidates is not None:
                    check.fail(f"{where}: linked in spite of its label")
                continue
            expected = unite(naive.find(form, {"label_types": LABEL_TYPES[span.label_]}) for form in list_forms(span))
            difference = find_difference(candidates or [], expected, linker.k)
            # This encoder has no threshold.
            best = candidates[0]["id"] if candidates and candidates[0]["score"] >= 0 else ""
            if difference or span.kb_id_ != best:
                check.fail(f"{where}: {difference or f'{span.kb_id_!r} is not {best!r}'}")
            elif linker.get_candidates(span) != candidates:
                check.fail(f"{where}: other candidates are stored")
            # A span's attribute is that of the entity with its boundaries, if there is one.
            elif kind == "entity" and span._.kb_candidates != candidates:
                check.fail(f"{where}: the attribute has the candidates of another mention")


def list_forms(span: Span) -> list[str]:
    """List the strings that a mention is looked up by: as written, and with abbreviations spelt out.

    span (Span): The mention.
    RETURNS (list[str]): One string or two.
    """
    pieces, start = [], span.start
    present = " ".join(span.text.split()).lower()
    shorts = sorted(span.doc._.abbreviations, key=lambda short: (short.start, -short.end))
    for short in shorts:
        long = short._.long_form
        if start <= short.start and short.end <= span.end and long is not None and long.text:
            text = " ".join(long.text.split())
            if text.lower() not in present:
                pieces += [span.doc[start : short.start].text_with_ws, text + span.doc[short.end - 1].whitespace_]
                start = short.end
    if not pieces:
        return [span.text]
    spelt = "".join([*pieces, span.doc[start : span.end].text_with_ws])
    return [" ".join(spelt.split()), span.text]
