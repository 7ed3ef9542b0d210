"""VolumeBinding: the node must have access to the volumes of the pod's bound claims; each unbound claim needs a volume
that is available or can be provisioned there.

Mirrors pkg/scheduler/framework/plugins/volumebinding (v1.36).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.plugins.shared.normalize import interpolate
from extender.core.framework.plugins.shared.volume_matching import NO_VOLUME_ROW, affinity_matches, match_volumes
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import PreFilterResult, filter_error
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, NodeRows
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_with_labels
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import is_migrated, not_found, storage
from extender.k8s import quantity
from extender.k8s.selectors import (
    LABEL_OPERATORS,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    requirement,
)
from extender.k8s.storage.csi_migration import migrated_affinity, migration_of, translation_error
from extender.k8s.storage.objects import PersistentVolumeClaim, StorageClass
from extender.k8s.storage.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_uses,
    has_storage_request,
    is_bound,
    is_for_pod,
    not_for_pod_message,
    requested_storage,
    selected_node,
    storage_capacity,
)
from extender.k8s.well_known import HOSTNAME

NAME = "VolumeBinding"
REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
REASONS_UNTIL_1_32 = ("node(s) had volume node affinity conflict", *REASONS[1:])
REASON_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST = (1 << bit for bit in range(len(REASONS)))

ReasonBits = npt.NDArray[np.int64]
"""[node]: bits of the REASONS that apply; 0 if the node fits."""


# --- the pod's claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """The pod's claims by binding state (upstream: PodVolumeClaims)."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    unbound: tuple[PersistentVolumeClaim, ...] = ()
    """Claims whose binding waits until the pod has a node (WaitForFirstConsumer)."""


def pod_claims(context: SchedulingContext) -> PodVolumeClaims | str:
    """Return the pod's claims in the order of its volumes, or the reason why they make the pod unschedulable."""
    if not context.pod.spec.volumes:
        return PodVolumeClaims()
    found, bound, unbound, has_unbound_immediate = storage(context.snapshot), [], [], False
    for use in claim_uses(context.pod):
        # 1. podHasPVCs: the claim exists and belongs to the pod.
        claim = found.claim(context.pod, use.name)
        if claim is None and use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        if claim is None:
            return not_found("persistentvolumeclaim", use.name)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral and not is_for_pod(claim, context.pod):
            return not_for_pod_message(claim, context.pod)
        # 2. GetPodVolumeClaims: bound, to bind once the pod has a node (IsDelayBindingMode), or unbound immediate.
        storage_class = None if claim.spec.volume_name else found.storage_class(claim_class(claim))
        if is_bound(claim):
            bound.append(claim)
        elif storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            unbound.append(claim)
        else:
            has_unbound_immediate = True
    return REASON_UNBOUND if has_unbound_immediate else PodVolumeClaims(tuple(bound), tuple(unbound))


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim is missing, lost, being deleted, for a different pod, or unbound in Immediate mode."""
    claims = pod_claims(context)
    if isinstance(claims, str):
        return PreFilterResult.rejecting(NAME, claims)
    return PreFilterResult(nodes_of_host_names(context, claims.bound))


def nodes_of_host_names(context: SchedulingContext, bound: Sequence[PersistentVolumeClaim]) -> frozenset[str] | None:
    """Return the host names that all bound volumes allow; None for all nodes (GetEligibleNodes, v1.31.0)."""
    # Two upstream bugs: it takes hostname labels for node names, and ignores a volume's terms without host names.
    left: frozenset[str] | None = None
    for claim in bound if context.features.host_names_of_volumes_are_node_names else ():
        volume = storage(context.snapshot).volume(claim.spec.volume_name)
        if volume is None:
            return None
        affinity = volume.spec.node_affinity
        terms = affinity.required.node_selector_terms if affinity and affinity.required else None
        names = set[str]()
        for term in terms or ():
            on_hosts = [one for one in term.match_expressions or () if one.key == HOSTNAME and one.operator == "In"]
            allowed = [set(one.values or ()) for one in on_hosts]
            names |= set.intersection(*allowed) if allowed else set()
        if names:
            left = frozenset(names) if left is None else left & names
    return left


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return the checks that report errors, then one check per distinct set of reasons."""
    claims = pod_claims(context)
    if isinstance(claims, str) or not (claims.bound or claims.unbound):
        return ()
    # FindPodVolumes: 1. bound claims, 2. unbound claims. The reasons of both are reported together.
    bits = check_bound(context.snapshot, claims.bound) | _check_unbound(context.snapshot, claims.unbound)
    reasons = REASONS if context.features.volume_affinity_reason_of_1_33 else REASONS_UNTIL_1_32
    checks = [
        StaticCheck(NAME, bits == found, tuple(reason for bit, reason in enumerate(reasons) if found >> bit & 1))
        for found in np.unique(bits).tolist()
        if found
    ]
    errors = (*_translation_errors(context.snapshot, claims.bound), *_attributes_class_errors(context, claims.unbound))
    return (*errors, *checks)


def _attributes_class_errors(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim]
) -> tuple[StaticCheck, ...]:
    """Fail on the nodes where an unbound claim with an attributes class is matched, if the gate is off."""
    features = context.features
    if features.volume_attributes_class or features.volume_attributes_class_is_ignored:
        return ()
    failing = [one for one in claims if one.spec.volume_attributes_class_name and selected_node(one) is None]
    if not failing:
        return ()
    first = min(failing, key=requested_storage)  # the first of equal size, as upstream sorts claims by size
    message = (
        f"unsupported volumeAttributesClassName is set on claim {first.metadata.namespace}/{first.metadata.name} "
        "when the feature-gate VolumeAttributesClass is disabled"
    )
    # No claims are matched on nodes that a claim's selected node excludes.
    selected = {node for one in claims if (node := selected_node(one)) is not None}
    fails = np.full(len(context.snapshot.nodes), not selected, np.bool_)
    if len(selected) == 1 and (row := context.snapshot.node_row.get(selected.pop())) is not None:
        fails[row] = True
    return (StaticCheck.of(filter_error(NAME, message), fails),)


def _translation_errors(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> Iterator[StaticCheck]:
    """Fail on the nodes where a bound volume must be, but cannot be, translated to CSI (checkBoundClaims)."""
    for number, claim in enumerate(claims):
        volume = storage(snapshot).volume(claim.spec.volume_name)
        error = translation_error(volume) if volume is not None else None
        migration = migration_of(volume) if volume is not None else None
        if error is not None and migration is not None:
            fails = is_migrated(snapshot, migration.plugin) & (check_bound(snapshot, claims[:number]) == 0)
            yield StaticCheck.of(filter_error(NAME, f"could not translate pv: {error}"), fails)


# --- bound claims ---------------------------------------------------------------------------------------------------


def check_bound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> ReasonBits:
    """Check the volumes of bound claims (checkBoundClaims): the first claim with a problem sets the reason."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    for claim in claims:
        volume = storage(snapshot).volume(claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = PV_NOT_EXIST
            continue
        has_access, migration = affinity_matches(snapshot, volume.spec.node_affinity), migration_of(volume)
        if migration is not None and migration.topology_key:
            # On nodes where the in-tree plugin is migrated to a CSI driver, the driver's topology key decides.
            migrated = affinity_matches(snapshot, migrated_affinity(volume, migration.topology_key))
            has_access = np.where(is_migrated(snapshot, migration.plugin), migrated, has_access)
        bits[(bits == 0) & ~has_access] = NODE_CONFLICT
    return bits


# --- unbound claims -------------------------------------------------------------------------------------------------


def _check_unbound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> ReasonBits:
    """Check unbound claims: each needs an available volume, or a provisioner that can create one, on the node."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    for _, own in unbound_problems(snapshot, claims):
        bits = np.where(bits == 0, own, bits)
        if bits.all():
            break
    return bits


def unbound_problems(
    snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]
) -> Iterator[tuple[PersistentVolumeClaim, ReasonBits]]:
    """Yield unbound claims with [node]: the reason why the claim gets no volume there; of several, the first counts."""
    # 1. A claim with a selected node is provisioned only there.
    to_provision, without_node = [], []
    for claim in claims:
        node = selected_node(claim)
        if node is None:
            without_node.append(claim)
            continue
        is_selected = np.arange(len(snapshot.nodes)) == snapshot.node_row.get(node, -1)
        yield claim, np.where(is_selected, 0, BIND_CONFLICT)
        to_provision.append((claim, is_selected))
    # 2. Claims without a selected node get available volumes (findMatchingVolumes).
    unmatched = ((claim, volumes == NO_VOLUME_ROW) for claim, volumes in match_volumes(snapshot, without_node))
    # 3. Without an available volume, one must be provisioned (checkVolumeProvisions).
    for claim, nodes in chain(to_provision, unmatched):
        if nodes.any():
            yield claim, np.where(nodes, _check_provision(snapshot, claim), 0)


# --- provisioning ---------------------------------------------------------------------------------------------------


def _check_provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> ReasonBits:
    """Return [node]: reasons why the claim's volume cannot be provisioned there (checkVolumeProvisions)."""
    found = provisioning(snapshot, claim_class(claim))
    if found is None:
        return np.full(len(snapshot.nodes), BIND_CONFLICT)
    in_allowed_topology, capacity = found
    space = np.zeros(len(snapshot.nodes), np.int64)
    if capacity is not None and has_storage_request(claim):
        space[capacity.largest < quantity.value(requested_storage(claim))] = NOT_ENOUGH_SPACE
    return np.where(in_allowed_topology, space, BIND_CONFLICT)


class PublishedCapacity(NamedTuple):
    """CSIStorageCapacity for volumes of one class."""

    largest: IntArray
    """[node]: bytes of the largest possible volume; negative if no capacity is published there."""
    total: IntArray
    """[node]: bytes of that CSIStorageCapacity in total."""
    number: IntArray
    """[node]: index in `texts`."""
    texts: list[str]
    """The largest possible volumes as quantities."""


@derived_by("nodes", "storage_classes", "csi_drivers", "csi_storage_capacities")
def provisioning(snapshot: Snapshot, name: str) -> tuple[BoolArray, PublishedCapacity | None] | None:
    """Return ([node]: whether it matches the class's allowedTopologies, capacity if the driver publishes it).

    None if the class provisions no volumes.
    """
    storage_class = snapshot.objects.storage_classes["", name]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return None
    return _in_allowed_topology(snapshot, storage_class), _capacity(snapshot, storage_class)


def _in_allowed_topology(snapshot: Snapshot, storage_class: StorageClass) -> BoolArray:
    """Return [node]: whether an allowedTopologies term matches or the class has none (MatchTopologySelectorTerms)."""
    terms = storage_class.allowed_topologies or ()
    found = np.full(len(snapshot.nodes), not terms, np.bool_)
    for term in terms:
        try:
            requirements = [
                requirement(e.key, "In", e.values, LABEL_OPERATORS) for e in term.match_label_expressions or ()
            ]
        except SelectorError:
            continue
        if requirements:
            found |= nodes_with_labels(snapshot, LabelMatcher(tuple(requirements)))
    return found


def _capacity(snapshot: Snapshot, storage_class: StorageClass) -> PublishedCapacity | None:
    """Return the capacity for volumes of the class; None if the driver publishes none (hasEnoughCapacity, v1.36)."""
    # Divergence: if several capacities are large enough, upstream takes any of them; here the largest is scored.
    objects = snapshot.objects
    driver = objects.csi_drivers.get(("", storage_class.provisioner))
    if driver is None or not driver.spec.storage_capacity:
        return None
    largest, texts = np.full(len(snapshot.nodes), -NEVER), list[str]()
    total, number = np.zeros((2, len(snapshot.nodes)), np.int64)
    for capacity in objects.csi_storage_capacities.values():
        limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        if capacity.storage_class_name != storage_class.metadata.name or limit is None:
            continue
        # If nodeTopology is unset or does not parse, no node has access.
        with suppress(SelectorError):
            usable = nodes_with_labels(snapshot, compile_label_selector(capacity.node_topology))
            size = quantity.value(quantity.parse(limit))
            usable &= largest < size
            largest[usable] = size
            total[usable] = quantity.value(quantity.parse(capacity.capacity))
            number[usable] = len(texts)
            texts.append(str(limit))
    return PublishedCapacity(largest, total, number, texts)


# --- score ----------------------------------------------------------------------------------------------------------


class _ClassUse:
    """Storage of one class on each node: bytes that the pod's claims request, and capacity."""

    def __init__(self, size: int) -> None:
        self.requested, self.capacity = np.zeros(size, np.int64), np.zeros(size, np.int64)
        """[node]: bytes."""
        self.is_used = np.zeros(size, np.bool_)
        """[node]: True if one of the claims takes storage there."""

    def add(self, claim: PersistentVolumeClaim, nodes: BoolArray, capacity: IntArray) -> None:
        """Add the claim's request on `nodes` [node]; `capacity`: [node]: new capacity for all claims added so far."""
        self.is_used |= nodes
        self.requested += nodes * quantity.value(requested_storage(claim))
        self.capacity = np.where(nodes, capacity, self.capacity)

    def score(self, shape: tuple[tuple[int, int], ...]) -> IntArray:
        """Return [node]: 0-100 by the shape; 0 if the class is not used there."""
        is_over = (self.capacity == 0) | (self.requested > self.capacity)
        utilization = np.where(is_over, 100, self.requested * 100 // np.maximum(self.capacity, 1))
        return np.where(self.is_used, interpolate(shape, utilization), 0)


def score(context: SchedulingContext, rows: NodeRows) -> IntArray | None:
    """Return [row]: 0-100, mean of the scores per storage class; None (Skip) without StorageCapacityScoring."""
    if not context.features.storage_capacity_scoring:
        return None
    claims, scores = pod_claims(context), np.zeros(len(rows), np.int64)
    if isinstance(claims, str) or not claims.unbound or NAME not in context.profile.filter_plugins:
        return scores
    matched, provisioned = _uses(context.snapshot, claims.unbound)
    size = len(context.snapshot.nodes)
    is_matched = sum((use.is_used for use in matched), np.zeros(size, np.bool_))
    # A node with matching volumes is scored by these, any other node by its capacity for provisioning.
    for uses, nodes in ((matched, is_matched), (provisioned, ~is_matched)):
        count = sum((use.is_used for use in uses), np.zeros(size, np.int64))
        total = sum((use.score(context.profile.volume_binding_shape) for use in uses), np.zeros(size, np.int64))
        of_rows = nodes[rows] & (count[rows] > 0)
        scores[of_rows] = ((2 * total + count) // np.maximum(2 * count, 1))[rows][of_rows]  # rounded half up
    return scores


def _uses(
    snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]
) -> tuple[Collection[_ClassUse], Collection[_ClassUse]]:
    """Return the claims' use of matching volumes, and of capacity for provisioning: one entry per class each."""
    size, volumes = len(snapshot.nodes), storage(snapshot).by_number
    matched = defaultdict[str, _ClassUse](lambda: _ClassUse(size))
    provisioned = defaultdict[str, _ClassUse](lambda: _ClassUse(size))
    everywhere = np.ones(size, np.bool_)
    to_provision = [(claim, everywhere) for claim in claims if selected_node(claim) is not None]
    for claim, matches in match_volumes(snapshot, [one for one in claims if selected_node(one) is None]):
        numbers, index = np.unique(matches, return_inverse=True)
        sizes = [quantity.value(storage_capacity(volumes[one])) if one in volumes else 0 for one in numbers.tolist()]
        use = matched[claim_class(claim)]
        use.add(claim, matches != NO_VOLUME_ROW, use.capacity + np.array(sizes, np.int64)[index])
        to_provision.append((claim, matches == NO_VOLUME_ROW))
    for claim, nodes in to_provision:
        found = provisioning(snapshot, claim_class(claim))
        if found is not None and found[1] is not None and has_storage_request(claim):
            provisioned[claim_class(claim)].add(claim, nodes, found[1].total)
    return matched.values(), provisioned.values()
