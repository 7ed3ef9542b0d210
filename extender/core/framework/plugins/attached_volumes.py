"""Index the CSI volumes that running pods use and that VolumeAttachments attach, by driver.

Rule: a change of one pod or object moves the entries of its own volumes only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeVar

from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import VolumeID, storage
from extender.k8s.kinds import Key
from extender.k8s.objects import Object, Pod
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from extender.k8s.storage.volumes import claim_uses

Placement = tuple[VolumeID, str]
"""A volume on a node, by the node's name."""

K = TypeVar("K")
V = TypeVar("V")


class DriverVolumes:
    """Volumes of one CSI driver: which are attached, on which nodes, and which pods use them."""

    def __init__(self) -> None:
        self.users: dict[VolumeID, set[int]] = {}
        """Volume -> rows of the running pods that use it."""
        self.attached: dict[VolumeID, Counter[str]] = {}
        """Volume -> node name -> how many VolumeAttachments attach it there."""
        self.unshared: Counter[int] = Counter()
        """Pod row -> number of volumes that no other pod of its node uses."""
        # Columns are kept up to date volume by volume: laying out thousands of shared volumes takes milliseconds.
        self.shared: list[dict[int, int]] = []
        """[column]: pod row -> 1 for each user; a column holds at most one set of users per node."""
        self.shared_counts: list[dict[str, int]] = []
        """[column]: node name -> number of volumes that exactly these pods of the node share."""
        self._column_of: dict[tuple[str, frozenset[int]], int] = {}
        """(node name, rows of its pods that share a volume) -> their column."""
        self._sets_on: Counter[str] = Counter()
        """Node name -> number of columns that hold a set of its pods."""
        self._free_columns: dict[str, list[int]] = {}
        """Node name -> columns that hold no set of its pods any more, below others that do."""
        self.used: dict[Placement, set[int]] = {}
        """Volume on a node -> rows of the pods that use it there."""

    def use(self, at: Placement, row: int) -> None:
        """Record that a running pod uses the volume on its node."""
        self._count(at, -1)
        self.users.setdefault(at[0], set()).add(row)
        self.used.setdefault(at, set()).add(row)
        self._count(at, 1)

    def stop_using(self, at: Placement, row: int) -> None:
        self._count(at, -1)
        _discard(self.users, at[0], row)
        _discard(self.used, at, row)
        self._count(at, 1)

    def attach(self, at: Placement, times: int) -> None:
        """Record `times` more VolumeAttachments of the volume to the node; -1: one was deleted."""
        volume, node = at
        self._count(at, -1)
        nodes = self.attached.setdefault(volume, Counter())
        nodes[node] += times
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self.attached[volume]
        self._count(at, 1)

    def _count(self, at: Placement, sign: int) -> None:
        """Count the volume as unshared or shared (-1: no longer); not if a VolumeAttachment attaches it anyway."""
        rows, node = self.used.get(at), at[1]
        if not rows or node in self.attached.get(at[0], ()):
            return
        if len(rows) == 1:
            (row,) = rows
            self.unshared[row] += sign
            if not self.unshared[row]:
                del self.unshared[row]
        elif sign > 0:
            users = frozenset(rows)
            column = self._column_of.get((node, users))
            if column is None:
                column = self._new_column(node, users)
            self.shared_counts[column][node] += 1
        else:
            self._release((node, frozenset(rows)))

    def shared_column(self, at: Placement) -> int | None:
        """Return the column of a volume on a node that several of its pods use; None if no column holds it."""
        if at[1] in self.attached.get(at[0], ()):
            return None
        return self._column_of.get((at[1], frozenset(self.used.get(at, ()))))

    def _new_column(self, node: str, rows: frozenset[int]) -> int:
        """Give a set of pods a column in which no other set of the node is."""
        free = self._free_columns.get(node)
        column = free.pop() if free else self._sets_on[node]
        self._sets_on[node] += 1
        if column == len(self.shared):
            self.shared.append({})
            self.shared_counts.append({})
        self.shared[column].update(dict.fromkeys(rows, 1))
        self.shared_counts[column][node] = 0
        self._column_of[node, rows] = column
        return column

    def _release(self, users: tuple[str, frozenset[int]]) -> None:
        """Record that a set of pods shares one volume less."""
        node, rows = users
        column = self._column_of[users]
        self.shared_counts[column][node] -= 1
        if not self.shared_counts[column][node]:
            del self._column_of[users], self.shared_counts[column][node]
            for row in rows:
                del self.shared[column][row]
            self._free_columns.setdefault(node, []).append(column)
            self._sets_on[node] -= 1
            if not self._sets_on[node]:
                del self._sets_on[node], self._free_columns[node]


class AttachedVolumeIndex(Index):
    """CSI volumes that running pods use and that VolumeAttachments attach, by driver."""

    reads = ("claims", "volumes", "storage_classes", "volume_attachments")
    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._storage = storage(snapshot)
        self._drivers: dict[str, DriverVolumes] = defaultdict(DriverVolumes)
        self._of_pod: dict[int, frozenset[VolumeID]] = {}
        self._claim_users: dict[Key, set[int]] = defaultdict(set)
        self._claims_of: dict[str, set[Key]] = defaultdict(set)
        self._attaching: dict[str, set[Key]] = defaultdict(set)
        self._attached: dict[Key, Placement] = {}

    def of(self, driver: str) -> DriverVolumes:
        return self._drivers[driver]

    # --- pods ---

    def pod_added(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            for use in claim_uses(pod):
                self._claim_users[pod.metadata.namespace, use.name].add(row)
            self._use(row, frozenset(), self._storage.csi_volumes(pod))

    def pod_removed(self, row: int, pod: Pod) -> None:
        if pod.spec.volumes:
            self._use(row, self._of_pod.get(row, frozenset()), frozenset())
            for use in claim_uses(pod):
                _discard(self._claim_users, (pod.metadata.namespace, use.name), row)

    def _use(self, row: int, before: frozenset[VolumeID], after: frozenset[VolumeID]) -> None:
        node = self.snapshot.node_names[self.snapshot.pod_node[row]]
        for volume in before - after:
            self._drivers[volume[0]].stop_using((volume, node), row)
        for volume in after - before:
            self._drivers[volume[0]].use((volume, node), row)
        self._of_pod[row] = after
        if not after:
            del self._of_pod[row]

    def _refresh_users(self, rows: Iterable[int]) -> None:
        for row in rows:
            now = self._storage.csi_volumes(self.snapshot.pods[row])
            self._use(row, self._of_pod.get(row, frozenset()), now)

    # --- objects ---

    def object_changed(self, field: str, before: Object | None, after: Object | None) -> None:
        for one, is_now in ((before, False), (after, True)):
            if isinstance(one, PersistentVolumeClaim):
                self._claim(one, is_now)
            elif isinstance(one, VolumeAttachment):
                self._attachment(one, is_now)
        one = after or before
        if isinstance(one, PersistentVolumeClaim):
            self._refresh_users(self._claim_users.get(_key(one), ()))
        elif isinstance(one, PersistentVolume):
            self._volume(one.metadata.name)
        elif isinstance(one, StorageClass):  # names the driver of claims without a volume; rarely changes
            self._refresh_users(row for rows in self._claim_users.values() for row in rows)

    def _claim(self, claim: PersistentVolumeClaim, is_now: bool) -> None:
        if is_now and claim.spec.volume_name:
            self._claims_of[claim.spec.volume_name].add(_key(claim))
        else:
            _discard(self._claims_of, claim.spec.volume_name, _key(claim))

    def _volume(self, name: str) -> None:
        for claim in self._claims_of.get(name, ()):
            self._refresh_users(self._claim_users.get(claim, ()))
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


def _discard(table: dict[K, set[V]], key: K, value: V) -> None:
    values = table.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del table[key]
