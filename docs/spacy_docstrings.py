"""Docstrings in spaCy's form, in the form that mkdocstrings reads: an extension of griffe for the API reference."""

import re
from typing import Any

import griffe

# A line such as "k (int): Concepts proposed for a mention." or "RETURNS (str): Markdown."
FIELD = re.compile(r"(?P<name>\*{0,2}[\w, ]+) \((?P<type>.+?)\): (?P<meaning>.+)")
SECTIONS = {"RETURNS": "Returns:", "YIELDS": "Yields:", "RAISES": "Raises:"}


class SpacyDocstrings(griffe.Extension):
    """Rewrite every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object.

        obj (griffe.Object): A module, class, function or attribute.
        """
        if obj.docstring is not None:
            obj.docstring.value = rewrite(obj.docstring.value)


def rewrite(text: str) -> str:
    """Turn the fields of a docstring into sections.

    text (str): A docstring in spaCy's form.
    RETURNS (str): The same in Google's form.
    """
    lines: list[str] = []
    section = None
    for line in text.splitlines():
        field = FIELD.fullmatch(line)
        if field is None:
            # What is indented below a field goes on with it.
            lines.append(f"    {line}" if section and line.startswith(" ") else line)
            section = section if line.startswith(" ") else None
            continue
        name, type_, meaning = field.group("name", "type", "meaning")
        title = SECTIONS.get(name, "Args:")
        if title != section:
            lines += ["", title]
            section = title
        lines.append(f"    {type_}: {meaning}" if name in SECTIONS else f"    {name} ({type_}): {meaning}")
    return "\n".join(lines)
