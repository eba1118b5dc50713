"""What readers share: numbers, line ends, encodings and compression of lines; settings as arguments."""

import gzip
import hashlib
import inspect
import pickle

import numpy as np
import polars as pl
import pytest

from spacy_sapbert.settings import list_settings
from spacy_sapbert.terminology import read_jsonl, read_obo, read_rrf, read_table
from spacy_sapbert.terminology.readers.jsonl import JsonlSettings, make_jsonl_reader
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8
from spacy_sapbert.terminology.readers.obo import OboSettings, make_obo_reader
from spacy_sapbert.terminology.readers.rrf import RrfSettings, make_rrf_reader
from spacy_sapbert.terminology.readers.table import TableSettings, make_table_reader

READERS = [
    (read_jsonl, make_jsonl_reader, JsonlSettings),
    (read_obo, make_obo_reader, OboSettings),
    (read_table, make_table_reader, TableSettings),
    (read_rrf, make_rrf_reader, RrfSettings),
]


def read(path, **settings):
    return list(SourceFile(path).lines(**settings))


def test_only_newlines_end_lines(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\x85c\x0b\n\nd\re".encode())
    assert read(path) == [(1, "a\u2028b"), (2, "\x85c\x0b"), (3, ""), (4, "d\re")]
    assert [text for _, text in read(path, keep_ends=True)] == ["a\u2028b\r\n", "\x85c\x0b\n", "\n", "d\re"]


@pytest.mark.parametrize("name, is_packed", [("file.txt.gz", True), ("file.txt", True), ("file.txt", False)])
def test_gzip_is_found_by_content_and_files_are_hashed_whole(tmp_path, name, is_packed):
    data = b"".join(b"line %d\n" % i for i in range(50_000))
    stored = gzip.compress(data[:1000]) + gzip.compress(data[1000:]) if is_packed else data
    (tmp_path / name).write_bytes(stored)
    source = SourceFile(tmp_path / name)
    lines = list(source.lines())
    assert lines[-1] == (50_000, "line 49999") and len(lines) == 50_000
    assert source.describe() == {"name": name, "sha256": hashlib.sha256(stored).hexdigest()}


def test_damaged_gzip_is_an_error(tmp_path):
    data = gzip.compress(b"".join(b"line %d\n" % i for i in range(50_000)))
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    for damaged in (data[:-1], data[: len(data) // 2], data[:5], bytes(flipped), data + b"more", b"<html>"):
        (tmp_path / "file.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="file.gz"):
            read(tmp_path / "file.gz")


def test_invalid_utf8_can_be_told(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"gr\xc3\xbcn\ngr\xfcn\n\xed\xa0\xbd\n")
    reasons = [invalid_utf8(text) for _, text in read(path)]
    assert reasons[0] is None
    assert "0xfc at character 3" in reasons[1]
    assert "0xed at character 1" in reasons[2]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        SourceFile(tmp_path / "nowhere.tsv")
    with pytest.raises(IsADirectoryError, match=rf"{tmp_path} is a folder"):
        SourceFile(tmp_path)


@pytest.mark.parametrize("reader, make, settings", READERS)
def test_signatures_have_the_settings_with_their_defaults(reader, make, settings):
    for function in (reader, make):
        path, *keywords = inspect.signature(function).parameters.values()
        assert path.name == "path" and path.default is path.empty
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in keywords)
        assert {p.name: p.default for p in keywords} == settings().to_dict()
    assert all(row.meaning and row.default for row in list_settings(settings))
    # Configs are sent to other processes.
    assert pickle.loads(pickle.dumps(make("a path", errors="skip"))).keywords == {"errors": "skip"}


@pytest.mark.parametrize("make", [list, set, tuple, np.array, pl.Series])
def test_any_collection_is_a_list_and_reports_sort_it(make):
    languages = make(["GER"] if make is set else ["GER", "ENG"])
    settings = RrfSettings(languages=languages, max_restriction_level=np.int64(3), lower_case=np.bool_(True))
    given = {"languages": sorted(languages), "max_restriction_level": 3, "lower_case": True}
    assert settings.to_dict() == {**RrfSettings().to_dict(), **given}


@pytest.mark.parametrize("reader, make, settings", READERS)
def test_wrong_settings_are_refused_before_the_file_is_looked_for(reader, make, settings, tmp_path):
    with pytest.raises(
        ValueError, match=rf"errors of `{reader.__name__}`: Input should be 'raise' or 'skip', not 'ignore'"
    ):
        reader(tmp_path / "none", errors="ignore")
    with pytest.raises(ValueError, match=rf"eror of `{make.__name__}`: There is no such setting. Did you mean errors"):
        make(str(tmp_path / "none"), eror="skip")
    with pytest.raises(FileNotFoundError):
        make(str(tmp_path / "none"))()
