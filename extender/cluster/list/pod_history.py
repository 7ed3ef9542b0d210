"""The recent history of a pod according to its Events and conditions, as `extender why` shows it.

Rule: types only; `cluster.list.events` fills them in.
"""

import msgspec


class HistoryStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class with keys in camelCase."""


class SchedulerEvent(HistoryStruct, frozen=True, kw_only=True):
    """An Event about the pod, as kube-scheduler wrote it."""

    message: str
    count: int
    last_seen: str | None  # RFC 3339
    reporter: str  # Component that wrote it, such as default-scheduler


class PreemptedBy(HistoryStruct, frozen=True, kw_only=True):
    """The preemption of the pod, and its preemptor."""

    message: str  # Message of the Event or condition
    time: str | None
    node: str | None  # Node that the evicted pod ran on
    preemptor_uid: str | None = msgspec.field(default=None, name="preemptorUID")
    preemptor: str | None = None  # `namespace/name`, also of a pod that is gone if the Event names it; None if unknown
    preemptor_exists: bool = False  # True if the cluster has a pod with this UID
    preemptor_node: str | None = None  # Node that the preemptor runs on, or is nominated to, now
    is_running: bool = False  # True if the preemptor is bound to that node, False if it is only nominated


class PodHistory(HistoryStruct, frozen=True, kw_only=True):
    """Recent history of the pod according to its Events and conditions."""

    failed_scheduling: SchedulerEvent | None  # The last FailedScheduling
    preempted: PreemptedBy | None
    nominated_node: str | None
    notes: list[str]  # Problems, such as no permission to list Events
