"""What the commands of a project run, and its scripts, which are forgotten after an import, as projects share names."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from weasel.util import load_project_config


def list_lines(project: Path, command: str, **variables: Any) -> list[list[str]]:
    """List the words of each line that a command or a workflow of a project runs, given some of its variables."""
    config = load_project_config(project, overrides={f"vars.{key}": value for key, value in variables.items()})
    scripts = {entry["name"]: entry["script"] for entry in config["commands"]}
    return [shlex.split(line) for step in config["workflows"].get(command, [command]) for line in scripts[step]]


def find_scripts(project: str) -> Path:
    """Find the folder of a project's scripts."""
    return Path(__file__).parents[1] / "projects" / project / "scripts"


@contextmanager
def import_scripts(project: str) -> Iterator[Path]:
    """Make the scripts of a project importable for a while, and yield their folder."""
    folder, before, modules = find_scripts(project), list(sys.path), set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path[:] = before
        for name in set(sys.modules) - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == folder:
                del sys.modules[name]


def install_multilingual(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the encoder for ten languages as its package does."""
    package = folder / "site" / "spacy_sapbert_multilingual"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "encoder").symlink_to(Path(__file__).parents[1] / "projects" / "multilingual_encoder" / "encoder")
    monkeypatch.syspath_prepend(package.parent)
