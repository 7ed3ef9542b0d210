"""Budgets are kept with policy Strict; kill switch and mode Observe leave decisions to a real kube-scheduler."""

from typing import Any

import pytest

from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.evictions import judge
from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class, workload
from tests.e2e.control_plane.lab.ranking import best_candidates
from tests.e2e.control_plane.lab.service import Service

SHOPS = ("cart", "search", "mail", "etl")
NODES = 10
MAX_UNAVAILABLE = 4
STRICT = {"disruptionBudgets": "Strict", "budgetAccounting": "Live", "candidates": "AllNodes"}
ONE_CANDIDATE = {
    "name": "DefaultPreemption",
    "args": {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1},
}


@pytest.fixture(scope="module")
def cluster(plane):
    """Pods of n0 have the lowest priority, those of n9 the highest."""
    plane.kubelet.deletion_seconds = 0.1
    plane.api.create(priority_class("high", 1000), *(priority_class(f"class-{i}", i) for i in range(NODES)))
    plane.api.create(*(node(f"n{i}", cpu="4") for i in range(NODES)))
    return plane


@pytest.fixture
def shops(cluster):
    """Four workloads with a pod on every node, so that the nodes are full, and a budget each."""
    api = cluster.api
    for name in SHOPS:
        owner = api.create(workload("ReplicaSet", name, NODES, {"app": name}))
        api.create(budget(name, {"app": name}, maxUnavailable=MAX_UNAVAILABLE))
        for i in range(NODES):
            one = pod(f"{name}-{i}", node=f"n{i}", labels={"app": name}, owner=owner, grace=1)
            one["spec"]["priorityClassName"] = f"class-{i}"
            api.create(one)
    kinds.wait_for_budgets(api)
    yield
    kinds.clear_pods(api)


def fewest_running(events):
    """Return the fewest pods of each workload that ran at any time, and how many evictions each user made."""
    running = {name: {f"{name}-{i}" for i in range(NODES)} for name in SHOPS}
    fewest, evictions = dict.fromkeys(SHOPS, NODES), {"scheduler": 0, "api": 0}
    for one in sorted(events, key=lambda one: one.completed):
        by = {("", "delete"): "scheduler", ("eviction", "create"): "api"}.get((one.subresource, one.verb))
        shop = one.name.partition("-")[0]
        if one.resource == "pods" and by and one.status < 300 and one.name in running.get(shop, ()):
            running[shop].discard(one.name)
            fewest[shop] = len(running[shop])
            evictions[by] += 1
    return fewest, evictions


def test_strict_never_goes_below_a_budget(cluster, shops):
    """Three preemptions at a time, and evictions through the API between them, until the budgets are used up."""
    api = cluster.api
    began = len(cluster.audit_events())
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [ONE_CANDIDATE]}
    with Service(cluster, {"preemption": STRICT}) as service, CallRecorder(service.url) as recorder:
        entry = service.extender(recorder.url, filterVerb=None, prioritizeVerb=None)
        scheduler = cluster.start_scheduler({"profiles": [profile], "extenders": [entry]})
        for turn in range(4):
            assert any(api.evict(f"{name}-{NODES - 1 - turn}") for name in SHOPS) or turn > 1
            kinds.wait_for_cache(api, service)
            names = [f"urgent-{turn}-{i}" for i in range(3)]
            api.create(*(pod(name, "2", priority_class="high", grace=1) for name in names))
            for name in names:
                kinds.settle(api, name)
        scheduler.stop()
        calls = recorder.calls
    events = cluster.audit_events()
    fewest, evictions = fewest_running(events[began:])
    assert min(fewest.values()) >= NODES - MAX_UNAVAILABLE
    assert evictions["api"] >= 2
    assert evictions["scheduler"] >= 6
    assert judge(events, calls).faults == []
    assert any("would break disruption budget" in one.headers.get("x-extender-vetoed", "") for one in calls)
    assert any(one.answered_victims.keys() - one.victims.keys() for one in calls), "no better node that was not sent"


LEFT_ALONE: dict[str, tuple[dict[str, Any], str, int]] = {
    # configuration, result of /preempt, whether it differs from the decision
    "observe": ({"mode": "Observe"}, "passthrough", 1),
    "pass-through": ({"killSwitch": {"enabled": True, "preempt": "PassThrough"}}, "passthrough", 0),
    "veto": ({"killSwitch": {"enabled": True, "preempt": "Veto"}}, "vetoed", 0),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_kube_scheduler_decides_alone(cluster, shops, name):
    """The policies protect every pod; they are not enforced, and the kill switch may forbid all evictions."""
    config, result, observed = LEFT_ALONE[name]
    api = cluster.api
    running = {one["metadata"]["uid"]: one for one in kinds.wait_for_budgets(api)}
    protect: dict[str, Any] = {"preemption": {"protections": {"rules": [{"name": "everything"}]}}}
    with Service(cluster, protect | config, name=name) as service, CallRecorder(service.url) as recorder:
        scheduler = cluster.start_scheduler({"extenders": [service.extender(recorder.url)]})
        made = api.create(pod("urgent", "2", priority_class="high", grace=1))
        after = kinds.settle(api, "urgent")
        scheduler.stop()
        asked = recorder.calls_of("preempt")
        filtered = recorder.calls_of("filter")
        assert service.metric("extender_answers_total", verb="preempt", result=result) == len(asked)
        differing = service.metric("extender_observed_answers_total", verb="preempt", outcome="differs")
        assert differing == service.log.count("the answer would have been: a veto") == observed * len(asked)
    call = asked[0]
    done = [
        one
        for one in judge(cluster.audit_events(), recorder.calls).preemptions
        if one.preemptor == made["metadata"]["uid"]
    ]
    if result == "vetoed":
        assert (call.answered_victims, done, after["spec"].get("nodeName")) == ({}, [], None)
        return
    assert call.answered_victims == call.victims
    assert {done[0].node} == best_candidates(call, running)
    assert set(done[0].victims) == set(call.victims[done[0].node])
    assert after["spec"]["nodeName"] == done[0].node
    assert {done[0].node} == {node for one in filtered for node in one.answer["NodeNames"]}
