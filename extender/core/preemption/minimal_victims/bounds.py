"""Encode the pods of one node as bits, with the columns and bounds that cut the search for minimal victims short.

A pod has a place: 0 is the pod of the highest priority, the last place the one to evict first. Sets of pods are ints
with one bit per place, so that taking a subset is one machine operation.

A column of a `ColumnwiseConstraint` only gains headroom by one more victim, so it yields bounds for sets that are not
complete. Other constraints (required pod affinity, topology spread) may lose by one more victim: they are opaque, are
evaluated on complete sets, and yield no bound.

Rule: a bound may be too optimistic, never too pessimistic, so no set that makes room is ruled out.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import or_

import numpy as np

from extender.core.framework.constraint import ColumnwiseConstraint, Constraint
from extender.core.preemption.minimal_victims.problem import MinimalVictimsProblem, VictimSetCost
from extender.core.snapshot.arrays import IntArray
from extender.k8s.priority import PRIORITY_OFFSET

_WHOLE_NEED = 2**20
"""Fixed-point unit: the whole need of a column, where columns are summed in shares of their needs."""

PodSet = int
"""A set of places, as bits."""

Caps = tuple[tuple[PodSet, ...], tuple[tuple[int, ...], ...]]
"""([cap]: the pods that it limits, [round][cap]: how many of them may be evicted)."""


def pod_set(places: Iterable[int]) -> PodSet:
    """Return the set with these places."""
    return sum(1 << place for place in places)


def members(pods: PodSet) -> Iterator[int]:
    """Yield the places in a set from the last to the first: the cheapest pod to evict comes first."""
    while pods:
        place = pods.bit_length() - 1
        yield place
        pods ^= 1 << place


@dataclass(frozen=True, slots=True)
class ScarceColumn:
    """A column that lacks headroom while all pods stay; sizes are what a victim frees, capped at the need."""

    need: int
    """Headroom that is missing while all pods stay."""
    sizes: tuple[int, ...]
    """[place]: amount that evicting the pod frees, at most `need`."""
    largest_first: tuple[tuple[int, int, PodSet], ...]
    """(tightest cap of the place or -1, its size, its bit), in descending order of size."""
    ascending: tuple[int, ...]
    """The sizes in ascending order."""
    from_here: tuple[PodSet, ...]
    """[i]: the pods with size ascending[i] or more; the empty set at the end."""

    @classmethod
    def of(cls, need: int, sizes: Sequence[int], caps: Sequence[int]) -> "ScarceColumn":
        """Build a column; `caps`: [place], its tightest cap or -1."""
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        from_here = list(accumulate((1 << place for place in reversed(order)), or_, initial=0))
        return cls(
            need,
            tuple(sizes),
            tuple((caps[place], sizes[place], 1 << place) for place in reversed(order)),
            tuple(sizes[place] for place in order),
            tuple(reversed(from_here)),
        )

    def at_least(self, size: int) -> PodSet:
        """Return the pods that free `size` or more."""
        return self.from_here[bisect_left(self.ascending, size)]

    def max_freed(self, count: int, among: PodSet, cap_left: Sequence[int]) -> tuple[int, int]:
        """Return upper bounds on what `count` and `count - 1` victims in `among` free; (-1, -1): too few pods.

        `cap_left`: [cap], how many more may be evicted. A pod counts for its tightest cap only, so that the caps are
        disjoint and taking the largest pods greedily is optimal; ignoring its other caps only raises the bound.
        """
        total = size = 0
        used = [0] * len(cap_left)
        for cap, size, bit in self.largest_first:
            if among & bit:
                if cap >= 0:
                    if used[cap] >= cap_left[cap]:
                        continue
                    used[cap] += 1
                total += size
                count -= 1
                if not count:
                    return total, total - size
        return -1, -1


@dataclass(frozen=True, slots=True)
class OpaqueConstraint:
    """A constraint that one more victim may violate, so that only complete sets can be checked."""

    constraint: Constraint
    headroom: IntArray
    """[column, 1]: headroom while all pods stay."""
    demand: IntArray
    """[place, column]: amount that the pod takes."""

    def fits(self, freed: IntArray) -> bool:
        """Return whether the preemptor fits with `freed` [column, 1] more headroom, with and without nominated pods."""
        headroom, nominated = self.headroom + freed, self.constraint.nominated_demand
        beside = nominated is None or bool(self.constraint.fits(headroom - nominated)[0])
        return beside and bool(self.constraint.fits(headroom)[0])


@dataclass(frozen=True, slots=True)
class EncodedPods:
    """The evictable pods of a problem by place, with everything that the search reads."""

    ranks: tuple[int, ...]
    """[place]: rank of the pod."""
    weights: tuple[int, ...]
    """[place]: (priority + 2^31) * (pods + 1) + 1; sums order sets by the sum of (priority + 2^31), then by size."""
    priority_blocks: tuple[tuple[int, PodSet], ...]
    """(priority, the pods that have it), the lowest priority first."""
    capped: tuple[PodSet, ...]
    """[cap]: pods of which only some may be evicted: the violating pods, or the pods of one budget."""
    rounds: tuple[tuple[int, ...], ...]
    """[round][cap]: maximum victims; round n allows n violations, with strict budgets only one round exists."""
    columns: tuple[ScarceColumn, ...]
    """The scarce columns, and the sum of them if there are several."""
    opaque: tuple[OpaqueConstraint, ...]
    """The constraints without bounds."""
    opaque_demand: tuple[tuple[int, ...], ...]
    """[place]: amounts that the pod frees in the columns of all opaque constraints; () if none."""
    caps: tuple[tuple[int, ...], ...]
    """[place]: the caps that the pod counts for, the tightest first."""
    dominators: tuple[PodSet, ...]
    """[place]: later places that can replace it and are not more expensive; they are evicted before it."""


def worth_evicting(problem: MinimalVictimsProblem, known: VictimSetCost | None) -> list[int]:
    """Return the ranks that a set better than `known` can contain.

    If the known set has no violation, a better set contains no pod above the highest priority of the known set.
    """
    if known is None or known[0] > 0:
        return list(problem.evictable)
    return [k for k in problem.evictable if problem.priority[k] <= known[1]]


def encode(problem: MinimalVictimsProblem, evictable: Iterable[int]) -> EncodedPods:
    """Encode the pods of the ranks in `evictable`; all other pods stay on the node."""
    ranks = sorted(evictable, key=lambda k: (-int(problem.priority[k]), k))
    priorities = [int(problem.priority[k]) for k in ranks]
    blocks = groupby(range(len(ranks)), key=priorities.__getitem__)
    capped, rounds = _budget_caps(problem, ranks) if problem.strict else _violation_caps(problem, ranks)
    tightest_first = sorted(range(len(capped)), key=rounds[-1].__getitem__)
    caps = [tuple(cap for cap in tightest_first if capped[cap] >> place & 1) for place in range(len(ranks))]
    columns, opaque = _columns(problem, ranks, [own[0] if own else -1 for own in caps])
    opaque_demand = np.hstack([np.zeros((len(ranks), 0), np.int64), *(one.demand for one in opaque)])
    return EncodedPods(
        ranks=tuple(ranks),
        weights=tuple((priority + PRIORITY_OFFSET) * (len(ranks) + 1) + 1 for priority in priorities),
        priority_blocks=tuple((priority, pod_set(places)) for priority, places in blocks)[::-1],
        capped=capped,
        rounds=rounds,
        columns=columns,
        opaque=opaque,
        opaque_demand=tuple(tuple(row) if any(row) else () for row in opaque_demand.tolist()),
        caps=tuple(caps),
        dominators=_dominators(columns, opaque_demand, capped),
    )


def _violation_caps(problem: MinimalVictimsProblem, ranks: Sequence[int]) -> Caps:
    """Limit the violating pods: to none in the first round, to one in the second, and so on."""
    violating = pod_set(place for place, k in enumerate(ranks) if problem.violating[k])
    return (violating,), tuple((count,) for count in range(violating.bit_count() + 1))


def _budget_caps(problem: MinimalVictimsProblem, ranks: Sequence[int]) -> Caps:
    """Limit the pods of each budget that does not allow all of them to be evicted."""
    pods_of: dict[int, PodSet] = {}
    for place, k in enumerate(ranks):
        for budget in problem.budgets_of.get(k, ()):
            pods_of[budget] = pods_of.get(budget, 0) | 1 << place
    allowed = {budget: max(problem.allowed[budget], 0) for budget in pods_of}
    tight = [budget for budget in pods_of if allowed[budget] < pods_of[budget].bit_count()]
    return tuple(pods_of[budget] for budget in tight), (tuple(allowed[budget] for budget in tight),)


def _columns(
    problem: MinimalVictimsProblem, ranks: Sequence[int], caps: Sequence[int]
) -> tuple[tuple[ScarceColumn, ...], tuple[OpaqueConstraint, ...]]:
    """Return the scarce columns of columnwise constraints, with their sum, and the other constraints."""
    columns: list[ScarceColumn] = []
    opaque = []
    for constraint, emptied in zip(problem.constraints, problem.headrooms, strict=True):
        demand = constraint.dense_demand[ranks, :, 0]
        headroom = emptied - constraint.dense_demand[list(problem.evictable), :, 0].sum(axis=0)[:, np.newaxis]
        # A subclass may override `fits`, and a pod that takes a negative amount lowers the headroom when it leaves.
        if type(constraint).fits is not ColumnwiseConstraint.fits or (demand < 0).any():
            opaque.append(OpaqueConstraint(constraint, headroom, demand))
            continue
        nominated = constraint.nominated_demand
        beside = np.zeros_like(headroom) if nominated is None else np.maximum(nominated, 0)
        for sizes, have, taken in zip(demand.T.tolist(), headroom[:, 0].tolist(), beside[:, 0].tolist(), strict=True):
            need = taken - have
            if need > 0:
                columns.append(ScarceColumn.of(need, [min(size, need) for size in sizes], caps))
    return tuple(columns) + _summed_column(columns, caps), tuple(opaque)


def _summed_column(columns: Sequence[ScarceColumn], caps: Sequence[int]) -> tuple[ScarceColumn, ...]:
    """Return one more column that sums all of them, each in shares of its own need.

    A set that frees every need frees the sum of the needs, so the sum is a bound as well; it is tighter where one pod
    is large in one column and another pod in another. Shares are rounded up, which only raises the bound.
    """
    if len(columns) < 2:
        return ()
    shares = [[-(-size * _WHOLE_NEED // column.need) for size in column.sizes] for column in columns]
    sizes = [sum(of_place) for of_place in zip(*shares, strict=True)]
    return (ScarceColumn.of(len(columns) * _WHOLE_NEED, sizes, caps),)


def _dominators(
    columns: Sequence[ScarceColumn], opaque_demand: IntArray, capped: Sequence[PodSet]
) -> tuple[PodSet, ...]:
    """Return [place]: the later places that can replace it in every set.

    They free at least as much in each column, the same in the opaque constraints, and are under no other cap. A set
    with a pod but without one of its dominators is never the best: exchanging the two costs less, or spares the pod of
    higher importance at the same cost. This keeps the search from trying all combinations of pods that are alike.
    """
    size = len(opaque_demand)
    dominates = np.tri(size, k=-1, dtype=np.bool_).T  # [place, later place]
    for column in columns:
        sizes = np.array(column.sizes)
        dominates &= sizes[:, np.newaxis] <= sizes
    for pods in capped:
        is_capped = np.array([pods >> place & 1 for place in range(size)], np.bool_)
        dominates &= is_capped[:, np.newaxis] >= is_capped
    dominates &= (opaque_demand[:, np.newaxis] == opaque_demand).all(axis=2)
    packed = np.packbits(dominates, axis=1, bitorder="little")
    return tuple(int.from_bytes(row.tobytes(), "little") for row in packed)
