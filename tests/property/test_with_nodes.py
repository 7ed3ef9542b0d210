"""Nodes that are in a snapshot for one decision count as if they were in the cluster, and leave no trace.

python -c 'from tests.property.test_with_nodes import check; check(4711)'
"""

import random

from hypothesis import given
from msgspec.structs import replace

from extender.core import engine
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node
from tests.builders import typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case
from tests.property.test_changes import change, metadata, objects_of, put
from tests.property.test_scheduling_signatures import PROFILES, answers

SOME = examples(3, 60, 20_000)
STEPS = 8


def check(seed: int) -> None:
    """Decide with and without templates in turn, between changes of the cluster."""
    chance = random.Random(seed)
    profile = chance.choice(PROFILES)
    pods = [typed(case(seed + number).pod) for number in range(3)]
    material = [one for number in range(3) for one in objects_of(seed + number)]
    known = [one for _, one in material if isinstance(one, Node)]
    changing = engine.prepare(Snapshot())
    for kind, one in objects_of(seed):
        put(changing, kind, one)
    changing.refresh_layout()
    for step in range(STEPS):
        templates = [template(chance.choice(known), step, chance) for _ in range(chance.randint(0, 4))]
        pod = metadata(chance.choice(pods), name=f"pod-{step}", uid=f"uid-pod-{step}")
        before = compare(changing, changing.frozen(), pod, profile)
        versions, rows = dict(changing._versions), list(changing.node_names)
        with changing.with_nodes({one.metadata.name: one for one in templates}.values()):
            compare(changing, changing.frozen(), pod, profile)
        assert (changing._versions, changing.node_names, changing.frozen()) == (versions, rows, before), (
            "the nodes of the decision leave a trace"
        )
        compare(changing, before, pod, profile)
        if chance.random() < 0.5:
            change(changing, chance, material)
            changing.refresh_layout()


def template(node: Node, step: int, chance: random.Random) -> Node:
    """A node that is new, one that the cluster has in another state, or one on which pods wait to run."""
    name = chance.choice((f"template-{step}-{chance.randint(0, 3)}", node.metadata.name))
    labels = (node.metadata.labels or {}) | {"kubernetes.io/hostname": name}
    return replace(node, metadata=replace(node.metadata, name=name, labels=labels))


def compare(snapshot: Snapshot, objects: ClusterObjects, pod, profile) -> ClusterObjects:
    rebuilt = Snapshot.build(objects)
    for names in (snapshot.node_names, snapshot.node_names[::-2]):
        assert answers(snapshot, pod, names, profile) == answers(rebuilt, pod, names, profile), (
            "the nodes of the decision count otherwise than others"
        )
    return objects


@given(seed=SEEDS)
@SOME
def test_nodes_of_one_decision_count_like_others_and_leave_no_trace(seed):
    check(seed)
