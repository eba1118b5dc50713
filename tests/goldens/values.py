"""JSON values of a record: read them, reduce them to what must not change, write them, compare them."""

import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Keys with these words hold times, versions, hashes of files and places, which differ from run to run.
LEFT_OUT = "second version sha256 fingerprint path file terminology vectors hash key first".split()


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf8"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def keep_figures(value: Any) -> Any:
    """Keep figures, without times, versions, hashes and places."""
    if isinstance(value, dict):
        return {
            str(key): keep_figures(part)
            for key, part in value.items()
            if key != "name" and not any(word in str(key).lower() for word in LEFT_OUT)
        }
    return [keep_figures(part) for part in value] if isinstance(value, list) else value


def hash_rows(rows: Iterable[Any]) -> str:
    """Hash rows by their content, in order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def format_record(record: dict[str, dict[str, Any]]) -> str:
    """Format a record as JSON with one entry a line, so that a diff shows which entries changed."""
    parts = []
    for part, entries in record.items():
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in entries.items())
        parts.append(f" {json.dumps(part)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def compare(left: Any, right: Any, tolerance: float, path: str = "") -> Iterator[str]:
    """Yield a line for each difference of two JSON values. Floats may differ by a relative or absolute tolerance."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            place = f"{path}/{key}"
            if key in left and key in right:
                yield from compare(left[key], right[key], tolerance, place)
            else:
                yield f"{place}: only in the {'first' if key in left else 'second'}"
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from compare(a, b, tolerance, f"{path}[{number}]")
    elif isinstance(left, float) and isinstance(right, float):
        if not math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{path}: {left} != {right}"
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield f"{path}: {json.dumps(left)[:200]} != {json.dumps(right)[:200]}"
