"""Validation of containers and init containers, and of what they use of their pod.

Mirrors validateContainerCommon, validateInitContainers, validateVolumeMounts, validateResourceClaimNames,
checkHostPortConflicts and validateHostNetwork (pkg/apis/core/validation/validation.go, v1.37).
"""

from collections.abc import Collection, Sequence

from extender.admission.findings import Findings
from extender.admission.names import container_resource_name
from extender.admission.pods.resources import validate_resources
from extender.admission.request import Manifest, Request

Placed = tuple[str, Manifest]
"""(path, container)"""

_RESTART_RULES_SINCE = 34  # ContainerRestartRules, in 1.34 off: the fields are dropped, not refused
_PROBES = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def container(request: Request, path: str, value: Manifest) -> None:
    validate_resources(request.findings, value.get("resources") or {}, f"{path}.resources", container_resource_name)


def validate_restart_policies(request: Request, containers: Sequence[Placed], init_containers_from: int) -> None:
    """Check restart policies, and what only containers that keep running have."""
    findings, has_rules = request.findings, request.cluster.minor >= _RESTART_RULES_SINCE
    for index, (path, one) in enumerate(containers):
        policy, is_init = one.get("restartPolicy"), index >= init_containers_from
        if one.get("restartPolicyRules") and policy is None:
            findings.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
        if policy is not None and not is_init and not has_rules:
            findings.forbid(f"{path}.restartPolicy", "may not be set for non-init containers")
        if policy not in (None, "Always") and is_init and not has_rules:
            findings.unsupported(f"{path}.restartPolicy", policy, ("Always",))
        for field in (field for field in _PROBES if is_init and policy != "Always" and field in one):
            findings.forbid(f"{path}.{field}", "may not be set for init containers without restartPolicy=Always")


def validate_host_ports(findings: Findings, containers: Sequence[Placed]) -> None:
    """Check that containers which run at the same time use different host ports."""
    used: set[str] = set()
    for path, one in containers:
        for index, port in enumerate(one.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in used:
                    findings.duplicate(f"{path}.ports[{index}].hostPort", key)
                used.add(key)


def validate_host_network(findings: Findings, containers: Sequence[Placed], *, is_pod: bool) -> None:
    for path, one in containers:
        for index, port in enumerate(one.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            # A template's host ports are set when its pods are created.
            if (is_pod or host_port) and host_port != port["containerPort"]:
                detail = "must match `containerPort` when `hostNetwork` is true"
                findings.invalid_value(f"{path}.ports[{index}].hostPort", host_port, detail)


def validate_uses(findings: Findings, placed: Placed, volumes: Collection[str], claims: Collection[str]) -> None:
    """Check that a container uses volumes and claims of its pod, and no claim twice."""
    path, one = placed
    for field in ("volumeMounts", "volumeDevices"):
        for index, mount in enumerate(one.get(field) or ()):
            if (name := mount["name"]) and name not in volumes:
                findings.not_found(f"{path}.{field}[{index}].name", name)
    seen: set[tuple[str, str]] = set()
    claimed: set[str] = set()
    for index, claim in enumerate((one.get("resources") or {}).get("claims") or ()):
        name, part = claim["name"], claim.get("request", "")
        # A claim as a whole includes each of its requests.
        if (name, part) in seen or (name, "") in seen or (not part and name in claimed):
            findings.duplicate(f"{path}.resources.claims[{index}]", name)
        seen.add((name, part))
        claimed.add(name)
        if name and name not in claims:
            detail = "must be one of the names in pod.spec.resourceClaims" + ("" if claims else " which is empty")
            findings.not_found(f"{path}.resources.claims[{index}]", name, detail)
