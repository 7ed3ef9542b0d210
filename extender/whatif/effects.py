"""Apply the effects of binding, nominating or evicting a pod to the objects of a snapshot.

kube-scheduler, the API server, the controllers of volumes, resource claims and disruption budgets and the garbage
collector would make the same changes, but asynchronously, and they may fail.

Rule: nothing is decided here; the snapshot is modified and stays consistent.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from extender.core.framework.plugins.shared.volume_matching import NO_VOLUME_ROW, match_volumes
from extender.core.preemption.pdb.index import budgets_counting
from extender.core.scheduling_cycle.reserve import NO_RESERVATION, Reservation, claim_keys
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import storage
from extender.k8s.devices.objects import ResourceClaimStatus
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Condition, Pod
from extender.k8s.storage.objects import ObjectReference, PersistentVolume, PersistentVolumeClaim, PhaseStatus
from extender.k8s.storage.volumes import BIND_COMPLETED, SELECTED_NODE, claim_uses, is_bound


def key_of_name(name: str) -> Key:
    """Return the key of the object named `namespace/name`."""
    namespace, _, own = name.partition("/")
    return namespace, own


# --- nomination -----------------------------------------------------------------------------------------------------


def nominate(snapshot: Snapshot, pod: Pod, node: str) -> None:
    """Set status.nominatedNodeName, which reserves room for the pod; "" clears it."""
    if pod.status.nominated_node_name != node:
        snapshot.put("Pod", replace(pod, status=replace(pod.status, nominated_node_name=node)))


def clear_nominations(snapshot: Snapshot, preemptor: Pod, node: str, schedulers: frozenset[str]) -> None:
    """Clear nominations to the node of pods with lower priority than the preemptor.

    Mirrors getLowerPriorityNominatedPods, v1.36, for pods of `schedulers`; if `schedulers` is empty, for pods of the
    preemptor's own scheduler.
    """
    own = schedulers or {preemptor.spec.scheduler_name}
    lower = [
        pod
        for pod in snapshot.nominees
        if pod.status.nominated_node_name == node and pod.priority < preemptor.priority
        if pod.spec.scheduler_name in own
    ]
    for pod in lower:
        nominate(snapshot, pod, "")


# --- binding --------------------------------------------------------------------------------------------------------


def bind(snapshot: Snapshot, pod: Pod, node: str, reservation: Reservation = NO_RESERVATION) -> None:
    """Bind the pod and its unbound volume claims to the node, and store the resource claims of the reservation."""
    for claim, volume in list(_volume_bindings(snapshot, pod, snapshot.node_row[node])):
        _bind_claim(snapshot, claim, volume, node)
    for reserved in reservation.claims:
        snapshot.put("ResourceClaim", reserved)
    extended = reservation.extended_resource_claim or pod.status.extended_resource_claim_status
    status = replace(pod.status, nominated_node_name="", extended_resource_claim_status=extended)
    spec = replace(pod.spec, node_name=node)
    snapshot.put("Pod", replace(pod, spec=spec, status=status))
    snapshot.refresh_layout()


def _volume_bindings(
    snapshot: Snapshot, pod: Pod, node: int
) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume | None]]:
    """Yield (unbound claim, its volume on the node) pairs; the volume is None if one will be provisioned.

    The smallest claims choose first, and choose the smallest volumes (volumebinding.findMatchingVolumes, v1.36).
    """
    found = (storage(snapshot).claim(pod, use.name) for use in claim_uses(pod))
    unbound = {key_of("PersistentVolumeClaim", one): one for one in found if one is not None and not is_bound(one)}
    # A claim with a selected node waits for its provisioner and takes no existing volume.
    free = [one for one in unbound.values() if SELECTED_NODE not in (one.metadata.annotations or {})]
    for claim, volumes in match_volumes(snapshot, free) if free else ():
        row = int(volumes[node])
        yield claim, None if row == NO_VOLUME_ROW else storage(snapshot).by_number[row]


def _bind_claim(snapshot: Snapshot, claim: PersistentVolumeClaim, volume: PersistentVolume | None, node: str) -> None:
    """Bind the claim to the volume, or select the node on which a volume will be provisioned."""
    annotations = {BIND_COMPLETED: "yes"} if volume is not None else {SELECTED_NODE: node}
    metadata = replace(claim.metadata, annotations={**(claim.metadata.annotations or {}), **annotations})
    if volume is None:
        snapshot.put("PersistentVolumeClaim", replace(claim, metadata=metadata))
        return
    owner, spec = claim.metadata, replace(claim.spec, volume_name=volume.metadata.name)
    reference = ObjectReference(owner.namespace, owner.name, owner.uid)
    bound_volume = replace(volume, spec=replace(volume.spec, claim_ref=reference), status=PhaseStatus("Bound"))
    snapshot.put("PersistentVolume", bound_volume)
    snapshot.put("PersistentVolumeClaim", replace(claim, metadata=metadata, spec=spec, status=PhaseStatus("Bound")))


# --- eviction -------------------------------------------------------------------------------------------------------


def evict(snapshot: Snapshot, victims: Sequence[Pod], empty_selector: str) -> None:
    """Remove the victims with their claims, and decrement the disruption budgets that they count against."""
    # 1. Count the victims per budget. The disruption controller counts healthy pods only; if a status has no
    #    healthy pods at all, the controller may not have run yet, and every pod counts.
    budgets = snapshot.objects.budgets
    used: Counter[Key] = Counter()
    for victim in victims:
        if victim.metadata.deletion_timestamp is not None:
            continue  # already counted when its deletion began
        for name in budgets_counting(snapshot, victim, empty_selector):
            key = key_of_name(name)
            if victim.is_ready or not budgets[key].status.current_healthy:
                used[key] += 1
    # 2. Update the budgets before the pods go, as the eviction API does.
    for key, count in used.items():
        status = budgets[key].status
        allowed, healthy = max(0, status.disruptions_allowed - count), max(0, status.current_healthy - count)
        status = replace(status, disruptions_allowed=allowed, current_healthy=healthy)
        snapshot.put("PodDisruptionBudget", replace(budgets[key], status=status))
    # 3. Delete the pods.
    for victim in victims:
        snapshot.remove("Pod", key_of("Pod", victim))
        _release_claims(snapshot, victim)
    snapshot.refresh_layout()


def make_ready(snapshot: Snapshot, pod: Pod, empty_selector: str) -> None:
    """Set the condition Ready of a bound replacement, and count it in the disruption budgets that select it."""
    others = [one for one in pod.status.conditions or () if one.type != "Ready"]
    conditions = [*others, Condition("Ready", "True")]
    snapshot.put("Pod", replace(pod, status=replace(pod.status, phase="Running", conditions=conditions)))
    for name in budgets_counting(snapshot, pod, empty_selector):
        budget = snapshot.objects.budgets[key_of_name(name)]
        status = budget.status
        if status.current_healthy or status.desired_healthy or status.expected_pods:
            healthy = status.current_healthy + 1  # as the disruption controller computes it
            allowed = max(0, healthy - status.desired_healthy)
        else:  # the controller has not run: give back the disruption that evicting the predecessor used up
            healthy, allowed = 0, status.disruptions_allowed + 1
        status = replace(status, current_healthy=healthy, disruptions_allowed=allowed)
        snapshot.put("PodDisruptionBudget", replace(budget, status=status))
    snapshot.refresh_layout()


# --- resource claims --------------------------------------------------------------------------------------------------


def deallocate(snapshot: Snapshot, pod: Pod, key: Key) -> None:
    """Deallocate a claim, or delete it if it is for extended resources (DynamicResources' PostFilter, v1.36)."""
    claim, extended = snapshot.objects.resource_claims.get(key), pod.status.extended_resource_claim_status
    if claim is None:  # deleted with the evicted pod that owned it
        return
    if extended is not None and key == (pod.metadata.namespace, extended.resource_claim_name):
        snapshot.remove("ResourceClaim", key)
    else:
        snapshot.put("ResourceClaim", replace(claim, status=ResourceClaimStatus()))


def _release_claims(snapshot: Snapshot, pod: Pod) -> None:
    """Delete the claims that a deleted pod owned, and remove the pod from reservedFor of its shared claims.

    Mirrors the garbage collector, and syncClaim of the resource claim controller (v1.36): a claim that no pod uses
    is deallocated.
    """
    claims = snapshot.objects.resource_claims
    for key in claim_keys(pod):
        claim = claims.get(key)
        if claim is None:
            continue
        owner, before = claim.metadata.controller, claim.status.reserved_for or []
        left = [one for one in before if one.uid != pod.metadata.uid]
        if owner is not None and owner.uid == pod.metadata.uid:
            snapshot.remove("ResourceClaim", key)
        elif len(left) < len(before):
            status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            snapshot.put("ResourceClaim", replace(claim, status=status))
