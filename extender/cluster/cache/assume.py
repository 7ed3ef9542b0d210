"""Assume the effects of our own answers before the watch shows them: pods bound, nominated or evicted.

Mirrors kube-scheduler's AssumePod, ForgetPod and expiry of assumed pods (pkg/scheduler/backend/cache, v1.36) and its
generic assume cache (pkg/scheduler/util/assumecache): an assumed state overrides the API server's until a watch event
confirms it, until kube-scheduler schedules the preemptor again, or until it expires.

A preemptor that no watch event has shown yet is known only from a request, which may contain anything. It counts as
nominated, never as running, and only while the API server has no pod of its name or UID.

Rule: the API server's state is never lost, displaced or hidden; when an assumption ends, that state is restored.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from extender.cluster.cache.recent_deletions import RecentDeletions, holds_room
from extender.core.preemption.eligibility import skip_reason
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import Key, key_of
from extender.k8s.limits.memory import memory_of
from extender.k8s.objects import Pod, PodStatus

ASSUMPTION_TTL_SECONDS = 30.0  # Seconds after which an assumption that no watch event has confirmed ends
MAX_UNKNOWN_PREEMPTORS = 100  # Assumed preemptors that no watch event has shown yet; every decision reads them all
MAX_UNKNOWN_PREEMPTOR_BYTES = 1 << 18  # Maximum memory of one such preemptor, stored as it was sent

Effect = Callable[[Pod], Pod]
IsConfirmed = Callable[[Pod], bool]


@dataclass(slots=True)
class Assumption:
    """The assumed state of one pod."""

    uid: str
    made_for: str  # UID of the preemptor or bound pod
    effects: dict[str, Effect]  # Name -> effect, for all assumed effects on the pod
    is_confirmed: IsConfirmed  # Whether a state from the API server shows the last effect, which ends the assumption
    expires_at: float  # Clock time
    from_api: Pod | None  # As the API server last sent it; None if it has not sent the pod yet
    assumed: Pod  # With all effects applied, as in the snapshot


class AssumeCache:
    """Assumptions by pod (namespace, name). Used by the event loop's thread, except `api_object`."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        recent_deletions: RecentDeletions,
        clock: Callable[[], float],
        was_deleted: Callable[[str], bool],
    ) -> None:
        """`was_deleted`: returns whether the API server has deleted the pod with the given UID."""
        self._snapshot = snapshot
        self._recent_deletions = recent_deletions
        self._clock = clock
        self._was_deleted = was_deleted
        self._assumptions: dict[Key, Assumption] = {}
        self._unknown: dict[str, Key] = {}  # UID -> key of the preemptors that the API server has not sent yet

    def __len__(self) -> int:
        return len(self._assumptions)

    # --- assuming ---------------------------------------------------------------------------------------------

    def assume_bound(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Assume that the pod runs on the node; ignored for a pod that the API server has not sent yet."""

        def bound(pod: Pod) -> Pod:
            return pod if _is_bound(pod) else replace(pod, spec=replace(pod.spec, node_name=node))

        cached = self._snapshot().objects.pods.get((namespace, name))
        if cached is not None and cached.metadata.uid == uid and self.api_object(cached) is not None:
            self._assume(cached, uid, "bound", bound, _is_bound)

    def assume_preempted(self, preemptor: Pod, node: str, victims: Iterable[Pod]) -> None:
        """Assume that kube-scheduler nominates the preemptor to the node and deletes the victims.

        Ignored if the preemptor differs from the cached pod, or is not pending (see `_pending`).
        """

        def nominated(pod: Pod) -> Pod:
            return pod if _is_bound(pod) else replace(pod, status=replace(pod.status, nominated_node_name=node))

        def is_confirmed(pod: Pod) -> bool:
            return pod.status.nominated_node_name == node or _is_bound(pod)

        uid, pods = preemptor.metadata.uid, self._snapshot().objects.pods
        pending = self._pending(preemptor)
        if pending is None:
            return
        # Preemptors that the API server has not sent are nominated within limits on their number and size.
        if key_of("Pod", pending) in pods or (
            len(self._unknown) < MAX_UNKNOWN_PREEMPTORS and memory_of(pending) <= MAX_UNKNOWN_PREEMPTOR_BYTES
        ):
            self._assume(pending, uid, "nominated", nominated, is_confirmed)
        for victim in victims:
            cached = pods.get(key_of("Pod", victim))
            if cached is not None and cached.metadata.uid == victim.metadata.uid and holds_room(cached):
                self._assume(
                    cached, uid, "terminating", _terminating, lambda pod: pod.metadata.deletion_timestamp is not None
                )
                self._recent_deletions.note(cached, _terminating(cached))

    def _pending(self, preemptor: Pod) -> Pod | None:
        """Return the cached preemptor, or the request's pod if the API server knows neither its name nor its UID.

        None if the UIDs differ, or if the pod is bound, terminating or finished; ValueError for an invalid pod.
        """
        uid, cached = preemptor.metadata.uid, self._snapshot().objects.pods.get(key_of("Pod", preemptor))
        if not uid or skip_reason(preemptor) is not None:
            return None
        if cached is not None:
            return cached if cached.metadata.uid == uid and skip_reason(cached) is None else None
        if uid in self._unknown or self._was_deleted(uid) or self._snapshot().has_uid(uid):
            return None
        unknown = replace(preemptor, status=PodStatus())
        self._snapshot().pod_table.validate(unknown)
        return unknown

    def _assume(self, pod: Pod, made_for: str, what: str, effect: Effect, is_confirmed: IsConfirmed) -> None:
        key, snapshot = key_of("Pod", pod), self._snapshot()
        expires_at, effects = self._clock() + ASSUMPTION_TTL_SECONDS, {what: effect}
        before, from_api = self._assumptions.get(key), snapshot.objects.pods.get(key)
        if before is not None:
            from_api, effects = before.from_api, before.effects | effects
        if from_api is None:
            self._unknown[pod.metadata.uid] = key
        assumed = _apply_effects(effects, from_api or pod)
        # Registered before the snapshot has it: `api_object` in another thread must not return the assumed pod.
        self._assumptions[key] = Assumption(
            pod.metadata.uid, made_for, effects, is_confirmed, expires_at, from_api, assumed
        )
        snapshot.put("Pod", assumed)

    # --- the API server's state -------------------------------------------------------------------------------

    def api_object(self, cached: Pod) -> Pod | None:
        """Return the API server's state of a cached pod; None if it never sent one. Callable from any thread."""
        assumption = self._assumptions.get(key_of("Pod", cached)) if self._assumptions else None
        return cached if assumption is None else assumption.from_api

    def api_objects(self, cached: Mapping[Key, Pod]) -> dict[Key, Pod]:
        """Return the cached pods as the API server sent them."""
        found = dict(cached)
        for key, assumption in self._assumptions.items():
            if found.get(key) is assumption.assumed:
                if assumption.from_api is None:
                    del found[key]
                else:
                    found[key] = assumption.from_api
        return found

    def effects(self) -> dict[str, list[str]]:
        """Return pod -> its assumed effects: `bound` or `nominated` with the node, `terminating`."""
        found: dict[str, list[str]] = {}
        for pod, effects in ((one.assumed, one.effects) for one in self._assumptions.values()):
            nodes = {"bound": pod.spec.node_name, "nominated": pod.status.nominated_node_name}
            found[pod.key] = [f"{name} to {nodes[name]}" if nodes.get(name) else name for name in effects]
        return found

    # --- updates from the API server --------------------------------------------------------------------------

    def update(self, pod: Pod) -> None:
        """Put a pod from the API server into the snapshot, with the effects that it does not confirm yet.

        ValueError, with nothing changed, for an invalid pod.
        """
        key, snapshot = key_of("Pod", pod), self._snapshot()
        if self._unknown.get(pod.metadata.uid, key) != key:  # a request claimed this UID for another pod
            self._undo(pod.metadata.uid)
        assumption = self._assumptions.get(key)
        if assumption is None:
            snapshot.put("Pod", pod)
            return
        before = assumption.from_api, assumption.assumed
        is_expired = assumption.expires_at <= self._clock()
        ends = is_expired or pod.metadata.uid != assumption.uid or assumption.is_confirmed(pod)
        assumption.from_api, assumption.assumed = pod, pod if ends else _apply_effects(assumption.effects, pod)
        try:
            snapshot.put("Pod", assumption.assumed)
        except ValueError:
            assumption.from_api, assumption.assumed = before
            raise
        self._unknown.pop(assumption.uid, None)
        if ends:
            del self._assumptions[key]

    def reapply(self) -> None:
        """Apply the assumptions that still hold to a new snapshot, built from the API server's state."""
        pods = self._snapshot().objects.pods
        unknown, self._unknown = self._unknown, {}
        known = {pod.metadata.uid for pod in pods.values()} if unknown else set()
        for key, assumption in list(self._assumptions.items()):
            cached = pods.get(key)
            if cached is not None:
                self.update(cached)
            elif assumption.from_api is None and assumption.uid not in known:
                self._unknown[assumption.uid] = key
                self._snapshot().put("Pod", assumption.assumed)
            else:
                del self._assumptions[key]

    def remove(self, key: Key) -> None:
        """Forget what was assumed about a deleted pod."""
        assumption = self._assumptions.pop(key, None)
        if assumption is not None and assumption.from_api is None:
            self._unknown.pop(assumption.uid, None)

    # --- restoring --------------------------------------------------------------------------------------------

    def forget_preemption(self, pod: Pod) -> None:
        """Undo an assumed preemption whose preemptor kube-scheduler sends again without the nomination (ForgetPod)."""
        assumption = self._assumptions.get(key_of("Pod", pod)) if self._assumptions else None
        if assumption is not None and assumption.uid == pod.metadata.uid and not assumption.is_confirmed(pod):
            self._undo(assumption.uid)

    def _undo(self, preemptor: str) -> None:
        made_for = {key: one.uid for key, one in self._assumptions.items() if one.made_for == preemptor}
        self._restore(made_for)
        self._recent_deletions.forget(made_for.values())

    def expire(self) -> None:
        """Restore pods whose assumptions have expired."""
        if self._assumptions:
            now = self._clock()
            self._restore([key for key, one in self._assumptions.items() if one.expires_at <= now])

    def _restore(self, keys: Iterable[Key]) -> None:
        snapshot = self._snapshot()
        for key in keys:
            assumption = self._assumptions[key]
            if snapshot.objects.pods.get(key) is assumption.assumed:
                if assumption.from_api is None:
                    snapshot.remove("Pod", key)
                else:
                    snapshot.put("Pod", assumption.from_api)
            self.remove(key)


def _apply_effects(effects: dict[str, Effect], pod: Pod) -> Pod:
    for effect in effects.values():
        pod = effect(pod)
    return pod


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _terminating(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=ASSUMED_DELETION_TIMESTAMP))
