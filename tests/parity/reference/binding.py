"""VolumeBinding: can the pod's claims be met on a node, by bound volumes, free ones or new ones.

Mirrors pkg/scheduler/framework/plugins/volumebinding (binder.go, volume_binding.go) and `FindMatchingVolume` of
k8s.io/component-helpers/storage/volume (v1.36, default feature gates) without in-tree volumes that a CSI driver takes
over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.parity.reference import quantities
from tests.parity.reference.objects import (
    JSON,
    UNRESOLVABLE,
    Verdict,
    annotations,
    controller,
    labels,
    namespace,
    status,
    terminating,
)
from tests.parity.reference.selectors import Requirement, label_selector, node_matches_terms
from tests.parity.reference.state import Cluster, Node, Pod
from tests.parity.reference.volumes import claim_named, claims, class_name, class_of, volume_of

NAME = "VolumeBinding"
WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def rejection(cluster: Cluster, pod: Pod) -> Verdict | None:
    """PreFilter: claims that cannot be met on any node."""
    wanted = list(claims(pod))
    for name, ephemeral in wanted:
        if reason := complaint(pod, name, claim_named(cluster, pod, name), ephemeral):
            return Verdict(UNRESOLVABLE, NAME, (reason,))
    found = [claim_named(cluster, pod, name) for name, _ in wanted]
    if any(claim and not is_bound(claim) and not waits_for_consumer(cluster, claim) for claim in found):
        return Verdict(UNRESOLVABLE, NAME, ("pod has unbound immediate PersistentVolumeClaims",))
    return None


def complaint(pod: Pod, name: str, claim: JSON | None, ephemeral: bool) -> str | None:
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if status(claim).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if terminating(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and (controller(claim) or {}).get("uid") != pod.uid:
        pod_name, where = pod.raw["metadata"]["name"], pod.namespace
        return f"PVC {where}/{name} was not created for pod {where}/{pod_name} (pod is not owner)"
    return None


def is_bound(claim: JSON) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations(claim)


def waits_for_consumer(cluster: Cluster, claim: JSON) -> bool:
    """It is bound once a pod needs it. A class without a mode binds at once."""
    storage_class = class_of(cluster, claim) or {}
    return storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not claim["spec"].get("volumeName")


def volume_binding(cluster: Cluster, pod: Pod, node: Node) -> Verdict | None:
    """Filter, of a pod that PreFilter did not reject."""
    found = [claim_named(cluster, pod, name) for name, _ in claims(pod)]
    bound = [claim for claim in found if claim and is_bound(claim)]
    unbound = [claim for claim in found if claim and not is_bound(claim)]
    reasons = [bound_conflict(cluster, bound, node), Binder(cluster, node).conflict(unbound)]
    given = tuple(reason for reason in reasons if reason)
    return Verdict(UNRESOLVABLE, NAME, given) if given else None


def bound_conflict(cluster: Cluster, bound: list[JSON], node: Node) -> str | None:
    """The first claim with a problem decides."""
    for claim in bound:
        volume = volume_of(cluster, claim)
        if volume is None:
            return GONE
        if not reaches(volume, node):
            return WRONG_NODE
    return None


@dataclass(frozen=True, slots=True)
class Binder:
    """Volumes for unbound claims on one node."""

    cluster: Cluster
    node: Node

    def conflict(self, unbound: list[JSON]) -> str | None:
        """Claims get the volumes that are free, the smallest claim first; what is left over must be provisioned."""
        left: list[JSON] = []
        to_provision: list[JSON] = []
        for claim in unbound:
            selected = annotations(claim).get(SELECTED_NODE)
            if selected not in (None, self.node.name):
                return NO_VOLUME
            (left if selected is None else to_provision).append(claim)
        taken: set[str] = set()
        for claim in sorted(left, key=requested_size):
            volume = self.best_volume(claim, taken)
            if volume:
                taken.add(volume["metadata"]["name"])
            else:
                to_provision.append(claim)
        conflicts = map(self.provision_conflict, to_provision)
        return next((conflict for conflict in conflicts if conflict), None)

    def best_volume(self, claim: JSON, taken: set[str]) -> JSON | None:
        """One that is meant for the claim, even if it is not the best; otherwise the smallest that suits."""
        suited = []
        for volume in self.cluster.every("PersistentVolume"):
            if class_name(volume) != class_name(claim) or volume["metadata"]["name"] in taken:
                continue
            reserved = volume["spec"].get("claimRef")
            if not may_hold(volume, claim) or (reserved and not is_reference_to(reserved, claim)):
                continue
            if reserved:
                return volume if reaches(volume, self.node) else None
            if is_free_for(volume, claim) and reaches(volume, self.node):
                suited.append(volume)
        return min(suited, key=capacity, default=None)

    def provision_conflict(self, claim: JSON) -> str | None:
        storage_class = class_of(self.cluster, claim)
        provisioner = (storage_class or {}).get("provisioner")
        if not storage_class or not provisioner or provisioner == "kubernetes.io/no-provisioner":
            return NO_VOLUME
        if not in_topology(self.node, storage_class.get("allowedTopologies") or ()):
            return NO_VOLUME
        return None if self.has_space(claim, storage_class) else NO_SPACE

    def has_space(self, claim: JSON, storage_class: JSON) -> bool:
        """Asked only of drivers that say so, and of each claim as if it were the only one."""
        driver = self.cluster.find("CSIDriver", storage_class["provisioner"])
        if not driver or not driver["spec"].get("storageCapacity") or "storage" not in requests(claim):
            return True
        return any(
            one["storageClassName"] == storage_class["metadata"]["name"]
            and largest_volume(one) >= whole(requests(claim)["storage"])
            and one.get("nodeTopology") is not None
            and label_selector(one["nodeTopology"]).matches(self.node.labels)
            for one in self.cluster.every("CSIStorageCapacity")
        )


def may_hold(volume: JSON, claim: JSON) -> bool:
    """What is asked even of a volume that is meant for the claim."""
    here, wanted = volume["spec"], claim["spec"]
    return (
        capacity(volume) >= requested_size(claim)
        and (here.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and (here.get("volumeAttributesClassName") or "") == (wanted.get("volumeAttributesClassName") or "")
        and not terminating(volume)
    )


def is_free_for(volume: JSON, claim: JSON) -> bool:
    wanted = claim["spec"].get("selector")
    return (
        status(volume).get("phase") == "Available"
        and (wanted is None or label_selector(wanted).matches(labels(volume)))
        and set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())
    )


def is_reference_to(reference: JSON, claim: JSON) -> bool:
    """A reference without a UID is to whatever has the name."""
    same = reference["name"] == claim["metadata"]["name"] and reference["namespace"] == namespace(claim)
    return same and reference.get("uid") in (None, "", claim["metadata"].get("uid"))


def reaches(volume: JSON, node: Node) -> bool:
    """The volume's node affinity; upstream's quirk: only of the labels, a term's fields always match."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    nameless = {"metadata": {"labels": node.labels}}
    return required is None or node_matches_terms(nameless, required.get("nodeSelectorTerms") or [])


def in_topology(node: Node, terms: Iterable[JSON]) -> bool:
    """Any term, all of its expressions; an empty term is none, no terms are everywhere."""
    expressions = [term.get("matchLabelExpressions") or () for term in terms]
    return not expressions or any(
        term and all(Requirement(one["key"], "In", tuple(one["values"])).matches(node.labels) for one in term)
        for term in expressions
    )


def requests(claim: JSON) -> JSON:
    return (claim["spec"].get("resources") or {}).get("requests") or {}


def requested_size(claim: JSON) -> int:
    return quantities.parse(requests(claim).get("storage", 0))


def capacity(volume: JSON) -> int:
    return quantities.parse((volume["spec"].get("capacity") or {}).get("storage", 0))


def largest_volume(given: JSON) -> int:
    """Return the capacity of a CSIStorageCapacity; without one it has room for nothing."""
    known = [given[key] for key in ("maximumVolumeSize", "capacity") if given.get(key) is not None]
    return whole(known[0]) if known else -1


def whole(quantity: Any) -> int:
    """Rounded up to bytes."""
    return -(-quantities.parse(quantity) // 10**9)
