"""LimitRanger: default requests and limits of containers, and bounds on containers, pods and volume claims.

Mirrors plugin/pkg/admission/limitranger/admission.go (v1.37). It runs before an API server fills in pod-level resources
(from v1.37 on, PodLevelResourcesFixDefaulting), so that these include the defaults of the containers.

Divergences: LimitRanges apply in the order of their names, upstream in a random one; the annotation
kubernetes.io/limit-ranger is not written; pod-level huge pages count for a LimitRange of type Pod; amounts are compared
exactly, not in thousandths.
"""

from collections.abc import Iterator, Mapping
from operator import gt, lt

from extender.admission.plugins import shared
from extender.admission.pods.resources import spelled
from extender.admission.request import Request
from extender.k8s import quantity
from extender.k8s.objects import Pod, QuantityText, ResourceList
from extender.k8s.quotas import LimitRangeItem

Amounts = Mapping[str, ResourceList]
"""`request` and, unless limits do not count, `limit` -> amounts."""


def admit(request: Request) -> None:
    """Fill in the default requests and limits of the pod's containers."""
    containers = shared.containers_of(request)
    for limit_range in shared.in_namespace(request.cluster.objects.limit_ranges, request):
        defaults: dict[str, ResourceList] = {"limits": {}, "requests": {}}
        for item in limit_range.spec.limits or ():
            if item.type == "Container":
                defaults["limits"].update(item.default or {})
                defaults["requests"].update(item.default_request or {})
        for container in containers:
            resources = container.setdefault("resources", {})
            for field, amounts in defaults.items():
                if amounts:
                    resources[field] = {**amounts, **(resources.get(field) or {})}
    requests = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    if not shared.is_given(request.cluster, "limit_ranges") and any({"cpu", "memory"} - one.keys() for one in requests):
        request.findings.assumed.append(f"LimitRanges of namespace {request.object['metadata']['namespace']}")


def validate(request: Request) -> None:
    """Refuse amounts beyond the bounds of the namespace's LimitRanges."""
    if shared.was_admitted(request):
        return
    for limit_range in shared.in_namespace(request.cluster.objects.limit_ranges, request):
        for item in limit_range.spec.limits or ():
            for of, amounts in _bounded(request, item.type):
                request.findings.forbidden += [
                    f"{violation} ({of}LimitRange {limit_range.metadata.name})"
                    for violation in _violations(item, amounts)
                ]


def _bounded(request: Request, type_name: str) -> Iterator[tuple[str, Amounts]]:
    """Yield the amounts that a LimitRange of this type applies to, each with a name for messages."""
    match request.kind, type_name:
        case "Pod", "Container":
            for container in shared.containers_of(request):
                resources = container.get("resources") or {}
                amounts = {"request": resources.get("requests") or {}, "limit": resources.get("limits") or {}}
                yield f"container {container.get('name')}, ", amounts
        case "Pod", "Pod":
            pod = shared.decoded(request)
            if isinstance(pod, Pod):
                summed = zip(
                    ("request", "limit"), shared.requests_and_limits(pod, request.cluster.features), strict=True
                )
                yield "", {of: {name: spelled(name, nano) for name, nano in one.items()} for of, one in summed}
        case "PersistentVolumeClaim", "PersistentVolumeClaim":
            yield "", {"request": (shared.spec_of(request).get("resources") or {}).get("requests") or {}}


def _violations(item: LimitRangeItem, amounts: Amounts) -> Iterator[str]:
    for word, bounds, is_beyond, sides in (
        ("minimum", item.min, lt, ("request", "limit")),
        ("maximum", item.max, gt, ("limit", "request")),
    ):
        for name, bound in (bounds or {}).items():
            usage = f"{word} {name} usage per {item.type} is {bound}"
            given = [(of, amounts[of].get(name)) for of in sides if of in amounts]
            first, text = given[0]
            if text is None:
                yield f"{usage}.  No {first} is specified"
                continue
            beyond = [
                f"{usage}, but {of} is {text}"
                for of, text in given
                if text is not None and is_beyond(quantity.parse(text), quantity.parse(bound))
            ]
            yield from beyond[:1]
    if "limit" in amounts:
        for name, ratio in (item.max_limit_request_ratio or {}).items():
            yield from _ratio_violation(item.type, name, ratio, amounts)


def _ratio_violation(of: str, name: str, ratio: QuantityText, amounts: Amounts) -> Iterator[str]:
    allowed = f"{name} max limit to request ratio per {of} is {ratio}"
    values = {}
    for side in ("request", "limit"):
        values[side] = quantity.milli_value(quantity.parse(amounts[side].get(name)))
        if not values[side]:
            yield f"{allowed}, but no {side} is specified or {side} is 0"
            return
    # Floating point as upstream's, whose errors decide, too.
    provided = values["limit"] / values["request"]
    if provided * 1000 > quantity.milli_value(quantity.parse(ratio)):
        yield f"{allowed}, but provided ratio is {provided:f}"
