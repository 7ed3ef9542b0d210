"""DynamicResources is not modelled. This says where it decides, so that nobody takes silence for a verdict.

It has a say about a pod with resource claims, on every node; and about one that asks for an extended resource which a
DeviceClass backs, on nodes where no device plugin offers that resource.
"""

import numpy as np

from extender.core.framework.constraint import SchedulingContext
from extender.core.snapshot.arrays import BoolArray
from extender.core.snapshot.device_classes import delegated_to_dra
from extender.k8s.requests import incoming_requests

NAME = "DynamicResources"


def nodes_not_evaluated(context: SchedulingContext) -> BoolArray:
    """[node]: is the verdict on the pod kube-scheduler's alone?"""
    size = len(context.snapshot.nodes)
    if context.pod.spec.resource_claims:
        return np.ones(size, np.bool_)
    found = np.zeros(size, np.bool_)
    for resource, amount in incoming_requests(context.pod).items():
        left = delegated_to_dra(context.snapshot, resource) if amount else None
        if left is not None:
            found |= left
    return found
