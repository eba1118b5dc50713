"""Forge files of saved folders, with checksums that fit, and try in a process of its own what each forgery does.

As a program (`python forging.py KIND FOLDER TRIES SEED`), it prints a JSON object of counts, and what ended otherwise
than in an OSError or in an object that works.
"""

import hashlib
import io
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import checksum_file, hash_file

# What takes the place of a value in a JSON file.
VALUES = (0, -1, 7, 1 << 20, 1 << 31, 1 << 63, 1 << 70, 0.5, 1e308, "5", "", None, True, [], [3], {}, {"a": 1})
WHOLE_JSON = (b"", b"[]", b"null", b"{}", b"{", b"3", b"[" * 100_000)
TYPES = ("<f8", "<i1", "<i8", "<u8", ">i8", "<c8", "?", "S3", "datetime64[s]")
NUMBERS = (-1, 7, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 62), -(1 << 63))
HEADERS = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-3,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999,), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (2,), }",
    "(" * 5000,
)
WORDS = (b"\0", b"\xff", b"\x7f", b"\x01\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x40", b"\xff" * 8, b"\0" * 8)
TEXT = "A heart attack (HA) after a common cold, high blood presure and no insomnia. HA again, muscular dystrophy."
# What spaCy reads of a pipeline's folder by itself.
SPACY = ("vocab", "tokenizer", "config.cfg", "meta.json", "entity_ruler")
# What a component says of a folder that is whole, but lacks what its pipeline needs, or is of another pipeline.
SAID = ("has no concepts yet", "can't decide here")
# Seconds until a forgery that lets a process hang is ended.
PATIENCE = 60
Forgery = tuple[str, bytes]


def forge(path: Path, rng: random.Random) -> Iterator[Forgery]:
    """Yield what a forgery does to a file, and the forged content."""
    data = path.read_bytes()
    if path.suffix == ".json":
        yield from forge_json(data)
    if path.suffix == ".npy":
        yield from forge_array(data, rng)
    yield from forge_bytes(data, rng)


def forge_json(text: bytes) -> Iterator[Forgery]:
    """Put each of some values in the place of each value, and leave each out."""
    for place in list_places(json.loads(text)):
        where = ".".join(map(str, place))
        for value in VALUES:
            data = json.loads(text)
            reach(data, place[:-1])[place[-1]] = value
            yield f"{where} = {value!r}", json.dumps(data).encode()
        data = json.loads(text)
        del reach(data, place[:-1])[place[-1]]
        yield f"without {where}", json.dumps(data).encode()
    for whole in WHOLE_JSON:
        yield f"{whole[:9]!r}", whole


def list_places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List where values are, but for checksums, which are made to fit."""
    # Of a long list or dictionary, such as a vocabulary, the beginning.
    items = islice(data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else (), 20)
    for key, value in items:
        if place or key not in ("checksum", "files"):
            yield (*place, key)
            yield from list_places(value, (*place, key))


def reach(data: Any, place: tuple[Any, ...]) -> Any:
    """Get what is at a place."""
    for key in place:
        data = data[key]
    return data


def forge_array(data: bytes, rng: random.Random) -> Iterator[Forgery]:
    """Change type, shape, order and numbers of an array."""
    array = np.load(io.BytesIO(data))
    for dtype in TYPES:
        yield f"type {dtype}", dump(np.zeros(array.shape, dtype))
    shapes = {
        "nothing": array[:0],
        "one less": array[:-1],
        "one more": np.concatenate([array, array[-1:]]),
        "reversed": array[::-1],
        "another axis": array[None],
        "one number": np.zeros((), array.dtype),
        "zeros": np.zeros_like(array),
        "by columns": np.asfortranarray(array[None].repeat(2, 0)),
        "shuffled": np.random.default_rng(rng.randrange(99)).permutation(array),
    }
    for what, changed in shapes.items():
        yield what, dump(changed)
    for number in NUMBERS if array.size and array.dtype.kind in "iu" else ():
        for place in (0, array.size // 2, array.size - 1):
            changed = array.copy()
            changed.reshape(-1)[place] = np.array(number).astype(array.dtype)
            yield f"{number} at {place}", dump(changed)
        with np.errstate(over="ignore"):
            yield f"+ {number}", dump(array + np.array(number).astype(array.dtype))
    for number in (np.nan, np.inf, -np.inf, 1e30) if array.size and array.dtype.kind == "f" else ():
        changed = array.copy()
        changed.reshape(-1)[array.size // 2] = number
        yield f"a {number}", dump(changed)
    for header in HEADERS:
        text = f"{header:<200}\n".encode()
        yield f"header {header[:60]}", b"\x93NUMPY\x02\0" + len(text).to_bytes(4, "little") + text + data[128:]


def dump(array: np.ndarray) -> bytes:
    """Write an array in NumPy's format."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def forge_bytes(data: bytes, rng: random.Random, n: int = 40) -> Iterator[Forgery]:
    """Change bytes, mostly of the beginning and the end, where sizes and kinds are; cut, and enlarge."""
    size = max(len(data), 1)
    edge = min(size, 256)
    for _ in range(n):
        place = rng.choice([rng.randrange(size), rng.randrange(edge), size - 1 - rng.randrange(edge)])
        word = rng.choice(WORDS)
        forged = bytearray(data)
        forged[place : place + len(word)] = word
        yield f"{word!r} at {place}", bytes(forged[: len(data)])
        flipped = bytearray(data or b"\0")
        flipped[place] ^= 1 << rng.randrange(8)
        yield f"another bit at {place}", bytes(flipped)
    for kept in (0, 1, 7, size // 3, size - 1, size - 64):
        yield f"cut to {kept}", data[: max(kept, 0)]
    yield "a byte more", data + b"\0"
    yield "twice", data + data


def sign(changed: Path, root: Path) -> None:
    """Make the checksums of all manifests up to a folder fit a changed file."""
    for folder in changed.parents:
        for manifest in folder.glob("*.json"):
            with suppress(ValueError, RecursionError):
                data = json.loads(manifest.read_bytes())
                if isinstance(data, dict) and "checksum" in data:
                    sign_manifest(manifest, data, changed, root)
        if folder == root:
            return


def sign_manifest(manifest: Path, data: dict[str, Any], changed: Path, root: Path) -> None:
    """Make one manifest fit, and then those that have its own checksum."""
    before, name = json.dumps(data), changed.relative_to(manifest.parent).as_posix()
    if name in (data.get("files") or ()):
        data["files"][name] = checksum_file(changed)
    if changed.name == "index.json" and "index" in data:
        data["index"] = hash_file(changed)
    del data["checksum"]
    data["checksum"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    if json.dumps(data) != before:
        manifest.write_text(json.dumps(data), encoding="utf8")
        if manifest != changed:
            sign(manifest, root)


def try_forked(action: Callable[[], None]) -> str:
    """Call a function in a forked process, and say how that ended: "works", the exception, or the signal."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        try:
            action()
            answer = "works"
        except BaseException as error:
            is_said = isinstance(error, OSError) or any(reason in str(error) for reason in SAID)
            answer = "OSError" if is_said else f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode("utf8", "replace")[:500])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read().decode("utf8", "replace")
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else answer


def try_all(root: Path, use: Callable[[Path], None], tries: int, seed: int) -> dict[str, Any]:
    """Forge each file of a folder in so many ways, drawn by a seed. Count how that ended."""
    use(root)
    rng, counts, faults = random.Random(seed), {}, []
    manifests = {path: path.read_bytes() for path in root.rglob("*.json")}
    ours = (path for path in root.rglob("*") if path.relative_to(root).parts[0] not in SPACY)
    for path in sorted(path for path in ours if path.is_file()):
        data, name = path.read_bytes(), path.relative_to(root).as_posix()
        cases = [(what, content) for what, content in forge(path, rng) if content != data]
        counts[name] = Counter()
        for what, content in rng.sample(cases, min(tries, len(cases))):
            path.write_bytes(content)
            sign(path, root)
            answer = try_forked(lambda: use(root))
            counts[name][answer.split(":")[0]] += 1
            if answer not in ("works", "OSError"):
                faults.append(f"{name}: {what}: {answer}")
            for manifest, content in {**manifests, path: data}.items():
                manifest.write_bytes(content)
    return {"counts": counts, "faults": faults}


@cache
def load_pipeline(folder: Path) -> Any:
    """Load a pipeline, once before all forgeries: spaCy's own parts take longest."""
    import spacy

    return spacy.load(folder)


def use_pipeline(folder: Path) -> None:
    """Load the components of a pipeline, and let them do what they can."""
    nlp = load_pipeline(folder)
    for name in ("mention_rules", "sapbert_linker", "sapbert_reranker"):
        nlp.get_pipe(name).from_disk(folder / name)
    nlp(TEXT).to_json()
    linker = nlp.get_pipe("sapbert_linker")
    linker.find(["cold", "heart attacks", "pressure", "duchene", "zz"] * 3)
    repr(linker)


def use_terminology(folder: Path) -> None:
    """Load a terminology, and read all of it."""
    from spacy_sapbert.terminology import Terminology
    from spacy_sapbert.terminology.licences import describe_sources
    from spacy_sapbert.terminology.table import summarize

    terminology = Terminology.from_disk(folder)
    for table in (terminology.concepts, terminology.names, terminology.retired):
        table.rows()
        repr(table)
    for row in range(len(terminology)):
        terminology.concept(row)
    terminology.find_rows(["C1", "C0009443"])
    summarize(terminology)
    describe_sources(terminology)


def use_index(folder: Path) -> None:
    """Load an index, and search it at several depths."""
    from spacy_sapbert.index import read_index, usearch

    # So that a small graph is searched.
    usearch.ROWS_PER_CANDIDATE = 2
    index = read_index(folder)
    noise = np.random.default_rng(0).standard_normal((64, index.width)).astype(np.float32)
    with np.errstate(all="ignore"):
        queries = np.nan_to_num(np.asarray(index.vectors[:64], dtype=np.float32), posinf=1, neginf=1).clip(-1, 1)
        queries = queries + noise[: len(queries)] / 9
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for k in (1, 10, 100):
        rows, _ = index.search(queries, k)
        assert rows.max() < len(index)


USES = {"pipeline": use_pipeline, "terminology": use_terminology, "index": use_index}

if __name__ == "__main__":
    kind, folder, tries, seed = sys.argv[1:]
    print(json.dumps(try_all(Path(folder), USES[kind], int(tries), int(seed))))
