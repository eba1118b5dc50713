"""The project that links corpora: the same rows in one process and with Ray, after kills, and beside bad input."""

import errno
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from injection import fault_at
from project_scripts import find_scripts, import_scripts
from spacy.language import Language
from spacy.tokens import DocBin

with import_scripts("corpus"):
    import link as command
    import linking
    import measure
    import work
    from documents import DOCUMENTS, Columns
    from linking import Job
    from work import CorpusError

SCRIPTS = find_scripts("corpus")
TEXTS = (
    "A common cold after trouble sleeping.",
    "Hypertension, then a heart attack.",
    "Nothing was found.",
    "Insomnia, insomnia and cold temperature.",
)


@Language.component("corpus_fail_on_nothing")
def fail_on_nothing(doc):
    if doc.text.startswith("Nothing"):
        raise KeyError("not this one")
    return doc


@pytest.fixture(scope="module")
def nlp(static_folder, terminology):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config={"k": 2})
    linker.initialize(terminology=terminology, encoder=str(static_folder))
    ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
    names = ("common cold", "trouble sleeping", "hypertension", "heart attack", "insomnia", "cold temperature")
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in names])
    return nlp


@pytest.fixture(scope="module")
def pipeline(nlp, tmp_path_factory):
    path = tmp_path_factory.mktemp("pipeline") / "nlp"
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="module")
def job(pipeline):
    return make_job(pipeline)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def make_rows(n, first=0):
    return [{"id": f"d{number}", "text": TEXTS[number % len(TEXTS)]} for number in range(first, first + n)]


def write_lines(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture(scope="module")
def world(job, tmp_path_factory):
    """42 documents in five files of all formats, three of them bad, in blocks of three at most; and the folder of an
    undisturbed run."""
    folder = tmp_path_factory.mktemp("world")
    corpus = folder / "corpus"
    write_lines(corpus / "a.jsonl", [*make_rows(7), {"text": None}, {"text": 5}, {"text": None}])
    write_lines(corpus / "deep" / "b.jsonl.gz", make_rows(6, 7))
    pq.write_table(pa.Table.from_pylist(make_rows(9, 13)), corpus / "c.parquet", row_group_size=6)
    blank = spacy.blank("en")
    DocBin(docs=[blank(row["text"]) for row in make_rows(5, 22)]).to_disk(corpus / "d.spacy")
    rows = [{"id": f"e{number}", "text": f"{TEXTS[number % 4]} {number}"} for number in range(12)]
    settings = {"row_group_size": 4, "compression": "gzip", "use_dictionary": False}
    pq.write_table(pa.Table.from_pylist(rows), corpus / "e.parquet", **settings)
    assert command.link_corpus(job, corpus, folder / "whole") == []
    return corpus, folder / "whole"


@pytest.fixture
def corpus(world, tmp_path):
    return shutil.copytree(world[0], tmp_path / "corpus")


@pytest.fixture(scope="module")
def whole(world):
    return read_files(world[1])


def make_job(pipeline, max_length=1000):
    return Job(str(pipeline), work.hash_pipeline(pipeline), Columns(), block=3, max_length=max_length)


def read_files(folder):
    """Read the bytes of all output files, by name; the manifest without them, whose times may differ."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}
    assert (folder / "manifest.json").is_file()
    assert not list(folder.rglob("*.part"))
    return files


def read_rows(folder, kind="mentions"):
    return [row for path in sorted((folder / kind).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@contextmanager
def added(nlp, name, **where):
    nlp.add_pipe(name, **where)
    try:
        yield
    finally:
        nlp.remove_pipe(name)


def link_rows(nlp, *rows):
    """Link documents, which are named by their numbers: mentions and errors."""
    rows = [{"document": str(number), **row} for number, row in enumerate(rows)]
    return linking.link_block(nlp, pa.Table.from_pylist(rows, schema=DOCUMENTS), Job("", "fingerprint", Columns()))


def test_all_formats_give_what_the_pipeline_gives(nlp, job, world):
    ids = [f"d{number}" for number in (*range(7), *range(13, 22))]
    ids += [*(f"d.spacy:{number}" for number in range(1, 6)), *(f"d{number}" for number in range(7, 13))]
    texts = [row["text"] for row in make_rows(7) + make_rows(9, 13) + make_rows(5, 22) + make_rows(6, 7)]
    expected = []
    for id_, doc in zip(ids, nlp.pipe(texts), strict=True):
        for ent in doc.ents:
            found = [(entry["id"], entry["name"], pytest.approx(entry["score"])) for entry in ent._.kb_candidates]
            expected.append([id_, ent.start_char, ent.end_char, ent.label_, ent.text, ent.kb_id_, found])
    rows = read_rows(world[1])
    assert {(row["pipeline"], row["probability"]) for row in rows} == {(job.fingerprint, None)}
    found = []
    for row in rows:
        if not re.fullmatch(r"e\d+", row["document"]):
            candidates = [(entry["id"], entry["name"], entry["score"]) for entry in row["candidates"]]
            cells = [row[name] for name in ("document", "start", "end", "label", "mention", "kb_id")]
            found.append([*cells, candidates])
    assert found == expected and len(found) > 30
    # A block of Parquet lies in one row group.
    blocks = [f"{file:05}-{block:06}" for file, n in enumerate((4, 3, 2, 2, 6)) for block in range(n)]
    assert {path.stem for path in (world[1] / "mentions").iterdir()} == set(blocks)


def test_given_entities_are_linked_and_none_are_found(nlp):
    text = "Cold temperature, insomnia and cold/hypertension."
    # Overlapping ones, and two that share a token.
    places = {(18, 26, "A"), (0, 16, "B"), (0, 4, "C"), (31, 35, "D"), (36, 48, "D")}
    given = [dict(zip(("start", "end", "label"), place, strict=True)) for place in places]
    mentions, errors = link_rows(nlp, {"text": text, "entities": given}, {"text": text, "entities": []})
    rows = mentions.to_pylist()
    assert [(row["start"], row["end"], row["label"]) for row in rows] == sorted(places)
    assert errors.num_rows == 0
    for row in rows:
        (expected,) = nlp.get_pipe("sapbert_linker").find([row["mention"]])
        assert [entry["id"] for entry in row["candidates"]] == [entry["id"] for entry in expected]
        assert row["document"] == "0" and row["kb_id"]
    # They are found again where a component merges tokens.
    row = {"text": text, "entities": [entity for entity in given if entity["label"] in "AB"]}
    whole, _ = link_rows(nlp, row)
    with added(nlp, "merge_entities", last=True):
        assert link_rows(nlp, row)[0].equals(whole)
    assert whole["mention"].to_pylist() == ["Cold temperature", "insomnia"]


def test_new_words_are_forgotten_once_many_are_known(nlp, monkeypatch):
    first = link_rows(nlp, {"text": "insomnia quetzalone"})[0]
    assert "quetzalone" in nlp.vocab.strings
    monkeypatch.setattr(linking, "KEPT_WORDS", 1)
    assert link_rows(nlp, {"text": "insomnia quetzaltwo"})[0].equals(first)
    assert "quetzaltwo" not in nlp.vocab.strings


def test_probabilities_are_written(nlp):
    with added(nlp, "sapbert_reranker"):
        rows = link_rows(nlp, {"text": TEXTS[0]})[0].to_pylist()
        ents = nlp(TEXTS[0]).ents
    assert [row["probability"] for row in rows] == pytest.approx([ent._.kb_probability for ent in ents])
    expected = [entry["probability"] for ent in ents for entry in ent._.kb_candidates]
    assert [entry["probability"] for row in rows for entry in row["candidates"]] == pytest.approx(expected)


def test_a_finished_folder_is_left_alone_and_missing_blocks_are_linked(job, world, whole, out, monkeypatch):
    shutil.copytree(world[1], out)
    (out / "mentions" / "00002-000001.parquet").unlink()
    (out / "mentions" / "00000-000000.parquet.0123.part").write_bytes(b"left by a kill")
    asked = []
    monkeypatch.setattr(work, "link_block", lambda *args, link=work.link_block: asked.append(1) or link(*args))
    for _ in range(2):
        command.link_corpus(job, world[0], out)
        assert len(asked) == 1 and read_files(out) == whole


def test_bad_documents_are_named_and_the_others_linked(job, tmp_path, out):
    bad = {
        "long": ("cold " * 2_000_000, "10,000,000 characters"),
        "brackets": ("(" * 900, "900 characters without white space"),
        "none": (None, "no text"),
        "number": (7, "wrong type"),
        "half \ud800": ("half \ud800", "wrong type"),
    }
    entities = {
        "outside": ([{"start": 2, "end": 9, "label": "A"}], "from 2 to 9"),
        "unplaced": ([{"label": "A"}], "from -1 to -1"),
        "words": ("cold", "wrong type"),
    }
    rows = [{"id": 1, "text": TEXTS[0]}, *({"id": id_, "text": text} for id_, (text, _) in bad.items())]
    rows += [{"id": id_, "text": "cold", "entities": given} for id_, (given, _) in entities.items()]
    write_lines(tmp_path / "in" / "a.jsonl", [*rows, {"id": "last", "text": TEXTS[1]}])
    with (tmp_path / "in" / "a.jsonl").open("ab") as file:
        file.write(b'{"text": "cut\n\n["list"]\n\xff\n{"id": "after", "text": "insomnia"}\n')
    assert command.link_corpus(job, tmp_path / "in", out) == []
    errors = {row["document"]: row["error"] for row in read_rows(out, "errors")}
    reasons = {id_.replace("\ud800", "?"): reason for id_, (_, reason) in {**bad, **entities}.items()}
    reasons |= {f"a.jsonl:{number}": "the line" for number in (11, 12, 13)}
    assert set(errors) == set(reasons)
    assert all(reason in errors[id_] for id_, reason in reasons.items()), errors
    assert {row["document"] for row in read_rows(out)} == {"1", "last", "after"}


def test_a_document_that_makes_a_component_fail_is_named(nlp):
    rows = [{"text": TEXTS[number % 3]} for number in range(10)]
    rows[4]["entities"] = [{"start": 0, "end": 12, "label": "A"}]
    whole, _ = link_rows(nlp, *rows)
    with added(nlp, "corpus_fail_on_nothing", first=True):
        mentions, errors = link_rows(nlp, *rows)
        # A pipeline may also leave such a document out.
        nlp.set_error_handler(lambda *args: None)
        others, left_out = link_rows(nlp, *({"text": text} for text in TEXTS))
        nlp.set_error_handler(spacy.util.raise_error)
    # Halves are looked up apart from each other, which changes the last digits of cosines.
    assert mentions.drop(["candidates"]).equals(whole.drop(["candidates"]))
    one, other = (
        [entry["score"] for found in part["candidates"].to_pylist() for entry in found] for part in (mentions, whole)
    )
    assert one == pytest.approx(other, abs=1e-5)
    failed = {row["document"]: row["error"] for row in errors.to_pylist()}
    assert failed == dict.fromkeys(("2", "5", "8"), "KeyError: 'not this one'")
    assert left_out["document"].to_pylist() == ["2"] and set(others["document"].to_pylist()) == {"0", "1", "3"}


def damage_a_row_group(path):
    """Destroy the second of several groups of four documents, which are two blocks of three at most."""
    column = pq.read_metadata(path).row_group(1).column(1)
    content, start = path.read_bytes(), column.data_page_offset
    end = start + column.total_compressed_size
    path.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])


def test_damaged_files_are_named_and_linked_once_they_are_repaired(job, corpus, whole, out):
    damages = {
        "c.parquet": (lambda path: pq.write_table(pa.table({"body": ["cold"]}), path), ["no column 'text'.*body"]),
        "deep/b.jsonl.gz": (lambda path: path.write_bytes(path.read_bytes()[:40]), ["b.jsonl.gz: EOFError"]),
        "e.parquet": (damage_a_row_group, ["block 3 of e.parquet", "block 4 of e.parquet"]),
    }
    contents = {name: (corpus / name).read_bytes() for name in damages}
    for name, (damage, _) in damages.items():
        damage(corpus / name)
    unread = command.link_corpus(job, corpus, out)
    reasons = [reason for name in ("c.parquet", "deep/b.jsonl.gz", "e.parquet") for reason in damages[name][1]]
    for reason in reasons:
        assert any(re.search(reason, problem) for problem in unread), (reason, unread)
    # All other blocks are there.
    assert len(unread) == len(reasons) and read_files(out).items() < whole.items()
    # Of the third file, some blocks are linked already, so it may not change.
    for name in ("c.parquet", "deep/b.jsonl.gz"):
        (corpus / name).write_bytes(contents[name])
    assert len(command.link_corpus(job, corpus, out)) == 2
    lacking = {f"mentions/00004-00000{block}.parquet" for block in (2, 3)}
    assert whole.keys() - read_files(out).keys() == lacking


@pytest.mark.parametrize("filled", ["manifest.json", "errors", "mentions"])
def test_a_disk_that_is_full_is_named_and_nothing_is_lost(pipeline, world, whole, out, monkeypatch, capsys, filled):
    real = Path.replace

    def replace(self, target):
        if filled in str(target):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(SystemExit) as ended:
            command.main(str(pipeline), world[0], out, block=3)
    assert ended.value.code == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "No space left on device" in shown and "run the command again" in shown
    command.main(str(pipeline), world[0], out, block=3)
    assert "3 documents with errors" in capsys.readouterr().out
    assert read_files(out) == whole


class Killed(BaseException):
    """Nothing catches it, and from there on no file operation works, so that it leaves what `kill -9` would."""


@pytest.mark.parametrize("n_kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_at_random_points_change_nothing(pipeline, world, whole, out, capsys, n_kills):
    rng = random.Random(3)
    for _ in range(n_kills):
        with fault_at(rng.randint(0, 9), out, lasting=True, error=Killed), pytest.raises(Killed):
            command.main(str(pipeline), world[0], out, block=3)
    command.main(str(pipeline), world[0], out, block=3)
    assert "3 documents with errors" in capsys.readouterr().out and read_files(out) == whole


def test_a_folder_of_another_job_is_refused(pipeline, job, world, corpus, whole, tmp_path, out):
    def refuse(reason, job=job, corpus=corpus, out=out):
        with pytest.raises(CorpusError, match=reason):
            command.link_corpus(job, corpus, out)

    other = spacy.blank("en")
    other.to_disk(tmp_path / "other")
    refuse("it has no `sapbert_linker`", make_job(tmp_path / "other"))
    # Nothing was linked with the wrong pipeline, so it may be corrected.
    shutil.copytree(world[1] / "mentions", out / "mentions")
    refuse("output of another pipeline")
    shutil.copy(world[1] / "manifest.json", out)
    refuse("output of another pipeline", make_job(tmp_path / "other"))
    refuse("another settings", make_job(pipeline, max_length=999))
    write_lines(corpus / "f.jsonl", make_rows(1))
    refuse("another input: f.jsonl is new")
    (corpus / "f.jsonl").unlink()
    content = (corpus / "a.jsonl").read_bytes()
    (corpus / "a.jsonl").write_bytes(content.replace(b"cold", b"rash"))
    refuse("a.jsonl has changed")
    (corpus / "a.jsonl").unlink()
    refuse("a.jsonl is missing")
    # The same documents at another time are the same input.
    (corpus / "a.jsonl").write_bytes(content)
    assert command.link_corpus(job, corpus, out) == []
    assert {name: data for name, data in whole.items() if name.startswith("mentions")} == read_files(out)
    refuse("not the output of this command", out=corpus)
    refuse("no file whose name ends with", corpus=pipeline / "sapbert_linker" / "nothing", out=tmp_path / "new")
    with command.lock_output(out):
        refuse("Another run")


def test_the_command_names_bad_input_and_fails(pipeline, corpus, out, capsys):
    (corpus / "g.parquet").write_bytes(b"PAR1 and nothing else")
    for given, reasons in (
        (str(pipeline), ["42 documents", "g.parquet", "can't be read"]),
        (str(corpus), ["neither the folder"]),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main(given, corpus, out, block=3)
        shown = " ".join(capsys.readouterr().out.split())
        assert ended.value.code == 1 and all(reason in shown for reason in reasons), shown


def test_a_pipeline_with_a_part_of_others_needs_code(pipeline, tmp_path, out, capsys):
    saved = shutil.copytree(pipeline, tmp_path / "saved")
    config = (saved / "config.cfg").read_text(encoding="utf8")
    config = config.replace('["entity_ruler",', '["part_of_others","entity_ruler",')
    part = '\n[components.part_of_others]\nfactory = "part_for_corpora"\n'
    (saved / "config.cfg").write_text(config.replace("[components]\n", f"[components]\n{part}"), encoding="utf8")
    code = "import spacy\n\nspacy.Language.component('part_for_corpora', func=lambda doc: doc)\n"
    (tmp_path / "code.py").write_text(code, encoding="utf8")
    write_lines(tmp_path / "corpus" / "a.jsonl", make_rows(3))
    with pytest.raises(SystemExit):
        command.main(str(saved), tmp_path / "corpus", out)
    assert "factory for 'part_for_corpora'" in " ".join(capsys.readouterr().out.split())
    command.main(str(saved), tmp_path / "corpus", out, code=str(tmp_path / "code.py"))
    assert len(list((out / "mentions").iterdir())) == 1


def test_without_ray_actors_are_refused(job, corpus, out, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CorpusError, match="Ray, which is not installed"):
        command.link_corpus(job, corpus, out, actors=2)


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_actors_of_ray_give_the_same_files(pipeline, job, corpus, tmp_path):
    (corpus / "g.parquet").write_bytes(b"PAR1 and nothing else")
    (unread,) = command.link_corpus(job, corpus, tmp_path / "process")
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    line = [sys.executable, str(SCRIPTS / "link.py"), str(pipeline), str(corpus), str(tmp_path / "actors")]
    line += ["--block", "3", "--max-length", "1000", "--actors", "2"]
    # In a process of its own, because Ray starts threads.
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "42 documents" in done.stdout and "g.parquet" in done.stdout and "g.parquet" in unread
    assert read_files(tmp_path / "actors") == read_files(tmp_path / "process")


def test_changed_words_keep_their_entities():
    text = "A common cold, then insomnia."
    entities = [{"start": 2, "end": 13, "label": "A"}, {"start": 9, "end": 13, "label": "B"}]
    entities += [{"start": 20, "end": 28, "label": "C"}, {"start": 0, "end": 29, "label": "D"}]
    rows = [{"text": text, "entities": entities}, {"text": "Nothing similar was found here.", "entities": None}]
    made = list(measure.make_documents(rows, 40, 0.5, 0))
    assert [row["text"] for row in made[:2]] == [row["text"] for row in rows]
    assert made[2]["text"] != text and {len(row["text"]) for row in made[::2]} == {len(text)}
    assert all(row["entities"] == entities and row["text"][8] == " " for row in made[::2])
    assert made == list(measure.make_documents(rows, 40, 0.5, 0))


@pytest.mark.slow
def test_a_made_corpus_is_measured_beside_a_plain_loop(pipeline, tmp_path):
    entities = [{"start": 2, "end": 13, "label": "A"}]
    write_lines(tmp_path / "source.jsonl", [{"text": TEXTS[0], "entities": entities}, {"text": "Cold", "entities": []}])
    measure.make(tmp_path / "source.jsonl", tmp_path / "made", documents=20)
    measure.main(pipeline, tmp_path / "made", tmp_path / "measured", actors="0", block=5)
    rows = [line.split(" | ") for line in (tmp_path / "measured" / "report.md").read_text().splitlines()[2:4]]
    assert [row[0].strip("| ") for row in rows] == ["plain loop", "one process"] and rows[1][-1].startswith("yes")
