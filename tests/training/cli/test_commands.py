"""The commands as a project runs them, from any folder, and the check of their inputs."""

import hashlib
import subprocess
import sys
from importlib import import_module

import pytest
import srsly
from command_line import run_command as run
from pair_rows import build, make_names, read_triple_rows
from rf2_files import Release
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import Terminology
from training import __main__ as commands
from training.cli.application import TRAINING, find_config, read_overrides
from training.data.pairs import read_pairs
from training.data.splits import read_held_out
from training.release.rrf import write_rrf


@pytest.fixture
def release(tmp_path):
    return write_release(
        tmp_path / "rrf",
        MRCONSO=[
            atom("C1", "Fever"),
            atom("C1", "fever"),
            atom("C1", "Pyrexia"),
            atom("C1", "Fieber", LAT="GER"),
            atom("C2", "Pain", SRL="3"),
        ],
        MRREL=[rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C2")],
    )


def write_names(n, path):
    build(make_names(range(n), "name {}", "other name {}")).to_disk(path)


def test_preprocess_pairs_and_triples(release, tmp_path):
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(release.iterdir())]
    (release / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    output = run("preprocess", release, tmp_path / "names")
    assert "2 concepts with 4 names" in output and "2 of 2 files agree with the list of checksums" in output
    assert "0 links gave 0 names to 0 concepts" in output and "have: 0 of MRREL" in output and "{" not in output
    assert len(Terminology.from_disk(tmp_path / "names")) == 2
    assert srsly.read_json(tmp_path / "names" / "report.json")["read"]["MRCONSO"] == 5
    assert "| GER | 1 | 0 |" in (tmp_path / "names" / "report.md").read_text()
    output = run("pairs", tmp_path / "names", tmp_path / "pairs", "--text", tmp_path / "new" / "pairs.txt")
    assert "1 pairs" in output and "11,792,953" in output and f"Written to {tmp_path / 'pairs'}." in output
    assert next(read_pairs(tmp_path / "pairs").decode()).rows() == [("C1", "fever", "pyrexia")]
    assert (tmp_path / "new" / "pairs.txt").read_text() == "C1||fever||pyrexia\n"
    assert "1 triples" in run("triples", release, tmp_path / "names", tmp_path / "triples")
    assert read_triple_rows(tmp_path / "triples") == [("C2", "PAR", "C1")]


def test_options_of_preprocess(release, tmp_path):
    run("preprocess", release, tmp_path / "names", "--languages", "all", "--level-0-only", "--lower-case")
    terminology = Terminology.from_disk(tmp_path / "names")
    assert terminology.concepts["id"].to_list() == ["C1"]
    assert terminology["C1"].names == ("fever", "pyrexia", "fieber")


def test_preprocess_reads_snomed_with_the_variables_of_the_project(tmp_path):
    snomed = Release()
    snomed.concept("195967001", "Asthma (disorder)", "Asthma", "Bronchial asthma")
    snomed.write(tmp_path / "snomed")
    output = run("preprocess", tmp_path / "snomed", tmp_path / "names", "--languages", "ENG", "--tradenames", "union")
    assert "1 concepts with 2 names" in output
    assert Terminology.from_disk(tmp_path / "names")["195967001"].names == ("Asthma", "Bronchial asthma")
    with pytest.raises(ValueError, match="--sources is no option for SNOMED CT"):
        run("preprocess", tmp_path / "snomed", tmp_path / "names", "--sources", "MSH")
    with pytest.raises(ValueError, match="the folder of the release. Give a folder"):
        run("preprocess", tmp_path / "snomed", tmp_path / "snomed" / "names")


def test_codes_of_our_own_releases_are_read(release, tmp_path):
    write_rrf(build({"C1": {"HPO": ["fever"]}}, C1={"codes": ["ICD10:R50"]}), tmp_path / "ours")
    run("preprocess", tmp_path / "ours", tmp_path / "a")
    assert Terminology.from_disk(tmp_path / "a")["C1"].codes == ("ICD10:R50",)
    # Of another release, MRSAT is not even looked at: it is the largest file of UMLS.
    files = [rrf_line("MRFILES", FIL="MRSAT.RRF", DES="Attributes", FMT="CUI,ATN", RWS="1")]
    write_release(release, MRSAT=["no such columns"], MRFILES=files)
    run("preprocess", release, tmp_path / "c")


def test_a_split_is_whole_or_not_there(tmp_path, monkeypatch):
    write_names(9, tmp_path / "names")
    output, split = tmp_path / "split", ("split", tmp_path / "names", tmp_path / "split", "--held-out")
    (output / "pairs").mkdir(parents=True)

    def fail(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Terminology, "to_disk", fail)
        with pytest.raises(OSError, match="No space left"):
            run(*split, 2)
    assert [path.name for path in output.iterdir()] == ["pairs"]
    shown = run(*split, 2, "--dictionary", 20)
    assert "9 concepts, of 20 asked for" in shown and f"Written to {output}." in shown
    files = srsly.read_json(output / "split.json")["files"]
    parts = {f"terminology/{path.name}" for path in (output / "terminology").iterdir()}
    assert set(files) == {"held_out.json", *parts}
    assert (output / "pairs").is_dir() and len(read_held_out(output / "held_out.json").queries) == 2
    # Parts of two splits do not belong together.
    write_names(5, output / "terminology")
    with pytest.raises(OSError, match="terminology"):
        read_held_out(output / "held_out.json")


NO_SPACE = OSError(28, "No space left on device", "names")


@pytest.mark.parametrize(
    "command, raised, shown",
    [
        ("preprocess nowhere out", None, "There is no MRCONSO"),
        ("pairs names file", None, "Give the path of a folder"),
        ("preprocess rrf out", NO_SPACE, "names: No space left on device"),
        ("preprocess rrf out", KeyError("CUI"), None),
    ],
)
def test_errors_that_say_what_to_do_are_printed_and_others_raised(
    release, tmp_path, monkeypatch, capsys, command, raised, shown
):
    def fail(*_, **__):
        raise raised

    monkeypatch.chdir(tmp_path)
    write_names(3, tmp_path / "names")
    (tmp_path / "file").write_text("")
    if raised:
        monkeypatch.setattr("spacy_sapbert.terminology.readers.rrf.read_rrf", fail)
    monkeypatch.setattr("sys.argv", ["training", *command.split()])
    with pytest.raises(SystemExit if shown else KeyError) as exit_info:
        commands.main()
    printed = capsys.readouterr().err
    assert not shown or (shown in printed and "Traceback" not in printed and exit_info.value.code == 1)


def test_a_variable_that_is_not_set_leaves_what_the_config_says():
    arguments = ["--paths.encoder", "", "--paths.held_out", "", "--batch.pairs", "8"]
    assert read_overrides(arguments) == {"paths.held_out": "", "batch.pairs": 8}


@pytest.mark.parametrize(
    "command, message",
    [
        ("preprocess nowhere out", "There is no MRCONSO.*open_terminology"),
        ("preprocess rrf rrf", "the folder of the release. Give a folder"),
        ("preprocess rrf rrf/names", "the folder of the release. Give a folder"),
        ("preprocess rrf out --languages ,", "--languages is empty, which could mean none"),
        ("preprocess names.tsv out --tradenames off", "--tradenames is no option for a dictionary"),
        ("preprocess rrf out --remove 0.5", "--remove is no option for a release"),
        ("pairs nowhere out", "no terminology in nowhere.*preprocess RELEASE FOLDER"),
        ("split nowhere out", "no terminology in nowhere.*preprocess RELEASE FOLDER"),
        ("split names out --max-queries 3", "--max-queries is no option for a split of names"),
        ("split names out --held-out 2 --sources X", "of them two names with one that is theirs.*of these sources: "),
        ("pairs names out --text names", "it is a folder"),
        # Projects pass variables that are not set.
        ("pairs m.jsonl out --text=", "Give one with `--dictionary`"),
        ("train nothing.cfg --device gpu", "The setting device is 'gpu'"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_written(release, tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    write_names(3, tmp_path / "names")
    (tmp_path / "names.tsv").write_text("C1\tcold\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((ValueError, OSError), match=message):
        run(*command.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_the_commands_run_from_any_folder(tmp_path):
    done = subprocess.run([sys.executable, "-m", "training", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "preprocess" in done.stdout


@pytest.mark.parametrize("missing", ["accelerate", "sklearn.cluster"])
def test_a_missing_package_is_named_with_what_to_install(monkeypatch, capsys, missing):
    def app():
        # As for a package that is not there.
        monkeypatch.setitem(sys.modules, missing, None)
        import_module(missing)

    monkeypatch.setattr("training.__main__.app", app)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1 and missing in line
    assert line.endswith("pip install -c constraints.txt -e '.[training]'.")


def test_a_file_comes_before_a_config_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, name in (("configs", "quick"), ("sweeps", "mining"), ("corpora", "corpora_dev")):
        assert find_config(folder)(name) == TRAINING / folder / f"{name}.cfg"
    with pytest.raises(FileNotFoundError, match="no config quikc.*coder_cpu.*quick, sapbert"):
        find_config("configs")("quikc")
    (tmp_path / "quick").write_text("[paths]")
    assert str(find_config("configs")("quick")) == "quick"
    assert str(find_config("configs")("mine.cfg")) == "mine.cfg"


def test_lists_of_corpora_are_known_by_name():
    settings = ["--tasks.corpora.folder", "no", "--tasks.corpora.list", "corpora_test"]
    message = "no list of corpora corpora_test.*corpora, corpora_coder, corpora_dev, corpora_mantra"
    with pytest.raises(FileNotFoundError, match=message):
        run("measure", "encoders", "output", *settings)
