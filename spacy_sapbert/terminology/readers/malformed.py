"""Refuse or count malformed records, and report what a reader read."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import Errors, Warnings
from ...types import OnMalformed
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import SourceFile

MAX_EXAMPLES = 20


class MalformedLog:
    """Stops at the first malformed record, or counts malformed records and keeps the first as examples."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        """Start a log.

        path (Path): The file that is read.
        errors (OnMalformed): Whether to "raise" an error at the first malformed record, or to "skip" and count them.
        """
        self.path = path
        self.errors = errors
        self.count = 0
        self.examples: list[str] = []

    def add(self, line: int, reason: object) -> None:
        """Log a malformed record. The caller leaves it out.

        line (int): The number of its line.
        reason (object): The fault.
        RAISES (ValueError): If `errors` is "raise".
        """
        text = str(reason).rstrip(".")
        if self.errors == "raise":
            raise ValueError(Errors.E101.format(file=self.path, line=line, reason=text))
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(f"{self.path.name}:{line}: {text}")

    def warn(self, stacklevel: int) -> None:
        """Warn if records were skipped. Call this after reading the whole file.

        stacklevel (int): As for `warnings.warn`, counted from the caller.
        """
        if self.count:
            message = Warnings.W101.format(file=self.path, n=self.count, example=self.examples[0])
            warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


def finish(
    builder: TerminologyBuilder,
    source: SourceFile,
    malformed: MalformedLog,
    *,
    read: Mapping[str, int],
    dropped: Mapping[str, int] | None = None,
    version: str | None = None,
    **more: Any,
) -> Terminology:
    """Build the terminology with its report, and warn if records were skipped.

    builder (TerminologyBuilder): The builder with the records of the file.
    source (SourceFile): The file, read to its end.
    malformed (MalformedLog): The log of malformed records.
    read (Mapping[str, int]): Counts of the file's records.
    dropped (Mapping[str, int] | None): Counts of dropped records, by reason.
    version (str | None): The version in the file.
    **more (Any): Further entries of the report, as plain JSON data.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If no concept has a name.
    """
    report = {
        "files": [source.describe()],
        "source_version": version,
        "read": dict(read),
        "dropped": {**(dropped or {}), "malformed": malformed.count},
        "malformed_examples": malformed.examples,
        **more,
    }
    malformed.warn(stacklevel=4)
    return builder.build(report)
