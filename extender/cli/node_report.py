"""One node of a decision: why that one, or why not; its pods, and how it compares with the best.

Rule: see `parts`.
"""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from extender.cli.report import FOUND_BY, Way, candidates_table, decided, facts, of_budgets, of_scores, said_by
from extender.cli.tables import Rows, amount, amounts, clock, indented, named, section, several, text
from extender.core.explain.schema import Decision, NodeShown, RunningPod

_ROLES = {"victim": "bold red", "reprieved": "green", "protected": "yellow", "kept": "dim"}

_ROLES_IN_WORDS = {
    "victim": "to be evicted",
    "reprieved": "reprieved (may be evicted, and stay)",
    "protected": "protected by a policy",
    "kept": "kept (not less important)",
}


def told(decision: Decision, node: NodeShown, way: Way) -> Iterator[RenderableType]:
    """`decision`: the whole one; `node`: with its pods."""
    yield text(f"{decision.id} {sentence(decision, node)}", "bold")
    yield Text()
    yield facts(decision, way)
    yield from _verdict(decision, node)
    if decision.verb == "prioritize":
        yield from _score(decision, node)
    if node.rank is not None:
        yield from _rank(decision, node)
    if node.allocatable:
        yield from _room(decision, node)
    if node.pods:
        yield from _pods(node)
    if node.budgets:
        yield from section("disruption budgets")
        yield of_budgets((node.name, one) for one in node.budgets)


def sentence(decision: Decision, node: NodeShown) -> str:
    """What became of the node."""
    pod, name = decision.pod, node.name
    match node.outcome:
        case "chosen":
            return f"{name} was chosen for {pod}: evicting {named(node.victims, 3)} makes room"
        case "beaten":
            return f"{name} was not chosen for {pod}: {_against_the_best(decision, node)}"
        case "ruledOut":
            return f"{name} was ruled out for {pod}: evicting {named(node.victims, 3)} {_forbidden(node.why)}"
        case "noRoom":
            gone = several(_evictable(node), "pod that may be evicted", "pods that may be evicted")
            why = f": {said_by(node.emptied)}" if node.emptied else ""
            return f"{pod} does not fit on {name}, not even with the {gone} gone{why}"
        case "noVictims":
            return f"nobody on {name} may be evicted for {pod}: {_why_nobody(node)}"
        case "scored" | "unscored":
            why = f": {node.why}" if node.why else ""
            return f"{name} scored {node.score} of 10 for {pod}{why}"
    return _SENTENCES.get(node.outcome, "{name}: {why}").format(pod=pod, name=name, why=node.why)


_SENTENCES = {
    "fits": "{pod} fits on {name} without evicting anybody",
    "accepted": "{pod} fits on {name}",
    "failed": "{pod} does not fit on {name} ({why}); evicting pods of lower priority would help",
    "unresolvable": "{pod} does not fit on {name} ({why}); no eviction that is allowed would help",
    "leftOut": "{name} was left out for {pod}: {why}",
    "rejected": "{name} was not answered for {pod}: {why}",
    "vetoed": "nobody on {name} is evicted for {pod}: {why}",
}
"""Outcome -> what became of such a node."""


def _why_nobody(node: NodeShown) -> str:
    protected = node.counts.get("protected", 0)
    if not protected:
        return "no pod there is of lower priority"
    return several(protected, "pod of lower priority is protected", "pods of lower priority are protected")


def _forbidden(why: str) -> str:
    return why if why.startswith("would ") else f"is forbidden: {why}"


def _evictable(node: NodeShown) -> int:
    return node.counts.get("victim", 0) + node.counts.get("reprieved", 0)


def _against_the_best(decision: Decision, node: NodeShown) -> str:
    best, criteria = decision.nodes[0].name, decision.ranking.criteria if decision.ranking else []
    if node.loses_by is None:
        return "it is the best candidate, and kube-scheduler was not told of it"
    if node.loses_by == "name":
        return f"it costs the same as {best}, whose name comes first"
    if node.loses_by == "named":
        return f"it costs the same as {best}, whose victims differ less from those that kube-scheduler chose"
    place = criteria.index(node.loses_by)
    return f"{best} is better by {node.loses_by}, {decision.nodes[0].shown[place]} against {node.shown[place]}"


# --- parts ------------------------------------------------------------------------------------------------------------


def _verdict(decision: Decision, node: NodeShown) -> Iterator[RenderableType]:
    """What the filters say, and of which plugins it is known that they let the pod pass."""
    found = node.filter
    if found is None:
        return
    yield from section("the filters" if decision.verb == "filter" else "the filters, before anybody is evicted")
    if found.code == "Success":
        yield indented(text(f"all let it pass: {', '.join(decision.filters)}", "green"))
        return
    yield indented(text(f"{said_by(found)} ({found.code})", "red"))
    if found.plugin in decision.filters:
        place = decision.filters.index(found.plugin)
        before, after = decision.filters[:place], decision.filters[place + 1 :]
        if before:
            yield indented(text(f"let it pass: {', '.join(before)}"))
        if after:
            yield indented(text(f"not asked then: {', '.join(after)}", "dim"))


def _score(decision: Decision, node: NodeShown) -> Iterator[RenderableType]:
    best = max(decision.nodes, key=lambda one: one.score or 0)
    yield from section("scores" if best.name == node.name else f"scores, beside {best.name}, which has the best")
    yield of_scores(decision, [node] if best.name == node.name else [best, node])


def _rank(decision: Decision, node: NodeShown) -> Iterator[RenderableType]:
    best = decision.nodes[0]
    beside = "" if best.name == node.name else f", beside {best.name}, which is the best"
    total = decision.ranking.candidates if decision.ranking else 0
    yield from section(f"number {node.rank} of {several(total, 'candidate')}{beside}")
    rows = [node] if best.name == node.name else [best, node]
    yield candidates_table(decision, rows)
    if node.loses_by is not None or total == 1:
        yield indented(text(decided(decision), "dim"))


def _room(decision: Decision, node: NodeShown) -> Iterator[RenderableType]:
    """What there is, and what the pod needs."""
    wanted = {**decision.incoming.requests, "pods": 1}
    yield from section("room")
    rows = []
    for name, allocatable in node.allocatable.items():
        used, freed = node.used.get(name, 0), node.freed.get(name, 0)
        left = allocatable - used + freed
        style = "bold red" if left < wanted.get(name, 0) else ""
        before = (text(amount(name, one)) for one in (allocatable, used, freed))
        needed = text(amount(name, wanted.get(name, 0)))
        rows.append((text(name), *before, text(amount(name, left), style), needed))
    yield Rows(("RESOURCE", "ALLOCATABLE", "USED", "FREED", "LEFT", "NEEDED"), rows)
    for pod in node.nominated:
        takes = f"takes {amounts(pod.requests)}" if pod.requests else "takes nothing"
        yield indented(text(f"{pod.key}, priority {pod.priority}, is nominated to this node and {takes}"))


def _pods(node: NodeShown) -> Iterator[RenderableType]:
    """Most important first; in which order they were put back."""
    yield from section(f"pods of {node.name}, most important first")
    counted = (f"{count} {_ROLES_IN_WORDS.get(role, role)}" for role, count in node.counts.items())
    yield indented(text(", ".join(counted), "dim"))
    rows = []
    for one in node.pods:
        values = (one.priority, clock(one.started or "not started"), amounts(one.requests), ", ".join(one.budgets))
        rows.append(
            (
                text(one.key),
                text(one.role, _ROLES.get(one.role, "")),
                text("" if one.order is None else one.order),
                *map(text, values),
                text("; ".join(_notes(one))),
            )
        )
    headers = ("POD", "ROLE", "PUT BACK", "PRIORITY", "STARTED", "REQUESTS", "BUDGETS", "NOTES")
    yield Rows(headers, rows, lead=2)
    if node.chosen_by:
        yield indented(text(f"victims: {FOUND_BY.get(node.chosen_by, node.chosen_by)}", "dim"))


def _notes(one: RunningPod) -> Iterator[str]:
    if one.violating:
        yield "its loss breaks a budget"
    if one.named:
        yield "kube-scheduler chose it"
    if one.leaving:
        yield "leaving already"
    yield from one.protected_by
