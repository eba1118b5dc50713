"""Every command of the papers' tables runs: with open data, and with stand-ins for what is licensed or too big."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paper_stand_ins import (
    N_CONCEPTS,
    copy_checkout,
    write_cometa,
    write_corpora,
    write_metathesaurus,
    write_ontologies,
    write_vectors,
)

from spacy_sapbert.terminology import Terminology
from training.evaluation.report.papers import read_papers

pytestmark = pytest.mark.slow

ITEMS = read_papers()
HERE = list(dict.fromkeys(command for item in ITEMS for command in item.commands))
WITH_DATA = list(dict.fromkeys(command for item in ITEMS for command in item.commands_with_data))
DATA = "projects/training_data"
# What docs/reproduce.md does before all others, and those that others need.
FIRST_HERE = [
    "python -m spacy project run release",
    "python -m spacy project run english",
    "python -m spacy project run relations",
]
FIRST_WITH_DATA = [
    f"python -m spacy project run all {DATA} --vars.rrf META",
    f"python -m spacy project run relations {DATA} --vars.rrf META",
    f"python -m spacy project run all_languages {DATA} --vars.rrf META --vars.languages all "
    "--vars.output output/all_languages",
    "python -m spacy project run pretrain projects/sapbert --vars.config sapbert",
    "python -m spacy project run all projects/coder --vars.config coder",
]
LICENSED = "UMLS_2017AA"


class World:
    """A copy of the checkout with data.

    folder (Path): The copy.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: set[str] = set()

    def run(self, command: str) -> None:
        """Run a command in the copy, unless it has run."""
        if command in self._done:
            return
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HF_HUB_OFFLINE": "1",
        }
        ran = subprocess.run(shlex.split(command), cwd=self.folder, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-4000:])
        self._done.add(command)

    def read_names(self) -> Terminology:
        return Terminology.from_disk(self.folder / DATA / "output" / "english" / "terminology")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Open data: ontologies and corpora."""
    world = World(copy_checkout(tmp_path_factory.mktemp("here")))
    write_ontologies(world.folder / "projects" / "open_terminology" / "assets")
    for command in FIRST_HERE:
        world.run(command)
    ids = world.read_names().concepts["id"].to_list()
    write_corpora(world.folder / "projects" / "benchmarks" / "output" / "corpora", ids)
    return world


@pytest.fixture(scope="module")
def with_data(tmp_path_factory):
    """Stand-ins for UMLS, the encoders, vectors and corpora that cannot be fetched."""
    world = World(copy_checkout(tmp_path_factory.mktemp("with_data")))
    write_metathesaurus(world.folder / DATA / "META")
    for command in FIRST_WITH_DATA:
        world.run(command)
    ids = world.read_names().concepts["id"].to_list()
    assert len(ids) == N_CONCEPTS
    benchmarks = world.folder / "projects" / "benchmarks"
    write_corpora(benchmarks / "output" / "corpora", ids)
    (benchmarks / LICENSED).symlink_to(world.folder / DATA / "output" / "english" / "terminology")
    write_cometa(world.folder / "COMETA" / "splits" / "stratified_general")
    write_vectors(world.folder, ids)
    return world


@pytest.mark.parametrize("command", HERE)
def test_commands_run_with_open_data(here, command):
    here.run(command)


@pytest.mark.parametrize("command", WITH_DATA)
def test_commands_run_with_stand_ins(with_data, command):
    with_data.run(command)
