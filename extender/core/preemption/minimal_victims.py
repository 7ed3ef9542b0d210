"""The best victims on one node: of all sets of pods whose loss makes room, the one that costs least.

The reprieve spares the most important pods first, and may so lose many small ones where one would
have done. Here sets are searched depth first, cut short by what no larger set can mend: columns in which there must be
room (`ColumnwiseConstraint`) only gain by a victim more, and so does the cost. Other constraints may lose by it (required pod
affinity), so they are asked about whole sets and nothing is concluded for others.

Of two sets the better has fewer violations; then the lower highest priority; then the smaller sum of (priority + 2^31),
fewer victims; then it spares the first pod in which they differ, from the highest priority down, equal ones by rank.

Rule: bounded in sets tried, never in time: the same problem has the same answer everywhere.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby, islice
from operator import add, or_
from typing import NamedTuple

import numpy as np

from extender.core.framework.constraint import ColumnwiseConstraint, Constraint
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.k8s.priority import PRIORITY_OFFSET

MAX_SEARCH_STEPS = 5_000
"""How many sets are tried on one node: at most some 40 ms (110 pods, four columns, Python 3.11). They also bound how
deep the search goes."""

_WHOLE_NEED = 2**20
"""A column's need, where columns are added up in shares of it."""

_STEPS_PER_FULL_CHECK = 10
"""To look at all pods, or to ask a constraint about its room, takes as long as to try so many sets."""

_MAX_REACHABLE_ROOMS = 50
"""About so many rooms that pods could free are looked at before the search, at most."""

_VICTIMS_PER_STEP = 4
"""A larger set takes longer to try, by a step for so many."""

VictimSetCost = tuple[int, int, int, int]
"""(violations, highest priority, sum of (priority + 2^31), victims): the smaller the better."""


# --- question and answer --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MinimalVictimsProblem:
    """One node, all pods that may leave taken off."""

    constraints: tuple[Constraint, ...]
    """Of this node alone."""
    headrooms: tuple[IntArray, ...]
    """Per constraint [column, 1]: what is left without the evictable pods."""
    evictable: tuple[int, ...]
    """Ranks, the most important first."""
    priority: IntArray
    """[k]."""
    violating: BoolArray
    """[k]: losing it counts as a violation, unless `strict`."""
    budgets_of: Mapping[int, tuple[int, ...]]
    """Rank -> the budgets that its loss is charged to; none where it is left out."""
    allowed: Sequence[int]
    """[budget]: of how many pods it allows the loss."""
    strict: bool
    """No budget is charged more than it allows; then nothing is a violation."""

    def cost(self, victims: Iterable[int]) -> VictimSetCost:
        """Of at least one victim."""
        priorities = [int(self.priority[k]) for k in victims]
        violations = 0 if self.strict else sum(bool(self.violating[k]) for k in victims)
        return violations, max(priorities), sum(priorities) + len(priorities) * PRIORITY_OFFSET, len(priorities)

    def keeps_budgets(self, victims: Iterable[int]) -> bool:
        """Is no budget charged more than it allows?"""
        charged = [budget for k in victims for budget in self.budgets_of.get(k, ())]
        return all(charged.count(budget) <= self.allowed[budget] for budget in set(charged))


@dataclass(frozen=True, slots=True)
class MinimalVictimsResult:
    """The best victims; None: no set will do."""

    victims: frozenset[int] | None
    exact: bool
    """All sets were tried or ruled out; otherwise there may be better ones."""
    steps: int
    """How many were used."""


def find_minimal_victims(
    problem: MinimalVictimsProblem, start: frozenset[int] | None, steps: int = MAX_SEARCH_STEPS
) -> MinimalVictimsResult:
    """The best set of victims; `start`, a set that makes room, is returned unless another one costs less.

    In strict mode a start that breaks a budget counts as none. At most `steps` sets are tried.
    """
    if not problem.evictable:
        return MinimalVictimsResult(None, True, 0)
    if not start or (problem.strict and not problem.keeps_budgets(start)):
        start = None
    known = problem.cost(start) if start else None
    search = _Search(_encode(problem, _worth_evicting(problem, known)), steps)
    try:
        victims, exact = search.best(known), True
    except _StepLimitReached:
        victims, exact = search.found, False
    chosen = frozenset(search.pods.ranks[place] for place in _members(victims)) if victims else start
    return MinimalVictimsResult(chosen, exact, steps - max(search.steps, 0))


# --- the pods, in places --------------------------------------------------------------------------------------------

PodSet = int
"""A set of places, as bits. A node's evictable pods have places: the dearest one 0, the first to lose the last."""


def _pod_set(places: Iterable[int]) -> PodSet:
    return sum(1 << place for place in places)


def _members(bits: PodSet) -> Iterator[int]:
    """The last first."""
    while bits:
        place = bits.bit_length() - 1
        yield place
        bits ^= 1 << place


@dataclass(frozen=True, slots=True)
class _ScarceColumn:
    """A column that lacks room as long as all pods stay; sizes are what a victim frees, at most the whole need."""

    need: int
    sizes: tuple[int, ...]
    """[place]."""
    largest_first: tuple[tuple[int, int, PodSet], ...]
    """(the place's tightest cap or -1, its size, its bit)."""
    ascending: tuple[int, ...]
    """The sizes."""
    from_here: tuple[PodSet, ...]
    """[i]: who has ascending[i] or more; at the end nobody."""

    @classmethod
    def of(cls, need: int, sizes: Sequence[int], caps: Sequence[int]) -> "_ScarceColumn":
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
        return self.from_here[bisect_left(self.ascending, size)]

    def most(self, count: int, among: PodSet, left: Sequence[int]) -> tuple[int, int]:
        """What so many victims free at best, and what one less of them does; `left`: [cap].

        A pod counts for its tightest cap only.
        """
        total = size = 0
        used = [0] * len(left)
        for cap, size, bit in self.largest_first:
            if among & bit:
                if cap >= 0:
                    if used[cap] >= left[cap]:
                        continue
                    used[cap] += 1
                total += size
                count -= 1
                if not count:
                    return total, total - size
        return -1, -1  # there are not so many


@dataclass(frozen=True, slots=True)
class _OpaqueConstraint:
    """A constraint that may lose by a victim more."""

    constraint: Constraint
    headroom: IntArray
    """[column, 1] while all pods stay."""
    takes: IntArray
    """[place, column]."""

    def fits(self, freed: IntArray) -> bool:
        """With so much more room, [column, 1]."""
        headroom, nominated = self.headroom + freed, self.constraint.nominated_demand
        beside = nominated is None or bool(self.constraint.fits(headroom - nominated)[0])
        return beside and bool(self.constraint.fits(headroom)[0])


@dataclass(frozen=True, slots=True)
class _EncodedPods:
    """What a problem says, by place."""

    ranks: tuple[int, ...]
    """[place]."""
    weights: tuple[int, ...]
    """[place]: their sums order sets by the sum of (priority + 2^31), then the number of pods."""
    blocks: tuple[tuple[int, PodSet], ...]
    """(priority, who has it), the lowest first."""
    capped: tuple[PodSet, ...]
    """[cap]: of these only so many may leave, those that are violating or charge one budget."""
    rounds: tuple[tuple[int, ...], ...]
    """[violations][cap]: how many may leave; there is one round only in strict mode."""
    columns: tuple[_ScarceColumn, ...]
    others: tuple[_OpaqueConstraint, ...]
    moves: tuple[tuple[int, ...], ...]
    """[place]: the room in the others' columns that it frees; () if none."""
    caps: tuple[tuple[int, ...], ...]
    """[place]: those that it counts for, the tightest first."""
    before: tuple[PodSet, ...]
    """[place]: who is lost before it: would do in its place and is no dearer."""


def _worth_evicting(problem: MinimalVictimsProblem, known: VictimSetCost | None) -> list[int]:
    """Ranks: where nothing is violated, no pod of a higher priority than the highest that is lost already."""
    if known is None or known[0] > 0:
        return list(problem.evictable)
    return [k for k in problem.evictable if problem.priority[k] <= known[1]]


def _encode(problem: MinimalVictimsProblem, worth_losing: Iterable[int]) -> _EncodedPods:
    """All others stay."""
    ranks = sorted(worth_losing, key=lambda k: (-int(problem.priority[k]), k))
    priorities = [int(problem.priority[k]) for k in ranks]
    grouped = groupby(range(len(ranks)), key=priorities.__getitem__)
    capped, rounds = _budget_caps(problem, ranks) if problem.strict else _violation_rounds(problem, ranks)
    tightest_first = sorted(range(len(capped)), key=rounds[-1].__getitem__)
    caps = [tuple(cap for cap in tightest_first if capped[cap] >> place & 1) for place in range(len(ranks))]
    columns, others = _scarce_columns(problem, ranks, [own[0] if own else -1 for own in caps])
    moves = np.hstack([np.zeros((len(ranks), 0), np.int64), *(other.takes for other in others)])
    return _EncodedPods(
        tuple(ranks),
        tuple((priority + PRIORITY_OFFSET) * (len(ranks) + 1) + 1 for priority in priorities),
        tuple((priority, _pod_set(places)) for priority, places in grouped)[::-1],
        capped,
        rounds,
        columns,
        others,
        tuple(tuple(row) if any(row) else () for row in moves.tolist()),
        tuple(caps),
        _dominators(columns, moves, capped),
    )


def _violation_rounds(
    problem: MinimalVictimsProblem, ranks: Sequence[int]
) -> tuple[tuple[PodSet, ...], tuple[tuple[int, ...], ...]]:
    """-> `capped`, `rounds`: of the violating pods first none may leave, then one, and so on."""
    violating = _pod_set(place for place, k in enumerate(ranks) if problem.violating[k])
    return (violating,), tuple((count,) for count in range(violating.bit_count() + 1))


def _budget_caps(
    problem: MinimalVictimsProblem, ranks: Sequence[int]
) -> tuple[tuple[PodSet, ...], tuple[tuple[int, ...], ...]]:
    """-> `capped`, `rounds`: budgets that allow the loss of some of their pods, but not of all."""
    charging: dict[int, PodSet] = {}
    for place, k in enumerate(ranks):
        for budget in problem.budgets_of.get(k, ()):
            charging[budget] = charging.get(budget, 0) | 1 << place
    allowed = {budget: max(problem.allowed[budget], 0) for budget in charging}
    tight = [budget for budget in charging if allowed[budget] < charging[budget].bit_count()]
    return tuple(charging[budget] for budget in tight), (tuple(allowed[budget] for budget in tight),)


def _scarce_columns(
    problem: MinimalVictimsProblem, ranks: Sequence[int], caps: Sequence[int]
) -> tuple[tuple[_ScarceColumn, ...], tuple[_OpaqueConstraint, ...]]:
    """The columns that only gain by a victim more and lack room, then the sum of these; and the other constraints."""
    columns: list[_ScarceColumn] = []
    others = []
    for constraint, emptied in zip(problem.constraints, problem.headrooms, strict=True):
        takes = constraint.dense_demand[ranks, :, 0]
        headroom = emptied - constraint.dense_demand[list(problem.evictable), :, 0].sum(axis=0)[:, np.newaxis]
        if type(constraint).fits is not ColumnwiseConstraint.fits or (takes < 0).any():
            others.append(_OpaqueConstraint(constraint, headroom, takes))
            continue
        beside = (
            np.zeros_like(headroom)
            if constraint.nominated_demand is None
            else np.maximum(constraint.nominated_demand, 0)
        )
        for sizes, have, taken in zip(takes.T.tolist(), headroom[:, 0].tolist(), beside[:, 0].tolist(), strict=True):
            need = taken - have
            if need > 0:
                columns.append(_ScarceColumn.of(need, [min(size, need) for size in sizes], caps))
    return tuple(columns) + _summed_column(columns, caps), tuple(others)


def _summed_column(columns: Sequence[_ScarceColumn], caps: Sequence[int]) -> tuple[_ScarceColumn, ...]:
    """What several columns need together, each in shares of its own need: few pods are large in all of them."""
    if len(columns) < 2:
        return ()
    shares = [[-(-size * _WHOLE_NEED // column.need) for size in column.sizes] for column in columns]
    return (
        _ScarceColumn.of(len(columns) * _WHOLE_NEED, [sum(of_place) for of_place in zip(*shares, strict=True)], caps),
    )


def _dominators(columns: Sequence[_ScarceColumn], moves: IntArray, capped: Sequence[PodSet]) -> tuple[PodSet, ...]:
    """[place] -> those of later places that free as much in each column and the same in others, under no other cap.

    A set with a pod and without such a one is never the best: the other in its place costs less, or spares more.
    """
    size = len(moves)
    before = np.tri(size, k=-1, dtype=np.bool_).T  # [place, later place]
    for column in columns:
        sizes = np.array(column.sizes)
        before &= sizes[:, np.newaxis] <= sizes
    for members in capped:
        capping = np.array([members >> place & 1 for place in range(size)], np.bool_)
        before &= capping[:, np.newaxis] >= capping
    before &= (moves[:, np.newaxis] == moves).all(axis=2)
    packed = np.packbits(before, axis=1, bitorder="little")
    return tuple(int.from_bytes(row.tobytes(), "little") for row in packed)


# --- the search -----------------------------------------------------------------------------------------------------


class _StepLimitReached(Exception):
    """What was found so far has to do."""


class _PartialSet(NamedTuple):
    """A set that is being put together."""

    places: PodSet
    weight: int
    needs: tuple[int, ...]
    """[column]: what is still to be freed."""
    freed: tuple[int, ...]
    """Room in the others' columns."""

    def and_also(self, place: int, pods: _EncodedPods) -> "_PartialSet":
        return _PartialSet(
            self.places | 1 << place,
            self.weight + pods.weights[place],
            tuple(need - column.sizes[place] for need, column in zip(self.needs, pods.columns, strict=True)),
            tuple(map(add, self.freed, pods.moves[place])) if pods.moves[place] else self.freed,
        )


class _Search:
    """Tries sets of one pod, then of two, and so on; of as many, those first that spare the dearest pods."""

    def __init__(self, pods: _EncodedPods, steps: int) -> None:
        self.pods = pods
        self.steps = steps
        """How many are left."""
        self.found: PodSet = 0
        """The best set so far, if there is one."""
        self._below = 0
        """What sets must weigh less than."""
        self._left: list[int] = []
        """[cap]: how many more may leave."""
        self._moving = _pod_set(place for place, moves in enumerate(pods.moves) if moves)
        self._nobody = _PartialSet(
            0, 0, tuple(column.need for column in pods.columns), (0,) * sum(one.takes.shape[1] for one in pods.others)
        )
        self._answers: dict[tuple[int, ...], bool] = {} if pods.others else {(): True}

    def best(self, known: VictimSetCost | None) -> PodSet:
        """The best set that costs less than what is known; none if there is none."""
        pods = self.pods
        upto = list(accumulate((members for _, members in pods.blocks), or_))
        hopeless = bisect_left(pods.rounds, True, key=lambda allowed: self._could_do(upto[-1], allowed))
        for violations, allowed in list(enumerate(pods.rounds))[hopeless:]:
            block = bisect_left(upto, True, key=partial(self._could_do, allowed=allowed))
            for (priority, first), among in zip(pods.blocks[block:], upto[block:], strict=True):
                below = sum(pods.weights) + 1
                if known is not None and (violations, priority) >= known[:2]:
                    if (violations, priority) > known[:2]:
                        return 0
                    below = known[2] * (len(pods.ranks) + 1) + known[3]
                if self._least(first, among, allowed, below):
                    return self.found
        return 0

    def _could_do(self, among: PodSet, allowed: Sequence[int]) -> bool:
        """Is there hope? Not if even as many as may leave would not do."""
        self._use(_STEPS_PER_FULL_CHECK)
        count = self._at_most(among, allowed)
        enough = all(column.most(count, among, allowed)[0] >= column.need for column in self.pods.columns)
        return enough and self._others_could_fit(among)

    def _at_most(self, among: PodSet, allowed: Sequence[int]) -> int:
        """How many may leave, each pod counting for its tightest cap only."""
        tightest = Counter(self.pods.caps[place][:1] for place in _members(among))
        return sum(min(count, *(allowed[cap] for cap in own)) if own else count for own, count in tightest.items())

    def _others_could_fit(self, among: PodSet) -> bool:
        """Not if they do not with any room that some of these could free, where few different ones are possible."""
        reached = {self._nobody.freed}
        for place in _members(among & self._moving):
            reached |= {tuple(map(add, freed, self.pods.moves[place])) for freed in reached}
            if len(reached) > _MAX_REACHABLE_ROOMS:
                return True
        return any(self._others_fit(freed) for freed in sorted(reached))

    def _least(self, first: PodSet, among: PodSet, allowed: Sequence[int], below: int) -> bool:
        """Look for the best set whose dearest pod is one of `first`; it must weigh less than `below`. Is there one?"""
        self._below, self._left = below, list(allowed)
        for capped, left in zip(self.pods.capped, allowed, strict=True):
            among &= -1 if left else ~capped
        cheapest = accumulate(self.pods.weights[place] for place in _members(among))
        for count, least in zip(range(1, self._at_most(among, allowed) + 1), cheapest, strict=False):
            if least >= self._below:
                break
            self._extend(self._nobody, count, among, first, 0)
        return self.found > 0

    def _extend(self, victims: _PartialSet, count: int, among: PodSet, first: PodSet, forced: PodSet) -> None:
        """Try to take `count` more, the dearest one of `first`, all those that are `forced` with it."""
        self._use(1 + count // _VICTIMS_PER_STEP)
        among = self._useful(victims, count, among, forced)
        weight, rest = victims.weight, among
        for place in islice(_members(among), count - 1):  # those that at best come after the dearest
            weight += self.pods.weights[place]
            rest ^= 1 << place
        for place in _members(first & rest):
            if weight + self.pods.weights[place] >= self._below:
                return
            self._take(victims, count, among, forced, place)

    def _useful(self, victims: _PartialSet, count: int, among: PodSet, forced: PodSet) -> PodSet:
        """Those of whom a set with `count` more victims can consist; none if there is no such set."""
        if forced.bit_count() == count:
            among &= forced
        if not among & self._moving and not self._others_fit(victims.freed):
            return 0
        for column, need in zip(self.pods.columns, victims.needs, strict=True):
            if need > 0:
                most, without_last = column.most(count, among, self._left)
                if most < need:
                    return 0
                among &= column.at_least(need - without_last)
        return among

    def _take(self, victims: _PartialSet, count: int, among: PodSet, forced: PodSet, place: int) -> None:
        """Try all sets with this pod and `count - 1` that come after it."""
        pods, bit = self.pods, 1 << place
        among &= -bit << 1
        forced = (forced | pods.before[place]) & ~bit
        if forced & ~among or forced.bit_count() >= count:
            return
        taken = victims.and_also(place, pods)
        if count == 1:
            if self._others_fit(taken.freed):
                self.found, self._below = taken.places, taken.weight
            return
        for cap in pods.caps[place]:
            self._left[cap] -= 1
            if not self._left[cap]:
                among &= ~pods.capped[cap]
        first = (forced & -forced) * 2 - 1  # no forced one is passed over
        self._extend(taken, count - 1, among, first, forced)
        for cap in pods.caps[place]:
            self._left[cap] += 1

    def _others_fit(self, freed: tuple[int, ...]) -> bool:
        fit = self._answers.get(freed)
        if fit is None:
            self._use(_STEPS_PER_FULL_CHECK)
            ends = accumulate(other.takes.shape[1] for other in self.pods.others)
            headrooms = np.split(np.array(freed, np.int64)[:, np.newaxis], list(ends)[:-1])
            fit = all(other.fits(headroom) for other, headroom in zip(self.pods.others, headrooms, strict=True))
            self._answers[freed] = fit
        return fit

    def _use(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise _StepLimitReached
