"""The lists of the pods of each node equal those of the snapshot, whatever changed meanwhile."""

from random import Random

import msgspec
import numpy as np
from hypothesis import given

from extender.core.preemption.node_pods import NodePods
from extender.core.profile import UPSTREAM
from extender.k8s.kinds import key_of
from extender.k8s.objects import Node
from tests.builders import built, cluster, node, placed, pod, typed
from tests.profiles import SEEDS, examples

NODES = ("n1", "n2", "n3")


def world():
    return built(cluster({node(name): [pod(f"{name}-a"), pod(f"{name}-b")] for name in NODES}))


@examples(6, 20, 5_000)
@given(SEEDS)
def test_after_any_changes_the_lists_are_those_of_the_snapshot(seed):
    chance, snapshot = Random(seed), world()
    residents = snapshot.index(NodePods, UPSTREAM.preemption)
    for _ in range(60):
        change(chance, snapshot)
        snapshot.refresh_layout()
        rows = sorted(snapshot.node_row[name] for name in snapshot.node_names)
        found = residents.on(snapshot.layout, np.array(rows))
        assert [one.pods for one in found] == [snapshot.pods_on(snapshot.node_names[row]) for row in rows], (
            "a list differs from the snapshot"
        )
        again = residents.on(snapshot.layout, np.array(rows))
        assert all(one is other for one, other in zip(found, again, strict=True)), (
            "a list was made again without a change"
        )


def change(chance, snapshot):
    """A pod comes, goes, changes or moves; a node goes or comes back."""
    name = chance.choice("abcdef")
    if chance.random() < 0.2:
        which = chance.choice((*NODES, "n4"))
        if which in snapshot.node_row and len(snapshot.nodes) > 1:
            snapshot.remove("Node", ("", which))
        else:
            snapshot.put("Node", msgspec.convert(node(which).raw, Node))
        return
    one = typed(placed(pod(name, priority=chance.randint(0, 3)), chance.choice(NODES)))
    if key_of("Pod", one) in snapshot.objects.pods and chance.random() < 0.4:
        snapshot.remove("Pod", key_of("Pod", one))
    else:
        snapshot.put("Pod", one)
