"""Tables of settings in the documentation, made from the classes of settings.

A page has a table between two comments:

    <!-- settings: package.module.Class -->
    <!-- end settings -->

`python docs/tables.py --write` fills them in, `python docs/tables.py --check` fails if a table is stale.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import typer

from spacy_sapbert.settings import format_table

DOCS = Path(__file__).resolve().parent
# The package `training` is not installed: it is imported from the repository.
sys.path.insert(0, str(DOCS.parent))
TABLE = re.compile(r"(<!-- settings: (\S+) -->\n).*?(<!-- end settings -->)", re.DOTALL)


def fill_tables(text: str) -> str:
    """Fill in the tables of a page.

    text (str): The page, Markdown.
    RETURNS (str): The page with current tables.
    """

    def fill(match: re.Match[str]) -> str:
        module, _, name = match[2].rpartition(".")
        return f"{match[1]}\n{format_table(getattr(import_module(module), name))}\n{match[3]}"

    return TABLE.sub(fill, text)


def find_stale_pages(folder: Path = DOCS) -> dict[Path, str]:
    """Find pages with tables that differ from the classes of settings.

    folder (Path): The folder of the pages.
    RETURNS (dict[Path, str]): The current text of each stale page.
    """
    pages = {path: path.read_text(encoding="utf8") for path in sorted(folder.glob("*.md"))}
    filled = {path: fill_tables(text) for path, text in pages.items()}
    return {path: text for path, text in filled.items() if text != pages[path]}


def main(write: bool = typer.Option(False, "--write/--check", help="Rewrite stale tables, or fail on them")) -> None:
    """Keep the tables of settings current."""
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
