"""Build a pipeline of an open ontology, measure it, and write scores, sources and licences into its meta.json."""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import spacy
import srsly
import typer
from spacy.cli.package import generate_readme
from spacy.language import Language
from wasabi import msg

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.command_line import run_app
from spacy_sapbert.exchange.documents import read_docs
from spacy_sapbert.lexicon.bridge import make_keys
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.terminology import Terminology, read_obo, read_rrf
from spacy_sapbert.terminology.codes import make_key
from training.evaluation.documents import PipelineSystem
from training.evaluation.expected import expect
from training.evaluation.recognition import RecognitionTask

PIPELINES = Path(__file__).parents[1] / "configs" / "pipelines.json"
LEFT_OUT = "left_out_names_acc"
# `spacy package` takes this file and the README along.
LICENCES_FILE = "LICENSES_SOURCES"
ENCODERS = {
    "bundled": {
        "name": "The static encoder of spacy-sapbert, whose teacher was trained from all-MiniLM-L6-v2",
        "url": "https://www.sbert.net",
        "author": "The spacy-sapbert authors; the sentence-transformers authors",
        "license": "Apache-2.0",
    },
    "multilingual": {
        "name": "The encoder of spacy-sapbert-multilingual, whose teacher was trained from multilingual-e5-small",
        "url": "https://huggingface.co/intfloat/multilingual-e5-small",
        "author": "The spacy-sapbert authors; Wang et al. 2024",
        "license": "Apache-2.0",
    },
}
# The hub knows no single licence for several sources; the meta has one for each.
LICENCE = "other"
NOTE_ON_USE = (
    'After `nlp = spacy.load("{package}")`, `nlp(text).ents` have `kb_id_`, `_.kb_candidates` and '
    "`_.kb_probability`; `_.is_negated`, `_.is_uncertain`, `_.is_historical`, `_.is_hypothetical` and `_.is_family` "
    "say which of them the text denies or doubts, and which are of the past, only thought of, or of somebody else."
)
NOTE_ON_SIZE = "The terminology has {n:,} concepts with {n_names:,} names; the linker may find {n_allowed:,} of them."
NOTE_ON_NAMES = (
    "`{key}`: {n:,} names of the ontology were removed one by one, each with other spellings of the same words, and "
    "looked up among the remaining names by the linker alone; the share for which the nearest name belongs to the same "
    "concept. The encoder saw names of open ontologies, such as these, in training."
)
NOTE_ON_DOCUMENTS = (
    "`{key}_*`: {documents} documents of {name}, with {mentions} mentions of concepts that the pipeline may link."
)
NOTE_ON_SCORES = (
    "Of documents, only the texts are given. `mention_*`: boundaries and concepts of mentions. `document_*`: the set "
    "of concepts of each document. `span_*` and `overlap_*`: mentions with equal or with overlapping bounds, with any "
    "concept; `id_*`: links that overlap a mention and share its concept or a name with it; `named_r`, `other_r`: "
    "mentions that are a name of their concept, and others. `acc_*`, `without_id`: gold mentions, when given. `auroc`, "
    "`ece`: whether the probability tells right links from wrong ones, and agrees with the share of right ones; "
    "`kept_at_*`: right links with a probability of so many per cent at least."
)


def main(
    name: str,
    version: str,
    open_terminology: Annotated[Path, typer.Argument(resolve_path=True)],
    output: Path,
    documents: Annotated[str, typer.Option(help="Documents with gold ids, NAME=FILE with commas between them")] = "",
    rrf: Annotated[str, typer.Option(help="A release in RRF, in place of the merged ontologies")] = "",
    score: Annotated[Literal["yes", "no"], typer.Option(help="Whether to measure the pipeline")] = "yes",
    recogniser: Annotated[str, typer.Option(help="A trained pipeline with `ner`, for those that have one")] = "",
) -> None:
    """Build a pipeline of configs/pipelines.json."""
    plans = srsly.read_json(PIPELINES)
    if name not in plans:
        msg.fail(f"There is no pipeline {name} in {PIPELINES}", f"There are: {', '.join(plans)}", exits=1)
    measured = list_documents(documents)
    if measured and score == "no":
        msg.fail("Documents are there to measure the pipeline on", "Leave them out, or --score no", exits=1)
    plan = plans[name]
    terminology = read(plan, open_terminology, rrf)
    nlp = build(terminology, plan, recogniser)
    linker: Any = nlp.get_pipe("sapbert_linker")
    scores, notes = measure_names(linker) if score == "yes" else ({}, [])
    for label, file in measured.items():
        of_documents, note = measure_documents(nlp, label, file, linker.below or ())
        scores |= of_documents
        notes.append(note)
    own_name = name.removesuffix(f"_{nlp.lang}")
    use = NOTE_ON_USE.format(package=f"{nlp.lang}_{own_name}")
    size = describe_size(linker)
    describe(
        nlp,
        plan.get("encoder", "bundled"),
        scores,
        [use, nlp.meta["notes"], size, *notes, NOTE_ON_SCORES if measured else ""],
    )
    nlp.meta |= {"name": own_name, "version": version, "description": f"{plan['description']} Not for clinical use."}
    save(nlp, output / name)
    full = linker.terminology
    msg.good(f"{len(full):,} concepts with {full.n_names:,} names: {output / name}")
    for key, score in scores.items():
        print(f"{key:20} {score:.3f}")


def list_documents(given: str) -> dict[str, Path]:
    """List files of documents by their names, after reading each: a build takes minutes."""
    entries = [entry.rpartition("=") for entry in map(str.strip, given.split(",")) if entry]
    listed = {label.strip() or Path(file).stem: Path(file) for label, _, file in entries}
    for file in listed.values():
        if not (file.is_file() and file.suffix == ".spacy"):
            advice = "Make one with `python -m training convert FORMAT INPUT FOLDER --documents`, or correct the path"
            msg.fail(f"There is no .spacy file {file}, seen from {Path.cwd()}", advice, exits=1)
        read_docs(file)
    if len({label.split()[0] for label in listed}) < len(entries):
        msg.fail(f"Scores are told apart by the first word of NAME, and two are equal: {given}", exits=1)
    return listed


def read(plan: dict[str, Any], open_terminology: Path, rrf: str) -> Terminology:
    """Read an ontology with its own ids, or load the merged ones. The report has name, version and licence of each."""
    source = plan["ontology"]
    if source is None and rrf:
        return read_rrf(rrf, sources=plan.get("sources"), tradenames="off")
    if source is None:
        merged = open_terminology / "output" / "terminology"
        if not merged.is_dir():
            advice = "Run `python -m spacy project run open_terminology` in the root of the checkout first"
            msg.fail(f"The ontologies are not merged: there is no {merged}", advice, exits=1)
        return Terminology.from_disk(merged)
    ontologies = srsly.read_json(open_terminology / "configs" / "ontologies.json")
    ontology = next(one for one in ontologies if one["source"] == source)
    file = open_terminology / "assets" / ontology["file"]
    if not file.is_file() and "package" in ontology and find_spec(ontology["package"]):
        file = Path(str(files(ontology["package"]) / ontology["package_file"]))
    if not file.is_file():
        advice = f"`python -m spacy project assets {open_terminology}` fetches all; the extra `demo` brings HP"
        msg.fail(f"The ontology {source} is missing: there is no {file}", advice, exits=1)
    terminology = read_obo(file, source=source, errors="skip")
    # No open ontology is restricted in the sense of UMLS.
    noted = {"version": terminology.report["source_version"] or "", "restriction_level": 0}
    noted |= {key: ontology[key] for key in ("name", "licence", "homepage")}
    report = {**terminology.report, "sources": {source: noted}}
    return Terminology(terminology.concepts, terminology.names, retired=terminology.retired, report=report)


def build(terminology: Terminology, plan: dict[str, Any], recogniser: str = "") -> Language:
    """Build a pipeline."""
    nlp = spacy.blank(plan.get("language", "en"))
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher", config={"label": plan["label"]})
    if recogniser and "recogniser" in plan:
        add_recogniser(nlp, plan, recogniser)
    types = sorted({*plan.get("types", ())}.intersection(terminology.concepts["types"].child.values))
    filters = {key: find_roots(terminology, plan[key]) for key in ("below", "not_below") if key in plan}
    if not (types or filters["below"]):
        advice = "Check that the file holds this ontology"
        msg.fail(f"The ontology has none of {', '.join(plan['below'])}", advice, exits=1)
    # Roots are of single ontologies, and concepts of all have semantic types.
    filters = {"types": types} if types else filters
    if plan["ontology"] is None:
        terminology = leave_out(terminology, filters)
    linker: Any = nlp.add_pipe("sapbert_linker", config=filters)
    linker.initialize(terminology=terminology, encoder=plan.get("encoder", "bundled"), nlp=nlp)
    nlp.add_pipe("sapbert_reranker")
    if plan.get("measurements"):
        nlp.add_pipe("measurement_reader")
    nlp.add_pipe("note_context")
    return nlp


def add_recogniser(nlp: Language, plan: dict[str, Any], recogniser: str) -> None:
    """Add a recogniser to the matcher. Its entities are proposals beside names, or, where the terminology has hardly
    any names of the texts' language, mentions to link like those that somebody has marked."""
    source = spacy.load(recogniser)
    if source.lang not in (nlp.lang, "xx"):
        advice = "Give one with --recogniser, such as ../recogniser/model_languages"
        msg.fail(
            f"The recogniser {recogniser} is for '{source.lang}', and the pipeline for '{nlp.lang}'", advice, exits=1
        )
    if plan["recogniser"] == "mentions":
        nlp.add_pipe("ner", source=source)
    else:
        nlp.add_pipe("ner", source=source, before="terminology_matcher")
        matcher: Any = nlp.get_pipe("terminology_matcher")
        matcher.proposed_labels = source.get_pipe("ner").labels
    nlp.meta["sources"] = source.meta["sources"]


def leave_out(terminology: Terminology, filters: dict[str, list[str]]) -> Terminology:
    """Leave out names that the linker may not link to. Those with the words of one that it may link to stay: by them,
    the matcher tells that "skin" is no *Skin Diseases*. So do canonical names, because the matcher looks up how many
    concepts have a word in their names."""
    is_allowed = FilterTable(terminology).match(ConceptFilter(**filters))
    names = terminology.names["name"].to_list()
    keys = make_keys(names)
    canonical_names = terminology.concepts["canonical_name"][terminology.name_concept]
    is_canonical = [name == canonical for name, canonical in zip(names, canonical_names, strict=True)]
    is_kept = is_allowed | np.isin(keys, keys[is_allowed]) | np.array(is_canonical)
    rows = terminology.names.take(np.flatnonzero(is_kept))
    report = {**terminology.report, "kept": {"concepts": len(terminology), "names": rows.height}}
    return Terminology(terminology.concepts, rows, retired=terminology.retired, report=report)


def find_roots(terminology: Terminology, wanted: list[str]) -> list[str]:
    """Find roots by their ids or codes. Merged ontologies have other ids, and some roots may be missing."""
    keys = {*map(make_key, wanted)}
    rows = terminology.concepts.select("id", "codes").rows()
    return [id_ for id_, codes in rows if not keys.isdisjoint(map(make_key, (id_, *codes)))]


def list_allowed(linker: SapbertLinker) -> list[int]:
    """List the concepts that the linker may find."""
    is_allowed = linker.retriever.filters.match(linker.settings.make_filter())
    rows: list[int] = np.unique(linker.terminology.name_concept[is_allowed]).tolist()
    return rows


def describe_size(linker: SapbertLinker) -> str:
    """Say how large the terminology is."""
    terminology = linker.terminology
    n_allowed = len(list_allowed(linker))
    return NOTE_ON_SIZE.format(n=len(terminology), n_names=terminology.n_names, n_allowed=n_allowed)


def measure_names(linker: SapbertLinker) -> tuple[dict[str, float], list[str]]:
    """Leave out the names that the linker may find, and look them up."""
    expected = expect(linker)
    allowed = [expected[row] for row in list_allowed(linker)]
    n, n_right = (sum(getattr(concept, key) for concept in allowed) for key in ("n_left_out", "n_right"))
    return ({LEFT_OUT: n_right / n}, [NOTE_ON_NAMES.format(key=LEFT_OUT, n=n)]) if n else ({}, [])


def measure_documents(nlp: Language, label: str, file: Path, below: Sequence[str]) -> tuple[dict[str, float], str]:
    """Measure mentions and links on documents, as `projects/benchmarks` does. Only concepts below these count."""
    measured = RecognitionTask(label, file, below).measure(PipelineSystem.of(nlp))
    n_mentions = next(figure.n for figure in measured.figures if figure.metric == "id_r")
    if not n_mentions:
        advice = "Give documents with ids of this ontology, or none"
        msg.fail(f"No mention in {file} has a concept that the pipeline may link", advice, exits=1)
    key = label.split()[0]
    scores = {}
    for metric, rank, value, _ in measured.figures:
        # JSON has no number for a figure that is not defined.
        if not np.isnan(value):
            scores[f"{key}_{metric}" + (f"_at_{rank}" if rank else "")] = value
    documents = measured.details["documents"]
    return scores, NOTE_ON_DOCUMENTS.format(key=key, name=label, documents=documents, mentions=n_mentions)


def describe(nlp: Language, encoder: str, scores: dict[str, float], notes: list[str]) -> None:
    """Complete the meta. The linker has put the sources of its terminology there."""
    linker: Any = nlp.get_pipe("sapbert_linker")
    pages = {key: source.get("homepage", "") for key, source in linker.terminology.report["sources"].items()}
    sources = [
        {**source, "url": pages[source["abbreviation"]]} if "abbreviation" in source else source
        for source in nlp.meta["sources"]
    ]
    sources.append(ENCODERS[encoder])
    licences = "\n".join("- {name}: {license}".format(**source) for source in sources)
    nlp.meta |= {
        "author": "The spacy-sapbert authors",
        "license": LICENCE,
        "sources": sources,
        "performance": scores,
        "notes": "\n\n".join(filter(None, [*notes, f"Licences:\n\n{licences}"])),
    }


def save(nlp: Language, output: Path) -> None:
    """Save the pipeline, with a README of its meta and the licences of its sources."""
    output.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(output)
    # `spacy package` would keep the README of an earlier run. An empty address would become a link.
    meta = {key: value for key, value in nlp.meta.items() if value}
    (output / "README.md").write_text(generate_readme(meta), encoding="utf8")
    texts = ("{name}\n{url}\nLicence: {license}\n".format(**source) for source in nlp.meta["sources"])
    (output / LICENCES_FILE).write_text("\n".join(texts), encoding="utf8")


if __name__ == "__main__":
    run_app(partial(typer.run, main), "Install the extras: pip install -c constraints.txt -e '.[demo,context]'.")
