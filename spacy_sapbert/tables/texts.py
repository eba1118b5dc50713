"""Read labels that are no names as texts: "Right pleural effusion with respiratory failure and dyspnea". A label is
divided into pieces, at signs and then at words such as "with", and each is looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..abbreviations.component import SchwartzHearst, make_schwartz_hearst
from ..annotations import get_sites, write_match
from ..candidates import Candidate
from ..context.labels import read_label_context, read_label_contexts
from ..lexicon.modifiers import Modifiers, find_strange_word, get_modifier_words, read_modifiers
from ..lexicon.scan import scan
from ..linker import SapbertLinker
from ..matcher import FixedMatcher, MatcherSettings, TerminologyMatcher
from ..text import NIL
from .labels import is_residual

if TYPE_CHECKING:
    from ..lexicon.mentions import Hit

# The length of labels whose pieces are compared. In longer ones, only names are looked for.
MOST_CHARACTERS = 1000
# Where labels are divided first, and then. Neither divides "1.5" and "well-known".
_STRONG = re.compile(r"\s*[;；|｜•]\s*|\.\s+|。")
# Signs without a space beside them, which would make one token of two names.
_TIGHT = re.compile(r"(?<=[^\W\d_]{2})\s*([/／+&;；|｜•\\，、。]|,,+)\s*(?=[^\W_])")
_WEAK = re.compile(r"\s*[,，、:：()（）\[\]\\]+\s*(?!\d)|\s+[-–—]+\s+")


class TextFinding(NamedTuple):
    """A finding in a label."""

    start: int  # in characters
    end: int
    candidate: Candidate
    is_name: bool = True  # whether a name is there, or a piece is near one by its vector
    context: str = ""  # the kind of a context, such as "negated"
    modifiers: Modifiers = Modifiers()
    strange: str = ""  # a word before it that may make another finding of it


class LabelPiece(NamedTuple):
    """A part of a label."""

    start: int
    end: int
    parts: Sequence[LabelPiece] = ()
    is_list: bool = False  # whether only "and" and the like stands between its parts


class LabelReader:
    """Find findings in labels, with the matcher of a pipeline, or with one of default settings.

    nlp (Language): The pipeline.
    linker (SapbertLinker): Its linker.
    decider (Any): What decides: the linker, or a reranker behind it.
    """

    def __init__(self, nlp: Language, linker: SapbertLinker, decider: Any) -> None:
        self._nlp, self._decider = nlp, decider
        parts: list[Any] = [part for _, part in nlp.pipeline]
        matchers = [part for part in parts if isinstance(part, TerminologyMatcher) and part.linker == linker.name]
        settings = matchers[0].settings if matchers else MatcherSettings(linker=linker.name)
        settings = settings.changed("labels", matches="separate", spans_key=None, proposed_labels=())
        of = linker.get_snapshot().retriever
        self._matcher = FixedMatcher(settings, of.lexicon, of.filters, linker.settings.make_filter())
        self._language = of.lexicon.language
        abbreviations = [part for part in parts if isinstance(part, SchwartzHearst)]
        self._abbreviations = abbreviations[0] if abbreviations else make_schwartz_hearst(nlp, "labels", None)
        self._words = get_modifier_words(self._language.code)
        bags = of.lexicon.bags
        self._generic = {*bags.generic.tolist(), *self._language.abnormal.tolist()}

    def read(self, labels: Sequence[str], best: Sequence[Candidate | None]) -> list[list[TextFinding]]:
        """Find what labels say, in the order of their words. `best` is what each one is near as a whole."""
        labels = [_TIGHT.sub(r" \1 ", label).replace("_", " ") for label in labels]
        if not labels:
            return []
        docs = [self._abbreviations(self._nlp.make_doc(label)) for label in labels]
        named = [[self._mark(span, hit) for span, hit in of_doc] for of_doc in self._matcher.find(docs)]
        wholes = [self._divide(label) for label in labels]
        # In documents of their own, because a mention with a match is compared with nothing else.
        plain = [self._abbreviations(self._nlp.make_doc(label)) for label in labels]
        pieces = [
            [_take(doc, piece) for piece in _list_pieces(whole) if piece.end <= MOST_CHARACTERS]
            for doc, whole in zip(plain, wholes, strict=True)
        ]
        asked = [span for pair in zip(named, pieces, strict=True) for of in pair for span in of]
        decisions = self._decider.decide_spans(asked)
        decided = zip(decisions.candidates, decisions.kb_ids, strict=True)
        read = []
        for label, of_name, of_piece, whole, candidate in zip(labels, named, pieces, wholes, best, strict=True):
            names = [*filter(None, (self._make_name(span, *next(decided)) for span in of_name))]
            near = [*filter(None, (self._make_near(span, *next(decided)) for span in of_piece))]
            if candidate is not None:
                near.append(TextFinding(whole.start, whole.end, candidate, is_name=False))
            complete = self._complete_names(label, names)
            chosen = self._choose(label, whole, complete, [self._add_context(label, one) for one in near])
            read.append([one if one.is_name else self._add_modifiers(label, one) for one in chosen])
        return read

    def _divide(self, label: str) -> LabelPiece:
        """Divide a label into pieces, and these into smaller ones."""
        if len(label) > MOST_CHARACTERS:
            return LabelPiece(0, len(label))
        words = [self._words.joints, self._words.lists] if self._words else []
        return _divide(label, 0, len(label), [_STRONG, _WEAK, *words])

    def _mark(self, span: Span, hit: Hit) -> Span:
        """Write to a document how a mention was found, which a reranker weighs."""
        write_match(span, self._matcher.describe(hit, span))
        return span

    def _make_name(self, span: Span, candidates: list[Candidate], kb_id: str) -> TextFinding | None:
        """Make a finding of a name in a label; None if it means nothing, or says only how another finding is."""
        if kb_id in ("", NIL) or (self._words and self._words.are_neutral(span.text)):
            return None
        if is_residual(candidates[0]["name"]) != is_residual(span.text):
            return None
        sites = get_sites(span)
        words = self._words.find_sites(sites[0][0]) if sites and self._words else set()
        modifiers = Modifiers(site=min(words, default=""))
        return TextFinding(span.start_char, span.end_char, candidates[0], modifiers=modifiers)

    def _make_near(self, span: Span, candidates: list[Candidate], kb_id: str) -> TextFinding | None:
        """Make a finding of a piece of a label that has the words of a name, in any order and with neutral ones."""
        if kb_id in ("", NIL) or is_residual(candidates[0]["name"]) != is_residual(span.text):
            return None
        candidate = candidates[0]
        mention = candidate["mention"]
        rest = self._words.leave_out_neutral(mention) if self._words else mention
        name = self._read_words(candidate["name"])
        is_name = self._read_words(rest) - self._generic <= name <= self._read_words(mention)
        return TextFinding(span.start_char, span.end_char, candidate, is_name=False) if is_name and rest else None

    def _read_words(self, text: str) -> set[int]:
        return {*scan(text, self._language).read_content().hashes.tolist()}

    def _complete_names(self, text: str, findings: list[TextFinding]) -> list[TextFinding]:
        """Say what the words around names say of them."""
        code = self._language.code
        places = [(finding.start, finding.end) for finding in findings]
        contexts = read_label_contexts(text, places, self._language)
        # A word of another name makes no other finding: "fever cough".
        ends = [max((end for _, end in places if end <= start), default=0) for start, _ in places]
        listed = zip(findings, contexts, read_modifiers(text, places, code), ends, strict=True)
        complete = []
        for finding, context, of, end in listed:
            # "Pain in the left knee" is a mention of knee pain.
            [inside] = read_modifiers(text[finding.start : finding.end], [(0, 0)], code)
            said = Modifiers(of.side or inside.side, of.severity or inside.severity, finding.modifiers.site or of.site)
            modifiers = self._leave_out_own(said, finding.candidate)
            strange = find_strange_word(text[end:], finding.start - end, code)
            # The "no" of "no fever" is a context, and makes no other finding.
            if context and read_label_context(f"{strange} {text[finding.start : finding.end]}", self._language):
                strange = ""
            complete.append(finding._replace(context=context, strange=strange, modifiers=modifiers))
        return complete

    def _add_context(self, text: str, finding: TextFinding) -> TextFinding:
        """Say what a piece says of the concept that it is near."""
        start = finding.start
        end = finding.end
        inside = read_label_context(text[start:end], self._language)
        is_whole = end - start == len(text)
        [context] = [""] if is_whole else read_label_contexts(text, [(start, end)], self._language)
        return finding._replace(context=inside.kind if inside else context)

    def _add_modifiers(self, text: str, finding: TextFinding) -> TextFinding:
        """Say how the concept that a piece is near is."""
        [modifiers] = read_modifiers(text, [(finding.start, finding.start)], self._language.code)
        return finding._replace(modifiers=self._leave_out_own(modifiers, finding.candidate))

    def _leave_out_own(self, modifiers: Modifiers, candidate: Candidate) -> Modifiers:
        """Leave out what a concept's own name says."""
        names = candidate["name"].lower(), candidate["canonical_name"].lower()
        own = self._words.find_sites(*names) if self._words else set()
        return Modifiers(*("" if value in own or value in names[0] else value for value in modifiers))

    def _choose(
        self, text: str, whole: LabelPiece, names: Sequence[TextFinding], pieces: Sequence[TextFinding]
    ) -> list[TextFinding]:
        """Choose what a label says: what its pieces say if that is several things, or else what it says as a whole."""
        near = {(finding.start, finding.end): finding for finding in pieces}

        def resolve(piece: LabelPiece) -> list[TextFinding]:
            inside = [one for one in names if _is_inside(one, piece)]
            own = [one for one in inside if not any(_is_inside(one, part) for part in piece.parts)]
            below = [one for part in piece.parts for one in resolve(part)]
            # "Pyelonephritis with acute respiratory failure" is no acute pyelonephritis.
            own = [one for one in own if len(_list_distinct(_take_overlapping(below, one))) < 2]
            below = [one for one in below if not any(_take_overlapping(own, one))]
            listed = _list_distinct([*own, *below])
            whole_piece = near.get((piece.start, piece.end))
            sure = [one for one in listed if not one.strange and not one.context]
            if whole_piece is None or len(sure) > 1:
                return listed
            is_one = piece is whole and (not piece.parts or piece.is_list)
            is_less = is_one and not (sure and self._says_all(text, piece, sure[0]))
            if not sure or is_less or self._says_more(whole_piece, listed):
                return [whole_piece]
            return listed

        return resolve(whole)

    def _says_all(self, text: str, piece: LabelPiece, name: TextFinding) -> bool:
        """Return whether a piece has only a name and words that say nothing of which finding it is."""
        before, behind = text[piece.start : name.start], text[name.end : piece.end]
        return self._words is not None and self._words.are_neutral(f"{before} {behind}")

    def _says_more(self, near: TextFinding, names: Sequence[TextFinding]) -> bool:
        """Return whether the concept that a piece is near has more words of the piece than the names in it, and no
        others."""
        name = self._read_words(near.candidate["name"])
        mention = self._read_words(near.candidate["mention"])
        spoken = [self._read_words(one.candidate["mention"]) for one in names if not one.strange]
        return name <= mention and len(name) > max(map(len, spoken), default=0)


def _divide(text: str, start: int, end: int, borders: Sequence[re.Pattern[str]]) -> LabelPiece:
    """Divide a part of a text at the first borders that it has, and its parts at the next ones."""
    for number, border in enumerate(borders):
        spans = [match.span() for match in border.finditer(text, start, end)]
        if spans:
            starts = [start, *(after for _, after in spans)]
            ends = [*(before for before, _ in spans), end]
            places = [place for place in zip(starts, ends, strict=True) if place[0] < place[1]]
            parts = [_divide(text, *place, borders[number + 1 :]) for place in places]
            return LabelPiece(start, end, parts, is_list=number == len(borders) - 1)
    return LabelPiece(start, end)


def _list_pieces(piece: LabelPiece) -> Iterator[LabelPiece]:
    yield piece
    for part in piece.parts:
        yield from _list_pieces(part)


def _take(doc: Doc, piece: LabelPiece) -> Span:
    """Take a piece of a label as a mention."""
    tokens = [token.i for token in doc if token.idx < piece.end and token.idx + len(token) > piece.start]
    return Span(doc, tokens[0], tokens[-1] + 1)


def _is_inside(finding: TextFinding, piece: LabelPiece) -> bool:
    return piece.start <= finding.start and finding.end <= piece.end


def _take_overlapping(findings: Sequence[TextFinding], other: TextFinding) -> list[TextFinding]:
    return [finding for finding in findings if finding.start < other.end and other.start < finding.end]


def _list_distinct(findings: Sequence[TextFinding]) -> list[TextFinding]:
    """List findings in the order of the text, of each concept the first."""
    ordered = sorted(findings, key=lambda finding: (finding.start, -finding.end))
    firsts: dict[str, TextFinding] = {}
    for finding in ordered:
        firsts.setdefault(finding.candidate["id"], finding)
    return [*firsts.values()]
