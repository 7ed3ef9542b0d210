"""Show one node with its pods, resources and the devices that the pod may get there.

Rule: the node is shown as an explained preemption shows it; what a preemption would do is tried on this node alone.
"""

import numpy as np
from msgspec.structs import replace

from extender.core.engine import DecisionContext, PreemptDecision
from extender.core.evaluation import Evaluation
from extender.core.explain.record import record_preempt
from extender.core.explain.render import render
from extender.core.explain.schema import NodeOutcome, NodeReport
from extender.core.framework.status import Code
from extender.core.preemption.candidates import find_candidates


def node_details(evaluation: Evaluation, row: int) -> NodeReport:
    """Return the report of the node in this row, with all its pods."""
    run, names = evaluation.filter_run, evaluation.context.snapshot.node_names
    rows = np.array([row])
    dry_run = find_candidates(evaluation.context, run.checks, rows)
    tried = DecisionContext(evaluation.context, rows, run, dry_run=dry_run)
    decision = PreemptDecision((), {}, (), frozenset(), decision_context=tried)
    report = render(record_preempt(decision, [names[row]]), node=names[row]).nodes[0]
    outcomes: dict[int, NodeOutcome] = {
        Code.SUCCESS: "accepted",
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "unresolvable",
        Code.ERROR: "unresolvable",
    }
    # Its rank would be that of the only candidate.
    shown: NodeReport = replace(
        report, outcome=outcomes.get(int(run.codes[row]), report.outcome), rank=None, keys=[], shown=[], loses_by=None
    )
    return shown
