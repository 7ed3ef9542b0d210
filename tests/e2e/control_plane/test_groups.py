"""PodGroups (GenericWorkload, beta in 1.37 and off): what a real kube-scheduler asks about them, and what it takes."""

import pytest

from extender.core.preemption.sent_candidates import RejectionReason
from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.service import Service

API = "scheduling.k8s.io/v1beta1"
FOUND = "found a potential placement for pod on node {}, preempting {} victims"


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    directory = tmp_path_factory.mktemp("plane")
    with ControlPlane(directory, runtime_config=f"{API}=true", feature_gates="GenericWorkload=true") as started:
        started.kubelet.deletion_seconds = 0.1
        started.api.create(priority_class("high", 1000), priority_class("medium", 100), priority_class("low", 10))
        yield started


@pytest.fixture(scope="module")
def service(plane):
    with Service(plane) as started:
        yield started


@pytest.fixture
def calls(plane, service):
    """The calls of a kube-scheduler; what the test created goes afterwards."""
    with CallRecorder(service.url) as recorder:
        scheduler = plane.start_scheduler({"extenders": [service.extender(recorder.url)]})
        yield recorder
        scheduler.stop()
    for kind in ("Pod", f"{API}/PodGroup", "v1/Event"):
        plane.api.request("DELETE", plane.api.path(kind, "default"), {"gracePeriodSeconds": 0})
    plane.api.wait_until(lambda: not plane.api.list("Pod", "default"), 20, "all pods to go")
    for one in plane.api.list(f"{API}/PodGroup", "default"):  # a controller that does not run here would end them
        plane.api.patch(f"{API}/PodGroup", one["metadata"]["name"], {"metadata": {"finalizers": None}})
    plane.api.request("DELETE", plane.api.path("Node"))


def group(name, mode, *, minimum=1, priority_class="low"):
    spec = {
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "disruptionMode": {mode: {}},
        "priorityClassName": priority_class,
    }
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def member(name, of, **fields):
    return pod(name, schedulingGroup={"podGroupName": of}, **{"priority_class": "low", **fields})


def left(api):
    return sorted(one["metadata"]["name"] for one in api.list("Pod", "default"))


def failure(api, name):
    """The message of the pod's event FailedScheduling."""
    found = api.list("v1/Event", "default", fieldSelector=f"reason=FailedScheduling,involvedObject.name={name}")
    return found[0]["message"] if found else None


def preempted(api):
    """Pod -> message of its event Preempted."""
    found = api.list("v1/Event", "default", fieldSelector="reason=Preempted")
    return {one["involvedObject"]["name"]: one["message"] for one in found}


def answers(calls, verb):
    """(pod, answer) of each call of a verb."""
    return [(one.name.removeprefix("default/"), one.answer) for one in calls.calls_of(verb)]


def run_group(api, name, mode, nodes, cpu="4"):
    """Run a group with one pod on each of these nodes; return their UIDs."""
    api.create(group(name, mode))
    made = [api.create(member(f"{name}-{at}", name, cpu=cpu, node=on)) for at, on in enumerate(nodes)]
    for one in made:
        about = one["metadata"]["name"]
        api.wait_until(lambda about=about: api.get("Pod", about)["status"].get("phase") == "Running", 20, about)
    return [one["metadata"]["uid"] for one in made]


def test_a_group_on_one_node_is_evicted_whole(plane, service, calls):
    """One pod less would make room."""
    api = plane.api
    api.create(node("n1", "4"))
    uids = run_group(api, "train", "all", ["n1", "n1"], cpu="2")
    assert_cache_is_current(service, api)
    uid = api.create(pod("urgent", "1", priority_class="high"))["metadata"]["uid"]
    assert api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "the pod to be bound") == "n1"
    (call,) = calls.calls_of("preempt")
    assert set(call.victims["n1"]) == set(call.answered_victims["n1"]) == set(uids)
    assert FOUND.format("n1", 2) in failure(api, "urgent")
    expected = dict.fromkeys(("train-0", "train-1"), f"Preempted by pod {uid} on node n1")
    api.wait_until(lambda: preempted(api) == expected, 20, "the events Preempted")


def test_of_a_group_that_may_be_split_kube_scheduler_s_choice_is_taken(plane, service, calls):
    api = plane.api
    api.create(node("n1", "4"))
    run_group(api, "train", "single", ["n1", "n1"], cpu="2")
    assert_cache_is_current(service, api)
    api.create(pod("urgent", "1", priority_class="high"))
    assert api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "the pod to be bound") == "n1"
    (call,) = calls.calls_of("preempt")
    assert len(call.victims["n1"]) == 1
    assert call.answered_victims == call.victims
    assert FOUND.format("n1", 1) in failure(api, "urgent")


def test_a_group_on_two_nodes_stays_and_another_node_is_taken(plane, service, calls):
    """kube-scheduler sends the whole group for each of its nodes."""
    api = plane.api
    api.create(node("n1", "4"), node("n2", "4"), node("n3", "4"))
    uids = run_group(api, "train", "all", ["n1", "n2"])
    api.create(pod("more-important", "4", priority_class="medium", node="n3"))
    assert_cache_is_current(service, api)
    api.create(pod("urgent", "4", priority_class="high"))
    assert api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "the pod to be bound") == "n3"
    (call,) = calls.calls_of("preempt")
    assert set(call.victims["n1"]) == set(call.victims["n2"]) == set(uids)
    assert list(call.answered_victims) == ["n3"]
    assert {"train-0", "train-1"} <= set(left(api))


def test_no_pod_preempts_a_group_on_two_nodes_through_an_extender(plane, service, calls):
    """kube-scheduler takes its own candidates from no extender: the answer leaves them out, and says so."""
    api = plane.api
    api.create(node("n1", "4"), node("n2", "4"))
    run_group(api, "train", "all", ["n1", "n2"])
    assert_cache_is_current(service, api)
    api.create(pod("urgent", "4", priority_class="high"))
    message = api.wait_until(lambda: failure(api, "urgent"), 20, "the pod to be tried")
    assert message.endswith(" preemption: no candidate node for preemption")
    call = calls.calls_of("preempt")[0]
    assert call.answered_victims == {}
    assert call.headers["x-extender-vetoed"] == f"2 nodes: {RejectionReason.GROUP_ELSEWHERE.value}"
    assert {"train-0", "train-1"} <= set(left(api))


def test_a_group_preempts_with_an_extender_that_filters(plane, service, calls):
    """kube-scheduler tries the group on nodes without the victims, and asks /filter, but never /preempt."""
    api = plane.api
    api.create(node("n1", "4"), node("n2", "4"))
    run_group(api, "train", "all", ["n1", "n2"])
    assert_cache_is_current(service, api)
    uid = api.create(group("urgent", "all", minimum=2, priority_class="high"))["metadata"]["uid"]
    for name in ("u0", "u1"):
        api.create(member(name, "urgent", cpu="4", priority_class="high"))
    for name in ("u0", "u1"):
        api.wait_until(lambda name=name: api.get("Pod", name)["spec"].get("nodeName"), 30, f"{name} to be bound")
    assert calls.calls_of("preempt") == []
    assert {name for name, _ in answers(calls, "filter")} == {"u0", "u1"}
    assert not any(answer["FailedNodes"] for _, answer in answers(calls, "filter"))
    expected = dict.fromkeys(("train-0", "train-1"), f"Preempted by podgroup {uid} on node cluster")
    api.wait_until(lambda: preempted(api) == expected, 20, "the events Preempted")
