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

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def path(self) -> str:
        """The path of its cluster-wide list."""
        return f"/apis/{self.group}/v1/{self.plural}" if self.group else f"/api/v1/{self.plural}"


RESOURCES = {
    resource.kind: resource
    for resource in (
        Resource("Node", "nodes"),
        Resource("Pod", "pods", namespaced=True),
        Resource("Namespace", "namespaces"),
        Resource("Service", "services", namespaced=True),
        Resource("ReplicationController", "replicationcontrollers", namespaced=True),
        Resource("PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
        Resource("PersistentVolume", "persistentvolumes"),
        Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy", namespaced=True),
        Resource("PriorityClass", "priorityclasses", "scheduling.k8s.io"),
        Resource("ReplicaSet", "replicasets", "apps", namespaced=True),
        Resource("StatefulSet", "statefulsets", "apps", namespaced=True),
        Resource("StorageClass", "storageclasses", "storage.k8s.io"),
        Resource("CSINode", "csinodes", "storage.k8s.io"),
        Resource("CSIDriver", "csidrivers", "storage.k8s.io"),
        Resource("CSIStorageCapacity", "csistoragecapacities", "storage.k8s.io", namespaced=True),
        Resource("VolumeAttachment", "volumeattachments", "storage.k8s.io"),
        Resource("DeviceClass", "deviceclasses", "resource.k8s.io"),
    )
}

_BY_PATH = {(resource.group, resource.plural): resource for resource in RESOURCES.values()}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a whole kind (no `name`), an object, or a subresource of one."""

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
    """What `path` names, or None. Lists of a single namespace are not served."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", "v1", *rest]:
            return _target("", rest)
        case ["apis", group, "v1", *rest]:
            return _target(group, rest)
    return None


def _target(group: str, rest: list[str]) -> Target | None:
    match rest:
        case [plural] if (group, plural) in _BY_PATH:
            return Target(_BY_PATH[group, plural])
        case [plural, name] if (group, plural) in _BY_PATH and not _BY_PATH[group, plural].namespaced:
            return Target(_BY_PATH[group, plural], name=name)
        case ["namespaces", namespace, plural, name, *subresource]:
            resource = _BY_PATH.get((group, plural))
            if resource is not None and resource.namespaced:
                return Target(resource, namespace, name, "/".join(subresource))
    return None
