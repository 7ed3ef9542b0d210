"""VolumeBinding: the node must reach the volumes of the pod's claims, and those that are still to be bound or made.

Where volumes wait for their first consumer, nodes that reach the same available volumes are asked once.

Mirrors pkg/scheduler/framework/plugins/volumebinding and volume.FindMatchingVolume (v1.36).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from extender.core.checks import Incoming, StaticCheck
from extender.core.matching import nodes_in_any_term, nodes_with_labels
from extender.core.plugins.prefilter import PreFilter
from extender.core.snapshot import BoolArray, IntArray, Snapshot
from extender.core.storage import not_found, storage
from extender.core.verdict import Code, Verdict
from extender.k8s import quantity
from extender.k8s.csi_migration import MIGRATED_PLUGINS, migrated_affinity, migration_of
from extender.k8s.objects import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
)
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
from extender.k8s.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_uses,
    is_bound,
    is_for_pod,
    is_reserved_for,
    may_hold,
    not_for_pod,
    size_asked,
    size_of,
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

Bits = npt.NDArray[np.int64]
"""[node]: which of REASONS hold, as bits."""


# --- the pod's claims -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Claims:
    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """For the pod to have a node."""


def _claims(incoming: Incoming) -> _Claims | str:
    """In the order of the pod's volumes; or a text why the pod cannot have them."""
    found, bound, waiting, is_late = storage(incoming.snapshot), [], [], False
    for use in claim_uses(incoming.pod):
        claim = found.claim(incoming.pod, use.name)
        if claim is None and use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        if claim is None:
            return not_found("persistentvolumeclaim", use.name)
        problem = _problem(incoming, claim, is_ephemeral=use.is_ephemeral)
        if problem is not None:
            return problem
        if is_bound(claim):
            bound.append(claim)
        elif _waits(found.classes.get(claim_class(claim)), claim):
            waiting.append(claim)
        else:
            is_late = True  # said only if no claim has a worse problem
    return REASON_UNBOUND if is_late else _Claims(tuple(bound), tuple(waiting))


def _problem(incoming: Incoming, claim: PersistentVolumeClaim, *, is_ephemeral: bool) -> str | None:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and not is_for_pod(claim, incoming.pod):
        return not_for_pod(claim, incoming.pod)
    return None


def _waits(storage_class: StorageClass | None, claim: PersistentVolumeClaim) -> bool:
    if storage_class is None or claim.spec.volume_name:
        return False
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def prefilter(incoming: Incoming) -> PreFilter:
    """A rejection if a claim is missing, lost, going, somebody else's, or should have been bound before."""
    claims = _claims(incoming)
    if isinstance(claims, str):
        return PreFilter(rejection=Verdict(Code.UNRESOLVABLE, NAME, (claims,)))
    return PreFilter()


def filter(incoming: Incoming) -> tuple[StaticCheck, ...]:
    """A check for every set of reasons that some nodes have in common."""
    claims = _claims(incoming)
    if isinstance(claims, str) or not (claims.bound or claims.waiting):
        return ()
    bits = _check_bound(incoming.snapshot, claims.bound) | _check_waiting(incoming.snapshot, claims.waiting)
    return tuple(StaticCheck(NAME, bits == found, _reasons(found)) for found in np.unique(bits).tolist() if found)


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(reason for bit, reason in enumerate(REASONS) if bits >> bit & 1)


# --- bound claims ---------------------------------------------------------------------------------------------------


def _check_bound(snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]) -> Bits:
    """The first claim that the node has a problem with decides."""
    bits = np.zeros(len(snapshot.nodes), np.int64)
    for claim in claims:
        volume = storage(snapshot).volumes.get(claim.spec.volume_name)
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
    return np.where(snapshot.memo_by(_taken_over, migration.plugin), moved, plain)


def _taken_over(snapshot: Snapshot, plugin: str) -> BoolArray:
    """[node]: does its CSINode say that a CSI driver has taken over the plugin?"""
    found = np.zeros(len(snapshot.nodes), np.bool_)
    for name, csi_node in storage(snapshot).csi_nodes.items():
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
    chosen = [claim for claim in claims if SELECTED_NODE in (claim.metadata.annotations or {})]
    for claim in chosen:
        elsewhere = np.ones(len(snapshot.nodes), np.bool_)
        node = snapshot.node_row.get((claim.metadata.annotations or {})[SELECTED_NODE])
        if node is not None:
            elsewhere[node] = False
        bits[elsewhere] = _NOTHING_TO_BIND
    free = sorted((claim for claim in claims if claim not in chosen), key=size_asked)
    made = {claim.metadata.name: _check_provision(snapshot, claim) for claim in claims}
    for rows, unmatched in _static_matches(snapshot, free):
        for claim in (*chosen, *unmatched):
            undecided = rows[bits[rows] == 0]
            bits[undecided] = made[claim.metadata.name][undecided]
    return bits


@dataclass(frozen=True, slots=True)
class _Options:
    """Which volumes a claim may be given, as places among all that are looked at."""

    reserved: tuple[int, ...]
    """For this claim: it gets one of these or none."""
    available: frozenset[int]


def _static_matches(
    snapshot: Snapshot, claims: Sequence[PersistentVolumeClaim]
) -> Iterator[tuple[IntArray, list[PersistentVolumeClaim]]]:
    """Yield (rows of nodes that reach the same volumes, claims for which none of these will do); all nodes once."""
    found, everyone = storage(snapshot), np.arange(len(snapshot.nodes))
    volumes = [
        volume
        for name in dict.fromkeys(map(claim_class, claims))
        for volume in found.volumes_of_class.get(name, ())
        if any(may_hold(volume, claim) for claim in claims)
    ]
    if not volumes:
        yield everyone, list(claims)
        return
    options = [_options(claim, volumes) for claim in claims]
    reached = np.stack([_in_reach(snapshot, volume.spec.node_affinity) for volume in volumes])
    for rows in _alike(reached):
        near = np.flatnonzero(reached[:, rows[0]]).tolist()
        matched = _match(options, volumes, near)
        yield rows, [claim for claim, volume in zip(claims, matched, strict=True) if volume is None]


def _alike(reached: BoolArray) -> Sequence[IntArray]:
    """Rows of nodes with the same column of [volume, node]."""
    _, group = np.unique(np.packbits(reached, axis=0), axis=1, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ()


def _options(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> _Options:
    name, selector = claim_class(claim), _claim_selector(claim)
    fitting = [
        (place, volume)
        for place, volume in enumerate(volumes)
        if volume_class(volume) == name and may_hold(volume, claim)
    ]
    return _Options(
        tuple(place for place, volume in fitting if is_reserved_for(volume, claim)),
        frozenset(place for place, volume in fitting if _is_available(volume, claim, selector)),
    )


def _is_available(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: LabelMatcher) -> bool:
    return (
        volume.status.phase == "Available"
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


def _match(options: Sequence[_Options], volumes: Sequence[PersistentVolume], near: Sequence[int]) -> list[int | None]:
    """The volume of each claim: one reserved for it, else the smallest available; none is given twice."""
    taken: set[int] = set()
    matched: list[int | None] = []
    for one in options:
        reserved = next((place for place in one.reserved if place not in taken), None)
        if reserved is not None:
            volume = reserved if reserved in near else None
        else:
            free = [place for place in near if place in one.available and place not in taken]
            volume = min(free, key=lambda place: size_of(volumes[place]), default=None)
        matched.append(volume)
        if volume is not None:
            taken.add(volume)
    return matched


# --- provisioning ---------------------------------------------------------------------------------------------------


def _check_provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Bits:
    """Can a volume be made for the claim, there and of its size?"""
    size = len(snapshot.nodes)
    storage_class = storage(snapshot).classes[claim_class(claim)]
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
    requests = claim.spec.resources.requests if claim.spec.resources else None
    driver = storage(snapshot).csi_drivers.get(storage_class.provisioner)
    if "storage" not in (requests or {}) or driver is None or not driver.spec.storage_capacity:
        return everywhere
    found = ~everywhere
    asked = quantity.value(size_asked(claim))
    for capacity in objects.csi_storage_capacities:
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
