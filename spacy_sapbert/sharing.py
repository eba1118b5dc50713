"""Which pipeline a component works in. spaCy does not copy a component that is sourced from another pipeline: both have
the same one, beside different linkers. It is told of neither, and so finds the pipeline that documents come from."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any
from weakref import ref

from spacy.language import Language
from spacy.tokens import Doc

# The pipelines that have a linker, a matcher or a reranker, held weakly.
PIPELINES: set[ref[Language]] = set()


class Home:
    """The pipeline that a component was put into last; kept alive, unless the component has been in several. A copy of
    the component knows the copy of the pipeline."""

    def __init__(self, nlp: Language, is_shared: bool = False) -> None:
        self.find, self._kept = ref(nlp, PIPELINES.discard), None if is_shared else nlp
        PIPELINES.add(self.find)

    def __reduce__(self) -> tuple[Any, ...]:
        nlp = self.find()
        return (type(None), ()) if nlp is None else (Home, (nlp,))


class Shared:
    """A component that may be in several pipelines: spaCy does not copy what is sourced from another one."""

    # Of components that look for their linker in a pipeline.
    _home: Home | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # spaCy names a component whenever it puts it into a pipeline, and tells it nothing else.
        nlp = sys._getframe(1).f_locals.get("self") if name == "name" else None
        if isinstance(nlp, Language) and (self._home is None or self._home.find() is not nlp):
            home = Home(nlp, is_shared=True)
            if self._home is not None:
                self._home = home
        super().__setattr__(name, value)


def find_pipelines(component: Shared, docs: Sequence[Doc] = ()) -> list[Language]:
    """Find the pipelines that have a component: those that documents come from, or else all."""
    known = [nlp for pipeline in PIPELINES.copy() if (nlp := pipeline()) is not None]
    # A pipeline that another thread is unpickling has no components yet.
    having = [nlp for nlp in known if any(part is component for _, part in getattr(nlp, "components", ()))]
    if not having and component._home is not None and (home := component._home.find()) is not None:
        having = [home]
    return [nlp for nlp in having if docs and nlp.vocab is docs[0].vocab] or having


def list_users(linker: Any, docs: Sequence[Doc] = (), *, disabled: bool = False) -> list[Any]:
    """List the components that name a linker as theirs: matchers, rerankers and any others, in all its pipelines or in
    those that documents come from. `disabled` ones are only wanted for what is saved."""
    users: list[Any] = []
    for nlp in find_pipelines(linker, docs):
        name = next(name for name, part in nlp.components if part is linker)
        parts = nlp.components if disabled else nlp.pipeline
        users += [part for _, part in parts if getattr(part, "linker", None) == name]
    return users


def list_rivals(component: Shared, docs: Sequence[Doc]) -> set[str]:
    """List the names of the components in front of one that write ids and candidates, too."""
    rivals: set[str] = set()
    for nlp in find_pipelines(component, docs):
        parts: list[Any] = [part for _, part in nlp.components if hasattr(part, "set_kb_id")]
        if component in parts:
            rivals.update(part.name for part in parts[: parts.index(component)])
    return rivals


def find_pipeline(component: Any, docs: Sequence[Doc] = ()) -> Language:
    """Find the pipeline with the linker that a component works with; ValueError if it could be one of several."""
    # One for each linker.
    found = {id(dict(nlp.components).get(component.linker)): nlp for nlp in find_pipelines(component, docs)}
    if len(found) > 1:
        # A pipeline that was only a source may still be waiting for the garbage collector.
        found.clear()
        gc.collect()
        found = {id(dict(nlp.components).get(component.linker)): nlp for nlp in find_pipelines(component, docs)}
    if len(found) > 1:
        linkers: list[Any] = [dict(nlp.components).get(component.linker) for nlp in found.values()]
        sizes = sorted(len(linker.terminology) if getattr(linker, "is_ready", False) else 0 for linker in linkers)
        raise ValueError(
            f"The {component.kind} '{component.name}' is in {len(found)} pipelines, with different linkers called "
            f"'{component.linker}' (with {', '.join(f'{size} concepts' for size in sizes)}), and can't tell which "
            f"one to use here. Give each pipeline a {component.kind} of its own: save the pipeline and "
            "load it with `spacy.load`."
        )
    for nlp in found.values():
        return nlp
    what = f"The {component.kind} '{component.name}'"
    raise ValueError(f"{what} has lost its pipeline, which has its linker. Keep the pipeline, too.")
