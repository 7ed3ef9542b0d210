"""What becomes of the cluster when a pod is bound, is nominated, or is evicted: the objects that change, and how.

As the components that see to it would leave them: kube-scheduler, the API server, the volume controller and the
disruption controller, at once and without fail.

Rule: nothing is decided here; the snapshot is changed and settled.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from extender.core.framework.plugins.volume_binding import NONE, matched
from extender.core.preemption.pdb.index import Charging
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

# --- a pod that waits -----------------------------------------------------------------------------------------------


def nominate(snapshot: Snapshot, pod: Pod, node: str) -> Pod:
    """Room is reserved for it there; "": nowhere."""
    if pod.status.nominated_node_name == node:
        return pod
    nominated: Pod = replace(pod, status=replace(pod.status, nominated_node_name=node))
    snapshot.put("Pod", nominated)
    return nominated


def clear_nominations(snapshot: Snapshot, preemptor: Pod, node: str, schedulers: frozenset[str]) -> list[Pod]:
    """Pods of lower priority lose the room that was reserved for them there (getLowerPriorityNominatedPods, v1.36).

    Of the preemptor's own scheduler, or of `schedulers` -> those pods.
    """
    own = schedulers or {preemptor.spec.scheduler_name}
    lower = [
        pod
        for pod in snapshot.nominees
        if pod.status.nominated_node_name == node and pod.priority < preemptor.priority
        if pod.spec.scheduler_name in own
    ]
    return [nominate(snapshot, pod, "") for pod in lower]


# --- a pod that is bound --------------------------------------------------------------------------------------------


def bind(snapshot: Snapshot, pod: Pod, node: str) -> Pod:
    """It runs there from now on, and its claims have the volumes that they get there."""
    for claim, volume in list(_bindings(snapshot, pod, snapshot.node_row[node])):
        _bind_claim(snapshot, claim, volume, node)
    spec, status = replace(pod.spec, node_name=node), replace(pod.status, nominated_node_name="")
    bound: Pod = replace(pod, spec=spec, status=status)
    snapshot.put("Pod", bound)
    snapshot.settle()
    return bound


def _bindings(
    snapshot: Snapshot, pod: Pod, node: int
) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume | None]]:
    """Each claim that waits for the pod to have a node, with its volume there; None: one is to be made for it.

    The smallest claims choose first, the smallest volumes (volumebinding.findMatchingVolumes, v1.36).
    """
    found = (storage(snapshot).claim(pod, use.name) for use in claim_uses(pod))
    waiting = {key_of("PersistentVolumeClaim", one): one for one in found if one is not None and not is_bound(one)}
    free = [one for one in waiting.values() if SELECTED_NODE not in (one.metadata.annotations or {})]
    for claim, volumes in matched(snapshot, free):
        row = int(volumes[node])
        yield claim, None if row == NONE else storage(snapshot).numbered[row]


def _bind_claim(snapshot: Snapshot, claim: PersistentVolumeClaim, volume: PersistentVolume | None, node: str) -> None:
    """To a volume that is there; or to one that will be made for the node, and is not there yet."""
    noted = {BIND_COMPLETED: "yes"} if volume is not None else {SELECTED_NODE: node}
    metadata = replace(claim.metadata, annotations={**(claim.metadata.annotations or {}), **noted})
    if volume is None:
        snapshot.put("PersistentVolumeClaim", replace(claim, metadata=metadata))
        return
    about, spec = claim.metadata, replace(claim.spec, volume_name=volume.metadata.name)
    reference = ObjectReference(about.namespace, about.name, about.uid)
    held = replace(volume, spec=replace(volume.spec, claim_ref=reference), status=PhaseStatus("Bound"))
    snapshot.put("PersistentVolume", held)
    snapshot.put("PersistentVolumeClaim", replace(claim, metadata=metadata, spec=spec, status=PhaseStatus("Bound")))


# --- pods that are evicted ------------------------------------------------------------------------------------------


def budgets_of(snapshot: Snapshot, pod: Pod, empty_selects: str) -> tuple[str, ...]:
    """`namespace/name` of the disruption budgets that the loss of a running pod charges, sorted."""
    charging, row = snapshot.index(Charging, empty_selects), snapshot.running_row(pod)
    return () if row is None else tuple(sorted(charging.names[budget] for budget in charging.charged_by(row)))


def evict(snapshot: Snapshot, victims: Sequence[Pod], empty_selects: str) -> None:
    """They are gone, and so is what their budgets allowed for them."""
    lost: Counter[str] = Counter()
    for victim in victims:
        if victim.metadata.deletion_timestamp is None:  # whoever was leaving already has been charged before
            lost.update(_charged(snapshot, victim, empty_selects))
    for name, count in lost.items():
        namespace, _, own = name.partition("/")
        _spend(snapshot, snapshot.objects.budgets[namespace, own], count)
    for victim in victims:
        snapshot.remove("Pod", key_of("Pod", victim))
    snapshot.settle()


def _charged(snapshot: Snapshot, victim: Pod, empty_selects: str) -> Iterator[str]:
    """The disruption controller counts healthy pods only; where nobody counted any, every pod counts."""
    for name in budgets_of(snapshot, victim, empty_selects):
        namespace, _, own = name.partition("/")
        if victim.is_ready or not snapshot.objects.budgets[namespace, own].status.current_healthy:
            yield name


def _spend(snapshot: Snapshot, budget: PodDisruptionBudget, count: int) -> None:
    status = budget.status
    left = replace(
        status,
        disruptions_allowed=max(0, status.disruptions_allowed - count),
        current_healthy=max(0, status.current_healthy - count),
    )
    snapshot.put("PodDisruptionBudget", replace(budget, status=left))
