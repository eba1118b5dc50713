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
# Of an answer such as "Common Cold (C0009443)".
WORD = re.compile(r"[^\s()\[\]|,;]+")
# What PubAnnotation's attributes and modifications say of a mention.
SAID = {"negation": "negated", "negated": "negated", "speculation": "uncertain", "uncertain": "uncertain"}
# The field of a context for each value of MedCAT's meta annotations; none for what is not special.
PRESENCE = {
    **dict.fromkeys(("true", "present (true)", "affirmed", "no"), ""),
    **dict.fromkeys(("false", "not present (false)", "negated", "yes"), "negated"),
    **dict.fromkeys(("hypothetical", "hypothetical (n/a)"), "hypothetical"),
}
SUBJECT = {"patient": "", "family": "family"}
TIME = {"recent": "", "past": "historical"}
META = {
    **{"presence": PRESENCE, "negation": PRESENCE},
    **{"subject": SUBJECT, "experiencer": SUBJECT},
    **{"time": TIME, "temporality": TIME},
}


def _read_tool(
    path: Path,
    report: ExchangeReport,
    *,
    form: str,
    convert: Callable[[Any, str, ExchangeReport], Record | None],
    list_documents: Callable[[Iterable[Any]], Iterable[Any]],
) -> Iterator[AnnotatedText]:
    taken: set[str] = set()
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
        yield AnnotatedText(number_name(name, taken, number), record["text"], annotations)


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
        report.note_odd("mentions with several labels, of which the first is read", f"{place}: {', '.join(others)}")
    return {"label": "".join(others[:1]), ID_KEY: ids}


def _count_relations(relations: Any, place: str, report: ExchangeReport) -> None:
    if relations:
        report.leave_out("relations", place, len(relations))


def _convert_doccano(document: Any, place: str, report: ExchangeReport) -> Record:
    spans = []
    for one in (span for key in DOCCANO_KEYS for span in document.get(key) or ()):
        start, end, label = map(one.get, ("start_offset", "end_offset", "label")) if isinstance(one, dict) else one
        spans.append({"start": start, "end": end, **_read_labels([label], place, report)})
    _count_relations(document.get("relations"), place, report)
    text = document["text"] if "text" in document else document["data"]
    return {"name": document.get("id"), "text": text, "spans": spans}


def _convert_pubannotation(document: Any, place: str, report: ExchangeReport) -> Record:
    parts = [str(document[key]) for key in ("sourcedb", "sourceid", "divid") if document.get(key) not in (None, "")]
    tracks = [document, *(document.get("tracks") or ())]
    spans = [span for track in tracks for span in _list_denotations(track, place, report)]
    return {"name": ":".join(parts), "text": document["text"], "spans": spans}


def _list_denotations(track: Record, place: str, report: ExchangeReport) -> Iterator[Record]:
    ids: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    said = [(one["subj"], one["pred"], one["obj"]) for one in track.get("attributes") or ()]
    said += [(one["obj"], one["pred"], True) for one in track.get("modifications") or ()]
    for subject, predicate, value in said:
        if codes := fields.read_identifiers(str(value)):
            ids.setdefault(subject, []).append(codes)
        elif type(value) is bool and predicate.lower() in SAID:
            words.setdefault(subject, []).extend([SAID[predicate.lower()]] if value else [])
        else:
            report.leave_out("attributes without an id", f"{place}: {predicate} {value!r:.60}")
    for one in track.get("denotations") or ():
        spans = one["span"] if isinstance(one["span"], list) else [one["span"]]
        pieces = sorted((span["begin"], span["end"]) for span in spans)
        record = {"start": pieces[0][0], "end": pieces[-1][1], **_read_labels([one["obj"]], place, report)}
        record[PIECES] = fields.write_pieces(pieces) if len(pieces) > 1 else ""
        record[ID_KEY] += ids.get(one.get("id"), [])
        yield record | {CONTEXT: words.get(one.get("id"))}
    _count_relations(track.get("relations"), place, report)


def _list_tasks(values: Iterable[Any]) -> Iterable[Any]:
    """List Label Studio's tasks. JSON-MIN has a record for each annotation of a task, and regions without an id."""
    tasks: dict[Any, Any] = {}
    for number, record in enumerate(_list_records(values)):
        if not isinstance(record, dict) or isinstance(record.get("data"), dict):
            tasks[number] = record
            continue
        lists = (value for value in record.values() if isinstance(value, list))
        regions = [one for value in lists for one in value if isinstance(one, dict) and "start" in one]
        results = [{"id": f"{one['start']} {one.get('end')}", "value": one} for one in regions]
        task = tasks.setdefault(f"{record.get('id', number)}", {"id": record.get("id"), "data": record})
        task.setdefault("annotations", []).append({"result": results, "updated_at": record.get("updated_at")})
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
    return data["text"] if "text" in data else max(fitting or strings, key=len)


def _list_regions(results: Iterable[Record], place: str, report: ExchangeReport) -> list[Record]:
    regions: list[tuple[Any, Record]] = []
    answers: dict[Any, list[str]] = {}
    for result in results:
        value = result.get("value") or {}
        labels = next((value[key] for key in value if key.endswith("labels")), None)
        if result.get("type") == "relation":
            report.leave_out("relations", place)
        elif labels is not None:
            region = {"start": value["start"], "end": value["end"], "mention": value.get("text")}
            regions.append((result.get("id"), region | _read_labels(labels, place, report)))
        else:
            # Choices, the ends of paths in a taxonomy, and lines that somebody has typed.
            typed = value.get("text") if isinstance(value.get("text"), list) else []
            written = [*(value.get("choices") or ()), *(path[-1] for path in value.get("taxonomy") or ()), *typed]
            codes = [word for word in WORD.findall(" ".join(written)) if fields.IDENTIFIER.fullmatch(word)]
            answers.setdefault(result.get("id"), []).extend(codes)
            if not codes:
                report.leave_out("answers without an id", f"{place}: {' '.join(written):.60}")
    for id_, region in regions:
        region[ID_KEY] = list(dict.fromkeys([*region[ID_KEY], *answers.get(id_, ())]))
    for id_ in answers.keys() - {id_ for id_, _ in regions}:
        report.leave_out("answers to no region", f"{place}: {' '.join(answers[id_]):.60}")
    return [region for _, region in regions]


def _list_medcat(values: Iterable[Any]) -> Iterator[Any]:
    for value in _list_records(values):
        for project in _open_list(value, "projects"):
            yield from _open_list(project, "documents")


def _open_list(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else [value]


def _convert_medcat(document: Any, place: str, report: ExchangeReport) -> Record:
    annotations, spans = document["annotations"], []
    for one in annotations.values() if isinstance(annotations, dict) else annotations:
        where = f"{place}: {one.get('value')!r:.60}"
        # Whoever chose another concept has marked the first one as not correct.
        is_wrong = one.get("correct") is False and not (one.get("alternative") or one.get("manually_created"))
        faults = [flag for flag in ("deleted", "killed", "irrelevant") if one.get(flag)]
        faults += ["not validated"] if one.get("validated") is False else []
        faults += ["not correct"] if is_wrong else []
        if faults:
            report.leave_out(f"annotations that are {faults[0]}", where)
            continue
        span = {"start": one["start"], "end": one["end"], "mention": one.get("value"), ID_KEY: one["cui"]}
        spans.append(span | {CONTEXT: _read_meta(one.get("meta_anns") or (), where, report)})
    name = document.get("name") or document.get("id")
    return {"name": name, "text": document["text"], "spans": spans}


def _read_meta(metas: Any, place: str, report: ExchangeReport) -> list[str] | None:
    """List the words of a context; None if no meta annotation says anything of it."""
    words = []
    for meta in metas.values() if isinstance(metas, dict) else metas:
        word = META.get(meta["name"].lower(), {}).get(str(meta["value"]).lower())
        if word is None:
            report.leave_out(f"meta annotations {meta['name']}: {meta['value']}", place)
        else:
            words.append(word)
    return [word for word in words if word] if words else None


read_doccano = partial(_read_tool, form=DOCCANO_FORM, list_documents=_list_records, convert=_convert_doccano)
read_label_studio = partial(_read_tool, form=LABEL_STUDIO_FORM, list_documents=_list_tasks, convert=_convert_task)
read_medcat = partial(_read_tool, form=MEDCAT_FORM, list_documents=_list_medcat, convert=_convert_medcat)
read_pubannotation = partial(
    _read_tool, form=PUBANNOTATION_FORM, list_documents=_list_records, convert=_convert_pubannotation
)
