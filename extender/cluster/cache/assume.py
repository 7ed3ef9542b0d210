"""What we know of pods before the watch shows it: those that we bound, nominated, or had evicted.

An assumption stands over what the API server says of the pod until that shows it too, until a request shows that
kube-scheduler thought better of it, or until it is too old.

Rule: what the API server says is never lost; when an assumption goes, that stands again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from extender.core.snapshot.pod_table import LEAVING_SINCE
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Pod

log = logging.getLogger(__name__)

ASSUMPTION_TTL_SECONDS = 30.0
"""Seconds; what has not been seen by then did not come about."""

Effect = Callable[[Pod], Pod]
IsObserved = Callable[[Pod], bool]


class SnapshotHolder(Protocol):
    """Where assumptions are put."""

    def mutable_snapshot(self) -> Snapshot: ...


@dataclass(slots=True)
class Assumption:
    """Of one pod."""

    uid: str
    because_of: str
    """UID of the pod whose scheduling it belongs to."""
    effects: dict[str, Effect]
    """All that is assumed of it, by a name for each."""
    is_shown: IsObserved
    """Of the last one, after which none is needed."""
    until: float
    said: Pod | None
    """The pod as the API server said last; None if it has said nothing yet."""
    assumed: Pod
    """The same with the effects, as the picture holds it."""


class AssumeCache:
    """All that stand, by pod. Used by the thread that decides."""

    def __init__(self, picture: SnapshotHolder, clock: Callable[[], float] = time.monotonic) -> None:
        self._picture = picture
        self._clock = clock
        self._of: dict[Key, Assumption] = {}

    def __len__(self) -> int:
        return len(self._of)

    # --- made -------------------------------------------------------------------------------------------------

    def assume_bound(self, namespace: str, name: str, uid: str, node: str) -> None:
        """The pod runs on the node; nothing if the picture does not hold the pod: what it takes is not known."""

        def assume_bound(pod: Pod) -> Pod:
            return pod if _is_bound(pod) else replace(pod, spec=replace(pod.spec, node_name=node))

        held = self._picture.mutable_snapshot().objects.pods.get((namespace, name))
        if held is not None and held.metadata.uid == uid:
            self._assume(held, uid, "bound", assume_bound, _is_bound)

    def assume_preempted(self, preemptor: Pod, node: str, victims: Iterable[Pod]) -> None:
        """kube-scheduler nominates the preemptor to the node and deletes the victims.

        Nothing if the picture holds another pod of that name: one of us is behind, and it need not be us.
        """

        def nominated(pod: Pod) -> Pod:
            return replace(pod, status=replace(pod.status, nominated_node_name=node))

        uid = preemptor.metadata.uid
        held = self._picture.mutable_snapshot().objects.pods.get(key_of("Pod", preemptor))
        if held is not None and held.metadata.uid != uid:
            return
        self._assume(
            held or preemptor,
            uid,
            "nominated",
            nominated,
            lambda pod: pod.status.nominated_node_name == node or _is_bound(pod),
            is_known=held is not None,
        )
        for victim in victims:
            if not _is_terminating(victim):
                self._assume(victim, uid, "leaving", _terminating, _is_terminating)

    def _assume(
        self, pod: Pod, because_of: str, what: str, effect: Effect, is_shown: IsObserved, *, is_known: bool = True
    ) -> None:
        key, until = key_of("Pod", pod), self._clock() + ASSUMPTION_TTL_SECONDS
        before, said, effects = self._of.get(key), pod if is_known else None, {what: effect}
        if before is not None and before.uid == pod.metadata.uid:
            said, effects = before.said, before.effects | effects
        assumed = _apply_effects(effects, said or pod)
        # First noted, then shown: another thread must never take what is assumed for what was said.
        self._of[key] = Assumption(pod.metadata.uid, because_of, effects, is_shown, until, said, assumed)
        try:
            self._picture.mutable_snapshot().put("Pod", assumed)
        except ValueError as error:  # a request may say anything of its pod
            log.warning("nothing is assumed of pod %r: %s", pod.key, error)
            del self._of[key]
            if before is not None:
                self._of[key] = before

    # --- asked ------------------------------------------------------------------------------------------------

    def said(self, held: Pod) -> Pod | None:
        """What the API server says of a pod that the picture holds; None if nothing. From any thread."""
        known = self._of.get(key_of("Pod", held)) if self._of else None
        return held if known is None else known.said

    def without(self, held: Mapping[Key, Pod]) -> dict[Key, Pod]:
        """The pods of a picture as the API server has them."""
        found = dict(held)
        for key, known in self._of.items():
            if found.get(key) is known.assumed:
                if known.said is None:
                    del found[key]
                else:
                    found[key] = known.said
        return found

    # --- met --------------------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """The API server says this of a pod: put it into the picture, and over it what still stands.

        ValueError, and nothing changes, if it cannot be read.
        """
        known, snapshot = self._of.get(key_of("Pod", pod)) if self._of else None, self._picture.mutable_snapshot()
        if known is None:
            snapshot.put("Pod", pod)
            return
        before = known.said, known.assumed
        ends = pod.metadata.uid != known.uid or known.is_shown(pod) or known.until <= self._clock()
        known.said, known.assumed = pod, pod if ends else _apply_effects(known.effects, pod)
        try:
            snapshot.put("Pod", known.assumed)
        except ValueError:
            known.said, known.assumed = before
            raise
        if ends:
            del self._of[key_of("Pod", pod)]

    def renew(self) -> None:
        """The picture is a new one, of what the API server says: put over it what still stands."""
        snapshot = self._picture.mutable_snapshot()
        for key, known in list(self._of.items()):
            held = snapshot.objects.pods.get(key)
            if held is not None:
                self.put(held)
            elif known.said is None:
                snapshot.put("Pod", known.assumed)
            else:
                del self._of[key]

    def gone(self, key: Key) -> None:
        """The pod is deleted."""
        self._of.pop(key, None)

    # --- withdrawn --------------------------------------------------------------------------------------------

    def forget_preemption(self, pod: Pod) -> None:
        """kube-scheduler asks about the pod: a preemption that it does not know of any more did not come about."""
        known = self._of.get(key_of("Pod", pod)) if self._of else None
        if known is not None and known.uid == pod.metadata.uid and not known.is_shown(pod):
            self._withdraw([key for key, one in self._of.items() if one.because_of == known.uid])

    def expire(self) -> None:
        """Withdraw what is too old."""
        if self._of:
            now = self._clock()
            self._withdraw([key for key, one in self._of.items() if one.until <= now])

    def _withdraw(self, keys: Iterable[Key]) -> None:
        snapshot = self._picture.mutable_snapshot()
        for key in keys:
            known = self._of[key]
            if snapshot.objects.pods.get(key) is known.assumed:
                if known.said is None:
                    snapshot.remove("Pod", key)
                else:
                    snapshot.put("Pod", known.said)
            del self._of[key]


def _apply_effects(effects: dict[str, Effect], pod: Pod) -> Pod:
    for effect in effects.values():
        pod = effect(pod)
    return pod


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name)


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _terminating(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=LEAVING_SINCE))
