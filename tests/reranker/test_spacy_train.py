"""`spacy train` and `spacy evaluate` with a frozen linker, and the pipeline that they leave."""

import pytest
import spacy
from reranking import make_examples
from spacy.cli.evaluate import evaluate
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin

CONFIG = """
[paths]
base = "BASE"
docs = "DOCS"

[nlp]
lang = "en"
pipeline = ["schwartz_hearst", "sapbert_linker", "sapbert_reranker"]

[components]

[components.schwartz_hearst]
source = ${paths.base}

[components.sapbert_linker]
source = ${paths.base}

[components.sapbert_reranker]
factory = "sapbert_reranker"
set_nil = true
precision = 1.0

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.docs}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.docs}

[training]
seed = 0
max_steps = 10
eval_frequency = 5
frozen_components = ["sapbert_linker"]
annotating_components = ["schwartz_hearst", "sapbert_linker"]

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.005

[training.before_to_disk]
@callbacks = "spacy-sapbert.CalibrateReranker.v1"
corpus = ${corpora.dev}
"""

# Ten mentions do here.
pytestmark = pytest.mark.filterwarnings("ignore:The reranker .* was calibrated on only")


def run(nlp, folder, name, config=CONFIG):
    nlp.to_disk(folder / "base")
    DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(folder / "docs.spacy")
    path = folder / "config.cfg"
    path.write_text(config.replace("BASE", str(folder / "base")).replace("DOCS", str(folder / "docs.spacy")))
    fill_config(path, path, silent=True)
    train(path, folder / name)
    return folder / name / "model-best"


def test_a_trained_pipeline_decides_better_than_its_linker(make_nlp, tmp_path):
    nlp = make_nlp("en")
    best = run(nlp, tmp_path, "first")
    scores = evaluate(str(best), tmp_path / "docs.spacy", silent=True)
    assert scores["nel_micro_f"] == 1.0 and scores["nel_nil_f"] == 1.0
    assert 0 <= scores["nel_ece"] < 0.3 and scores["nel_auroc"] == 1.0 and scores["nel_coverage_at_95"] > 0.5
    trained = spacy.load(best)
    assert trained.meta["performance"]["nel_micro_f"] == 1.0
    reranker = trained.get_pipe("sapbert_reranker")
    # The callback has calibrated the probabilities and chosen the threshold.
    assert reranker.learned.threshold is not None and len(reranker.learned.concept.x) > 2
    # The same seed gives the same network.
    again = spacy.load(run(nlp, tmp_path, "second")).get_pipe("sapbert_reranker")
    assert again.model.to_bytes() == reranker.model.to_bytes()


def test_an_untrained_reranker_that_is_sourced_is_told_how_it_is_trained(make_nlp, tmp_path):
    nlp = make_nlp("en")
    nlp.add_pipe("sapbert_reranker")
    config = CONFIG.replace('factory = "sapbert_reranker"\nset_nil = true\nprecision = 1.0', "source = ${paths.base}")
    told = "has not been initialized with annotations. `spacy train` does that if its section has `factory = "
    with pytest.raises(ValueError, match=told):
        run(nlp, tmp_path, "first", config)
