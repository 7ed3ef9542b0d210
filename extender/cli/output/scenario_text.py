"""Render how the scenario of a simulation changed nodes and workloads, and the replacements of evicted pods."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from extender.cli.output.tables import MAX_SUMMARY_ROWS, TextRow, summary_table
from extender.errors import printable
from extender.report.simulation_schema import Gang, ScenarioReport, Simulation, UntilFull
from extender.report.wording import EVICTION_CAUSES
from extender.utilities.text import join_names, pluralize

NONE = "<none>"


def scenario_blocks(result: Simulation) -> Iterator[list[Text]]:
    """Yield sentences on added and cordoned nodes, `until_full` and the gang; then tables of nodes and pods."""
    if result.scenario is not None:
        yield [Text(printable(one), style="bold") for one in _sentences(result.scenario)]
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
    yield summary_table(("REPLACEMENT", "OF", "CAUSE", "FROM", "TO"), replacements)


def _sentences(found: ScenarioReport) -> Iterator[str]:
    for names, what in ((found.added, "added"), (found.cordoned, "cordoned")):
        if names:
            yield f"{pluralize(len(names), 'node')} {what}: {join_names(names, MAX_SUMMARY_ROWS)}"
    if found.until_full is not None:
        yield _describe_until_full(found.until_full)
    if found.gang is not None:
        yield _describe_gang(found.gang)


def _describe_until_full(found: UntilFull) -> str:
    fit = f"{found.fits} more of {found.pod} {'fits' if found.fits == 1 else 'fit'}"
    if found.limit_reached:
        return f"{fit}; the limit of a simulation was reached, and more may fit"
    stop = found.next.message if found.next is not None else found.refusal
    return f"{fit}; the next one: {stop}" if stop else fit


def _describe_gang(found: Gang) -> str:
    if not found.pods:
        return f"gang: {found.message}"
    count = found.pods if found.scheduled else 0
    return f"gang: {count} of {pluralize(found.pods, 'pod')} scheduled" + (
        f": {found.message}" if found.message else ""
    )


def _tables(found: ScenarioReport) -> Iterator[list[Text]]:
    copies = [(one.node, str(one.pods)) for one in found.until_full.nodes] if found.until_full is not None else []
    blocked = [
        (pod.pod, node.node, ", ".join(pod.budgets) or NONE, pod.message)
        for node in found.drained
        for pod in node.blocked
    ]
    left = [(node.node, node.lost) for node in found.drained] + [(node.node, node.lost) for node in found.removed]
    lost = [(pod, node) for node, pods in left for pod in pods]
    workloads = [
        (one.workload, *(str(count) for count in (one.existing, len(one.created), len(one.waiting), one.refused)))
        for one in found.workloads
    ]
    yield summary_table(("WORKLOAD", "EXISTING", "CREATED", "WAITING", "REFUSED"), workloads)
    refused = [(one.workload, str(one.refused), one.refusal) for one in found.workloads if one.refused]
    yield summary_table(("REFUSED PODS OF", "PODS", "MESSAGE"), refused)
    yield summary_table(("DOES NOT RUN ON", "DAEMONSET", "REASON"), _excluded(found))
    yield summary_table(("FITS ON", "PODS"), copies)
    yield summary_table(("NODE", "STATE", "EVICTED", "IGNORED", "BLOCKED", "LOST"), _evictions(found))
    yield summary_table(("BLOCKED", "NODE", "BUDGETS", "MESSAGE"), blocked)
    yield summary_table(("LOST", "NODE"), lost)


def _excluded(found: ScenarioReport) -> Iterator[TextRow]:
    """Yield a row per reason why a DaemonSet runs no pod on nodes, with the first of them."""
    for one in found.workloads:
        nodes: dict[str, list[str]] = {}
        for node, reason in one.excluded.items():
            nodes.setdefault(reason, []).append(node)
        for reason, alike in nodes.items():
            yield join_names(alike, MAX_SUMMARY_ROWS), one.workload.partition(" ")[2], reason


def _evictions(found: ScenarioReport) -> Iterator[TextRow]:
    for one in found.drained:
        yield (
            one.node,
            "draining" if one.blocked else "drained",
            *_counts(one.evicted, one.ignored, one.blocked, one.lost),
        )
    for gone in found.removed:
        yield gone.node, "removed", *_counts(gone.deleted, [], [], gone.lost)


def _counts(*several: Sequence[object]) -> list[str]:
    return [str(len(one)) for one in several]
