"""Make a Python package of an encoder folder, which the linker finds by its name.

    python package.py ENCODER NAME VERSION OUTPUT

It needs the library `build` (extra `demo`), which fetches setuptools into an environment of its own.
"""

import argparse
import re
import shutil
import subprocess
import sys
from importlib.metadata import version as find_version
from pathlib import Path
from tempfile import TemporaryDirectory

from spacy_sapbert.encoder.folder import read_encoder

CODE = '"""An encoder of names for spacy-sapbert, which finds it as "{name}"."""\n'
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "spacy-sapbert-{name}"
version = "{version}"
description = "An encoder of biomedical names for spacy-sapbert"
readme = "README.md"
license = "{licence}"
dependencies = ["spacy-sapbert>={needed}"]
classifiers = ["Topic :: Scientific/Engineering :: Bio-Informatics"]

[tool.setuptools]
packages = ["spacy_sapbert_{name}", "spacy_sapbert_{name}.encoder"]

[tool.setuptools.package-data]
"*" = ["*", "*/*"]
"""


def write_package(encoder: Path, name: str, version: str, output: Path, *, isolated: bool = True) -> Path:
    """Write the sources of the package and build its wheel.

    encoder (Path): The encoder folder. Its card becomes the description, and has the licence, such as apache-2.0.
    name (str): What pipelines call it: a word of small letters.
    output (Path): The folder to put the wheel into.
    isolated (bool): Whether to fetch setuptools; otherwise the installed one is used.
    RETURNS (Path): The wheel.
    """
    if not (name.isidentifier() and name.islower()):
        sys.exit(f"The package can't be called {name!r}: give a word of small letters, digits and underscores.")
    source = read_encoder(encoder)
    if source.card is None:
        sys.exit(f"{encoder} has no card (README.md), and a package has to say how it was made: run `store` first.")
    licence = re.search(rb"^license: ([\w.+-]+)$", source.card, re.MULTILINE)
    if licence is None:
        sys.exit(f"The card of {encoder} names no licence: store it again, with --licence.")
    with TemporaryDirectory() as folder:
        package = Path(folder) / f"spacy_sapbert_{name}"
        shutil.copytree(encoder, package / "encoder")
        (package / "__init__.py").write_text(CODE.format(name=name), encoding="utf8")
        (package.parent / "README.md").write_bytes(source.card)
        needed = find_version("spacy-sapbert")
        project = PROJECT.format(name=name, version=version, licence=licence[1].decode(), needed=needed)
        (package.parent / "pyproject.toml").write_text(project, encoding="utf8")
        options = ["--wheel", "--outdir", str(output)] + ["--no-isolation"] * (not isolated)
        subprocess.run([sys.executable, "-m", "build", *options, folder], check=True)
    return next(output.glob(f"spacy_sapbert_{name}-{version}-*.whl"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for argument in ("encoder", "name", "version", "output"):
        parser.add_argument(argument)
    given = parser.parse_args()
    print(write_package(Path(given.encoder), given.name, given.version, Path(given.output)))
