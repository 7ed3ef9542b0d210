"""Apply the effects of binding, nominating or evicting a pod to the objects of a snapshot.

The objects change as kube-scheduler, the API server, the volume controller and the disruption controller would change
them, but at once and without failures.

Rule: nothing is decided here; the snapshot is changed and settled.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from extender.core.framework.plugins.volume_binding import NO_VOLUME_ROW, match_volumes
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import storage
from extender.k8s.kinds import key_of
from extender.k8s.objects import Pod, PodDisruptionBudget
from extender.k8s.storage.objects import ObjectReference, PersistentVolume, PersistentVolumeClaim, PhaseStatus
from extender.k8s.storage.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    claim_uses,
    is_bound,
)

# --- nomination -----------------------------------------------------------------------------------------------------


def nominate(snapshot: Snapshot, pod: Pod, node: str) -> Pod:
    """Set status.nominatedNodeName, which reserves room for the pod; "" clears it. Return the pod as it is then."""
    if pod.status.nominated_node_name == node:
        return pod
    nominated: Pod = replace(pod, status=replace(pod.status, nominated_node_name=node))
    snapshot.put("Pod", nominated)
    return nominated


def clear_nominations(snapshot: Snapshot, preemptor: Pod, node: str, schedulers: frozenset[str]) -> list[Pod]:
    """Clear the nominations of pods of lower priority to the node; return those pods.

    Mirrors getLowerPriorityNominatedPods, v1.36. It concerns pods of `schedulers`, or if that is empty of the
    preemptor's own scheduler.
    """
    own = schedulers or {preemptor.spec.scheduler_name}
    lower = [
        pod
        for pod in snapshot.nominees
        if pod.status.nominated_node_name == node and pod.priority < preemptor.priority
        if pod.spec.scheduler_name in own
    ]
    return [nominate(snapshot, pod, "") for pod in lower]


# --- binding --------------------------------------------------------------------------------------------------------


def bind(snapshot: Snapshot, pod: Pod, node: str) -> Pod:
    """Bind the pod and its unbound claims to the node. Return the bound pod."""
    for claim, volume in list(_volume_bindings(snapshot, pod, snapshot.node_row[node])):
        _bind_claim(snapshot, claim, volume, node)
    spec, status = replace(pod.spec, node_name=node), replace(pod.status, nominated_node_name="")
    bound: Pod = replace(pod, spec=spec, status=status)
    snapshot.put("Pod", bound)
    snapshot.refresh_layout()
    return bound


def _volume_bindings(
    snapshot: Snapshot, pod: Pod, node: int
) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume | None]]:
    """Yield (unbound claim, volume that it gets on the node) pairs; volume None: one will be provisioned.

    The smallest claims choose first, and choose the smallest volumes (volumebinding.findMatchingVolumes, v1.36).
    """
    found = (storage(snapshot).claim(pod, use.name) for use in claim_uses(pod))
    unbound = {key_of("PersistentVolumeClaim", one): one for one in found if one is not None and not is_bound(one)}
    free = [one for one in unbound.values() if SELECTED_NODE not in (one.metadata.annotations or {})]
    for claim, volumes in match_volumes(snapshot, free):
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


def budgets_counting(snapshot: Snapshot, pod: Pod, empty_selector: str) -> tuple[str, ...]:
    """Return `namespace/name` of the disruption budgets that a running pod's eviction counts against, sorted."""
    index, row = snapshot.index(BudgetIndex, empty_selector), snapshot.running_row(pod)
    return () if row is None else tuple(sorted(index.names[budget] for budget in index.budgets_of(row)))


def evict(snapshot: Snapshot, victims: Sequence[Pod], empty_selector: str) -> None:
    """Remove the victims and use up the disruption budgets that they count against."""
    used: Counter[str] = Counter()
    for victim in victims:
        if victim.metadata.deletion_timestamp is None:  # a terminating pod was counted when it was deleted
            used.update(_budgets_used_by(snapshot, victim, empty_selector))
    for name, count in used.items():
        namespace, _, own = name.partition("/")
        _use_up(snapshot, snapshot.objects.budgets[namespace, own], count)
    for victim in victims:
        snapshot.remove("Pod", key_of("Pod", victim))
    snapshot.refresh_layout()


def _budgets_used_by(snapshot: Snapshot, victim: Pod, empty_selector: str) -> Iterator[str]:
    """Return the budgets whose allowance shrinks by the pod.

    The disruption controller counts healthy pods only; where its status has no healthy pods at all, it may not have run
    yet, and every pod counts.
    """
    for name in budgets_counting(snapshot, victim, empty_selector):
        namespace, _, own = name.partition("/")
        if victim.is_ready or not snapshot.objects.budgets[namespace, own].status.current_healthy:
            yield name


def _use_up(snapshot: Snapshot, budget: PodDisruptionBudget, count: int) -> None:
    status = budget.status
    used_up = replace(
        status,
        disruptions_allowed=max(0, status.disruptions_allowed - count),
        current_healthy=max(0, status.current_healthy - count),
    )
    snapshot.put("PodDisruptionBudget", replace(budget, status=used_up))
