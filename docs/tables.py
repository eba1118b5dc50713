"""What the build adds to the site: docstrings, and tables of settings and of the papers' tables and figures.

On a code host, docs/reference.md is a list of links to the code. The build replaces each of these, and a comment in
the place of a paper's table:

    - [function](../package/module.py)
    - Settings: [Class](../package/module.py)
    <!-- papers: sapbert -->

`python docs/tables.py package.module.Class` prints a table of settings in a checkout.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from spacy_sapbert.settings import Settings, list_settings

# `training` and `projects` are not installed: they are imported from the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
LINK = re.compile(r"^- (Settings: )?\[(\w+)\]\(\.\./([\w/]+?)(?:/__init__)?\.py\)$", re.MULTILINE)
PAPER = re.compile(r"^<!-- papers: (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Fill in the tables of a page, and tell mkdocstrings whose docstrings to show; MkDocs calls this hook."""
    return PAPER.sub(lambda mark: format_paper(mark[1]), LINK.sub(_show, markdown))


def _show(link: re.Match[str]) -> str:
    path = f"{link[3].replace('/', '.')}.{link[2]}"
    return f"\n{format_settings(path)}\n" if link[1] else f"\n::: {path}\n"


def format_settings(path: str) -> str:
    """Write the settings of a class, given by its path, as a table in Markdown."""
    module, _, name = path.rpartition(".")
    settings: type[Settings] = getattr(import_module(module), name)
    lines = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for row in list_settings(settings):
        default = f"`{row.default}`" if row.default else "must be given"
        cells = (f"`{row.name}`", row.allowed, default, row.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def format_paper(source: str) -> str:
    """Write the list of a paper's tables and figures, with their commands, as a table in Markdown."""
    from training.markup import NOTHING
    from training.report.literature import COLUMNS, list_paper_rows

    rows = list_paper_rows(source)
    rows = [[*row[:-1], row[-1] if row[-1] == NOTHING else f"`{row[-1]}`"] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [COLUMNS, ["---"] * len(COLUMNS), *rows])


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(map(format_settings, sys.argv[1:])) + "\n")
