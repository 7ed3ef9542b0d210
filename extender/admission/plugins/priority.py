"""Priority: the priority and preemption policy of a pod, from its PriorityClass or the default one.

Mirrors plugin/pkg/admission/priority/admission.go (v1.37) for pods and PriorityClasses. An API server that cannot read
PriorityClasses fails; a cluster that was read without permission to list them has the priority that the pod gives.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from extender.admission.cluster import AdmissionCluster
from extender.admission.plugins.shared import is_given, spec_of, was_admitted
from extender.admission.request import Manifest, Request
from extender.k8s.objects import ObjectMeta, PriorityClass
from extender.k8s.priority import SYSTEM_PRIORITY_CLASSES

NO_CLASS = PriorityClass(ObjectMeta(), preemption_policy="PreemptLowerPriority")
"""What a pod without a class gets in a cluster without a default class."""

SYSTEM_CLASSES = {
    name: replace(NO_CLASS, metadata=ObjectMeta(name), value=value) for name, value in SYSTEM_PRIORITY_CLASSES.items()
}

CONTRADICTION = (
    "the {} ({}) must not be provided in pod spec; "
    "priority admission controller computed {} from the given PriorityClass name"
)


def admit(request: Request) -> None:
    """Set the pod's priority, and refuse one that contradicts its class."""
    spec, found, forbidden = spec_of(request), _class_of(request), request.findings.forbidden
    admitted, priority, policy = was_admitted(request), spec.get("priority"), spec.get("preemptionPolicy")
    # A priority may come from a class that the cluster had, or has and does not show.
    is_unreadable = found is NO_CLASS and "priority_classes" in request.cluster.unreadable
    if found is None or (priority not in (None, found.value) and (admitted or is_unreadable)):
        spec["priority"] = priority or 0
        return
    if priority not in (None, found.value):
        forbidden.append(CONTRADICTION.format("integer value of priority", priority, found.value))
    spec["priority"] = found.value
    if found is not NO_CLASS:
        spec["priorityClassName"] = found.metadata.name
    if found.preemption_policy is None:
        return
    if policy is None:
        spec["preemptionPolicy"] = found.preemption_policy
    elif policy != found.preemption_policy and not admitted:
        forbidden.append(CONTRADICTION.format("string value of PreemptionPolicy", policy, found.preemption_policy))


def with_priority(pod: Manifest, cluster: AdmissionCluster) -> Manifest:
    """Return a pod that has a UID with the priority of its class, if it has none: what people write may lack it."""
    spec = pod.get("spec") or {}
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return pod
    if not isinstance(spec.get("priorityClassName") or "", str):  # its types are checked later
        return pod
    found = _class_of(Request("Pod", {**pod, "spec": spec}, cluster))
    if found is None or found is NO_CLASS:
        return pod
    own = {"priority": found.value, "priorityClassName": found.metadata.name}
    return {**pod, "spec": {"preemptionPolicy": found.preemption_policy, **spec, **own}}


def validate(request: Request) -> None:
    """Refuse a second default PriorityClass."""
    default = default_class(request.cluster.objects.priority_classes.values())
    if default is None or default.metadata.name == request.object["metadata"].get("name"):
        return
    if request.object.get("globalDefault"):
        request.findings.forbidden.append(
            f"PriorityClass {default.metadata.name} is already marked as default. Only one default can exist"
        )


def default_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the default PriorityClass; of several, which only a race makes, the one with the lowest value."""
    return min((one for one in classes if one.global_default), key=lambda one: one.value, default=None)


def _class_of(request: Request) -> PriorityClass | None:
    """Return the pod's class, NO_CLASS without one, or None if it is unknown, which is then in the findings."""
    spec, cluster, findings = spec_of(request), request.cluster, request.findings
    name, classes = spec.get("priorityClassName"), cluster.objects.priority_classes
    if not name:
        found = default_class(classes.values())
        if found is None and not is_given(cluster, "priority_classes"):
            findings.assumed.append("the default PriorityClass")
        return found or NO_CLASS
    found = classes.get(("", name)) or SYSTEM_CLASSES.get(name)
    if found is not None:
        return found
    is_unreadable = "priority_classes" in cluster.unreadable
    if was_admitted(request) or (is_unreadable and spec.get("priority") is not None):
        findings.assumed.append(f"PriorityClass {name}")
    elif is_unreadable:
        findings.forbidden.append("no permission to list PriorityClasses, so spec.priority must be set")
    else:
        findings.forbidden.append(f"no PriorityClass with name {name} was found")
    return None
