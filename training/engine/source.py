"""The interface of training files that are not yet read."""

from __future__ import annotations

from typing import Any, Protocol


class TrainingFiles(Protocol):
    """The training files of a run, not yet read. Sources of the same files are equal."""

    @property
    def path(self) -> str:
        """The folder or file, for messages."""

    def hash(self) -> str | dict[str, Any]:
        """Hash the files.

        RETURNS (str | dict[str, Any]): As `TrainingData.sha256`.
        RAISES (OSError): If a file is missing or damaged.
        """

    def list_concepts(self) -> set[str]:
        """List the concepts in the files.

        RETURNS (set[str]): Ids of all concepts whose names may be used in training.
        RAISES (OSError): If a file is missing or damaged.
        """
