"""A small synchronous client of the API server, for tests and the fake kubelet."""

import json
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.control_plane.lab.process import wait_until

JSON = dict[str, Any]
Objects = list[JSON]

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_API_VERSIONS = {
    "apps/v1": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "batch/v1": ("Job",),
    "policy/v1": ("PodDisruptionBudget",),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
    "resource.k8s.io/v1": (
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
    ),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "node.k8s.io/v1": ("RuntimeClass",),
    "coordination.k8s.io/v1": ("Lease",),
    "events.k8s.io/v1": ("Event",),
}
_API_VERSION_OF = {kind: version for version, kinds in _API_VERSIONS.items() for kind in kinds}


class ApiError(Exception):
    """An answer of the API server with an error status."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.body = response.text
        super().__init__(f"{response.request.method} {response.request.url}: {self.status} {self.body[:600]}")


class Api:
    """Client with a bearer token. A kind is `Pod`, or `group/version/Kind` if it is not a common one."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self._http = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(ca_file)),
            headers={"Authorization": f"Bearer {token}", "User-Agent": "e2e-tests"},
            timeout=30.0,
            limits=limits,
            trust_env=False,
        )
        self._resources: dict[str, dict[str, JSON]] = {}

    def close(self) -> None:
        self._http.close()

    # --- requests

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        timeout: float = 30.0,
    ) -> Any:
        """Send one request and return the decoded answer; ApiError for an error status."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if content is not None else {}
        response = self._http.request(method, path, content=content, headers=headers, timeout=timeout)
        if response.status_code >= 300:
            raise ApiError(response)
        is_json = "json" in response.headers.get("Content-Type", "")
        return response.json() if is_json else response.text

    def is_ready(self) -> bool:
        """Return whether the API server answers /readyz with 200."""
        try:
            return self._http.get("/readyz", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    # --- objects

    def create(self, *objects: JSON) -> Any:
        """Create the objects in order; return the last as the API server answers it."""
        created: Any = None
        for one in objects:
            created = self.request("POST", self.path_of(one, named=False), one)
        return created

    def get(self, kind: str, name: str, namespace: str = "default") -> JSON:
        return self.request("GET", self.path(kind, namespace, name))

    def find(self, kind: str, name: str, namespace: str = "default") -> JSON | None:
        """Return the object; None if it does not exist."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def list(self, kind: str, namespace: str | None = None, **query: str) -> Objects:
        """Return all objects of a kind, in one namespace or all, each with apiVersion and kind."""
        answer = self.request("GET", str(httpx.URL(self.path(kind, namespace), params=query or None)))
        own = {"apiVersion": answer["apiVersion"], "kind": kind.rpartition("/")[2]}
        return [own | one for one in answer["items"]]

    def watch(self, kind: str, resource_version: str, timeout: int = 300) -> Iterator[JSON]:
        """Yield watch events until the API server ends the watch."""
        query = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": str(timeout)}
        with self._http.stream("GET", self.path(kind), params=query, timeout=httpx.Timeout(30.0, read=None)) as answer:
            if answer.status_code >= 300:
                answer.read()
                raise ApiError(answer)
            for line in answer.iter_lines():
                yield json.loads(line)

    def patch(self, kind: str, name: str, body: JSON, namespace: str = "default", subresource: str = "") -> JSON:
        """Change an object with a merge patch."""
        return self.request("PATCH", self.path(kind, namespace, name, subresource), body, MERGE_PATCH)

    def patch_status(self, kind: str, name: str, status: JSON, namespace: str = "default") -> JSON:
        return self.patch(kind, name, {"status": status}, namespace, "status")

    def delete(self, kind: str, name: str, namespace: str = "default", grace: int | None = None) -> bool:
        """Delete an object; False if it does not exist."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            self.request("DELETE", self.path(kind, namespace, name), options)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def evict(self, name: str, namespace: str = "default") -> bool:
        """Evict a pod through the eviction API; return whether its budget allows that."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        try:
            self.request("POST", self.path("Pod", namespace, name, "eviction"), eviction)
        except ApiError as error:
            if error.status != 429:
                raise
            return False
        return True

    def apply(self, manifests: str | Path | Iterable[JSON], namespace: str = "default") -> Objects:
        """Apply YAML documents, a file of them or objects as `kubectl apply --server-side` does."""
        documents: Iterable[Any] = (
            manifests
            if not isinstance(manifests, str | Path)
            else yaml.safe_load_all(manifests if isinstance(manifests, str) else manifests.read_text())
        )
        return [self._apply(one, namespace) for one in documents if one]

    def _apply(self, one: JSON, namespace: str) -> JSON:
        path = self.path_of(one, namespace=namespace)
        return self.request("PATCH", f"{path}?fieldManager=e2e&force=true", one, APPLY_PATCH)

    def create_namespace(self, name: str, **labels: str) -> None:
        """Create a namespace and wait for its service account, which pods in it need."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        self.wait_until(lambda: self.find("ServiceAccount", "default", name), 15, f"service account of {name}")

    wait_until = staticmethod(wait_until)

    # --- paths

    def path(self, kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the path of a kind, an object of it or a subresource."""
        version, _, short = kind.rpartition("/")
        version = version or _API_VERSION_OF.get(short, "v1")
        resource = self._resource(version, short)
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        within = f"namespaces/{namespace}" if resource["namespaced"] and namespace else ""
        return "/".join(part for part in (root, within, resource["name"], name, subresource) if part)

    def path_of(self, one: JSON, *, named: bool = True, namespace: str = "default") -> str:
        about = one["metadata"]
        kind = f"{one.get('apiVersion') or _API_VERSION_OF.get(one['kind'], 'v1')}/{one['kind']}"
        return self.path(kind, about.get("namespace", namespace), about["name"] if named else "")

    def _resource(self, version: str, kind: str) -> JSON:
        """Return the API resource of a kind, from discovery."""
        if kind not in self._resources.get(version, {}):
            root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            found = self.request("GET", root)["resources"]
            self._resources[version] = {one["kind"]: one for one in reversed(found) if "/" not in one["name"]}
        return self._resources[version][kind]
