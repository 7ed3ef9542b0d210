"""Facts about claims and their volumes (VolumeBinding, VolumeZone)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice

import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import volume_binding, volume_zone
from extender.core.framework.plugins.shared.volume_matching import (
    free_volumes,
    mismatches,
    reserved_volumes,
    selector_of,
)
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.snapshot.arrays import BoolArray, mask_of
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import is_migrated, storage
from extender.k8s.selectors import Requirement, compile_node_selector
from extender.k8s.storage.csi_migration import migrated_affinity, migrated_volume, migration_of
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from extender.k8s.storage.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_class,
    claim_uses,
    is_bound,
    is_for_pod,
    named_claims,
    requested_storage,
    requested_text,
    selected_node,
    storage_capacity,
    volume_class,
)
from extender.report.facts.collected import MAX_COLLECTED, CollectedFacts, lazily
from extender.report.facts.schema import (
    AnyFact,
    ClaimFact,
    ClaimProblem,
    FactsOf,
    SelectedNodeFact,
    StorageCapacityFact,
    VolumeMatchFact,
    VolumeMismatch,
    VolumeTopologyFact,
)

MAX_TERMS = 3
"""Maximum number of terms, and of requirements of a term, that a fact names."""

MAX_COMPARED_VOLUMES = 1000
"""Maximum number of volumes of other classes that are compared with a claim."""


def claim_facts(context: SchedulingContext) -> Sequence[AnyFact]:
    """Name the claims that the pod cannot use on any node."""
    found = (_claim_fact(context, use) for use in dict.fromkeys(claim_uses(context.pod)))
    return [*islice((fact for fact in found if fact is not None), MAX_COLLECTED)]


def _claim_fact(context: SchedulingContext, use: ClaimUse) -> ClaimFact | None:
    claim = storage(context.snapshot).claim(context.pod, use.name)
    problem = _problem(context, use, claim)
    if problem is None:
        return None
    name = f"{context.pod.metadata.namespace}/{use.name}"
    if claim is None:
        return ClaimFact(claim=name, problem=problem)
    return ClaimFact(claim=name, problem=problem, storage_class=claim_class(claim), volume=claim.spec.volume_name)


def _problem(context: SchedulingContext, use: ClaimUse, claim: PersistentVolumeClaim | None) -> ClaimProblem | None:
    found = storage(context.snapshot)
    if claim is None:
        return "NotCreated" if use.is_ephemeral else "NotFound"
    if claim.metadata.deletion_timestamp is not None:
        return "BeingDeleted"
    if use.is_ephemeral and not is_for_pod(claim, context.pod):
        return "NotOwner"
    if claim.spec.volume_name:
        if claim.status.phase == "Lost" or found.volume(claim.spec.volume_name) is None:
            return "VolumeNotFound"
        return None if is_bound(claim) else "NotBound"
    if not claim_class(claim):
        return "NoClass"
    storage_class = found.storage_class(claim_class(claim))
    if storage_class is None:
        return "ClassNotFound"
    return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else "NotBound"


# --- VolumeBinding ----------------------------------------------------------------------------------------------------


def volume_binding_facts(evaluation: Evaluation) -> FactsOf:
    """Name the volumes that the node cannot reach, and the claims that get no volume there."""
    context, snapshot = evaluation.context, evaluation.context.snapshot
    claims, problems = volume_binding.pod_claims(context), claim_facts(context)
    if isinstance(claims, str):
        return lambda _: problems
    found = CollectedFacts(len(snapshot.nodes))
    # 1. Bound claims, each by itself: several volumes may be out of reach. Up to v1.31, the host names of local volumes
    #    leave nodes out, too.
    for claim in claims.bound:
        conflict = volume_binding.check_bound(snapshot, (claim,)) == volume_binding.NODE_CONFLICT
        left = volume_binding.nodes_of_host_names(context, (claim,))
        if left is not None:
            rows = np.array([snapshot.node_row[name] for name in left if name in snapshot.node_row], np.int64)
            conflict |= ~mask_of(rows, len(conflict))
        volume = storage(snapshot).volume(claim.spec.volume_name)
        if volume is not None:
            for counts, affinity in _affinities(snapshot, volume):
                found.add(conflict & counts, lazily(partial(_volume_topology, snapshot, claim, volume, affinity)))
    # 2. Unbound claims, each of which is compared with the volumes of its class.
    for claim, bits in found.until_full(volume_binding.unbound_problems(snapshot, claims.unbound)):
        for problem, fact_of in (
            (volume_binding.NOT_ENOUGH_SPACE, _storage_capacity),
            (volume_binding.BIND_CONFLICT, _no_volume),
        ):
            found.add(bits == problem, lazily(partial(fact_of, snapshot, claim)))
    return lambda row: [*problems, *found(row)]


def _affinities(snapshot: Snapshot, volume: PersistentVolume) -> Iterator[tuple[BoolArray, VolumeNodeAffinity | None]]:
    """Yield ([node]: whether it counts there, node affinity of the volume): it changes where the plugin is migrated."""
    migration, everywhere = migration_of(volume), np.ones(len(snapshot.nodes), np.bool_)
    if migration is not None and migration.topology_key:
        everywhere = ~is_migrated(snapshot, migration.plugin)
        yield ~everywhere, migrated_affinity(volume, migration.topology_key)
    yield everywhere, volume.spec.node_affinity


def _volume_topology(
    snapshot: Snapshot, claim: PersistentVolumeClaim, volume: PersistentVolume, affinity: VolumeNodeAffinity | None
) -> Callable[[int], AnyFact]:
    required = None if affinity is None else affinity.required
    terms = (None if required is None else compile_node_selector(required).terms) or ()
    return _topology(snapshot, [term.labels for term in terms], claim, volume)


def _topology(
    snapshot: Snapshot,
    terms: Sequence[Sequence[Requirement]],
    claim: PersistentVolumeClaim,
    volume: PersistentVolume | None = None,
    other_keys: Iterable[str] = (),
) -> Callable[[int], AnyFact]:
    """Return a fact per node about the terms of a volume or, without one, of the claim's class."""
    texts = tuple(" and ".join(map(str, term[:MAX_TERMS])) for term in terms[:MAX_TERMS])
    keys = (*dict.fromkeys(one.key for term in terms[:MAX_TERMS] for one in term[:MAX_TERMS]), *other_keys)

    @cache
    def of_labels(has: tuple[tuple[str, str | None], ...]) -> VolumeTopologyFact:
        return VolumeTopologyFact(
            claim=claim.key,
            volume="" if volume is None else volume.metadata.name,
            storage_class=claim_class(claim),
            driver="" if volume is None else _driver(volume),
            terms=texts,
            more_terms=max(0, len(terms) - MAX_TERMS),
            labels=dict(has),
        )

    def fact(row: int) -> VolumeTopologyFact:
        name, labels = snapshot.nodes[row].metadata.name, snapshot.nodes[row].metadata.labels or {}
        # A host name that is the node's name says nothing, and would make each node's fact another one.
        return of_labels(tuple([(key, value) for key in keys if (value := labels.get(key)) != name]))

    return fact


def _storage_capacity(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Callable[[int], AnyFact]:
    name, (_, capacity) = claim_class(claim), volume_binding.provisioning(snapshot, claim_class(claim)) or (None, None)
    assert capacity is not None, "only a capacity that is published can be too small"
    storage_class = snapshot.objects.storage_classes["", name]
    numbers = np.where(capacity.largest < 0, -1, capacity.number).tolist()
    facts = [
        StorageCapacityFact(
            claim=claim.key,
            storage_class=name,
            driver=storage_class.provisioner,
            requested=requested_text(claim),
            largest=largest,
        )
        for largest in (*capacity.texts, None)
    ]
    return lambda row: facts[numbers[row]]


def _no_volume(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Callable[[int], AnyFact]:
    """Return a fact per node where the claim has no volume, and its class makes none."""
    node, storage_class = selected_node(claim), snapshot.objects.storage_classes["", claim_class(claim)]
    if volume_binding.provisioning(snapshot, claim_class(claim)) is None:
        of_node = _volume_match(snapshot, claim)
    else:
        allowed = [
            [Requirement(one.key, "In", frozenset(one.values or ())) for one in term.match_label_expressions or ()]
            for term in storage_class.allowed_topologies or ()
        ]
        of_node = _topology(snapshot, allowed, claim)
    if node is None:
        return of_node
    elsewhere = SelectedNodeFact(claim=claim.key, node=node, node_exists=node in snapshot.node_row)
    return lambda row: of_node(row) if snapshot.node_names[row] == node else elsewhere


def _volume_match(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Callable[[int], AnyFact]:
    """Return a fact per node about the volume that comes nearest to what the claim needs there."""
    volumes, selector = storage(snapshot).by_number, selector_of(claim)
    name, size = claim_class(claim), requested_storage(claim)
    free, reserved = free_volumes(snapshot, name), reserved_volumes(snapshot, claim)
    compares_classes = not snapshot.features.volume_attributes_class_is_ignored

    def wrong_with(volume: PersistentVolume) -> tuple[VolumeMismatch, ...]:
        return tuple(mismatches(volume, claim, selector, compares_classes=compares_classes))

    # 1. The volume of the class with the fewest mismatches that each node can reach, and that of all nodes.
    of_equivalent = [wrong_with(volume) for volume in free.equivalents.values]
    wrong: list[tuple[VolumeMismatch, ...]] = [
        (*of_equivalent[code], "Size") if capacity < size else of_equivalent[code]
        for code, capacity in zip(free.equivalents.codes.tolist(), free.sizes, strict=True)
    ]
    names = [volumes[number].metadata.name for number in free.rows.tolist()]
    # Of equal ones the first by name comes last, and counts.
    worst_first = sorted(range(len(wrong)), key=lambda rank: (len(wrong[rank]), names[rank]), reverse=True)
    best = np.full(len(free.first_node), -1)
    for rank in worst_first:
        best[free.sites.values[free.sites.codes[rank]]] = rank
    # 2. Without a volume of the class, one of another class.
    compared = islice(volumes.items(), MAX_COMPARED_VOLUMES)
    others = {number: wrong_with(one) for number, one in compared if one.spec.claim_ref is None}
    other = min(
        others,
        key=lambda one: (
            len(others[one]) + (storage_capacity(volumes[one]) < size),
            volumes[one].metadata.name,
        ),
        default=None,
    )
    available = int(free.equivalents.map_bool(lambda one: one.status.phase == "Available").sum())

    def nearest(row: int) -> tuple[int | None, tuple[VolumeMismatch, ...]]:
        for number, reached in reserved:
            return number, ("Taken",) if reached[row] else ("NodeAffinity",)
        rank = int(best[free.site_of[row]])
        if rank >= 0:
            return int(free.rows[rank]), wrong[rank] or ("Taken",)
        if worst_first:
            return int(free.rows[worst_first[-1]]), (*wrong[worst_first[-1]], "NodeAffinity")
        if other is None:
            return None, ()
        return other, (*others[other], *(("Size",) if storage_capacity(volumes[other]) < size else ()), "Class")

    @cache
    def of_nearest(number: int | None, found: tuple[VolumeMismatch, ...]) -> VolumeMatchFact:
        volume = None if number is None else volumes[number]
        return VolumeMatchFact(
            claim=claim.key,
            storage_class=name,
            requested=requested_text(claim),
            access_modes=tuple(islice(claim.spec.access_modes or (), MAX_TERMS)),
            available=available,
            nearest="" if volume is None else volume.metadata.name,
            nearest_capacity="" if volume is None else str((volume.spec.capacity or {}).get("storage", 0)),
            nearest_class="" if volume is None else volume_class(volume),
            mismatches=found,
        )

    return lambda row: of_nearest(*nearest(row))


# --- VolumeZone -------------------------------------------------------------------------------------------------------


def volume_zone_facts(evaluation: Evaluation) -> FactsOf:
    """Name the zone and region labels of volumes that the node does not have."""
    context, snapshot = evaluation.context, evaluation.context.snapshot
    found, problems = CollectedFacts(len(snapshot.nodes)), claim_facts(context)
    for name in dict.fromkeys(named_claims(context.pod)):
        claim = storage(snapshot).claim(context.pod, name)
        volume = None if claim is None else storage(snapshot).volume(claim.spec.volume_name)
        if claim is None or volume is None:
            continue
        for key, zones in volume_zone.volume_topologies(volume):
            other = {volume_zone.GA_LABEL[key]} - {key}
            of_node = _topology(snapshot, [[Requirement(key, "In", zones)]], claim, volume, other)
            found.add(volume_zone.elsewhere(snapshot, key, zones), of_node)
    return lambda row: found(row) or problems


def _driver(volume: PersistentVolume) -> str:
    if volume.spec.csi is not None:
        return volume.spec.csi.driver
    migrated = migrated_volume(volume.spec, volume.metadata.labels)
    return "" if migrated is None else migrated[0]
