"""A recommender for INCEpTION: its protocol for external recommenders, with UIMA CAS in XMI.

The protocol is that of INCEpTION's documentation ("External Recommender"): a document comes as XMI with its type
system, and goes back with annotations that have `inception_internal_predicted` set.
"""

import re
from typing import Any

from limits import ServiceSettings, Text, check_texts
from pydantic import BaseModel
from spacy.language import Language
from starlette.exceptions import HTTPException

PREDICTED = "inception_internal_predicted"
_ENCODING = re.compile(r"encoding\s*=\s*[\"']([^\"']*)")
_DECLARED = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)


# INCEpTION sends more keys; only these are read.
class Target(BaseModel):
    """Where predictions go: the type of the annotations, such as "custom.Entity", and its feature for the id."""

    layer: Text
    feature: Text


class XmiDocument(BaseModel):
    """A document as CAS in XMI."""

    xmi: Text


class InceptionRequest(BaseModel):
    """A request for predictions. The type system is in UIMA's XML."""

    metadata: Target
    document: XmiDocument
    typeSystem: Text  # noqa: N815, the protocol's name


def predict(nlp: Language, request: InceptionRequest, settings: ServiceSettings) -> str:
    """Predict the concepts of a document: its CAS in XMI, with an annotation for each linked entity."""
    from cassis import load_cas_from_xmi, load_typesystem

    _refuse_declarations(request)
    try:
        types = load_typesystem(request.typeSystem)
        cas = load_cas_from_xmi(request.document.xmi, typesystem=types)
        layer = types.get_type(request.metadata.layer)
        features = {feature.name for feature in layer.all_features}
    except Exception as error:  # cassis and lxml raise nearly anything for malformed XML
        raise _refusal(error) from error
    if missing := {request.metadata.feature, PREDICTED} - features:
        raise _refusal(f"'{layer.name}' has no feature {', '.join(sorted(missing))}")
    text = cas.sofa_string or ""
    check_texts([text], settings)
    # cassis counts in code points, and converts to the UTF-16 units of XMI when it reads and writes.
    for ent in nlp(text).ents:
        if ent.kb_id_:
            values: dict[str, Any] = {request.metadata.feature: ent.kb_id_, PREDICTED: True}
            values |= _describe(ent._.kb_candidates, ent.kb_id_, request.metadata.feature, features)
            cas.add(layer(begin=ent.start_char, end=ent.end_char, **values))
    return str(cas.to_xmi())


def _refusal(reason: object) -> HTTPException:
    hint = "Check the recommender's layer and feature there."
    return HTTPException(422, f"The document of INCEpTION can't be used: {reason}. {hint}")


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
            raise _refusal("its encoding is not UTF-8")
        if _DECLARED.search(xml):
            raise _refusal("it declares a document type or entities")
