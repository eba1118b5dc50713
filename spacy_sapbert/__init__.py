"""Biomedical entity linking in spaCy: dense concept retrieval that saves, packages and loads offline.

spaCy imports this package whenever a pipeline is created, so nothing heavy is imported here.
"""

from importlib import metadata

__version__ = metadata.version("spacy-sapbert")
__all__ = ["__version__"]
