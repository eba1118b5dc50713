"""Which linker a component works with. spaCy does not copy a component that is sourced from another pipeline: both have
the same one, beside different linkers. It tells a component of those behind it, but not of the pipeline, which only
those know that were made in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, ClassVar
from weakref import ref

from spacy.language import Language
from spacy.tokens import Doc

TakeOver = Callable[[], None]


class Met:
    """Components in order, each with a pipeline that is known to have it. All are held weakly: a pipeline that was only
    a source is not kept. A copy of one knows the copies of the others."""

    def __init__(self, pairs: Iterable[tuple[Part, Language | None]] = ()) -> None:
        self._refs = [(ref(part), None if nlp is None else ref(nlp)) for part, nlp in pairs]

    def __iter__(self) -> Iterator[tuple[Part, Language | None]]:
        for weak, pipeline in self._refs:
            if (part := weak()) is not None:
                yield part, None if pipeline is None else pipeline()

    def __reduce__(self) -> tuple[Any, ...]:
        return Met, ([*self],)


class Part:
    """A component that works with others of its pipeline. Its factory calls `belong_to`."""

    kind: ClassVar[str] = "component"
    name: str
    # The component itself, and those that it met.
    _met = Met()
    # What spaCy asks of components that it tells of others, and does not use here.
    listeners: Sequence[Any] = ()
    listening_components: Sequence[str] = ()
    listener_map: Any = None

    def add_listener(self, listener: Any, component_name: str) -> None:
        """Do nothing: no model listens to this component."""

    remove_listener = add_listener

    def belong_to(self, nlp: Language) -> None:
        """Know the pipeline that this component is made in."""
        self._met = Met([(self, nlp)])

    def check_filters(self, filters: Any) -> None:
        """Raise a ValueError if its settings name what a terminology, given as its `FilterTable`, lacks."""

    def find_listeners(self, component: Any) -> None:
        """Meet a component behind this one. spaCy calls this for each, whenever it names those of a pipeline."""
        if isinstance(component, Part):
            known = [*find_pipelines(self), *find_pipelines(component)]
            nlp = next((nlp for nlp in known if _has(nlp, self) and _has(nlp, component)), None)
            self._meet(component, nlp)
            component._meet(self, nlp, is_in_front=True)

    def _meet(self, other: Part, nlp: Language | None, is_in_front: bool = False) -> None:
        pairs = [pair for pair in [*self._met] or [(self, None)] if pair[0] is not other]
        place = next(place for place, (part, _) in enumerate(pairs) if part is self)
        pairs.insert(place if is_in_front else len(pairs), (other, nlp))
        self._met = Met(pairs)


class Decider(Part):
    """A component that writes ids and candidates, and has `decide`."""


class Linker(Decider):
    """A component that others name as theirs."""


class LinkerUser(Part):
    """A component with the name of its linker."""

    linker: str
    # Kept for those who keep this component alone.
    _linker: Part | None = None

    def _meet(self, other: Part, nlp: Language | None, is_in_front: bool = False) -> None:
        super()._meet(other, nlp, is_in_front)
        if isinstance(other, Linker) and other.name == self.linker:
            self._linker = other

    @property
    def depth(self) -> int:
        """Candidates that it asks its linker for, which searches as deep at once."""
        return 0

    def prepare(self, retriever: Any) -> TakeOver | None:
        """Make what it needs of a terminology before the first document asks for it, without changing itself. Return
        what lets it take that over, which can't fail."""
        return None


def _list_parts(nlp: Language) -> list[Any]:
    return [part for _, part in nlp.components]


def _has(nlp: Language, component: Part) -> bool:
    return any(part is component for part in _list_parts(nlp))


def find_pipelines(component: Part, docs: Sequence[Doc] = ()) -> list[Language]:
    """Find the known pipelines with a component: those that documents come from, or else all."""
    known = {id(nlp): nlp for _, nlp in component._met if nlp is not None}
    pipelines = [nlp for nlp in known.values() if _has(nlp, component)]
    return [nlp for nlp in pipelines if comes_from(docs, nlp)] or pipelines


def comes_from(docs: Sequence[Doc], nlp: Language) -> bool:
    """Return whether documents may come from a pipeline."""
    return bool(docs) and docs[0].vocab is nlp.vocab


def list_met(component: Part, docs: Sequence[Doc] = ()) -> list[Any]:
    """List, in order, a component and those that it met in no known pipeline, which documents may come from."""
    if any(comes_from(docs, nlp) for nlp in find_pipelines(component)):
        return []
    return [part for part, nlp in component._met if nlp is None or part is component]


def list_users(linker: Linker, docs: Sequence[Doc] = (), *, disabled: bool = False) -> list[LinkerUser]:
    """List the components that name a linker as theirs, in all its pipelines or in those that documents come from.
    `disabled` ones are only wanted for what is saved."""
    pairs = [(linker.name, part) for part in list_met(linker, docs)]
    for nlp in find_pipelines(linker, docs):
        name = nlp.component_names[_list_parts(nlp).index(linker)]
        pairs += [(name, part) for _, part in (nlp.components if disabled else nlp.pipeline)]
    return [part for name, part in pairs if isinstance(part, LinkerUser) and part.linker == name]


def list_rivals(component: Decider, docs: Sequence[Doc]) -> set[str]:
    """List the names of the components in front of one that write ids and candidates, too."""
    orders = [list_met(component, docs), *map(_list_parts, find_pipelines(component, docs))]
    in_front = [takewhile(lambda part: part is not component, order) for order in orders]
    return {part.name for parts in in_front for part in parts if isinstance(part, Decider)}


def stands_in_front(component: Part, other: Part) -> bool:
    """Return whether a component stands in front of another one in any pipeline."""
    orders = [list_met(component), *map(_list_parts, find_pipelines(component))]
    return any(component in order and other in order[order.index(component) :] for order in orders)


def list_linkers(user: LinkerUser, docs: Sequence[Doc] = ()) -> list[Any]:
    """List what a component's pipelines have under the name of its linker; None stands for nothing."""
    linkers = [part for part in list_met(user, docs) if isinstance(part, Linker) and part.name == user.linker]
    # Documents that come from no known pipeline come from another one.
    pipelines = [] if docs and linkers else find_pipelines(user, docs)
    named = [*linkers, *(dict(nlp.components).get(user.linker) for nlp in pipelines)]
    return [*{id(linker): linker for linker in named}.values()]


def find_linker(user: LinkerUser, docs: Sequence[Doc] = (), nlp: Language | None = None) -> Any:
    """Find the linker that a component works with, in a pipeline or in the one that documents come from; ValueError if
    there is none, or it could be one of several."""
    linkers = list_linkers(user, docs) if nlp is None else [dict(nlp.components).get(user.linker)]
    if len(linkers) > 1:
        _refuse(user, linkers)
    what = f"The {user.kind} '{user.name}'"
    if not linkers:
        raise ValueError(f"{what} has lost its pipeline, which has its linker. Keep the pipeline, too.")
    if not isinstance(linkers[0], Linker):
        names = ", ".join((nlp or find_pipelines(user, docs)[0]).component_names)
        raise ValueError(
            f"{what} finds no linker '{user.linker}' in its pipeline, which has {names}. Add that linker, or name "
            "another one in the setting `linker`."
        )
    return linkers[0]


def check_users(linker: Linker, docs: Sequence[Doc]) -> None:
    """Refuse documents from no known pipeline of a linker, if a component takes them for those of another linker."""
    if docs and not any(comes_from(docs, nlp) for nlp in find_pipelines(linker)):
        for user in list_users(linker):
            if (other := find_linker(user, docs)) is not linker:
                _refuse(user, [linker, other])


def _refuse(user: LinkerUser, linkers: list[Any]) -> None:
    sizes = sorted(len(linker.terminology) if getattr(linker, "is_ready", False) else 0 for linker in linkers)
    raise ValueError(
        f"The {user.kind} '{user.name}' is in {len(linkers)} pipelines, with different linkers called "
        f"'{user.linker}' (with {', '.join(f'{size} concepts' for size in sizes)}), and can't tell which one to use "
        f"here. Give each pipeline a {user.kind} of its own: save the pipeline and load it with `spacy.load`."
    )
