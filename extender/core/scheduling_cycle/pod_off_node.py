"""Take a pod off its node while it is diagnosed, so that its own requests, ports and devices do not count against it.

Rule: all objects are put back in their previous order.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from extender.core.scheduling_cycle.reserve import claim_keys
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import ResourceClaimStatus
from extender.k8s.kinds import key_of
from extender.k8s.objects import Pod, PodStatus


@contextmanager
def pod_removed_from_node(snapshot: Snapshot, pod: Pod) -> Iterator[Pod]:
    """Yield the pod as it was before it was scheduled; inside the `with` block the snapshot holds that version.

    Its claims keep devices that other pods use, too, and its volume claims keep their volumes, as if the pod were
    created again.
    """
    known = key_of("Pod", pod) in snapshot.objects.pods
    claims = {key: claim for key in claim_keys(pod) if (claim := snapshot.objects.resource_claims.get(key)) is not None}
    status = PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
    before = replace(pod, spec=replace(pod.spec, node_name=""), status=status)
    extended = pod.status.extended_resource_claim_status
    for key, claim in claims.items():
        if extended is not None and key == (pod.metadata.namespace, extended.resource_claim_name):
            snapshot.remove("ResourceClaim", key)  # kube-scheduler created it for this pod
            continue
        users = claim.status.reserved_for or []
        others = [user for user in users if user.uid != pod.metadata.uid]
        if len(others) < len(users):
            released = replace(claim.status, reserved_for=others) if others else ResourceClaimStatus()
            snapshot.put("ResourceClaim", replace(claim, status=released))
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
