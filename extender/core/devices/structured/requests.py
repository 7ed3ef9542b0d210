"""Requests of claims, compiled once for all nodes, and the errors of requests that cannot be allocated anywhere.

Mirrors validateDeviceRequest and the checks before it in Allocate (k8s.io/dynamic-resource-allocation/structured,
v1.36).

Rule: reads no node.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.core.devices.structured.allocation import ClaimToAllocate
from extender.core.devices.structured.pools import knows_shares
from extender.k8s.devices.objects import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceQuantities,
)
from extender.k8s.devices.selector import DeviceMatcher
from extender.k8s.objects import Toleration
from extender.k8s.version.features import Features


@dataclass(eq=False, slots=True)
class CompiledRequest:
    """A request, or one alternative of a prioritized list."""

    claim: int
    name: str
    parent: str
    """Name of the request of which this is an alternative; "" for a request itself."""
    # Raised when the search reaches the request: the first error in upstream's order decides.
    error: str
    """Why the request cannot be allocated anywhere; "" if it can."""
    selectors: tuple[tuple[str, DeviceMatcher], ...]
    """(prefix of its errors, selector): the selectors of the class, then those of the request."""
    takes_all: bool
    count: int
    admin_access: bool
    tolerations: Sequence[Toleration]
    capacity: ResourceQuantities | None
    constraints: tuple[int, ...]
    """Indexes of the claim's constraints that apply to the request."""

    @property
    def base_name(self) -> str:
        """Name of the request; for an alternative, name of the request that lists it."""
        return self.parent or self.name

    @property
    def full_name(self) -> str:
        """Name in the allocation result."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(slots=True)
class Choice:
    """A request of a claim as a list of alternatives, which is the request itself without a prioritized list."""

    claim: int
    alternatives: list[CompiledRequest]
    is_list: bool
    error: str


@dataclass(slots=True)
class CompiledClaim:
    text: str
    """Namespace and name, as in errors."""
    name: str
    constraints: Sequence[DeviceConstraint]
    constraint_error: str
    choices: list[Choice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClaimCompiler:
    """Compiles claims; `selectors` returns the compiled selector of an expression."""

    classes: Mapping[str, DeviceClass]
    selectors: Callable[[str], DeviceMatcher]
    features: Features

    def compile(self, number: int, claim: ClaimToAllocate) -> CompiledClaim:
        constraints, error = claim.spec.constraints or (), ""
        for at, one in enumerate(constraints):
            if one.match_attribute is None and (one.distinct_attribute is None or not knows_shares(self.features)):
                error = f"claim {claim}, constraint #{at}: empty constraint (unsupported constraint type?)"
                break
        compiled = CompiledClaim(str(claim), claim.name, constraints, error)
        for request in claim.spec.requests or ():
            listed = request.first_available or ()
            alternatives = [self._request(number, compiled, one, one.name, request.name) for one in listed] or [
                self._request(number, compiled, request.exactly or ExactDeviceRequest(), request.name, "")
            ]
            compiled.choices.append(Choice(number, alternatives, bool(listed), self._gate_error(compiled, request)))
        return compiled

    def _gate_error(self, claim: CompiledClaim, request: DeviceRequest) -> str:
        """Return why the feature gates do not allow a request; "" if they do."""
        # The "stable" allocator ignores capacity, and so does not check this gate.
        features, listed, name = self.features, request.first_available or (), None
        if listed and not features.dra_prioritized_list:
            reason = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return f"claim {claim.text}, request {request.name}: {reason}"
        if features.dra_consumable_capacity or not knows_shares(features):
            return ""
        if request.exactly is None or request.exactly.capacity is None:
            name = next((one.name for one in listed if one.capacity is not None), None)
            if name is None:
                return ""
        reason = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if name is None or not features.shared_devices_of_1_35:
            return f"claim {claim.text}, request {request.name}: {reason}"
        return f"claim {claim.text}, subrequest {name}: {reason}"

    def _request(
        self, number: int, claim: CompiledClaim, spec: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str
    ) -> CompiledRequest:
        device_class = self.classes.get(spec.device_class_name)
        selectors = [] if device_class is None else [(f"class {spec.device_class_name}", device_class.spec.selectors)]
        selectors.append((f"claim {claim.text}", spec.selectors))
        names = {parent, f"{parent}/{name}"} if parent else {name}
        return CompiledRequest(
            number,
            name,
            parent,
            self._error(spec, device_class, f"claim {claim.text}, request {name}"),
            tuple(
                (f"{of}: selector #{at}", self.selectors(one.cel.expression))
                for of, own in selectors
                for at, one in enumerate(own or ())
                if one.cel is not None
            ),
            spec.allocation_mode == "All",
            spec.count if spec.allocation_mode == "ExactCount" else 0,  # `All` counts the devices of each node
            isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access),
            spec.tolerations or (),
            spec.capacity.requests if spec.capacity is not None else None,
            tuple(at for at, one in enumerate(claim.constraints) if not one.requests or names & set(one.requests)),
        )

    def _error(self, spec: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None, at: str) -> str:
        """Return upstream's error about a request; "" if it is valid."""
        empty = next((number for number, one in enumerate(spec.selectors or ()) if one.cel is None), None)
        if empty is not None:
            return f"{at}, selector #{empty}: CEL expression empty (unsupported selector type?)"
        asks_access = isinstance(spec, ExactDeviceRequest) and spec.admin_access is not None
        if asks_access and not self.features.dra_admin_access:
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
