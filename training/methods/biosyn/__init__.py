"""BioSyn: an encoder and a sparse one, trained on their own candidates (Sung et al., ACL 2020)."""

from .run import train_biosyn
from .settings import BioSynSettings, make_biosyn_settings, read_biosyn_settings

__all__ = ["BioSynSettings", "make_biosyn_settings", "read_biosyn_settings", "train_biosyn"]
