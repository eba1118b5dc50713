"""The people of a service: their names, their roles, and the tokens by which the service knows them."""

import hashlib
import json
import re
import secrets
import unicodedata
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from limits import StrictRequest
from pydantic import AfterValidator, Field, ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import get_route_path
from starlette.types import Scope

from spacy_sapbert.files import find_stamp, lock_folder, write_whole

Role = Literal["annotator", "reviewer"]
# A name is a part of a file's name.
NAME = re.compile(r"[^\W_](?:(?:[^\W_]|[ .@-])*[^\W_])?")
MOST_CHARACTERS = 50
# What the page needs before somebody has given a token.
PUBLIC, PUBLIC_FOLDER = ("/", "/health"), "/page/"
NEEDS_TOKEN = (
    "This service needs a token of its own. Ask who runs it, and send the header `Authorization: Bearer TOKEN`."
)
# As if root has given the tokens, and the service runs as another user.
UNREADABLE = "The service may not read its file of tokens. Give tokens as the user as whom the service runs."
BEARER = {"WWW-Authenticate": "Bearer"}


class Annotator(NamedTuple):
    """Who sends a request. Without tokens, everybody is the same reviewer without a name."""

    name: str = ""
    role: Role = "reviewer"


def check_name(name: str) -> str:
    """Check the name of a person, and return it in the form in which files have it."""
    name = unicodedata.normalize("NFC", name)
    if len(name) > MOST_CHARACTERS or not NAME.fullmatch(name):
        raise ValueError(
            f"The name is {name!r:.80}, but has to have up to {MOST_CHARACTERS} letters, digits, spaces, dots, hyphens "
            "and @, and to begin and end with a letter or a digit."
        )
    return name


class Member(StrictRequest):
    """A line of the file of tokens. Of the token, it has the hash only."""

    name: Annotated[str, AfterValidator(check_name)]
    role: Role
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Content(NamedTuple):
    """What the file of tokens held when it was read."""

    stamp: tuple[int, ...] = ()
    lines: tuple[bytes, ...] = ()
    members: tuple[Member, ...] = ()
    hashes: dict[str, Annotator] = {}

    @property
    def bad(self) -> int:
        """Lines that name nobody."""
        return len(self.lines) - len(self.members)


class Members:
    """Those who have a token of a service. The file is read again whenever it changes."""

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / "tokens.jsonl"
        self._content = _Content()

    @property
    def need_tokens(self) -> bool:
        """Whether requests need a token. A file without a token lets nobody in, so that the service does not open when
        the last person is removed."""
        if self.path is None:
            return False
        try:
            # Of a link, not what it leads to: while that is away, the service does not open either.
            self.path.lstat()
        except FileNotFoundError:
            return False
        return True

    @property
    def bad_lines(self) -> int:
        """The number of lines that can't be read. Who is meant there is not let in."""
        return self._read().bad

    def list_members(self) -> list[Member]:
        """List those who have a token."""
        return list(self._read().members)

    def add(self, name: str, role: Role) -> str:
        """Give somebody a token, and return it. It is kept nowhere."""
        name = check_name(name)
        token = secrets.token_urlsafe()
        row = {"name": name, "role": role, "sha256": _hash(token)}
        with lock_folder(self._make_folder(), ".tokens.lock"):
            content = self._read()
            if any(member.name.casefold() == name.casefold() for member in content.members):
                raise ValueError(f"'{name}' has a token. Remove it first to give another one.")
            self._write([*content.lines, json.dumps(row, ensure_ascii=False).encode()])
        return token

    def remove(self, name: str) -> None:
        """Take somebody's token away. The corrections stay."""
        name = check_name(name)
        with lock_folder(self._make_folder(), ".tokens.lock"):
            content = self._read()
            lines = [line for line in content.lines if not _is_of(line, name)]
            if lines == [*content.lines]:
                names = ", ".join(member.name for member in content.members)
                raise ValueError(f"'{name}' has no token. Those who have one: {names or 'nobody'}.")
            self._write(lines)

    def admit(self, scope: Scope) -> JSONResponse | None:
        """Note who sends a request, or refuse it. Of a public address, the sender may be unknown."""
        try:
            scope["annotator"] = self._find(scope)
        except OSError:
            return JSONResponse({"error": UNREADABLE}, 503)
        if scope["annotator"] is not None or _is_public(scope):
            return None
        return JSONResponse({"error": NEEDS_TOKEN}, 401, BEARER)

    def _find(self, scope: Scope) -> Annotator | None:
        if not self.need_tokens:
            return Annotator()
        kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        # The time of a look-up by hash says nothing about the token.
        return self._read().hashes.get(_hash(token.strip())) if kind.lower() == "bearer" else None

    def _make_folder(self) -> Path:
        if self.path is None:
            raise ValueError("Tokens need the folder of a service.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.parent

    def _write(self, lines: list[bytes]) -> None:
        assert self.path is not None
        # Before anything is in it, nobody else may read it.
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)
        with write_whole(self.path) as temporary:
            temporary.chmod(0o600)
            temporary.write_bytes(b"".join(line + b"\n" for line in lines))

    def _read(self) -> _Content:
        if self.path is None:
            return _Content()
        stamp = find_stamp(self.path)
        if stamp != self._content.stamp:
            lines = tuple(line for line in self.path.read_bytes().split(b"\n") if line.strip()) if stamp else ()
            self._content = _parse(stamp, lines)
        return self._content


def _parse(stamp: tuple[int, ...], lines: tuple[bytes, ...]) -> _Content:
    members: dict[str, Member] = {}
    for line in lines:
        member = _read_member(line)
        # Two people of one name would write into one file.
        if member is not None and member.name.casefold() not in members:
            members[member.name.casefold()] = member
    hashes = {member.sha256: Annotator(member.name, member.role) for member in members.values()}
    return _Content(stamp, lines, tuple(members.values()), hashes)


def _read_member(line: bytes) -> Member | None:
    try:
        return Member.model_validate_json(line)
    except ValidationError:
        return None


def _is_of(line: bytes, name: str) -> bool:
    member = _read_member(line)
    return member is not None and member.name.casefold() == name.casefold()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_public(scope: Scope) -> bool:
    if scope["method"] not in ("GET", "HEAD"):
        return False
    # As the application will find it, also below a prefix.
    path = get_route_path(scope)
    return path in PUBLIC or path.startswith(PUBLIC_FOLDER)
