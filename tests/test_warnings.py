"""Warnings point at the user's line, however deep in the package and in spaCy they arise."""

import ast
import re
from pathlib import Path

import pytest
from obo_files import make_obo
from reranker.reranking import add_reranker, make_examples
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import registry
from spacy.vocab import Vocab

import spacy_sapbert
from spacy_sapbert import read_obo, read_table
from spacy_sapbert.exchange.documents import write_docs

PACKAGE = Path(spacy_sapbert.__file__).parent


def run_late_matcher(nlp: Language, folder: Path) -> None:
    nlp.add_pipe("terminology_matcher", name="late")
    nlp("A cold.")


def stream_through_late_matcher(nlp: Language, folder: Path) -> None:
    nlp.add_pipe("terminology_matcher", name="late")
    list(nlp.pipe(["A cold."]))


def cut_tokens(nlp: Language, folder: Path) -> None:
    nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    nlp.get_pipe("sapbert_linker").add_names([("C1", "肝癌")])
    nlp("患者有肝癌和糖尿病。")


def look_up_long_text(nlp: Language, folder: Path) -> None:
    nlp.get_pipe("sapbert_linker").find(["a" * 10_000])


def add_names_without_vectors(nlp: Language, folder: Path) -> None:
    nlp.get_pipe("sapbert_linker").add_names([("C1", "ʘ")])


def decide_with_another_terminology(nlp: Language, folder: Path) -> None:
    add_reranker(nlp, make_examples(nlp))
    nlp.get_pipe("sapbert_linker").add_names([("C7", "influenza")])
    nlp("a cold")


def calibrate_on_few(nlp: Language, folder: Path) -> None:
    reranker = add_reranker(nlp, make_examples(nlp))
    reranker.calibrate(make_examples(nlp), nlp=nlp)


def write_what_no_file_holds(nlp: Language, folder: Path) -> None:
    doc = Doc(Vocab(), words=["cold"])
    doc.user_data["span"] = doc[0:1]
    write_docs(folder / "docs.spacy", [doc])


def read_malformed_obo(nlp: Language, folder: Path) -> None:
    path = folder / "toe.obo"
    path.write_text(make_obo([("T:1", "toe"), ("T:2", "nail", "id: T:3")]), encoding="utf8")
    read_obo(path, errors="skip")


def read_obo_of_config(nlp: Language, folder: Path) -> None:
    path = folder / "toe.obo"
    path.write_text(make_obo([("T:1", "toe"), ("T:2", "nail", "id: T:3")]), encoding="utf8")
    reader = {"@misc": "spacy-sapbert.OboTerminology.v1", "path": str(path), "errors": "skip"}
    registry.resolve({"reader": reader})["reader"]()


def read_malformed_table(nlp: Language, folder: Path) -> None:
    path = folder / "names.csv"
    path.write_text('id,name\nC1,n\nC2,"c"d\n')
    read_table(path, errors="skip")


CASES = [
    (run_late_matcher, "stands behind the linker"),
    (stream_through_late_matcher, "stands behind the linker"),
    (cut_tokens, "inside a token"),
    (look_up_long_text, "A mention of 10000 characters"),
    (add_names_without_vectors, "1 of 1 names have no vector"),
    (decide_with_another_terminology, "was trained with another terminology"),
    (calibrate_on_few, "was calibrated on only"),
    (write_what_no_file_holds, "values of `user_data` that no file can hold"),
    (read_malformed_obo, "1 malformed"),
    (read_obo_of_config, "1 malformed"),
    (read_malformed_table, "1 malformed"),
]


@pytest.mark.parametrize("warn, message", CASES, ids=[warn.__name__ for warn, _ in CASES])
def test_a_warning_points_at_the_line_of_the_user(make_nlp, tmp_path, warn, message):
    with pytest.warns(UserWarning, match=message) as caught:
        warn(make_nlp(), tmp_path)
    files = {warning.filename for warning in caught if re.search(message, str(warning.message))}
    assert files == {__file__}


def test_all_warnings_of_the_package_go_the_same_way():
    calls = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "warnings.warn"
    ]
    assert [call.partition(":")[0] for call in calls] == ["errors.py"], calls
