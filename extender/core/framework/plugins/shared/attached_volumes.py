"""Index by driver the CSI volumes that running pods use or that VolumeAttachments attach.

Rule: a change to one pod or object updates only the entries of its own volumes.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.volume_index import VolumeID, migrated_inline, storage
from extender.k8s.kinds import Key
from extender.k8s.objects import Object, Pod
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from extender.k8s.storage.volumes import ClaimUse, claim_uses, is_for_pod
from extender.utilities.groups import remove_member

Attachment = tuple[VolumeID, str]
"""(volume, node name): a volume in use on the node, or attached to it."""

_COLUMN_BITS = 62
"""Pods per column of bits, so that the sum of their bits fits in int64."""


@dataclass(slots=True)
class NodeVolumes:
    """The volumes of one driver that pods use on one node and that no VolumeAttachment attaches there.

    Volumes with the same users form a set. Each pod that shares volumes has its own bit, which is set while the pod is
    in place. So a node has few columns even if its pods share thousands of volumes in different combinations.
    """

    unshared: dict[int, int] = field(default_factory=dict)
    """Pod row -> number of volumes that no other pod of the node uses."""
    shared: dict[VolumeID, int] = field(default_factory=dict)
    """Volume that several pods use -> index of its set."""
    counts: list[int] = field(default_factory=list)
    """[set]: number of volumes."""
    bits: dict[tuple[int, int], int] = field(default_factory=dict)
    """(set, column) -> bits of the set's users."""
    amounts: dict[int, dict[int, int]] = field(default_factory=dict)
    """Column -> pod row -> the pod's bit."""

    @classmethod
    def of(cls, used: Mapping[VolumeID, Collection[int]]) -> "NodeVolumes":
        """Return the volumes of a node; `used`: volume -> rows of the pods that use it."""
        found, sets = cls(), dict[frozenset[int], int]()
        for volume, users in used.items():
            if len(users) == 1:
                (row,) = users
                found.unshared[row] = found.unshared.get(row, 0) + 1
                continue
            number = found.shared[volume] = sets.setdefault(frozenset(users), len(sets))
            if number == len(found.counts):
                found.counts.append(0)
            found.counts[number] += 1
        bit_of = {row: bit for bit, row in enumerate(sorted(set[int]().union(*sets)))}
        for row, bit in bit_of.items():
            found.amounts.setdefault(bit // _COLUMN_BITS, {})[row] = 1 << bit % _COLUMN_BITS
        for users, number in sets.items():
            for row in users:
                key = number, bit_of[row] // _COLUMN_BITS
                found.bits[key] = found.bits.get(key, 0) | 1 << bit_of[row] % _COLUMN_BITS
        return found


class DriverVolumes:
    """Volumes of one CSI driver, with the nodes that they are attached to and the pods that use them."""

    def __init__(self) -> None:
        self.users: dict[VolumeID, set[int]] = {}
        """Volume -> rows of the running pods that use it."""
        self.attached: dict[VolumeID, Counter[str]] = {}
        """Volume -> node name -> number of VolumeAttachments that attach it there."""
        self.sharing: dict[str, NodeVolumes] = {}
        """Node name -> volumes used on the node, for nodes whose pods share volumes."""
        self.unshared: dict[int, int] = {}
        """Pod row -> number of volumes that no other pod of its node uses."""
        self._used: dict[str, dict[VolumeID, Counter[int]]] = {}
        """Node name -> volume -> pod row -> number of the pod's claims and inline volumes that resolve to it."""
        self._unshared_on: dict[str, tuple[int, ...]] = {}
        """Node name -> rows of its pods in `unshared`."""
        self._changed: set[str] = set()
        """Names of nodes whose volumes or attachments changed since the last `lay_out`."""

    def use(self, used: Attachment, row: int) -> None:
        """Record that a claim or inline volume of the running pod `row` resolves to this volume."""
        volume, node = used
        self._used.setdefault(node, {}).setdefault(volume, Counter())[row] += 1
        self.users.setdefault(volume, set()).add(row)
        self._changed.add(node)

    def stop_using(self, used: Attachment, row: int) -> None:
        volume, node = used
        volumes = self._used[node]
        rows = volumes[volume]
        rows[row] -= 1
        if rows[row]:
            return
        self._changed.add(node)
        remove_member(self.users, volume, row)
        remove_member(volumes, volume, row)
        if not volumes:
            del self._used[node]

    def attach(self, attachment: Attachment, times: int) -> None:
        """Record `times` more VolumeAttachments of the volume to the node; -1 if one was deleted."""
        volume, node = attachment
        nodes = self.attached.setdefault(volume, Counter())
        nodes[node] += times
        if not nodes[node]:
            remove_member(self.attached, volume, node)
        self._changed.add(node)

    def lay_out(self) -> None:
        """Rebuild the counts and sets of volumes on the nodes that changed."""
        # Delete all old rows first: a freed pod row may have been reused for a pod on a different changed node.
        for node in self._changed:
            self.sharing.pop(node, None)
            for row in self._unshared_on.pop(node, ()):
                del self.unshared[row]
        for node in self._changed:
            used = self._used.get(node, {}).items()
            found = NodeVolumes.of({volume: rows for volume, rows in used if node not in self.attached.get(volume, ())})
            if found.unshared:
                self.unshared.update(found.unshared)
                self._unshared_on[node] = tuple(found.unshared)
            if found.shared:
                self.sharing[node] = found
        self._changed.clear()


class AttachedVolumeIndex(Index):
    """CSI volumes that running pods use or that VolumeAttachments attach, by driver."""

    reads = ("claims", "volumes", "storage_classes", "volume_attachments")
    pod_parts = frozenset({"spec"})

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._storage = storage(snapshot)
        self._drivers: dict[str, DriverVolumes] = defaultdict(DriverVolumes)
        self._uses: dict[tuple[str, ClaimUse], dict[int, VolumeID | None]] = {}
        """(namespace, use of a claim) -> pod row -> CSI volume that the claim resolves to, or None."""
        self.others_claims: dict[int, set[ClaimUse]] = {}
        """Pod row -> its uses of claims that were created for another pod's generic ephemeral volume."""
        self._claims_of: dict[str, set[Key]] = defaultdict(set)
        self._attaching: dict[str, set[Key]] = defaultdict(set)
        self._attached: dict[Key, Attachment] = {}

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
        """Record that a claim or inline volume of the pod resolves to `after` instead of `before`."""
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
            remove_member(self.others_claims, row, use)

    def _refresh(self, uses: Iterable[tuple[str, ClaimUse]]) -> None:
        """Resolve the given uses of claims to volumes again, for each pod."""
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
                remove_member(self._claims_of, one.spec.volume_name, _key(one))
            elif isinstance(one, VolumeAttachment):
                key, volume = ("", one.metadata.name), one.spec.source.persistent_volume_name or ""
                if is_now:
                    self._attaching[volume].add(key)
                    self._attach(key, one)
                else:
                    remove_member(self._attaching, volume, key)
                    self._detach(key)
        one = after or before
        if isinstance(one, PersistentVolumeClaim):
            self._refresh(_uses_of(_key(one)))
        elif isinstance(one, PersistentVolume):
            for claim in self._claims_of.get(one.metadata.name, ()):
                self._refresh(_uses_of(claim))
            for key in tuple(self._attaching.get(one.metadata.name, ())):
                self._detach(key)
                self._attach(key, self.snapshot.objects.volume_attachments[key])
        elif isinstance(one, StorageClass):
            # A StorageClass names the driver of claims without a volume. It rarely changes: resolve all claims again.
            self._refresh(self._uses)

    def _attach(self, key: Key, attachment: VolumeAttachment) -> None:
        if not self.snapshot.features.volume_attachments_count:
            return
        spec = attachment.spec
        volume = self._storage.volume(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            attached = self._attached[key] = (spec.attacher, volume.spec.csi.volume_handle), spec.node_name
            self._drivers[spec.attacher].attach(attached, 1)

    def _detach(self, key: Key) -> None:
        attached = self._attached.pop(key, None)
        if attached is not None:
            self._drivers[attached[0][0]].attach(attached, -1)


def _key(claim: PersistentVolumeClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _uses_of(claim: Key) -> list[tuple[str, ClaimUse]]:
    """Return the uses by which pods may refer to a claim: by name, or by a generic ephemeral volume."""
    namespace, name = claim
    return [(namespace, ClaimUse(name, is_ephemeral)) for is_ephemeral in (False, True)]
