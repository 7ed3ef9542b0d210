"""kube-scheduler places and preempts pods of all kinds through the extender; each answer against the API server."""

from typing import Any

import pytest

from tests.e2e.control_plane.lab import pods_of_all_kinds as kinds
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.evictions import judge
from tests.e2e.control_plane.lab.ranking import best_candidates
from tests.e2e.control_plane.lab.service import Service

ARRIVALS = 60
PREEMPTORS = 32
"""On full nodes, in each of two rounds."""
FORMS = {"names": True, "nodes": False}
"""Form of the nodes in a request -> nodeCacheCapable."""


@pytest.fixture(scope="module")
def cluster(plane):
    """A quiet cluster: deleted pods are gone soon, so that preemptions do not overlap."""
    plane.kubelet.deletion_seconds = 0.1
    kinds.create_cluster(plane.api)
    return plane


@pytest.fixture(scope="module")
def service(cluster):
    with Service(cluster, {"bind": {"enabled": True}}, roles=("bind",)) as started:
        yield started


@pytest.fixture(params=FORMS)
def calls(request, cluster, service):
    """Calls of a kube-scheduler that uses all verbs; the pods of the test go afterwards."""
    with CallRecorder(service.url) as recorder:
        entry = service.extender(recorder.url, bindVerb="bind", nodeCacheCapable=FORMS[request.param])
        scheduler = cluster.start_scheduler({"extenders": [entry]})
        yield recorder
        scheduler.stop()
    kinds.clear_pods(cluster.api)


def assert_no_call_failed_or_refused(calls):
    """On a quiet machine both caches agree: what kube-scheduler found feasible, the extender does too."""
    assert [one for one in calls if one.status != 200] == []
    for one in calls:
        match one.verb:
            case "filter":
                refused = (one.answer["FailedNodes"], one.answer["FailedAndUnresolvableNodes"], one.answer["Error"])
                assert not any(refused), one
            case "prioritize":
                assert [it["Host"] for it in one.answer] == list(one.nodes)
                assert all(0 <= it["Score"] <= 10 for it in one.answer)
            case "bind":
                assert one.answer == {"Error": ""}, one


@pytest.mark.parametrize("calls", FORMS, indirect=True)
def test_arrivals_of_all_kinds(cluster, calls, request):
    api = cluster.api
    prefix = request.node.callspec.id
    kinds.create_volumes(api, prefix, ARRIVALS // len(kinds.KINDS))
    for i in range(ARRIVALS):
        api.create(kinds.arrival(i, prefix))
        assert kinds.settle(api, f"{prefix}-{i}")["spec"].get("nodeName"), f"{prefix}-{i} is not bound"
    # The API server shows a pod as bound before the extender answers the call.
    api.wait_until(lambda: len(calls.calls_of("bind")) >= ARRIVALS, 30, f"{ARRIVALS} answers of /bind")
    assert_no_call_failed_or_refused(calls.calls)
    assert {one.verb for one in calls.calls} == {"filter", "prioritize", "bind"}
    bound = {one.uid: one.nodes[0] for one in calls.calls_of("bind")}
    assert bound == {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in api.list("Pod", "default")}
    assert len(bound) == ARRIVALS


@pytest.mark.parametrize(("calls", "rounds"), [("names", 2), ("nodes", 1)], indirect=["calls"])
def test_preemptions_of_all_kinds(cluster, service, calls, rounds):
    api = cluster.api
    running: dict[str, Any] = {}
    for turn in range(rounds):
        prefix = f"p{rounds}{turn}"
        kinds.clear_pods(api)
        kinds.fill_nodes(api, prefix)
        for i in range(PREEMPTORS):
            running |= {one["metadata"]["uid"]: one for one in kinds.wait_for_cache(api, service)}
            api.create(kinds.preemptor(i, prefix, priority_class="patient" if i % 8 == 6 else None))
            if not kinds.settle(api, f"{prefix}-{i}")["spec"].get("nodeName"):
                api.delete("Pod", f"{prefix}-{i}", grace=0)
    assert_no_call_failed_or_refused(calls.calls)
    preempt = calls.calls_of("preempt")
    assert len(preempt) > rounds * PREEMPTORS * 0.75
    for one in preempt:
        assert len(one.answered_victims) == 1, one
        ((node, victims),) = one.answered_victims.items()
        assert node in best_candidates(one, running), one
        assert set(victims) == set(one.victims[node]), one
    assert any(len(set(one.violations.values())) > 1 for one in preempt), "no budget ever decided"
    assert_done_as_answered(cluster.audit_events(), preempt)


def assert_done_as_answered(events, preempt):
    """kube-scheduler nominated and evicted what the extender answered, and nothing else."""
    uids = {one.uid for one in preempt}
    judgement = judge(events, preempt)
    assert (judgement.faults, judgement.unexplained) == ([], [])
    done = {(one.preemptor, one.node): set(one.victims) for one in judgement.preemptions if one.preemptor in uids}
    assert done == {(one.uid, node): set(uids) for one in preempt for node, uids in one.answered_victims.items()}
    nominated = {
        (event.response["metadata"]["uid"], event.request["status"]["nominatedNodeName"])
        for event in events
        if (event.user, event.subresource) == ("system:kube-scheduler", "status")
        and event.request.get("status", {}).get("nominatedNodeName")
    }
    assert {one for one in nominated if one[0] in uids} == done.keys()
