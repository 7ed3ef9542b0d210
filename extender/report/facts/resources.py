"""Facts about resources: too little left, too many pods, and pods that wait for a resize (NodeResourcesFit)."""

from collections import defaultdict

import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.node_resources import ResourceConstraint
from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.requests import (
    incoming_requests,
    is_resize_deferred,
    is_resize_infeasible,
    resize_requests,
    running_usage,
)
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
    found = [
        (one, run.headrooms[0][index]) for index, one in enumerate(run.checks) if isinstance(one, ResourceConstraint)
    ]
    if not found:
        return lambda _row: ()
    ((check, headroom),) = found
    # A resource that the pod does not request has no limit.
    free = headroom + np.array(check.amounts, np.int64)[:, np.newaxis]
    columns = [_columns(snapshot, name) for name in check.names]
    most = [
        (int(amounts.max()), snapshot.node_names[int(amounts.argmax())] if capacity.max() > 0 else "")
        for amounts, (capacity, _) in zip(free, columns, strict=True)
    ]
    requests, resizing = incoming_requests(context.pod, context.features), _resizing(snapshot)

    def amount(name: str, value: int) -> str:
        return format_amount(name, value, is_exact=True)

    nowhere = [
        ResourceFact(
            resource=name,
            requested=amount(name, requests[name]),
            free="0",
            allocatable="0",
            used="0",
            is_too_small=True,
            most_free="0",
            most_free_node="",
        )
        for name in sorted(check.absent)
    ]

    def facts(row: int) -> list[AnyFact]:
        found = list[AnyFact]()
        for column in np.flatnonzero(headroom[:, row] < 0).tolist():
            name, requested = check.names[column], check.amounts[column]
            capacity, used = (int(values[row]) for values in columns[column])
            found.append(
                ResourceFact(
                    resource=name,
                    requested=amount(name, requested),
                    free=amount(name, int(free[column, row])),
                    allocatable=amount(name, capacity),
                    used=amount(name, used),
                    is_too_small=requested > capacity,
                    most_free=amount(name, most[column][0]),
                    most_free_node=most[column][1],
                )
            )
            found += [one for one in resizing.get(row, ()) if one.resource == name]
        return [*found, *nowhere] if found else found

    return facts


def _columns(snapshot: Snapshot, name: str) -> tuple[IntArray, IntArray]:
    """Return [node]: allocatable amount, and [node]: used amount."""
    if name in BASE_RESOURCES:
        column = BASE_RESOURCES.index(name)
        return snapshot.allocatable[column], snapshot.used[column]
    return snapshot.scalar_allocatable(name), snapshot.scalar_used(name)


def _resizing(snapshot: Snapshot) -> dict[int, list[ResizeFact]]:
    """Return node row -> its pods whose resize is deferred or infeasible, by resource."""
    found = defaultdict[int, list[ResizeFact]](list)
    for row, pod in snapshot.running_pods():
        if not pod.status.conditions or not (is_resize_deferred(pod) or is_resize_infeasible(pod)):
            continue
        wanted, allocated = resize_requests(pod, snapshot.features)
        counted = running_usage(pod, snapshot.features).requests
        found[int(snapshot.pod_node[row])] += [
            ResizeFact(
                resource=name,
                pod=pod.key,
                state="Deferred" if is_resize_deferred(pod) else "Infeasible",
                allocated=format_amount(name, allocated.get(name, 0), is_exact=True),
                wanted=format_amount(name, amount, is_exact=True),
                counted=format_amount(name, counted.get(name, 0), is_exact=True),
            )
            for name, amount in wanted.items()
            if amount != allocated.get(name, 0)
        ]
    return found
