"""Reports: every figure has its protocol, published ones are set apart, and text stays text."""

import gzip
import json
import shutil
from html.parser import HTMLParser
from itertools import dropwhile, takewhile

import pytest
from scipy.stats import ttest_1samp, ttest_rel

from training.data.task import LinkingTask
from training.evaluation.folder import Evaluation, SystemInfo, read_evaluation
from training.evaluation.report.corpus_counts import read_counts
from training.evaluation.report.flat_tables import make_flat_table
from training.evaluation.report.measured import gather_measurements, name_corpora
from training.evaluation.report.report import make_report
from training.evaluation.report.tables import find_published, make_accuracy_table
from training.evaluation.report.writing import shorten
from training.markup import escape_markdown, isolate

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>a()</script><path d="M0 0h9v9z"/></svg>'
NAMES, IDS = ["cold", "gout | tophus", "fever"], ["D1", "D2", "D3"]
MENTIONS = [("Cold", "D1"), ("gout <i>", "D2"), ("pyrexia", "D3"), ("dropsy", "D9")]
PROBES = {
    "mcsm": {
        "system": "sapbert_0",
        "types": {"Finding": {"score": 10.44}},
        "mean": 9.5,
        "mean_chance": 2,
        "concepts": 157726,
    },
    "relations": {"system": "exact", "mode": "feature", "accuracy": 0.961, "accuracy_sd": None, "macro_f1": 0.9}
    | {"majority_accuracy": 0.5, "train": 4, "test": 1, "labels": {"a": 1, "b": 2}, "data": "made up"},
}
SEED_SCORES = {0: 0.912, 1: 0.925, 2: 0.931}
BASE_SCORES = {0: 0.750, 1: 0.751, 2: 0.747}


def make_system(title, **values):
    return {"title": title, "kind": "encoder", "published": "", "description": "", "fingerprint": "f" * 40} | values


def make_info(corpus, protocol, **values):
    return {
        "corpus": corpus,
        "title": {"ncbi_disease": "NCBI disease", "in_house": "In-house | notes"}[corpus],
        "protocol": protocol,
        "is_published": protocol == "published",
        "dictionary": "MEDIC, 6 July 2012",
        "level": "row",
        "ranks": [1, 5],
        "aggregation": "micro",
        "abbreviations": protocol == "published",
        "composites": protocol == "published",
        "augmented": protocol == "published",
        "mentions": 4,
        "names": 73024,
        "unanswerable": 1,
        "hash": "0123456789abcdef",
    } | values


def make_row(system, task, score, **values):
    figures = {f"{prefix}acc_at_{rank}": score for prefix in ("", "row_") for rank in (1, 3, 5)}
    search = {"similarity": values.pop("similarity", "cosine"), "search": "exact"}
    figures |= {"acc_at_1_any_tied": score, **values}
    return {"system": system, "task": task, "key": f"{system}.{task}", "search": search, "figures": figures}


def make_metrics():
    systems = {"exact": make_system("<b>Exact</b> & | match", kind="exact")}
    for seed in SEED_SCORES:
        seeded = {"seed": seed, "published": "PubMedBERT + SapBERT", "group": "sapbert"}
        systems[f"sapbert_{seed}"] = make_system("Our SapBERT", **seeded)
        systems[f"base_{seed}"] = make_system("Our base", seed=seed, group="base")
    tasks = {
        "ncbi_disease.published": make_info("ncbi_disease", "published"),
        "ncbi_disease.strict": make_info("ncbi_disease", "strict", note="As it is."),
        "in_house.published": make_info("in_house", "published", level="concept", ranks=[1, 3], note="CC-BY"),
    }
    rows = [make_row("exact", task, 0.742) for task in tasks]
    for task in list(tasks)[:2]:
        rows += [make_row(f"sapbert_{seed}", task, score) for seed, score in SEED_SCORES.items()]
        rows += [make_row(f"base_{seed}", task, score) for seed, score in BASE_SCORES.items()]
    # Names fill the first rows: accuracy by concepts is higher.
    rows.append(make_row("sapbert_0", "in_house.published", 0.5, acc_at_3=0.75))
    missing = [{"corpus": "cometa", "title": "COMETA", "reason": "no files", "obtain": "ask <its> authors"}]
    return {
        "versions": {"spacy": "3.8"},
        "settings": {"batch": {"size": 256}},
        "seconds": 90.0,
        "systems": systems,
        "tasks": tasks,
        "missing": missing,
        "rows": rows,
    }


def read(metrics):
    return Evaluation.model_validate(metrics)


def write_run(folder, metrics, *, is_whole=True):
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    if not is_whole:
        return folder
    task = LinkingTask(
        [mention.lower() for mention, _ in MENTIONS], [[gold] for _, gold in MENTIONS], NAMES, IDS, report={}
    )
    task.to_disk(folder / "tasks" / "ncbi_disease.published.json")
    write_predictions(folder, "exact", [True, False, False, False])
    write_predictions(folder, "sapbert_0", [True, True, True, False])
    figures = folder / "figures"
    figures.mkdir()
    (figures / "tsne.png").write_bytes(PNG)
    (figures / "pairs.svg").write_text(SVG)
    entries = [{"file": name, "title": f"Figure {name}", "caption": "a < b"} for name in ("tsne.png", "pairs.svg")]
    (figures / "figures.json").write_text(json.dumps(entries))
    study = {"title": "Nearest names", "columns": ["Query", "Found"], "rows": [["angina", "a | b"]]}
    (folder / "case_studies.json").write_text(json.dumps([study]))
    return folder


def write_predictions(folder, system, hits):
    path = folder / "predictions" / f"{system}.ncbi_disease.published.jsonl.gz"
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt") as file:
        for (mention, gold), hit in zip(MENTIONS, hits, strict=True):
            found = {"ids": gold if hit else "D2", "name": NAMES[IDS.index(gold)] if hit else NAMES[1], "score": 0.5}
            line = {"mention": mention, "queries": [mention.lower()], "gold": [gold], "fold": 0}
            line |= {
                "candidates": [[found]],
                "hits": {"row_acc_at_1": hit, "row_acc_at_5": hit or mention == "pyrexia"},
            }
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def run(tmp_path):
    folder = write_run(tmp_path / "run", make_metrics())
    (folder / "coder_tasks").mkdir()
    for name, figures in PROBES.items():
        probe = {"results": [{"name": figures["system"], "figures": figures}]}
        (folder / "coder_tasks" / f"{name}.json").write_text(json.dumps(probe))
    (tmp_path / "peers.json").write_text('{"peers": [{"tool": "a_b", "mentions per second": 1234.56}], "other": 1}')
    make_report(folder, peers=tmp_path / "peers.json")
    return folder


def test_sizes_of_corpora_stand_beside_the_published_ones(run):
    markdown = (run / "report.md").read_text()
    rows = [line for line in markdown.splitlines() if line.startswith("| NCBI disease") and "73,024" in line]
    assert len(rows) == 2 and all("| 71,923 | 4 | 960 |" in row for row in rows)
    assert read_counts()["askapatient"].test == 866.2


def read_table(markdown, title):
    """Read a table of Markdown back: its header, and its lines as dicts."""
    below = markdown.split(f"**{title}**\n")[1].splitlines()
    lines = list(takewhile(bool, dropwhile(lambda line: not line.startswith("| "), below)))
    rows = [[cell.strip() for cell in line.replace("\\|", "\0").strip("| ").split(" | ")] for line in lines]
    assert {len(row) for row in rows} == {len(rows[0])}
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


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


def test_means_deviations_and_published_figures(run):
    rows = {row["System"]: row for row in read_table((run / "report.md").read_text(), "NCBI disease: accuracy")}
    assert list(rows) == ["\\<b\\>Exact\\</b\\> \\& \0 match", "Our SapBERT (3 seeds)", "Our base (3 seeds)"]
    ours = rows["Our SapBERT (3 seeds)"]
    assert ours["published: acc@1"] == "92.3 ± 1.0"
    assert ours["*published: literature, acc@1/acc@5*"] == "92.0/95.6 (PubMedBERT + SapBERT; Liu et al., 2021, Table 1)"
    assert ours["published: difference"] == "+0.3/-3.3"
    assert rows["Our base (3 seeds)"]["*published: literature, acc@1/acc@5*"] == "–"


def test_published_figures_stand_beside_no_other_protocol():
    metrics = make_metrics()
    strict = make_accuracy_table(read(metrics), ["ncbi_disease.strict"])
    in_house = make_accuracy_table(read(metrics), ["in_house.published"])
    assert "published" not in [column.kind for column in [*strict.columns, *in_house.columns]]


@pytest.mark.parametrize(
    "pooling, printed",
    [
        ("", "52.45/66.04 (SapBERT; Yuan et al., 2022, Table 1)"),
        ("[CLS], pooler", "44.22/58.62 (SapBERT; Yuan et al., 2022, Table 9)"),
    ],
)
def test_published_figures_are_those_of_the_pooling(pooling, printed):
    metrics = make_metrics()
    info = metrics["tasks"]["ncbi_disease.published"]
    metrics["tasks"]["ncbi_disease.published"] = {**info, "corpus": "psytar", "ranks": [1, 3]}
    for system in metrics["systems"].values():
        system |= {"published": "SapBERT", "published_pooling": pooling} if system["title"] == "Our SapBERT" else {}
    table = make_accuracy_table(read(metrics), ["ncbi_disease.published"])
    place = [column.kind for column in table.columns].index("published")
    assert [row[place] for row in table.rows if row[0].startswith("Our SapBERT")] == [printed]


def test_figures_are_those_of_the_level_of_the_task(run):
    rows = {row["System"]: row for row in read_table((run / "report.md").read_text(), "In-house \\| notes: accuracy")}
    assert rows["Our SapBERT"]["published: acc@3"] == "75.0"
    metrics = make_metrics()
    metrics["tasks"]["in_house.published"]["level"] = "row"
    columns = [column.title for column in make_accuracy_table(read(metrics), ["in_house.published"]).columns]
    row = make_accuracy_table(read(metrics), ["in_house.published"]).rows[1]
    assert row[columns.index("published: acc@3")] == "50.0"


def test_caption_says_the_protocol(run):
    for text in ((run / "report.md").read_text(), (run / "report.html").read_text()):
        assert "4 mentions, of which the dictionary cannot answer 1" in text.replace("&#x27;", "'")
        for said in ("MEDIC, 6 July 2012, 73,024 names, with the mentions", "abbreviations spelled out", "micro"):
            assert said in text
        for said in ("looked up part by part", "first k names", "order of the dictionary", "As it is.", "CC-BY"):
            assert said in text


def test_significance(run):
    rows = read_table((run / "report.md").read_text(), "NCBI disease: significance")
    tests = {(row["Protocol"], row["System"], row["Compared with"]): row["Test"] for row in rows}
    scores, base = ([100 * score for score in of.values()] for of in (SEED_SCORES, BASE_SCORES))
    ours, others = "Our SapBERT (3 seeds), cosine, exact", "Our base (3 seeds), cosine, exact"
    published = "PubMedBERT + SapBERT, 92.0 (Liu et al., 2021, Table 1)"
    assert tests["published", ours, published] == (
        f"p = {ttest_1samp(scores, 92.0).pvalue:.3f} (one-sample t-test, 3 seeds)"
    )
    assert ttest_rel(scores, base).pvalue < 0.01
    assert tests["strict", ours, others] == f"p = {ttest_rel(scores, base).pvalue:.3f} (paired t-test, 3 seeds)"
    assert tests["published", "\\<b\\>Exact\\</b\\> \\& \0 match", "Our SapBERT"].startswith("p = 0.500 (McNemar's")
    assert ("strict", ours, published) not in tests


def test_errors(run):
    text = (run / "report.md").read_text()
    rows = {row["System"]: row for row in read_table(text, "published: errors by kind")}
    ours, exact = rows["Our SapBERT"], rows["\\<b\\>Exact\\</b\\> \\& \0 match"]
    assert (ours["Mentions"], ours["Wrong"], ours["unanswerable"]) == ("4", "1", "100.0 (100.0)")
    assert (exact["Wrong"], exact["Right at 5"], exact["unseen concept"]) == ("3", "33.3", "–")
    examples = read_table(text, "published: examples of \\<b\\>Exact\\</b\\> \\& \0 match".replace("\0", "\\|"))
    assert {row["Mention"] for row in examples} == {"gout \\<i\\>", "pyrexia", "dropsy"}


def test_concepts_with_training_mentions(run):
    (run / "tasks" / "ncbi_disease.published.seen_ids.json").write_text('["D1", "D2"]')
    make_report(run)
    rows = {row["System"]: row for row in read_table((run / "report.md").read_text(), "published: errors by kind")}
    # D3 and D9 have none; D9 is not in the dictionary either.
    assert rows["\\<b\\>Exact\\</b\\> \\& \0 match"]["unseen concept"] == "33.3 (66.7)"


def test_html_is_one_whole_file(run):
    text = (run / "report.html").read_text()
    checker = Checker()
    checker.feed(text)
    assert not checker.open
    assert "script" not in checker.tags and "b" not in checker.tags and "i" not in checker.tags
    assert len(set(checker.ids)) == len(checker.ids)
    inner = {link.removeprefix("#") for link in checker.links if link.startswith("#")}
    assert inner == set(checker.ids)
    assert {link.split(",")[0] for link in checker.links if not link.startswith("#")} == {
        "data:image/png;base64",
        "data:image/svg+xml;base64",
    }
    assert "&lt;b&gt;Exact&lt;/b&gt; &amp; | match" in text
    assert 'class="published"' in text


def test_other_parts(run):
    text = (run / "report.md").read_text()
    assert read_table(text, "Similarity of concepts of one semantic type (MCSM)") == [
        {
            "system": "Our SapBERT",
            "Finding": "10.4",
            "mean": "9.5",
            "mean of random neighbours": "2",
            "concepts": "157,726",
        }
    ]
    assert read_table(text, "Relations between concepts")[0]["accuracy, per cent"] == "96.1"
    assert read_table(text, "Side by side") == [{"tool": "a_b", "mentions per second": "1,234.6"}]
    assert read_table(text, "Corpora and systems that were not there")[0]["How to get it"] == "ask \\<its\\> authors"
    assert read_table(text, "Nearest names") == [{"Query": "angina", "Found": "a \0 b"}]
    assert "](figures/tsne.png)" in text and "](figures/pairs.svg)" in text


def test_optional_parts_may_be_missing(tmp_path):
    metrics = make_metrics() | {"missing": [], "rows": make_metrics()["rows"][:1]}
    folder = write_run(tmp_path / "run", metrics, is_whole=False)
    make_report(folder)
    headings = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("## ")]
    standing = ["## The papers, table by table", "## Published figures"]
    assert headings == ["## Systems by corpora", "## Accuracy", "## Sizes of the corpora", "## The run", *standing]
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "metrics.json", "report.html", "report.md"]


def test_same_run_gives_same_bytes(run, tmp_path):
    other = tmp_path / "elsewhere"
    shutil.copytree(run, other, ignore=shutil.ignore_patterns("report.*"))
    make_report(other, peers=tmp_path / "peers.json")
    for name in ("report.md", "report.html"):
        assert (other / name).read_bytes() == (run / name).read_bytes()


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda metrics: metrics.pop("rows"), "rows: Field required"),
        (lambda metrics: metrics["rows"].append(make_row("nobody", "in_house.published", 1)), "'nobody'"),
        (lambda metrics: metrics["rows"].append(metrics["rows"][0]), "there twice"),
        (lambda metrics: metrics["systems"]["sapbert_1"].update(seed=0), "seed of another run"),
    ],
)
def test_bad_metrics_are_refused(tmp_path, change, reason):
    metrics = make_metrics()
    change(metrics)
    folder = write_run(tmp_path / "run", metrics, is_whole=False)
    with pytest.raises(ValueError, match=f"E781.*{reason}"):
        make_report(folder)
    assert not (folder / "report.md").exists()


def test_bad_files_are_refused(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        make_report(tmp_path / "nothing")
    (run / "figures" / "figures.json").write_text('[{"file": "../a.png", "title": "", "caption": ""}]')
    with pytest.raises(ValueError, match="E784"):
        make_report(run)
    (run / "figures" / "figures.json").write_text("{")
    with pytest.raises(ValueError, match="E781"):
        make_report(run)
    (run / "metrics.json").write_text("[")
    with pytest.raises(ValueError, match="E781"):
        read_evaluation(run)


def test_systems_of_one_seed_and_of_several_similarities():
    metrics = make_metrics()
    metrics["rows"] = [make_row("exact", "ncbi_disease.strict", 0.5, similarity=name) for name in ("cosine", "dot")]
    assert len(gather_measurements(read(metrics), "ncbi_disease.strict")) == 2
    assert [row[1] for row in make_accuracy_table(read(metrics), ["ncbi_disease.strict"]).rows] == ["cosine", "dot"]
    assert name_corpora(read(metrics))["ncbi_disease"] == ["ncbi_disease.published", "ncbi_disease.strict"]


def test_lines_lack_what_was_not_measured():
    table = make_accuracy_table(read(make_metrics()), ["in_house.published", "ncbi_disease.published"])
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert [row[3:6] for row in table.rows if row[0] == "Our base (3 seeds)"] == [["–", "–", "–"]]


def test_flat_tables_have_all_columns():
    table = make_flat_table("a", [{"system": "x", "f1": 0.5}, {"n": 7, "is_known": True}], {"x": SystemInfo(title="X")})
    assert [column.title for column in table.columns] == ["system", "f1, per cent", "n", "is known"]
    assert table.rows == [["X", "50.0", "–", "–"], ["–", "–", "7", "yes"]]


def test_markdown_is_escaped():
    assert escape_markdown("a|b *c* _d_ CODER_ENG\n<e> [f] `g` \\ & $") == (
        "a\\|b \\*c\\* \\_d\\_ CODER_ENG \\<e\\> \\[f\\] \\`g\\` \\\\ \\& \\$"
    )


def test_tasks_of_one_protocol_are_told_apart_by_name():
    metrics = make_metrics()
    metrics["tasks"]["ncbi_disease.strict"]["protocol"] = "published"
    table = make_accuracy_table(read(metrics), ["ncbi_disease.published", "ncbi_disease.strict"])
    assert len({column.title for column in table.columns}) == len(table.columns)
    assert "ncbi_disease.strict: acc@1" in [column.title for column in table.columns]


def test_refined_figures_are_compared_with_refined_ones():
    metrics = make_metrics()
    metrics["systems"]["exact"]["published"] = "BioSyn"
    info = read(metrics).tasks["ncbi_disease.strict"]
    refined, strict = info.model_copy(update={"protocol": "refined"}), info.model_copy(update={"is_published": True})
    (measured,) = (
        found for found in gather_measurements(read(metrics), "ncbi_disease.strict") if found.system == "exact"
    )
    assert {key: figure.value for key, figure in find_published(measured, refined).items()} == {"acc_at_1": 72.5}
    assert find_published(measured, info) == {}
    assert find_published(measured, strict)["acc_at_1"].value == 91.1


def test_the_report_opens_with_the_answer(run):
    text = (run / "report.md").read_text()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0] == "## Systems by corpora"
    assert headings[-2:] == ["## Published figures", "## What was not measured"]
    assert text.count("<details>") == text.count("</details>") == 3
    rows = {row["System"]: row for row in read_table(text, "Systems by corpora: acc@1")}
    assert rows["Our SapBERT"]["NCBI disease, published"] == "92.3 ± 1.0"
    assert rows["Our base"]["In-house \0 notes, published"] == "–"
    assert "](figures/systems.svg)" in text and "<svg" in (run / "figures" / "systems.svg").read_text()
    html = (run / "report.html").read_text()
    assert html.index("Systems by corpora: acc@1") < html.index("significance") < html.index("Errors</h2>")


def test_long_names_are_shortened_and_directions_isolated():
    assert shorten("a" * 5000, 80) == "a" * 78 + " …" and shorten("ab", 2) == "ab"
    hebrew, turned = "\u05d0\u05d1 <i>", "abc\u202egnorw\u2069"
    assert isolate(hebrew) == "<bdi>\u05d0\u05d1 &lt;i&gt;</bdi>" and isolate("<b>") == "&lt;b&gt;"
    assert isolate(turned) == "<bdi>abc\u202egnorw</bdi>"
    assert escape_markdown(turned) == "\u2068abc\u202egnorw\u2069"
    assert escape_markdown("plain") == "plain"
