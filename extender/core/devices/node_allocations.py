"""Allocate devices to a pod's claims on all nodes: nodes whose devices are alike are worked out once, and kept.

Two nodes are alike if their pools, in the order in which they are tried, offer devices that differ in nothing that
kube-scheduler reads for these claims: so names, and attributes that no selector reads, such as a UUID, are left out.
Results are kept for the claims' content without their names, so that pods of one controller share them.

Rule: what is kept decides how long an answer takes, never what it is: the work that it may cost is counted as if
nothing were kept, and what had to make room and is needed again is counted again.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np

from extender.core.devices.allocation import Allocated, ClaimToAllocate, DeviceMatcher
from extender.core.devices.allocator import Allocator
from extender.core.devices.device_index import NO_OTHER_FIELDS, DeviceIndex, SharedPools, other_fields
from extender.core.devices.node_matching import NodeSelectorError, selects_node
from extender.core.devices.pools import AllocationError, DeviceID, InvalidPools, NotEvaluated, Pool, PoolID
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.cost.budget import WorkBudget, WorkLimitReached
from extender.k8s.devices.device_view import DeviceView, has_values
from extender.k8s.devices.objects import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceSlice,
)
from extender.k8s.devices.selector import DeviceSelectorError, Selector, UnsupportedFeature, compile_selector
from extender.k8s.objects import Node
from extender.utilities.lru import LRU

MAX_STEPS: Final = 1_000_000
"""Work for the claims of one pod on all nodes together: about a second."""

NOT_ASKED: Final = -1

_MAX_CLAIMS: Final = 32
"""Contents of claims, those asked about last, whose outcomes are kept."""
_MAX_KEY_BYTES: Final = 64 << 10
"""Largest content of claims, encoded, whose outcomes are kept."""
STEPS_PER_CHARACTER: Final = 10
"""Steps that it takes to compile a selector, by the length of its expression."""
_MAX_READINGS: Final = 8
"""Sets of what selectors read for which is kept which nodes are alike, and the outcomes on these."""
_MAX_SELECTORS: Final = 128
_MAX_DRIVERS: Final = 64
"""Drivers for which is kept under which names their devices have what is read."""
_SPARE: Final = 64
"""Contents of pools and nodes, beside those of the present nodes, that are kept."""
_MAX_RESULTS: Final = 32_768
"""Results of selectors for devices, as these see them, that are kept."""
_MAX_NEEDED: Final = 500_000
"""Results of selectors that all kept outcomes together name as needed."""


@dataclass(frozen=True, slots=True)
class CannotAllocate:
    """The node's devices do not satisfy all claims (`cannot allocate all claims`)."""


@dataclass(frozen=True, slots=True)
class AllocationFailed:
    """Upstream answers with this text."""

    text: str
    is_error: bool
    """The code is Error, which ends the scheduling cycle; otherwise UnschedulableAndUnresolvable."""


@dataclass(frozen=True, slots=True)
class NotAllocated:
    """What kube-scheduler would do is not evaluated."""

    reason: str


Outcome = Allocated | CannotAllocate | AllocationFailed | NotAllocated

_TOO_MUCH_WORK: Final = NotAllocated(f"more work than {MAX_STEPS} steps")


@dataclass(frozen=True, slots=True)
class NodeAllocations:
    """What the allocator says about the claims of one pod, on every node."""

    outcomes: tuple[Outcome, ...]
    """Outcomes that differ in more than devices; the devices are those of one of the nodes, see `at`."""
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
    return snapshot.index(KeptAllocations).on_nodes(claims, np.arange(len(snapshot.nodes)) if rows is None else rows)


# --- which nodes are alike ------------------------------------------------------------------------------------------

_NOTHING: Final[Mapping[str, Any]] = {}
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Reading:
    """What selectors and constraints read of a device's attributes and capacity."""

    attributes: tuple[str, ...] = ()
    """Fully qualified names; the domain may be left out on a device of the driver of that name."""
    capacity: tuple[str, ...] = ()
    """Likewise."""
    everything: bool = False
    """All attributes and capacity."""
    all_capacity: bool = False
    """All capacity, with its request policies."""

    @classmethod
    def of_selector(cls, selector: DeviceMatcher) -> "Reading":
        """Return what a selector reads."""
        if selector.error or selector.unsupported:
            return cls()
        if selector.reads is None:
            return cls(everything=True)
        names = {
            of: tuple(sorted(f"{domain}/{name}" for kind, domain, name in selector.reads if kind == of))
            for of in ("attributes", "capacity")
        }
        return cls(names["attributes"], names["capacity"])

    @classmethod
    def of_claims(cls, claims: Iterable[DeviceClaim], selectors: Iterable[DeviceMatcher]) -> "Reading":
        """Return what the selectors of claims and of their classes read, and their constraints and requests."""
        parts = [cls.of_selector(one) for one in selectors]
        attributes, all_capacity = {name for part in parts for name in part.attributes}, False
        for claim in claims:
            for constraint in claim.constraints or ():
                attributes |= {one for one in (constraint.match_attribute, constraint.distinct_attribute) if one}
            alternatives = (one for request in claim.requests or () for one in _alternatives(request))
            all_capacity |= any(one.capacity is not None for one in alternatives)
        return cls(
            tuple(sorted(attributes)),
            tuple(sorted({name for part in parts for name in part.capacity})),
            any(part.everything for part in parts),
            all_capacity,
        )

    def names(self, driver: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return under which names a driver's device has what is read: of attributes, of capacity."""
        return _spellings(self.attributes, driver), _spellings(self.capacity, driver)


class DeviceReader:
    """What a `Reading` reads, of one device after the other."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._of = LRU[str, Callable[[Device], Hashable]](_MAX_DRIVERS)
        self._spelled = LRU[str, tuple[tuple[str, ...], tuple[str, ...]]](_MAX_DRIVERS)
        """Driver -> `Reading.names`."""

    def of(self, driver: str) -> Callable[[Device], Hashable]:
        """Return a function of a driver's devices, whose value is equal for two if it reads the same of both."""
        return self._of.use_or_make(driver, lambda: self._reader(driver))

    def _names(self, driver: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._spelled.use_or_make(driver, lambda: self._reading.names(driver))

    def _reader(self, driver: str) -> Callable[[Device], Hashable]:
        if self._reading.everything:
            return lambda device: _digest((device.attributes, device.capacity))
        names, of_capacity = self._names(driver)

        def read(device: Device) -> Hashable:
            attributes = tuple(map((device.attributes or _NOTHING).get, names))
            if not of_capacity:
                return attributes
            amounts = [one and one.value for one in map((device.capacity or _NOTHING).get, of_capacity)]
            return attributes, *amounts

        return read

    def columns(self, driver: str, devices: Sequence[Device]) -> Hashable:
        """Return what is read of several devices, as `of` does of one: name by name, which is quicker."""
        if self._reading.everything:
            return tuple(map(self.of(driver), devices))
        names, of_capacity = self._names(driver)
        attributes = [device.attributes or _NOTHING for device in devices]
        found: list[Hashable] = [tuple([of.get(name) for of in attributes]) for name in names]
        if of_capacity:
            capacity = [device.capacity or _NOTHING for device in devices]
            columns = ([of.get(name) for of in capacity] for name in of_capacity)
            found += [tuple([one and one.value for one in column]) for column in columns]
        return tuple(found)


def _digest(content: object) -> bytes:
    """Return what stands for content of any size."""
    return blake2b(_ENCODER.encode(content), digest_size=16).digest()


_Use = bool | tuple[bool, frozenset[tuple[str, int]] | None]
"""Whether a claim has the device for itself; of a shared one also the capacity that shares consume."""


class AlikeNodes:
    """Numbers nodes so that two have the same number if claims that read the same of devices end alike on both."""

    def __init__(self, snapshot: Snapshot, devices: DeviceIndex, reading: Reading) -> None:
        self._snapshot = snapshot
        self._devices = devices
        self._reader = DeviceReader(reading)
        self._all_capacity = reading.all_capacity
        self.version = 0
        """Incremented whenever numbers change."""
        self._numbers: IntArray = np.empty(0, np.int64)
        self._names: tuple[str, ...] = ()
        self._seen = -1
        self._next = 0
        self._number_of: dict[Hashable, int] = {}
        """Content of a pool or of a node -> its number."""
        self._needed = 0
        """How many of these the nodes had when `unknown_version` made all of them count."""
        self._own: dict[str, tuple[Mapping[PoolID, bytes] | None, tuple[_PoolNumber, ...]]] = {}
        """Node name -> (`SharedPools.on` of the node, its pools with slices that no other node sees)."""
        self._counting: set[int] = set()
        """Numbers of the pools whose devices consume counters."""

    def numbers(self) -> IntArray:
        """Return [node]: its number, up to date."""
        devices, names = self._devices, self._snapshot.frozen_node_names
        if self._seen == devices.version and self._names is names:
            return self._numbers
        layout = devices.layout()
        if self._names is not names:
            for gone in self._own.keys() - self._snapshot.node_row.keys():
                del self._own[gone]
        if devices.unknown_version > self._seen or len(self._number_of) > 2 * self._needed + _SPARE:
            self._own.clear()
            self._number_of.clear()
            self._counting.clear()
            stale = None
        else:
            stale = [name for name in devices.nodes_changed_since(self._seen) if self._forget(name)]
        if stale is None or devices.shared_version > self._seen or self._names is not names:
            known: dict[int, _PoolNumber] = {}
            numbers = (self._number(row, layout, known) for row in range(len(names)))
            self._numbers = np.fromiter(numbers, np.int64, len(names))
            if stale is None:
                self._needed = len(self._number_of)
        else:
            self._numbers = self._numbers.copy()
            for row in [self._snapshot.node_row[name] for name in stale]:
                self._numbers[row] = self._number(row, layout, {})
        self._names, self._seen = names, devices.version
        self.version += 1
        return self._numbers

    def _forget(self, name: str) -> bool:
        """Forget the pools of a node; return whether there is such a node."""
        self._own.pop(name, None)
        return name in self._snapshot.node_row

    def _number(self, row: int, layout: SharedPools, known: dict[int, "_PoolNumber"]) -> int:
        """Return the number of a node; `known`: `id` of a shared pool -> its number."""
        name, conditions = self._snapshot.node_names[row], layout.on.get(row)
        kept = self._own.get(name)
        try:
            if kept is None or kept[0] != conditions:
                kept = self._own[name] = conditions, tuple(self._own_pools(row))
            pools = kept[1]
            for one in self._devices.shared_pools_at(row) if conditions or layout.everywhere else ():
                if id(one) not in known:
                    known[id(one)] = self._pool(one, row)
                pools = (*pools, known[id(one)])
        except (AllocationError, NotEvaluated) as error:
            return self._intern((type(error), str(error)))
        if len(pools) > 1:
            pools = tuple(sorted(pools))
        counting = [pool_id.pool for _, pool_id, number in pools if number in self._counting]
        # Upstream takes counters of pools with the same name for the same.
        same_names = tuple(map(counting.index, counting)) if len(counting) > 1 else ()
        return self._intern((tuple([number for _, _, number in pools]), same_names))

    def _intern(self, content: Hashable) -> int:
        number = self._number_of.get(content)
        if number is None:
            number = self._number_of[content] = self._next
            self._next += 1
        return number

    # --- pools ---

    def _own_pools(self, row: int) -> Iterator["_PoolNumber"]:
        """Yield the pools of which the node has slices for itself."""
        for pool_id, slices in self._devices.own_slices_at(row).items():
            if not self._all_capacity and self._devices.is_usual(pool_id, slices):
                yield False, pool_id, self._intern(self._usual_content(pool_id, slices[0]))
                continue
            pool = self._devices.own_pool(pool_id, slices, row)
            if pool is not None:
                yield self._pool(pool, row)

    def _usual_content(self, pool_id: PoolID, published: ResourceSlice) -> Hashable:
        """Return `_content` of a pool that is usual, without gathering it."""
        (driver, name), state, devices = pool_id, self._devices.state, published.spec.devices or ()
        ids = [(driver, name, device.name) for device in devices]
        if state.shared and any(one in state.shared for one in ids):
            return driver, tuple([self._device(pool_id, published, one, None) for one in devices]), None, False, ""
        return driver, self._reader.columns(driver, devices), tuple(map(state.devices.__contains__, ids))

    def _pool(self, pool: Pool, row: int) -> "_PoolNumber":
        number = self._intern(self._content(pool, self._snapshot.nodes[row]))
        if pool.counter_sets:
            self._counting.add(number)
        return pool.has_binding_conditions, pool.id, number

    def _content(self, pool: Pool, node: Node) -> Hashable:
        """Return all that decides about allocations from a pool on a node, apart from names."""
        found = tuple(
            [self._device(pool.id, one, device, node) for one in pool.slices for device in one.spec.devices or ()]
        )
        terms = None if all(one.spec.node_name for one in pool.slices) else tuple(_terms(pool))
        if not pool.counter_sets:
            return pool.id.driver, found, terms, pool.incomplete, pool.invalid_reason
        consumed = [
            device.consumes_counters
            for one in pool.other_slices
            for device in one.spec.devices or ()
            if device.consumes_counters and self._use((*pool.id, device.name))
        ]
        return pool.id.driver, found, terms, _digest((pool.counter_sets, consumed))

    def _device(self, pool_id: PoolID, published: ResourceSlice, device: Device, node: Node | None) -> Hashable:
        read, use = self._reader.of(pool_id.driver)(device), self._use((*pool_id, device.name))
        seen = node is None or not published.spec.per_device_node_selection or _sees(node, device)
        if isinstance(use, bool) and seen is True and not self._is_unusual(device):
            return read, use
        attributes = None if has_values(device) else device.attributes
        return read, use, seen, _digest((other_fields(device), device.capacity, attributes))

    def _use(self, device: DeviceID) -> _Use:
        """Return how a device is in use; False: it is not."""
        state = self._devices.state
        if device not in state.shared:
            return device in state.devices
        consumed = (state.capacity or {}).get(device)
        return device in state.devices, None if consumed is None else frozenset(consumed.items())

    def _is_unusual(self, device: Device) -> bool:
        """Return whether more decides about a device than what selectors read, and whether it is in use."""
        if self._all_capacity or other_fields(device) != NO_OTHER_FIELDS or not has_values(device):
            return True
        return any(one.request_policy is not None for one in (device.capacity or _NOTHING).values())


_PoolNumber = tuple[bool, PoolID, int]
"""Place of a pool among those of a node (`in_order`), and its number."""


def _terms(pool: Pool) -> Iterator[int | None]:
    """Yield for each device how many terms its node selector has (an allocation takes one); None: it is of a node."""
    for one in pool.slices:
        for device in one.spec.devices or ():
            on = device if one.spec.per_device_node_selection else one.spec
            selector = on.node_selector
            yield None if on.node_name is not None else len((selector and selector.node_selector_terms) or ())


def _sees(node: Node, device: Device) -> bool | str:
    """Return whether a device of a slice with perDeviceNodeSelection is for the node, or why that does not parse."""
    try:
        return selects_node(node, device.node_name, device.all_nodes, device.node_selector)
    except NodeSelectorError as error:
        return str(error)


def _spellings(names: Iterable[str], driver: str) -> tuple[str, ...]:
    """Return qualified names, and those of the driver's domain without it too."""
    own = f"{driver}/"
    return tuple(spelling for name in names for spelling in {name, name.removeprefix(own)})


def _alternatives(request: DeviceRequest) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    if request.exactly is not None:
        yield request.exactly
    yield from request.first_available or ()


def _expressions(claims: Iterable[DeviceClaim], classes: Iterable[DeviceClass]) -> Iterator[str]:
    """Yield the expressions of all selectors."""
    requests = (request for claim in claims for request in claim.requests or ())
    of_requests = (one.selectors or () for request in requests for one in _alternatives(request))
    of_classes = (one.spec.selectors or () for one in classes)
    yield from (one.cel.expression for each in (*of_requests, *of_classes) for one in each if one.cel is not None)


# --- selectors ------------------------------------------------------------------------------------------------------


_Result = bool | DeviceSelectorError | UnsupportedFeature
_Results = dict[tuple[str, Hashable], tuple[_Result, int]]
"""(expression, what it reads of a device) -> (result, steps that it took)."""


class KeptSelector:
    """A selector with its results, which it has in one table with other selectors."""

    def __init__(self, selector: Selector, results: _Results) -> None:
        self.selector = selector
        self._reader = DeviceReader(Reading.of_selector(selector))
        self._results = results

    def key(self, device: DeviceView) -> Hashable:
        """Return what the selector reads of a device."""
        read = self._reader.of(device.driver)(device.device)
        attributes = None if device.has_values else _digest(device.device.attributes)
        return device.driver, device.allow_multiple_allocations, read, attributes

    def result(self, key: Hashable, device: DeviceView, limit: int) -> tuple[_Result, int, bool]:
        """Return the result for a device, the steps that it takes, and whether it was evaluated just now.

        Raises WorkLimitReached above the limit.
        """
        found = self._results.get((self.selector.expression, key))
        is_new = found is None
        if found is None:
            budget = WorkBudget(limit)
            result: _Result
            try:
                result = self.selector.matches(device, budget)
            except (DeviceSelectorError, UnsupportedFeature) as error:
                result = type(error)(*error.args)  # without the frames that its traceback keeps
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            found = self._results[self.selector.expression, key] = result, limit - budget.left
        return *found, is_new


class Charges:
    """Counts the steps of selectors in one call as if no results were kept from calls before."""

    def __init__(self) -> None:
        self.charged: set[int] = set()
        """Hashes of the results that this call has been charged for."""
        self.used: dict[int, int] = {}
        """Hashes of the results that the current node needs -> steps."""
        self.steps = 0
        """Steps that the current node has been charged for."""

    def end_call(self) -> None:
        self.charged.clear()
        self.next_node()

    def charge(self, results: Mapping[int, int]) -> int:
        """Charge this call for results, and return the steps of those that it was not charged for before."""
        steps = sum(results[one] for one in results.keys() - self.charged)
        self.charged.update(results)
        return steps

    def next_node(self) -> None:
        self.used, self.steps = {}, 0


class ChargedSelector:
    """A selector of one pod's claims, as the allocator sees it."""

    def __init__(self, kept: KeptSelector, charges: Charges) -> None:
        selector = kept.selector
        self.expression, self.error, self.unsupported = selector.expression, selector.error, selector.unsupported
        self.reads = selector.reads
        self._kept = kept
        self._charges = charges

    def matches(self, device: DeviceView, budget: WorkBudget) -> bool:
        """As Selector.matches."""
        budget.spend(1)
        key, charges = self._kept.key(device), self._charges
        charge = hash((self.expression, key))
        result, steps, is_new = self._kept.result(key, device, budget.left)
        charges.used[charge] = steps
        if is_new or charge not in charges.charged:  # new again: its place was needed for others
            charges.charged.add(charge)
            charges.steps += steps
            budget.spend(steps)
        if not isinstance(result, bool):
            raise type(result)(*result.args)
        return result


# --- outcomes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    """The outcome on nodes of one number."""

    outcome: Outcome
    steps: int
    """Steps that the allocator takes, without those of selectors."""
    results: Mapping[int, int]
    """Hashes of the results of selectors that it needs -> steps; what they are of would take much memory."""
    names_pools: bool
    """The text names a pool or device of the node."""

    @property
    def key(self) -> Hashable:
        """What it says apart from devices."""
        found = self.outcome
        return tuple([claim.chosen for claim in found]) if isinstance(found, tuple) else found


class ClaimOutcomes:
    """Outcomes of claims of one content, and of their classes', on nodes by number."""

    def __init__(
        self,
        snapshot: Snapshot,
        devices: DeviceIndex,
        alike: AlikeNodes,
        allocator: Allocator,
        charges: Charges,
        steps: int,
    ) -> None:
        self._snapshot = snapshot
        self._devices = devices
        self.alike = alike
        self._allocator = allocator
        self._charges = charges
        self._steps = steps
        """Steps that it takes to compile the selectors."""
        self._answers: dict[int, _Answer] = {}
        """Number of nodes -> answer."""
        self.needed = 0
        """Results of selectors that the answers name."""
        self._outcomes: dict[Hashable, Outcome] = {}
        """Key of answers -> the outcome that they share."""
        self._last: tuple[Hashable, NodeAllocations] | None = None

    def on_nodes(self, claims: Sequence[ClaimToAllocate], rows: IntArray) -> NodeAllocations:
        """Return the outcomes for claims of this content; as `allocate_on_nodes`."""
        numbers, texts = self.alike.numbers(), tuple(map(str, claims))
        state = self.alike.version, texts, rows.tobytes()
        if self._last is None or self._last[0] != state:
            self._last = state, self._work_out(numbers, rows, texts)
        return self._last[1]

    def _work_out(self, numbers: IntArray, rows: IntArray, texts: Sequence[str]) -> NodeAllocations:
        if len(self._answers) > 2 * len(numbers) + _SPARE:
            self._answers.clear()
            self._outcomes.clear()
            self.needed = 0
        outcomes, places = list[Outcome](), dict[Hashable, int]()
        distinct, first, group = np.unique(numbers[rows], return_index=True, return_inverse=True)
        place_of, outcome = np.full(len(distinct), NOT_ASKED, np.int64), np.full(len(numbers), NOT_ASKED, np.int64)
        budget, named = WorkBudget(MAX_STEPS - self._steps), list[int]()
        with suppress(WorkLimitReached):
            for at in np.argsort(first).tolist():
                answer = self._answer(int(distinct[at]), int(rows[first[at]]), budget)
                if answer.names_pools:
                    named.append(at)
                    continue
                place_of[at] = places.setdefault(answer.key, len(outcomes))
                if place_of[at] == len(outcomes):
                    outcomes.append(_named(answer.outcome, texts))
        outcome[rows] = place_of[group]
        with suppress(WorkLimitReached):
            for row in rows[np.isin(group, named)].tolist():
                answer = self._evaluate(row, budget)
                outcome[row] = len(outcomes)
                outcomes.append(_named(answer.outcome, texts))
        late = rows[outcome[rows] == NOT_ASKED]
        if len(late):
            outcome[late] = len(outcomes)
            outcomes.append(_TOO_MUCH_WORK)
        self._charges.end_call()
        return NodeAllocations(tuple(outcomes), outcome, partial(self._at, texts))

    def _at(self, texts: Sequence[str], row: int) -> Outcome:
        """Return the outcome of one node with its own devices."""
        try:
            return _named(self._evaluate(row, WorkBudget(MAX_STEPS)).outcome, texts)
        except WorkLimitReached:
            return _TOO_MUCH_WORK
        finally:
            self._charges.end_call()

    def _answer(self, number: int, row: int, budget: WorkBudget) -> _Answer:
        """Return the answer for nodes of a number, of which the row is one, and spend its steps."""
        found = self._answers.get(number)
        if found is None:
            found = self._evaluate(row, budget)
            same = self._outcomes.setdefault(found.key, found.outcome)
            found = self._answers[number] = replace(found, outcome=same)
            self.needed += len(found.results)
        else:
            budget.spend(found.steps + self._charges.charge(found.results))
        return found

    def _evaluate(self, row: int, budget: WorkBudget) -> _Answer:
        """Ask the allocator about one node; raises WorkLimitReached."""
        left, names_pools = budget.left, False
        self._charges.next_node()
        outcome: Outcome
        try:
            pools = self._devices.pools_at(row)
            found = self._allocator.allocate(self._snapshot.nodes[row], pools, self._devices.state, budget)
            outcome = CannotAllocate() if found is None else found
        except AllocationError as error:
            outcome, names_pools = AllocationFailed(str(error), True), error.names_pool
        except InvalidPools as failure:
            outcome = AllocationFailed(str(failure), False)
        except NotEvaluated as missing:
            outcome = NotAllocated(str(missing))
        return _Answer(outcome, left - budget.left - self._charges.steps, self._charges.used, names_pools)


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
"""What stands for a claim's namespace in texts that are kept."""


def _placeholder(number: int) -> str:
    """Return what stands for a claim's name in texts that are kept; no object can have this name."""
    return f"\0{number}\0"


# --- what is kept ---------------------------------------------------------------------------------------------------


class KeptAllocations(Index):
    """Outcomes by the claims' content, with what they were made of."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._devices = snapshot.index(DeviceIndex)
        self._claims = LRU[bytes, ClaimOutcomes | None](_MAX_CLAIMS)
        self._alike = LRU[Reading, AlikeNodes](_MAX_READINGS)
        self._selectors = LRU[str, KeptSelector](_MAX_SELECTORS)
        self._results: _Results = {}

    def on_nodes(self, claims: Sequence[ClaimToAllocate], rows: IntArray) -> NodeAllocations:
        """Return what `allocate_on_nodes` does."""
        classes, specs = self._classes(claims), [claim.spec for claim in claims]
        key = _ENCODER.encode((specs, [(name, one.spec) for name, one in classes.items()]))
        if len(key) > _MAX_KEY_BYTES:
            found = self._new(specs, classes)
        else:
            found = self._claims.use_or_make(key, lambda: self._new(specs, classes))
        if found is not None:
            answer = found.on_nodes(claims, rows)
            self._make_room()
            return answer
        outcome = np.full(len(self.snapshot.nodes), NOT_ASKED, np.int64)
        outcome[rows] = 0
        return NodeAllocations((_TOO_MUCH_WORK,), outcome, lambda _: _TOO_MUCH_WORK)

    def _new(self, specs: Sequence[DeviceClaim], classes: Mapping[str, DeviceClass]) -> ClaimOutcomes | None:
        """Return outcomes of claims not seen before; None: their selectors are too much work."""
        steps = STEPS_PER_CHARACTER * sum(map(len, set(_expressions(specs, classes.values()))))
        if steps > MAX_STEPS:
            return None
        charges, used = Charges(), dict[str, ChargedSelector]()

        def selector(expression: str) -> ChargedSelector:
            return used.setdefault(expression, ChargedSelector(self._selector(expression), charges))

        claims = [ClaimToAllocate(_NAMESPACE, _placeholder(number), spec) for number, spec in enumerate(specs)]
        allocator = Allocator(claims, classes, selector, self.snapshot.features)
        reading = Reading.of_claims(specs, used.values())
        alike = self._alike.use_or_make(reading, lambda: AlikeNodes(self.snapshot, self._devices, reading))
        for key in [key for key, one in self._claims.items() if one and one.alike not in self._alike.values()]:
            del self._claims[key]
        return ClaimOutcomes(self.snapshot, self._devices, alike, allocator, charges, steps)

    def _make_room(self) -> None:
        """Forget the outcomes that were asked for longest ago while all of them need too many results."""
        needed = sum(one.needed for one in self._claims.values() if one is not None)
        while needed > _MAX_NEEDED:
            gone = self._claims.pop_oldest()
            needed -= 0 if gone is None else gone.needed

    def _classes(self, claims: Sequence[ClaimToAllocate]) -> dict[str, DeviceClass]:
        requests = (request for claim in claims for request in claim.spec.requests or ())
        names = {one.device_class_name for request in requests for one in _alternatives(request)}
        known = self.snapshot.objects.device_classes
        return {name: known["", name] for name in sorted(names) if ("", name) in known}

    def _selector(self, expression: str) -> KeptSelector:
        of_1_37 = self.snapshot.features.selectors_of_1_37
        return self._selectors.use_or_make(
            expression, lambda: KeptSelector(compile_selector(expression, of_1_37=of_1_37), self._results)
        )
