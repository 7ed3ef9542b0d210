"""Why a pod fits nowhere, in kube-scheduler's own words: `0/5 nodes are available: 3 Insufficient cpu, ….`

Rule: texts only; they are written as framework.FitError, RunPostFilterPlugins and the plugins behind them write them
(v1.36).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from extender.core.framework.filter import NOT_ALLOWED, FilterRun
from extender.core.framework.status import NO_VICTIMS, Code, Status
from extender.core.preemption.dry_run import DryRun

NO_NODES = "no nodes available to schedule pods"
"""In place of everything else, where there is no node at all (ErrNoNodesAvailable)."""

NOT_HELPFUL = "Preemption is not helpful for scheduling"
"""Of every node that evicting pods could not help."""

NO_CLAIMS = "no new claims to deallocate"
"""What DynamicResources says after the filters, of a pod without claims; it is asked before DefaultPreemption."""

NO_STATE = "not found"
"""The error that it ends with if a plugin before it rejected the pod at PreFilter: it has no state then."""

NO_CANDIDATE = "no candidate node for preemption"
"""What preemption says when an extender left none of its candidates."""


@dataclass(frozen=True, slots=True)
class PostFilter:
    """What came of looking for another way once the filters had failed."""

    code: Literal["Success", "Unschedulable", "Error"]
    reasons: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @classmethod
    def failed(cls, preemption: str) -> "PostFilter":
        """No eviction helps, or none is allowed."""
        return cls("Unschedulable", (NO_CLAIMS, f"preemption: {preemption}"))


NOT_ASKED = PostFilter("Error", (NO_STATE,))
"""After a rejection at PreFilter that no eviction helps: preemption is not even tried."""

NOMINATED = PostFilter("Success")


def fit_error(nodes: int, reasons: Mapping[str, int], prefilter: str = "", post_filter: str = "") -> str:
    """The message: what PreFilter said, or else how many nodes have which reason; then what came of preemption."""
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    first = prefilter or counted
    parts = [f"0/{nodes} nodes are available:", f"{first}." if first else "", post_filter]
    return " ".join(filter(None, parts))


def filter_message(filtering: FilterRun, post_filter: PostFilter) -> str:
    """Of a pod that fits nowhere."""
    nodes, said = len(filtering.incoming.snapshot.nodes), filtering.prefilter
    if said is not None:
        return fit_error(nodes, {}, said.message, post_filter.message)
    return fit_error(nodes, _filter_reasons(filtering), post_filter=post_filter.message)


def no_help(run: DryRun) -> str:
    """Of a dry run without a candidate, over the nodes that evicting pods might have helped."""
    nodes = len(run.snapshot.nodes)
    hopeless = ~run.grouped.evictable.mask.any(axis=0)
    reasons = _counted(run.emptied.verdicts(np.flatnonzero(~hopeless)))
    reasons.update(dict.fromkeys(NO_VICTIMS.reasons, int(np.count_nonzero(hopeless))))
    reasons[NOT_HELPFUL] += nodes - len(run.rows)
    return fit_error(nodes, +reasons)


def rejecting_plugins(filtering: FilterRun) -> frozenset[str]:
    """Who said no (Diagnosis.UnschedulablePlugins): what would have to change for them is what the pod waits for."""
    if filtering.prefilter is not None:
        return frozenset({filtering.prefilter.plugin})
    judgement = filtering.judgement
    places = np.unique(judgement.rejecting[judgement.rejecting >= 0] // 2)
    named = frozenset() if filtering.allowed is None else frozenset({"NodeAffinity"})
    return named | {judgement.checks[place].plugin for place in places.tolist()}


def _filter_reasons(filtering: FilterRun) -> Counter[str]:
    rows, nominated = filtering.rows(Code.UNSCHEDULABLE), _asked_by_itself(filtering)
    others = filtering.rows(Code.UNRESOLVABLE)
    if filtering.allowed is None:
        return _counted(filtering.judgement.verdicts(np.concatenate([rows, others])))
    left_out = ~filtering.allowed[others] & (others != nominated)
    reasons = _counted(filtering.judgement.verdicts(np.concatenate([rows, others[~left_out]])))
    reasons.update(dict.fromkeys(NOT_ALLOWED.reasons, int(np.count_nonzero(left_out))))
    return +reasons


def _asked_by_itself(filtering: FilterRun) -> int:
    """Row of the node that the pod is nominated to: it is asked first, whatever PreFilter named; -1: of none."""
    incoming = filtering.incoming
    return incoming.snapshot.node_row.get(incoming.pod.status.nominated_node_name, -1)


def _counted(verdicts: Iterable[Status]) -> Counter[str]:
    """Reason -> of how many nodes."""
    shared = Counter(verdicts)
    found: Counter[str] = Counter()
    for verdict, count in shared.items():
        for reason in verdict.reasons:
            found[reason] += count
    return found
