"""Which devices a claim gets on a node: every verdict was asked of kube-scheduler 1.36 itself."""

import pytest

import extender
from extender.core.profile import KubeScheduler, Profile
from extender.k8s.version.features import Features
from tests.builders import cluster, incoming, node
from tests.device_builders import claim, device, device_class, request, resource_slice, using_claims

FITS = ""
CANNOT_ALLOCATE = "cannot allocate all claims"


def said(objects, nodes=("n1",), minor=36, **gates):
    """Node -> reasons for a pod with the claim `c`."""
    scheduler = KubeScheduler((Profile(),), Features.of(minor, gates))
    world = cluster({node(name): [] for name in nodes}, others=[device_class("gpu"), *objects])
    found = extender.evaluate(world, incoming(**using_claims("c")), scheduler=scheduler).to_dict()
    return {name: ", ".join(verdict["reasons"]) for name, verdict in found["filter"].items()}


@pytest.mark.parametrize(
    ("minor", "gates", "reason"),
    [
        (36, {}, FITS),
        (36, {"DRAConsumableCapacity": False}, FITS),
        (36, {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, CANNOT_ALLOCATE),
        (35, {}, CANNOT_ALLOCATE),
    ],
)
def test_selectors_see_whether_a_device_can_be_shared_if_the_allocator_shows_it(minor, gates, reason):
    objects = [
        resource_slice("s1", "n1", [device("d1", allowMultipleAllocations=True)]),
        claim("c", request("gpu", "device.allowMultipleAllocations")),
    ]

    assert said(objects, minor=minor, **gates) == {"n1": reason}
