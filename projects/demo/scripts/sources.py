"""Write what the package says of its sources: their versions into its meta, their licences into a file beside it."""

from pathlib import Path

import srsly
import typer
from wasabi import msg

# `spacy package` takes this file along.
LICENCES_FILE = "LICENSES_SOURCES"


def main(meta: Path, pipeline: Path, output: Path) -> None:
    """Write meta and licences."""
    data = srsly.read_json(meta)
    manifest = srsly.read_json(pipeline / "sapbert_linker" / "terminology" / "terminology.json")
    version = manifest["report"]["source_version"] or "without a version"
    for source in data["sources"]:
        source["name"] = source["name"].replace("{version}", version)
    srsly.write_json(output, data)
    texts = ["{name}\n{author}, {url}\nLicence: {license}\n".format(**source) for source in data["sources"]]
    (pipeline / LICENCES_FILE).write_text("\n".join(texts), encoding="utf8")
    msg.good(f"Sources: {'; '.join(source['name'] for source in data['sources'])}")


if __name__ == "__main__":
    typer.run(main)
