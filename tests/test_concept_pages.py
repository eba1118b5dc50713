"""Addresses of concepts' pages by the form of their ids."""

import pytest

from spacy_sapbert.concept_pages import ConceptPages


@pytest.mark.parametrize(
    "concept_id, address",
    [
        ("C0036572", "https://uts.nlm.nih.gov/uts/umls/concept/C0036572"),
        ("UMLS:C0036572", "https://uts.nlm.nih.gov/uts/umls/concept/C0036572"),
        ("HP:0001250", "http://purl.obolibrary.org/obo/HP_0001250"),
        ("HPO:HP:0001250", "http://purl.obolibrary.org/obo/HP_0001250"),
        ("ncbitaxon:9606", "http://purl.obolibrary.org/obo/NCBITaxon_9606"),
        ("NCIT:C3020", "http://purl.obolibrary.org/obo/NCIT_C3020"),
        ("MESH:D012640", "https://meshb.nlm.nih.gov/record/ui?ui=D012640"),
        ("MSH:D012640", "https://meshb.nlm.nih.gov/record/ui?ui=D012640"),
        ("OMIM:154700", "https://www.omim.org/entry/154700"),
        ("OMIMPS:154700", "https://www.omim.org/phenotypicSeries/PS154700"),
        ("Orphanet:558", "https://www.orpha.net/en/disease/detail/558"),
        ("SNOMEDCT_US:91175000", "http://snomed.info/id/91175000"),
        *((no_page, "#") for no_page in ("LOCAL:7", "C003657", "NIL", "", None, "HP:")),
    ],
)
def test_a_page_is_found_by_the_form_of_the_id(concept_id, address):
    assert ConceptPages().format(concept_id) == address


def test_a_source_stands_for_a_prefix_and_a_template_replaces_all_pages():
    assert ConceptPages(source="MSH").format("D012640") == "https://meshb.nlm.nih.gov/record/ui?ui=D012640"
    assert ConceptPages(source="HPO").format("HP:0001250") == "http://purl.obolibrary.org/obo/HP_0001250"
    assert ConceptPages(source="LOCAL").format("C0036572") == "#"
    pages = ConceptPages("https://example.org/{}/", source="MSH")
    assert pages.format("LOCAL:7") == "https://example.org/LOCAL:7/"
    assert pages.format(None) == pages.format("") == "#"


@pytest.mark.parametrize("pages", [ConceptPages(), ConceptPages("https://example.org/{}")])
def test_an_id_cannot_leave_the_attribute_of_a_link(pages):
    address = pages.format('HP:1" onclick="x" <b>&\ud83d')
    assert address.startswith(("http://purl.obolibrary.org/obo/HP_1%22", "https://example.org/HP:1%22"))
    assert not set(address) & set("\"'<>& ")
