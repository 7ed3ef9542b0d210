"""Manifests as people write them, without a UID, and what a simulation makes of them."""

from typing import Any

import extender
from extender.report.simulation_schema import Simulation, WorkloadPods
from tests.builders import JSON, cluster, node

API_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}


def pod_spec(cpu: str | None = "1", **spec: Any) -> JSON:
    resources: JSON = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    return {"containers": [{"name": "main", "image": "app:1", **resources}], **spec}


def written_pod(name: str = "new", cpu: str | None = "1", *, labels: JSON | None = None, **spec: Any) -> JSON:
    metadata = {"name": name, "labels": labels or {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu, **spec)}


def workload(kind: str = "Deployment", name: str = "web", *, pod: JSON | None = None, **spec: Any) -> JSON:
    """A workload whose pods have the spec `pod`; `spec` are further fields of the workload."""
    labels = {"app": name}
    own: JSON = {"template": {"metadata": {"labels": labels}, "spec": pod or pod_spec()}} | spec
    if kind == "ReplicationController":
        own.setdefault("selector", labels)
    elif kind not in ("Job", "CronJob"):
        own.setdefault("selector", {"matchLabels": labels})
    if kind in ("Job", "CronJob"):
        own["template"]["spec"].setdefault("restartPolicy", "Never")
    if kind == "CronJob":
        own = {"schedule": "0 * * * *", "jobTemplate": {"spec": own}}
    return {"apiVersion": API_VERSIONS.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": name}, "spec": own}


def thing(kind: str, name: str, api_version: str = "v1", **rest: Any) -> JSON:
    """An object of any other kind."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}


def storage_class(name: str, **rest: Any) -> JSON:
    """A StorageClass whose volumes are created once a pod has its node."""
    given = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"} | rest
    return thing("StorageClass", name, "storage.k8s.io/v1", **given)


def default_class(name: str) -> JSON:
    found = storage_class(name)
    found["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return found


def quota(namespace: str = "default", **hard: str) -> JSON:
    """A quota; `requests_cpu="2"` limits requests.cpu."""
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    found = thing("ResourceQuota", "few", spec={"hard": named})
    found["metadata"]["namespace"] = namespace
    return found


def run(nodes: Any = None, *pods: JSON, others: Any = (), waiting: Any = (), **options: Any) -> Simulation:
    here = cluster({node("n1", cpu="8"): []} if nodes is None else nodes, others=others, waiting=waiting)
    return extender.simulate(here, pods, **options)


def pods_of(result: Simulation) -> WorkloadPods:
    """Return what became of the only workload."""
    assert result.scenario is not None
    (one,) = result.scenario.workloads
    return one
