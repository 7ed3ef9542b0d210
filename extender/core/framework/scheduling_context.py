"""SchedulingContext: the incoming pod and everything that plugins read to schedule it.

Counterpart of the inputs of an upstream plugin: the pod, the CycleState and the snapshot's NodeInfos.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.profile import DEFAULT_IMPORTANCE, Profile
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.importance import ImportanceLayout
from extender.core.snapshot.node_layout import NodeLayout
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.k8s.version.features import Features


@dataclass(frozen=True, slots=True)
class SchedulingContext:
    """The incoming pod (preemptor) and everything that the plugins may read to schedule it."""

    pod: Pod
    snapshot: Snapshot
    profile: Profile
    nominees: tuple[Pod, ...]
    """Other nominated pods of equal or higher priority, which the incoming pod must leave room for."""
    history: EvictionHistory = NO_HISTORY
    """Current time and recent evictions, for protections and rate limits; DynamicResources also reads the time."""

    @property
    def features(self) -> Features:
        """Feature switches for the version of kube-scheduler."""
        return self.snapshot.features

    @property
    def layout(self) -> NodeLayout:
        """Pods of every node in the profile's order of importance."""
        policy = self.profile.preemption
        if policy.importance == DEFAULT_IMPORTANCE:
            return self.snapshot.layout
        return self.snapshot.index(ImportanceLayout, policy.importance, policy.eviction_cost_annotation).layout

    def nominated_demand(self, columns: int, demand_of: Callable[[Pod, int], Sequence[int]]) -> IntArray | None:
        """Return [column, node]: demand of the nominees, summed per nominated node; None without nominees.

        `demand_of`: (nominee, node row) -> demand of the nominee in each column.
        """
        if not self.nominees:
            return None
        nominated = np.zeros((columns, len(self.snapshot.nodes)), np.int64)
        for pod in self.nominees:
            node = self.snapshot.node_row[pod.status.nominated_node_name]
            nominated[:, node] += demand_of(pod, node)
        return nominated
