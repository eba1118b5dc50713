"""Every message of the catalogues has one code, is raised by its own package, and gets the values that it names."""

import ast
import re
import string
from collections import defaultdict

import pytest
from source_files import ROOT, list_sources

import spacy_sapbert.errors
import training.errors

CATALOGUES = {"spacy_sapbert": spacy_sapbert.errors, "training": training.errors}
CODE = re.compile(r"[EW]\d{3}")


def list_own_messages(package):
    """The messages that a package's own catalogue defines, by code, without the code in front."""
    module = CATALOGUES[package]
    own = [
        kind for kind in (*module.Errors.__mro__, *module.Warnings.__mro__) if kind.__module__.startswith(f"{package}.")
    ]
    texts = {code: text for kind in own for code, text in vars(kind).items()}
    return {code: text for code, text in texts.items() if CODE.fullmatch(code)}


class Uses(ast.NodeVisitor):
    """Where a file names codes, and the keyword arguments of `format` if it calls it at once."""

    def __init__(self, path):
        self.path = path
        self.found = []
        self._formatted = set()

    def visit_Call(self, node):
        target = node.func
        if isinstance(target, ast.Attribute) and target.attr == "format" and self._code(target.value):
            self._formatted.add(target.value)
            keywords = None if any(k.arg is None for k in node.keywords) else {k.arg for k in node.keywords}
            self.found.append((self._code(target.value), self._place(node), keywords))
        self.generic_visit(node)

    def visit_Attribute(self, node):
        if self._code(node) and node not in self._formatted:
            self.found.append((self._code(node), self._place(node), set()))
        self.generic_visit(node)

    def _place(self, node):
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"

    @staticmethod
    def _code(node):
        is_code = isinstance(node, ast.Attribute) and CODE.fullmatch(node.attr) and isinstance(node.value, ast.Name)
        return node.attr if is_code and node.value.id in ("Errors", "Warnings") else None


def find_uses(package):
    found = []
    for path in list_sources(package):
        uses = Uses(path)
        uses.visit(ast.parse(path.read_text(encoding="utf8")))
        found += uses.found
    return found


USES = {package: find_uses(package) for package in ("spacy_sapbert", "training", "projects")}


@pytest.mark.parametrize("package", CATALOGUES)
def test_every_code_is_raised_by_the_package_that_defines_it(package):
    # Training extends the plugin's catalogue: it may raise the plugin's codes, but none that the plugin never raises.
    raised = {code for code, _, _ in USES[package]}
    if package == "training":
        raised |= {code for code, _, _ in USES["projects"]}
    assert sorted(set(list_own_messages(package)) - raised) == []


def test_the_plugin_raises_no_code_of_training():
    own = list_own_messages("spacy_sapbert")
    assert [use for use in USES["spacy_sapbert"] if use[0] not in own] == []


def test_every_code_that_is_raised_is_defined_once():
    plugin, ours = list_own_messages("spacy_sapbert"), list_own_messages("training")
    assert plugin.keys() & ours.keys() == set()
    assert [use for uses in USES.values() for use in uses if use[0] not in plugin | ours] == []


def test_no_two_codes_have_the_same_text():
    codes = defaultdict(list)
    for package in CATALOGUES:
        for code, text in list_own_messages(package).items():
            codes[re.sub(r"{.*?}", "{}", text)].append(code)
    assert [same for same in codes.values() if len(same) > 1] == []


@pytest.mark.parametrize("package", USES)
def test_messages_get_the_values_that_they_name(package):
    messages = {code: text for owner in CATALOGUES for code, text in list_own_messages(owner).items()}
    wrong = []
    for code, place, keywords in USES[package]:
        fields = {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(messages[code]) if field}
        if keywords is not None and keywords != fields:
            wrong.append(f"{place}: {code} has {sorted(fields)}, not {sorted(keywords)}")
    assert wrong == []


def test_the_catalogue_of_the_plugin_stays_short():
    assert len((ROOT / "spacy_sapbert" / "errors.py").read_text(encoding="utf8").splitlines()) <= 350
