"""Pods that are resized in place: kube-scheduler 1.37 sums what is wanted, allocated and held over the whole pod."""

import pytest

from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.control_plane.test_devices import foretold
from tests.e2e.control_plane.test_simulate import events

CONTAINERS = ("a", "b")
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}

RESIZES = {
    # wanted, allocated, held, condition -> cpu that counts
    "grows": ((1, 3), (1, 1), (1, 1), None, 4),
    "shrinks": ((1, 1), (1, 1), (3, 1), None, 4),
    "one grows and the other shrinks": ((1, 3), (3, 1), (3, 1), None, 4),
    "is deferred": ((1, 4), (1, 1), (1, 1), DEFERRED, 5),
    "is infeasible": ((1, 4), (2, 1), (1, 1), INFEASIBLE, 3),
}
NODE = 6


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ControlPlane(tmp_path_factory.mktemp("plane")) as started:
        started.kubelet.deletion_seconds = 0.1
        started.api.create(priority_class("high", 1000), priority_class("low", 10, policy="Never"))
        yield started


@pytest.fixture(scope="module")
def service(plane):
    with Service(plane) as started:
        yield started


def container(name, cpu):
    return {"name": name, "image": "registry.example.com/app:1", "resources": {"requests": {"cpu": str(cpu)}}}


def run_resized(api, name, wanted, allocated, held, condition):
    """Run the pod as the kubelet would report it in the middle of the resize."""
    api.create(pod(name, node="n1", priority_class="low", containers=[*map(container, CONTAINERS, allocated)]))
    running = api.wait_until(lambda: is_running(api.get("Pod", name)), 20, f"{name} to run")
    status = [
        one | {"allocatedResources": {"cpu": str(of)}, "resources": {"requests": {"cpu": str(has)}}}
        for one, of, has in zip(running["status"]["containerStatuses"], allocated, held, strict=True)
    ]
    conditions = running["status"]["conditions"] + ([condition] if condition else [])
    api.patch_status("Pod", name, {"containerStatuses": status, "conditions": conditions})
    spec = {"containers": [*map(container, CONTAINERS, wanted)]}
    path = api.path("Pod", "default", name, "resize")  # only for a pod whose status has resources
    api.request("PATCH", path, {"spec": spec}, "application/strategic-merge-patch+json")


def is_running(one):
    return one if one.get("status", {}).get("phase") == "Running" else None


@pytest.fixture
def api(plane):
    """The API server, with one node; what the test created goes afterwards."""
    plane.api.create(node("n1", str(NODE)))
    yield plane.api
    plane.api.request("DELETE", plane.api.path("Pod", "default"), {"gracePeriodSeconds": 0})
    plane.api.wait_until(lambda: not plane.api.list("Pod", "default"), 20, "all pods to go")
    plane.api.request("DELETE", plane.api.path("Event", "default"))
    plane.api.request("DELETE", plane.api.path("Node"))


@pytest.mark.parametrize("name", RESIZES)
def test_a_pod_that_is_resized_takes_as_much_as_kube_scheduler_says(plane, service, api, name):
    *states, counts = RESIZES[name]
    run_resized(api, "resized", *states)
    fits, too_large = pod("fits", str(NODE - counts), "1Mi"), pod("too-large", f"{NODE - counts}001m", "1Mi")
    assert_cache_is_current(service, api)
    said = {one["metadata"]["name"]: foretold(service, one) for one in (fits, too_large)}
    assert (said["fits"]["node"], said["too-large"]["node"]) == ("n1", None)
    scheduler = plane.start_scheduler({"extenders": [service.extender()]})
    uid = api.create(too_large)["metadata"]["uid"]
    message = api.wait_until(lambda: events(api, uid), 20, "the pod to be tried")[0]
    assert message == said["too-large"]["message"]
    assert "1 Insufficient cpu" in message
    api.create(fits)
    assert api.wait_until(lambda: api.get("Pod", "fits")["spec"].get("nodeName"), 20, "the pod to be bound") == "n1"
    scheduler.stop()


def test_a_pod_preempts_one_that_is_resized(plane, service, api):
    run_resized(api, "resized", (1, 3), (3, 1), (3, 1), None)
    urgent = pod("urgent", "3", "1Mi", priority_class="high")
    assert_cache_is_current(service, api)
    said = foretold(service, urgent)
    scheduler = plane.start_scheduler({"extenders": [service.extender()]})
    uid = api.create(urgent)["metadata"]["uid"]
    message = api.wait_until(lambda: events(api, uid), 20, "the pod to be tried")[0]
    assert message == said["message"]
    assert "preemption: found a potential placement for pod on node n1, preempting 1 victims" in message
    assert api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "the pod to be bound") == "n1"
    evicted = api.wait_until(
        lambda: api.list("v1/Event", "default", fieldSelector="reason=Preempted,involvedObject.name=resized"),
        20,
        "the event Preempted",
    )
    assert [one["message"] for one in evicted] == [f"Preempted by pod {uid} on node n1"]
    scheduler.stop()
