"""Facts about resources: too little left, too many pods, and pods that wait for a resize (NodeResourcesFit)."""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.node_resources import ResourceConstraint
from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray
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
    columns = [_column_facts(snapshot, check, headroom, column) for column in range(len(check.names))]
    requests, resizing = incoming_requests(context.pod, context.features), _resizing(snapshot)
    nowhere = [_of_no_node(name, requests[name]) for name in sorted(check.absent)]

    def facts(row: int) -> list[AnyFact]:
        found = list[AnyFact]()
        for column in np.flatnonzero(headroom[:, row] < 0).tolist():
            found.append(columns[column](row))
            found += [one for one in resizing.get(row, ()) if one.resource == check.names[column]]
        return [*found, *nowhere] if found else found

    return facts


def _column_facts(
    snapshot: Snapshot, check: ResourceConstraint, headroom: IntArray, column: int
) -> Callable[[int], ResourceFact]:
    """Return node row -> the fact about a node with too little of a resource that the pod requests."""
    name, requested = check.names[column], check.amounts[column]
    if name in BASE_RESOURCES:
        base = BASE_RESOURCES.index(name)
        capacity, used = snapshot.allocatable[base], snapshot.used[base]
    else:
        capacity, used = snapshot.scalar_allocatable(name), snapshot.scalar_used(name)
    free = headroom[column] + requested
    most = int(free.argmax()) if capacity.max() > 0 else None
    frees, capacities, useds = free.tolist(), capacity.tolist(), used.tolist()
    amount = cache(partial(format_amount, name, is_exact=True))
    return lambda row: ResourceFact(
        resource=name,
        requested=amount(requested),
        free=amount(frees[row]),
        allocatable=amount(capacities[row]),
        used=amount(useds[row]),
        is_too_small=requested > capacities[row],
        most_free="0" if most is None else amount(frees[most]),
        most_free_node="" if most is None else snapshot.node_names[most],
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
    for row, pod in snapshot.running_pods():
        if resizes := list(resize_facts(pod, snapshot.features)):
            found[int(snapshot.pod_node[row])] += resizes
    return found
