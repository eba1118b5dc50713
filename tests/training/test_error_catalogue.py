"""Every message of training's catalogue has one code, is raised, and gets the values that it names."""

import ast
import re
import string
from collections import defaultdict

from source_files import ROOT, list_sources

from training.errors import Errors, Warnings

CODE = re.compile(r"[EW]\d{3}")
# By code, without the code in front.
MESSAGES = {
    code: text
    for kind in (*Errors.__mro__, *Warnings.__mro__)
    for code, text in vars(kind).items()
    if CODE.fullmatch(code)
}


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


USES = find_uses("training") + find_uses("projects")


def test_every_code_is_raised_and_every_code_that_is_raised_is_defined():
    assert MESSAGES.keys() == {code for code, _, _ in USES}


def test_no_two_codes_have_the_same_text():
    codes = defaultdict(list)
    for code, text in MESSAGES.items():
        codes[re.sub(r"{.*?}", "{}", text)].append(code)
    assert [same for same in codes.values() if len(same) > 1] == []


def test_messages_get_the_values_that_they_name():
    wrong = []
    for code, place, keywords in USES:
        fields = {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(MESSAGES[code]) if field}
        if keywords is not None and keywords != fields:
            wrong.append(f"{place}: {code} has {sorted(fields)}, not {sorted(keywords)}")
    assert wrong == []
