"""Resolve the candidates that kube-scheduler sent to `/preempt` to node rows and pod rows of the snapshot.

kube-scheduler sends what its own dry run found (ExtenderPreemptionArgs.NodeNameToMetaVictims). Its cache and
ours may differ by a few watch events, so a candidate may name a node or a pod that the snapshot lacks.

Rule: a candidate is resolved as a whole or dropped, because one unknown UID fails the whole answer in kube-scheduler.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Self

import numpy as np

from extender.core.framework.constraint import NodeRows
from extender.core.preemption.dry_run import DryRun
from extender.core.snapshot.arrays import BoolArray, mask_of
from extender.core.snapshot.snapshot import Snapshot

UNKNOWN_NODE = "node is not in the cluster cache"
UNKNOWN_VICTIM = "a victim that kube-scheduler sent does not run on this node in the cluster cache"


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
    dropped: dict[str, str]
    """Node -> why its candidate could not be resolved."""
    victims: BoolArray
    """[pod]: True if it was sent as a victim on its own node."""

    @classmethod
    def resolve(cls, snapshot: Snapshot, sent: Mapping[str, SentCandidate]) -> Self:
        """Look up every node and victim; candidates with an unknown node or victim go to `dropped`."""
        names, uids = list(sent), [candidate.victims for candidate in sent.values()]
        rows = np.fromiter(map(snapshot.node_row.get, names, repeat(-1)), np.int64, len(names))
        # The mapping of one node is small: a lookup is faster than in one of all pods, and proves the node as well.
        pods_on = [*snapshot.pod_table.on_node, {}]  # the last one is what the row -1 of an unknown node picks
        found = (map(pods_on[row].get, victims, repeat(-1)) for row, victims in zip(rows.tolist(), uids, strict=True))
        sizes = np.fromiter(map(len, uids), np.int64, len(uids))
        pods = np.fromiter(chain.from_iterable(found), np.int64, int(sizes.sum()))
        unknown = mask_of(np.repeat(np.arange(len(names)), sizes)[pods < 0], len(names))
        resolved = (rows >= 0) & ~unknown
        dropped = {names[place]: UNKNOWN_VICTIM for place in np.flatnonzero((rows >= 0) & unknown)}
        dropped |= {names[place]: UNKNOWN_NODE for place in np.flatnonzero(rows < 0)}
        victims = mask_of(pods[pods >= 0], len(snapshot.pod_node))
        return cls(list(compress(names, resolved.tolist())), rows[resolved], dropped, victims)

    def victims_in(self, run: DryRun) -> BoolArray:
        """Return [k, node] of the dry run: whether kube-scheduler chose the pod as a victim."""
        pods = run.pods
        victims: BoolArray = self.victims[pods] & (pods >= 0)  # -1: the node has fewer pods
        return victims
