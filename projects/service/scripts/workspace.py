"""The folder of a service, and who works in it."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from fastapi import Depends, Request
from limits import ServiceSettings


class Annotator(NamedTuple):
    """Who sends a request. Without tokens, everybody is the same reviewer without a name."""

    name: str = ""
    role: Literal["annotator", "reviewer"] = "reviewer"


async def find_annotator(request: Request) -> Annotator:
    """Find who sends a request."""
    return Annotator()


Who = Annotated[Annotator, Depends(find_annotator)]


class Workspace:
    """Where a service keeps what people add: documents, corrections, rules and what was learned."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.folder = None if settings.folder is None else Path(settings.folder)
        self._gold = None if settings.gold is None else Path(settings.gold)
        # The texts of documents that somebody has marked as done, which whoever keeps documents knows.
        self.list_done: Callable[[Annotator], Collection[str]] = lambda who: ()

    def find_gold(self, who: Annotator) -> Path | None:
        """Find the file of somebody's corrections; None if none are kept."""
        if self.folder is None or self._gold is not None:
            return self._gold
        return self.folder / "corrections.jsonl"
