"""Choose devices for the claims of a pod on one node: the first complete solution, in a fixed order.

Mirrors Allocator.Allocate (k8s.io/dynamic-resource-allocation/structured, v1.36) with the implementation that feature
gates select there: "incubating" with binding conditions or consumable capacity, else "stable". Upstream's order of
pools and slices is chance up to v1.35 and with the stable one; here it is the order of their names. Upstream's search
is recursive; this one keeps its calls in a list, so that no number of claims is too deep.

Rule: a pure function of the claims, the pools of the node and the devices in use; each device that is tried takes a
step of the budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from extender.core.devices.structured.allocation import (
    Allocated,
    AllocatedClaim,
    AllocatedDevice,
    AllocatedState,
    ClaimToAllocate,
    DeviceMatcher,
)
from extender.core.devices.structured.capacity import Amounts, CapacityError, UnusablePolicy, consumed_by, has_room
from extender.core.devices.structured.constraints import AttributeConstraint, DistinctAttribute, MatchAttribute
from extender.core.devices.structured.counters import Counters
from extender.core.devices.structured.pools import (
    AllocationError,
    DeviceID,
    InvalidPools,
    NotEvaluated,
    Pool,
    PoolDevice,
    is_available_on,
    knows_shares,
)
from extender.core.devices.structured.taints import prevents_allocation
from extender.k8s.cost.budget import WorkBudget
from extender.k8s.devices.objects import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceQuantities,
)
from extender.k8s.devices.selector import DeviceSelectorError, NotFollowed
from extender.k8s.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration
from extender.k8s.version.features import Features

MAX_DEVICES: Final = 32
"""Devices of one claim (resource/v1 AllocationResultsMaxSize)."""

_NOTHING: Final[Mapping[Any, Any]] = {}


@dataclass(eq=False, slots=True)
class _Request:
    """A request, or one alternative of a prioritized list."""

    claim: int
    number: int
    """Place among the requests and alternatives of all claims."""
    name: str
    base_name: str
    """Name of the request; its own, but for an alternative."""
    full_name: str
    """Name in the result."""
    error: str = ""
    """Why it cannot be allocated anywhere."""
    selectors: tuple[tuple[str, DeviceMatcher], ...] = ()
    """(beginning of its errors, selector): those of the class, then its own."""
    takes_all: bool = False
    count: int = 0
    admin_access: bool = False
    tolerations: Sequence[Toleration] = ()
    capacity: ResourceQuantities | None = None
    constraints: tuple[int, ...] = ()
    """Constraints of the claim that are about it."""


@dataclass(slots=True)
class _Choice:
    """What is allocated for one request of a claim: the request itself, or one of its alternatives."""

    claim: int
    alternatives: list[_Request]
    is_list: bool
    error: str = ""


@dataclass(slots=True)
class _Claim:
    text: str
    """Namespace and name, as errors have them."""
    name: str
    choices: list[_Choice] = field(default_factory=list)
    constraints: list[DeviceConstraint] = field(default_factory=list)
    constraint_error: str = ""


class Allocator:
    """The claims to allocate, compiled once for all nodes.

    `selectors` returns the compiled selector of an expression.
    """

    def __init__(
        self,
        claims: Sequence[ClaimToAllocate],
        classes: Mapping[str, DeviceClass],
        selectors: Callable[[str], DeviceMatcher],
        features: Features,
    ) -> None:
        self.features = features
        self._classes = classes
        self._selectors = selectors
        self._requests = 0
        self.knows_shares = knows_shares(features)
        self.claims = [self._compile(number, claim) for number, claim in enumerate(claims)]
        self.choices = [choice for claim in self.claims for choice in claim.choices]
        self.is_certain = all(
            not claim.constraint_error and sum(_least(choice) for choice in claim.choices) <= MAX_DEVICES
            for claim in self.claims
        ) and not any(
            choice.error or any(one.error or one.takes_all for one in choice.alternatives) for choice in self.choices
        )
        """No node gives an error before the search."""

    def allocate(
        self, node: Node, pools: Sequence[Pool], state: AllocatedState, budget: WorkBudget
    ) -> Allocated | None:
        """Return the devices of each claim on one node; None: the node does not have them.

        `pools` as `gather_pools` returns them. Raises AllocationError, InvalidPools, NotEvaluated, WorkLimitReached.
        """
        try:
            search = _Search(self, node, pools, state, budget)
            if not self.is_certain:
                search.check_claims()
            if search.run():
                return search.allocated()
        except UnusablePolicy:
            raise NotEvaluated("a request policy of capacity that no API server admits") from None
        if self.features.device_pools_of_1_35 and any(pool.invalid_reason for pool in pools):
            raise InvalidPools("invalid resource pools were encountered")
        return None

    # --- compilation ------------------------------------------------------------------------------------------------

    def _compile(self, number: int, claim: ClaimToAllocate) -> _Claim:
        compiled = _Claim(str(claim), claim.name, constraints=list(claim.spec.constraints or ()))
        compiled.constraint_error = self._constraint_error(compiled)
        for request in claim.spec.requests or ():
            compiled.choices.append(self._choice(number, compiled, request))
        return compiled

    def _constraint_error(self, claim: _Claim) -> str:
        for number, one in enumerate(claim.constraints):
            if one.match_attribute is None and (one.distinct_attribute is None or not self.knows_shares):
                return f"claim {claim.text}, constraint #{number}: empty constraint (unsupported constraint type?)"
        return ""

    def _choice(self, number: int, claim: _Claim, request: DeviceRequest) -> _Choice:
        listed = request.first_available or ()
        exactly = request.exactly or ExactDeviceRequest()
        requests = (
            [self._request(number, claim, one, one.name, request.name) for one in listed]
            if listed
            else [self._request(number, claim, exactly, request.name, "")]
        )
        return _Choice(number, requests, bool(listed), self._gate_error(claim, request))

    def _gate_error(self, claim: _Claim, request: DeviceRequest) -> str:
        """Return why the feature gates do not allow a request; "": they do."""
        listed = request.first_available or ()
        if listed and not self.features.dra_prioritized_list:
            reason = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return f"claim {claim.text}, request {request.name}: {reason}"
        if self.features.dra_consumable_capacity or not self.knows_shares:
            return ""
        reason = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if request.exactly is not None and request.exactly.capacity is not None:
            return f"claim {claim.text}, request {request.name}: {reason}"
        name = next((one.name for one in listed if one.capacity is not None), None)
        if name is None:
            return ""
        if not self.features.shared_devices_of_1_35:
            return f"claim {claim.text}, request {request.name}: {reason}"
        return f"claim {claim.text}, subrequest {name}: {reason}"

    def _request(
        self, number: int, claim: _Claim, spec: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str
    ) -> _Request:
        admin_access = spec.admin_access if isinstance(spec, ExactDeviceRequest) else None
        device_class = self._classes.get(spec.device_class_name)
        full_name = f"{parent}/{name}" if parent else name
        names = {parent or name, full_name}
        self._requests += 1
        return _Request(
            number,
            self._requests - 1,
            name,
            parent or name,
            full_name,
            self._error(spec, admin_access, device_class, f"claim {claim.text}, request {name}"),
            (
                *self._compiled(
                    f"class {spec.device_class_name}", None if device_class is None else device_class.spec.selectors
                ),
                *self._compiled(f"claim {claim.text}", spec.selectors),
            ),
            spec.allocation_mode == "All",
            spec.count if spec.allocation_mode == "ExactCount" else 0,
            bool(admin_access),
            spec.tolerations or (),
            spec.capacity.requests if spec.capacity is not None else None,
            tuple(at for at, one in enumerate(claim.constraints) if not one.requests or names & set(one.requests)),
        )

    def _error(
        self,
        spec: ExactDeviceRequest | DeviceSubRequest,
        admin_access: bool | None,
        device_class: DeviceClass | None,
        at: str,
    ) -> str:
        """Return upstream's error about a request; "" for a valid one. Mirrors validateDeviceRequest (v1.36)."""
        empty = next((number for number, one in enumerate(spec.selectors or ()) if one.cel is None), None)
        if empty is not None:
            return f"{at}, selector #{empty}: CEL expression empty (unsupported selector type?)"
        if admin_access is not None and not self.features.dra_admin_access:
            return f"{at}: admin access is requested, but the feature is disabled"
        name = spec.device_class_name
        if not name:
            return f"{at}: missing device class name (unsupported request type?)"
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{at}: could not retrieve device class {name}: {missing}"
        if spec.allocation_mode not in ("ExactCount", "All"):
            return f"{at}: unsupported count mode {spec.allocation_mode}"
        return ""

    def _compiled(self, of: str, selectors: Sequence[DeviceSelector] | None) -> tuple[tuple[str, DeviceMatcher], ...]:
        return tuple(
            (f"{of}: selector #{number}", self._selectors(one.cel.expression))
            for number, one in enumerate(selectors or ())
            if one.cel is not None
        )


def _least(choice: _Choice) -> int:
    return min(one.count for one in choice.alternatives)


def _exceeds_limit(more: int, counted: int) -> str:
    return f"adding {more} devices exceeds the claim limit of {MAX_DEVICES}, with {counted} already accounted for"


# --- search --------------------------------------------------------------------------------------------------------

_ADVANCE: Final = 0
"""The last call goes on."""
_FAILED: Final = 1
"""No solution exists here."""
_EXCEEDED: Final = 2
"""The claim would have too many devices: other devices for the requests before would not help."""
_DONE: Final = 3


class _Call:
    """An open call of the search; it is resumed with what the call that it made has ended with."""

    __slots__ = ("all_exceeded", "alternative", "choice", "claim", "number", "request", "start", "taken")

    def __init__(self, claim: int, choice: int, request: _Request | None, number: int, start: int) -> None:
        self.claim = claim
        self.choice = choice
        self.request = request
        """None: the call tries one alternative after the other."""
        self.number = number
        """Devices that the request has so far."""
        self.start = start
        """Place of the next candidate."""
        self.taken: _Taken | None = None
        self.alternative = -1
        self.all_exceeded = True


class _Taken:
    """A device that the search has taken, with what is needed to undo it."""

    __slots__ = ("consumed", "counted", "device", "request", "shares_before")

    def __init__(self, request: _Request, device: PoolDevice, *, counted: bool) -> None:
        self.request = request
        self.device = device
        self.counted = counted
        self.consumed: Mapping[str, int] | None = None
        self.shares_before: Mapping[str, int] | None = None


class _Search:
    """One search on one node. Mirrors allocator.allocateOne and allocateDevice (v1.36)."""

    def __init__(
        self, allocator: Allocator, node: Node, pools: Sequence[Pool], state: AllocatedState, budget: WorkBudget
    ) -> None:
        self._allocator = allocator
        self._features = allocator.features
        self._choices = allocator.choices
        self._node = node
        self._pools = pools
        self._state = state
        self._budget = budget
        self._calls: list[_Call] = []
        self._claim = 0
        self._taken: list[list[_Taken]] = [[] for _ in allocator.claims]
        self._matches: dict[tuple[int, PoolDevice], bool] = {}
        self._all_devices: dict[int, list[PoolDevice]] = {}
        self._constraints = [[_constraint(one, self._features) for one in of.constraints] for of in allocator.claims]
        self._allocating: dict[PoolDevice, set[int]] = {}
        self._shares: dict[DeviceID, Mapping[str, int]] = {}
        self._counters: Counters | None = None
        self._candidates, self._invalid = _candidates(pools, self._features)

    # --- before the search

    def check_claims(self) -> None:
        """Find the devices of requests for all, and raise upstream's errors about the claims in its order."""
        for claim in self._allocator.claims:
            least = 0
            for choice in claim.choices:
                if choice.error:
                    raise AllocationError(choice.error)
                more = min([self._count_checked(claim, choice, one) for one in choice.alternatives])
                if self._features.device_limit_is_checked_by_request and least + more > MAX_DEVICES:
                    exceeds = _exceeds_limit(more, least)
                    raise AllocationError(f"claim {claim.text}, request {choice.alternatives[0].base_name}: {exceeds}")
                least += more
            if least > MAX_DEVICES:
                exceeds = f"number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
                raise AllocationError(f"claim {claim.text}: {exceeds}")
            if claim.constraint_error:
                raise AllocationError(claim.constraint_error)
        self._matches.clear()

    def _count_checked(self, claim: _Claim, choice: _Choice, request: _Request) -> int:
        if request.error:
            raise AllocationError(request.error)
        if not request.takes_all:
            return request.count
        # Up to v1.35 the second alternative remembers the answers of selectors under the first one's name.
        renamed = not self._features.device_allocator_of_1_36 and request in choice.alternatives[1:2]
        remembers = choice.alternatives[0] if renamed else request
        found: list[PoolDevice] = []
        for pool in self._pools:
            unusable = "being updated" if pool.incomplete else "invalid" if pool.invalid_reason else ""
            if unusable:
                asks = f"asks for all devices, but resource pool {pool.id} is currently {unusable}"
                raise AllocationError(f"claim {claim.text}, request {request.name}: {asks}", names_pool=True)
            self._budget.spend(len(pool.devices))
            found += [
                one for one in pool.devices if self._selects(request, one, remembers) and self._belongs(request, one)
            ]
        self._all_devices[request.number] = found
        return len(found)

    # --- the search itself

    def run(self) -> bool:
        """Return whether all claims can have their devices; `allocated` then returns them."""
        calls = self._calls
        ended = self._enter(0, None, 0, 0)
        while ended != _DONE:
            if not calls:
                if ended == _EXCEEDED and self._claim == 0:
                    raise AllocationError("allocation max size exceeded")
                return False
            call = calls[-1]
            if ended == _EXCEEDED and call.claim != self._claim:
                ended = _FAILED  # with fewer devices for the claims before there may be a solution
            self._claim = call.claim
            if call.request is None:
                ended = self._next_alternative(call, ended)
            elif call.request.takes_all:
                ended = self._next_of_all(call, call.request, ended)
            else:
                ended = self._next_candidate(call, call.request, ended)
        return True

    def _enter(self, choice: int, request: _Request | None, number: int, start: int) -> int:
        """Open the call that finds device `number` of a request (None: of this choice), candidates from `start` on."""
        while True:
            if request is None:
                if choice == len(self._choices):
                    return _DONE
                chosen = self._choices[choice]
                if chosen.is_list:
                    self._calls.append(_Call(chosen.claim, choice, None, 0, 0))
                    return _ADVANCE
                request = chosen.alternatives[0]
            count = request.count
            if request.takes_all:
                count = len(self._all_devices[request.number])
                if not count:
                    return _FAILED
            if number < count:
                break
            choice, request, number, start = choice + 1, None, 0, 0
        if len(self._taken[request.claim]) + count - number > MAX_DEVICES:
            self._claim = request.claim
            return _EXCEEDED
        self._calls.append(_Call(request.claim, choice, request, number, start))
        return _ADVANCE

    def _next_alternative(self, call: _Call, ended: int) -> int:
        if ended == _FAILED:
            call.all_exceeded = False
        self._budget.spend(1)
        call.alternative += 1
        alternatives = self._choices[call.choice].alternatives
        if call.alternative < len(alternatives):
            return self._enter(call.choice, alternatives[call.alternative], 0, 0)
        self._calls.pop()
        return _EXCEEDED if call.all_exceeded else _FAILED

    def _next_of_all(self, call: _Call, request: _Request, ended: int) -> int:
        """Take the next of all devices: another one instead would not help."""
        if ended != _ADVANCE:
            self._give_back(call)
            self._calls.pop()
            return ended
        self._budget.spend(1)
        one = self._all_devices[request.number][call.number]
        call.taken = None if self._is_in_use(request, one) else self._take(request, one, must=True)
        if call.taken is None:
            self._calls.pop()
            return _FAILED
        # Up to v1.35 an alternative for all devices goes on with the first alternative.
        goes_on = request if self._features.device_allocator_of_1_36 else self._choices[call.choice].alternatives[0]
        return self._enter(call.choice, goes_on, call.number + 1, 0)

    def _next_candidate(self, call: _Call, request: _Request, ended: int) -> int:
        """Take the next device that the request can have; devices of one request are taken in order only."""
        if ended != _ADVANCE:
            self._give_back(call)
            if ended == _EXCEEDED:
                self._calls.pop()
                return ended
        candidates = self._candidates
        for place in range(call.start, len(candidates)):
            one = candidates[place]
            if (
                not self._is_in_use(request, one)
                and self._selects(request, one, request)
                and self._room(request, one)
                and (taken := self._take(request, one, must=False)) is not None
            ):
                self._budget.spend(place + 1 - call.start)
                call.taken = taken
                call.start = place + 1
                return self._enter(call.choice, request, call.number + 1, place + 1)
        if self._invalid is not None:
            text = f"pool {self._invalid.id.pool} is invalid: {self._invalid.invalid_reason}"
            raise AllocationError(text, names_pool=True)
        self._budget.spend(len(candidates) - call.start + 1)
        self._calls.pop()
        return _FAILED

    # --- one device

    def _is_in_use(self, request: _Request, one: PoolDevice) -> bool:
        """Return whether a claim has the device; with admin access only the request's own claim counts."""
        allocating = self._allocating.get(one)
        if request.admin_access:
            return allocating is not None and request.claim in allocating
        return bool(allocating) or one.id in self._state.devices

    def _selects(self, request: _Request, one: PoolDevice, remembers: _Request) -> bool:
        """Return whether the selectors of the class and of the request select a device that the node can use."""
        if one.device.binding_conditions and not self._features.dra_device_binding_conditions:
            return False
        key = remembers.number, one
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = self._evaluate(request, one)
        return found

    def _evaluate(self, request: _Request, one: PoolDevice) -> bool:
        for at, selector in request.selectors:
            if selector.error:
                raise AllocationError(f"{at}: CEL compile error: {selector.error}")
            if selector.unsupported:
                raise NotEvaluated(f"{at}: {selector.unsupported}")
            try:
                if not selector.matches(one.view(self._features), self._budget):
                    return False
            except DeviceSelectorError as error:
                raise self._runtime_error(at, one, str(error)) from None
            except NotFollowed as feature:
                raise NotEvaluated(f"{at}: {feature}") from None
        return not one.slice.spec.per_device_node_selection or is_available_on(one, self._node)

    def _runtime_error(self, at: str, one: PoolDevice, error: str) -> AllocationError:
        if not self._features.selector_errors_name_device:
            return AllocationError(f"{at}: CEL runtime error: {error}")
        return AllocationError(f"{at} on device {'/'.join(one.id)}: CEL runtime error: {error}", names_pool=True)

    def _belongs(self, request: _Request, one: PoolDevice) -> bool:
        """Return whether the device is one of all that the request is for, as to its capacity."""
        if not self._features.all_devices_include_full_ones:
            return self._room(request, one)
        if not (self._features.dra_consumable_capacity and (request.capacity or one.has_request_policy)):
            return True
        return self._has_room(request, one, one.device.name, _NOTHING, _NOTHING)

    def _room(self, request: _Request, one: PoolDevice) -> bool:
        """Return whether the device has the capacity that the request would consume."""
        if not self._features.dra_consumable_capacity:
            return True
        if not (request.capacity or one.has_request_policy or self._shares or self._state.capacity):
            return True  # all of it
        allocated = (self._state.capacity or _NOTHING).get(one.id, _NOTHING)
        return self._has_room(request, one, "/".join(one.id), allocated, self._shares.get(one.id, _NOTHING))

    def _has_room(self, request: _Request, one: PoolDevice, name: str, allocated: Amounts, allocating: Amounts) -> bool:
        try:
            return has_room(one.device.capacity or {}, request.capacity, allocated, allocating, self._features)
        except CapacityError as error:
            claim = self._allocator.claims[request.claim].text
            at = f"claim {claim}, request {request.name}: checking capacity for device {name}"
            raise AllocationError(f"{at}: {error}", names_pool=True) from None

    def _is_shareable(self, one: PoolDevice) -> bool:
        return bool(one.device.allow_multiple_allocations) and self._features.dra_consumable_capacity

    def _take(self, request: _Request, one: PoolDevice, *, must: bool) -> _Taken | None:
        """Take a selected device that is not in use; None if its counters, taints or constraints do not allow that.

        `must`: without it the claim has no solution, so that a constraint in the way is an error.
        """
        shareable = self._is_shareable(one)
        counted = False
        if one.device.consumes_counters:
            if not self._features.dra_partitionable_devices:
                return None
            if not (shareable and self._is_shared(one)):
                if must and not self._features.device_counters_of_1_36_2:
                    raise NotEvaluated("all devices of a pool with counters before 1.36.2")
                if not self._counters_of_pools().take(one):
                    return None
                counted = True
        taken = _Taken(request, one, counted=counted)
        if (one.device.taints and self._is_tainted(request, one)) or not self._add_to_constraints(taken, must=must):
            if counted and self._features.counters_are_given_back:
                self._counters_of_pools().give_back(one)
            return None
        if must and not self._room(request, one):
            if self._features.counters_are_given_back:
                self._remove(taken)
            elif not shareable:
                self._allocating.setdefault(one, set()).add(request.claim)
            return None
        if shareable:
            self._share(taken)
        else:
            self._allocating.setdefault(one, set()).add(request.claim)
        self._taken[request.claim].append(taken)
        return taken

    def _is_tainted(self, request: _Request, one: PoolDevice) -> bool:
        return self._features.dra_device_taints and prevents_allocation(
            one.device.taints or (), request.tolerations, whatever_effect=not self._features.device_pools_of_1_35
        )

    def _add_to_constraints(self, taken: _Taken, *, must: bool) -> bool:
        request = taken.request
        constraints = self._constraints[request.claim]
        self._budget.spend(len(request.constraints))
        for place, at in enumerate(request.constraints):
            if constraints[at].add(request.base_name, taken.device):
                continue
            for before in reversed(request.constraints[:place]):
                constraints[before].remove(request.base_name)
            if must:
                claim = self._allocator.claims[request.claim].text
                broken = (
                    f"cannot add device {'/'.join(taken.device.id)} because a claim constraint would not be satisfied"
                )
                raise AllocationError(f"claim {claim}, request {request.name}: {broken}", names_pool=True)
            return False
        return True

    def _share(self, taken: _Taken) -> None:
        """Add what the request consumes to the shares of a device."""
        device_id = taken.device.id
        taken.consumed = consumed_by(taken.device.device.capacity or {}, taken.request.capacity, self._features)
        before = taken.shares_before = self._shares.get(device_id)
        self._shares[device_id] = {
            name: amount + (before or {}).get(name, 0) for name, amount in taken.consumed.items()
        }

    def _is_shared(self, one: PoolDevice) -> bool:
        state = self._state
        return (
            one.id in self._shares
            or one.id in (state.capacity or _NOTHING)
            or (self._features.shares_without_capacity_count and one.id in state.shared)
        )

    def _give_back(self, call: _Call) -> None:
        """Undo what the call has taken."""
        taken = call.taken
        if taken is None:
            return
        call.taken = None
        request, one = taken.request, taken.device
        self._taken[request.claim].pop()
        if taken.consumed is None:
            self._allocating[one].discard(request.claim)
        elif taken.shares_before is None:
            del self._shares[one.id]
        else:
            self._shares[one.id] = taken.shares_before
        self._remove(taken)

    def _remove(self, taken: _Taken) -> None:
        """Take a device out of the constraints and give its counters back."""
        constraints = self._constraints[taken.request.claim]
        for at in reversed(taken.request.constraints):
            constraints[at].remove(taken.request.base_name)
        if taken.counted and (taken.consumed is None or self._features.counters_are_given_back):
            self._counters_of_pools().give_back(taken.device)

    def _counters_of_pools(self) -> Counters:
        if self._counters is None:
            self._counters = Counters(self._state, self._features, self._budget)
        return self._counters

    # --- the solution

    def allocated(self) -> Allocated:
        """Return the devices of each claim; raises AllocationError where one has a node selector of several terms."""
        alternatives = {call.choice: call.alternative for call in self._calls if call.request is None}
        found = []
        at = 0
        for claim, taken in zip(self._allocator.claims, self._taken, strict=True):
            chosen = tuple(alternatives.get(choice) for choice in range(at, at + len(claim.choices)))
            at += len(claim.choices)
            devices = tuple(self._device(one) for one in taken)
            found.append(AllocatedClaim(devices, chosen, self._node_selector(claim, taken)))
        return tuple(found)

    def _device(self, taken: _Taken) -> AllocatedDevice:
        one = taken.device
        has_conditions = self._features.dra_device_binding_conditions
        return AllocatedDevice(
            taken.request.full_name,
            one.id,
            (self._pools.index(one.pool), one.number),
            taken.request.admin_access,
            taken.consumed,
            one.device.binding_conditions if has_conditions else None,
            one.device.binding_failure_conditions if has_conditions else None,
        )

    def _node_selector(self, claim: _Claim, taken: Sequence[_Taken]) -> NodeSelector | None:
        """Return which nodes can use all devices of a claim; None: every node. Mirrors createNodeSelector (v1.36)."""
        fields: list[NodeSelectorRequirement] = []
        labels: list[NodeSelectorRequirement] = []
        binds = self._allocator.knows_shares and self._features.device_allocator_of_1_36
        for device, published in ((one.device.device, one.device.slice.spec) for one in taken):
            on = device if published.per_device_node_selection else published
            if on.node_name is not None or (binds and device.binds_to_node):
                return NodeSelector([NodeSelectorTerm(match_fields=[_is_node(self._node)])])
            terms = on.node_selector.node_selector_terms if on.node_selector is not None else None
            if terms and len(terms) > 1:
                many = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                raise AllocationError(f"create NodeSelector for claim {claim.name}: {many}")
            for term in terms or ():
                _add_new(fields, term.match_fields)
                _add_new(labels, term.match_expressions)
        if not fields and not labels:
            return None
        return NodeSelector([NodeSelectorTerm(labels or None, fields or None)])


def _candidates(pools: Sequence[Pool], features: Features) -> tuple[Sequence[PoolDevice], Pool | None]:
    """Return the devices to try, and up to v1.34 the invalid pool at which the search ends with an error."""
    if features.device_pools_of_1_35:
        usable = [pool for pool in pools if not pool.incomplete and not pool.invalid_reason]
        return (usable[0].devices if len(usable) == 1 else [one for pool in usable for one in pool.devices]), None
    found: list[PoolDevice] = []
    for pool in pools:
        if pool.invalid_reason:
            return found, pool
        found += pool.devices
    return found, None


def _constraint(one: DeviceConstraint, features: Features) -> AttributeConstraint:
    if one.match_attribute is not None:
        return MatchAttribute(one.match_attribute)
    return DistinctAttribute(
        one.distinct_attribute or "",
        remembers_all=features.distinct_attribute_remembers_all_values,
        compares_values=features.shared_devices_of_1_35,
    )


def _is_node(node: Node) -> NodeSelectorRequirement:
    return NodeSelectorRequirement("metadata.name", "In", [node.metadata.name])


def _add_new(to: list[NodeSelectorRequirement], added: Sequence[NodeSelectorRequirement] | None) -> None:
    """Add requirements that are not there yet; the order of their values does not matter."""
    for one in added or ():
        if not any(
            (other.key, other.operator) == (one.key, one.operator) and set(other.values or ()) == set(one.values or ())
            for other in to
        ):
            to.append(one)
