"""Match unbound claims with available volumes on all nodes at once.

Mirrors volume.FindMatchingVolume and volumebinding.findMatchingVolumes (v1.36): smallest claim first, each gets the
smallest suitable volume that no earlier claim of the pod took. Nodes with access to the same volumes form one site,
which is matched once.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from extender.core.snapshot.arrays import BoolArray, Encoded, IntArray, encode
from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.selector_index import nodes_in_any_term
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import storage
from extender.k8s.objects import labels_key
from extender.k8s.selectors import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
)
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from extender.k8s.storage.volumes import (
    Incompatibility,
    claim_class,
    incompatibilities,
    is_reserved_for,
    requested_storage,
    storage_capacity,
    volume_class,
)

NO_VOLUME_ROW = -1
"""Volume row that means "no volume"."""


def match_volumes(
    snapshot: Snapshot, claims: Iterable[PersistentVolumeClaim]
) -> Iterator[tuple[PersistentVolumeClaim, IntArray]]:
    """Yield each claim, smallest first, with [node]: row of the volume to bind it to, or NO_VOLUME_ROW.

    `claims` must not have a selected node.
    """
    by_size = sorted(claims, key=requested_storage)
    reserved = [reserved_volumes(snapshot, claim) for claim in by_size]
    masks: dict[str, list[BoolArray]] = defaultdict(list)
    for claim, own in zip(by_size, reserved, strict=True):
        masks[claim_class(claim)] += [reached for _, reached in own]
    compares_classes = not snapshot.features.volume_attributes_class_is_ignored
    available = {
        name: _AvailableVolumes(free_volumes(snapshot, name), own, compares_classes) for name, own in masks.items()
    }
    taken: dict[int, BoolArray] = defaultdict(lambda: np.zeros(len(snapshot.nodes), np.bool_))
    for claim, own in zip(by_size, reserved, strict=True):
        # 1. A volume reserved for the claim takes precedence; a node without access to it gets no volume.
        matched, may_use_others = np.full(len(snapshot.nodes), NO_VOLUME_ROW), np.ones(len(snapshot.nodes), np.bool_)
        for row, reached in own:
            is_free = may_use_others & ~taken[row]
            matched[is_free & reached] = row
            taken[row] |= is_free & reached
            may_use_others &= ~is_free
        # 2. Otherwise, the smallest available volume.
        if may_use_others.any():
            others = available[claim_class(claim)].take(claim, may_use_others, at_most=len(by_size))
            matched = np.where(others == NO_VOLUME_ROW, matched, others)
        yield claim, matched


def affinity_matches(snapshot: Snapshot, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """Return [node]: whether the volume's node affinity matches."""
    if affinity is None or affinity.required is None:
        return np.ones(len(snapshot.nodes), np.bool_)
    terms = compile_node_selector(affinity.required).terms or ()
    # Without matchFields, as upstream passes labels only.
    return nodes_in_any_term(snapshot, tuple(replace(term, fields=()) for term in terms))


ClaimMismatch = Incompatibility | Literal["Phase", "AccessModes", "Selector"]
"""Why a volume does not suit a claim, its size aside."""


def mismatches(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: LabelMatcher, *, compares_classes: bool
) -> Iterator[ClaimMismatch]:
    """Yield why a free volume of the claim's class does not suit the claim; `selector`: `selector_of` the claim."""
    if volume.status.phase != "Available":
        yield "Phase"
    if not set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ()):
        yield "AccessModes"
    if not selector.matches(volume.metadata.labels):
        yield "Selector"
    yield from incompatibilities(volume, claim, compares_classes=compares_classes)


def selector_of(claim: PersistentVolumeClaim) -> LabelMatcher:
    """Return the compiled selector of the claim."""
    try:
        return EVERYTHING if claim.spec.selector is None else compile_label_selector(claim.spec.selector)
    except SelectorError:
        return NOTHING  # divergence: upstream fails the pod


def reserved_volumes(snapshot: Snapshot, claim: PersistentVolumeClaim) -> list[tuple[int, BoolArray]]:
    """Return the suitable volumes reserved for the claim, each as (row, [node]: whether it is accessible there)."""
    volumes, found = storage(snapshot), []
    compares_classes = not snapshot.features.volume_attributes_class_is_ignored
    for row in volumes.reserved_volumes(claim.metadata.namespace, claim.metadata.name):
        volume = volumes.by_number[row]
        is_reserved = volume_class(volume) == claim_class(claim) and is_reserved_for(volume, claim)
        is_large_enough = storage_capacity(volume) >= requested_storage(claim)
        if (
            is_reserved
            and is_large_enough
            and not any(incompatibilities(volume, claim, compares_classes=compares_classes))
        ):
            found.append((row, affinity_matches(snapshot, volume.spec.node_affinity)))
    return found


# --- volumes without a claimRef -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FreeVolumes:
    """Volumes of one storage class without a claimRef, by rank: smallest first."""

    rows: IntArray
    """[rank]: row of the volume."""
    sizes: Sequence[int]
    """[rank]: capacity in nano-bytes."""
    equivalents: Encoded
    """[rank]: a representative volume that suits the same claims, except for its size."""
    site_of: IntArray
    """[node]: site of the node; all nodes of a site have access to the same free volumes."""
    first_node: IntArray
    """[site]: row of the site's first node."""
    sites: Encoded
    """[rank]: sites that the volume's node affinity matches, ascending."""
    has_one_site: BoolArray
    """[rank]: True if the volume is accessible from one site only, as local and zonal volumes are."""


@derived_by("nodes", "volumes")
def free_volumes(snapshot: Snapshot, storage_class: str) -> FreeVolumes:
    found = storage(snapshot)
    sized = sorted((storage_capacity(found.by_number[row]), row) for row in found.free_volumes(storage_class))
    rows, volumes = np.array([row for _, row in sized], np.int64), [found.by_number[row] for _, row in sized]
    affinities = encode([volume.spec.node_affinity for volume in volumes], key=msgspec.json.encode)
    nodes = [np.flatnonzero(affinity_matches(snapshot, affinity)) for affinity in affinities.values]
    site_of = _split_sites(np.zeros(len(snapshot.nodes), np.int64), nodes)
    sites = Encoded(affinities.codes, tuple(np.unique(site_of[reached]) for reached in nodes))
    return FreeVolumes(
        rows,
        [size for size, _ in sized],
        encode(volumes, key=_equivalence_key),
        site_of,
        np.unique(site_of, return_index=True)[1],
        sites,
        sites.map_bool(lambda reached: len(reached) == 1),
    )


def _split_sites(site_of: IntArray, groups: Iterable[IntArray]) -> IntArray:
    """Split sites so that each group of nodes consists of whole sites; return [node]: new site, in the old order."""
    split, count = site_of.copy(), int(site_of.max(initial=-1)) + 1
    for nodes in groups:
        if 0 < len(nodes) < len(split):
            sites, parts = np.unique(split[nodes], return_inverse=True)
            split[nodes] = count + parts
            count += len(sites)
    sites_in_order: IntArray = np.unique(site_of * count + split, return_inverse=True)[1]
    return sites_in_order


def _equivalence_key(volume: PersistentVolume) -> tuple[object, ...]:
    """Return everything except its size that determines which claims a volume suits."""
    spec, metadata = volume.spec, volume.metadata
    labels, modes = labels_key(metadata.labels), tuple(spec.access_modes or ())
    is_deleted = metadata.deletion_timestamp is not None
    return volume.status.phase, modes, labels, is_deleted, spec.volume_mode, spec.volume_attributes_class_name


class _AvailableVolumes:
    """Free volumes of one class that no earlier claim of the pod took, by site."""

    def __init__(self, free: FreeVolumes, masks: Sequence[BoolArray], compares_classes: bool) -> None:
        """`masks`: a [node] per reserved volume: nodes with access to it, which may be matched differently."""
        self._compares_classes = compares_classes
        self._free, self._site_of, self._first_node = free, free.site_of, free.first_node
        groups = [np.flatnonzero(mask) for mask in masks if not mask.all()]
        self._is_split = bool(groups) and len(free.rows) > 0
        if self._is_split:
            self._site_of = _split_sites(free.site_of, groups)
            self._first_node = np.unique(self._site_of, return_index=True)[1]
            whole = free.site_of[self._first_node]  # ascending: the parts of a site stay in order
            self._first_part = np.searchsorted(whole, np.arange(len(free.first_node) + 1))
        self._left: dict[int, IntArray] = {}
        """Rank of a volume that a claim took at a site -> sites where it is still available."""
        self._used_up = np.zeros(len(free.rows), np.bool_)
        """[rank]: True if it is available at no site."""
        self._suitable: dict[bytes, BoolArray] = {}
        """Claim's requirements except size, as JSON -> [rank]: whether the volume meets them."""

    def take(self, claim: PersistentVolumeClaim, nodes: BoolArray, at_most: int) -> IntArray:
        """Take the smallest suitable volume for the claim at each site; return [node]: volume row, or NO_VOLUME_ROW.

        `nodes`: [node]: whether to take a volume there, equal within a site. `at_most`: number of the pod's claims.
        """
        # 1. Suitable volumes. Of volumes with equal node affinity, the smallest `at_most` suffice: the pod has no more
        #    claims to take them.
        smallest = bisect_left(self._free.sizes, requested_storage(claim))
        ranks = np.flatnonzero((self._suits(claim) & ~self._used_up)[smallest:]) + smallest
        if not len(ranks):
            return np.full(len(nodes), NO_VOLUME_ROW)
        ranks = ranks[_first_of_each(self._free.sites.codes[ranks], at_most)][::-1]
        # 2. The smallest volume for each site: ranks descend, and the last of several assignments to a site wins.
        sites = [self._sites_left(rank) for rank in ranks.tolist()]
        chosen = np.full(len(self._first_node), NO_VOLUME_ROW)
        chosen[np.concatenate(sites)] = np.repeat(ranks, [len(one) for one in sites])
        chosen[~nodes[self._first_node]] = NO_VOLUME_ROW
        # 3. Later claims cannot take the chosen volumes.
        self._remove(chosen)
        return np.where(chosen == NO_VOLUME_ROW, NO_VOLUME_ROW, self._free.rows[chosen])[self._site_of]

    def _remove(self, chosen: IntArray) -> None:
        """Remove the chosen volumes; `chosen`: [site]: rank, or NO_VOLUME_ROW."""
        ranks = np.unique(chosen[chosen != NO_VOLUME_ROW])
        used_up = self._free.has_one_site[ranks] & (not self._is_split)
        self._used_up[ranks[used_up]] = True
        for rank in ranks[~used_up].tolist():
            left = self._sites_left(rank)
            left = self._left[rank] = left[chosen[left] != rank]
            self._used_up[rank] = not len(left)

    def _sites_left(self, rank: int) -> IntArray:
        """Return the sites where the volume of this rank is still available."""
        left = self._left.get(rank)
        if left is not None:
            return left
        sites: IntArray = self._free.sites.values[self._free.sites.codes[rank]]
        if not self._is_split:
            return sites
        parts = map(np.arange, self._first_part[sites].tolist(), self._first_part[sites + 1].tolist())
        return np.concatenate(list(parts)) if len(sites) else sites

    def _suits(self, claim: PersistentVolumeClaim) -> BoolArray:
        spec = claim.spec
        key = msgspec.json.encode(
            (spec.selector, spec.access_modes, spec.volume_mode, spec.volume_attributes_class_name)
        )
        known = self._suitable.get(key)
        if known is None:
            selector = selector_of(claim)

            def is_suitable(volume: PersistentVolume) -> bool:
                return not any(mismatches(volume, claim, selector, compares_classes=self._compares_classes))

            known = self._suitable[key] = self._free.equivalents.map_bool(is_suitable)
        return known


def _first_of_each(groups: npt.NDArray[np.int32], at_most: int) -> IntArray:
    """Return the indices of the first `at_most` members of each group, ascending; `groups`: [index]: group."""
    by_group = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[by_group], prepend=-1))
    number = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    return np.sort(by_group[number < at_most])
