"""Facts about devices: which expressions fail, what is allocated or tainted, claims that cannot be used."""

from typing import Any

from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.report.facts.devices import device_facts
from extender.report.facts.schema import (
    DeviceRequestFact,
    FailedSelector,
    InUseFact,
    MissingOnNodeFact,
    ResourceClaimFact,
)
from extender.report.facts.wording import describe_fact
from tests.builders import built, cluster, incoming, node, typed
from tests.device_builders import (
    claim,
    device,
    device_class,
    devices,
    match_attribute,
    request,
    resource_slice,
    using_claims,
)
from tests.report.facts.cost import growth
from tests.report.facts.volumes import diagnosed, facts_of

LARGE = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
OF_DRIVER = 'device.driver == "gpu.example.com"'


def waiting(*claims):
    return incoming(**using_claims(*claims or ("mine",)))


def test_the_expressions_that_devices_do_not_meet_are_quoted_with_what_has_them():
    small = devices(3, capacity={"memory": "40Gi"})
    others = [
        device_class("gpu", OF_DRIVER),
        claim("mine", request("gpu", LARGE, count=2)),
        resource_slice("a", "n1", [*small, device("gpu-9", capacity={"memory": "80Gi"})]),
        resource_slice("b", "n2", [device("x")], driver="nic.example.com"),
    ]
    found = diagnosed({node("n1"): [], node("n2"): [], node("n3"): []}, waiting(), *others)
    own: Any = {"claim": "default/mine", "request": "r", "device_class": "gpu", "count": 2}
    of_request = FailedSelector(of="request", expression=LARGE, failed=3)
    assert facts_of(found) == {
        "n1": [DeviceRequestFact(**own, devices=4, matching=1, free=1, selectors=(of_request,))],
        "n2": [
            DeviceRequestFact(**own, devices=1, selectors=(FailedSelector(of="class", expression=OF_DRIVER, failed=1),))
        ],
        "n3": [DeviceRequestFact(**own, devices=0)],
    }
    (reason,) = found.reasons
    assert (reason.facts[0].nodes, reason.facts[0].node) == (3, "n1")  # the node with the most free devices
    words = (
        "claim default/mine, request r of class gpu: needs 2 devices; 1 of 4 match, 1 free: "
        f"3 without {LARGE} (request)"
    )
    assert describe_fact(reason.facts[0].fact) == words
    assert words in found.why


def test_allocated_and_tainted_devices_are_counted_and_each_node_names_its_own_claims():
    taint = {"key": "broken", "value": "", "effect": "NoSchedule"}
    others = [
        device_class(),
        claim("mine", request()),
        *(
            claim(f"theirs-{name}", request(), allocated=[(name, "gpu-0")], node=name, reserved_for=["user"])
            for name in ("n1", "n2")
        ),
        *(resource_slice(name, name, [*devices(1), device("gpu-1", taints=[taint])]) for name in ("n1", "n2")),
    ]
    found = diagnosed({node("n1"): [], node("n2"): []}, waiting(), *others)
    fact = DeviceRequestFact(
        claim="default/mine", request="r", device_class="gpu", count=1, devices=2, matching=1, allocated=1, tainted=1
    )
    assert facts_of(found) == {
        name: [fact, InUseFact(users=(f"default/theirs-{name}",), total=1)] for name in ("n1", "n2")
    }
    assert [describe_fact(one) for one in found.nodes[0].facts] == [
        "claim default/mine, request r of class gpu: needs 1 device; 1 of 2 match, 0 free: 1 tainted, 1 allocated",
        "devices in use by default/theirs-n1",
    ]


def test_devices_that_no_combination_suits_are_free():
    others = [
        device_class(),
        claim("mine", request(count=2), constraints=[match_attribute("gpu.example.com/numa")]),
        resource_slice("a", "n1", [device(f"gpu-{at}", attributes={"numa": at}) for at in range(2)]),
    ]
    found = facts_of(diagnosed({node("n1"): []}, waiting(), *others))
    assert [(one.matching, one.free, one.count) for one in found["n1"]] == [(2, 2, 2)]


def test_nodes_of_one_kind_are_looked_at_once(monkeypatch):
    names = [f"n{at}" for at in range(40)]
    others = [device_class("gpu", "false"), claim("mine", request())]
    others += [resource_slice(name, name, devices(2)) for name in names]
    found = diagnosed({node(name): [] for name in names}, waiting(), *others)
    assert len({id(one.facts[0]) for one in found.nodes}) == 1


def test_a_selector_that_fails_is_not_one_that_is_false():
    # The allocator gives up at the first claim, before the selector of the second one fails.
    claims = [claim("first", request("gpu", "false")), claim("mine", request("gpu", 'device.attributes["a"].b == "x"'))]
    others = [device_class(), resource_slice("a", "n1", devices(2)), *claims]
    first, fact = facts_of(diagnosed({node("n1"): []}, waiting("first", "mine"), *others))["n1"]
    assert [one.failed for one in first.selectors] == [2]
    assert (fact.matching, fact.free, fact.selectors) == (0, 0, ())
    assert fact.problem.startswith('selector #0 of request r (device.attributes["a"].b == "x") fails: ')


def test_a_pool_that_cannot_be_used_is_told():
    others = [device_class(), claim("mine", request()), resource_slice("a", "n1", devices(2), slices=2)]
    (fact,) = facts_of(diagnosed({node("n1"): []}, waiting(), *others))["n1"]
    assert describe_fact(fact).endswith("0 free: pool gpu.example.com/n1 is being updated")


def test_a_device_without_the_attribute_of_a_constraint_is_told():
    own = claim("mine", request(), constraints=[match_attribute("gpu.example.com/numa")])
    found = diagnosed({node("n1"): []}, waiting(), device_class(), own, resource_slice("a", "n1", devices(1)))
    (fact,) = facts_of(found)["n1"]
    assert (fact.matching, fact.free) == (1, 0)
    assert fact.problem == "lacks the attribute gpu.example.com/numa of constraint #0"


def test_who_has_devices_is_found_once_for_all_pods():
    def work_of(size):
        claims = [claim(f"c{at}", request(), allocated=[("n1", f"gpu-{at}")], node="n1") for at in range(size)]
        pool = resource_slice("a", "n1", devices(2))
        others = [device_class("gpu", "false"), claim("mine", request()), pool, *claims]
        here = built(cluster({node("n1"): []}, others=others))
        evaluation = Evaluation(here, typed(waiting()), Profile())
        assert device_facts(evaluation)(0), "the filters ran before, and the first pod has asked"
        return lambda: device_facts(evaluation)(0)

    assert growth(work_of, 100) < 1.2


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_that_does_not_exist_and_a_class_that_does_not_are_named():
    found = diagnosed({node("n1"): []}, waiting("gone", "mine"), claim("mine", request("unknown")))
    assert facts_of(found)["n1"] == [
        ResourceClaimFact(claim="default/gone", problem='could not find ResourceClaim "default/gone"'),
        ResourceClaimFact(claim="default/mine", problem="request r: device class unknown does not exist"),
    ]


def test_a_claim_that_is_allocated_elsewhere_names_its_devices_node_and_pods():
    others = [
        device_class(),
        claim("mine", request(), allocated=[("n2", "gpu-0")], node="n2", reserved_for=["user"]),
        resource_slice("a", "n2", devices(1)),
    ]
    found = diagnosed({node("n1"): [], node("n2", unschedulable=True): []}, waiting(), *others)
    fact = ResourceClaimFact(
        claim="default/mine",
        devices=("gpu.example.com/n2/gpu-0",),
        terms=("metadata.name=n2",),
        pods=("default/user",),
    )
    assert facts_of(found)["n1"] == [fact]
    assert describe_fact(fact) == (
        "claim default/mine is allocated (gpu.example.com/n2/gpu-0, reserved for default/user), only where "
        "metadata.name=n2"
    )


def test_an_extended_resource_that_nothing_provides_is_named():
    others = [device_class("gpu", extended_resource="example.com/gpu"), resource_slice("a", "n1", devices(1))]
    waits = incoming(requests={"example.com/gpu": "1", "example.com/none": "1"})
    found = diagnosed({node("n1"): []}, waits, *others, disabled="NodeResourcesFit")
    fact = MissingOnNodeFact(resource="example.com/none")
    assert facts_of(found) == {"n1": [fact]}
    assert describe_fact(fact) == "no example.com/none, and no DeviceClass backs it"


def test_an_extended_resource_that_devices_provide_is_a_request():
    others = [device_class("gpu", extended_resource="example.com/gpu"), resource_slice("a", "n1", devices(1))]
    (only,) = diagnosed({node("n1"): []}, incoming(requests={"example.com/gpu": "2"}), *others).nodes
    assert [describe_fact(one) for one in only.facts] == [
        "claim extended resources, request container-0-request-1 of class gpu: needs 2 devices; 1 of 1 match, 1 free"
    ]
