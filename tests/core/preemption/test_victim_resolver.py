"""What is cached between preemptions equals what would be looked up without a cache, whatever changed meanwhile."""

from random import Random

import msgspec
import numpy as np
import pytest

from extender.core.preemption import victim_resolver
from extender.core.preemption.node_pods import NodePods
from extender.core.preemption.victim_resolver import VictimResolver
from extender.core.profile import UPSTREAM
from extender.k8s.kinds import key_of
from extender.k8s.objects import Node
from tests.builders import built, cluster, node, placed, pod, typed

NODES = ("n1", "n2", "n3")


def world():
    return built(cluster({node(name): [pod(f"{name}-a"), pod(f"{name}-b")] for name in NODES}))


def looked_up(snapshot, offered):
    """Per offer: are all victims known? And the pod rows of those that are, without anything that is remembered."""
    nodes = [snapshot.node_row[name] for name, _ in offered]
    found = [[snapshot.pod_table.row_of.get(uid, -1) for uid in uids] for _, uids in offered]
    here = [
        [row for row in rows if row >= 0 and snapshot.pod_node[row] == on]
        for rows, on in zip(found, nodes, strict=True)
    ]
    complete = [len(rows) == len(uids) for rows, (_, uids) in zip(here, offered, strict=True)]
    return complete, [row for rows in here for row in rows]


def known(snapshot, offered):
    """Resolve through the cache: node name and UIDs of each sent candidate."""
    nodes = [snapshot.node_row[name] for name, _ in offered]
    complete, rows = snapshot.index(VictimResolver).resolve(nodes, [uids for _, uids in offered])
    return complete.tolist(), rows.tolist()


def test_a_victim_is_known_on_its_own_node_only():
    snapshot = world()
    row = snapshot.pod_table.row_of["uid-n1-a"]
    uids = ("uid-n1-a", "uid-nobody")
    assert known(snapshot, [("n1", uids), ("n2", uids), ("n3", ())]) == ([False, False, True], [row])
    assert known(snapshot, [("n2", ("uid-n2-a",)), ("n1", ("uid-n1-a",))])[0] == [True, True]
    assert known(snapshot, []) == ([], [])


def test_what_was_looked_up_is_not_looked_up_again_until_the_node_changes():
    snapshot, uids, asked = world(), ("uid-n1-a",), []

    class Asked(dict):
        def get(self, uid, default=None):
            asked.append(uid)
            return super().get(uid, default)

    snapshot.pod_table.on_node = [Asked(one) for one in snapshot.pod_table.on_node]
    first = known(snapshot, [("n1", uids)])
    snapshot.put("Pod", typed(placed(pod("late"), "n2")))
    asked.clear()
    assert known(snapshot, [("n1", uids)]) == first
    assert asked == []
    snapshot.put("Pod", typed(placed(pod("later"), "n1")))
    asked.clear()
    assert known(snapshot, [("n1", uids)]) == first
    assert asked == ["uid-n1-a"]


def test_L3_no_more_victims_are_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(victim_resolver, "_MAX_CACHED_ENTRIES", 8)
    snapshot = world()
    index = snapshot.index(VictimResolver)
    for number in range(20):
        offered = [("n1", (f"uid-{number}", "uid-n1-a", "uid-n1-b")), ("n2", ("uid-n2-a",) * (number % 8))]
        assert known(snapshot, offered) == looked_up(snapshot, offered)
        assert index._count + index._begins[index._count] <= 8
        assert index._entry_of.keys() == {(on, id(one)) for on, every in index._uids_on_node.items() for one in every}


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_it_is_the_same_as_looked_up_without_a_cache(seed):
    chance, snapshot = Random(seed), world()
    uids = [tuple(chance.sample([f"uid-{one}" for one in "abcdef"], chance.randint(0, 3))) for _ in range(4)]
    offered = [(name, one) for name in (*NODES, "n4") for one in uids]
    residents = snapshot.index(NodePods, UPSTREAM.preemption)
    for _ in range(60):
        change(chance, snapshot)
        snapshot.refresh_layout()
        there = [one for one in chance.sample(offered, len(offered)) if one[0] in snapshot.node_row]
        there = list({name: (name, uids) for name, uids in there}.values())  # a node is sent once
        assert known(snapshot, there) == looked_up(snapshot, there)
        rows = sorted(snapshot.node_row[name] for name in snapshot.node_names)
        found = residents.on(snapshot.layout, np.array(rows))
        assert [one.pods for one in found] == [snapshot.pods_on(snapshot.node_names[row]) for row in rows]
        again = residents.on(snapshot.layout, np.array(rows))
        assert all(one is other for one, other in zip(found, again, strict=True))


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
