"""Complete a generated pod as the API server sends it: with the fields that decisions do not read, about 5 KB.

Requests are rounded, so that the cluster has a few thousand templates like a real one, and not one for each pod.
"""

from benchmarks.generate import JSON

_STARTED = "2025-06-01T08:00:10Z"

_PROBE: JSON = {
    "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
    "initialDelaySeconds": 5,
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_TOLERATIONS: list[JSON] = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_FIELDS: JSON = {
    "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}, "f:tier": {}}},
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {
                ".": {},
                "f:env": {".": {}} | {f'k:{{"name":"SETTING_{number}"}}': {"f:value": {}} for number in range(8)},
                "f:image": {},
                "f:livenessProbe": {},
                "f:readinessProbe": {},
                "f:resources": {"f:requests": {"f:cpu": {}, "f:memory": {}}},
            }
        },
        "f:dnsPolicy": {},
        "f:restartPolicy": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
    },
}
_STATUS_FIELDS: JSON = {
    "f:status": {
        "f:conditions": {
            f'k:{{"type":"{kind}"}}': {"f:lastTransitionTime": {}, "f:status": {}} for kind in _CONDITIONS
        },
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:podIP": {},
        "f:startTime": {},
    }
}


def full_pod(pod: JSON, number: int) -> JSON:
    """Return the pod with all its fields; unique values such as addresses are derived from `number`."""
    token = f"kube-api-access-{number:05x}"
    labels = pod["metadata"].get("labels", {})
    owner = f"{labels.get('app', 'app')}-{labels.get('pod-template-hash', '0')}"
    metadata = pod["metadata"] | {
        "generateName": f"{owner}-",
        "generation": 1,
        "creationTimestamp": "2025-06-01T08:00:00Z",
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": owner,
                "uid": f"{labels.get('pod-template-hash', '0'):>08}-0000-4000-8000-000000000000",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            _managed("kube-controller-manager", _FIELDS),
            _managed("kubelet", _STATUS_FIELDS) | {"subresource": "status"},
        ],
    }
    containers = [_container(_rounded(container), token) for container in pod["spec"]["containers"]]
    spec = pod["spec"] | {
        "containers": containers,
        "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "tolerations": _TOLERATIONS,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return pod | {"metadata": metadata, "spec": spec, "status": pod["status"] | _status(containers, number)}


def _rounded(container: JSON) -> JSON:
    """Round the container's CPU down to 100 millicores, and its memory in proportion."""
    requests = container["resources"]["requests"]
    hundreds = max(1, int(requests["cpu"].removesuffix("m")) // 100)
    rounded = {"cpu": f"{hundreds}00m", "memory": f"{340 * hundreds}Mi"}
    if "ephemeral-storage" in requests:
        rounded["ephemeral-storage"] = "2Gi"
    return container | {"resources": {"requests": rounded}}


def _managed(manager: str, fields: JSON) -> JSON:
    own = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _STARTED}
    return own | {"fieldsType": "FieldsV1", "fieldsV1": fields}


def _container(container: JSON, token: str) -> JSON:
    return container | {
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)],
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/example"}],
    }


def _status(containers: list[JSON], number: int) -> JSON:
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "qosClass": "Burstable",
        "hostIP": "10.64.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _STARTED}
            for kind in _CONDITIONS
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"{container['image']}@sha256:{'0' * 64}",
                "containerID": f"containerd://{number:064x}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": _STARTED}},
                "lastState": {},
                "resources": container["resources"],
                "allocatedResources": container["resources"].get("requests", {}),
            }
            for container in containers
        ],
    }
