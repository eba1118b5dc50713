"""The settings of the service."""

from __future__ import annotations

from pydantic import Field

from ..settings import Settings


class ServiceSettings(Settings):
    """Limits of the service. What exceeds one is refused with a message, before the pipeline sees it."""

    max_body: int = Field(default=2_000_000, ge=1)
    """Bytes of a request."""
    max_texts: int = Field(default=100, ge=1)
    """Texts or mentions in a request."""
    max_characters: int = Field(default=100_000, ge=1)
    """Characters of a text."""
    queue_size: int = Field(default=64, ge=1)
    """Requests that may wait; others get the status 503."""
    batch_size: int = Field(default=32, ge=1)
    """Requests that are linked at once."""
    gold: str | None = None
    """A file that keeps corrections of the page, as Prodigy's JSON lines; null to keep none."""
