"""Render a simulation as text: events as `kubectl get events` prints them, and a summary.

Rule: every name and message is printed as plain text with unprintable characters escaped.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from extender.cli.output.scenario_text import NONE, scenario_blocks
from extender.cli.output.simulation_events import event_rows
from extender.cli.output.tables import TextRow, format_table, separated, summary_table
from extender.errors import printable
from extender.report.simulation_schema import Comparison, NodeUsage, PendingPod, PodOutcome, Simulation
from extender.report.wording import describe_admission
from extender.utilities.text import join_names, pluralize
from extender.whatif.comparison import VersionComparison, pod_outcomes, value_of


def render(result: Simulation) -> Iterator[Text]:
    """Render the events of one simulation, then its scenario, then its summary."""
    events = event_rows(result)
    table = format_table(("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"), events)
    has_events = bool(events) or result.scenario is None
    yield from separated([table if has_events else [], *scenario_blocks(result), *_summary_blocks(result)])


# --- summary ----------------------------------------------------------------------------------------------------------


def _summary_blocks(result: Simulation) -> Iterator[list[Text]]:
    """Yield counts, evicted pods, pending pods, and the nodes whose usage changed."""
    found = result.summary
    counts = Text(
        f"{pluralize(found.scheduled, 'pod')} scheduled, {found.pending} pending, {found.skipped} skipped, "
        f"{found.evicted} preempted, {pluralize(found.pdb_violations, 'PDB violation')} "
        f"(policies: {printable(result.policies)}; "
        f"kube-scheduler {result.release}, {printable(result.version_source)})",
        style="bold",
    )
    admission = [] if result.admission is None else describe_admission(result.admission)
    notes = [*(f"admission: {one}" for one in admission), *(f"note: {one}" for one in result.notes)]
    yield [counts, *(Text(printable(note), style="dim") for note in notes)]
    victims = (
        (one.pod, str(one.priority), one.node, one.preemptor, ", ".join(one.budgets) or NONE) for one in result.evicted
    )
    yield summary_table(("EVICTED", "PRIORITY", "NODE", "PREEMPTOR", "BUDGETS"), victims)
    yield summary_table(("PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"), _pending_rows(result.pending))
    yield _usage_table(result)


def _pending_rows(pending: Sequence[PendingPod]) -> Iterator[TextRow]:
    """Yield a row per distinct message, with the first of its pods."""
    pods: dict[TextRow, list[str]] = {}
    for one in pending:
        namespace = one.pod.partition("/")[0]
        row = namespace, str(one.priority), one.nominated_node or NONE, one.message
        pods.setdefault(row, []).append(one.pod)
    for (_, *cells), alike in pods.items():
        yield join_names(alike, 1), *cells


def _usage_table(result: Simulation) -> list[Text]:
    """Render the usage of nodes before and after, with their state if the scenario changed any."""
    nodes = result.summary.nodes
    has_states = any(node.state for node in nodes)
    rows = []
    for node in nodes:
        state = [node.state or ""] if has_states else []
        rows.append((node.name, *state, *(_usage_change(node, name) for name in ("cpu", "memory", "pods"))))
    return summary_table(("NODE", *(["STATE"] if has_states else []), "CPU", "MEMORY", "PODS"), rows)


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
        values = [str(row.get(name, NONE)) for row in rows]
        counts.append(("≠" if values[0] != values[1] else "=", name, *values))
    return format_table(("", "", *compared), counts)


def _counts(result: Simulation) -> dict[str, int]:
    """Return the counts that a comparison shows; counts of a scenario only for drains and `until_full`."""
    found, scenario = result.summary, result.scenario
    counts = {name: getattr(found, name) for name in ("scheduled", "pending", "skipped")}
    counts |= {"preempted": found.evicted, "PDB violations": found.pdb_violations}
    if scenario is not None and scenario.drained:
        counts["blocked by drains"] = sum(len(one.blocked) for one in scenario.drained)
    if scenario is not None and scenario.until_full is not None:
        counts["fit until full"] = scenario.until_full.fits
    return counts


def _describe_outcome(outcome: PodOutcome | None) -> str:
    if outcome is None:
        return NONE
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
    """Render the differences for each pod, with ≠ if the decision differs and ~ if only the reason does.

    The numbers of such pods, the counts of both simulations and their notes follow.
    """
    for found in comparison.differences:
        yield Text(f"{'≠' if found.decided_otherwise else '~'} {printable(found.pod)}", "bold")
        for change in found.changes:
            yield Text(f"  {change}")
            for mark, style, version, outcome in zip(
                "-+", ("red", "green"), comparison.compared, found.outcomes, strict=True
            ):
                value = value_of(outcome, change)
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                shown = NONE if shown in (None, "") else str(shown)
                yield Text(f"    {mark} {version}: {printable(shown)}", style)
    if comparison.differences:
        yield Text()
    summary = comparison.summary
    same = summary.pods - summary.decided_otherwise - summary.other_reason
    yield Text(
        f"{pluralize(summary.pods, 'pod')}: {summary.decided_otherwise} with a different decision, "
        f"{summary.other_reason} with only a different reason or number of feasible nodes, {same} unchanged",
        style="bold",
    )
    yield Text()
    yield from _render_counts(comparison.compared, comparison.results)
    for note in dict.fromkeys(note for result in comparison.results for note in result.notes):
        yield Text(f"note: {printable(note)}", style="dim")
