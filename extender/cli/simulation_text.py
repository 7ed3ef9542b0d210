"""Render a simulation as text: events as `kubectl get events` prints them, and a summary.

Rule: every name and message is printed as plain text with unprintable characters escaped.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from extender.core.simulator.result import CycleReport, EvictedPod, NodeUsage, Simulation
from extender.errors import printable
from extender.server.admin.simulate import Comparison, PodOutcome

MAX_EVENT_MESSAGE_CHARS = 1024
"""Characters of an event's note (validation.NoteLengthLimit); kube-scheduler truncates longer ones."""

MAX_SUMMARY_ROWS = 20
"""Rows of each table of the summary."""

TextRow = Sequence[str]

_STYLES = {"Warning": "yellow", "Preempted": "red", "Scheduled": "green", "≠": "bold yellow"}


def render(result: Simulation) -> Iterator[Text]:
    """Render the events of one simulation, then its summary."""
    yield from render_events(result)
    yield Text()
    yield from render_summary(result)


# --- events -----------------------------------------------------------------------------------------------------------


def render_events(result: Simulation) -> list[Text]:
    """Render events in order; a line without a type adds a fact that kube-scheduler itself would not report."""
    rows = [row for cycle in result.cycles for row in _cycle_events(cycle)]
    return format_table(("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows)


def _cycle_events(cycle: CycleReport) -> Iterator[TextRow]:
    """Render the events of a cycle as kube-scheduler does (schedule_one.go, preemption/executor.go, v1.36)."""
    namespace, _, name = cycle.pod.partition("/")
    about = f"pod/{name}"
    if cycle.outcome == "Scheduled":
        yield namespace, "Normal", "Scheduled", about, f"Successfully assigned {cycle.pod} to {cycle.node}"
    elif cycle.outcome == "Skipped":
        yield namespace, "Normal", "Skipped", about, cycle.message
    else:
        yield namespace, "Warning", "FailedScheduling", about, _truncate_message(cycle.message)
    if cycle.vetoed is not None:
        yield "", "", "", "", f"preemption vetoed: {cycle.vetoed}"
    if cycle.not_evaluated:
        yield (
            "",
            "",
            "",
            "",
            f"not evaluated here, kube-scheduler may decide otherwise: {', '.join(cycle.not_evaluated)}",
        )
    for victim in cycle.victims:
        namespace, _, name = victim.pod.partition("/")
        note = f"Preempted by pod {cycle.uid} on node {victim.node}"
        if not victim.terminating:  # kube-scheduler does not delete a terminating victim again
            yield namespace, "Normal", "Preempted", f"pod/{name}", note


def _truncate_message(message: str) -> str:
    return message if len(message) <= MAX_EVENT_MESSAGE_CHARS else f"{message[: MAX_EVENT_MESSAGE_CHARS - 4]} ..."


# --- summary ----------------------------------------------------------------------------------------------------------


def render_summary(result: Simulation) -> Iterator[Text]:
    """Render counts, evicted pods, pending pods, and the nodes whose usage changed."""
    found = result.summary
    yield Text(
        f"{_pluralize(found.scheduled, 'pod')} scheduled, {found.pending} pending, {found.skipped} skipped, "
        f"{found.evicted} evicted, {_pluralize(found.pdb_violations, 'PDB violation')} "
        f"(policies: {printable(result.profile)})",
        style="bold",
    )
    if result.evicted:
        yield Text()
        yield from format_table(
            ("EVICTED", "PRIORITY", "NODE", "PREEMPTOR", "BUDGETS"), map(_victim_row, result.evicted), MAX_SUMMARY_ROWS
        )
    if result.pending:
        yield Text()
        rows = ((one.pod, str(one.priority), one.nominated_node or "<none>", one.message) for one in result.pending)
        yield from format_table(("PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"), rows, MAX_SUMMARY_ROWS)
    if found.nodes:
        yield Text()
        yield from format_table(("NODE", "CPU", "MEMORY", "PODS"), map(_node_row, found.nodes), MAX_SUMMARY_ROWS)


def _victim_row(victim: EvictedPod) -> TextRow:
    return (
        victim.pod,
        str(victim.priority),
        victim.node,
        victim.preemptor,
        ", ".join(victim.budgets) or "<none>",
    )


def _node_row(node: NodeUsage) -> TextRow:
    changes = (_usage_change(node, resource) for resource in ("cpu", "memory", "pods"))
    return (node.name, *changes)


def _usage_change(node: NodeUsage, resource: str) -> str:
    before, after, allocatable = (
        _format_usage(resource, amounts.get(resource, 0)) for amounts in (node.before, node.after, node.allocatable)
    )
    return f"{before} -> {after} of {allocatable}"


def _format_usage(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return f"{amount / 2**20:.0f}Mi" if resource == "memory" else str(amount)


# --- two policies side by side ----------------------------------------------------------------------------------------


def render_comparison(comparison: Comparison) -> Iterator[Text]:
    """Render the outcome of every pod under both policies, with ≠ where they differ; then the counts."""
    one, other = comparison.results
    differs = {difference.pod: difference.outcomes for difference in comparison.differences}
    rows = []
    for pod, outcomes in _outcomes_by_pod(comparison).items():
        mark = "≠" if pod in differs else "="
        rows.append((mark, pod, *(_describe_outcome(outcome) for outcome in outcomes)))
    yield from format_table(("", "POD", *comparison.compared), rows)
    yield Text()
    counts = []
    for name in ("scheduled", "pending", "skipped", "evicted", "pdb_violations"):
        values = [str(getattr(result.summary, name)) for result in (one, other)]
        counts.append(("≠" if values[0] != values[1] else "=", name.replace("pdb_", "PDB "), *values))
    yield from format_table(("", "", *comparison.compared), counts)


def _outcomes_by_pod(comparison: Comparison) -> dict[str, list[PodOutcome | None]]:
    from extender.server.admin.simulate import pod_outcomes

    one, other = (pod_outcomes(result) for result in comparison.results)
    return {pod: [one.get(pod), other.get(pod)] for pod in dict.fromkeys((*one, *other))}


def _describe_outcome(outcome: PodOutcome | None) -> str:
    if outcome is None:
        return "<none>"
    where = outcome.node if outcome.outcome == "Scheduled" and outcome.node else outcome.outcome.lower()
    parts = [where]
    if outcome.evicts:
        parts.append(f"evicts {', '.join(outcome.evicts)}")
    if outcome.num_pdb_violations:
        parts.append(f"violates {_pluralize(outcome.num_pdb_violations, 'budget')}")
    if outcome.vetoed is not None:
        parts.append(f"preemption vetoed: {outcome.vetoed}")
    return "; ".join(parts)


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- tables -----------------------------------------------------------------------------------------------------------


def format_table(head: TextRow, rows: Iterable[TextRow], limit: int | None = None) -> list[Text]:
    """Pad every column but the last to its widest cell; nothing is wrapped."""
    shown = [tuple(map(printable, row)) for row in rows]
    left, shown = (shown[limit:], shown[:limit]) if limit is not None else ([], shown)
    widths = [max(len(cell) for cell in column) for column in zip(head, *shown, strict=True)]
    lines = [_format_line(head, widths, "dim")] + [_format_line(row, widths) for row in shown]
    return lines + ([Text(f"… and {len(left)} more; -o json shows all", style="dim")] if left else [])


def _format_line(row: TextRow, widths: Sequence[int], style: str = "") -> Text:
    line = Text(style=style)
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        is_last = place == len(row) - 1
        line.append(cell if is_last else cell.ljust(width + 3), style=_STYLES.get(cell, ""))
    line.rstrip()
    return line
