"""The guidelines of the service: Markdown as a tree of allowed nodes, HTML as text, and the file's changes."""

import json
from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import import_scripts

with import_scripts("service"):
    import guidelines
    import limits
    import serve as service

TAGS = {*guidelines.TAGS.values(), *(f"h{level}" for level in range(3, 7)), "a", "ol", "pre", "code"}


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


@pytest.fixture
def start(nlp):
    """Return a function that starts a service with some settings."""
    with ExitStack() as stack:

        def start(**settings):
            app = service.make_app(nlp, limits.ServiceSettings(**settings))
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield start


def write(nodes):
    """Write nodes as a line, such as `p[a em[b]]`."""
    return "".join(node if isinstance(node, str) else f"{node['tag']}[{write(node['children'])}]" for node in nodes)


CASES = [
    ("# One\n\ntwo *three* **four**", "h3[One]p[two em[three] strong[four]]"),
    ("###### deep", "h6[deep]"),
    ("- a\n- b\n  1. c", "ul[li[a]li[bol[li[c]]]]"),
    ("- a\n\n- b", "ul[li[p[a]]li[p[b]]]"),
    ("`<b>` \\* &amp; a\nb  \nc", "p[code[<b>] * & a\nbbr[]c]"),
    ("```python\nx < 1\n```", "pre[code[x < 1\n]]"),
    ("> said\n\n---", "blockquote[p[said]]hr[]"),
    ("| a | b |\n|---|--:|\n| c | d |", "table[thead[tr[th[a]th[b]]]tbody[tr[td[c]td[d]]]]"),
    ("[a](https://example.org/?q=1&r=2 'title') <http://example.org>", "p[a[a] a[http://example.org]]"),
    # What could run something, or load something from elsewhere, stays words.
    ("<script>alert(1)</script>", "p[<script>alert(1)</script>]"),
    ("a <img src=x onerror=alert(1)> b", "p[a <img src=x onerror=alert(1)> b]"),
    ("[a](javascript:alert(1)) [b](data:text/html,x)", "p[[a](javascript:alert(1)) [b](data:text/html,x)]"),
    ("[c](other.md) [d](//example.org)", "p[c d]"),
    ("![picture](https://example.org/p.png)", "p[!a[picture]]"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize("content, expected", CASES)
def test_markdown_becomes_nodes_and_html_stays_text(content, expected):
    assert write(guidelines.parse_guidelines(content)) == expected


@given(st.text("<>[]()!#*_`|-\n\\ a1.:/jhtps\"'&;", max_size=80) | st.text(max_size=80))
def test_whatever_is_written_becomes_allowed_nodes_only(content):
    def check(node):
        if isinstance(node, str):
            return
        assert node["tag"] in TAGS and set(node) <= {"tag", "children", "href", "start"}
        assert node.get("href", "https://").lower().startswith(("http://", "https://"))
        for child in node["children"]:
            check(child)

    nodes = guidelines.parse_guidelines(content)
    for node in nodes:
        check(node)
    json.dumps(nodes)


def test_a_list_keeps_its_first_number_and_a_link_its_address():
    numbered, linked = guidelines.parse_guidelines("3. c\n\n[a](https://example.org/?q=1&r=2)")
    assert numbered["start"] == 3
    assert linked["children"][0]["href"] == "https://example.org/?q=1&r=2"


@pytest.mark.parametrize("is_named", [False, True])
def test_the_file_is_read_again_when_it_changes(start, tmp_path, is_named):
    path = tmp_path / ("rules of ours.md" if is_named else "guidelines.md")
    path.write_text("one", encoding="utf8")
    client = start(guidelines=str(path)) if is_named else start(folder=str(tmp_path))
    assert client.get("/guidelines").json() == {"exists": True, "nodes": [{"tag": "p", "children": ["one"]}]}
    path.write_text("\ufeffanother", encoding="utf8")
    assert write(client.get("/guidelines").json()["nodes"]) == "p[another]"


def test_without_a_file_there_are_none_until_one_is_there(start, tmp_path):
    assert start().get("/guidelines").json() == {"exists": False, "nodes": []}
    client = start(folder=str(tmp_path))
    assert client.get("/guidelines").json() == {"exists": False, "nodes": []}
    (tmp_path / "guidelines.md").write_text("now", encoding="utf8")
    assert write(client.get("/guidelines").json()["nodes"]) == "p[now]"


BAD = [
    (b"\xff", 500, "The guidelines are not UTF-8: byte 0 of g.md. Save the file as UTF-8."),
    (b"a" * (guidelines.MAX_BYTES + 1), 413, "The guidelines have more than 500,000 bytes. Shorten g.md."),
    (None, 500, "The guidelines can't be read: g.md: No such file or directory."),
]


@pytest.mark.parametrize("content, status, error", BAD)
def test_a_file_that_can_not_be_shown_is_an_error_that_says_why(start, tmp_path, content, status, error):
    path = tmp_path / "g.md"
    path.touch()
    client = start(guidelines=str(path))
    path.unlink() if content is None else path.write_bytes(content)
    answer = client.get("/guidelines")
    assert (answer.status_code, answer.json()) == (status, {"error": error})


def test_a_file_that_is_named_has_to_be_there_at_the_start(start, tmp_path):
    with pytest.raises(ValueError, match="does not exist: .*Check `--guidelines`"):
        start(guidelines=str(tmp_path / "none.md"))
