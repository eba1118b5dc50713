"""Read concepts from JSON lines, the format of scispaCy's knowledge bases."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import Field

from ...settings import OnMalformed, Settings
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import MalformedLog, SourceFile, finish, invalid_utf8, make_factory, takes_settings

_KEYS = ("concept_id", "canonical_name", "aliases", "types", "definition")


class JsonlSettings(Settings):
    """Settings of the reader of JSON lines."""

    language: str = Field(default="ENG", description="The language of the names, as in UMLS.")
    source: str = Field(default="", description="The source vocabulary of the names.")
    errors: OnMalformed = Field(
        default="raise", description='Whether to "raise" an error for a malformed record, or to "skip" and count it.'
    )


@takes_settings(JsonlSettings)
def read_jsonl(path: Path, settings: JsonlSettings) -> Terminology:
    """Read a file with one JSON object per concept.

    An object has a "concept_id", a "canonical_name", a list of "aliases" and, optionally, a list of "types" and a
    "definition". The canonical name is the preferred name.

    path (str | Path): The file, gzipped or not.
    settings (JsonlSettings): Given as keyword arguments: `read_jsonl(path, language="GER")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If a record is malformed and `errors` is "raise", or the file has no concept.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path)
    malformed = MalformedLog(file.path, settings.errors)
    builder = TerminologyBuilder()
    first_lines: dict[str, int] = {}
    ignored: Counter[str] = Counter()
    n_records = 0
    for number, text in file.lines():
        if not text.strip():
            continue
        n_records += 1
        try:
            record = _parse(text)
            concept_id = record["concept_id"]
            if concept_id in first_lines:
                raise ValueError(f"the concept '{concept_id}' is on line {first_lines[concept_id]} already")
            _add(builder, record, settings.language, settings.source)
        except ValueError as error:
            malformed.add(number, error)
            continue
        first_lines[concept_id] = number
        ignored.update(record.keys() - set(_KEYS))
    read = {"records": n_records}
    return finish(builder, file, malformed, read=read, ignored_keys=dict(sorted(ignored.items())))


make_jsonl_reader = make_factory("make_jsonl_reader", read_jsonl, JsonlSettings)


def _add(builder: TerminologyBuilder, record: dict[str, Any], language: str, source: str) -> None:
    concept_id, canonical_name = record["concept_id"], record["canonical_name"]
    builder.add_concept(
        concept_id,
        canonical_name=canonical_name,
        types=record.get("types") or (),
        definition=record.get("definition"),
    )
    builder.add_name(concept_id, canonical_name, language=language, source=source, preferred=True)
    for alias in record["aliases"]:
        builder.add_name(concept_id, alias, language=language, source=source)


def _parse(text: str) -> dict[str, Any]:
    """Parse one line, or raise a ValueError with the reason why it is not a concept."""
    reason = invalid_utf8(text)
    if reason:
        raise ValueError(reason)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error})") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object is needed, but this is a {type(record).__name__}")
    missing = [key for key in _KEYS[:3] if key not in record]
    if missing:
        raise ValueError(f"the object has no {', '.join(map(repr, missing))}")
    for key in ("concept_id", "canonical_name"):
        if not isinstance(record[key], str):
            raise ValueError(f"'{key}' needs to be a string, but is {record[key]!r:.80}")
    if not isinstance(record.get("definition"), str | None):
        raise ValueError(f"'definition' needs to be a string or null, but is {record['definition']!r:.80}")
    for key, value in (("aliases", record["aliases"]), ("types", record.get("types") or [])):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"'{key}' needs to be a list of strings, but is {value!r:.80}")
    # JSON can escape a lone surrogate ("\ud83d"), which UTF-8 cannot encode. The record is checked before any of its
    # names is added.
    if "\\ud" in text.lower():
        try:
            json.dumps(record, ensure_ascii=False).encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(f"it holds a lone surrogate ({error.object[error.start : error.end]!r})") from None
    return record
