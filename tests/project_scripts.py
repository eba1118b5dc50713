"""Import the scripts of a project, whose names several projects share, and forget them afterwards."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
