"""Readers of annotated documents: PubTator's form, brat, Mantra, Prodigy, spaCy's DocBin, and our own lines of JSON.

A language of Mantra has three parts: "de", with all CUIs of a span in one mention; "de_discontinuous", the mentions in
several pieces; and "de_annotations", one mention for each annotation, as CODER's experiments count them. The last has
those in several pieces too: the mention is the text of all, with spaces between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from spacy_sapbert.exchange.brat import FORM as BRAT_FORM
from spacy_sapbert.exchange.brat import parse_brat
from spacy_sapbert.exchange.documents import DOC_ID, OVERLAPPING, Annotation, ExchangeReport, parse_docs, tidy_pieces
from spacy_sapbert.exchange.fields import ANY_ID_SEPARATOR, ID_SEPARATOR, find_misfit, is_offset, plain_text, split_ids
from spacy_sapbert.exchange.pubtator import FORM, RELATION_FIELDS, PubTatorDocument, list_mention_lines, parse_pubtator
from spacy_sapbert.exchange.records import ID_KEY, parse_prodigy, parse_spans

from ..data.mentions import FORM as UNIFORM_FORM
from ..data.mentions import TEXT_FORM, Mention, parse_mention, parse_text
from .reading import PART_NAMES, CorpusParts, Format, InputFile, Originals, locate

MEDMENTIONS = r"(?:.*/)?corpus_pubtator(?:_pmids_(?P<part>trng|train|dev|test))?\.txt"
GSC = r"(?:.*/)?GSCplus_(?P<part>train|dev|test)_gold\.tsv"
GSC_FORM = "a PMID, a text, and lines of start, end, mention and id, with tabs between; an empty line ends a document"
BRAT = r"(?:(?P<part>.+)/)?(?P<doc>[^/]+)\.(?P<kind>txt|ann)"
MANTRA = r"(?:.*/)?(?P<language>English|German|French|Spanish|Dutch)/(?P<set>[^/]+)/(?P<doc>[^/]+)\.(?P<kind>txt|ann)"
LANGUAGES = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "dutch": "nl"}
# The semantic group in the notes of an annotation.
NOTE = re.compile(r'#[^\t]*\t[^\t]*?(T\S+)\t[^\t]*?"([A-Z]{4})"[^\t]*')
LINES = r"(?P<part>.+)\.jsonl"
WHOLE_TEXT = re.compile(r'"mentions"\s*:')
DOCBIN = r"(?P<part>.+)\.spacy"


def read_pubtator_corpus(originals: Originals, *, pattern: str, types: Sequence[str] = ()) -> CorpusParts:
    """Read a file for each part, with all its mentions or only some types of them."""
    corpus = CorpusParts()
    for part, file in originals.find_parts(pattern).items():
        corpus.mentions[part] = []
        for document in parse_pubtator(file.lines(), file.label, file.report):
            _add_pubtator(corpus, part, document, file, types)
    return corpus


def read_gsc(originals: Originals) -> CorpusParts:
    """Read GSC+ as PhenoTagger has it: blocks of a PMID, a text, and mentions with terms of HPO."""
    corpus = CorpusParts()
    report = originals.report
    for part, file in originals.find_parts(GSC).items():
        blocks = groupby(file.lines(), key=lambda numbered: bool(numbered[1].strip()))
        for (number, doc_id), *rest in (list(lines) for is_block, lines in blocks if is_block):
            text = rest[0][1] if rest else ""
            mentions = []
            if not text or "\t" in text:
                report.refuse(f"{file.label}, line {number}", "a PMID without a text", GSC_FORM)
                continue
            for place, fields in ((f"{file.label}, line {row}", line.split("\t")) for row, line in rest[1:]):
                start, end, written, raw_id = fields if len(fields) == 4 else ("", "", "", "")
                fault = "not four fields, the first two of them numbers"
                if is_offset(start) and is_offset(end):
                    fault = find_misfit(text, int(start), int(end), written) or ""
                if fault:
                    report.refuse(place, fault, GSC_FORM)
                    continue
                ids = split_ids(raw_id, keep_prefixes=True)
                mention = Mention(written, ids, doc_id, type="Phenotype", raw_id=raw_id, place=place)
                mentions.append(locate(mention, text, (int(start), int(end))))
            corpus.add(part, doc_id.strip(), text, mentions)
    return corpus


def read_medmentions(originals: Originals) -> CorpusParts:
    """Read MedMentions: corpus_pubtator.txt with all documents, and lists of the PMIDs of each part."""
    matched = originals.match(MEDMENTIONS)
    report = originals.report
    texts = [file for match, file in matched if not match["part"]]
    lists = [(PART_NAMES[match["part"].lower()], file) for match, file in matched if match["part"]]
    if len(texts) != 1 or not lists:
        originals.refuse(MEDMENTIONS)
    part_of: dict[str, str] = {}
    for part, file in lists:
        for row in file.rows("a PMID, which one list has"):
            pmid = row.fields[0].strip()
            if part_of.setdefault(pmid, part) != part:
                row.refuse(f"the list of {part_of[pmid]} has the PMID {pmid} as well")
    corpus = CorpusParts({part: [] for part, _ in lists})
    for document in parse_pubtator(texts[0].lines(), texts[0].label, report):
        if document.doc_id in part_of:
            _add_pubtator(corpus, part_of[document.doc_id], document, texts[0])
        else:
            report.leave_out("documents that no list has", f"{document.place}, document {document.doc_id}")
    for pmid, part in part_of.items():
        if pmid not in corpus.texts[part]:
            report.note_odd("PMIDs of a list without a document", f"{part}: {pmid}")
    return corpus


def _add_pubtator(
    corpus: CorpusParts, part: str, document: PubTatorDocument, file: InputFile, types: Sequence[str] = ()
) -> None:
    """Add a document to a part, unless that has it already."""
    doc_id = document.doc_id
    report = file.report
    place = f"{document.place}, document {doc_id}"
    if doc_id in corpus.texts[part]:
        n = sum(len(fields) > RELATION_FIELDS for _, fields in document.lines)
        report.leave_out("documents that a part has twice", place)
        report.leave_out("mentions in documents that a part has twice", place, n)
        return
    if any(doc_id in texts for texts in corpus.texts.values()):
        report.note_odd("documents that two parts have", place)
    if document.title is None or document.abstract is None:
        report.note_odd("documents without a title or without an abstract", place)
    mentions = []
    text = document.text
    for place, fields in list_mention_lines(document, file.label, report):
        _, start, end, written, kind, raw_id, joined = (*map(str.strip, fields), "", "")[:7]
        if types and kind not in types:
            report.leave_out("mentions of other types", place)
            continue
        if fault := find_misfit(text, int(start), int(end), fields[3]):
            report.refuse(place, fault, FORM)
            continue
        parts = [part.strip() for part in joined.split("|")]
        # Where the counts differ, nobody can tell which part has which id.
        if not all(parts) or len(parts) != len(ANY_ID_SEPARATOR.split(raw_id)):
            parts = []
        mention = Mention(written, split_ids(raw_id), doc_id, type=kind, raw_id=raw_id, parts=parts, place=place)
        mentions.append(locate(mention, text, (int(start), int(end))))
        if mentions[-1].text != plain_text(fields[3]):
            report.note_odd("mentions with other spaces than their text, which is taken", place)
    corpus.add(part, doc_id, text, mentions)


def read_brat_corpus(originals: Originals) -> CorpusParts:
    """Read <document>.txt and <document>.ann. Folders are parts, such as train and test. A mention has the ids of its
    normalizations (lines with N), as written; mentions without one are left out."""

    def name(found: re.Match[str]) -> tuple[str, str]:
        folder = found["part"] or "documents"
        return PART_NAMES.get(folder.lower(), folder.replace("/", ".")), found["doc"]

    corpus = CorpusParts()
    left_out = "mentions that no line normalizes (NIL has to be written)"
    for part, doc_id, txt, ann in originals.find_pairs(BRAT, name, BRAT_FORM):
        text = txt.text()
        # Pieces with nothing but white space between them are one.
        annotations = (
            (found if tidy_pieces(text, found).pieces else replace(found, pieces=()), written)
            for found, written in parse_brat(text, ann.lines(), ann.label, ann.report)
        )
        _add_identified(corpus, part, doc_id, text, annotations, originals.report, left_out)
    return corpus


def _add_identified(
    corpus: CorpusParts,
    part: str,
    doc_id: str,
    text: str,
    annotations: Iterable[tuple[Annotation, str]],
    report: ExchangeReport,
    left_out: str,
) -> None:
    """Add a document with its mentions that have an id: without one, nobody has said what a mention means. Beside the
    annotations stand the mentions as they are written, which count for those in several pieces."""
    mentions = []
    plain = plain_text(text)
    for annotation, written in annotations:
        if annotation.kb_id:
            ids = split_ids(annotation.kb_id, keep_prefixes=True)
            mention = Mention(
                written, ids, doc_id, type=annotation.label, raw_id=annotation.kb_id, place=annotation.place
            )
            mentions.append(locate(mention, plain, *(annotation.pieces or [(annotation.start, annotation.end)])))
        else:
            report.leave_out(left_out, annotation.place)
    corpus.add(part, doc_id, text, mentions)


def read_prodigy_corpus(originals: Originals, *, id_key: str = ID_KEY) -> CorpusParts:
    """Read texts with spans, each with its id under `id_key`. Rejected and ignored examples are left out. A line is a
    document, or a piece of the document that its `doc_id` names, by itself or in its `meta`."""
    corpus = CorpusParts()
    report = originals.report
    left_out = f"spans without {id_key!r} (NIL has to be written)"
    for part, file in originals.find_parts(LINES).items():
        corpus.mentions[part] = []
        for doc_id, place, record in parse_prodigy(file.lines(), file.label, part, report):
            annotations = ((span, "") for span in parse_spans(record, id_key, place, report))
            _add_identified(corpus, part, doc_id, record["text"], annotations, report, left_out)
    return corpus


def read_docbin(originals: Originals) -> CorpusParts:
    """Read documents of spaCy."""
    corpus = CorpusParts()
    left_out = "entities without an id (NIL has to be written)"
    for part, file in originals.find_parts(DOCBIN).items():
        corpus.mentions[part] = []
        for number, doc in enumerate(parse_docs(file.read(), file.label, file.report), 1):
            doc_id = str(doc.user_data.get(DOC_ID) or f"{part}-{number}")
            doc_id = f"{doc_id}#{number}" if doc_id in corpus.texts[part] else doc_id
            place = f"{file.label}, document {doc_id}"
            spans = (*doc.ents, *doc.spans.get(OVERLAPPING, ()))
            values = ((span.start_char, span.end_char, span.label_, span.kb_id_) for span in spans)
            annotations = ((Annotation(*value, place), "") for value in values)
            _add_identified(corpus, part, doc_id, doc.text, annotations, file.report, left_out)
    return corpus


def read_uniform(originals: Originals) -> CorpusParts:
    """Read files that `convert` has written, with the text around each mention; or lines with a whole text and its
    `mentions`."""
    corpus = CorpusParts()
    for part, file in originals.find_parts(LINES).items():
        mentions = corpus.mentions[part]
        for number, line in file.lines():
            place = f"{file.label}, line {number}"
            is_text = WHOLE_TEXT.search(line)
            try:
                if is_text:
                    doc_id, text, annotations = parse_text(line)
                    corpus.add(part, doc_id, text, [replace(mention, place=place) for mention in annotations])
                else:
                    mentions += [replace(parse_mention(line), place=place)] if line.strip() else []
            except ValueError as error:
                file.report.refuse(place, str(error), TEXT_FORM if is_text else UNIFORM_FORM)
    return corpus


def read_mantra(originals: Originals) -> CorpusParts:
    """Read Mantra as it is released: <language>/<set>/<document>.txt and .ann."""

    def name(found: re.Match[str]) -> tuple[str, str]:
        # The set is named after the settings that its annotations were joined with: EMEA_ec22-cui-best_man.
        return LANGUAGES[found["language"].lower()], f"{found['set'].split('_ec')[0]}/{found['doc']}"

    corpus = CorpusParts()
    report = originals.report
    for language, doc_id, txt, ann in originals.find_pairs(MANTRA, name, BRAT_FORM):
        text = plain_text(txt.text())
        mentions = []
        for found, written in parse_brat(text, _read_notes(ann), f"{ann.label}, document {doc_id}", report):
            group = found.kb_id.rpartition(ID_SEPARATOR)[2]
            mention = Mention(written, split_ids(found.label), doc_id, type=group, place=found.place)
            mentions.append(locate(mention, text, *found.pieces))
        joined = list(_join_spans(mentions, report))
        corpus.add(language, doc_id, text, [mention for mention in joined if not mention.fragments])
        corpus.add(f"{language}_annotations", doc_id, text, mentions)
        for mention in joined:
            if mention.fragments:
                report.note_odd("mentions in several pieces, written to a part of their own", mention.place)
                corpus.mentions[f"{language}_discontinuous"].append(mention)
    return corpus


def _read_notes(file: InputFile) -> Iterator[tuple[int, str]]:
    """Read the lines of annotations. A note with a semantic group becomes a normalization, which `parse_brat` reads."""
    for number, line in file.lines():
        note = NOTE.fullmatch(line)
        if note or not line.startswith("#"):
            yield number, f"N\tReference {note[1]} {note[2]}" if note else line


def _join_spans(mentions: list[Mention], report: ExchangeReport) -> Iterable[Mention]:
    """Join the CUIs of a span in one mention."""
    joined: dict[tuple[object, ...], Mention] = {}
    for mention in mentions:
        key = (mention.start, mention.end, str(mention.fragments))
        other = joined.setdefault(key, mention)
        if other is not mention:
            report.note_odd("annotations joined with another one of the same span", mention.place)
            if set(mention.ids) <= set(other.ids):
                report.note_odd("annotations of the same span and concept as another one", mention.place)
            joined[key] = replace(other, ids=list(dict.fromkeys(other.ids + mention.ids)))
    return joined.values()


BC5CDR = r"(?:.*/)?CDR_(?P<part>Training|Development|Test)Set\.PubTator\.txt"
NCBI_DISEASE = r"(?:.*/)?NCBI(?P<part>train|develop|test)set_corpus\.txt"
ANY_PUBTATOR = r"(?P<part>.+?)(?:\.pubtator)?\.(?:txt|pubtator)"
FORMATS = {
    "bc5cdr-chemical": Format(
        partial(read_pubtator_corpus, pattern=BC5CDR, types=["Chemical"]), "CDR_TestSet.PubTator.txt"
    ),
    "bc5cdr-disease": Format(
        partial(read_pubtator_corpus, pattern=BC5CDR, types=["Disease"]), "CDR_TestSet.PubTator.txt"
    ),
    "brat": Format(
        read_brat_corpus, "<document>.txt and <document>.ann of your own, in a folder or in one for each part"
    ),
    "docbin": Format(read_docbin, "a file .spacy for each part"),
    "gsc": Format(read_gsc, "GSCplus_dev_gold.tsv of PhenoTagger's corpus.zip"),
    "jsonl": Format(
        read_uniform, "a file .jsonl for each part, as this command writes it, or of whole texts with their mentions"
    ),
    "mantra-brat": Format(read_mantra, "Mantra-GSC-brat.zip"),
    "medmentions": Format(read_medmentions, "corpus_pubtator.txt and the lists corpus_pubtator_pmids_test.txt"),
    "ncbi-disease": Format(partial(read_pubtator_corpus, pattern=NCBI_DISEASE), "NCBItestset_corpus.txt and so on"),
    "prodigy": Format(read_prodigy_corpus, "a file .jsonl for each part, of lines with text and spans"),
    "pubtator": Format(partial(read_pubtator_corpus, pattern=ANY_PUBTATOR), "a file .txt or .pubtator for each part"),
}
