"""Find the files of the parts of a corpus."""

from __future__ import annotations

import re

from ....errors import Errors
from .inputs import InputFile
from .report import ReadingReport

# The names of parts in corpora, and ours.
PART_NAMES = {
    "train": "train",
    "trng": "train",
    "training": "train",
    "dev": "dev",
    "develop": "dev",
    "development": "dev",
    "test": "test",
}


def match_files(files: list[InputFile], pattern: str, report: ReadingReport) -> list[tuple[re.Match[str], InputFile]]:
    """Choose files by name. Others are reported: a fold too many changes an average.

    files (list[InputFile]): The files.
    pattern (str): A regular expression that a whole name has to match, upper or lower case.
    report (ReadingReport): Gets the names of other files.
    RETURNS (list[tuple[re.Match, InputFile]]): The files with their matches.
    RAISES (ValueError): If no file fits.
    """
    chosen = []
    for file in files:
        found = re.fullmatch(pattern, file.name, re.IGNORECASE)
        if found:
            chosen.append((found, file))
        else:
            report.note_odd("stray files, not read", file.label)
    if not chosen:
        names = ", ".join(file.name for file in files[:5]) or "nothing"
        raise ValueError(Errors.E703.format(pattern=pattern, found=names))
    return chosen


def find_parts(files: list[InputFile], pattern: str, report: ReadingReport) -> dict[str, InputFile]:
    """Find the file of each part.

    files (list[InputFile]): The files.
    pattern (str): Their names, with a group `part`, and possibly a group `fold` with its number.
    report (ReadingReport): Gets the names of other files.
    RETURNS (dict[str, InputFile]): The files by part, such as "train" or "fold1.test".
    RAISES (ValueError): If there is none, or two are the same part.
    """
    parts: dict[str, InputFile] = {}
    for found, file in match_files(files, pattern, report):
        groups = found.groupdict()
        name = groups["part"].replace("/", ".")
        name = PART_NAMES.get(name.lower(), name)
        if "fold" in groups:
            name = f"fold{int(groups['fold'])}.{name}"
        if name in parts:
            raise ValueError(Errors.E704.format(part=name, first=parts[name].label, second=file.label))
        parts[name] = file
    return parts


def check_folds(parts: dict[str, InputFile], folds: range, wanted: tuple[str, ...]) -> None:
    """Check that no fold is missing: the average would change silently.

    parts (dict[str, InputFile]): The files by part.
    folds (range): The numbers of the folds that the corpus has.
    wanted (tuple[str, ...]): The parts that each fold has to have.
    RAISES (ValueError): If a file is missing.
    """
    missing = [f"fold{fold}.{part}" for fold in folds for part in wanted if f"fold{fold}.{part}" not in parts]
    if missing:
        raise ValueError(Errors.E705.format(missing=", ".join(missing), found=", ".join(parts)))
