"""VolumeBinding: the node must have access to the volumes of the pod's bound claims; each unbound claim needs an
available volume there, or one that can be provisioned.

Mirrors pkg/scheduler/framework/plugins/volumebinding (v1.36).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import NodeRows, SchedulingContext, StaticCheck
from extender.core.framework.plugins.volume_matching import NO_VOLUME_ROW, affinity_matches, match_volumes
from extender.core.framework.status import PreFilterResult, filter_error
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_with_labels
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s import quantity
from extender.k8s.selectors import (
    LABEL_OPERATORS,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    requirement,
)
from extender.k8s.storage.csi_migration import MIGRATED_PLUGINS, migrated_affinity, migration_of
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
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
)

NAME = "VolumeBinding"
REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
REASONS_UNTIL_1_32 = ("node(s) had volume node affinity conflict", *REASONS[1:])
REASON_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

_NODE_CONFLICT, _BIND_CONFLICT, _NOT_ENOUGH_SPACE, _PV_NOT_EXIST = (1 << bit for bit in range(len(REASONS)))

ReasonBits = npt.NDArray[np.int64]
"""[node]: the REASONS that apply, as bits; 0: the node fits."""


# --- the pod's claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Claims:
    """The pod's claims by binding state (upstream: PodVolumeClaims)."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    unbound: tuple[PersistentVolumeClaim, ...] = ()
    """Claims whose binding waits until the pod has a node (WaitForFirstConsumer)."""


def _claims(context: SchedulingContext) -> _Claims | str:
    """Return the pod's claims in the order of its volumes, or a message why the pod cannot be scheduled with them."""
    if not context.pod.spec.volumes:
        return _Claims()
    found, bound, unbound, has_unbound_immediate = storage(context.snapshot), [], [], False
    for use in claim_uses(context.pod):
        claim = found.claim(context.pod, use.name)
        if claim is None and use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        if claim is None:
            return not_found("persistentvolumeclaim", use.name)
        problem = _claim_problem(context, claim, is_ephemeral=use.is_ephemeral)
        if problem is not None:
            return problem
        storage_class = None if claim.spec.volume_name else found.storage_class(claim_class(claim))
        if is_bound(claim):
            bound.append(claim)
        elif storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            unbound.append(claim)  # bound only after its pod has a node (volume.IsDelayBindingMode)
        else:
            has_unbound_immediate = True  # reported only if no claim has a problem that takes precedence
    return REASON_UNBOUND if has_unbound_immediate else _Claims(tuple(bound), tuple(unbound))


def _claim_problem(context: SchedulingContext, claim: PersistentVolumeClaim, *, is_ephemeral: bool) -> str | None:
    """Return why the claim is unusable, or None."""
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and not is_for_pod(claim, context.pod):
        return not_for_pod_message(claim, context.pod)
    return None


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """Reject the pod if a claim is missing, lost, being deleted, of another pod, or unbound in Immediate mode."""
    claims = _claims(context)
    return PreFilterResult.rejecting(NAME, claims) if isinstance(claims, str) else PreFilterResult()


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """Return one check per distinct set of reasons."""
    claims = _claims(context)
    if isinstance(claims, str) or not (claims.bound or claims.unbound):
        return ()
    bits = _check_bound(context.snapshot, claims.bound) | _check_unbound(context.snapshot, claims.unbound)
    reasons = REASONS if context.features.volume_affinity_reason_of_1_33 else REASONS_UNTIL_1_32
    checks = [
        StaticCheck(NAME, bits == found, tuple(reason for bit, reason in enumerate(reasons) if found >> bit & 1))
        for found in np.unique(bits).tolist()
        if found
    ]
    return (*_attributes_class_errors(context, claims.unbound), *checks)


def _attributes_class_errors(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim]
) -> tuple[StaticCheck, ...]:
    """Fail on the nodes where an unbound claim with an attributes class is matched with volumes, if that is off.

    Nodes that the annotation of a selected node rules out are not matched.
    """
    features = context.features
    if features.volume_attributes_class or features.volume_attributes_class_is_ignored:
        return ()
    failing = [one for one in claims if one.spec.volume_attributes_class_name and selected_node(one) is None]
    if not failing:
        return ()
    first = min(failing, key=requested_storage)  # of equal ones the first, as claims are sorted by size
    message = (
        f"unsupported volumeAttributesClassName is set on claim {first.metadata.namespace}/{first.metadata.name} "
        "when the feature-gate VolumeAttributesClass is disabled"
    )
    selected = {node for one in claims if (node := selected_node(one)) is not None}
    error, fails = filter_error(NAME, message), np.full(len(context.snapshot.nodes), not selected, np.bool_)
    if len(selected) == 1 and (row := context.snapshot.node_row.get(selected.pop())) is not None:
        fails[row] = True
    return (StaticCheck(NAME, fails, error.reasons, code=error.code),)


# --- bound claims ---------------------------------------------------------------------------------------------------


def _check_bound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> ReasonBits:
    """Check the volumes of bound claims (checkBoundClaims): the first claim with a problem sets the reason."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    for claim in claims:
        volume = storage(snapshot).volume(claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = _PV_NOT_EXIST
        else:
            bits[(bits == 0) & ~_has_access(snapshot, volume)] = _NODE_CONFLICT
    return bits


def _has_access(snapshot: Snapshot, volume: PersistentVolume) -> BoolArray:
    """Return [node]: whether the node has access to a bound volume.

    On nodes where the in-tree plugin is migrated to a CSI driver, the driver's topology key decides.
    """
    in_tree, migration = affinity_matches(snapshot, volume.spec.node_affinity), migration_of(volume)
    if migration is None or not migration.topology_key:
        return in_tree
    migrated = affinity_matches(snapshot, migrated_affinity(volume, migration.topology_key))
    return np.where(_is_migrated(snapshot, migration.plugin), migrated, in_tree)


@derived_by("nodes", "csi_nodes")
def _is_migrated(snapshot: Snapshot, plugin: str) -> BoolArray:
    """Return [node]: whether its CSINode lists the in-tree plugin as migrated to CSI."""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
        plugins = (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "").split(",")
        if name in snapshot.node_row and plugin in plugins:
            found[snapshot.node_row[name]] = True
    return found


# --- unbound claims -------------------------------------------------------------------------------------------------


def _check_unbound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> ReasonBits:
    """Check unbound claims: each needs an available volume, or a provisioner that can create one there.

    Mirrors findMatchingVolumes and checkVolumeProvisions. A claim with a selected node is provisioned only there.
    """
    bits = np.zeros(len(snapshot.nodes), np.int64)
    to_provision, without_node = [], []
    for claim in claims:
        node = selected_node(claim)
        if node is None:
            without_node.append(claim)
            continue
        is_selected = np.arange(len(bits)) == snapshot.node_row.get(node, -1)
        bits[~is_selected] = _BIND_CONFLICT
        to_provision.append((claim, is_selected))
    unmatched = ((claim, volumes == NO_VOLUME_ROW) for claim, volumes in match_volumes(snapshot, without_node))
    for claim, nodes in chain(to_provision, unmatched):
        undecided = nodes & (bits == 0)
        if undecided.any():
            bits[undecided] = _check_provision(snapshot, claim)[undecided]
            if bits.all():
                break
    return bits


# --- provisioning ---------------------------------------------------------------------------------------------------


def _check_provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> ReasonBits:
    """Return [node]: the reasons why no volume of the claim's size can be provisioned there (checkVolumeProvisions)."""
    provisioning = _provisioning(snapshot, claim_class(claim))
    if provisioning is None:
        return np.full(len(snapshot.nodes), _BIND_CONFLICT)
    space = np.zeros(len(snapshot.nodes), np.int64)
    if provisioning.largest is not None and has_storage_request(claim):
        space[provisioning.largest < quantity.value(requested_storage(claim))] = _NOT_ENOUGH_SPACE
    return np.where(provisioning.in_allowed_topology, space, _BIND_CONFLICT)


@dataclass(frozen=True, slots=True)
class _Provisioning:
    """Where volumes of a storage class can be provisioned."""

    in_allowed_topology: BoolArray
    """[node]: True if it matches the class's allowedTopologies."""
    largest: IntArray | None
    """[node]: bytes of the largest volume; None if the driver does not publish capacities."""


@derived_by("nodes", "storage_classes", "csi_drivers", "csi_storage_capacities")
def _provisioning(snapshot: Snapshot, name: str) -> _Provisioning | None:
    """Return what is known of a storage class that exists; None if it provisions nothing."""
    storage_class = snapshot.objects.storage_classes["", name]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return None
    return _Provisioning(_in_allowed_topology(snapshot, storage_class), _largest_capacity(snapshot, storage_class))


def _in_allowed_topology(snapshot: Snapshot, storage_class: StorageClass) -> BoolArray:
    """Return [node]: whether any allowedTopologies term matches. All nodes match without terms.

    Mirrors v1helper.MatchTopologySelectorTerms, v1.36.
    """
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


def _largest_capacity(snapshot: Snapshot, storage_class: StorageClass) -> IntArray | None:
    """Return [node]: bytes of the largest volume that a CSIStorageCapacity which the node can use holds.

    None if the driver does not publish capacities (hasEnoughCapacity, v1.36).
    """
    objects = snapshot.objects
    driver = objects.csi_drivers.get(("", storage_class.provisioner))
    if driver is None or not driver.spec.storage_capacity:
        return None
    largest = np.full(len(snapshot.nodes), -NEVER)
    for capacity in objects.csi_storage_capacities.values():
        limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        if capacity.storage_class_name != storage_class.metadata.name or limit is None:
            continue
        # No node has access if nodeTopology is unset or does not parse.
        with suppress(SelectorError):
            usable = nodes_with_labels(snapshot, compile_label_selector(capacity.node_topology))
            largest[usable] = np.maximum(largest[usable], quantity.value(quantity.parse(limit)))
    return largest


def score(_context: SchedulingContext, _rows: NodeRows) -> IntArray | None:
    """Score by storage capacity: skipped without the feature gate StorageCapacityScoring."""
    return None
