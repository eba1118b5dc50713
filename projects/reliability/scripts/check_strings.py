"""Compare the linker with the naive linker on strange strings and documents."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer
from checks import Check, run_check, run_script
from fuzz import LABEL_TYPES, compare_docs, compare_strings, compare_surrogates, make_docs
from inputs import make_encoder, make_linker, make_terminology
from naive import NaiveEncoder, NaiveLinker, copy_concepts
from strings import make_strings


def check_strings(n_strings: int, n_docs: int, seed: int, folder: Path) -> list[Check]:
    """Run the checks.

    n_strings (int): Strings.
    n_docs (int): Documents.
    seed (int): The seed.
    folder (Path): For the encoder.
    RETURNS (list[Check]): The lines.
    """
    checks: list[Check] = []
    encoder, terminology = make_encoder(folder / "encoder", seed), make_terminology("F", 24, seed)
    settings = {"label_types": LABEL_TYPES, "skip_labels": ["SKIPPED"], "spans_key": "sc", "k": 3}
    nlp, linker = make_linker(**settings)
    linker.initialize(terminology=terminology, encoder=str(encoder))
    nlp.add_pipe("schwartz_hearst", first=True)
    naive = NaiveLinker(NaiveEncoder(encoder), copy_concepts(terminology))
    strings = make_strings(n_strings, seed)
    with run_check("strange strings agree with a naive linker", checks) as check:
        compare_strings(linker, naive, strings, seed, check)
    with run_check("strings with lone surrogates are refused or not linked", checks) as check:
        compare_surrogates(linker, max(20, n_strings // 100), seed, check)
    with run_check("strange documents agree with a naive linker", checks) as check:
        # The strings of before, whose vectors the naive linker knows, in ever new combinations.
        compare_docs(nlp, linker, naive, make_docs(nlp, strings[: max(100, n_strings // 5)], n_docs, seed), check)
    return checks


def main(run: Path, strings: int = 100_000, documents: int = 100_000, seed: int = 0) -> None:
    """Run the checks and write their lines.

    run (Path): The folder of the run.
    strings (int): Strings.
    documents (int): Documents.
    seed (int): The seed.
    """
    config = {"strings": strings, "documents": documents, "seed": seed}
    run_script(run, "strings", partial(check_strings, strings, documents, seed), config)


if __name__ == "__main__":
    typer.run(main)
