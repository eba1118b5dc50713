"""Settings: type, default, bounds and meaning of each stated once.

A class of settings is the only place that knows them. Checks, the defaults of configs, `--help` and the tables of the
documentation are made from it.
"""

from __future__ import annotations

import difflib
import inspect
import json
import types
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticUndefined
from typing_extensions import Self

from .errors import Errors

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
# What kinds of values are called in messages and tables.
KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
}


def as_tuple(value: Any) -> Any:
    """Make a tuple of any collection but a string, for fields that hold lists.

    value (Any): What was given.
    RETURNS (Any): The tuple; anything else as it is, for the type to refuse.
    """
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    return tuple(value) if is_list else value


# Lists, sets and spaCy's frozen lists alike. A string is a collection of strings too, each a letter: it is refused.
Strings = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class Settings(BaseModel):
    """Base of all classes of settings. Values are never converted silently: "5" is no number, and true is not 1.

    The `description` of a setting is its help text. What a setting was called before stands in `renamed`, so that old
    configs are refused with the new name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {}

    @field_validator("*", mode="before")
    @classmethod
    def _accept_numpy(cls, value: Any, info: ValidationInfo) -> Any:
        # NumPy's numbers are not Python's, and come from every computation of a threshold.
        return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Make settings of plain data.

        values (Mapping[str, Any]): Values by name; those that are missing have their defaults.
        where (str): What the settings are of, for messages, such as "[batch]" or "the linker 'sapbert_linker'".
        RETURNS (Settings): The settings, checked.
        RAISES (ValueError): If a setting is unknown, missing, or its value has no meaning.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError(explain(cls, error, where)) from error

    def changed(self, where: str = "", /, **values: Any) -> Self:
        """Make settings that differ in some values.

        where (str): As for `read`.
        **values (Any): The values to change.
        RETURNS (Settings): The new settings, checked.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return self.read({**given, **values}, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict[str, Any]): Values by name.
        """
        return self.model_dump(mode="json")


class SettingRow(NamedTuple):
    """One setting, as tables and command lines show it.

    name (str): The setting.
    allowed (str): The values that it takes, in words.
    default (str): As it is written in a config; empty if the setting has to be given.
    meaning (str): Its help text, on one line.
    """

    name: str
    allowed: str
    default: str
    meaning: str


def list_settings(settings: type[Settings]) -> list[SettingRow]:
    """List the settings of a class.

    settings (type[Settings]): The class.
    RETURNS (list[SettingRow]): In the order of its definition. Sections are listed by "section.name".
    """
    rows = []
    for name, field in settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Settings):
            rows += [row._replace(name=f"{name}.{row.name}") for row in list_settings(section)]
            continue
        default = field.get_default(call_default_factory=True)
        text = "" if default is PydanticUndefined else json.dumps(default, ensure_ascii=False)
        allowed = describe_values(field.annotation, field.metadata)
        rows.append(SettingRow(name, allowed, text, find_meaning(settings, name)))
    return rows


def find_meaning(settings: type[Settings], name: str) -> str:
    """Find the help text of a setting. A class that only changes a default leaves it to the class that it extends."""
    fields = (owner.model_fields.get(name) for owner in settings.__mro__ if issubclass(owner, Settings))
    return next((field.description for field in fields if field and field.description), "")


def format_table(settings: type[Settings]) -> str:
    """Write a table of settings for the documentation.

    settings (type[Settings]): The class.
    RETURNS (str): Markdown.
    """
    lines = ["| setting | values | default | meaning |", "| --- | --- | --- | --- |"]
    for row in list_settings(settings):
        default = f"`{row.default}`" if row.default else "must be given"
        cells = (f"`{row.name}`", row.allowed, default, row.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def describe_values(annotation: Any, metadata: Collection[Any] = ()) -> str:
    """Say in words which values a type allows.

    annotation (Any): The type of a setting.
    metadata (Collection[Any]): Its bounds, as pydantic has them in a field's `metadata`.
    RETURNS (str): Such as "a whole number, 1 or more, or null".
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe_values(arguments[0], [*arguments[1:], *metadata])
    if origin is Union or origin is types.UnionType:
        parts = [describe_values(part, metadata if part is not type(None) else ()) for part in arguments]
        return " or ".join(dict.fromkeys(parts))
    if origin is Literal:
        return ", ".join(json.dumps(value) for value in arguments)
    if origin in (tuple, list):
        return f"a list of {_describe_items(arguments[0])}{_describe_bounds(metadata)}"
    if origin is dict or origin in (Mapping, dict):
        return "a map from names to " + ("lists of strings" if get_origin(arguments[1]) else "numbers")
    return KINDS.get(annotation, getattr(annotation, "__name__", str(annotation))) + _describe_bounds(metadata)


def _describe_items(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return f"any of {describe_values(annotation)}"
    kind, *bounds = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    numbers = {int: "whole numbers", float: "numbers"}
    metadata = [item for bound in bounds for item in getattr(bound, "metadata", [bound])]
    return numbers.get(kind, "strings") + _describe_bounds(metadata)


def explain(settings: type[Settings], error: ValidationError, where: str = "") -> str:
    """Say what is wrong with values, and what is right.

    settings (type[Settings]): The class that refused them.
    error (ValidationError): What pydantic found.
    where (str): What the settings are of.
    RETURNS (str): A message of the catalogue for the first problem.
    """
    problem = error.errors()[0]
    cause = str(problem.get("ctx", {}).get("error", ""))
    if cause.startswith("[E"):
        # A check between settings, which knows the right message itself.
        return cause
    path = [part for part in problem["loc"] if isinstance(part, str)]
    owner, names = settings, []
    for part in path:
        names.append(part)
        section = owner.model_fields[part].annotation if part in owner.model_fields else None
        if not (isinstance(section, type) and issubclass(section, Settings)):
            break
        owner = section
    name, place = ".".join(names), f" of {where}" if where else ""
    if problem["type"] == "extra_forbidden":
        return explain_unknown(owner, names[-1], where, name=name)
    if problem["type"] == "missing":
        return Errors.E407.format(name=name, where=place)
    field = owner.model_fields.get(names[-1]) if names else None
    if problem["type"] in ("value_error", "assertion_error") or field is None:
        allowed = str(problem["msg"]).split(", ", 1)[-1]
        if allowed.startswith("[E"):
            return allowed
    else:
        allowed = describe_values(field.annotation, field.metadata)
    return Errors.E404.format(name=name, where=place, value=problem["input"], allowed=allowed)


def explain_unknown(settings: type[Settings], key: str, where: str = "", *, name: str = "") -> str:
    """Say that there is no such setting, and which one was probably meant.

    settings (type[Settings]): The class.
    key (str): The unknown setting.
    where (str): What the settings are of.
    name (str): The setting's name with its section, if it is in one.
    RETURNS (str): A message of the catalogue.
    """
    known = sorted(settings.model_fields)
    close = settings.renamed.get(key) or next(iter(difflib.get_close_matches(key, known, 1)), None)
    hint = f" Did you mean {close}?" if close else ""
    place = f" of {where}" if where else ""
    return Errors.E406.format(name=name or key, where=place, hint=hint, known=", ".join(known))


def with_settings(settings: type[Settings], *, optional: bool = False) -> Callable[[AnyFunction], AnyFunction]:
    """Give a function that takes `**settings` a signature that names each of them, because spaCy checks configs by it.

    settings (type[Settings]): The settings' class.
    optional (bool): None stands for a value that is decided elsewhere, so every default is None. Such values are
        checked by type when the config is read; otherwise the class checks them.
    RETURNS (Callable[[Callable], Callable]): A decorator, which returns the function itself.
    """
    # Defaults as plain data, because spaCy writes them to the config.
    defaults = {} if optional else settings.model_construct().to_dict()
    listed = []
    for name, field in settings.model_fields.items():
        kind: Any = field.annotation
        default = None if optional else defaults.get(name, inspect.Parameter.empty)
        annotation = kind | None if optional else Any
        listed.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    def decorate(function: AnyFunction) -> AnyFunction:
        # Of the function itself: what it wraps may take the settings as one object.
        signature = inspect.signature(function, follow_wrapped=False)
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        own = [item for item in signature.parameters.values() if item.kind not in variable]
        function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
        return function

    return decorate


def _describe_bounds(metadata: Collection[Any]) -> str:
    bounds: dict[str, Callable[[Any], str]] = {
        "ge": lambda bound: f"{bound} or more",
        "gt": lambda bound: f"more than {bound}",
        "le": lambda bound: f"at most {bound}",
        "lt": lambda bound: f"less than {bound}",
        "min_length": lambda bound: "not empty",
    }
    given = {key: getattr(item, key) for item in metadata for key in bounds if getattr(item, key, None) is not None}
    if "ge" in given and given["ge"] == given.get("le"):
        return f", only {given['ge']}"
    found = [bounds[key](bound) for key, bound in given.items()]
    return ", " + " and ".join(found) if found else ""
