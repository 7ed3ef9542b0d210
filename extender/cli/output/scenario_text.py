"""Render how the scenario of a simulation changed nodes and workloads, and the replacements of evicted pods."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from extender.cli.output.tables import MAX_SUMMARY_ROWS, facts_grid, summary_table
from extender.report.simulation_schema import ScenarioReport, Simulation
from extender.report.wording import EVICTION_CAUSES
from extender.utilities.text import join_names

NONE = "<none>"


def scenario_blocks(result: Simulation) -> Iterator[RenderableType]:
    """Yield added and cordoned nodes, what stops `until_full` and the gang; then tables of nodes and pods."""
    if result.scenario is not None:
        facts = [fact for fact in _facts(result.scenario) if fact[1]]
        if facts:
            yield Text()
            yield facts_grid(facts)
        yield from _tables(result.scenario)
    replacements = (
        (
            one.pod,
            "the same name" if one.of == one.pod else one.of,
            EVICTION_CAUSES[one.cause],
            one.old_node,
            one.node or NONE,
        )
        for one in result.replacements
    )
    yield from summary_table(("REPLACEMENT", "OF", "CAUSE", "FROM", "TO"), replacements)


def _facts(found: ScenarioReport) -> Iterator[tuple[str, str]]:
    """Yield the names of nodes, and the messages behind the sentence."""
    yield "added", join_names(found.added, MAX_SUMMARY_ROWS)
    yield "cordoned", join_names(found.cordoned, MAX_SUMMARY_ROWS)
    if found.until_full is not None and found.until_full.next is not None:
        yield "the next one", found.until_full.next.message
    if found.gang is not None:
        yield "gang", found.gang.message


def _tables(found: ScenarioReport) -> Iterator[RenderableType]:
    copies = [(one.node, one.pods) for one in found.until_full.nodes] if found.until_full is not None else []
    blocked = [
        (pod.pod, node.node, ", ".join(pod.budgets) or NONE, pod.message)
        for node in found.drained
        for pod in node.blocked
    ]
    left = [(node.node, node.lost) for node in found.drained] + [(node.node, node.lost) for node in found.removed]
    lost = [(pod, node) for node, pods in left for pod in pods]
    workloads = [
        (one.workload, one.existing, len(one.created), len(one.waiting), one.refused) for one in found.workloads
    ]
    yield from summary_table(("WORKLOAD", "EXISTING", "CREATED", "WAITING", "REFUSED"), workloads)
    refused = [(one.workload, one.refused, one.refusal) for one in found.workloads if one.refused]
    yield from summary_table(("REFUSED PODS OF", "PODS", "MESSAGE"), refused)
    yield from summary_table(("DOES NOT RUN ON", "DAEMONSET", "REASON"), _excluded(found))
    yield from summary_table(("FITS ON", "PODS"), copies)
    yield from summary_table(("NODE", "STATE", "EVICTED", "IGNORED", "BLOCKED", "LOST"), _evictions(found))
    yield from summary_table(("BLOCKED", "NODE", "BUDGETS", "MESSAGE"), blocked)
    yield from summary_table(("LOST", "NODE"), lost)


def _excluded(found: ScenarioReport) -> Iterator[tuple[object, ...]]:
    """Yield a row per reason why a DaemonSet runs no pod on nodes, with the first of them."""
    for one in found.workloads:
        nodes: dict[str, list[str]] = {}
        for node, reason in one.excluded.items():
            nodes.setdefault(reason, []).append(node)
        for reason, alike in nodes.items():
            yield join_names(alike, MAX_SUMMARY_ROWS), one.workload.partition(" ")[2], reason


def _evictions(found: ScenarioReport) -> Iterator[tuple[object, ...]]:
    for one in found.drained:
        state = "draining" if one.blocked else "drained"
        yield one.node, state, len(one.evicted), len(one.ignored), len(one.blocked), len(one.lost)
    for gone in found.removed:
        yield gone.node, "removed", len(gone.deleted), 0, 0, len(gone.lost)
