"""What depends on several fields of claims and devices of resource.k8s.io, and CEL expressions.

Mirrors pkg/apis/resource/v1/defaults.go, pkg/apis/resource/validation/validation.go and pkg/registry/resource (v1.37).

Divergences:

- Opaque configuration and what only alpha gates read (derived attributes, partition types, operations that a node
  skips, resources of the node that a device counts towards) are not checked.
- The estimated cost of a CEL expression is not limited. An expression with a feature that is not evaluated passes; the
  verdict on a pod names that feature. Expressions compile as stored ones do; an API server compiles a new one without
  functions of its newest minor.
- Lists of values and the effect None are accepted in every minor; a range without a minimum begins at 0.
- A namespace that is not given has no label that allows admin access; for a claim of a cluster file it is assumed.
"""

from functools import lru_cache
from typing import Any, Final

from extender.admission.checks import at_most, at_most_one
from extender.admission.request import Manifest, Request
from extender.k8s import quantity
from extender.k8s.devices.selector import compile_selector

MAX_EXPRESSION_BYTES: Final = 10 << 10
"""Length of a CEL expression (resource.k8s.io CELSelectorExpressionMaxLength)."""

_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_MAX_DEVICES, _MAX_DEVICES_WITH_MORE = "128", "64"  # of a slice, with taints or counters half as many
_MAX_ATTRIBUTES = 32
_COUNTERS_APART_SINCE = 35

# --- claims -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _compile_error(expression: str, of_1_37: bool) -> str:
    return compile_selector(expression, of_1_37=of_1_37).error


def expression(request: Request, path: str, value: Any) -> None:
    """Compile a CEL expression as kube-scheduler does."""
    if len((value or "").encode()) > MAX_EXPRESSION_BYTES:
        request.findings.invalid.append(f"{path}: Too long: may not be more than {MAX_EXPRESSION_BYTES} bytes")
    elif error := _compile_error(value or "", request.cluster.features.selectors_of_1_37):
        request.findings.invalid_value(path, value, error)


def fill_count(value: Manifest) -> None:
    if value["allocationMode"] == "ExactCount":
        value["count"] = value.get("count") or 1  # SetDefaults_ExactDeviceRequest


def device_count(request: Request, path: str, value: Manifest) -> None:
    mode, count = value.get("allocationMode"), value.get("count", 0)
    if mode == "All" and count:
        request.findings.invalid_value(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        request.findings.invalid_value(f"{path}.count", count, "must be greater than zero")


def device_toleration(request: Request, path: str, value: Manifest) -> None:
    if value.get("operator") == "Exists" and value.get("value"):
        request.findings.invalid_value(f"{path}.value", value["value"], "must be empty for operator `Exists`")


def device_claim(request: Request, path: str, value: Manifest) -> None:
    """Check that constraints and configuration name requests, and who may have admin access."""
    names = set()
    for index, one in enumerate(value.get("requests") or ()):
        name = one.get("name", "")
        names |= {name, *(f"{name}/{sub.get('name', '')}" for sub in one.get("firstAvailable") or ())}
        if (one.get("exactly") or {}).get("adminAccess"):
            _check_admin_access(request, f"{path}.requests[{index}].adminAccess")
    detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    for field in ("constraints", "config"):
        for index, one in enumerate(value.get(field) or ()):
            for number, name in enumerate(one.get("requests") or ()):
                if name not in names:
                    request.findings.invalid_value(f"{path}.{field}[{index}].requests[{number}]", name, detail)


def _check_admin_access(request: Request, path: str) -> None:
    """Refuse admin access in a namespace without the label that allows it (AuthorizedForAdmin)."""
    cluster, name = request.cluster, request.object["metadata"].get("namespace", "default")
    namespace = cluster.objects.namespaces.get(("", name))
    if namespace is None and (request.is_state or "namespaces" in cluster.unreadable):
        request.findings.assumed.append(f"label {_ADMIN_ACCESS} of namespace {name}")
    elif namespace is None or (namespace.metadata.labels or {}).get(_ADMIN_ACCESS) != "true":
        detail = f"admin access to devices requires the `{_ADMIN_ACCESS}: true` label on the containing namespace"
        request.findings.forbid(path, detail)


# --- slices -----------------------------------------------------------------------------------------------------------


def resource_slice(request: Request, path: str, value: Manifest) -> None:
    findings, found = request.findings, value.get("devices") or ()
    has_more = any(one.get("taints") or one.get("consumesCounters") for one in found)
    at_most(request, f"{path}.devices", found, _MAX_DEVICES_WITH_MORE if has_more else _MAX_DEVICES)
    if request.cluster.minor >= _COUNTERS_APART_SINCE:
        at_most_one(request, path, value, "sharedCounters", "devices")
    if len((value.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()) > 1:
        findings.invalid_value(
            f"{path}.nodeSelector", value["nodeSelector"], "must have exactly one node selector term"
        )
    for index, one in enumerate(found):
        number = sum(one.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes"))
        if number != bool(value.get("perDeviceNodeSelection")):
            detail = "one of `nodeName`, `nodeSelector` and `allNodes` if `perDeviceNodeSelection` is set, else none"
            findings.invalid_value(f"{path}.devices[{index}]", None, detail)


def device(request: Request, path: str, value: Manifest) -> None:
    """Check what fields of a device have to do with each other."""
    findings, capacity = request.findings, value.get("capacity") or {}
    if len(value.get("attributes") or ()) + len(capacity) > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        findings.invalid_value(path, None, detail)
    ready, failed = value.get("bindingConditions") or (), value.get("bindingFailureConditions") or ()
    if bool(ready) != bool(failed) or {*ready} & {*failed}:
        detail = "bindingConditions and bindingFailureConditions need each other, and must not overlap"
        findings.invalid_value(f"{path}.bindingConditions", ready, detail)
    for name, one in capacity.items():
        place = f"{path}.capacity[{name}].requestPolicy"
        if (policy := one.get("requestPolicy")) and not value.get("allowMultipleAllocations"):
            findings.forbid(place, "allowMultipleAllocations must be true")
        elif policy:
            _check_policy(request, policy, one.get("value"), place)


def _check_policy(request: Request, policy: Manifest, value: Any, path: str) -> None:
    """Check what may be requested of a shared device's capacity (validateRequestPolicy)."""

    def amount(text: Any) -> int:
        nano = quantity.parse(text)
        return nano if request.cluster.features.dra_fractional_capacity_range else quantity.value(nano)

    findings, bounds, capacity = request.findings, policy.get("validRange") or {}, amount(value)
    options = [amount(one) for one in policy.get("validValues") or ()]
    if "default" not in policy:
        if options or bounds:
            findings.required(f"{path}.default", "required when validValues or validRange is defined")
        return
    default = amount(policy["default"])
    if options and (options != sorted({*options}) or options[-1] > capacity):
        findings.invalid_value(f"{path}.validValues", policy["validValues"], "must ascend, up to the capacity")
    if options and default not in options:
        findings.invalid_value(f"{path}.default", policy["default"], "is not valid according to the requestPolicy")
    if not bounds:
        return
    least, step = amount(bounds.get("min")), amount(bounds.get("step"))
    most = amount(bounds.get("max", value))
    steps = (least, default, most) if "max" in bounds else (least, default)
    if not least <= default <= most <= capacity:
        findings.invalid_value(f"{path}.validRange", bounds, "min, default, max and capacity must ascend")
    elif step > 0 and (least + step > capacity or any((one - least) % step for one in steps)):
        findings.invalid_value(
            f"{path}.validRange.step", bounds["step"], "default and max must be whole steps from min"
        )
