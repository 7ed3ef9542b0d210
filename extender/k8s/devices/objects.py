"""Objects of dynamic resource allocation that decisions read: claims, slices of devices, classes and taint rules.

One Struct per API type, named as in k8s.io/api (resource/v1, v1.36), with only the fields that are read.

Rule: immutable values without any decisions.
"""

from typing import Any

from msgspec import field

from extender.k8s.objects import (
    Condition,
    Int64,
    NamespacedObject,
    NodeSelector,
    Object,
    ObjectMeta,
    QuantityText,
    Toleration,
    Value,
)

EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation, with the value `true`, of a claim that kube-scheduler created for extended resources of a pod."""

ResourceQuantities = dict[str, QuantityText]
"""Qualified name (`domain/id` or `id`) -> amount."""

# --- requests ------------------------------------------------------------------------------------------------------


class CELDeviceSelector(Value, frozen=True):
    expression: str = ""


class DeviceSelector(Value, frozen=True):
    cel: CELDeviceSelector | None = None


class CapacityRequirements(Value, frozen=True):
    requests: ResourceQuantities | None = None


class DeviceSubRequest(Value, frozen=True):
    """One alternative of a prioritized list."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(Value, frozen=True):
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(Value, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Value, frozen=True):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Value, frozen=True):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None


class ResourceClaimSpec(Value, frozen=True):
    devices: DeviceClaim = DeviceClaim()


# --- allocations ---------------------------------------------------------------------------------------------------


class DeviceRequestAllocationResult(Value, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: ResourceQuantities | None = None


class DeviceAllocationResult(Value, frozen=True):
    results: list[DeviceRequestAllocationResult] | None = None


class AllocationResult(Value, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Value, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Value, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: list[Condition] | None = None


class ResourceClaimStatus(Value, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(NamespacedObject, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Value, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# --- devices -------------------------------------------------------------------------------------------------------


class DeviceAttribute(Value, frozen=True):
    """One value, or a list of values, of one type; API servers accept lists only with DRAListTypeAttributes, alpha."""

    int_value: Int64 | None = field(name="int", default=None)
    bool_value: bool | None = field(name="bool", default=None)
    string_value: str | None = field(name="string", default=None)
    version_value: str | None = field(name="version", default=None)
    int_values: tuple[Int64, ...] | None = field(name="ints", default=None)
    bool_values: tuple[bool, ...] | None = field(name="bools", default=None)
    string_values: tuple[str, ...] | None = field(name="strings", default=None)
    version_values: tuple[str, ...] | None = field(name="versions", default=None)


class CapacityRequestPolicyRange(Value, frozen=True):
    min: QuantityText = None
    max: QuantityText = None
    step: QuantityText = None


class CapacityRequestPolicy(Value, frozen=True):
    default: QuantityText = None
    valid_values: list[QuantityText] | None = None
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Value, frozen=True):
    value: QuantityText = None
    request_policy: CapacityRequestPolicy | None = None


class Counter(Value, frozen=True):
    value: QuantityText = None


class CounterSet(Value, frozen=True):
    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(Value, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceTaint(Value, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class Device(Value, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, Any] | None = None
    """Field of the alpha feature DRANodeAllocatableResources: only whether it is empty is read."""


class ResourcePool(Value, frozen=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Value, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object, frozen=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(Value, frozen=True):
    selectors: list[DeviceSelector] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(Value, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    """Like `selectors`, a field of v1alpha3 before v1.35 only."""
    selectors: list[DeviceSelector] | None = None


class DeviceTaintRuleSpec(Value, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A rule of the feature DRADeviceTaintRules, which is on by default since v1.37."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
