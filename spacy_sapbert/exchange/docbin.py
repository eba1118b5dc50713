"""spaCy's DocBin, with the ids of entities in `kb_id_`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin

from ..errors import Errors
from ..files import write_whole
from .report import ExchangeReport

FORM = "documents with entities and their ids in kb_id_, saved by DocBin.to_disk"


def parse_docs(data: bytes, label: str, report: ExchangeReport) -> list[Doc]:
    """Read the documents of a file's bytes.

    data (bytes): What `DocBin.to_disk` has written.
    label (str): The name of the file, for messages.
    report (ExchangeReport): Gets the file if it is damaged.
    RETURNS (list[Doc]): The documents, with a vocabulary of their own.
    """
    try:
        return list(DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab))
    # Whatever zlib, msgpack and NumPy raise for bytes of another kind.
    except Exception as error:
        report.refuse(label, f"no documents of spaCy ({error!r:.120})", FORM)
        return []


def read_docs(path: Path, report: ExchangeReport) -> list[Doc]:
    """Read the documents of a file.

    path (Path): The file, .spacy.
    report (ExchangeReport): Gets the file if it is damaged.
    RETURNS (list[Doc]): The documents, with a vocabulary of their own.
    RAISES (FileNotFoundError): If there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    return parse_docs(path.read_bytes(), str(path), report)


def write_docs(path: Path, docs: Iterable[Doc]) -> None:
    """Write documents with their names, for `spacy train`.

    path (Path): The file, .spacy; its folder is made if missing.
    docs (Iterable[Doc]): The documents.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as temporary:
        temporary.write_bytes(DocBin(docs=docs, store_user_data=True).to_bytes())
