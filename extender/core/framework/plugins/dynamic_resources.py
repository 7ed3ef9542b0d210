"""DynamicResources is not implemented; this module finds the nodes where kube-scheduler evaluates it for a pod.

It applies to a pod with resource claims, on every node, and to a pod that requests an extended resource backed by a
DeviceClass, on nodes where no device plugin provides that resource.

Rule: decisions report the plugin as not evaluated there; acceptance by the extender does not imply its acceptance.
"""

from collections.abc import Callable, Iterator

import numpy as np

from extender.core.devices.classes import delegated_to_dra
from extender.core.framework.constraint import SchedulingContext
from extender.core.snapshot.arrays import BASE_RESOURCES, BoolArray
from extender.k8s.requests import incoming_requests

NAME = "DynamicResources"
_FIT = "NodeResourcesFit"


def nodes_not_evaluated(context: SchedulingContext) -> BoolArray:
    """Return [node]: whether kube-scheduler evaluates DynamicResources for the pod there."""
    mask = np.full(len(context.snapshot.nodes), bool(context.pod.spec.resource_claims))
    backed = dict(_delegated(context))
    for delegated in backed.values():
        mask |= delegated
    if backed:
        # It then rejects nodes without a further resource, which NodeResourcesFit may not check: "cannot fit resource".
        for name in filter(_is_unchecked(context), _extended_resources(context) - backed.keys()):
            mask |= context.snapshot.scalar_allocatable(name) <= 0
    return mask


def has_claims(context: SchedulingContext) -> bool:
    """Return whether the pod has resource claims, or gets one for an extended resource that a DeviceClass backs."""
    return bool(context.pod.spec.resource_claims) or any(True for _ in _delegated(context))


def _is_unchecked(context: SchedulingContext) -> Callable[[str], bool]:
    if _FIT in context.profile.filter_plugins:
        return context.profile.ignores
    return lambda resource: "/" in resource


def _delegated(context: SchedulingContext) -> Iterator[tuple[str, BoolArray]]:
    """Yield every requested resource that a DeviceClass backs, with [node]: whether it comes from there."""
    for name in _extended_resources(context):
        mask = delegated_to_dra(context.snapshot, name)
        if mask is not None:
            yield name, mask


def _extended_resources(context: SchedulingContext) -> set[str]:
    requests = incoming_requests(context.pod, context.features)
    return {name for name, amount in requests.items() if amount and name not in BASE_RESOURCES}
