"""Render one node of a decision: its outcome, filter status, scores or rank beside the best node, resources and pods.

Rule: names and messages are printed through `tables.text`, so that no input can control the terminal.
"""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from extender.cli.output import decision_report
from extender.cli.output.decision_report import Invocation, status_message
from extender.cli.output.tables import (
    AdaptiveTable,
    format_amounts,
    format_timestamp,
    indented,
    section_heading,
    text,
)
from extender.report.schema import (
    DecisionReport,
    NodeReport,
    ResourceAmounts,
    RunningPodReport,
)
from extender.report.wording import NODE_OUTCOMES, ROLES, VICTIM_SELECTION_NOTES
from extender.utilities.text import format_together, join_names, more, pluralize


def render(
    decision: DecisionReport, node: NodeReport, invocation: Invocation, *, show_all: bool = False
) -> Iterator[RenderableType]:
    """Render a node of a decision.

    `decision` must include all nodes, for comparison, and `node` its pods; `show_all` lists every device.
    """
    yield text(f"{decision.id} {sentence(decision, node)}", "bold")
    yield Text()
    yield decision_report.facts_grid(decision, invocation)
    yield from _render_filter_status(decision, node)
    yield from render_claims(node, show_all=show_all)
    if decision.verb == "prioritize":
        yield from _render_scores(decision, node)
    if node.rank is not None:
        yield from _render_rank(decision, node)
    if node.free:
        yield from _render_free(decision.incoming.requests, node)
    if node.allocatable:
        yield from render_resources(decision.incoming.requests, node)
    if node.pods:
        yield from render_pods(node)
    if node.budgets:
        yield from section_heading("disruption budgets")
        yield decision_report.budgets_table((node.name, one) for one in node.budgets)


def sentence(decision: DecisionReport, node: NodeReport) -> str:
    """Return one sentence with the outcome of the node and its reason."""
    why, victims = node.why, join_names(node.victims, 3)
    match node.outcome:
        case "outranked":
            why = _comparison_with_best(decision, node)
        case "rejectedByPolicy":
            why = node.why if node.why.startswith("would ") else f"is not allowed: {node.why}"
        case "insufficientAfterPreemption":
            count = node.counts.get("victim", 0) + node.counts.get("reprieved", 0)
            victims = "its only potential victim" if count == 1 else f"all {count} potential victims"
            why = f": {status_message(node.emptied)}" if node.emptied else ""
        case "noVictims":
            protected = node.counts.get("protected", 0)
            singular, plural = "pod of lower priority is protected", "pods of lower priority are protected"
            why = pluralize(protected, singular, plural) if protected else "no pods of lower priority"
        case "scored" | "unscored":
            why = f": {node.why}" if node.why else ""
    return NODE_OUTCOMES[node.outcome].sentence.format(
        pod=decision.pod, name=node.name, why=why, victims=victims, score=node.score
    )


def _comparison_with_best(decision: DecisionReport, node: NodeReport) -> str:
    best, criteria = decision.nodes[0].name, decision.ranking.criteria if decision.ranking else []
    if node.loses_by is None:
        return "it is the best candidate, but it was not in the response to kube-scheduler"
    if node.loses_by == "name":
        return f"it ties with {best} on every criterion, and {best} comes first by name"
    if node.loses_by == "named":
        return (
            f"it ties with {best} on every criterion, and the victims on {best} are closer to kube-scheduler's choice"
        )
    index = criteria.index(node.loses_by)
    return f"{best} is better by {node.loses_by}, {decision.nodes[0].shown[index]} against {node.shown[index]}"


# --- parts ------------------------------------------------------------------------------------------------------------


def _render_filter_status(decision: DecisionReport, node: NodeReport) -> Iterator[RenderableType]:
    """Render the status of the filter plugins.

    Mirrors RunFilterPlugins: plugins run in order until one fails, so plugins before it passed
    and plugins after it did not run.
    """
    found = node.filter
    if found is None:
        return
    yield from section_heading("filters" if decision.verb == "filter" else "filters, before preemption")
    if found.code == "Success":
        yield indented(text(f"all passed: {', '.join(decision.filters)}", "green"))
        return
    yield indented(text(f"{status_message(found)} ({found.code})", "red"))
    for why in node.fact_sentences:
        yield indented(text(why), 4)
    if found.plugin in decision.filters:
        index = decision.filters.index(found.plugin)
        before, after = decision.filters[:index], decision.filters[index + 1 :]
        if before:
            yield indented(text(f"passed: {', '.join(before)}"))
        if after:
            yield indented(text(f"not run: {', '.join(after)}", "dim"))


def render_claims(node: NodeReport, *, show_all: bool) -> Iterator[RenderableType]:
    """Render a line per resource claim of the pod and per request; with `show_all`, also every device."""
    if not node.claims:
        return
    yield from section_heading(f"resource claims on {node.name}")
    if node.not_followed:
        yield indented(text(f"not evaluated here, kube-scheduler decides: {node.not_followed}", "yellow"))
    for claim in node.claims:
        which = f"{claim.name} ({claim.claim})" if claim.claim else claim.name
        yield indented(text(f"{which}: {claim.summary}"))
        for request in claim.requests:
            yield indented(text(f"{request.name}: {request.summary}", "red" if request.fails else ""), 4)
            if show_all:
                rows = [(one.device, one.why or text("free", "green"), one.detail) for one in request.devices]
                yield indented(AdaptiveTable(("DEVICE", "REASON", "DETAIL"), rows), 4)
                if request.omitted:
                    yield indented(text(f"and {more(request.omitted, 'device')}", "dim"), 6)
    if not show_all and any(request.devices for claim in node.claims for request in claim.requests):
        yield indented(text("--all shows every device", "dim"))


def _render_scores(decision: DecisionReport, node: NodeReport) -> Iterator[RenderableType]:
    best = max(decision.nodes, key=lambda one: one.score or 0)
    is_best = best.name == node.name
    yield from section_heading("scores" if is_best else f"scores, compared with {best.name}, the highest")
    yield decision_report.scores_table(decision, [node] if is_best else [best, node])


def _render_rank(decision: DecisionReport, node: NodeReport) -> Iterator[RenderableType]:
    best, total = decision.nodes[0], decision.ranking.candidates if decision.ranking else 0
    is_best = best.name == node.name
    compared = "" if is_best else f", compared with {best.name}, the best"
    yield from section_heading(f"rank {node.rank} of {pluralize(total, 'candidate')}{compared}")
    yield decision_report.candidates_table(decision, [node] if is_best else [best, node])
    if node.loses_by is not None or total == 1:
        yield indented(text(decision_report.ranking_note(decision), "dim"))


def _render_free(requests: ResourceAmounts, node: NodeReport) -> Iterator[RenderableType]:
    """Render what is left of the resources that the pod requests, where NodeResourcesFit rejects the node."""
    yield from section_heading("resources")
    rows, wanted = [], {**requests, "pods": 1}
    for name, left in node.free.items():
        needed = wanted.get(name, 0)
        free, need = format_together(name, (left, needed))
        rows.append((name, text(free, "bold red" if left < needed else ""), need))
    yield AdaptiveTable(("RESOURCE", "FREE", "NEEDED"), rows)


def render_resources(requests: ResourceAmounts, node: NodeReport) -> Iterator[RenderableType]:
    """Render allocatable, used, freed, available and needed amounts per resource."""
    wanted = {**requests, "pods": 1}
    yield from section_heading("resources")
    rows = []
    for name, allocatable in node.allocatable.items():
        used, freed, needed = (amounts.get(name, 0) for amounts in (node.used, node.freed, wanted))
        left = allocatable - used + freed
        *before, available, need = format_together(name, (allocatable, used, freed, left, needed))
        rows.append((name, *before, text(available, "bold red" if left < needed else ""), need))
    yield AdaptiveTable(("RESOURCE", "ALLOCATABLE", "USED", "FREED", "AVAILABLE", "NEEDED"), rows)
    for pod in node.nominated:
        amounts = format_amounts(pod.requests) or "nothing"
        yield indented(text(f"{pod.key}, priority {pod.priority}, is nominated to this node and requests {amounts}"))


def render_pods(node: NodeReport) -> Iterator[RenderableType]:
    """Render the pods of the node, most important first, with their position in the reprieve order."""
    yield from section_heading(f"pods on {node.name}, most important first")
    counted = (f"{count} {ROLES[role].label}" for role, count in node.counts.items())
    yield indented(text(", ".join(counted), "dim"))
    rows = []
    for one in node.pods:
        started = format_timestamp(one.started or "not started")
        values = ("" if one.order is None else one.order, one.priority, started, format_amounts(one.requests))
        role, notes = text(one.role, ROLES[one.role].style), "; ".join(_notes(one))
        rows.append((one.key, role, *values, ", ".join(one.budgets), notes))
    headers = ("POD", "ROLE", "REPRIEVE", "PRIORITY", "STARTED", "REQUESTS", "BUDGETS", "NOTES")
    yield AdaptiveTable(headers, rows, lead=2)
    if node.chosen_by:
        yield indented(text(f"victims: {VICTIM_SELECTION_NOTES.get(node.chosen_by, node.chosen_by)}", "dim"))


def _notes(one: RunningPodReport) -> Iterator[str]:
    if one.violating:
        yield "eviction violates a budget"
    if one.named:
        yield "chosen by kube-scheduler"
    if one.terminating:
        yield "already terminating"
    yield from one.protected_by
