"""How much a pod asks for, and how much a node has.

Rule: quantities are added exactly, in whole nano-units, and rounded up once per pod (`PodRequests` in
k8s.io/component-helpers/resource, `Resource` in pkg/scheduler/framework/types.go, v1.36).
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from tests.parity.reference.objects import JSON, always_restarts, containers, init_containers, status

Nano = dict[str, int]
"""Exact amounts, in 10**-9 of a unit."""
Amounts = dict[str, int]
"""Rounded up: cpu in millicores, everything else in units."""

DEFAULTS: Nano = {"cpu": 100 * 10**6, "memory": 200 * 2**20 * 10**9}
"""What a container without a request counts as when nodes are scored."""

_QUANTITY = re.compile(r"([+-]?\d*\.?\d*)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d+))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LARGEST = (2**63 - 1) * 10**9
_QUALIFIED = re.compile(r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@cache
def parse(text: Any) -> int:
    """A quantity in nano-units; what is finer is rounded up, as upstream does when it reads one."""
    found = _QUANTITY.fullmatch(str(text))
    if not found:
        raise ValueError(f"not a quantity: {text!r}")
    number, suffix, exponent = found.groups()
    if suffix in _BINARY:
        scale = Fraction(2 ** _BINARY[suffix])
    else:
        scale = Fraction(10) ** (int(exponent) if exponent else _DECIMAL.get(suffix, 0))
    return min(_LARGEST, -(-(Fraction(number) * scale * 10**9) // 1))


def parse_all(quantities: Mapping[str, Any] | None) -> Nano:
    return {name: parse(text) for name, text in (quantities or {}).items()}


def amounts(exact: Nano) -> Amounts:
    """Rounded up, without what the scheduler does not know."""
    return {
        name: -(-value // (10**6 if name == "cpu" else 10**9))
        for name, value in exact.items()
        if name in ("cpu", "memory", "ephemeral-storage", "pods") or is_scalar(name)
    }


@cache
def is_scalar(name: str) -> bool:
    """`IsScalarResourceName`: extended resources, huge pages, prefixed native and attachable-volume ones."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    prefix, slash, rest = name.partition("/")
    return bool(slash and prefix and not name.startswith("requests.") and _QUALIFIED.fullmatch(rest))


def pod_requests(pod: JSON, *, resized: bool, pod_level: bool = True, missing: Nano | None = None) -> Nano:
    """What the whole pod asks for, overhead included.

    `resized`: count what the pod's status says it holds (a running pod); `missing`: what a container counts as that
    does not mention a resource.
    """
    total = _container_requests(pod, resized=resized, missing=missing or {})
    if pod_level and has_pod_level_requests(pod):
        spec = pod["spec"]["resources"]["requests"]
        effective = parse_all(spec)
        if resized and status(pod).get("resources") is not None:
            held = status(pod)
            effective = _effective(pod, spec, held["resources"].get("requests"), held.get("allocatedResources"))
        total |= {name: effective.get(name, 0) for name in spec if _may_be_pod_level(name)}
    _add(total, parse_all(pod["spec"].get("overhead")))
    return total


def nonzero_requests(pod: JSON, exact: Nano) -> Amounts:
    """Cpu and memory of a running pod where every container counts for something (`NonZeroRequested`).

    `exact`: its requests.
    """
    missing = DEFAULTS
    if has_pod_level_requests(pod):
        missing = {name: value for name, value in DEFAULTS.items() if name not in exact}
    counted = amounts(pod_requests(pod, resized=True, missing=missing))
    return {name: counted.get(name, 0) for name in DEFAULTS}


def has_pod_level_requests(pod: JSON) -> bool:
    return any(map(_may_be_pod_level, (pod["spec"].get("resources") or {}).get("requests") or ()))


def _container_requests(pod: JSON, *, resized: bool, missing: Nano) -> Nano:
    """max(containers + sidecars, each init container + the sidecars started before it)."""
    held: dict[str, JSON] = {}
    if resized:
        for kind in ("containerStatuses", "initContainerStatuses"):
            held |= {entry["name"]: entry for entry in status(pod).get(kind) or ()}

    def of(container: JSON, entry: JSON | None) -> Nano:
        spec = (container.get("resources") or {}).get("requests")
        exact = parse_all(spec)
        if entry is not None and entry.get("resources") is not None:
            exact = _effective(pod, spec, entry["resources"].get("requests"), entry.get("allocatedResources"))
        return missing | exact

    total: Nano = {}
    for container in containers(pod):
        _add(total, of(container, held.get(container["name"])))
    sidecars: Nano = {}
    peak: Nano = {}
    for container in init_containers(pod):
        if always_restarts(container):
            request = of(container, held.get(container["name"]))
            _add(total, request)
            _add(sidecars, request)
            peak = _max(peak, sidecars)
        else:
            step = of(container, None)
            _add(step, sidecars)
            peak = _max(peak, step)
    return _max(total, peak)


def _effective(pod: JSON, spec: JSON | None, actual: JSON | None, allocated: JSON | None) -> Nano:
    """In-place resize: what is asked for, held and granted; the first only while the resize is feasible."""
    pending = [one for one in status(pod).get("conditions") or () if one["type"] == "PodResizePending"]
    infeasible = bool(pending) and pending[0].get("reason") == "Infeasible"
    return _max(*map(parse_all, (actual, allocated) if infeasible else (spec, actual, allocated)))


def _may_be_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _add(total: Nano, more: Nano) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _max(*lists: Nano) -> Nano:
    names: Iterable[str] = dict.fromkeys(name for entry in lists for name in entry)
    return {name: max(entry[name] for entry in lists if name in entry) for name in names}
