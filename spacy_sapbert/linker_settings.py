"""The settings of `sapbert_linker`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from .annotations import ATTRIBUTE, check_attribute
from .candidates import AbbreviationForms
from .retrieval.filters import ConceptFilter
from .settings import Settings, Strings


def _check_template(url: str) -> str:
    if url.count("{}") != 1 or "{" in url.replace("{}", "") or not url.startswith(("http://", "https://")):
        raise ValueError("an address that starts with http:// or https://, with one {} where the concept's id goes")
    return url


class LinkerSettings(Settings):
    """What a linker proposes for which mentions, and how. All but `cache_size` can be changed on a loaded linker."""

    k: int = Field(default=5, ge=1, description="Concepts proposed for a mention; more where the last ones tie.")
    threshold: float | None = Field(
        default=None,
        ge=-1,
        le=1,
        description="Score that the best candidate needs for `ent.kb_id_`; the candidates are shown all the same. Null "
        "for the threshold of the bundled encoder, and for none with any other encoder.",
    )
    set_nil: bool = Field(
        default=False,
        description='Set `ent.kb_id_` to "NIL" where no candidate reaches the threshold, instead of leaving it empty.',
    )
    set_kb_id: bool = Field(
        default=True,
        description="Set `ent.kb_id_`; false for a further linker of the same mentions, which then have its candidates "
        "only.",
    )
    overwrite: bool = Field(default=True, description="Replace ids that are set already.")
    link_labels: Strings | None = Field(default=None, description="Entity labels to link; null for all.")
    skip_labels: Strings = Field(default=(), description="Entity labels not to link.")
    attribute: Annotated[str, AfterValidator(check_attribute)] = Field(
        default=ATTRIBUTE,
        description="Extension attribute of spans that shows the candidates; each linker of the same mentions needs "
        "its own.",
    )
    spans_key: str | None = Field(
        default=None, description="A group in `doc.spans` to link as well. Its spans may overlap."
    )
    abbreviations: AbbreviationForms = Field(
        default="both", description="Forms to look up for abbreviations that the document defines."
    )
    types: Strings | None = Field(default=None, description="Semantic types of the concepts to link to; null for all.")
    sources: Strings | None = Field(default=None, description="Sources whose names may match; null for all.")
    languages: Strings | None = Field(default=None, description="Languages whose names may match; null for all.")
    ids: Strings | None = Field(default=None, description="Ids of the concepts to link to; null for all.")
    below: Strings | None = Field(
        default=None,
        description='Ids of concepts, to link to these and their descendants only, as ["HP:0000118"] for HPO\'s '
        "phenotypes; null for all.",
    )
    label_types: dict[str, Strings] = Field(
        default={},
        description="For entity labels: the semantic types of the concepts to link to, in addition to `types`.",
    )
    output_source: str | None = Field(
        default=None,
        min_length=1,
        description='A source whose codes become the ids, such as "MSH"; null for the concepts\' own ids.',
    )
    batch_size: int = Field(default=256, ge=1, description="Strings in one forward pass of the encoder.")
    cache_size: int = Field(default=20_000, ge=0, description="Distinct mentions whose candidates are remembered.")
    use_gold_ents: bool = Field(
        default=True, description="Link the gold entities when scoring, as spaCy's `entity_linker` does."
    )
    kb_url: Annotated[str, AfterValidator(_check_template)] | None = Field(
        default=None,
        description="Address of a concept's page with {} for its id; null to go by the form of the id "
        "(`linker.kb_url_template`).",
    )

    def make_filter(self) -> ConceptFilter:
        """Make the filter for mentions of any label. A concept without a code in the output source can't be written."""
        return ConceptFilter(
            self.types, self.sources, self.languages, self.ids, coded_in=self.output_source, below=self.below
        )
