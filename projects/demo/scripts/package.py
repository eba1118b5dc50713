"""The package of the demo: its sources and licences, and a check that it links the same in a clean environment."""

import json
import os
import socket
import subprocess
import sys
import time
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname

import srsly
import typer
from wasabi import msg

PLUGIN = "spacy-sapbert"
# `spacy package` takes this file along.
LICENCES_FILE = "LICENSES_SOURCES"
# They would let packages of this environment into the clean one.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
TOLERANCE = 1e-4
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sources(meta: Path, pipeline: Path, output: Path) -> None:
    """Write the versions of the sources into the package's meta, and their licences into a file beside it."""
    data = srsly.read_json(meta)
    manifest = srsly.read_json(pipeline / "sapbert_linker" / "terminology" / "terminology.json")
    version = manifest["report"]["source_version"] or "without a version"
    for source in data["sources"]:
        source["name"] = source["name"].replace("{version}", version)
    srsly.write_json(output, data)
    texts = ["{name}\n{author}, {url}\nLicence: {license}\n".format(**source) for source in data["sources"]]
    (pipeline / LICENCES_FILE).write_text("\n".join(texts), encoding="utf8")
    msg.good(f"Sources: {'; '.join(source['name'] for source in data['sources'])}")


@app.command()
def install(packages: Path, links: Path, environment: Path) -> None:
    """Install the wheel into a clean virtual environment, and check there, offline, that it links the same."""
    (wheel,) = packages.glob("*/dist/*.whl")
    msg.info(f"Installing {wheel.name} into a clean environment")
    venv.create(environment, with_pip=True, clear=True)
    python = str(environment.absolute() / ("Scripts" if os.name == "nt" else "bin") / "python")
    clean = {key: value for key, value in os.environ.items() if key not in HIDDEN}
    # The versions of this environment.
    versions = {one.name: one.version.split("+")[0] for one in distributions() if one.name != PLUGIN}
    constraints = environment / "constraints.txt"
    constraints.write_text("\n".join(f"{name}=={version}" for name, version in versions.items()), encoding="utf8")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", str(constraints), find_plugin(), str(wheel)]
    subprocess.run(command, check=True, env=clean)
    command = [python, str(Path(__file__).absolute()), "check", str(links.absolute())]
    # Elsewhere than in the project, so that nothing is imported or read from it.
    sys.exit(subprocess.run(command, env=clean, cwd=environment, check=False).returncode)


def find_plugin() -> str:
    """Find the source that the plugin was installed from."""
    plugin = distribution(PLUGIN)
    origin = plugin.read_text("direct_url.json")
    url = urlsplit(json.loads(origin)["url"]) if origin else None
    return url2pathname(url.path) if url and url.scheme == "file" else f"{PLUGIN}=={plugin.version}"


@app.command()
def check(links: Path) -> None:
    """Load the installed pipeline without any network, and check that it links as before packaging."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise OSError("the network is switched off for this check")

    socket.socket.connect = socket.socket.connect_ex = refuse  # type: ignore[method-assign]
    socket.create_connection = socket.getaddrinfo = refuse
    import spacy

    start = time.perf_counter()
    nlp = spacy.load("en_hpo_demo")
    place = Path(spacy.__file__).parent.parent.name
    msg.info(f"Loaded en_hpo_demo from {place} in {time.perf_counter() - start:.1f} s")
    expected = list(srsly.read_jsonl(links))
    for record, doc in zip(expected, nlp.pipe(record["text"] for record in expected), strict=True):
        mentions = [{"text": ent.text, "id": ent.kb_id_, "candidates": ent._.kb_candidates} for ent in doc.ents]
        if not is_same(mentions, record["ents"]):
            msg.fail(f"Other links than before packaging in: {doc.text}", f"{mentions}\n{record['ents']}", exits=1)
    msg.good(f"{len(expected)} sentences have identical links after packaging, installation and loading offline")


def is_same(found: list[dict], wanted: list[dict]) -> bool:
    """Compare the links of one sentence; scores may differ by rounding."""
    links, scores = [], []
    for ents in (found, wanted):
        links.append([(e["text"], e["id"], [{**entry, "score": 0} for entry in e["candidates"]]) for e in ents])
        scores.append([entry["score"] for e in ents for entry in e["candidates"]])
    return links[0] == links[1] and all(abs(one - two) < TOLERANCE for one, two in zip(*scores, strict=True))


if __name__ == "__main__":
    app()
