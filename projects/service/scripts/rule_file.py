"""The rules of a service: a file of its folder, and the component that applies them in the pipeline that is served."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from spacy.language import Language
from worker import Served
from workspace import Workspace

from spacy_sapbert.files import lock_folder
from spacy_sapbert.rules import RULES_FILE, MentionRule, MentionRules, fold_name, read_rules, write_rules


class UnreadableRules(OSError):
    """The file of rules is damaged, or may not be read."""


class RuleFile:
    """Rules that are kept in the folder of a service. Until somebody changes one, those of the pipeline count."""

    def __init__(self, workspace: Workspace) -> None:
        self.path: Path | None = None if workspace.folder is None else workspace.folder / RULES_FILE

    def read(self, served: Served) -> list[MentionRule]:
        """Read the rules that count."""
        if self.path is None or not self.path.exists():
            return list_served_rules(served)
        return _read(self.path)

    def change(
        self, served: Served, add: Sequence[MentionRule], remove: Sequence[str], seconds: float
    ) -> list[MentionRule]:
        """Add and remove rules in the file, and return those that were there before."""
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(self.path.parent, f".{self.path.name}.lock", timeout=seconds):
            rules = {fold_name(rule.name): rule for rule in self.read(served)}
            for name in remove:
                if fold_name(name) not in rules:
                    raise KeyError(f"There is no rule with the name '{name}'. Somebody else may have removed it.")
            keys = [*map(fold_name, [*remove, *(rule.name for rule in add)])]
            before = [rules[key] for key in keys if key in rules]
            for name in remove:
                rules.pop(fold_name(name), None)
            rules |= {fold_name(rule.name): rule for rule in add}
            write_rules(self.path, rules.values())
        return before

    def apply(self, served: Served) -> None:
        """Let the pipeline have the rules of the file. Those whose ids its terminology lacks are left out."""
        if self.path is None or not self.path.exists():
            return
        rules = _read(self.path)
        component = find_component(served.nlp)
        if component is None:
            if not rules:
                return
            linker = next(name for name, part in served.nlp.pipeline if part is served.linker)
            served.nlp.add_pipe("mention_rules", before=linker, config={"linker": linker})
            component = find_component(served.nlp)
            assert component is not None
        component.remove([rule.name for rule in component.rules])
        left_out = _add(component, rules)
        if left_out:
            warnings.warn(
                f"{left_out} of {len(rules)} rules in '{self.path}' do not apply, because the terminology lacks their "
                "ids. The page lists them.",
                stacklevel=2,
            )


def _read(path: Path) -> list[MentionRule]:
    try:
        return read_rules(path)
    except OSError as error:
        raise UnreadableRules(str(error)) from error


def _add(component: MentionRules, rules: Sequence[MentionRule]) -> int:
    """Add the rules whose ids the terminology has, and count the others."""
    try:
        # At once, because each call takes as long as there are rules.
        component.add(rules)
    except ValueError:
        half = len(rules) // 2
        return _add(component, rules[:half]) + _add(component, rules[half:]) if half else 1
    return 0


def find_component(nlp: Language) -> MentionRules | None:
    """Find the component that applies rules."""
    return next((part for _, part in nlp.pipeline if isinstance(part, MentionRules)), None)


def list_served_rules(served: Served) -> list[MentionRule]:
    """List the rules that a pipeline has."""
    component = find_component(served.nlp)
    return [] if component is None else [*component.rules]
