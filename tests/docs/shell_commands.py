"""Commands in bash blocks: whether what they call is there, with these arguments."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
from importlib import import_module
from typing import Any

import srsly
import typer
from doc_blocks import ROOT, Block
from thinc.api import Config

from spacy_sapbert.settings import list_settings
from training.methods.registry import find_method

# Commands of the system and of other packages, which are taken as they are.
SYSTEM = {"cd", "mkdir", "git", "hf", "pre-commit", "unzip", "mkdocs", "pytest"}
# Folders that git ignores; commands make what is in them.
MADE = ("output/", "corpus/", "assets/", "site/")


def split_commands(block: Block) -> list[list[str]]:
    """Split a bash block into the words of its commands, without comments and variables of the environment."""
    commands = []
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        command: list[str] = []
        for word in [*words, "&&"]:
            if word == "&&":
                commands += [command] if command else []
                command = []
            elif command or not re.fullmatch(r"[A-Z_]+=.*", word):
                command.append(word)
    return commands


def check_command(words: list[str]) -> None:
    """Check that a command is there and takes these arguments. It is not run."""
    check_paths(words)
    if words[0] == "accelerate":
        words = ["python", *words[words.index("-m") :]]
    if words[0] in SYSTEM or words[:3] in (["python", "-m", "venv"], ["python", "-m", "pytest"]) or words[0] == ".":
        return
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf8"), re.MULTILINE)
        wanted = [word for word in words[1:] if "=" not in word]
        assert wanted and set(wanted) <= set(targets), f"no target of the Makefile: {words}"
    elif "pip" in words[:3]:
        check_extras(words)
    elif words[:4] == ["python", "-m", "spacy", "huggingface-hub"]:
        assert words[4] == "push" and words[5].endswith(".whl"), f"no such command: {words}"
    elif words[:4] == ["python", "-m", "spacy", "project"]:
        check_project(words[4:])
    elif words[:2] == ["python", "-m"]:
        parse_arguments(words[2], words[3:])
    elif words[0] in ("python", ".ci/run"):
        assert (ROOT / words[words[0] == "python"]).is_file(), f"no such script: {words}"
    else:
        raise AssertionError(f"tests can't check this command: {words}")


def check_paths(words: list[str]) -> None:
    """Check that files of the repository that a command names are there."""
    for word in words:
        path = word.partition("=")[2] or word
        in_repository = path.startswith(("training/", "projects/", "docs/", "tests/"))
        if in_repository and not any(f"/{made}" in path + "/" for made in MADE):
            assert (ROOT / path).exists(), f"no such file: {path}"


def check_extras(words: list[str]) -> None:
    """Check that the extras that a command of pip installs are declared."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf8")
    for word in words:
        match = re.fullmatch(r"(?:\.|spacy-sapbert.*)\[([\w,]+)\]", word)
        for extra in match[1].split(",") if match else ():
            assert extra in setup["options.extras_require"], f"no such extra: {extra}"


def check_project(words: list[str]) -> None:
    """Check a command of `python -m spacy project`: the workflow and the variables."""
    if words[0] == "assets":
        folder = words[1] if len(words) > 1 else "."
        assert "assets" in srsly.read_yaml(ROOT / folder / "project.yml")
        return
    assert words[0] == "run", f"tests can't check this command: {words}"
    name, rest = words[1], words[2:]
    folder = rest.pop(0) if rest and not rest[0].startswith("--") else "."
    project: Any = srsly.read_yaml(ROOT / folder / "project.yml")
    known = {*project.get("workflows", {}), *(command["name"] for command in project["commands"])}
    assert name in known, f"{folder}/project.yml has no workflow or command {name}: {sorted(known)}"
    for word in rest:
        if word.startswith("--vars."):
            variable = word.removeprefix("--vars.").partition("=")[0]
            assert variable in project["vars"], f"{folder}/project.yml has no variable {variable}"
        else:
            assert not word.startswith("--") or word in ("--force", "--dry", "--help"), f"no such option: {word}"


def parse_arguments(module: str, words: list[str]) -> None:
    """Let the command line of a module parse arguments, and check settings that replace those of a config."""
    command: Any = get_application(module)
    context = typer.Context(command, info_name=module)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, list(words))
    if "--help" in words:
        return
    context = command.make_context(module, list(words))
    if context.args:
        path = ROOT / (context.params.get("config") or context.params["config_path"])
        config, tasks = Config().from_disk(path, interpolate=False), None
        if "sweep" in config:
            config = Config().from_disk(path.parent / config["sweep"]["config"], interpolate=False)
            tasks = Config().from_disk(ROOT / context.params["tasks"], interpolate=False)
        if "run" in config:
            # Configs of runs state what differs from the defaults of their method.
            rows = list_settings(find_method(config, path).Settings)
            config = {section: dict(values) for section, values in config.items()}
            for row in rows:
                section, _, setting = row.name.partition(".")
                config.setdefault(section, {}).setdefault(setting, row.default)
        for word in context.args:
            if word.startswith("--"):
                section, _, setting = word.removeprefix("--").rpartition(".")
                place = tasks if tasks and section.startswith(("tasks", "measure")) else config
                for part in section.split("."):
                    place = place.get(part, {})
                assert setting in place, f"{path.name} has no setting {word}"


def get_application(module: str) -> Any:
    """Get the command line of a module, a command of click."""
    if module == "spacy":
        from spacy.cli import app
    else:
        assert module in ("spacy_sapbert", "training"), f"tests can't check this command: {module}"
        app = import_module(f"{module}.__main__").app
    return typer.main.get_command(app)


def run_command(words: list[str]) -> None:
    """Run a command in this process, which has imported all that is slow to import."""
    if words[:2] == ["python", "-m"]:
        get_application(words[2]).main(words[3:], standalone_mode=False)
    else:
        subprocess.run(words, check=True)
