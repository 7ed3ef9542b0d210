"""Find the places that call what only one place may call."""

import ast

from tests.house.count import Count
from tests.house.tree import Tree, is_in, last_name

ENTRY_FUNCTIONS = ("run_filter_plugins", "score", "dry_run_preemption", "apply_policies")
"""What an evaluation puts together (HOUSE.md, I1)."""

ENGINE = ("core.framework", "core.preemption")
"""Packages whose own use does not count: the entry functions are defined there, and the dry run uses them."""

BUDGET = ("WorkBudget", "WorkLimitReached")
"""A budget of work, and the exception of one that is spent (HOUSE.md, I4)."""

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
    """Count the modules that set a work budget, or say what it means that one is spent."""
    found = set()
    for module in tree.modules:
        caught = [node.type for _, node in module.nodes(ast.ExceptHandler) if node.type is not None]
        named = [call.func for _, call in module.nodes(ast.Call)]
        named += [one for node in caught for one in (node.elts if isinstance(node, ast.Tuple) else [node])]
        if any(last_name(one) in BUDGET for one in named) and not _defines(tree, module.name, BUDGET):
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


def _defines(tree: Tree, module: str, names: tuple[str, ...]) -> bool:
    return any(one.name == module and node.name in names for one, _, node in tree.classes())
