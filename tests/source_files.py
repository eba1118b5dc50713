"""The project's own source files, without what its commands have written."""

from pathlib import Path

ROOT = Path(__file__).parent.parent


def list_sources(package, root=ROOT):
    """List the Python files of a package. Below `projects`, demos leave whole environments in output folders."""
    return sorted((root / package).glob("*/scripts/*.py" if package == "projects" else "**/*.py"))
