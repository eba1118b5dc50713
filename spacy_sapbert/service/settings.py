"""The settings of the service."""

from __future__ import annotations

from pydantic import Field

from ..long_runs import MAX_RUN
from ..settings import Settings


class ServiceSettings(Settings):
    """Limits of the service. What exceeds one is refused with a message, before the pipeline sees it."""

    hosts: list[str] = Field(
        default=[],
        description="Names and addresses of this machine that requests may use beside localhost, 127.0.0.1 and ::1.",
    )
    max_body: int = Field(default=2_000_000, ge=1, description="Bytes of a request.")
    max_texts: int = Field(default=100, ge=1, description="Texts or mentions in a request.")
    max_characters: int = Field(default=100_000, ge=1, description="Characters of a text.")
    max_run: int = Field(
        default=MAX_RUN,
        ge=1,
        description="Characters in a row without white space. A letter of Chinese, Japanese, Thai or another script "
        "that is written without spaces ends such a row as well.",
    )
    max_seconds: float = Field(
        default=60, gt=0, description="Seconds of a request, with the time that it waits; others get the status 504."
    )
    queue_size: int = Field(default=64, ge=1, description="Requests that may wait; others get the status 503.")
    batch_size: int = Field(default=32, ge=1, description="Requests that are linked at once.")
    gold: str | None = Field(
        default=None,
        description="A file that keeps corrections of the page, as Prodigy's JSON lines; null to keep none.",
    )
