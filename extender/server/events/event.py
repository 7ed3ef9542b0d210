"""Events of events.k8s.io/v1, the API that kube-scheduler uses, within the limits of its validation.

`kubectl describe pod` and `kubectl get events` show them beside kube-scheduler's own.

Rule: whatever the name of a pod, the API server accepts the Event, or it is not sent.
"""

import re
import socket
from typing import Literal

import msgspec

from extender.cluster.apiserver.binding import DNS_LABEL, DNS_NAME
from extender.cluster.apiserver.stream import one_line
from extender.k8s.objects import Pod
from extender.k8s.time import format_time

REPORTING_CONTROLLER = "kube-scheduler-extender"

ACTION = "Preempting"
"""The action of kube-scheduler's own Events about preemption."""

MAX_NOTE_BYTES = 1024
MAX_REPORTING_INSTANCE_CHARACTERS = 128
MAX_NAME_CHARACTERS = 253
"""Limits of ValidateEventCreate (pkg/apis/core/validation) and of object names."""

EventType = Literal["Normal", "Warning"]

Reason = Literal["PreemptionNominated", "PreemptionVetoed", "PreemptionVictim"]
"""The first two are about the preemptor, the third about each victim; kube-scheduler's own reason is Preempted."""


class EventStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of the types of the API."""


class PodReference(EventStruct, frozen=True, kw_only=True):
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, pod: Pod) -> "PodReference":
        own = pod.metadata
        return cls(api_version="v1", kind="Pod", namespace=own.namespace, name=own.name, uid=own.uid)


class NewEventMetadata(EventStruct, frozen=True, kw_only=True):
    name: str
    namespace: str


class SeriesCount(EventStruct, frozen=True, kw_only=True):
    count: int
    last_observed_time: str


class SeriesPatch(EventStruct, frozen=True, kw_only=True):
    """A merge patch of the only field of an Event that is not immutable."""

    series: SeriesCount


class NewEvent(EventStruct, frozen=True, kw_only=True):
    # Fields without a default, because EventStruct omits defaults.
    api_version: str
    kind: str
    metadata: NewEventMetadata
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: Reason
    regarding: PodReference
    note: str
    type: EventType
    related: PodReference | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An Event to be written about a pod, unless it is a repetition or exceeds a rate."""

    pod: Pod
    type: EventType
    reason: Reason
    note: str
    related: Pod | None = None

    @property
    def key(self) -> tuple[str, Reason, str]:
        """Identity of the series: repetitions have the same key."""
        return self.pod.metadata.uid, self.reason, cut_note(self.note)

    @property
    def is_valid(self) -> bool:
        """Return whether the API server accepts an Event about this pod."""
        # The names come from a request: one such as `..` would change the path that the Event is sent to.
        own = self.pod.metadata
        return (
            len(own.namespace) <= 63
            and DNS_LABEL.fullmatch(own.namespace) is not None
            and len(own.name) <= MAX_NAME_CHARACTERS
            and DNS_NAME.fullmatch(own.name) is not None
            and len(own.uid) <= MAX_NAME_CHARACTERS
        )


def new_event(notice: Notice, number: int, time: int) -> NewEvent:
    """Return the Event of a notice; `number`: unique in this process; `time`: nanoseconds since 1970."""
    own, suffix = notice.pod.metadata, f".{number:x}"
    name = own.name[: MAX_NAME_CHARACTERS - len(suffix)].rstrip("-.")
    instance = re.sub(r"[^!-~]", "-", f"{REPORTING_CONTROLLER}-{socket.gethostname()}")
    return NewEvent(
        api_version="events.k8s.io/v1",
        kind="Event",
        metadata=NewEventMetadata(name=name + suffix, namespace=own.namespace),
        event_time=format_time(time, 6),
        reporting_controller=REPORTING_CONTROLLER,
        reporting_instance=instance[:MAX_REPORTING_INSTANCE_CHARACTERS],
        action=ACTION,
        reason=notice.reason,
        regarding=PodReference.of(notice.pod),
        note=cut_note(notice.note),
        type=notice.type,
        related=None if notice.related is None else PodReference.of(notice.related),
    )


def cut_note(text: str) -> str:
    """Return untrusted text as one printable line of at most MAX_NOTE_BYTES."""
    line = one_line(text, limit=MAX_NOTE_BYTES).encode("utf-8", "replace")
    if len(line) > MAX_NOTE_BYTES:
        line = line[: MAX_NOTE_BYTES - 3] + b"..."
    return line.decode("utf-8", "ignore")
