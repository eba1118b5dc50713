"""All project.yml files: projects own their commands, and each command of the root is a line or two into projects."""

import ast
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import srsly
import typer
from project_scripts import import_scripts
from weasel.util import load_project_config

from training.cli import app
from training.cli.application import TRAINING

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(path.parent for path in (ROOT / "projects").glob("*/project.yml"))
ALL = [ROOT, *PROJECTS]
COMMANDS = typer.main.get_command(app).commands
# What scripts may import of `training`: architecture.md lists it.
SHARED = "bench|markup|data|evaluation|corpora.gold|encoders.bases|figures.curves|methods.tables|release.rrf"
RUN_PROJECT = ["python", "-m", "spacy", "project", "run"]

by_folder = pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name if folder != ROOT else "root")
by_project = pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)


load_config = cache(load_project_config)


def read_lines(folder):
    """Give the command lines of a project with their variables filled in, by command."""
    for command in load_config(folder)["commands"]:
        for line in command.get("script", []):
            yield command, shlex.split(line)


def list_names(folder):
    config = load_config(folder)
    return {*config.get("workflows", {}), *(command["name"] for command in config["commands"])}


def find_tracked(paths):
    """Find which of some paths git would not ignore."""
    paths = [str(path) for path in paths]
    asked = "\0".join(paths)
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], cwd=ROOT, input=asked, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return sorted(set(paths) - set(done.stdout.split("\0")))


def test_the_root_only_runs_projects():
    for _, words in read_lines(ROOT):
        assert words[:5] == RUN_PROJECT
        name, project = words[5], ROOT / words[6]
        assert name in list_names(project)
        given = [word.removeprefix("--vars.") for word in words[7:] if word.startswith("--vars.")]
        assert set(given) <= set(load_config(project)["vars"])


@by_folder
def test_no_two_items_of_a_command_become_one(folder):
    """weasel joins items that are nothing but variables and follow each other."""
    given = srsly.read_yaml(folder / "project.yml")["commands"]
    for raw, command in zip(given, load_config(folder)["commands"], strict=True):
        for key in ("deps", "outputs", "script"):
            assert len(command.get(key, [])) == len(raw.get(key, [])), (raw["name"], key)


def test_the_help_of_the_roots_commands_names_their_variables():
    config = srsly.read_yaml(ROOT / "project.yml")
    for command in config["commands"]:
        used = dict.fromkeys(re.findall(r"\$\{vars\.(\w+)\}", " ".join(command["script"])))
        named = re.search(r" \[([\w, ]+)\]$", command["help"])
        assert (named[1].split(", ") if named else []) == list(used), command["name"]
    # One of two names that differ in a sign only is taken for the other.
    names = [*config["workflows"], *(command["name"] for command in config["commands"])]
    assert len({name.replace("_", "-") for name in names}) == len(names)


@by_project
def test_a_project_runs_neither_the_root_nor_another_project(folder):
    text = (folder / "project.yml").read_text(encoding="utf8")
    assert "../.." not in text
    for _, words in read_lines(folder):
        assert words[1:4] != ["-m", "spacy", "project"]
    for script in folder.glob("scripts/*.py"):
        assert not re.search(r"project_run|import_file|sys\.path\.append", script.read_text(encoding="utf8")), script


def list_imports(script):
    """Give what a script imports: modules, and names of modules behind a dot."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@by_project
def test_scripts_import_their_own_project_the_plugin_and_some_of_training(folder):
    own = {script.stem for script in folder.glob("scripts/*.py")}
    others = {script.stem for project in PROJECTS for script in project.glob("scripts/*.py")} - own
    for script in folder.glob("scripts/*.py"):
        for name in list_imports(script):
            package, _, rest = name.partition(".")
            assert package not in others, f"{script} imports {package}, a script of another project"
            if package == "training":
                assert re.match(rf"({SHARED})\b", rest), f"{script} imports {name}: say so in docs/architecture.md"
            if package in ("training", "spacy_sapbert"):
                assert not re.search(r"\._(?!_)", name), f"{script} imports {name}, which is private"


def test_architecture_lists_what_scripts_import_of_training():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf8")
    sentence = re.search(r"Their scripts import(.*?), and nothing private", text, flags=re.DOTALL)[1]
    assert re.findall(r"`([a-z_.]+)`", sentence) == ["training", *SHARED.split("|")]


@by_folder
def test_every_variable_is_used_and_may_have_spaces_and_apostrophes(folder):
    text = (folder / "project.yml").read_text(encoding="utf8")
    names = load_config(folder).get("vars", {})
    assert [name for name in names if f"${{vars.{name}}}" not in text] == []
    # Numbers and choices stand without quotes; any other value stays within its word.
    bare = set(re.findall(r"[\s-]\$\{vars\.(\w+)\}", text))
    changed = load_project_config(folder, overrides={f"vars.{name}": "o'brien x" for name in names if name not in bare})
    for before, after in zip(load_config(folder)["commands"], changed["commands"], strict=True):
        counts = [[len(shlex.split(line)) for line in command.get("script", [])] for command in (before, after)]
        assert counts[0] == counts[1], before["name"]


@by_folder
def test_every_command_is_helped_and_every_name_means_one_thing(folder):
    config = load_config(folder)
    commands = [command["name"] for command in config["commands"]]
    assert len(commands) == len(set(commands))
    assert not set(commands) & set(config.get("workflows", {}))
    assert all(command.get("help") for command in config["commands"])
    assert all(len(command["help"]) <= 120 for command in config["commands"])
    for steps in config.get("workflows", {}).values():
        assert set(steps) <= set(commands)


@by_project
def test_commands_options_and_configs_of_training_exist(folder):
    for _, words in read_lines(folder):
        if words[:3] != ["python", "-m", "training"]:
            continue
        command = COMMANDS[words[3]]
        # Of a group, the command within it.
        command = getattr(command, "commands", {}).get(words[4], command)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        # Settings of a config have a section: `--run.seed`.
        options = [word.split("=")[0] for word in words[4:] if word.startswith("--") and "." not in word]
        assert set(options) <= known, words
        if next(parameter.name for parameter in command.params if parameter.param_type_name == "argument") == "config":
            # A file of the project, or one that comes with training.
            places = [TRAINING / part / f"{words[4]}.cfg" for part in ("configs", "sweeps", "evaluation")]
            assert any(place.is_file() for place in (*places, folder / words[4])), words


@by_project
def test_scripts_and_configs_exist_and_are_dependencies(folder):
    for command, words in read_lines(folder):
        files = [word for word in words if re.match(r"(scripts|configs)/", word)]
        for file in files:
            assert (folder / file).is_file(), file
        assert {file for file in files if file.startswith("scripts/")} <= set(command.get("deps", [])), command["name"]


@pytest.mark.parametrize(
    "project, script, package, told",
    [
        ("corpus", "link", "pyarrow", "pip install 'pyarrow>=17'"),
        ("service", "serve", "uvicorn", "uvicorn.*requirements.txt"),
        ("service", "serve", "cassis", "cassis.*requirements.txt"),
    ],
)
def test_a_missing_package_is_said_in_one_line(monkeypatch, project, script, package, told):
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with import_scripts(project), pytest.raises(SystemExit, match=told) as stopped:
        import_module(script)
    assert "\n" not in str(stopped.value)


def test_learning_says_how_to_install_training(tmp_path):
    line = next(line for command, line in read_lines(ROOT / "projects/reranker") if command["name"] == "convert")
    # Neither packages nor the checkout are on the path.
    line[1] = str(ROOT / "projects/reranker" / line[1])
    done = subprocess.run([sys.executable, "-S", *line[1:]], cwd=tmp_path, capture_output=True, text=True, env={})
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "pip install -c constraints.txt -e '.[training]'" in done.stderr


def test_the_folder_of_corpora_is_there_before_any_is_fetched():
    """Then `corpora` lists what is missing."""
    (line,) = [line for command, line in read_lines(ROOT / "projects/benchmarks") if command["name"] == "corpora"]
    assert line[5] in load_config(ROOT / "projects/benchmarks")["directories"]


@by_project
def test_outputs_are_ignored_by_git(folder):
    config = load_config(folder)
    made = [output for command in config["commands"] for output in command.get("outputs", [])]
    made += config.get("directories", [])
    made += [
        value
        for name, value in config.get("vars", {}).items()
        if name.endswith(("output", "run", "report")) and isinstance(value, str) and not value.startswith("../")
    ]
    assert find_tracked(folder / path for path in made) == []
    assert (folder / ".gitignore").is_file()


def test_assets_are_verified():
    for folder in PROJECTS:
        assets = load_config(folder).get("assets", [])
        assert find_tracked(folder / asset["dest"] for asset in assets) == []
        for asset in assets:
            # Ontologies change every month at their address.
            if "url" in asset and folder.name != "open_terminology":
                assert re.fullmatch(r"[0-9a-f]{32}", asset["checksum"])


def test_systems_are_seen_from_their_project():
    for config in (ROOT / "projects").glob("*/configs/systems.cfg"):
        text = config.read_text(encoding="utf8")
        places = re.findall(r'^(?:encoder|model) = "(.*/.*)"$', text, flags=re.MULTILINE)
        assert places
        assert all(re.match(r"(output/|\.\./[a-z_]+/(output|model|encoder))", place) for place in places), places
