"""A cluster and a pod without what a fact about volumes names: of the limit, the room that is missing is added."""

from typing import Any

from msgspec.structs import replace

from extender import Pod, Snapshot
from extender.k8s.objects import ObjectMeta
from extender.k8s.storage.objects import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    VolumeNodeResources,
)
from extender.k8s.storage.volumes import SELECTED_NODE, claim_uses
from extender.report.facts import schema as facts


def without_volume(snapshot: Snapshot, pod: Pod, node: str, fact: Any) -> Pod:
    """Change the snapshot, and return the changed pod."""
    objects = snapshot.objects
    match fact:
        case facts.ClaimFact(claim=claim):
            pod = _without_claim(pod, claim)
        case facts.VolumeTopologyFact(volume="", storage_class=name):
            snapshot.put("StorageClass", replace(objects.storage_classes["", name], allowed_topologies=None))
        case facts.VolumeTopologyFact(volume=name):
            _put_everywhere(snapshot, objects.volumes["", name])
        case facts.SelectedNodeFact(claim=claim):
            _put_claim(snapshot, claim, SELECTED_NODE)
        case facts.VolumeMatchFact(mismatches=("NodeAffinity",), nearest=nearest) if _is_reserved(snapshot, nearest):
            _put_everywhere(snapshot, objects.volumes["", nearest])
        case facts.VolumeMatchFact():
            _put_matching(snapshot, objects.claims[_key(fact.claim)], fact)
        case facts.StorageCapacityFact(driver=name):
            driver = objects.csi_drivers["", name]
            snapshot.put("CSIDriver", replace(driver, spec=replace(driver.spec, storage_capacity=False)))
        case facts.VolumeLimitFact(driver=driver):
            assert fact.needs + fact.in_use > fact.limit
            _put_driver(snapshot, node, driver, fact.needs + fact.in_use)
        case facts.MissingOnNodeFact(driver=driver):
            _put_driver(snapshot, node, driver, None)
        case facts.InUseFact(users=users):
            for key in users:
                if _key(key) in objects.pods:
                    snapshot.remove("Pod", _key(key))
        case facts.MoreFact():
            pass
    return pod


def _key(name: str) -> tuple[str, str]:
    namespace, _, name = name.partition("/")
    return namespace, name


def _without_claim(pod: Pod, claim: str) -> Pod:
    uses = {
        volume.name: next(claim_uses(replace(pod, spec=replace(pod.spec, volumes=[volume]))), None)
        for volume in pod.spec.volumes or ()
    }
    kept = [one for one in pod.spec.volumes or () if (use := uses[one.name]) is None or use.name != _key(claim)[1]]
    return replace(pod, spec=replace(pod.spec, volumes=kept))


def _put_everywhere(snapshot: Snapshot, volume: PersistentVolume) -> None:
    labels = {
        key: value for key, value in (volume.metadata.labels or {}).items() if "zone" not in key and "region" not in key
    }
    metadata = replace(volume.metadata, labels=labels)
    snapshot.put("PersistentVolume", replace(volume, metadata=metadata, spec=replace(volume.spec, node_affinity=None)))


def _put_claim(snapshot: Snapshot, claim: str, annotation: str) -> None:
    found = snapshot.objects.claims[_key(claim)]
    kept = {key: value for key, value in (found.metadata.annotations or {}).items() if key != annotation}
    snapshot.put("PersistentVolumeClaim", replace(found, metadata=replace(found.metadata, annotations=kept)))


def _is_reserved(snapshot: Snapshot, volume: str) -> bool:
    return snapshot.objects.volumes["", volume].spec.claim_ref is not None


def _put_matching(snapshot: Snapshot, claim: PersistentVolumeClaim, fact: facts.VolumeMatchFact) -> None:
    """Put a volume that is reserved for the claim and has all that the fact says is needed."""
    spec = PersistentVolumeSpec(
        capacity={"storage": fact.requested},
        access_modes=[*fact.access_modes],
        claim_ref=ObjectReference(claim.metadata.namespace, claim.metadata.name),
        storage_class_name=fact.storage_class,
        volume_mode=claim.spec.volume_mode,
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
    )
    name = f"for-{claim.metadata.namespace}-{claim.metadata.name}"
    snapshot.put("PersistentVolume", PersistentVolume(ObjectMeta(name), spec=spec, status=PhaseStatus("Available")))


def _put_driver(snapshot: Snapshot, node: str, driver: str, count: int | None) -> None:
    found = snapshot.objects.csi_nodes.get(("", node)) or CSINode(ObjectMeta(node))
    allocatable = None if count is None else VolumeNodeResources(count)
    drivers = [one for one in found.spec.drivers or () if one.name != driver]
    snapshot.put("CSINode", replace(found, spec=CSINodeSpec([*drivers, CSINodeDriver(driver, allocatable)])))
