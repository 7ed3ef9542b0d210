"""Why a claim does not get a device on a node: every reason, on nodes of a few devices."""

from dataclasses import replace

import pytest

from extender.core import engine
from extender.core.profile import UPSTREAM
from extender.core.record import record_filter
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.limits import limits
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.report import render
from tests.builders import JSON, NodeObject, cluster, incoming, node, stored_cluster, thing, typed
from tests.device_builders import (
    DRIVER,
    alternative,
    claim,
    device,
    device_class,
    devices,
    first_available,
    match_attribute,
    request,
    resource_slice,
    undecided_claim,
    using_claims,
)

NODES: dict[NodeObject, list[JSON]] = {node("n1"): [], node("n2"): []}
BIG = 'device.attributes["gpu.example.com"].model == "big"'


def explained(*others: JSON, pod: JSON | None = None, on: str = "n1", features=DEFAULT_FEATURES):
    """The explanation of a /filter decision about `mine`, or another pod's claims, on one node."""
    wanted = typed(pod or incoming(**using_claims("mine")))
    snapshot = Snapshot.build(stored_cluster(cluster(NODES, others=[device_class(), *others])), features)
    record = record_filter(engine.filter(snapshot, wanted, ["n1", "n2"], UPSTREAM))
    (found,) = render.render_nodes(record, node=on)
    return found


def the_claim(*others: JSON, **options):
    (found,) = explained(*others, **options).claims
    return found


def the_request(*others: JSON, **options):
    (found,) = the_claim(*others, **options).requests
    return found


# --- single devices -------------------------------------------------------------------------------------------------


def test_a_claim_that_can_be_allocated_says_which_devices_it_would_get():
    found = the_claim(claim("mine", request(count=2)), resource_slice("s", "n1", devices(3)))
    assert found.summary == "can be allocated: gpu.example.com/n1/gpu-0, gpu.example.com/n1/gpu-1"
    assert found.requests[0].summary == "asks for 2 devices; 3 of 3 devices match, 3 free"


def test_a_device_in_use_is_told_with_its_claim_and_pods():
    theirs = claim("theirs", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["train-0"])
    found = the_claim(claim("mine", request()), theirs, resource_slice("s", "n1", devices(1)))
    assert found.summary == "cannot be allocated: request r has too few devices"
    (asked,) = found.requests
    assert asked.fails
    assert asked.summary == "1 of 1 device matches, 0 free: 1 in use by default/theirs"
    assert [(one.device, one.why, one.detail) for one in asked.devices] == [
        ("gpu.example.com/n1/gpu-0", "in use by default/theirs", "reserved for default/train-0")
    ]


def test_selectors_are_told_by_number_whose_they_are_and_what_they_say():
    models = [device(name, attributes={"model": name}) for name in ("small", "big")]
    slices = resource_slice("s", "n1", [*models, device("bare")])
    asked = the_request(device_class("big", BIG), claim("mine", request("big")), slices)
    assert asked.summary == (
        f"1 of 3 devices matches, 1 free: 1 selector #0 of class big ({BIG}) is false, "
        f"1 selector #0 of class big ({BIG}) fails: no such key: model. consider using CEL optional "
        "chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )
    assert the_request(claim("mine", request("gpu", "true", "false")), slices).summary == (
        "0 of 3 devices match, 0 free: 3 selector #1 of request r (false) is false"
    )


def test_a_long_expression_is_cut_off():
    slices = resource_slice("s", "n1", devices(1))
    (found,) = the_request(claim("mine", request("gpu", "false && " * 500 + "false")), slices).devices
    assert found.why == f"selector #0 of request r ({('false && ' * 17)[:150]}…) is false"


def test_a_selector_that_does_not_compile_is_told():
    """Evaluating it ends the cycle; here it is that of an alternative which is not reached."""
    mine = claim("mine", first_available(alternative("gpu"), alternative("gpu", "devise.driver")))
    found = the_claim(mine, resource_slice("s", "n1", devices(1)))
    assert found.requests[1].summary.startswith(
        "0 of 1 device match, 0 free: 1 selector #0 of request r/s1 (devise.driver) does not compile: "
        "compilation failed: ERROR"
    )


def test_a_taint_that_is_not_tolerated_is_told():
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}
    slices = resource_slice("s", "n1", [device("gpu-0", taints=[taint])])
    asked = the_request(claim("mine", request()), slices)
    assert asked.summary == "0 of 1 device match, 0 free: 1 taint example.com/broken=yes:NoSchedule is not tolerated"
    tolerant = request(tolerations=[{"key": "example.com/broken", "operator": "Exists"}])
    assert the_request(claim("mine", tolerant), slices).free == 1


def test_counters_that_are_used_up_are_told():
    counters = [{"name": "all", "counters": {"memory": {"value": "10Gi"}}}]
    half = [{"counterSet": "all", "counters": {"memory": {"value": "6Gi"}}}]
    slices = [
        resource_slice("c", "n1", [], slices=2, sharedCounters=counters),
        resource_slice("s", "n1", devices(2, consumesCounters=half), slices=2),
    ]
    theirs = claim("theirs", request(), allocated=[("n1", "gpu-0")], node="n1")
    asked = the_request(claim("mine", request()), theirs, *slices)
    assert asked.summary == (
        "2 of 2 devices match, 0 free: 1 too little is left of the counters of its pool, 1 in use by default/theirs"
    )


def test_capacity_that_is_used_up_is_told():
    shared = device("gpu-0", capacity={"memory": "10Gi"}, allowMultipleAllocations=True)
    used = {"pool": "n1", "device": "gpu-0", "shareID": "1", "consumedCapacity": {"memory": "8Gi"}}
    theirs = claim("theirs", request(), allocated=[used], node="n1")
    slices = resource_slice("s", "n1", [shared])
    asked = the_request(claim("mine", request(capacity={"requests": {"memory": "4Gi"}})), theirs, slices)
    assert asked.summary == "1 of 1 device matches, 0 free: 1 too little capacity is left"
    asked = the_request(claim("mine", request(capacity={"requests": {"memory": "40Gi"}})), slices)
    assert asked.summary == "1 of 1 device matches, 0 free: 1 has too little capacity"


def test_incomplete_and_invalid_pools_are_told():
    slices = resource_slice("s", "n1", devices(1), slices=2)
    asked = the_request(claim("mine", request()), slices)
    assert asked.summary == "the node has no devices; pool gpu.example.com/n1 is being updated"
    twice = [resource_slice(name, "n1", devices(1), slices=2) for name in ("s", "t")]
    asked = the_request(claim("mine", request()), *twice)
    assert "pool gpu.example.com/n1 is invalid: " in asked.summary


def test_a_node_without_devices_is_told():
    assert the_request(claim("mine", request())).summary == "the node has no devices"


def test_a_lacking_attribute_of_a_constraint_is_told():
    mine = claim("mine", request(count=2), constraints=[match_attribute(f"{DRIVER}/numa")])
    slices = resource_slice("s", "n1", [device("a", attributes={"numa": 0}), device("b")])
    asked = the_request(mine, slices)
    assert asked.summary == (
        "asks for 2 devices; 2 of 2 devices match, 1 free: 1 lacks the attribute gpu.example.com/numa of constraint #0"
    )


# --- in combination -------------------------------------------------------------------------------------------------


def test_values_that_differ_are_told_where_a_constraint_fails():
    mine = claim("mine", request(count=2), constraints=[match_attribute(f"{DRIVER}/numa")])
    slices = resource_slice("s", "n1", [device(str(at), attributes={"numa": at}) for at in range(2)])
    found = the_claim(mine, slices)
    assert found.summary == (
        "cannot be allocated: no devices for request r satisfy "
        "constraint #0 (matchAttribute gpu.example.com/numa; free: 1 with 0, 1 with 1)"
    )


def test_devices_that_other_requests_need_are_told():
    mine = claim("mine", request(name="a"), request(name="b"))
    found = the_claim(mine, resource_slice("s", "n1", devices(1)))
    assert found.summary == ("cannot be allocated: the devices for request b are needed by other requests of the pod")
    assert [(one.name, one.fails) for one in found.requests] == [("a", False), ("b", True)]


def test_devices_that_share_counters_are_told_where_they_cannot_be_had_together():
    counters = [{"name": "all", "counters": {"memory": {"value": "10Gi"}}}]
    most = [{"counterSet": "all", "counters": {"memory": {"value": "6Gi"}}}]
    slices = [
        resource_slice("c", "n1", [], slices=2, sharedCounters=counters),
        resource_slice("s", "n1", devices(2, consumesCounters=most), slices=2),
    ]
    found = the_claim(claim("mine", request(count=2)), *slices)
    assert found.summary == "cannot be allocated: the devices for request r cannot be had together"


def test_work_beyond_the_limit_is_told_and_ends(monkeypatch):
    monkeypatch.setattr(limits, "MAX_EXPLANATION_STEPS", 60)
    mine = claim("mine", request("gpu", "false", name="a"), request("gpu", "false", name="b"))
    one, other = the_claim(mine, resource_slice("s", "n1", devices(8))).requests
    assert one.summary.endswith(" devices not looked at: more work than 60 steps")
    assert other.summary == "no device was looked at; 8 devices not looked at: more work than 60 steps"


def test_an_earlier_claim_that_fails_is_told():
    pod = incoming(**using_claims("one", "two"))
    one, two = explained(claim("one", request()), claim("two", request()), pod=pod).claims
    assert one.summary == "cannot be allocated: request r has too few devices"
    assert two.summary == "not tried: an earlier claim of the pod cannot be allocated"


def test_every_alternative_is_told():
    mine = claim("mine", first_available(alternative("gpu", "false"), alternative("gpu", count=2)))
    found = the_claim(mine, resource_slice("s", "n1", devices(1)))
    assert [(one.name, one.free, one.fails) for one in found.requests] == [("r/s0", 0, True), ("r/s1", 1, True)]


# --- other claims ---------------------------------------------------------------------------------------------------


def test_an_allocated_claim_says_where_it_is():
    mine = claim("mine", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["a"])
    here, there = the_claim(mine, on="n1"), the_claim(mine, on="n2")
    start = "allocated: gpu.example.com/n1/gpu-0; reserved for default/a; "
    assert here.summary == f"{start}available on this node"
    assert there.summary == f"{start}not available on this node"


def test_a_node_selector_that_does_not_parse_is_told():
    wrong = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]}
    mine = claim("mine", request(), allocated=[("n1", "gpu-0")])
    mine["status"]["allocation"]["nodeSelector"] = wrong
    assert the_claim(mine).summary.endswith("; a node selector that does not parse")
    several = [device("gpu-0", nodeSelector=wrong), device("gpu-1", allNodes=True)]
    slices = resource_slice("s", None, several, pool="p", perDeviceNodeSelection=True)
    assert "does not parse" in the_claim(claim("mine", request()), slices).summary


@pytest.mark.parametrize(
    ("others", "about"),
    [
        ([], "it does not exist"),
        (
            [thing("ResourceClaimTemplate", "t", namespace="default")],
            "the resource claim controller has not used it yet",
        ),
    ],
)
def test_a_claim_that_is_not_created_yet_names_its_template(others, about):
    pod = incoming(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    assert the_claim(*others, pod=pod).summary == (
        f'pod "default/incoming": ResourceClaim not created yet; ResourceClaimTemplate default/t: {about}'
    )


def test_a_feature_that_is_not_followed_is_told():
    found = explained(*undecided_claim("mine"))
    unclear = r"a regular expression with \C, or with a number of nine digits"
    assert found.not_followed == f"claim default/mine: selector #0: {unclear}"
    assert found.claims[0].summary == f"not evaluated: {found.not_followed}"
    assert explained(claim("mine", request())).not_followed == ""


def test_extended_resources_are_a_claim_of_their_own():
    pod = incoming(requests={"example.com/gpu": "2"})
    found = the_claim(
        device_class("other", extended_resource="example.com/gpu"), resource_slice("s", "n1", devices(1)), pod=pod
    )
    assert (found.name, found.claim) == ("extended resources", "")
    assert found.requests[0].summary == "asks for 2 devices; 1 of 1 device matches, 1 free"


def test_a_pod_without_claims_has_no_explanation_of_devices():
    assert explained(pod=incoming()).claims == []


def test_many_devices_are_counted_and_some_are_listed():
    pools = [resource_slice(f"s{at}", None, devices(120), pool=f"p{at}", allNodes=True) for at in range(3)]
    asked = the_request(claim("mine", request("gpu", "false")), *pools)
    assert asked.summary == "0 of 360 devices match, 0 free: 360 selector #0 of request r (false) is false"
    assert (len(asked.devices), asked.omitted) == (256, 104)


def test_only_the_node_that_is_asked_for_is_explained():
    wanted = typed(incoming(**using_claims("mine")))
    others = [device_class(), claim("mine", request()), resource_slice("s", "n1", devices(1))]
    snapshot = Snapshot.build(stored_cluster(cluster(NODES, others=others)))
    record = record_filter(engine.filter(snapshot, wanted, ["n1", "n2"], UPSTREAM))
    assert [one.claims for one in render.render_nodes(record)] == [[], []]
    assert record.request.devices is not None


def test_nothing_is_recorded_of_devices_without_permission_or_before_they_are_evaluated():
    objects = stored_cluster(cluster(NODES, others=[claim("mine", request())]))
    without = Snapshot.build(objects)
    without.unreadable_tables = frozenset({"resource_slices"})
    old = Snapshot.build(objects, replace(DEFAULT_FEATURES, dynamic_resource_allocation=False))
    for snapshot in (without, old):
        record = record_filter(engine.filter(snapshot, typed(incoming(**using_claims("mine"))), ["n1"], UPSTREAM))
        assert record.request.devices is None


def test_a_record_keeps_the_devices_as_they_were():
    theirs = claim("theirs", request(), allocated=[("n1", "gpu-0")], node="n1")
    others = [device_class(), claim("mine", request()), theirs, resource_slice("s", "n1", devices(2))]
    snapshot = Snapshot.build(stored_cluster(cluster(NODES, others=others)))

    def rendered(record):
        return render.render_nodes(record, node="n1")

    def recorded():
        return record_filter(engine.filter(snapshot, typed(incoming(**using_claims("mine"))), ["n1"], UPSTREAM))

    first = recorded()
    before = rendered(first)
    snapshot.remove("ResourceClaim", ("default", "theirs"))
    snapshot.refresh_layout()
    second = recorded()
    assert rendered(first) == before
    assert rendered(second)[0].claims[0].requests[0].free == 2
    parts = first.request.devices.claim_parts, second.request.devices.claim_parts
    copied = sum(one is not other for one, other in zip(*parts, strict=True))
    assert copied == 1, "only the part with the claim that went is copied"
