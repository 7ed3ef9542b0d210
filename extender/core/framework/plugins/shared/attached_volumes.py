"""Index the CSI volumes that running pods use and that VolumeAttachments attach, by driver.

Rule: a change of one pod or object moves the entries of its own volumes only.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import VolumeID, migrated_inline, storage
from extender.k8s.kinds import Key
from extender.k8s.objects import Object, Pod
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from extender.k8s.storage.volumes import ClaimUse, claim_uses, is_for_pod

Placement = tuple[VolumeID, str]
"""A volume on a node, by the node's name."""

COLUMN_BITS = 62
"""Bits of a column that pods take: a sum of them fits int64."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class NodeVolumes:
    """The volumes of one driver that pods use on one node and that no VolumeAttachment attaches there.

    Pods that share the same volumes are alike: they have a field of bits in one column, wide enough for their number,
    and each of them takes 1 of it. So the field is above 0 while one of them is in place, and a node whose pods share
    thousands of volumes in different ways needs no more columns than its pods have bits.
    """

    unshared: dict[int, int] = field(default_factory=dict)
    """Pod row -> number of volumes that no other pod of the node uses."""
    shared: dict[VolumeID, int] = field(default_factory=dict)
    """Volume that several pods use -> its set of users, by number."""
    counts: list[int] = field(default_factory=list)
    """[set]: number of volumes that exactly these pods share."""
    fields: dict[tuple[int, int], int] = field(default_factory=dict)
    """(set, column) -> bits of its pods."""
    amounts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Column -> pod row -> the lowest bit of its field."""

    @classmethod
    def of(cls, used: Mapping[VolumeID, Collection[int]]) -> "NodeVolumes":
        """Return the volumes of a node; `used`: volume -> rows of the pods that use it."""
        found, numbers = cls(), dict[frozenset[int], int]()
        for volume, users in used.items():
            if len(users) == 1:
                (row,) = users
                found.unshared[row] = found.unshared.get(row, 0) + 1
                continue
            rows = frozenset(users)
            number = found.shared[volume] = numbers.setdefault(rows, len(numbers))
            if number == len(found.counts):
                found.counts.append(0)
            found.counts[number] += 1
        sets_of: dict[int, list[int]] = defaultdict(list)
        for rows, number in numbers.items():
            for row in rows:
                sets_of[row].append(number)
        found._lay_out(sets_of)
        return found

    def _lay_out(self, sets_of: Mapping[int, Sequence[int]]) -> None:
        """Give the pods that are alike a field; `sets_of`: pod row -> its sets."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for row, sets in sets_of.items():
            alike[tuple(sets)].append(row)
        column = lowest = 0
        for sets, rows in alike.items():
            width = len(rows).bit_length()
            if lowest + width > COLUMN_BITS:
                column, lowest = column + 1, 0
            self.amounts.setdefault(column, {}).update(dict.fromkeys(rows, 1 << lowest))
            bits = (1 << width) - 1 << lowest
            for number in sets:
                self.fields[number, column] = self.fields.get((number, column), 0) | bits
            lowest += width


class DriverVolumes:
    """Volumes of one CSI driver: which are attached, on which nodes, and which pods use them."""

    def __init__(self) -> None:
        self.users: dict[VolumeID, set[int]] = {}
        """Volume -> rows of the running pods that use it."""
        self.attached: dict[VolumeID, Counter[str]] = {}
        """Volume -> node name -> how many VolumeAttachments attach it there."""
        self.sharing: dict[str, NodeVolumes] = {}
        """Node name -> its volumes, for the nodes whose pods share some."""
        self.unshared: dict[int, int] = {}
        """Pod row -> number of volumes that no other pod of its node uses."""
        self._used: dict[str, dict[VolumeID, dict[int, int]]] = {}
        """Node name -> volume -> pod row -> how many claims and volumes of the pod stand for it."""
        self._unshared_on: dict[str, tuple[int, ...]] = {}
        """Node name -> its rows in `unshared`."""
        self._changed: set[str] = set()
        """Nodes whose volumes or attachments have changed since they were laid out."""

    def use(self, at: Placement, row: int) -> None:
        """Record that a claim or volume of a running pod on the node stands for this one."""
        volume, node = at
        rows = self._used.setdefault(node, {}).setdefault(volume, {})
        rows[row] = rows.get(row, 0) + 1
        self.users.setdefault(volume, set()).add(row)
        self._changed.add(node)

    def stop_using(self, at: Placement, row: int) -> None:
        volume, node = at
        volumes = self._used[node]
        rows = volumes[volume]
        rows[row] -= 1
        if rows[row]:
            return
        self._changed.add(node)
        _discard(self.users, volume, row)
        del rows[row]
        if not rows:
            del volumes[volume]
        if not volumes:
            del self._used[node]

    def attach(self, at: Placement, times: int) -> None:
        """Record `times` more VolumeAttachments of the volume to the node; -1: one was deleted."""
        volume, node = at
        nodes = self.attached.setdefault(volume, Counter())
        nodes[node] += times
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self.attached[volume]
        self._changed.add(node)

    def lay_out(self) -> None:
        """Lay out the volumes of the nodes that have changed."""
        for node in self._changed:
            self.sharing.pop(node, None)
            for row in self._unshared_on.pop(node, ()):
                del self.unshared[row]
        for node in self._changed:
            used = self._used.get(node, {})
            found = NodeVolumes.of({at: rows for at, rows in used.items() if node not in self.attached.get(at, ())})
            if found.unshared:
                self.unshared.update(found.unshared)
                self._unshared_on[node] = tuple(found.unshared)
            if found.shared:
                self.sharing[node] = found
        self._changed.clear()


class AttachedVolumeIndex(Index):
    """CSI volumes that running pods use and that VolumeAttachments attach, by driver."""

    reads = ("claims", "volumes", "storage_classes", "volume_attachments")
    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._storage = storage(snapshot)
        self._drivers: dict[str, DriverVolumes] = defaultdict(DriverVolumes)
        self._uses: dict[tuple[str, ClaimUse], dict[int, VolumeID | None]] = {}
        """(namespace, use of a claim) -> pod row -> the volume that the pod gets by it."""
        self.others_claims: dict[int, set[ClaimUse]] = {}
        """Pod row -> uses of claims that were created for another pod's generic ephemeral volume."""
        self._claims_of: dict[str, set[Key]] = defaultdict(set)
        self._attaching: dict[str, set[Key]] = defaultdict(set)
        self._attached: dict[Key, Placement] = {}

    def of(self, driver: str) -> DriverVolumes:
        return self._drivers[driver]

    def settled(self) -> None:
        for driver in self._drivers.values():
            driver.lay_out()

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            for volume in migrated_inline(pod):
                self._move(row, None, volume)
            for use in set(claim_uses(pod)):
                found = self._storage.csi_volume(pod, use)
                self._uses.setdefault((pod.metadata.namespace, use), {})[row] = found
                self._check_owner(row, pod, use)
                self._move(row, None, found)

    def pod_removed(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            for volume in migrated_inline(pod):
                self._move(row, volume, None)
            for use in set(claim_uses(pod)):
                users = self._uses[pod.metadata.namespace, use]
                self._move(row, users.pop(row), None)
                if not users:
                    del self._uses[pod.metadata.namespace, use]
            self.others_claims.pop(row, None)

    def _move(self, row: int, before: VolumeID | None, after: VolumeID | None) -> None:
        """Record that a claim or volume of the pod stands for another CSI volume than before."""
        if before == after:
            return
        node = self.snapshot.node_names[self.snapshot.pod_node[row]]
        if before is not None:
            self._drivers[before[0]].stop_using((before, node), row)
        if after is not None:
            self._drivers[after[0]].use((after, node), row)

    def _check_owner(self, row: int, pod: Pod, use: ClaimUse) -> None:
        claim = self._storage.claim(pod, use.name) if use.is_ephemeral else None
        if claim is not None and not is_for_pod(claim, pod):
            self.others_claims.setdefault(row, set()).add(use)
        elif row in self.others_claims:
            _discard(self.others_claims, row, use)

    def _refresh(self, uses: Iterable[tuple[str, ClaimUse]]) -> None:
        """Find the volumes of some claims again, for each pod that uses them."""
        for namespace, use in uses:
            users = self._uses.get((namespace, use), {})
            for row, before in users.items():
                users[row] = self._storage.csi_volume(self.snapshot.pods[row], use)
                self._move(row, before, users[row])
                self._check_owner(row, self.snapshot.pods[row], use)

    # --- objects ---

    def object_changed(self, field: str, before: Object | None, after: Object | None) -> None:
        for one, is_now in ((before, False), (after, True)):
            if isinstance(one, PersistentVolumeClaim) and is_now and one.spec.volume_name:
                self._claims_of[one.spec.volume_name].add(_key(one))
            elif isinstance(one, PersistentVolumeClaim):
                _discard(self._claims_of, one.spec.volume_name, _key(one))
            elif isinstance(one, VolumeAttachment):
                self._attachment(one, is_now)
        one = after or before
        if isinstance(one, PersistentVolumeClaim):
            self._refresh(_uses_of(_key(one)))
        elif isinstance(one, PersistentVolume):
            self._volume(one.metadata.name)
        elif isinstance(one, StorageClass):  # names the driver of claims without a volume; rarely changes
            self._refresh(self._uses)

    def _volume(self, name: str) -> None:
        for claim in self._claims_of.get(name, ()):
            self._refresh(_uses_of(claim))
        for key in tuple(self._attaching.get(name, ())):
            self._detach(key)
            self._attach(key, self.snapshot.objects.volume_attachments[key])

    def _attachment(self, attachment: VolumeAttachment, is_now: bool) -> None:
        key, volume = ("", attachment.metadata.name), attachment.spec.source.persistent_volume_name or ""
        if is_now:
            self._attaching[volume].add(key)
            self._attach(key, attachment)
        else:
            _discard(self._attaching, volume, key)
            self._detach(key)

    def _attach(self, key: Key, attachment: VolumeAttachment) -> None:
        if not self.snapshot.features.volume_attachments_count:
            return
        spec = attachment.spec
        volume = self._storage.volume(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            at = self._attached[key] = (spec.attacher, volume.spec.csi.volume_handle), spec.node_name
            self._drivers[spec.attacher].attach(at, 1)

    def _detach(self, key: Key) -> None:
        at = self._attached.pop(key, None)
        if at is not None:
            self._drivers[at[0][0]].attach(at, -1)


def _key(claim: PersistentVolumeClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _uses_of(claim: Key) -> list[tuple[str, ClaimUse]]:
    """Return how pods may refer to a claim."""
    namespace, name = claim
    return [(namespace, ClaimUse(name, is_ephemeral)) for is_ephemeral in (False, True)]


def _discard(table: dict[K, set[V]], key: K, value: V) -> None:
    values = table.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del table[key]
