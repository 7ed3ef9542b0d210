"""Explain why a request does not get the devices of a node: the reason per device, and how many devices share it.

Rule: a reason is a fact about one device and one request; combinations of devices are the allocator's concern.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.structured.allocation import ClaimToAllocate
from extender.core.devices.structured.capacity import CapacityError, UnusablePolicy, has_room
from extender.core.devices.structured.constraints import find_attribute
from extender.core.devices.structured.counters import Counters
from extender.core.devices.structured.pools import DeviceID, NodeSelectorError, Pool, PoolDevice, is_for_node
from extender.core.devices.structured.taints import prevents_allocation
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import (
    DeviceAttribute,
    DeviceClaim,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from extender.k8s.devices.selector import DeviceSelectorError, Selector, UnsupportedFeature, compile_selector
from extender.k8s.limits.limits import WorkBudget, WorkLimitReached
from extender.report.facts.schema import DeviceRequestFact, FailedSelector
from extender.report.schema import DeviceReport, DeviceRequestReport
from extender.utilities.text import join_counts, join_names, pluralize, shortened

MAX_DEVICES = 256
"""Maximum number of devices that a request lists on one node."""

MAX_REASONS = 4
"""Maximum number of reasons that a summary lists."""

MAX_NAMES = 3
"""Maximum number of claims, pods or devices that one sentence names."""

MAX_EXPRESSION_CHARACTERS = 1000
"""Maximum length of an expression that a fact quotes."""

MAX_EXPRESSION_IN_REASON = 150
"""Maximum length of an expression that a reason quotes."""

_STEPS_PER_DEVICE = 10
"""Steps of the work budget that one device costs for one request, besides the steps of selectors."""

_IS_FALSE = "is false"

IN_USE = "in use by "
"""Prefix of a reason; a summary counts all devices in use together, whichever claims use them."""


@dataclass(frozen=True, slots=True)
class RequestToAllocate:
    """A request, or an alternative of its prioritized list."""

    name: str
    """Name of the request."""
    alternative: str
    """Name of the alternative; empty without a list."""
    asks: ExactDeviceRequest | DeviceSubRequest

    @property
    def full_name(self) -> str:
        return f"{self.name}/{self.alternative}" if self.alternative else self.name

    def is_of(self, constraint: DeviceConstraint) -> bool:
        """Return whether the constraint applies to the devices of this request."""
        return not constraint.requests or self.name in constraint.requests or self.full_name in constraint.requests


def requests_of(spec: DeviceClaim) -> Iterator[tuple[int, RequestToAllocate]]:
    """Yield (index of the request, request or alternative)."""
    for place, one in enumerate(spec.requests or ()):
        if one.exactly is not None:
            yield place, RequestToAllocate(one.name, "", one.exactly)
        for alternative in one.first_available or ():
            yield place, RequestToAllocate(one.name, alternative.name, alternative)


_Selector = tuple[Literal["class", "request"], str]
"""What has the selector, and its expression."""


class _Candidate(NamedTuple):
    """A device that a request may choose."""

    device: PoolDevice
    matches: bool
    why: str
    """Reason why the request does not get the device; empty if the device is free."""
    cause: _Selector | Literal["tainted", "allocated", ""] = ""
    """What a DeviceRequestFact counts the device under."""


class _Mismatch(NamedTuple):
    """Why a device does not match a request, free or not."""

    why: str
    cause: _Selector | Literal["tainted", ""] = ""


class DeviceReasons:
    """The devices of one node, and the reasons why requests do not get them."""

    def __init__(self, snapshot: Snapshot, pools: Sequence[Pool], budget: WorkBudget, row: int = 0) -> None:
        self._snapshot, self._node = snapshot, snapshot.nodes[row]
        self._features = snapshot.features
        self._state = snapshot.index(DeviceIndex).state
        self._budget = budget
        self._candidates: dict[tuple[str, str], list[_Candidate]] = {}
        """(claim, request) -> the devices that the budget was enough to check."""
        self._selectors: dict[str, Selector] = {}
        self._pools = pools

    @property
    def users(self) -> dict[DeviceID, list[ResourceClaim]]:
        """Device -> claims that use it, sorted by name."""
        return users_of_devices(self._snapshot)

    def on_node(self, row: int, pools: Sequence[Pool]) -> "DeviceReasons":
        """Return the reasons for another node, which share the selectors, the users and the budget."""
        found = copy(self)
        found._node, found._pools, found._candidates = self._snapshot.nodes[row], pools, {}
        return found

    def report(self, claim: ClaimToAllocate, request: RequestToAllocate, *, fails: bool) -> DeviceRequestReport:
        """Report the devices of the node for a request, with a summary."""
        found = self._candidates_of(claim, request)
        matching, free = sum(one.matches for one in found), sum(not one.why for one in found)
        reasons = Counter(one.why for one in found if one.why)
        devices = sum(len(pool.devices) for pool in self._pools)
        # An incomplete or invalid pool may have no devices yet, so no device reports why the pool cannot be used.
        notes = [why for pool in self._pools if not pool.devices and (why := _why_unusable(pool))][:MAX_REASONS]
        nothing = "no device was looked at" if devices else "the node has no devices"
        if len(found) < devices:
            notes.append(f"{pluralize(devices - len(found), 'device')} not looked at: {self._budget.exceeded}")
        return DeviceRequestReport(
            name=shortened(request.full_name),
            summary="; ".join([_summary(request, len(found), matching, free, reasons) if found else nothing, *notes]),
            fails=fails,
            count=None if request.asks.allocation_mode == "All" else request.asks.count,
            matching=matching,
            free=free,
            devices=[
                DeviceReport(
                    device=shortened("/".join(one.device.id)),
                    why=one.why,
                    detail=self._detail(one.device) if one.why else "",
                )
                for one in found[:MAX_DEVICES]
            ],
            omitted=max(0, devices - MAX_DEVICES),
        )

    def fact(self, claim: ClaimToAllocate, request: RequestToAllocate) -> DeviceRequestFact:
        """Count the devices of the node for a request by what rejects them."""
        found, asks = self._candidates_of(claim, request), request.asks
        causes = Counter(one.cause for one in found)
        # A device of a pool that cannot be used, one without room, one for which a selector fails … has no count.
        others = Counter(one.why for one in found if one.why and not one.cause)
        others.update(why for pool in self._pools if not pool.devices and (why := _why_unusable(pool)))
        devices = sum(len(pool.devices) for pool in self._pools)
        return DeviceRequestFact(
            claim=str(claim),
            request=request.full_name,
            device_class=asks.device_class_name,
            count=None if asks.allocation_mode == "All" else asks.count,
            devices=devices if len(found) == devices and self._budget.left >= 0 else None,
            matching=sum(one.matches for one in found),
            free=sum(not one.why for one in found),
            allocated=causes["allocated"],
            tainted=causes["tainted"],
            problem=others.most_common(1)[0][0] if others else "",
            selectors=tuple(
                FailedSelector(of=cause[0], expression=shortened(cause[1], MAX_EXPRESSION_CHARACTERS), failed=failed)
                for cause, failed in causes.most_common()
                if isinstance(cause, tuple)
            )[:MAX_REASONS],
        )

    def free_devices(self, claim: ClaimToAllocate, request: RequestToAllocate) -> Iterator[PoolDevice]:
        """Yield the devices that the request could get."""
        return (one.device for one in self._candidates_of(claim, request) if not one.why)

    def _candidates_of(self, claim: ClaimToAllocate, request: RequestToAllocate) -> list[_Candidate]:
        key = f"{claim.namespace}/{claim.name}", request.full_name
        if key not in self._candidates:
            found = self._candidates[key] = []
            with suppress(WorkLimitReached):
                for one in (device for pool in self._pools for device in pool.devices):
                    self._budget.spend(_STEPS_PER_DEVICE)
                    mismatch = self._mismatch(request, one)
                    if mismatch is not None:
                        found.append(_Candidate(one, False, shortened(mismatch.why), mismatch.cause))
                        continue
                    why = self._taken(request, one) or _missing_attribute(claim.spec, request, one)
                    found.append(
                        _Candidate(
                            one,
                            True,
                            shortened(why),
                            "allocated" if why.startswith(IN_USE) else "",
                        )
                    )
        return self._candidates[key]

    def _detail(self, one: PoolDevice) -> str:
        pods = [
            f"{claim.metadata.namespace}/{pod.name}"
            for claim in self.users.get(one.id, ())
            for pod in claim.status.reserved_for or ()
        ]
        return f"reserved for {join_names(pods, MAX_NAMES)}" if pods else ""

    def _mismatch(self, request: RequestToAllocate, one: PoolDevice) -> _Mismatch | None:
        """Return why the device does not match the request, free or not; None if it matches."""
        asks, features = request.asks, self._features
        if why := _why_unusable(one.pool):
            return _Mismatch(why)
        if one.device.binding_conditions and not features.dra_device_binding_conditions:
            return _Mismatch("has binding conditions (DRADeviceBindingConditions is off)")
        device_class = self._snapshot.objects.device_classes.get(("", asks.device_class_name))
        if device_class is None:
            return _Mismatch(f"class {asks.device_class_name} does not exist")
        whose: tuple[tuple[Literal["class", "request"], str, Sequence[DeviceSelector] | None], ...] = (
            ("class", asks.device_class_name, device_class.spec.selectors),
            ("request", request.full_name, asks.selectors),
        )
        for of, name, selectors in whose:
            for number, selector in enumerate(selectors or ()):
                expression = "" if selector.cel is None else selector.cel.expression
                if why := self._not_selected(expression, one):
                    # A selector that fails or is not evaluated says nothing of what the device lacks.
                    cause: _Selector | Literal[""] = (of, expression) if why == _IS_FALSE else ""
                    quoted = shortened(expression, MAX_EXPRESSION_IN_REASON)
                    return _Mismatch(f"selector #{number} of {of} {name} ({quoted}) {why}", cause)
        try:
            if one.slice.spec.per_device_node_selection and not is_for_node(one.device, self._node):
                return _Mismatch("is for other nodes")
        except NodeSelectorError as error:
            return _Mismatch(f"has {error}")
        if features.dra_device_taints:
            for taint in one.device.taints or ():
                if prevents_allocation(
                    [taint], asks.tolerations or (), whatever_effect=not features.device_pools_of_1_35
                ):
                    return _Mismatch(f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated", "tainted")
        return None

    def selector(self, expression: str) -> Selector:
        """Return the compiled selector, cached; the allocator shares the cache."""
        if expression not in self._selectors:
            compiled = compile_selector(expression, of_1_37=self._features.selectors_of_1_37)
            self._selectors[expression] = compiled
        return self._selectors[expression]

    def _not_selected(self, expression: str, one: PoolDevice) -> str:
        compiled = self.selector(expression)
        if compiled.error:
            return f"does not compile: {compiled.error}"
        if compiled.unsupported:
            return f"is not evaluated: {compiled.unsupported}"
        try:
            return "" if compiled.matches(one.view(self._features), self._budget) else _IS_FALSE
        except DeviceSelectorError as error:
            return f"fails: {error}"
        except UnsupportedFeature as feature:
            return f"is not evaluated: {feature}"

    def _taken(self, request: RequestToAllocate, one: PoolDevice) -> str:
        """Return the reason why a matching device is not free; empty if it is free."""
        asks, features, state = request.asks, self._features, self._state
        is_admin = isinstance(asks, ExactDeviceRequest) and bool(asks.admin_access)
        # Admin access does not allocate the device, so the device may be in use.
        if one.id in state.devices and not is_admin:
            users = [claim.key for claim in self.users.get(one.id, ())]
            return IN_USE + join_names(users, MAX_NAMES)
        if one.device.consumes_counters and not features.dra_partitionable_devices:
            return "consumes counters (DRAPartitionableDevices is off)"
        if features.dra_consumable_capacity:
            requested = asks.capacity.requests if asks.capacity is not None else None
            consumed = (state.capacity or {}).get(one.id, {})
            try:
                if not has_room(one.device.capacity or {}, requested, consumed, {}, features):
                    return "too little capacity is left" if consumed else "has too little capacity"
            except UnusablePolicy:
                return "its capacity has a request policy that no API server admits"
            except CapacityError as error:
                return str(error)
        # A shared device in use has already consumed its counters.
        is_shared = bool(one.device.allow_multiple_allocations) and one.id in state.shared
        if one.device.consumes_counters and not is_shared and not Counters(state, features, self._budget).take(one):
            return "too little is left of the counters of its pool"
        return ""


def _why_unusable(pool: Pool) -> str:
    """Return the reason why no device of the pool can be allocated; empty if the pool is usable."""
    if pool.incomplete:
        return f"pool {shortened(str(pool.id))} is being updated"
    why = f"pool {pool.id} is invalid: {pool.invalid_reason}"
    return shortened(why) if pool.invalid_reason else ""


@derived("resource_claims")
def users_of_devices(snapshot: Snapshot) -> dict[DeviceID, list[ResourceClaim]]:
    """Return device -> claims that use it."""
    users: dict[DeviceID, list[ResourceClaim]] = defaultdict(list)
    for claim in sorted(
        snapshot.objects.resource_claims.values(), key=lambda one: (one.metadata.namespace, one.metadata.name)
    ):
        allocation = claim.status.allocation
        for one in (allocation.devices.results if allocation is not None else None) or ():
            # A claim with admin access does not keep other claims from the device.
            if not one.admin_access:
                users[one.driver, one.pool, one.device].append(claim)
    return users


def _missing_attribute(spec: DeviceClaim, request: RequestToAllocate, one: PoolDevice) -> str:
    for number, constraint in enumerate(spec.constraints or ()):
        attribute = constraint.match_attribute or constraint.distinct_attribute
        if attribute and request.is_of(constraint) and find_attribute(one, attribute) is None:
            return f"lacks the attribute {attribute} of constraint #{number}"
    return ""


# --- words ----------------------------------------------------------------------------------------------------------


def _summary(request: RequestToAllocate, found: int, matching: int, free: int, reasons: Counter[str]) -> str:
    """Return `1 of 8 devices matches, 0 free: 7 selector #0 of class gpu (EXPRESSION) is false, 1 in use by …`."""
    asked = "all" if request.asks.allocation_mode == "All" else pluralize(request.asks.count, "device")
    wants = "" if asked == "1 device" else f"asks for {asked}; "
    # Each claim that uses devices is a separate reason: singly, they would push other reasons out of the summary.
    users = {reason: count for reason, count in reasons.items() if reason.startswith(IN_USE)}
    merged = Counter({reason: count for reason, count in reasons.items() if reason not in users})
    if users:
        merged[IN_USE + join_names([reason.removeprefix(IN_USE) for reason in users], MAX_NAMES)] = sum(users.values())
    why = join_counts(merged.most_common(), MAX_REASONS)
    matches = f"{matching} of {pluralize(found, 'device')} {'matches' if matching == 1 else 'match'}"
    return f"{wants}{matches}, {free} free" + (f": {why}" if why else "")


def value_of(attribute: DeviceAttribute) -> str:
    """Return the value of an attribute as text."""
    if attribute.bool_value is not None:
        return str(attribute.bool_value).lower()
    values = attribute.string_value, attribute.int_value, attribute.version_value
    return next((str(value) for value in values if value is not None), "a list")
