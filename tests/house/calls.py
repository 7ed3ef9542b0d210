"""Find the places that call what only one place may call."""

import ast

from tests.house.count import Count
from tests.house.tree import Tree, is_in, last_name

ENTRY_FUNCTIONS = ("run_filter_plugins", "score", "dry_run_preemption", "apply_policies")
"""What an evaluation puts together (HOUSE.md, I1)."""

ENGINE = ("core.framework", "core.preemption")
"""Packages whose own use does not count: the entry functions are defined there, and the dry run uses them."""

BUDGET, SPENT = "WorkBudget", "WorkLimitReached"
"""A budget of work, and the exception of one that is spent (HOUSE.md, I4)."""

LIMITS = "k8s.limits.limits"

JOURNAL_ENTRIES = ("KeptDecision", "BindLine", "PreemptLine", "CallLine", "AnsweredPreemption")
"""What decision log, audit log, recording and Events store of a call (HOUSE.md, I9)."""

JOURNAL = "server.scheduler.journal"


def entry_calls(tree: Tree) -> Count:
    """Count the functions and classes outside ENGINE that call an entry function."""
    found: dict[str, list[str]] = {}
    for module in tree.modules:
        for scope, call in module.nodes(ast.Call):
            name = last_name(call.func)
            if name in ENTRY_FUNCTIONS and not is_in(module.name, ENGINE):
                found.setdefault(f"{module.name}.{scope.partition('.')[0]}", []).append(name)
    return Count.of([f"{place}: {', '.join(names)}" for place, names in sorted(found.items())])


def entry_callers(tree: Tree) -> set[str]:
    """Return the modules that call an entry function, or import one, which they may call by another name."""
    calling = {place.partition(":")[0].rpartition(".")[0] for place in entry_calls(tree).items}
    engine = tuple(f"extender.{package}" for package in ENGINE)
    importing = {
        module.name
        for module in tree.modules
        for _, node in module.nodes(ast.ImportFrom)
        if is_in(node.module or "", engine) and any(one.name in ENTRY_FUNCTIONS for one in node.names)
    }
    return calling | {name for name in importing if not is_in(name, ENGINE)}


def work_budgets(tree: Tree) -> Count:
    """Count the modules that set a work budget, or answer without the text of the exception that one is spent."""
    found = set()
    for module in tree.modules:
        calls = any(last_name(call.func) == BUDGET for _, call in module.nodes(ast.Call))
        unread = [node.type for _, node in module.nodes(ast.ExceptHandler) if node.type and not node.name]
        caught = [one for node in unread for one in (node.elts if isinstance(node, ast.Tuple) else [node])]
        if calls or any(last_name(one) == SPENT for one in caught):
            found.add(module.name)
    return Count.of(sorted(found))


def journal_entries(tree: Tree) -> dict[str, set[str]]:
    """Return class of JOURNAL_ENTRIES -> modules that make one; those of a reader (`from_json`) make none."""
    made: dict[str, set[str]] = {name: set() for name in JOURNAL_ENTRIES}
    for module in tree.modules:
        for _, call in module.nodes(ast.Call):
            if (name := last_name(call.func)) in made:
                made[name].add(module.name)
    return made


def defined_classes(tree: Tree) -> set[str]:
    return {node.name for _, _, node in tree.classes()}
