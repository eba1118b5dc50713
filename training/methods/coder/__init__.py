"""CODER: an encoder trained on names and on the relations of a knowledge graph (Yuan et al., JBI 2022)."""

from .relations import load_relations
from .run import train_coder
from .settings import CoderSettings, make_coder_settings, read_coder_settings

__all__ = ["CoderSettings", "load_relations", "make_coder_settings", "read_coder_settings", "train_coder"]
