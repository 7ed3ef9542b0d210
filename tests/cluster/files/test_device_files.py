"""Devices and claims in cluster files: each form is read to the same objects, what is wrong is named with its place."""

import json

import pytest
import yaml

from extender.cluster.files import dump
from extender.cluster.files.manifests import load_cluster, read_cluster
from extender.errors import ClusterFileError
from tests.builders import cluster, node, thing
from tests.device_builders import (
    alternative,
    claim,
    device,
    device_class,
    devices,
    first_available,
    match_attribute,
    request,
    resource_slice,
)

SHARED = {"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "u-1", "consumedCapacity": {"a": "2Gi"}}
ATTRIBUTES = {"model": "A100", "example.com/index": 3, "ecc": True, "driver": {"version": "1.2.3"}}
RULE = thing(
    "DeviceTaintRule", "off", spec={"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "None"}}
)
OBJECTS = [
    device_class("gpu", 'device.driver == "d"', extended_resource="example.com/gpu"),
    resource_slice("a", "n1", devices(2, attributes=ATTRIBUTES, capacity={"memory": "80Gi"})),
    resource_slice("b", None, [device("x", nodeName="n1")], perDeviceNodeSelection=True),
    claim("mine", request(count=2), constraints=[match_attribute("example.com/index")]),
    claim("either", first_available(alternative("gpu"), alternative("other"))),
    claim("theirs", request(), allocated=[SHARED, ("n1", "gpu-0")], node="n1", reserved_for=["p"], owner="p"),
    thing("ResourceClaimTemplate", "gpu", namespace="default"),
    RULE,
]
CLUSTER = cluster({node("n1"): []}, others=OBJECTS)
EXPECTED = load_cluster(CLUSTER)


def in_version(version, of_rule):
    """Return the objects, each with its API version."""
    served = [one | {"apiVersion": f"resource.k8s.io/{of_rule if one is RULE else version}"} for one in OBJECTS]
    return cluster({node("n1"): []}, others=served)


@pytest.mark.parametrize(("version", "of_rule"), [("v1", "v1"), ("v1", "v1beta2"), ("v1beta2", "v1alpha3")])
def test_versions_with_the_same_fields_are_read_to_the_same(version, of_rule):
    report = read_cluster(in_version(version, of_rule))
    assert report.objects == EXPECTED
    assert report.skipped_kinds == {}


def test_yaml_is_read_to_the_same(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(CLUSTER))
    assert load_cluster(path) == EXPECTED


def test_a_dump_is_read_to_the_same(tmp_path):
    dump.write_file(dump.encode_list(EXPECTED), tmp_path / "cluster.json")
    assert load_cluster(tmp_path / "cluster.json") == EXPECTED
    assert b'"shareID":"u-1"' in (tmp_path / "cluster.json").read_bytes()


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceSlice", "ResourceClaimTemplate", "DeviceClass"])
def test_a_version_with_other_fields_is_refused(kind):
    old = thing(kind, "a") | {"apiVersion": "resource.k8s.io/v1beta1"}
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(cluster({}, others=[old]))
    problem = "apiVersion resource.k8s.io/v1beta1 is not supported, only v1 and v1beta2"
    assert str(caught.value) == f"cluster: {kind} a: {problem}"


def test_a_request_that_names_no_number_is_for_one_device():
    wanted = {"deviceClassName": "gpu"}
    alternatives = [wanted | {"name": "all", "allocationMode": "All"}, wanted | {"name": "two", "count": 2}]
    mine = claim("mine", {"name": "r", "exactly": wanted}, {"name": "q", "firstAvailable": alternatives})
    (found,) = load_cluster(cluster({}, others=[mine])).resource_claims
    exactly, either = found.spec.devices.requests or []
    counts = [(one.allocation_mode, one.count) for one in (exactly.exactly, *(either.first_available or ())) if one]
    assert counts == [("ExactCount", 1), ("All", 0), ("ExactCount", 2)]


def test_an_attribute_that_is_a_list_has_no_value():
    listed = device("x", attributes={"models": {"strings": ["a", "b"]}})
    (published,) = load_cluster(cluster({}, others=[resource_slice("a", "n1", [listed])])).resource_slices
    value = ((published.spec.devices or [])[0].attributes or {})["models"]
    assert (value.int_value, value.bool_value, value.string_value, value.version_value) == (None,) * 4


POLICY = {"value": "1", "requestPolicy": {"default": "1", "validValues": ["1", "1x"]}}
RANGE = {"value": "1", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1x"}}}
COUNTERS = [{"counterSet": "c", "counters": {"slots": {"value": "1x"}}}]
WRONG = {
    "spec.devices[0].capacity.memory.value": device("x", capacity={"memory": "1x"}),
    "spec.devices[0].capacity.memory.requestPolicy.validValues[1]": device("x", capacity={"memory": POLICY}),
    "spec.devices[0].capacity.memory.requestPolicy.validRange.step": device("x", capacity={"memory": RANGE}),
    "spec.devices[0].consumesCounters[0].counters.slots.value": device("x", consumesCounters=COUNTERS),
}
ASKED = {"requests": {"memory": "1x"}}
WRONG_CLAIMS = {
    "spec.devices.requests[0].exactly.capacity.requests.memory": claim("c", request(capacity=ASKED)),
    "spec.devices.requests[0].firstAvailable[1].capacity.requests.memory": claim(
        "c", first_available(alternative(), alternative(capacity=ASKED))
    ),
    "status.allocation.devices.results[0].consumedCapacity.a": claim(
        "c", request(), allocated=[SHARED | {"consumedCapacity": {"a": "1x"}}]
    ),
}
SETS = [{"name": "c", "counters": {"slots": {"value": "1x"}}}]
WRONG_OBJECTS = {
    **{place: ("ResourceSlice s", resource_slice("s", "n1", [one])) for place, one in WRONG.items()},
    "spec.sharedCounters[0].counters.slots.value": (
        "ResourceSlice s",
        resource_slice("s", None, [], allNodes=True, sharedCounters=SETS),
    ),
    **{place: ("ResourceClaim default/c", one) for place, one in WRONG_CLAIMS.items()},
}


@pytest.mark.parametrize("place", WRONG_OBJECTS)
def test_a_quantity_that_is_none_is_named_with_its_place(place):
    subject, one = WRONG_OBJECTS[place]
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(cluster({}, others=[one]))
    text = str(caught.value)
    assert text.startswith(f"cluster: {subject}: ")
    assert "'1x'" in text
    assert text.endswith(f" at $.{place}")


@pytest.mark.parametrize(
    ("one", "place"),
    [
        (claim("c") | {"status": {"allocation": {"allocationTimestamp": "today"}}}, "status.allocation"),
        (thing("DeviceClass", "c", metadata={"creationTimestamp": "today"}), "metadata.creationTimestamp"),
    ],
)
def test_a_time_that_is_none_is_named_with_its_place(one, place):
    with pytest.raises(ClusterFileError, match=rf"got 'today' at \$\.{place}"):
        load_cluster(cluster({}, others=[one]))


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (resource_slice("s", "n1", [device("x", attributes={"a": {"int": "1"}})]), "devices[0].attributes[...].int"),
        (claim("c", request(count="2")), "requests[0].exactly.count"),
        (claim("c", request(selectors=[{"cel": {"expression": 7}}])), "selectors[0].cel.expression"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_place(one, message):
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(json.loads(json.dumps(cluster({}, others=[one]))))
    assert message in str(caught.value)
