"""What a request is told when something can't be kept."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import Timeout
from limits import ServiceSettings
from starlette.exceptions import HTTPException
from worker import too_late

# What a system says when a disk, or what a user may have of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_SPACE = "It is not kept: no space left. Free some space where `--folder` or `--gold` lies, and try again."


@contextmanager
def explain_unkept(settings: ServiceSettings) -> Iterator[None]:
    """Refuse a request whose file another one writes for too long, or for which there is no space."""
    try:
        yield
    except Timeout:
        raise too_late(settings.max_seconds) from None
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise HTTPException(507, NO_SPACE) from error
