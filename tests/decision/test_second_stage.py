"""The second stage: a cross-encoder that reads the sentence and a candidate together."""

import pickle

import numpy as np
import pytest
import spacy
import torch
from fake_device import FakeDevice
from reranking import add_reranker, make_examples, train

from spacy_sapbert.decision.reading import build_input, mark_right, read_documents
from spacy_sapbert.decision.second_stage.pairs import Marked, PairMaker, describe
from spacy_sapbert.decision.second_stage.stage import FirstScored
from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.settings import EncoderSettings

TEXT = "The cold , hypertension , insomnia and trouble sleeping after a heart attack with xyzzy and dmd"
# Only what follows tells the two concepts with the name "cold" apart.
COLD = [("cold x", {"cold": "C0009443"}), ("cold z", {"cold": "C0009264"})]


def second_stage(folder, **settings):
    return {"second_stage": {"@architectures": "spacy-sapbert.CrossEncoder.v1", "encoder": str(folder), **settings}}


def decisions(doc):
    found = [[(c["id"], c["probability"]) for c in ent._.kb_candidates] for ent in doc.ents]
    return [ent.kb_id_ for ent in doc.ents], found


def make_trained(make_nlp, encoder_folder, steps=3, **settings):
    nlp = make_nlp()
    examples = make_examples(nlp)
    reranker = add_reranker(nlp, examples, **second_stage(encoder_folder, learn_rate=1e-3, max_length=32, **settings))
    train(nlp, examples, steps=steps)
    return nlp, reranker


def get_first(reranker, doc):
    """Read a document, and score it with the first stage."""
    context = reranker.get_context(reranker.find_linkers(doc))
    mentions = read_documents([doc], context).mentions
    proposals, given = build_input(context, mentions)
    logits = reranker.model.predict(given)
    return FirstScored("sapbert_reranker", context.table, mentions, proposals, given.lists, logits), given


def test_it_changes_nothing_before_it_has_learned(make_nlp, encoder_folder):
    found = []
    for settings in ({}, second_stage(encoder_folder, start_after=5)):
        nlp = make_nlp()
        reranker = add_reranker(nlp, make_examples(nlp), **settings)
        losses = train(nlp, make_examples(nlp), steps=5)
        found.append((decisions(nlp(TEXT)), reranker.model.to_bytes(), losses["sapbert_reranker"]))
    assert found[0] == found[1]


def test_the_first_stage_learns_what_it_learns_alone(make_nlp, encoder_folder):
    nlp = make_nlp()
    alone = add_reranker(nlp, make_examples(nlp))
    train(nlp, make_examples(nlp), steps=3)
    expected = decisions(nlp(TEXT))
    nlp, both = make_trained(make_nlp, encoder_folder)
    assert both.model.to_bytes() == alone.model.to_bytes()
    assert decisions(nlp(TEXT)) != expected


def test_it_corrects_the_scores_of_the_first_candidates_only(make_nlp, encoder_folder):
    nlp, reranker = make_trained(make_nlp, encoder_folder, n_candidates=2)
    first, _ = get_first(reranker, nlp(TEXT))
    corrected = reranker.second_stage.correct(first)
    model, pairs = reranker.second_stage._get("name")
    expected, row, n_changed = first.logits.copy(), 0, 0
    for mention, proposal in zip(first.mentions, first.proposals, strict=True):
        n = len(proposal.ids)
        for place in np.argsort(-first.logits[row : row + n], kind="stable")[:2].tolist():
            text = describe(first.table, proposal.concepts.item(place), proposal.names.item(place))
            (tokens,) = pairs.make([Marked.of(mention.span, 32)], [[text]])
            hidden = model.transformer(input_ids=torch.tensor([tokens])).last_hidden_state[0, 0]
            score = model.head(hidden).item()
            expected[row + place] += score
            n_changed += score != 0
        row += n + 1
    assert len(expected) == row and n_changed == 2 * len(first.mentions)
    assert np.allclose(corrected, expected, atol=1e-5)
    changed = corrected != first.logits
    assert changed.sum() == n_changed and not changed[first.lists.nil_rows].any()


def test_the_gradient_is_that_of_the_mean_loss(make_nlp, encoder_folder):
    """More mentions than are in memory together, with the right concept of one out of reach."""
    nlp = make_nlp()
    texts = [(text, links) for text, links in COLD * 6]
    reranker = add_reranker(
        nlp, make_examples(nlp, texts), **second_stage(encoder_folder, max_length=32, n_candidates=3, pull=0.5)
    )
    stage = reranker.second_stage
    model, pairs = stage._get("name")
    torch.manual_seed(1)
    torch.nn.init.normal_(model.head.weight, std=0.02)
    doc = nlp(" ; ".join(["cold"] * 5 + ["insomnia"] * 5))
    first, given = get_first(reranker, doc)
    # Closer to each other, so that no probability is cut off.
    first = first._replace(logits=first.logits / 20)
    right = [frozenset({"C0009443"})] * 4 + [frozenset()] * 5 + [frozenset({first.proposals[9].ids[-1]})]
    loss = stage.update(first, mark_right(first.proposals, right, given.lists), 0.0)
    found = model.head.weight.grad.clone()
    model.zero_grad()
    losses, row = [], 0
    for mention, proposal, ids in zip(first.mentions, first.proposals, right, strict=True):
        n = len(proposal.ids)
        logits = torch.tensor(first.logits[row : row + n + 1])
        row += n + 1
        places = sorted(range(n), key=lambda place: -logits[place].item())[:3]
        is_right = torch.tensor([proposal.ids[place] in ids for place in places] + [not ids])
        if not is_right.any():
            continue
        described = [describe(first.table, proposal.concepts.item(p), proposal.names.item(p)) for p in places]
        scores = model(pairs.make([Marked.of(mention.span, 32)], [described]))
        final = torch.cat([logits[places] + scores, logits[-1:]])
        chosen = torch.log_softmax(final, 0)[is_right].logsumexp(0)
        losses.append(-chosen + 0.5 * (scores**2).mean())
    assert len(losses) == 9
    mean = torch.stack(losses).mean()
    mean.backward()
    assert loss == pytest.approx(mean.item(), rel=1e-4)
    assert torch.allclose(found, model.head.weight.grad, rtol=1e-3, atol=1e-5)


def test_it_learns_what_only_the_sentence_tells(make_nlp, encoder_folder):
    found = []
    for settings in ({}, second_stage(encoder_folder, learn_rate=1e-3, max_length=32, pull=0.0)):
        nlp = make_nlp()
        add_reranker(nlp, make_examples(nlp, COLD), priors=False, **settings)
        losses = train(nlp, make_examples(nlp, COLD), steps=40)
        found.append([doc.ents[0].kb_id_ for doc in nlp.pipe(["cold x", "cold z"], batch_size=1)])
    assert found[0] != ["C0009443", "C0009264"] and found[1] == ["C0009443", "C0009264"]
    assert losses["sapbert_reranker_second_stage"] < 0.3 < losses["sapbert_reranker"]


def test_saved_pipelines_decide_the_same(make_nlp, encoder_folder, tmp_path):
    nlp, reranker = make_trained(make_nlp, encoder_folder)
    ids, expected = decisions(nlp(TEXT))
    nlp.to_disk(tmp_path / "pipeline")
    # The encoder that it started from is needed no longer.
    twin = make_nlp()
    config = second_stage(tmp_path / "nowhere", max_length=32)
    add_reranker(twin, **config).from_bytes(reranker.to_bytes())
    for other in (spacy.load(tmp_path / "pipeline"), twin, pickle.loads(pickle.dumps(nlp))):
        for doc in other.pipe([TEXT, TEXT], batch_size=1):
            found_ids, found = decisions(doc)
            assert found_ids == ids
            for one, two in zip(found, expected, strict=True):
                assert [id_ for id_, _ in one] == [id_ for id_, _ in two]
                assert np.allclose([p for _, p in one], [p for _, p in two], atol=1e-4)
    first = spacy.load(tmp_path / "pipeline", config={"components.sapbert_reranker.second_stage": None})
    assert decisions(first(TEXT))[1] != expected
    first.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "sapbert_reranker" / "second_stage").exists()


def test_training_is_deterministic_by_seed(make_nlp, encoder_folder):
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(weights))
        nlp, reranker = make_trained(make_nlp, encoder_folder, steps=0, seed=seed)
        for _ in range(3):
            nlp.update(make_examples(nlp), drop=0.3, sgd=nlp.create_optimizer(), annotates=["sapbert_linker"])
        weights.append(reranker.second_stage._model.head.weight.detach().numpy())
    assert np.array_equal(weights[0], weights[1]) and not np.array_equal(weights[0], weights[2])


def test_pairs_are_cut_to_their_length(encoder_folder):
    tokenizer = read_encoder(encoder_folder).tokenizer
    maker = PairMaker(tokenizer, EncoderSettings(max_length=20), "name")
    cut = Marked("a b c d e f", "m n", "u v w x y z")
    one_sided = Marked("", "m n", "u v w x y z")
    long = Marked("a", "b c d e f g h i j k l m", "z")
    pairs = maker.make([cut, one_sided, long], [["q r s t u v w x y z", "q"], ["q"], ["q"]])
    assert [" ".join(tokenizer.convert_ids_to_tokens(pair)) for pair in pairs] == [
        "[CLS] d e f [MASK] m n [MASK] u v w [SEP] q r s t u v w [SEP]",
        "[CLS] d e f [MASK] m n [MASK] u v w [SEP] q [SEP]",
        "[CLS] [MASK] m n [MASK] u v w x y z [SEP] q [SEP]",
        "[CLS] [MASK] b c d e f g h i [MASK] [SEP] q [SEP]",
    ]


def test_bad_settings_are_refused(make_nlp, encoder_folder, static_folder, tmp_path):
    cases = [
        (second_stage(tmp_path / "nowhere"), OSError, "E210.*no such folder"),
        (second_stage(static_folder), ValueError, "static encoder, but a transformer"),
        (second_stage(encoder_folder, max_length=65), ValueError, "64 tokens"),
    ]
    for config, error, message in cases:
        nlp = make_nlp()
        with pytest.raises(error, match=message):
            add_reranker(nlp, make_examples(nlp), **config)
    with pytest.raises(ValueError, match=r"(?s)second_stage.*is not.*SecondStage"):
        add_reranker(make_nlp(), second_stage=str(encoder_folder))
    for name, value in (("max_length", 15), ("learn_rate", 0.0), ("n_candidates", 0)):
        with pytest.raises(ValueError, match=f"E404.*{name} of the second stage"):
            add_reranker(make_nlp(), **second_stage(encoder_folder, **{name: value}))


def test_a_second_stage_that_was_added_later_is_refused(make_nlp, encoder_folder):
    nlp = make_nlp()
    saved = add_reranker(nlp, make_examples(nlp)).to_bytes()
    other = make_nlp()
    add_reranker(other, **second_stage(encoder_folder)).from_bytes(saved)
    with pytest.raises(ValueError, match="E450.*second stage has no weights"):
        other("a cold")


def test_a_loss_that_is_no_number_is_refused(make_nlp, encoder_folder):
    nlp, reranker = make_trained(make_nlp, encoder_folder, steps=1)
    torch.nn.init.constant_(reranker.second_stage._model.head.bias, float("nan"))
    with pytest.raises(ValueError, match="E454.*learn_rate of second_stage"):
        train(nlp, make_examples(nlp), steps=1)


def test_it_learns_and_decides_on_its_device(monkeypatch, make_nlp, encoder_folder):
    expected = decisions(make_trained(make_nlp, encoder_folder)[0](TEXT))
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.list_devices", lambda: ["cpu", "mps"])
    with FakeDevice("mps") as fake:
        nlp, reranker = make_trained(make_nlp, encoder_folder, device="mps")
        model = reranker.second_stage._model
        assert all(fake.holds(weights) for weights in model.parameters())
        assert decisions(nlp(TEXT)) == expected
        data = pickle.dumps(reranker.second_stage)
        assert all(fake.holds(weights) for weights in pickle.loads(data)._model.parameters())
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.list_devices", lambda: ["cpu"])
    with pytest.raises(ValueError, match=r"^there is no device 'mps'.*second_stage"):
        pickle.loads(data)


def test_a_device_that_is_none_is_refused(make_nlp, encoder_folder):
    with pytest.raises(ValueError, match=r"^\[E404\] The setting device is 'gpu'"):
        make_trained(make_nlp, encoder_folder, device="gpu")
