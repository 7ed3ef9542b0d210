"""Resource requests of pods and allocatable amounts of nodes.

Requests are combined in exact nano-units (`pod_requests`). Other results are in the scheduler's units: millicores for
cpu, bytes for memory and ephemeral-storage, whole units for everything else; a missing resource has the amount 0.

Rule: sums are exact and rounded up once, at the end. Every function may raise QuantityError, which names the resource.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from extender.k8s import quantity
from extender.k8s.limits.limits import MAX_QUALIFIED_NAME_CHARACTERS
from extender.k8s.objects import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from extender.k8s.quantity import NANO, QuantityError
from extender.k8s.selectors import is_qualified_name
from extender.k8s.version.features import Features

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

Nano = dict[str, int]
"""Resource -> nano-units."""

# Millicores that scores assume for a container without a cpu request (schedutil.DefaultMilliCPURequest, v1.36).
DEFAULT_MILLI_CPU_REQUEST: Final = 100

# Bytes that scores assume for a container without a memory request (schedutil.DefaultMemoryRequest, v1.36).
DEFAULT_MEMORY_REQUEST: Final = 200 * 1024 * 1024

_NON_ZERO: Final[Mapping[str, int]] = {
    CPU: DEFAULT_MILLI_CPU_REQUEST * NANO // 1000,
    MEMORY: DEFAULT_MEMORY_REQUEST * NANO,
}
_NATIVE = "kubernetes.io/"
_HUGE_PAGES = "hugepages-"
_QUOTA_PREFIX = "requests."
_SCALAR_PREFIXES = (_HUGE_PAGES, "attachable-volumes-")


@dataclass(frozen=True, slots=True)
class Usage:
    """A running pod's usage of its node, in the scheduler's units."""

    requests: dict[str, int]
    """Resource -> amount, for the resources that the scheduler counts."""
    non_zero_cpu: int
    """Millicores for scores: DEFAULT_MILLI_CPU_REQUEST for a container without a cpu request."""
    non_zero_memory: int
    """Bytes for scores: DEFAULT_MEMORY_REQUEST for a container without a memory request."""


def running_usage(pod: Pod, features: Features) -> Usage:
    """Return a running pod's usage of its node, including in-place resizes in progress.

    Mirrors framework.PodInfo.CalculateResource (kube-scheduler, v1.37).
    """
    requests = pod_requests(pod, features)
    counted = {name: _in_units(name, nano) for name, nano in requests.items() if _is_counted(name)}
    if not features.sidecars_add_to_non_zero_requests:
        return Usage(counted, _non_zero_of_steps(pod, CPU, features), _non_zero_of_steps(pod, MEMORY, features))
    # With pod-level requests, only resources that the pod does not request have a default
    # (framework.getNonMissingContainerRequests).
    pod_level = features.pod_level_resources and _asks_at_pod_level(pod)
    missing = {name: nano for name, nano in _NON_ZERO.items() if not pod_level or name not in requests}
    non_zero = requests if _all_request(pod, missing) else pod_requests(pod, features, non_missing=missing)
    return Usage(counted, _in_units(CPU, non_zero.get(CPU, 0)), _in_units(MEMORY, non_zero.get(MEMORY, 0)))


def _non_zero_of_steps(pod: Pod, resource: str, features: Features) -> int:
    """Return the non-zero cpu or memory request before `sidecars_add_to_non_zero_requests`, in the scheduler's units.

    Mirrors framework.calculateResource (v1.31): max(sum of the containers, largest init step) + overhead. A sidecar is
    only a step, and is not added to the containers. Containers and steps that request nothing have the default.
    """

    def amount(nano: int | None) -> int:
        return _in_units(resource, _NON_ZERO[resource] if nano is None else nano)

    requests_of = _largest_requests(pod) if features.in_place_pod_vertical_scaling else _wanted
    running = sum(amount(requests_of(one).get(resource)) for one in pod.spec.containers or ())
    sidecars: int | None = None
    largest = 0
    for container in pod.spec.init_containers or ():
        own = _wanted(container).get(resource)
        step = own if sidecars is None else sidecars + (own or 0)
        if container.restart_policy == "Always":
            sidecars = step
        largest = max(largest, amount(step))
    return max(running, largest) + _in_units(resource, _parse(pod.spec.overhead).get(resource, 0))


def incoming_requests(pod: Pod, features: Features) -> dict[str, int]:
    """Return the requests of an incoming pod in the scheduler's units, never negative; its status is not read.

    Mirrors noderesources.computePodResourceRequest and framework.Resource.SetMaxResource (v1.36).
    """
    requests = pod_requests(pod, features, is_incoming=True)
    return {name: max(0, _in_units(name, nano)) for name, nano in requests.items() if _is_counted(name)}


def fit_scoring_request(pod: Pod, resource: str, features: Features) -> int:
    """Return the incoming pod's request for one resource, as NodeResourcesFit scores it, in the scheduler's units.

    Mirrors resourceAllocationScorer.calculatePodResourceRequest (v1.36), with the default cpu and memory requests.
    """
    if features.fit_score_reads_containers_only:  # upstream does not pass the feature gates to this scorer
        requests = pod_requests(pod, features, is_incoming=True, pod_level=False, non_missing=_NON_ZERO)
    else:
        requests = pod_requests(pod, features, non_missing=_NON_ZERO)
    return _in_units(resource, requests.get(resource, 0))


def balanced_scoring_request(pod: Pod, resource: str, features: Features) -> int:
    """Return the incoming pod's request as NodeResourcesBalancedAllocation scores it (calculatePodResourceRequest)."""
    return _in_units(resource, pod_requests(pod, features).get(resource, 0))


def allocatable(resources: ResourceList | None) -> dict[str, int]:
    """Return a node's allocatable amounts in the scheduler's units (framework.NewResource, v1.36)."""
    parsed = _parse(resources)
    return {name: _in_units(name, nano) for name, nano in parsed.items() if name == PODS or _is_counted(name)}


# --- names of resources ---------------------------------------------------------------------------------------------


def is_extended(name: str) -> bool:
    """Return whether a resource is extended, such as example.com/gpu (v1helper.IsExtendedResourceName, v1.36)."""
    # Longer names are not qualified names, and would fill the cache with whatever clients send.
    return len(name) <= MAX_QUALIFIED_NAME_CHARACTERS and _is_extended(name)


@lru_cache(maxsize=4096)
def _is_extended(name: str) -> bool:
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)


def is_scalar(name: str) -> bool:
    """Return whether a resource is extended, a huge page size, an attachable volume or in kubernetes.io/.

    Mirrors schedutil.IsScalarResourceName (v1.36).
    """
    return name.startswith(_SCALAR_PREFIXES) or _NATIVE in name or is_extended(name)


def _is_counted(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def _in_units(name: str, nano: int) -> int:
    return quantity.milli_value(nano) if name == CPU else quantity.value(nano)


# --- a pod's requests -----------------------------------------------------------------------------------------------


def pod_requests(
    pod: Pod,
    features: Features,
    *,
    is_incoming: bool = False,
    pod_level: bool = True,
    non_missing: Mapping[str, int] | None = None,
) -> Nano:
    """Return resource -> nano-units: max(containers + sidecars, every init step), or pod-level requests, plus overhead.

    `is_incoming`: the status is not read, so an in-place resize does not count. `pod_level`: False ignores pod-level
    requests. `non_missing`: default requests of containers by resource. Mirrors component-helpers resource.PodRequests
    (v1.37), of canonical quantities as an API server stores them.
    """
    missing = non_missing or {}
    use_status = features.in_place_pod_vertical_scaling and not is_incoming
    pod_level_status = features.in_place_pod_level_resources_vertical_scaling
    by_pod = features.resize_is_summed_by_pod
    # 1. Aggregate the containers, with their statuses if the pod may be resized in place.
    if use_status and by_pod:
        requests = _resized_requests(pod, pod_level_status, missing)
    else:
        requests = _largest_step(pod, _largest_requests(pod) if use_status else _wanted, missing)
    # 2. Pod-level requests replace the sum, resource by resource.
    if pod_level and features.pod_level_resources and _asks_at_pod_level(pod):
        requests.update(_pod_level_requests(pod, use_status and pod_level_status, by_pod))
    # 3. Add the overhead of the runtime class.
    if pod.spec.overhead:
        _add_resource_list(requests, _parse(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod, features: Features) -> Nano:
    """Return resource -> nano-units of the limits in the spec, combined as requests are, plus overhead where limited.

    Mirrors component-helpers resource.PodLimits (v1.37) without UseStatusResources.
    """
    limits = _largest_step(pod, lambda one: _parse(_limits(one.resources)), {})
    if features.pod_level_resources:
        of_pod = _parse(_limits(pod.spec.resources))
        limits.update((name, nano) for name, nano in of_pod.items() if is_pod_level(name))
    for name, nano in _parse(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += nano
    return limits


def _largest_step(pod: Pod, requests_of: Callable[[Container], Nano], non_missing: Mapping[str, int]) -> Nano:
    """Return the largest requests of any step of the pod's life (resource.AggregateContainerRequests, v1.36).

    Init containers run one after the other, each beside the sidecars (restartable init containers) listed before it;
    then the containers run beside all sidecars.
    """

    def requests(container: Container) -> Nano:
        return {**non_missing, **requests_of(container)} if non_missing else requests_of(container)

    running: Nano = {}
    for container in pod.spec.containers or ():
        _add_resource_list(running, requests(container))
    sidecars: Nano = {}
    steps: Nano = {}
    # A step only needs its own resources here: for other resources, `steps` already has the usage of its sidecars.
    for container in pod.spec.init_containers or ():
        is_sidecar = container.restart_policy == "Always"
        own = requests(container)
        step = {name: nano + sidecars.get(name, 0) for name, nano in own.items()}
        _max_resource_list(steps, step)
        if is_sidecar:
            _add_resource_list(running, own)
            sidecars.update(step)  # later steps run beside it
    _max_resource_list(running, steps)
    return running


def _container_statuses(pod: Pod, *, by_pod: bool) -> dict[str, ContainerStatus]:
    """Return name -> status. Of duplicates, init containers coming last, the last counts, since v1.37 the first."""
    listed = (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
    return {status.name: status for status in (reversed(listed) if by_pod else listed)}


def _pod_level_requests(pod: Pod, use_status: bool, by_pod: bool) -> Nano:
    """Return the pod-level requests for cpu, memory and huge pages, the only resources that have them.

    Up to v1.36 (not `by_pod`) only resources in the spec count.
    """
    held = wanted = _parse(_requests(pod.spec.resources))  # unchanged if the status has no resources
    if use_status and pod.status.resources is not None:
        infeasible = is_resize_infeasible(pod)
        held = _effective(wanted, pod.status.resources, pod.status.allocated_resources, infeasible)
    return {name: held.get(name, 0) for name in (held if by_pod else wanted) if is_pod_level(name)}


def _asks_at_pod_level(pod: Pod) -> bool:
    """Return whether the pod has pod-level requests (component-helpers resource.IsPodLevelRequestsSet, v1.36)."""
    return any(map(is_pod_level, _requests(pod.spec.resources)))


def is_pod_level(name: str) -> bool:
    """Return whether a pod may request the resource (component-helpers resource.IsSupportedPodLevelResource, v1.36)."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


# --- resizing in place ----------------------------------------------------------------------------------------------


def _effective(wanted: Nano, actuated: ResourceRequirements, allocated: ResourceList | None, infeasible: bool) -> Nano:
    """Return the maximum of desired, actuated and allocated requests; an infeasible resize is not desired.

    Mirrors resource.determineEffectiveRequests (component-helpers, v1.36).
    """
    most = {} if infeasible else dict(wanted)
    _max_resource_list(most, _parse(actuated.requests))
    _max_resource_list(most, _parse(allocated))
    return most


def _wanted(container: Container) -> Nano:
    return _parse(_requests(container.resources))


def _largest_requests(pod: Pod) -> Callable[[Container], Nano]:
    """Return a function from container to effective requests, ignoring statuses of non-sidecar init containers."""
    statuses, infeasible = _container_statuses(pod, by_pod=False), is_resize_infeasible(pod)
    for container in pod.spec.init_containers or ():
        if container.restart_policy != "Always":
            statuses.pop(container.name, None)

    def requests(container: Container) -> Nano:
        wanted, status = _wanted(container), statuses.get(container.name)
        if status is None or status.resources is None:
            return wanted
        return _effective(wanted, status.resources, status.allocated_resources, infeasible)

    return requests


def _resized_requests(pod: Pod, pod_level_status: bool, non_missing: Mapping[str, int]) -> Nano:
    """Return the maximum of the pod's desired, allocated and actuated requests, each summed over the pod.

    Mirrors resource.AggregateContainerRequests (component-helpers, v1.37): without a status, a container is allocated
    its requests, and its actuated requests are the allocated ones. An infeasible resize is not desired.
    """
    status, infeasible = pod.status, is_resize_infeasible(pod)
    most = {} if infeasible else _largest_step(pod, _wanted, non_missing)
    # The pod's own status, if it has both actuated and allocated requests, replaces its containers' statuses.
    of_pod = _actuated(status.resources) if pod_level_status else None
    if of_pod is not None and status.allocated_resources is not None:
        _max_resource_list(most, _parse(status.allocated_resources))
        _max_resource_list(most, _parse(of_pod))
        return most
    # Fast path for nearly all pods: names are unique, and no status has requests that differ from the spec.
    containers = _containers(pod)
    wanted = {one.name: _requests(one.resources) for one in containers}
    is_unchanged = len(wanted) == len(containers) and all(wanted.get(name) == held for name, held in _in_status(pod))
    if not infeasible and is_unchanged:
        return most
    statuses = _container_statuses(pod, by_pod=True)
    allocated = {name: one.allocated_resources for name, one in statuses.items() if one.allocated_resources is not None}
    actual = {name: of for name, one in statuses.items() if (of := _actuated(one.resources)) is not None}

    def held(container: Container, *lists: Mapping[str, ResourceList]) -> Nano:
        found = next((one[container.name] for one in lists if container.name in one), None)
        if found is not None:
            return _parse(found)
        return {} if infeasible else _wanted(container)

    _max_resource_list(most, _largest_step(pod, lambda one: held(one, allocated), non_missing))
    _max_resource_list(most, _largest_step(pod, lambda one: held(one, actual, allocated), non_missing))
    return most


def _all_request(pod: Pod, names: Collection[str]) -> bool:
    """Return whether all requests of containers, in spec and status, include `names`, so that no default is needed."""
    if is_resize_infeasible(pod):
        return not names  # a container without a status counts as requesting nothing
    lists = (*(_requests(one.resources) for one in _containers(pod)), *(held for _, held in _in_status(pod)))
    return all(name in one for one in lists for name in names)


def _in_status(pod: Pod) -> Iterator[tuple[str, ResourceList]]:
    """Yield (container, requests) for the allocated and actuated requests of all statuses."""
    for status in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())):
        for held in (status.allocated_resources, _actuated(status.resources)):
            if held is not None:
                yield status.name, held


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))


def _actuated(resources: ResourceRequirements | None) -> ResourceList | None:
    return None if resources is None else resources.requests


def is_resize_infeasible(pod: Pod) -> bool:
    """Return whether the node can never grant the pod's resize (resource.IsPodResizeInfeasible, v1.37)."""
    return resize_pending_reason(pod) == "Infeasible"


def is_resize_deferred(pod: Pod) -> bool:
    """Return whether the pod's resize is deferred until there is room (resource.IsPodResizeDeferred, v1.37)."""
    return resize_pending_reason(pod) == "Deferred"


def resize_requests(pod: Pod, features: Features) -> tuple[dict[str, int], dict[str, int]]:
    """Return the requests that a pod wants by its resize, and those that its node has allocated, in units."""
    wanted = pod_requests(pod, features, is_incoming=True)
    statuses = {one.name: one.allocated_resources for one in _container_statuses(pod, by_pod=True).values()}

    def held(container: Container) -> Nano:
        allocated = statuses.get(container.name)
        return _wanted(container) if allocated is None else _parse(allocated)

    allocated = _largest_step(pod, held, {})
    if features.pod_level_resources and _asks_at_pod_level(pod):
        of_pod = _pod_level_requests(pod, use_status=False, by_pod=False)
        allocated.update(of_pod if pod.status.allocated_resources is None else _parse(pod.status.allocated_resources))
    _add_resource_list(allocated, _parse(pod.spec.overhead))
    found = [
        {name: _in_units(name, nano) for name, nano in one.items() if _is_counted(name)} for one in (wanted, allocated)
    ]
    return found[0], found[1]


def resize_pending_reason(pod: Pod) -> str:
    """Return Deferred or Infeasible if the pod waits for a resize in place, or else an empty string."""
    return next((one.reason for one in pod.status.conditions or () if one.type == "PodResizePending"), "")


# --- arithmetic on resource lists -----------------------------------------------------------------------------------


def _requests(resources: ResourceRequirements | None) -> ResourceList:
    return (resources.requests if resources is not None else None) or {}


def _limits(resources: ResourceRequirements | None) -> ResourceList:
    return (resources.limits if resources is not None else None) or {}


def _parse(resources: ResourceList | None) -> Nano:
    parsed: Nano = {}
    for name, text in (resources or {}).items():
        try:
            parsed[name] = quantity.parse(text)
        except QuantityError as error:
            raise QuantityError(text, error.reason, of=name) from None
    return parsed


def _add_resource_list(total: Nano, more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _max_resource_list(total: Nano, other: Mapping[str, int]) -> None:
    """Raise every resource of `total` to at least its amount in `other`; mirrors resource.maxResourceList (v1.36)."""
    for name, nano in other.items():
        if name not in total or nano > total[name]:
            total[name] = nano
