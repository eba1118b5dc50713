"""A recommender for INCEpTION: its protocol for external recommenders, with UIMA CAS in XMI.

The protocol is that of INCEpTION's documentation ("External Recommender"): a document comes as XMI with its type
system, and goes back with annotations that have `inception_internal_predicted` set.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict
from spacy.language import Language

from ..errors import Errors
from .limits import check_texts
from .requests import Text
from .settings import ServiceSettings

PREDICTED = "inception_internal_predicted"
_ENCODING = re.compile(r"encoding\s*=\s*[\"']([^\"']*)")
_DECLARED = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)


class Metadata(BaseModel):
    """What INCEpTION asks for. Other keys are ignored.

    layer (str): The type of the annotations, such as "custom.Entity".
    feature (str): The feature that takes the concept's id.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    layer: Text
    feature: Text


class Document(BaseModel):
    """A document.

    xmi (str): Its CAS in XMI.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    xmi: Text


class InceptionRequest(BaseModel):
    """A request for predictions. Other keys are ignored.

    metadata (Metadata): What is asked for.
    document (Document): The document.
    typeSystem (str): Its type system in UIMA's XML.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    metadata: Metadata
    document: Document
    typeSystem: Text  # noqa: N815, the protocol's name


def predict(nlp: Language, request: InceptionRequest, settings: ServiceSettings | None = None) -> str:
    """Predict the concepts of a document.

    nlp (Language): The pipeline.
    request (InceptionRequest): The request.
    settings (ServiceSettings | None): The limits of a text; None for the defaults.
    RETURNS (str): The CAS in XMI, with an annotation for each linked entity.
    RAISES (ValueError): If the XML is malformed, has no such type or feature, or its text exceeds a limit.
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
    text = cas.sofa_string or ""
    check_texts([text], settings or ServiceSettings())
    # cassis counts in code points, and converts to the UTF-16 units of XMI when it reads and writes.
    for ent in nlp(text).ents:
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
        # The parser gets the text as UTF-8. Should it read another encoding, such as UTF-7 because the text says so or
        # UTF-16 because of its zeros, then it would find declarations that the text does not show.
        head = xml.partition("?>")[0] if xml.lstrip("\ufeff").startswith("<?xml") else ""
        if "\0" in xml or not {"utf-8", "utf8"}.issuperset(name.lower() for name in _ENCODING.findall(head)):
            raise ValueError(Errors.E497.format(reason="its encoding is not UTF-8"))
        if _DECLARED.search(xml):
            raise ValueError(Errors.E497.format(reason="it declares a document type or entities"))
