"""VolumeBinding: the node must reach the volumes of the pod's claims, and those that are still to be bound or made.

Available volumes are looked at by what they reach: of those with the same node affinity, only the smallest that suit a
claim matter.

Mirrors pkg/scheduler/framework/plugins/volumebinding and volume.FindMatchingVolume (v1.36).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import SchedulingContext, StaticCheck
from extender.core.framework.plugins.prefilter import PreFilterResult
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
from extender.k8s.storage.objects import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
from extender.k8s.storage.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    can_hold,
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

_OUT_OF_REACH, _NOTHING_TO_BIND, _NO_SPACE, _NO_VOLUME = (1 << bit for bit in range(len(REASONS)))

NONE = -1
"""Row of no volume."""

Bits = npt.NDArray[np.int64]
"""[node]: which of REASONS hold, as bits."""


# --- the pod's claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Claims:
    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """For the pod to have a node."""


def _claims(context: SchedulingContext) -> _Claims | str:
    """In the order of the pod's volumes; or a text why the pod cannot have them."""
    found, bound, waiting, is_late = storage(context.snapshot), [], [], False
    for use in claim_uses(context.pod):
        claim = found.claim(context.pod, use.name)
        if claim is None and use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        if claim is None:
            return not_found("persistentvolumeclaim", use.name)
        problem = _problem(context, claim, is_ephemeral=use.is_ephemeral)
        if problem is not None:
            return problem
        if is_bound(claim):
            bound.append(claim)
        elif _waits(found.storage_class(claim_class(claim)), claim):
            waiting.append(claim)
        else:
            is_late = True  # said only if no claim has a worse problem
    return REASON_UNBOUND if is_late else _Claims(tuple(bound), tuple(waiting))


def _problem(context: SchedulingContext, claim: PersistentVolumeClaim, *, is_ephemeral: bool) -> str | None:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and not is_for_pod(claim, context.pod):
        return not_for_pod_message(claim, context.pod)
    return None


def _waits(storage_class: StorageClass | None, claim: PersistentVolumeClaim) -> bool:
    if storage_class is None or claim.spec.volume_name:
        return False
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def prefilter(context: SchedulingContext) -> PreFilterResult:
    """A rejection if a claim is missing, lost, going, somebody else's, or should have been bound before."""
    claims = _claims(context)
    if isinstance(claims, str):
        return PreFilterResult.rejecting(NAME, claims)
    return PreFilterResult()


def filter(context: SchedulingContext) -> tuple[StaticCheck, ...]:
    """A check for every set of reasons that some nodes have in common."""
    claims = _claims(context)
    if isinstance(claims, str) or not (claims.bound or claims.waiting):
        return ()
    bits = _check_bound(context.snapshot, claims.bound) | _check_waiting(context.snapshot, claims.waiting)
    return tuple(StaticCheck(NAME, bits == found, _reasons(found)) for found in np.unique(bits).tolist() if found)


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(reason for bit, reason in enumerate(REASONS) if bits >> bit & 1)


# --- bound claims ---------------------------------------------------------------------------------------------------


def _check_bound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> Bits:
    """The first claim that the node has a problem with decides."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    for claim in claims:
        volume = storage(snapshot).volume(claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = _NO_VOLUME
        else:
            bits[(bits == 0) & ~_reached(snapshot, volume)] = _OUT_OF_REACH
    return bits


def _reached(snapshot: Snapshot, volume: PersistentVolume) -> BoolArray:
    """[node] of a bound volume: where a CSI driver has taken over the volume's plugin, by the driver's own zones."""
    plain, migration = _in_reach(snapshot, volume.spec.node_affinity), migration_of(volume)
    if migration is None or not migration.topology_key:
        return plain
    moved = _in_reach(snapshot, migrated_affinity(volume, migration.topology_key))
    return np.where(_taken_over(snapshot, migration.plugin), moved, plain)


@derived_by("nodes", "csi_nodes")
def _taken_over(snapshot: Snapshot, plugin: str) -> BoolArray:
    """[node]: does its CSINode say that a CSI driver has taken over the plugin?"""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for (_, name), csi_node in snapshot.objects.csi_nodes.items():
        named = (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "").split(",")
        if name in snapshot.node_row and plugin in named:
            found[snapshot.node_row[name]] = True
    return found


def _in_reach(snapshot: Snapshot, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """[node]: does a volume's node affinity match? Its fields are not looked at: upstream passes labels only."""
    if affinity is None or affinity.required is None:
        return np.ones(len(snapshot.nodes), np.bool_)
    terms = compile_node_selector(affinity.required).terms or ()
    return nodes_in_any_term(snapshot, [replace(term, fields=()) for term in terms])


# --- claims that wait for a consumer --------------------------------------------------------------------------------


def _check_waiting(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> Bits:
    """A volume for each claim must be there already, or its class's provisioner must be able to make one."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    wanting = []
    for claim in claims:
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if node is not None:
            chosen = np.arange(len(bits)) == snapshot.node_row.get(node, -1)
            bits[~chosen] = _NOTHING_TO_BIND
            wanting.append((claim, chosen))
    free = [claim for claim in claims if SELECTED_NODE not in (claim.metadata.annotations or {})]
    unmatched = ((claim, volumes == NONE) for claim, volumes in matched(snapshot, free))
    for claim, nodes in (*wanting, *unmatched):
        undecided = nodes & (bits == 0)
        if undecided.any():
            bits[undecided] = _check_provision(snapshot, claim)[undecided]
    return bits


def matched(
    snapshot: Snapshot, claims: Iterable[PersistentVolumeClaim]
) -> Iterator[tuple[PersistentVolumeClaim, IntArray]]:
    """Yield each claim, the smallest first, with [node] -> row of the volume that it gets there, or NONE.

    None of them has a node chosen already; what one has got, the next one cannot get.
    """
    by_size = sorted(claims, key=requested_storage)
    taken: list[IntArray] = []
    for claim in by_size:
        taken.append(_match(snapshot, claim, taken, at_most=len(by_size)))
        yield claim, taken[-1]


def _match(snapshot: Snapshot, claim: PersistentVolumeClaim, taken: Sequence[IntArray], at_most: int) -> IntArray:
    """[node] -> row of the claim's volume, or NONE: one reserved for it, or else the smallest available one.

    A reserved one out of reach means none at all. `taken`: what earlier claims of the pod got, of `at_most` in all.
    """
    found, size = storage(snapshot), len(snapshot.nodes)
    matched, open_to_others = np.full(size, NONE), np.ones(size, np.bool_)
    for row in found.reserved_volumes(claim.metadata.namespace, claim.metadata.name):
        volume = found.by_number[row]
        if volume_class(volume) == claim_class(claim) and is_reserved_for(volume, claim) and can_hold(volume, claim):
            here = open_to_others & np.logical_and.reduce([one != row for one in taken], axis=0)
            matched[here & _in_reach(snapshot, volume.spec.node_affinity)] = row
            open_to_others &= ~here
    nodes, rows = _offers(snapshot, claim, at_most)
    offered = open_to_others[nodes]
    for one in taken:
        offered &= one[nodes] != rows
    matched[nodes[offered]] = rows[offered]  # of several for a node the last one stays: the smallest
    return matched


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The volumes of one class that are reserved for nobody, the smallest first."""

    rows: IntArray
    """[place] -> row among all volumes."""
    sizes: Sequence[int]
    """[place] in nano-bytes."""
    kinds: Encoded
    """[place] -> a volume; all of one kind suit the same claims, but for their size."""
    reach: Encoded
    """[place] -> rows of the nodes that its node affinity matches."""

    @classmethod
    def of(cls, snapshot: Snapshot, name: str) -> Self:
        """Take it from `_shelf`."""
        volumes = storage(snapshot).by_number
        sized = sorted((storage_capacity(volumes[row]), row) for row in storage(snapshot).free_volumes(name))
        sizes, rows = [size for size, _ in sized], [row for _, row in sized]
        sorted_volumes = [volumes[row] for row in rows]
        reach = encode([v.spec.node_affinity for v in sorted_volumes], key=msgspec.json.encode)
        nodes = tuple(np.flatnonzero(_in_reach(snapshot, affinity)) for affinity in reach.values)
        return cls(
            np.array(rows, np.int64),
            sizes,
            encode(sorted_volumes, key=_kind),
            Encoded(reach.codes, nodes),
        )


@derived_by("nodes", "volumes")
def _shelf(snapshot: Snapshot, storage_class: str) -> _Shelf:
    return _Shelf.of(snapshot, storage_class)


def _kind(volume: PersistentVolume) -> tuple[object, ...]:
    spec, metadata = volume.spec, volume.metadata
    labels = labels_key(metadata.labels)
    modes = tuple(spec.access_modes or ())
    deleted = metadata.deletion_timestamp is None
    return volume.status.phase, modes, labels, deleted, spec.volume_mode, spec.volume_attributes_class_name


def _offers(snapshot: Snapshot, claim: PersistentVolumeClaim, at_most: int) -> tuple[IntArray, IntArray]:
    """(node rows, volume rows) of the available volumes that suit the claim, for each node the smallest last.

    Of volumes with the same reach `at_most` are enough: no more claims can take one away.
    """
    shelf, selector = _shelf(snapshot, claim_class(claim)), _claim_selector(claim)
    suits = shelf.kinds.map_bool(lambda volume: _is_available(volume, claim, selector))
    suits[: bisect_left(shelf.sizes, requested_storage(claim))] = False
    places = np.flatnonzero(suits)
    if not len(places):
        return places, places
    group = shelf.reach.codes[places]
    by_group = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[by_group], prepend=-1))
    rank = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
    kept = np.sort(by_group[rank < at_most])[::-1]
    reached = [shelf.reach.values[code] for code in group[kept].tolist()]
    return np.concatenate(reached), np.repeat(shelf.rows[places[kept]], [len(nodes) for nodes in reached])


def _is_available(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: LabelMatcher) -> bool:
    """Whatever its size."""
    return (
        volume.status.phase == "Available"
        and is_compatible(volume, claim)
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
        and selector.matches(volume.metadata.labels)
    )


def _claim_selector(claim: PersistentVolumeClaim) -> LabelMatcher:
    """Of the volumes that it would take; one that does not parse takes none, where upstream fails the pod."""
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return compile_label_selector(claim.spec.selector)
    except SelectorError:
        return NOTHING


# --- provisioning ---------------------------------------------------------------------------------------------------


def _check_provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Bits:
    """Can a volume be made for the claim, there and of its size?"""
    size = len(snapshot.nodes)
    storage_class = snapshot.objects.storage_classes["", claim_class(claim)]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.full(size, _NOTHING_TO_BIND)
    allowed = _in_allowed_topology(snapshot, storage_class)
    enough = _with_capacity(snapshot, claim, storage_class)
    return np.where(allowed, np.where(enough, 0, _NO_SPACE), _NOTHING_TO_BIND)


def _in_allowed_topology(snapshot: Snapshot, storage_class: StorageClass) -> BoolArray:
    """[node]: any of the terms; no terms at all allow every node (v1helper.MatchTopologySelectorTerms, v1.36)."""
    terms = storage_class.allowed_topologies or ()
    found = np.full(len(snapshot.nodes), not terms, np.bool_)
    for term in terms:
        try:
            wanted = [requirement(e.key, "In", e.values, LABEL_OPERATORS) for e in term.match_label_expressions or ()]
        except SelectorError:
            continue
        if wanted:
            found |= nodes_with_labels(snapshot, LabelMatcher(tuple(wanted)))
    return found


def _with_capacity(snapshot: Snapshot, claim: PersistentVolumeClaim, storage_class: StorageClass) -> BoolArray:
    """[node]: if the driver publishes its capacity, does one that the node can use hold the claim?"""
    objects, everywhere = snapshot.objects, np.ones(len(snapshot.nodes), np.bool_)
    driver = objects.csi_drivers.get(("", storage_class.provisioner))
    if not has_storage_request(claim) or driver is None or not driver.spec.storage_capacity:
        return everywhere
    found = ~everywhere
    asked = quantity.value(requested_storage(claim))
    for capacity in objects.csi_storage_capacities.values():
        if capacity.storage_class_name == storage_class.metadata.name and _largest(capacity) >= asked:
            found |= _with_access(snapshot, capacity)
    return found


def _largest(capacity: CSIStorageCapacity) -> int:
    """Bytes of the largest volume that can be made; below zero if that is not known."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return -1 if limit is None else quantity.value(quantity.parse(limit))


def _with_access(snapshot: Snapshot, capacity: CSIStorageCapacity) -> BoolArray:
    """[node]; nobody if the selector is unset or does not parse."""
    try:
        return nodes_with_labels(snapshot, compile_label_selector(capacity.node_topology))
    except SelectorError:
        return np.zeros(len(snapshot.nodes), np.bool_)
