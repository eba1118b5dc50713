"""The recommender for INCEpTION: XMI in, XMI with predictions out."""

import pytest
from cassis import Cas, TypeSystem, load_cas_from_xmi

from spacy_sapbert.service.inception import InceptionRequest, predict
from spacy_sapbert.service.settings import ServiceSettings

LAYER = "custom.Concept"
TEXT = "😀 A heart attack & then <insomnia>."


def make_types(*, scored=True):
    types = TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    types.create_feature(layer, "identifier", "uima.cas.String")
    types.create_feature(layer, "inception_internal_predicted", "uima.cas.Boolean")
    if scored:
        types.create_feature(layer, "identifier_score", "uima.cas.Double")
        types.create_feature(layer, "identifier_score_explanation", "uima.cas.String")
    return types


def make_request(types, text=TEXT, **changes):
    cas = Cas(types)
    cas.sofa_string = text
    cas.sofa_mime = "text/plain"
    metadata = {"layer": LAYER, "feature": "identifier", "projectId": 1, "anchoringMode": "tokens", **changes}
    document = {"xmi": cas.to_xmi(), "documentId": 1, "userId": "somebody"}
    return InceptionRequest.model_validate({"metadata": metadata, "document": document, "typeSystem": types.to_xml()})


def read_predictions(xmi, types):
    return load_cas_from_xmi(xmi, typesystem=types).select(LAYER)


@pytest.mark.parametrize("scored", [True, False])
def test_predictions_are_what_the_pipeline_links(make_nlp, scored):
    nlp, types = make_nlp(), make_types(scored=scored)
    xmi = predict(nlp, make_request(types))
    found = read_predictions(xmi, types)
    expected = [(ent.text, ent.kb_id_) for ent in nlp(TEXT).ents]
    assert [(one.get_covered_text(), one.identifier) for one in found] == expected and len(expected) == 2
    assert all(one.inception_internal_predicted for one in found)
    if scored:
        best = nlp(TEXT).ents[0]._.kb_candidates[0]
        assert found[0].identifier_score == pytest.approx(best["score"])
        assert best["canonical_name"] in found[0].identifier_score_explanation


def test_offsets_in_the_file_are_utf16_units(make_nlp):
    xmi = predict(make_nlp(), make_request(make_types()))
    start = len(TEXT[: TEXT.index("heart")].encode("utf-16-le")) // 2
    assert f'begin="{start}" end="{start + len("heart attack")}"' in xmi and start == TEXT.index("heart") + 1


def test_a_document_without_mentions_comes_back(make_nlp):
    types = make_types()
    for text in ("", "Nothing."):
        assert not read_predictions(predict(make_nlp(), make_request(types, text)), types)


def test_wrong_layers_and_documents_are_refused(make_nlp):
    nlp, types = make_nlp(), make_types()
    for changes in ({"layer": "custom.None"}, {"feature": "value"}):
        with pytest.raises(ValueError, match="E497"):
            predict(nlp, make_request(types, **changes))
    request = make_request(types)
    broken = request.model_copy(update={"typeSystem": "<a>"})
    with pytest.raises(ValueError, match="E497"):
        predict(nlp, broken)


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
def test_entities_are_refused_however_they_are_written(make_nlp, part, disguise):
    request = make_request(make_types())
    whole = request.document.xmi if part == "document" else request.typeSystem
    xml = disguise(whole.partition("?>")[2].strip())
    if part == "document":
        request.document.xmi = xml
    else:
        request.typeSystem = xml
    with pytest.raises(ValueError, match="E497.*(document type|encoding)"):
        predict(make_nlp(), request)


@pytest.mark.parametrize(
    "text, limits, code",
    [
        ("a cold " * 20, {"max_characters": 100}, "E495"),
        ("a cold " + "(" * 200, {"max_run": 100}, "E498"),
        ("(" * 600, {}, "E498"),
    ],
)
def test_texts_of_documents_have_the_limits_of_other_texts(make_nlp, text, limits, code):
    with pytest.raises(ValueError, match=code):
        predict(make_nlp(), make_request(make_types(), text), ServiceSettings(**limits))
