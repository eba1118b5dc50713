"""Make functions that take the settings of a reader as keyword arguments: `read_obo(path, language="GER")`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from ...settings import Settings, Strings, with_settings
from ..table import Terminology, TerminologyReader

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

        # Not positional-only: configs give the path by its name.
        return cast(Callable[Concatenate[str | Path, P], Terminology], with_settings(cls)(read_with))

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
    return cast(Callable[Concatenate[str, P], TerminologyReader], with_settings(cls)(make_reader))
