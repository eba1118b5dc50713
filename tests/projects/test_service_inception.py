"""The service's recommender for INCEpTION."""

import pytest
from cassis import Cas, TypeSystem, load_cas_from_xmi
from fastapi.testclient import TestClient
from project_scripts import import_scripts
from starlette.exceptions import HTTPException

with import_scripts("service"):
    import inception
    import limits
    import serve as service


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


LAYER = "custom.Concept"
DOCUMENT = "😀 A heart attack & then <insomnia>."


def make_types(*, scored=True):
    types = TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    types.create_feature(layer, "identifier", "uima.cas.String")
    types.create_feature(layer, "inception_internal_predicted", "uima.cas.Boolean")
    if scored:
        types.create_feature(layer, "identifier_score", "uima.cas.Double")
        types.create_feature(layer, "identifier_score_explanation", "uima.cas.String")
    return types


def make_request(types, text=DOCUMENT, **changes):
    cas = Cas(types)
    cas.sofa_string = text
    cas.sofa_mime = "text/plain"
    metadata = {"layer": LAYER, "feature": "identifier", "projectId": 1, "anchoringMode": "tokens", **changes}
    document = {"xmi": cas.to_xmi(), "documentId": 1, "userId": "somebody"}
    return {"metadata": metadata, "document": document, "typeSystem": types.to_xml()}


def predict(nlp, request, **settings):
    read = inception.InceptionRequest.model_validate(request)
    return inception.predict(nlp, read, limits.ServiceSettings(**settings))


def read_predictions(xmi, types):
    return load_cas_from_xmi(xmi, typesystem=types).select(LAYER)


@pytest.mark.parametrize("scored", [True, False])
def test_predictions_are_what_the_pipeline_links(nlp, scored):
    types, ents = make_types(scored=scored), nlp(DOCUMENT).ents
    with TestClient(service.make_app(nlp, limits.ServiceSettings()), "http://localhost") as client:
        answer = client.post("/inception/predict", json=make_request(types))
    xmi = answer.json()["document"]
    found = read_predictions(xmi, types)
    assert [(one.get_covered_text(), one.identifier) for one in found] == [(ent.text, ent.kb_id_) for ent in ents]
    assert len(ents) == 2 and all(one.inception_internal_predicted for one in found)
    if scored:
        best = ents[0]._.kb_candidates[0]
        assert found[0].identifier_score == pytest.approx(best["score"])
        assert best["canonical_name"] in found[0].identifier_score_explanation
    for text in ("", "Nothing."):
        assert not read_predictions(predict(nlp, make_request(types, text)), types)
    # Offsets in the file are UTF-16 units.
    start = DOCUMENT.index("heart") + 1
    assert f'begin="{start}" end="{start + len("heart attack")}"' in xmi


@pytest.mark.parametrize(
    "text, changes, settings, reason",
    [
        (DOCUMENT, {"layer": "custom.None"}, {}, "Check the recommender's layer"),
        (DOCUMENT, {"feature": "value"}, {}, "Check the recommender's layer"),
        (DOCUMENT, {"typeSystem": "<a>"}, {}, "Check the recommender's layer"),
        ("a cold " * 20, {}, {"max_characters": 100}, "texts of 100 characters"),
        ("a cold " + "(" * 200, {}, {"max_run": 100}, "200 characters without white space"),
        ("(" * 600, {}, {}, "600 characters without white space"),
    ],
)
def test_wrong_layers_and_documents_are_refused(nlp, text, changes, settings, reason):
    request = make_request(make_types(), text, **changes)
    request["typeSystem"] = changes.get("typeSystem", request["typeSystem"])
    with pytest.raises(HTTPException, match=reason):
        predict(nlp, request, **settings)


ENTITY = '<!DOCTYPE a [<!ENTITY b "expanded">]>'
DECLARATION = '<?xml version="1.0" encoding="%s"?>'


def escape_utf7(xml):
    return xml.replace("<", "+ADw-").replace(">", "+AD4-").replace("!", "+ACE-")


@pytest.mark.parametrize("part", ["document", "types"])
@pytest.mark.parametrize(
    "disguise",
    [
        lambda body: ENTITY + body,
        lambda body: '<?xml version="1.0"?>\n' + ENTITY.lower() + body,
        lambda body: DECLARATION % "UTF-7" + escape_utf7(ENTITY) + body,
        lambda body: "\ufeff" + DECLARATION % "utf-7" + escape_utf7(ENTITY) + body,
        lambda body: "<?xml version='1.0'\nencoding = 'JAVA' ?>" + ENTITY.replace("<", "\\u003c") + body,
        # What UTF-16 and UTF-32 look like when they are read as UTF-8.
        lambda body: "".join(f"{character}\0" for character in DECLARATION % "UTF-16" + ENTITY + body),
        lambda body: "".join(f"\0{character}" for character in '<?xml version="1.0"?>' + ENTITY + body),
        lambda body: "".join(f"{character}\0\0\0" for character in ENTITY + body),
    ],
)
def test_entities_are_refused_however_they_are_written(nlp, part, disguise):
    request = make_request(make_types())
    whole = request["document"]["xmi"] if part == "document" else request["typeSystem"]
    xml = disguise(whole.partition("?>")[2].strip())
    changes = {"document": {"xmi": xml}} if part == "document" else {"typeSystem": xml}
    with pytest.raises(HTTPException, match=r"document type|encoding"):
        predict(nlp, {**request, **changes})
