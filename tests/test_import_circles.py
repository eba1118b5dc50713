"""No module imports itself by way of others, imports for type checking and inside of functions included."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from source_files import ROOT, list_sources


def read_graph(package, root=ROOT):
    """Map the modules of a package to those of the same package that they import."""
    modules = {}
    for path in list_sources(package, root):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: find_imports(name, path, modules) for name, path in modules.items()}


def find_imports(name, path, modules):
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


@pytest.mark.parametrize(
    "texts, circle",
    [
        ({"a": "if True:\n    from .b import B\n", "b": "def f():\n    from . import a\n"}, {"p.a", "p.b"}),
        ({"q/__init__": "from ..d import D\n", "d": "from .q import C\n", "e": "import p.d"}, {"p.d", "p.q"}),
        ({"q/__init__": "", "q/c": "import p.a\n", "a": "from .q import c\n"}, {"p.a", "p.q.c"}),
    ],
)
def test_a_circle_is_found_however_it_is_closed(tmp_path, texts, circle):
    for name, text in texts.items():
        path = tmp_path / "p" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.raises(CycleError) as caught:
        TopologicalSorter(read_graph("p", tmp_path)).prepare()
    assert {*caught.value.args[1]} == circle


@pytest.mark.parametrize("package", ["spacy_sapbert", "training", "projects"])
def test_modules_do_not_import_each_other_in_circles(package):
    graph = read_graph(package)
    assert graph
    TopologicalSorter(graph).prepare()
