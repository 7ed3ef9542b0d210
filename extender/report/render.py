"""Render the record of a decision into the schema that /decisions, the CLI and the web page show.

Rule: nothing is decided again; everything shown was compared or counted when the decision was made.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from extender.core.framework.plugins.node_resources import FIT_NAME
from extender.core.framework.status import SUCCESS, Code
from extender.core.record import (
    DecisionRecord,
    DryRunRecord,
    FilterRecord,
    PreemptRecord,
    PrioritizeRecord,
    RecordedRequest,
)
from extender.core.snapshot.arrays import MAX_AMOUNT
from extender.report.devices import report_claims, report_pod_claims
from extender.report.facts.schema import AnyFact
from extender.report.facts.wording import describe_fact
from extender.report.schema import NodeOutcome, NodeReport, PodClaimReport
from extender.report.tried_node import TriedNode, status_report

FITS_AFTER_EVICTION = "the pod would fit after an eviction; scored by what that would cost"
NO_EVICTION_HELPS = "the pod does not fit, and no eviction that is allowed would change that"
"""Reason why a node has no plugin scores."""


def render_nodes(record: DecisionRecord, *, node: str | None = None, every_pod: bool = True) -> list[NodeReport]:
    """Render all nodes, with their pods if `every_pod`; or only `node`, always with its pods."""
    if isinstance(record, PreemptRecord):
        every = _preempt_nodes(record, node, every_pod=every_pod)
    else:
        every = _filter_nodes(record) if isinstance(record, FilterRecord) else _prioritize_nodes(record)
    return [with_claims(record.request, one, node) for one in every if node in (None, one.name)]


def with_facts(report: NodeReport, facts: Mapping[str, Sequence[AnyFact]]) -> NodeReport:
    """Add what exactly rejects the node to its report, where that was recorded."""
    found = facts.get(report.name)
    if not found:
        return report
    return replace(report, facts=[*found], fact_sentences=[describe_fact(one) for one in found])


# --- resource claims --------------------------------------------------------------------------------------------------


def render_pod_claims(record: DecisionRecord | None) -> list[PodClaimReport]:
    """Render the resource claims of the incoming pod."""
    request = None if record is None else record.request
    if request is None or request.devices is None:
        return []
    return report_pod_claims(request.devices, request.pod.decode(), request.context.features)


def with_claims(request: RecordedRequest, report: NodeReport, node: str | None) -> NodeReport:
    """Add the devices that the pod's claims may get to the report of `node`; return any other report unchanged."""
    if request.devices is None or report.name != node:
        return report
    # Only for the node that is shown in full: this runs the allocator.
    claims, not_followed = report_claims(request.devices, request.pod.decode(), node, request.context)
    return replace(report, claims=claims, not_followed=not_followed)


# --- /filter ----------------------------------------------------------------------------------------------------------


def _filter_nodes(record: FilterRecord) -> Iterator[NodeReport]:
    free = {name: column.tolist() for name, column in record.free.items()}
    for place, (name, status, preemption_helps) in enumerate(
        zip(record.names, record.statuses.to_list(), record.preemption_helps.tolist(), strict=True)
    ):
        outcome: NodeOutcome = "accepted"
        if status.code != Code.SUCCESS:
            outcome = "failed" if preemption_helps else "unresolvable"
        left = {}
        if status.plugin == FIT_NAME:  # a larger amount: DynamicResources decides about the resource on this node
            left = {name: column[place] for name, column in free.items() if column[place] <= MAX_AMOUNT}
        yield NodeReport(name=name, outcome=outcome, why=status.message, filter=status_report(status), free=left)


# --- /prioritize ------------------------------------------------------------------------------------------------------


def _prioritize_nodes(record: PrioritizeRecord) -> Iterator[NodeReport]:
    place_of = {row: place for place, row in enumerate(record.scored.tolist())}
    plugins = {name: values.tolist() for name, values in record.plugins.items()}
    for name, score, row in zip(record.names, record.scores, record.rows.tolist(), strict=True):
        place = place_of.get(row)
        # Plugins score no node on which the pod does not fit: the score follows the cost of an eviction.
        if place is None:
            yield NodeReport(
                name=name, outcome="unscored", score=score, why=FITS_AFTER_EVICTION if score else NO_EVICTION_HELPS
            )
            continue
        own = {plugin: values[place] for plugin, values in plugins.items()}
        yield NodeReport(name=name, outcome="scored", score=score, total=sum(own.values()), plugins=own)


# --- /preempt ---------------------------------------------------------------------------------------------------------


def _preempt_nodes(record: PreemptRecord, only: str | None, *, every_pod: bool) -> Iterator[NodeReport]:
    """Yield candidates, best first; then other nodes with a dry run, then sent nodes without, both by name."""
    if record.dry_run is not None:
        yield from _nodes_with_dry_run(record, record.dry_run, only, every_pod=every_pod)
    seen = set(record.dry_run.names) if record.dry_run else set()
    for name in sorted({*record.sent_nodes, *record.decision.dropped} - seen):
        status = record.not_tried.get(name)
        outcome: NodeOutcome = "notEvaluated"
        # The guard comes first: it removes a candidate whatever the decision was.
        if name in record.decision.rejected:
            outcome = "rejected"
        elif record.decision.vetoed is not None:
            outcome = "vetoed"
        elif status is not None and status == SUCCESS:
            outcome = "fits"
        why = record.decision.dropped[name].message if name in record.decision.dropped else ""
        yield NodeReport(name=name, outcome=outcome, why=why, filter=status_report(status) if status else None)


def _nodes_with_dry_run(
    record: PreemptRecord, dry_run: DryRunRecord, only: str | None, *, every_pod: bool
) -> Iterator[NodeReport]:
    ranked, names = dry_run.ranked.candidates.tolist(), dry_run.names
    answered = {candidate.node: [victim.key for victim in candidate.victims] for candidate in record.decision.kept}
    sent_nodes, amounts = frozenset(record.sent_nodes), record.request.amounts()
    others = sorted(set(range(len(names))) - set(ranked), key=names.__getitem__)
    for place, node in [*enumerate(ranked), *((None, node) for node in others)]:
        name = names[node]
        if only in (None, name):  # rendering one of 5,000 nodes must not render all others first
            tried = TriedNode(
                record.request,
                dry_run,
                node,
                place,
                amounts,
                answered=answered.get(name),
                is_sent=name in sent_nodes,
                is_rejected=name in record.decision.rejected,
                why_dropped=record.decision.dropped.get(name),
            )
            yield tried.report_with_pods() if every_pod or name == only else tried.report()
