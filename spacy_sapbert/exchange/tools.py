"""What annotation tools export as JSON: doccano, Label Studio, MedCATtrainer and PubAnnotation. A document becomes a
record of `parse_spans`.

All four count code points. Label Studio and MedCATtrainer also write the text of a mention, which has to fit. If it
shows that offsets are a browser's, in units of UTF-16, they are converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from . import fields
from .documents import AnnotatedText, ExchangeReport, number_name
from .records import CONTEXT, ID_KEY, PIECES, parse_spans

Record = dict[str, Any]

DOCCANO_FORM = '{"text": "a cold", "label": [[2, 6, "C0009443"]]}, or entities with label, start_offset and end_offset'
LABEL_STUDIO_FORM = (
    'JSON, [{"data": {"text": "a cold"}, "annotations": [{"result": [{"id": "r1", "type": "labels", "value": {"start": '
    '2, "end": 6, "text": "cold", "labels": ["C0009443"]}}]}]}], or JSON-MIN'
)
MEDCAT_FORM = (
    '{"projects": [{"documents": [{"name": "1", "text": "a cold", "annotations": [{"start": 2, "end": 6, "value": '
    '"cold", "cui": "C0009443"}]}]}]}'
)
PUBANNOTATION_FORM = '{"text": "a cold", "denotations": [{"id": "T1", "span": {"begin": 2, "end": 6}, "obj": "D"}]}'
# What reading malformed records can raise.
FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError)
# The last is in doccano's older exports, whose labels may be numbers.
DOCCANO_KEYS = ("label", "labels", "entities", "annotations")
DOCCANO_SPAN = ("start_offset", "end_offset", "label")
# Of an answer such as "Common Cold (C0009443)".
WORD = re.compile(r"[^\s()\[\]|,;]+")
# What PubAnnotation's attributes and modifications say of a mention.
SAID = {"negation": "negated", "negated": "negated", "speculation": "uncertain", "uncertain": "uncertain"}
# The field of a context for each value of MedCAT's meta annotations; none for what is not special.
PRESENCE = {
    **dict.fromkeys(("true", "yes", "affirmed", "present (true)"), ""),
    **dict.fromkeys(("false", "no", "negated", "not present (false)"), "negated"),
    **dict.fromkeys(("hypothetical", "hypothetical (n/a)"), "hypothetical"),
}
NEGATION = {
    **dict.fromkeys(("false", "no", "affirmed"), ""),
    **dict.fromkeys(("true", "yes", "negated"), "negated"),
}
SUBJECT = {"patient": "", "family": "family"}
TIME = {"recent": "", "past": "historical"}
META = {
    "presence": PRESENCE,
    "negation": NEGATION,
    "subject": SUBJECT,
    "experiencer": SUBJECT,
    "time": TIME,
    "temporality": TIME,
}


def _read_tool(
    path: Path,
    report: ExchangeReport,
    *,
    form: str,
    convert: Callable[[Any, str, ExchangeReport], Record | None],
    list_documents: Callable[[Iterable[Any]], Iterable[Any]],
) -> Iterator[AnnotatedText]:
    names: set[str] = set()
    values = fields.parse_values(fields.read_text(path, report), str(path), report, form)
    for number, document in enumerate(list_documents(values), 1):
        place = f"{path.name}, document {number}"
        try:
            record = convert(document, place, report)
        except FAULTS as error:
            report.refuse(place, f"not of this form ({error!r:.80})", form)
            continue
        if record is None:
            continue
        if not isinstance(record["text"], str):
            report.refuse(place, f"{record['text']!r:.60} in place of a text", form)
            continue
        name = f"{path.stem}-{number}" if record["name"] in (None, "") else str(record["name"])
        annotations = parse_spans(record, ID_KEY, f"{place} ({name:.80})", report, form)
        yield AnnotatedText(number_name(name, names, number), record["text"], annotations)


def _list_records(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _read_labels(labels: Iterable[Any], place: str, report: ExchangeReport) -> Record:
    """Take labels that are ids for these, and the first of the others for the label."""
    written = [str(label) for label in labels if label not in (None, "")]
    ids = [label for label in written if fields.read_identifiers(label)]
    others = [label for label in written if label not in ids]
    if ids:
        report.note_odd("mentions with an id for a label", f"{place}: {ids[0]}")
    if len(others) > 1:
        report.note_odd("mentions with several labels, of which the first is read", f"{place}: {', '.join(others):.60}")
    return {"label": "".join(others[:1]), ID_KEY: ids}


def _count_relations(relations: Any, place: str, report: ExchangeReport) -> None:
    if relations:
        report.leave_out("relations", place, len(relations))


def _convert_doccano(document: Any, place: str, report: ExchangeReport) -> Record:
    written: list[Any] = []
    for key in DOCCANO_KEYS:
        written += document.get(key) or ()
    spans = []
    for span in written:
        entity = span if isinstance(span, dict) else dict(zip(DOCCANO_SPAN, span, strict=True))
        label = _read_labels([entity["label"]], place, report)
        spans.append({"start": entity["start_offset"], "end": entity["end_offset"], **label})
    _count_relations(document.get("relations"), place, report)
    # Some versions call the text `data`.
    text = document["text"] if "text" in document else document["data"]
    return {"name": document.get("id"), "text": text, "spans": spans}


def _convert_pubannotation(document: Any, place: str, report: ExchangeReport) -> Record:
    parts = [document.get(key) for key in ("sourcedb", "sourceid", "divid")]
    name = ":".join(str(part) for part in parts if part not in (None, ""))
    spans: list[Record] = []
    for track in (document, *(document.get("tracks") or ())):
        spans += _list_denotations(track, place, report)
    return {"name": name, "text": document["text"], "spans": spans}


def _list_denotations(track: Record, place: str, report: ExchangeReport) -> Iterator[Record]:
    ids: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    statements = [(one["subj"], one["pred"], one["obj"]) for one in track.get("attributes") or ()]
    statements += [(one["obj"], one["pred"], True) for one in track.get("modifications") or ()]
    for subject, predicate, value in statements:
        word = SAID.get(predicate.lower())
        if codes := fields.read_identifiers(str(value)):
            ids.setdefault(subject, []).append(codes)
        elif word and value is True:
            words.setdefault(subject, []).append(word)
        elif word and value is False:
            words.setdefault(subject, [])
        else:
            report.leave_out("attributes without an id", f"{place}: {predicate} {value!r:.60}")
    for one in track.get("denotations") or ():
        subject = one.get("id")
        span = one["span"]
        spans = span if isinstance(span, list) else [span]
        pieces = sorted((span["begin"], span["end"]) for span in spans)
        record = _read_labels([one["obj"]], place, report)
        record[ID_KEY] += ids.get(subject, [])
        record[CONTEXT] = words.get(subject)
        record[PIECES] = fields.write_pieces(pieces) if len(pieces) > 1 else ""
        yield {"start": pieces[0][0], "end": pieces[-1][1], **record}
    _count_relations(track.get("relations"), place, report)


def _list_tasks(values: Iterable[Any]) -> Iterable[Any]:
    """List Label Studio's tasks. JSON-MIN has a record for each annotation of a task, and regions without an id."""
    tasks: dict[Any, Any] = {}
    for number, record in enumerate(_list_records(values)):
        if not isinstance(record, dict) or isinstance(record.get("data"), dict):
            tasks[number] = record
            continue
        results = []
        for value in record.values():
            for one in value if isinstance(value, list) else ():
                if isinstance(one, dict) and "start" in one:
                    results.append({"id": f"{one['start']} {one.get('end')}", "value": one})
        id_ = record.get("id")
        task = tasks.setdefault(f"{number if id_ is None else id_}", {"id": id_, "data": record, "annotations": []})
        task["annotations"].append({"result": results, "updated_at": record.get("updated_at")})
    return tasks.values()


def _convert_task(task: Any, place: str, report: ExchangeReport) -> Record | None:
    annotations = task.get("annotations", task.get("completions")) or []
    done = [one for one in annotations if not one.get("was_cancelled")]
    if len(done) < len(annotations):
        report.leave_out("annotations that were cancelled", place, len(annotations) - len(done))
    if not done:
        report.leave_out("tasks that nobody has annotated", place)
        return None
    if len(done) > 1:
        kind = "tasks with several annotations: the ground truth is read, or else the one that was changed last"
        report.note_odd(kind, place)
    done.sort(key=lambda one: (bool(one.get("ground_truth")), str(one.get("updated_at") or "")))
    regions = _list_regions(done[-1]["result"], place, report)
    return {"name": task.get("id"), "text": _find_text(task["data"], regions), "spans": regions}


def _find_text(data: Record, regions: Iterable[Record]) -> str:
    """Find the text that was annotated: projects have names of their own for it."""
    strings = [value for value in data.values() if isinstance(value, str)]
    mentions = [region["mention"] for region in regions if isinstance(region["mention"], str)]
    fitting = [value for value in strings if all(mention in value for mention in mentions)]
    candidates = fitting or strings
    if data.get("text") in candidates:
        return str(data["text"])
    if len(candidates) != 1:
        raise ValueError("nothing tells which of its strings was annotated")
    return candidates[0]


def _list_regions(results: Iterable[Record], place: str, report: ExchangeReport) -> list[Record]:
    regions: list[tuple[Any, Record]] = []
    answers: dict[Any, list[str]] = {}
    for number, result in enumerate(results):
        id_ = result.get("id", number)
        value = result.get("value") or {}
        labels = next((value[key] for key in value if key.endswith("labels")), None)
        if result.get("type") == "relation":
            report.leave_out("relations", place)
        elif labels is not None:
            region = {"start": value["start"], "end": value["end"], "mention": value.get("text")}
            regions.append((id_, region | _read_labels(labels, place, report)))
        else:
            written = " ".join(_list_answers(value))
            codes = [word for word in WORD.findall(written) if fields.IDENTIFIER.fullmatch(word)]
            if codes:
                answers.setdefault(id_, []).extend(codes)
            else:
                report.leave_out("answers without an id", f"{place}: {written:.60}")
    for id_, region in regions:
        region[ID_KEY] = list(dict.fromkeys([*region[ID_KEY], *answers.get(id_, ())]))
    answered = {id_ for id_, _ in regions}
    for id_, codes in answers.items():
        if id_ not in answered:
            report.leave_out("answers to no region", f"{place}: {' '.join(codes):.60}")
    return [region for _, region in regions]


def _list_answers(value: Record) -> list[str]:
    """List what somebody has chosen, also by a path in a taxonomy, or typed."""
    answers = list(value.get("choices") or ())
    answers += [path[-1] for path in value.get("taxonomy") or ()]
    typed = value.get("text")
    # Beside choices, it is the text of the region.
    return answers + typed if isinstance(typed, list) else answers


def _list_medcat(values: Iterable[Any]) -> Iterator[Any]:
    for value in _list_records(values):
        for project in _open_list(value, "projects"):
            yield from _open_list(project, "documents")


def _open_list(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else [value]


def _convert_medcat(document: Any, place: str, report: ExchangeReport) -> Record:
    annotations = document["annotations"]
    spans = []
    for one in annotations.values() if isinstance(annotations, dict) else annotations:
        where = f"{place}: {one.get('value')!r:.60}"
        if fault := _find_fault(one):
            report.leave_out(f"annotations that are {fault}", where)
            continue
        span = {"start": one["start"], "end": one["end"], "mention": one.get("value"), ID_KEY: one["cui"]}
        spans.append(span | {CONTEXT: _read_meta(one.get("meta_anns") or (), where, report)})
    name = document.get("name") or document.get("id")
    return {"name": name, "text": document["text"], "spans": spans}


def _find_fault(annotation: Record) -> str:
    """Say why an annotation does not count; "" if it does."""
    for flag in ("deleted", "killed", "irrelevant"):
        if annotation.get(flag):
            return flag
    if annotation.get("validated") is False:
        return "not validated"
    # If somebody chose another concept, only the first one was not correct.
    is_replaced = annotation.get("alternative") or annotation.get("manually_created")
    return "not correct" if annotation.get("correct") is False and not is_replaced else ""


def _read_meta(metas: Any, place: str, report: ExchangeReport) -> list[str] | None:
    """List the words of a context; None if no meta annotation says anything of it."""
    words = []
    for meta in metas.values() if isinstance(metas, dict) else metas:
        word = META.get(meta["name"].lower(), {}).get(str(meta["value"]).lower())
        if word is None:
            report.leave_out(f"meta annotations {meta['name']}: {meta['value']!s:.60}", place)
        else:
            words.append(word)
    return [word for word in words if word] if words else None


read_doccano = partial(_read_tool, form=DOCCANO_FORM, list_documents=_list_records, convert=_convert_doccano)
read_label_studio = partial(_read_tool, form=LABEL_STUDIO_FORM, list_documents=_list_tasks, convert=_convert_task)
read_medcat = partial(_read_tool, form=MEDCAT_FORM, list_documents=_list_medcat, convert=_convert_medcat)
read_pubannotation = partial(
    _read_tool, form=PUBANNOTATION_FORM, list_documents=_list_records, convert=_convert_pubannotation
)
