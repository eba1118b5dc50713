"""Read concepts from JSON lines, the format of scispaCy's knowledge bases."""

from collections import Counter
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ...settings import OnMalformed, Settings
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import SourceFile, finish, make_factory, parse_record, takes_settings


class JsonlSettings(Settings):
    """Settings of the reader of JSON lines."""

    language: str = Field(default="ENG", description="The language of the names, as in UMLS.")
    source: str = Field(default="", description="The source vocabulary of the names.")
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed record, or "skip" and count it.')


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
    file = SourceFile(path, settings.errors)
    builder = TerminologyBuilder()
    first_lines: dict[str, int] = {}
    ignored: Counter[str] = Counter()
    n_records = 0
    for number, text in file.lines():
        if not text.strip():
            continue
        n_records += 1
        try:
            record = parse_record(_Record, text)
            if first := first_lines.get(record.concept_id):
                raise ValueError(f"the concept '{record.concept_id}' is on line {first} already")
            name, types = record.canonical_name, record.types or ()
            builder.add_concept(record.concept_id, canonical_name=name, types=types, definition=record.definition)
            add_name = partial(builder.add_name, record.concept_id, language=settings.language, source=settings.source)
            add_name(name, preferred=True)
            for alias in record.aliases:
                add_name(alias)
        except ValueError as error:
            file.refuse(number, error)
            continue
        first_lines[record.concept_id] = number
        ignored.update((record.model_extra or {}).keys())
    return finish(builder, file, read={"records": n_records}, dropped={}, ignored_keys=dict(sorted(ignored.items())))


make_jsonl_reader = make_factory("make_jsonl_reader", read_jsonl, JsonlSettings)


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    concept_id: str
    canonical_name: str
    aliases: list[str]
    types: list[str] | None = None
    definition: str | None = None
