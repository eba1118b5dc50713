"""Find the files of a corpus: those of patterns, and of each fold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Stands for the number of a fold in patterns, and in the paths of systems.
FOLD = "{fold}"
MENTION_ENDINGS = (".jsonl", ".jsonl.gz")

# A pattern, or several, of which the first with matching files counts.
Patterns = str | list[str]


def find_files(folder: Path, patterns: Patterns) -> list[Path]:
    """Find the files of the first pattern with matching files.

    folder (Path): The folder that patterns are seen from.
    patterns (str | list[str]): The patterns.
    RETURNS (list[Path]): The files, sorted.
    """
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        paths = sorted(folder.glob(pattern))
        if paths:
            return paths
    return []


def find_mentions(folder: Path, patterns: Patterns) -> list[Path]:
    """Find files of mentions, and leave out others that fit the pattern, such as an editor's copies.

    folder (Path): The folder that patterns are seen from.
    patterns (str | list[str]): The patterns.
    RETURNS (list[Path]): The files, sorted.
    RAISES (ValueError): If a file is there twice, compressed and as it is.
    """
    paths = [path for path in find_files(folder, patterns) if path.name.endswith(MENTION_ENDINGS)]
    if len({path.name.removesuffix(".gz") for path in paths}) < len(paths):
        raise ValueError(f"a file is there compressed and as it is, and would count twice: {list_names(paths)}")
    return paths


def find_folds(folder: Path, patterns: Patterns, folds: Sequence[int]) -> tuple[list[Path], list[str]]:
    """Find the file of each fold: an average over some of the folds is not the published measure.

    folder (Path): The folder that patterns are seen from.
    patterns (str | list[str]): The patterns, with "{fold}" for the number.
    folds (Sequence[int]): The numbers of the folds.
    RETURNS (tuple[list[Path], list[str]]): The files in the order of the folds, and what is missing.
    RAISES (ValueError): If a fold has several files, or the patterns have no place for a number.
    """
    if FOLD not in join_patterns(patterns):
        raise ValueError(f"there are folds, but no {FOLD} in {join_patterns(patterns)}")
    found, missing = [], []
    for fold in folds:
        filled = fill_fold(patterns, fold)
        paths = find_mentions(folder, filled)
        if len(paths) > 1:
            raise ValueError(f"the fold {fold} has several files: {list_names(paths)}")
        found += paths
        missing += [] if paths else [join_patterns(filled)]
    return found, [join_patterns(patterns)] if len(missing) == len(folds) else missing


def fill_fold(patterns: Patterns, fold: int) -> Patterns:
    """Put the number of a fold in the place of "{fold}".

    patterns (str | list[str]): The patterns.
    fold (int): The number.
    RETURNS (str | list[str]): The patterns of this fold.
    """
    if isinstance(patterns, str):
        return patterns.replace(FOLD, str(fold))
    return [pattern.replace(FOLD, str(fold)) for pattern in patterns]


def list_names(paths: Sequence[Path]) -> str:
    """List files for a message.

    paths (Sequence[Path]): The files.
    RETURNS (str): Their names.
    """
    return ", ".join(path.name for path in paths)


def join_patterns(patterns: Patterns) -> str:
    """Write patterns for a message.

    patterns (str | list[str]): The patterns.
    RETURNS (str): The patterns with "or" between them.
    """
    return patterns if isinstance(patterns, str) else " or ".join(patterns)
