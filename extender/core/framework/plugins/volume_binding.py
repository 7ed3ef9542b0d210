"""VolumeBinding: the node must have access to the volumes of the pod's bound claims; each unbound claim needs an
available volume there, or one that can be provisioned.

Available volumes are grouped by node affinity: of those with equal affinity, only the smallest ones that suit a claim
matter.

Mirrors pkg/scheduler/framework/plugins/volumebinding and volume.FindMatchingVolume (v1.36).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import SchedulingContext, StaticCheck
from extender.core.framework.status import PreFilterResult
from extender.core.snapshot.arrays import BoolArray, Encoded, IntArray, encode
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_in_any_term, nodes_with_labels
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import not_found, storage
from extender.k8s import quantity
from extender.k8s.labels import labels_key
from extender.k8s.selectors import (
    EVERYTHING,
    LABEL_OPERATORS,
    NOTHING,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
    requirement,
)
from extender.k8s.storage.csi_migration import MIGRATED_PLUGINS, migrated_affinity, migration_of
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeNodeAffinity
from extender.k8s.storage.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_uses,
    has_storage_request,
    is_bound,
    is_compatible,
    is_for_pod,
    is_reserved_for,
    not_for_pod_message,
    requested_storage,
    storage_capacity,
    volume_class,
)

NAME = "VolumeBinding"
REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
REASON_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

_NODE_CONFLICT, _BIND_CONFLICT, _NOT_ENOUGH_SPACE, _PV_NOT_EXIST = (1 << bit for bit in range(len(REASONS)))

NO_VOLUME_ROW = -1
"""Volume row that stands for "no volume"."""

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
    return tuple(
        StaticCheck(NAME, bits == found, tuple(reason for bit, reason in enumerate(REASONS) if found >> bit & 1))
        for found in np.unique(bits).tolist()
        if found
    )


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
    in_tree, migration = _affinity_matches(snapshot, volume.spec.node_affinity), migration_of(volume)
    if migration is None or not migration.topology_key:
        return in_tree
    migrated = _affinity_matches(snapshot, migrated_affinity(volume, migration.topology_key))
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


def _affinity_matches(snapshot: Snapshot, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """Return [node]: whether the volume's node affinity matches, ignoring matchFields: upstream passes labels only."""
    if affinity is None or affinity.required is None:
        return np.ones(len(snapshot.nodes), np.bool_)
    terms = compile_node_selector(affinity.required).terms or ()
    return nodes_in_any_term(snapshot, [replace(term, fields=()) for term in terms])


# --- unbound claims -------------------------------------------------------------------------------------------------


def _check_unbound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> ReasonBits:
    """Check unbound claims: each needs an available volume, or a provisioner that can create one there.

    Mirrors findMatchingVolumes and checkVolumeProvisions. A claim with a selected node is provisioned only there.
    """
    bits = np.zeros(len(snapshot.nodes), np.int64)
    to_provision, without_node = [], []
    for claim in claims:
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if node is None:
            without_node.append(claim)
            continue
        is_selected = np.arange(len(bits)) == snapshot.node_row.get(node, -1)
        bits[~is_selected] = _BIND_CONFLICT
        to_provision.append((claim, is_selected))
    unmatched = ((claim, volumes == NO_VOLUME_ROW) for claim, volumes in match_volumes(snapshot, without_node))
    for claim, nodes in (*to_provision, *unmatched):
        undecided = nodes & (bits == 0)
        if undecided.any():
            bits[undecided] = _check_provision(snapshot, claim)[undecided]
    return bits


def match_volumes(
    snapshot: Snapshot, claims: Iterable[PersistentVolumeClaim]
) -> Iterator[tuple[PersistentVolumeClaim, IntArray]]:
    """Yield each claim, smallest first, with [node]: row of the volume that it would be bound to, or NO_VOLUME_ROW.

    `claims` have no selected node. A volume matched to one claim is not available to the next ones.
    """
    by_size = sorted(claims, key=requested_storage)
    taken: list[IntArray] = []
    for claim in by_size:
        taken.append(_find_volume(snapshot, claim, taken, at_most=len(by_size)))
        yield claim, taken[-1]


def _find_volume(snapshot: Snapshot, claim: PersistentVolumeClaim, taken: Sequence[IntArray], at_most: int) -> IntArray:
    """Return [node]: row of the claim's volume, or NO_VOLUME_ROW (volume.FindMatchingVolume).

    A volume reserved for the claim wins, else the smallest available one. If the node has no access to the reserved
    volume, the claim gets none there. `taken`: volumes matched to earlier claims of the pod; `at_most`: its claims.
    """
    found, size = storage(snapshot), len(snapshot.nodes)
    matched, may_use_others = np.full(size, NO_VOLUME_ROW), np.ones(size, np.bool_)
    for row in found.reserved_volumes(claim.metadata.namespace, claim.metadata.name):
        volume = found.by_number[row]
        is_reserved = volume_class(volume) == claim_class(claim) and is_reserved_for(volume, claim)
        if is_reserved and storage_capacity(volume) >= requested_storage(claim) and is_compatible(volume, claim):
            is_free = may_use_others & np.logical_and.reduce([one != row for one in taken], axis=0)
            matched[is_free & _affinity_matches(snapshot, volume.spec.node_affinity)] = row
            may_use_others &= ~is_free
    nodes, rows = _available_volumes(snapshot, claim, at_most)
    usable = may_use_others[nodes]
    for one in taken:
        usable &= one[nodes] != rows
    matched[nodes[usable]] = rows[usable]  # the last assignment per node wins: the smallest volume
    return matched


@dataclass(frozen=True, slots=True)
class _FreeVolumes:
    """Volumes of one storage class without a claimRef, smallest first."""

    rows: IntArray
    """[place]: row among all volumes."""
    sizes: Sequence[int]
    """[place]: capacity in nano-bytes."""
    equivalents: Encoded
    """[place]: a volume that suits the same claims, apart from its size."""
    node_rows: Encoded
    """[place]: rows of the nodes that the volume's node affinity matches."""


@derived_by("nodes", "volumes")
def _free_volumes(snapshot: Snapshot, storage_class: str) -> _FreeVolumes:
    found = storage(snapshot)
    sized = sorted((storage_capacity(found.by_number[row]), row) for row in found.free_volumes(storage_class))
    rows, volumes = np.array([row for _, row in sized], np.int64), [found.by_number[row] for _, row in sized]
    affinities = encode([volume.spec.node_affinity for volume in volumes], key=msgspec.json.encode)
    nodes = tuple(np.flatnonzero(_affinity_matches(snapshot, affinity)) for affinity in affinities.values)
    equivalents = encode(volumes, key=_equivalence_key)
    return _FreeVolumes(rows, [size for size, _ in sized], equivalents, Encoded(affinities.codes, nodes))


def _equivalence_key(volume: PersistentVolume) -> tuple[object, ...]:
    """Return all that decides which claims a volume suits, apart from its size."""
    spec, metadata = volume.spec, volume.metadata
    labels, modes = labels_key(metadata.labels), tuple(spec.access_modes or ())
    is_kept = metadata.deletion_timestamp is None
    return volume.status.phase, modes, labels, is_kept, spec.volume_mode, spec.volume_attributes_class_name


def _available_volumes(snapshot: Snapshot, claim: PersistentVolumeClaim, at_most: int) -> tuple[IntArray, IntArray]:
    """Return (node rows, volume rows) of the available volumes that suit the claim, each node's smallest volume last.

    Of volumes with equal node affinity, the `at_most` smallest suffice: the pod has no more claims to use them up.
    """
    try:
        selector = EVERYTHING if claim.spec.selector is None else compile_label_selector(claim.spec.selector)
    except SelectorError:
        selector = NOTHING  # divergence: upstream fails the pod
    free = _free_volumes(snapshot, claim_class(claim))
    suits = free.equivalents.map_bool(lambda volume: _is_suitable(volume, claim, selector))
    suits[: bisect_left(free.sizes, requested_storage(claim))] = False
    places = np.flatnonzero(suits)
    if not len(places):
        return places, places
    group = free.node_rows.codes[places]
    by_group = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[by_group], prepend=-1))
    rank = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    kept = np.sort(by_group[rank < at_most])[::-1]
    node_rows = [free.node_rows.values[code] for code in group[kept].tolist()]
    return np.concatenate(node_rows), np.repeat(free.rows[places[kept]], [len(nodes) for nodes in node_rows])


def _is_suitable(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: LabelMatcher) -> bool:
    """Return whether the volume suits the claim, apart from its size."""
    return (
        volume.status.phase == "Available"
        and is_compatible(volume, claim)
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
        and selector.matches(volume.metadata.labels)
    )


# --- provisioning ---------------------------------------------------------------------------------------------------


def _check_provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> ReasonBits:
    """Return [node]: the reasons why no volume of the claim's size can be provisioned there (checkVolumeProvisions)."""
    storage_class = snapshot.objects.storage_classes["", claim_class(claim)]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.full(len(snapshot.nodes), _BIND_CONFLICT)
    space = np.where(_has_capacity(snapshot, claim, storage_class), 0, _NOT_ENOUGH_SPACE)
    return np.where(_in_allowed_topology(snapshot, storage_class), space, _BIND_CONFLICT)


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


def _has_capacity(snapshot: Snapshot, claim: PersistentVolumeClaim, storage_class: StorageClass) -> BoolArray:
    """Return [node]: whether a CSIStorageCapacity that the node can use holds the claim.

    All nodes if the driver does not publish capacities (hasEnoughCapacity, v1.36).
    """
    objects, size = snapshot.objects, len(snapshot.nodes)
    driver = objects.csi_drivers.get(("", storage_class.provisioner))
    if not has_storage_request(claim) or driver is None or not driver.spec.storage_capacity:
        return np.ones(size, np.bool_)
    found, requested = np.zeros(size, np.bool_), quantity.value(requested_storage(claim))
    for capacity in objects.csi_storage_capacities.values():
        limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        if capacity.storage_class_name != storage_class.metadata.name or limit is None:
            continue
        # No node has access if nodeTopology is unset or does not parse.
        if quantity.value(quantity.parse(limit)) >= requested:
            with suppress(SelectorError):
                found |= nodes_with_labels(snapshot, compile_label_selector(capacity.node_topology))
    return found
