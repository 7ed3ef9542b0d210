"""Remember which pods gave up their room recently: kube-scheduler's cache may not show that yet.

A pod gives up its room when its eviction is approved here, when its deletion begins (deletionTimestamp), when it is
removed, or when it finishes (Succeeded, Failed).

Rule: bounded in time and in number; ages are measured with the monotonic clock.
"""

from collections.abc import Callable, Collection, Iterable

from extender.core.snapshot.pod_table import is_finished
from extender.k8s.objects import Pod
from extender.utilities.lru import LRU

RECENT_SECONDS = 5.0  # kube-scheduler's cache lags by milliseconds, under overload by seconds
MAX_RECENT_DELETIONS = 10_000


class RecentDeletions:
    """Pods that gave up their room in the last RECENT_SECONDS. Used by the event loop's thread only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deleted = LRU[str, tuple[float, str]](MAX_RECENT_DELETIONS)  # UID -> (time, node), oldest first

    def note(self, before: Pod | None, after: Pod | None) -> None:
        """Record a change of a pod, from the API server or by an approved eviction; None if the pod does not exist."""
        if (after is None or not holds_room(after)) and before is not None and holds_room(before):
            self._deleted.put(before.metadata.uid, (self._clock(), before.spec.node_name))

    def forget(self, uids: Iterable[str]) -> None:
        """Forget approved evictions that did not take place."""
        for uid in uids:
            self._deleted.pop(uid, None)

    def on_nodes(self, nodes: Collection[str]) -> dict[str, str]:
        """Return UID -> node of the recent deletions on these nodes."""
        since = self._clock() - RECENT_SECONDS
        while self._deleted and next(iter(self._deleted.values()))[0] < since:
            self._deleted.pop_oldest()
        return {uid: node for uid, (_, node) in self._deleted.items() if node in nodes}


def holds_room(pod: Pod) -> bool:
    """Return whether the pod is bound to a node, has not finished, and its deletion has not begun."""
    return bool(pod.spec.node_name) and not is_finished(pod) and pod.metadata.deletion_timestamp is None
