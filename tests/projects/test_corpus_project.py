"""The project that links corpora: the same rows on one process and with Ray, after kills, and beside bad input."""

import gzip
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from project_scripts import find_scripts, import_scripts
from spacy.language import Language
from spacy.tokens import DocBin

SCRIPTS = find_scripts("corpus")
TEXTS = (
    "A common cold after trouble sleeping.",
    "Hypertension, then a heart attack.",
    "Nothing was found.",
    "Insomnia, insomnia and cold temperature.",
)


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("corpus"):
        yield


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


def make_rows(n, first=0):
    return [{"id": f"d{number}", "text": TEXTS[number % len(TEXTS)]} for number in range(first, first + n)]


def write_lines(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture
def corpus(tmp_path):
    """Write 27 documents in four files of all formats: ten blocks of three documents."""
    folder = tmp_path / "corpus"
    write_lines(folder / "a.jsonl", make_rows(7))
    write_lines(folder / "deep" / "b.jsonl.gz", make_rows(6, 7))
    pq.write_table(pa.Table.from_pylist(make_rows(9, 13)), folder / "c.parquet", row_group_size=6)
    blank = spacy.blank("en")
    DocBin(docs=[blank(row["text"]) for row in make_rows(5, 22)]).to_disk(folder / "d.spacy")
    return folder


def make_job(pipeline, **settings):
    from documents import Columns
    from folder import Job
    from linking import LinkingSettings
    from work import hash_pipeline

    linking = LinkingSettings(**{"max_length": 1000, **settings})
    return Job(str(pipeline), hash_pipeline(pipeline), Columns(), linking, 3)


def read_files(folder):
    """Read the bytes of all output files, by name; the manifest without them, whose times may differ."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}
    assert (folder / "manifest.json").is_file()
    assert not list(folder.rglob("*.part"))
    return files


def read_mentions(folder):
    return [row for path in sorted((folder / "mentions").iterdir()) for row in pq.read_table(path).to_pylist()]


def read_errors(folder):
    files = sorted((folder / "errors").glob("*.parquet"))
    return {row["document"]: row["error"] for path in files for row in pq.read_table(path).to_pylist()}


def test_all_formats_give_what_the_pipeline_gives(nlp, pipeline, corpus, tmp_path):
    from link import link_corpus

    job = make_job(pipeline)
    assert link_corpus(job, corpus, tmp_path / "out") == []
    texts = [row["text"] for row in make_rows(7) + make_rows(9, 13) + make_rows(5, 22) + make_rows(6, 7)]
    ids = [f"d{number}" for number in range(7)] + [f"d{number}" for number in range(13, 22)]
    ids += [f"d.spacy:{number}" for number in range(1, 6)] + [f"d{number}" for number in range(7, 13)]
    expected = []
    for id_, doc in zip(ids, nlp.pipe(texts), strict=True):
        for ent in doc.ents:
            found = [(entry["id"], entry["name"], pytest.approx(entry["score"])) for entry in ent._.kb_candidates]
            expected.append((id_, ent.start_char, ent.end_char, ent.label_, ent.text, ent.kb_id_, found))
    rows = read_mentions(tmp_path / "out")
    found = [
        (
            *(row[name] for name in ("document", "start", "end", "label", "mention", "kb_id")),
            [(entry["id"], entry["name"], entry["score"]) for entry in row["candidates"]],
        )
        for row in rows
    ]
    assert found == expected
    assert len(found) > 30
    assert {row["pipeline"] for row in rows} == {job.fingerprint}
    assert {row["probability"] for row in rows} == {None}
    # A block of Parquet lies in one row group.
    names = {path.stem for path in (tmp_path / "out" / "mentions").iterdir()}
    assert names == {*(f"00000-00000{n}" for n in range(3)), *(f"00001-00000{n}" for n in range(3))} | {
        *(f"00002-00000{n}" for n in range(2)),
        *(f"00003-00000{n}" for n in range(2)),
    }


def test_given_entities_are_linked_and_none_are_found(nlp):
    from documents import DOCUMENTS
    from linking import link_block

    text = "Cold temperature, insomnia and cold/hypertension."
    given = [
        {"start": 18, "end": 26, "label": "A"},
        # Overlapping ones, and two that share a token.
        {"start": 0, "end": 16, "label": "B"},
        {"start": 0, "end": 4, "label": "C"},
        {"start": 31, "end": 35, "label": "D"},
        {"start": 36, "end": 48, "label": "D"},
    ]
    rows = [{"document": "one", "text": text, "entities": given}, {"document": "two", "text": text, "entities": []}]
    linked = link_block(nlp, pa.Table.from_pylist(rows, schema=DOCUMENTS), "fingerprint")
    found = linked.mentions.to_pylist()
    assert [(row["start"], row["end"], row["label"]) for row in found] == sorted(
        (entity["start"], entity["end"], entity["label"]) for entity in given
    )
    linker = nlp.get_pipe("sapbert_linker")
    for row in found:
        assert row["document"] == "one"
        (expected,) = linker.find([row["mention"]])
        assert [entry["id"] for entry in row["candidates"]] == [entry["id"] for entry in expected]
        assert row["kb_id"]
    assert linked.errors.num_rows == 0


def test_given_entities_are_found_again_when_a_component_merges_tokens(nlp):
    from documents import DOCUMENTS
    from linking import link_block

    given = [{"start": 0, "end": 16, "label": "B"}, {"start": 18, "end": 26, "label": "A"}]
    rows = [{"document": "one", "text": "Cold temperature, insomnia.", "entities": given}]
    table = pa.Table.from_pylist(rows, schema=DOCUMENTS)
    whole = link_block(nlp, table, "fingerprint").mentions
    nlp.add_pipe("merge_entities", last=True)
    try:
        merged = link_block(nlp, table, "fingerprint").mentions
    finally:
        nlp.remove_pipe("merge_entities")
    assert whole["mention"].to_pylist() == ["Cold temperature", "insomnia"]
    assert None not in whole["kb_id"].to_pylist()
    assert merged.equals(whole)


def test_new_words_are_forgotten_once_many_are_known(nlp, monkeypatch):
    import linking
    from documents import DOCUMENTS

    def link(word):
        table = pa.Table.from_pylist([{"document": "one", "text": f"insomnia {word}"}], schema=DOCUMENTS)
        return linking.link_block(nlp, table, "fingerprint").mentions

    first = link("quetzalone")
    assert "quetzalone" in nlp.vocab.strings
    monkeypatch.setattr(linking, "KEPT_WORDS", 1)
    assert link("quetzaltwo").equals(first)
    assert "quetzaltwo" not in nlp.vocab.strings


def test_probabilities_are_written(nlp):
    from documents import DOCUMENTS
    from linking import link_block

    with_probabilities = Language.factories.get("add_probabilities") or Language.component(
        "add_probabilities", func=add_probabilities
    )
    assert with_probabilities
    nlp.add_pipe("add_probabilities")
    try:
        table = pa.Table.from_pylist([{"document": "one", "text": TEXTS[0]}], schema=DOCUMENTS)
        rows = link_block(nlp, table, "fingerprint").mentions.to_pylist()
    finally:
        nlp.remove_pipe("add_probabilities")
    assert [row["probability"] for row in rows] == [0.5, 0.5]
    assert {entry["probability"] for row in rows for entry in row["candidates"]} == {0.25}


def add_probabilities(doc):
    """Stand for a reranker: a probability for each link and each candidate."""
    from spacy_sapbert.annotations import LINKS, get_links, get_user_data, make_key

    for ent in doc.ents:
        ent._.kb_candidates = [{**entry, "probability": 0.25} for entry in ent._.kb_candidates]
        get_user_data(ent)[make_key(ent, LINKS)] = [{**link, "probability": 0.5} for link in get_links(ent)]
    return doc


def test_a_finished_folder_is_left_alone_and_missing_blocks_are_linked(pipeline, corpus, tmp_path, monkeypatch):
    import work
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    link_corpus(job, corpus, out)
    whole = read_files(out)
    (out / "mentions" / "00002-000001.parquet").unlink()
    (out / "mentions" / "00000-000000.parquet.0123.part").write_bytes(b"left by a kill")
    asked = []
    monkeypatch.setattr(work, "link_block", lambda *args, link=work.link_block: asked.append(1) or link(*args))
    link_corpus(job, corpus, out)
    assert len(asked) == 1
    assert read_files(out) == whole
    link_corpus(job, corpus, out)
    assert len(asked) == 1


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import folder, link
parts = []
def write(table, part, real=folder.pq.write_table, **settings):
    real(table, part, **settings)
    parts.append(part)
    if len(parts) == 9:
        os.kill(os.getpid(), signal.SIGKILL)
folder.pq.write_table = write
link.main(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), block=3, max_length=1000)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_run_loses_and_repeats_nothing(pipeline, corpus, tmp_path):
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    # The second file of the corpus, of which one document has an error: it is written before the mentions.
    write_lines(corpus / "b.jsonl", [{"text": TEXTS[0]}, {"text": 5}, {"text": TEXTS[1]}])
    link_corpus(job, corpus, tmp_path / "undisturbed")
    command = [sys.executable, "-c", KILLED, str(SCRIPTS), str(pipeline), str(corpus), str(out)]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr
    # Behind the eighth block's mentions, which are not yet in place.
    assert len(list(out.rglob("*.part"))) == 1
    assert len(list((out / "mentions").glob("*.parquet"))) == 7
    assert len(list((out / "errors").glob("*.parquet"))) == 1
    assert link_corpus(job, corpus, out) == []
    assert read_files(out) == read_files(tmp_path / "undisturbed")


def test_bad_documents_are_named_and_the_others_linked(pipeline, tmp_path):
    from link import link_corpus

    rows = [
        {"id": 1, "text": TEXTS[0]},
        {"id": "long", "text": "cold " * 2_000_000},
        {"id": "brackets", "text": "(" * 900},
        {"id": "none"},
        {"id": "number", "text": 7},
        {"id": "half \ud800", "text": "half \ud800"},
        {"id": "outside", "text": "cold", "entities": [{"start": 2, "end": 9, "label": "A"}]},
        {"id": "unplaced", "text": "cold", "entities": [{"label": "A"}]},
        {"id": "words", "text": "cold", "entities": "cold"},
        {"id": "last", "text": TEXTS[1]},
    ]
    write_lines(tmp_path / "in" / "a.jsonl", rows)
    with (tmp_path / "in" / "a.jsonl").open("ab") as file:
        file.write(b'{"text": "cut\n\n["list"]\n\xff\n{"id": "after", "text": "insomnia"}\n')
    assert link_corpus(make_job(pipeline), tmp_path / "in", tmp_path / "out") == []
    errors = read_errors(tmp_path / "out")
    named = {"long", "brackets", "none", "number", "half ?", "outside", "unplaced", "words"}
    assert set(errors) == named | {f"a.jsonl:{number}" for number in (11, 12, 13)}
    assert "10,000,000 characters" in errors["long"]
    assert "900 characters without white space" in errors["brackets"]
    assert "no text" in errors["none"]
    assert "from 2 to 9" in errors["outside"]
    assert {row["document"] for row in read_mentions(tmp_path / "out")} == {"1", "last", "after"}


def test_a_document_that_makes_a_component_fail_is_named(nlp):
    from documents import DOCUMENTS
    from linking import link_block

    if not Language.has_factory("fail_on_nothing"):
        Language.component("fail_on_nothing", func=fail_on_nothing)
    rows = [{"document": str(number), "text": TEXTS[number % 3]} for number in range(10)]
    rows[4]["entities"] = [{"start": 0, "end": 12, "label": "A"}]
    table = pa.Table.from_pylist(rows, schema=DOCUMENTS)
    whole = link_block(nlp, table, "fingerprint")
    nlp.add_pipe("fail_on_nothing", first=True)
    try:
        linked = link_block(nlp, table, "fingerprint")
    finally:
        nlp.remove_pipe("fail_on_nothing")
    # Halves are looked up apart from each other, which changes the last digits of cosines.
    assert linked.mentions.drop(["candidates"]).equals(whole.mentions.drop(["candidates"]))
    scores = [[entry["score"] for entry in found] for found in whole.mentions["candidates"].to_pylist()]
    assert [[entry["score"] for entry in found] for found in linked.mentions["candidates"].to_pylist()] == [
        pytest.approx(found, abs=1e-5) for found in scores
    ]
    assert {row["document"]: row["error"] for row in linked.errors.to_pylist()} == {
        number: "KeyError: 'not this one'" for number in ("2", "5", "8")
    }


def fail_on_nothing(doc):
    """Fail on one of the texts."""
    if doc.text.startswith("Nothing"):
        raise KeyError("not this one")
    return doc


def test_a_pipeline_that_leaves_documents_out_is_noticed(nlp):
    from documents import DOCUMENTS
    from linking import link_block

    if not Language.has_factory("fail_on_nothing"):
        Language.component("fail_on_nothing", func=fail_on_nothing)
    nlp.add_pipe("fail_on_nothing", first=True)
    nlp.set_error_handler(lambda *args: None)
    try:
        table = pa.Table.from_pylist([{"document": str(n), "text": TEXTS[n]} for n in range(4)], schema=DOCUMENTS)
        linked = link_block(nlp, table, "fingerprint")
    finally:
        nlp.remove_pipe("fail_on_nothing")
        nlp.set_error_handler(spacy.util.raise_error)
    assert linked.errors["document"].to_pylist() == ["2"]
    assert set(linked.mentions["document"].to_pylist()) == {"0", "1", "3"}


def test_a_broken_row_group_is_named_and_linked_once_it_is_repaired(pipeline, tmp_path):
    from link import link_corpus

    corpus, out, job = tmp_path / "in", tmp_path / "out", make_job(pipeline)
    corpus.mkdir()
    path = corpus / "a.parquet"
    rows = [{"id": f"d{number}", "text": f"{TEXTS[number % 4]} {number}"} for number in range(12)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4, compression="gzip", use_dictionary=False)
    link_corpus(job, corpus, tmp_path / "whole")
    content = path.read_bytes()
    column = pq.read_metadata(path).row_group(1).column(1)
    place = column.data_page_offset
    path.write_bytes(
        content[:place] + b"\xff" * column.total_compressed_size + content[place + column.total_compressed_size :]
    )
    write_lines(corpus / "b.jsonl", make_rows(2))
    unread = link_corpus(job, corpus, out)
    # Four documents are two blocks of three at most.
    assert [problem.partition(":")[0] for problem in unread] == ["block 3 of a.parquet", "block 4 of a.parquet"]
    found = {row["document"] for row in read_mentions(out)}
    assert found == {row["document"] for row in read_mentions(tmp_path / "whole")} - {"d4", "d5", "d7"} | {"d0", "d1"}


def test_a_file_without_texts_or_cut_short_is_named_and_linked_once_it_is_repaired(pipeline, corpus, tmp_path):
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    link_corpus(job, corpus, tmp_path / "whole")
    whole = {path: path.read_bytes() for path in (corpus / "c.parquet", corpus / "deep" / "b.jsonl.gz")}
    pq.write_table(pa.Table.from_pylist([{"body": "cold"}]), corpus / "c.parquet")
    (corpus / "deep" / "b.jsonl.gz").write_bytes(whole[corpus / "deep" / "b.jsonl.gz"][:40])
    unread = link_corpus(job, corpus, out)
    assert len(unread) == 2
    assert "c.parquet" in unread[0] and "no column 'text'" in unread[0] and "body" in unread[0]
    assert "b.jsonl.gz" in unread[1] and "EOFError" in unread[1]
    for path, content in whole.items():
        path.write_bytes(content)
    assert link_corpus(job, corpus, out) == []
    assert read_files(out) == read_files(tmp_path / "whole")


def test_a_full_disk_stops_the_run_which_goes_on_later(pipeline, corpus, tmp_path, monkeypatch):
    import folder
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    written = []

    def write(table, part, real=pq.write_table, **settings):
        written.append(part)
        if len(written) == 4:
            part.write_bytes(b"cut")
            raise OSError(28, "No space left on device")
        real(table, part, **settings)

    monkeypatch.setattr(folder.pq, "write_table", write)
    with pytest.raises(folder.CorpusError, match="No space left on device.*run the command again"):
        link_corpus(job, corpus, out)
    assert len(read_files(out)) == 3
    monkeypatch.undo()
    link_corpus(job, corpus, out)
    link_corpus(job, corpus, tmp_path / "undisturbed")
    assert read_files(out) == read_files(tmp_path / "undisturbed")


def test_a_folder_of_another_job_is_refused(pipeline, corpus, tmp_path):
    from folder import CorpusError
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    link_corpus(job, corpus, out)
    whole = read_files(out)
    # Not by an attribute of the linker: the saved config would be the same.
    other = spacy.load(pipeline)
    other.get_pipe("entity_ruler").add_patterns([{"label": "DISORDER", "pattern": "rash"}])
    other.to_disk(tmp_path / "other")
    with pytest.raises(CorpusError, match="output of another pipeline"):
        link_corpus(make_job(tmp_path / "other"), corpus, out)
    with pytest.raises(CorpusError, match="other settings"):
        link_corpus(make_job(pipeline, max_length=999), corpus, out)
    write_lines(corpus / "f.jsonl", make_rows(1))
    with pytest.raises(CorpusError, match="another input: f.jsonl is new"):
        link_corpus(job, corpus, out)
    (corpus / "f.jsonl").unlink()
    content = (corpus / "a.jsonl").read_bytes()
    (corpus / "a.jsonl").write_bytes(content.replace(b"cold", b"rash"))
    with pytest.raises(CorpusError, match="a.jsonl has changed"):
        link_corpus(job, corpus, out)
    (corpus / "a.jsonl").unlink()
    with pytest.raises(CorpusError, match="a.jsonl is missing"):
        link_corpus(job, corpus, out)
    assert read_files(out) == whole
    # The same documents at another time are the same input.
    (corpus / "a.jsonl").write_bytes(content)
    assert link_corpus(job, corpus, out) == []
    with pytest.raises(CorpusError, match="not the output of this command"):
        link_corpus(job, corpus, corpus)
    with pytest.raises(CorpusError, match="no file whose name ends with"):
        link_corpus(job, pipeline / "sapbert_linker" / "nothing", tmp_path / "new")


def test_two_runs_do_not_write_to_one_folder(pipeline, corpus, tmp_path):
    from folder import CorpusError, OutputFolder
    from link import link_corpus

    with OutputFolder(tmp_path / "out").lock(), pytest.raises(CorpusError, match="Another run"):
        link_corpus(make_job(pipeline), corpus, tmp_path / "out")


def test_a_pipeline_without_candidates_is_refused(pipeline, corpus, tmp_path):
    from folder import CorpusError
    from link import link_corpus
    from work import find_pipeline

    with pytest.raises(CorpusError, match="no component sets `span._.kb_nothing`"):
        link_corpus(make_job(pipeline, attribute="kb_nothing"), corpus, tmp_path / "out")
    # Nothing was linked with the wrong setting, so it may be corrected.
    assert link_corpus(make_job(pipeline), corpus, tmp_path / "out") == []
    with pytest.raises(CorpusError, match="neither the folder"):
        find_pipeline(str(corpus))


def test_the_command_names_bad_input_and_fails(pipeline, corpus, tmp_path, capsys):
    from link import main

    (corpus / "g.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(SystemExit) as ended:
        main(str(pipeline), corpus, tmp_path / "out", block=3)
    assert ended.value.code == 1
    shown = capsys.readouterr().out
    assert "27 documents" in shown
    assert "g.parquet" in shown and "can't be read" in shown
    with pytest.raises(SystemExit):
        main(str(corpus), corpus, tmp_path / "out")
    assert "neither the folder" in capsys.readouterr().out


def test_without_ray_actors_are_refused(pipeline, corpus, tmp_path, monkeypatch):
    from folder import CorpusError
    from link import link_corpus

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "on_ray", raising=False)
    with pytest.raises(CorpusError, match="Ray, which is not installed"):
        link_corpus(make_job(pipeline), corpus, tmp_path / "out", actors=2)


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
def test_actors_of_ray_give_the_same_files(pipeline, corpus, tmp_path):
    from link import link_corpus

    (corpus / "g.parquet").write_bytes(b"PAR1 and nothing else")
    (unread,) = link_corpus(make_job(pipeline), corpus, tmp_path / "process")
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, str(SCRIPTS / "link.py"), str(pipeline), str(corpus), str(tmp_path / "actors")]
    command += ["--block", "3", "--max-length", "1000", "--actors", "2"]
    # In a process of its own, because Ray starts threads.
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "27 documents" in done.stdout and "g.parquet" in done.stdout
    assert read_files(tmp_path / "actors") == read_files(tmp_path / "process")
    assert "g.parquet" in unread
