"""What the strategy of a create request changes in a pod: its status, disabled fields, selectors, pod-level resources.

Mirrors podStrategy.PrepareForCreate (pkg/registry/core/pod/strategy.go) and DropDisabledPodFields
(pkg/api/pod/util.go), v1.37.

Divergences:

- Gates that kube-scheduler does not read have their default of the minor.
- `schedulingGroup` is dropped only if the cluster has no PodGroups: the gate GenericWorkload is off by default, and an
  API server with PodGroups has it on.
- A pod of a cluster file, which may have been admitted before, gets no requirement of a selector twice.
"""

from collections.abc import Iterator, Mapping

from extender.admission.pods.defaults import POD_LEVEL_AFTER_ADMISSION
from extender.admission.pods.resources import default_pod_level_resources
from extender.admission.request import Manifest, Request

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_AFFINITY_KEYS_SINCE = 31  # MatchLabelKeysInPodAffinity
_SPREAD_KEYS_SINCE = 34  # MatchLabelKeysInPodTopologySpreadSelectorMerge
_IMAGE_VOLUMES_SINCE = 35  # ImageVolume
_RESTART_RULES_SINCE = 35  # ContainerRestartRules; 1.34 drops the fields, an older minor refuses them
_HOST_NAMES_SINCE = 35  # HostnameOverride


def prepare_pod(request: Request) -> None:
    """Change a pod as an API server does between admission plugins and validation."""
    pod, spec = request.object, request.object["spec"]
    features, minor = request.cluster.features, request.cluster.minor
    status = pod["status"] = (
        {"phase": "Pending", **(pod.get("status") or {})} if request.is_state else {"phase": "Pending"}
    )
    conditions = _list(status, "conditions")
    if spec.get("schedulingGates") and not any(one.get("type") == "PodScheduled" for one in conditions):
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        status["conditions"] = [*conditions, gated]
    drop_disabled_fields(spec, request)
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if minor >= _AFFINITY_KEYS_SINCE:
        for term in affinity_terms(spec):
            _merge_keys(request, term, "matchLabelKeys", "In", labels)
            _merge_keys(request, term, "mismatchLabelKeys", "NotIn", labels)
    if merges_spread_keys(request):
        for constraint in _list(spec, "topologySpreadConstraints"):
            _merge_keys(request, constraint, "matchLabelKeys", "In", labels)
    if features.pod_level_resources and minor >= POD_LEVEL_AFTER_ADMISSION:
        default_pod_level_resources(spec, after_admission=True)


def merges_spread_keys(request: Request) -> bool:
    """Return whether matchLabelKeys of spread constraints become requirements of their selectors."""
    cluster = request.cluster
    return cluster.features.match_label_keys_in_pod_topology_spread and cluster.minor >= _SPREAD_KEYS_SINCE


def affinity_terms(spec: Manifest) -> Iterator[Manifest]:
    """Yield all terms of pod affinity and anti-affinity."""
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from _list(affinity, _REQUIRED)
        yield from (one.get("podAffinityTerm") or {} for one in _list(affinity, _PREFERRED))


def _merge_keys(request: Request, term: Manifest, key: str, operator: str, labels: Mapping[str, str]) -> None:
    """Add a requirement for each label key that the pod has; a term without a selector matches nothing anyway."""
    if not term.get(key) or (selector := term.get("labelSelector")) is None:
        return
    found = selector.setdefault("matchExpressions", [])
    known = {(one.get("key"), one.get("operator"), *(one.get("values") or ())) for one in found if request.is_state}
    for one in term[key]:
        if one in labels and (one, operator, labels[one]) not in known:
            found.append({"key": one, "operator": operator, "values": [labels[one]]})


def drop_disabled_fields(spec: Manifest, request: Request) -> None:
    """Drop the fields of feature gates that are off, of a pod or a template."""
    features, minor = request.cluster.features, request.cluster.minor
    containers = [*_list(spec, "containers"), *_list(spec, "initContainers")]
    init_containers = [one for one in _list(spec, "initContainers") if one.get("restartPolicy") != "Always"]
    constraints = _list(spec, "topologySpreadConstraints")
    has_claims = features.dynamic_resource_allocation
    has_policies = features.node_inclusion_policy_in_pod_topology_spread
    # Whether a field is enabled, the field, and what has it.
    for is_enabled, key, owners in (
        (features.pod_level_resources, "resources", [spec]),
        (bool(request.cluster.objects.pod_groups), "schedulingGroup", [spec]),
        (has_claims, "resourceClaims", [spec]),
        (has_claims, "claims", [one["resources"] for one in containers if "resources" in one]),
        (minor >= _RESTART_RULES_SINCE, "restartPolicyRules", containers),
        (minor != _RESTART_RULES_SINCE - 1, "restartPolicy", [*_list(spec, "containers"), *init_containers]),
        (minor >= _HOST_NAMES_SINCE, "hostnameOverride", [spec]),
        (False, "bindMountOptions", [mount for one in containers for mount in _list(one, "volumeMounts")]),
        (minor >= _AFFINITY_KEYS_SINCE, "matchLabelKeys", affinity_terms(spec)),
        (minor >= _AFFINITY_KEYS_SINCE, "mismatchLabelKeys", affinity_terms(spec)),
        (features.match_label_keys_in_pod_topology_spread, "matchLabelKeys", constraints),
        (features.min_domains_in_pod_topology_spread, "minDomains", constraints),
        (has_policies, "nodeAffinityPolicy", constraints),
        (has_policies, "nodeTaintsPolicy", constraints),
    ):
        if not is_enabled:
            for owner in owners:
                owner.pop(key, None)
    if minor < _IMAGE_VOLUMES_SINCE and "volumes" in spec:
        spec["volumes"] = [one for one in spec["volumes"] if "image" not in one]


def _list(value: Manifest, key: str) -> list[Manifest]:
    return value.get(key) or []
