"""From trained weights to an encoder folder that the linker, `AutoModel` and `SentenceTransformer` load alike."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from spacy_sapbert.encoder import ENCODER_FILE, EncoderSource, write_encoder
from spacy_sapbert.files import fill_folder

CARD_FILE = "README.md"


def average_weights(trained: torch.nn.Module, base: torch.nn.Module, base_share: float) -> torch.nn.Module:
    """Average trained weights with those that training started from, which keeps more of what they knew (Wortsman et
    al., CVPR 2022).

    trained (Module): The trained model.
    base (Module): The model it was trained from.
    base_share (float): Share of the base, 0 to 1.
    RETURNS (Module): A new model.
    """
    mixed = copy.deepcopy(trained).cpu()
    if base_share:
        start = dict(base.state_dict())
        with torch.no_grad():
            for name, tensor in mixed.state_dict().items():
                if tensor.is_floating_point():
                    tensor.lerp_(start[name].to(tensor), base_share)
    return mixed


def export_encoder(source: EncoderSource, folder: str | Path, report: dict[str, Any]) -> None:
    """Write an encoder folder with a card.

    source (EncoderSource): The encoder.
    folder (str | Path): Where to; changed when all is written.
    report (dict): Of the run, for the card.
    """
    with fill_folder(Path(folder), last=ENCODER_FILE) as temporary:
        (temporary / CARD_FILE).write_text(write_card(report), encoding="utf8")
        write_encoder(source, temporary)


def write_card(report: dict[str, Any]) -> str:
    """Describe an encoder in the form of a model card.

    report (dict): Of the run.
    RETURNS (str): Markdown.
    """
    settings, data, training = report["settings"], report["data"], report["training"]
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [biomedical, entity-linking, sapbert, spacy-sapbert]",
        "---",
        "",
        "# An encoder for biomedical names",
        "",
        "Trained with spacy-sapbert after SapBERT (Liu et al., NAACL 2021): names of one concept get similar vectors.",
        "",
        f"- Data: {data['pairs']:,} pairs of {data['names']:,} names (SHA-256 {data['sha256'][:12]}...).",
        f"- Training: {training['steps']:,} steps of {settings['batch']['pairs']} pairs, "
        f"{training['seconds'] / 60:.0f} minutes, ended: {training['ended']}.",
        f"- Objective: {settings['objective']['loss']} ({settings['objective']['preset']}), "
        f"miner {settings['objective']['miner']}; learning rate {settings['optimizer']['learning_rate']}; "
        f"seed {settings['run']['seed']}; share of the base weights {settings['run']['base_share']}.",
        f"- Pooling {report['encoder']['pooling']}, {report['encoder']['max_length']} tokens.",
        f"- Fingerprint: {report['encoder']['trained']}.",
    ]
    if report["held_out"]:
        before, after = report["held_out"]["before"], report["held_out"]["after"]
        lines += [
            "",
            f"Held-out concepts ({after['queries']:,} names among {after['names']:,}):",
            "",
            "| | acc@1 | acc@5 |",
            "| --- | ---: | ---: |",
            *(
                f"| {label} | {100 * scores['acc_at_1']:.1f} | {100 * scores['acc_at_5']:.1f} |"
                for label, scores in (("before", before), ("after", after))
            ),
        ]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return "\n".join([*lines, "", f"Versions: {versions}.", ""])
