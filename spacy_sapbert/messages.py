"""What both catalogues of messages need: codes in front of messages, and texts that both have."""

from typing import Any


class WithCodes(type):
    """Prefix every message with its code, so that a message in a log can be found in the catalogue."""

    def __getattribute__(self, code: str) -> Any:
        message = super().__getattribute__(code)
        if code.startswith("__") or not isinstance(message, str):
            return message
        return f"[{code}] {message}"


# What MRFILES says is wrong is an error or, with errors = 'skip', a warning.
WRONG_LENGTH = (
    "{file} has {found} lines, but MRFILES says {expected}. The copy is incomplete, the file was cut on purpose, or it "
    "comes from another release than MRFILES."
)
MISSING_FILE = (
    "{folder} has no {file}, but MRFILES says that it has {rows} rows. The copy of the release is incomplete."
)
