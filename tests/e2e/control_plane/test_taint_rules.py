"""DeviceTaintRules (GA and on in 1.37): devices are kept away from, and given back, as kube-scheduler does."""

import pytest

from tests.device_builders import DRIVER, claim, device, device_class, request, resource_slice, using_claims
from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.objects import node, pod
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.control_plane.test_devices import allocated, foretold, served
from tests.e2e.control_plane.test_simulate import events

RULES = {
    "of the driver": {"driver": DRIVER},
    "of the pool": {"driver": DRIVER, "pool": "a"},
    "of the device": {"driver": DRIVER, "pool": "a", "device": "gpu-0"},
    "of every device": {},
}
REPAIR = {"key": "example.com/repair", "value": "x", "effect": "NoSchedule"}
CANNOT = "0/2 nodes are available: 2 cannot allocate all claims."


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ControlPlane(tmp_path_factory.mktemp("plane")) as started:
        started.api.create(node("n1"), node("n2"))
        devices = resource_slice("a", "n1", [device("gpu-0")], pool="a")
        started.api.create(*map(served, [device_class("gpu", f'device.driver == "{DRIVER}"'), devices]))
        yield started


@pytest.fixture(scope="module")
def service(plane):
    with Service(plane) as started:
        yield started


def rule(name, selector, taint):
    spec = {"taint": taint} if selector is None else {"deviceSelector": selector, "taint": taint}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def use(api, name, **fields):
    """Create a claim of one device, and the pod that uses it; return the pod."""
    api.create(served(claim(name, request("gpu", **fields))))
    return pod(name, "100m", **using_claims(name))


@pytest.mark.parametrize("number", range(len(RULES)), ids=list(RULES))
def test_a_rule_keeps_pods_away_until_it_is_deleted(plane, service, number):
    api, name = plane.api, f"waits-{number}"
    api.create(rule("repair", list(RULES.values())[number], REPAIR))
    one = use(api, name)
    assert_cache_is_current(service, api)
    said = foretold(service, one)
    with CallRecorder(service.url) as recorder:
        scheduler = plane.start_scheduler({"extenders": [service.extender(recorder.url)]})
        uid = api.create(one)["metadata"]["uid"]
        message = api.wait_until(lambda: events(api, uid), 20, f"{name} to be tried")[0]
        assert (said["node"], said["message"]) == (None, message)
        assert CANNOT in message
        assert not recorder.calls_of("filter")
        api.delete("DeviceTaintRule", "repair")
        bound = api.wait_until(lambda: api.get("Pod", name)["spec"].get("nodeName"), 30, f"{name} to be bound")
        assert [call.answer["NodeNames"] for call in recorder.calls_of("filter")] == [[bound]] == [["n1"]]
        scheduler.stop()
    assert_cache_is_current(service, api)
    clear(api, name)


@pytest.mark.parametrize(
    ("selector", "taint", "tolerations"),
    [
        ({"driver": DRIVER}, REPAIR, [{"key": "example.com/repair", "operator": "Exists"}]),
        ({"driver": DRIVER}, REPAIR | {"effect": "None"}, None),
        ({"driver": DRIVER, "pool": "another"}, REPAIR, None),
        (None, REPAIR, None),
    ],
    ids=["tolerated", "of no effect", "of another pool", "without a selector"],
)
def test_a_rule_that_does_not_matter(plane, service, selector, taint, tolerations):
    api = plane.api
    api.create(rule("repair", selector, taint))
    one = use(api, "fits", **({"tolerations": tolerations} if tolerations else {}))
    assert_cache_is_current(service, api)
    assert foretold(service, one)["node"] == "n1"
    scheduler = plane.start_scheduler({"extenders": [service.extender()]})
    api.create(one)
    assert api.wait_until(lambda: api.get("Pod", "fits")["spec"].get("nodeName"), 20, "the pod to be bound") == "n1"
    assert allocated(api) == {"fits": [("a", "gpu-0")]}
    scheduler.stop()
    api.delete("DeviceTaintRule", "repair")
    clear(api, "fits")


def clear(api, name):
    """Delete the pod and its claim, with the device that it holds."""
    api.delete("Pod", name, grace=0)
    api.wait_until(lambda: api.find("Pod", name) is None, 20, "the pod to go")
    api.patch("ResourceClaim", name, {"metadata": {"finalizers": None}})
    api.delete("ResourceClaim", name)
    api.wait_until(lambda: api.find("ResourceClaim", name) is None, 20, "the claim to go")
