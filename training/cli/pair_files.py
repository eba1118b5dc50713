"""Write a terminology and the pairs of its names, as `preprocess` and `pairs` do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import typer

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import Terminology

from ..data.pairs import save_pairs
from ..data.pairs_text import write_pairs_text
from ..data.synonym_pairs import make_pairs

# Published for UMLS 2020AA: SapBERT (Liu et al., NAACL 2021), section 2.1.
PUBLISHED = {"names": 9_712_959, "pairs": 11_792_953}


def write_pair_files(terminology: Terminology, output: Path, text: str, **settings: Any) -> None:
    """Write a folder of pairs, and print their counts."""
    with show_phase("Pairing names"):
        pairs, data = make_pairs(terminology, **settings)
        save_pairs(pairs, output, {**data, "terminology": terminology.fingerprint})
    _print_counts(data, output)
    if text:
        with show_phase(f"Writing {text}"):
            n = write_pairs_text(pairs, text)
        typer.echo(f"{n:,} lines written to {text}.")


def write_names_and_pairs(terminology: Terminology, folder: Path, output: Path, text: str, **settings: Any) -> None:
    """Write a terminology, and meanwhile make pairs of its names and write them."""
    n = None
    with show_phase("Writing names and pairs"), ThreadPoolExecutor(1) as writer:
        saving = writer.submit(terminology.to_disk, folder)
        pairs, data = make_pairs(terminology, **settings)
        if text:
            n = write_pairs_text(pairs, text)
        saving.result()
        # Known now: the tables were hashed while they were written.
        save_pairs(pairs, output, {**data, "terminology": terminology.fingerprint})
    _print_counts(data, output)
    if n is not None:
        typer.echo(f"{n:,} lines written to {text}.")


def _print_counts(data: dict[str, Any], output: Path) -> None:
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['all_pairs']:,} possible ones; {counts['names']:,} distinct names, "
        f"{counts['concepts_with_pairs']:,} of {counts['concepts']:,} concepts have two or more; "
        f"{counts['concepts_cut']:,} were cut to {data['settings']['limit']} pairs. Written to {output}."
    )
    published = f"{PUBLISHED['names']:,} names and {PUBLISHED['pairs']:,} pairs"
    typer.echo(f"For comparison, UMLS 2020AA, English, as published: {published}.")
