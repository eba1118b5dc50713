"""Messages that are raised in several places: what happened, and what to do; and the way that all warnings go."""

from __future__ import annotations

import inspect
import warnings

# Whose lines stand between the user's line and a warning: a pipeline calls components, a config is resolved.
_INNER = frozenset(("spacy_sapbert", "spacy", "thinc", "confection", "catalogue", "contextlib", "functools"))

NO_FILE = "Can't find the file {file}. Check the path: a relative one starts from the folder you run in ({cwd})."
IS_FOLDER = "{path} is a folder. Give the path of a file."
CUT_SHORT = "{file} {found}. The copy was probably cut short, or the file is of another kind. Fetch or copy it again."
BAD_SETTING = "The setting {name}{where} is {value!r}, but has to be {allowed}."
NO_LIST = "`{function}` takes a list of {what}, but {found}. Pass a list for a single one as well."
DAMAGED = (
    "Can't read '{path}': {reason}. The file is damaged; write it again (save the pipeline, or run the command "
    "that made it), or reinstall its package."
)
USE_OTHER_VERSION = (
    "Build the pipeline again, or install that version, which the meta.json of a packaged pipeline has under "
    "`requirements`."
)
# Of files whose checksums hold.
OTHER_VERSION = (
    "Can't read '{path}': {reason}. The file is whole, but not as this version of spacy-sapbert saves it, so another "
    "version has probably saved it. " + USE_OTHER_VERSION
)
MISSING = (
    "'{path}' is missing. The copy or the download is incomplete; write it again (save the pipeline, or run the "
    "command that made it), or reinstall its package."
)
NOT_BYTES = "Can't unpack these bytes: {reason}. Pass what `to_bytes` returned, complete and unchanged."
TAKEN_ATTRIBUTE = (
    "`{attr}` is already registered by another library (scispaCy, for one), so it does not show what {what}. Read"
    " that from {instead}, or use one of the two components only."
)


def warn(message: str) -> None:
    """Warn at the user's line, which is the first one outside of this package and of what calls it for the user."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INNER:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
