"""Decide what a label is linked to: by its code, as a name, by its vector, or by what it says as a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from spacy.language import Language

from ..candidates import Candidate
from ..context.labels import LabelContext, read_label_context
from ..lexicon.languages import get_language
from ..lexicon.modifiers import Modifiers
from ..lexicon.scan import key_texts
from ..linker import SapbertLinker
from ..sharing import Decider, LinkerUser
from ..terminology.codes import LESSER_SCOPES
from ..text import NIL
from .codes import CodeMatch, find_codes
from .labels import Label, is_residual, read_label, split_codes
from .texts import LabelReader, TextFinding

REPAIRED = "characters repaired"
# What stands between several names in a cell.
_BETWEEN = re.compile(r"\s*[;|；｜、/／+\\]\s*")
# What stands between the items of a label, names or not.
_ITEMS = re.compile(r"\s*[,;|/+]\s*")


class Answer(NamedTuple):
    """What a label, or one of several names in it, is linked to."""

    chosen: Candidate | None
    how: str
    others: dict[str, str]  # ids and canonical names of other concepts
    notes: Sequence[str] = ()
    second: Candidate | None = None
    why: str = ""  # why the second one was not taken
    context: str | None = None
    modifiers: Modifiers = Modifiers()


class LabelQuestion(NamedTuple):
    """A label with what was looked up for it."""

    label: Label
    form: str  # what is left of it
    named: list[Candidate]  # the concepts with this name
    coded: list[list[Candidate]]  # the concepts with each of its codes
    notes: list[str]
    candidates: list[Candidate]  # what it may mean, best first
    kb_id: str
    context: LabelContext | None
    parts: list[tuple[str, list[Candidate]]]  # of a list of names, each with its concepts

    @property
    def best(self) -> Candidate | None:
        """The best candidate, if that is good enough."""
        return None if self.kb_id in ("", NIL) else self.candidates[0]

    @property
    def near(self) -> Candidate | None:
        """The best candidate, unless one of it and the label is what is left of a class and the other is not."""
        is_alike = self.best is None or is_residual(self.form) == is_residual(self.best["name"])
        return self.best if is_alike else None


class LabelLinker:
    """Link labels with a pipeline.

    nlp (Language): The pipeline.
    linker (SapbertLinker): Its linker. A reranker behind it decides, if there is one.
    exact (bool): As in `link_table`, like the others.
    n_candidates (int): How many candidates to list.
    any_context (bool): Whether to link labels that are about something else.
    """

    def __init__(self, nlp: Language, linker: SapbertLinker, exact: bool, n_candidates: int, any_context: bool) -> None:
        self._linker, self._exact = linker, exact
        self._n_candidates, self._any_context = n_candidates, any_context
        parts: list[Any] = [part for _, part in nlp.pipeline]
        deciders = [part for part in parts if isinstance(part, LinkerUser) and isinstance(part, Decider)]
        self._decider: Any = next((part for part in deciders if part.linker == linker.name), linker)
        self._fixed = linker.fixed()
        self._terminology = linker.terminology
        codes = linker.retriever.filters.list_languages()
        self._languages = [*dict.fromkeys(map(get_language, codes))]
        self._reader = None if exact else LabelReader(nlp, linker, self._decider)
        # Those that have been looked up.
        self._codes: dict[str, CodeMatch] = {}

    def link(self, pairs: Sequence[tuple[str, str]]) -> list[list[Answer]]:
        """Link labels, each given with its cell in a column of codes. `look_up_codes` comes first."""
        questions = self._ask(pairs)
        answers = [
            self._answer_codes(question) or self._answer_names(question) or [self._answer(question)]
            for question in questions
        ]
        if self._reader is None:
            return answers
        is_open = [_is_open(question, of[0]) for question, of in zip(questions, answers, strict=True)]
        open_ones = [question for question, is_one in zip(questions, is_open, strict=True) if is_one]
        # What a label about something else is near says nothing of it.
        best = [None if one.context and not self._any_context else one.near for one in open_ones]
        findings = iter(self._reader.read([one.form for one in open_ones], best))
        return [
            self._combine(question, of[0], next(findings)) if is_one else of
            for question, of, is_one in zip(questions, answers, is_open, strict=True)
        ]

    def look_up_codes(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Find the concepts of all codes of a table at once, because each search reads the whole terminology."""
        codes = {code for label, cell in pairs for code in self._read(label, cell).codes}
        self._codes |= find_codes(self._terminology, codes - self._codes.keys())

    def _read(self, label: str, cell: str) -> Label:
        """Read a label, and what a column of codes says of it."""
        read = read_label(label, self._terminology)
        return read._replace(codes=self._split_codes(cell) or read.codes)

    def _ask(self, pairs: Sequence[tuple[str, str]]) -> list[LabelQuestion]:
        """Look up what labels may stand for."""
        labels = [self._read(*pair) for pair in pairs]
        named = self._name(chain.from_iterable(label.forms for label in labels))
        # If the label is a name with all that it has, nothing is left out.
        forms = [next((form for form in label.forms if named[form]), label.forms[-1]) for label in labels]
        contexts = [None if named[form] or is_residual(form) else self._read_context(form) for form in forms]
        if self._any_context:
            both = zip(contexts, forms, strict=True)
            forms = [of.finding if of and not self._names_more(form, of.finding) else form for of, form in both]
            named |= self._name(forms)
        lists = {form: _split(form) for form in forms if not named[form]}
        of_parts = self._name(chain.from_iterable(lists.values()))
        decided = self._decide(forms)
        questions = []
        for label, form, context in zip(labels, forms, contexts, strict=True):
            coded, notes = self._describe_codes(label.codes)
            parts = [(part, of_parts[part]) for part in lists.get(form, ())]
            candidates, kb_id = decided.get(form, ([], ""))
            questions.append(LabelQuestion(label, form, named[form], coded, notes, candidates, kb_id, context, parts))
        return questions

    def _split_codes(self, cell: str) -> list[str]:
        """Split the codes in a cell. An id may have the signs that join codes."""
        return split_codes(cell) if self._terminology.find_row(cell) is None else [cell]

    def _name(self, texts: Iterable[str]) -> dict[str, list[Candidate]]:
        """Find the concepts that have texts as names; those by a name in the proper sense come first."""
        distinct = list(dict.fromkeys(texts))
        named = self._fixed.find_named(distinct)
        return {text: sorted(of, key=lambda one: not _is_proper(one)) for text, of in zip(distinct, named, strict=True)}

    def _names_more(self, form: str, finding: str) -> bool:
        """Return whether an item of a label is a name, beside the finding that a context is about."""
        return any(named for item, named in self._name(_ITEMS.split(form)).items() if item != finding)

    def _decide(self, forms: Sequence[str]) -> dict[str, tuple[list[Candidate], str]]:
        if self._exact and not self._n_candidates:
            return {}
        distinct = list(dict.fromkeys(forms))
        decisions = self._decider.decide(distinct)
        return dict(zip(distinct, zip(decisions.candidates, decisions.kb_ids, strict=True), strict=True))

    def _read_context(self, label: str) -> LabelContext | None:
        """Read what a label that is no name says of a finding, in the first language in which it says something."""
        return next(filter(None, (read_label_context(label, language) for language in self._languages)), None)

    def _describe_codes(self, codes: Sequence[str]) -> tuple[list[list[Candidate]], list[str]]:
        """Describe the concepts of each code that has some, and say what there is to say of these."""
        coded = []
        notes = []
        for code in codes:
            match = self._codes[code]
            of_code = self._fixed.describe_concepts(code, match.rows)
            coded += [of_code] if of_code else []
            if match.note:
                notes.append(match.note)
            elif not match.rows:
                notes.append(f"{code} is no id here")
            elif len(of_code) == 1:
                notes.append(f"{code} is the id of {of_code[0]['canonical_name']}")
            if match.rows and not of_code:
                notes.append(f"{code} is outside of the linker's filters")
            elif len(of_code) > 1:
                notes.append(f"{code} is a code of {len(of_code)} concepts")
        return coded, notes

    def _answer_codes(self, question: LabelQuestion) -> list[Answer]:
        """Answer with the concepts of several codes, if each has one."""
        firsts = {of[0]["id"]: of[0] for of in question.coded}
        if len(firsts) < 2 or any(len(of) > 1 for of in question.coded):
            return []
        notes = self._list_notes(question)
        return [Answer(one, "code", {}, notes) for one in firsts.values()]

    def _answer_names(self, question: LabelQuestion) -> list[Answer]:
        """Answer with the concepts of a list of names; with none if it is no such list."""
        chosen = [self._choose_common(text, of, of[0]) for text, of in question.parts if of]
        firsts = {one["id"]: one for one in chosen}
        is_about_else = question.context is not None and not self._any_context
        if len(firsts) < 2 or question.coded or is_about_else:
            return []
        named = [of for _, of in question.parts]
        if self._exact and not all(len(_list_proper(of)) == 1 for of in named):
            every = (one for of in named for one in _list_proper(of))
            return [Answer(None, "several concepts", {one["id"]: one["canonical_name"] for one in every})]
        if not all(named):
            return []
        context = question.context.kind if question.context else None
        notes = self._list_notes(question)
        return [
            Answer(one, "names", {other["id"]: other["canonical_name"] for other in of}, notes, context=context)
            for one, of in zip(chosen, named, strict=True)
            if firsts[one["id"]] is one
        ]

    @staticmethod
    def _list_notes(question: LabelQuestion) -> list[str]:
        notes = [REPAIRED] if question.label.is_repaired else []
        if question.form not in ("", question.label.forms[0]):
            notes.append(f"looked up as {question.form!r}")
        return notes + question.notes

    def _answer(self, question: LabelQuestion) -> Answer:
        """Answer with one concept, or none."""
        chosen, how = self._choose(question)
        named = question.named
        notes = self._list_notes(question)
        if chosen and how in ("name", "form of a name") and not _is_proper(chosen):
            notes.append(f"a {chosen['term_type']} synonym")
        if chosen and how == "code" and named:
            notes.append(f"the words are a name of {named[0]['id']} {named[0]['canonical_name']}")
        coded = chain.from_iterable(question.coded if how == "several concepts" else ())
        listed = *coded, *_list_proper(question.named), *question.candidates[: self._n_candidates]
        others = {one["id"]: one["canonical_name"] for one in listed}
        context = question.context.kind if question.context else None
        answer = Answer(chosen, how, others, notes, context=context)
        return self._add_second(answer, question)

    def _choose(self, question: LabelQuestion) -> tuple[Candidate | None, str]:
        """Choose a label's concept: the one its code stands for, one that it is a name of, or the best candidate."""
        same = _list_proper(question.named)
        is_rest = is_residual(question.form)
        if question.coded:
            coded = {one["id"]: one for of_code in question.coded for one in of_code}
            both = [one for one in question.named if one["id"] in coded]
            if both:
                return both[0], _say_name(both[0], question.form)
            if len(coded) == 1:
                return next(iter(coded.values())), "code"
            if not same:
                return None, "several concepts"
        if self._exact and len(same) > 1:
            return None, "several concepts"
        if question.context and not self._any_context:
            return None, "context"
        chosen = same[0] if self._exact and same else None if self._exact else question.best
        if chosen is None:
            return None, "residual class" if is_rest else "no name" if question.form else "empty"
        if any(chosen["id"] == one["id"] for one in question.named):
            common = self._choose_common(question.form, question.named, chosen)
            common = next((one for one in question.candidates if one["id"] == common["id"]), common)
            return common, _say_name(common, question.form)
        return (chosen, "vectors") if question.near else (None, "residual class")

    def _choose_common(self, form: str, named: list[Candidate], chosen: Candidate) -> Candidate:
        """Choose among the concepts of one name: those that it is the canonical name of come first, and then the one
        with the most names, because the rarest one is hardly meant."""
        same = _list_proper(named)
        ids = {one["id"] for one in same}
        if len(ids) < 2 or chosen["id"] not in ids:
            return chosen
        names = [form, *(one["canonical_name"] for one in same)]
        own, *canonical = key_texts(names, self._linker.retriever.lexicon.language).tolist()
        is_canonical = {one["id"]: key == own for one, key in zip(same, canonical, strict=True)}

        def rank(one: Candidate) -> tuple[bool, int, bool]:
            id_ = one["id"]
            return is_canonical[id_], self._count_names(one), id_ == chosen["id"]

        return max(same, key=rank)

    def _count_names(self, candidate: Candidate) -> int:
        row = self._terminology.row(candidate["concept_id"])
        return int(self._terminology.name_offsets[row + 1] - self._terminology.name_offsets[row])

    def _add_second(self, answer: Answer, question: LabelQuestion) -> Answer:
        """Add the concept that comes next, and why it was not taken."""
        chosen = answer.chosen
        listed = [*question.named, *question.candidates]
        second = next((one for one in listed if chosen is None or one["id"] != chosen["id"]), None)
        if second is None:
            return answer
        if not any(second["id"] == one["id"] for one in question.named):
            score = (
                f"probability {second['probability']:.2f}"
                if "probability" in second
                else f"score {second['score']:.2f}"
            )
            return answer._replace(second=second, why=score)
        if not _is_proper(second):
            return answer._replace(second=second, why=f"the name is a {second['term_type']} synonym of it")
        why = f"it has this name, too, and {self._count_names(second)} in all"
        if chosen:
            why += f"; the chosen one has {self._count_names(chosen)}"
        return answer._replace(second=second, why=why)

    def _combine(self, question: LabelQuestion, answer: Answer, findings: Sequence[TextFinding]) -> list[Answer]:
        """Answer with what a label says as a text."""
        links = [one for one in findings if not one.strange and (self._any_context or not one.context)]
        ids = {one.candidate["id"] for one in links}
        others = dict(answer.others)
        others |= {one.candidate["id"]: one.candidate["canonical_name"] for one in findings if one not in links}
        if not links:
            context = next((one.context for one in findings if one.context), None)
            how = "context" if context else "no name" if answer.how != "residual class" else answer.how
            return [answer._replace(chosen=None, how=how, others=others, context=context or answer.context)]
        if len(links) == 1 and answer.chosen and ids == {answer.chosen["id"]}:
            [one] = links
            return [answer._replace(others=others, context=one.context or None, modifiers=one.modifiers)]
        return [
            Answer(one.candidate, "text", others, answer.notes, context=one.context or None, modifiers=one.modifiers)
            for one in links
        ]


def _is_open(question: LabelQuestion, answer: Answer) -> bool:
    """Return whether a label may say more as a text: not what is a name or a code, and not what is left of a class."""
    is_answered = answer.how in ("name", "form of a name", "code", "names", "empty")
    return bool(question.form) and not is_answered and not is_residual(question.form)


def _split(form: str) -> list[str]:
    """Split a list of names in a cell."""
    parts = [part for part in _BETWEEN.split(form) if part]
    return parts if len(parts) > 1 else []


def _list_proper(named: list[Candidate]) -> list[Candidate]:
    """List the concepts with a name in the proper sense, or else those with a RELATED synonym."""
    return [*filter(_is_proper, named)] or named


def _say_name(chosen: Candidate, form: str) -> str:
    return "name" if chosen["name"].casefold() == form.casefold() else "form of a name"


def _is_proper(candidate: Candidate) -> bool:
    return candidate["term_type"].partition(" ")[0] not in LESSER_SCOPES
