"""A run of BioSyn from settings to an encoder folder and the weight of shared characters."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import set_seed

from spacy_sapbert.encoder import ENCODER_FILE, EncoderShim, write_encoder
from spacy_sapbert.files import fill_folder

from ...data.run_folder import DESCRIPTION_FILE, REPORT_FILE, list_versions, write_json
from ...encoders.bases import load_base
from ...encoders.export import MODULES_FILE, as_encoder
from ...evaluation.systems.biosyn import BIOSYN_FILE, ENCODER_FOLDER, FORMAT_VERSION
from .data import read_biosyn_data
from .model import BioSynModel
from .settings import BioSynSettings
from .trainer import BioSynTrainer


def train_biosyn(settings: BioSynSettings) -> dict[str, Any]:
    """Train BioSyn (Sung et al., ACL 2020, section 3), and write what `BioSynSystem.from_disk` loads.

    settings (BioSynSettings): All settings. The run goes on from the last checkpoint in its output folder.
    RETURNS (dict): What happened, as saved in `report.json`: settings, counts, what each epoch has seen, versions.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there is nothing to learn from, or the output folder has a run with other settings.
    """
    set_seed(settings.run.seed)
    output = Path(settings.paths.output)
    data = read_biosyn_data(settings.mention_files, settings.paths.dictionary)
    base = load_base(settings.paths.encoder, settings.encoder)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    model = BioSynModel(
        base,
        device,
        precision=settings.run.precision,  # type: ignore[arg-type]  # checked with the settings
        chunk_names=settings.batch.chunk_names,
    )
    trainer = BioSynTrainer(settings, model, data, base)
    description = {
        "settings": settings.to_dict(),
        "data": data.report,
        "encoder": {"base": base.fingerprint, **base.settings.to_dict()},
        "versions": list_versions("scikit-learn"),
        "machine": {"processor": platform.machine(), "device": device.type, "threads": torch.get_num_threads()},
    }
    trainer.resume()
    output.mkdir(parents=True, exist_ok=True)
    # Not before: the settings may be refused.
    write_json(output / DESCRIPTION_FILE, description)
    ended = trainer.run()
    trained = as_encoder(model.transformer, base)
    weight = model.sparse_weight.item()
    _write(output, trained, trainer, weight)
    report = {
        **description,
        "training": {
            "steps": trainer.step,
            "epochs": trainer.step / trainer.per_epoch,
            "ended": ended,
            "seconds": round(trainer.seconds, 1),
            "of_epochs": trainer.epochs,
        },
        "encoder": {**description["encoder"], "trained": trained.fingerprint},
        "sparse_weight": weight,
    }
    write_json(output / REPORT_FILE, report)
    return report


def _write(output: Path, encoder: EncoderShim, trainer: BioSynTrainer, weight: float) -> None:
    with fill_folder(output / ENCODER_FOLDER, last=ENCODER_FILE) as folder:
        write_encoder(encoder.source, folder)
        if not (folder / MODULES_FILE).is_file():
            # Of an encoder that was here before, with another pooling.
            (output / ENCODER_FOLDER / MODULES_FILE).unlink(missing_ok=True)
    data = {
        "format": FORMAT_VERSION,
        "weight": weight,
        "encoder": encoder.fingerprint,
        "settings": trainer.settings.decisive(),
        "sparse": trainer.sparse.to_dict(),
    }
    write_json(output / BIOSYN_FILE, data)
