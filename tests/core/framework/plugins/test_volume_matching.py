"""Volumes are matched on all nodes at once as kube-scheduler matches them node by node."""

import random

import pytest

from extender.core.framework.plugins.shared.volume_matching import NO_VOLUME_ROW, match_volumes
from extender.core.snapshot.volume_index import storage
from extender.k8s.selectors import EVERYTHING, compile_label_selector, compile_node_selector
from extender.k8s.storage.volumes import requested_storage, storage_capacity
from tests.builders import built, cluster, node, thing

NODES = 6
CLASSES = ("local", "global")


@pytest.mark.parametrize("seed", range(40))
def test_each_node_gets_the_volumes_that_kube_scheduler_finds_there(seed):
    chance = random.Random(seed)
    snapshot = _cluster(chance)
    claims = [claim for (_, _), claim in snapshot.objects.claims.items()]
    claims = chance.choices(claims, k=chance.randint(1, 6))  # a claim may occur twice
    found = list(match_volumes(snapshot, claims))
    for row, name in enumerate(snapshot.node_names):
        taken = set[int]()
        for claim, volumes in found:
            expected = _find_matching_volume(snapshot, name, claim, taken)
            taken.add(expected)
            assert volumes[row] == expected, (name, claim.metadata.name)
    assert [requested_storage(claim) for claim, _ in found] == sorted(map(requested_storage, claims))


def _find_matching_volume(snapshot, node_name, claim, taken):
    """Mirrors volume.FindMatchingVolume (component-helpers/storage/volume, v1.36) for one node."""
    numbers = sorted(storage(snapshot).by_number.items(), key=lambda one: (storage_capacity(one[1]), one[0]))
    labels = snapshot.nodes[snapshot.node_row[node_name]].metadata.labels
    selector = EVERYTHING if claim.spec.selector is None else compile_label_selector(claim.spec.selector)

    def accessible(volume):
        affinity = volume.spec.node_affinity
        terms = compile_node_selector(affinity.required).terms if affinity else None
        return terms is None or any(all(r.holds(labels.get(r.key)) for r in term.labels) for term in terms)

    for row, volume in sorted(storage(snapshot).by_number.items()):
        reference = volume.spec.claim_ref
        is_own = reference is not None and reference.name == claim.metadata.name
        fits = storage_capacity(volume) >= requested_storage(claim)
        if is_own and fits and volume.spec.storage_class_name == claim.spec.storage_class_name and row not in taken:
            return row if accessible(volume) else NO_VOLUME_ROW
    for row, volume in numbers:
        if (
            row not in taken
            and volume.spec.claim_ref is None
            and volume.spec.storage_class_name == claim.spec.storage_class_name
            and storage_capacity(volume) >= requested_storage(claim)
            and selector.matches(volume.metadata.labels)
            and accessible(volume)
        ):
            return row
    return NO_VOLUME_ROW


def _cluster(chance):
    nodes = [node(f"n{n}", labels={"zone": f"z{n % 2}", "rack": f"r{n % 3}"}) for n in range(NODES)]
    others = []
    for nth in range(chance.randint(0, 12)):
        spec = {
            "storageClassName": chance.choice(CLASSES),
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{chance.randint(1, 3)}Gi"},
        }
        key, value = chance.choice([("zone", "z0"), ("zone", "z1"), ("rack", "r1"), ("kubernetes.io/hostname", "n3")])
        if chance.random() < 0.6:
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if chance.random() < 0.2:
            spec["claimRef"] = {"namespace": "default", "name": f"c{chance.randint(0, 3)}"}
        labels = {"labels": {"tier": chance.choice("ab")}}
        status = {"phase": "Available"}
        others.append(thing("PersistentVolume", f"v{nth}", metadata=labels, spec=spec, status=status))
    for nth in range(4):
        spec = {
            "storageClassName": chance.choice(CLASSES),
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{chance.randint(1, 3)}Gi"}},
        }
        if chance.random() < 0.3:
            spec["selector"] = {"matchLabels": {"tier": "a"}}
        others.append(thing("PersistentVolumeClaim", f"c{nth}", namespace="default", spec=spec))
    return built(cluster(dict.fromkeys(nodes, ()), others=others))
