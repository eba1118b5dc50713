"""Read a terminology of all languages, and make patterns for the ruler."""

from pathlib import Path

import srsly
import typer
from sentences import read_sentences
from wasabi import msg

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.edits import add_terminology


def main(rrf: Path, names: str, sentences: str, assets: Path, tradenames: str = "union") -> None:
    """Fill the assets folder."""
    if not rrf.is_dir():
        advice = "Run the project open_terminology first, or give the folder of a release: --vars.rrf path/to/META"
        msg.fail(f"There is no release in {rrf}", advice, exits=1)
    terminology = read_rrf(rrf, languages=None, tradenames=tradenames)  # type: ignore[arg-type]
    if names:
        terminology = add_names(terminology, Path(names))
    mentions = sorted({mention for sentence in read_sentences(sentences) for mention in sentence.meant})
    with fill_folder(assets) as folder:
        terminology.to_disk(folder / "terminology")
        patterns = [{"label": "CONCEPT", "pattern": mention} for mention in mentions]
        srsly.write_json(folder / "patterns.json", patterns)
    counts = terminology.names["language"].value_counts(sort=True).rows()
    listed = ", ".join(f"{language} {n:,}" for language, n in counts)
    msg.good(f"{len(terminology):,} concepts with names in {listed}; {len(mentions):,} patterns in {assets}")


def add_names(terminology: Terminology, file: Path) -> Terminology:
    """Add names of concepts that the terminology has."""
    builder, n_unknown = TerminologyBuilder(), 0
    for line in file.read_text(encoding="utf8").splitlines()[1:]:
        concept, name, language = line.split("\t")
        if concept in terminology:
            builder.add_name(concept, name, language=language)
        else:
            n_unknown += 1
    whole = add_terminology(terminology, builder.build()).terminology
    n_added = whole.n_names - terminology.n_names
    msg.info(f"{n_added} names added of {file}; {n_unknown} are of concepts that are not there")
    return whole


if __name__ == "__main__":
    typer.run(main)
