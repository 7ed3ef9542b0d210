"""Pods with resource claims: kube-scheduler and the extender allocate alike, and say the same where they cannot."""

import pytest

from extender.cluster.files.manifests import load_cluster
from tests.device_builders import (
    DRIVER,
    alternative,
    claim,
    device,
    device_class,
    first_available,
    match_attribute,
    request,
    resource_slice,
    using_claims,
)
from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.control_plane.test_simulate import events

NODES = ("n1", "n2", "n3", "n4")
SERVED_IN = "resource.k8s.io/v1"


def gpu(name, model, memory, **attributes):
    about = {"model": model, "driverVersion": {"version": "1.2.3"}, "root": name} | attributes
    return device(name, attributes=about, capacity={"memory": memory})


LARGE = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("60Gi")) >= 0'
NEW = f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("1.0.0"))'
ABSENT = f'device.attributes["{DRIVER}"].absent == "x"'

SLICES = [
    resource_slice("a", "n1", [gpu("gpu-0", "A100", "40Gi"), gpu("gpu-1", "A100", "40Gi")]),
    resource_slice("b", "n2", [gpu("gpu-0", "H100", "80Gi")]),
    resource_slice("d", "n4", [gpu("gpu-0", "A10", "24Gi")]),
]

CLAIMS = {
    "large": claim("large", request("gpu", LARGE)),
    "pair": claim("pair", request("gpu", count=2), constraints=[match_attribute(f"{DRIVER}/model")]),
    "large-again": claim("large-again", request("gpu", LARGE)),
    "fails": claim("fails", request("gpu", ABSENT)),
    "either": claim("either", first_available(alternative("gpu", LARGE), alternative("gpu", NEW))),
    "of-no-class": claim("of-no-class", request("absent")),
}
"""In the order in which their pods arrive."""

MESSAGES = {
    "large-again": "0/4 nodes are available: 4 cannot allocate all claims.",
    "fails": "CEL runtime error: no such key: absent",
    "of-no-class": "request r: device class absent does not exist",
}
OUTCOMES = {"large": "n2", "pair": "n1", "either": "n4"}
"""Pod -> node; the others wait."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """Nodes with GPUs; the API server serves two versions of the API."""
    config = "resource.k8s.io/v1beta2=true"
    with ControlPlane(tmp_path_factory.mktemp("plane"), runtime_config=config) as started:
        api = started.api
        api.create(*(node(name) for name in NODES))
        api.create(*map(served, [device_class("gpu", f'device.driver == "{DRIVER}"'), *SLICES, *CLAIMS.values()]))
        yield started


@pytest.fixture(scope="module")
def service(plane):
    with Service(plane) as started:
        yield started


def served(one):
    """The object as a client creates it."""
    about = {key: value for key, value in one["metadata"].items() if key != "uid"}
    return {"apiVersion": SERVED_IN, **one, "metadata": about}


def test_pods_get_the_devices_that_the_extender_says(plane, service):
    api = plane.api
    with CallRecorder(service.url) as recorder:
        scheduler = plane.start_scheduler({"extenders": [service.extender(recorder.url)]})
        for name in CLAIMS:
            one = pod(name, "100m", **using_claims(name))
            assert_cache_is_current(service, api)
            said = foretold(service, one)
            accepted = accepted_nodes(service, one)
            uid = api.create(one)["metadata"]["uid"]
            if name in OUTCOMES:
                bound = api.wait_until(lambda name=name: api.get("Pod", name)["spec"].get("nodeName"), 20, name)
                assert (bound, said["node"], accepted) == (OUTCOMES[name], bound, [bound])
            else:
                message = api.wait_until(lambda uid=uid: events(api, uid), 20, f"{name} to be tried")[0]
                assert (said["node"], accepted) == (None, [])
                assert message == said["message"]
                assert MESSAGES[name] in message
        assert {call.name for call in recorder.calls_of("filter")} == {f"default/{name}" for name in OUTCOMES}
        assert [call.headers.get("x-extender-not-evaluated") for call in recorder.calls_of("filter")] == [None] * 3
        assert allocated(api) == {
            "large": [("n2", "gpu-0")],
            "pair": [("n1", "gpu-0"), ("n1", "gpu-1")],
            "either": [("n4", "gpu-0")],
        }
        scheduler.stop()
    assert_cache_is_current(service, api)


def test_an_older_version_of_the_api_has_the_same_fields(plane, service):
    """An API server before v1.34 serves v1beta2 only."""
    rule = {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "k", "effect": "None"}}
    plane.api.create(
        {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "off"}, "spec": rule}
    )
    kinds = ("DeviceClass", "ResourceSlice", "ResourceClaim")
    v1, v1beta2 = (
        load_cluster({"kind": "List", "items": [one for kind in kinds for one in plane.api.list(f"{version}/{kind}")]})
        for version in ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
    )
    assert v1 == v1beta2
    assert len(v1.resource_claims) == len(CLAIMS)
    assert_cache_is_current(service, plane.api)
    assert "DeviceTaintRule: watching" in service.admin_get("/readyz?verbose").text


def test_a_claim_that_only_a_dry_run_would_find_unavailable_is_not_deallocated(plane, service):
    """Where the idle claim is not, another plugin rejects the pod: at most the dry run tells DynamicResources of it.

    That comes after its PostFilter, which therefore leaves the claim alone, here as in kube-scheduler.
    """
    api, apart = plane.api, {"pool": "apart"}
    api.create(priority_class("high", 1000), node("d1", cpu="2", labels=apart), node("d2", labels=apart))
    held, idle = (
        claim("held", request("gpu"), allocated=[("d1", "gpu-0")], node="d1", reserved_for=["another"]),
        claim("idle", request("gpu"), allocated=[("d2", "gpu-0")], node="d2"),
    )
    for name in ("d1", "d2"):
        api.create(served(resource_slice(name, name, [gpu("gpu-0", "A100", "40Gi")])))
    for one in (held, idle):
        api.create(served({key: value for key, value in one.items() if key != "status"}))
        api.patch_status("ResourceClaim", one["metadata"]["name"], one["status"])
    api.create(pod("low", "2", node="d1"))
    both = pod("both", "1", priority_class="high", nodeSelector=apart, **using_claims("held", "idle"))
    with Service(plane, {"scheduler": {"version": "1.36"}}, name="as-1.36", roles=None) as older:
        assert_cache_is_current(older, api)
        said = foretold(older, both)
        scheduler = plane.start_scheduler({"extenders": [older.extender()]}, "1.36")
        uid = api.create(both)["metadata"]["uid"]
        message = api.wait_until(lambda: events(api, uid), 20, "the pod to be tried")[0]
        scheduler.stop()
    assert message == said["message"]
    assert "1 Insufficient cpu, 1 resourceclaim not available on the node" in message
    assert "still not schedulable" in message
    assert allocated(api)["idle"] == [("d2", "gpu-0")]


def foretold(service, one):
    """What the simulation says of the pod: its first message and its node."""
    answer = service.admin_post("/simulate", {"pod": one})
    assert answer.status_code == 200, answer.text
    cycle = answer.json()["cycles"][0]
    return {"node": cycle["node"], "message": cycle["message"]}


def accepted_nodes(service, one):
    about = {**one, "metadata": {**one["metadata"], "uid": f"uid-{one['metadata']['name']}"}}
    return service.call("filter", {"Pod": about, "NodeNames": list(NODES)}).json().get("NodeNames") or []


def allocated(api):
    """Claim -> (pool, device) of each device."""
    found = {}
    for one in api.list("ResourceClaim", "default"):
        results = one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        if results:
            found[one["metadata"]["name"]] = [(each["pool"], each["device"]) for each in results]
    return found
