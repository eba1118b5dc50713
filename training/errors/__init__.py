"""The catalogue of errors and warnings of training and evaluation."""

from typing import Any

from .evaluation import EvaluationErrors
from .methods import MethodErrors
from .training import TrainingErrors


class WithCodes(type):
    """Prefix every message with its code, so that a message in a log can be found in the catalogue."""

    def __getattribute__(self, code: str) -> Any:
        message = super().__getattribute__(code)
        if code.startswith("__") or not isinstance(message, str):
            return message
        return f"[{code}] {message}"


class Warnings(metaclass=WithCodes):
    """Messages for situations that are survivable but that a user would want to know of."""

    W140 = (
        "{folder} has no MRCUI, which lists the successors of retired concepts. Concepts missing from the new release"
        " count as retired, unless another one has their id as a code. Copy MRCUI.RRF there if the release has it."
    )
    # W6xx: training data
    W601 = (
        "{n} pairs in {path} are left out: their two names are written alike, so there is nothing to learn from them."
    )
    W602 = (
        "{missing} of {n} strings to train on have no token that the encoder's vocabulary knows. All of them have the "
        "same vector, so nothing can be learned from them. Use a base encoder for their language or script, or "
        "leave them out."
    )
    W630 = "The checkpoint {path} is damaged and was removed: {reason} The run goes on from {last}."
    W650 = (
        "{without_concept} of {mentions} mentions have no id that {dictionary} has (it lacks {examples}), and are left "
        "out. It is probably of another release, or writes ids in another way: compare prefixes and case."
    )
    W660 = "The curves of {path} are not drawn: {reason} Draw them later with `python -m training curves`."
    W661 = (
        "{file}, line {line}: {reason}. The line is taken out, and the run goes on. It was probably damaged when the "
        "machine went down or the disk was full; curves lack its figures."
    )
    W662 = (
        "{n:,} of {rows:,} words in {path} are left out: they are not UTF-8. Their names are measured without them; "
        "the authors of some vectors have cut words in the middle of a character."
    )
    W800 = (
        "Names of all languages are wanted, and those in {path} are all in {language}. If it was read for one language "
        "only, read it with `preprocess --languages all`."
    )


class Errors(TrainingErrors, MethodErrors, EvaluationErrors, metaclass=WithCodes):
    """Messages for situations in which a command cannot go on."""
