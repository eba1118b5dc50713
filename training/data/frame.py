"""The one frame of results: a row for each figure of a system on a task. Tables are pivots of it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from spacy_sapbert.files import write_whole

RESULTS_FILE, TABLE_FILE = "results.parquet", "results.tsv"
SCHEMA: dict[str, pl.DataType] = {
    "system": pl.String(),
    "task": pl.String(),  # corpus.protocol
    "protocol": pl.String(),
    "metric": pl.String(),  # acc, row_acc, f1, spearman, …: never with the rank in its name
    "rank": pl.Int32(),  # null where there is none
    "value": pl.Float64(),  # shares are from 0 to 1
    "n": pl.Int64(),  # the mentions, pairs or triples that are counted
    "seed": pl.Int32(),  # of the system's training; null where there is none
    "fingerprint": pl.String(),  # the encoder's, or a hash of what identifies the system
}


def write_results(frame: pl.DataFrame, folder: str | Path) -> None:
    """Write results.parquet, and results.tsv to look at."""
    with write_whole(Path(folder) / TABLE_FILE) as temporary:
        frame.write_csv(temporary, separator="\t")
    with write_whole(Path(folder) / RESULTS_FILE) as temporary:
        frame.write_parquet(temporary)


def read_results(folder: str | Path) -> pl.DataFrame:
    """Read the frame of a folder that `measure` has written, or of a file results.parquet."""
    path = Path(folder) / RESULTS_FILE if Path(folder).is_dir() else Path(folder)
    if not path.is_file():
        raise FileNotFoundError(f"There are no results in {path} (seen from {Path.cwd()}). `measure` writes them.")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} is not a table of results: {error}. Write it again with `measure`.") from error
    if dict(frame.schema) != SCHEMA:
        raise ValueError(f"{path} has other columns than {', '.join(SCHEMA)}. Write it again with `measure`.")
    return frame
