"""The commands as a project runs them, and the check of their inputs."""

import hashlib
import subprocess
import sys

import pytest
import srsly
from rrf_files import atom, rrf_line, write_release
from typer.testing import CliRunner

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training import __main__ as commands
from training.cli import COMMANDS, app
from training.cli.application import read_overrides
from training.data.pairs import read_pairs
from training.data.splits import read_held_out
from training.data.triples import read_triples
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


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert bool(result.exit_code) == fails, (result.output, result.exception)
    return str(result.exception) if fails else result.output


def test_each_module_registers_its_commands():
    registered = {}
    for command in app.registered_commands:
        if not command.hidden:
            name = command.name or command.callback.__name__.replace("_", "-")
            registered.setdefault(command.callback.__module__.rpartition(".")[2], []).append(name)
    registered |= {group.name: [group.name] for group in app.registered_groups}
    assert {module: set(names) for module, names in registered.items()} == {
        module: set(names) for module, names in COMMANDS.items()
    }


def test_a_command_is_run_without_the_modules_of_others():
    code = (
        "import sys; from training.cli import load_app; app = load_app('write-rrf'); "
        "from typer.testing import CliRunner; result = CliRunner().invoke(app, ['write-rrf', '--help']); "
        "assert result.exit_code == 0, result.output; "
        "print(sorted(name for name in sys.modules if name.startswith('training.cli.')))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.strip() == "['training.cli.application', 'training.cli.release']"


def test_preprocess_pairs_and_triples(release, tmp_path):
    output = run("preprocess", release, tmp_path / "names")
    assert "2 concepts with 4 names" in output and "list of checksums" not in output
    assert "0 links gave 0 names to 0 concepts" in output and "have: 0 of MRREL" in output and "{" not in output
    assert len(Terminology.from_disk(tmp_path / "names")) == 2
    assert srsly.read_json(tmp_path / "names" / "report.json")["read"]["MRCONSO"] == 5
    assert "| GER | 1 | 0 |" in (tmp_path / "names" / "report.md").read_text()
    output = run("pairs", tmp_path / "names", tmp_path / "pairs", "--text", tmp_path / "pairs.txt")
    assert "1 pairs of 1 possible" in output and "11,792,953" in output
    assert next(read_pairs(tmp_path / "pairs")).rows() == [("C1", "fever", "pyrexia")]
    assert (tmp_path / "pairs.txt").read_text() == "C1||fever||pyrexia\n"
    assert "1 triples" in run("triples", release, tmp_path / "names", tmp_path / "triples")
    assert read_triples(tmp_path / "triples").decode().rows() == [("C2", "PAR", "C1")]


def test_options_of_preprocess(release, tmp_path):
    run("preprocess", release, tmp_path / "names", "--languages", "all", "--level-0-only", "--lower-case")
    terminology = Terminology.from_disk(tmp_path / "names")
    assert terminology.concepts["id"].to_list() == ["C1"]
    assert terminology["C1"].names == ("fever", "pyrexia", "fieber")
    assert terminology.report["settings"]["max_restriction_level"] == 0


def test_inputs_are_compared_with_a_list_of_checksums(release, tmp_path):
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(release.iterdir())]
    (release / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    assert "2 of 2 files" in run("preprocess", release, tmp_path / "names")
    (release / "MRREL.RRF").write_text("")
    message = run("preprocess", release, tmp_path / "other", fails=True)
    assert "is not the file that" in message and "MRREL.RRF" in message and not (tmp_path / "other").exists()
    (release / "SHA256SUMS").unlink()
    (tmp_path / "sums").write_text("abc  elsewhere.txt\n")
    assert "lacks files that were read" in run(
        "preprocess", release, tmp_path / "other", "--checksums", tmp_path / "sums", fails=True
    )
    missing = run("preprocess", release, tmp_path / "other", "--checksums", tmp_path / "none", fails=True)
    assert "Can't find the file" in missing


def test_missing_release_says_where_to_get_one(tmp_path):
    message = run("preprocess", tmp_path / "nowhere", tmp_path / "names", fails=True)
    assert "There is no MRCONSO" in message and "open_terminology" in message


def test_codes_of_our_own_releases_are_read(release, tmp_path):
    builder = TerminologyBuilder()
    builder.add_concept("C1", codes=["ICD10:R50"])
    builder.add_name("C1", "fever", source="HPO")
    write_rrf(builder.build(), tmp_path / "ours")
    for output, option, codes in (("a", [], ("ICD10:R50",)), ("b", ["--no-xrefs"], ())):
        run("preprocess", tmp_path / "ours", tmp_path / output, *option)
        assert Terminology.from_disk(tmp_path / output)["C1"].codes == codes
    # Of another release, MRSAT is not even looked at: it is the largest file of UMLS.
    files = [rrf_line("MRFILES", FIL="MRSAT.RRF", DES="Attributes", FMT="CUI,ATN", RWS="1")]
    write_release(release, MRSAT=["no such columns"], MRFILES=files)
    run("preprocess", release, tmp_path / "c")
    run("preprocess", release, tmp_path / "d", "--xrefs", fails=True)


def test_releases_are_kept_clean_and_no_languages_are_no_choice(release, tmp_path):
    before = sorted(release.iterdir())
    for output in (release, release / "names", tmp_path / "names" / ".." / "rrf"):
        assert "the folder of the release. Give a folder" in run("preprocess", release, output, fails=True)
    assert "--languages is empty, which could mean none" in run(
        "preprocess", release, tmp_path / "names", "--languages", " ,", fails=True
    )
    assert sorted(release.iterdir()) == before and not (tmp_path / "names").exists()


def test_the_text_file_is_checked_before_pairs_are_made(release, tmp_path):
    run("preprocess", release, tmp_path / "names")
    assert "it is a folder" in run("pairs", tmp_path / "names", tmp_path / "pairs", "--text", tmp_path, fails=True)
    assert not (tmp_path / "pairs").exists()
    run("pairs", tmp_path / "names", tmp_path / "pairs", "--text", tmp_path / "new" / "folder" / "p.txt")
    assert (tmp_path / "new" / "folder" / "p.txt").is_file()


def build(n):
    builder = TerminologyBuilder()
    for concept in range(n):
        builder.add_name(f"C{concept}", f"name {concept}")
        builder.add_name(f"C{concept}", f"other name {concept}")
    return builder.build()


def test_a_split_is_whole_or_not_there(tmp_path, monkeypatch):
    build(9).to_disk(tmp_path / "names")
    output, split = tmp_path / "split", ("split", tmp_path / "names", tmp_path / "split", "--held-out")
    (output / "pairs").mkdir(parents=True)

    def fail(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Terminology, "to_disk", fail)
        run(*split, 2, fails=True)
    assert [path.name for path in output.iterdir()] == ["pairs"]
    assert "9 concepts to search, of 20 asked for" in run(*split, 2, "--dictionary", 20)
    files = srsly.read_json(output / "split.json")["files"]
    assert set(files) == {
        "held_out.json",
        *(f"terminology/{path.name}" for path in (output / "terminology").iterdir()),
    }
    assert (output / "pairs").is_dir() and len(read_held_out(output / "held_out.json").queries) == 2
    # Parts of two splits do not belong together.
    build(5).to_disk(output / "terminology")
    with pytest.raises(OSError, match="terminology"):
        read_held_out(output / "held_out.json")


def test_errors_with_a_code_are_printed_and_others_raised(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["training", "preprocess", str(tmp_path / "nowhere"), str(tmp_path / "names")])
    with pytest.raises(SystemExit) as exit_info:
        commands.main()
    captured = capsys.readouterr()
    assert exit_info.value.code == 1 and captured.err.startswith("There is no MRCONSO")
    assert "Traceback" not in captured.err

    def fail(*_, **__):
        raise KeyError("CUI")

    (tmp_path / "file").write_text("")
    monkeypatch.setattr("sys.argv", ["training", "pairs", str(tmp_path / "names"), str(tmp_path / "file")])
    build(3).to_disk(tmp_path / "names")
    with pytest.raises(SystemExit):
        commands.main()
    captured = capsys.readouterr()
    assert "Give the path of a folder" in captured.err and str(tmp_path / "file") in captured.err

    def run_out(*_, **__):
        raise OSError(28, "No space left on device", "names")

    monkeypatch.setattr("sys.argv", ["training", "preprocess", str(tmp_path / "nowhere"), str(tmp_path / "other")])
    monkeypatch.setattr("training.cli.data.read_rrf", run_out)
    monkeypatch.setattr("training.cli.data._is_written_by_us", lambda _: False)
    with pytest.raises(SystemExit):
        commands.main()
    assert capsys.readouterr().err.startswith("names: No space left on device")

    monkeypatch.setattr("training.cli.data.read_rrf", fail)
    with pytest.raises(KeyError, match="CUI"):
        commands.main()


def test_a_variable_that_is_not_set_leaves_what_the_config_says():
    arguments = ["--paths.encoder", "", "--paths.held_out", "", "--batch.pairs", "8"]
    assert read_overrides(arguments) == {"paths.held_out": "", "batch.pairs": 8}


def test_a_missing_terminology_names_the_commands_that_write_one(tmp_path):
    for command in ("pairs", "split"):
        message = run(command, tmp_path / "names", tmp_path / "out", fails=True)
        assert "preprocess RELEASE FOLDER" in message and str(tmp_path / "names") in message
    assert not (tmp_path / "out").exists()


def test_options_of_another_kind_are_refused(tmp_path):
    (tmp_path / "names.tsv").write_text("C1\tcold\n")
    refused = run("preprocess", tmp_path / "names.tsv", tmp_path / "out", "--tradenames", "off", fails=True)
    assert "--tradenames is no option for a dictionary" in refused
    refused = run("preprocess", tmp_path, tmp_path / "out", "--remove", "0.5", fails=True)
    assert "--remove is no option for a release" in refused
    refused = run("split", tmp_path / "names", tmp_path / "out", "--max-queries", 3, fails=True)
    assert "--max-queries is no option for a split of names" in refused
    # Projects pass variables that are not set.
    assert "no option" not in run("pairs", tmp_path / "m.jsonl", tmp_path / "out", "--text", "", fails=True)


def test_commands_end_with_what_they_have_made(tmp_path):
    build(9).to_disk(tmp_path / "names")
    assert f"Written to {tmp_path / 'pairs'}." in run("pairs", tmp_path / "names", tmp_path / "pairs")
    assert f"Written to {tmp_path / 'out'}." in run("split", tmp_path / "names", tmp_path / "out", "--held-out", 2)
    message = run("split", tmp_path / "names", tmp_path / "out", "--held-out", 2, "--sources", "X", fails=True)
    assert "of them two names with one that is theirs" in message and "names of these sources: " in message
