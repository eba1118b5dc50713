"""The component `mention_rules`: what words always mean."""

import json
import pickle
from copy import deepcopy

import pytest
import spacy
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_sapbert import MentionRule, rules
from spacy_sapbert.annotations import NIL, get_candidates

WORDS = st.text(min_size=1, max_size=30).filter(lambda text: text.split())
RULES = st.builds(
    MentionRule,
    name=WORDS,
    kb_id=st.one_of(st.none(), st.just(NIL), st.text(min_size=1, max_size=8)),
    author=st.text(max_size=5),
)


@pytest.fixture(scope="module")
def nlp(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("mention_rules", before="sapbert_linker")
    return nlp


@pytest.fixture
def component(nlp):
    component = nlp.get_pipe("mention_rules")
    yield component
    component.remove([rule.name for rule in component.rules])


def make_rules(pairs):
    return [MentionRule(name=name, kb_id=None if kb_id == "-" else kb_id) for name, kb_id in pairs]


def read_ents(doc):
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


def run_to_rules(nlp, text):
    with nlp.select_pipes(disable="sapbert_linker"):
        return nlp(text)


@cases("mention_rules")
def test_rules_set_replace_and_take_away(nlp, component, text, rules, entities):
    component.add(make_rules(rules))
    doc = run_to_rules(nlp, text)
    assert read_ents(doc) == entities
    assert [ent._.match == "rule" for ent in doc.ents] == [bool(kb_id) for _, kb_id in entities]


def test_the_linker_keeps_the_ids_of_rules_and_lists_candidates(nlp, component):
    component.add(make_rules([("heart attack", "C0009443"), ("weak heart", NIL), ("insomnia", "-")]))
    doc = nlp("Heart attack, a weak heart, insomnia, a common cold.")
    expected = [("Heart attack", "C0009443"), ("weak heart", NIL), ("common cold", "C0009443")]
    assert read_ents(doc) == expected
    assert get_candidates(doc.ents[0], "sapbert_linker")[0]["id"] == "C0027051"
    assert [bool(ent._.kb_candidates) for ent in doc.ents] == [True] * 3
    # All entities had one label.
    assert {ent.label_ for ent in doc.ents} == {"DISORDER"}


def test_a_reranker_keeps_the_ids_of_rules(make_nlp):
    nlp = make_nlp()
    component = nlp.add_pipe("mention_rules", before="sapbert_linker")
    nlp.add_pipe("sapbert_reranker", config={"min_probability": 0.0})
    component.add(make_rules([("heart attack", "C0009443"), ("weak heart", NIL)]))
    doc = nlp("A heart attack, a weak heart, a common cold.")
    assert read_ents(doc) == [("heart attack", "C0009443"), ("weak heart", NIL), ("common cold", "C0009443")]
    assert all(ent._.kb_candidates for ent in doc.ents)
    # Again, without the rules.
    component.remove(["heart attack", "weak heart"])
    assert read_ents(nlp("A heart attack.")) == [("heart attack", "C0027051")]


def test_new_entities_get_a_label(make_nlp):
    nlp = make_nlp()
    component = nlp.add_pipe("mention_rules", before="sapbert_linker")
    component.add(make_rules([("weak heart", NIL)]))
    assert nlp("A weak heart.").ents[0].label_ == "CONCEPT"
    nlp.add_pipe("terminology_matcher", before="mention_rules", config={"label": "FINDING"})
    assert nlp("A weak heart.").ents[0].label_ == "FINDING"
    component.label = "SIGN"
    assert [ent.label_ for ent in nlp("A weak heart.").ents] == ["SIGN"]


def test_rules_are_added_replaced_and_removed(component):
    first, second, third = make_rules([("heart attack", "C0027051"), ("cold", NIL), ("Heart  attack", "-")])
    component.add([first, second])
    assert component.rules == (first, second)
    component.add([third])
    assert component.rules == (third, second) and third.name == "Heart attack"
    with pytest.raises(KeyError, match="no rule with the name 'fever'"):
        component.remove(["cold", "fever"])
    assert component.rules == (third, second)
    component.remove(["HEART attack"])
    assert component.rules == (second,)
    for wrong in ("cold", [("cold", "C1")]):
        with pytest.raises(TypeError, match=r"list of"):
            (component.remove if isinstance(wrong, str) else component.add)(wrong)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"name": " ", "kb_id": NIL}, "white space only"),
        ({"name": "a" * 201, "kb_id": NIL}, "200 characters"),
        ({"name": "cold"}, "kb_id"),
        ({"name": "cold", "kb_id": ""}, "kb_id"),
        ({"name": "cold", "kb_id": 3}, "kb_id"),
        ({"name": "cold", "kb_id": NIL, "skip": True}, "no such setting"),
        ({"name": "\ud800", "kb_id": NIL}, "name"),
    ],
)
def test_wrong_rules_are_refused(values, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        MentionRule.read(values)
    path = tmp_path / "rules.jsonl"
    path.write_text('{"name": "flu", "kb_id": null}\n' + json.dumps(values))
    with pytest.raises(OSError, match=r"rules\.jsonl': line 2: "):
        rules.read_rules(path)


def test_unknown_ids_are_refused(make_nlp, terminology):
    nlp = make_nlp()
    component = nlp.add_pipe("mention_rules", before="sapbert_linker")
    with pytest.raises(ValueError, match="'c1', and the terminology has no concept"):
        component.add(make_rules([("fever", "C0009443"), ("flu", "c1")]))
    assert component.rules == ()
    linker = nlp.get_pipe("sapbert_linker")
    component.add(make_rules([("fever", "C0009443")]))
    with pytest.raises(ValueError, match="Rules name 'C0009443'"):
        linker.remove_concepts(["C0009443"])
    linker.output_source = "HPO"
    with pytest.raises(ValueError, match="no code in 'HPO'"):
        component.add(make_rules([("flu", "C0009443")]))
    component.remove(["fever"])
    component.add(make_rules([("flu", "HP:0000822")]))
    assert read_ents(nlp("The flu.")) == [("flu", "HP:0000822")]


def test_rules_may_stand_alone():
    nlp = spacy.blank("en")
    component = nlp.add_pipe("mention_rules")
    component.add(make_rules([("heart attack", "anything")]))
    assert read_ents(nlp("A heart attack.")) == [("heart attack", "anything")]
    assert read_ents(nlp("")) == []
    lone = rules.MentionRules()
    lone.add(component.rules)
    assert read_ents(lone(nlp.make_doc("A heart attack."))) == [("heart attack", "anything")]


def test_saved_and_copied_pipelines_have_the_rules(nlp, component, tmp_path):
    component.add([*make_rules([("heart attack", "C0009443"), ("insomnia", "-")])])
    component.add([MentionRule(name="Übelkeit\u2028oft", kb_id=NIL, author="Ann", made="2026-01-02")])
    text = "Heart attack, insomnia, a common cold."
    expected = read_ents(nlp(text))
    nlp.to_disk(tmp_path / "pipeline")
    saved = spacy.load(tmp_path / "pipeline")
    packed = spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())
    # Not in small letters, because spaCy's ruler forgets what it compares.
    assert packed.get_pipe("mention_rules").rules == component.rules
    for other in (saved, pickle.loads(pickle.dumps(nlp)), deepcopy(nlp)):
        assert other.get_pipe("mention_rules").rules == component.rules
        assert read_ents(other(text)) == expected == [("Heart attack", "C0009443"), ("common cold", "C0009443")]
    assert [read_ents(doc) for doc in nlp.pipe([text] * 3, n_process=2)] == [expected] * 3
    (tmp_path / "pipeline" / "mention_rules" / "rules.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match="rules.jsonl"):
        spacy.load(tmp_path / "pipeline")


@given(st.lists(RULES, max_size=6, unique_by=lambda rule: rules.fold_name(rule.name)))
def test_rules_come_back_from_files_and_bytes(tmp_path, listed):
    component = rules.MentionRules()
    component.add(listed)
    component.to_disk(tmp_path)
    assert component.rules == tuple(listed)
    assert rules.MentionRules().from_disk(tmp_path).rules == component.rules
    assert rules.MentionRules().from_bytes(component.to_bytes()).rules == component.rules


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"[]", "line 1: it is a list"),
        (b'{"name": "cold"', "line 1: "),
        (b"\xff", "line 1: "),
        (b"[" * 100_000, "line 1: "),
        (b'{"name": "cold", "kb_id": NaN}', "line 1: "),
        (b'\n{"name": "Cold", "kb_id": "NIL"}\r\n{"name": "cold", "kb_id": null}', "line 3: there is another rule"),
    ],
)
def test_forged_files_are_refused(tmp_path, content, reason):
    (tmp_path / "rules.jsonl").write_bytes(content)
    component = rules.MentionRules()
    component.add(make_rules([("flu", NIL)]))
    with pytest.raises(OSError, match=rf"rules\.jsonl': {reason}"):
        component.from_disk(tmp_path)
    assert [rule.name for rule in component.rules] == ["flu"]
    with pytest.raises(ValueError, match="Can't unpack"):
        component.from_bytes(b"\xc1")


VOCAB = spacy.blank("xx").vocab
TOKENS = ("all", "ALL", "All", "heart", "Heart", "attack", "ATTACK", "severe", "mg", "Mg", "\n", "-")
PHRASES = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3).map(" ".join).filter(str.strip)


def find_naively(tokens, names):
    """Compare each run of words with each name, the longest and the first runs first."""
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    spans = [(first, last) for first in range(len(places)) for last in range(first, len(places))]
    hits, taken = [], set()
    for first, last in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        words = [tokens[place] for place in places[first : last + 1]]
        is_hit = False
        for name in names:
            parts = name.split()
            n_letters = sum(letter.isalpha() for letter in name)
            if name.isupper() or n_letters < 3:
                is_hit |= words == parts
            elif n_letters <= 5 and name[1:].islower():
                is_hit |= words in (parts, [parts[0].swapcase()[0] + parts[0][1:], *parts[1:]])
            elif n_letters <= 5:
                is_hit |= words == parts
            else:
                is_hit |= [word.lower() for word in words] == [part.lower() for part in parts]
        if is_hit and taken.isdisjoint(range(first, last + 1)):
            taken.update(range(first, last + 1))
            hits.append((places[first], places[last] + 1))
    return sorted(hits)


@given(st.lists(PHRASES, max_size=5), st.lists(st.sampled_from(TOKENS), max_size=12))
def test_the_matches_are_those_of_a_loop_over_tokens(names, tokens):
    component = rules.MentionRules()
    component.add(MentionRule(name=name, kb_id=NIL) for name in names)
    doc = Doc(VOCAB, tokens)
    hits = component.match(doc)
    assert [(span.start, span.end) for span, _ in hits] == find_naively(tokens, [rule.name for rule in component.rules])
    assert all(isinstance(span, Span) and rule in component.rules for span, rule in hits)
