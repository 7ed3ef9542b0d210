"""What a pod asks for, and what a node has to give.

Amounts of containers, init containers, overhead and pod-level resources are put together in exact nano-units
(`pod_requests`); only what leaves this module is in the scheduler's units: millicores for cpu, bytes for memory and
ephemeral-storage, whole units for everything else.

Rule: sums are exact and rounded up once, at the end. Every function may raise QuantityError; it names the resource.
A resource that is absent from a result is asked for, or there, zero times.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from extender.k8s import quantity
from extender.k8s.objects import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from extender.k8s.quantity import NANO, QuantityError
from extender.k8s.selectors import is_qualified_name

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

Nano = dict[str, int]
"""Resource -> nano-units."""

DEFAULT_CPU: Final = 100
"""Millicores that a container without a cpu request counts for in scores (schedutil.DefaultMilliCPURequest, v1.36)."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes, likewise (schedutil.DefaultMemoryRequest, v1.36)."""

_NON_ZERO: Final[Mapping[str, int]] = {CPU: DEFAULT_CPU * NANO // 1000, MEMORY: DEFAULT_MEMORY * NANO}
_BINARY_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+[KMGTPE]i")
_NATIVE = "kubernetes.io/"
_HUGE_PAGES = "hugepages-"
_QUOTA_PREFIX = "requests."
_SCALAR_PREFIXES = (_HUGE_PAGES, "attachable-volumes-")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a running pod takes from its node, in the scheduler's units."""

    requests: dict[str, int]
    """Resource -> amount; what the scheduler does not count is left out."""
    non_zero_cpu: int
    """Millicores, a container that names none counting for DEFAULT_CPU: what scores see."""
    non_zero_memory: int
    """Bytes, likewise with DEFAULT_MEMORY."""


def running_usage(pod: Pod) -> Usage:
    """What a pod on a node takes, resizes in progress included.

    Mirrors framework.PodInfo.CalculateResource (kube-scheduler, v1.36, default gates).
    """
    requests = pod_requests(pod, use_status=True)
    non_zero = requests
    missing = _non_missing(requests, pod_level=_asks_at_pod_level(pod))
    if missing:
        non_zero = pod_requests(pod, use_status=True, non_missing=missing)
    counted = {name: _in_units(name, nano) for name, nano in requests.items() if _is_counted(name)}
    return Usage(counted, _in_units(CPU, non_zero.get(CPU, 0)), _in_units(MEMORY, non_zero.get(MEMORY, 0)))


def incoming_requests(pod: Pod) -> dict[str, int]:
    """What a pod needs on the node that it gets, in the scheduler's units; never negative. Status plays no part.

    Mirrors noderesources.computePodResourceRequest and framework.Resource.SetMaxResource (v1.36).
    """
    requests = pod_requests(pod, use_status=False)
    return {name: max(0, _in_units(name, nano)) for name, nano in requests.items() if _is_counted(name)}


def scoring_request(
    pod: Pod, resource: str, *, non_zero: bool, pod_level: bool, use_status: bool = False, calls_before: int = 0
) -> int:
    """What a score takes the incoming pod to ask of one resource, in the scheduler's units.

    `calls_before`: how often upstream has summed this pod's requests earlier in the cycle; see `leaked_overhead`.
    `non_zero`: containers that name no cpu or memory count for DEFAULT_CPU and DEFAULT_MEMORY.
    Mirrors resourceAllocationScorer.calculatePodResourceRequest (v1.36). NodeResourcesFit scores with non_zero,
    but neither pod_level nor use_status, which upstream never hands to its scorer; BalancedAllocation scores
    without non_zero and with both others.
    """
    non_missing = _NON_ZERO if non_zero else None
    requests = pod_requests(pod, use_status=use_status, pod_level=pod_level, non_missing=non_missing)
    leaked = calls_before * leaked_overhead(pod, resource) if pod_level else 0
    return _in_units(resource, requests.get(resource, 0) + leaked)


def leaked_overhead(pod: Pod, resource: str) -> int:
    """Nano-units by which upstream raises the pod's own request each time that it sums the pod's requests.

    Quirk: component-helpers resource.PodRequests (v1.36) adds the overhead to the pod-level request in place if Go
    holds that as a big decimal, which it does for a fraction of a binary unit ("1.5Gi"). An API server writes such
    amounts in whole units, so that this shows on objects from files only.
    """
    wanted = (pod.spec.resources.requests if pod.spec.resources else None) or {}
    if not _is_pod_level(resource) or not _BINARY_FRACTION.fullmatch(str(wanted.get(resource, ""))):
        return 0
    return _parse(pod.spec.overhead).get(resource, 0)


def allocatable(resources: ResourceList | None) -> dict[str, int]:
    """What a node can give, from its status.allocatable, in the scheduler's units; `pods` is a number of pods.

    Mirrors framework.NewResource (v1.36).
    """
    parsed = _parse(resources)
    return {name: _in_units(name, nano) for name, nano in parsed.items() if name == PODS or _is_counted(name)}


# --- names of resources ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Is it a resource of somebody else's domain, such as example.com/gpu?

    Mirrors v1helper.IsExtendedResourceName (v1.36).
    """
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)


@lru_cache(maxsize=1024)
def is_scalar(name: str) -> bool:
    """Does the scheduler count it, beside cpu, memory and ephemeral-storage?

    Extended resources, huge pages, attachable volumes and anything in kubernetes.io/.
    Mirrors schedutil.IsScalarResourceName (v1.36).
    """
    return name.startswith(_SCALAR_PREFIXES) or _NATIVE in name or is_extended(name)


def _is_counted(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name)


def _in_units(name: str, nano: int) -> int:
    return quantity.milli_value(nano) if name == CPU else quantity.value(nano)


# --- a pod's requests -----------------------------------------------------------------------------------------------


def pod_requests(
    pod: Pod, *, use_status: bool, pod_level: bool = True, non_missing: Mapping[str, int] | None = None
) -> Nano:
    """Resource -> nano-units: max(containers + sidecars, every init step), pod-level over that, and overhead.

    `use_status`: a pod that is being resized counts with what it holds, too. `pod_level`: requests of the pod as a
    whole replace the containers' sum. `non_missing`: what a container counts for that does not name a resource.
    Mirrors component-helpers resource.PodRequests (v1.36), called for the first time; see `leaked_overhead`.
    """
    requests = _containers_requests(pod, use_status, non_missing or {})
    if pod_level and _asks_at_pod_level(pod):
        requests.update(_pod_level_requests(pod, use_status))
    if pod.spec.overhead:
        _add(requests, _parse(pod.spec.overhead))
    return requests


def _containers_requests(pod: Pod, use_status: bool, non_missing: Mapping[str, int]) -> Nano:
    """Mirrors resource.AggregateContainerRequests (v1.36).

    Init containers run one after the other, each beside the sidecars (restartable init containers) listed before
    it; the containers run beside all sidecars. The largest of these steps counts.
    """
    statuses = _statuses(pod) if use_status else {}
    infeasible = is_resize_infeasible(pod) if statuses else False
    running: Nano = {}
    for container in pod.spec.containers or ():
        _add(running, _container_requests(container, statuses, infeasible, non_missing))
    sidecars: Nano = {}
    steps: Nano = {}
    for container in pod.spec.init_containers or ():
        if container.restart_policy == "Always":
            own = _container_requests(container, statuses, infeasible, non_missing)
            _add(running, own)
            _add(sidecars, own)
            _raise_to(steps, sidecars)
        else:
            step = _container_requests(container, {}, infeasible, non_missing)
            _add(step, sidecars)
            _raise_to(steps, step)
    _raise_to(running, steps)
    return running


def _container_requests(
    container: Container, statuses: Mapping[str, ContainerStatus], infeasible: bool, non_missing: Mapping[str, int]
) -> Nano:
    requests = _parse(container.resources.requests if container.resources else None)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        requests = _effective(requests, status.resources, status.allocated_resources, infeasible)
    for name, nano in non_missing.items():
        requests.setdefault(name, nano)
    return requests


def _pod_level_requests(pod: Pod, use_status: bool) -> Nano:
    """The pod's own requests for cpu, memory and huge pages; other resources cannot be asked for there."""
    wanted = _parse(pod.spec.resources.requests if pod.spec.resources else None)
    held = wanted
    if use_status and pod.status.resources is not None:
        infeasible = is_resize_infeasible(pod)
        held = _effective(wanted, pod.status.resources, pod.status.allocated_resources, infeasible)
    return {name: held.get(name, 0) for name in wanted if _is_pod_level(name)}


def _asks_at_pod_level(pod: Pod) -> bool:
    """Mirrors resource.IsPodLevelRequestsSet (component-helpers, v1.36)."""
    requests = pod.spec.resources.requests if pod.spec.resources else None
    return any(map(_is_pod_level, requests or ()))


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


def _non_missing(requests: Nano, *, pod_level: bool) -> dict[str, int]:
    """Mirrors framework.getNonMissingContainerRequests (v1.36): with pod-level requests, only what nobody names."""
    if not pod_level:
        return dict(_NON_ZERO)
    return {name: nano for name, nano in _NON_ZERO.items() if name not in requests}


# --- resizing in place ----------------------------------------------------------------------------------------------


def _effective(wanted: Nano, actuated: ResourceRequirements, allocated: ResourceList | None, infeasible: bool) -> Nano:
    """The most of what is wanted, in force and allocated; a resize that cannot happen is not wanted.

    Mirrors resource.determineEffectiveRequests (component-helpers, v1.36).
    """
    most = {} if infeasible else dict(wanted)
    _raise_to(most, _parse(actuated.requests))
    _raise_to(most, _parse(allocated))
    return most


def is_resize_infeasible(pod: Pod) -> bool:
    """Only the first PodResizePending condition is read. Mirrors resource.IsPodResizeInfeasible (v1.36)."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """By container name; an init container's status covers a container's of the same name, as upstream."""
    return {
        status.name: status
        for statuses in (pod.status.container_statuses, pod.status.init_container_statuses)
        for status in statuses or ()
    }


# --- arithmetic on resource lists -----------------------------------------------------------------------------------


def _parse(resources: ResourceList | None) -> Nano:
    parsed: Nano = {}
    for name, text in (resources or {}).items():
        try:
            parsed[name] = quantity.parse(text)
        except QuantityError as error:
            raise QuantityError(text, error.reason, of=name) from None
    return parsed


def _add(total: Nano, more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(total: Nano, other: Mapping[str, int]) -> None:
    """Every resource of `other` at least as large in `total`. An amount below zero counts if nothing is there yet."""
    for name, nano in other.items():
        if name not in total or nano > total[name]:
            total[name] = nano
