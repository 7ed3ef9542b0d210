"""Render a simulation as text: its sentence, facts, events as `kubectl get events` prints them, and a summary.

Rule: every name and message is printed as plain text with unprintable characters escaped.
"""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from extender.cli.output.scenario_text import NONE, scenario_blocks
from extender.cli.output.simulation_events import event_rows
from extender.cli.output.tables import (
    IN_JSON,
    MAX_SUMMARY_ROWS,
    AdaptiveTable,
    facts_grid,
    summary_table,
    text,
)
from extender.report.simulation_schema import Comparison, NodeUsage, PendingPod, PodOutcome, Simulation
from extender.report.wording import describe_admission, describe_source
from extender.utilities.text import format_together, join_names, pluralize
from extender.whatif.comparison import VersionComparison, VersionDifference, pod_outcomes, value_of
from extender.whatif.result_sentence import counts_of

MAX_EXAMPLES = 2
"""Maximum number of pods that a row names of those that it is about."""

_EVENT_STYLES = {"Warning": "yellow", "Preempted": "red", "Scheduled": "green"}


def render(found: Simulation | Comparison | VersionComparison) -> Iterator[RenderableType]:
    """Render the sentence about one simulation or two, then what it sums up."""
    yield from (text(found.sentence, "bold"), Text())
    if isinstance(found, Simulation):
        yield from _render_simulation(found)
        return
    yield facts_grid(_cluster_facts(found.results[0]))
    yield from _render_versions(found) if isinstance(found, VersionComparison) else _render_policies(found)
    yield from _render_counts(found.compared, found.results)
    notes = dict.fromkeys(note for result in found.results for note in result.notes)
    if notes:
        yield from (Text(), facts_grid(("note", note) for note in notes))


def _render_simulation(result: Simulation) -> Iterator[RenderableType]:
    """Render the facts of one simulation, then its events, its scenario and its summary."""
    yield facts_grid(_facts(result))
    events = [[text(cell, _EVENT_STYLES.get(cell, "")) for cell in row] for row in event_rows(result)]
    if events:
        yield Text()
        yield AdaptiveTable(("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE"), events, lead=4)
    yield from scenario_blocks(result)
    victims = (
        (one.pod, one.priority, one.node, one.preemptor, ", ".join(one.budgets) or NONE) for one in result.evicted
    )
    yield from summary_table(("EVICTED", "PRIORITY", "NODE", "PREEMPTOR", "BUDGETS"), victims)
    yield from summary_table(("PENDING", "PRIORITY", "NOMINATED NODE", "MESSAGE"), _pending_rows(result.pending), 3)
    yield from _usage_table(result)


def _cluster_facts(result: Simulation) -> Iterator[tuple[str, str]]:
    where = describe_source(result.source)
    yield "cluster", f"{where}: {pluralize(result.cluster.nodes, 'node')}, {pluralize(result.cluster.pods, 'pod')}"
    yield "version", result.source.version_hint


def _facts(result: Simulation) -> Iterator[tuple[str, str]]:
    yield from _cluster_facts(result)
    yield "scheduler", f"kube-scheduler {result.release}, {result.version_source}"
    yield "policies", result.policies
    if result.cycles:
        yield "pods", ", ".join(f"{count} {name}" for name, count in counts_of(result).items())
    for one in [] if result.admission is None else describe_admission(result.admission):
        yield "admission", one
    for note in result.notes:
        yield "note", note


def _pending_rows(pending: Sequence[PendingPod]) -> Iterator[tuple[object, ...]]:
    """Yield a row per distinct message, with the first of its pods."""
    pods: dict[tuple[object, ...], list[str]] = {}
    for one in pending:
        namespace = one.pod.partition("/")[0]
        row = namespace, one.priority, one.nominated_node or NONE, one.message
        pods.setdefault(row, []).append(one.pod)
    for (_, *cells), alike in pods.items():
        yield join_names(alike, MAX_EXAMPLES), *cells


def _usage_table(result: Simulation) -> list[RenderableType]:
    """Render the usage of nodes before and after, with their state if the scenario changed any."""
    nodes = result.summary.nodes
    has_states = any(node.state for node in nodes)
    rows = []
    for node in nodes:
        state = [node.state or ""] if has_states else []
        rows.append((node.name, *state, *(_usage_change(node, name) for name in ("cpu", "memory", "pods"))))
    return summary_table(("NODE", *(["STATE"] if has_states else []), "CPU", "MEMORY", "PODS"), rows)


def _usage_change(node: NodeUsage, resource: str) -> str:
    amounts = [amounts.get(resource, 0) for amounts in (node.before, node.after, node.allocatable)]
    before, after, allocatable = format_together(resource, amounts)
    return f"{before} -> {after} of {allocatable}"


# --- two policies side by side ----------------------------------------------------------------------------------------


def _render_policies(comparison: Comparison) -> Iterator[RenderableType]:
    """Render the outcomes of the pods under both policies, with ≠ where they differ."""
    one, other = map(pod_outcomes, comparison.results)
    differs = {difference.pod for difference in comparison.differences}
    alike: dict[tuple[str, ...], list[str]] = {}
    for pod in dict.fromkeys((*one, *other)):
        outcomes = _describe_outcome(one.get(pod)), _describe_outcome(other.get(pod))
        alike.setdefault(("≠" if pod in differs else "=", *outcomes), []).append(pod)
    rows = [(mark, join_names(pods, MAX_EXAMPLES), *outcomes) for (mark, *outcomes), pods in alike.items()]
    rows.sort(key=lambda row: row[0] == "=")
    if rows:
        yield from (Text(), _marked_table(("POD", *comparison.compared), rows))


def _marked_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> AdaptiveTable:
    """Return a table with a mark in each row, which is bold where something differs."""
    cells = [(text(mark, "bold yellow" if mark == "≠" else ""), *others) for mark, *others in rows]
    return AdaptiveTable(("", *headers), cells, 2, MAX_SUMMARY_ROWS, rest=IN_JSON)


def _render_counts(compared: Sequence[str], results: Sequence[Simulation]) -> Iterator[RenderableType]:
    rows = []
    counts = [counts_of(result) for result in results]
    for name in dict.fromkeys(name for one in counts for name in one):
        values = [str(one.get(name, NONE)) for one in counts]
        rows.append(("≠" if values[0] != values[1] else "=", name, *values))
    yield from (Text(), _marked_table(("", *compared), rows))


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


def _render_versions(comparison: VersionComparison) -> Iterator[RenderableType]:
    """Render the differences, pods with the same one together: ≠ if the decision differs, ~ if only the reason does.

    Of pods whose message only has other words, the first one's is shown.
    """
    alike: dict[object, list[VersionDifference]] = {}
    for one in comparison.differences:
        alike.setdefault(one.in_words_only or tuple(_changes(one, comparison.compared)), []).append(one)
    for group in alike.values():
        names = join_names([one.pod for one in group], MAX_EXAMPLES)
        head = f"{'≠' if group[0].decided_otherwise else '~'} {names}"
        if group[0].in_words_only:
            head = f"{pluralize(len(group), 'pod')}: the same outcome, in other words: {names}"
        yield from (Text(), text(head, "bold"))
        for line in _changes(group[0], comparison.compared):
            yield text(line, {"-": "red", "+": "green"}.get(line.strip()[0], ""))


def _changes(found: VersionDifference, compared: Sequence[str]) -> list[str]:
    """Return the lines of a difference."""
    lines = []
    for change in found.changes:
        values = [value_of(outcome, change) for outcome in found.outcomes]
        shown = [", ".join(map(str, one)) if isinstance(one, list) else one for one in values]
        before, after = (NONE if one in (None, "") else str(one) for one in shown)
        if change == "message":
            lines += [f"  - {compared[0]}: {before}", f"  + {compared[1]}: {after}"]
        else:
            lines.append(f"  {change}: {before} -> {after}")
    return lines
