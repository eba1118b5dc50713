"""Find the web page of a concept by the form of its id."""

from pathlib import Path
from urllib.parse import quote

from .terminology.codes import make_key

# Pages by the normalized prefix of an id, {} being the rest of the id. CUIs have the prefix UMLS; ontologies of the OBO
# Foundry have persistent addresses.
_LINES = Path(__file__).with_name("concept_pages.txt").read_text(encoding="utf8").splitlines()
PAGES: dict[str, str] = dict(line.split("\t") for line in _LINES)
# What displaCy writes for entities without a page.
NO_PAGE = "#"


class ConceptPages:
    """The addresses of concepts' pages, in place of a template in displaCy's option `kb_url_template`."""

    # `template` is the address of all pages, with {} for the id; without it, they go by the form of the id. `source` is
    # the source of ids without a prefix, such as "MSH".
    def __init__(self, template: str | None = None, source: str | None = None) -> None:
        self.template, self.source = template, source

    def format(self, concept_id: str | None) -> str:
        """Find the page of a concept; "#" if there is none, or the form of its id is unknown."""
        if not concept_id:
            return NO_PAGE
        if self.template is not None:
            return self.template.format(_quote(concept_id))
        prefix, local = make_key(f"{self.source}:{concept_id}" if self.source else concept_id) or ("", "")
        return PAGES[prefix].format(_quote(local)) if prefix in PAGES else NO_PAGE


def _quote(text: str) -> str:
    # An id is part of an address, and must not end an attribute in HTML.
    return quote(text, safe=":/", errors="replace")
