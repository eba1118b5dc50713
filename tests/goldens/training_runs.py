"""What training computes: logs and reports of short runs of all methods."""

import json
from typing import Any

from goldens.commands import CONFIGS, call, list_settings, read_log
from goldens.values import keep_figures, read_json
from goldens.workspace import Workspace

STEPS, FEW_STEPS = 50, 15
FIXED = {"run.precision": "fp32", "batch.max_minutes": 0.0}
SAPBERT_VARIANTS: dict[str, dict[str, Any]] = {
    "sapbert": {},
    "sapbert_sampling": {"batch.source_balance": 0.5, "batch.neighbours": 3},
    "sapbert_cached": {"batch.gradient_cache": True, "batch.chunk_names": 16},
    "sapbert_lora": {"adapter.kind": "lora"},
    "sapbert_bottleneck": {"adapter.kind": "bottleneck"},
    "sapbert_homonyms": {
        "objective.ignore_homonyms": True,
        "objective.constants": json.dumps({"alpha": 1.0, "beta": 60.0, "base": 0.5}),
    },
    "sapbert_schedule": {"optimizer.schedule": "linear", "optimizer.warmup_steps": 5, "optimizer.max_grad_norm": 0.5},
    **{
        f"sapbert_{loss}": {"objective.loss": loss}
        for loss in ("cosine", "triplet", "nca", "lifted_structure", "info_nce", "circle")
    },
}
CODER_VARIANTS: dict[str, dict[str, Any]] = {
    "coder": {},
    "coder_diagonal": {"loss.relations": "diagonal"},
    "coder_translations": {"loss.relations": "transe"},
    "coder_without_relations": {"loss.relations": "none"},
    "coder_accumulated": {"batch.accumulation": 2, "batch.label_balance": 0.0},
}


def record_losses(workspace: Workspace) -> dict[str, Any]:
    """Record what runs of all methods log, step by step, and their reports."""
    return {**train_sapbert(workspace), **train_coder(workspace), **train_biosyn(workspace)}


def train_sapbert(workspace: Workspace) -> dict[str, Any]:
    """Train SapBERT with one variant after the other, and once with an interruption."""
    corpus, found = workspace.corpus, {}
    settings = {**FIXED, "paths.pairs": corpus / "pairs", "paths.held_out": corpus / "split/held_out.json"}
    settings |= {"batch.pairs": 24, "batch.epochs": 5, "run.evaluation_steps": 25, "run.checkpoint_steps": 20}
    settings |= {"run.base_share": 0.0}
    for name, variant in SAPBERT_VARIANTS.items():
        steps = FEW_STEPS if variant else STEPS
        found[name] = train(workspace, "sapbert", name, {**settings, "batch.max_steps": steps, **variant})
    # The second call resumes the run of the first.
    for steps in (FEW_STEPS, 2 * FEW_STEPS):
        name = "sapbert_resumed"
        found[name] = train(workspace, "sapbert", name, {**settings, "batch.max_steps": steps})
    return found


def train_coder(workspace: Workspace) -> dict[str, Any]:
    """Train CODER with one variant after the other, and CODER++."""
    corpus, found = workspace.corpus, {}
    settings = {**FIXED, "paths.terminology": corpus / "split/terminology", "optimizer.warmup_steps": 5}
    settings |= {"paths.held_out": corpus / "split/held_out.json", "run.checkpoint_steps": 20}
    triples = {"paths.triples": corpus / "triples", "batch.triplets": 16, "run.evaluation_steps": 25}
    for name, variant in CODER_VARIANTS.items():
        steps = FEW_STEPS if variant else STEPS
        found[name] = train(workspace, "coder", name, {**settings, **triples, "batch.max_steps": steps, **variant})
    groups = {"batch.neighbours": 10, "batch.synonyms": 5, "batch.refresh_steps": 20, "batch.max_steps": STEPS}
    found["coder_plusplus"] = train(workspace, "coder_plusplus", "coder_plusplus", {**settings, **groups})
    return found


def train_biosyn(workspace: Workspace) -> dict[str, Any]:
    """Train BioSyn with epochs of one batch, and with epochs of several."""
    mentions = workspace.mentions
    settings = {"paths.mentions": mentions / "train.jsonl", "paths.dictionary": mentions / "dictionary.tsv"}
    settings |= {**FIXED, "optimizer.learning_rate": 1e-3}
    # BioSyn logs the mean loss of an epoch: with one batch, it is the loss of the step.
    batches = {"biosyn": {"mentions": 1000, "epochs": STEPS}, "biosyn_epochs": {"mentions": 8, "epochs": 3}}
    found = {}
    for name, batch in batches.items():
        of_batch = {f"batch.{key}": value for key, value in batch.items()}
        found[name] = train(workspace, "biosyn", name, {**settings, **of_batch})
    return found


def train(workspace: Workspace, method: str, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train an encoder, and list the logged values, a list for each that changes, and figures of the report."""
    output = workspace.runs / name
    paths = {"paths.encoder": workspace.encoder, "paths.output": output}
    call("train", CONFIGS[method], *list_settings({**settings, **paths}))
    report = read_json(output / "report.json")
    # A run that gets SIGINT or SIGTERM stops early without an error.
    if report["training"]["ended"] == "interrupted":
        raise KeyboardInterrupt
    steps, others = [], []
    if method == "biosyn":
        steps = report["training"]["of_epochs"]
        others = [{"sparse_weight": report["training"]["sparse_weight"]}]
    else:
        for entry in read_log(output):
            (steps if "loss" in entry else others).append(keep_figures(entry))
    logged: dict[str, list[Any]] = {}
    for entry in steps:
        for key, value in entry.items():
            logged.setdefault(key, []).append(value)
    return {
        "entries": len(steps),
        **{key: values[0] if len(set(map(str, values))) == 1 else values for key, values in logged.items()},
        "others": others,
        "held_out": keep_figures(report.get("held_out") or {}),
        "trained": report["encoder"]["trained"],
    }
