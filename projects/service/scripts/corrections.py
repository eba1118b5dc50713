"""Requests that find, keep and export corrections."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from export import ExportRequest, export_doc
from fastapi import FastAPI
from gold import Correction, GoldRequest, Unseen, find_gold, keep_gold
from keeping import explain_unkept
from limits import StrictRequest, Text, check_texts
from starlette.exceptions import HTTPException
from worker import Worker, ask
from workspace import Who, Workspace

from spacy_sapbert.annotations import NIL
from spacy_sapbert.linker import SapbertLinker

UNKNOWN_ID = "No concept of the terminology has the id '{:.100}'. Case and prefix count."


class OffsetRequest(StrictRequest):
    """Base of requests whose answers have offsets."""

    utf16: bool = False  # offsets in UTF-16 units, as Java and JavaScript count, and not in code points

    def list_offsets(self, text: str) -> Sequence[int]:
        """List the offset of each place in a text. In UTF-16, characters of other planes have two units."""
        if not self.utf16:
            return range(len(text) + 1)
        return [0, *accumulate(2 if character > "\uffff" else 1 for character in text)]


class FindRequest(OffsetRequest):
    """Texts whose corrections to find."""

    texts: list[Text]


def list_gold(
    request: OffsetRequest, texts: Sequence[str], path: Path, linker: SapbertLinker
) -> list[list[dict[str, Any]]]:
    """List the corrections that are kept of each text, with the names of their concepts."""

    def describe(span: dict[str, Any], at: Sequence[int]) -> dict[str, Any]:
        concept = linker.terminology.get(span["kb_id"])
        name = {"name": concept.canonical_name} if concept else {}
        return {**span, **name, "start": at[span["start"]], "end": at[span["end"]]}

    pairs = zip(texts, find_gold(path, texts), strict=True)
    return [[describe(span, at) for span in spans] for text, spans in pairs for at in [request.list_offsets(text)]]


def find_unknown_id(linkers: Sequence[SapbertLinker], ids: Iterable[str]) -> str | None:
    """Find an id that no linker can give a mention; None if they know all."""
    unknown = {*ids} - {NIL}
    for linker in linkers:
        if (source := linker.output_source) is None:
            unknown = {id_ for id_ in unknown if id_ not in linker.terminology}
        elif unknown:
            codes = linker.terminology.concepts.to_polars("codes")["codes"].explode()
            matches = codes.filter(codes.is_in([f"{source}:{id_}" for id_ in unknown]))
            unknown -= {code.removeprefix(f"{source}:") for code in matches}
    return min(unknown, default=None)


def add_gold(app: FastAPI, worker: Worker, workspace: Workspace) -> None:
    """Add the requests that find, keep and export corrections."""
    settings = worker.settings

    def check(texts: Sequence[str], spans: Sequence[Correction] = ()) -> None:
        check_texts(texts, settings)
        unknown = find_unknown_id(worker.served.linkers, (span.kb_id for span in spans))
        if unknown is not None:
            raise HTTPException(422, UNKNOWN_ID.format(unknown))

    @app.post("/gold/find")
    def find(request: FindRequest, who: Who) -> dict[str, Any]:
        path = workspace.get_gold(who)
        check(request.texts)
        gold = list_gold(request, request.texts, path, worker.served.linker)
        return {"results": [{"gold": spans} for spans in gold]}

    @app.post("/gold")
    def keep(request: GoldRequest, who: Who) -> dict[str, Any]:
        path = workspace.get_gold(who)
        check([request.text], request.spans)
        signed = request.sign(who.name) if who.name else request
        try:
            with explain_unkept(settings):
                return {"kept": keep_gold(path, signed, timeout=settings.max_seconds)}
        except Unseen as error:
            hint = "Link the text with `gold` to see it, and send it back as `seen`."
            raise HTTPException(412, f"The corrections of this text have changed: {error}. {hint}") from None

    @app.post("/export")
    async def export(request: ExportRequest) -> dict[str, Any]:
        await asyncio.to_thread(check, [request.text], request.spans)
        exported: dict[str, Any] = await ask(
            worker, [request.text], lambda docs: export_doc(docs[0], request, worker.served.linker)
        )
        return exported
