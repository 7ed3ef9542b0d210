"""Validate the text fields of an object: every resource list and time that a snapshot will parse.

Quantities and times are plain strings in the API's JSON, so that decoding accepts any text. Objects are validated when
they are read (watch events, cluster files); one that fails is reported with the field and never reaches a snapshot,
where a parse error would stop decisions.

Rule: every field that `core` parses as a quantity or a time is listed here, and errors name it as a JSON path.
"""

from collections.abc import Iterator, Sequence

import msgspec

from extender.k8s import quantity
from extender.k8s.objects import Container, ContainerStatus, Node, Object, Pod, ResourceList, ResourceRequirements
from extender.k8s.storage.objects import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from extender.k8s.time import parse_time


def validate(loaded: Object) -> None:
    """Raise ValueError, with the field's JSON path, if a quantity or time that decisions read does not parse."""
    if isinstance(loaded, Pod) and loaded.status.start_time:
        try:
            parse_time(loaded.status.start_time)
        except ValueError as error:
            raise ValueError(f"{error} at $.status.startTime") from error
    for path, amounts in _amounts(loaded):
        for resource, amount in amounts.items():
            try:
                quantity.parse(amount)
            except ValueError as error:
                raise ValueError(f"{error} at {'.'.join(filter(None, ('$', path, resource)))}") from error


def _amounts(loaded: Object) -> Iterator[tuple[str, ResourceList]]:
    """Yield (path, resource list) for every resource list of the object that a snapshot will parse."""
    if isinstance(loaded, Node):
        yield from _list("status.allocatable", loaded.status.allocatable)
    elif isinstance(loaded, Pod):
        yield from _containers("spec.containers", loaded.spec.containers)
        yield from _containers("spec.initContainers", loaded.spec.init_containers)
        yield from _requests("spec.resources", loaded.spec.resources)
        yield from _list("spec.overhead", loaded.spec.overhead)
        yield from _containers("status.containerStatuses", loaded.status.container_statuses)
        yield from _containers("status.initContainerStatuses", loaded.status.init_container_statuses)
        yield from _requests("status.resources", loaded.status.resources)
        yield from _list("status.allocatedResources", loaded.status.allocated_resources)
    elif isinstance(loaded, PersistentVolumeClaim):
        yield from _requests("spec.resources", loaded.spec.resources)
    elif isinstance(loaded, PersistentVolume):
        yield from _list("spec.capacity", loaded.spec.capacity)
    elif isinstance(loaded, CSIStorageCapacity):
        yield "", {"capacity": loaded.capacity, "maximumVolumeSize": loaded.maximum_volume_size}


def _containers(
    path: str, containers: Sequence[Container | ContainerStatus] | None
) -> Iterator[tuple[str, ResourceList]]:
    for index, container in enumerate(containers or ()):
        yield from _requests(f"{path}[{index}].resources", container.resources)
        if isinstance(container, ContainerStatus):
            yield from _list(f"{path}[{index}].allocatedResources", container.allocated_resources)


def _requests(path: str, needs: ResourceRequirements | None) -> Iterator[tuple[str, ResourceList]]:
    if needs is not None:
        yield from _list(f"{path}.requests", needs.requests)


def _list(path: str, amounts: ResourceList | None) -> Iterator[tuple[str, ResourceList]]:
    if amounts:
        yield path, amounts


def decode_error_message(error: Exception) -> str:
    """Return an error's message in lower case, to follow a colon: `expected int | null, got str at $.spec.priority`."""
    text = str(error).replace("`", "").replace(" - at ", " at ")
    return text[:1].lower() + text[1:] if isinstance(error, msgspec.MsgspecError) else text
