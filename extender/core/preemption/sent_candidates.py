"""Resolve the candidates that kube-scheduler sent to `/preempt` to node rows and pod rows of the snapshot.

kube-scheduler sends the candidates that its own dry run found (ExtenderPreemptionArgs.NodeNameToMetaVictims). Its cache
and ours may differ by a few watch events. If our cache is ahead, a victim may have been deleted: the candidate stays,
without that pod. If our cache is behind, the candidate may name a node or pod that the snapshot does not have yet.

Rule: a candidate with an unknown node or victim is rejected.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat

import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, grown, mask_of
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.candidates import UID_BYTES, SentCandidate, SentCandidates, uid_texts
from extender.k8s.objects import Pod


class RejectionReason(enum.Enum):
    """Reason why a sent node is not in the answer to `/preempt`; the value is the message if there are no details.

    This module finds the first three reasons, the guard finds REJECTED, and `core.engine.preempt` the rest.
    """

    UNKNOWN_NODE = "node is not in the cluster cache"
    UNKNOWN_VICTIM = "a victim that kube-scheduler sent does not run on this node in the cluster cache"
    GROUP_ELSEWHERE = "the victims are a group with pods on other nodes, which kube-scheduler takes from no extender"
    REFUSED = "the pod may not preempt on any node now"
    FITS = "the pod fits without evicting anyone"
    NOT_NEEDED = "no further eviction is needed"
    UNRESOLVABLE = "preemption is not helpful for scheduling"
    NO_ROOM = "no victims would make the pod fit"
    POLICY = "a policy rejects the victims"
    OUTRANKED = "another node is the better candidate"
    REJECTED = "rejected by the guard"


CONTRADICTIONS = frozenset(
    {RejectionReason.UNKNOWN_NODE, RejectionReason.UNKNOWN_VICTIM, RejectionReason.FITS, RejectionReason.UNRESOLVABLE}
)
"""Reasons that cannot occur while both caches agree: kube-scheduler would not have sent the candidate."""

PASSED_ON_WITHOUT_VICTIMS = frozenset({RejectionReason.FITS, RejectionReason.UNRESOLVABLE, RejectionReason.NO_ROOM})
"""Reasons despite which the answer includes a candidate that was sent without victims (v1.38)."""


@dataclass(frozen=True, slots=True)
class CandidateRejection:
    """The reason why a sent node is not in the answer."""

    code: RejectionReason
    details: str = ""
    """Filter status, refusal, or message of a policy; "": the message of `code` suffices."""
    protected: str = ""
    """Pods that policies protect, on a node where no victims make room."""
    protected_until: int | None = None
    """Time at which the first of these pods loses its protection, in nanoseconds since 1970; None if none does."""

    @property
    def message(self) -> str:
        """The reason as shown in log lines, decisions and the audit log."""
        protected = f"; not evictable: {self.protected}" if self.protected else ""
        return f"{self.details or self.code.value}{protected}"


class PodUIDs(Index):
    """The UIDs of the running pods in arrays."""

    pod_parts = frozenset()

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._uids, self._ends = np.zeros(64, f"S{UID_BYTES}"), np.zeros(64, np.uint64)
        self._unread: set[int] = set()
        """Pod rows whose UIDs are not in the arrays yet."""

    def pod_added(self, row: int, pod: Pod) -> None:
        self._unread.add(row)

    def pods_added(self, rows: Sequence[int], pods: Sequence[Pod]) -> None:
        self._unread.update(rows)
        self.read()

    def read(self) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.uint64]]:
        """Return ([pod]: its UID, empty if not UID_BYTES long; [pod]: `uid_ends` of the UID)."""
        if self._unread:
            pods, rows = self.snapshot.pods, list(self._unread)
            uids = (pods[row].metadata.uid.encode("utf-8", "surrogatepass") for row in rows)
            self._uids, self._ends = grown(self._uids, len(pods), 0), grown(self._ends, len(pods), 0)
            self._uids[rows] = [uid if len(uid) == UID_BYTES else b"" for uid in uids]
            self._ends[rows] = uid_ends(self._uids[rows])
            self._unread.clear()
        return self._uids, self._ends


def uid_ends(uids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint64]:
    """Return the last eight bytes of each UID as an integer."""
    return uids.view(np.uint8).reshape(-1, UID_BYTES)[:, -8:].copy().view(np.uint64)[:, 0]


@dataclass(frozen=True, slots=True)
class ResolvedCandidates:
    """The sent candidates as rows of the snapshot."""

    nodes: list[str]
    """Names of the nodes whose candidates could be resolved."""
    rows: NodeRows
    """[entry of `nodes`]: its node row."""
    dropped: dict[str, CandidateRejection]
    """Node -> why its candidate could not be resolved."""
    victims: BoolArray
    """[pod]: whether it was sent as a victim on the node on which it runs."""
    deleted: frozenset[str] = frozenset()
    """Nodes on which a sent victim was recently removed or finished; `victims` does not include that pod."""


def resolve_candidates(
    snapshot: Snapshot, sent: Mapping[str, SentCandidate], recent_deletions: Mapping[str, str]
) -> ResolvedCandidates:
    """Look up the sent nodes and victims.

    `recent_deletions`: UID -> node of pods known to be deleted, which are left out of the victims.
    """
    candidates = SentCandidates.of(sent)
    names, place_of = candidates.nodes, np.repeat(np.arange(len(candidates.sizes)), candidates.sizes)
    rows = np.fromiter(map(snapshot.node_row.get, names, repeat(-1)), np.int64, len(names))
    pods = _pods_of_victims(snapshot, candidates, rows, place_of)
    missing, deleted = np.flatnonzero(pods < 0), set[str]()
    if len(missing) and recent_deletions:
        named = zip(uid_texts(candidates.uids[missing]), place_of[missing].tolist(), strict=True)
        is_deleted = [recent_deletions.get(uid) == names[place] for uid, place in named]
        deleted = {names[place] for place in place_of[missing[is_deleted]].tolist()}
        missing = missing[~np.array(is_deleted)]
    unknown = mask_of(place_of[missing], len(names))
    resolved = (rows >= 0) & ~unknown
    dropped = {
        names[place]: CandidateRejection(RejectionReason.UNKNOWN_VICTIM)
        for place in np.flatnonzero((rows >= 0) & unknown)
    }
    if len(missing) and snapshot.features.groups_are_evicted_whole:
        # kube-scheduler may evict a PodGroup as a whole (v1.37). If the group runs on several nodes, kube-scheduler
        # sends all pods of the group as victims on one node, but rejects an answer with them: an extender's victims
        # must run on the node (HTTPExtender.convertPodUIDToPod). With fewer victims the group would break.
        running = map(snapshot.pod_table.row_of.get, uid_texts(candidates.uids[missing]))
        grouped = [row is not None and snapshot.pods[row].spec.scheduling_group is not None for row in running]
        dropped |= {
            names[place]: CandidateRejection(RejectionReason.GROUP_ELSEWHERE)
            for place in place_of[missing[grouped]].tolist()
        }
    dropped |= {names[place]: CandidateRejection(RejectionReason.UNKNOWN_NODE) for place in np.flatnonzero(rows < 0)}
    victims = mask_of(pods[pods >= 0], len(snapshot.pod_node))
    nodes = list(compress(names, resolved.tolist()))
    return ResolvedCandidates(nodes, rows[resolved], dropped, victims, frozenset(deleted.intersection(nodes)))


def _pods_of_victims(snapshot: Snapshot, sent: SentCandidates, rows: NodeRows, place_of: IntArray) -> IntArray:
    """Return [victim]: its pod row, -1 if it does not run on the node; `place_of`: [victim], index of the node."""
    found = np.full(len(sent.uids), -1)
    if sent.uids.dtype.kind == "S":
        # 1. Find victims that were sent in order of rank, as kube-scheduler sends them, on all nodes at once: step k
        #    compares each node's pod of rank k with the node's first victim that is not found yet. It compares the last
        #    eight bytes of the UIDs as integers, which is faster; whole UIDs are compared afterwards.
        known, (uids, ends) = np.flatnonzero(rows >= 0), snapshot.index(PodUIDs).read()
        pods, until = snapshot.layout.pod.take(rows[known], axis=1), np.cumsum(sent.sizes)[known]
        first = until - sent.sizes[known]
        wanted, at, is_next = np.append(uid_ends(sent.uids), np.uint64(0)), first.copy(), np.empty(pods.shape, np.bool_)
        for of_rank, hit in zip(ends.take(pods), is_next, strict=True):
            np.equal(of_rank, wanted.take(at), out=hit)
            hit &= at < until
            at += hit
        counts = at - first
        victims = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        found[victims] = pods.T.ravel()[np.flatnonzero(is_next.T)]
        differs = uids.take(found).view(np.uint32) != sent.uids.view(np.uint32)
        if differs.any():
            found[differs.reshape(-1, UID_BYTES // 4).any(axis=1)] = -1
    # 2. Look up the other victims in the mapping of their node. It is smaller than the mapping of all pods, so the
    #    lookup is faster, and it proves that the pod runs on the node.
    others = np.flatnonzero(found < 0)
    if len(others):
        pods_on = [*snapshot.pod_table.on_node, {}]  # row -1 of an unknown node selects the empty mapping
        of_victims = zip(rows[place_of[others]].tolist(), uid_texts(sent.uids[others]), strict=True)
        found[others] = [pods_on[row].get(uid, -1) for row, uid in of_victims]
    return found
