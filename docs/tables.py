"""Tables in the documentation, made from what they describe: classes of settings, and the list of the papers' tables.

A page has a table between two comments:

    <!-- settings: package.module.Class -->
    <!-- end settings -->

    <!-- papers: sapbert -->
    <!-- end papers -->

`python docs/tables.py --write` fills them in, `python docs/tables.py --check` fails if a table is stale.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import typer

from spacy_sapbert.settings import Settings, list_settings

DOCS = Path(__file__).resolve().parent
# The package `training` is not installed: it is imported from the repository.
sys.path.insert(0, str(DOCS.parent))
TABLE = re.compile(r"(<!-- settings: (\S+) -->\n).*?(<!-- end settings -->)", re.DOTALL)
PAPERS = re.compile(r"(<!-- papers: (\S+) -->\n).*?(<!-- end papers -->)", re.DOTALL)


def fill_tables(text: str) -> str:
    """Fill in the tables of a page.

    text (str): The page, Markdown.
    RETURNS (str): The page with current tables.
    """

    def fill(match: re.Match[str]) -> str:
        module, _, name = match[2].rpartition(".")
        return f"{match[1]}\n{format_table(getattr(import_module(module), name))}\n{match[3]}"

    def fill_paper(match: re.Match[str]) -> str:
        return f"{match[1]}\n{format_paper(match[2])}\n{match[3]}"

    return PAPERS.sub(fill_paper, TABLE.sub(fill, text))


def format_table(settings: type[Settings]) -> str:
    """Write a table of settings in Markdown."""
    lines = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for row in list_settings(settings):
        default = f"`{row.default}`" if row.default else "must be given"
        cells = (f"`{row.name}`", row.allowed, default, row.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def format_paper(source: str) -> str:
    """Write the table of a paper's tables and figures as Markdown.

    source (str): The paper, such as "sapbert".
    RETURNS (str): The table.
    """
    from training.markup import NOTHING
    from training.report.papers import COLUMNS, list_rows

    rows = list_rows(source)
    rows = [[*row[:-1], row[-1] if row[-1] == NOTHING else f"`{row[-1]}`"] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [COLUMNS, ["---"] * len(COLUMNS), *rows]) + "\n"


def find_stale_pages(folder: Path = DOCS) -> dict[Path, str]:
    """Find pages with tables that differ from what they describe.

    folder (Path): The folder of the pages.
    RETURNS (dict[Path, str]): The current text of each stale page.
    """
    pages = {path: path.read_text(encoding="utf8") for path in sorted(folder.glob("*.md"))}
    filled = {path: fill_tables(text) for path, text in pages.items()}
    return {path: text for path, text in filled.items() if text != pages[path]}


def main(write: bool = typer.Option(False, "--write/--check", help="Rewrite stale tables, or fail on them")) -> None:
    """Keep the tables current."""
    stale = find_stale_pages()
    for path, text in stale.items():
        if write:
            path.write_text(text, encoding="utf8")
        typer.echo(f"{path.name}: {'written' if write else 'stale'}")
    if stale and not write:
        typer.echo("Run: python docs/tables.py --write")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
