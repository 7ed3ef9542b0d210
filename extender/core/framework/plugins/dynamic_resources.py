"""DynamicResources is not implemented; this module finds the nodes where kube-scheduler evaluates it for a pod.

It applies to a pod with resource claims, on every node, and to a pod that requests an extended resource backed by a
DeviceClass, on nodes where no device plugin provides that resource.

Rule: decisions report the plugin as not evaluated there; acceptance by the extender does not imply its acceptance.
"""

import numpy as np

from extender.core.framework.constraint import SchedulingContext
from extender.core.snapshot.arrays import BASE_RESOURCES, BoolArray
from extender.core.snapshot.device_classes import delegated_to_dra
from extender.k8s.requests import incoming_requests

NAME = "DynamicResources"


def nodes_not_evaluated(context: SchedulingContext) -> BoolArray:
    """Return [node]: whether kube-scheduler evaluates DynamicResources for the pod there."""
    mask = np.full(len(context.snapshot.nodes), bool(context.pod.spec.resource_claims))
    requested = (name for name, amount in incoming_requests(context.pod, context.features).items() if amount)
    for resource in (name for name in requested if name not in BASE_RESOURCES):
        delegated = delegated_to_dra(context.snapshot, resource)
        if delegated is not None:
            mask |= delegated
    return mask
