"""The rows of the report: figures and targets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MB = 1e6
# What depends on the kind of encoder: the least ratio to the plain loop, the least names a second, and the most seconds
# and megabytes of a saved pipeline.
TARGETS: dict[str, dict[str, float | None]] = {
    "transformer": {"ratio": 5, "names": None, "load": 1.5, "peak": 1500},
    "static": {"ratio": 100, "names": 50_000, "load": 0.3, "peak": 400},
}


@dataclass(frozen=True)
class Row:
    """A line of the table.

    part (str): What was measured.
    what (str): Which of its figures.
    value (float): The figure.
    form (str): How to write it, as a format with one field.
    at_least (float | None): The target, if it is a lower limit.
    at_most (float | None): The target, if it is an upper limit.
    """

    part: str
    what: str
    value: float
    form: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """Write the target.

        RETURNS (str): The target, or "" if there is none.
        """
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    @property
    def is_met(self) -> bool | None:
        """Compare the figure with the target.

        RETURNS (bool | None): None if there is no target.
        """
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def to_dict(self) -> dict[str, Any]:
        """Return the line as data.

        RETURNS (dict): Its fields, its target in writing, and whether that is met.
        """
        return {**asdict(self), "target": self.target, "met": self.is_met}

    def to_markdown(self) -> str:
        """Write the line.

        RETURNS (str): A row of a Markdown table.
        """
        met = {True: "yes", False: "**no**", None: ""}[self.is_met]
        return f"| {self.part} | {self.what} | {self.form.format(self.value)} | {self.target} | {met} |"


def make_rows(results: dict[str, dict[str, Any]]) -> list[Row]:
    """Choose the figures to show. The targets stand here and nowhere else.

    results (dict): What each measurement has written, by the name of its command.
    RETURNS (list[Row]): The rows.
    """
    encoder, build, index = results["encoder"], results["build"], results["index"]
    pipeline, loading, imports = results["pipeline"], results["loading"], results["imports"]
    auto, target = f"auto ({encoder['auto_is']})", TARGETS[encoder["kind"]]
    speed, queries, peak = encoder["names_per_second"], index["queries_per_second"], loading["peak_bytes"]
    faster = f"at once / faster exact ({index['faster_exact'].removeprefix('exact_').replace('_', ' ')}), median"
    count, per_second, ratio, second, share = "{:,.0f}", "{:,.0f}/s", "{:.1f}x", "{:.3f} s", "{:.4f}"
    return [
        Row("encoder", "distinct names", encoder["names"], count),
        Row("encoder", "plain loop, names", speed["plain"], per_second),
        Row("encoder", f"{auto}, names", speed["auto"], per_second, at_least=target["names"]),
        Row("encoder", "fp32, names", speed["fp32"], per_second),
        Row("encoder", f"{auto} / plain, median", encoder["times_plain"]["auto"], ratio, at_least=target["ratio"]),
        Row("encoder", "fp32 / plain, median", encoder["times_plain"]["fp32"], ratio),
        *_make_cosine_rows(auto, encoder),
        Row("index", "rows", index["rows"], count),
        Row("index", "build", index["build_seconds"], second, at_most=30),
        Row("index", "exact, batches of 128, queries", queries["exact_batches"], per_second),
        Row("index", f"exact, {index['queries_at_once']} at once, queries", queries["exact_at_once"], per_second),
        Row("index", "index, batches of 128, queries", queries["index_batches"], per_second),
        Row("index", f"index, {index['queries']} at once, queries", queries["index_at_once"], per_second),
        Row("index", faster, index["times_exact"]["index_at_once"], ratio, at_least=20),
        *_make_recorded_rows(index["own_recall"]),
        Row("index", "recall@1", index["recall_at_1"], share, at_least=0.99),
        Row("index", "recall@10", index["recall_at_10"], share),
        *_make_recall_rows(results["recall"]),
        *_make_filter_rows(results["filters"]),
        Row("linker", "initialize: encode names, build index", build["initialize_seconds"], "{:.1f} s"),
        Row("linker", "save", build["save_seconds"], "{:.1f} s"),
        Row("linker", "empty cache, documents", pipeline["docs_per_second"]["cold"], per_second),
        Row("linker", "empty cache, distinct mentions", pipeline["distinct_per_second"]["cold"], per_second),
        Row("linker", "filled cache, documents", pipeline["docs_per_second"]["warm"], per_second),
        Row("linker", "filled cache, distinct mentions", pipeline["distinct_per_second"]["warm"], per_second),
        Row("saved pipeline", "spacy.blank before loading", loading["import_seconds"], second),
        Row("saved pipeline", "spacy.load, moved", loading["load_seconds"], second, at_most=target["load"]),
        Row("saved pipeline", "peak memory, spacy.blank (MB)", peak["imported"] / MB, count),
        Row("saved pipeline", "peak memory, loaded (MB)", peak["loaded"] / MB, count),
        Row("saved pipeline", "peak memory, linked (MB)", peak["linked"] / MB, count, at_most=target["peak"]),
        Row("saved pipeline", "on disk (MB)", loading["disk_bytes"] / MB, count),
        Row("import", "spacy.blank without the plugin", imports["median_seconds"]["without"], second),
        Row("import", "spacy.blank with the plugin", imports["median_seconds"]["with"], second),
        Row("import", "added by the plugin", imports["added_seconds"], second, at_most=0.15),
        Row("import", "scann or polars imported by it", len(find_heavy(imports)), count, at_most=0),
    ]


def _make_cosine_rows(auto: str, encoder: dict[str, Any]) -> list[Row]:
    mean, least = encoder["mean_cosine"], encoder["min_cosine"]
    if not mean:  # another encoder's vectors
        return []
    return [
        Row("encoder", f"{auto}, mean cosine with plain", mean["auto"], "{:.6f}", at_least=0.9995),
        Row("encoder", f"{auto}, least cosine with plain", least["auto"], "{:.6f}", at_least=0.995),
        Row("encoder", "fp32, mean cosine with plain", mean["fp32"], "{:.6f}"),
        Row("encoder", "fp32, least cosine with plain", least["fp32"], "{:.6f}"),
    ]


def _make_recorded_rows(recall: dict[str, Any]) -> list[Row]:
    # Exact search measures nothing.
    return [Row("index", "recall@1 that it recorded", recall["at_1"], "{:.4f}")] if recall else []


def _make_recall_rows(measured: dict[str, Any]) -> list[Row]:
    rows = []
    for size in measured["sizes"]:
        part = f"indexes of {size['rows']:,} rows"
        for kind, result in size["kinds"].items():
            rows += [
                Row(part, f"{kind}, build", result["build_seconds"], "{:.2f} s"),
                Row(part, f"{kind}, on disk (MB)", result["bytes"] / MB, "{:,.0f}"),
                Row(part, f"{kind}, load", result["load_seconds"], "{:.2f} s"),
                Row(part, f"{kind}, queries", result["queries_per_second"], "{:,.0f}/s"),
                Row(part, f"{kind} / exact, median", result["times_exact"], "{:.1f}x"),
                *(Row(part, f"{kind}, missed: {query}", share, "{:.2%}") for query, share in result["missed"].items()),
            ]
    return rows


def _make_filter_rows(measured: dict[str, Any]) -> list[Row]:
    rows = []
    for name, result in measured["filters"].items():
        rows += [
            Row("filters", f"{name}, rows allowed", result["rows"], "{:,.0f}"),
            Row("filters", f"{name}, time of a search / unfiltered, median", result["times_unfiltered"], "{:.2f}x"),
            Row("filters", f"{name}, time of find / unfiltered, median", result["find_times_unfiltered"], "{:.2f}x"),
            Row("filters", f"{name}, recall@1", result["recall_at_1"], "{:.4f}"),
        ]
    return rows


def find_heavy(imports: dict[str, Any]) -> list[str]:
    """List the heavy packages that the plugin makes a blank pipeline import.

    imports (dict): What the measurement of imports has written.
    RETURNS (list[str]): Of scann and polars, those imported with the plugin and not without.
    """
    new = set(imports["imported"]["with"]) - set(imports["imported"]["without"])
    return sorted(new & {"scann", "polars"})
