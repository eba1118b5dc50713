"""The pipeline to adapt: its linker, and the pipeline with another encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language

from spacy_sapbert.encoder.settings import TRANSFORMER
from spacy_sapbert.files import fill_folder
from spacy_sapbert.linker import SapbertLinker

from ..errors import Errors

CONFIG = "config.cfg"
RERANKER = "sapbert_reranker"


def open_pipeline(path: str | Path, linker: str) -> tuple[Language, SapbertLinker]:
    """Load a pipeline whose linker can be adapted.

    path (str | Path): The folder of a saved pipeline, which is only read.
    linker (str): The name of the linker.
    RETURNS (tuple[Language, SapbertLinker]): The pipeline and its linker.
    RAISES (OSError): If there is no pipeline, or it is damaged.
    RAISES (ValueError): If it has no such linker, the linker has no concepts or another encoder than its index, or its
        encoder can't be trained further.
    """
    nlp = spacy.load(path)
    found = nlp.get_pipe(linker) if linker in nlp.component_names else None
    if not isinstance(found, SapbertLinker):
        reason = f"it has no linker '{linker}'. Its components are {', '.join(nlp.component_names) or 'none'}: name one"
        raise ValueError(Errors.E850.format(path=path, reason=reason))
    kind = found.get_snapshot().encoder.content.kind
    if kind != TRANSFORMER:
        reason = (
            f"the encoder of '{linker}' is of the kind '{kind}', which can't be trained further. Give the linker a "
            "transformer, `linker.initialize(encoder=...)` with a folder such as projects/open_encoder/model, save the "
            "pipeline, and adapt that one"
        )
        raise ValueError(Errors.E850.format(path=path, reason=reason))
    return nlp, found


def list_rerankers(nlp: Language, linker: str) -> list[str]:
    """List the rerankers of a linker. They were trained with its encoder, and refuse to work with another one.

    nlp (Language): The pipeline.
    linker (str): The name of the linker.
    RETURNS (list[str]): Their names.
    """
    pipes: list[tuple[str, Any]] = nlp.components
    rerankers = [(name, pipe) for name, pipe in pipes if nlp.get_pipe_meta(name).factory == RERANKER]
    return [name for name, pipe in rerankers if linker == pipe.settings.linker]


def check_output(output: Path, pipeline: Path) -> None:
    """Refuse to write to the pipeline that is only read.

    output (Path): The folder to write to.
    pipeline (Path): The folder of the pipeline.
    RAISES (ValueError): If one is inside of the other, or they are the same.
    """
    first, second = output.resolve(), pipeline.resolve()
    if first.is_relative_to(second) or second.is_relative_to(first):
        reason = f"the output {output} is the same folder, inside of it, or around it. Give another output"
        raise ValueError(Errors.E850.format(path=pipeline, reason=reason))


def save_pipeline(nlp: Language, output: Path) -> None:
    """Save a pipeline in place of what the folder had before, all or nothing.

    nlp (Language): The pipeline.
    output (Path): The folder.
    """
    former: Sequence[Path] = list(output.iterdir()) if (output / CONFIG).is_file() else []
    names = [path.name for path in former if not path.name.startswith(".")]
    with fill_folder(output, last=CONFIG, remove=names) as temporary:
        nlp.to_disk(temporary)
