"""What the data commands write: counts and hashes of rows, whatever the layout of the files."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import polars as pl

from goldens.commands import call, list_tasks, read_pair_rows, read_pair_sources, read_triple_rows
from goldens.values import hash_rows, keep_figures, read_json
from goldens.workspace import Workspace
from spacy_sapbert.terminology import Terminology
from training.data.task import LinkingTask


def record_data(workspace: Workspace) -> dict[str, Any]:
    """Record terminologies, splits, pairs and triples."""
    found: dict[str, Any] = {f"made_up {key}": value for key, value in describe_corpus(workspace.corpus).items()}
    if workspace.data is not None:
        found |= {f"mini {key}": value for key, value in describe_corpus(workspace.mini_corpus).items()}
    mentions, folder = workspace.mentions, workspace.folder / "more_pairs"
    dictionary = mentions / "dictionary.tsv"
    call("pairs", mentions / "train.jsonl", folder / "mentions", dictionary=dictionary)
    call("pairs", mentions / "train.jsonl", folder / "distinct", "--distinct", dictionary=dictionary)
    call("pairs", mentions / "translations.txt", folder / "parallel")
    call("pairs", mentions / "translations.txt", folder / "parallel_pair", "--cased", label="pair")
    for name in ("mentions", "distinct", "parallel", "parallel_pair"):
        found[f"pairs of {name}"] = describe_pairs(folder / name)
    options = {"source_skipped": ["--level-0-only", "--lower-case"], "one_source": ["--sources", "MSH"]}
    options |= {"one_type": ["--semantic-types", "T047"], "terms": ["--term-types", "PT"]}
    for name, arguments in options.items():
        call("preprocess", workspace.release, folder / name, *arguments)
        found[f"terminology {name}"] = describe_terminology(folder / name)
    if workspace.data is not None:
        found |= record_conversions(workspace, workspace.data / "raw")
    return found


def record_conversions(workspace: Workspace, raw: Path) -> dict[str, Any]:
    """Record conversions of original corpora, by format."""
    inputs = {"ncbi-disease": "ncbi_disease", "bc5cdr-disease": "bc5cdr", "bc5cdr-chemical": "bc5cdr"}
    inputs |= {"medic": "medic/medic_06Jul2012.txt.gz", "biosyn": "biosyn_preprocessed/ncbi-disease.tar.gz"}
    inputs |= {"askapatient": "askapatient", "psytar": "psytar", "mantra-brat": "mantra_gsc/Mantra-GSC-brat.zip"}
    found: dict[str, Any] = {}
    for name, source in inputs.items():
        folder = workspace.folder / "converted" / name
        call("convert", name, raw / source, folder, errors="skip")
        contents = {}
        for path in sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl.gz", ".tsv.gz"))):
            contents[path.name] = hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
        found[f"corpus {name}"] = {"counts": keep_figures(read_json(folder / f"{name}.json")), "sha256": contents}
    return found


def describe_corpus(folder: Path) -> dict[str, Any]:
    """Describe the output of `make_training_data`."""
    terminologies = ("terminology", "all", "split/terminology", "languages/terminology")
    found: dict[str, Any] = {name: describe_terminology(folder / name) for name in terminologies}
    found |= {name: describe_pairs(folder / name) for name in ("pairs", "all_pairs")}
    for name in ("triples", "rel_triples"):
        manifest = read_json(folder / name / "triples.json")
        rows = read_triple_rows(folder / name)
        counts = {key: manifest[key] for key in ("counts", "dropped", "relations")}
        found[name] = {**counts, "rows": len(rows), "sha256": hash_rows(rows)}
    for split in ("split", "languages"):
        for name, path in list_tasks(folder / split).items():
            task = LinkingTask.from_disk(path)
            rows = [task.queries, task.gold, task.names, task.ids]
            counts = {"queries": len(task.queries), "names": len(task.names)}
            found[f"{split} {name}"] = {**counts, "sha256": hash_rows(rows)}
    return found


def describe_terminology(folder: Path) -> dict[str, Any]:
    """Describe a terminology by counts, and hashes of its concepts and names."""
    terminology = Terminology.from_disk(folder)
    concepts = (terminology[concept] for concept in terminology.concepts["id"].to_list())
    parts = ("id", "canonical_name", "names", "types", "definition", "codes", "parents")
    rows = ([_as_plain(getattr(concept, part)) for part in parts] for concept in concepts)
    names = terminology.names.sort(terminology.names.columns).select(pl.all().cast(pl.String))
    return {
        "concepts": len(terminology),
        "names": terminology.n_names,
        "sha256": hash_rows(rows),
        "rows_sha256": hash_rows(names.select(sorted(names.columns)).rows()),
    }


def describe_pairs(folder: Path) -> dict[str, Any]:
    """Describe a folder of pairs by counts, and hashes of its rows."""
    rows = read_pair_rows(folder)
    counts = read_json(folder / "pairs.json")["counts"]
    return {**counts, "rows": len(rows), "sha256": hash_rows(rows), "sources": hash_rows(read_pair_sources(folder))}


def _as_plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
