"""How far each annotator is with each document, kept as lines of JSON in the folder of the service."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from limits import Text
from pydantic import BaseModel, ConfigDict, ValidationError

from spacy_sapbert.files import find_stamp, lock_folder, write_whole

State = Literal["new", "begun", "done"]


class _StateRow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    document: Text
    annotator: Text
    state: Literal["begun", "done"]


class _Lines(NamedTuple):
    stamp: tuple[int, ...]
    states: dict[tuple[str, str], State]  # by annotator and document
    odd: list[bytes]  # lines that are no state, and their numbers
    numbers: list[int]


class DocumentStates:
    """The states that somebody has set. A document without one is new, or begun if it has corrections."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = _Lines((), {}, [], [])

    def find(self, annotator: str) -> dict[str, State]:
        """Find the states that somebody has set, by document."""
        return {document: state for (who, document), state in self._read().states.items() if who == annotator}

    def list_all(self) -> dict[str, set[State]]:
        """List the states that people have set, by document."""
        states: defaultdict[str, set[State]] = defaultdict(set)
        for (_, document), state in self._read().states.items():
            states[document].add(state)
        return states

    def list_odd(self) -> list[int]:
        """List the numbers of lines that are no state."""
        return self._read().numbers

    def keep(self, annotator: str, document: str, state: State, *, timeout: float = -1) -> None:
        """Keep a state. Lines that are none stay as they are."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(self._path.parent, f".{self._path.name}.lock", timeout=timeout):
            lines = self._read()
            states: dict[tuple[str, str], State] = {**lines.states, (annotator, document): state}
            rows = [_dump(*key, state) for key, state in states.items()]
            with write_whole(self._path) as temporary:
                temporary.write_bytes(b"".join(line + b"\n" for line in (*lines.odd, *rows)))

    def _read(self) -> _Lines:
        stamp = find_stamp(self._path)
        if stamp == self._lines.stamp:
            return self._lines
        lines = _Lines(stamp, {}, [], [])
        for number, line in enumerate(self._path.read_bytes().split(b"\n") if stamp else (), 1):
            if not line.strip():
                continue
            try:
                row = _StateRow.model_validate(json.loads(line))
            except (ValidationError, ValueError, RecursionError):
                lines.odd.append(line)
                lines.numbers.append(number)
                continue
            lines.states[row.annotator, row.document] = row.state
        self._lines = lines
        return lines


def _dump(annotator: str, document: str, state: State) -> bytes:
    row: dict[str, Any] = {"document": document, "annotator": annotator, "state": state}
    return json.dumps(row, ensure_ascii=False).encode()
