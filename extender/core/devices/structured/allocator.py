"""Choose devices for the claims of a pod on one node: the first complete solution, in a fixed order.

Mirrors Allocator.Allocate (k8s.io/dynamic-resource-allocation/structured, v1.36) with the implementation that feature
gates select there: "incubating" with binding conditions or consumable capacity, else "stable".

Rule: a pure function of the claims, the pools of the node and the devices in use; each device that is tried takes a
step of the budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from extender.core.devices.structured.allocation import (
    Allocated,
    AllocatedClaim,
    AllocatedDevice,
    AllocatedState,
    ClaimToAllocate,
)
from extender.core.devices.structured.capacity import UnusablePolicy
from extender.core.devices.structured.node_devices import NodeDevices, Taken
from extender.core.devices.structured.pools import (
    AllocationError,
    InvalidPools,
    NotEvaluated,
    Pool,
    PoolDevice,
    knows_shares,
)
from extender.core.devices.structured.requests import Choice, ClaimCompiler, CompiledClaim, CompiledRequest
from extender.k8s.devices.objects import DeviceClass
from extender.k8s.devices.selector import DeviceMatcher
from extender.k8s.limits.limits import WorkBudget
from extender.k8s.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from extender.k8s.version.features import Features

MAX_DEVICES: Final = 32
"""Maximum number of devices of one claim (resource/v1 AllocationResultsMaxSize)."""


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
        compiler = ClaimCompiler(classes, selectors, features)
        self._features = features
        self._claims = [compiler.compile(number, claim) for number, claim in enumerate(claims)]

    def allocate(
        self, node: Node, pools: Sequence[Pool], state: AllocatedState, budget: WorkBudget
    ) -> Allocated | None:
        """Return the devices of each claim on one node; None if the node does not have them.

        `pools`: as `gather_pools` returns them. Raises AllocationError, InvalidPools, NotEvaluated, WorkLimitReached.
        """
        devices = NodeDevices(self._claims, self._features, node, state, budget)
        search = _Search(self._claims, self._features, pools, devices, budget)
        try:
            # 1. Check the claims, and find the devices of requests for all devices.
            search.check_claims()
            # 2. Search for devices, one request after the other (allocateOne).
            if search.run():
                # 3. Build the results, with the nodes that can use the devices (createNodeSelector).
                return search.allocated()
        except UnusablePolicy:
            raise NotEvaluated("a request policy of capacity that no API server admits") from None
        # 4. Invalid pools only matter if the valid ones do not suffice; up to v1.34 they end the search.
        if self._features.device_pools_of_1_35 and any(pool.invalid_reason for pool in pools):
            raise InvalidPools("invalid resource pools were encountered")
        return None


class _Ended(Enum):
    """Result of a call of the search."""

    ADVANCE = auto()
    """The call opened another call, which continues the search."""
    FAILED = auto()
    """The call found no solution."""
    EXCEEDED = auto()
    """The claim would have too many devices: different devices for the requests before would not help."""
    DONE = auto()
    """All claims have their devices."""


@dataclass(slots=True)
class _Call:
    """An open call of the search; it is resumed with the result of the call that it opened."""

    claim: int
    choice: int
    request: CompiledRequest | None
    """None if the call tries the alternatives of a prioritized list."""
    number: int = 0
    """Number of devices that the request has so far."""
    start: int = 0
    """Index of the next candidate."""
    taken: Taken | None = None
    alternative: int = -1
    all_exceeded: bool = True


class _Search:
    """One search on one node. Mirrors allocator.allocateOne and allocateDevice (v1.36)."""

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        features: Features,
        pools: Sequence[Pool],
        devices: NodeDevices,
        budget: WorkBudget,
    ) -> None:
        self._claims = claims
        self._choices: list[Choice] = [choice for claim in claims for choice in claim.choices]
        self._features = features
        self._pools = pools
        self._devices = devices
        self._budget = budget
        self._calls: list[_Call] = []
        self._claim = 0
        """Index of the claim of the last call."""
        self._all_devices: dict[CompiledRequest, list[PoolDevice]] = {}
        self._candidates, self._invalid = _candidates(pools, features)

    def check_claims(self) -> None:
        """Find the devices of requests for all devices; raise upstream's errors about claims, in upstream's order."""
        for claim in self._claims:
            least = 0
            for choice in claim.choices:
                if choice.error:
                    raise AllocationError(choice.error)
                more = min([self._count_checked(claim, choice, one) for one in choice.alternatives])
                if self._features.device_limit_is_checked_by_request and least + more > MAX_DEVICES:
                    exceeds = (
                        f"adding {more} devices exceeds the claim limit of {MAX_DEVICES}, "
                        f"with {least} already accounted for"
                    )
                    raise AllocationError(f"claim {claim.text}, request {choice.alternatives[0].base_name}: {exceeds}")
                least += more
            if least > MAX_DEVICES:
                exceeds = f"number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
                raise AllocationError(f"claim {claim.text}: {exceeds}")
            if claim.constraint_error:
                raise AllocationError(claim.constraint_error)
        self._devices.matches.clear()  # upstream's cache of selector results is also empty when the search starts

    def _count_checked(self, claim: CompiledClaim, choice: Choice, request: CompiledRequest) -> int:
        """Return the number of devices that a request is for; raises AllocationError."""
        if request.error:
            raise AllocationError(request.error)
        if not request.takes_all:
            return request.count
        # Up to v1.35 upstream caches selector results of the second alternative under the first alternative's name.
        renamed = not self._features.device_allocator_of_1_36 and request in choice.alternatives[1:2]
        remembers = choice.alternatives[0] if renamed else request
        found = self._all_devices[request] = list[PoolDevice]()
        for pool in self._pools:
            unusable = "being updated" if pool.incomplete else "invalid" if pool.invalid_reason else ""
            if unusable:
                asks = f"asks for all devices, but resource pool {pool.id} is currently {unusable}"
                raise AllocationError(f"claim {claim.text}, request {request.name}: {asks}", names_pool=True)
            self._budget.spend(len(pool.devices))
            for one in pool.devices:
                if self._devices.selects(request, one, remembers) and self._devices.belongs(request, one):
                    found.append(one)
        return len(found)

    # --- the search itself

    def run(self) -> bool:
        """Return whether all claims can have their devices; `allocated` then returns them."""
        # Upstream's search is recursive; a list of open calls has no depth limit.
        calls = self._calls
        ended = self._enter(0, None, 0, 0)
        while ended is not _Ended.DONE:
            if not calls:
                if ended is _Ended.EXCEEDED and self._claim == 0:
                    raise AllocationError("allocation max size exceeded")
                return False
            call = calls[-1]
            if ended is _Ended.EXCEEDED and call.claim != self._claim:
                ended = _Ended.FAILED  # with fewer devices for the claims before, there may be a solution
            self._claim = call.claim
            if call.request is None:
                ended = self._next_alternative(call, ended)
            elif call.request.takes_all:
                ended = self._next_of_all(call, call.request, ended)
            else:
                ended = self._next_candidate(call, call.request, ended)
        return True

    def _enter(self, choice: int, request: CompiledRequest | None, number: int, start: int) -> _Ended:
        """Open the call that finds device `number` of `request` (None: of `choice`); `start`: the first candidate."""
        while True:
            if request is None:
                if choice == len(self._choices):
                    return _Ended.DONE
                chosen = self._choices[choice]
                if chosen.is_list:
                    self._calls.append(_Call(chosen.claim, choice, None))
                    return _Ended.ADVANCE
                request = chosen.alternatives[0]
            count = request.count
            if request.takes_all:
                count = len(self._all_devices[request])
                if not count:
                    return _Ended.FAILED
            if number < count:
                break
            choice, request, number, start = choice + 1, None, 0, 0
        if len(self._devices.taken[request.claim]) + count - number > MAX_DEVICES:
            self._claim = request.claim
            return _Ended.EXCEEDED
        self._calls.append(_Call(request.claim, choice, request, number, start))
        return _Ended.ADVANCE

    def _next_alternative(self, call: _Call, ended: _Ended) -> _Ended:
        if ended is _Ended.FAILED:
            call.all_exceeded = False
        self._budget.spend(1)
        call.alternative += 1
        alternatives = self._choices[call.choice].alternatives
        if call.alternative < len(alternatives):
            return self._enter(call.choice, alternatives[call.alternative], 0, 0)
        self._calls.pop()
        return _Ended.EXCEEDED if call.all_exceeded else _Ended.FAILED

    def _next_of_all(self, call: _Call, request: CompiledRequest, ended: _Ended) -> _Ended:
        """Take the next device of a request for all devices: a different device would not help."""
        if ended is not _Ended.ADVANCE:
            self._devices.give_back(call.taken)
            self._calls.pop()
            return ended
        self._budget.spend(1)
        one = self._all_devices[request][call.number]
        call.taken = None if self._devices.is_in_use(request, one) else self._devices.take(request, one, must=True)
        if call.taken is None:
            self._calls.pop()
            return _Ended.FAILED
        # Up to v1.35 upstream continues an alternative for all devices with the first alternative.
        goes_on = request if self._features.device_allocator_of_1_36 else self._choices[call.choice].alternatives[0]
        return self._enter(call.choice, goes_on, call.number + 1, 0)

    def _next_candidate(self, call: _Call, request: CompiledRequest, ended: _Ended) -> _Ended:
        """Take the next device that the request can have; one request takes devices in ascending order only.

        As in upstream's loop, a device is tested for (1) use, (2) selectors, (3) capacity, then by `take`.
        """
        if ended is not _Ended.ADVANCE:
            self._devices.give_back(call.taken)
            if ended is _Ended.EXCEEDED:
                self._calls.pop()
                return ended
        candidates = self._candidates
        for place in range(call.start, len(candidates)):
            one = candidates[place]
            if (
                not self._devices.is_in_use(request, one)
                and self._devices.selects(request, one, request)
                and self._devices.room(request, one)
                and (taken := self._devices.take(request, one, must=False)) is not None
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
        return _Ended.FAILED

    # --- the solution

    def allocated(self) -> Allocated:
        """Return the devices of each claim; raises AllocationError if a node selector of a device has several terms."""
        alternatives = {call.choice: call.alternative for call in self._calls if call.request is None}
        found, first = list[AllocatedClaim](), 0
        for claim, taken in zip(self._claims, self._devices.taken, strict=True):
            chosen = tuple(alternatives.get(choice) for choice in range(first, first + len(claim.choices)))
            first += len(claim.choices)
            devices = tuple(map(self._device, taken))
            found.append(AllocatedClaim(devices, chosen, self._node_selector(claim, taken)))
        return tuple(found)

    def _device(self, taken: Taken) -> AllocatedDevice:
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

    def _node_selector(self, claim: CompiledClaim, taken: Sequence[Taken]) -> NodeSelector | None:
        """Return the selector of nodes that can use all devices of a claim; None if all can (createNodeSelector)."""
        fields, labels = list[NodeSelectorRequirement](), list[NodeSelectorRequirement]()
        binds = knows_shares(self._features) and self._features.device_allocator_of_1_36
        for device, published in ((one.device.device, one.device.slice.spec) for one in taken):
            on = device if published.per_device_node_selection else published
            if on.node_name is not None or (binds and device.binds_to_node):
                is_node = NodeSelectorRequirement("metadata.name", "In", [self._devices.node.metadata.name])
                return NodeSelector([NodeSelectorTerm(match_fields=[is_node])])
            terms = (on.node_selector.node_selector_terms if on.node_selector is not None else None) or ()
            if len(terms) > 1:
                many = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                raise AllocationError(f"create NodeSelector for claim {claim.name}: {many}")
            for term in terms:
                _add_new(fields, term.match_fields)
                _add_new(labels, term.match_expressions)
        return NodeSelector([NodeSelectorTerm(labels or None, fields or None)]) if fields or labels else None


def _candidates(pools: Sequence[Pool], features: Features) -> tuple[Sequence[PoolDevice], Pool | None]:
    """Return the devices to try, and up to v1.34 the invalid pool at which the search ends with an error."""
    if features.device_pools_of_1_35:
        usable = [pool for pool in pools if not pool.incomplete and not pool.invalid_reason]
        return (usable[0].devices if len(usable) == 1 else [one for pool in usable for one in pool.devices]), None
    invalid = next((at for at, pool in enumerate(pools) if pool.invalid_reason), len(pools))
    return [one for pool in pools[:invalid] for one in pool.devices], next(iter(pools[invalid:]), None)


def _add_new(to: list[NodeSelectorRequirement], added: Sequence[NodeSelectorRequirement] | None) -> None:
    """Add the requirements that are missing; the order of their values does not matter."""
    for one in added or ():
        if not any(
            (other.key, other.operator) == (one.key, one.operator) and set(other.values or ()) == set(one.values or ())
            for other in to
        ):
            to.append(one)
