"""Settings: type, default, bounds and meaning of each are stated once, and all that shows or checks them is made from
it."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import reprlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast, get_type_hints
from weakref import ref

from confection import Config, ConfigValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import Self

from .errors import warn

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
# Bounds of a field, as tables show them.
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥"}


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Make a tuple of any collection but a string or a map, for fields that hold lists."""
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
        raise ValueError("a list")
    # The order of a set differs from process to process.
    return tuple(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)


if TYPE_CHECKING:
    # Any collection may be given, such as a list or a set. Settings store tuples.
    Strings = Collection[str]
else:
    # A string is a collection of strings too, each a letter: it is refused.
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


class ExplainedSignature(inspect.Signature):
    """A signature that explains what a config has beside it. confection refuses that before it calls a function, with
    all other settings printed; all it does with the function before is to ask for its signature's parameters."""

    # Arguments of the component's `initialize`.
    later: Collection[str] = ()

    @property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        """The parameters; ConfigValidationError if confection asks for them, and the section has others."""
        parameters = super().parameters
        caller = sys._getframe(1).f_back
        section = caller.f_locals.get("promise_dict") if caller is not None else None
        if caller is not None and isinstance(section, dict):
            unknown = [key for key in section if key not in parameters and not key.startswith(("@", "*"))]
            where = caller.f_locals.get("parent", "")
            errors = [{"loc": [where, key], "msg": self._explain(key, section.get("name", where))} for key in unknown]
            if errors:
                raise ConfigValidationError(title="Unknown settings", errors=errors)
        return parameters

    def _explain(self, key: str, component: str) -> str:
        if key in self.later:
            return (
                f"This is not a setting, but given to `initialize`: nlp.get_pipe({component!r}).initialize({key}=...), "
                f"or [initialize.components.{component}] in a config."
            )
        known = [name for name in super().parameters if name not in ("nlp", "name")]
        if close := difflib.get_close_matches(key, [*known, *self.later], 1):
            return f"There is no such setting. Did you mean {close[0]}?"
        return f"There is no such setting. There are: {', '.join(known)}"


def explained(later: Collection[str] = ()) -> Callable[[AnyFunction], AnyFunction]:
    """Let a registered function explain what a config has beside its parameters. `later`: what goes to `initialize`."""

    def decorate(function: AnyFunction) -> AnyFunction:
        plain = inspect.signature(function)
        signature = ExplainedSignature([*plain.parameters.values()], return_annotation=plain.return_annotation)
        signature.later = later
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def with_settings(
    settings: type[Settings], *, optional: bool = False, later: Collection[str] = ()
) -> Callable[[AnyFunction], AnyFunction]:
    """Give a function that takes `**settings` a signature that names each of them: spaCy takes defaults from it, and
    refuses what a config has beside them. Optional settings, with None as default, are decided elsewhere. They are
    checked by type when the config is read. `later` is as for `explained`."""
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
        return explained(later)(function)

    return decorate


AnySettings = TypeVar("AnySettings", bound=Settings)


def is_kept_in_configs(value: Any) -> bool:
    """Return whether a config that is written and read has the same value. There, "$" stands before a variable, "@"
    before a function, and the keys of a section hold no ":"."""
    if isinstance(value, dict) and any(key.startswith("@") for key in value):
        return False
    config = Config({"section": {"setting": value}})
    try:
        text = config.to_str()
        return Config().from_str(text, interpolate=False).interpolate() == config
    except ValueError:
        return False


class Pipelines:
    """The pipelines that have a component, held weakly. A copy knows their copies."""

    def __init__(self, pipelines: Iterable[Any] = ()) -> None:
        self._refs = [*map(ref, pipelines)]

    def __iter__(self) -> Iterator[Any]:
        return (nlp for weak in self._refs if (nlp := weak()) is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipelines, ([*self],)


class SettingsAttributes(Generic[AnySettings]):
    """Give a component a property for each of its settings: `linker.k = 10`. They are replaced as a whole when one
    is set, and the configs of its pipelines, which are what spaCy saves and copies, get the new value.

    Type checkers and editors see annotations only: components repeat those of their settings, and a test compares them.
    """

    settings_class: ClassVar[type[Settings]]
    # What the component is called in messages.
    kind: ClassVar[str]
    _settings: AnySettings
    _pipelines = Pipelines()
    name: str

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for name, field in cls.settings_class.model_fields.items():
            if not hasattr(cls, name):
                setattr(cls, name, _make_property(name, field))

    def _set_up(self, name: str, settings: Mapping[str, Any]) -> None:
        """Set the name and the settings. Constructors call this first."""
        self._settings = cast(AnySettings, self.settings_class.read(settings, f"the {self.kind} '{name}'"))
        self.name = name

    def __setattr__(self, name: str, value: Any) -> None:
        # All others are attributes of the class, too, but for the handler, which spaCy only sets.
        if not (name.startswith("_") or name == "error_handler" or hasattr(type(self), name)):
            raise AttributeError(explain_unknown(self.settings_class, name, f"the {self.kind} '{self.name}'"))
        super().__setattr__(name, value)
        if name == "name":
            self._meet_pipeline(sys._getframe(1).f_locals.get("self"))

    def _meet_pipeline(self, caller: Any) -> None:
        """Know the pipeline that has named this component. spaCy names all whenever it changes a pipeline, those that
        come from another one too, and tells them of it in no other way."""
        if hasattr(caller, "_pipe_configs") and all(nlp is not caller for nlp in self._pipelines):
            self._pipelines = Pipelines([*self._pipelines, caller])

    def _write_to_configs(self, setting: str) -> None:
        value = self._settings.model_dump(mode="json", include={setting})[setting]
        parts = [(nlp, name) for nlp in self._pipelines for name, part in nlp.components if part is self]
        configs = [nlp._pipe_configs[name] for nlp, name in parts]
        # The factory of another package may not have the setting.
        configs = [config for config in configs if setting in config]
        if configs and not is_kept_in_configs(value):
            warn(
                f"{setting} of the {self.kind} '{self.name}' is set, but saving the pipeline will lose it: a config of "
                f"spaCy can't hold {value!r:.100}. Use other signs, or set it again on the loaded pipeline."
            )
            return
        for config in configs:
            config[setting] = value

    def __repr__(self) -> str:
        default = self.settings_class()
        changed = [f"{key}={reprlib.repr(value)}" for key, value in self._settings if value != getattr(default, key)]
        return f"{type(self).__name__}({', '.join([repr(self.name), *self._describe(), *changed])})"

    def _describe(self) -> list[str]:
        """List what `repr` tells beside settings that are not the default."""
        return []

    def _take_settings(self, settings: AnySettings) -> None:
        """Replace the settings, after one was set."""
        self._settings = settings

    @property
    def settings(self) -> AnySettings:
        """All settings. They are replaced as a whole when one is set."""
        return self._settings


def _make_property(name: str, field: FieldInfo) -> property:
    """Make the attribute of a component that shows one of its settings."""

    def change(component: SettingsAttributes[Any], value: Any) -> None:
        where = f"the {component.kind} '{component.name}'"
        if field.frozen:
            raise AttributeError(f"spacy-sapbert: {name} of {where} can't be changed any more. Set it in the config.")
        component._take_settings(component._settings.changed(where, **{name: value}))
        component._write_to_configs(name)

    return property(attrgetter(f"_settings.{name}"), change, doc=field.description)
