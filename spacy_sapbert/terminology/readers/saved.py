"""Load a saved terminology."""

from functools import partial

from ..table import Terminology, TerminologyReader


def make_saved_reader(path: str) -> TerminologyReader:
    """Make a reader of a saved terminology, for use in a config.

    path (str): A folder written by `Terminology.to_disk`.
    RETURNS (TerminologyReader): The reader, which loads the folder when it is called.
    """
    return partial(read_saved, path)


def read_saved(path: str) -> Terminology:
    """Load a saved terminology by mapping its files into memory.

    path (str): A folder written by `Terminology.to_disk`.
    RETURNS (Terminology): The terminology.
    RAISES (OSError): If a file is missing, damaged or of another format version.
    """
    return Terminology.from_disk(path)
