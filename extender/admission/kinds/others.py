"""What depends on several fields of nodes, volumes and their claims, namespaces, PriorityClasses, limits and quotas.

Mirrors defaults.go and validation.go of pkg/apis/core and pkg/apis/scheduling (v1.37).

Divergences:

- A PersistentVolume without a phase is Available, or Bound if it names a claim, as the PersistentVolume controller
  leaves it a moment later; an API server says Pending.
- A PodDisruptionBudget of a cluster file without a status keeps none: what the disruption controller would write
  depends on pods that the file may not have. Without a status a budget allows no disruption.
- Not checked, because nothing reads them: pod CIDRs, swap and configuration of nodes, parameters and mount options of
  volumes, their sources but for names of disks, data sources of claims, ports of Services, and all of a PodGroup but
  its policy; nor whether a scope of a ResourceQuota goes with its resources.
"""

from collections.abc import Iterator
from fractions import Fraction

from extender.admission.checks import above_zero
from extender.admission.names import is_native, is_of_containers, resource_name
from extender.admission.request import Manifest, Request
from extender.k8s import quantity
from extender.k8s.priority import HIGHEST_USER_DEFINABLE_PRIORITY, SYSTEM_PRIORITY_CLASSES

# --- defaults ---------------------------------------------------------------------------------------------------------


def fill_allocatable(status: Manifest) -> None:
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])  # SetDefaults_NodeStatus


def fill_name_label(namespace: Manifest) -> None:
    metadata = namespace["metadata"]
    if name := metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


def fill_limits(item: Manifest) -> None:
    """Fill in what a container gets by default: from max, the default limit, and min (SetDefaults_LimitRangeItem)."""
    if item.get("type") == "Container":
        item["default"] = (item.get("max") or {}) | (item.get("default") or {})
        item["defaultRequest"] = (item.get("min") or {}) | item["default"] | (item.get("defaultRequest") or {})


def settle_volume(volume: Manifest) -> None:
    status = volume.setdefault("status", {})
    status["phase"] = status.get("phase") or ("Bound" if volume["spec"].get("claimRef") else "Available")


# --- checks -----------------------------------------------------------------------------------------------------------


def claim_size(request: Request, path: str, value: Manifest) -> None:
    place = f"{path}.resources[storage]"
    size = ((value.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        request.findings.required(place)
    else:
        above_zero(request, place, size)


def volume(request: Request, path: str, value: Manifest) -> None:
    if "local" in value and "nodeAffinity" not in value:
        request.findings.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if "volumeAttributesClassName" in value and "csi" not in value:
        request.findings.required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def priority_class(request: Request, _: str, value: Manifest) -> None:
    name, number = value["metadata"].get("name", ""), value["value"]
    if not name.startswith("system-"):
        if number > HIGHEST_USER_DEFINABLE_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
            request.findings.forbid("value", detail)
    elif SYSTEM_PRIORITY_CLASSES.get(name) != number or value.get("globalDefault"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        request.findings.forbid("metadata.name", detail)


def scope(request: Request, path: str, value: Manifest) -> None:
    """Check the operator and the values of a requirement of a ResourceQuota's scopeSelector."""
    operator, values = value.get("operator"), value.get("values")
    if value.get("scopeName") not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        request.findings.invalid_value(f"{path}.operator", operator, "must be 'Exists' for this scope")
    if bool(values) != (operator in ("In", "NotIn")):
        request.findings.invalid_value(f"{path}.values", values, "must be given for 'In' and 'NotIn' only")


_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ASCENDING = (
    *(("min", "defaultRequest"), ("min", "default"), ("min", "max")),
    *(("defaultRequest", "default"), ("defaultRequest", "max"), ("default", "max")),
)


def limits(request: Request, path: str, value: Manifest) -> None:
    """Check an item of a LimitRange."""
    findings, kind = request.findings, value.get("type", "")
    if "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        findings.invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified")
    if kind == "PersistentVolumeClaim" and not any("storage" in (value.get(one) or ()) for one in ("min", "max")):
        findings.required(f"{path}.limits", "either minimum or maximum storage value is required")
    for field in ("default", "defaultRequest"):
        if kind == "Pod" and value.get(field):
            findings.forbid(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    for name in sorted({name for field in _LIMITS for name in value.get(field) or ()}):
        is_known = kind not in ("Pod", "Container") or "/" in name or is_of_containers(name)
        if detail := resource_name(name) or (None if is_known else "must be a standard resource for containers"):
            findings.invalid_value(path, name, detail)
        for field, detail in _mistakes(value, name):
            findings.invalid_value(f"{path}.{field}[{name}]", value[field][name], detail)


def _mistakes(item: Manifest, name: str) -> Iterator[tuple[str, str]]:
    """Yield (field, mistake) for the limits of one resource, which are compared with each other."""
    given = {field: item[field][name] for field in _LIMITS if name in (item.get(field) or ())}
    amounts = {field: quantity.parse(value) for field, value in given.items()}
    for lesser, greater in _ASCENDING:
        if lesser in amounts and greater in amounts and amounts[lesser] > amounts[greater]:
            yield lesser, f"{lesser} value {given[lesser]} is greater than {greater} value {given[greater]}"
    if "maxLimitRequestRatio" in amounts:
        ratio = Fraction(amounts["maxLimitRequestRatio"], quantity.NANO)
        if ratio < 1:
            yield "maxLimitRequestRatio", f"ratio {given['maxLimitRequestRatio']} is less than 1"
        if amounts.get("min") and "max" in amounts and ratio > Fraction(amounts["max"], amounts["min"]):
            yield "maxLimitRequestRatio", f"ratio {given['maxLimitRequestRatio']} is greater than max/min"
    given_both = {amounts[field] for field in ("default", "defaultRequest") if field in amounts}
    if len(given_both) > 1 and (not is_native(name) or name.startswith("hugepages-")):
        yield "defaultRequest", f"default value must equal to defaultRequest value in {name}"
