"""Tables show what a task is about: ranks of concepts or of names, or answers with precision, recall and F1."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.corpora.convert import convert_corpus
from training.corpora.listing import Corpus, read_corpora, read_task
from training.data.headlines import label_headlines, list_headlines
from training.data.task import LinkingTask
from training.evaluation.folder import Evaluation, Row, SystemInfo, TaskInfo, read_evaluation
from training.evaluation.measure import ResultStore, measure_encoder, measure_linking
from training.evaluation.report.tables import make_accuracy_table
from training.evaluation.side_by_side import describe_results, format_scores

# Two names of C1 come before the first of C2 wherever both are found.
NAMES = "C1\theart attack\nC1\theart attacks\nC1\tattack of heart\nC2\theart\nC3\tcold\nC4\tliver\n"
FOLDS = [
    [("heart attack", "C1"), ("heart attacks", "C2"), ("cold", "C3")],
    [("attack of heart", "C2"), ("heart", "C4")],
    [("liver", "C4")],
    [("cold", "C3"), ("heart", "C1")],
    [("heart attacks", "C1")],
]
EXACT = '[systems]\n\n[systems.exact]\nkind = "exact"\ntitle = "Exact match"\n'


class Rehearsed:
    """A system that finds the rows that a test has written down for each query."""

    def __init__(self, rows):
        self.rows = rows

    def search(self, names, queries, k):
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for line, query in enumerate(queries):
            found[line, : len(self.rows[query])] = self.rows[query]
        return found, np.where(found < 0, -np.inf, -np.arange(k, dtype=np.float32)).astype(np.float32)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert not result.exit_code, (result.output, result.exception)
    return result.output


def write_mentions(path, mentions):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"mention": text, "ids": [gold]}) + "\n" for text, gold in mentions))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.permutations(range(4)), st.integers(0, 4), st.sampled_from("ABC")), min_size=1, max_size=8)
)
def test_answers_equal_a_naive_count(drawn):
    names, ids = ["a1", "a2", "b", "c"], ["A", "A", "B", "C|D"]
    queries = [f"query {number}" for number in range(len(drawn))]
    rows = {query: order[:n] for query, (order, n, _) in zip(queries, drawn, strict=True)}
    task = LinkingTask(queries, [[gold] for *_, gold in drawn], names, ids, level="answer")
    figures = measure_linking(Rehearsed(rows), task)
    n_answers = n_right = 0
    for query, (*_, gold) in zip(queries, drawn, strict=True):
        if rows[query]:
            n_answers += 1
            n_right += gold in ids[rows[query][0]].split("|")
    assert figures["precision"] == pytest.approx(n_right / n_answers if n_answers else 0)
    assert figures["recall"] == pytest.approx(n_right / len(queries))
    # F1 of counts: twice the right answers over answers and mentions.
    assert figures["f1"] == pytest.approx(2 * n_right / (n_answers + len(queries)))
    assert list_headlines(figures) == ["precision", "recall", "f1"]
    assert label_headlines(figures) == "precision/recall/F1"
    as_names = measure_linking(
        Rehearsed(rows), LinkingTask(task.queries, task.gold, names, ids, level="row", ranks=[1, 3])
    )
    at_3 = 0
    for order, n, gold in drawn:
        at_3 += gold in {single for row in order[:n][:3] for single in ids[row].split("|")}
    assert as_names["row_acc_at_3"] == pytest.approx(at_3 / len(queries))
    assert label_headlines(as_names) == "row acc@1/@3" and "f1" not in as_names


def test_a_level_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(ValueError, match="E620.*level.*'rows'.*concept, row, answer"):
        LinkingTask(["a"], [["C1"]], ["a"], ["C1"], level="rows")
    section = '[corpora]\n\n[corpora.a]\nmentions = "*.jsonl"\ndictionary = "names.tsv"\n'
    for line, reason in (('level = "rows"', "'rows' is none of concept"), ('documents = "("', "unterminated")):
        (tmp_path / "corpora.cfg").write_text(section + line)
        with pytest.raises(ValueError, match=rf"(?s)section \[corpora\.a\].*{reason}"):
            read_corpora(tmp_path / "corpora.cfg", tmp_path)


def test_a_result_counted_by_concepts_is_not_taken_for_one_of_names(encoder_folder, tmp_path):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    queries, gold, names, ids = (
        ["cold", "heart"],
        [["C3"], ["C2"]],
        ["cold", "heart attack", "heart"],
        ["C3", "C1", "C2"],
    )
    store = ResultStore(tmp_path)
    first = measure_encoder(encoder, {"a": LinkingTask(queries, gold, names, ids)}, store)["a"]
    second = measure_encoder(encoder, {"a": LinkingTask(queries, gold, names, ids, level="row")}, store)["a"]
    assert "level" not in first and second["level"] == "row"


def test_measure_and_cards_count_names_at_the_ranks_of_a_corpus(encoder_folder, tmp_path):
    for number, mentions in enumerate(FOLDS, 1):
        write_mentions(tmp_path / "psytar" / f"fold{number}.test.jsonl", mentions)
    dictionary = tmp_path / "psytar" / "dictionary.tsv.gz"
    dictionary.write_bytes(gzip.compress(NAMES.encode()))
    output = run(
        "measure", encoder_folder, tmp_path / "out", "--benchmarks", tmp_path, "--results", tmp_path / "r.json"
    )
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    ids, names = zip(*(line.split("\t") for line in NAMES.splitlines()), strict=True)
    vectors, shares = encoder.encode(list(names)), {1: [], 3: []}
    for mentions in FOLDS:
        hits = {1: 0, 3: 0}
        for text, gold in mentions:
            order = sorted(range(len(names)), key=lambda row: -float(encoder.encode([text])[0] @ vectors[row]))
            for rank in hits:
                hits[rank] += gold in [ids[row] for row in order[:rank]]
        for rank, n in hits.items():
            shares[rank].append(n / len(mentions))
    means = {rank: float(np.mean(of_folds)) for rank, of_folds in shares.items()}
    header, _, line = (tmp_path / "out" / "scores.md").read_text().splitlines()
    assert header == "|  | psytar row acc@1/@3 |"
    assert line.endswith(f"| {100 * means[1]:.1f}/{100 * means[3]:.1f} |") and "psytar: 9 queries" in output
    card = json.loads((tmp_path / "r.json").read_text())["scores"]["psytar"]
    assert card == pytest.approx({"row acc@1": means[1], "row acc@3": means[3]})
    concepts = read_task(Corpus([tmp_path / "psytar" / "fold1.test.jsonl"], dictionary))
    assert (concepts.level, concepts.ranks) == ("concept", [1, 5])


def test_tables_and_cards_name_what_they_show():
    names = {"acc_at_1": 0.5, "acc_at_3": 1.0, "row_acc_at_1": 0.5, "row_acc_at_3": 0.75, "level": "row"}
    answers = {"acc_at_1": 0.5, "precision": 0.8, "recall": 0.5, "f1": 0.6, "level": "answer"}
    scores = {"names": names, "answers": answers, "concepts": {"acc_at_1": 0.25, "acc_at_5": 0.5, "row_acc_at_1": 0.25}}
    header, _, line = format_scores({"a": [scores]}, reference="a").splitlines()
    assert header == "|  | names row acc@1/@3 | answers precision/recall/F1 | concepts acc@1/@5 |"
    assert line == "| a | 50.0/75.0 | 80.0/50.0/60.0 | 25.0/50.0 |"
    described = describe_results({"answers": answers}, {"answers": answers})["answers"]
    assert list(described) == ["before precision", "before recall", "before F1", "precision", "recall", "F1"]


GERMAN = {
    "EMEA_ec22-cui-best_man": [("Das Salz und die Zehe.", "T1\tC0000001 4 8\tSalz\nT2\tC0000002 4 8\tSalz\n")],
    "Medline_EN_DE_ec22-cui-best_man": [
        ("Insulin wirkt.", "T1\tC0000003 0 7\tInsulin\n"),
        ("Die blaue und lange Zehe.", "T1\tC0000004 4 9;20 24\tblaue Zehe\nT2\tC0000009 14 19\tlange\n"),
    ],
    "Patents_ec22-cui-best_man": [("Insulin", "T1\tC0000001 0 7\tInsulin\n")],
}
# Concept, name, source and language. "lange" is no answer: a source and a language that are not searched.
TERMS = [
    ("C0000001", "Salz", "MSH", "ENG"),
    ("C0000003", "Insulin", "MSH", "ENG"),
    ("C0000004", "Blaue-Zehe NOS (disorder)", "SNOMEDCT_US", "ENG"),
    ("C0000009", "lange", "HPO", "ENG"),
    ("C0000009", "lange", "MSH", "GER"),
]


def build(path, terms):
    builder = TerminologyBuilder()
    for concept, name, source, language in terms:
        builder.add_name(concept, name, source=source, language=language)
    builder.build().to_disk(path)


def test_mantra_is_counted_by_annotations_apart_and_together(tmp_path):
    for corpus, documents in GERMAN.items():
        folder = tmp_path / "raw" / "German" / corpus
        folder.mkdir(parents=True)
        for number, (text, annotations) in enumerate(documents):
            (folder / f"{number}.txt").write_text(text)
            (folder / f"{number}.ann").write_text(annotations)
    convert_corpus("mantra-brat", tmp_path / "raw", tmp_path / "corpora" / "mantra")
    build(tmp_path / "names", TERMS)
    (tmp_path / "systems.cfg").write_text(EXACT)
    where = ["--benchmarks", tmp_path / "corpora", "--terminology", tmp_path / "names", "--corpora", "corpora_mantra"]
    output = run("evaluate", tmp_path / "systems.cfg", tmp_path / "out", *where)
    searched = {"Salz": "C0000001", "Insulin": "C0000003", "blaue Zehe": "C0000004"}
    expected, pooled = {}, []
    for corpus, documents in GERMAN.items():
        annotations = [line.split("\t") for _, lines in documents for line in lines.splitlines()]
        counted = [(searched.get(text), span.split(" ")[0]) for _, span, text in annotations]
        expected[corpus.partition("_")[0].lower()] = counted
        pooled += counted
    evaluation = read_evaluation(tmp_path / "out")
    assert {row.task for row in evaluation.rows} == {
        f"mantra_de_{part}.coder" for part in ("medline", "emea", "patents", "annotations")
    }
    for row in evaluation.rows:
        counted = {**expected, "annotations": pooled}[row.task.removeprefix("mantra_de_").partition(".")[0]]
        right, answered = sum(a == b for a, b in counted), sum(a is not None for a, _ in counted)
        figures = (right / answered, right / len(counted), 2 * right / (answered + len(counted)))
        assert [row.figures[name] for name in ("precision", "recall", "f1")] == pytest.approx(figures), row.task
        assert row.figures["mentions"] == len(counted)
    assert "exact on mantra_de_annotations.coder: precision 60.0%, recall 50.0%, F1 54.5%." in output
    report = (tmp_path / "out" / "report.md").read_text()
    assert "MANTRA, German, Medline: accuracy" in report and "coder: precision | coder: recall | coder: F1" in report
    assert "its one answer" in report
    # Another dictionary: a table of ids, names and sources.
    (tmp_path / "names.tsv").write_text("C0000009\tlange\tMDR\nC0000001\tSalz\tHPO\n")
    where[3] = tmp_path / "names.tsv"
    output = run("evaluate", tmp_path / "systems.cfg", tmp_path / "other", *where)
    assert "exact on mantra_de_medline.coder: precision 100.0%, recall 33.3%, F1 50.0%." in output
    assert "exact on mantra_de_emea.coder: precision 0.0%, recall 0.0%, F1 0.0%." in output


def test_f1_stands_beside_published_f1_where_the_dictionary_is_that_of_the_paper():
    info = TaskInfo(
        **{"corpus": "mantra_de_medline", "title": "", "protocol": "coder", "is_published": True, "dictionary": ""},
        **{"level": "answer", "ranks": [1, 5], "aggregation": "micro", "abbreviations": False, "composites": False},
        **{"augmented": False, "mentions": 4, "names": 4},
    )
    figures = {"precision": 0.8, "recall": 0.5, "f1": 0.615, "row_acc_at_1": 0.5, "level": "answer"}
    evaluation = Evaluation(
        versions={},
        systems={"ours": SystemInfo(title="Ours", published="CODER_ALL")},
        tasks={"mantra_de_medline.coder": info},
        missing=[],
        rows=[Row(system="ours", task="mantra_de_medline.coder", figures=figures)],
    )
    table = make_accuracy_table(evaluation, ["mantra_de_medline.coder"])
    names = [column.title.partition(": ")[2] for column in table.columns[3:]]
    assert names[:3] == ["precision", "recall", "F1"] and "literature, precision/recall/F1" in names
    (row,) = table.rows
    assert row[3:6] == ["80.0", "50.0", "61.5"]
    # CODER's table 2 has 69.0 for German Medline, and no precision or recall.
    assert row[7].startswith("–/–/69.0 (CODER_ALL; Yuan et al., 2022, Table 2") and row[8] == "–/–/-7.5"


def test_xlbel_searches_the_names_of_all_languages(tmp_path):
    query = "Herzinfarkt"
    write_mentions(tmp_path / "xlbel" / "de.jsonl", [(query, "C0000001"), ("Leber", "C0000002"), ("Galle", "CL000003")])
    terms = [("C0000001", "heart attack", "MSH", "ENG"), ("C0000001", query, "MSHGER", "GER")]
    # A name of another language than the query's is an answer as well; a concept of another source is none.
    terms += [("C0000002", "Leber", "MSHDUT", "DUT"), ("CL000003", "Galle", "X", "GER")]
    build(tmp_path / "names", terms)
    (tmp_path / "systems.cfg").write_text(EXACT)
    recalls = {}
    for corpora in ("corpora", "corpora_xlbel"):
        where = ["--benchmarks", tmp_path, "--terminology", tmp_path / "names", "--corpora", corpora]
        run("evaluate", tmp_path / "systems.cfg", tmp_path / corpora, *where)
        (row,) = read_evaluation(tmp_path / corpora).rows
        recalls[corpora] = row.figures["row_acc_at_1"], row.figures["names"], row.task
    assert recalls["corpora"] == (0, 1, "xlbel_de.strict")
    assert recalls["corpora_xlbel"] == (pytest.approx(2 / 3), 3, "xlbel_de_multilingual.strict")
    assert read_evaluation(tmp_path / "corpora_xlbel").tasks["xlbel_de_multilingual.strict"].level == "row"
