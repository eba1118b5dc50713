"""Settings: type, default, bounds and meaning of each are stated once, and all that shows or checks them is made from
it."""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator
from pydantic_core import PydanticUndefined
from typing_extensions import Self

if TYPE_CHECKING:
    from spacy.vocab import Vocab

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
# Bounds of a field, as tables show them.
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥"}
# What components have beside settings, apart from the attributes of their classes.
OF_COMPONENTS = ("name", "scorer", "vocab", "model", "cfg", "error_handler")


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Make a tuple of any collection but a string or a map, for fields that hold lists."""
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
        raise ValueError("a list")
    return tuple(value)


# Lists, sets and spaCy's frozen lists alike. A string is a collection of strings too, each a letter: it is refused.
Strings = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


# "raise" stops at the first malformed record, "skip" counts it in the report and goes on.
OnMalformed = Literal["raise", "skip"]
Suppressed = Literal["keep", "drop"]
Tradenames = Literal["union", "last", "off"]
TradenameDirection = Literal["both", "generic", "brand"]


class Settings(BaseModel):
    """Base of all classes of settings: fields with a default, bounds and a `description`, their help text.

    Values are never converted silently: "5" is not a number, and true is not 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _accept_numpy(cls, value: Any) -> Any:
        # NumPy's numbers are not Python's, and come from every computation of a threshold.
        return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Make settings of plain data, or raise a ValueError that says which are wrong. `where` names what they are of,
        such as "[batch]"."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError(explain(cls, error, where)) from error

    def changed(self, where: str = "", /, **values: Any) -> Self:
        """Make settings that differ in some values. `where` is as for `read`."""
        return self.read({**dict(self), **values}, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data."""
        return self.model_dump(mode="json")


class SettingRow(NamedTuple):
    """One setting, as tables and command lines show it. The default is empty if the setting has to be given."""

    name: str
    allowed: str
    default: str
    meaning: str


def list_settings(settings: type[Settings]) -> list[SettingRow]:
    """List the settings of a class in the order of its definition; those of sections as "section.name"."""
    # Without what pydantic is told in `Annotated`.
    rows, hints = [], get_type_hints(settings)
    for name, field in settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Settings):
            rows += [row._replace(name=f"{name}.{row.name}") for row in list_settings(section)]
            continue
        bounds = [(sign, getattr(item, key, None)) for item in field.metadata for key, sign in BOUNDS.items()]
        given = [f"{sign} {bound}" for sign, bound in bounds if bound is not None]
        default = field.get_default(call_default_factory=True)
        text = "" if default is PydanticUndefined else json.dumps(default, ensure_ascii=False)
        # A class that only changes a default leaves the help text to the class that it extends.
        owners = [owner for owner in settings.__mro__ if issubclass(owner, Settings) and name in owner.model_fields]
        meaning = next(filter(None, (owner.model_fields[name].description for owner in owners)), "")
        kind = re.sub(r"Optional\[(.*)\]$", r"\1 | None", inspect.formatannotation(hints[name]))
        rows.append(SettingRow(name, ", ".join([kind, *given]), text, meaning))
    return rows


def explain(settings: type[Settings], error: ValidationError, where: str = "") -> str:
    """Say on one line what is wrong with which values."""
    problems = [dict(problem) for problem in error.errors()]
    found = "; ".join(_explain_problem(settings, problem, where) for problem in problems)
    return found if _is_check(problems[0]) else f"spacy-sapbert: {found}"


def _is_check(problem: dict[str, Any]) -> bool:
    # Of several settings. Such a check knows the right message itself.
    return problem["type"] == "value_error" and isinstance(problem["input"], Mapping)


def _explain_problem(settings: type[Settings], problem: dict[str, Any], where: str) -> str:
    if _is_check(problem):
        return str(problem["ctx"]["error"])
    # Without the functions and types that pydantic puts into the path.
    *sections, name = [str(part) for part in problem["loc"] if "[" not in str(part)]
    title = ".".join([*sections, name]) + (f" of {where}" if where else "")
    if problem["type"] == "extra_forbidden":
        for section in sections:
            settings = cast(type[Settings], settings.model_fields[section].annotation)
        known = sorted(settings.model_fields)
        hint = "".join(f" Did you mean {close}?" for close in difflib.get_close_matches(name, known, 1))
        return f"{title}: There is no such setting.{hint} There are: {', '.join(known)}"
    if problem["type"] == "missing":
        return f"{title}: It has to be given"
    message = str(problem["msg"]).replace(" after validation", "")
    if problem["type"] == "value_error":
        message = f"Input should be {problem['ctx']['error']}"
    shown = "" if ", not " in message else f", not {problem['input']!r:.200}"
    return f"{title}: {message}{shown}"


def explain_unknown(settings: type[Settings], key: str, where: str) -> str:
    """Say that there is no such setting, and which one was probably meant."""
    return f"spacy-sapbert: {_explain_problem(settings, {'loc': [key], 'type': 'extra_forbidden'}, where)}"


def with_settings(settings: type[Settings], *, optional: bool = False) -> Callable[[AnyFunction], AnyFunction]:
    """Give a function that takes `**settings` a signature that names each of them, because spaCy checks configs by it.
    Optional settings, with None as default, are decided elsewhere. They are checked by type when the config is read."""
    # Defaults as plain data, because spaCy writes them to the config.
    defaults = {} if optional else settings.model_construct().to_dict()
    listed = []
    for name, field in settings.model_fields.items():
        default = None if optional else defaults.get(name, inspect.Parameter.empty)
        annotation = cast(Any, field.annotation) | None if optional else Any
        listed.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    def decorate(function: AnyFunction) -> AnyFunction:
        # Of the function itself: what it wraps may take the settings as one object.
        signature = inspect.signature(function, follow_wrapped=False)
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        own = [item for item in signature.parameters.values() if item.kind not in variable]
        function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
        return function

    return decorate


AnySettings = TypeVar("AnySettings", bound=Settings)


class SettingsAttributes(Generic[AnySettings]):
    """Show a component's settings as attributes: `linker.k = 10`. They are replaced as a whole when one is set."""

    settings_class: ClassVar[type[Settings]]
    # What the component is called in messages.
    kind: ClassVar[str]
    _settings: AnySettings

    def _set_up(
        self, vocab: Vocab, model: Any, name: str, scorer: Callable[..., Any] | None, settings: Mapping[str, Any]
    ) -> None:
        """Set what every component has. Constructors call this first."""
        self._settings = cast(AnySettings, self.settings_class.read(settings, f"the {self.kind} '{name}'"))
        self.vocab, self.model, self.name, self.scorer = vocab, model, name, scorer
        self.cfg: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        # Python asks here for what is not an ordinary attribute. `_settings` is missing while a copy is being made.
        if name in self.settings_class.model_fields and "_settings" in self.__dict__:
            return getattr(self._settings, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in OF_COMPONENTS or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name in self.settings_class.model_fields:
            self._settings = self._settings.changed(f"the {self.kind} '{self.name}'", **{name: value})
        else:
            raise AttributeError(explain_unknown(self.settings_class, name, f"the {self.kind} '{self.name}'"))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.settings_class.model_fields]

    @property
    def settings(self) -> AnySettings:
        """All settings. They are replaced as a whole when one is set."""
        return self._settings

    @property
    def cache_size(self) -> int:
        """How many mentions are remembered at most, which cannot be changed."""
        return cast(int, self._settings.cache_size)  # type: ignore[attr-defined]
