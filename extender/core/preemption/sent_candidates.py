"""Resolve the candidates that kube-scheduler sent to `/preempt` to node rows and pod rows of the snapshot.

kube-scheduler sends what its own dry run found (ExtenderPreemptionArgs.NodeNameToMetaVictims). Its cache and ours may
differ by a few watch events. Where ours is the newer one, a victim has been deleted meanwhile or is terminating: the
candidate stands, without that pod. Where ours is the older one, the candidate names a node or a pod that the snapshot
does not have yet.

Rule: a candidate that names what is not known here is dropped: it cannot be judged.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, compress, repeat

import numpy as np

from extender.core.framework.constraint import NodeRows
from extender.core.snapshot.arrays import BoolArray, mask_of
from extender.core.snapshot.snapshot import Snapshot


class DropCode(enum.Enum):
    """Why a node that kube-scheduler sent is not in the answer to `/preempt`, with the message unless details say more.

    The first two are decided here, REJECTED by the guard, and the others by `core.engine.preempt`.
    """

    UNKNOWN_NODE = "node is not in the cluster cache"
    UNKNOWN_VICTIM = "a victim that kube-scheduler sent does not run on this node in the cluster cache"
    REFUSED = "the pod may not preempt on any node now"
    FITS = "the pod fits without evicting anyone"
    NOT_NEEDED = "no further eviction is needed"
    UNRESOLVABLE = "preemption is not helpful for scheduling"
    NO_ROOM = "no victims would make the pod fit"
    POLICY = "a policy rejects the victims"
    OUTRANKED = "another node is the better candidate"
    REJECTED = "rejected by the guard"


CONTRADICTIONS = frozenset({DropCode.UNKNOWN_NODE, DropCode.UNKNOWN_VICTIM, DropCode.FITS, DropCode.UNRESOLVABLE})
"""Reasons that cannot be while both caches are the same: kube-scheduler would not have sent the candidate."""


PASSED_ON_WITHOUT_VICTIMS = frozenset({DropCode.FITS, DropCode.UNRESOLVABLE, DropCode.NO_ROOM})
"""Reasons that do not keep a candidate that was sent without victims out of the answer (v1.38)."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The reason why a sent node is not in the answer."""

    code: DropCode
    details: str = ""
    """Filter status, refusal, or what the policy says; "": the code says it all."""
    protected: str = ""
    """Pods that policies protect, where no victims make room."""

    @property
    def message(self) -> str:
        """The reason as the answer's log line, the decision and the audit log show it."""
        protected = f"; not evictable: {self.protected}" if self.protected else ""
        return f"{self.details or self.code.value}{protected}"


@dataclass(frozen=True, slots=True)
class SentCandidate:
    """The pods that kube-scheduler would evict from one node."""

    victims: tuple[str, ...]
    """Pod UIDs."""
    num_pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class ResolvedCandidates:
    """The sent candidates as rows of the snapshot."""

    nodes: list[str]
    """Names of the nodes whose candidates could be resolved."""
    rows: NodeRows
    """[nodes] -> node row."""
    dropped: dict[str, Dropped]
    """Node -> why its candidate could not be resolved."""
    victims: BoolArray
    """[pod]: True if it was sent as a victim on its own node."""
    deleted: frozenset[str] = frozenset()
    """Nodes of which a victim was removed or finished shortly ago, and is not among `victims`."""


def resolve_candidates(
    snapshot: Snapshot, sent: Mapping[str, SentCandidate], recent_deletions: Mapping[str, str]
) -> ResolvedCandidates:
    """Look up every node and victim; candidates with an unknown node or victim go to `dropped`.

    `recent_deletions`: UID -> node of pods that are known to be deleted; as victims they are left out.
    """
    names, uids = list(sent), [candidate.victims for candidate in sent.values()]
    rows = np.fromiter(map(snapshot.node_row.get, names, repeat(-1)), np.int64, len(names))
    # The mapping of one node is small: a lookup is faster than in one of all pods, and proves the node as well.
    pods_on = [*snapshot.pod_table.on_node, {}]  # the last one is what the row -1 of an unknown node picks
    found = (map(pods_on[row].get, victims, repeat(-1)) for row, victims in zip(rows.tolist(), uids, strict=True))
    sizes = np.fromiter(map(len, uids), np.int64, len(uids))
    pods = np.fromiter(chain.from_iterable(found), np.int64, int(sizes.sum()))
    place_of = np.repeat(np.arange(len(names)), sizes)
    missing, deleted = np.flatnonzero(pods < 0), set[str]()
    if len(missing) and recent_deletions:
        named = tuple(chain.from_iterable(uids))
        is_deleted = [recent_deletions.get(named[nth]) == names[place_of[nth]] for nth in missing.tolist()]
        deleted = {names[place_of[nth]] for nth in compress(missing.tolist(), is_deleted)}
        missing = missing[~np.array(is_deleted)]
    unknown = mask_of(place_of[missing], len(names))
    resolved = (rows >= 0) & ~unknown
    dropped = {names[place]: Dropped(DropCode.UNKNOWN_VICTIM) for place in np.flatnonzero((rows >= 0) & unknown)}
    dropped |= {names[place]: Dropped(DropCode.UNKNOWN_NODE) for place in np.flatnonzero(rows < 0)}
    victims = mask_of(pods[pods >= 0], len(snapshot.pod_node))
    nodes = list(compress(names, resolved.tolist()))
    return ResolvedCandidates(nodes, rows[resolved], dropped, victims, frozenset(deleted.intersection(nodes)))
