"""The systems that codes belong to, as FHIR names them: one URI for each.

The URIs are those of HL7's list of external code systems (https://terminology.hl7.org), and of OMIM itself, which the
list lacks.
"""

from __future__ import annotations

from typing import NamedTuple

from ..terminology.codes import Key, equal_prefix, make_key


class CodeSystem(NamedTuple):
    """A system of codes.

    uri (str): Its URI in FHIR.
    prefix (str): What its codes begin with wherever they are written: "HP:" in "HP:0001250".
    """

    uri: str
    prefix: str = ""


# By the abbreviation of the source in UMLS, or else by the prefix of its ids, in capital letters.
CODE_SYSTEMS = {
    "ATC": CodeSystem("http://www.whocc.no/atc"),
    "CPT": CodeSystem("http://www.ama-assn.org/go/cpt"),
    "CVX": CodeSystem("http://hl7.org/fhir/sid/cvx"),
    "HGNC": CodeSystem("http://www.genenames.org", "HGNC:"),
    "HP": CodeSystem("http://human-phenotype-ontology.org", "HP:"),
    "ICD-O": CodeSystem("http://terminology.hl7.org/CodeSystem/icd-o-3"),
    "ICD10": CodeSystem("http://hl7.org/fhir/sid/icd-10"),
    "ICD10CM": CodeSystem("http://hl7.org/fhir/sid/icd-10-cm"),
    "ICD10PCS": CodeSystem("http://www.cms.gov/Medicare/Coding/ICD10"),
    "ICD9CM": CodeSystem("http://hl7.org/fhir/sid/icd-9-cm"),
    "LNC": CodeSystem("http://loinc.org"),
    "MDR": CodeSystem("https://www.meddra.org"),
    "MED-RT": CodeSystem("http://va.gov/terminology/medrt"),
    "MIM": CodeSystem("https://www.omim.org"),
    "MONDO": CodeSystem("http://purl.obolibrary.org/obo/mondo.owl", "MONDO:"),
    "MSH": CodeSystem("https://www.nlm.nih.gov/mesh"),
    "NCI": CodeSystem("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl"),
    "ORPHANET": CodeSystem("http://www.orpha.net"),
    "RXNORM": CodeSystem("http://www.nlm.nih.gov/research/umls/rxnorm"),
    "SNOMEDCT_US": CodeSystem("http://snomed.info/sct"),
    "UMLS": CodeSystem("http://www.nlm.nih.gov/research/umls"),
    "UNII": CodeSystem("http://fdasis.nlm.nih.gov"),
}
# How ontologies write these sources in cross-references.
OTHER_NAMES = {
    "ICD-10": "ICD10",
    "ICD-10-CM": "ICD10CM",
    "ICD10WHO": "ICD10",
    "ICD9": "ICD9CM",
    "LOINC": "LNC",
    "MEDRT": "MED-RT",
    "SNOMED": "SNOMEDCT_US",
}


def normalize_source(source: str) -> str:
    """Find the name of a source in `CODE_SYSTEMS`.

    source (str): The prefix of a code or the name of a source, such as "MESH" or "HPO".
    RETURNS (str): The name, such as "MSH"; of an unknown source, its own in capital letters.
    """
    name = equal_prefix(source)
    return OTHER_NAMES.get(name, name)


def split_code(code: str) -> Key | None:
    """Take the source off a code.

    code (str): The code with its source, such as "MESH:D003924", or a CUI.
    RETURNS (Key | None): The source as in `CODE_SYSTEMS` and the code without a prefix; None if it has no prefix.
    """
    key = make_key(code)
    return None if key is None else (normalize_source(key[0]), key[1])
