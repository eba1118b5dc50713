"""The systems that are compared, as a config file lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from thinc.api import Config

from ...errors import Errors

# What each kind of system may be given besides, with the value where it isn't.
ENCODER_OPTIONS: dict[str, Any] = {
    "encoder": "",
    "similarity": "cosine",
    "pooling": None,
    "max_length": None,
    "lower_case": None,
    "pad_to_length": None,
    "attention_mask": None,
}
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"lower_case": True},
    "tfidf": {},
    "encoder": ENCODER_OPTIONS,
    "linker": {"encoder": ""},
    "biosyn": {"model": ""},
    "word_vectors": {"vectors": ""},
    "backoff": {"over": ""},
}


@dataclass(frozen=True)
class SystemSpecification:
    """A system to compare.

    name (str): Its name in files.
    kind (str): What it is, of `KINDS`.
    title (str): Its name in reports.
    description (str): What a reader has to know about it.
    published (str): The system of the literature whose figures stand beside; empty for none.
    group (str): Systems of one group differ in their seed only, and are averaged; its own name if it is alone.
    seed (Optional[int]): The seed of its training.
    tasks (List[str]): Patterns of the tasks that it is measured on, such as "ncbi_disease.*".
    options (dict): What its kind is given besides.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    published: str = ""
    group: str = ""
    seed: int | None = None
    tasks: list[str] = field(default_factory=lambda: ["*"])
    options: dict[str, Any] = field(default_factory=dict)

    def is_for(self, task: str) -> bool:
        """Tell whether it is measured on a task.

        task (str): The name of the task: that of the corpus, a dot, and that of the protocol.
        RETURNS (bool): Whether it is.
        """
        return any(fnmatchcase(task, pattern) for pattern in self.tasks)


def read_systems(path: str | Path) -> dict[str, SystemSpecification]:
    """Read which systems to compare.

    path (str | Path): A config file with a section [systems.<name>] for each: `kind`, and what else
        `SystemSpecification` and its kind have.
    RETURNS (Dict[str, SystemSpecification]): The systems by name, in the order of the file.
    RAISES (OSError): If there is no such file.
    RAISES (ValueError): If a section is malformed.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    sections = Config().from_disk(path).get("systems", {})
    if not sections:
        raise ValueError(Errors.E751.format(path=path, section="systems", reason="it is missing or empty"))
    systems = {}
    for name, section in sections.items():
        try:
            systems[name] = _read_section(name, section)
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=error)) from error
    titles: dict[str, str] = {}
    for name, system in systems.items():
        if titles.setdefault(system.title, system.group) != system.group:
            reason = f"another system is called {system.title!r} as well"
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=reason))
        over = system.options.get("over")
        if system.kind == "backoff" and (over not in systems or systems[over].kind == "backoff"):
            reason = f"over = {over!r} is no other system of the file"
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=reason))
    return systems


def _read_section(name: str, section: dict[str, Any]) -> SystemSpecification:
    kind = section["kind"]
    if kind not in KINDS:
        raise ValueError(Errors.E620.format(what="kind", value=kind, allowed=", ".join(KINDS)))
    options = {key: section.get(key, default) for key, default in KINDS[kind].items()}
    values = {key: value for key, value in section.items() if key not in options}
    system = SystemSpecification(name=name, options=options, **values)
    return SystemSpecification(**{**vars(system), "title": system.title or name, "group": system.group or name})
