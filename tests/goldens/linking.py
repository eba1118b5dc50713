"""What the linker computes: links of the demo, candidates, fingerprints."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from goldens.commands import BUNDLED_ENCODER, DEMO_SENTENCES, OPEN_ENCODER
from goldens.inputs import draw_misspelt
from goldens.values import hash_rows, keep_figures, read_lines
from goldens.workspace import EXACT, Workspace, make_linker
from spacy_sapbert.terminology import Terminology, read_table

K = 5


def record_demo(workspace: Workspace) -> dict[str, Any]:
    """Record entity, id and candidates of the demo's sentences."""
    texts = [line["text"] for line in read_lines(DEMO_SENTENCES)]
    found = {}
    for number, doc in enumerate(workspace.demo.pipe(texts)):
        for ent in doc.ents:
            found[f"{number:02d} {ent.start_char} {ent.text}"] = [ent.kb_id_, list_candidates(ent._.kb_candidates)]
    return found


def record_candidates(workspace: Workspace) -> dict[str, Any]:
    """Record ids and scores of candidates by terminology and mention."""
    found = {"hpo": look_up(workspace.demo.get_pipe("sapbert_linker"), workspace.query_mentions)}
    terminology = Terminology.from_disk(workspace.corpus / "all")
    names = draw_misspelt(terminology.names["name"].cast(pl.String).unique().sort().to_list(), 25)
    linker = make_linker(terminology, workspace.encoder, k=3)
    found["made_up"] = look_up(linker, names)
    found["made_up_filtered"] = look_up(linker, names, types=["T047", "T191"], sources=["MSH"], languages=["ENG"])
    found["made_up_ids"] = look_up(linker, names, ids=["C0000001", "C0000002", "C0000003", "C0000004"], k=2)
    codes = make_linker(terminology, workspace.encoder, k=3, output_source="LOCAL", threshold=0.5)
    found["made_up_codes"] = look_up(codes, names)
    linker.add_names([("C0000001", "wholly new name"), ("NEW:1", "another new name"), ("NEW:1", names[0])])
    linker.remove_concepts(["C0000002", "C0000003"])
    found["made_up_edited"] = look_up(linker, [*names, "wholly new name", "another new name"])
    if workspace.data is not None:
        path = workspace.data / "benchmarks/ncbi_disease/dictionary.tsv.gz"
        names_of_medic = read_table(path, header=["id", "name"], delimiter="\t")
        medic = make_linker(names_of_medic, OPEN_ENCODER, workspace.vectors, k=K, index=EXACT)
        found["medic"] = look_up(medic, workspace.query_mentions)
        found["medic_index"] = {"0": describe_index(medic)}
    return {f"{name} {mention}": entry for name, entries in found.items() for mention, entry in entries.items()}


def record_fingerprints(workspace: Workspace) -> dict[str, Any]:
    """Record fingerprints, and sizes of indexes."""
    hpo = workspace.demo.get_pipe("sapbert_linker")
    tiny = make_linker(Terminology.from_disk(workspace.corpus / "terminology"), workspace.encoder)
    found: dict[str, Any] = {"hpo_linker": describe_linker(hpo), "tiny_linker": describe_linker(tiny)}
    found["hpo_approximate"] = describe_approximate(hpo, workspace)
    folders = {name: workspace.corpus / name for name in ("terminology", "all", "split/terminology")}
    if workspace.data is not None:
        folders |= {f"mini {name}": workspace.mini_corpus / name for name in ("terminology", "all")}
    return found | {name: Terminology.from_disk(folder).fingerprint for name, folder in folders.items()}


def describe_linker(linker: Any) -> dict[str, Any]:
    """Describe a linker by its fingerprints, settings and sizes."""
    return {
        "encoder": linker.encoder.fingerprint,
        "precision": str(linker.encoder.dtype),
        "settings": linker.encoder.settings.to_dict(),
        "terminology": linker.terminology.fingerprint,
        "rows_of_names": hash_rows(linker.retriever.row_of_name.tolist()),
        **describe_index(linker),
    }


def describe_index(linker: Any) -> dict[str, Any]:
    """Describe an index by its fingerprint, configuration, recall and some of its vectors."""
    index = linker.index
    rows = np.linspace(0, len(index) - 1, 5).astype(int)
    return {
        "index": index.fingerprint,
        "kind": type(index).__name__,
        "rows": len(index),
        "configuration": index.configuration,
        "recall": keep_figures(index.recall),
        "vectors": index.take(rows)[:, :4].round(5).tolist(),
    }


def describe_approximate(exact: Any, workspace: Workspace) -> dict[str, Any]:
    """Describe a ScaNN index by its configuration and by its agreement with exact search."""
    scann = {"@misc": "spacy-sapbert.ScannIndex.v1"}
    # So few names would be searched exactly.
    with patch("spacy_sapbert.index.approximate.EXACT_BELOW", 0):
        linker = make_linker(exact.terminology, BUNDLED_ENCODER, workspace.vectors, k=K, index=scann)
    texts = workspace.query_mentions
    pairs = list(zip(linker.find(texts), exact.find(texts), strict=True))
    right = sum(found[0]["id"] == wanted[0]["id"] for found, wanted in pairs) / len(pairs)
    described = {key: linker.index.configuration[key] for key in ("scoring", "leaves")}
    return {"kind": type(linker.index).__name__, **described, "finds 97 %": right >= 0.97}


def look_up(linker: Any, texts: list[str], **settings: Any) -> dict[str, Any]:
    """Look strings up: candidates by string. The settings are those of `find`."""
    return {t: list_candidates(found) for t, found in zip(texts, linker.find(texts, **settings), strict=True)}


def list_candidates(candidates: Iterable[dict[str, Any]]) -> list[Any]:
    """List id, score, id, score and so on."""
    return [part for candidate in candidates for part in (candidate["id"], round(candidate["score"], 5))]
