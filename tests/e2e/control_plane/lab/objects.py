"""Nodes, pods and their owners as the API server accepts them; what is left out gets a plain default."""

from collections.abc import Iterable, Mapping
from typing import Any

JSON = dict[str, Any]


def node(
    name: str,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[JSON] = (),
    extended: Mapping[str, str] | None = None,
) -> JSON:
    """A ready Node; `extended` are further resources, such as {"example.com/gpu": "4"}."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi"} | dict(extended or {})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"} | dict(labels or {}),
        },
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(
    name: str,
    cpu: str = "1",
    memory: str = "1Gi",
    *,
    priority_class: str | None = None,
    node: str | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: JSON | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    grace: int = 30,
    **spec: Any,
) -> JSON:
    """A Pod of one container; `node` binds it without a scheduler, `owner` is the created controller."""
    about: JSON = {"name": name, "namespace": namespace, "labels": dict(labels or {"app": name})}
    if annotations:
        about["annotations"] = dict(annotations)
    if owner is not None:
        about["ownerReferences"] = [owner_reference(owner)]
    amounts = {"cpu": cpu, "memory": memory} | dict(requests or {})
    container = {
        "name": "main",
        "image": "registry.example.com/app:1",
        "resources": {"requests": amounts, "limits": dict(requests or {})},
    }
    given: JSON = {"containers": [container], "terminationGracePeriodSeconds": grace}
    if priority_class:
        given["priorityClassName"] = priority_class
    if node:
        given["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": given | spec}


def owner_reference(owner: JSON) -> JSON:
    about = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": about["name"], "uid": about["uid"],
            "controller": True, "blockOwnerDeletion": True}  # fmt: skip


def priority_class(name: str, value: int, *, policy: str = "PreemptLowerPriority", is_default: bool = False) -> JSON:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
        "globalDefault": is_default,
    }


def budget(name: str, labels: Mapping[str, str], *, namespace: str = "default", **spec: int | str) -> JSON:
    """A PodDisruptionBudget with `minAvailable` or `maxUnavailable`."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
    }


def workload(
    kind: str,
    name: str,
    replicas: int,
    labels: Mapping[str, str],
    *,
    namespace: str = "default",
    owner: JSON | None = None,
) -> JSON:
    """A Deployment, ReplicaSet or StatefulSet of pods with `labels`; no controller acts on it."""
    about: JSON = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if owner is not None:
        about["ownerReferences"] = [owner_reference(owner)]
    container = {"name": "main", "image": "registry.example.com/app:1"}
    spec: JSON = {
        "replicas": replicas,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": about, "spec": spec}
