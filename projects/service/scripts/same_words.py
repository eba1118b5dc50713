"""Requests that apply a correction to the same words elsewhere: in all documents, and for good as a rule."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from corrections import UNKNOWN_ID, OffsetRequest, find_unknown_id
from documents import Documents
from fastapi import FastAPI
from gold import Correction, GoldRequest, Place, Span, find_gold, keep_all
from keeping import explain_unkept
from limits import StrictRequest, Text, check_texts
from pydantic import Field, model_validator
from rule_file import RuleFile, UnreadableRules, list_served_rules
from starlette.exceptions import HTTPException
from typing_extensions import Self
from worker import Worker, ask
from workspace import Annotator, Reviewer, Who, Workspace

from spacy_sapbert.context import MentionContext
from spacy_sapbert.rules import MOST_CHARACTERS, MentionRule, is_same_name

# Letters of scripts without spaces: each may begin and end a word.
_LETTERS = r"\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = rf"[^\W{_LETTERS}]"
MOST_PLACES = 20_000
NO_RULES = "Rules are not kept here: start the service with `--folder FOLDER`."

Words = Annotated[Text, Field(min_length=1, max_length=MOST_CHARACTERS)]


class FindSameRequest(OffsetRequest):
    """Words to find: in a text, and in all documents with other texts."""

    text: Text
    words: Words


class SameDecision(StrictRequest):
    """A correction of words, wherever they stand."""

    label: Text = Field(min_length=1, max_length=1000)
    kb_id: Text = Field(default="NIL", min_length=1, max_length=1000)
    context: list[Literal[MentionContext._fields]] | None = None  # type: ignore[valid-type]
    rejected: Literal[True] | None = None
    annotator: Annotated[Text, Field(min_length=1, max_length=100)] | None = None

    def at(self, start: int, end: int, who: Annotator) -> Correction:
        """Make the correction of a place."""
        given = self.model_dump(exclude_none=True)
        if who.name:
            given["annotator"] = who.name
        return Correction.model_validate({"start": start, "end": end, **given})


class SameRequest(StrictRequest):
    """A correction to apply to the same words in all documents, except those with a text."""

    words: Words
    correction: SameDecision
    scope: Literal["documents"]
    text: Text | None = None  # which the client corrects itself


class DocumentPlace(Place):
    """A place in a document, in code points."""

    document: Text


class UndoSameRequest(StrictRequest):
    """Places that a correction of the same words has set, to take back what is still so there."""

    correction: SameDecision
    places: list[DocumentPlace] = Field(max_length=MOST_PLACES)


class RuleRequest(StrictRequest):
    """A rule: the words, and the id of their concept or "NIL", or that they are no mention."""

    name: Words
    kb_id: Annotated[Text, Field(min_length=1, max_length=1000)] | None = None
    skip: Literal[True] | None = None
    annotator: Annotated[Text, Field(min_length=1, max_length=100)] | None = None  # counts without tokens only

    @model_validator(mode="after")
    def _check_meaning(self) -> Self:
        if (self.kb_id is None) == (self.skip is None):
            raise ValueError("give `kb_id` or `skip`, one of both")
        if not self.name.split():
            raise ValueError("the name has no words")
        return self

    def make_rule(self, who: Annotator) -> MentionRule:
        """Make the rule, with who has made it and when."""
        made = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return MentionRule(name=self.name, kb_id=self.kb_id, author=who.name or self.annotator or "", made=made)


class RemoveRulesRequest(StrictRequest):
    """Names of rules to remove."""

    names: list[Words] = Field(min_length=1)


def find_same(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Find words in a text: whole ones, in any case, but short forms in their own, with any white space between."""
    parts = words.split()
    if not parts:
        return
    name = " ".join(parts)
    before = rf"(?<!{_WORD})" if re.match(_WORD, name) else ""
    behind = rf"(?!{_WORD})" if re.match(_WORD, name[-1]) else ""
    pattern = before + r"\s+".join(map(re.escape, parts)) + behind
    for hit in re.finditer(pattern, text, re.IGNORECASE):
        if is_same_name(name, " ".join(hit[0].split())):
            yield hit.span()


def find_free(text: str, words: str, spans: Iterable[Span]) -> list[tuple[int, int]]:
    """Find words where nobody has corrected anything."""
    places = [*find_same(text, words)]
    # Most texts have none.
    taken = [(span["start"], span["end"]) for span in spans] if places else []
    return [place for place in places if not any(start < place[1] and place[0] < end for start, end in taken)]


def correct_same(
    kept: Mapping[str, Sequence[Span]], texts: Iterable[str], request: SameRequest, who: Annotator
) -> list[GoldRequest]:
    """Make the corrections of all places where nobody has corrected anything."""
    requests = []
    for text in dict.fromkeys(texts):
        places = find_free(text, request.words, kept.get(text, ()))
        if places:
            spans = [request.correction.at(start, end, who) for start, end in places]
            requests.append(GoldRequest(text=text, spans=spans))
    return requests


def take_back(
    kept: Mapping[str, Sequence[Span]], places: Mapping[str, set[tuple[int, int]]], request: UndoSameRequest
) -> list[GoldRequest]:
    """Withdraw the corrections at places that are still as they were set."""
    wanted = request.correction.at(0, 1, Annotator()).list_values()
    requests = []
    for text, of_text in places.items():
        seen = [
            span
            for span in kept.get(text, ())
            if (span["start"], span["end"]) in of_text and _list_decided(span) == _list_decided(wanted)
        ]
        if seen:
            withdrawn = [Place(start=span["start"], end=span["end"]) for span in seen]
            corrections = [Correction.model_validate(span) for span in seen]
            requests.append(GoldRequest(text=text, withdrawn=withdrawn, seen=corrections))
    return requests


def _list_decided(span: Span) -> Span:
    return {name: value for name, value in span.items() if name not in ("start", "end", "annotator")}


def add_same_words(app: FastAPI, worker: Worker, workspace: Workspace, documents: Documents) -> None:
    """Add the requests that correct the same words elsewhere."""
    settings = worker.settings

    @app.post("/same/find")
    def find(request: FindSameRequest, who: Who) -> dict[str, Any]:
        check_texts([request.text], settings)
        at = request.list_offsets(request.text)
        here = [{"start": at[start], "end": at[end]} for start, end in find_same(request.text, request.words)]
        path = workspace.find_gold(who)
        others = [] if path is None else [one for one in documents.list_documents(who) if one.text != request.text]
        kept = find_gold(path, [one.text for one in others]) if path is not None else []
        rows = zip(others, kept, strict=True)
        counts = [len(find_free(one.text, request.words, spans)) for one, spans in rows]
        return {"here": here, "count": sum(counts), "documents": sum(map(bool, counts))}

    @app.post("/same")
    def same(request: SameRequest, who: Who) -> dict[str, Any]:
        path = workspace.get_gold(who)
        _check_id(worker, request.correction.kb_id)
        listed = [one for one in documents.list_documents(who) if one.text != request.text]
        texts = [one.text for one in listed]
        requests = _keep(path, partial(correct_same, texts=texts, request=request, who=who))
        by_text = {one.text: one.spans for one in requests}
        changed = [
            {"document": one.id, "start": span.start, "end": span.end}
            for one in listed
            for span in by_text.get(one.text, ())
        ]
        # Nothing was there before: what somebody has corrected is left alone.
        return {"changed": changed, "count": len(changed), "documents": len({row["document"] for row in changed})}

    @app.post("/same/undo")
    def undo(request: UndoSameRequest, who: Who) -> dict[str, Any]:
        path = workspace.get_gold(who)
        texts = {one.id: one.text for one in documents.list_documents(who)}
        places: dict[str, set[tuple[int, int]]] = {}
        for place in request.places:
            # A document may be gone.
            if place.document in texts:
                places.setdefault(texts[place.document], set()).add((place.start, place.end))
        requests = _keep(path, partial(take_back, places=places, request=request))
        return {"count": sum(len(one.withdrawn) for one in requests)}

    def _keep(path: Path, choose: Any) -> list[GoldRequest]:
        with explain_unkept(settings):
            return keep_all(path, choose, timeout=settings.max_seconds)


def add_rules(app: FastAPI, worker: Worker, workspace: Workspace) -> None:
    """Add the requests of rules, and give the pipeline those that are kept."""
    rule_file = RuleFile(workspace)
    rule_file.apply(worker.served)
    worker.preparations.append(rule_file.apply)

    def describe(rule: MentionRule) -> dict[str, Any]:
        concept = None if rule.kb_id is None else worker.served.linker.terminology.get(rule.kb_id)
        return {**rule.to_dict(), "concept": concept.canonical_name if concept else ""}

    async def change(add: Sequence[MentionRule] = (), remove: Sequence[str] = ()) -> dict[str, Any]:
        try:
            with explain_unkept(worker.settings):
                replaced = await asyncio.to_thread(
                    rule_file.change, worker.served, add, remove, worker.settings.max_seconds
                )
        except KeyError as error:
            raise HTTPException(404, str(error.args[0])) from None
        except UnreadableRules as error:
            raise HTTPException(409, str(error)) from None
        # In the thread of the pipeline, so that no text is in it.
        await ask(worker, [], lambda _: rule_file.apply(worker.served))
        return {**await asyncio.to_thread(list_rules), "replaced": [*map(describe, replaced)]}

    def list_rules() -> dict[str, Any]:
        try:
            rules = rule_file.read(worker.served)
        except UnreadableRules as error:
            raise HTTPException(409, str(error)) from None
        applied = {rule.name for rule in list_served_rules(worker.served)}
        rows = [{**describe(rule), "applies": rule.name in applied} for rule in rules]
        return {"rules": rows, "keeps": rule_file.path is not None}

    @app.get("/rules")
    def rules(who: Reviewer) -> dict[str, Any]:
        return list_rules()

    @app.post("/rules")
    async def add_rule(request: RuleRequest, who: Reviewer) -> dict[str, Any]:
        if rule_file.path is None:
            raise HTTPException(409, NO_RULES)
        await asyncio.to_thread(_check_id, worker, request.kb_id)
        return await change(add=[request.make_rule(who)])

    @app.post("/rules/remove")
    async def remove_rules(request: RemoveRulesRequest, who: Reviewer) -> dict[str, Any]:
        if rule_file.path is None:
            raise HTTPException(409, NO_RULES)
        return await change(remove=request.names)


def _check_id(worker: Worker, kb_id: str | None) -> None:
    unknown = find_unknown_id(worker.served.linkers, () if kb_id is None else (kb_id,))
    if unknown is not None:
        raise HTTPException(422, UNKNOWN_ID.format(unknown))
