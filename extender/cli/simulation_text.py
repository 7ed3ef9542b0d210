"""Render a simulation as text: events as `kubectl get events` prints them, and a summary.

Rule: every name and message is printed as plain text with unprintable characters escaped.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from extender.cli.scenario_text import scenario_blocks
from extender.cli.text_tables import TextRow, format_table, separated, summary_table
from extender.core.explain.text import pluralize
from extender.core.simulator.comparison import Change, VersionComparison, VersionOutcome, value_of
from extender.core.simulator.result import CycleReport, NodeUsage, ReservedClaim, Simulation
from extender.errors import printable
from extender.server.admin.simulate import Comparison, PodOutcome, pod_outcomes

MAX_EVENT_MESSAGE_CHARS = 1024
"""Characters of an event's note (validation.NoteLengthLimit); kube-scheduler truncates longer ones."""

MAX_LISTED_DEVICES = 8
"""Devices of a claim that a line names."""


def render(result: Simulation) -> Iterator[Text]:
    """Render the events of one simulation, what its scenario did, then its summary."""
    events = [row for cycle in result.cycles for row in _cycle_events(cycle)]
    table = format_table(("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"), events)
    has_events = bool(events) or result.scenario is None
    yield from separated([table if has_events else [], *scenario_blocks(result), *_summary_blocks(result)])


# --- events -----------------------------------------------------------------------------------------------------------


def _cycle_events(cycle: CycleReport) -> Iterator[TextRow]:
    """Render the events of a cycle as kube-scheduler does (schedule_one.go, preemption/executor.go, v1.36).

    A line without a type adds a fact that kube-scheduler itself would not report.
    """
    namespace, _, name = cycle.pod.partition("/")
    about = f"pod/{name}"
    if cycle.outcome == "Scheduled":
        yield namespace, "Normal", "Scheduled", about, f"Successfully assigned {cycle.pod} to {cycle.node}"
    elif cycle.outcome == "Skipped":
        yield namespace, "Normal", "Skipped", about, cycle.message
    else:
        is_long = len(cycle.message) > MAX_EVENT_MESSAGE_CHARS
        message = f"{cycle.message[: MAX_EVENT_MESSAGE_CHARS - 4]} ..." if is_long else cycle.message
        yield namespace, "Warning", "FailedScheduling", about, message
    if cycle.hint is not None:
        yield "", "", "", "", cycle.hint
    for claim in cycle.claims:
        yield "", "", "", "", _describe_claim(claim)
    if cycle.deallocated is not None:
        yield "", "", "", "", f"claim {cycle.deallocated} is deallocated: no pod uses it, and the pod does not fit"
    if cycle.vetoed is not None:
        yield "", "", "", "", f"preemption vetoed: {cycle.vetoed}"
    if cycle.not_evaluated:
        names = ", ".join(cycle.not_evaluated)
        yield "", "", "", "", f"not evaluated here, kube-scheduler may decide otherwise: {names}"
    for victim in cycle.victims:
        namespace, _, name = victim.pod.partition("/")
        note = f"Preempted by pod {cycle.uid} on node {victim.node}"
        if not victim.terminating:  # kube-scheduler does not delete a terminating victim again
            yield namespace, "Normal", "Preempted", f"pod/{name}", note


def _describe_claim(claim: ReservedClaim) -> str:
    """Render `claim default/train gets gpu.example.com/n1/gpu-0`; driver, pool and name of each device."""
    names = [f"{one.driver}/{one.pool}/{one.device}" for one in claim.devices]
    listed = ", ".join(names[:MAX_LISTED_DEVICES]) or "no devices"
    more = f" and {len(names) - MAX_LISTED_DEVICES} more" if len(names) > MAX_LISTED_DEVICES else ""
    verb = {"new": "gets", "created": "is created and gets", "existing": "keeps"}[claim.allocation]
    return f"claim {claim.claim} {verb} {listed}{more}"


# --- summary ----------------------------------------------------------------------------------------------------------


def _summary_blocks(result: Simulation) -> Iterator[list[Text]]:
    """Yield counts, evicted pods, pending pods, and the nodes whose usage changed."""
    found = result.summary
    counts = Text(
        f"{pluralize(found.scheduled, 'pod')} scheduled, {found.pending} pending, {found.skipped} skipped, "
        f"{found.evicted} evicted, {pluralize(found.pdb_violations, 'PDB violation')} "
        f"(policies: {printable(result.policies)}; "
        f"kube-scheduler {result.version}, {printable(result.version_source)})",
        style="bold",
    )
    yield [counts, *(Text(f"note: {printable(note)}", style="dim") for note in result.notes)]
    victims = (
        (one.pod, str(one.priority), one.node, one.preemptor, ", ".join(one.budgets) or "<none>")
        for one in result.evicted
    )
    yield summary_table(("EVICTED", "PRIORITY", "NODE", "PREEMPTOR", "BUDGETS"), victims)
    pending = ((one.pod, str(one.priority), one.nominated_node or "<none>", one.message) for one in result.pending)
    yield summary_table(("PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"), pending)
    yield _usage_table(found.nodes)


def _usage_table(nodes: Sequence[NodeUsage]) -> list[Text]:
    """Render the usage of nodes before and after, and what the scenario did to them if it changed any."""
    usages = [[_usage_change(node, name) for name in ("cpu", "memory", "pods")] for node in nodes]
    if any(node.state for node in nodes):
        rows = [(node.name, node.state or "", *usage) for node, usage in zip(nodes, usages, strict=True)]
        return summary_table(("NODE", "STATE", "CPU", "MEMORY", "PODS"), rows)
    return summary_table(
        ("NODE", "CPU", "MEMORY", "PODS"), ((node.name, *usage) for node, usage in zip(nodes, usages, strict=True))
    )


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
    one, other = map(pod_outcomes, comparison.results)
    differs = {difference.pod for difference in comparison.differences}
    rows = (
        ("≠" if pod in differs else "=", pod, _describe_outcome(one.get(pod)), _describe_outcome(other.get(pod)))
        for pod in dict.fromkeys((*one, *other))
    )
    yield from format_table(("", "POD", *comparison.compared), rows)
    yield Text()
    yield from _render_counts(comparison.compared, comparison.results)


def _render_counts(compared: Sequence[str], results: Sequence[Simulation]) -> list[Text]:
    counts = []
    rows = [_counts(result) for result in results]
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [str(row.get(name, "<none>")) for row in rows]
        counts.append(("≠" if values[0] != values[1] else "=", name, *values))
    return format_table(("", "", *compared), counts)


def _counts(result: Simulation) -> dict[str, int]:
    """Return the numbers by which two simulations are compared; those of a scenario only if it has them."""
    found, scenario = result.summary, result.scenario
    counts = {name: getattr(found, name) for name in ("scheduled", "pending", "skipped", "evicted")}
    counts["PDB violations"] = found.pdb_violations
    if scenario is not None and scenario.drained:
        counts["blocked by drains"] = sum(len(one.blocked) for one in scenario.drained)
    if scenario is not None and scenario.until_full is not None:
        counts["fit until full"] = scenario.until_full.fits
    return counts


def _describe_outcome(outcome: PodOutcome | None) -> str:
    if outcome is None:
        return "<none>"
    where = outcome.node if outcome.outcome == "Scheduled" and outcome.node else outcome.outcome.lower()
    parts = [where]
    if outcome.evicts:
        parts.append(f"evicts {', '.join(outcome.evicts)}")
    if outcome.num_pdb_violations:
        parts.append(f"violates {pluralize(outcome.num_pdb_violations, 'budget')}")
    if outcome.vetoed is not None:
        parts.append(f"preemption vetoed: {outcome.vetoed}")
    return "; ".join(parts)


# --- two versions -----------------------------------------------------------------------------------------------------


def render_versions(comparison: VersionComparison) -> Iterator[Text]:
    """Render what differs for each pod, with ≠ where it is decided otherwise and ~ where only the reason differs.

    Then how many pods that are, the counts of both simulations, and what neither takes into account.
    """
    for found in comparison.differences:
        yield Text(f"{'≠' if found.decided_otherwise else '~'} {printable(found.pod)}", "bold")
        for change in found.changes:
            yield Text(f"  {change}")
            for mark, style, version, outcome in zip(
                "-+", ("red", "green"), comparison.compared, found.outcomes, strict=True
            ):
                yield Text(f"    {mark} {version}: {printable(_describe(outcome, change))}", style)
    if comparison.differences:
        yield Text()
    summary = comparison.summary
    same = summary.pods - summary.decided_otherwise - summary.other_reason
    yield Text(
        f"{pluralize(summary.pods, 'pod')}: {summary.decided_otherwise} decided otherwise, {summary.other_reason} for "
        f"another reason or with another number of feasible nodes, {same} the same",
        style="bold",
    )
    yield Text()
    yield from _render_counts(comparison.compared, comparison.results)
    for note in dict.fromkeys(note for result in comparison.results for note in result.notes):
        yield Text(f"note: {printable(note)}", style="dim")


def _describe(outcome: VersionOutcome | None, change: Change) -> str:
    value = value_of(outcome, change)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "<none>"
    return "<none>" if value in (None, "") else str(value)
