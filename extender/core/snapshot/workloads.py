"""Assign IDs to the workloads, namespaces and pod groups of the running pods.

Rule: one integer ID per group, so that decisions count groups on arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import cast

import numpy as np

from extender.core.snapshot.arrays import IntArray, RowSet, grown
from extender.core.snapshot.derived import derived
from extender.core.snapshot.pod_table import PodPart
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import SCHEDULING, Pod
from extender.k8s.workloads import workload_of

NO_GROUP = -1
"""ID for a pod that belongs to no group."""


class GroupIndex(Index, ABC):
    """Integer IDs for groups of pods; an ID is reused once the last pod of its group has been removed."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.of_pod: IntArray = np.full(64, NO_GROUP, np.int64)
        """[pod]: ID of its group; NO_GROUP if it has none."""
        self.members: dict[int, RowSet] = {}
        """Group ID -> pod rows."""
        self.groups: dict[int, Hashable] = {}
        """Group ID -> identity of the group, as `group_of` returns it."""
        self._numbers: dict[Hashable, int] = {}
        self._free: list[int] = []

    @abstractmethod
    def group_of(self, pod: Pod) -> Hashable | None:
        """Return the identity of the pod's group; None if it belongs to no group."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self.of_pod = grown(self.of_pod, row, NO_GROUP)
        group = self.group_of(pod)
        if group is None:
            return
        number = self._numbers.get(group)
        if number is None:
            # IDs are reused, because decisions make arrays over all IDs.
            number = self._numbers[group] = self._free.pop() if self._free else len(self.groups)
            self.groups[number], self.members[number] = group, RowSet()
        self.members[number].add(row)
        self.of_pod[row] = number

    def pod_removed(self, row: int, _pod: Pod) -> None:
        number = int(self.of_pod[row])
        if number == NO_GROUP:
            return
        self.of_pod[row] = NO_GROUP
        self.members[number].remove(row)
        if not self.members[number].members:
            del self.members[number], self._numbers[self.groups.pop(number)]
            self._free.append(number)

    def pod_changed(self, row: int, before: Pod, after: Pod, parts: frozenset[PodPart]) -> None:
        if self.groups.get(int(self.of_pod[row])) != self.group_of(after):
            super().pod_changed(row, before, after, parts)

    def rows_of(self, group: Hashable) -> IntArray:
        """Return the rows of the group's running pods."""
        number = self._numbers.get(group)
        return np.empty(0, np.int64) if number is None else self.members[number].rows


class WorkloadIndex(GroupIndex):
    """Running pods by workload (`workload_of`)."""

    pod_parts = frozenset({"labels", "owners"})

    def group_of(self, pod: Pod) -> Hashable:
        return workload_of(pod)


class NamespaceIndex(GroupIndex):
    """Running pods by namespace."""

    pod_parts = frozenset()

    def group_of(self, pod: Pod) -> str:
        return pod.metadata.namespace


class PriorityClassIndex(GroupIndex):
    """Running pods by PriorityClass; "" for pods without one."""

    pod_parts = frozenset({"spec"})

    def group_of(self, pod: Pod) -> str:
        return pod.spec.priority_class_name


PodGroupID = tuple[str, str, str]
"""(API group, namespace, name) of a PodGroup."""


class PodGroupIndex(GroupIndex):
    """Running pods by the PodGroup that they name, whether or not that object exists."""

    pod_parts = frozenset({"labels", "spec"})

    def group_of(self, pod: Pod) -> PodGroupID | None:
        named = pod.pod_group
        return None if named is None else (named.api_group, pod.metadata.namespace, named.name)

    def below_minimum(self, pods: IntArray, candidate_index: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Find the pod groups that fall below their minimum when these victims are evicted.

        `pods`: [victim], pod row; `candidate_index`: [victim]. Return three arrays: candidate, ID of the pod group,
        number of its victims. Pods that are terminating anyway do not count as victims.
        """
        numbers = self.of_pod[pods]
        member = (numbers != NO_GROUP) & ~self.snapshot.pod_table.terminating[pods]
        size = int(numbers.max(initial=0)) + 1
        keys, lost = np.unique(candidate_index[member] * size + numbers[member], return_counts=True)
        spare = np.array([self.spare(number) for number in (keys % size).tolist()], np.int64)
        is_below = lost > spare
        return keys[is_below] // size, keys[is_below] % size, lost[is_below]

    def spare(self, number: int) -> int:
        """Return the number of running members that the pod group can lose without falling below its minimum."""
        rows = self.members[number].rows
        remaining = len(rows) - int(np.count_nonzero(self.snapshot.pod_table.terminating[rows]))
        api_group, namespace, name = cast(PodGroupID, self.groups[number])
        objects = self.snapshot.objects
        table = objects.pod_groups if api_group == SCHEDULING else objects.coscheduling_groups
        known = table.get((namespace, name))
        # A pod group whose object is unknown needs all its members.
        spare = 0 if known is None else remaining - (known.minimum or 0)
        return spare if spare >= 0 else ALREADY_BELOW_MINIMUM

    def evicted_whole(self, *, has_objects: bool) -> IntArray:
        """Return the rows of running pods that kube-scheduler may evict only together with others.

        Without PodGroup objects (`has_objects` is False), these are all pods that belong to a group.
        """
        # kube-scheduler ignores a group without an object.
        whole = (
            _groups_evicted_whole(self.snapshot)
            if has_objects
            else [one for one in self.groups.values() if cast(PodGroupID, one)[0] == SCHEDULING]
        )
        return np.concatenate([np.empty(0, np.int64), *map(self.rows_of, whole)])


ALREADY_BELOW_MINIMUM = 2**31
"""Spare members of a pod group that is below its minimum already: more than any node holds, so that no eviction
counts as breaking the group again."""


@derived("pod_groups")
def _groups_evicted_whole(snapshot: Snapshot) -> list[PodGroupID]:
    """Return the groups whose pods may be evicted only together."""
    groups = snapshot.objects.pod_groups.items()
    return [(SCHEDULING, *key) for key, group in groups if group.may_go_together_only]
