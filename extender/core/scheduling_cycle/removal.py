"""Take a pod off its node for as long as it is diagnosed: its own room, ports and devices do not count against it.

Rule: everything is put back, in the same order as before.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from extender.core.scheduling_cycle.reserve import claim_keys
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import ResourceClaim, ResourceClaimStatus
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Pod, PodStatus


@contextmanager
def pod_removed_from_node(snapshot: Snapshot, pod: Pod) -> Iterator[Pod]:
    """Yield the pod as it was before it got its node; the snapshot holds it so until the end.

    Its claims keep the devices that other pods use too, and its volume claims their volumes: a pod that came back
    would find them as they are.
    """
    known = key_of("Pod", pod) in snapshot.objects.pods
    claims = {key: claim for key in claim_keys(pod) if (claim := snapshot.objects.resource_claims.get(key)) is not None}
    status = PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
    before = replace(pod, spec=replace(pod.spec, node_name=""), status=status)
    for key, claim in claims.items():
        _release(snapshot, pod, key, claim)
    snapshot.put("Pod", before)
    snapshot.refresh_layout()
    try:
        yield before
    finally:
        for claim in claims.values():
            snapshot.put("ResourceClaim", claim)
        if known:
            snapshot.put("Pod", pod)
        else:
            snapshot.remove("Pod", key_of("Pod", pod))
        snapshot.refresh_layout()


def _release(snapshot: Snapshot, pod: Pod, key: Key, claim: ResourceClaim) -> None:
    """Take the pod out of the claim's users; the claim that kube-scheduler made for its extended resources goes."""
    extended = pod.status.extended_resource_claim_status
    if extended is not None and key == (pod.metadata.namespace, extended.resource_claim_name):
        snapshot.remove("ResourceClaim", key)
        return
    users = claim.status.reserved_for or []
    others = [user for user in users if user.uid != pod.metadata.uid]
    if len(others) < len(users):
        status = replace(claim.status, reserved_for=others) if others else ResourceClaimStatus()
        snapshot.put("ResourceClaim", replace(claim, status=status))
