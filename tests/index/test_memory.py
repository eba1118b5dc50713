"""The memory of a build is estimated before it starts."""

import warnings

import pytest

from spacy_sapbert.index import memory, warn_of_memory

GB = 10**9


def test_estimates_at_three_sizes():
    # The vectors in float32, and ScaNN's copy.
    assert memory.estimate_build(1_000_000, 256) == 2 * 1_000_000 * 256 * 4
    # The vectors in float16, and those of a part twice in float32.
    assert memory.estimate_build(8_000_000, 256) == 8_000_000 * 256 * 2 + 2 * 2_000_000 * 256 * 4
    assert memory.estimate_build(8_000_000, 768) == 3 * memory.estimate_build(8_000_000, 256)


def test_too_little_memory_is_warned_of(tmp_path, monkeypatch):
    path = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "MEMINFO", path)
    path.write_text("MemTotal:       24000000 kB\nMemAvailable:    6000000 kB\n")
    assert memory.find_available() == 6_000_000 * 1024
    with pytest.warns(UserWarning, match=r"\[W303\].*8,000,000 rows needs about 8\.2 GB.* 6\.1 GB are available"):
        warn_of_memory(8_000_000, 256)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_memory(1_000_000, 256)


@pytest.mark.parametrize("content", [None, "MemTotal:       24000000 kB\n"])
def test_unknown_memory_is_not_warned_of(tmp_path, monkeypatch, content):
    path = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "MEMINFO", path)
    if content is not None:
        path.write_text(content)
    assert memory.find_available() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_memory(10**9, 1024)
