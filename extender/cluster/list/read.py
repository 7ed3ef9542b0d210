"""Read a live cluster once, by lists without a watch: all objects, or those that a decision about one pod needs.

A kind without list permission is named in the warnings, and the plugins that read it are not evaluated, as with the
watch (`core.framework.plugins`).

Rule: a read returns everything that the decision reads, or fails with an error that names what is missing.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.list.events import Event, conditions_of, pod_history, read_events
from extender.cluster.list.lister import Listed, Lister, OnProgress
from extender.cluster.list.pod_history import PodHistory
from extender.cluster.list.requests import ListRequest, all_requests, late_requests_for, pods_of, requests_for
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.garbage import without_collections
from extender.cluster.watch.list_watch import decode_page, no_permission
from extender.core.profile import KubeScheduler, PreemptionPolicy
from extender.errors import ClusterLost, printable
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group
from extender.k8s.objects import Condition, Pod
from extender.k8s.quotas import LimitRange
from extender.k8s.version import found as version_found
from extender.k8s.version.found import FoundVersion
from extender.utilities.daemon_thread import start_daemon_thread

LoadScheduler = Callable[[FoundVersion | None], KubeScheduler]  # Returns the kube-scheduler of a version

MAX_EVENTS_SECONDS = 5.0  # Time limit for reading the Events of a pod, usually a few dozen

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterForPod:
    """Objects, settings and history for a decision about one pod."""

    objects: ClusterObjects  # Of the kinds that the pod needs; only pods if it is gone and no Event shows a preemption
    pod: Pod | None  # From the cluster or the manifest; None if the cluster has no such pod
    scheduler: KubeScheduler
    found: FoundVersion | None
    history: PodHistory | None  # None for a manifest
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WholeCluster:
    """Objects of every kind that decisions read."""

    objects: ClusterObjects
    found: FoundVersion | None  # Version of kube-scheduler; None if it was not found
    warnings: tuple[str, ...]


def read_cluster(
    api: ApiServer, policy: PreemptionPolicy, *, timeout: float, on_progress: OnProgress | None = None
) -> WholeCluster:
    """Read all objects that decisions under the policy need. Raises ClusterLost like `read_for_pod`."""
    with _without_garbage_collection():
        return _Reading(api, time.monotonic() + timeout, timeout, on_progress).all(policy)


def read_for_pod(
    api: ApiServer,
    subject: tuple[str, str] | Pod,
    load_scheduler: LoadScheduler,
    *,
    timeout: float,
    on_progress: OnProgress | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> ClusterForPod:
    """Read the objects that a decision about a pod needs; `subject`: (namespace, name), or the pod of a manifest.

    `manifest`: that of the pod, if the pod is yet to be admitted; then what admission reads is read, too. Raises
    ClusterLost if a core kind cannot be read, or not within `timeout` seconds.
    """
    with _without_garbage_collection():
        return _Reading(api, time.monotonic() + timeout, timeout, on_progress).for_pod(
            subject, load_scheduler, manifest
        )


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from visiting a million new objects, now and later."""
    if gc.get_freeze_count():  # objects of an earlier read, which `extender why --wait` repeats
        gc.unfreeze()
        # In another thread: CPython drops the KeyboardInterrupt of a Ctrl-C that arrives while a finalizer runs.
        start_daemon_thread(gc.collect).result()
    with without_collections():
        yield
        gc.freeze()


@dataclass(frozen=True, slots=True)
class _Subject:
    """The pod to explain, with its conditions and Events."""

    pod: Pod | None
    conditions: Sequence[Condition] = ()
    events: Sequence[Event] = ()
    notes: Sequence[str] = ()


@dataclass(eq=False)
class _Reading:
    """One read of one cluster."""

    api: ApiServer
    deadline: float
    timeout: float
    on_progress: OnProgress | None

    def all(self, policy: PreemptionPolicy) -> WholeCluster:
        of_api_server = start_daemon_thread(partial(_api_server_version, Lister(self.api, self.deadline)))
        listed = self._read_all(self._lister(policy), all_requests(policy))
        objects = _objects_of(listed)
        of_pods = version_found.version_of_pods(objects.pods)
        found = version_found.chosen_version(of_pods, self._result(of_api_server))
        return WholeCluster(objects, found, tuple(_warnings(listed)))

    def for_pod(
        self, subject: tuple[str, str] | Pod, load_scheduler: LoadScheduler, manifest: Mapping[str, Any] | None
    ) -> ClusterForPod:
        # 1. Read the pod, its Events and the version of kube-scheduler, in small requests at the same time.
        lister = Lister(self.api, self.deadline)
        of_pods = start_daemon_thread(partial(_scheduler_pods, lister))
        of_api_server = start_daemon_thread(partial(_api_server_version, lister))
        about = _Subject(subject) if isinstance(subject, Pod) else self._subject(lister, *subject)
        found = version_found.chosen_version(self._result(of_pods), self._result(of_api_server))
        scheduler = load_scheduler(found)
        # 2. If the pod is gone and was not preempted, only other pods are read, whose names may be meant.
        if about.pod is None and all(event.reason != "Preempted" for event in about.events):
            gone, objects = pod_history(None, (), about.events, about.notes, lambda _: None), ClusterObjects()
            with contextlib.suppress(ClusterLost):
                objects = _objects_of(self._read_all(lister, [pods_of("")]))
            return ClusterForPod(objects, None, scheduler, found, gone, ())
        # 3. Read the kinds that the pod needs, each in a thread of its own, then those that nominated pods need.
        lister, wanted = self._lister(scheduler.preemption), requests_for(about.pod, scheduler, manifest)
        listed = self._read_all(lister, wanted)
        by_kind = {one.request.kind: one.objects for one in listed}
        pods, limit_ranges = cast(list[Pod], by_kind["Pod"]), cast(list[LimitRange], by_kind.get("LimitRange", []))
        listed += self._read_all(lister, late_requests_for(pods, scheduler, wanted, limit_ranges))
        # 4. Find the preemptor among the pods. The list has a later state of the pod, with the annotations that the
        #    policy reads.
        pod, history = about.pod, None
        if not isinstance(subject, Pod):
            by_uid = {one.metadata.uid: one for one in pods}
            pod = by_uid.get(pod.metadata.uid, pod) if pod is not None else None
            history = pod_history(pod, about.conditions, about.events, about.notes, by_uid.get)
        return ClusterForPod(_objects_of(listed), pod, scheduler, found, history, tuple(_warnings(listed)))

    def _subject(self, lister: Lister, namespace: str, name: str) -> _Subject:
        reading = start_daemon_thread(partial(_read_pod, lister, namespace, name))
        reading_events = start_daemon_thread(partial(read_events, lister, namespace, name))
        pod, conditions = self._result(reading)
        # Events are optional: a server that is slow to list them must not delay the answer for long.
        limit = min(MAX_EVENTS_SECONDS, max(0.0, self.deadline - time.monotonic()) / 2)
        try:
            events, notes = reading_events.result(limit)
        except TimeoutError:
            events, notes = [], [f"Events could not be read within {limit:.2g}s"]
        return _Subject(pod, conditions, events, notes)

    def _lister(self, policy: PreemptionPolicy) -> Lister:
        return Lister(self.api, self.deadline, {"Pod": policy.annotations}, self.on_progress)

    def _read_all(self, lister: Lister, wanted: Iterable[ListRequest]) -> list[Listed]:
        """Read all lists concurrently; the first error ends the other lists."""
        reading = {start_daemon_thread(partial(lister.read, one)): one for one in wanted}
        left = max(0.0, self.deadline - time.monotonic())
        done, pending = wait(reading, left, return_when=FIRST_EXCEPTION)
        for one in done:
            error = one.exception()
            if self._is_late(error):
                pending.add(one)
            elif error is not None:
                lister.deadline = 0.0  # the other lists end with their current page
                raise _lost(error, reading[one]) from error
        if pending:
            raise self._timed_out(sorted(reading[one].resource.plural for one in pending))
        return [one.result() for one in reading]

    def _result(self, reading: "Future[T]") -> T:
        try:
            return reading.result(max(0.0, self.deadline - time.monotonic()))
        except TimeoutError:
            raise self._timed_out(["pods"]) from None
        except ClusterLost as error:
            if self._is_late(error.__cause__):
                raise self._timed_out(["pods"]) from error
            raise

    def _is_late(self, error: BaseException | None) -> bool:
        """Return whether a request failed because it ran into the deadline."""
        return isinstance(error, ApiUnreachable) and time.monotonic() >= self.deadline

    def _timed_out(self, plurals: Sequence[str]) -> ClusterLost:
        return ClusterLost(f"timed out after {self.timeout:g}s reading {', '.join(plurals)} from {self.api.host}")


# --- small requests ---------------------------------------------------------------------------------------------------


def _read_pod(lister: Lister, namespace: str, name: str) -> tuple[Pod | None, list[Condition]]:
    request = pods_of(namespace, name=name)
    try:
        page = decode_page(lister.fetch(request.path_in(request.resource.path), request.params), "Pod")
    except (ApiError, ApiUnreachable) as error:
        raise _lost(error, request) from error
    items = page.items or []
    if not items:
        return None, []
    try:
        return cast(Pod, Decoder("Pod").decode(items[0])), conditions_of(items[0])
    except ValueError as error:
        raise ClusterLost(printable(f"pod {namespace}/{name} cannot be read: {error}")) from error


def _scheduler_pods(lister: Lister) -> FoundVersion | None:
    """Return the version of kube-scheduler's pods; None if there are none, or they cannot be read."""
    labels = f"component={version_found.COMPONENT}"
    try:
        listed = lister.read(pods_of(version_found.NAMESPACE, label_selector=labels))
    except (ApiError, ApiUnreachable):  # the list of all pods fails for the same reason, and reports it
        return None
    return version_found.version_of_pods(cast(list[Pod], listed.objects))


def _api_server_version(lister: Lister) -> FoundVersion | None:
    try:
        return version_found.version_of_api_server(lister.fetch("/version"))
    except (ApiError, ApiUnreachable, ValueError):
        return None


# --- results ----------------------------------------------------------------------------------------------------------


def _lost(error: BaseException, request: ListRequest) -> BaseException:
    plural = request.resource.plural
    if isinstance(error, ApiError) and error.code == 403:
        return ClusterLost(f"no permission to list {plural}, which is required: {error}")
    if isinstance(error, (ApiError, ApiUnreachable)):
        return ClusterLost(f"cannot list {plural}: {error}")
    return error


def _objects_of(listed: Iterable[Listed]) -> ClusterObjects:
    by_field = {KINDS[one.request.kind].field: one for one in listed}
    forbidden = sorted(field for field, one in by_field.items() if one.is_forbidden)
    objects: dict[str, Any] = {field: tuple(one.objects) for field, one in by_field.items()}
    return ClusterObjects(**objects, unreadable_tables=tuple(forbidden))


def _warnings(listed: Iterable[Listed]) -> Iterator[str]:
    for one in listed:
        kind = kind_without_group(one.request.kind)
        if one.is_forbidden:
            yield no_permission(one.request.kind)
        if one.skipped:
            yield f"{one.skipped} objects of kind {kind} skipped, such as {printable(one.skip_reason)}"
