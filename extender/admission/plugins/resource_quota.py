"""ResourceQuota: refuse what would exceed the quotas of its namespace.

Mirrors apiserver admission/plugin/resourcequota/controller.go (CheckRequest) and kubernetes pkg/quota/v1/evaluator/core
(v1.37). All exceeded quotas are reported, upstream reports a random one.

An API server compares with status.used, which its quota controller counts. Here the usage is the larger one of
status.used and of what the objects in the cluster come to, so that a quota needs no status, and pods of the same run
count. Objects of kinds that are not read count by status.used only.

Further divergences: a counted pod falls under scope NotTerminating, because decisions read no activeDeadlineSeconds; a
pod whose grace period has expired counts until it is gone, and a resize in progress as the limits that are asked for;
devices of ResourceClaims and ports of Services do not count.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from extender.admission.plugins import shared
from extender.admission.pods.resources import amounts_of, spelled
from extender.admission.request import Request
from extender.k8s import quantity
from extender.k8s.affinity import raw_terms
from extender.k8s.kinds import KINDS, Key, plural_of
from extender.k8s.objects import Object, Pod
from extender.k8s.quantity import NANO
from extender.k8s.quotas import ResourceQuota, ScopedResourceSelectorRequirement
from extender.k8s.requests import CPU, EPHEMERAL_STORAGE, MEMORY, Nano, is_pod_level, pod_limits, pod_requests
from extender.k8s.selectors import Requirement
from extender.k8s.storage.objects import PersistentVolumeClaim
from extender.k8s.storage.volumes import claim_class
from extender.k8s.version.features import Features

COUNTED_KINDS = (
    *("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
    *("PodDisruptionBudget", "ResourceClaim", "ResourceClaimTemplate", "Service"),
)
"""Kinds beside Pod and PersistentVolumeClaim whose objects a quota may count."""


@dataclass(slots=True)
class _Count:
    """Usage of the first `length` objects of a table, so that later requests count only what was added since."""

    used: Nano = field(default_factory=dict)
    length: int = 0
    last: Key | None = None
    usages: dict[Key, tuple[Object, Nano]] = field(default_factory=dict)
    """The objects under the quota, each with its usage, which is costly to sum up for a pod."""


def validate(request: Request) -> None:
    """Refuse an object that a quota of its namespace has no room for."""
    if shared.was_admitted(request):
        return
    if "resource_quotas" in request.cluster.unreadable:
        request.findings.assumed.append(f"ResourceQuotas of namespace {request.object['metadata']['namespace']}")
    quotas = shared.in_namespace(request.cluster.objects.resource_quotas, request)
    one = shared.decoded(request) if quotas else None
    if one is None and request.kind in KINDS:
        return
    has_deadline = request.kind == "Pod" and shared.spec_of(request).get("activeDeadlineSeconds") is not None
    for quota in quotas:
        # What a quota's controller has counted includes an object that exists.
        is_counted = request.is_state and bool(quota.status.used)
        if not is_counted and _is_scoped(quota, one, request.cluster.features, has_deadline):
            _check(request, quota, one)


def _check(request: Request, quota: ResourceQuota, one: Object | None) -> None:
    name, hard = quota.metadata.name, amounts_of(quota.status.hard or quota.spec.hard)
    if request.kind == "Pod" and (lacking := _missing(request, hard)):
        request.findings.forbidden.append(f"failed quota: {name}: must specify {lacking}")
        return
    usage = _usage(request.kind, one, request.object.get("apiVersion") or "", request.cluster.features)
    requested = {of: nano for of, nano in usage.items() if nano and of in hard}
    if not requested:
        return
    stored = amounts_of(quota.status.used)
    counted, replaced = _counted(request, quota), _replaced(request, quota)
    used = {of: max(stored.get(of, 0), counted.get(of, 0)) - replaced.get(of, 0) for of in requested}
    exceeded = sorted(of for of, nano in requested.items() if used[of] + nano > hard[of])
    if exceeded:
        texts = (",".join(f"{of}={spelled(of, amounts[of])}" for of in exceeded) for amounts in (requested, used, hard))
        message = "exceeded quota: {}, requested: {}, used: {}, limited: {}"
        request.findings.forbidden.append(message.format(name, *texts))


def _missing(request: Request, limited: Iterable[str]) -> str:
    """Return what containers must specify because a quota limits it: `limits.cpu for: main,proxy`.

    Only cpu and memory, and nothing of a pod with resources of its own.
    """
    own = shared.spec_of(request).get("resources") or {}
    listed = {*(own.get("requests") or ()), *(own.get("limits") or ())}
    if request.cluster.features.pod_level_resources and any(map(is_pod_level, listed)):
        return ""
    lacking = []
    for name in sorted(limited):
        where, _, resource = name.rpartition(".")
        if where in ("", "requests", "limits") and resource in (CPU, MEMORY):
            resources = ((one.get("name"), one.get("resources") or {}) for one in shared.containers_of(request))
            without = [str(of) for of, one in resources if resource not in (one.get(where or "requests") or ())]
            lacking += [f"{name} for: {','.join(sorted(without))}"] if without else []
    return "; ".join(lacking)


def _counted(request: Request, quota: ResourceQuota) -> Nano:
    """Return the usage of all objects of the request's kind under the quota."""
    kind, cluster, namespace = request.kind, request.cluster, quota.metadata.namespace
    if kind not in KINDS:
        return {}
    table, memo = cluster.objects.of(kind), (namespace, quota.metadata.name, kind)
    count: _Count = cluster.quota_usage.setdefault(memo, _Count())
    added = len(table) - count.length
    # Tables grow at their end. If the object counted last is not where it was, something was deleted: count again.
    if added < 0 or next(islice(reversed(table), added, None), None) != count.last:
        count = cluster.quota_usage[memo] = _Count(usages=count.usages)
        added = len(table)
    for key in islice(reversed(table), added):
        one = table[key]
        if key[0] != namespace or not _is_scoped(quota, one, cluster.features):
            continue
        known = count.usages.get(key)
        if known is None or known[0] is not one:
            usage = _usage(kind, one, KINDS[kind].api_version, cluster.features)
            known = count.usages[key] = (one, usage)
        for name, nano in known[1].items():
            count.used[name] = count.used.get(name, 0) + nano
    count.length, count.last = len(table), next(reversed(table), None)
    return count.used


def _replaced(request: Request, quota: ResourceQuota) -> Nano:
    """Return the usage of an object of the same name, which an API server would not have let in beside this one."""
    kind, cluster = request.kind, request.cluster
    key = (request.object["metadata"]["namespace"], request.object["metadata"].get("name", ""))
    one = cluster.objects.of(kind).get(key) if kind in KINDS else None
    if one is None or not _is_scoped(quota, one, cluster.features):
        return {}
    return _usage(kind, one, KINDS[kind].api_version, cluster.features)


def _usage(kind: str, one: Object | None, api_version: str, features: Features) -> Nano:
    """Return resource -> nano-units that an object uses; `one`: the object if its kind is read."""
    plural, group = plural_of(kind), api_version.rpartition("/")[0]
    used = {f"count/{plural}.{group}" if group else f"count/{plural}": NANO}
    if isinstance(one, Pod) and one.status.phase in ("Succeeded", "Failed"):
        return used
    used[plural] = NANO
    if isinstance(one, Pod):
        for name, nano in pod_requests(one, features).items():
            used[f"requests.{name}"] = nano
            if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
                used[name] = nano
        used.update((f"limits.{name}", nano) for name, nano in pod_limits(one, features).items())
    elif isinstance(one, PersistentVolumeClaim):
        asked = (one.spec.resources.requests if one.spec.resources is not None else None) or {}
        used["requests.storage"] = quantity.value(quantity.parse(asked.get("storage"))) * NANO
        of_class = f"{claim_class(one)}.storageclass.storage.k8s.io/"
        used.update([(of_class + name, used[name]) for name in (plural, "requests.storage")])
    return used


def _is_scoped(quota: ResourceQuota, one: Object | None, features: Features, has_deadline: bool = False) -> bool:
    """Return whether all scopes of the quota select the object; `has_deadline`: of a pod."""
    selector = quota.spec.scope_selector
    scopes = [ScopedResourceSelectorRequirement(name, "Exists") for name in quota.spec.scopes or ()]
    scopes += (selector.match_expressions if selector is not None else None) or ()
    return all(_matches(scope, one, features, has_deadline) for scope in scopes)


def _matches(
    scope: ScopedResourceSelectorRequirement, one: Object | None, features: Features, has_deadline: bool
) -> bool:
    name: str | None
    match one, scope.scope_name:
        case Pod(), "Terminating" | "NotTerminating":
            return has_deadline == (scope.scope_name == "Terminating")
        case Pod(), "BestEffort" | "NotBestEffort":
            lists = shared.requests_and_limits(one, features)
            is_best_effort = not any(amounts.get(of) for amounts in lists for of in (CPU, MEMORY))
            return is_best_effort == (scope.scope_name == "BestEffort")
        case Pod(), "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespace_selector is not None for term in raw_terms(one.spec.affinity))
        case Pod(), "PriorityClass":
            name = one.spec.priority_class_name
        case PersistentVolumeClaim(), "VolumeAttributesClass":
            name = one.spec.volume_attributes_class_name
        case _:
            return False
    return Requirement("", scope.operator, frozenset(scope.values or ())).holds(name or None)
