"""From a name or a mention to a vector. Importing this package imports torch and transformers."""

from .architecture import build_name_encoder_v1
from .folder import ENCODER_FILE, EncoderSource, read_encoder, write_encoder
from .loader import make_huggingface_loader
from .settings import EncoderSettings
from .shim import EncoderShim, get_encoder

__all__ = [
    "ENCODER_FILE",
    "EncoderSettings",
    "EncoderShim",
    "EncoderSource",
    "build_name_encoder_v1",
    "get_encoder",
    "make_huggingface_loader",
    "read_encoder",
    "write_encoder",
]
