"""Objects that admission plugins read: LimitRange, ResourceQuota and RuntimeClass.

Mirrors k8s.io/api core/v1 and node/v1, with only the fields that are read.
"""

from extender.k8s.objects import Labels, Object, ResourceList, Toleration, Value


class LimitRangeItem(Value, frozen=True):
    type: str = ""
    """Pod, Container or PersistentVolumeClaim."""
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpec(Value, frozen=True):
    limits: list[LimitRangeItem] | None = None


class LimitRange(Object, frozen=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class ScopedResourceSelectorRequirement(Value, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(Value, frozen=True):
    match_expressions: list[ScopedResourceSelectorRequirement] | None = None


class ResourceQuotaSpec(Value, frozen=True):
    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Value, frozen=True):
    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(Object, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class Overhead(Value, frozen=True):
    pod_fixed: ResourceList | None = None


class RuntimeClassScheduling(Value, frozen=True):
    node_selector: Labels | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Object, frozen=True):
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: RuntimeClassScheduling | None = None
