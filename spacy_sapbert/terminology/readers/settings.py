"""Make functions that take the settings of a reader as keyword arguments: `read_obo(path, language="GER")`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from ...settings import Settings, Strings
from ...types import TerminologyReader
from ..table import Terminology

if TYPE_CHECKING:
    # Callers may give any collection, such as a list or a set. The settings store tuples.
    Texts = Collection[str]
else:
    Texts = Strings

P = ParamSpec("P")
S = TypeVar("S", bound=Settings)


def takes_settings(
    settings: Callable[P, S],
) -> Callable[[Callable[[Path, S], Terminology]], Callable[Concatenate[str | Path, P], Terminology]]:
    """Decorate a function of a path and settings, so that callers give the settings as keyword arguments.

    settings (type[Settings]): The class of the settings.
    RETURNS (Callable): The decorator.
    """
    cls = cast(type[Settings], settings)

    def decorate(read: Callable[[Path, S], Terminology]) -> Callable[Concatenate[str | Path, P], Terminology]:
        @functools.wraps(read)
        def read_with(path: str | Path, *args: P.args, **values: P.kwargs) -> Terminology:
            return read(Path(path), cast(S, cls.read(values, f"`{read.__name__}`")))

        _sign(read_with, str | Path, cls, Terminology)
        # Not positional-only: configs give the path by its name.
        return cast(Callable[Concatenate[str | Path, P], Terminology], read_with)

    return decorate


def make_factory(
    name: str, read: Callable[Concatenate[str | Path, P], Terminology], settings: Callable[P, S]
) -> Callable[Concatenate[str, P], TerminologyReader]:
    """Make the registered function that makes a reader from a block of a config.

    name (str): The name of the function.
    read (Callable): The function that reads, decorated with `takes_settings`.
    settings (type[Settings]): The class of its settings.
    RETURNS (Callable): A function with the same arguments. It returns a reader, which opens the file when called.
    """
    cls = cast(type[Settings], settings)

    def make_reader(path: str, *args: P.args, **values: P.kwargs) -> TerminologyReader:
        # Invalid settings are refused when the config is read, not when the file is.
        cls.read(values, f"`{name}`")
        return functools.partial(read, path, *args, **values)

    make_reader.__name__ = make_reader.__qualname__ = name
    make_reader.__module__ = read.__module__
    make_reader.__doc__ = f"Make a reader for use in a config. Its settings are those of `{cls.__name__}`."
    _sign(make_reader, str, cls, TerminologyReader)
    return cast(Callable[Concatenate[str, P], TerminologyReader], make_reader)


def _sign(function: Callable[..., Any], path: Any, settings: type[Settings], returns: Any) -> None:
    """Give a function the signature that its settings define, which `help` and spaCy's configs read."""
    parameters = [inspect.Parameter("path", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=path)]
    for name, field in settings.model_fields.items():
        keyword = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_without_tuples(field.annotation)
        )
        parameters.append(keyword)
    signature = inspect.Signature(parameters, return_annotation=returns)
    function.__signature__ = signature  # type: ignore[attr-defined]
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    function.__annotations__ = {**annotations, "return": returns}


def _without_tuples(annotation: Any) -> Any:
    """Replace tuples in a type by sequences, because configs have lists only."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _without_tuples(arguments[0])
    if origin in (Union, UnionType):
        return Union[tuple(_without_tuples(part) for part in arguments)]  # noqa: UP007
    return Sequence[arguments[0]] if origin is tuple else annotation  # type: ignore[valid-type]
