"""Validate the quantities and times of an object, which are plain strings in the API's JSON.

Objects are validated when they are read (watch events, cluster files). An invalid object is reported with the field and
never reaches a snapshot, where a parse error would stop decisions.

Rule: every field that `core` parses as a quantity or a time is listed here, and errors name it as a JSON path.
"""

from collections.abc import Iterator

import msgspec

from extender.k8s import quantity
from extender.k8s.devices.objects import (
    CounterSet,
    Device,
    DeviceClass,
    DeviceCounterConsumption,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from extender.k8s.objects import Node, Object, Pod, ResourceList
from extender.k8s.storage.objects import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from extender.k8s.time import parse_time

ResourceLists = Iterator[tuple[str, ResourceList | None]]
"""Iterator of (JSON path, resource list) over the resource lists of an object."""


def validate(loaded: Object) -> None:
    """Raise ValueError with the field's JSON path if a quantity or time is invalid that decisions or admission read."""
    path, time = _time(loaded)
    if time:
        try:
            parse_time(time)
        except ValueError as error:
            raise ValueError(f"{error} at $.{path}") from error
    for path, amounts in _resource_lists(loaded):
        for resource, amount in (amounts or {}).items():
            try:
                quantity.parse(amount)
            except ValueError as error:
                raise ValueError(f"{error} at {'.'.join(filter(None, ('$', path, resource)))}") from error


def _time(loaded: Object) -> tuple[str, str | None]:
    """Return (path, text) of the object's time that decisions read; text is None if it is unset."""
    if isinstance(loaded, Pod):
        return "status.startTime", loaded.status.start_time
    if isinstance(loaded, DeviceClass):
        return "metadata.creationTimestamp", loaded.metadata.creation_timestamp
    if isinstance(loaded, ResourceClaim) and loaded.status.allocation:
        return "status.allocation.allocationTimestamp", loaded.status.allocation.allocation_timestamp
    return "", None


def _resource_lists(loaded: Object) -> ResourceLists:
    """Yield the resource lists that decisions or admission parse: also the limits of a pod."""
    if isinstance(loaded, Node):
        yield "status.allocatable", loaded.status.allocatable
    elif isinstance(loaded, Pod):
        yield from pod_resource_lists(loaded)
    elif isinstance(loaded, PersistentVolumeClaim):
        yield "spec.resources.requests", loaded.spec.resources.requests if loaded.spec.resources else None
    elif isinstance(loaded, PersistentVolume):
        yield "spec.capacity", loaded.spec.capacity
    elif isinstance(loaded, CSIStorageCapacity):
        yield "", {"capacity": loaded.capacity, "maximumVolumeSize": loaded.maximum_volume_size}
    elif isinstance(loaded, ResourceSlice):
        yield from _of_slice(loaded)
    elif isinstance(loaded, ResourceClaim):
        yield from _of_claim(loaded)


def pod_resource_lists(pod: Pod) -> ResourceLists:
    """Yield the resource lists of a pod."""
    spec, status = pod.spec, pod.status
    yield "spec.overhead", spec.overhead
    yield "status.allocatedResources", status.allocated_resources
    owners = [("spec", spec.resources), ("status", status.resources)]
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        owners += [(f"spec.{kind}[{i}]", one.resources) for i, one in enumerate(containers or ())]
    for kind, statuses in (
        ("initContainerStatuses", status.init_container_statuses),
        ("containerStatuses", status.container_statuses),
    ):
        owners += [(f"status.{kind}[{i}]", one.resources) for i, one in enumerate(statuses or ())]
        for i, one in enumerate(statuses or ()):
            yield f"status.{kind}[{i}].allocatedResources", one.allocated_resources
    for owner, resources in owners:
        if resources is not None:
            yield f"{owner}.resources.requests", resources.requests
            yield f"{owner}.resources.limits", resources.limits


def _of_slice(loaded: ResourceSlice) -> ResourceLists:
    capacity, consumed = None, None
    for index, device in enumerate(loaded.spec.devices or ()):
        if device.capacity != capacity or device.consumes_counters != consumed:  # most devices are of one model
            capacity, consumed = device.capacity, device.consumes_counters
            yield from _of_device(f"spec.devices[{index}]", device)
    for index, counters in enumerate(loaded.spec.shared_counters or ()):
        yield from _of_counters(f"spec.sharedCounters[{index}]", counters)


def _of_claim(loaded: ResourceClaim) -> ResourceLists:
    for index, request in enumerate(loaded.spec.devices.requests or ()):
        yield from _of_request(f"spec.devices.requests[{index}]", request)
    results = loaded.status.allocation.devices.results if loaded.status.allocation else None
    for index, result in enumerate(results or ()):
        if result.consumed_capacity:
            yield f"status.allocation.devices.results[{index}].consumedCapacity", result.consumed_capacity


def _of_device(path: str, device: Device) -> ResourceLists:
    for name, capacity in (device.capacity or {}).items():
        yield f"{path}.capacity.{name}", {"value": capacity.value}
        if (policy := capacity.request_policy) is not None:
            at = f"{path}.capacity.{name}.requestPolicy"
            yield at, {"default": policy.default}
            yield at, {f"validValues[{index}]": one for index, one in enumerate(policy.valid_values or ())}
            if (bounds := policy.valid_range) is not None:
                yield f"{at}.validRange", {"min": bounds.min, "max": bounds.max, "step": bounds.step}
    for index, consumed in enumerate(device.consumes_counters or ()):
        yield from _of_counters(f"{path}.consumesCounters[{index}]", consumed)


def _of_counters(path: str, counters: CounterSet | DeviceCounterConsumption) -> ResourceLists:
    yield f"{path}.counters", {f"{name}.value": one.value for name, one in (counters.counters or {}).items()}


def _of_request(path: str, request: DeviceRequest) -> ResourceLists:
    if request.exactly is not None and request.exactly.capacity is not None:
        yield f"{path}.exactly.capacity.requests", request.exactly.capacity.requests
    for index, one in enumerate(request.first_available or ()):
        if one.capacity is not None:
            yield f"{path}.firstAvailable[{index}].capacity.requests", one.capacity.requests


def decode_error_message(error: Exception) -> str:
    """Return an error's message in a form to follow a colon: `expected int | null, got str at $.spec.priority`."""
    # msgspec writes: Expected `int | null`, got `str` - at `$.spec.priority`
    text = str(error).replace("`", "").replace(" - at ", " at ")
    return text[:1].lower() + text[1:] if isinstance(error, msgspec.MsgspecError) else text
