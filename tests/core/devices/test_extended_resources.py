"""Extended resources that a DeviceClass backs: every verdict was also asked of kube-scheduler 1.36 itself."""

import pytest

import extender
from extender.config.scheduler.load import kube_scheduler_of
from extender.core import engine
from extender.core.devices.extended_resources import device_requests, extended_resource_claim
from extender.core.profile import FILTER_PLUGINS, KubeScheduler, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from tests.builders import built, cluster, incoming, node, pod, thing, typed
from tests.device_builders import claim, device_class, devices, request, resource_slice, using_claims

GPU, FPGA, BY_CLASS = "example.com/gpu", "example.com/fpga", "deviceclass.resource.kubernetes.io/"
BACKED = device_class("gpu", extended_resource=GPU)
SLICES = [resource_slice("s1", "n1", devices(4)), resource_slice("s2", "n2", devices(1))]
FITS, CANNOT_ALLOCATE = "", "cannot allocate all claims"


def nodes():
    """n1 has four devices, n2 one, n3 three of a device plugin."""
    return {node("n1"): [], node("n2"): [], node("n3", allocatable={GPU: "3"}): []}


def asking(*containers, init=(), **fields):
    """A pod with these requests per container; `Always` makes an init container a sidecar."""

    def made(name, requests):
        amounts = {resource: amount for resource, amount in requests.items() if resource != "Always"}
        always = {"restartPolicy": "Always"} if "Always" in requests else {}
        return {"name": name, "resources": {"requests": amounts}} | always

    return incoming(
        **fields,
        containers=[made(f"c{number}", one) for number, one in enumerate(containers)],
        initContainers=[made(f"i{number}", one) for number, one in enumerate(init)],
    )


def evaluated(waiting, *others, given=None, scheduler=None):
    objects = cluster(nodes() if given is None else given, others=[*(others or [BACKED]), *SLICES])
    return extender.evaluate(objects, waiting, scheduler=scheduler).to_dict()


def reasons(waiting, *others, **settings):
    return {name: ", ".join(one["reasons"]) for name, one in evaluated(waiting, *others, **settings)["filter"].items()}


# --- which nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "found"),
    [
        ("1", [FITS, FITS, FITS]),
        ("2", [FITS, CANNOT_ALLOCATE, FITS]),
        ("4", [FITS, CANNOT_ALLOCATE, f"Insufficient {GPU}"]),
        ("5", [CANNOT_ALLOCATE, CANNOT_ALLOCATE, f"Insufficient {GPU}"]),
        ("0", [FITS, FITS, FITS]),
        ("1500m", [FITS, FITS, FITS]),  # no whole number: no device is requested for it
    ],
)
def test_devices_provide_the_resource_on_nodes_without_a_device_plugin(amount, found):
    assert list(reasons(asking({GPU: amount})).values()) == found


def test_the_name_of_the_class_is_a_resource_that_only_devices_provide():
    assert list(reasons(asking({BY_CLASS + "gpu": "1"})).values()) == [FITS, FITS, CANNOT_ALLOCATE]
    both = asking({BY_CLASS + "gpu": "1", GPU: "1"})
    assert list(reasons(both).values()) == [FITS, CANNOT_ALLOCATE, CANNOT_ALLOCATE]


def test_a_resource_that_nothing_provides_does_not_fit_where_node_resources_fit_ignores_it():
    profile = Profile(ignored_resources=frozenset({FPGA}))
    without = Profile(filter_plugins=tuple(name for name in FILTER_PLUGINS if name != "NodeResourcesFit"))
    lacking = node("n1"), node("n2", allocatable={FPGA: "0"}), node("n3", allocatable={GPU: "3"})
    given = dict.fromkeys(lacking, ())
    for one in (profile, without):
        scheduler = KubeScheduler((one,))
        found = reasons(asking({GPU: "1", FPGA: "1"}), given=given, scheduler=scheduler)
        assert found == {"n1": "cannot fit resource", "n2": FITS, "n3": "cannot fit resource"}


def test_too_many_devices_end_the_cycle():
    error = (
        "claim default/<extended-resources>, request container-0-request-0: "
        "adding 1000 devices exceeds the claim limit of 32, with 0 already accounted for"
    )
    assert evaluated(asking({GPU: "1k"}))["cycleError"] == f'running "DynamicResources" filter plugin: {error}'


def test_beside_a_claim_of_the_pod():
    waiting = asking({GPU: "1"}, **using_claims("c"))
    found = reasons(waiting, BACKED, claim("c", request()))
    assert list(found.values()) == [FITS, CANNOT_ALLOCATE, CANNOT_ALLOCATE]
    found = reasons(waiting, BACKED, claim("c", request(), allocated=[("n1", "gpu-0")], node="n1"))
    assert list(found.values()) == [FITS, *["resourceclaim not available on the node"] * 2]


def test_pods_on_a_node_with_a_device_plugin_can_be_evicted_for_it():
    given = {node("n1", cpu="1"): [], node("n3", allocatable={GPU: "1"}): [pod("a", priority=1, requests={GPU: "1"})]}
    snapshot = built(cluster(given, others=[BACKED]))
    sent = {"n3": SentCandidate(("uid-a",))}
    decision = engine.preempt(snapshot, typed(asking({GPU: "1"})), sent, Profile())
    assert [(kept.node, len(kept.victims)) for kept in decision.kept] == [("n3", 1)]
    assert decision.not_evaluated == ()


# --- which class ----------------------------------------------------------------------------------------------------


OLD, NEW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


def backing(name, created, driver):
    found = device_class(name, f'device.driver == "{driver}"', extended_resource=GPU)
    found["metadata"]["creationTimestamp"] = created
    return found


@pytest.mark.parametrize(
    ("of_a", "of_b", "asked", "fits"),
    [
        (OLD, NEW, GPU, "n2"),
        (NEW, OLD, GPU, "n1"),
        (OLD, OLD, GPU, "n1"),
        (OLD, NEW, BY_CLASS + "a", "n1"),
        (OLD, NEW, BY_CLASS + "b", "n2"),
        (NEW, OLD, BY_CLASS + "b", None),
        (OLD, OLD, BY_CLASS + "b", None),
    ],
)
def test_of_two_classes_the_newer_one_backs_the_resource(of_a, of_b, asked, fits):
    """Devices of driver a are on n1, those of b on n2. A class that yields has no resource of its own name either."""
    classes = [backing("a", of_a, "a.example.com"), backing("b", of_b, "b.example.com")]
    slices = [
        resource_slice("a", "n1", devices(1), driver="a.example.com"),
        resource_slice("b", "n2", devices(1), driver="b.example.com"),
    ]
    for listed in (classes, classes[::-1]):
        objects = cluster({node("n1"): [], node("n2"): []}, others=[*listed, *slices])
        verdicts = extender.evaluate(objects, asking({asked: "1"})).to_dict()["filter"]
        assert [name for name, one in verdicts.items() if one["code"] == "Success"] == ([fits] if fits else [])


def test_without_a_class_or_the_gate_the_resource_is_insufficient():
    other = device_class("other")
    assert set(reasons(asking({GPU: "5"}), other).values()) == {f"Insufficient {GPU}"}
    assert set(reasons(asking({BY_CLASS + "gpu": "1"}), other).values()) == {f"Insufficient {BY_CLASS}gpu"}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler = kube_scheduler_of(document, version="1.35")
    assert set(reasons(asking({GPU: "5"}), scheduler=scheduler).values()) == {f"Insufficient {GPU}"}


# --- a claim of an earlier cycle ------------------------------------------------------------------------------------


def earlier(*requests, owner="incoming", **fields):
    found = claim("left", *requests, owner=owner, **fields)
    found["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return found


def test_while_the_claim_of_an_earlier_cycle_is_there_no_node_fits():
    found = reasons(asking({GPU: "1"}), BACKED, earlier(request()))
    assert set(found.values()) == {"cannot schedule extended resource claim"}
    assert set(reasons(asking({GPU: "1"}), BACKED, earlier(request(), owner="other")).values()) == {FITS}


def test_one_without_requests_is_used():
    empty = thing("ResourceClaim", "left", namespace="default", metadata=earlier()["metadata"], spec={"devices": {}})
    assert list(reasons(asking({GPU: "2"}), BACKED, empty).values()) == [FITS, CANNOT_ALLOCATE, FITS]
    allocated = empty | {"status": earlier(allocated=[("n1", "gpu-0")])["status"]}
    assert list(reasons(asking({GPU: "2"}), BACKED, allocated).values()) == [FITS, FITS, FITS]


def test_the_claim_of_an_earlier_cycle_is_found_after_changes():
    living, waiting = built(cluster(nodes(), others=[BACKED])), typed(asking({GPU: "1"}))

    def name():
        found = extended_resource_claim(living, waiting)
        return None if found is None else found.metadata.name

    loaded = extender.load_cluster(cluster({}, others=[earlier(request())])).resource_claims[0]
    assert name() == "<extended-resources>"
    living.put("ResourceClaim", loaded)
    assert name() == "left"
    living.remove("ResourceClaim", ("default", "left"))
    assert name() == "<extended-resources>"
    living.remove("DeviceClass", ("", "gpu"))
    assert name() is None


# --- requests per container -----------------------------------------------------------------------------------------


def requested(waiting, *resources):
    """Request -> count."""
    living: Snapshot = built(cluster({node("n1"): []}, others=[BACKED]))
    found = device_requests(living, typed(waiting), resources or (GPU,))
    return {one.name: one.exactly.count for one in found if one.exactly is not None}


def test_containers_request_devices_of_their_own_named_by_their_place_and_that_of_the_resource():
    waiting = asking({"cpu": "1", GPU: "2"}, {"cpu": "1"}, {GPU: "1"})
    assert requested(waiting) == {"container-0-request-1": 2, "container-2-request-0": 1}
    both = asking({BY_CLASS + "gpu": "1", GPU: "2"})
    assert requested(both, GPU, BY_CLASS + "gpu") == {"container-0-request-0": 1, "container-0-request-1": 2}


def test_requests_are_in_the_order_of_their_names():
    waiting = asking(*[{GPU: "1"}] * 11)
    assert list(requested(waiting))[:3] == [f"container-{at}-request-0" for at in (0, 1, 10)]


def test_init_containers_use_the_devices_of_those_that_come_later():
    waiting = asking({GPU: "1"}, {GPU: "2"}, init=[{GPU: "1"}, {GPU: "3"}])
    assert requested(waiting) == {"container-2-request-0": 1, "container-3-request-0": 2}


def test_what_init_containers_need_beyond_is_requested_once():
    waiting = asking({GPU: "1"}, init=[{GPU: "2"}, {GPU: "4"}])
    assert requested(waiting) == {"container-1-request-0": 3, "container-2-request-0": 1}


def test_sidecars_keep_their_devices_from_their_place_on():
    """An init container uses those of sidecars behind it only."""
    before = asking({GPU: "1"}, init=[{GPU: "2", "Always": ""}, {GPU: "4"}])
    assert requested(before) == {
        "container-0-request-0": 2,
        "container-1-request-0": 3,
        "container-2-request-0": 1,
    }
    behind = asking({GPU: "1"}, init=[{GPU: "3"}, {GPU: "2", "Always": ""}])
    assert requested(behind) == {"container-1-request-0": 2, "container-2-request-0": 1}
