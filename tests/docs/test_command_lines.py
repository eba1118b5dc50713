"""Help and mistakes of all command lines: every command is tried with the same bad inputs."""

import os
import re
import shlex
import subprocess
import sys
from functools import partial

import pytest
import spacy
import typer
from conftest import build_terminology
from shell_commands import check_command, get_application
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_sapbert import __main__ as plugin
from spacy_sapbert.command_line import TRACEBACK, run_app
from spacy_sapbert.tables.checking import read_labels
from training import __main__ as training

SCREEN = {"COLUMNS": "80", "LINES": "40"}
PROGRAMS = {"training": training, "spacy_sapbert": plugin}
MAINS = {module: program.main for module, program in PROGRAMS.items()}
APPLICATIONS = {module: program.app for module, program in PROGRAMS.items()}
PANELS = {
    "training": ["Data", "Training", "Measuring", "Reports"],
    "spacy_sapbert": ["Tables", "Mappings", "Out of spaCy", "Into spaCy"],
}


def list_commands():
    """List the commands: the module, the words before its arguments, and the command of click."""
    for module in MAINS:
        waiting = [((), get_application(module))]
        for words, command in waiting:
            parts = getattr(command, "commands", None)
            waiting += [((*words, name), part) for name, part in (parts or {}).items()]
            if words:
                yield module, words, command, parts is not None


COMMANDS = list(list_commands())
IDS = [" ".join(words) for _, words, _, _ in COMMANDS]
# What each command is given: BAD is a path that is not there, an empty file, or a folder that is empty.
WORDS = {
    "preprocess": "BAD out",
    "split": "BAD out",
    "pairs": "BAD out",
    "triples": "BAD names out",
    "write-rrf": "BAD out",
    "convert": "ncbi-disease BAD out",
    "train": "BAD.cfg",
    "settings": "sapbert BAD.cfg",
    "sweep": "BAD.cfg out",
    "export": "BAD out",
    "measure": "BAD.cfg out",
    "expect": "BAD out",
    "report": "BAD",
    "figures tsne": "BAD out.svg --encoder =",
    "figures histograms": "BAD out.svg --encoder =",
    "figures neighbours": "BAD out --encoder =",
    "figures curves": "BAD",
    "link": "BAD --pipeline names",
    "link-laboratory": "BAD --pipeline names",
    "link-drugs": "BAD --pipeline names",
    "check": "BAD --terminology names",
    "to-sssom": "BAD out",
    "renew": "BAD out --pipeline names",
    "review": "BAD out.html",
    "decide": "BAD BAD out",
    "to-source-map": "BAD out.csv --concepts BAD",
    "to": "csv BAD.spacy out",
    "from": "csv BAD out.spacy",
    "to-fhir": "BAD.spacy out.jsonl",
    "to-omop": "BAD.spacy out.csv --concepts BAD",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make bad files and folders under each name that a command asks for, and good ones beside them."""
    folder = tmp_path_factory.mktemp("commands")
    for ending in ("", ".cfg", ".spacy"):
        (folder / f"empty{ending}").touch()
        (folder / f"folder{ending}").mkdir()
    build_terminology([("C1", "cold")]).to_disk(folder / "names")
    doc = spacy.blank("en")("a cold")
    doc.ents = [doc.char_span(2, 6, label="DISEASE", kb_id="C1")]
    DocBin(docs=[doc], store_user_data=True).to_disk(folder / "docs.spacy")
    return folder


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run a command as the shell does. Gives the exit code and what is printed to stderr."""
    monkeypatch.chdir(folder)
    # A folder that is not there is no reason to ask the hub.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(module, *words):
        monkeypatch.setattr("sys.argv", [module, *words])
        with pytest.raises(SystemExit) as ended:
            MAINS[module]()
        return ended.value.code, capsys.readouterr().err

    return run


HELP = """
import runpy, sys
sys.argv[1:] = ["--help"]
try:
    runpy.run_module({module!r}, run_name="__main__")
finally:
    print(*{{"numpy", "polars", "spacy", "torch"}} & {{*sys.modules}}, file=sys.stderr, end="")
"""


@pytest.mark.parametrize("module", MAINS)
def test_commands_are_listed_in_groups_on_one_screen_and_nothing_heavy_is_imported(module):
    command = [sys.executable, "-c", HELP.format(module=module)]
    done = subprocess.run(command, env=os.environ | SCREEN, capture_output=True, text=True, check=True)
    lines = done.stdout.rstrip().splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    titles = [line.split()[1:-1] for line in lines if line.startswith("╭")]
    assert [" ".join(title).rstrip(" ─") for title in titles] == ["Options", *PANELS[module]]
    assert TRACEBACK in done.stdout and not done.stderr


@pytest.mark.parametrize("module, words, command, is_group", COMMANDS, ids=IDS)
def test_a_command_has_a_short_summary_and_ends_with_an_example_that_can_be_copied(module, words, command, is_group):
    shown = CliRunner(env=SCREEN).invoke(APPLICATIONS[module], [*words, "--help"]).output
    lines = [line.rstrip() for line in shown.rstrip().splitlines()]
    assert max(map(len, lines)) <= 80
    assert len(command.help.partition("\n\n")[0]) <= 62 and not is_group or len(command.commands) > 1
    title, example = [line for line in lines if line][-2:]
    assert title == " Example:" and example.startswith(f" python -m {module} {' '.join(words)} ")
    check_command(shlex.split(example))
    # Brackets of help texts are no markup.
    assert all(option.help in (None, "") or "[" not in option.help for option in command.params)


@pytest.mark.parametrize("bad", ["nowhere", "empty", "folder"])
@pytest.mark.parametrize("module, words, command, is_group", COMMANDS, ids=IDS)
def test_a_bad_path_is_named_on_one_line(run, module, words, command, is_group, bad):
    if is_group:
        return
    code, printed = run(module, *words, *WORDS[" ".join(words)].replace("BAD", bad).split())
    (line,) = [line for line in printed.splitlines() if "Warning" not in line]
    # Of a checker, 1 says that it has found something.
    assert code == (2 if "check" in words else 1) and line.startswith("Error: ") and bad in line


@pytest.mark.parametrize("module, words, command, is_group", COMMANDS, ids=IDS)
def test_a_command_without_arguments_shows_how_to_call_it(run, module, words, command, is_group):
    code, printed = run(module, *words)
    assert code == 2 and "Traceback" not in printed


@pytest.mark.parametrize(
    "words, code, shown",
    [
        ("train quikc", 1, "There is no config quikc.*Did you mean quick"),
        ("measure encodres out", 1, "Did you mean encoders"),
        ("train quick --paths.output out --paths.pairs names --batch.pear 3", 1, "pear of .*quick.cfg.*mean pairs"),
        ("train quick --paths.output out --paths.pairs names --pairs 3", 2, "no option --pairs"),
        ("train coder_cpu --paths.output out --paths.pairs names", 1, "paths.pairs of .*: There is no such setting"),
        ("settings saphert", 1, "run.method"),
        ("write-rrf names empty", 1, "'empty', where a file is in the way"),
        ("measure encoders out --tasks.nope 3", 1, r"\[tasks.nope\]"),
        ("expect pipeline out --linker nothing", 2, "no sapbert_linker called nothing"),
    ],
)
def test_mistakes_say_what_to_do(run, folder, words, code, shown):
    spacy.blank("en").to_disk(folder / "pipeline")
    ended, printed = run("training", *words.split())
    text = re.sub(r"[\s│]+", " ", printed)
    assert ended == code and re.search(shown, text) and "Traceback" not in printed, printed


@pytest.mark.parametrize("error", [KeyError("CUI"), TypeError("text"), AssertionError("text"), ValueError("of NumPy")])
def test_bugs_keep_their_traceback(error):
    def fail():
        # As from another library.
        exec("raise error", {"error": error, "__name__": "numpy"})

    with pytest.raises(type(error)):
        run_app(fail, "")


def interrupt():
    raise KeyboardInterrupt


def interrupt_a_command():
    app = typer.Typer()
    app.command()(interrupt)
    app([])


@pytest.mark.parametrize("command", [interrupt, interrupt_a_command])
def test_an_interrupted_command_ends_with_a_line_and_the_code_that_shells_expect(command, capsys):
    with pytest.raises(SystemExit) as end:
        run_app(command, "")
    assert end.value.code == 130 and capsys.readouterr().err == "Interrupted.\n"


def test_a_mistake_shows_no_control_characters_of_a_file(tmp_path, capsys):
    (path := tmp_path / "a.csv").write_text("\x1b[31mred\x07\x9b,label\na,b\n", encoding="utf8")
    with pytest.raises(SystemExit):
        run_app(partial(read_labels, path, "id", "label"), "")
    said = capsys.readouterr().err
    assert r"column 'id'. Its columns are: \x1b[31mred\x07\x9b, label" in said and not set("\x1b\x07\x9b").intersection(
        said
    )


def test_the_traceback_of_a_mistake_can_be_asked_for(run, monkeypatch):
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(FileNotFoundError):
        run("training", "report", "nowhere")
