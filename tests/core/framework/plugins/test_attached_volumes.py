"""Volumes that pods use are found again when claims, volumes and classes change, and only where they are others."""

import random

import pytest
from msgspec import convert
from msgspec.structs import replace

from extender.core.framework.plugins.shared.attached_volumes import AttachedVolumeIndex
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import VolumeIndex
from extender.k8s.storage.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from extender.k8s.version.features import Features
from tests.builders import built, cluster, node, pod, stored_cluster, thing

BY_KIND = {one.__name__: one for one in (PersistentVolumeClaim, PersistentVolume, VolumeAttachment)}
DRIVERS = ("a.example.com", "b.example.com")


def _claim(nth, volume):
    return thing("PersistentVolumeClaim", f"c{nth}", namespace="default", spec={"volumeName": volume})


def _volume(nth, driver, handle):
    return thing("PersistentVolume", f"pv{nth}", spec={"csi": {"driver": driver, "volumeHandle": handle}})


def _attachment(nth, volume):
    spec = {"attacher": DRIVERS[0], "nodeName": "n0", "source": {"persistentVolumeName": volume}}
    return thing("VolumeAttachment", f"va{nth}", spec=spec)


def _pods(claims):
    mounts = [{"name": f"v{nth}", "persistentVolumeClaim": {"claimName": f"c{nth}"}} for nth in range(claims)]
    chance = random.Random(1)
    return {
        node(f"n{n}"): [pod(f"p{n}-{k}", "1m", volumes=chance.sample(mounts, chance.randint(0, 3))) for k in range(4)]
        for n in range(2)
    }


def _state(snapshot: Snapshot):
    """Return what the index says, with pods by name."""
    index, found = snapshot.index(AttachedVolumeIndex), []
    for volumes in map(index.of, DRIVERS):
        name = [one.metadata.name for one in snapshot.pods].__getitem__
        users = {volume: sorted(map(name, rows)) for volume, rows in volumes.users.items()}
        unshared = {name(row): count for row, count in volumes.unshared.items()}
        shared = {
            node: {volume: one.counts[number] for volume, number in one.shared.items()}
            for node, one in volumes.sharing.items()
        }
        found.append((users, volumes.attached, unshared, shared))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_changes_of_storage_objects_lead_to_what_a_new_index_says(seed):
    chance, claims = random.Random(seed), 6
    found = built(cluster(_pods(claims)))
    found.index(AttachedVolumeIndex)
    for _ in range(60):
        nth = chance.randrange(claims)
        volume = f"pv{chance.randrange(claims)}"
        one = chance.choice(
            [
                _claim(nth, chance.choice(["", volume])),
                _volume(nth, chance.choice(DRIVERS), f"h{chance.randrange(4)}"),
                _attachment(nth, volume),
            ]
        )
        key = (one["metadata"].get("namespace", ""), one["metadata"]["name"])
        if chance.random() < 0.3 and key in found.objects.of(one["kind"]):
            found.remove(one["kind"], key)
        else:
            found.put(one["kind"], convert(one, BY_KIND[one["kind"]]))
        found.refresh_layout()
    tables = (found.objects.claims, found.objects.volumes, found.objects.volume_attachments)
    again = built(cluster(_pods(claims)))
    for one in (one for table in tables for one in table.values()):
        again.put(type(one).__name__, one)
    again.refresh_layout()
    assert _state(found) == _state(again)


@pytest.mark.parametrize(("minor", "attached"), [(31, set()), (32, {"n0"})])
def test_attachments_count_from_1_32_on(minor, attached):
    others = [_volume(0, DRIVERS[0], "h0"), _attachment(0, "pv0")]
    found = Snapshot.build(stored_cluster(cluster(_pods(3), others=others)), Features.of(minor))
    volumes = found.index(AttachedVolumeIndex).of(DRIVERS[0])
    assert {name for nodes in volumes.attached.values() for name in nodes} == attached


def test_H2_a_change_of_a_claim_looks_up_its_own_volume_only(monkeypatch):
    many = [{"name": f"v{nth}", "persistentVolumeClaim": {"claimName": f"c{nth}"}} for nth in range(50)]
    storage = [one for nth in range(50) for one in (_claim(nth, f"pv{nth}"), _volume(nth, DRIVERS[0], f"h{nth}"))]
    nodes = {node("n0"): [pod(f"p{k}", "1m", volumes=many) for k in range(4)]}
    found, lookups = built(cluster(nodes, others=storage)), []
    volumes = found.index(AttachedVolumeIndex).of(DRIVERS[0])
    before, look_up = found.index(AttachedVolumeIndex).of(DRIVERS[0]).sharing["n0"], VolumeIndex.csi_volume

    def counted(self, one, use):
        lookups.append(use.name)
        return look_up(self, one, use)

    monkeypatch.setattr(VolumeIndex, "csi_volume", counted)
    claim = found.objects.claims["default", "c7"]
    found.put("PersistentVolumeClaim", replace(claim, metadata=replace(claim.metadata, annotations={"a": "b"})))
    found.refresh_layout()
    assert lookups == ["c7"] * 4
    assert volumes.sharing["n0"] is before
