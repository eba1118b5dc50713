"""The pipeline component `mention_rules`: what words always mean, because somebody has said so. spaCy imports this
module in every process that makes a pipeline: nothing heavy may be imported at its top."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field
from spacy import util
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span
from typing_extensions import Self

from .annotations import NIL, RULE, Match, register_match, write_match
from .errors import DAMAGED, MISSING
from .files import pack_with, unpack_with, write_whole
from .hints import warn_of_misfits
from .lexicon.initialisms import OWN_CASE_LENGTH
from .settings import Settings, SettingsAttributes, with_settings
from .sharing import LinkerUser, find_pipelines, list_linkers

if TYPE_CHECKING:
    from .retrieval.filters import FilterTable

RULES_FILE = "rules.jsonl"
MOST_CHARACTERS = 200
# "mg" is not "Mg", but "Cold" begins a sentence.
LEAST_WORD = 3
# Ids that a message lists.
LISTED_IDS = 5
DEFAULT_LABEL = "CONCEPT"


def _clean_name(name: str) -> str:
    """Put single spaces between the words of a name."""
    words = " ".join(name.split())
    if not words:
        raise ValueError("words, and not white space only")
    return words


class MentionRule(Settings):
    """What words mean wherever they stand."""

    name: Annotated[str, AfterValidator(_clean_name)] = Field(
        max_length=MOST_CHARACTERS, description="The words. Case counts in names of few letters, and in capitals."
    )
    kb_id: str | None = Field(
        min_length=1,
        max_length=1000,
        description='The id of their concept, "NIL" for a mention without a concept, or null for no mention.',
    )
    author: str = Field(default="", max_length=100, description="Who has made the rule.")
    made: str = Field(default="", max_length=40, description="When, in the form of ISO 8601.")


class RuleSettings(Settings):
    """What entities rules make. All can be changed on a loaded component; the rules themselves are no settings."""

    linker: str = Field(default="sapbert_linker", description="The linker whose terminology has the ids of the rules.")
    label: str | None = Field(
        default=None,
        min_length=1,
        description="Label of new entities. By default they get the matcher's label, or else the one label that all "
        'other entities of the text share, or else "CONCEPT".',
    )


@Language.factory(
    "mention_rules",
    assigns=["doc.ents", "token.ent_type", "token.ent_iob", "token.ent_kb_id"],
    default_config=RuleSettings().to_dict(),
)
@with_settings(RuleSettings)
def make_mention_rules(nlp: Language, name: str, **settings: Any) -> MentionRules:
    """Create the component for a pipeline, in front of its linker and behind what finds mentions."""
    rules = MentionRules(name, **settings)
    rules.belong_to(nlp)
    return rules


class MentionRules(LinkerUser, SettingsAttributes[RuleSettings]):
    """Give words the concept that a rule says, or none, or take an entity of these words away.

    Sets `doc.ents`, with `ent.kb_id_`, and `span._.match`, which is "rule". Linkers and rerankers keep these ids, even
    with `overwrite`, and list their candidates as for other entities; `span._.kb_probability` is about what a reranker
    would have chosen. An entity that is longer than the words of a rule and contains them stays as it is; others that
    overlap them give way. Where rules overlap, the longest counts.
    """

    settings_class = RuleSettings
    kind = "rules"
    name: str = ""
    linker: str
    label: str | None

    def __init__(self, name: str = "mention_rules", **settings: Any) -> None:
        """Create the component, without rules.

        name (str): The component's name.
        **settings (Any): Those of `RuleSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        self._set_up(name, settings)
        # By key, in order. Replaced as a whole, so that each document meets the rules of one moment.
        self._rules: dict[str, MentionRule] = {}
        self._finder: _Finder | None = None
        register_match()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_finder": None}

    @property
    def rules(self) -> tuple[MentionRule, ...]:
        """The rules, in the order in which they were added."""
        return tuple(self._rules.values())

    def add(self, rules: Iterable[MentionRule]) -> None:
        """Add rules. One with the name of another takes its place. If one can't be used, none is added.

        rules (Iterable[MentionRule]): The rules, such as `MentionRule(name="cold", kb_id="C0009443")`.
        RAISES (ValueError): If the linker's terminology has no concept with the id of a rule.
        RAISES (TypeError): If something is no rule.
        """
        new = [*rules]
        for rule in new:
            if not isinstance(rule, MentionRule):
                raise TypeError(f"`add` takes a list of `MentionRule`, but one item is {rule!r:.100}.")
        for linker in list_linkers(self):
            if getattr(linker, "is_ready", False):
                _check_ids(new, linker.retriever.filters, linker.settings.output_source)
        self._replace({**self._rules, **{fold_name(rule.name): rule for rule in new}})

    def remove(self, names: Iterable[str]) -> None:
        """Remove rules. If there is none with one of the names, none is removed.

        names (Iterable[str]): The names of rules.
        RAISES (KeyError): If there is no rule with a name.
        RAISES (TypeError): If the names are one string.
        """
        if isinstance(names, str):
            raise TypeError("`remove` takes a list of names, but this is one string. Pass a list for one name as well.")
        listed = [*names]
        missing = [name for name in listed if fold_name(name) not in self._rules]
        if missing:
            raise KeyError(f"There is no rule with the name {missing[0]!r:.100}. `rules` lists all.")
        gone = {fold_name(name) for name in listed}
        self._replace({key: rule for key, rule in self._rules.items() if key not in gone})

    def _replace(self, rules: dict[str, MentionRule]) -> None:
        self._rules = rules
        self._finder = None

    def check_filters(self, filters: FilterTable) -> None:
        """Raise a ValueError if a terminology lacks the id of a rule."""
        sources = {linker.settings.output_source for linker in list_linkers(self) if hasattr(linker, "settings")}
        _check_ids(self.rules, filters, *sources)

    def __call__(self, doc: Doc) -> Doc:
        """Apply the rules to one document.

        doc (Doc): The document.
        RETURNS (Doc): The same document, with its entities changed.
        """
        hits = self.match(doc)
        if hits:
            self._apply(doc, hits)
        return doc

    def match(self, doc: Doc) -> list[tuple[Span, MentionRule]]:
        """Find the words of rules in a document, without changing it.

        doc (Doc): The document.
        RETURNS (list[tuple[Span, MentionRule]]): The words and the rule of each, in the order of the text. Of those
            that overlap, the longest, and the first of equally long ones.
        """
        rules = self._rules
        if not rules or not len(doc):
            return []
        pipelines = find_pipelines(self, [doc])
        tokenizer = pipelines[0].tokenizer if pipelines else None
        finder = self._finder
        if finder is None or finder.rules is not rules or finder.tokenizer is not tokenizer:
            self._finder = finder = _Finder(rules, tokenizer, doc)
        return finder.find(doc)

    def _apply(self, doc: Doc, hits: Sequence[tuple[Span, MentionRule]]) -> None:
        by_token = {token.i: ent for ent in doc.ents for token in ent}
        label = self._find_label(doc)
        new = []
        for span, rule in hits:
            present = {by_token[token.i].start: by_token[token.i] for token in span if token.i in by_token}
            ents = [*present.values()]
            if any(ent.start <= span.start and ent.end >= span.end and len(ent) > len(span) for ent in ents):
                continue
            same = next((ent for ent in ents if (ent.start, ent.end) == (span.start, span.end)), None)
            if rule.kb_id is None and same is None:
                continue
            for token in (token for ent in ents for token in ent):
                del by_token[token.i]
            if rule.kb_id is not None:
                chosen = same.label_ if same else label
                ent = Span(doc, span.start, span.end, label=chosen, kb_id=rule.kb_id)
                by_token |= dict.fromkeys(range(span.start, span.end), ent)
                new.append(ent)
        doc.ents = [*{ent.start: ent for ent in by_token.values()}.values()]
        for ent in new:
            write_match(ent, _describe(ent))

    def _find_label(self, doc: Doc) -> str:
        """Find the label of new entities."""
        if self._settings.label is not None:
            return self._settings.label
        parts: list[Any] = [part for nlp in find_pipelines(self, [doc]) for _, part in nlp.components]
        for part in parts:
            if isinstance(part, LinkerUser) and part.kind == "matcher" and part.linker == self._settings.linker:
                return str(getattr(part, "label", DEFAULT_LABEL))
        labels = {ent.label_ for ent in doc.ents}
        return labels.pop() if len(labels) == 1 else DEFAULT_LABEL

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save the rules to a folder, as lines of JSON.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used: there are no parts that could be left out.
        """
        write_rules(Path(path) / RULES_FILE, self.rules)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load the rules from a folder, in place of those that are there.

        path (str | Path): What `to_disk` has written.
        exclude (Iterable[str]): Not used.
        RETURNS (MentionRules): The component itself.
        RAISES (OSError): If the file is missing or damaged.
        """
        rules = read_rules(Path(path) / RULES_FILE)
        self._replace({fold_name(rule.name): rule for rule in rules})
        for linker in list_linkers(self):
            if hasattr(linker, "is_ready"):
                warn_of_misfits(linker, [self])
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise the rules.

        exclude (Iterable[str]): Not used.
        RETURNS (bytes): The file of the folder, packed.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load the rules from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RETURNS (MentionRules): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        RAISES (OSError): If the lines in them are.
        """
        return unpack_with(self.from_disk, bytes_data)


class _Finder:
    """Rules as spaCy's matcher has them, for texts of one tokenizer."""

    def __init__(self, rules: dict[str, MentionRule], tokenizer: Tokenizer | None, doc: Doc) -> None:
        self.rules, self.tokenizer = rules, tokenizer
        self._by_words: dict[str, list[MentionRule]] = {}
        self._matcher = PhraseMatcher(doc.vocab, attr="LOWER")
        for rule in rules.values():
            self._by_words.setdefault(rule.name.lower(), []).append(rule)
            words = _make_words(doc, rule.name.split()) if tokenizer is None else tokenizer(rule.name)
            self._matcher.add(rule.name, [words])

    def find(self, doc: Doc) -> list[tuple[Span, MentionRule]]:
        """Find the words of rules; of those that overlap, the longest."""
        # A line may end between two words.
        tokens = [token for token in doc if not token.is_space]
        words = doc if len(tokens) == len(doc) else _make_words(doc, [token.text for token in tokens])
        places = {(start, end) for _, start, end in self._matcher(words)}
        hits = []
        taken: set[int] = set()
        for start, end in sorted(places, key=lambda place: (place[0] - place[1], place[0])):
            span = doc[tokens[start].i : tokens[end - 1].i + 1]
            rule = self._choose(" ".join(span.text.split()))
            if rule is not None and taken.isdisjoint(range(start, end)):
                taken.update(range(start, end))
                hits.append((span, rule))
        return sorted(hits, key=lambda hit: hit[0].start)

    def _choose(self, words: str) -> MentionRule | None:
        """Choose the rule of words: rather one in whose case they are written."""
        fitting = [rule for rule in self._by_words.get(words.lower(), ()) if is_same_name(rule.name, words)]
        return min(fitting, key=lambda rule: not has_own_case(rule.name), default=None)


def _make_words(doc: Doc, words: list[str]) -> Doc:
    return Doc(doc.vocab, words)


def _describe(ent: Span) -> Match:
    return {
        "label": ent.label_,
        "how": RULE,
        "pieces": [],
        # Of no terminology, so that the linker searches as for words that nobody has found.
        "terminology": "",
        "names": [],
        "score": 1.0,
        "trust": 1.0,
    }


def has_own_case(name: str) -> bool:
    """Return whether a name is compared in its own case: "ALL" is not "all"."""
    return name.isupper() or sum(map(str.isalpha, name)) <= OWN_CASE_LENGTH


def fold_name(name: str) -> str:
    """Make what is equal for two names if they are the same to a rule."""
    words = " ".join(name.split())
    if not has_own_case(words):
        return words.lower()
    return _lower_first(words)


def is_same_name(name: str, words: str) -> bool:
    """Return whether words are those of a name, with single spaces between them in both."""
    if not has_own_case(name):
        return name.lower() == words.lower()
    return _lower_first(name) == _lower_first(words)


def _lower_first(words: str) -> str:
    """Put an ordinary word that begins a sentence in small letters."""
    is_word = sum(map(str.isalpha, words)) >= LEAST_WORD and words[1:] == words[1:].lower()
    return words[:1].lower() + words[1:] if is_word else words


def _check_ids(rules: Iterable[MentionRule], filters: FilterTable, *sources: str | None) -> None:
    """Refuse rules with ids that the mentions of a linker can't have."""
    ids = dict.fromkeys(rule.kb_id for rule in rules if rule.kb_id not in (None, NIL))
    wanted = [id_ for id_ in ids if id_ is not None]
    for source in sources or (None,):
        unknown = filters.find_unknown_ids(wanted, source)
        if unknown:
            listed = ", ".join(map(repr, unknown[:LISTED_IDS])) + (", ..." if len(unknown) > LISTED_IDS else "")
            what = "concept" if source is None else f"code in '{source}'"
            raise ValueError(f"Rules name {listed}, and the terminology has no {what} with such an id. Case counts.")


def read_rules(path: Path) -> list[MentionRule]:
    """Read a file of rules, one a line of JSON; OSError if it is missing or damaged."""
    if not path.is_file():
        raise FileNotFoundError(MISSING.format(path=path))
    rules: dict[str, MentionRule] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            rule = _read_rule(line)
        except (ValueError, RecursionError) as error:
            reason = f"line {number}: {error or type(error).__name__}"
            raise OSError(DAMAGED.format(path=path, reason=reason)) from error
        key = fold_name(rule.name)
        if key in rules:
            reason = f"line {number}: there is another rule with the name {rule.name!r:.100}"
            raise OSError(DAMAGED.format(path=path, reason=reason))
        rules[key] = rule
    return [*rules.values()]


def _read_rule(line: bytes) -> MentionRule:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"it is a {type(row).__name__}, not a rule")
    return MentionRule.read(row)


def write_rules(path: Path, rules: Iterable[MentionRule]) -> None:
    """Write a file of rules, completely or not at all."""
    rows = (rule.model_dump(exclude_defaults=True) for rule in rules)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    with write_whole(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf8", newline="\n")
