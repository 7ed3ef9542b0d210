"""Facts about resources: too little left, too many pods, and pods that wait for a resize (NodeResourcesFit)."""

from collections import defaultdict
from functools import cache, partial

import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.node_resources import PendingResizeIndex, ResourceConstraint
from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray, NodeRows
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.requests import incoming_requests
from extender.report.facts.pods import resize_facts
from extender.report.facts.schema import AnyFact, FactsOf, ResizeFact, ResourceFact
from extender.utilities.text import format_amount

INSUFFICIENT = "Insufficient "
"""Prefix of NodeResourcesFit's reasons for a resource."""

TOO_MANY_PODS = "Too many pods"
"""NodeResourcesFit's reason for the number of pods."""


def resource_facts(evaluation: Evaluation) -> FactsOf:
    """Say what is requested, free and allocatable of each resource of which the node has too little."""
    context, run = evaluation.context, evaluation.filter
    snapshot = context.snapshot
    found = run.only_check(ResourceConstraint)
    if found is None:
        return lambda _row: ()
    check, headroom = found
    column_of = cache(partial(_Column, snapshot, check, headroom))
    requests, resizing = incoming_requests(context.pod, context.features), _resizing(snapshot)
    nowhere = [_of_no_node(name, requests[name]) for name in sorted(check.absent)]

    def facts(row: int) -> list[AnyFact]:
        found = list[AnyFact]()
        for column, left in enumerate(headroom[:, row].tolist()):
            if left < 0:
                found.append(column_of(column).fact(row))
                found += [one for one in resizing.get(row, ()) if one.resource == check.names[column]]
        return [*found, *nowhere] if found else found

    return facts


def freest_of(evaluation: Evaluation, rows: NodeRows) -> IntArray:
    """Return the indexes into `rows` of the nodes with the most of each resource that all of them lack."""
    snapshot, found = evaluation.context.snapshot, evaluation.filter.only_check(ResourceConstraint)
    best = list[int]()
    if found is not None:
        headroom, order = found[1][:, rows], snapshot.name_order[rows]
        for column in headroom[(headroom < 0).all(axis=1)]:
            most = np.flatnonzero(column == column.max())
            best.append(int(most[order[most].argmin()]))
    return np.array(best, np.int64)


class _Column:
    """A resource that the pod requests, with its amounts on every node."""

    def __init__(self, snapshot: Snapshot, check: ResourceConstraint, headroom: IntArray, column: int) -> None:
        self._name, self._requested = check.names[column], check.amounts[column]
        if self._name in BASE_RESOURCES:
            capacity = snapshot.allocatable[BASE_RESOURCES.index(self._name)]
        else:
            capacity = snapshot.scalar_allocatable(self._name)
        # Summing up the pods again would take longer than the filter did. Pods nominated to a node count where it would
        # have enough without them.
        alone = check.headroom[column]
        free, used = np.where(alone < 0, alone, headroom[column]) + self._requested, capacity - alone - self._requested
        most = None
        if capacity.max() > 0:
            rows = np.flatnonzero(free == free.max())
            most = int(rows[snapshot.name_order[rows].argmin()])
        self._free, self._capacity, self._used = free, capacity, used
        self._amount = cache(partial(format_amount, self._name, is_exact=True))
        self._most = ("0", "") if most is None else (self._amount(int(free[most])), snapshot.node_names[most])

    def fact(self, row: int) -> ResourceFact:
        """Return the fact about a node with too little of it."""
        return ResourceFact(
            resource=self._name,
            requested=self._amount(self._requested),
            free=self._amount(int(self._free[row])),
            allocatable=self._amount(int(self._capacity[row])),
            used=self._amount(int(self._used[row])),
            is_too_small=bool(self._requested > self._capacity[row]),
            most_free=self._most[0],
            most_free_node=self._most[1],
        )


def _of_no_node(name: str, requested: int) -> ResourceFact:
    return ResourceFact(
        resource=name,
        requested=str(requested),
        free="0",
        allocatable="0",
        used="0",
        is_too_small=True,
        most_free="0",
        most_free_node="",
    )


@derived("any")
def _resizing(snapshot: Snapshot) -> dict[int, list[ResizeFact]]:
    """Return node row -> its pods whose resize is deferred or infeasible, by resource."""
    found = defaultdict[int, list[ResizeFact]](list)
    for row in snapshot.index(PendingResizeIndex).rows:
        found[int(snapshot.pod_node[row])] += resize_facts(snapshot.pods[row], snapshot.features)
    for facts in found.values():
        facts.sort(key=lambda one: one.pod)
    return found
