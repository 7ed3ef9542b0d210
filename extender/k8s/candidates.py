"""Candidates of a preemption as kube-scheduler sends them to an extender (ExtenderPreemptionArgs, extender/v1).

Rule: values only; `wire` decodes them, and the engine looks up their nodes and pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt

# Length of a UID made by the API server: a UUID as text.
UID_BYTES = 36

UIDArray = npt.NDArray[np.bytes_] | npt.NDArray[Any]
"""UIDs as bytes of length UID_BYTES; as str objects if any UID has a different length."""


@dataclass(frozen=True, slots=True)
class SentCandidate:
    """The pods that kube-scheduler would evict from one node."""

    victims: tuple[str, ...]
    """Pod UIDs."""
    num_pdb_violations: int = 0


class SentCandidates(Mapping[str, SentCandidate]):
    """Node -> candidate, in the order in which they were sent; a SentCandidate is created when read: few ever are."""

    def __init__(
        self, nodes: list[str], num_pdb_violations: list[int], sizes: npt.NDArray[np.int64], uids: UIDArray
    ) -> None:
        """`sizes`: number of victims by node; `uids`: UIDs of all victims, node by node."""
        self.nodes, self.num_pdb_violations, self.sizes, self.uids = nodes, num_pdb_violations, sizes, uids

    @classmethod
    def of(cls, sent: Mapping[str, SentCandidate]) -> "SentCandidates":
        """Convert any mapping of candidates."""
        if isinstance(sent, SentCandidates):
            return sent
        victims = [candidate.victims for candidate in sent.values()]
        sizes = np.fromiter(map(len, victims), np.int64, len(victims))
        violations = [candidate.num_pdb_violations for candidate in sent.values()]
        return cls(list(sent), violations, sizes, np.array([*chain.from_iterable(victims)], np.object_))

    @cached_property
    def _place_of(self) -> dict[str, tuple[int, int]]:
        """Node -> (index of the node, index of its first victim)."""
        starts = accumulate(self.sizes.tolist(), initial=0)
        return dict(zip(self.nodes, enumerate(starts), strict=False))

    def __getitem__(self, node: str) -> SentCandidate:
        place, start = self._place_of[node]
        victims = self.uids[start : start + int(self.sizes[place])]
        return SentCandidate(tuple(uid_texts(victims)), self.num_pdb_violations[place])

    def __contains__(self, node: object) -> bool:
        return node in self._place_of

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def uid_texts(uids: UIDArray) -> list[str]:
    return [uid.decode() for uid in uids.tolist()] if uids.dtype.kind == "S" else uids.tolist()
