"""The commands: `python -m spacy_sapbert --help`. What a command needs is imported when it runs, and no help text waits
for that."""

from . import tables, mappings, documents  # noqa: F401, I001  # they register with the application, in this order
