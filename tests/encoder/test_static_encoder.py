"""A static encoder gives the vectors of a naive loop, from its folder, in any batch and thread; what is refused."""

import json
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from conftest import load_encoder, make_static, make_wordpieces
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from injection import check_damage
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

from spacy_sapbert.columns import TextColumn
from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.settings import FOLDER
from spacy_sapbert.encoder.shim import (
    EncoderShim,
    build_name_encoder_v1,
    build_static_encoder_v1,
    get_encoder,
    make_huggingface_loader,
)
from spacy_sapbert.files import write_manifest

TOKENIZER = make_wordpieces()
SIZE = TOKENIZER.get_vocab_size()
TEXTS = ["heart attack", "cold", "", "common cold", "ж", "Cold", "x " * 60, "[PAD] cold", "co\nld", "cold ж"]
# Some are too large or too small for their squares to be float32.
NUMBERS = st.integers(-1000, 1000).map(lambda n: n / 8) | st.sampled_from([0.0, 2.0**90, -(2.0**90), 2.0**-80])
ZERO = [2, 4]  # of TEXTS: nothing but unknown tokens


def make_table(width=16, seed=0):
    return np.random.default_rng(seed).normal(size=(SIZE, width)).astype(np.float32)


@pytest.fixture(scope="module")
def encoder(static_folder):
    return load_encoder(static_folder)


@pytest.fixture
def folder(static_folder, tmp_path):
    return shutil.copytree(static_folder, tmp_path / "encoder")


def encode_naively(source, text):
    total = np.zeros(source.rows.shape[1], dtype=np.float64)
    for token in TOKENIZER.encode(text, add_special_tokens=False).ids[: source.settings.max_length]:
        total += source.rows[token].astype(np.float64) * float(source.scales[token])
    norm = np.sqrt((total * total).sum())
    return total / norm if norm else total


def test_vectors_are_those_of_a_naive_loop(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), 16) and encoder.width == 16
    np.testing.assert_allclose(vectors, [encode_naively(encoder.content, text) for text in TEXTS], atol=1e-6)
    assert np.flatnonzero(~vectors.any(axis=1)).tolist() == ZERO
    assert vectors[1].tolist() == vectors[5].tolist() == vectors[7].tolist() == vectors[9].tolist()
    told = encoder.find_informative(encoder.tokenize_names(TextColumn.make(TEXTS))).tolist()
    assert np.flatnonzero(~np.array(told)).tolist() == ZERO
    assert encoder.encode([]).shape == encoder.encode_tokens([]).shape == (0, 16) and encoder.tokenize([]) == []
    sums = encoder.encode_unscaled(TEXTS)
    np.testing.assert_allclose(sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-9)[:, None], vectors, atol=1e-6)
    assert np.linalg.norm(sums[0]) > 2


@pytest.mark.parametrize(
    "text", ["โรคเบาหวานประเภทที่ 1", "диабет (2)", "糖尿病 2 型", "β-гемоглобин", "IgA腎症", "Down 症候群"]
)
def test_what_is_mostly_unknown_has_no_vector(text):
    assert is_informative(text) == [False]


@pytest.mark.parametrize("text", ["TNF-α", "α-thalassemia", "diabetes โรค", "2", "46,XX", "ulcère à l'œil"])
def test_what_is_mostly_known_has_a_vector(text):
    assert is_informative(text) == [True]


def is_informative(text):
    bundled = load_encoder(FOLDER)
    return bundled.find_informative(bundled.tokenize_names([text])).tolist()


TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from(" aΣσ\u0301.-[PAD]心\t\x1c\u00a0"), max_size=60)
PLAIN = st.text(st.characters(min_codepoint=31, max_codepoint=127), max_size=20)


@pytest.mark.parametrize(
    ("max_length", "normalize_writing", "lowercase", "added"),
    [(3, False, True, None), (25, False, False, ["Fever"]), (8, True, True, ["Fever", "fièvre"])],
)
def test_names_have_the_tokens_of_single_strings(max_length, normalize_writing, lowercase, added):
    encoder = load_encoder(FOLDER, max_length=max_length, normalize_writing=normalize_writing)
    source = encoder.content
    kept = {"added_tokens": []} if added is None else {}
    tokenizer = Tokenizer.from_str(json.dumps({**json.loads(source.tokenizer.to_str()), **kept}))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.add_tokens(added or [])
    encoder.set_source(replace(source, tokenizer=tokenizer))
    assert encoder.splits_at_spaces

    @settings(max_examples=200, deadline=None)
    @given(texts=st.lists(TEXT | PLAIN, max_size=9))
    @example(texts=["heart attack of the heart", "", " ", "cold  cold", "a[UNK]b x", "ΟΔΟΣ Σ"])
    @example(texts=["[unk]-x", "x" * 101, "(4'-X)_a", "fevers", "Fevers", "co\x7fld", "fievres", "Fièvre"])
    def compare(texts):
        tokens = encoder.tokenize_names(TextColumn.make(texts))
        assert [ids.tolist() for ids in tokens] == encoder.tokenize(texts)

    compare()


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.text(alphabet="abc xyzж\t", max_size=80), max_size=30),
    table=st_numpy.arrays(np.float32, (SIZE, 3), elements=NUMBERS, fill=st.just(1.0)),
    max_length=st.integers(3, 40),
)
def test_any_table_and_any_strings(texts, table, max_length):
    source = make_static(table, max_length=max_length)
    encoder = EncoderShim({})
    encoder.set_source(source)
    found = encoder.encode(texts)
    expected = np.array([encode_naively(source, text) for text in texts]).reshape(-1, 3)
    # Where large rows cancel each other, rounding decides the direction.
    sums = encoder.encode_unscaled(texts)
    largest = [
        max((abs(source.rows[token] * source.scales[token]).max() for token in ids), default=0)
        for ids in encoder.tokenize(texts)
    ]
    is_sure = np.linalg.norm(sums.astype(np.float64), axis=1) >= 1e-2 * np.array(largest)
    np.testing.assert_allclose(found[is_sure], expected[is_sure], atol=1e-4)
    alone = [encoder.encode([text])[0] for text in texts]
    np.testing.assert_array_equal(found, np.array(alone).reshape(-1, 3))
    np.testing.assert_array_equal(found[::-1], encoder.encode(texts[::-1]))


def test_vectors_do_not_depend_on_batch_or_thread(encoder):
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS] * 30  # more than one block
    expected = encoder.encode(texts)
    assert (encoder.encode_tokens(encoder.tokenize(texts), batch_size=7) == expected).all()
    arrays = [np.array(ids, dtype="<i4") for ids in encoder.tokenize(texts)]
    assert (encoder.encode_tokens(arrays) == expected).all()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(encoder.encode, [texts] * 8):
            assert (found == expected).all()


def test_folder_is_read_as_it_was_written(static_folder, tmp_path, encoder):
    source = read_encoder(static_folder)
    assert isinstance(source.rows, np.memmap) and source.kind == "static"
    write_encoder(source, tmp_path / "again")
    again = load_encoder(tmp_path / "again")
    assert again.fingerprint == encoder.fingerprint == make_static(make_table()).fingerprint
    assert (again.encode(TEXTS) == encoder.encode(TEXTS)).all()
    names = ["model.safetensors", "modules.json", "name_encoder.json", "tokenizer.json"]
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names


def test_fingerprint_covers_table_tokenizer_and_settings(static_folder, encoder):
    changed = make_table()
    changed[9, 3] += 1
    shorter = load_encoder(static_folder, max_length=9)
    assert len(shorter.tokenize(["x " * 60])[0]) == shorter.settings.max_length == 9
    assert shorter.fingerprint == make_static(make_table(), max_length=9).fingerprint
    others = [make_static(changed), make_static(2 * make_table())]
    assert len({encoder.fingerprint, shorter.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_sentence_transformers_gives_equal_vectors(static_folder, encoder):
    library = pytest.importorskip("sentence_transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        model = library.SentenceTransformer(str(static_folder), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def seal(folder, **changes):
    """Write the manifest again, so that only the content is wrong."""
    manifest = json.loads((folder / "name_encoder.json").read_text(encoding="utf8"))
    data = {key: manifest[key] for key in ("kind", "fingerprint", "settings")}
    write_manifest(folder / "name_encoder.json", manifest["format"], {**data, **changes})


def change_table(folder, **changes):
    table = load_file(folder / "model.safetensors")
    for name, change in changes.items():
        table[name] = change(table[name])
    save_file({name: array for name, array in table.items() if array is not None}, folder / "model.safetensors")
    seal(folder)


def with_entry(row, value):
    def change(array):
        array[row] = value
        return array

    return change


TABLES = {
    "fewer rows": ({"rows": lambda r: r[:-1], "scales": lambda s: s[:-1]}, f"has {SIZE - 1} rows.*{SIZE} tokens"),
    "fewer scales": ({"scales": lambda s: s[:-1]}, "not int8"),
    "no rows": ({"rows": lambda r: r[:0], "scales": lambda s: s[:0]}, "0 rows|no table"),
    "NaN": ({"scales": with_entry(7, np.nan)}, r"1 rows are not finite, the first that of 'c'"),
    "too large": ({"scales": with_entry(9, 1e38)}, "1 rows are not finite"),
    "all zero": ({"rows": lambda r: r * 0}, "all rows of its table are zero"),
    "float rows": ({"rows": lambda r: r.astype(np.float32)}, "float32 .*not int8"),
    "no scales": ({"scales": lambda s: None}, "holds rows, not rows and scales"),
}


@pytest.mark.parametrize("changes, reason", TABLES.values(), ids=TABLES)
def test_damaged_tables_are_refused(folder, changes, reason):
    change_table(folder, **changes)
    for memory_map in (True, False):
        with pytest.raises(OSError, match=rf"(?s)Can't read.*({reason}|not int8)"):
            read_encoder(folder, memory_map=memory_map)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_files_that_are_missing_cut_or_of_another_kind_are_refused(folder, name):
    check_damage(folder, read_encoder)
    data = (folder / name).read_bytes()
    for content in (b"", b"{}", b"nothing of the kind", b"\xff" * 100, data[:-5]):
        (folder / name).write_bytes(content)
        seal(folder)
        with pytest.raises(OSError, match=f"Can't read.*{name}"):
            read_encoder(folder)
    (folder / name).unlink()
    seal(folder)
    with pytest.raises(FileNotFoundError, match=f"{name}"):
        read_encoder(folder)
    (folder / "name_encoder.json").unlink()
    for kind in (None, "static"):
        with pytest.raises(FileNotFoundError, match="name_encoder.json"):
            read_encoder(folder, kind=kind)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"kind": "recurrent"}, OSError, "can't read .*'recurrent'"),
        (
            {"settings": {"pooling": "mean", "max_length": 10**30}},
            OSError,
            "Can't read.*name_encoder.json.*max_length.*equal to 100000",
        ),
        ({"settings": []}, OSError, "Can't read.*name_encoder.json.*settings: Input should be a valid dict"),
        ({"settings": None}, OSError, "Can't read.*name_encoder.json.*settings: Input should be a valid dict"),
        ({"threshold": "high"}, OSError, "Can't read.*name_encoder.json.*threshold: Input should be a valid number"),
        ({"threshold": 1.5}, OSError, "Can't read.*name_encoder.json.*threshold: .*less than or equal to 1"),
    ],
)
def test_impossible_manifests_and_settings_are_refused(static_folder, folder, changes, error, message):
    seal(folder, **changes)
    with pytest.raises(error, match=message):
        read_encoder(folder)
    for requested in ({"pooling": "cls"}, {"lower_case": True}, {"pad_to_length": 30}, {"pooling": "mean_all_tok"}):
        with pytest.raises(ValueError, match=r"of a static encoder"):
            read_encoder(static_folder, requested=requested)


def test_a_mapped_table_stays_when_its_file_is_written_again(folder):
    source = read_encoder(folder)
    before = np.array(source.rows)
    write_encoder(source, folder)
    assert read_encoder(folder).fingerprint == source.fingerprint
    other = make_static(make_table(seed=1))
    write_encoder(other, folder)
    assert read_encoder(folder).fingerprint == other.fingerprint != source.fingerprint
    assert (source.rows == before).all()


def test_each_architecture_says_what_it_takes(static_folder, encoder_folder):
    model, static = build_name_encoder_v1(), build_static_encoder_v1(normalize_writing=True)
    for path, kind in ((static_folder, "static"), (encoder_folder, "transformer"), (static_folder, "static")):
        make_huggingface_loader(str(path))(model)
        assert get_encoder(model).content.kind == kind and model.predict(["cold"]).shape[0] == 1
    with pytest.raises(ValueError, match="is a transformer encoder, but a static encoder"):
        make_huggingface_loader(str(encoder_folder))(static)
    make_huggingface_loader(str(static_folder))(static)
    assert get_encoder(static).settings.normalize_writing
    # The kind is checked before settings that have no meaning for it.
    with pytest.raises(ValueError, match="a transformer encoder is needed"):
        read_encoder(static_folder, requested={"pooling": "cls"}, kind="transformer")
    get_encoder(model).load(encoder_folder)
    with pytest.raises(ValueError, match="a static encoder is needed"):
        static.from_bytes(model.to_bytes())
    with pytest.raises(ValueError, match="is a static encoder, but a transformer encoder"):
        _ = get_encoder(static).source


def test_an_encoder_in_a_package_of_its_own_is_found_by_name(folder, tmp_path, monkeypatch):
    package = tmp_path / "site" / "spacy_sapbert_mine"
    shutil.copytree(folder, package / "encoder")
    (package / "__init__.py").write_text("raise RuntimeError('code of a package has run')")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.chdir(tmp_path)
    # "other/mine" could be on the hub, which takes its time to fail without a network.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load_encoder("mine").fingerprint == load_encoder(folder).fingerprint
    # A folder of this name goes first, and names with other signs are never packages.
    shutil.copytree(folder, tmp_path / "mine")
    (tmp_path / "mine" / "model.safetensors").unlink()
    for name in ("mine", "..mine", "other/mine"):
        with pytest.raises(OSError, match="mine"):
            load_encoder(name)
