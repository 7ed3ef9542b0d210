"""RuntimeClass: the overhead, node selector and tolerations of a pod's RuntimeClass.

Mirrors plugin/pkg/admission/runtimeclass/admission.go and pkg/util/tolerations/tolerations.go (v1.37). Divergence: the
tolerationSeconds of a RuntimeClass's tolerations are not read, as no scheduling decision depends on them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from extender.admission.plugins.shared import spec_of, was_admitted
from extender.admission.pods.resources import amounts_of
from extender.admission.request import Request

MAX_MERGED_TOLERATIONS = 200
"""Number up to which tolerations that others cover are dropped, which takes quadratic time and changes no verdict."""


def admit(request: Request) -> None:
    """Merge the RuntimeClass into the pod."""
    spec, findings, admitted = spec_of(request), request.findings, was_admitted(request)
    name, cluster = spec.get("runtimeClassName"), request.cluster
    if name is None:
        return
    found = cluster.objects.runtime_classes.get(("", name))
    if found is None:
        if admitted or "runtime_classes" in cluster.unreadable:
            findings.assumed.append(f"RuntimeClass {name}")
        else:
            findings.forbidden.append(f'pod rejected: RuntimeClass "{name}" not found')
        return
    if found.overhead is not None:
        fixed, given = found.overhead.pod_fixed or {}, spec.get("overhead")
        if not given:
            spec["overhead"] = dict(fixed)
        elif amounts_of(given) != amounts_of(fixed) and not admitted:
            findings.forbidden.append("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if found.scheduling is not None:
        required, selector = found.scheduling.node_selector or {}, spec.get("nodeSelector") or {}
        if required:
            spec["nodeSelector"] = {**required, **selector}
        findings.forbidden += [
            f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            for key, value in required.items()
            if selector.get(key, value) != value and not admitted
        ]
        added = [msgspec.to_builtins(one) for one in found.scheduling.tolerations or ()]
        spec["tolerations"] = merge_tolerations([*(spec.get("tolerations") or ()), *added])


def validate(request: Request) -> None:
    """Refuse an overhead that no RuntimeClass defines; `admit` compares one that is defined."""
    name = spec_of(request).get("runtimeClassName") or ""
    found = request.cluster.objects.runtime_classes.get(("", name))
    is_undefined = not name or (found is not None and found.overhead is None)
    if is_undefined and "overhead" in spec_of(request) and not was_admitted(request):
        request.findings.forbidden.append(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


def merge_tolerations(tolerations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tolerations without those that another one covers (tolerations.MergeTolerations)."""
    # An API server does not tell an empty field from a missing one.
    every = [{name: value for name, value in one.items() if value not in ("", None)} for one in tolerations]
    if len(every) > MAX_MERGED_TOLERATIONS:
        return every
    merged: list[dict[str, Any]] = []
    for index, one in enumerate(every):
        later = (other for other in every[index + 1 :] if other != one)  # of equal ones, the first stays
        if not any(_covers(other, one) for other in (*merged, *later)):
            merged.append(one)
    return merged


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return whether `wide` tolerates everything that `narrow` does (tolerations.isSuperset)."""
    if wide == narrow:
        return True
    operator = wide.get("operator", "")
    tolerates_all_keys = "key" not in wide and operator == "Exists"
    if wide.get("key") != narrow.get("key") and not tolerates_all_keys:
        return False
    if "effect" in wide and wide["effect"] != narrow.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator in ("", "Equal"):
        return narrow.get("operator") == "Equal" and narrow.get("value") == wide.get("value")
    return bool(operator == "Exists")
