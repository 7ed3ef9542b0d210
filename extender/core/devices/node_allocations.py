"""Allocate devices to a pod's claims on all nodes; nodes with equivalent devices are evaluated once and cached.

The cache has one entry per set of claim specs and group of nodes (`NodeEquivalence`). Its keys leave out the names of
claims, so that pods of one controller share outcomes.

Rule: the cache affects how long an answer takes, never the answer: work is counted as if nothing were cached.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import msgspec
import numpy as np

from extender.core.devices.attribute_projection import AttributeProjection, alternatives
from extender.core.devices.counted_selector import CountedSelector, SelectorResults, WorkAccount
from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.node_equivalence import NodeEquivalence
from extender.core.devices.structured.allocation import Allocated, AllocatedClaim, ClaimToAllocate
from extender.core.devices.structured.allocator import Allocator
from extender.core.devices.structured.pools import AllocationError, InvalidPools, NotEvaluated
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.devices.objects import DeviceClaim, DeviceClass
from extender.k8s.devices.selector import Selector, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached, call_budget, compile_steps
from extender.utilities.lru import LRU

NOT_ASKED: Final = -1

_MAX_CLAIMS: Final = 32
"""Maximum number of sets of claim specs with cached outcomes."""
_MAX_KEY_BYTES: Final = 64 << 10
"""Maximum size of encoded claim specs whose outcomes are cached."""
_MAX_SELECTORS: Final = 128
"""Maximum number of compiled selectors that are cached."""
_MAX_NEEDED: Final = 500_000
"""Maximum number of selector results to which all cached answers refer, counted once per answer."""
_MAX_EQUIVALENCES: Final = 8
"""Maximum number of projections whose groups of nodes are cached."""
_MAX_ANSWERS_PER_NODE: Final = 2
_SPARE: Final = 64
"""Cached answers per set of claim specs, in addition to _MAX_ANSWERS_PER_NODE."""


@dataclass(frozen=True, slots=True)
class CannotAllocate:
    """The node's devices do not satisfy all claims (`cannot allocate all claims`)."""


@dataclass(frozen=True, slots=True)
class AllocationFailed:
    """Upstream rejects the node with this text."""

    text: str
    is_error: bool
    """Whether the code is Error, which ends the scheduling cycle, and not UnschedulableAndUnresolvable."""


@dataclass(frozen=True, slots=True)
class NotAllocated:
    """The node is not evaluated."""

    reason: str


Outcome = Allocated | CannotAllocate | AllocationFailed | NotAllocated


@dataclass(frozen=True, slots=True)
class NodeAllocations:
    """The allocator's outcome for the claims of one pod, on every node."""

    outcomes: tuple[Outcome, ...]
    """Outcomes without devices, which differ between nodes: `at` returns them."""
    outcome: IntArray
    """[node]: index in `outcomes`; NOT_ASKED if the outcome of the node was not requested."""
    group: IntArray
    """[node]: number of the group of nodes whose devices are equivalent for the claims."""
    _at: Callable[[int], Outcome] = field(compare=False)

    def at(self, row: int) -> Outcome:
        """Return the outcome of one node with its own devices."""
        found = self.outcomes[self.outcome[row]]
        return self._at(row) if isinstance(found, tuple) else found


def allocate_on_nodes(
    snapshot: Snapshot, claims: Sequence[ClaimToAllocate], rows: IntArray | None = None
) -> NodeAllocations:
    """Return the allocator's outcome for one pod's claims on the nodes `rows` (None: all), evaluated in this order.

    Work is limited: the nodes beyond the limit are not evaluated.
    """
    return snapshot.index(AllocationMemo).on_nodes(claims, np.arange(len(snapshot.nodes)) if rows is None else rows)


class AllocationMemo(Index):
    """Cached outcomes by claim specs and groups of nodes."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._claims = LRU[bytes, _ClaimOutcomes](_MAX_CLAIMS)
        # Claims that read the same attributes, such as claims that differ only in count, share groups of nodes: the
        # first filter of 5,000 nodes for another such claim then takes 160 ms instead of 340.
        self._equivalences = LRU[AttributeProjection, NodeEquivalence](_MAX_EQUIVALENCES)
        # Claims with different specs often have the same selectors, those of their DeviceClass.
        self._selectors = LRU[str, Selector](_MAX_SELECTORS)
        self._results: SelectorResults = {}

    def on_nodes(self, claims: Sequence[ClaimToAllocate], rows: IntArray) -> NodeAllocations:
        """Implement `allocate_on_nodes`."""
        # 1. Limit the size of the input before any work.
        specs, known = [claim.spec for claim in claims], self.snapshot.objects.device_classes
        requests = tuple(alternatives(specs))
        names = sorted({one.device_class_name for one in requests})
        classes = {name: known["", name] for name in names if ("", name) in known}
        selectors = (of.selectors or () for of in (*requests, *(one.spec for one in classes.values())))
        expressions = {one.cel.expression for each in selectors for one in each if one.cel is not None}
        budget = call_budget()
        try:
            budget.spend(compile_steps(expressions))
        except WorkLimitReached as error:
            outcome, too_much = np.full(len(self.snapshot.nodes), NOT_ASKED, np.int64), NotAllocated(str(error))
            outcome[rows] = 0
            return NodeAllocations((too_much,), outcome, np.zeros_like(outcome), lambda _: too_much)
        # 2. Look up the cached outcomes for the specs of the claims.
        key = msgspec.msgpack.encode((specs, [(name, one.spec) for name, one in classes.items()]))
        make = partial(self._new, specs, classes, expressions)
        found = make() if len(key) > _MAX_KEY_BYTES else self._claims.use_or_make(key, make)
        # 3. Evaluate the groups of nodes that have no outcome yet.
        answer = found.on_nodes(tuple(map(str, claims)), rows, budget)
        # 4. Drop the least recently used outcomes.
        needed = sum(one.needed for one in self._claims.values())
        while needed > _MAX_NEEDED:
            needed -= self._claims.pop_oldest().needed
        return answer

    def _new(
        self, specs: Sequence[DeviceClaim], classes: Mapping[str, DeviceClass], expressions: Iterable[str]
    ) -> "_ClaimOutcomes":
        snapshot, features, account = self.snapshot, self.snapshot.features, WorkAccount()
        selectors = {
            one: CountedSelector(
                self._selectors.use_or_make(one, partial(compile_selector, one, of_1_37=features.selectors_of_1_37)),
                self._results,
                account,
            )
            for one in expressions
        }
        claims = [ClaimToAllocate(_NAMESPACE, _placeholder(number), spec) for number, spec in enumerate(specs)]
        allocator = Allocator(claims, classes, selectors.__getitem__, features)
        projection = AttributeProjection.of(specs, selectors.values())
        equivalence = self._equivalences.use_or_make(projection, lambda: NodeEquivalence(snapshot, projection))
        return _ClaimOutcomes(snapshot, equivalence, allocator, account)


class _Answer(NamedTuple):
    """The outcome on all nodes of a group."""

    outcome: Outcome
    """The allocator's outcome, without devices."""
    steps: int
    """Steps of the allocator, except those of selectors."""
    results: Mapping[int, int]
    """As in `WorkAccount.used`: hashes, because the keys of the results would take much memory."""
    names_pools: bool
    """Whether the text names a pool or device of the node."""


class _ClaimOutcomes:
    """Cached allocation outcomes per group of equivalent nodes, for claims and device classes with the same spec."""

    def __init__(
        self, snapshot: Snapshot, equivalence: NodeEquivalence, allocator: Allocator, account: WorkAccount
    ) -> None:
        self._snapshot = snapshot
        self._devices = snapshot.index(DeviceIndex)
        self._equivalence = equivalence
        self._allocator = allocator
        self._answers: dict[int, _Answer] = {}
        """Group of nodes -> answer."""
        self._account = account
        self.needed = 0
        """Number of selector results to which the answers refer."""

    def on_nodes(self, texts: Sequence[str], rows: IntArray, budget: WorkBudget) -> NodeAllocations:
        """Return the outcomes for claims with these specs; `texts`: the names of the claims."""
        numbers = self._equivalence.numbers()
        if len(self._answers) > _MAX_ANSWERS_PER_NODE * len(numbers) + _SPARE:
            self._answers.clear()
            self.needed = 0
        places = dict[Outcome, int]()
        distinct, first, group = np.unique(numbers[rows], return_index=True, return_inverse=True)
        place_of, outcome = np.full(len(distinct), NOT_ASKED, np.int64), np.full(len(numbers), NOT_ASKED, np.int64)
        named = list[int]()
        # 1. Evaluate one node of each group, in the order of `rows`, so that the same nodes exceed the work limit
        #    whatever is cached.
        with suppress(WorkLimitReached):
            for at in np.argsort(first).tolist():
                answer = self._answer(int(distinct[at]), int(rows[first[at]]), budget)
                if answer.names_pools:
                    named.append(at)
                else:
                    place_of[at] = places.setdefault(answer.outcome, len(places))
        outcome[rows] = place_of[group]
        outcomes = [_named(one, texts) for one in places]
        # 2. Evaluate every node of a group whose text names a pool or device, as these differ between the nodes.
        with suppress(WorkLimitReached):
            for row in rows[np.isin(group, named)].tolist():
                found = self._evaluate(row, budget)[0]
                outcome[row] = len(outcomes)
                outcomes.append(_named(found, texts))
        # 3. Leave the remaining nodes to kube-scheduler.
        late = rows[outcome[rows] == NOT_ASKED]
        if len(late):
            outcome[late] = len(outcomes)
            outcomes.append(NotAllocated(budget.exceeded))
        self._account.end_call()
        return NodeAllocations(tuple(outcomes), outcome, numbers, partial(self._at, texts))

    def _at(self, texts: Sequence[str], row: int) -> Outcome:
        """Return the outcome of one node with its own devices."""
        try:
            return _named(self._evaluate(row, call_budget())[0], texts)
        except WorkLimitReached as error:
            return NotAllocated(str(error))
        finally:
            self._account.end_call()

    def _answer(self, number: int, row: int, budget: WorkBudget) -> _Answer:
        """Return the answer for the group of nodes that the row belongs to, and spend its steps."""
        found = self._answers.get(number)
        if found is not None:
            budget.spend(found.steps + self._account.charge(found.results))
            return found
        left = budget.left
        outcome, names_pools = self._evaluate(row, budget)
        if isinstance(outcome, tuple):
            # Without devices, the outcomes of thousands of nodes are equal and share the memory of one.
            outcome = tuple([AllocatedClaim((), one.chosen, None) for one in outcome])
        used = self._account.used
        found = self._answers[number] = _Answer(outcome, left - budget.left - self._account.steps, used, names_pools)
        self.needed += len(used)
        return found

    def _evaluate(self, row: int, budget: WorkBudget) -> tuple[Outcome, bool]:
        """Return the allocator's outcome on a node, and whether its text names a pool; raises WorkLimitReached."""
        self._account.next_node()
        try:
            pools = self._devices.pools_at(row)
            found = self._allocator.allocate(self._snapshot.nodes[row], pools, self._devices.state, budget)
        except AllocationError as error:
            return AllocationFailed(str(error), True), error.names_pool
        except InvalidPools as failure:
            return AllocationFailed(str(failure), False), False
        except NotEvaluated as missing:
            return NotAllocated(str(missing)), False
        return CannotAllocate() if found is None else found, False


# --- names of claims, which the cache leaves out --------------------------------------------------------------------


def _named(outcome: Outcome, claims: Sequence[str]) -> Outcome:
    """Return the outcome with the claims' names in its text."""
    if isinstance(outcome, AllocationFailed):
        return replace(outcome, text=_with_names(outcome.text, claims))
    if isinstance(outcome, NotAllocated):
        return NotAllocated(_with_names(outcome.reason, claims))
    return outcome


def _with_names(text: str, claims: Sequence[str]) -> str:
    for number, claim in enumerate(claims):
        text = text.replace(f"{_NAMESPACE}/{_placeholder(number)}", claim)
        text = text.replace(_placeholder(number), claim.rpartition("/")[2])
    return text


_NAMESPACE: Final = "\0"
"""Placeholder for a claim's namespace in cached texts."""


def _placeholder(number: int) -> str:
    """Return the placeholder for a claim's name in cached texts; no object can have this name."""
    return f"\0{number}\0"
