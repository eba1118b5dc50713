"""The linkers of other packages, as contestants. Their own environments run this file, so it needs nothing of ours."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# The ids found for a mention, best first, and their scores.
Ranking = tuple[list[str], list[float]]
Search = Callable[[Sequence[str]], list[Ranking]]
# The first character of a mention in a text, the one behind its last, and its concept.
Found = tuple[int, int, str]
# The group of spans with the mentions whose context is asked for: some overlap, so they can't be entities.
MENTIONS = "mentions"
# What medspaCy's ConText says of mentions, and the plugin in attributes of the same names.
CONTEXT = {
    "is_negated": "negated",
    "is_uncertain": "uncertain",
    "is_hypothetical": "uncertain",
    "is_family": "family",
    "is_historical": "historical",
}


def read_dictionary(given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Read the names of the dictionary, and the concept of each."""
    dictionary = json.loads(Path(given["run"], "dictionary.json").read_text(encoding="utf8"))
    return dictionary["names"], dictionary["ids"]


def group_names(names: Sequence[str], ids: Sequence[str]) -> dict[str, list[str]]:
    """Group the names by concept, each once and in their order: the first is the canonical one."""
    names_of: dict[str, dict[str, None]] = {}
    for name, concept_id in zip(names, ids, strict=True):
        names_of.setdefault(concept_id, {})[name] = None
    return {concept_id: list(distinct) for concept_id, distinct in names_of.items()}


def take_passes(given: dict[str, Any], texts: str, step: str, work: Callable[[Sequence[str]], Any]) -> Iterator[Any]:
    """Work on the texts of each task, in several passes, and keep what was found."""
    tasks = json.loads(Path(given["run"], texts).read_text(encoding="utf8"))
    rankings = {}
    # Libraries do some work only once: that counts in no pass.
    work(next(iter(tasks.values()))[:1])
    yield "warm"
    for _ in range(given["repeats"]):
        for task, strings in tasks.items():
            rankings[task] = work(strings)
            yield f"{step} {task}"
    Path(given["run"], f"found_{given['key']}.json").write_text(json.dumps(rankings), encoding="utf8")


def look_up(given: dict[str, Any], search: Search) -> Iterator[Any]:
    """Look up the distinct mentions of each task."""
    size = given["batch_size"]

    def search_all(queries: Sequence[str]) -> dict[str, Ranking]:
        batches = [queries[start : start + size] for start in range(0, len(queries), size)]
        return dict(zip(queries, chain.from_iterable(map(search, batches)), strict=True))

    yield from take_passes(given, "queries.json", "search", search_all)


def annotate_texts(given: dict[str, Any], annotate: Callable[[Sequence[str]], list[list[Found]]]) -> Iterator[Any]:
    """Annotate the texts of each task."""
    yield from take_passes(given, "texts.json", "annotate", annotate)


def annotate_loaded(
    given: dict[str, Any], load: Callable[[], Callable[[Sequence[str]], list[list[Found]]]]
) -> Iterator[Any]:
    """Annotate the texts of each task with what was loaded for it: the work that is done only once counts as well."""
    for task, strings in json.loads(Path(given["run"], "texts.json").read_text(encoding="utf8")).items():
        begin = time.perf_counter()
        annotate = load()
        loaded = time.perf_counter()
        yield "loaded", {"load": loaded - begin}
        begin = time.perf_counter()
        annotate(strings)
        yield "first", {f"first {task}": time.perf_counter() - begin}


def describe(*packages: str) -> dict[str, Any]:
    """Give the versions of an environment as figures of a step."""
    return {"versions": {"python": sys.version.split()[0], **{package: version(package) for package in packages}}}


def scispacy(given: dict[str, Any]) -> Iterator[Any]:
    """scispaCy's candidate generator ("candidates"), or its linker, over an index of its own parameters."""
    from scispacy.candidate_generation import CandidateGenerator, LinkerPaths, create_tfidf_ann_index
    from scispacy.candidate_generation import load_approximate_nearest_neighbours_index as load_index
    from scispacy.linking_utils import KnowledgeBase

    names, ids = read_dictionary(given)
    file = Path(given["run"], f"knowledge_base_{given['key']}.jsonl")
    with file.open("w", encoding="utf8") as lines:
        for concept_id, (first, *aliases) in group_names(names, ids).items():
            entity = {"concept_id": concept_id, "canonical_name": first, "aliases": aliases}
            lines.write(json.dumps({**entity, "types": [], "definition": None}) + "\n")
    knowledge_base = KnowledgeBase(str(file))
    yield "read", describe("scispacy", "spacy", "nmslib-metabrainz", "scikit-learn", "scipy", "numpy")
    with TemporaryDirectory() as saved:
        # It returns names, vectoriser and index, in the order that the generator takes index, vectoriser and names.
        parts = create_tfidf_ann_index(saved, knowledge_base)
        yield "build", {"names_in_index": len(parts[0])}
        generator = CandidateGenerator(*reversed(parts), knowledge_base)
        for way, search in make_scispacy_searches(generator, given["neighbours"]).items():
            yield from look_up({**given, "key": way}, search)
        files = ("nmslib_index.bin", "tfidf_vectorizer.joblib", "tfidf_vectors_sparse.npz", "concept_aliases.json")
        begin = time.perf_counter()
        # Last, so that the peak of memory counts one index.
        load_index(LinkerPaths(*(str(Path(saved) / file) for file in files)))
        yield "loaded", {"load": time.perf_counter() - begin}


def make_scispacy_searches(generator: Any, k: int) -> dict[str, Search]:
    """Make searches by key: the generator without a threshold, and the linker, which takes a document's entities."""
    import spacy
    from scispacy.linking import EntityLinker
    from spacy.tokens import Doc, Span

    vocab = spacy.blank("en").vocab
    linkers = {
        "scispacy_linker": EntityLinker(candidate_generator=generator, k=k, filter_for_definitions=False),
        "scispacy_defaults": EntityLinker(candidate_generator=generator, k=k),
    }

    def link(linker: Any, queries: Sequence[str]) -> list[Ranking]:
        doc = Doc(vocab, words=list(queries))
        doc.ents = [Span(doc, token, token + 1, label="ENTITY") for token in range(len(queries))]
        candidates = [ent._.kb_ents for ent in linker(doc).ents]
        return [([one for one, _ in pairs], [float(score) for _, score in pairs]) for pairs in candidates]

    searches: dict[str, Search] = {"scispacy": lambda queries: rank_candidates(generator, queries, k)}
    for key, linker in linkers.items():
        searches[key] = lambda queries, linker=linker: link(linker, queries)  # type: ignore[misc]
    return searches


def rank_candidates(generator: Any, queries: Sequence[str], k: int) -> list[Ranking]:
    """Rank scispaCy's candidates, which come in the order of their ids, by their most similar name, as its linker."""
    rankings = []
    for candidates in generator(list(queries), k):
        scored = [(candidate.concept_id, max(candidate.similarities)) for candidate in candidates]
        scored.sort(key=lambda pair: pair[1], reverse=True)
        rankings.append(([one for one, _ in scored], [float(score) for _, score in scored]))
    return rankings


def make_gilda_grounder(names: Sequence[str], ids: Sequence[str]) -> Any:
    """Make gilda's grounder of the dictionary's terms."""
    from gilda import Term, make_grounder
    from gilda.process import normalize

    terms = [
        Term(normalize(name), name, "dictionary", concept_id, first, "synonym" if others else "name", "dictionary")
        for concept_id, distinct in group_names(names, ids).items()
        for first in distinct[:1]
        for others, name in enumerate(distinct)
    ]
    return make_grounder(terms)


def gilda(given: dict[str, Any]) -> Iterator[Any]:
    """gilda's grounder of the dictionary's terms."""
    names, ids = read_dictionary(given)
    yield "read", describe("gilda")
    grounder = make_gilda_grounder(names, ids)
    yield "build"

    def search(queries: Sequence[str]) -> list[Ranking]:
        answers = [grounder.ground(query) for query in queries]
        return [([one.term.id for one in matches], [float(one.score) for one in matches]) for matches in answers]

    yield from look_up(given, search)


def gilda_texts(given: dict[str, Any]) -> Iterator[Any]:
    """gilda's recogniser of the dictionary's terms, with the best concept of each mention."""
    from gilda.ner import annotate

    names, ids = read_dictionary(given)
    yield "read", describe("gilda")
    grounder = make_gilda_grounder(names, ids)
    yield "build"

    def annotate_all(texts: Sequence[str]) -> list[list[Found]]:
        # Given a context, it would fetch models of other terms.
        annotations = [annotate(text, grounder=grounder, context_text="") for text in texts]
        return [[(one.start, one.end, one.matches[0].term.id) for one in of_text] for of_text in annotations]

    yield from annotate_texts(given, annotate_all)


def fasthpocr(given: dict[str, Any]) -> Iterator[Any]:
    """FastHPOCR's recogniser of the Human Phenotype Ontology. Its index takes minutes to make, and is kept."""
    from FastHPOCR.HPOAnnotator import HPOAnnotator
    from FastHPOCR.IndexHPO import IndexHPO

    yield "read", describe("FastHPOCR", "pronto")
    index = Path(given["index"], "hp.index")
    is_kept = index.is_file()
    if not is_kept:
        index.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=index.parent) as folder:
            IndexHPO(given["ontology"], folder).index()
            Path(folder, index.name).replace(index)

    def load() -> Callable[[Sequence[str]], list[list[Found]]]:
        annotator = HPOAnnotator(str(index))

        def annotate_all(texts: Sequence[str]) -> list[list[Found]]:
            annotations = [annotator.annotate(text, longestMatch=given["is_longest"]) for text in texts]
            return [[(one.startOffset, one.endOffset, one.hpoUri) for one in of_text] for of_text in annotations]

        return annotate_all

    annotate = load()
    yield "build", {"index_was_kept": is_kept}
    yield from annotate_texts(given, annotate)
    yield from annotate_loaded(given, load)


def quickumls(given: dict[str, Any]) -> Iterator[Any]:
    """QuickUMLS with its defaults but for the threshold of similarity, over an index of names in lower case."""
    import nltk
    import spacy
    from quickumls import QuickUMLS
    from quickumls.constants import LANGUAGES, SPACY_LANGUAGE_MAP
    from quickumls.install import parse_and_encode_ngrams

    names, ids = read_dictionary(given)
    # It would load a tagger, which pip does not install, and finds nearly the same without it.
    nlp = spacy.blank(given["lang"])
    language = next(code for code, model in SPACY_LANGUAGE_MAP.items() if model.startswith(given["lang"]))
    yield "read", describe("quickumls", "quickumls_simstring", "unqlite", "nltk", "spacy")
    with TemporaryDirectory() as folder:
        # spaCy's stop words stand in for NLTK's, which it would fetch.
        stop_words = Path(folder, "corpora", "stopwords", LANGUAGES[language])
        stop_words.parent.mkdir(parents=True)
        stop_words.write_text("\n".join(sorted(nlp.Defaults.stop_words)), encoding="utf8")
        nltk.data.path.insert(0, folder)
        for flag, content in (("lowercase", ""), ("language", language), ("database_backend", "unqlite")):
            Path(folder, f"{flag}.flag").write_text(content, encoding="utf8")
        # UMLS has a preferred atom for every string of a concept. QuickUMLS puts preferred names before more similar
        # ones, so that all must be preferred here, too.
        terms = ((name.lower(), concept_id, [], 1) for name, concept_id in zip(names, ids, strict=True))
        files = [str(Path(folder, file)) for file in ("umls-simstring.db", "cui-semtypes.db")]
        parse_and_encode_ngrams(terms, *files, database_backend="unqlite")
        yield "build"

        def load() -> Callable[[Sequence[str]], list[list[Found]]]:
            matcher = QuickUMLS(folder, threshold=given["threshold"], accepted_semtypes=None, spacy_component=True)
            matcher.nlp = nlp

            def annotate_all(texts: Sequence[str]) -> list[list[Found]]:
                answers = [[matches[0] for matches in matcher.match(text)] for text in texts]
                return [[(best["start"], best["end"], best["cui"]) for best in of_text] for of_text in answers]

            return annotate_all

        yield from annotate_texts(given, load())
        yield from annotate_loaded(given, load)


def tell_of_mentions(given: dict[str, Any], nlp: Any, flags: dict[str, str]) -> Iterator[Any]:
    """Tell of the given mentions what a pipeline says of them: `flags` has attributes of spans, and what each means."""

    def tell(doc: Any, places: Sequence[tuple[int, int]]) -> list[list[str]]:
        doc.spans[MENTIONS] = [doc.char_span(*place, "MENTION", alignment_mode="expand") for place in places]
        spans = nlp(doc).spans[MENTIONS]
        return [sorted({kind for flag, kind in flags.items() if span._.get(flag)}) for span in spans]

    def tell_all(texts: Sequence[Any]) -> list[list[list[str]]]:
        return [tell(nlp.make_doc(text), places) for text, places in texts]

    yield from take_passes(given, f"texts_{given['lang']}.json", "annotate", tell_all)


def negspacy(given: dict[str, Any]) -> Iterator[Any]:
    """negspacy with its clinical phrases and spaCy's sentences."""
    import spacy
    from negspacy import negation  # registers the component

    nlp = spacy.blank(given["lang"])
    yield "read", describe("negspacy", "spacy")
    nlp.add_pipe("sentencizer")
    phrases = negation.termset(f"{given['lang']}_clinical").get_patterns()
    nlp.add_pipe("negex", config={"neg_termset": phrases, "span_keys": [MENTIONS]})
    yield "build"
    yield from tell_of_mentions(given, nlp, {"negex": "negated"})


def medspacy(given: dict[str, Any]) -> Iterator[Any]:
    """medspaCy's ConText with its own tokenizer, sentences and rules, and its sections."""
    import spacy
    from loguru import logger
    from medspacy.util import load

    # It writes a line for every sentence.
    logger.disable("PyRuSH")
    yield "read", describe("medspacy", "PyRuSH", "spacy")
    lang = given["lang"]
    nlp = load(spacy.blank(lang), ["medspacy_tokenizer", "medspacy_pyrush"], language_code=lang)
    config = {"language_code": lang, "input_span_type": "group", "span_group_name": MENTIONS}
    nlp.add_pipe("medspacy_context", config=config)
    if given["has_sections"]:
        nlp.add_pipe("medspacy_sectionizer", config=config)
    yield "build"
    yield from tell_of_mentions(given, nlp, CONTEXT)


def edsnlp(given: dict[str, Any]) -> Iterator[Any]:
    """EDS-NLP's qualifiers with its own tokenizer, normaliser and sentences."""
    import edsnlp

    yield "read", describe("edsnlp", "spacy")
    nlp = edsnlp.blank("eds")
    nlp.add_pipe("eds.normalizer")
    nlp.add_pipe("eds.sentences")
    flags = {"negation": "negated", "hypothesis": "uncertain", "family": "family", "history": "historical"}
    for flag in flags:
        nlp.add_pipe(f"eds.{flag}", config={"span_getter": [MENTIONS]})
    yield "build"
    yield from tell_of_mentions(given, nlp, flags)
