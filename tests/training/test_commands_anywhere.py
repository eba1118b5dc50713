"""The commands run from any folder, and know the configs that come with the package by name."""

import subprocess
import sys
from importlib import import_module

import pytest
from command_line import run_command

from training.__main__ import main
from training.cli.application import TRAINING, find_config


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
        main()
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
        run_command("measure", "encoders", "output", *settings)
