"""The project that looks for failures: a short form of each of its checks, and whether they see what is wrong."""

import multiprocessing
import os
import signal
from types import SimpleNamespace

import pytest
import typer
from project_scripts import import_scripts

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module", autouse=True)
def scripts():
    environment = os.environ.get("PYTHONPATH")
    with import_scripts("reliability"):
        yield
    os.environ.pop("PYTHONPATH", None)
    if environment is not None:
        os.environ["PYTHONPATH"] = environment


def assert_clean(checks, *nouns):
    for check in checks:
        assert not check.n_failures, (check.name, check.failures)
    done = set().union(*(check.counts for check in checks))
    assert set(nouns) <= done
    assert all(count > 0 for check in checks for count in check.counts.values())


def test_random_steps_agree_with_a_naive_linker(tmp_path):
    from check_states import check_states

    checks = check_states(2, 10, 0, tmp_path)
    assert_clean(checks, "edits", "searches")
    assert all(check.counts["steps"] > 5 for check in checks)


def test_strange_strings_and_documents_agree_with_a_naive_linker(tmp_path):
    from check_strings import check_strings

    checks = check_strings(400, 60, 0, tmp_path)
    assert_clean(checks, "strings", "documents", "lone surrogates")
    assert checks[2].counts["mentions"] > 100


def test_memory_is_measured(tmp_path):
    from check_memory import check_memory, measure_growth

    # Too few documents for a slope; that memory stays flat is for the project to find out.
    checks = check_memory(40, 20, 1000.0, 0, tmp_path, samples=4)
    assert_clean(checks, "documents", "edits")
    kept = []
    growth, _ = measure_growth(lambda n: kept.append(bytearray(n)), 40 << 20, 4)
    assert growth == pytest.approx(20, rel=0.4)


def test_faults_leave_the_old_or_the_new(tmp_path):
    from check_faults import check_faults

    assert_clean(check_faults(25, 60, tmp_path), "faults", "files cut short", "linked parts")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_kills_leave_the_old_or_the_new(tmp_path):
    from check_kills import check_kills

    checks = check_kills(1, 0, tmp_path)
    assert_clean(checks, "kills")
    assert len(checks) == 3


def test_threads_get_answers_of_one_snapshot(tmp_path):
    from check_threads import check_threads

    assert_clean(check_threads(2.0, 1, 2, 0, tmp_path), "calls of find", "documents", "saves", "initializations")


@pytest.fixture(scope="module")
def naive(tmp_path_factory):
    from inputs import make_encoder, make_terminology
    from naive import NaiveEncoder, NaiveLinker, copy_concepts

    encoder = NaiveEncoder(make_encoder(tmp_path_factory.mktemp("encoder"), 0))
    return NaiveLinker(encoder, copy_concepts(make_terminology("F", 12, 0)))


@pytest.mark.parametrize(
    "change, difference",
    [
        (lambda found: found, ""),
        (lambda found: found[1:] + [{"id": "F999", "score": 0.1}], "F999 is not to be found"),
        (lambda found: [{**found[0], "score": found[0]["score"] - 0.01}, *found[1:]], "has "),
        (lambda found: found[::-1], "not in order"),
        (lambda found: found[:-1], "2 candidates, not 3"),
        (lambda found: [*found[:-1], found[0]], "an id twice"),
    ],
)
def test_differences_are_seen(naive, change, difference):
    from naive import find_difference

    expected = naive.find("fever zz1", {})
    best = sorted(expected, key=expected.__getitem__, reverse=True)
    found = [{"id": id_, "score": expected[id_]} for id_ in best[:3]]
    seen = find_difference(change(found), expected, 3)
    assert difference in seen
    assert bool(seen) == bool(difference)
    # The best one is missing, and another one is there.
    other = [*found[1:], {"id": best[3], "score": expected[best[3]]}]
    assert find_difference(other, expected, 3).startswith(f"missed {best[0]}")


def test_answers_of_two_states_are_seen(tmp_path):
    from generations import Generations

    world = Generations(tmp_path, 0)
    probes = world.probes[:3]
    before = dict(zip(probes, world.linker.find(probes), strict=True))
    assert not world.find_difference(before, 0, 5)
    rng = SimpleNamespace(choice=lambda kinds: "both")
    world.initialize(rng)
    after = dict(zip(probes, world.linker.find(probes), strict=True))
    # Each is right as long as the linker may have been in that state, and a mixture never is.
    assert not world.find_difference(before, 0, 5) and not world.find_difference(after, 0, 5)
    assert world.find_difference(before, world.ended, 5)
    assert not world.find_difference(after, world.ended, 5)
    assert world.find_difference({**before, probes[0]: after[probes[0]]}, 0, 5)


def test_an_operation_fails_and_files_are_cut_short(tmp_path):
    from faults import fail_with, limit_file_size, watch

    with watch(tmp_path) as watched:
        (tmp_path / "a").write_text("x")
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path.parent / "elsewhere").write_text("x")
    assert watched.operations == ["open /a", "os.rename /a"]
    with pytest.raises(OSError, match="No space"), watch(tmp_path, 1, fail_with(28)) as watched:
        (tmp_path / "c").mkdir()
        (tmp_path / "d").mkdir()
    assert watched.has_acted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]
    with pytest.raises(OSError), limit_file_size(10):
        (tmp_path / "b").write_text("x" * 11)
    assert len((tmp_path / "b").read_text()) <= 10
    (tmp_path / "b").write_text("x" * 11)


def test_an_error_in_a_check_is_a_failure_and_the_report_fails(tmp_path, capsys):
    from checks import Check, run_check, write_checks
    from report import main

    checks: list[Check] = []
    with run_check("first", checks) as check:
        check.count("things", 3)
    write_checks(tmp_path / "run", "good", checks, {"seed": 0})
    main(tmp_path / "run", tmp_path / "report", ["good"])
    assert "| first | 3 things | 0 | 0 |" in (tmp_path / "report.md").read_text(encoding="utf8")
    with pytest.raises(typer.Exit):
        main(tmp_path / "run", tmp_path / "report", ["good", "absent"])
    with run_check("second", checks):
        raise KeyError("lost")
    write_checks(tmp_path / "run", "good", checks, {"seed": 0})
    with pytest.raises(typer.Exit):
        main(tmp_path / "run", tmp_path / "report", ["good"])
    assert "| second |  | **1** | 0 |" in capsys.readouterr().out


def test_a_process_that_ends_by_itself_is_no_kill(tmp_path):
    from check_kills import run_work

    assert multiprocessing.get_start_method(allow_none=True) != "forkserver"
    with pytest.raises(RuntimeError, match="ended with 1"):
        run_work("editing", tmp_path, None)
