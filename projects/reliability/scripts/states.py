"""The linker as a state machine: random edits, searches, saves and copies, each compared with the naive linker."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from inputs import LANGUAGES, SOURCES, TYPES, WORDS, make_encoder, make_linker, make_terminology
from naive import NaiveEncoder, NaiveLinker, copy_concepts, find_difference
from spacy.tokens import Span

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
odd_names = st.sampled_from(["", " ", "Cold", "COLD ", "\u05d7\u05d5\u05dd", "\u00e9tat", "b12", "cold " * 30])
texts = st.lists(st.one_of(names, odd_names), min_size=1, max_size=6)
pairs = st.lists(
    st.tuples(st.sampled_from([*(f"{p}{n:03d}" for p in "AB" for n in range(14)), "NEW1", "NEW2"]), names | odd_names),
    min_size=1,
    max_size=5,
)
numbers = st.integers(0, 10_000)


class World:
    """What all examples share: encoders and terminologies, made once. And what was done, in counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.encoders = [make_encoder(folder / f"encoder-{seed}", seed) for seed in (1, 2)]
        self.naive_encoders = [NaiveEncoder(encoder) for encoder in self.encoders]
        self.terminologies = [make_terminology(prefix, 12, 0) for prefix in "AB"]
        self.done: Counter[str] = Counter()


class LinkerMachine(RuleBasedStateMachine):
    """A linker and the naive linker, which must agree after every step."""

    world: World

    @initialize(index=st.sampled_from(["spacy-sapbert.ExactIndex.v1", None]), cache_size=st.sampled_from([0, 3, 1000]))
    def start(self, index: str | None, cache_size: int) -> None:
        """Make a linker, with the default index or another one."""
        self.config: dict[str, Any] = {"cache_size": cache_size, **({"index": {"@misc": index}} if index else {})}
        self.nlp, self.linker = make_linker(**self.config)
        self.terminology = self.encoder = 0
        self.linker.initialize(terminology=self.world.terminologies[0], encoder=str(self.world.encoders[0]))
        self.naive = NaiveLinker(self.world.naive_encoders[0], copy_concepts(self.world.terminologies[0]))
        self.folder = Path(tempfile.mkdtemp(dir=self.world.folder))
        self.world.done["examples"] += 1

    def _note(self, what: str) -> None:
        self.world.done[what] += 1

    @rule(pairs=pairs, language=st.sampled_from(LANGUAGES), source=st.sampled_from(SOURCES))
    def add_names(self, pairs: list[tuple[str, str]], language: str, source: str) -> None:
        """Add names to known and new concepts."""
        before = self._count_names()
        added = self.linker.add_names(pairs, language=language, source=source)
        self.naive.add(pairs, language, source)
        assert added == self._count_names() - before, f"{added} names reported"
        self._note("edits")

    @rule(number=numbers, size=st.integers(1, 4))
    def remove_concepts(self, number: int, size: int) -> None:
        """Remove some concepts, or be refused if none that can be found would be left."""
        ids = sorted(self.naive.concepts)
        start = number % len(ids)
        removed = ids[start : start + size]
        if not self.naive.is_findable(set(ids) - set(removed)):
            self._refuse(ValueError, lambda: self.linker.remove_concepts(removed))
            return
        before = self._count_names()
        n_removed = self.linker.remove_concepts(removed)
        self.naive.remove(removed)
        assert n_removed == before - self._count_names(), f"{n_removed} names reported"
        self._note("edits")

    @rule()
    def remove_unknown(self) -> None:
        """Be refused to remove a concept that is not there, together with one that is."""
        known = min(self.naive.concepts)
        self._refuse(KeyError, lambda: self.linker.remove_concepts([known, "UNKNOWN"]))

    @rule(data=st.data(), texts=texts, k=st.integers(1, 15))
    def find(self, data: st.DataObject, texts: list[str], k: int) -> None:
        """Find strings under filters for what the terminology has."""
        settings = self._draw_filters(data)
        self.linker.output_source = settings.get("output_source")
        try:
            given = {key: value for key, value in settings.items() if key != "output_source"}
            found = self.linker.find(texts, k=k, **given)
        finally:
            self.linker.output_source = None
        for text, candidates in zip(texts, found, strict=True):
            difference = find_difference(candidates, self.naive.find(text, settings), k)
            assert not difference, f"{text!r} under {settings}: {difference}"
        self._note("searches")

    @rule(text=names, types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    def link(self, text: str, types: list[str]) -> None:
        """Link an entity whose label stands for semantic types."""
        known = {kind for concept in self.naive.concepts.values() for kind in concept.types}
        allowed = {"label_types": [kind for kind in types if kind in known]}
        if not allowed["label_types"]:
            return
        doc = self.nlp.make_doc(text)
        doc.set_ents([Span(doc, 0, len(doc), label="X")])
        self.linker.label_types = {"X": allowed["label_types"]}
        try:
            doc = self.linker(doc)
        finally:
            self.linker.label_types = {}
        expected = self.naive.find(text, allowed)
        difference = find_difference(doc.ents[0]._.kb_candidates, expected, self.linker.k)
        assert not difference, f"entity {text!r} with {allowed}: {difference}"
        self._note("searches")

    @rule(again=st.booleans())
    def save_and_load(self, again: bool) -> None:
        """Save to a folder, perhaps over an earlier save, and go on with what another linker loads."""
        folder = self.folder / ("again" if again else f"save-{self.world.done['saves and loads']}")
        self.linker.to_disk(folder)
        self.nlp, self.linker = make_linker(**self.config)
        self.linker.from_disk(folder)
        self._note("saves and loads")

    @rule(into_old=st.booleans())
    def pack_and_unpack(self, into_old: bool) -> None:
        """Save to bytes, and go on with a new linker or with one that had other concepts."""
        data = self.linker.to_bytes()
        self.nlp, self.linker = make_linker(**self.config)
        if into_old:
            other = self.world.terminologies[1 - self.terminology]
            self.linker.initialize(terminology=other, encoder=str(self.world.encoders[1 - self.encoder]))
        self.linker.from_bytes(data)
        self._note("saves and loads")

    @rule()
    def copy(self) -> None:
        """Copy the linker, edit one of the two, and go on with the other."""
        twin = copy.deepcopy(self.linker)
        twin.add_names([("NEW9", "edited copy")])
        twin.find(["edited copy"])
        self._note("copies")

    @rule(terminology=st.booleans(), encoder=st.booleans())
    def initialize_again(self, terminology: bool, encoder: bool) -> None:
        """Initialize with another terminology, another encoder, both or none."""
        given: dict[str, Any] = {}
        if terminology:
            self.terminology = 1 - self.terminology
            given["terminology"] = self.world.terminologies[self.terminology]
            self.naive = NaiveLinker(self.naive.encoder, copy_concepts(given["terminology"]))
        if encoder:
            self.encoder = 1 - self.encoder
            given["encoder"] = str(self.world.encoders[self.encoder])
            self.naive = NaiveLinker(self.world.naive_encoders[self.encoder], self.naive.concepts)
        self.linker.initialize(**given)
        self._note("initializations")

    @precondition(lambda self: self.world.done["examples"] > 0)
    @rule()
    def initialize_and_fail(self) -> None:
        """Fail to initialize after another encoder has been given."""

        def read() -> None:
            raise OSError("a damaged source")

        other = str(self.world.encoders[1 - self.encoder])
        self._refuse(OSError, lambda: self.linker.initialize(terminology=read, encoder=other))

    @invariant()
    def has_the_same_concepts(self) -> None:
        """Compare concepts and counts of names."""
        if not hasattr(self, "linker"):
            return
        ids = self.linker.terminology.concepts["id"].to_list()
        assert ids == sorted(self.naive.concepts), f"concepts {set(ids) ^ set(self.naive.concepts)}"
        expected = sum(len(concept.names) for concept in self.naive.concepts.values())
        assert self._count_names() == expected, f"{self._count_names()} names, not {expected}"
        difference = find_difference(self.linker.find(["cold"])[0], self.naive.find("cold", {}), self.linker.k)
        assert not difference, f"'cold': {difference}"
        self._note("steps")

    def _count_names(self) -> int:
        return self.linker.terminology.n_names

    def _refuse(self, kind: type[Exception], call: Any) -> None:
        try:
            call()
        except kind:
            self._note("refusals")
        else:
            raise AssertionError(f"no {kind.__name__}")

    def _draw_filters(self, data: st.DataObject) -> dict[str, Any]:
        concepts = self.naive.concepts.values()
        known: dict[str, set[str]] = {
            "types": {kind for concept in concepts for kind in concept.types},
            "languages": {language for concept in concepts for _, language in concept.names},
            "sources": {source for concept in concepts for of in concept.names.values() for source in of},
            "ids": set(self.naive.concepts),
        }
        drawn: dict[str, Any] = {}
        for key, values in known.items():
            if values and data.draw(st.integers(0, 3), label=f"{key}?") == 0:
                drawn[key] = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3), label=key)
        coded = {code.split(":")[0] for concept in concepts for code in concept.codes}
        if coded and data.draw(st.integers(0, 4), label="output?") == 0:
            drawn["output_source"] = data.draw(st.sampled_from(sorted(coded)), label="output")
        return drawn


class ThreadedMachine(LinkerMachine):
    """The same steps, and edits by two threads at once."""

    @rule(first=pairs, second=pairs)
    def add_in_two_threads(self, first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
        """Add names in two threads at once."""
        barrier = threading.Barrier(2)
        errors: list[BaseException] = []

        def add(pairs: list[tuple[str, str]]) -> None:
            barrier.wait()
            try:
                self.linker.add_names(pairs)
            except BaseException as error:  # raised in the main thread below
                errors.append(error)

        threads = [threading.Thread(target=add, args=(pairs,)) for pairs in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        for pairs in (first, second):
            self.naive.add(pairs, "ENG", "")
        self._note("edits in two threads")
