"""What was found for the last question is found again for the same one, and for no other."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from extender.core import engine
from extender.core.eviction_history import EvictionHistory
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.filter_cache import FilterCache
from extender.core.profile import Profile
from tests.builders import budget, built, cluster, incoming, node, pod, typed
from tests.core.explain.test_record import world

NAMES = ["n2", "n4", "n1", "n3"]
PROFILE = Profile()


def judged(snapshot, profile=PROFILE, **of_pod):
    """What is found again is told by the checks, which are the same objects then."""
    asked = scheduling_context(snapshot, typed(incoming(**({"cpu": "2"} | of_pod))), profile, EvictionHistory(7))
    found = snapshot.index(FilterCache).filter_run(asked)
    anew = run_filter_plugins(asked)
    assert found.context is asked
    assert (found.codes == anew.codes).all()
    assert found.statuses(np.arange(len(found.codes))) == anew.statuses(np.arange(len(anew.codes)))
    return found.checks


def test_the_same_pod_is_not_filtered_twice():
    snapshot = world()
    assert judged(snapshot) is judged(snapshot)


@pytest.mark.parametrize(
    "other",
    [{"cpu": "3"}, {"name": "other"}, {"priority": 7}, {"profile": replace(PROFILE, keep_candidates=3)}],
    ids=["other requests", "another name", "another priority", "another profile"],
)
def test_another_pod_or_profile_is_filtered_anew(other):
    snapshot = world()
    assert judged(snapshot) is not judged(snapshot, **other)


def a_pod_comes(snapshot):
    snapshot.put("Pod", typed(pod("new", "2", nodeName="n3")))


def a_pod_goes(snapshot):
    snapshot.remove("Pod", ("default", "e"))


def a_pod_is_nominated(snapshot):
    snapshot.put("Pod", typed(incoming("waiting", cpu="7", priority=3000, status={"nominatedNodeName": "n3"})))


def a_nominated_pod_goes(snapshot):
    snapshot.remove("Pod", ("default", "nominee"))


def a_budget_comes(snapshot):
    snapshot.put("PodDisruptionBudget", built(cluster({}, budgets=[budget("third", app="z")])).budgets[0])


def a_node_comes(snapshot):
    snapshot.put("Node", built(cluster({node("n5"): []})).nodes[0])


def a_node_is_another(snapshot):
    snapshot.put("Node", built(cluster({node("n3", cpu="1"): []})).nodes[0])


def a_node_goes(snapshot):
    snapshot.remove("Node", ("", "n4"))


def a_kind_may_not_be_read(snapshot):
    snapshot.unreadable_tables = frozenset({"claims"})


CHANGES = [
    a_pod_comes,
    a_pod_goes,
    a_pod_is_nominated,
    a_nominated_pod_goes,
    a_budget_comes,
    a_node_comes,
    a_node_is_another,
    a_node_goes,
    a_kind_may_not_be_read,
]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_pod_is_filtered_anew(change):
    snapshot = world()
    before = judged(snapshot)
    change(snapshot)
    snapshot.refresh_layout()
    assert judged(snapshot) is not before


def test_nodes_that_were_offered_last_are_not_looked_up_again():
    snapshot = world()
    last = snapshot.index(FilterCache)
    rows = last.rows(NAMES)
    assert [snapshot.node_names[row] for row in rows] == NAMES
    assert last.rows(list(NAMES)) is rows
    assert [snapshot.node_names[row] for row in last.rows(NAMES[::-1])] == NAMES[::-1]


def test_nodes_are_looked_up_again_once_one_has_another_row():
    snapshot = world()
    last = snapshot.index(FilterCache)
    before = last.rows(["n4"]).tolist()
    snapshot.remove("Node", ("", "n1"))
    assert [snapshot.node_names[row] for row in last.rows(["n4"])] == ["n4"]
    assert last.rows(["n4"]).tolist() != before


def test_a_list_that_was_changed_since_is_looked_up_anew():
    snapshot, names = world(), list(NAMES)
    last = snapshot.index(FilterCache)
    last.rows(names)
    names.reverse()
    assert [snapshot.node_names[row] for row in last.rows(names)] == names


def test_what_is_remembered_does_not_hold_the_snapshot():
    """It is to be gone with its last reader, not when cycles are sought."""
    snapshot = world()
    engine.filter(snapshot, typed(incoming(cpu="2")), NAMES, PROFILE)
    held = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert held() is None
    finally:
        gc.enable()
