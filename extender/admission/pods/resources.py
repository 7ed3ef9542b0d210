"""Amounts of resources, and requests and limits of containers and pods: defaults and validation.

Mirrors pkg/apis/core/v1/defaults.go, pkg/api/pod/util.go (DefaultPodLevelResources), pkg/apis/core/helper and
validateResourceRequirements of pkg/apis/core/validation (v1.37), and component-helpers/resource.
"""

from collections.abc import Callable
from typing import Any

from extender.admission.findings import Findings
from extender.admission.names import (
    HUGE_PAGES,
    OF_OBJECTS,
    is_native,
    pod_resource_name,
)
from extender.admission.request import Manifest
from extender.k8s import quantity
from extender.k8s.objects import ResourceList
from extender.k8s.quantity import NANO, QuantityError
from extender.k8s.requests import Nano, is_extended, is_pod_level

_MILLI = NANO // 1000
# Size of a unit and its suffix, from the largest one on.
_BINARY = [(1 << power, suffix) for suffix, power in reversed(quantity.BINARY_SUFFIXES.items())]
_DECIMAL = [(10**power, suffix) for suffix, power in reversed(quantity.DECIMAL_SUFFIXES.items()) if power > 0]

Amounts = dict[str, Any]
"""Resource -> quantity."""


def amounts_of(resources: ResourceList | None) -> Nano:
    return {name: quantity.parse(text) for name, text in (resources or {}).items()}


def spelled(name: str, nano: int) -> str:
    """Return an amount of a resource as an API server prints it: 100m, 2, 512Mi."""
    if nano % NANO:
        return f"{quantity.milli_value(nano)}m"
    whole = quantity.value(nano)
    is_binary = any(part in name for part in ("memory", "storage", "hugepages-"))
    for size, suffix in (*(_BINARY if is_binary else ()), *_DECIMAL):
        if whole and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)


# --- defaults ---------------------------------------------------------------------------------------------------------


def round_up(amounts: Amounts | None) -> None:
    """Round amounts up to thousandths (SetDefaults_ResourceList)."""
    for name, text in (amounts or {}).items():
        nano = quantity.parse(text)
        if nano % _MILLI:
            amounts[name] = f"{quantity.milli_value(nano)}m"  # type: ignore[index]


def default_container_requests(container: Manifest) -> None:
    """Make limits the requests that are not set."""
    if limits := (container.get("resources") or {}).get("limits"):
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}


def default_pod_level_resources(spec: Manifest, *, after_admission: bool) -> None:
    """Complete the resources of the pod from those of its containers, if it has any.

    `after_admission`: as since v1.37, after admission plugins, when limits are completed, too
    (PodLevelResourcesFixDefaulting).
    """
    resources = spec.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if not requests and not limits:
        return
    # 1. Huge pages, which cannot be overcommitted: a limit is a request, too.
    for name, nano in aggregate(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name not in requests and name not in limits:
            limits[name] = spelled(name, nano)
    # 2. Requests: those of the containers, else the limits.
    if limits or after_admission:
        for name, nano in aggregate(spec, "requests").items():
            if name not in requests and name in ("cpu", "memory"):
                requests[name] = spelled(name, nano)
        requests = {**{name: text for name, text in limits.items() if is_pod_level(name)}, **requests}
    # 3. Limits, of resources that every container limits.
    if after_admission:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        limited = aggregate(spec, "limits")
        for name in requests:
            if name not in limits and is_pod_level(name) and all(name in _amounts(one, "limits") for one in containers):
                limits[name] = spelled(name, max(limited.get(name, 0), quantity.parse(requests[name])))
    resources |= {key: amounts for key, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _amounts(container: Manifest, key: str) -> Amounts:
    return (container.get("resources") or {}).get(key) or {}


def aggregate(spec: Manifest, key: str) -> dict[str, int]:
    """Return resource -> nano-units of the `requests` or `limits` of all containers (AggregateContainerRequests).

    Init containers run one by one, each beside the sidecars before it; the containers run beside all sidecars.
    """
    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, text in _amounts(container, key).items():
            running[name] = running.get(name, 0) + quantity.parse(text)
    sidecars: dict[str, int] = {}
    steps: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        for name, text in _amounts(container, key).items():
            own = quantity.parse(text)
            steps[name] = max(steps.get(name, 0), sidecars.get(name, 0) + own)
            if container.get("restartPolicy") == "Always":
                sidecars[name] = sidecars.get(name, 0) + own
                running[name] = running.get(name, 0) + own
    return {name: max(running.get(name, 0), steps.get(name, 0)) for name in {**running, **steps}}


# --- validation -------------------------------------------------------------------------------------------------------


def validate_resources(
    findings: Findings, resources: Manifest, path: str, name_check: Callable[[str], str | None]
) -> None:
    """Check requests and limits (validateResourceRequirements)."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            if detail := name_check(name):
                findings.invalid_value(f"{path}.{key}[{name}]", name, detail)
            if detail := amount(name, text) or _mistake_in_pages(name, text):
                findings.invalid_value(f"{path}.{key}[{name}]", text, detail)
    for name, text in requests.items():
        may_overcommit = is_native(name) and not name.startswith(HUGE_PAGES)
        if name not in limits:
            if not may_overcommit:
                findings.required(f"{path}.limits", f"Limit must be set for non overcommitable resources ({name})")
            continue
        nano, limit = quantity.parse(text), quantity.parse(limits[name])
        if nano != limit and not may_overcommit:
            findings.invalid_value(f"{path}.requests", text, f"must be equal to {name} limit of {limits[name]}")
        elif nano > limit:
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            findings.invalid_value(f"{path}.requests", text, detail)
    names = {*limits, *requests}
    if names.isdisjoint(("cpu", "memory")) and any(name.startswith(HUGE_PAGES) for name in names):
        findings.forbid(path, "HugePages require cpu or memory")


def amount(name: str, text: Any) -> str | None:
    """Check an amount of a resource (ValidateResourceQuantityValue)."""
    nano = quantity.parse(text)
    if nano < 0:
        return "must be greater than or equal to 0"
    return "must be an integer" if nano % NANO and (name in OF_OBJECTS or is_extended(name)) else None


def _mistake_in_pages(name: str, text: Any) -> str | None:
    if name.startswith(HUGE_PAGES):
        try:
            page = quantity.parse(name.removeprefix(HUGE_PAGES))
        except QuantityError:
            page = 0
        if page < NANO or page % NANO or quantity.parse(text) % page:
            return f"{text} is not positive integer multiple of {name}"
    return None


def validate_pod_resources(findings: Findings, spec: Manifest, path: str) -> None:
    """Check the resources of the pod, and that its containers keep within them."""
    if not (resources := spec.get("resources")):
        return
    if "claims" in resources:
        findings.forbid(f"{path}.claims", "claims may not be set for Resources at pod-level")
    validate_resources(findings, resources, path, pod_resource_name)
    for key in ("requests", "limits"):
        of_pod = resources.get(key) or {}
        for name, nano in aggregate(spec, key).items():
            # The limits of containers may add up to more than the pod's, except for huge pages.
            counts = key == "requests" or name.startswith(HUGE_PAGES)
            if counts and name in of_pod and nano > quantity.parse(of_pod[name]):
                detail = f"must be greater than or equal to aggregate container {key} of {spelled(name, nano)}"
                findings.invalid_value(f"{path}.{key}[{name}]", of_pod[name], detail)
    limits = resources.get("limits") or {}
    for index, container in enumerate(spec.get("containers") or ()):
        for name, text in _amounts(container, "limits").items():
            if name in limits and quantity.parse(text) > quantity.parse(limits[name]):
                place = f"{path}.containers[{index}][{name}].limits"
                findings.invalid_value(place, text, f"must be less than or equal to pod limits of {limits[name]}")
