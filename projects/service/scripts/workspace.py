"""The folder of a service, and who works in it."""

from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from limits import ServiceSettings
from members import BEARER, NEEDS_TOKEN, Annotator, Members, check_name
from starlette.exceptions import HTTPException

__all__ = ["Annotator", "Reviewer", "Who", "Workspace"]

CORRECTIONS = "corrections"
NO_GOLD = "Corrections are not kept here: start the service with `--gold FILE` or `--folder FOLDER`."


async def find_annotator(request: Request) -> Annotator:
    """Find who sends a request."""
    who: Annotator | None = request.scope["annotator"]
    if who is None:
        raise HTTPException(401, NEEDS_TOKEN, BEARER)
    return who


Who = Annotated[Annotator, Depends(find_annotator)]


async def find_reviewer(who: Who) -> Annotator:
    """Find which reviewer sends a request, or refuse it."""
    if who.role != "reviewer":
        raise HTTPException(403, "Only reviewers may do this, because it shows or changes the work of others.")
    return who


Reviewer = Annotated[Annotator, Depends(find_reviewer)]


class Workspace:
    """Where a service keeps what people add: documents, corrections, rules and what was learned."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.folder = None if settings.folder is None else Path(settings.folder)
        self.members = Members(self.folder)
        self._gold = None if settings.gold is None else Path(settings.gold)

    def find_gold(self, who: Annotator) -> Path | None:
        """Find the file of somebody's corrections; None if none are kept. Reviewers share one: what they decide is
        settled."""
        if self.folder is None:
            return self._gold
        if who.role == "annotator":
            return self.folder / CORRECTIONS / f"{who.name}.jsonl"
        return self._gold or self.folder / f"{CORRECTIONS}.jsonl"

    def get_gold(self, who: Annotator) -> Path:
        """Get the file of somebody's corrections, or refuse the request if none are kept."""
        path = self.find_gold(who)
        if path is None:
            raise HTTPException(409, NO_GOLD)
        return path

    def list_gold_files(self) -> dict[str, Path]:
        """List the files of all annotators by name, also of those who have no token any more."""
        if self.folder is None:
            return {}
        files = (self.folder / CORRECTIONS).glob("*.jsonl")
        return {path.stem: path for path in sorted(files) if _is_name(path.stem)}


def _is_name(name: str) -> bool:
    try:
        return check_name(name) == name
    except ValueError:
        return False
