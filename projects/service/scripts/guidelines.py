"""The guidelines of the annotators: a Markdown file, read into a tree of a few kinds of nodes, of which the page makes
elements. HTML in it stays text."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from starlette.exceptions import HTTPException
from worker import Worker
from workspace import Who, Workspace

MAX_BYTES = 500_000
# The file in the folder of the service.
FILE = "guidelines.md"
TAGS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "em": "em",
    "strong": "strong",
    "hardbreak": "br",
    "hr": "hr",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
# The page's own headings are above those of the guidelines.
ABOVE = 2
Node = dict[str, Any] | str


def parse_guidelines(content: str) -> list[Node]:
    """Parse Markdown.

    content (str): CommonMark, and tables.
    RETURNS (list[Node]): Strings, and nodes with a `tag`, their `children`, a link's `href` and a list's `start`.
    """
    # Whoever nests lists and quotes more deeply loses what is in them.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100}).enable("table").disable("image")
    return _list_children(SyntaxTreeNode(parser.parse(content)))


def _list_children(node: SyntaxTreeNode) -> list[Node]:
    return [made for child in node.children for made in _convert(child)]


def _convert(node: SyntaxTreeNode) -> list[Node]:
    """Convert a node; what has no tag of its own gives its children."""
    if node.type in ("text", "text_special"):
        return [node.content]
    if node.type == "softbreak":
        return ["\n"]
    if node.type == "code_inline":
        return [_make("code", [node.content])]
    if node.type in ("fence", "code_block"):
        return [_make("pre", [_make("code", [node.content])])]
    children = _list_children(node)
    if node.type == "heading":
        return [_make(f"h{min(6, ABOVE + int(node.tag[1]))}", children)]
    if node.type == "link":
        href = str(node.attrs.get("href", ""))
        # A link to a file beside the guidelines would lead nowhere.
        is_web = href.lower().startswith(("https://", "http://"))
        return [{**_make("a", children), "href": href}] if is_web else children
    if node.type == "ordered_list":
        return [{**_make("ol", children), "start": int(node.attrs.get("start", 1))}]
    # The paragraphs of a list whose items stand close together are hidden.
    is_hidden = node.type == "paragraph" and node.hidden
    return [_make(TAGS[node.type], children)] if node.type in TAGS and not is_hidden else children


def _make(tag: str, children: list[Node]) -> dict[str, Any]:
    return {"tag": tag, "children": children}


@lru_cache(maxsize=1)
def _read(path: Path, changed: tuple[int, int]) -> list[Node]:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise HTTPException(413, f"The guidelines have more than {MAX_BYTES:,} bytes. Shorten {path.name}.")
    try:
        return parse_guidelines(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise HTTPException(
            500, f"The guidelines are not UTF-8: byte {error.start:,} of {path.name}. Save the file as UTF-8."
        ) from None


def find_guidelines(workspace: Workspace, file: str | None) -> Path | None:
    """Find the file of the guidelines; None if there are none."""
    if file is not None:
        return Path(file)
    path = workspace.folder and workspace.folder / FILE
    return path if path and path.is_file() else None


def add_guidelines(app: FastAPI, worker: Worker, workspace: Workspace) -> None:
    """Add the request for the guidelines. The file is read again when it has changed."""
    named = worker.settings.guidelines
    if named is not None and not Path(named).is_file():
        raise ValueError(f"The file of the guidelines does not exist: {named}. Check `--guidelines`.")

    @app.get("/guidelines")
    def guidelines(who: Who) -> dict[str, Any]:
        path = find_guidelines(workspace, named)
        if path is None:
            return {"exists": False, "nodes": []}
        try:
            status = os.stat(path)
            return {"exists": True, "nodes": _read(path, (status.st_mtime_ns, status.st_size))}
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise HTTPException(500, f"The guidelines can't be read: {path.name}: {reason}.") from error
