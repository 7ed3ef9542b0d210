"""Defaults of pods and of pod templates.

Mirrors SetDefaults_Pod, SetDefaults_PodSpec and what is generated beside them (pkg/apis/core/v1/defaults.go,
zz_generated.defaults.go, v1.37), as far as decisions or validation read it.
"""

from typing import Any

from extender.admission.pods.resources import default_container_requests, default_pod_level_resources, round_up
from extender.admission.request import Manifest, Request

POD_LEVEL_AFTER_ADMISSION = 37
"""First minor that completes pod-level resources after admission plugins (PodLevelResourcesFixDefaulting)."""

_OF_POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}


def default_pod(request: Request) -> None:
    """Set the defaults of a pod, which has more than a template has."""
    spec = request.object.setdefault("spec", {})
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        default_container_requests(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    features = request.cluster.features
    if features.pod_level_resources and request.cluster.minor < POD_LEVEL_AFTER_ADMISSION:
        default_pod_level_resources(spec, after_admission=False)
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_pod_spec(spec: Manifest) -> None:
    """Set the defaults of the spec of a pod or a template."""
    for key, value in _OF_POD_SPEC.items():
        if spec.get(key) in (None, ""):
            spec[key] = value
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if resources := container.get("resources"):
            round_up(resources.get("requests"))
            round_up(resources.get("limits"))
        for port in container.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"
    round_up(spec.get("overhead"))
    for key in ("requests", "limits"):
        round_up((spec.get("resources") or {}).get(key))
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_volume(volume: Manifest) -> None:
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}
    if "rbd" in volume:
        volume["rbd"]["pool"] = volume["rbd"].get("pool") or "rbd"
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if claim is not None:
        claim.setdefault("volumeMode", "Filesystem")
        for amounts in (claim.get("resources") or {}).values():
            round_up(amounts)
