"""ScaNN: the processor, its effort and its log."""

import ctypes
import ctypes.util
import os
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
from index_vectors import clustered_vectors
from injection import limited_files

from spacy_sapbert.index import ScannIndex, exact_search
from spacy_sapbert.index.scann import SWITCHES, hold_log, use_processor

pytestmark = pytest.mark.usefixtures("low_thresholds")
pytest.importorskip("scann")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the switches are of that family")
def test_scann_uses_what_the_processor_has():
    library = ScannIndex.import_package().scann_ops_pybind.scann_pybind.__file__
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf8").split())
    for switch, needed in SWITCHES.items():
        assert ctypes.c_bool.in_dll(ctypes.CDLL(library), switch).value == (needed <= flags)
    # A library without switches is left alone.
    use_processor.__wrapped__(ctypes.util.find_library("c"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_is_named_while_an_index_is_built():
    with limited_files(1000), pytest.raises(OSError, match="disk is probably full"):
        ScannIndex().build(clustered_vectors())


def test_full_effort_finds_what_exact_search_finds_far_down_the_list(scann_index):
    vectors = clustered_vectors()
    # For more rows than the leaves have that are looked through at first, the search would be exact.
    k = 40
    _, expected = exact_search(vectors, vectors[:200], k)
    effort = scann_index.configuration["leaves"]
    usual, full = (scann_index._search_structure(vectors[:200], k, times)[1] for times in (1, effort))
    found_by_usual, found_by_full = ((scores >= expected[:, -1:] - 1e-5).mean() for scores in (usual, full))
    # What is still missing then, asymmetric hashing has ranked too low.
    assert found_by_full > 0.9 and found_by_full > found_by_usual + 0.1


def test_the_rows_of_a_leaf_stand_together(scann_index, tmp_path):
    scann_index.to_disk(tmp_path)
    leaves = np.load(tmp_path / "structure" / "datapoint_to_token.npy").reshape(-1, 2).tolist()
    order = np.load(tmp_path / "structure" / "order.npy")
    assert leaves == sorted(leaves) and sorted(order.tolist()) == list(range(len(scann_index)))


def test_a_build_shows_its_log_only_if_it_fails(capfd):
    with hold_log():
        os.write(2, b"Size of sampled dataset\n")
    assert capfd.readouterr().err == ""
    with pytest.raises(RuntimeError), hold_log():
        os.write(2, b"Size of sampled dataset\n")
        raise RuntimeError
    assert capfd.readouterr().err == "Size of sampled dataset\n"
