"""What volumes pods use, and what use excludes: VolumeRestrictions, NodeVolumeLimits, VolumeZone.

Mirrors pkg/scheduler/framework/plugins/volumerestrictions, nodevolumelimits and volumezone (v1.36, default feature
gates) without what in-tree volumes become when CSI drivers take them over.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.parity.reference.objects import JSON, UNRESOLVABLE, UNSCHEDULABLE, Verdict, annotations, labels, namespace
from tests.parity.reference.state import Cluster, Node, Pod

IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
GENERAL_LABEL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONE_LABELS = (*GENERAL_LABEL, *GENERAL_LABEL.values())


# --- claims ---------------------------------------------------------------------------------------------------------


def direct_claims(pod: Pod) -> list[str]:
    """Names of the claims that the pod's volumes name, once per volume."""
    found = [volume.get("persistentVolumeClaim") for volume in pod.volumes]
    return [source.get("claimName") or "" for source in found if source is not None]


def claims(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Names of all claims of the pod, once per volume, and whether it is one of an ephemeral volume."""
    for volume in pod.volumes:
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName") or "", False
        elif volume.get("ephemeral") is not None:
            yield f"{pod.raw['metadata']['name']}-{volume['name']}", True


def claim_named(cluster: Cluster, pod: Pod, name: str) -> JSON | None:
    return cluster.find("PersistentVolumeClaim", name, pod.namespace)


def volume_of(cluster: Cluster, claim: JSON) -> JSON | None:
    """The PersistentVolume that the claim names, if there is one."""
    return cluster.find("PersistentVolume", claim["spec"].get("volumeName") or "")


def class_name(claim_or_volume: JSON) -> str:
    beta = annotations(claim_or_volume).get(BETA_CLASS)
    return str(claim_or_volume["spec"].get("storageClassName") or "" if beta is None else beta)


def class_of(cluster: Cluster, claim: JSON) -> JSON | None:
    return cluster.find("StorageClass", class_name(claim))


# --- VolumeRestrictions ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Restrictions:
    pod: Pod
    exclusive: frozenset[str]
    """The pod's claims that one pod may use at a time."""
    users: int
    """How often they are in use."""

    def clone(self) -> "Restrictions":
        return replace(self)

    def count(self, other: Pod, _: Node, sign: int) -> None:
        """Add (1) or subtract (-1) a pod.

        Upstream's quirk: this goes by the name of the claim, whatever the namespace, and once per volume; at the
        start, it was once per claim.
        """
        self.users += sign * sum(name in self.exclusive for name in direct_claims(other))

    def check(self, node: Node) -> Verdict | None:
        if any(share_a_disk(volume, held) for volume in self.pod.volumes for pod in node.pods for held in pod.volumes):
            return Verdict(UNSCHEDULABLE, "VolumeRestrictions", ("node(s) had no available disk",))
        return Verdict(UNSCHEDULABLE, "VolumeRestrictions", (IN_USE,)) if self.users > 0 else None


def missing_claim(cluster: Cluster, pod: Pod) -> Verdict | None:
    """VolumeRestrictions' PreFilter: every claim that the pod names must exist."""
    for name in direct_claims(pod):
        if claim_named(cluster, pod, name) is None:
            return Verdict(UNRESOLVABLE, "VolumeRestrictions", (f'persistentvolumeclaim "{name}" not found',))
    return None


def restrictions(cluster: Cluster, pod: Pod) -> Restrictions | None:
    """None if the plugin is skipped: then a pod nominated to the node does not wake it."""
    exclusive = frozenset(name for name in direct_claims(pod) if is_exclusive(claim_named(cluster, pod, name)))
    on_nodes = [other for node in cluster.nodes.values() for other in node.pods if other.namespace == pod.namespace]
    in_use = {name for other in on_nodes for name in direct_claims(other)}
    users = len(exclusive & in_use)
    if not users and not any(is_disk(volume) for volume in pod.volumes):
        return None
    return Restrictions(pod, exclusive, users)


def is_exclusive(claim: JSON | None) -> bool:
    return claim is not None and "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ())


def is_disk(volume: JSON) -> bool:
    return any(volume.get(kind) for kind in ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))


def share_a_disk(one: JSON, other: JSON) -> bool:
    """They are the same disk, which not both only read."""

    def both(kind: str) -> tuple[JSON, JSON] | None:
        """Not if both are read-only."""
        here, there = one.get(kind), other.get(kind)
        if not here or not there or (here.get("readOnly") and there.get("readOnly")):
            return None
        return here, there

    if (disks := both("gcePersistentDisk")) and disks[0]["pdName"] == disks[1]["pdName"]:
        return True
    if (disks := both("iscsi")) and disks[0]["iqn"] == disks[1]["iqn"]:
        return True
    if (disks := both("rbd")) and _same_image(*disks):
        return True
    here, there = one.get("awsElasticBlockStore"), other.get("awsElasticBlockStore")
    return bool(here and there and here["volumeID"] == there["volumeID"])


def _same_image(one: JSON, other: JSON) -> bool:
    """In the same pool, and reached by at least one monitor that is the same."""
    same_name = one["image"] == other["image"] and (one.get("pool") or "rbd") == (other.get("pool") or "rbd")
    return same_name and not set(one["monitors"]).isdisjoint(other["monitors"])


# --- NodeVolumeLimits -----------------------------------------------------------------------------------------------


def volume_limits(cluster: Cluster, pod: Pod, node: Node) -> Verdict | None:
    """No more volumes of a CSI driver than the node's CSINode says.

    Upstream's quirk: a new volume that is attached already counts twice, unless a pod of the node uses it.
    """
    csi_node = cluster.find("CSINode", node.name) or {"spec": {}}
    drivers = csi_node["spec"].get("drivers") or ()
    limits = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
    wanted = csi_volumes(cluster, pod)
    if not wanted or not limits:
        return None
    used = {volume for other in node.pods for volume in csi_volumes(cluster, other)}
    there = Counter(driver for driver, _ in used | attached(cluster, node))
    for driver, count in Counter(driver for driver, _ in wanted - used).items():
        limit = limits.get(driver)
        if limit is not None and there[driver] + count > limit:
            return Verdict(UNSCHEDULABLE, "NodeVolumeLimits", ("node(s) exceed max volume count",))
    return None


def csi_volumes(cluster: Cluster, pod: Pod) -> set[tuple[str, str]]:
    """Driver and handle of the CSI volumes behind the pod's claims; one claim that many volumes name is one volume."""
    found = [claim_named(cluster, pod, name) for name, _ in claims(pod)]
    volumes = {csi_volume(cluster, claim) for claim in found if claim is not None}
    return {(driver, handle) for driver, handle in volumes if driver and handle}


def csi_volume(cluster: Cluster, claim: JSON) -> tuple[str, str]:
    """Without a volume the claim itself is one, of its class' provisioner."""
    volume = volume_of(cluster, claim)
    if volume is not None:
        source = volume["spec"].get("csi") or {}
        return source.get("driver") or "", source.get("volumeHandle") or ""
    storage_class = class_of(cluster, claim) or {}
    return storage_class.get("provisioner") or "", f"new {namespace(claim)}/{claim['metadata']['name']}"


def attached(cluster: Cluster, node: Node) -> set[tuple[str, str]]:
    """Driver and handle of what VolumeAttachments say is attached to the node."""
    found = set()
    for one in cluster.every("VolumeAttachment"):
        spec = one["spec"]
        volume = cluster.find("PersistentVolume", spec["source"].get("persistentVolumeName") or "")
        if spec["nodeName"] == node.name and spec.get("attacher") and volume is not None and volume["spec"].get("csi"):
            found.add((spec["attacher"], volume["spec"]["csi"].get("volumeHandle") or ""))
    return found


# --- VolumeZone -----------------------------------------------------------------------------------------------------


def missing_volume(cluster: Cluster, pod: Pod) -> Verdict | None:
    """VolumeZone's PreFilter: every volume that a claim is bound to must exist; ephemeral ones are not asked.

    What it has against unbound claims, VolumeBinding has said before it.
    """
    for name in direct_claims(pod):
        claim = claim_named(cluster, pod, name)
        wanted = claim and claim["spec"].get("volumeName")
        if wanted and cluster.find("PersistentVolume", wanted) is None:
            return Verdict(UNRESOLVABLE, "VolumeZone", (f'persistentvolume "{wanted}" not found',))
    return None


def volume_zones(cluster: Cluster, pod: Pod, node: Node) -> Verdict | None:
    """The zones and regions in the labels of bound volumes include the node's, if the node is in any."""
    if not any(key in node.labels for key in ZONE_LABELS):
        return None
    for name in direct_claims(pod):
        claim = claim_named(cluster, pod, name)
        volume = claim and volume_of(cluster, claim)
        for key, values in zones(volume) if volume else ():
            here = node.labels.get(key, node.labels.get(GENERAL_LABEL.get(key, key)))
            if here not in values:
                return Verdict(UNRESOLVABLE, "VolumeZone", ("node(s) had no available volume zone",))
    return None


def zones(volume: JSON) -> Iterator[tuple[str, list[str]]]:
    """Label and values; a list with an empty value in it counts as no label."""
    for key in ZONE_LABELS:
        values = [value.strip() for value in labels(volume).get(key, "").split("__")]
        if all(values):
            yield key, values
