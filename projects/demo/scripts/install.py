"""Install the packaged pipeline into a clean virtual environment, and check that it links the same there, offline."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import typer
from wasabi import msg

# The environment has no use for these, and an empty PYTHONPATH keeps it clean.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def main(packages: Path, links: Path, project: Path, environment: Path) -> None:
    """Install the wheels and compare.

    packages (Path): Where `spacy package` has put its output.
    links (Path): The links made before packaging, JSONL.
    project (Path): The checkout of spacy-sapbert.
    environment (Path): Folder for the virtual environment; emptied first.
    """
    (wheel,) = packages.glob("*/dist/*.whl")
    msg.info(f"Installing {wheel.name} into a clean environment")
    venv.create(environment, with_pip=True, clear=True)
    python = environment.absolute() / ("Scripts" if os.name == "nt" else "bin") / "python"
    clean = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    constraints = ["--constraint", str(project / "constraints.txt")]
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints]
    subprocess.run([*command, str(project), str(wheel)], check=True, env=clean)
    script = Path(__file__).absolute().with_name("check_offline.py")
    # Elsewhere than in the project, so that nothing is imported or read from it.
    result = subprocess.run([str(python), str(script), str(links.absolute())], env=clean, cwd=environment, check=False)
    sys.exit(result.returncode)


if __name__ == "__main__":
    typer.run(main)
