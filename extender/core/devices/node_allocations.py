"""Allocate devices to a pod's claims on all nodes: nodes whose devices are alike are evaluated once, and remembered.

There is one memo: the content of claims, and that of the pools that a node sees -> outcome. Claims are taken without
their names, so that pods of one controller share their outcomes, and nodes by `NodeEquivalence`.

Rule: what is remembered decides how long an answer takes, never what it is: work is counted as if nothing were.
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
"""Contents of claims, those asked about last, whose outcomes are remembered."""
_MAX_KEY_BYTES: Final = 64 << 10
"""Largest content of claims, encoded, whose outcomes are remembered."""
_MAX_SELECTORS: Final = 128
"""Compiled selectors that are remembered."""
_MAX_NEEDED: Final = 500_000
"""Results of selectors that all answers together name as needed."""
_MAX_EQUIVALENCES: Final = 8
"""Sets of what selectors read for which it is remembered which nodes are alike."""
_MAX_ANSWERS_PER_NODE: Final = 2
_SPARE: Final = 64
"""Answers that are remembered for claims in addition."""


@dataclass(frozen=True, slots=True)
class CannotAllocate:
    """The node's devices do not satisfy all claims (`cannot allocate all claims`)."""


@dataclass(frozen=True, slots=True)
class AllocationFailed:
    """Upstream rejects the node with this text."""

    text: str
    is_error: bool
    """The code is Error, which ends the scheduling cycle; otherwise UnschedulableAndUnresolvable."""


@dataclass(frozen=True, slots=True)
class NotAllocated:
    """The node is not evaluated."""

    reason: str


Outcome = Allocated | CannotAllocate | AllocationFailed | NotAllocated


@dataclass(frozen=True, slots=True)
class NodeAllocations:
    """The allocator's outcome for the claims of one pod, on every node."""

    outcomes: tuple[Outcome, ...]
    """Outcomes without devices, which differ from node to node: `at` has them."""
    outcome: IntArray
    """[node]: index in `outcomes`; NOT_ASKED: another node than the ones asked for."""
    _at: Callable[[int], Outcome] = field(compare=False)

    def at(self, row: int) -> Outcome:
        """Return the outcome of one node with its own devices."""
        found = self.outcomes[self.outcome[row]]
        return self._at(row) if isinstance(found, tuple) else found


def allocate_on_nodes(
    snapshot: Snapshot, claims: Sequence[ClaimToAllocate], rows: IntArray | None = None
) -> NodeAllocations:
    """Return the allocator's outcome for these claims of one pod on the nodes `rows`, in this order; None: on all.

    The work is limited: nodes that come too late are not evaluated.
    """
    return snapshot.index(AllocationMemo).on_nodes(claims, np.arange(len(snapshot.nodes)) if rows is None else rows)


class AllocationMemo(Index):
    """Outcomes by the content of claims and of the pools that a node sees."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._claims = LRU[bytes, _ClaimOutcomes](_MAX_CLAIMS)
        # Claims that read the same, such as those that differ in the number of devices, share the numbers of nodes: the
        # first filter of 5,000 nodes for another of them then takes 160 ms instead of 340.
        self._equivalences = LRU[AttributeProjection, NodeEquivalence](_MAX_EQUIVALENCES)
        # Claims of other content often have the same selectors, those of their DeviceClass.
        self._selectors = LRU[str, Selector](_MAX_SELECTORS)
        self._results: SelectorResults = {}

    def on_nodes(self, claims: Sequence[ClaimToAllocate], rows: IntArray) -> NodeAllocations:
        """Return what `allocate_on_nodes` does."""
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
            return NodeAllocations((too_much,), outcome, lambda _: too_much)
        # 2. Look the content of the claims up.
        key = msgspec.msgpack.encode((specs, [(name, one.spec) for name, one in classes.items()]))
        make = partial(self._new, specs, classes, expressions)
        found = make() if len(key) > _MAX_KEY_BYTES else self._claims.use_or_make(key, make)
        # 3. Evaluate the nodes whose content has no outcome yet.
        answer = found.on_nodes(tuple(map(str, claims)), rows, budget)
        # 4. Drop the outcomes that were used longest ago.
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
    """The outcome on nodes of one number."""

    outcome: Outcome
    """Without devices."""
    steps: int
    """Steps that the allocator takes, without those of selectors."""
    results: Mapping[int, int]
    """As `WorkAccount.used`; the contents themselves would take much memory."""
    names_pools: bool
    """The text names a pool or device of the node."""


class _ClaimOutcomes:
    """Outcomes of claims of one content, and of their classes', on nodes by number."""

    def __init__(
        self, snapshot: Snapshot, equivalence: NodeEquivalence, allocator: Allocator, account: WorkAccount
    ) -> None:
        self._snapshot = snapshot
        self._devices = snapshot.index(DeviceIndex)
        self._equivalence = equivalence
        self._allocator = allocator
        self._answers: dict[int, _Answer] = {}
        """Number of nodes -> answer."""
        self._account = account
        self.needed = 0
        """Results of selectors that the answers name."""

    def on_nodes(self, texts: Sequence[str], rows: IntArray, budget: WorkBudget) -> NodeAllocations:
        """Return the outcomes for claims of this content and these names."""
        numbers = self._equivalence.numbers()
        if len(self._answers) > _MAX_ANSWERS_PER_NODE * len(numbers) + _SPARE:
            self._answers.clear()
            self.needed = 0
        places = dict[Outcome, int]()
        distinct, first, group = np.unique(numbers[rows], return_index=True, return_inverse=True)
        place_of, outcome = np.full(len(distinct), NOT_ASKED, np.int64), np.full(len(numbers), NOT_ASKED, np.int64)
        named = list[int]()
        # 1. Evaluate one node of each number, in the order in which nodes are asked for, so that the same nodes are too
        #    late whatever is remembered.
        with suppress(WorkLimitReached):
            for at in np.argsort(first).tolist():
                answer = self._answer(int(distinct[at]), int(rows[first[at]]), budget)
                if answer.names_pools:
                    named.append(at)
                else:
                    place_of[at] = places.setdefault(answer.outcome, len(places))
        outcome[rows] = place_of[group]
        outcomes = [_named(one, texts) for one in places]
        # 2. Evaluate all nodes of a number whose text names a pool or a device: it is another one on each.
        with suppress(WorkLimitReached):
            for row in rows[np.isin(group, named)].tolist():
                found = self._evaluate(row, budget)[0]
                outcome[row] = len(outcomes)
                outcomes.append(_named(found, texts))
        # 3. Leave the others to kube-scheduler.
        late = rows[outcome[rows] == NOT_ASKED]
        if len(late):
            outcome[late] = len(outcomes)
            outcomes.append(NotAllocated(budget.exceeded))
        self._account.end_call()
        return NodeAllocations(tuple(outcomes), outcome, partial(self._at, texts))

    def _at(self, texts: Sequence[str], row: int) -> Outcome:
        """Return the outcome of one node with its own devices."""
        try:
            return _named(self._evaluate(row, call_budget())[0], texts)
        except WorkLimitReached as error:
            return NotAllocated(str(error))
        finally:
            self._account.end_call()

    def _answer(self, number: int, row: int, budget: WorkBudget) -> _Answer:
        """Return the answer for nodes of a number, of which the row is one, and spend its steps."""
        found = self._answers.get(number)
        if found is not None:
            budget.spend(found.steps + self._account.charge(found.results))
            return found
        left = budget.left
        outcome, names_pools = self._evaluate(row, budget)
        if isinstance(outcome, tuple):
            # Without devices, outcomes of thousands of nodes are equal and take the memory of one.
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


# --- names of claims, which the memo leaves out ---------------------------------------------------------------------


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
"""Stands for a claim's namespace in texts that are remembered."""


def _placeholder(number: int) -> str:
    """Return what stands for a claim's name in texts that are remembered; no object can have this name."""
    return f"\0{number}\0"
