"""No module imports itself by way of others, imports for type checking and inside of functions included."""

import ast

import pytest
from source_files import ROOT, list_sources


def find_modules(package, root=ROOT):
    """Map the names of a package's modules to their files."""
    modules = {}
    for path in list_sources(package, root):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def find_imports(name, path, modules):
    """Find the modules of the same package that a module imports."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            # What is imported from a package is one of its modules, or a name that its `__init__` has.
            found |= {
                f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules else source for alias in node.names
            }
    return (found & set(modules)) - {name}


def find_circles(graph):
    """Find the strongly connected components of more than one module (Tarjan)."""
    number, low, stack, circles = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            members = [stack.pop()]
            while members[-1] != node:
                members.append(stack.pop())
            if len(members) > 1:
                circles.append(sorted(members))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return circles


def test_a_circle_is_found_however_it_is_closed(tmp_path):
    package = tmp_path / "p"
    (package / "q").mkdir(parents=True)
    texts = {
        "__init__": "",
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B\n",
        "b": "def f():\n    from .q import c\n",
        "q/__init__": "from ..d import D\n",
        "q/c": "import p.a\n",
        "d": "from .q import C\n",
        "e": "from . import a\nfrom .q.c import C\n",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    modules = find_modules("p", tmp_path)
    graph = {name: find_imports(name, path, modules) for name, path in modules.items()}
    assert graph["p.e"] == {"p.a", "p.q.c"}
    assert sorted(find_circles(graph)) == [["p.a", "p.b", "p.q.c"], ["p.d", "p.q"]]


@pytest.mark.parametrize("package", ["spacy_sapbert", "training", "projects"])
def test_modules_do_not_import_each_other_in_circles(package):
    modules = find_modules(package)
    assert modules
    graph = {name: find_imports(name, path, modules) for name, path in modules.items()}
    assert find_circles(graph) == []
