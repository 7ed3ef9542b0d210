"""Turn an evaluation into what is said of every node, and count the reasons.

Rule: nothing is decided here.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from extender.core.chance import chance_of
from extender.core.evaluation import Evaluation
from extender.core.framework.status import Code, Status
from extender.core.record import record_dry_run, record_request
from extender.report.pod_schema import NodeDiagnosis, NodePreemption, NodeScores, PluginStatus, ReasonCount
from extender.report.render import with_claims
from extender.report.schema import NodeOutcome, NodeReport
from extender.report.tried_node import TriedNode

MAX_EXAMPLES = 10
"""Names of nodes that a reason lists."""


def node_diagnoses(evaluation: Evaluation) -> list[NodeDiagnosis]:
    """Return every node, by name."""
    return sorted(_nodes(evaluation), key=lambda one: one.name)


def _nodes(evaluation: Evaluation) -> Iterator[NodeDiagnosis]:
    run, names = evaluation.filter, evaluation.context.snapshot.node_names
    statuses = run.statuses(np.arange(len(names)))
    distinct = list(map(_status, statuses.distinct))
    scores, preemptions = _scores(evaluation), dict(_preemptions(evaluation))
    masks = [(name, mask.tolist()) for name, mask in evaluation.filters_not_evaluated.items()]
    for row, (name, index) in enumerate(zip(names, statuses.indices.tolist(), strict=True)):
        status = distinct[index]
        yield NodeDiagnosis(
            name=name,
            code=status.code,
            plugin=status.plugin,
            reasons=status.reasons,
            scores=scores.get(row),
            preemption=preemptions.get(row),
            not_evaluated=[plugin for plugin, mask in masks if mask[row]],
        )


def _status(status: Status) -> PluginStatus:
    return PluginStatus(code=status.code.text, plugin=status.plugin, reasons=list(status.reasons))


def _scores(evaluation: Evaluation) -> dict[int, NodeScores]:
    """Return row -> scores, without an entry for all where a score plugin fails."""
    scores = evaluation.scores
    if scores.error is not None:
        return {}
    totals = scores.total
    ranks = 1 + np.searchsorted(np.sort(-totals), -totals)
    plugins = [(plugin, values.tolist()) for plugin, values in scores.plugins.items()]
    return {
        row: NodeScores(total=total, plugins={plugin: values[place] for plugin, values in plugins}, rank=rank)
        for place, (row, total, rank) in enumerate(
            zip(scores.rows.tolist(), totals.tolist(), ranks.tolist(), strict=True)
        )
    }


def _preemptions(evaluation: Evaluation) -> Iterator[tuple[int, NodePreemption]]:
    """Yield (row, what a preemption there would take) of every node on which it is tried."""
    run, candidate = evaluation.policies, evaluation.policies.candidate.tolist()
    others = np.flatnonzero(~run.candidate)
    why_not, chance = dict(zip(others.tolist(), run.statuses(others), strict=True)), chance_of(run)
    for place, row in enumerate(run.rows.tolist()):
        victims = [pod.key for pod in run.victims_on(place)] if candidate[place] else []
        yield (
            row,
            NodePreemption(
                victims=victims,
                num_pdb_violations=int(run.violations[place]) if candidate[place] else 0,
                status=None if candidate[place] else _status(why_not[place]),
                chance=chance.get(place, []),
            ),
        )


def reason_counts(nodes: Iterable[NodeDiagnosis]) -> list[ReasonCount]:
    """Count the nodes per reason, as FitError does."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for one in nodes:
        if one.code != "Success":
            for reason in one.reasons:
                names.setdefault((one.code, one.plugin, reason), []).append(one.name)
    counts = [
        ReasonCount(code=code, plugin=plugin, reason=reason, nodes=len(of), examples=of[:MAX_EXAMPLES])
        for (code, plugin, reason), of in names.items()
    ]
    return sorted(counts, key=lambda one: (-one.nodes, one.reason, one.code))


def node_details(evaluation: Evaluation, row: int) -> NodeReport:
    """Return the report of the node in this row, with all its pods; a preemption is tried on this node alone."""
    dry_run = record_dry_run(evaluation.filter, evaluation.policies_on(np.array([row])))
    request = record_request(evaluation, evaluation.context.nominees)
    place = 0 if len(dry_run.candidate_keys.candidates) else None
    report = TriedNode(request, dry_run, 0, place, request.amounts()).report_with_pods()
    outcomes: dict[int, NodeOutcome] = {
        Code.SUCCESS: "accepted",
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "unresolvable",
        Code.ERROR: "unresolvable",
    }
    outcome = outcomes.get(int(evaluation.filter.codes[row]), report.outcome)
    # Its rank would be that of the only candidate.
    shown = replace(report, outcome=outcome, sent=True, rank=None, keys=[], shown=[], loses_by=None)
    return with_claims(request, shown, report.name)
