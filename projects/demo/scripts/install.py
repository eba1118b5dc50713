"""Install the packaged pipeline into a clean virtual environment, and check that it links the same there, offline."""

import json
import os
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer
from wasabi import msg

PLUGIN = "spacy-sapbert"
# The environment has no use for these, and an empty PYTHONPATH keeps it clean.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def main(packages: Path, links: Path, environment: Path) -> None:
    """Install the wheels and compare."""
    (wheel,) = packages.glob("*/dist/*.whl")
    msg.info(f"Installing {wheel.name} into a clean environment")
    venv.create(environment, with_pip=True, clear=True)
    python = environment.absolute() / ("Scripts" if os.name == "nt" else "bin") / "python"
    clean = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    constraints = environment / "constraints.txt"
    constraints.write_text("\n".join(list_versions()), encoding="utf8")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", str(constraints), find_plugin(), str(wheel)]
    subprocess.run(command, check=True, env=clean)
    script = Path(__file__).absolute().with_name("check_offline.py")
    # Elsewhere than in the project, so that nothing is imported or read from it.
    result = subprocess.run([str(python), str(script), str(links.absolute())], env=clean, cwd=environment, check=False)
    sys.exit(result.returncode)


def find_plugin() -> str:
    """Find the source that the plugin was installed from."""
    plugin = distribution(PLUGIN)
    origin = plugin.read_text("direct_url.json")
    url = urlsplit(json.loads(origin)["url"]) if origin else None
    return url2pathname(url.path) if url and url.scheme == "file" else f"{PLUGIN}=={plugin.version}"


def list_versions() -> list[str]:
    """List the versions of the packages of this environment, as constraints for the clean one."""
    found = {one.name: one.version.split("+")[0] for one in distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name != PLUGIN)


if __name__ == "__main__":
    typer.run(main)
