"""Events of events.k8s.io/v1, the API that kube-scheduler uses, within the limits of its validation.

`kubectl describe pod` and `kubectl get events` show them beside kube-scheduler's own.

Rule: an Event is sent only if it passes the validation of the API server, whatever the name of its pod.
"""

import re
import socket
from typing import Any, Literal

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


def new_event(notice: Notice, number: int, time: int) -> dict[str, Any]:
    """Return the Event of a notice; `number`: unique in this process; `time`: nanoseconds since 1970."""
    own, suffix = notice.pod.metadata, f".{number:x}"
    name = own.name[: MAX_NAME_CHARACTERS - len(suffix)].rstrip("-.")
    instance = re.sub(r"[^!-~]", "-", f"{REPORTING_CONTROLLER}-{socket.gethostname()}")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name + suffix, "namespace": own.namespace},
        "eventTime": format_time(time, 6),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": instance[:MAX_REPORTING_INSTANCE_CHARACTERS],
        "action": ACTION,
        "reason": notice.reason,
        "regarding": _reference(notice.pod),
        "note": cut_note(notice.note),
        "type": notice.type,
    }
    return event if notice.related is None else event | {"related": _reference(notice.related)}


def _reference(pod: Pod) -> dict[str, str]:
    own = pod.metadata
    return {"apiVersion": "v1", "kind": "Pod", "namespace": own.namespace, "name": own.name, "uid": own.uid}


def cut_note(text: str) -> str:
    """Return untrusted text as one printable line of at most MAX_NOTE_BYTES."""
    line = one_line(text, limit=MAX_NOTE_BYTES).encode("utf-8", "replace")
    if len(line) > MAX_NOTE_BYTES:
        line = line[: MAX_NOTE_BYTES - 3] + b"..."
    return line.decode("utf-8", "ignore")
