"""The running pods, each in a row of its own for as long as it runs, and what they take of the nodes.

A row is given to a pod when it comes and is free for another one when it has gone.

Rule: everything here changes by one pod at a time; nothing is computed over all pods.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, IntArray, bounded, longer
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.requests import Usage, is_resize_infeasible, running_usage
from extender.k8s.time import parse_time

LEAVING_SINCE = "1970-01-01T00:00:00Z"
"""deletionTimestamp of a pod that is assumed to be leaving, because we let kube-scheduler evict it."""

NOBODY = Pod(ObjectMeta())
"""Stands in the rows that are free."""

PodPart = Literal["labels", "annotations", "owners", "spec", "status"]
"""What of a pod changes while it runs. `status`: with whether it is leaving."""

NOTHING: frozenset[PodPart] = frozenset()

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_TEMPLATES = 8192
"""Of how many groups of equal pods the usage is remembered."""

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Load:
    """What a pod adds to the columns of its node."""

    usage: Usage
    demand: tuple[int, ...]
    """By BASE_RESOURCES."""
    others: tuple[tuple[str, int], ...]
    """The other resources that it asks for."""


class PodTable:
    """Columns over pods, [pod], and sums over the pods of every node, [node]."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        """[pod], NOBODY where a row is free."""
        self.loads: list[Load] = []
        """[pod]."""
        self.row_of: dict[str, int] = {}
        """`identity` -> pod row."""
        self.on_node: list[dict[str, int]] = []
        """[node]: its pods, `identity` -> pod row."""
        self.asking: dict[str, dict[int, int]] = {}
        """Resource beside BASE_RESOURCES -> pod row -> amount."""
        self.priorities: Counter[int] = Counter()
        """Priority -> how many pods have it."""
        self.node = np.full(64, -1, np.int64)
        """[pod] -> node row, -1 where a row is free."""
        self.priority = np.zeros(64, np.int64)
        """[pod]."""
        self.start = np.full(64, NEVER)
        """[pod] -> start time in nanoseconds since 1970, NEVER if it has none."""
        self.order = np.zeros(64, np.int64)
        """[pod] -> place in listing order."""
        self.terminating = np.zeros(64, np.bool_)
        """[pod]."""
        self.demand = np.zeros((64, len(BASE_RESOURCES)), np.int64)
        """[pod, resource]."""
        self._non_zero = np.zeros((64, 2), np.int64)
        self._free: list[int] = []
        self._known: dict[bytes, Load] = {}

    @property
    def non_zero(self) -> IntArray:
        """[2, node]: cpu and memory with a default for containers that request none; scoring uses it."""
        return self._non_zero[: len(self.on_node)].T

    def importance(self, pods: IntArray) -> tuple[IntArray, IntArray]:
        """Higher priority, then earlier start (scheduler util.MoreImportantPod, v1.36); see `Layout`."""
        return -self.priority[pods], self.start[pods]

    # --- nodes ------------------------------------------------------------------------------------------------

    def add_node(self) -> None:
        """A node without pods, in the last row."""
        self.on_node.append({})
        if len(self.on_node) > len(self._non_zero):
            self._non_zero = longer(self._non_zero, 0)
        self._non_zero[len(self.on_node) - 1] = 0

    def remove_last_node(self) -> None:
        """It must have no pods any more."""
        self.on_node.pop()

    # --- pods -------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, node: int, order: int) -> int:
        """Let the pod run on a node -> its row; ValueError, and nothing changes, for what `check` refuses."""
        load, started = self.load_of(pod), start_time(pod)
        row = self._free.pop() if self._free else self._new_row()
        self.row_of[identity(pod)] = self.on_node[node][identity(pod)] = row
        self.node[row], self.order[row] = node, order
        self._write(row, pod, load, started)
        self._count(row, node, 1)
        return row

    def change(self, row: int, pod: Pod) -> bool:
        """The pod of the row is in another state now -> may it take another place, or more or less, of its node?

        ValueError, and nothing changes, for what `check` refuses.
        """
        load, started, node = self.load_of(pod), start_time(pod), int(self.node[row])
        before = self.loads[row].demand, self.priority[row], self.start[row]
        self._count(row, node, -1)
        self._write(row, pod, load, started)
        self._count(row, node, 1)
        return before != (load.demand, pod.priority, started)

    def _write(self, row: int, pod: Pod, load: Load, started: int) -> None:
        self.pods[row], self.loads[row] = pod, load
        self.priority[row], self.start[row] = pod.priority, started
        self.terminating[row] = pod.metadata.deletion_timestamp is not None
        self.demand[row] = load.demand

    def remove(self, row: int) -> None:
        """The pod is gone, and its row free."""
        pod, node = self.pods[row], int(self.node[row])
        self._count(row, node, -1)
        del self.row_of[identity(pod)], self.on_node[node][identity(pod)]
        self.pods[row] = NOBODY
        self.node[row] = -1
        self._free.append(row)

    def _count(self, row: int, node: int, sign: int) -> None:
        load, priority = self.loads[row], self.pods[row].priority
        self.priorities[priority] += sign
        if not self.priorities[priority]:
            del self.priorities[priority]
        self._non_zero[node, 0] += sign * bounded(load.usage.non_zero_cpu)
        self._non_zero[node, 1] += sign * bounded(load.usage.non_zero_memory)
        for resource, amount in load.others:
            if sign > 0:
                self.asking.setdefault(resource, {})[row] = amount
            else:
                of_resource = self.asking[resource]
                del of_resource[row]
                if not of_resource:
                    del self.asking[resource]

    def _new_row(self) -> int:
        row = len(self.pods)
        self.pods.append(NOBODY)
        self.loads.append(_NO_LOAD)
        if row == len(self.node):
            self.node, self.start = longer(self.node, -1), longer(self.start, NEVER)
            self.priority, self.order = longer(self.priority, 0), longer(self.order, 0)
            self.terminating, self.demand = longer(self.terminating, 0), longer(self.demand, 0)
        return row

    def check(self, pod: Pod) -> None:
        """ValueError if an amount or the start time of the pod cannot be read."""
        self.load_of(pod)
        start_time(pod)

    def load_of(self, pod: Pod) -> Load:
        """What the pod takes; worked out once for all pods of a template, whose parts are the same."""
        spec, status = pod.spec, pod.status
        parts = (
            spec.containers,
            spec.init_containers,
            spec.resources,
            spec.overhead,
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
        )
        key = _ENCODER.encode((is_resize_infeasible(pod), parts))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _TEMPLATES:
                self._known.clear()
            known = self._known[key] = _load(running_usage(pod))
        return known


_NO_LOAD = Load(Usage({}, 0, 0), (0,) * len(BASE_RESOURCES), ())


def _load(usage: Usage) -> Load:
    amounts = usage.requests | {"pods": 1}
    others = tuple((name, bounded(amount)) for name, amount in usage.requests.items() if name not in BASE_RESOURCES)
    return Load(usage, tuple(bounded(amounts.get(name, 0)) for name in BASE_RESOURCES), others)


# --- facts about one pod --------------------------------------------------------------------------------------------


def identity(pod: Pod) -> str:
    """The UID; of a pod that was made without one, its name."""
    return pod.metadata.uid or pod.key


def is_finished(pod: Pod) -> bool:
    """It takes nothing of its node any more; terminating pods still do."""
    return pod.status.phase in _TERMINAL_PHASES


def is_assumed_leaving(pod: Pod) -> bool:
    """Is it to be evicted, without the API server having said yet that it goes?"""
    return pod.metadata.deletion_timestamp == LEAVING_SINCE


def differences(before: Pod, after: Pod) -> frozenset[PodPart]:
    """The parts in which two states of a pod differ, in what columns, indexes and policies of preemption read of it."""
    a, b = before.metadata, after.metadata
    found: list[PodPart] = []
    if a.labels != b.labels:
        found.append("labels")
    if a.annotations != b.annotations:
        found.append("annotations")
    if a.owner_references != b.owner_references:
        found.append("owners")
    if before.spec != after.spec:
        found.append("spec")
    if not (before.status is after.status or _same_status(before, after)) or not _goes_alike(a, b):
        found.append("status")
    return frozenset(found) if found else NOTHING


def _same_status(one: Pod, other: Pod) -> bool:
    a, b = one.status, other.status
    return (
        a.phase == b.phase
        and a.start_time == b.start_time
        and a.qos_class == b.qos_class
        and one.is_ready == other.is_ready
        and a.nominated_node_name == b.nominated_node_name
        and a.container_statuses == b.container_statuses
        and a.init_container_statuses == b.init_container_statuses
        and a.resources == b.resources
        and a.allocated_resources == b.allocated_resources
        and is_resize_infeasible(one) == is_resize_infeasible(other)
    )


def _goes_alike(a: ObjectMeta, b: ObjectMeta) -> bool:
    """Is neither leaving, or both, and do we know it from the same?"""
    one, other = a.deletion_timestamp, b.deletion_timestamp
    return (one is None) == (other is None) and (one == LEAVING_SINCE) == (other == LEAVING_SINCE)


def start_time(pod: Pod) -> int:
    """Nanoseconds since 1970, NEVER if the pod has not started.

    Raises ValueError if the text is no time with a zone, or not one of the years 1678 to 2262 that nanoseconds reach.
    """
    text = pod.status.start_time
    return parse_time(text) if text else int(NEVER)
