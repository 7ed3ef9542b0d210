"""Render the record of a decision into the schema that /decisions, the CLI and the web page show.

Rule: nothing is decided again; everything shown was compared or counted when the decision was made. Only the reasons
why pods are protected are worked out later, from the same objects and the same eviction history.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from extender.core.framework.status import SUCCESS, Code
from extender.core.record import (
    DecisionRecord,
    DryRunRecord,
    FilterRecord,
    PreemptRecord,
    PrioritizeRecord,
    RecordedRequest,
)
from extender.report.devices import report_claims, report_pod_claims
from extender.report.ranking_report import report_ranking
from extender.report.schema import NodeOutcome, NodeReport, PodClaimReport, RankingReport
from extender.report.tried_node import TriedNode, status_report

FITS_AFTER_EVICTION = "the pod would fit after an eviction; scored by what that would cost"
NO_EVICTION_HELPS = "the pod does not fit, and no eviction that is allowed would change that"
"""Reason why a node has no plugin scores."""


@dataclass(frozen=True, slots=True)
class RenderedDecision:
    """The parts of an explained decision that come from its record."""

    nodes: list[NodeReport]
    ranking: RankingReport | None = None
    highest: int | None = None


def render(record: DecisionRecord, *, node: str | None = None, every_pod: bool = True) -> RenderedDecision:
    """Render all nodes or only `node`, always with the pods of `node`; with `every_pod` also those of all others."""
    if isinstance(record, FilterRecord | PrioritizeRecord):
        every = _filter_nodes(record) if isinstance(record, FilterRecord) else _prioritize_nodes(record)
        nodes = [with_claims(record.request, one, node) for one in every if node in (None, one.name)]
        return RenderedDecision(nodes, highest=record.highest if isinstance(record, PrioritizeRecord) else None)
    with_dry_run = _nodes_with_dry_run(record, record.dry_run, node, every_pod=every_pod) if record.dry_run else ()
    without = (one for one in _nodes_without_dry_run(record) if node in (None, one.name))
    nodes = [with_claims(record.request, one, node) for one in (*with_dry_run, *without)]
    return RenderedDecision(nodes, report_ranking(record))


# --- resource claims --------------------------------------------------------------------------------------------------


def render_pod_claims(record: DecisionRecord | None) -> list[PodClaimReport]:
    """Render the resource claims of the incoming pod."""
    devices = None if record is None else record.request.devices
    if record is None or devices is None:
        return []
    return report_pod_claims(devices, record.request.pod.decode(), record.request.context.features)


def with_claims(request: RecordedRequest, report: NodeReport, node: str | None) -> NodeReport:
    """Return the report of `node` with the devices that the pod's claims may get there, any other one as it is."""
    if request.devices is None or report.name != node:
        return report
    found = report_claims(request.devices, request.pod.decode(), node, request.context)
    explained: NodeReport = replace(report, claims=found.claims, not_followed=found.not_followed)
    return explained


# --- /filter ----------------------------------------------------------------------------------------------------------


def _filter_nodes(record: FilterRecord) -> Iterator[NodeReport]:
    for name, status, preemption_helps in zip(
        record.names, record.statuses.to_list(), record.preemption_helps.tolist(), strict=True
    ):
        outcome: NodeOutcome = "accepted"
        if status.code != Code.SUCCESS:
            outcome = "failed" if preemption_helps else "unresolvable"
        yield NodeReport(name=name, outcome=outcome, why=status.message, filter=status_report(status))


# --- /prioritize ------------------------------------------------------------------------------------------------------


def _prioritize_nodes(record: PrioritizeRecord) -> Iterator[NodeReport]:
    place_of = {row: place for place, row in enumerate(record.scored.tolist())}
    plugins = {name: values.tolist() for name, values in record.plugins.items()}
    for name, score, row in zip(record.names, record.scores, record.rows.tolist(), strict=True):
        place = place_of.get(row)
        if place is None:
            yield NodeReport(
                name=name, outcome="unscored", score=score, why=FITS_AFTER_EVICTION if score else NO_EVICTION_HELPS
            )
            continue
        own = {plugin: values[place] for plugin, values in plugins.items()}
        yield NodeReport(name=name, outcome="scored", score=score, total=sum(own.values()), plugins=own)


# --- /preempt: nodes --------------------------------------------------------------------------------------------------


def _nodes_with_dry_run(
    record: PreemptRecord, dry_run: DryRunRecord, only: str | None, *, every_pod: bool
) -> Iterator[NodeReport]:
    """Return the nodes with a dry run, or `only` one of them: candidates best first, then the others by name."""
    ranked, names = dry_run.ranked.candidates.tolist(), dry_run.names
    answered = {candidate.node: [victim.key for victim in candidate.victims] for candidate in record.decision.kept}
    sent_nodes, amounts = frozenset(record.sent_nodes), record.request.amounts()
    others = sorted(set(range(len(names))) - set(ranked), key=names.__getitem__)
    for place, node in [*enumerate(ranked), *((None, node) for node in others)]:
        name = names[node]
        if only in (None, name):
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


def _nodes_without_dry_run(record: PreemptRecord) -> Iterator[NodeReport]:
    """Return the sent nodes without a dry run, by name."""
    seen = set(record.dry_run.names) if record.dry_run else set()
    for name in sorted({*record.sent_nodes, *record.decision.dropped} - seen):
        status = record.not_tried.get(name)
        outcome: NodeOutcome = "notEvaluated"
        if name in record.decision.rejected:
            outcome = "rejected"
        elif record.decision.vetoed is not None:
            outcome = "vetoed"
        elif status is not None and status == SUCCESS:
            outcome = "fits"
        why = record.decision.dropped[name].message if name in record.decision.dropped else ""
        yield NodeReport(name=name, outcome=outcome, why=why, filter=status_report(status) if status else None)
