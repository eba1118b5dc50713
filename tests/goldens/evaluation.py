"""What the commands measure that compare encoders and systems."""

import json
from pathlib import Path
from typing import Any

from goldens.commands import (
    CONFIGS,
    OPEN_ENCODER,
    call,
    list_settings,
    list_tasks,
    read_probe,
    read_sweep,
    read_systems,
)
from goldens.linking import look_up
from goldens.training_runs import record_losses
from goldens.workspace import Workspace, make_linker
from spacy_sapbert.terminology import Terminology


def record_evaluate(workspace: Workspace) -> dict[str, Any]:
    """Record figures by command."""
    folder = workspace.folder / "measured"
    folder.mkdir()
    if not workspace.runs.is_dir():
        record_losses(workspace)
    found = {**evaluate(workspace, folder), **probe(workspace, folder), **sweep(workspace, folder / "sweep")}
    held_out = workspace.corpus / "split/held_out.json"
    call("export", workspace.runs / "sapbert", folder / "mixed", base_share=0.4, held_out=held_out)
    linker = make_linker(Terminology.from_disk(workspace.corpus / "split/terminology"), folder / "mixed", k=2)
    found["export"] = look_up(linker, ["heart pain", "Lebenskrebs", "renal failure, sudden"])
    if workspace.data is not None:
        found |= evaluate_real(workspace.data, folder)
    return found


def evaluate(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Run `measure` on systems of all kinds, and on two encoders, with the made-up corpus."""
    tiny = json.dumps(str(workspace.encoder))
    sections = {
        "exact": 'kind = "exact"',
        "tfidf": 'kind = "tfidf"',
        "tiny": f'kind = "encoder"\nencoder = {tiny}',
        "legacy": f'kind = "encoder"\nencoder = {tiny}\npooling = "mean_all_tok"\nmax_length = 16\npad_to_length = 16\n'
        'attention_mask = false\nsimilarity = "dot"',
        "linker": f'kind = "linker"\nencoder = {tiny}\ntasks = ["*.strict", "held_out*"]',
        "biosyn": f'kind = "biosyn"\nmodel = {json.dumps(str(workspace.runs / "biosyn_epochs"))}\n'
        'tasks = ["*.processed"]',
        "backoff": 'kind = "backoff"\nover = "tiny"\ntasks = ["made_up.*"]',
    }
    corpora = folder / "corpora.cfg"
    corpora.write_text(
        '[corpora]\n\n[corpora.made_up]\ntitle = "Made up"\nmentions = "test.jsonl"\nseen = ["train.jsonl"]\n'
        'dictionary = "dictionary.tsv"\nprotocols = ["published", "processed", "strict", "refined"]\n'
    )
    held_out = ",".join(str(path) for path in list_tasks(workspace.corpus / "split").values())
    tasks = {
        "held_out": f'kind = "held_out"\nfiles = {json.dumps(held_out)}',
        "corpora": f'kind = "corpora"\nlist = "{corpora}"\nfolder = "{workspace.mentions}"',
    }
    call("measure", write_config(folder / "systems.cfg", sections, tasks), folder / "evaluate")
    found = list_systems("evaluate", folder / "evaluate")
    both = {"encoders": f'kind = "encoder"\nencoders = "{workspace.encoder},{workspace.other_encoder}"'}
    tasks["corpora"] += '\nprotocols = ["strict"]'
    call("measure", write_config(folder / "encoders.cfg", both, tasks), folder / "measure")
    before, after = read_systems(folder / "measure").values()
    return {**found, "measure": describe_gains(before, after)}


def describe_gains(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Set the figures of two encoders side by side, as they were recorded: at ranks 1 and 5, by task."""
    shown = {f"acc@{rank}": f"acc_at_{rank}" for rank in (1, 5)}
    return {
        task.removesuffix(".strict").removesuffix(".held_out"): {
            f"{label}{name}": of_task[task][figure]
            for label, of_task in (("before ", before), ("", after))
            for name, figure in shown.items()
        }
        for task in after
    }


def probe(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Run CODER's tasks (semantic types, relations, word pairs) and names of each language."""
    corpus, tiny = workspace.corpus, workspace.encoder
    both, terminology = f"{tiny},{workspace.runs / 'coder/encoder'}", json.dumps(str(corpus / "terminology"))
    relations = f'kind = "relations"\nterminology = {terminology}\ntriples = "{corpus / "triples"}"\nepochs = '
    unseen = f'min_triples = 5\nunseen = "{corpus / "split/terminology"}"'
    tasks = {
        "mcsm": f'kind = "mcsm"\nterminology = {terminology}',
        "relations": f"{relations}4\nmin_triples = 20\nseeds = [72, 73]",
        "word_similarity": f'kind = "word_similarity"\nfiles = "{workspace.mentions / "pairs.csv"}"',
    }
    single = {
        "mcsm drawn": f"{tasks['mcsm']}\nmax_concepts = 150",
        "relations unseen": f"{relations}4\nseeds = [72, 73]\n{unseen}",
        "relations tuned": f"{relations}1\nmin_triples = 20\nfine_tune = true",
    }
    found: dict[str, Any] = {}
    for folder_name, encoders, chosen in (("probes", both, tasks), ("single", tiny, single)):
        system = {"encoders": f'kind = "encoder"\nencoders = "{encoders}"\nmax_length = 32'}
        named = {name.replace(" ", "_"): section for name, section in chosen.items()}
        output = folder / folder_name
        call("measure", write_config(output.with_suffix(".cfg"), system, named), output)
        found |= {name: read_probe(output, name.replace(" ", "_")) for name in chosen}
    encoders = {"encoders": f'kind = "encoder"\nencoders = "{tiny},{workspace.other_encoder}"'}
    tasks = {"held_out": f'kind = "held_out"\nfiles = {json.dumps(str(corpus / "languages"))}'}
    call("measure", write_config(folder / "languages.cfg", encoders, tasks), folder / "languages")
    return {
        **found,
        "languages": {Path(name).name: list_languages(of) for name, of in read_systems(folder / "languages").items()},
    }


def list_languages(of_tasks: dict[str, Any]) -> dict[str, Any]:
    """List the figures of held-out names by language, as they were recorded."""
    left_out = ("system", "task", "search", "similarity", "acc_at_3", "row_acc_at_3", "hits_sha256", "best_sha256")
    return {
        task.removeprefix("held_out_").removesuffix(".held_out"): {
            name: value for name, value in figures.items() if name not in left_out
        }
        for task, figures in of_tasks.items()
    }


def sweep(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Run a sweep of two variants, two seeds and two shares of the base."""
    corpus = workspace.corpus
    settings = {"batch.max_steps": 4, "batch.max_minutes": 0, "batch.pairs": 16, "run.precision": "fp32"}
    config = folder.with_suffix(".cfg")
    config.write_text(
        f"[sweep]\nconfig = {json.dumps(str(CONFIGS['sapbert']))}\nseeds = [0, 1]\nbase_shares = [0.0, 0.5]\n"
        f"settings = {json.dumps(settings)}\n\n[variants]\nplain = {{}}\n"
        'cosine = {"objective.loss": "cosine"}\n'
    )
    paths = list_settings({"paths.encoder": workspace.encoder, "paths.pairs": corpus / "pairs"})
    call("sweep", config, folder, "--tasks.held_out.files", corpus / "split/held_out.json", *paths)
    return {"sweep": read_sweep(folder)}


def evaluate_real(data: Path, folder: Path) -> dict[str, Any]:
    """Run `measure` on the real corpora, with 2,000 names of each dictionary."""
    sections = {
        "exact": 'kind = "exact"',
        "tfidf": 'kind = "tfidf"',
        "open": f'kind = "encoder"\nencoder = {json.dumps(str(OPEN_ENCODER))}\ntasks = ["ncbi_disease*"]',
        "backoff": 'kind = "backoff"\nover = "tfidf"\ntasks = ["*disease.strict"]',
    }
    tasks = {"corpora": f'kind = "corpora"\nfolder = {json.dumps(str(data / "benchmarks"))}'}
    config = write_config(folder / "real_systems.cfg", sections, tasks)
    call("measure", config, folder / "real", **{"measure.max_names": 2000})
    return list_systems("real", folder / "real")


def list_systems(prefix: str, output: Path) -> dict[str, Any]:
    """List the figures of `measure`, named by prefix, system and task."""
    measured = read_systems(output).items()
    return {f"{prefix} {system} {task}": figures for system, tasks in measured for task, figures in tasks.items()}


def write_config(path: Path, systems: dict[str, str], tasks: dict[str, str]) -> Path:
    """Write a config of systems and tasks: settings by name."""
    parts = [f"[{kind}]\n" for kind in ("systems", "tasks")]
    parts += [f"[systems.{key}]\n{text}\n" for key, text in systems.items()]
    path.write_text("\n".join([*parts, *(f"[tasks.{key}]\n{text}\n" for key, text in tasks.items())]))
    return path
