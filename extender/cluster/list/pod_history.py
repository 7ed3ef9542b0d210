"""Types of what Events and conditions say of one pod, as `extender why` shows them.

Rule: types only; `cluster.list.events` fills them in.
"""

import msgspec


class HistoryStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class: keys in camelCase."""


class SchedulerEvent(HistoryStruct, frozen=True, kw_only=True):
    """An Event about the pod, as kube-scheduler wrote it."""

    message: str
    count: int
    last_seen: str | None  # RFC 3339
    reporter: str  # Component that wrote it, such as default-scheduler


class PreemptedBy(HistoryStruct, frozen=True, kw_only=True):
    """Which pod took the place of an evicted one."""

    message: str  # Message of the Event or condition that says so
    time: str | None
    node: str | None  # Node that the evicted pod ran on
    preemptor_uid: str | None = msgspec.field(default=None, name="preemptorUID")
    preemptor: str | None = None
    """`namespace/name` of the preemptor, also of one that is gone if the Event names it; null: not known."""
    preemptor_exists: bool = False  # False: the cluster has no pod with this UID (any more), or none is known
    preemptor_node: str | None = None  # Where the preemptor runs, or is nominated to, now
    is_running: bool = False  # True if the preemptor has that node; False: it is nominated only


class PodHistory(HistoryStruct, frozen=True, kw_only=True):
    """What Events and conditions say of the pod."""

    failed_scheduling: SchedulerEvent | None  # The last FailedScheduling
    preempted: PreemptedBy | None
    nominated_node: str | None
    notes: list[str]  # What could not be read, such as Events without permission
