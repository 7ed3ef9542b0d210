"""Which running pods belong to one workload, and which to one gang (a PodGroup).

Rule: a number for each, so that a decision counts workloads and gangs on arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable

import numpy as np

from extender.core.snapshot.arrays import IntArray, RowSet, doubled
from extender.core.snapshot.index import Index
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import COSCHEDULING, SCHEDULING, ObjectMeta, Pod, PodGroup
from extender.k8s.workloads import workload_of

NO_GROUP = -1
"""The number of a pod that belongs to nothing."""


class GroupIndex(Index, ABC):
    """Pods of one thing share a number; it is given to another thing once the last one has gone."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.of_pod: IntArray = np.full(64, NO_GROUP, np.int64)
        """[pod] -> number."""
        self.members: dict[int, RowSet] = {}
        """Number -> pod rows."""
        self.groups: dict[int, Hashable] = {}
        """Number -> what it stands for."""
        self._numbers: dict[Hashable, int] = {}
        self._free: list[int] = []

    @abstractmethod
    def group_of(self, pod: Pod) -> Hashable | None:
        """What the pod belongs to; None: to nothing."""

    def pod_added(self, row: int, pod: Pod) -> None:
        while row >= len(self.of_pod):
            self.of_pod = doubled(self.of_pod, NO_GROUP)
        thing = self.group_of(pod)
        if thing is None:
            return
        number = self._numbers.get(thing)
        if number is None:
            number = self._numbers[thing] = self._free.pop() if self._free else len(self.groups)
            self.groups[number] = thing
            self.members[number] = RowSet()
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

    def rows_of(self, thing: Hashable) -> IntArray:
        """The pod rows of it."""
        number = self._numbers.get(thing)
        return np.empty(0, np.int64) if number is None else self.members[number].rows


class WorkloadIndex(GroupIndex):
    """By `workload_of`."""

    def group_of(self, pod: Pod) -> Hashable:
        return workload_of(pod)


class NamespaceIndex(GroupIndex):
    """By name."""

    def group_of(self, pod: Pod) -> str:
        return pod.metadata.namespace


PodGroupID = tuple[str, str, str]
"""(API group, namespace, name) of a PodGroup."""

_API_GROUP = {"pod_groups": SCHEDULING, "coscheduling_groups": COSCHEDULING}


class PodGroupIndex(GroupIndex):
    """By the PodGroup that a pod names, whether or not there is such an object."""

    reads = tuple(_API_GROUP)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._minimum: dict[PodGroupID, int] = {}

    def group_of(self, pod: Pod) -> PodGroupID | None:
        named = pod.pod_group
        return None if named is None else (named.api_group, pod.metadata.namespace, named.name)

    def object_changed(self, field: str, before: PodGroup | None, after: PodGroup | None) -> None:
        metadata = (after or before or _NO_GROUP).metadata
        gang = _API_GROUP[field], metadata.namespace, metadata.name
        if after is None:
            self._minimum.pop(gang, None)
        else:
            self._minimum[gang] = after.minimum or 0

    def below_minimum(self, pods: IntArray, places: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Victims by pod row, each of some place -> (place, gang, how many victims) of gangs that fall below.

        Who is leaving already is lost to its gang whether it is a victim or not.
        """
        numbers = self.of_pod[pods]
        member = (numbers != NO_GROUP) & ~self.snapshot.pod_table.terminating[pods]
        size = int(numbers.max(initial=0)) + 1
        keys, lost = np.unique(places[member] * size + numbers[member], return_counts=True)
        spare = np.array([self.spare(number) for number in (keys % size).tolist()], np.int64)
        breaks = lost > spare
        return keys[breaks] // size, keys[breaks] % size, lost[breaks]

    def spare(self, number: int) -> int:
        """How many running members it can lose before it is below its minimum; a huge number if it is below already.

        A gang of which no object is known needs all of its members.
        """
        rows = self.members[number].rows
        lasting = len(rows) - int(np.count_nonzero(self.snapshot.pod_table.terminating[rows]))
        spare = lasting - self._minimum.get(self._gang_of(number), lasting)
        return spare if spare >= 0 else ALREADY_BELOW_MINIMUM

    def _gang_of(self, number: int) -> PodGroupID:
        gang: PodGroupID = self.groups[number]  # type: ignore[assignment]
        return gang


ALREADY_BELOW_MINIMUM = 2**31
"""More members than a gang loses on any node."""

_NO_GROUP = PodGroup(ObjectMeta())
