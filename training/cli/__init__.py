"""The commands: `python -m training --help`. What a command needs is imported when it runs."""

from . import data, convert, train, measure, figures  # noqa: F401, I001  # register their commands, in this order
from .application import app as app
