"""Code blocks of the README and the pages of the site, and how each kind is checked.

A comment before a block says what else is to know of it:

    <!-- not run: REASON -->    it needs what tests do not have; its syntax and its names are checked
    <!-- run -->                commands that are run, not only looked up
    <!-- output -->             what the Python block before it prints

A title (```ini title="output/hpo.cfg") names the file that the reader saves the block in.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>not run: [^>]+|run|output) -->\n+)?"
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A code block."""

    page: str
    line: int
    language: str
    # The file that the reader saves it in.
    title: str | None
    # What the comment before it says.
    note: str
    text: str

    @property
    def is_run(self) -> bool:
        """Whether tests have all that it needs."""
        return not self.note.startswith("not run")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(path: Path) -> list[Block]:
    """Read the code blocks of a page, in its order."""
    text = path.read_text(encoding="utf8")
    blocks = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        kind = match["language"], match["title"], match["note"] or ""
        blocks.append(Block(path.name, line, *kind, match["text"]))
    return blocks


def check_names(block: Block) -> None:
    """Check a Python block that can't be run: its syntax, and that what it imports is there."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{block}: {node.module} has no {name.name}"
        elif isinstance(node, ast.Import):
            for name in node.names:
                import_module(name.name)
