"""The project that links corpora: distinct strings first, Spark's function, and the corpus that is measured."""

import os
import random
import shutil
import sys
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from project_scripts import find_scripts, import_scripts

SCRIPTS = find_scripts("corpus")
NAMES = ("common cold", "trouble sleeping", "hypertension", "heart attack", "insomnia", "cold temperature")


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("corpus"):
        yield


@pytest.fixture(scope="module")
def nlp(static_folder, terminology):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config={"k": 2, "label_types": {"LETTERS": ["T047"]}})
    linker.initialize(terminology=terminology, encoder=str(static_folder))
    ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in NAMES])
    return nlp


@pytest.fixture(scope="module")
def pipeline(nlp, tmp_path_factory):
    path = tmp_path_factory.mktemp("pipeline") / "nlp"
    nlp.to_disk(path)
    return path


def make_job(pipeline):
    from documents import Columns
    from folder import Job
    from linking import LinkingSettings
    from work import hash_pipeline

    return Job(str(pipeline), hash_pipeline(pipeline), Columns(), LinkingSettings(), 4)


@pytest.fixture
def corpus(tmp_path):
    """Write 22 documents in two files; in some, the same string has several labels."""
    rng, folder = random.Random(0), tmp_path / "corpus"
    folder.mkdir()
    for file in range(2):
        rows = []
        for number in range(11):
            text = f"{rng.choice(NAMES)} and {rng.choice(NAMES)}"
            given = [{"start": 0, "end": 4, "label": rng.choice(("LETTERS", "OTHERS"))}]
            rows.append({"id": f"{file}-{number}", "text": text, "entities": rng.choice((given, None))})
        rows[7]["text"] = None
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{file}.parquet")
    return folder


def read_links(folder):
    """Read mentions without the last digits of scores, which depend on the strings that are looked up together."""
    rows = [row for path in sorted((folder / "mentions").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    for row in rows:
        row["candidates"] = [(entry["id"], entry["name"], round(entry["score"], 4)) for entry in row["candidates"]]
    return rows


def test_distinct_strings_give_the_same_links(pipeline, corpus, tmp_path):
    from distinct import link_distinct
    from link import link_corpus

    job, out = make_job(pipeline), tmp_path / "out"
    assert link_corpus(job, corpus, tmp_path / "all") == []
    assert link_distinct(job, corpus, out) == []
    rows = read_links(out)
    assert rows == read_links(tmp_path / "all")
    assert len(rows) > 25
    strings = pq.read_table(out / "strings").num_rows
    assert strings == len({(row["label"], row["mention"]) for row in rows}) < len(rows) / 2
    # The label decides which types are allowed.
    assert {row["kb_id"] for row in rows if row["label"] == "LETTERS"} != {
        row["kb_id"] for row in rows if row["label"] == "OTHERS"
    }
    assert pq.read_table(out / "found" / "errors").num_rows == 2
    files = {path: path.read_bytes() for path in out.rglob("*.parquet")}
    schema = pq.read_schema(tmp_path / "all" / "mentions" / "00000-000000.parquet")
    assert pq.read_schema(out / "mentions" / "00000-000000.parquet").equals(schema)
    # Each step goes on where it was killed.
    for step in ("found/mentions/00001-000000", "linked_strings/mentions/00000-000001", "mentions/00000-000002"):
        (out / f"{step}.parquet").unlink()
    assert link_distinct(job, corpus, out) == []
    assert {path: path.read_bytes() for path in out.rglob("*.parquet")} == files


def test_strings_are_linked_again_when_a_file_has_been_repaired(pipeline, corpus, tmp_path):
    from distinct import link_distinct

    job, out = make_job(pipeline), tmp_path / "out"
    whole = (corpus / "1.parquet").read_bytes()
    (corpus / "1.parquet").write_bytes(b"PAR1 and nothing else")
    assert len(link_distinct(job, corpus, out)) == 1
    assert {row["document"][0] for row in read_links(out)} == {"0"}
    (corpus / "1.parquet").write_bytes(whole)
    assert link_distinct(job, corpus, out) == []
    link_distinct(job, corpus, tmp_path / "whole")
    assert read_links(out) == read_links(tmp_path / "whole")


def test_links_that_depend_on_documents_are_not_joined(nlp, pipeline, corpus, tmp_path):
    from distinct import check_pipeline, link_distinct
    from folder import CorpusError
    from link import link_corpus

    check_pipeline(nlp)
    linker = nlp.get_pipe("sapbert_linker")
    nlp.add_pipe("schwartz_hearst", first=True)
    try:
        with pytest.raises(CorpusError, match="'schwartz_hearst' finds abbreviations"):
            check_pipeline(nlp)
        linker.abbreviations = "short_form"
        check_pipeline(nlp)
    finally:
        nlp.remove_pipe("schwartz_hearst")
        linker.abbreviations = "both"
    nlp.add_pipe("sapbert_reranker", last=True)
    try:
        with pytest.raises(CorpusError, match="'sapbert_reranker' comes behind the linker"):
            check_pipeline(nlp)
    finally:
        nlp.remove_pipe("sapbert_reranker")
    with pytest.raises(CorpusError, match="has no `sapbert_linker`"):
        check_pipeline(spacy.blank("en"))
    job = make_job(pipeline)
    link_corpus(job, corpus, tmp_path / "all")
    with pytest.raises(CorpusError, match="without `--distinct`"):
        link_distinct(job, corpus, tmp_path / "all")
    link_distinct(job, corpus, tmp_path / "distinct")
    with pytest.raises(CorpusError, match="not the output of this command"):
        link_corpus(job, corpus, tmp_path / "distinct")


def test_the_function_for_spark_links_record_batches(nlp, pipeline):
    from documents import DOCUMENTS
    from linking import link_block
    from on_spark import make_linker
    from work import hash_pipeline

    rows = [{"document": str(number), "text": f"{name} and cold"} for number, name in enumerate(NAMES)]
    rows[2]["text"] = None
    linked = link_block(nlp, pa.Table.from_pylist(rows, schema=DOCUMENTS), hash_pipeline(pipeline))
    # A frame without the column of entities.
    given = pa.Table.from_pylist(rows, schema=pa.schema([("document", pa.string()), ("text", pa.large_string())]))
    found = pa.Table.from_batches(make_linker(str(pipeline))(given.to_batches())).to_pylist()
    assert [{**row, "error": None} for row in linked.mentions.to_pylist()] == found[:-1]
    assert (found[-1]["document"], found[-1]["error"]) == ("2", "it has no text")
    empty = pa.Table.from_pylist([], schema=given.schema).to_batches()
    assert [row for batch in make_linker(str(pipeline))(empty) for row in batch.to_pylist()] == []


@pytest.mark.skipif(find_spec("pyspark") is None or shutil.which("java") is None, reason="needs Spark and Java")
def test_spark_links_a_frame(pipeline, corpus, tmp_path, monkeypatch):
    from link import link_corpus
    from on_spark import MENTIONS_DDL, make_linker
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    link_corpus(make_job(pipeline), corpus, tmp_path / "all")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.getOrCreate()
    try:
        for path in SCRIPTS.glob("*.py"):
            spark.sparkContext.addPyFile(os.fspath(path))
        frame = spark.read.parquet(str(corpus)).selectExpr("id document", "text", "entities")
        rows = [
            row.asDict(recursive=True) for row in frame.mapInArrow(make_linker(str(pipeline)), MENTIONS_DDL).collect()
        ]
    finally:
        spark.stop()
    for row in rows:
        candidates = row["candidates"] or ()
        row["candidates"] = [(entry["id"], entry["name"], round(entry["score"], 4)) for entry in candidates]
    expected = [{**row, "error": None} for row in read_links(tmp_path / "all")]
    assert sorted((row for row in rows if row["error"] is None), key=str) == sorted(expected, key=str)
    assert [row["error"] for row in rows if row["error"]] == ["it has no text"] * 2


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
