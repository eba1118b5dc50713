"""The catalogue of errors and warnings: each says what happened, why that is likely, and what to do."""


class _WithCodes(type):
    """Prefix every message with its code, so that a message in a log can be found here."""

    def __getattribute__(self, code: str) -> str:
        message = super().__getattribute__(code)
        if code.startswith("__") or not isinstance(message, str):
            return message
        return f"[{code}] {message}"


class Warnings(metaclass=_WithCodes):
    """Messages for situations that are survivable but that a user would want to know of."""

    # W1xx: terminologies

    # W2xx: encoder

    # W3xx: index

    # W4xx: linker


class Errors(metaclass=_WithCodes):
    """Messages for situations in which going on would give a wrong answer or none."""

    # E1xx: terminologies

    # E2xx: encoder

    # E3xx: index

    # E4xx: linker, abbreviations and scoring

    # E5xx: saved pipelines
