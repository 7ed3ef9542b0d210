"""PodGroups (GenericWorkload, beta in 1.37 and off): what a real kube-scheduler asks about them, and what it takes."""

import pytest

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
        started.api.create(priority_class("high", 1000), priority_class("low", 10))
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
    for kind in ("Pod", f"{API}/PodGroup"):
        plane.api.request("DELETE", plane.api.path(kind, "default"), {"gracePeriodSeconds": 0})
    plane.api.wait_until(lambda: not plane.api.list("Pod", "default"), 20, "all pods to go")
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


def names_of(api, uids):
    return sorted(one["metadata"]["name"] for one in api.list("Pod", "default") if one["metadata"]["uid"] in uids)


def left(api):
    return sorted(one["metadata"]["name"] for one in api.list("Pod", "default"))


def failure(api, name, *, after=""):
    """The message of the pod's event FailedScheduling."""
    found = api.list("v1/Event", "default", fieldSelector=f"reason=FailedScheduling,involvedObject.name={name}")
    return next((one["message"] for one in found if after in one["message"]), None)


def preempted(api):
    """Pod -> message of its event Preempted."""
    found = api.list("v1/Event", "default", fieldSelector="reason=Preempted")
    return {one["involvedObject"]["name"]: one["message"] for one in found}


def test_explore(plane, service, calls):
    import json
    import time

    api = plane.api
    api.create(node("n1", "4"), node("n2", "4"))
    api.create(group("one-node", "all"))
    api.create(member("m1", "one-node", cpu="2", node="n1"), member("m2", "one-node", cpu="2", node="n1"))
    api.create(pod("full", "4", priority_class="high", node="n2"))
    time.sleep(2)
    api.create(pod("urgent", "1", priority_class="high"))
    time.sleep(5)
    out = {
        "local": [
            (c.verb, c.name, c.nodes, {n: names_of(api, u) for n, u in c.victims.items()}, c.answer)
            for c in calls.calls
        ],
        "left": left(api),
        "failure": failure(api, "urgent"),
        "preempted": preempted(api),
    }
    calls.clear()
    api.create(group("two-nodes", "all"))
    api.create(node("n3", "4"), node("n4", "4"))
    api.create(member("c1", "two-nodes", cpu="4", node="n3"), member("c2", "two-nodes", cpu="4", node="n4"))
    time.sleep(2)
    api.create(pod("urgent2", "4", priority_class="high"))
    time.sleep(5)
    out["cross"] = [(c.verb, c.name, c.nodes, c.victims, c.answer, c.headers) for c in calls.calls]
    out["cross-left"] = left(api)
    out["cross-failure"] = failure(api, "urgent2")
    calls.clear()
    api.create(group("gang", "all", minimum=2, priority_class="high"))
    api.create(
        member("g1", "gang", cpu="4", priority_class="high"), member("g2", "gang", cpu="4", priority_class="high")
    )
    time.sleep(8)
    out["gang"] = [(c.verb, c.name, c.nodes, c.victims, c.answer) for c in calls.calls]
    out["gang-left"] = left(api)
    out["gang-failure"] = [failure(api, "g1"), failure(api, "g2")]
    out["preempted2"] = preempted(api)
    open("/tmp/kube/explore.json", "w").write(json.dumps(out, indent=1))
