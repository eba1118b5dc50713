"""Texts with annotations for property tests, and tokenizers that can hold any of them."""

from functools import partial

import pytest
import spacy
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_sapbert.__main__ import app
from spacy_sapbert.exchange.documents import DOC_ID, AnnotatedText, Annotation, ExchangeReport, annotate
from spacy_sapbert.exchange.formats import read_texts, write_texts

VOCAB = spacy.blank("en").vocab
# Letters, white space of all kinds, a character beyond the basic plane, and what formats use as separators.
CHARACTERS = "abé \n\t\r\u2028\x85\ufeff😀𝔸|:;,#\"'\\<&"
LABELS = ("DISEASE", "Sign")
IDS = ("", "NIL", "C0009443", "HP:0001649", "C1|MESH:D2")
# Of Athena's CONCEPT.csv.
HEADER = "concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_class_id\tstandard_concept\tconcept_code\n"


def ways(name):
    """Get the functions that read and write a format."""
    return partial(read_texts, name), partial(write_texts, name)


def tokenize(text):
    """Make a document with a token for each character, so that any span is one of tokens."""
    return Doc(VOCAB, words=list(text), spaces=[False] * len(text))


@st.composite
def annotated_texts(draw, characters=CHARACTERS, ids=IDS, labels=LABELS, n_annotations=5):
    text = draw(st.text(st.sampled_from(characters), min_size=0, max_size=30))
    annotations = []
    for _ in range(draw(st.integers(0, n_annotations)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        annotations.append(Annotation(start, end, draw(st.sampled_from(labels)), draw(st.sampled_from(ids))))
    name = draw(st.sampled_from(["a", "b 1", "c#2"]))
    return AnnotatedText(name, text, list(dict.fromkeys(annotations)))


def annotated(name, text, *annotations):
    """Make a text with annotations, or with the arguments of some."""
    return AnnotatedText(name, text, [a if isinstance(a, Annotation) else Annotation(*a) for a in annotations])


def in_pieces(label, *pieces, kb_id=""):
    return Annotation(pieces[0][0], pieces[-1][1], label, kb_id, pieces=pieces)


def write_files(folder, files):
    """Write the files of a folder, or a single file; return the path to read."""
    for file, text in (files if isinstance(files, dict) else {"file": files}).items():
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode("utf8", "surrogateescape"))
    return folder if isinstance(files, dict) else folder / "file"


def take(doc, name="", spans_keys=()):
    """Take text and mentions out of a document, which may get a name."""
    doc.user_data.update({DOC_ID: name} if name else {})
    [text] = annotate([doc], ExchangeReport(), spans_keys)
    return text


def count_refused(report):
    return report.left_out.get("malformed", {"count": 0})["count"]


def count_kinds(report):
    return {kind: entry["count"] for kind, entry in (report.left_out | report.odd).items()}


def check_refused(act, fault, n=1):
    """Check that an action raises an error, or counts what is malformed if errors are skipped. Return what it does."""
    with pytest.raises(ValueError, match=fault):
        act(ExchangeReport())
    report = ExchangeReport("skip")
    done = act(report)
    assert count_refused(report) == n
    return done


def run(*arguments):
    """Run a command of `python -m spacy_sapbert`, and return what it prints, in one line."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def load(path):
    """Read the documents of a file."""
    return list(DocBin().from_disk(path).get_docs(VOCAB))


def save(path, *docs):
    """Write documents with their user data."""
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path
