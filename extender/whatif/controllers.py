"""Recreate evicted pods as their controllers would, and create the pods of a StatefulSet in order.

A StatefulSet recreates a pod under the same name, every other controller under a new name; pods of a DaemonSet are
pinned to their node by their own affinity. Pods without a controller are lost, as are mirror pods, which the kubelet
of their node creates. A replacement is Ready as soon as it is bound, so that the disruption budgets that select it
count it again.

Rule: nothing is decided here; the snapshot is modified and stays consistent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from msgspec.structs import replace

from extender.admission.names import SUFFIX_LENGTH, generated_names
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import ResourceClaim, ResourceClaimStatus
from extender.k8s.kinds import Key, key_of
from extender.k8s.objects import Object, ObjectMeta, Pod, PodResourceClaimStatus, PodStatus
from extender.k8s.storage.objects import PersistentVolumeClaim, PhaseStatus
from extender.k8s.storage.volumes import BETA_CLASS, claim_uses, is_for_pod
from extender.k8s.workloads import is_recreated
from extender.report.simulation_schema import EvictionCause
from extender.whatif import effects

DAEMON_SET, STATEFUL_SET = "DaemonSet", "StatefulSet"

MAX_RECREATIONS: Final = 10
"""Maximum number of recreations of a pod: without it, pods that preempt each other in turn would never stop."""


def is_of_daemon_set(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == DAEMON_SET


def comes_back(pod: Pod) -> bool:
    """Return whether the pod's controller creates another one once it is evicted."""
    if not is_recreated(pod) or is_finished(pod):
        return False
    owner = pod.metadata.controller
    # The controller of a terminating pod has created its successor already; only a StatefulSet waits for the name.
    return pod.metadata.deletion_timestamp is None or (owner is not None and owner.kind == STATEFUL_SET)


class NameGenerator:
    """Generates pod names that are not in the snapshot yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._names: dict[Key, Iterator[str]] = {}

    def next(self, namespace: str, prefix: str) -> str:
        """Return the next free name that begins with the prefix."""
        names = self._names.setdefault((namespace, prefix), generated_names(prefix))
        taken = self._snapshot.objects.pods
        return next(name for name in names if (namespace, name) not in taken)


@dataclass(slots=True)
class Recreation:
    """The replacement of an evicted pod."""

    pod: Key
    uid: str
    of: str
    """Key of the evicted pod."""
    cause: EvictionCause
    old_node: str
    times: int
    """Number of recreations of the pod so far, including this one."""
    empty_selector: str
    """`PreemptionPolicy.empty_selector` with which the eviction was counted."""
    is_ready: bool = False


class Controllers:
    """The controllers of a simulated cluster."""

    def __init__(self, snapshot: Snapshot, *, recreate: bool = True) -> None:
        """`recreate`: whether evicted pods come back."""
        self.snapshot = snapshot
        self.names = NameGenerator(snapshot)
        self.recreated: list[Recreation] = []
        """Replacements in the order of their creation."""
        self.given_up: list[str] = []
        """Keys of pods that were evicted more than MAX_RECREATIONS times."""
        self.waiting: dict[Key, list[Pod]] = {}
        """Pod -> later pods of its StatefulSet, which are created one by one once the pod is Ready."""
        self._recreate = recreate
        self._current: dict[Key, Recreation] = {}
        self._numbers = count(1)

    def evict(self, victims: Sequence[Pod], cause: EvictionCause, empty_selector: str) -> list[Pod]:
        """Evict the pods, and return the replacements that controllers create in the snapshot."""
        # Before the eviction, which deletes the claims that the replacements copy.
        created = [self._replacement(pod) for pod in victims if self._recreates(pod, cause)]
        effects.evict(self.snapshot, victims, empty_selector)
        for victim, pod, objects in created:
            for kind, one in objects:
                self.snapshot.put(kind, one)
            self.snapshot.put("Pod", pod)
            self._remember(victim, pod, cause, empty_selector)
        return [pod for _, pod, _ in created]

    def bound(self, pod: Pod) -> list[Pod]:
        """Make a bound pod Ready if it is a replacement; create and return the pod that waits for it, if any."""
        key = key_of("Pod", pod)
        recreation = self._current.get(key)
        if recreation is not None and not recreation.is_ready:
            recreation.is_ready = True
            effects.make_ready(self.snapshot, self.snapshot.objects.pods[key], recreation.empty_selector)
        later = self.waiting.pop(key, [])
        return self.create_in_order(later)

    def create_in_order(self, pods: Sequence[Pod]) -> list[Pod]:
        """Create the first pod now, and each later pod once its predecessor is Ready; return the first."""
        if not pods:
            return []
        first, *later = pods
        self.snapshot.put("Pod", first)
        if later:
            self.waiting[key_of("Pod", first)] = later
        return [first]

    def forget(self, recreated: int) -> None:
        """Forget all replacements after the first `recreated`: their creation was undone."""
        for one in self.recreated[recreated:]:
            self._current.pop(one.pod, None)
        del self.recreated[recreated:]

    def _recreates(self, pod: Pod, cause: EvictionCause) -> bool:
        if not self._recreate or not comes_back(pod) or (cause == "NodeRemoved" and is_of_daemon_set(pod)):
            return False
        before = self._current.get(key_of("Pod", pod))
        if before is not None and before.times >= MAX_RECREATIONS:
            self.given_up.append(pod.key)
            return False
        return True

    def _remember(self, victim: Pod, pod: Pod, cause: EvictionCause, empty_selector: str) -> None:
        before = self._current.pop(key_of("Pod", victim), None)
        times = before.times + 1 if before is not None else 1
        key = key_of("Pod", pod)
        self._current[key] = Recreation(
            key, pod.metadata.uid, victim.key, cause, victim.spec.node_name, times, empty_selector
        )
        self.recreated.append(self._current[key])

    def _replacement(self, victim: Pod) -> tuple[Pod, Pod, list[tuple[str, Object]]]:
        """Return the evicted pod, its replacement, and the claims that are created for the replacement."""
        old, owner = victim.metadata, victim.metadata.controller
        assert owner is not None
        name = old.name
        if owner.kind != STATEFUL_SET:
            # Keep the prefix of the evicted pod's name: pods of a Deployment have the prefix of their ReplicaSet.
            is_generated = name.startswith(f"{owner.name}-") and len(name) > len(owner.name) + SUFFIX_LENGTH
            prefix = name[:-SUFFIX_LENGTH] if is_generated else f"{owner.name}-"
            name = self.names.next(old.namespace, prefix)
        metadata = ObjectMeta(
            name=name,
            namespace=old.namespace,
            # The number tells a StatefulSet's pod from its predecessor of the same name.
            uid=f"{old.namespace}/{name}#{next(self._numbers)}",
            labels=old.labels,
            annotations=old.annotations,
            owner_references=old.owner_references,
        )
        pod = Pod(metadata, replace(victim.spec, node_name=""), PodStatus(phase="Pending"))
        statuses, claims = self._resource_claims(victim, pod)
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=statuses or None))
        return victim, pod, [*claims, *self._volume_claims(victim, pod)]

    def _resource_claims(
        self, victim: Pod, pod: Pod
    ) -> tuple[list[PodResourceClaimStatus], list[tuple[str, ResourceClaim]]]:
        """Return the pod's claim statuses, and new claims with the specs of the evicted pod's claims."""
        claims, statuses, created = self.snapshot.objects.resource_claims, [], []
        for one in victim.status.resource_claim_statuses or ():
            before = claims.get((victim.metadata.namespace, one.resource_claim_name or ""))
            if before is None:
                statuses.append(one)
                continue
            name = f"{pod.metadata.name}-{one.name}-{next(self._numbers)}"
            claim = ResourceClaim(_owned(before.metadata, pod, name), before.spec, ResourceClaimStatus())
            statuses.append(replace(one, resource_claim_name=name))
            created.append(("ResourceClaim", claim))
        return statuses, created

    def _volume_claims(self, victim: Pod, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim]]:
        """Yield unbound claims for the pod's ephemeral volumes, with the specs of the evicted pod's claims."""
        claims, namespace = self.snapshot.objects.claims, pod.metadata.namespace
        for old, new in zip(claim_uses(victim), claim_uses(pod), strict=True):
            before = claims.get((namespace, old.name)) if old.is_ephemeral else None
            if before is not None and is_for_pod(before, victim):
                kept = {name: text for name, text in (before.metadata.annotations or {}).items() if name == BETA_CLASS}
                metadata = replace(_owned(before.metadata, pod, new.name), annotations=kept or None)
                yield (
                    "PersistentVolumeClaim",
                    PersistentVolumeClaim(metadata, replace(before.spec, volume_name=""), PhaseStatus("Pending")),
                )


def _owned(before: ObjectMeta, pod: Pod, name: str) -> ObjectMeta:
    """Return the metadata of a claim that the pod owns."""
    owners = [
        replace(one, name=pod.metadata.name, uid=pod.metadata.uid) if one.controller else one
        for one in before.owner_references or ()
    ]
    return replace(before, name=name, uid=f"{before.namespace}/{name}#{pod.metadata.uid}", owner_references=owners)
