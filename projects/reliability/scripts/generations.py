"""A linker that is initialized again and again, and answers that tell which encoder and terminology gave them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from inputs import make_encoder, make_linker, make_name, make_terminology
from naive import NaiveEncoder, NaiveLinker, copy_concepts, find_difference

N_ENCODERS = 2
N_TERMINOLOGIES = 3
N_CONCEPTS = 12
N_NAMES = 30
# The beginning of the ids that threads add.
EDIT = "EDIT"


class State(NamedTuple):
    """What a linker was initialized with.

    encoder (int): The number of the encoder.
    terminology (int): The number of the terminology.
    version (int): How often there has been a terminology to initialize with. Edits last as long as that is the same.
    """

    encoder: int
    terminology: int
    version: int


class Generations:
    """A linker, all that it was and is initialized with, and the right answers.

    folder (Path): For the encoders.
    seed (int): The seed.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        self.encoders = [make_encoder(folder / f"encoder-{number}", number + 1) for number in range(N_ENCODERS)]
        self.terminologies = [make_terminology(f"G{n}-", N_CONCEPTS, seed) for n in range(N_TERMINOLOGIES)]
        self.names = sorted({make_name(rng) for _ in range(N_NAMES)})
        # Not equal to any name: a cosine of 1 would be that of every encoder.
        self.probes = [f"{make_name(rng)} zz{number}" for number in range(N_NAMES)]
        naive_encoders = [NaiveEncoder(encoder) for encoder in self.encoders]
        for encoder in naive_encoders:
            encoder.encode([*self.names, *self.probes])
        self.naive = {
            (e, t): NaiveLinker(encoder, copy_concepts(terminology))
            for e, encoder in enumerate(naive_encoders)
            for t, terminology in enumerate(self.terminologies)
        }
        self.expected = {key: {p: linker.find(p, {}) for p in self.probes} for key, linker in self.naive.items()}
        self.nlp, self.linker = make_linker()
        self.linker.initialize(terminology=self.terminologies[0], encoder=str(self.encoders[0]))
        # An initialization is entered here before it begins; `ended` follows when it has ended.
        self.states = [State(0, 0, 0)]
        self.ended = 0

    def initialize(self, rng: random.Random) -> None:
        """Initialize with another encoder, another terminology or both.

        rng (Random): The source of chance.
        """
        last = self.states[-1]
        kind = rng.choice(("encoder", "terminology", "both"))
        encoder = (last.encoder + 1) % N_ENCODERS if kind != "terminology" else last.encoder
        terminology = (last.terminology + 1) % N_TERMINOLOGIES if kind != "encoder" else last.terminology
        given: dict[str, Any] = {}
        if kind != "terminology":
            given["encoder"] = str(self.encoders[encoder])
        if kind != "encoder":
            given["terminology"] = self.terminologies[terminology]
        self.states.append(State(encoder, terminology, last.version + (kind != "encoder")))
        self.linker.initialize(**given)
        self.ended = len(self.states) - 1

    def list_states(self, since: int) -> list[State]:
        """List the states in which the linker can have been.

        since (int): `ended`, before what happened.
        RETURNS (list[State]): From that one to the one that may have begun by now.
        """
        return self.states[since:]

    def find_difference(self, answers: Mapping[str, Sequence[Mapping[str, Any]]], since: int, k: int) -> str:
        """Check that the answers of one call are those of one state.

        answers (Mapping[str, Sequence]): The candidates of each probe.
        since (int): `ended`, before the call.
        k (int): Candidates wanted.
        RETURNS (str): What is wrong; empty if nothing is.
        """
        differences = []
        for state in self.list_states(since):
            difference = self._compare(answers, state, k)
            if not difference:
                return ""
            differences.append(f"{state}: {difference}")
        return "; ".join(dict.fromkeys(differences))

    def _compare(self, answers: Mapping[str, Sequence[Mapping[str, Any]]], state: State, k: int) -> str:
        encoder = self.naive[state.encoder, state.terminology].encoder
        for probe, candidates in answers.items():
            expected = dict(self.expected[state.encoder, state.terminology][probe])
            for candidate in candidates:
                # Names that threads have added may be there or not, but their cosines are known.
                if candidate["id"].startswith(EDIT):
                    first, second = encoder.encode([probe, candidate["name"]])
                    assert first is not None and second is not None
                    expected[candidate["id"]] = float(first @ second)
            if difference := find_difference(candidates, expected, k):
                return f"{probe!r}: {difference}"
        return ""
