"""The last filter run is reused for an equal pod and profile on an unchanged snapshot, and only then."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from extender.core import engine
from extender.core.eviction_history import EvictionHistory
from extender.core.framework.filter import last_filter_run, node_rows, run_filter_plugins, scheduling_context
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from tests.builders import budget, built, cluster, incoming, node, pod, stored_cluster, typed
from tests.core.test_record import world

NAMES = ["n2", "n4", "n1", "n3"]
PROFILE = Profile()


def cached_checks(snapshot, profile=PROFILE, **of_pod):
    """Filter through the cache and return the checks: a reused filter run has the identical object."""
    context = scheduling_context(snapshot, typed(incoming(**({"cpu": "2"} | of_pod))), profile, EvictionHistory(7))
    found = last_filter_run(context)
    expected = run_filter_plugins(context)
    assert found.context is context
    assert (found.codes == expected.codes).all()
    every = np.arange(len(expected.codes))
    assert found.statuses(every).to_list() == expected.statuses(every).to_list()
    return found.checks


def test_the_same_pod_is_not_filtered_twice():
    snapshot = world()
    assert cached_checks(snapshot) is cached_checks(snapshot)


@pytest.mark.parametrize(
    "other",
    [{"cpu": "3"}, {"name": "other"}, {"priority": 7}, {"profile": replace(PROFILE, keep_candidates=3)}],
    ids=["other requests", "another name", "another priority", "another profile"],
)
def test_another_pod_or_profile_is_filtered_again(other):
    snapshot = world()
    assert cached_checks(snapshot) is not cached_checks(snapshot, **other)


def add_pod(snapshot):
    snapshot.put("Pod", typed(pod("new", "2", nodeName="n3")))


def remove_pod(snapshot):
    snapshot.remove("Pod", ("default", "e"))


def nominate_pod(snapshot):
    snapshot.put("Pod", typed(incoming("waiting", cpu="7", priority=3000, status={"nominatedNodeName": "n3"})))


def remove_nominated_pod(snapshot):
    snapshot.remove("Pod", ("default", "nominee"))


def add_budget(snapshot):
    snapshot.put(
        "PodDisruptionBudget", *built(cluster({}, budgets=[budget("third", app="z")])).objects.budgets.values()
    )


def add_node(snapshot):
    snapshot.put("Node", built(cluster({node("n5"): []})).nodes[0])


def replace_node(snapshot):
    snapshot.put("Node", built(cluster({node("n3", cpu="1"): []})).nodes[0])


def remove_node(snapshot):
    snapshot.remove("Node", ("", "n4"))


def revoke_permission(snapshot):
    snapshot.unreadable_tables = frozenset({"claims"})


CHANGES = [
    add_pod,
    remove_pod,
    nominate_pod,
    remove_nominated_pod,
    add_budget,
    add_node,
    replace_node,
    remove_node,
    revoke_permission,
]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_pod_is_filtered_again(change):
    snapshot = world()
    before = cached_checks(snapshot)
    change(snapshot)
    snapshot.refresh_layout()
    assert cached_checks(snapshot) is not before


def test_the_same_node_names_are_not_looked_up_again():
    snapshot = world()
    rows = node_rows(snapshot, NAMES)
    assert [snapshot.node_names[row] for row in rows] == NAMES
    assert node_rows(snapshot, list(NAMES)) is rows
    assert [snapshot.node_names[row] for row in node_rows(snapshot, NAMES[::-1])] == NAMES[::-1]


def test_nodes_are_looked_up_again_once_one_has_another_row():
    snapshot = world()
    before = node_rows(snapshot, ["n4"]).tolist()
    snapshot.remove("Node", ("", "n1"))
    assert [snapshot.node_names[row] for row in node_rows(snapshot, ["n4"])] == ["n4"]
    assert node_rows(snapshot, ["n4"]).tolist() != before


def test_a_list_changed_in_place_is_looked_up_again():
    snapshot, names = world(), list(NAMES)
    node_rows(snapshot, names)
    names.reverse()
    assert [snapshot.node_names[row] for row in node_rows(snapshot, names)] == names


def test_the_cache_does_not_keep_the_snapshot_alive():
    """It is freed with its last reference, without the garbage collector."""
    snapshot = world()
    engine.filter(snapshot, typed(incoming(cpu="2")), NAMES, PROFILE)
    held = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("minor", "ungated", "nominees"),
    [
        (36, frozenset(), ["queued"]),
        (36, frozenset({"default-scheduler"}), ["gated", "queued"]),
        (37, frozenset(), ["gated", "queued"]),
    ],
)
def test_a_gated_nominated_pod_counts_from_1_37_on_or_if_its_profile_does_not_hold_it_back(minor, ungated, nominees):
    status = {"nominatedNodeName": "n3"}
    gated = incoming("gated", priority=3000, status=status, schedulingGates=[{"name": "quota"}])
    waiting = [incoming("queued", priority=3000, status=status), gated]
    snapshot = Snapshot.build(stored_cluster(cluster({node("n3"): []}, waiting=waiting)), Features.of(minor))
    context = scheduling_context(snapshot, typed(incoming()), replace(PROFILE, ungated_scheduler_names=ungated))
    assert sorted(one.metadata.name for one in context.nominees) == nominees
