"""Read the history of a pod from its Events and conditions: the last FailedScheduling, and its preemptor.

kube-scheduler writes Events of events.k8s.io; core/v1 serves the same objects, and those of older writers. They expire
after an hour by default. Any client that may create Events in the namespace can forge them.

Parses the messages of pkg/scheduler/framework/preemption, v1.29 to v1.37: `Preempted by pod UID on node NAME`, and
`Preempted by podgroup UID on node cluster` from v1.36 on.

Rule: an Event belongs to the pod whose UID it names, not to another pod of the same name.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import field

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.list.lister import Lister
from extender.cluster.list.pod_history import PodHistory, PreemptedBy, SchedulerEvent
from extender.cluster.list.requests import ListRequest, field_is
from extender.cluster.watch.list_watch import Resource, decode_page, list_pages
from extender.k8s.objects import Condition, Pod
from extender.k8s.storage.objects import ObjectReference

MAX_EVENTS = 5_000  # Events of one pod name; a pod usually has a few dozen
PAGE_SIZE = 500

FindPod = Callable[[str], Pod | None]  # Returns the pod with a UID, if the cluster has it


class EventSource(msgspec.Struct):
    component: str = ""


class EventSeries(msgspec.Struct, rename="camel"):
    count: int = 0
    last_observed_time: str | None = None


class EventMetadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class Event(msgspec.Struct, rename="camel"):
    """core/v1 Event, with the fields that are read."""

    metadata: EventMetadata = field(default_factory=EventMetadata)
    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    reporting_component: str | None = None

    @property
    def last_seen(self) -> str:
        """Time in RFC 3339 and UTC, as the API server writes all times, so that comparing strings compares times."""
        series = self.series.last_observed_time if self.series else None
        return series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""

    def as_scheduler_event(self) -> SchedulerEvent:
        return SchedulerEvent(
            message=self.message or "",
            count=(self.series.count if self.series else 0) or self.count or 1,
            last_seen=self.last_seen or None,
            reporter=self.reporting_component or (self.source.component if self.source else ""),
        )


def read_events(lister: Lister, namespace: str, name: str) -> tuple[list[Event], list[str]]:
    """Return the Events about pods of this name, and notes about problems, as Events are optional."""
    selector = f"{field_is('involvedObject.kind', 'Pod')},{field_is('involvedObject.name', name)}"
    request = ListRequest(Resource("Event", "/api/v1/events", core=False), namespace, selector)
    path, found = request.path_in(request.resource.path), list[Event]()
    try:
        decode, decode_event = partial(decode_page, kind="Event"), msgspec.json.Decoder(Event).decode
        for page in list_pages(partial(lister.fetch, path), decode, PAGE_SIZE, request.params):
            found += map(decode_event, page.items or ())
            if len(found) >= MAX_EVENTS:
                return found, [f"the pod has more than {MAX_EVENTS:,} Events: only some of them were read"]
    except (ApiError, ApiUnreachable, ValueError) as error:
        is_forbidden = isinstance(error, ApiError) and error.code == 403
        return found, ["no permission to list Events" if is_forbidden else f"Events could not be read: {error}"]
    return found, []


def conditions_of(pod: bytes | msgspec.Raw) -> list[Condition]:
    """Return the conditions of a pod's JSON; the watch does not decode their messages."""
    try:
        return msgspec.json.decode(pod, type=Pod).status.conditions or []
    except ValueError:
        return []


def pod_history(
    pod: Pod | None,
    conditions: Sequence[Condition],
    events: Sequence[Event],
    notes: Sequence[str],
    find_pod: FindPod,
) -> PodHistory:
    """Return the history of `pod`; if it is None, of the pod that the latest Event is about."""
    ordered = sorted(events, key=lambda event: event.last_seen)
    uid = pod.metadata.uid if pod else ordered[-1].involved_object.uid if ordered else ""
    own = [event for event in ordered if event.involved_object.uid == uid]
    failed = next((event.as_scheduler_event() for event in reversed(own) if event.reason == "FailedScheduling"), None)
    preempted = _preempted_by_event(own, find_pod) or _preempted_by_condition(pod, conditions)
    earlier = _preempted_by_event([event for event in ordered if event.involved_object.uid != uid], find_pod)
    if earlier is not None:
        by = f" ({earlier.preemptor})" if earlier.preemptor else ""
        notes = [*notes, f"an earlier pod of this name was evicted: {earlier.message}{by}"]
    nominated_node = (pod.status.nominated_node_name or None) if pod else None
    return PodHistory(failed_scheduling=failed, preempted=preempted, nominated_node=nominated_node, notes=list(notes))


_PREEMPTED = re.compile(r"Preempted by (?P<type>(?:composite)?podgroup|pod) (?P<uid>\S+) on node (?P<node>\S+)")


def _preempted_by_event(events: Sequence[Event], find_pod: FindPod) -> PreemptedBy | None:
    event = next((event for event in reversed(events) if event.reason == "Preempted"), None)
    if event is None:
        return None
    message = event.message or ""
    found, related = _PREEMPTED.search(message), event.related
    is_group = found is not None and found["type"] != "pod"
    uid = found["uid"] if found else related.uid if related else None
    by = find_pod(uid) if uid and not is_group else None
    name = by.key if by else f"{related.namespace}/{related.name}" if related and related.name else None
    return PreemptedBy(
        message=message,
        time=event.last_seen or None,
        node=found["node"] if found and not is_group else None,  # a group's message says `cluster`
        preemptor_uid=uid,
        preemptor=name,
        preemptor_exists=by is not None,
        preemptor_node=(by.spec.node_name or by.status.nominated_node_name or None) if by else None,
        is_running=bool(by and by.spec.node_name),
    )


def _preempted_by_condition(pod: Pod | None, conditions: Sequence[Condition]) -> PreemptedBy | None:
    """Return the preemption according to the condition DisruptionTarget, which names no preemptor."""
    for one in conditions:
        if (one.type, one.status, one.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler"):
            node = (pod.spec.node_name or None) if pod else None
            return PreemptedBy(message=one.message, time=one.last_transition_time, node=node)
    return None
