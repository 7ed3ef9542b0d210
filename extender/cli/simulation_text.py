"""A simulation as text: events as `kubectl get events` shows them, and what they come to.

Rule: every name and message is printed as plain text in which nothing steers the terminal.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from extender.core.simulator.result import CycleShown, NodeShown, Simulation, VictimShown
from extender.errors import printable
from extender.server.admin.simulate import Comparison, PodOutcome

LONGEST_MESSAGE = 1024
"""Of an event (validation.NoteLengthLimit); kube-scheduler cuts longer ones off."""

MOST_ROWS = 20
"""Of a table of the summary."""

Row = Sequence[str]

_STYLES = {"Warning": "yellow", "Preempted": "red", "Scheduled": "green", "≠": "bold yellow"}


def told(result: Simulation) -> Iterator[Text]:
    """One simulation."""
    yield from events(result)
    yield Text()
    yield from summary(result)


# --- events -----------------------------------------------------------------------------------------------------------


def events(result: Simulation) -> list[Text]:
    """In the order in which they happened; what the extender alone knows is said below the event."""
    rows = [row for cycle in result.cycles for row in _events(cycle)]
    return table(("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows)


def _events(cycle: CycleShown) -> Iterator[Row]:
    """As kube-scheduler words them (schedule_one.go, framework/preemption/executor.go, v1.36)."""
    namespace, _, name = cycle.pod.partition("/")
    about = f"pod/{name}"
    if cycle.outcome == "Scheduled":
        yield namespace, "Normal", "Scheduled", about, f"Successfully assigned {cycle.pod} to {cycle.node}"
    elif cycle.outcome == "Skipped":
        yield namespace, "Normal", "Skipped", about, cycle.message
    else:
        yield namespace, "Warning", "FailedScheduling", about, _cut(cycle.message)
    if cycle.vetoed is not None:
        yield "", "", "", "", f"nobody is evicted: {cycle.vetoed}"
    if cycle.not_evaluated:
        yield "", "", "", "", f"not evaluated, kube-scheduler may decide otherwise: {', '.join(cycle.not_evaluated)}"
    for victim in cycle.victims:
        namespace, _, name = victim.pod.partition("/")
        note = f"Preempted by pod {cycle.uid} on node {victim.node}"
        if not victim.leaving:  # kube-scheduler does not delete it again
            yield namespace, "Normal", "Preempted", f"pod/{name}", note


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 4]} ..."


# --- what they come to ------------------------------------------------------------------------------------------------


def summary(result: Simulation) -> Iterator[Text]:
    """Counts; who was evicted, who still waits, and the nodes before and after."""
    found = result.summary
    yield Text(
        f"{_count(found.scheduled, 'pod')} scheduled, {found.pending} pending, {found.skipped} skipped, "
        f"{found.evicted} evicted, {_count(found.pdb_violations, 'violation')} of disruption budgets "
        f"(policies: {printable(result.profile)})",
        style="bold",
    )
    if result.evicted:
        yield Text()
        yield from table(("EVICTED", "PRIORITY", "NODE", "FOR", "BUDGETS"), map(_victim, result.evicted), MOST_ROWS)
    if result.pending:
        yield Text()
        rows = ((one.pod, str(one.priority), one.nominated_node or "<none>", one.message) for one in result.pending)
        yield from table(("PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"), rows, MOST_ROWS)
    if found.nodes:
        yield Text()
        yield from table(("NODE", "CPU", "MEMORY", "PODS"), map(_node, found.nodes), MOST_ROWS)


def _victim(victim: VictimShown) -> Row:
    return (
        victim.pod,
        str(victim.priority),
        victim.node,
        victim.preemptor,
        ", ".join(victim.budgets) or "<none>",
    )


def _node(node: NodeShown) -> Row:
    changes = (_change(node, resource) for resource in ("cpu", "memory", "pods"))
    return (node.name, *changes)


def _change(node: NodeShown, resource: str) -> str:
    before, after, all_of_it = (
        _amount(resource, amounts.get(resource, 0)) for amounts in (node.before, node.after, node.allocatable)
    )
    return f"{before} -> {after} of {all_of_it}"


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return f"{amount / 2**20:.0f}Mi" if resource == "memory" else str(amount)


# --- two policies side by side ----------------------------------------------------------------------------------------


def compared(comparison: Comparison) -> Iterator[Text]:
    """Every pod under both, ≠ where its lot differs; then the counts."""
    one, other = comparison.results
    differs = {difference.pod: difference.fates for difference in comparison.differences}
    rows = []
    for pod, fates in _fates(comparison).items():
        mark = "≠" if pod in differs else "="
        rows.append((mark, pod, *(_fate(fate) for fate in fates)))
    yield from table(("", "POD", *comparison.compared), rows)
    yield Text()
    counts = []
    for name in ("scheduled", "pending", "skipped", "evicted", "pdb_violations"):
        values = [str(getattr(result.summary, name)) for result in (one, other)]
        counts.append(("≠" if values[0] != values[1] else "=", name.replace("pdb_", "PDB "), *values))
    yield from table(("", "", *comparison.compared), counts)


def _fates(comparison: Comparison) -> dict[str, list[PodOutcome | None]]:
    from extender.server.admin.simulate import fates

    one, other = (fates(result) for result in comparison.results)
    return {pod: [one.get(pod), other.get(pod)] for pod in dict.fromkeys((*one, *other))}


def _fate(fate: PodOutcome | None) -> str:
    if fate is None:
        return "<none>"
    where = fate.node if fate.outcome == "Scheduled" and fate.node else fate.outcome.lower()
    parts = [where]
    if fate.evicts:
        parts.append(f"evicts {', '.join(fate.evicts)}")
    if fate.num_pdb_violations:
        parts.append(f"breaks {_count(fate.num_pdb_violations, 'budget')}")
    if fate.vetoed is not None:
        parts.append(f"nobody is evicted: {fate.vetoed}")
    return "; ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# --- tables -----------------------------------------------------------------------------------------------------------


def table(head: Row, rows: Iterable[Row], limit: int | None = None) -> list[Text]:
    """Columns as wide as what is in them, but for the last; nothing is wrapped."""
    shown = [tuple(map(printable, row)) for row in rows]
    left, shown = (shown[limit:], shown[:limit]) if limit is not None else ([], shown)
    widths = [max(len(cell) for cell in column) for column in zip(head, *shown, strict=True)]
    lines = [_line(head, widths, "dim")] + [_line(row, widths) for row in shown]
    return lines + ([Text(f"… and {len(left)} more; -o json shows all", style="dim")] if left else [])


def _line(row: Row, widths: Sequence[int], style: str = "") -> Text:
    line = Text(style=style)
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        is_last = place == len(row) - 1
        line.append(cell if is_last else cell.ljust(width + 3), style=_STYLES.get(cell, ""))
    line.rstrip()
    return line
