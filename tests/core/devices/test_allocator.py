"""Which devices a claim gets on a node: every verdict was asked of kube-scheduler 1.36 itself."""

import pytest

import extender
from extender.core.framework.filter import scheduling_context
from extender.core.framework.plugins.dynamic_resources import verdicts
from extender.core.profile import UPSTREAM, KubeScheduler, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from tests.builders import JSON, NodeObject, cluster, incoming, node, typed
from tests.device_builders import DRIVER, claim, device, device_class, request, resource_slice, using_claims

FITS = ""
CANNOT_ALLOCATE = "cannot allocate all claims"


def world_of(objects, zones):
    """A cluster of these objects with nodes; `zones`: name -> label `zone`."""
    nodes: dict[NodeObject, list[JSON]] = {node(name, labels={"zone": zone}): [] for name, zone in zones.items()}
    return cluster(nodes, others=[device_class("gpu"), *objects])


def rejections(objects, zones, minor=36, **gates):
    """Node -> reasons for a pod with the claim `c`."""
    scheduler = KubeScheduler((Profile(),), Features.of(minor, gates))
    found = extender.evaluate(world_of(objects, zones), incoming(**using_claims("c")), scheduler=scheduler).to_dict()
    return {name: ", ".join(verdict["reasons"]) for name, verdict in found["filter"].items()}


@pytest.mark.parametrize(
    ("minor", "gates", "reason"),
    [
        (36, {}, FITS),
        (36, {"DRAConsumableCapacity": False}, FITS),
        (36, {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, CANNOT_ALLOCATE),
        (35, {}, CANNOT_ALLOCATE),
        (34, {}, FITS),
        (34, {"DRAResourceClaimDeviceStatus": False}, CANNOT_ALLOCATE),
    ],
)
def test_selectors_see_whether_a_device_can_be_shared_if_the_allocator_shows_it(minor, gates, reason):
    objects = [
        resource_slice("s1", "n1", [device("d1", allowMultipleAllocations=True)]),
        claim("c", request("gpu", "device.allowMultipleAllocations")),
    ]

    assert rejections(objects, {"n1": "a"}, minor, **gates) == {"n1": reason}


def test_since_1_37_the_error_of_a_selector_names_the_device_of_each_node_also_where_another_node_is_alike():
    objects = [
        *(resource_slice(name, name, [device("gpu-0")]) for name in ("n1", "n2")),
        claim("c", request("gpu", f'device.attributes["{DRIVER}"].x == "a"')),
    ]

    def error(device):
        return (
            f'running "DynamicResources" filter plugin: claim default/c: selector #0{device}: CEL runtime error: '
            "no such key: x"
        )

    hint = (
        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields"
    )
    zones = {"n1": "a", "n2": "a"}
    assert rejections(objects, zones) == dict.fromkeys(zones, error(""))
    assert rejections(objects, zones, 37) == {name: error(f" on device {DRIVER}/{name}/gpu-0") + hint for name in zones}


# --- node selectors -------------------------------------------------------------------------------------------------


def of_zones(*zones):
    """A node selector with a term per zone."""
    requirements = [{"key": "zone", "operator": "In", "values": [zone]} for zone in zones]
    return {"nodeSelectorTerms": [{"matchExpressions": [one]} for one in requirements]}


def test_an_allocation_takes_a_node_selector_of_one_term_only_also_where_another_node_is_alike():
    several = "unsupported ResourceSlice.NodeSelector with 2 terms"
    error = f'running "DynamicResources" filter plugin: create NodeSelector for claim c: {several}'
    objects = [
        resource_slice("s1", "n1", [device("d1")]),
        resource_slice("s2", None, [device("d1")], nodeSelector=of_zones("b", "c")),
        claim("c", request()),
    ]

    assert rejections(objects, {"n1": "a", "n2": "b"}) == {"n1": FITS, "n2": error}


INVALID = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}]}
"""An API server admits it, though Gt compares integers."""


@pytest.mark.parametrize(
    "objects",
    [
        [resource_slice("s", None, [device("d")], nodeSelector=INVALID), claim("c", request())],
        [
            resource_slice("s", None, [device("d", nodeSelector=INVALID)], perDeviceNodeSelection=True),
            claim("c", request()),
        ],
        [claim("c", request(), allocation={"devices": {"results": []}, "nodeSelector": INVALID})],
    ],
)
def test_node_selectors_that_do_not_parse_are_not_evaluated(objects):
    world = extender.load_cluster(world_of(objects, {"n1": "a", "n2": "b"}))
    context = scheduling_context(Snapshot.build(world, Features.of(36)), typed(incoming(**using_claims("c"))), UPSTREAM)
    found = verdicts(context)

    assert found is not None
    assert set(found.not_followed) == {"a node selector that does not parse"}
    assert (found.not_evaluated >= 0).all()
