"""Settings of a component as its attributes: `linker.k = 10`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from spacy.vocab import Vocab

from .settings import Settings, explain_unknown

AnySettings = TypeVar("AnySettings", bound=Settings)
# What components have beside settings, apart from the attributes of their classes.
OF_COMPONENTS = ("name", "scorer", "error_handler")


class SettingsAttributes(Generic[AnySettings]):
    """Show a component's settings as attributes. They are replaced as a whole when one is set."""

    # The class of the settings, and what the component is called in messages.
    settings_class: ClassVar[type[Settings]]
    kind: ClassVar[str]
    vocab: Vocab
    model: Any
    name: str
    cfg: dict[str, Any]
    scorer: Callable[..., Any] | None
    _settings: AnySettings

    def _set_up(
        self, vocab: Vocab, model: Any, name: str, scorer: Callable[..., Any] | None, settings: Mapping[str, Any]
    ) -> None:
        """Set what every component with a model has. Constructors call this first."""
        self._set_settings(name, scorer, settings)
        self.vocab = vocab
        self.model = model
        self.cfg = {}

    def _set_settings(self, name: str, scorer: Callable[..., Any] | None, settings: Mapping[str, Any]) -> None:
        """Set what every component has. Constructors of components without a model call this first."""
        self._settings = cast(AnySettings, self.settings_class.read(settings, f"the {self.kind} '{name}'"))
        self.name = name
        self.scorer = scorer

    def __getattr__(self, name: str) -> Any:
        # Python asks here for what is no ordinary attribute. `_settings` is missing while a copy is being made.
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
        """Return all settings. They are replaced as a whole when one is set: `linker.k = 10`.

        RETURNS (Settings): The settings.
        """
        return self._settings

    @property
    def cache_size(self) -> int:
        """Return how many mentions are remembered at most, which cannot be changed.

        RETURNS (int): The size of the cache.
        """
        size: int = getattr(self._settings, "cache_size")  # noqa: B009
        return size
