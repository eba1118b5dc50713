"""A recommender for INCEpTION: its protocol for external recommenders, with UIMA CAS in XMI.

The protocol is that of INCEpTION's documentation ("External Recommender"): a document comes as XMI with its type
system, and goes back with annotations that have `inception_internal_predicted` set.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from spacy.language import Language

from ..errors import Errors

PREDICTED = "inception_internal_predicted"


class Metadata(BaseModel):
    """What INCEpTION asks for. Other keys are ignored.

    layer (str): The type of the annotations, such as "custom.Entity".
    feature (str): The feature that takes the concept's id.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    layer: str
    feature: str


class Document(BaseModel):
    """A document.

    xmi (str): Its CAS in XMI.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    xmi: str


class InceptionRequest(BaseModel):
    """A request for predictions. Other keys are ignored.

    metadata (Metadata): What is asked for.
    document (Document): The document.
    typeSystem (str): Its type system in UIMA's XML.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    metadata: Metadata
    document: Document
    typeSystem: str  # noqa: N815, the protocol's name


def predict(nlp: Language, request: InceptionRequest) -> str:
    """Predict the concepts of a document.

    nlp (Language): The pipeline.
    request (InceptionRequest): The request.
    RETURNS (str): The CAS in XMI, with an annotation for each linked entity.
    RAISES (ValueError): If the XML is malformed, or has no such type or feature.
    """
    from cassis import load_cas_from_xmi, load_typesystem

    _refuse_declarations(request)
    try:
        types = load_typesystem(request.typeSystem)
        cas = load_cas_from_xmi(request.document.xmi, typesystem=types)
        layer = types.get_type(request.metadata.layer)
        features = {feature.name for feature in layer.all_features}
    except Exception as error:  # cassis and lxml raise nearly anything for malformed XML
        raise ValueError(Errors.E497.format(reason=error)) from error
    missing = {request.metadata.feature, PREDICTED} - features
    if missing:
        raise ValueError(Errors.E497.format(reason=f"'{layer.name}' has no feature {', '.join(sorted(missing))}"))
    # cassis counts in code points, and converts to the UTF-16 units of XMI when it reads and writes.
    for ent in nlp(cas.sofa_string or "").ents:
        if ent.kb_id_:
            values: dict[str, Any] = {request.metadata.feature: ent.kb_id_, PREDICTED: True}
            values |= _describe(ent._.kb_candidates, ent.kb_id_, request.metadata.feature, features)
            cas.add(layer(begin=ent.start_char, end=ent.end_char, **values))
    return str(cas.to_xmi())


def _describe(candidates: Any, id_: str, feature: str, features: set[str]) -> dict[str, Any]:
    """Score and explain a prediction, where the layer has features for it."""
    best = next((candidate for candidate in candidates or () if candidate["id"] == id_), None)
    if best is None:
        return {}
    explanation = f'{best["canonical_name"]}: "{best["name"]}"'
    values = {f"{feature}_score": best.get("probability", best["score"]), f"{feature}_score_explanation": explanation}
    return {name: value for name, value in values.items() if name in features}


def _refuse_declarations(request: InceptionRequest) -> None:
    """Refuse entities, which could expand without end or read files. A CAS needs none."""
    for xml in (request.typeSystem, request.document.xmi):
        if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
            raise ValueError(Errors.E497.format(reason="it declares a document type or entities"))
