"""The context of mentions is read where its component has never been imported, and unknown is not the same as false."""

import subprocess
import sys

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_sapbert.annotations import get_user_data, make_key
from spacy_sapbert.context import ATTRIBUTES, MentionContext, has_context, read_context, write_context

nlp = spacy.blank("en")
READ = """
import sys, spacy
from spacy.tokens import DocBin, Span
from spacy_sapbert.context import read_context
# Exchange formats are imported by their command only.
nlp = spacy.blank("en")
assert not [name for name in sys.modules if name.startswith("spacy_sapbert.exchange")]
assert not Span.has_extension("negex") and "negspacy" not in sys.modules
for doc in DocBin().from_disk(sys.argv[1]).get_docs(nlp.vocab):
    print([(ent.text, read_context(ent) and read_context(ent).words) for ent in doc.ents])
"""


def make_doc(*mentions):
    doc = Doc(nlp.vocab, list(mentions))
    doc.ents = [Span(doc, i, i + 1, "D") for i in range(len(mentions))]
    return doc


def store(span, **values):
    get_user_data(span).update({make_key(span, name): value for name, value in values.items()})


def test_what_negspacy_writes_is_read_in_another_process(tmp_path):
    pytest.importorskip("negspacy.negation")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "D", "pattern": name} for name in ("fever", "cough")])
    pipeline.add_pipe("negex")
    docs = list(pipeline.pipe(["No fever. A cough.", "A fever."]))
    assert read_context(docs[0].ents[0]) == MentionContext(negated=True)
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "docs.spacy")
    command = [sys.executable, "-c", READ, str(tmp_path / "docs.spacy")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Of the second document nobody can know: negspacy stores nothing for what it does not negate.
    assert printed.splitlines() == ["[('fever', ['negated']), ('cough', [])]", "[('fever', None)]"]


def test_attributes_of_context():
    doc = make_doc("a", "b")
    first, second = doc.ents
    assert read_context(first) is None and not has_context([doc])
    store(first, is_family=True, is_historical=True, is_uncertain=False)
    assert read_context(first) == MentionContext(family=True, historical=True) and has_context([make_doc("c"), doc])
    assert read_context(first).words == ["family", "historical"]
    assert read_context(second) == MentionContext() and read_context(second, is_known=False) is None
    assert read_context(make_doc("c").ents[0], is_known=True) == MentionContext()
    # medspaCy has looked at a document that has its graph.
    doc = make_doc("a")
    doc.user_data["._.", "context_graph", None, None] = {}
    assert read_context(doc.ents[0]) == MentionContext()


def test_attributes_of_ones_own():
    doc = make_doc("a", "b", "c")
    for ent, value in zip(doc.ents, ("absent", "family", 0.3), strict=True):
        store(ent, assertion=value)
    own = {**ATTRIBUTES, "negated": ["assertion=absent"], "family": ["assertion=family"]}
    assert [read_context(ent, own).words for ent in doc.ents] == [["negated"], ["family"], []]
    for ent in doc.ents:
        with pytest.raises(ValueError, match="assertion .*--negated assertion=VALUE"):
            read_context(ent, {"negated": ["assertion"]})


@pytest.mark.parametrize(
    "context", [MentionContext(), MentionContext(negated=True), MentionContext(family=True, hypothetical=True)]
)
def test_what_is_written_is_read(context):
    doc = make_doc("a")
    write_context(doc.ents[0], context)
    assert read_context(doc.ents[0]) == context
