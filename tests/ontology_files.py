"""Small ontologies, written in OBO, obographs JSON, RDF/XML and functional syntax."""

import json
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

OBO = "http://purl.obolibrary.org/obo/"
OIO = "http://www.geneontology.org/formats/oboInOwl#"
OWL = "http://www.w3.org/2002/07/owl#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
LABEL, DEFINITION, REPLACED_BY = f"{RDFS}label", f"{OBO}IAO_0000115", f"{OBO}IAO_0100001"
PREFIXES = {"obo": OBO, "oio": OIO, "owl": OWL, "rdf": RDF, "rdfs": RDFS, "xsd": XSD}
VERSION = f"{OBO}toy/releases/2025-01-16/toy"


@dataclass
class Term:
    id: str
    name: str = ""
    definition: str = ""
    synonyms: list = field(default_factory=list)  # text, scope and type
    xrefs: list = field(default_factory=list)
    alt_ids: list = field(default_factory=list)
    parents: list = field(default_factory=list)
    replaced_by: list = field(default_factory=list)
    consider: list = field(default_factory=list)
    obsolete: bool = False


def to_iri(curie):
    return OBO + curie.replace(":", "_", 1)


def ordered(values):
    """Sort values as OBO files do."""
    return sorted(values, key=lambda value: (str(value).lower(), value) if isinstance(value, str) else sort_key(value))


def sort_key(synonym):
    text, scope, kind = synonym
    return text.lower(), text, scope, kind or ""


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_obo(terms):
    stanzas = ["format-version: 1.2\ndata-version: toy/releases/2025-01-16\nontology: toy"]
    for term in terms:
        lines = ["[Term]", f"id: {term.id}"]
        lines += [f"name: {term.name}"] if term.name else []
        lines += [f"alt_id: {value}" for value in ordered(term.alt_ids)]
        lines += [f"def: {quoted(term.definition)} [PMID:1]"] if term.definition else []
        lines += [f"synonym: {quoted(text)} {scope} {kind or ''} []" for text, scope, kind in ordered(term.synonyms)]
        lines += [f"xref: {value}" for value in ordered(term.xrefs)]
        lines += [f"is_a: {value}" for value in ordered(term.parents)]
        lines += ["is_obsolete: true"] if term.obsolete else []
        lines += [f"replaced_by: {value}" for value in ordered(term.replaced_by)]
        lines += [f"consider: {value}" for value in ordered(term.consider)]
        stanzas.append("\n".join(lines))
    return "\n\n".join([*stanzas, "[Typedef]\nid: part_of\nname: part of\n"])


def list_statements(term):
    """List what annotations say of a term: the property, the value, and the type of a synonym."""
    rows = [(LABEL, term.name, None)] if term.name else []
    rows += [(DEFINITION, term.definition, None)] if term.definition else []
    rows += [(f"{OIO}has{scope.title()}Synonym", text, kind) for text, scope, kind in term.synonyms]
    rows += [(f"{OIO}hasDbXref", value, None) for value in term.xrefs]
    rows += [(f"{OIO}hasAlternativeId", value, None) for value in term.alt_ids]
    return rows


def list_successors(term):
    rows = [(REPLACED_BY, to_iri(value)) for value in term.replaced_by]
    return rows + [(f"{OIO}consider", to_iri(value)) for value in term.consider]


def make_node(term):
    node = {"id": to_iri(term.id), "type": "CLASS", "meta": {}}
    meta = node["meta"]
    if term.name:
        node["lbl"] = term.name
    if term.definition:
        meta["definition"] = {"val": term.definition, "xrefs": ["PMID:1"]}
    properties = [{"pred": f"{OIO}hasAlternativeId", "val": value} for value in term.alt_ids]
    properties += [{"pred": pred, "val": value} for pred, value in list_successors(term)]
    meta["basicPropertyValues"] = [*properties, {"pred": f"{OIO}hasOBONamespace", "val": "toy"}]
    meta["xrefs"] = [{"val": value} for value in term.xrefs]
    meta["subsets"] = [f"{OBO}toy#slim"]
    meta["synonyms"] = [make_synonym(*synonym) for synonym in term.synonyms]
    if term.obsolete:
        meta["deprecated"] = True
    return node


def make_synonym(text, scope, kind):
    synonym = {"pred": f"has{scope.title()}Synonym", "val": text, "xrefs": []}
    return synonym | ({"synonymType": f"{OBO}toy#{kind}"} if kind else {})


def make_graph(terms):
    part_of = {"id": to_iri("BFO:0000050"), "lbl": "part of", "type": "PROPERTY", "propertyType": "OBJECT"}
    edges = [(term.id, parent) for term in terms for parent in term.parents]
    return {
        "id": f"{OBO}toy.json",
        "meta": {"version": f"{VERSION}.json"},
        "nodes": [*map(make_node, terms), part_of],
        "edges": [{"sub": to_iri(term), "pred": "is_a", "obj": to_iri(parent)} for term, parent in edges]
        + [{"sub": to_iri(term.id), "pred": part_of["id"], "obj": to_iri("T:99")} for term in terms],
        "equivalentNodesSets": [{"nodeIds": [to_iri("T:1"), to_iri("T:98")]}],
    }


def write_obographs(terms):
    return json.dumps({"graphs": [make_graph(terms)]}, indent=1)


def write_functional(terms, *more):
    """Write functional syntax. `more` are lines behind the ontology's IRIs, such as imports."""
    lines = [f"Prefix({prefix}:=<{iri}>)" for prefix, iri in PREFIXES.items()]
    lines += ["", f"Ontology(<{OBO}toy.owl>", f"<{VERSION}.owl>", *more]
    lines += [f"Declaration(Class(<{to_iri(term.id)}>))" for term in terms]
    lines += [f"Declaration(ObjectProperty(<{to_iri('BFO:0000050')}>))", '# a comment with a ( and a "']
    for term in terms:
        iri = f"<{to_iri(term.id)}>"
        for property_, value, kind in list_statements(term):
            notes = f"Annotation(oio:hasSynonymType <{OBO}toy#{kind}>) " if kind else ""
            notes += 'Annotation(oio:hasDbXref "PMID:1") ' if property_ == DEFINITION else ""
            lines.append(f"AnnotationAssertion({notes}<{property_}> {iri} {quoted(value)})")
        lines += [f"AnnotationAssertion(<{pred}> {iri} <{value}>)" for pred, value in list_successors(term)]
        lines += [f"SubClassOf({iri} <{to_iri(parent)}>)" for parent in term.parents]
        lines.append(f"SubClassOf({iri} ObjectSomeValuesFrom(obo:BFO_0000050 <{to_iri('T:99')}>))")
        if term.obsolete:
            lines.append(f'AnnotationAssertion(owl:deprecated {iri} "true"^^xsd:boolean)')
    return "\n".join([*lines, ")"]) + "\n"


def write_element(iri, text=None, *, attributes=""):
    prefix, namespace = next(item for item in PREFIXES.items() if iri.startswith(item[1]))
    tag = f"{prefix}:{iri.removeprefix(namespace)}"
    return f"<{tag} {attributes}/>" if text is None else f"<{tag} {attributes}>{escape(text)}</{tag}>"


def write_resource(iri, target):
    return write_element(iri, attributes=f"rdf:resource={quoteattr(target)}")


def write_rdf(terms, *more):
    """Write RDF/XML. `more` are elements in that of the ontology, such as imports."""
    prefixes = " ".join(f"xmlns:{prefix}={quoteattr(iri)}" for prefix, iri in PREFIXES.items())
    version = write_resource(f"{OWL}versionIRI", f"{VERSION}.owl")
    lines = ['<?xml version="1.0"?>', f"<rdf:RDF {prefixes}>", f'<owl:Ontology rdf:about="{OBO}toy.owl">', version]
    lines += [*more, "</owl:Ontology>", f'<owl:ObjectProperty rdf:about="{to_iri("BFO:0000050")}"/>']
    properties = {LABEL, DEFINITION, REPLACED_BY, *(f"{OIO}{name}" for name in ("consider", "hasSynonymType"))}
    properties |= {f"{OIO}{name}" for name in ("hasDbXref", "hasAlternativeId")}
    properties |= {f"{OIO}has{scope}Synonym" for scope in ("Exact", "Broad", "Narrow", "Related")}
    lines += [f"<owl:AnnotationProperty rdf:about={quoteattr(iri)}/>" for iri in sorted(properties)]
    for term in terms:
        lines.append(f"<owl:Class rdf:about={quoteattr(to_iri(term.id))}>")
        lines += [write_element(property_, value) for property_, value, _ in list_statements(term)]
        lines += [write_resource(*row) for row in list_successors(term)]
        lines += [write_resource(f"{RDFS}subClassOf", to_iri(parent)) for parent in term.parents]
        lines.append(f"<rdfs:subClassOf><owl:Restriction>{write_resource(f'{OWL}onProperty', to_iri('BFO:0000050'))}")
        lines.append(f"{write_resource(f'{OWL}someValuesFrom', to_iri('T:99'))}</owl:Restriction></rdfs:subClassOf>")
        if term.obsolete:
            lines.append(write_element(f"{OWL}deprecated", "true", attributes=f'rdf:datatype="{XSD}boolean"'))
        lines.append("</owl:Class>")
        for property_, value, kind in list_statements(term):
            if kind:
                lines += ["<owl:Axiom>", write_resource(f"{OWL}annotatedSource", to_iri(term.id))]
                lines += [write_resource(f"{OWL}annotatedProperty", property_)]
                lines += [write_element(f"{OWL}annotatedTarget", value)]
                lines += [write_resource(f"{OIO}hasSynonymType", f"{OBO}toy#{kind}"), "</owl:Axiom>"]
    return "\n".join([*lines, "</rdf:RDF>"]) + "\n"


WRITERS = {"obo": write_obo, "json": write_obographs, "ofn": write_functional, "owl": write_rdf}
