"""The lists that only shrink: what does not follow an invariant of HOUSE.md yet, or for a reason never will."""

from collections.abc import Callable

from tests.house import calls, classes
from tests.house.tree import Tree


def _names(items: list[str]) -> set[str]:
    return {item.partition(":")[0] for item in items}


SECTIONS: dict[str, Callable[[Tree], set[str]]] = {
    "entry_callers": calls.entry_callers,
    "wide_classes": lambda tree: _names(classes.wide_classes(tree).items),
}
"""Section of exceptions.toml -> what the tree has."""

HEADINGS = {
    "entry_callers": "I1: only core.evaluation calls run_filter_plugins, score, dry_run_preemption and apply_policies.",
    "wide_classes": "I7: no class has more than 12 fields, but for schemas and tables.",
}

ALLOWED = {"entry_callers": {"core.evaluation"}}
"""Section -> what the invariant itself allows."""


def found(tree: Tree, section: str) -> set[str]:
    """Return what does not follow the invariant."""
    return SECTIONS[section](tree) - ALLOWED.get(section, set())
