"""Which resources the fake API server has, and what a request path means.

Rule: paths, groups and plurals are those of Kubernetes; a path that is not in the table is nothing.
"""

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind, and where it is served."""

    kind: str
    plural: str
    group: str = ""
    namespaced: bool = False
    version: str = "v1"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The path of its cluster-wide list."""
        return f"/{'apis' if self.group else 'api'}/{self.api_version}/{self.plural}"


RESOURCES = {
    resource.kind: resource
    for resource in (
        Resource("Node", "nodes"),
        Resource("Pod", "pods", namespaced=True),
        Resource("Event", "events", namespaced=True),
        Resource("Event.events.k8s.io", "events", "events.k8s.io", namespaced=True),
        Resource("Namespace", "namespaces"),
        Resource("Service", "services", namespaced=True),
        Resource("ReplicationController", "replicationcontrollers", namespaced=True),
        Resource("PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
        Resource("PersistentVolume", "persistentvolumes"),
        Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy", namespaced=True),
        Resource("PriorityClass", "priorityclasses", "scheduling.k8s.io"),
        Resource("ReplicaSet", "replicasets", "apps", namespaced=True),
        Resource("StatefulSet", "statefulsets", "apps", namespaced=True),
        Resource("Deployment", "deployments", "apps", namespaced=True),
        Resource("CronJob", "cronjobs", "batch", namespaced=True),
        Resource("StorageClass", "storageclasses", "storage.k8s.io"),
        Resource("CSINode", "csinodes", "storage.k8s.io"),
        Resource("CSIDriver", "csidrivers", "storage.k8s.io"),
        Resource("CSIStorageCapacity", "csistoragecapacities", "storage.k8s.io", namespaced=True),
        Resource("VolumeAttachment", "volumeattachments", "storage.k8s.io"),
        Resource("DeviceClass", "deviceclasses", "resource.k8s.io"),
        Resource("ResourceSlice", "resourceslices", "resource.k8s.io"),
        Resource("ResourceClaim", "resourceclaims", "resource.k8s.io", namespaced=True),
        Resource("ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", namespaced=True),
        Resource("DeviceTaintRule", "devicetaintrules", "resource.k8s.io"),
        Resource("LimitRange", "limitranges", namespaced=True),
        Resource("ResourceQuota", "resourcequotas", namespaced=True),
        Resource("RuntimeClass", "runtimeclasses", "node.k8s.io"),
        Resource("PodGroup", "podgroups", "scheduling.k8s.io", namespaced=True, version="v1alpha2"),
        Resource(
            "PodGroup.scheduling.x-k8s.io", "podgroups", "scheduling.x-k8s.io", namespaced=True, version="v1alpha1"
        ),
    )
}

_BY_PATH = {(resource.api_version, resource.plural): resource for resource in RESOURCES.values()}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a whole kind, or that of a namespace (no `name`), an object, or a subresource of one."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def resource_of(kind: str) -> Resource:
    """The resource of a kind by its Kubernetes name; KeyError if the fake does not serve it."""
    if kind not in RESOURCES:
        raise KeyError(f"the fake API server has no kind {kind!r}, only {', '.join(RESOURCES)}")
    return RESOURCES[kind]


def target_of(path: str) -> Target | None:
    """What `path` names, or None."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", version, *rest]:
            return _target(version, rest)
        case ["apis", group, version, *rest]:
            return _target(f"{group}/{version}", rest)
    return None


def _target(api_version: str, rest: list[str]) -> Target | None:
    match rest:
        case [plural] if (api_version, plural) in _BY_PATH:
            return Target(_BY_PATH[api_version, plural])
        case [plural, name] if (api_version, plural) in _BY_PATH and not _BY_PATH[api_version, plural].namespaced:
            return Target(_BY_PATH[api_version, plural], name=name)
        case ["namespaces", namespace, plural, *rest]:
            resource = _BY_PATH.get((api_version, plural))
            if resource is not None and resource.namespaced:
                return Target(resource, namespace, "".join(rest[:1]), "/".join(rest[1:]))
    return None
