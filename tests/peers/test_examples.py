"""What other linkers' own tests and examples expect, and users' reports about linkers and ontologies (`threads.jsonl`),
found with our pipeline and a terminology of the names in them.

The facts are theirs (`source`), the sentences ours. Where our pipeline differs, `differs` says why.
"""

from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Span

from spacy_sapbert.terminology import TerminologyBuilder

FOLDER = Path(__file__).parent


def list_cases():
    for path in sorted(FOLDER.glob("*.jsonl")):
        for number, case in enumerate(srsly.read_jsonl(path), 1):
            reason = case.get("differs")
            marks = [pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)] if reason else []
            yield pytest.param(case, id=f"{path.stem}-{number}", marks=marks)


@pytest.fixture(scope="module")
def nlp():
    builder = TerminologyBuilder()
    for line in (FOLDER / "names.tsv").read_text(encoding="utf8").splitlines():
        builder.add_name(*line.split("\t"))
    nlp = spacy.blank("en")
    for component in ("schwartz_hearst", "terminology_matcher", "sapbert_linker"):
        nlp.add_pipe(component)
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    return nlp


@pytest.mark.parametrize("case", [*list_cases()])
def test_what_peers_find(nlp, case):
    if "text" in case:
        assert [[ent.text, ent.kb_id_] for ent in nlp(case["text"]).ents] == case["found"]
    elif "linked" in case:
        doc = nlp.make_doc(case["mention"])
        doc.ents = [Span(doc, 0, len(doc), "MENTION")]
        assert nlp.get_pipe("sapbert_linker")(doc).ents[0].kb_id_ == case["linked"]
    else:
        ((best, *_),) = nlp.get_pipe("sapbert_linker").find([case["mention"]])
        assert best["id"] == case["concept"]
