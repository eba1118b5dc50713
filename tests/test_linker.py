"""The component on documents."""


def test_exact_names_are_linked(make_nlp):
    doc = make_nlp()("She had a heart attack after a common cold .")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("heart attack", "C0027051"), ("common cold", "C0009443")]
    best = doc.ents[0]._.kb_candidates[0]
    assert best["score"] > 0.999 and best["canonical_name"] == "Myocardial Infarction" and best["types"] == ["T047"]
