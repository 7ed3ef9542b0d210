"""Validation of pods and of pod templates: what depends on several fields.

Mirrors ValidatePodCreate, ValidatePodSpec, ValidatePodTemplateSpec and ValidateVolumes
(pkg/apis/core/validation/validation.go, v1.37). The rules of single fields are in rules.toml.

Divergences:

- A container's name and image may be left out: decisions do not depend on them.
- Not checked, because neither decisions nor other checks read it: probes and lifecycle, resize policies, mount paths,
  security contexts, DNS and host aliases but for single fields, the parts of volumes that are not required, white space
  around an image, annotations for seccomp and AppArmor.
- Feature gates that kube-scheduler does not read have their default of the minor.
"""

import re
from collections.abc import Iterator, Sequence

from extender.admission.findings import Findings
from extender.admission.names import dns_subdomain
from extender.admission.pods.containers import (
    Placed,
    validate_host_network,
    validate_host_ports,
    validate_restart_policies,
    validate_uses,
)
from extender.admission.pods.resources import validate_pod_resources
from extender.admission.request import Manifest, Request
from extender.k8s.well_known import DELETION_COST, MIRROR

_DELETION_COST = re.compile(r"0|-[0-9]{1,10}|[1-9][0-9]{0,9}")
_NOT_ON_WINDOWS = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace", "resources")
_SECURITY_ON_WINDOWS = ("windowsOptions", "runAsNonRoot")


def pod(request: Request, _: str, value: Manifest) -> None:
    spec = value["spec"]
    _validate_annotations(request.findings, value, "metadata.annotations")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        request.findings.forbid("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    if spec.get("ephemeralContainers") and not request.is_state:
        request.findings.forbid("spec.ephemeralContainers", "cannot be set on create")


def pod_template(request: Request, path: str, value: Manifest) -> None:
    _validate_annotations(request.findings, value, f"{path}.metadata.annotations")
    if value["spec"].get("ephemeralContainers"):
        request.findings.forbid(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _validate_annotations(findings: Findings, value: Manifest, path: str) -> None:
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    if MIRROR in annotations and not value["spec"].get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        findings.invalid_value(f"{path}[{MIRROR}]", annotations[MIRROR], detail)
    cost = annotations.get(DELETION_COST, "0")
    if not _DELETION_COST.fullmatch(cost) or not -(2**31) <= int(cost) < 2**31:
        findings.invalid_value(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")


def pod_spec(request: Request, path: str, value: Manifest) -> None:
    findings, is_pod = request.findings, request.kind == "Pod"
    containers, init_containers = value.get("containers") or (), value.get("initContainers") or ()
    if not containers:
        # Of a controller that exists, decisions read the selector only.
        if request.is_state and not is_pod:
            findings.left_out.append(f"{path}.containers")
        else:
            findings.required(f"{path}.containers")
    _validate_volumes(findings, value, f"{path}.volumes", request.object["metadata"].get("name") if is_pod else None)
    placed = [
        (f"{path}.{field}[{index}]", container)
        for field, group in (("containers", containers), ("initContainers", init_containers))
        for index, container in enumerate(group)
    ]
    volumes, claims = ({one["name"] for one in value.get(field) or ()} for field in ("volumes", "resourceClaims"))
    names: set[str] = set()
    for place, container in placed:
        if (name := container["name"]) in names:
            findings.duplicate(f"{place}.name", name)
        names |= {name} - {""}
        validate_uses(findings, (place, container), volumes, claims)
    validate_restart_policies(request, placed, len(containers))
    validate_host_ports(findings, placed[: len(containers)])
    for one in placed[len(containers) :]:  # init containers run one by one
        validate_host_ports(findings, (one,))
    if value.get("hostNetwork"):
        validate_host_network(findings, placed[: len(containers)], is_pod=is_pod)
    if request.cluster.features.pod_level_resources:
        validate_pod_resources(findings, value, f"{path}.resources")
    if value.get("hostUsers") is False:
        for field in (field for field in ("hostNetwork", "hostPID", "hostIPC") if value.get(field)):
            findings.forbid(f"{path}.{field}", "when `hostUsers` is false")
    if (value.get("os") or {}).get("name") == "windows":
        for place in _not_on_windows(value, path, placed):
            findings.forbid(place, "cannot be set for a windows pod")


def _not_on_windows(spec: Manifest, path: str, containers: Sequence[Placed]) -> Iterator[str]:
    for field in _NOT_ON_WINDOWS:
        if spec.get(field) or (field == "hostUsers" and field in spec):
            yield f"{path}.{field}"
    for place, owner in ((path, spec), *containers):
        for field in owner.get("securityContext") or ():
            if field not in _SECURITY_ON_WINDOWS:
                yield f"{place}.securityContext.{field}"


def _validate_volumes(findings: Findings, spec: Manifest, path: str, pod_name: str | None) -> None:
    volumes = spec.get("volumes") or ()
    created = {f"{pod_name}-{one['name']}" for one in volumes if pod_name and "ephemeral" in one}
    for index, volume in enumerate(volumes):
        sources = [key for key in volume if key != "name"]
        if not sources:
            findings.required(f"{path}[{index}]", "must specify a volume type")
        for source in sources[1:]:
            findings.forbid(f"{path}[{index}].{source}", "may not specify more than 1 volume type")
        name = volume["name"]
        if pod_name and "ephemeral" in volume and (detail := dns_subdomain(f"{pod_name}-{name}")):
            findings.invalid_value(f"{path}[{index}].name", name, f"name of its PVC: {detail}")
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            findings.invalid_value(f"{path}[{index}].persistentVolumeClaim.claimName", claim, detail)


def claim_template(request: Request, path: str, value: Manifest) -> None:
    """Check the claim of a generic ephemeral volume."""
    for key in (key for key in value.get("metadata") or {} if key not in ("labels", "annotations")):
        request.findings.forbid(f"{path}.metadata.{key}", "cannot be set")
