"""The project that measures peers side by side: what can be tested without the other packages."""

import gzip
import json
import re
import sys
from collections import Counter, namedtuple
from pathlib import Path

import pytest
import spacy
import srsly
from pair_rows import build
from project_scripts import find_scripts, import_scripts
from spacy.tokens import DocBin, Span

from training.bench import Contestant, Step, Turns
from training.data.task import LinkingTask
from training.evaluation.documents import read_any_terminology
from training.evaluation.recognition import ConceptIds

with import_scripts("peers"):
    import contexts
    import foreign
    import peers
    import recognise

PROJECT = Path(__file__).parents[2] / "projects" / "peers"
NAMES = [("C1", "common cold"), ("C1", "cold"), ("C2|D2", "cold"), ("C2|D2", "cold temperature"), ("C3", "fever")]
# What other environments have.
PACKAGES = {"scispacy", "spacy", "gilda", "nltk", "quickumls", "negspacy", "medspacy", "loguru", "edsnlp"}
MENTIONS = [("Cold", ["C1"]), ("fevers", ["C3"]), ("Cold", ["D2"]), ("cold temperatures", ["D2"]), ("gout", ["C9"])]


@pytest.fixture
def files(tmp_path):
    """Write two files of mentions and their dictionary."""
    dictionary = tmp_path / "dictionary.tsv.gz"
    dictionary.write_bytes(gzip.compress("".join(f"{ids}\t{name}\n" for ids, name in NAMES).encode()))
    paths = []
    for folder, mentions in (("one", MENTIONS), ("other", MENTIONS[:2])):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "test.jsonl")
        srsly.write_jsonl(paths[-1], [{"mention": mention, "ids": ids} for mention, ids in mentions])
    return ",".join(map(str, paths)), str(dictionary)


def test_systems_are_judged_by_distinct_concepts_ties_and_whole_mentions():
    others = [f"o{number}" for number in range(4)]
    ids = ["1|7", "9", "2", "4", *others]
    gold = [["1"], ["2"], ["3", "4"], ["4", "3"]]
    task = LinkingTask(["a", "b", "c", "d"], gold, [f"name {one}" for one in ids], ids, mention_of=[0, 1, 2, 2])
    found = {
        "a": (["9", "1|7"], [0.5, 0.5]),
        "b": (["9", "9", *others[:3], "2"], [1.0, 0.9, 0.8, 0.8, 0.8, 0.7]),
        "c": (["4"], [1.0]),
        "d": ([], []),
    }
    assert peers.score(task, found) == {"acc@1": 0.0, "acc@5": 2 / 3, "acc@1, any tied": 1 / 3}


def test_what_runs_in_other_environments_groups_ranks_and_asks_in_batches(tmp_path):
    grouped = foreign.group_names([name for _, name in NAMES], [concept_id for concept_id, _ in NAMES])
    assert grouped == {"C1": ["common cold", "cold"], "C2|D2": ["cold", "cold temperature"], "C3": ["fever"]}
    Candidate = namedtuple("Candidate", "concept_id similarities")

    def generate(mentions, k):
        candidates = [Candidate("C1", [0.2, 0.5]), Candidate("C2", [0.9]), Candidate("C3", [0.5, 0.1])]
        return [candidates[:k], []]

    assert foreign.rank_candidates(generate, ("cold", "?"), 30) == [(["C2", "C1", "C3"], [0.9, 0.5, 0.5]), ([], [])]
    asked = []

    def search(queries):
        asked.append(list(queries))
        return [([query], [1.0]) for query in queries]

    (tmp_path / "queries.json").write_text('{"one": ["a", "b", "c"]}')
    settings = {"run": str(tmp_path), "key": "x", "batch_size": 2, "repeats": 2}
    assert list(foreign.look_up(settings, search)) == ["warm", "search one", "search one"]
    assert asked == [["a"], ["a", "b"], ["c"], ["a", "b"], ["c"]]
    assert json.loads((tmp_path / "found_x.json").read_text())["one"]["b"] == [["b"], [1.0]]
    text = (find_scripts("peers") / "foreign.py").read_text(encoding="utf8")
    imported = set(re.findall(r"^\s*(?:import|from) ([a-z_]+)", text, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == PACKAGES


def test_tasks_must_be_there_and_share_a_dictionary(files, tmp_path):
    mentions, dictionary = files
    LinkingTask(["x"], [["C1"]], ["cold"], ["C1"]).to_disk(tmp_path / "third.json")
    twice = ",".join([mentions.split(",")[0]] * 2)
    for arguments, reason in (
        ((str(tmp_path / "third.json"), mentions, dictionary), "one has another dictionary than third"),
        (("", "", ""), "there are: none"),
        (("", twice, dictionary), "one, one"),
        (("", mentions, ""), "variable `dictionary`"),
    ):
        with pytest.raises(ValueError, match=reason):
            peers.read_tasks(*arguments)


def test_a_run_gives_one_flat_row_for_each_system_and_task(files, static_folder, tmp_path):
    mentions, dictionary = files
    options = {"neighbours": 5, "batch_size": 2, "repeats": 1, "threads": 1}
    peers.main(tmp_path / "out", "", mentions, dictionary, str(static_folder), **options)
    written = json.loads((tmp_path / "out" / "peers.json").read_text(encoding="utf8"))
    found = {(peer["task"], re.sub(", [^,]*/.*", "", peer["system"])) for peer in written["peers"]}
    assert found == {
        (task, one)
        for task in ("one", "other")
        for one in ("exact match", "TF-IDF of characters", "ours, exact", "ours, ScaNN")
    }
    for peer in written["peers"]:
        assert peer["mentions_per_second"] > 0 and peer["peak_bytes"] > 1e6
        assert (peer["load_seconds"] is not None) == peer["system"].startswith("ours")
    exact = next(peer for peer in written["peers"] if peer["system"] == "exact match" and peer["task"] == "one")
    # Both meanings of "cold" are found; the other mentions have no equal name.
    assert (exact["acc@1"], exact["acc@5"], exact["distinct_mentions"]) == (0.2, 0.4, 4)
    table = (tmp_path / "out" / "peers.md").read_text(encoding="utf8")
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "one: protocol strict, 5 mentions, 1 without their concept among 5 names." in table


def test_what_is_found_in_texts_is_kept_and_counted(files, tmp_path):
    doc = spacy.blank("en")("A common cold and fever.")
    doc.ents = [Span(doc, 1, 3, label="X", kb_id="C1"), Span(doc, 4, 5, label="X", kb_id="C3")]
    DocBin(docs=[doc]).to_disk(tmp_path / "toy.spacy")
    tasks = recognise.read_tasks(f"mine={tmp_path / 'toy.spacy'}", "")
    (tmp_path / "texts.json").write_text(json.dumps({"mine": [doc.text]}))
    given = {"run": str(tmp_path), "key": "x", "repeats": 2, "below": []}
    steps = list(
        foreign.annotate_texts(given, lambda texts: [[(2, 13, "C1"), (9, 13, "D2"), (0, 1, "")] for _ in texts])
    )
    assert steps == ["warm", "annotate mine", "annotate mine"]
    loaded = []
    after = foreign.annotate_loaded(given, lambda: loaded.append)
    assert [step for step, _ in after] == ["loaded", "first"] and loaded == [[doc.text]]
    ids = ConceptIds([read_any_terminology(files[1])])
    taken = [Step("build", 2.0, 10**6, {"versions": {}}), Step("annotate mine", 0.5, 2 * 10**6, {"first mine": 1.0})]
    contestants = {"x": Contestant("X", "", "", {})}
    (peer,) = recognise.make_peers(tmp_path, tasks, ids, contestants, Turns({"X": taken}))
    assert (peer["mention_p"], peer["mention_r"], peer["document_f"]) == (0.5, 0.5, 0.5)
    row = "| X | 2.0 |  | 2 | 50.0/50.0/50.0 | 50.0/50.0/50.0 | 100.0/50.0 | 100.0/50.0 | 10 | 5 |"
    assert row in peers.make_table([peer], "abcdef", recognise.show_scores)
    for documents, reason in (("", "which is empty"), (f"a={tmp_path / 'no.spacy'}", "with distinct names")):
        with pytest.raises(ValueError, match=reason):
            recognise.read_tasks(documents, "")


def test_who_finds_mentions_in_texts(files, tmp_path):
    (tmp_path / "hp.obo").write_text("")
    given = {"run": "", "repeats": 1, "below": ["HP:0000118"], "types": []}
    pythons = {"fasthpocr": "fast", "gilda": "", "quickumls": "quick"}
    found = recognise.make_contestants(given, tmp_path / "hp.obo", "", tmp_path, pythons)
    ours = ["phrases", "longest", "all", "reranked"]
    assert [*found] == [*ours, "quick_0.7", "quick_0.8", "quick_0.9", "fast_longest", "fast_all"]
    assert found["quick_0.9"].python == "quick" and found["quick_0.9"].inputs["threshold"] == 0.9
    matcher = {"matches": "all", "spans_key": "concepts", "below": ["HP:0000118"]}
    assert found["all"].inputs["settings"] == {"matcher": matcher, "linker": {}}
    assert found["fast_all"].python == "fast" and not found["fast_all"].inputs["is_longest"]
    # It has no use for a dictionary.
    pythons = {"fasthpocr": "fast", "gilda": "gilda", "quickumls": ""}
    assert [*recognise.make_contestants(given, Path(files[1]), "", tmp_path, pythons)] == [*ours, "gilda"]
    found = recognise.make_contestants({**given, "types": ["T047"]}, Path(files[1]), "", tmp_path, pythons)
    assert [*found] == [*ours[1:], "gilda"]
    assert found["reranked"].inputs["settings"]["linker"] == {"types": ["T047"]}


@pytest.mark.slow
def test_texts_are_annotated_side_by_side(files, static_folder, tmp_path):
    doc = spacy.blank("en")("A common cold and fever.")
    doc.ents = [Span(doc, 1, 3, label="X", kb_id="C1"), Span(doc, 4, 5, label="X", kb_id="C3")]
    DocBin(docs=[doc]).to_disk(tmp_path / "toy.spacy")
    documents, encoder = str(tmp_path / "toy.spacy"), str(static_folder)
    terminology = build({"C1": ["common cold", "cold"], "C3": ["fever"], "C4": ["common"]}, C4={"types": ["T079"]})
    terminology.to_disk(tmp_path / "names")
    options = {"encoder": encoder, "repeats": 1, "threads": 1}
    recognise.main(tmp_path / "typed", documents, str(tmp_path / "names"), types="T079", systems="longest", **options)
    known = json.loads((tmp_path / "typed" / "run_texts" / "dictionary.json").read_text(encoding="utf8"))
    assert known == {"names": ["common"], "ids": ["C4"]}
    recognise.main(tmp_path / "out", documents, files[1], **options)
    written = json.loads((tmp_path / "out" / "recognition.json").read_text(encoding="utf8"))
    assert {peer["system"]: peer["mention_f"] for peer in written["peers"]} == {
        **{"PhraseMatcher": 1.0, "ours, longest names": 1.0, "ours, all names": 0.8, "ours, with reranker": 1.0}
    }
    for peer in written["peers"]:
        assert peer["load_seconds"] > 0 and peer["words_per_second_after_loading"] > 0


NOTES = [
    ("No fever or cough, but chills.", {"fever": "neg", "cough": "", "chills": ""}),
    ("Possible chest pain.", {"chest pain": "unc", "pain": "unc"}),
    ("Her mother had gout.", {"gout": "fam"}),
]


@pytest.fixture
def notes(tmp_path):
    """Write a file of clinical texts, and a folder of cases like those of E3C."""
    records = [
        {
            "text": text,
            "mentions": [
                {"start": text.index(words), "end": text.index(words) + len(words), "flags": flags.split()}
                for words, flags in mentions.items()
            ],
        }
        for text, mentions in NOTES
    ]
    srsly.write_jsonl(tmp_path / "dev.jsonl", records)
    places = [{"start": 3, "end": 10, "negated": True}, {"start": 20, "end": 24, "negated": None}]
    case = json.dumps({"text": "Sin fiebre. No hay tos.", "mentions": places})
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "es.dev.jsonl.gz").write_bytes(gzip.compress(case.encode()))
    return str(tmp_path / "dev.jsonl"), str(tmp_path / "cases")


def test_what_is_told_of_mentions_is_counted_like_one_by_one(notes, tmp_path):
    contexts.main(tmp_path / "out", *notes, repeats=1, threads=1)
    written = json.loads((tmp_path / "out" / "contexts.json").read_text(encoding="utf8"))
    nlp = spacy.blank("en")
    nlp.add_pipe("note_context")
    expected = {kind: Counter() for kind in contexts.KINDS}
    # Each mention by itself, as an entity.
    for text, mentions in NOTES:
        for words, flags in mentions.items():
            doc = nlp.make_doc(text)
            doc.ents = [doc.char_span(text.index(words), text.index(words) + len(words), "X")]
            told = nlp(doc).ents[0]._
            for kind, flag, is_told in (
                ("negated", "neg", told.is_negated),
                ("uncertain", "unc", told.is_uncertain or told.is_hypothetical),
                ("family", "fam", told.is_family),
                ("historical", "hist", told.is_historical),
            ):
                is_gold = flag in flags
                expected[kind].update(gold=is_gold, told=is_told, right=is_gold and is_told)
    english = {peer["kind"]: peer for peer in written["peers"] if peer["lang"] == "en"}
    assert {kind: {key: peer[key] for key in ("gold", "told", "right")} for kind, peer in english.items()} == expected
    # "Cough" is not annotated as negated.
    assert english["negated"]["precision"] == 0.5 and english["negated"]["recall"] == 1.0
    (spanish,) = (peer for peer in written["peers"] if peer["lang"] == "es")
    assert (spanish["kind"], spanish["gold"], spanish["told"]) == ("negated", 1, 1)
    table = (tmp_path / "out" / "contexts.md").read_text(encoding="utf8")
    assert "| en | ours | 50.0/100.0/66.7 |" in table
    assert "cases es.dev: 1 mentions in 1 texts, 1 negated." in table


def test_who_tells_of_mentions_in_which_language(notes, tmp_path):
    pythons = {"negspacy": "neg", "medspacy": "med"}
    asked = contexts.make_contestants(tmp_path, ["en", "fr", "it"], pythons, 1)
    ours = [("ours", lang) for lang in ("en", "fr", "it")]
    medspacy = [("medspacy", "en"), ("medspacy", "fr"), ("medspacy_sections", "en")]
    assert [*asked] == [*ours, ("negspacy", "en"), *medspacy]
    assert asked["medspacy", "fr"][1].python == "med" and asked["ours", "it"][1].python == sys.executable
    for arguments, reason in (
        (("", ""), "there are: none"),
        ((f"{notes[0]},{notes[0]}", ""), "a name of its own"),
        (("", str(tmp_path)), "there are: none"),
    ):
        with pytest.raises(ValueError, match=reason):
            contexts.read_tasks(*arguments)
