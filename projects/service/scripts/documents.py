"""The documents that a team annotates: from a folder, and uploaded; and how far everybody is."""

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from document_files import (
    ANY,
    KINDS,
    Columns,
    Problem,
    Row,
    UnclearColumns,
    check_file_name,
    read_rows,
)
from document_states import DocumentStates, State
from export import dump_lines
from gold import find_gold, list_corrections
from workspace import Annotator, Workspace

from spacy_sapbert.exchange.documents import number_name
from spacy_sapbert.files import find_stamp, lock_folder, write_whole

UPLOADS = "documents"
LOCK = ".documents.lock"
# Between two looks for files that have changed.
SECONDS = 1.0


class Document(NamedTuple):
    """A text with its name, and how far an annotator is with it."""

    id: str  # of its name and text, so that other files do not change it
    name: str
    text: str
    state: State = "new"
    corrections: int = 0


class Listing(NamedTuple):
    """The documents of all files, in their order."""

    documents: list[Document]
    places: dict[str, int]  # by id
    folded: list[str]  # name and text of each, to search in
    problems: list[Problem]


class FileContent(NamedTuple):
    """What a file held when it was read."""

    stamp: tuple[int, ...]
    rows: list[Row]
    problems: list[Problem]


class _Source(NamedTuple):
    """A file of documents, and its path in its folder."""

    path: Path
    name: str
    stamp: tuple[int, ...]


class NoPlace(Exception):
    """The service has no folder to keep something in."""


class OtherContent(Exception):
    """Another file of that name is there."""


class NoDocuments(ValueError):
    """A file has no text that can be used."""


class Documents:
    """The documents of a service. Files are read again when they change."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._settings = workspace.settings
        self._uploads = None if workspace.folder is None else workspace.folder / UPLOADS
        given = None if self._settings.documents is None else Path(self._settings.documents)
        if given is not None and not given.is_dir():
            raise NotADirectoryError(
                f"There is no folder {str(given)!r} to read documents from. Give `--documents` the path of a folder "
                f"with files that end in {', '.join(KINDS)}."
            )
        for one, other in ((given, workspace.folder), (workspace.folder, given)):
            if one is not None and other is not None and one.resolve().is_relative_to(other.resolve()):
                raise ValueError(
                    f"'{one}' lies in '{other}', so that corrections would be read as documents or the other way. Give "
                    "`--documents` and `--folder` two folders beside each other."
                )
        self._roots = [root for root in (given, self._uploads) if root is not None]
        self._states = None if workspace.folder is None else DocumentStates(workspace.folder / "documents.jsonl")
        self._files: dict[Path, FileContent] = {}
        self._seen: tuple[list[_Source], list[Problem]] | None = None
        self._next_look = 0.0
        self._listing = Listing([], {}, [], [])
        self._lock = threading.Lock()

    @property
    def keeps(self) -> bool:
        """Whether there is a folder for uploads and states."""
        return self._uploads is not None

    def read(self) -> Listing:
        """Read the files that have changed, and list all documents."""
        with self._lock:
            if time.monotonic() < self._next_look:
                return self._listing
            problems: list[Problem] = []
            sources = [source for root in self._roots for source in _list_sources(root, problems)]
            if (seen := (sources, problems)) != self._seen:
                files = {source.path: self._read_file(source) for source in sources}
                self._listing = _list_documents(sources, files, problems)
                self._files, self._seen = files, seen
            self._next_look = time.monotonic() + SECONDS
            return self._listing

    def get(self, id_: str) -> Document | None:
        """Get a document; None if there is none of that id."""
        listing = self.read()
        place = listing.places.get(id_)
        return None if place is None else listing.documents[place]

    def list_documents(self, who: Annotator) -> list[Document]:
        """List all documents, with the states and the numbers of corrections of an annotator."""
        return self.add_states(self.read().documents, who)

    def add_states(self, documents: Sequence[Document], who: Annotator) -> list[Document]:
        """Add the states and the numbers of corrections of an annotator to documents."""
        states = {} if self._states is None else self._states.find(who.name)
        path = self._workspace.find_gold(who)
        texts = [document.text for document in documents]
        gold = [[] for _ in texts] if path is None else find_gold(path, texts)
        return [
            document._replace(
                state=states.get(document.id, "begun" if spans else "new"),
                corrections=len(spans),
            )
            for document, spans in zip(documents, gold, strict=True)
        ]

    def list_places(self, documents: Sequence[Document], who: Annotator) -> list[tuple[tuple[int, int], ...]]:
        """List the places that an annotator has decided on in each document."""
        path = self._workspace.find_gold(who)
        if path is None:
            return [() for _ in documents]
        gold = find_gold(path, [document.text for document in documents])
        return [tuple((span["start"], span["end"]) for span in spans) for spans in gold]

    def list_done(self) -> set[str]:
        """List the texts of documents that are done for all who have begun them."""
        if self._states is None:
            return set()
        documents = self.read().documents
        states = self._states.list_all()
        done = {one.text for one in documents if states.get(one.id) == {"done"}}
        for name, path in self._workspace.list_gold_files().items():
            finished = self._states.find(name)
            texts = {text for text, spans in list_corrections(path).items() if spans}
            done -= texts - {one.text for one in documents if finished.get(one.id) == "done"}
        return done

    def list_problems(self) -> list[Problem]:
        """List what of all files is not used."""
        odd = [] if self._states is None else self._states.list_odd()
        lines = [Problem("documents.jsonl", number, "the line is no state of a document") for number in odd]
        return self.read().problems + lines

    def keep_state(self, who: Annotator, id_: str, state: State) -> None:
        """Keep how far an annotator is with a document."""
        if self._states is None:
            raise NoPlace
        self._states.keep(who.name, id_, state, timeout=self._settings.max_seconds)

    def add(self, name: str, content: str, columns: Columns = ANY) -> tuple[list[Document], list[Problem]]:
        """Keep an uploaded file, and list its documents and what of it can't be used. Nothing changes if it is there
        already. With columns that somebody chose, its rows are kept as lines of JSON."""
        if self._uploads is None:
            raise NoPlace
        if reason := check_file_name(name):
            raise NoDocuments(f"its name can't be used, because {reason}")
        rows, problems = read_rows(name, content, self._settings, columns)
        if not rows:
            first = problems[0] if problems else Problem(name, 0, "it is empty")
            raise NoDocuments(f"{first.reason} (line {first.line})" if first.line else first.reason)
        if columns.text:
            name = f"{name}.jsonl"
            content = dump_lines({"text": row.text, "name": row.name} for row in rows)
            rows, _ = read_rows(name, content, self._settings)
        path = self._uploads / name
        written = content.encode("utf8")
        self._uploads.mkdir(parents=True, exist_ok=True)
        with lock_folder(self._uploads, LOCK, timeout=self._settings.max_seconds):
            if os.path.lexists(path):
                if path.is_symlink() or not path.is_file() or path.read_bytes() != written:
                    raise OtherContent
            else:
                with write_whole(path) as temporary:
                    temporary.write_bytes(written)
        self._next_look = 0.0
        ids = {_make_id(_name_row(row, name), row.text) for row in rows}
        listed = self.read()
        return [listed.documents[place] for id_, place in listed.places.items() if id_ in ids], problems

    def _read_file(self, source: _Source) -> FileContent:
        before = self._files.get(source.path)
        if before is not None and before.stamp == source.stamp:
            return before
        try:
            content = source.path.read_bytes().decode("utf8")
            rows, problems = read_rows(source.name, content, self._settings)
        except UnicodeDecodeError as error:
            reason = f"it is not UTF-8 (byte {error.start:,}): save it as UTF-8"
        except OSError as error:
            reason = f"it can't be read: {error.strerror}"
        except UnclearColumns as error:
            reason = f"{error} Name it 'text'.".replace(" Choose one.", "")
        else:
            return FileContent(source.stamp, rows, problems)
        return FileContent(source.stamp, [], [Problem(source.name, 0, reason)])


def search_documents(listing: Listing, words: str) -> list[Document]:
    """Search for documents with all words in their names or texts, in any case."""
    wanted = words.casefold().split()
    pairs = zip(listing.documents, listing.folded, strict=True)
    return [document for document, folded in pairs if all(word in folded for word in wanted)]


def split_numbers(name: str) -> list[tuple[int, str]]:
    """Split a name, to sort "note 2" before "note 10"."""
    parts = re.split(r"(\d{1,18})", name.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _list_sources(root: Path, problems: list[Problem]) -> Iterator[_Source]:
    """List the files of documents below a folder. Links that lead out of it are not followed."""
    if root.is_dir():
        yield from _scan(str(root), "", root.resolve(), problems)


def _scan(folder: str, prefix: str, inside: Path, problems: list[Problem]) -> Iterator[_Source]:
    try:
        # Not pathlib, which takes ten times as long for thousands of files.
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: (entry.is_dir(), split_numbers(entry.name)))
    except OSError as error:
        problems.append(Problem(prefix or ".", 0, f"it can't be read: {error.strerror}"))
        return
    for entry in entries:
        # Other systems write names that are not UTF-8.
        label = prefix + os.fsencode(entry.name).decode("utf8", "replace")
        # Hidden files, and those that are being written.
        if entry.name.startswith(".") or entry.name.endswith(".part"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _scan(entry.path, f"{label}/", inside, problems)
        elif reason := _find_fault(entry, inside):
            problems.append(Problem(label, 0, reason))
        else:
            path = Path(entry.path)
            yield _Source(path, label, find_stamp(path))


def _find_fault(entry: os.DirEntry[str], inside: Path) -> str:
    if entry.is_symlink():
        if entry.is_dir():
            return "it is a link to a folder, which is not followed"
        if not Path(entry.path).resolve().is_relative_to(inside):
            return "it is a link that leads out of the folder, which is not followed"
    is_ours = entry.name.lower().endswith(KINDS) and entry.is_file()
    return "" if is_ours else f"it is no file that ends in {', '.join(KINDS)}"


def _list_documents(sources: Iterable[_Source], files: dict[Path, FileContent], problems: Sequence[Problem]) -> Listing:
    """List the documents of files. Those of one name get numbers, and what is there twice is said."""
    listing = Listing([], {}, [], [*problems])
    names: set[str] = set()
    texts: dict[str, str] = {}
    for source in sources:
        listing.problems.extend(files[source.path].problems)
        for row in files[source.path].rows:
            name = _name_row(row, source.name)
            id_ = _make_id(name, row.text)
            if id_ in listing.places:
                listing.problems.append(Problem(source.name, row.line, f"{name!r} is there already; it is listed once"))
                continue
            name = number_name(name, names)
            if (other := texts.setdefault(row.text, name)) != name:
                reason = f"{other!r} has the same text, so both share their corrections"
                listing.problems.append(Problem(source.name, row.line, reason))
            listing.places[id_] = len(listing.documents)
            listing.documents.append(Document(id_, name, row.text))
            listing.folded.append(f"{name}\n{row.text}".casefold())
    return listing


def _name_row(row: Row, file: str) -> str:
    """Name a text: as its row says, or after the file, with the line if that has several."""
    stem = file.rpartition(".")[0]
    return row.name or (f"{stem} {row.line}" if row.line else stem)


def _make_id(name: str, text: str) -> str:
    return blake2b(f"{name}\0{text}".encode(), digest_size=8).hexdigest()
