"""Reading lines: numbers, line ends, encodings, compression."""

import gzip
import hashlib

import pytest

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8


def read(path, **settings):
    return list(SourceFile(path).lines(**settings))


def test_only_newlines_end_lines(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\x85c\x0b\n\nd\re".encode())
    assert read(path) == [(1, "a\u2028b"), (2, "\x85c\x0b"), (3, ""), (4, "d\re")]
    assert [text for _, text in read(path, keep_ends=True)] == ["a\u2028b\r\n", "\x85c\x0b\n", "\n", "d\re"]


@pytest.mark.parametrize("name", ["file.txt.gz", "file.txt"])
def test_gzip_is_found_by_content(tmp_path, name):
    data = b"".join(b"line %d\n" % i for i in range(50_000))
    (tmp_path / name).write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    source = SourceFile(tmp_path / name)
    lines = list(source.lines())
    assert lines[-1] == (50_000, "line 49999") and len(lines) == 50_000
    expected = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert source.describe() == {"name": name, "sha256": expected}


def test_plain_file_is_hashed_whole(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"a\n" * 3_000_000)
    source = SourceFile(path)
    assert sum(1 for _ in source.lines()) == 3_000_000
    assert source.describe()["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_damaged_gzip_is_an_error(tmp_path):
    data = gzip.compress(b"".join(b"line %d\n" % i for i in range(50_000)))
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    for damaged in (data[:-1], data[: len(data) // 2], data[:5], bytes(flipped), data + b"more", b"<html>"):
        (tmp_path / "file.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="E103.*file.gz"):
            read(tmp_path / "file.gz")


def test_invalid_utf8_can_be_told(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"gr\xc3\xbcn\ngr\xfcn\n\xed\xa0\xbd\n")
    reasons = [invalid_utf8(text) for _, text in read(path)]
    assert reasons[0] is None
    assert "0xfc at character 3" in reasons[1]
    assert "0xed at character 1" in reasons[2]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="E102"):
        SourceFile(tmp_path / "nowhere.tsv")
    with pytest.raises(IsADirectoryError, match=rf"E127.*{tmp_path} is a folder"):
        SourceFile(tmp_path)
