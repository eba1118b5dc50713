"""Reports: every figure has its protocol, published ones are set apart, and text stays text."""

import csv
import gzip
import json
from collections import Counter
from html.parser import HTMLParser
from itertools import dropwhile, takewhile

import polars as pl
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from training.data.frame import SCHEMA, write_results
from training.data.task import LinkingTask
from training.markup import cut_text, escape_markdown, format_rows, isolate
from training.report.report import _draw, make_report
from training.report.results import Results
from training.report.tables import draw_of_each_kind, find_published, make_accuracy_table

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>a()</script><path d="M0 0h9v9z"/></svg>'
NAMES = ["cold", "gout | tophus", "fever", *(f"name {n}" for n in range(4))]
IDS = ["D1", "D2", *["D3|D4"] * 5]
MENTIONS = [("Cold", "D1"), ("gout <i>", "D2"), ("pyrexia", "D3"), ("dropsy", "D9")]
SEED_SCORES = {0: 0.912, 1: 0.925, 2: 0.931}
BASE_SCORES = {0: 0.750, 1: 0.751, 2: 0.747}
# Encoders may be called by their folders.
EXACT_SYSTEM = "output/exact"
EXACT = "\\<b\\>Exact\\</b\\> \\& \0 match"


def make_system(title, **values):
    system = {"title": title, "kind": "encoder", "published": "", "published_pooling": "", "description": ""}
    return system | {"group": "", "seed": None, "fingerprint": "f" * 40, "identity": {}} | values


def make_task(corpus, protocol, **values):
    task = {"corpus": corpus, "title": {"ncbi_disease": "NCBI disease", "in_house": "In-house | notes"}[corpus]}
    task |= {"kind": "corpora", "protocol": protocol, "is_published": protocol == "published", "is_comparable": True}
    task |= dict.fromkeys(("abbreviations", "composites", "augmented"), protocol == "published")
    task |= {"dictionary": "MEDIC, 6 July 2012", "level": "row", "ranks": [1, 5], "aggregation": "micro", "note": ""}
    return task | {"counts": {"mentions": 4, "names": 73024, "unanswerable": 1}, "hash": "0123456789abcdef"} | values


def make_figures(system, task, score, **values):
    metrics = {(metric, rank): score for metric in ("acc", "row_acc") for rank in (1, 3, 5)}
    metrics |= {("acc_any_tied", 1): score} | {("acc", int(rank[4:])): value for rank, value in values.items()}
    return [(system, task, metric, rank, value) for (metric, rank), value in metrics.items()]


class Run:
    """What `measure` writes, to change before it is written."""

    def __init__(self):
        self.systems = {EXACT_SYSTEM: make_system("<b>Exact</b> & | match", kind="exact")}
        for seed in SEED_SCORES:
            seeded = {"seed": seed, "published": "PubMedBERT + SapBERT", "group": "sapbert"}
            self.systems[f"sapbert_{seed}"] = make_system("Our SapBERT", **seeded)
            self.systems[f"base_{seed}"] = make_system("Our base", seed=seed, group="base")
        self.tasks = {
            "ncbi_disease.published": make_task("ncbi_disease", "published"),
            "ncbi_disease.strict": make_task("ncbi_disease", "strict", note="As it is."),
            "in_house.published": make_task("in_house", "published", level="concept", ranks=[1, 3], note="CC-BY"),
        }
        self.figures = [row for task in self.tasks for row in make_figures(EXACT_SYSTEM, task, 0.742)]
        for task in list(self.tasks)[:2]:
            for name, scores in (("sapbert", SEED_SCORES), ("base", BASE_SCORES)):
                self.figures += [
                    row for seed, score in scores.items() for row in make_figures(f"{name}_{seed}", task, score)
                ]
        # Names fill the first rows: accuracy by concepts is higher.
        self.figures += make_figures("sapbert_0", "in_house.published", 0.5, acc_3=0.75)
        self.missing = [
            {"corpus": "cometa", "title": "COMETA", "reason": "no files", "obtain": "ask <its> authors"}
            | {"system": "", "task": ""}
        ]
        self.facts = {"versions": {"spacy": "3.8"}, "config": {"measure": {"seed": 0}}, "seconds": 90.0}

    def write(self, folder):
        rows = []
        for system, task, metric, rank, value in self.figures:
            protocol = self.tasks.get(task, {"protocol": ""})["protocol"]
            seed = self.systems.get(system, {"seed": None})["seed"]
            rows.append((system, task, protocol, metric, rank, value, 4, seed, "f" * 40))
        write_results(pl.DataFrame(rows, schema=SCHEMA, orient="row"), folder)
        pairs = dict.fromkeys((system, task) for system, task, *_ in self.figures)
        results = [self.describe(*pair) for pair in pairs]
        measured = self.facts | {"systems": self.systems, "tasks": self.tasks, "missing": self.missing}
        (folder / "measured.json").write_text(json.dumps(measured | {"results": results}))
        return folder

    def describe(self, system, task):
        details = {"similarity": "dot"}
        if system == EXACT_SYSTEM:
            details |= {"search": "scann", "recall": 0.987, "decided": {"dictionary": 1200}}
        if task == "documents":
            details["errors"] = [{"kind": "NIL expected", "gold_name": "a\tb", "score": None}] * 12
        key = f"{system}.{task}".replace("/", "_")
        return {"system": system, "task": task, "key": key, "seconds": 1, "details": details}

    def read(self, folder):
        return Results(self.write(folder))


def add_kept_files(folder):
    task = LinkingTask([mention.lower() for mention, _ in MENTIONS], [[gold] for _, gold in MENTIONS], NAMES, IDS)
    task.to_disk(folder / "tasks" / "ncbi_disease.published.json")
    for system, hits in {"output_exact": [True, False, False, False], "sapbert_0": [True, True, True, False]}.items():
        write_predictions(folder, system, hits)
    figures = folder / "figures"
    figures.mkdir()
    (figures / "before_after.png").write_bytes(PNG)
    (figures / "pairs.svg").write_text(SVG)
    (figures / "pairs.png").write_bytes(PNG)
    captions = [{"file": "pairs.svg", "title": "Cosines", "caption": "a < b"}]
    (figures / "figures.json").write_text(json.dumps(captions))
    study = {"title": "Nearest names", "columns": ["Query", "Found"], "rows": [["angina", "a | b"]]}
    (figures / "neighbours").mkdir()
    (figures / "neighbours" / "neighbours.json").write_text(json.dumps({"tables": [study]}))
    return folder


def write_predictions(folder, system, hits):
    path = folder / "predictions" / f"{system}.ncbi_disease.published.jsonl.gz"
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as file:
        for (mention, gold), hit in zip(MENTIONS, hits, strict=True):
            name = {"D1": "cold", "D2": "gout | tophus", "D3": "fever"}[gold] if hit else "gout | tophus"
            found = {"ids": gold if hit else "D2", "name": name, "score": 0.5}
            line = {"mention": mention, "queries": [mention.lower()], "gold": [gold], "fold": 0}
            line["hits"] = {"row_acc_at_1": hit, "row_acc_at_5": hit or mention == "pyrexia"}
            file.write(json.dumps(line | {"candidates": [[found]]}) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "run"
    folder.mkdir()
    run = Run()
    kinds = {"mcsm": ("Semantic types", "", ""), "documents": ("Abstracts", "documents", "ncbi_disease")}
    for kind, (title, protocol, corpus) in kinds.items():
        run.tasks[kind] = {"kind": kind, "title": title, "protocol": protocol, "corpus": corpus}
    run.tasks["mcsm"]["counts"] = {"concepts": 157726}
    run.figures += [("sapbert_0", "mcsm", "mcsm.Finding", None, 10.44)]
    run.figures += [("base_0", "mcsm", "mcsm.Finding", None, float("nan"))]
    run.figures += [(EXACT_SYSTEM, "documents", "acc", 1, 0.5), (EXACT_SYSTEM, "documents", "nil_f", None, 0.25)]
    add_kept_files(run.write(folder))
    make_report(folder)
    return folder


@pytest.fixture
def run():
    return Run()


@pytest.fixture(scope="module")
def markdown(made):
    return (made / "report.md").read_text()


def read_table(markdown, title):
    """Read a table of Markdown back: its header, and its lines as dicts."""
    below = markdown.split(f"**{title}**\n")[1].splitlines()
    lines = list(takewhile(bool, dropwhile(lambda line: not line.startswith("| "), below)))
    rows = [[cell.strip() for cell in line.replace("\\|", "\0").strip("| ").split(" | ")] for line in lines]
    assert {len(row) for row in rows} == {len(rows[0])}
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def read_rows(markdown, title):
    return {row["System"]: row for row in read_table(markdown, title)}


class Checker(HTMLParser):
    """Check that tags are closed in order, and collect them."""

    VOID = {"meta", "img", "br", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links |= {values[key] for key in ("href", "src") if key in values}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_means_deviations_and_published_figures(markdown):
    rows = read_rows(markdown, "NCBI disease, published: accuracy")
    search = "scann; finds the nearest name for 98.7 %; queries answered: 1,200 by the dictionary"
    assert rows[EXACT]["Search"] == search
    assert list(rows) == [EXACT, "Our SapBERT (3 seeds)", "Our base (3 seeds)"]
    ours, published = rows["Our SapBERT (3 seeds)"], "*literature, acc@1/acc@5*"
    assert (ours["Similarity"], ours["Search"]) == ("dot", "–")
    assert ours["acc@1"] == ours["acc@1, any tied"] == "92.3 ± 1.0"
    assert ours[published] == "92.0/95.6 (PubMedBERT + SapBERT; Liu et al., 2021, Table 1)"
    assert ours["difference"] == "+0.3/-3.3"
    assert rows["Our base (3 seeds)"][published] == "–"


def test_published_figures_stand_beside_no_other_protocol(run, tmp_path):
    run.tasks["in_house.published"]["level"] = "row"
    # Another task of the same protocol is told apart by its name.
    run.tasks["ncbi_disease.other"] = run.tasks["ncbi_disease.strict"]
    results = run.read(tmp_path)
    tables = [make_accuracy_table(results, name) for name in ("ncbi_disease.strict", "in_house.published")]
    assert "published" not in [column.kind for table in tables for column in table.columns]
    assert tables[0].title == "NCBI disease, ncbi_disease.strict: accuracy"
    # Of the level of the task.
    assert tables[1].rows[1][4] == "50.0"


@pytest.mark.parametrize(
    "system, pooling, changes, where, value",
    [
        ("BioSyn", "", {}, "", None),
        ("BioSyn", "", {"is_published": True}, "Table", 91.1),
        # Refined figures are compared with refined ones.
        ("BioSyn", "", {"protocol": "refined"}, "refined", 72.5),
        ("BioSyn", "", {"protocol": "refined", "is_comparable": False}, "", None),
        ("SapBERT", "", {"is_published": True, "corpus": "psytar"}, "Table 1", 52.45),
        ("SapBERT", "[CLS], pooler", {"is_published": True, "corpus": "psytar"}, "Table 9", 44.22),
    ],
)
def test_published_figures_are_those_of_protocol_and_pooling(run, tmp_path, system, pooling, changes, where, value):
    run.systems[EXACT_SYSTEM] |= {"published": system, "published_pooling": pooling}
    results = run.read(tmp_path)
    found = find_published(results.lines["ncbi_disease.strict"][0], results.tasks["ncbi_disease.strict"] | changes)
    assert value == (found["row_acc", 1].value if found else None)
    assert not found or where in found["row_acc", 1].where


def test_answers_have_precision_recall_and_f1(run, tmp_path):
    run.systems[EXACT_SYSTEM] |= {"published": "mBERT", "published_pooling": "mean"}
    task = make_task("ncbi_disease", "published", level="answer")
    run.tasks = {"mantra_nl_emea.published": task | {"corpus": "mantra_nl_emea"}}
    metrics = {("precision", None): 0.25, ("recall", None): 0.2, ("f1", None): 0.222, ("row_acc", 1): 0.2}
    run.figures = [(EXACT_SYSTEM, "mantra_nl_emea.published", *key, value) for key, value in metrics.items()]
    table = make_accuracy_table(run.read(tmp_path), "mantra_nl_emea.published")
    assert [column.title for column in table.columns][3:6] == ["precision", "recall", "F1"]
    assert table.rows[0][3:7] == ["25.0", "20.0", "22.2", "–"]
    assert table.rows[0][7:] == ["–/–/20.1 (mBERT; Yuan et al., 2022, Table 2)", "–/–/+2.1"]


def test_captions_say_the_protocol_and_the_report_opens_with_the_answer(made, markdown):
    for text in ((made / "report.md").read_text(), (made / "report.html").read_text()):
        assert "4 mentions, 1 without an answer in the dictionary" in text.replace("&#x27;", "'")
        for said in ("MEDIC, 6 July 2012, 73,024 names, with the mentions", "abbreviations spelled out", "micro"):
            assert said in text
        for said in ("looked up part by part", "first k names", "order of the dictionary", "As it is.", "CC-BY"):
            assert said in text
    headings = [line for line in markdown.splitlines() if line.startswith("## ")]
    assert headings[0] == "## Systems by corpora"
    assert headings[-2:] == ["## Published figures", "## What was not measured"]
    assert markdown.count("<details>") == markdown.count("</details>") == 3
    rows = read_rows(markdown, "Systems by corpora: acc@1")
    assert rows["Our SapBERT"]["NCBI disease, published"] == "92.3 ± 1.0"
    assert rows["Our base"]["In-house \0 notes, published"] == "–"
    assert "](figures/systems.svg)" in markdown and "<svg" in (made / "figures" / "systems.svg").read_text()


def test_significance(markdown):
    rows = read_table(markdown, "NCBI disease, published: significance")
    tests = {(row["System"], row["Compared with"]): row["Test"] for row in rows}
    scores, base = ([100 * score for score in of.values()] for of in (SEED_SCORES, BASE_SCORES))
    ours, others = "Our SapBERT (3 seeds)", "Our base (3 seeds)"
    published = "PubMedBERT + SapBERT, 92.0 (Liu et al., 2021, Table 1)"
    assert tests[ours, published] == f"p = {ttest_1samp(scores, 92.0).pvalue:.3f} (one-sample t-test, 3 seeds)"
    assert ttest_rel(scores, base).pvalue < 0.01
    paired = f"p = {ttest_rel(scores, base).pvalue:.3f} (paired t-test, 3 seeds)"
    assert tests[EXACT, "Our SapBERT"].startswith("p = 0.500 (McNemar's")
    strict = read_table(markdown, "NCBI disease, strict: significance")
    assert [(row["System"], row["Compared with"], row["Test"]) for row in strict] == [(ours, others, paired)]


def test_wrong_mentions_and_decisions(made, markdown):
    rows = read_rows(markdown, "published: wrong mentions")
    assert (rows["Our SapBERT"]["Mentions"], rows["Our SapBERT"]["Wrong"]) == ("4", "1")
    assert (rows[EXACT]["Wrong"], rows[EXACT]["Right at 5"]) == ("3", "1")
    name = EXACT.replace("\0", "\\|")
    examples = read_table(markdown, f"published: wrong mentions of {name}")
    assert [row["Mention"] for row in examples] == ["gout \\<i\\>", "pyrexia", "dropsy"]
    assert read_errors(made, "ncbi_disease.published.output_exact")[1:] == [
        ["gout <i>", "D2", "gout | tophus", "D2", "gout | tophus", "no"],
        ["pyrexia", "D3", "fever; name 0; name 1 (and 2 more)", "D2", "gout | tophus", "yes"],
        ["dropsy", "D9", "", "D2", "gout | tophus", "no"],
    ]
    wrong = read_table(markdown, f"documents: wrong decisions of {name}")
    assert wrong == [{"Kind": "NIL expected", "Gold name": "a b", "Score": "–"}] * 10
    assert len(read_errors(made, "documents.output_exact")) == 13


def read_errors(folder, name):
    with (folder / "errors" / f"{name}.tsv").open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def test_html_is_one_whole_file(made):
    text = (made / "report.html").read_text()
    checker = Checker()
    checker.feed(text)
    assert not checker.open
    assert "script" not in checker.tags and "b" not in checker.tags and "i" not in checker.tags
    assert len(set(checker.ids)) == len(checker.ids)
    assert {link.removeprefix("#") for link in checker.links if link.startswith("#")} == set(checker.ids)
    assert {link.split(",")[0] for link in checker.links if not link.startswith("#")} == {
        "data:image/png;base64",
        "data:image/svg+xml;base64",
    }
    assert "&lt;b&gt;Exact&lt;/b&gt; &amp; | match" in text
    assert 'class="published"' in text
    assert text.index("Systems by corpora: acc@1") < text.index("significance") < text.index("Wrong mentions</h2>")


def test_other_parts(markdown):
    types = read_table(markdown, "Semantic types")
    assert types == [{"Figure": "mcsm.Finding", "Our SapBERT": "10.4", "Our base": "–"}]
    assert "concepts 157,726" in markdown
    documents = {row["Figure"]: row for row in read_table(markdown, "Abstracts, documents")}
    assert (documents["acc@1"][EXACT], documents["nil f"][EXACT]) == ("50.0", "25.0")
    assert list(documents["acc@1"].values())[2:] == ["87.6", "86.1", "83.4"]
    assert (
        read_table(markdown, "Corpora and systems that were not there")[0]["How to get it"] == "ask \\<its\\> authors"
    )
    assert read_table(markdown, "Nearest names") == [{"Query": "angina", "Found": "a \0 b"}]
    assert "](figures/before_after.png)" in markdown and "*Before after.*" in markdown
    assert "](figures/pairs.svg)" in markdown and "*Cosines.* a \\< b" in markdown and "pairs.png" not in markdown
    assert read_table(markdown, "Config") == [{"Setting": "measure.seed", "Value": "0"}]
    assert read_table(markdown, "Versions") == [{"Package": "spacy", "Version": "3.8"}]
    assert "The run took 1.5 minutes" in markdown
    sizes = [row for row in read_table(markdown, "Names and mentions") if row["Corpus"] == "NCBI disease"]
    assert [row["*Published*"] for row in sizes] == ["960", "960"]


@pytest.mark.parametrize("size", [1, 3, 9])
def test_a_sample_has_as_many_of_each_kind_and_stays_when_others_come(size):
    entries = [{"kind": "ab"[n % 3 == 0], "document": "1", "context": f"[[{n}]]"} for n in range(12)]
    drawn = draw_of_each_kind(entries, size)
    assert drawn == [entry for entry in entries if entry in drawn]
    assert Counter(entry["kind"] for entry in drawn) == {"a": min(size, 8), "b": min(size, 4)}
    fewer = draw_of_each_kind(entries[1:], size)
    assert len([entry for entry in fewer if entry not in drawn]) <= (entries[0] in drawn)
    assert [entry for entry in drawn if entry != entries[0] and entry not in fewer] == []


def test_the_picture_of_one_corpus_has_room_for_its_axes(tmp_path, recwarn):
    _draw({f"System {n}": {"a": [n]} for n in range(5)}, {"a": "A corpus"}, tmp_path / "x.svg")
    assert not recwarn.list


def test_optional_parts_may_be_missing_and_the_same_folder_gives_the_same_bytes(run, tmp_path):
    run.missing, run.figures = [], run.figures[:7]
    make_report(run.write(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*.*")}
    headings = [line for line in before["report.md"].decode().splitlines() if line.startswith("## ")]
    standing = ["## The papers, table by table", "## Published figures"]
    assert headings == ["## Systems by corpora", "## Accuracy", "## Sizes of the corpora", "## The run", *standing]
    make_report(tmp_path)
    assert before == {path.name: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert set(before) == {"measured.json", "report.html", "report.md", "results.parquet", "results.tsv", "systems.svg"}


def break_json(name):
    return lambda folder: (folder / name).write_text("{")


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda run: run.figures.append(("nobody", "in_house.published", "acc", 1, 1.0)), "measured.json.*'nobody'"),
        (lambda run: run.figures.append((EXACT_SYSTEM, "nothing", "acc", 1, 1.0)), "measured.json.*'nothing'"),
        (lambda run: run.facts.pop("versions"), "measured.json.*'versions'"),
    ],
)
def test_measurements_that_do_not_fit_are_refused(run, tmp_path, change, reason):
    change(run)
    with pytest.raises(ValueError, match=reason):
        run.read(tmp_path)


@pytest.mark.parametrize(
    "change, reason",
    [
        (break_json("measured.json"), "measured.json"),
        (break_json("figures/figures.json"), "figures.json"),
        (break_json("figures/neighbours/neighbours.json"), "neighbours.json"),
        (lambda folder: (folder / "measured.json").unlink(), "measured.json"),
        (lambda folder: (folder / "results.parquet").unlink(), "no results"),
    ],
)
def test_broken_folders_are_refused(run, tmp_path, change, reason):
    # Without figures nothing is drawn.
    run.figures = []
    change(add_kept_files(run.write(tmp_path)))
    with pytest.raises((ValueError, FileNotFoundError), match=reason):
        make_report(tmp_path)
    assert not (tmp_path / "report.md").exists()


def test_markdown_is_escaped():
    assert escape_markdown("a|b *c* _d_ CODER_ENG\n<e> [f] `g` \\ & $") == (
        "a\\|b \\*c\\* \\_d\\_ CODER_ENG \\<e\\> \\[f\\] \\`g\\` \\\\ \\& \\$"
    )
    assert format_rows(["a|b", "n"], [["c", "1"]], 1) == "| a\\|b | n |\n| --- | ---: |\n| c | 1 |\n"


def test_long_names_are_shortened_and_directions_isolated():
    assert cut_text("a" * 5000, 80) == "a" * 78 + " …" and cut_text("ab", 2) == "ab"
    hebrew, turned = "\u05d0\u05d1 <i>", "abc\u202egnorw\u2069"
    assert isolate(hebrew) == "<bdi>\u05d0\u05d1 &lt;i&gt;</bdi>" and isolate("<b>") == "&lt;b&gt;"
    assert isolate(turned) == "<bdi>abc\u202egnorw</bdi>"
    assert escape_markdown(turned) == "\u2068abc\u202egnorw\u2069"
    assert escape_markdown("plain") == "plain"
