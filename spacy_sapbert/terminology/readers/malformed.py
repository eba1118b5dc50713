"""What readers have in common: refusing or counting malformed records, and reporting what was read."""

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
    """Stops at the first malformed record, or counts them and keeps the first as examples."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        """Say what to do about malformed records.

        path (Path): The file that is read.
        errors (OnMalformed): "raise" or "skip".
        """
        self.path = path
        self.errors = errors
        self.count = 0
        self.examples: list[str] = []

    def add(self, line: int, reason: object) -> None:
        """Take note of a malformed record, which the caller then leaves out.

        line (int): Where it is.
        reason (object): What is wrong with it.
        RAISES (ValueError): If `errors` is "raise".
        """
        text = str(reason).rstrip(".")
        if self.errors == "raise":
            raise ValueError(Errors.E101.format(file=self.path, line=line, reason=text))
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(f"{self.path.name}:{line}: {text}")

    def warn(self, stacklevel: int) -> None:
        """Warn if records were left out, after the file was read to its end.

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

    builder (TerminologyBuilder): What was read.
    source (SourceFile): The file, read to its end.
    malformed (MalformedLog): The records left out as malformed.
    read (Mapping[str, int]): Counts of what the file holds.
    dropped (Mapping[str, int] | None): Counts of what was left out, by reason.
    version (str | None): The version that the file says it is of.
    **more (Any): Further entries of the report, as plain JSON data.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If nothing is left.
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
