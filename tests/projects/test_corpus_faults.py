"""The project that links corpora: full disks, ten kills at random points, and the corpus that is measured."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from project_scripts import find_scripts, import_scripts

SCRIPTS = find_scripts("corpus")
NAMES = ("common cold", "trouble sleeping", "hypertension", "heart attack", "insomnia")


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("corpus"):
        yield


@pytest.fixture(scope="module")
def pipeline(static_folder, terminology, tmp_path_factory):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config={"k": 2})
    linker.initialize(terminology=terminology, encoder=str(static_folder))
    ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in NAMES])
    path = tmp_path_factory.mktemp("pipeline") / "nlp"
    nlp.to_disk(path)
    return path


@pytest.fixture
def corpus(tmp_path):
    """Write 30 documents in two files, 16 blocks of two at most; two documents are errors."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = [{"text": f"{NAMES[number % 5]} and {NAMES[number % 3]}"} for number in range(15)]
    rows[3]["text"] = None
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(pipeline, corpus, out, **settings):
    import link

    link.main(str(pipeline), corpus, out, block=2, **settings)


def read_files(folder):
    assert not list(folder.rglob("*.part"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


@pytest.mark.parametrize("filled", ["manifest.json", "errors", "mentions"])
def test_a_disk_that_is_full_is_named_and_nothing_is_lost(pipeline, corpus, tmp_path, monkeypatch, capsys, filled):
    out, room, real = tmp_path / "out", [1], Path.replace

    def replace(self, target):
        # The second file of this kind no longer fits; of the manifest, the first.
        room[0] -= filled in str(target)
        if room[0] < (filled == "manifest.json"):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(SystemExit) as ended:
            run(pipeline, corpus, out)
    assert ended.value.code == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "No space left on device" in shown and "run the command again" in shown
    run(pipeline, corpus, out)
    assert "2 documents with errors" in capsys.readouterr().out
    run(pipeline, corpus, tmp_path / "undisturbed")
    assert read_files(out) == read_files(tmp_path / "undisturbed")


# Each child of a process that has imported everything is a run of its own, which kills itself behind a drawn number of
# points. Points are before and after each block's linking, each table's writing and each move into place.
TEN_KILLS = """
import os, random, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import folder, link, spacy, work
# What a pipeline imports.
spacy.blank("en").add_pipe("sapbert_linker")
left = [0]
def pass_point(name):
    left[0] -= 1
    if not left[0]:
        os.write(1, f"{name}\\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
def watch(owner, name):
    real = getattr(owner, name)
    def call(*args, **settings):
        pass_point(f"before {name}")
        done = real(*args, **settings)
        pass_point(f"after {name}")
        return done
    setattr(owner, name, call)
for owner, name in ((work, "link_block"), (folder.pq, "write_table"), (Path, "replace")):
    watch(owner, name)
rng = random.Random(3)
for points in [*(rng.randint(1, 16) for _ in range(10)), 0]:
    if not (child := os.fork()):
        left[0] = points
        link.main(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), block=2)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    expected = signal.SIGKILL if points else 0
    assert status == expected, (points, status)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks behind the imports, which other systems do not allow")
def test_ten_kills_at_random_points_change_nothing(pipeline, corpus, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", TEN_KILLS, str(SCRIPTS), str(pipeline), str(corpus), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    points = [line for line in done.stdout.splitlines() if line.startswith(("before ", "after "))]
    assert len(points) == 10 and len(set(points)) >= 4, points
    assert "2 documents with errors" in done.stdout
    run(pipeline, corpus, tmp_path / "undisturbed")
    files = read_files(out)
    assert len([name for name in files if name.startswith("mentions/")]) == 16
    assert files == read_files(tmp_path / "undisturbed")


def test_changed_words_keep_their_entities():
    from make_documents import change_words, make_documents

    text = "A common cold, then insomnia."
    entities = [{"start": 2, "end": 13, "label": "A"}, {"start": 9, "end": 13, "label": "B"}]
    entities += [{"start": 20, "end": 28, "label": "C"}, {"start": 0, "end": 29, "label": "D"}]
    changed = change_words(text, entities, [(2, 8, "severe"), (9, 13, "rhinitis"), (20, 28, "gout")])
    assert changed["text"] == "A severe rhinitis, then gout."
    spans = [changed["text"][entity["start"] : entity["end"]] for entity in changed["entities"]]
    assert spans == ["severe rhinitis", "rhinitis", "gout", changed["text"]]
    rows = [{"text": text, "entities": entities}, {"text": "Nothing was found.", "entities": None}]
    made = list(make_documents(rows, 40, 0.5, 0))
    assert [row["text"] for row in made[:2]] == [row["text"] for row in rows]
    assert len({row["text"] for row in made}) > 25
    assert made == list(make_documents(rows, 40, 0.5, 0))


def test_memory_and_files_of_a_run_are_measured(tmp_path):
    from measure import watch

    write = "import pathlib, sys, time\nfolder = pathlib.Path(sys.argv[1]) / 'mentions'\nfolder.mkdir(parents=True)\n"
    write += "for n in range(3):\n    (folder / f'{n}.parquet').write_text(str(n))\n"
    figures = watch([sys.executable, "-c", write, str(tmp_path / "out")], tmp_path / "out")
    assert figures["blocks"] == 3
    assert figures["wall_seconds"] > 0
    other = watch([sys.executable, "-c", write.replace("str(n)", "'x'"), str(tmp_path / "other")], tmp_path / "other")
    assert figures["digest"] != other["digest"]
