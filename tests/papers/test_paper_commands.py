"""Every command of the papers' tables runs: with open data, and with stand-ins for what is licensed or too big."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paper_stand_ins import CUIS, FOLDS, ROOT, copy_checkout, write_corpora, write_licensed, write_ontologies
from thinc.api import Config

from spacy_sapbert.terminology import Terminology
from training.report.literature import read_literature, read_papers
from training.report.results import Results

pytestmark = pytest.mark.slow

ITEMS = read_papers()
HERE = list(dict.fromkeys(command for item in ITEMS for command in item.commands))
WITH_DATA = list(dict.fromkeys(command for item in ITEMS for command in item.commands_with_data))
DATA = "projects/training_data"
# What others need.
FIRST_HERE = [f"python -m spacy project run {command}" for command in ("release", "english", "relations")]
FIRST_WITH_DATA = [
    "python -m spacy project run pretrain projects/sapbert --vars.config sapbert",
    "python -m spacy project run all projects/coder --vars.data ../training_data/output/relations --vars.config coder",
]
CODER_SYSTEMS = "projects/coder/configs/coder_paper.cfg"
# Tables of systems by corpora, which two evaluations fill.
CELLS = {"sapbert": ["1", "2", "6"], "coder": ["1", "2", "5", "9"]}
# Systems that the papers only cite.
CITED = ["Supervised state of the art", "BTM", "GB (Google and Bing)"]


class World:
    """A copy of the checkout with data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: set[str] = set()

    def run(self, command: str, *, again: bool = False) -> None:
        """Run a command in the copy, unless it has run."""
        if command in self._done and not again:
            return
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PATH": path, "HF_HUB_OFFLINE": "1"}
        # `spacy project` is weasel, behind an import of spaCy that takes longer than many a command.
        words = shlex.split(command.replace("-m spacy project ", "-m weasel "))
        ran = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-4000:])
        self._done.add(command)

    def read_ids(self) -> list[str]:
        return Terminology.from_disk(self.folder / DATA / "output/english/terminology").concepts["id"].to_list()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Open data: ontologies and corpora."""
    world = World(copy_checkout(tmp_path_factory.mktemp("here")))
    write_ontologies(world.folder / "projects" / "open_terminology" / "assets")
    for command in FIRST_HERE:
        world.run(command)
    write_corpora(world.folder / "projects/benchmarks/output/corpora", world.read_ids())
    return world


def list_data_commands(folder):
    """List the commands of docs/reproduce.md that read releases."""
    block = (ROOT / "docs" / "reproduce.md").read_text().split("## Data")[1].split("```")[1]
    lines = block.removeprefix("bash").replace("\\\n", " ").splitlines()
    return [line.partition("  #")[0].replace("/data/", f"{folder}/") for line in lines if "/data/" in line]


@pytest.fixture(scope="module")
def with_data(tmp_path_factory):
    """Stand-ins for UMLS, the encoders, vectors and corpora that cannot be fetched."""
    world = World(copy_checkout(tmp_path_factory.mktemp("with_data")))
    paths = [system.get("vectors") for system in Config().from_disk(world.folder / CODER_SYSTEMS)["systems"].values()]
    write_licensed(world.folder, paths)
    reading = list_data_commands(world.folder)
    assert len(reading) == 6
    for command in [*reading, *FIRST_WITH_DATA]:
        world.run(command)
    assert world.read_ids() == CUIS
    write_corpora(world.folder / "projects/benchmarks/output/corpora", CUIS)
    return world


# Each copy of the checkout is worked on in one process.
@pytest.mark.xdist_group("here")
@pytest.mark.parametrize("command", HERE)
def test_commands_run_with_open_data(here, command):
    here.run(command)


@pytest.mark.xdist_group("with_data")
@pytest.mark.parametrize("command", WITH_DATA)
def test_commands_run_with_stand_ins(with_data, command):
    with_data.run(command)


def list_repeated():
    """List the commands of fine-tuning and BioSyn for other corpora than the matrix names, see docs/reproduce.md."""
    # Training mentions and dictionaries, below projects/benchmarks/output.
    files = {
        "ncbi_disease": ("corpora/ncbi_disease/train", "corpora/ncbi_disease/dictionary.tsv.gz"),
        "medmentions": ("corpora/medmentions/train", "umls_2017AA"),
        "bc5cdr_chemical": ("corpora/bc5cdr_chemical/train", "ctd/dictionary.tsv.gz"),
        "cometa": ("corpora/cometa/train", "snomed/dictionary.tsv.gz"),
    }
    for fold in FOLDS:
        folder = "corpora/askapatient"
        files[f"askapatient-{fold}"] = f"{folder}/fold{fold}.train", f"{folder}/dictionary.tsv.gz"
    tuned = [
        "python -m spacy project run finetuning projects/sapbert --vars.trained_encoder output/sapbert/encoder "
        f"--vars.finetuning_output output/finetuned/{name} "
        f"--vars.mentions ../benchmarks/output/{mentions}.jsonl.gz --vars.dictionary ../benchmarks/output/{dictionary}"
        for name, (mentions, dictionary) in files.items()
    ]
    del files["ncbi_disease"], files["medmentions"]
    folder = "corpora/bc5cdr_disease_biosyn"
    files["bc5cdr_disease_biosyn"] = f"{folder}/traindev", f"{folder}/dictionary_train.tsv.gz"
    output, biosyn = "projects/benchmarks/output", []
    for base, encoder in {"biobert": "biobert", "sapbert": "projects/sapbert/output/sapbert/encoder"}.items():
        biosyn += [
            f"python -m training train biosyn --paths.encoder {encoder} --paths.output {output}/biosyn/{name}/{base} "
            f"--paths.mentions {output}/{mentions}.jsonl.gz --paths.dictionary {output}/{dictionary}"
            for name, (mentions, dictionary) in files.items()
        ]
    return [*tuned, *biosyn]


@pytest.mark.xdist_group("with_data")
def test_one_evaluation_fills_the_cells(with_data):
    """Beside each published figure of an encoder or of BioSyn on a corpus stands a measured one, comparable with it."""
    for command in [*WITH_DATA, *list_repeated()]:
        with_data.run(command)
    for command in (command for command in WITH_DATA if "_paper.cfg --vars.report" in command):
        with_data.run(command, again=True)
    measured = set()
    for report in ("benchmarks/output/sapbert_paper", "coder/output/coder_paper", "benchmarks/output/mantra"):
        results = Results(with_data.folder / "projects" / report)
        for name, lines in results.lines.items():
            if results.tasks[name].get("is_published"):
                measured |= {(line.published, results.tasks[name]["corpus"], line.published_pooling) for line in lines}
    wanted = {
        (figure.system, figure.corpus, figure.pooling)
        for figure in read_literature()
        if figure.table in CELLS.get(figure.source, ())
        and figure.metric in ("acc_at_1", "f1")
        and figure.system not in CITED
    }
    assert len(wanted) > 150
    assert not sorted(cell for cell in wanted if not measured & {cell, (*cell[:2], "")})
