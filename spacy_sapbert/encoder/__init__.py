"""From a name or a mention to a vector: transformers and static encoders, their folders and architectures."""

from .architecture import build_name_encoder_v1, build_static_encoder_v1
from .folder import AnySource, read_encoder, write_encoder
from .loader import make_huggingface_loader
from .quantisation import quantise, write_static_encoder
from .settings import ENCODER_FILE, EncoderSettings
from .shim import EncoderShim, get_encoder
from .static import StaticSource
from .transformer import EncoderSource

__all__ = [
    "ENCODER_FILE",
    "AnySource",
    "EncoderSettings",
    "EncoderShim",
    "EncoderSource",
    "StaticSource",
    "build_name_encoder_v1",
    "build_static_encoder_v1",
    "get_encoder",
    "make_huggingface_loader",
    "quantise",
    "read_encoder",
    "write_encoder",
    "write_static_encoder",
]
