"""Scores of extended resources that a DeviceClass backs: every score was also asked of kube-scheduler 1.36 itself."""

import msgspec
import pytest

import extender
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.devices.class_totals import _parts, class_totals
from extender.core.framework.filter import scheduling_context
from extender.core.framework.scheduling_signature import cached_verdicts
from extender.k8s.devices.objects import DeviceClass, ResourceClaim, ResourceSlice
from tests.builders import JSON, built, cluster, incoming, node, pod, typed
from tests.device_builders import claim, device, device_class, devices, request, resource_slice

GPU, BY_CLASS = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
BACKED = device_class("gpu", extended_resource=GPU)
A100 = 'device.attributes["gpu.example.com"].model == "A100"'
"""Fails on a device without a model."""
SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
STRATEGIES: dict[str, JSON] = {
    "LeastAllocated": {},
    "MostAllocated": {},
    "RequestedToCapacityRatio": {"requestedToCapacityRatio": SHAPE},
}
ZONE_B = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
ON_BOTH = [resource_slice("s1", "n1", devices(4)), resource_slice("s2", "n2", devices(8))]


def config(strategy="MostAllocated", resource=GPU, balanced=()):
    kind = "kubescheduler.config.k8s.io/v1"
    scoring = {"type": strategy, "resources": [{"name": resource}]} | STRATEGIES[strategy]
    args: JSON = {"scoringStrategy": scoring}
    plugins = [{"name": "NodeResourcesFit", "args": {"apiVersion": kind, "kind": "NodeResourcesFitArgs"} | args}]
    if balanced:
        args = {"resources": [{"name": name, "weight": 1} for name in balanced]}
        about = {"apiVersion": kind, "kind": "NodeResourcesBalancedAllocationArgs"}
        plugins.append({"name": "NodeResourcesBalancedAllocation", "args": about | args})
    profile = {"schedulerName": "default-scheduler", "pluginConfig": plugins}
    return {"apiVersion": kind, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def asking(resource=GPU, amount="1", **others):
    return incoming(containers=[{"name": "c", "resources": {"requests": {resource: amount} | others}}])


def nodes(**allocatable):
    return {node("n1", labels={"zone": "a"}, allocatable=allocatable): [], node("n2", labels={"zone": "b"}): []}


def scores(objects, waiting, settings, plugin="NodeResourcesFit"):
    found = extender.evaluate(objects, waiting, scheduler=kube_scheduler_of(settings)).to_dict()
    return {name: of["plugins"].get(plugin) for name, of in found["scores"].items()}


SCENARIOS = {
    "free": (ON_BOTH, BACKED, [75, 87], [25, 12]),
    "allocated": (
        [*ON_BOTH, claim("c", request(), allocated=[("n1", "gpu-0"), ("n2", "gpu-7")])],
        BACKED,
        [50, 75],
        [50, 25],
    ),
    "admin access": (
        [*ON_BOTH, claim("c", request(), allocated=[{"pool": "n1", "device": "gpu-0", "adminAccess": True}])],
        BACKED,
        [75, 87],
        [25, 12],
    ),
    "selector": (
        [
            resource_slice(
                "s1",
                "n1",
                [
                    device("a", attributes={"model": "A100"}),
                    device("b", attributes={"model": "T4"}),
                    device("c", attributes={"model": "T4"}),
                ],
            ),
            resource_slice("s2", "n2", [device(one, attributes={"model": "A100"}) for one in "abcd"]),
        ],
        device_class("gpu", A100, extended_resource=GPU),
        [0, 75],
        [100, 25],
    ),
    "older generation": ([*ON_BOTH, resource_slice("s0", "n1", devices(6), generation=0)], BACKED, [90, 87], [10, 12]),
    "all nodes": ([*ON_BOTH, resource_slice("net", None, devices(6), allNodes=True)], BACKED, [90, 92], [10, 7]),
    "node selector": (
        [*ON_BOTH, resource_slice("net", None, devices(2), nodeSelector=ZONE_B)],
        BACKED,
        [75, 90],
        [25, 10],
    ),
    "no node selection": ([*ON_BOTH, resource_slice("net", None, devices(6))], BACKED, [90, 92], [10, 7]),
    "each device": (
        [
            *ON_BOTH,
            resource_slice(
                "net",
                None,
                [
                    device("a", nodeName="n1"),
                    device("b", allNodes=True),
                    device("c", nodeSelector=ZONE_B),
                    device("d", nodeName="n2"),
                    device("e"),
                ],
                perDeviceNodeSelection=True,
            ),
        ],
        BACKED,
        [83, 90],
        [16, 9],
    ),
    "tainted": (
        [*ON_BOTH, resource_slice("s3", "n1", [device("t", taints=[{"key": "k", "effect": "NoSchedule"}])], pool="t")],
        BACKED,
        [80, 87],
        [20, 12],
    ),
    "selector fails": (
        [
            resource_slice("s1", "n1", [device("a", attributes={"model": "A100"})]),
            resource_slice("s2", "n1", [device("b")], pool="z"),
            resource_slice("s3", "n2", [device("a", attributes={"model": "A100"})]),
        ],
        device_class("gpu", A100, extended_resource=GPU),
        [0, 0],
        [0, 100],
    ),
    "incomplete pool": (
        [*ON_BOTH, resource_slice("half", "n1", devices(4), pool="half", slices=2)],
        BACKED,
        [87, 87],
        [12, 12],
    ),
}
"""What is there, the class, and the scores of n1 and n2 by LeastAllocated and by MostAllocated."""


@pytest.mark.parametrize(("things", "backing", "least", "most"), SCENARIOS.values(), ids=SCENARIOS)
def test_devices_of_the_class_are_scored(things, backing, least, most):
    objects = cluster(nodes(), others=[backing, *things])
    for strategy, expected in zip(STRATEGIES, (least, most, most), strict=True):
        assert list(scores(objects, asking(), config(strategy)).values()) == expected, strategy


ONE_ALLOCATED = [BACKED, *ON_BOTH, claim("c", request(), allocated=[("n1", "gpu-0")])]


def test_the_name_of_the_class_is_a_resource_too():
    objects = cluster(nodes(), others=ONE_ALLOCATED)
    assert scores(objects, asking(BY_CLASS), config(resource=BY_CLASS)) == {"n1": 50, "n2": 12}


@pytest.mark.parametrize(("amount", "n1"), [("4", 75), ("0", 50)])
def test_a_node_with_a_device_plugin_is_scored_by_what_its_pods_request(amount, n1):
    running = [pod("p", containers=asking(amount="2")["spec"]["containers"])]
    given = {node("n1", allocatable={GPU: amount}): running, node("n2"): []}
    assert scores(cluster(given, others=ONE_ALLOCATED), asking(), config()) == {"n1": n1, "n2": 12}


def test_a_resource_that_is_not_requested_is_not_scored():
    assert scores(cluster(nodes(), others=ONE_ALLOCATED), asking("cpu"), config()) == {"n1": 0, "n2": 0}


def test_balanced_allocation_scores_devices():
    objects, plugin = cluster(nodes(), others=ONE_ALLOCATED), "NodeResourcesBalancedAllocation"
    assert scores(objects, asking(cpu="1"), config(balanced=("cpu", GPU)), plugin) == {"n1": 75, "n2": 71}


@pytest.mark.parametrize(("version", "n1"), [("1.34", 0), ("1.35", 25), ("1.36", 25), ("1.37", 25)])
def test_devices_are_scored_from_1_35_on(version, n1):
    scheduler = kube_scheduler_of(config(), version=version, feature_gates={"DRAExtendedResource": True})
    found = extender.evaluate(cluster(nodes(), others=[BACKED, *ON_BOTH]), asking(), scheduler=scheduler).to_dict()
    assert found["scores"]["n1"]["plugins"]["NodeResourcesFit"] == n1


# --- what changes ---------------------------------------------------------------------------------------------------


def test_totals_follow_slices_claims_and_classes():
    snapshot = built(cluster(nodes(), others=[device_class("gpu", A100), *of_model("A100", "T4", "A100")]))
    assert totals(snapshot) == ([2, 0], [0, 0])
    snapshot.put("ResourceClaim", decoded(ResourceClaim, claim("c", request(), allocated=[("n1", "a")])))
    assert totals(snapshot) == ([2, 0], [1, 0])
    snapshot.put("ResourceSlice", decoded(ResourceSlice, of_model("A100", "A100", "A100")[0]))
    assert totals(snapshot) == ([3, 0], [1, 0])
    snapshot.put("DeviceClass", decoded(DeviceClass, device_class("gpu", A100.replace("A100", "T4"))))
    assert totals(snapshot) == ([0, 0], [0, 0])
    snapshot.remove("ResourceSlice", ("", "s1"))
    snapshot.put("DeviceClass", decoded(DeviceClass, device_class("gpu")))
    assert totals(snapshot) == ([0, 0], [0, 0])


def test_selectors_are_evaluated_again_for_the_slice_that_changed_only():
    many = [resource_slice(f"s{number}", "n1", devices(2, attributes={"model": "A100"})) for number in range(50)]
    snapshot = built(cluster(nodes(), others=[device_class("gpu", A100), *many]))
    before = published(snapshot)
    snapshot.put("ResourceSlice", decoded(ResourceSlice, resource_slice("s7", "n1", devices(1))))
    assert [number for number, one in enumerate(published(snapshot)) if one is not before[number]] == [7]


def test_the_work_of_selectors_is_limited():
    long = "device.driver == " + " + ".join(['"x"'] * 1000) + " || true"
    classes = [device_class("gpu", *[f"{long} || {number} == 0" for number in range(30)]), device_class("any")]
    snapshot = built(cluster(nodes(), others=[*classes, *ON_BOTH]))
    assert class_totals(snapshot, "gpu") is None
    assert totals(snapshot, "any") == ([4, 8], [0, 0])


def test_verdicts_of_a_pod_whose_score_depends_on_claims_are_not_kept():
    snapshot = built(cluster(nodes(), others=ONE_ALLOCATED))
    profile = kube_scheduler_of(config()).profiles[0]
    assert cached_verdicts(scheduling_context(snapshot, typed(asking()), profile)) is None
    assert cached_verdicts(scheduling_context(snapshot, typed(asking("cpu")), profile)) is not None


def totals(snapshot, name="gpu"):
    snapshot.refresh_layout()
    found = class_totals(snapshot, name)
    assert found is not None
    return found.capacity.tolist(), found.used.tolist()


def published(snapshot):
    found = _parts(snapshot, "gpu")
    assert found is not None
    return found


def of_model(*models):
    published = [device("abc"[at], attributes={"model": model}) for at, model in enumerate(models)]
    return [resource_slice("s1", "n1", published)]


def decoded(kind, raw):
    return msgspec.convert(raw, kind)
