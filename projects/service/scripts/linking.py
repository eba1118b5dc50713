"""Requests that link texts, look up mentions and describe concepts."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Annotated, Any, NamedTuple

from corrections import UNKNOWN_ID, OffsetRequest, list_gold
from fastapi import FastAPI
from inception import InceptionRequest, predict
from limits import Text, check_texts
from pydantic import Field, model_validator
from spacy.tokens import Doc, Span
from starlette.exceptions import HTTPException
from typing_extensions import Self
from why import Why, describe_best, explain_missing, explain_threshold
from worker import Worker, ask
from workspace import Who, Workspace

from spacy_sapbert.annotations import NIL, RULE
from spacy_sapbert.candidates import Candidate
from spacy_sapbert.concept_pages import NO_PAGE
from spacy_sapbert.context import has_context, read_context
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.reranker.component import SapbertReranker
from spacy_sapbert.reranker.prior import MIN_CHANCE
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.semantic_types import find_types, name_type

# Children of a concept that are named.
CHILDREN = 50


class Bar(NamedTuple):
    """What a concept needs to be chosen by the pipeline, and so to take the place of a concept that is excluded."""

    linker: SapbertLinker
    reranker: SapbertReranker | None
    linkers: Sequence[SapbertLinker] = ()  # all of the pipeline

    def find_least(self, candidates: Sequence[Candidate]) -> tuple[str, float]:
        """Find the figure that decides, and the least that a candidate needs."""
        if self.reranker is None:
            return "score", self.linker.min_score
        least = self.reranker.threshold
        if least is None:
            # All that the candidates leave may be the probability of NIL.
            least = max(MIN_CHANCE, 1 - sum(one.get("probability", 0.0) for one in candidates))
        return "probability", least

    def is_reached(self, candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
        """Return whether a candidate may be chosen."""
        measure, least = self.find_least(candidates)
        share: float = candidate.get(measure, 0.0)
        return share >= least


class LinkRequest(OffsetRequest):
    """Texts whose mentions to find and link, or mentions to look up without a document; one of both."""

    texts: list[Text] | None = None
    mentions: list[Text] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] | None = None  # candidates of a mention, if the linker proposes so many
    threshold: Annotated[float, Field(ge=-1, le=1)] | None = None  # cosine that a candidate needs
    types: list[Text] | None = None  # semantic types by identifier or name; a candidate needs one of them
    gold: bool = False  # give the corrections that are kept of each text as well

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.texts is None) == (self.mentions is None):
            raise ValueError("give `texts` or `mentions`, one of both")
        return self

    def choose(self, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
        """Choose the candidates that fit."""
        return [dict(candidate) for candidate in candidates if self._fits(candidate)][: self.k]

    def describe(self, doc: Doc, bar: Bar) -> dict[str, Any]:
        """Describe the entities of a document."""
        offsets = self.list_offsets(doc.text)
        described: dict[str, Any] = {"entities": [self._describe_ent(ent, bar, offsets) for ent in doc.ents]}
        # Then a mention without a context has none of its words.
        return described | ({"has_context": True} if has_context([doc]) else {})

    def _describe_ent(self, ent: Span, bar: Bar, offsets: Sequence[int]) -> dict[str, Any]:
        id_, probability = self._decide(ent, bar)
        place = {"start": offsets[ent.start_char], "end": offsets[ent.end_char]}
        described: dict[str, Any] = {**place, "text": ent.text, "label": ent.label_, "id": id_}
        described["candidates"] = self.choose(ent._.kb_candidates or [])
        if ent._.match == RULE:
            described["rule"] = True
        if probability is not None:
            described["probability"] = probability
        if id_ is None:
            described["why"] = self._explain(ent, bar)
        if (context := read_context(ent, is_known=False)) is not None and context.words:
            described["context"] = context.words
        return described

    def _explain(self, ent: Span, bar: Bar) -> Why:
        """Say why a mention has no id: because of the pipeline, or because of the request."""
        if ent.kb_id_ in ("", NIL):
            return explain_missing(ent, bar.linkers, bar.reranker)
        candidates = ent._.kb_candidates or []
        of_types = [candidate for candidate in candidates if self._has_type(candidate)]
        if not of_types:
            best = {"best": describe_best(candidates[0])} if candidates else {}
            return {"reason": "filtered", **best}
        if self.threshold is not None and of_types[0]["score"] < self.threshold:
            return explain_threshold(of_types[0], "score", self.threshold)
        return explain_threshold(of_types[0], *bar.find_least(candidates))

    def _decide(self, ent: Span, bar: Bar) -> tuple[str | None, float | None]:
        """Keep the choice of the pipeline, NIL included. Where the request excludes it, take the next candidate."""
        if ent._.match == RULE:
            # No request excludes what a rule says. The probability is that of another choice.
            return None if ent.kb_id_ == NIL else ent.kb_id_, None
        if ent.kb_id_ in ("", NIL):
            return None, ent._.kb_probability
        fitting = [candidate for candidate in ent._.kb_candidates or () if self._fits(candidate)]
        is_open = self.threshold is None and self.types is None
        if is_open or any(candidate["id"] == ent.kb_id_ for candidate in fitting):
            return ent.kb_id_, ent._.kb_probability
        if not fitting or not bar.is_reached(fitting[0], ent._.kb_candidates):
            return None, None
        return fitting[0]["id"], fitting[0].get("probability")

    def _fits(self, candidate: Candidate) -> bool:
        if self.threshold is not None and candidate["score"] < self.threshold:
            return False
        return self._has_type(candidate)

    def _has_type(self, candidate: Candidate) -> bool:
        return self.types is None or not find_types(self.types, candidate["types"]).isdisjoint(candidate["types"])


def describe_concept(linker: SapbertLinker, concept_id: str) -> dict[str, Any] | None:
    """Describe a concept; None if there is no such concept."""
    retriever = linker.retriever
    terminology = retriever.terminology
    row = terminology.find_row(concept_id)
    if row is None:
        return None
    concept = terminology[concept_id]
    parents = [(id_, terminology.get(id_)) for id_ in concept.parents]
    children = list_children(retriever, row)
    page = linker.kb_url_template.format(concept.id)
    return {
        **asdict(concept),
        "kb_id": find_output_id(linker, concept.id),
        "types": [{"id": type_, "name": name_type(type_)} for type_ in concept.types],
        "parents": [{"id": id_, "canonical_name": parent.canonical_name if parent else id_} for id_, parent in parents],
        "children": children[:CHILDREN],
        "n_children": len(children),
        "page": None if page == NO_PAGE else page,
    }


def find_output_id(linker: SapbertLinker, concept_id: str) -> str | None:
    """Find what a mention of a concept gets as its id; None if it has no code in the source of such ids."""
    source = linker.output_source
    return concept_id if source is None else next(iter(linker.terminology.codes(concept_id, source)), None)


def list_children(retriever: Retriever, row: int) -> list[dict[str, str]]:
    """List the children of a concept by their names."""
    rows = retriever.filters.hierarchy.find_children(row)
    concepts = retriever.terminology.concepts
    children = ({"id": concepts["id"][row], "canonical_name": concepts["canonical_name"][row]} for row in rows.tolist())
    return sorted(children, key=itemgetter("canonical_name", "id"))


def add_linking(app: FastAPI, worker: Worker, workspace: Workspace) -> None:
    """Add the requests that link texts and look up mentions."""

    @app.post("/link")
    async def link(request: LinkRequest, who: Who) -> dict[str, Any]:
        check_texts(request.texts or request.mentions or (), worker.settings)
        if request.types is not None:
            await asyncio.to_thread(check_types, request.types)
        results = await (look_up(request) if request.texts is None else link_texts(request, request.texts, who))
        return {"results": results, "offsets": "utf-16" if request.utf16 else "code points"}

    def check_types(types: list[str]) -> None:
        try:
            # One by one, because a filter may have some that the terminology lacks.
            for kind in types:
                worker.served.linker.find((), types=[kind])
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    async def look_up(request: LinkRequest) -> list[dict[str, Any]]:
        mentions = request.mentions or []
        answers = await ask(worker, [], lambda _: worker.served.linker.find(mentions, k=request.k, types=request.types))
        rows = zip(mentions, answers, strict=True)
        return [{"mention": mention, "candidates": request.choose(candidates)} for mention, candidates in rows]

    async def link_texts(request: LinkRequest, texts: list[str], who: Who) -> list[dict[str, Any]]:
        def describe(docs: Sequence[Doc]) -> list[dict[str, Any]]:
            served = worker.served
            bar = Bar(served.linker, served.reranker, served.linkers)
            return [request.describe(doc, bar) for doc in docs]

        results = await ask(worker, texts, describe)
        path = workspace.find_gold(who)
        if request.gold and path is not None:
            gold = await asyncio.to_thread(list_gold, request, texts, path, worker.served.linker)
            for result, spans in zip(results, gold, strict=True):
                result["gold"] = spans
        return results

    @app.post("/inception/predict")
    async def inception(request: InceptionRequest) -> dict[str, str]:
        return {"document": await ask(worker, [], lambda _: predict(worker.served.nlp, request, worker.settings))}

    @app.post("/inception/train", status_code=204)
    async def train() -> None:
        # The recommender does not learn from annotations; INCEpTION may ask it to all the same.
        return None


def add_concepts(app: FastAPI, worker: Worker) -> None:
    """Add the requests that describe concepts and semantic types."""

    @app.get("/concept/{concept_id:path}")
    async def concept(concept_id: str) -> dict[str, Any]:
        described: dict[str, Any] | None = await ask(
            worker, [], lambda _: describe_concept(worker.served.linker, concept_id)
        )
        if described is None:
            raise HTTPException(404, UNKNOWN_ID.format(concept_id))
        return described

    @app.get("/types")
    async def types() -> list[dict[str, str]]:
        identifiers = worker.served.linker.terminology.concepts["types"].child.values.to_list()
        return [{"id": type_, "name": name_type(type_)} for type_ in identifiers]
