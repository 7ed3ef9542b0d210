"""Which nodes take the pod, and of the others who says no and whether eviction can help.

Filters run with the nominated pods added, and where that succeeds again without them; the first plugin that
rejects gives the verdict (framework runtime RunFilterPluginsWithNominatedPods, v1.36).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import Check, CodeArray, Constraint, Rows, SchedulingContext
from extender.core.framework.plugins import FILTERS, NOT_MODELLED, PREFILTERS
from extender.core.framework.plugins.missing_permissions import blind
from extender.core.framework.status import FITS, Code, Status
from extender.core.profile import Profile
from extender.core.snapshot.arrays import BoolArray, IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

_CODES = max(Code) + 1
"""Codes are less than this."""

# NodeAffinity is the only modelled plugin that names nodes before they are looked at.
NOT_ALLOWED = Status(Code.UNRESOLVABLE, "", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))


@dataclass(frozen=True, slots=True)
class Statuses:
    """On some nodes; those that the same columns reject with the same code share one."""

    distinct: tuple[Status, ...]
    which: IntArray
    """[row] -> place in `distinct`."""

    def of(self, row: int) -> Status:
        """Of one."""
        return self.distinct[int(self.which[row])]

    def each(self) -> list[Status]:
        """[row]."""
        return [self.distinct[place] for place in self.which.tolist()]


@dataclass(frozen=True, slots=True)
class FilterResults:
    """Verdicts on some nodes, given the room that every constraint leaves."""

    checks: Sequence[Check]
    rooms: tuple[Sequence[IntArray], Sequence[IntArray]]
    """Per check its room [column, node], with and without the nominated pods."""
    codes: CodeArray
    """[node]."""
    rejecting: IntArray
    """[node] -> 2 * place of the first check that rejects, + 1 if in the pass without nominated pods; -1: none."""

    @property
    def fits(self) -> BoolArray:
        fits: BoolArray = self.codes == Code.SUCCESS
        return fits

    def verdict(self, row: int) -> Status:
        """With reasons, of the node in place `row`."""
        if self.rejecting[row] < 0:
            return FITS
        place, second = divmod(int(self.rejecting[row]), 2)
        check, room = self.checks[place], self.rooms[second][place]
        return Status(Code(self.codes[row]), check.plugin, check.reasons(room, row))

    def verdicts(self, rows: Rows) -> list[Status]:
        """The same for many."""
        return self.grouped(rows).each()

    def grouped(self, rows: Rows) -> Statuses:
        """The same, of which each is made once."""
        if not len(rows):
            return Statuses((), rows)
        kind, beyond = self.rejecting[rows], 2 * len(self.checks) + 1
        for rejecting in np.flatnonzero(np.bincount(kind + 1)[1:]).tolist():
            (place, second), own = divmod(rejecting, 2), kind == rejecting
            check = self.checks[place]
            if isinstance(check, Constraint):
                kind[own] += beyond * check.kinds(self.rooms[second][place], rows[own])
        kind = (kind + 1) * _CODES + self.codes[rows]
        small = kind.astype(np.min_scalar_type(kind.max()))  # which numpy sorts without comparing
        _, first, which = np.unique(small, return_index=True, return_inverse=True)
        return Statuses(tuple(self.verdict(row) for row in rows[first].tolist()), which)


def evaluate_constraints(checks: Sequence[Check], rooms: Sequence[IntArray], size: int) -> FilterResults:
    """`rooms`: per check the room beside running pods, [column, node]; `size`: how many nodes these are."""
    codes = np.zeros(size, np.uint8)
    rejecting = np.full(size, -1, np.int64)
    nominated = [_beside_nominated(check, room) for check, room in zip(checks, rooms, strict=True)]
    passes = (nominated, rooms) if any(a is not b for a, b in zip(nominated, rooms, strict=True)) else (rooms,)
    for second, of_pass in enumerate(passes):
        for place, (check, room) in enumerate(zip(checks, of_pass, strict=True)):
            own = check.codes(room)
            new = (codes == 0) & (own != 0)
            codes[new] = own[new]
            rejecting[new] = 2 * place + second
    return FilterResults(checks, (nominated, rooms), codes, rejecting)


def _beside_nominated(check: Check, room: IntArray) -> IntArray:
    return room if check.nominated is None else room - check.nominated


@dataclass(frozen=True, slots=True)
class FilterRun:
    """What the filters say of the whole cluster for one pod."""

    incoming: SchedulingContext
    checks: tuple[Check, ...]
    judgement: FilterResults
    allowed: BoolArray | None
    """[node] that a PreFilterResult left; None: all."""
    named: frozenset[str] | None
    """The names of these, known or not."""
    prefilter: Status | None
    """Said before any node was looked at: the pod fits nowhere."""

    @property
    def codes(self) -> CodeArray:
        """[node] -> Code."""
        if self.prefilter is not None:
            return np.full(len(self.incoming.snapshot.nodes), self.prefilter.code, np.uint8)
        if self.allowed is None:
            return self.judgement.codes
        return np.where(self.allowed, self.judgement.codes, np.uint8(Code.UNRESOLVABLE))

    def verdict(self, row: int) -> Status:
        """Of one node, with reasons."""
        if self.prefilter is not None:
            return self.prefilter
        if self.allowed is not None and not self.allowed[row]:
            return NOT_ALLOWED
        return self.judgement.verdict(row)

    def verdicts(self, rows: Rows) -> list[Status]:
        """Of many nodes; cheaper than one by one."""
        return self.grouped(rows).each()

    def grouped(self, rows: Rows) -> Statuses:
        """The same, of which each is made once."""
        if self.prefilter is not None:
            return Statuses((self.prefilter,), np.zeros(len(rows), np.int64))
        found = self.judgement.grouped(rows)
        if self.allowed is None:
            return found
        which = np.where(self.allowed[rows], found.which, len(found.distinct))
        return Statuses((*found.distinct, NOT_ALLOWED), which)

    def rows(self, code: Code) -> Rows:
        return np.flatnonzero(self.codes == code)


def scheduling_context(
    snapshot: Snapshot, pod: Pod, profile: Profile, moment: EvictionHistory = NO_HISTORY
) -> SchedulingContext:
    """The incoming pod with the nominated pods that it must yield to.

    Those are of equal or higher priority, not gated, and waiting for the same scheduler (queue and nominator of
    kube-scheduler hold no others); `Profile.scheduler_names` widens whose.
    """
    schedulers = profile.scheduler_names or {pod.spec.scheduler_name}
    nominees = tuple(
        nominee
        for nominee in snapshot.nominees
        if nominee.priority >= pod.priority
        and nominee.metadata.uid != pod.metadata.uid
        and not nominee.spec.scheduling_gates
        and nominee.spec.scheduler_name in schedulers
    )
    return SchedulingContext(pod, snapshot, profile, nominees, moment)


def run_filter_plugins(incoming: SchedulingContext) -> FilterRun:
    """Judge every node of the snapshot."""
    unable = blind(incoming, "filter")
    enabled = [name for name in incoming.profile.filter_plugins if name not in unable]
    allowed: frozenset[str] | None = None
    for name in (name for name in PREFILTERS if name in enabled):
        said = PREFILTERS[name](incoming)
        if said.rejection is not None:
            return FilterRun(
                incoming, (), evaluate_constraints((), (), len(incoming.snapshot.nodes)), None, None, said.rejection
            )
        allowed = said.nodes if allowed is None else allowed & (said.nodes or allowed)
    checks = tuple(check for name, build in FILTERS.items() if name in enabled for check in build(incoming))
    rooms = [check.room for check in checks]
    names = incoming.snapshot.node_names
    mask = None if allowed is None else np.fromiter((name in allowed for name in names), np.bool_, len(names))
    return FilterRun(incoming, checks, evaluate_constraints(checks, rooms, len(names)), mask, allowed, None)


def not_evaluated(incoming: SchedulingContext) -> Mapping[str, BoolArray]:
    """Filter plugin that is not modelled, or may not read what it needs -> [node] where only kube-scheduler decides."""
    everywhere = np.ones(len(incoming.snapshot.nodes), np.bool_)
    enabled = blind(incoming, "filter") & set(incoming.profile.filter_plugins)
    unable = dict.fromkeys(sorted(enabled), everywhere)
    return {name: decides(incoming) for name, decides in NOT_MODELLED.items()} | unable
