"""Facts about resources: requested, free and most free; numbers of pods; pods that wait for a resize."""

import pytest
from msgspec.structs import replace

from extender.report.facts.schema import FactCount, NominatedFact, ResizeFact, ResourceFact
from extender.report.facts.wording import describe_fact
from tests.builders import incoming, node, pod
from tests.report.facts.diagnosed import diagnosed, facts_on, words_on


def test_what_is_requested_free_and_most_free_is_told_of_each_resource_with_its_reason():
    nodes = {
        node("a", cpu="8", memory="15839424Ki"): [pod("one", cpu="6500m", memory="1Gi")],
        node("b", cpu="2", memory="64Gi"): [],
        node("tainted", cpu="64", memory="2Gi", taints=[{"key": "gpu", "effect": "NoSchedule"}]): [],
    }
    found = diagnosed(nodes, incoming(cpu="3", memory="32Gi"))
    of_a = ResourceFact(
        resource="cpu",
        requested="3",
        free="1500m",
        allocatable="8",
        used="6500m",
        most_free="64",
        most_free_node="tainted",
    )
    memory = ResourceFact(
        resource="memory",
        requested="32Gi",
        free="14790848Ki",
        allocatable="15839424Ki",
        used="1Gi",
        is_too_small=True,
        most_free="64Gi",
        most_free_node="b",
    )
    assert facts_on(found, "a") == [of_a, memory]
    assert words_on(found, "a") == [
        "requests 3000m cpu, 1500m of 8000m free; most free in the cluster: 64000m on tainted",
        "requests 32Gi memory, 14.11Gi of 15.11Gi free, too small even if empty; most free in the cluster: 64Gi on b",
    ]
    by_reason = {one.reason: one.facts for one in found.reasons}
    # The closest to fitting is told: b has 2 free, a 1500m.
    of_b = replace(of_a, free="2", allocatable="2", used="0", is_too_small=True)
    assert by_reason["Insufficient cpu"] == [FactCount(fact=of_b, nodes=2, node="b")]
    assert by_reason["Insufficient memory"] == [FactCount(fact=memory, nodes=1, node="a")]


def test_the_sentence_has_the_node_that_comes_closest():
    nodes = [node(name, cpu=cpu) for name, cpu in (("a", "1"), ("b", "2500m"), ("c", "2"))]
    assert (
        "3 with too little cpu (requests 3000m cpu, most free: 2500m on b);" in diagnosed(nodes, incoming(cpu="3")).why
    )


def test_amounts_that_would_read_alike_are_exact():
    found = diagnosed([node("a", memory="4194300Ki")], incoming(memory="4Gi"))
    assert words_on(found, "a")[0].startswith("requests 4194304Ki memory, 4194300Ki of 4194300Ki free")


def test_too_many_pods_are_told_with_the_limit():
    found = diagnosed({node("a", pods="2", cpu="0"): [pod("one", cpu=None), pod("two", cpu=None)]})
    of_cpu, of_pods = facts_on(found, "a")
    by_reason = {one.reason: [count.fact for count in one.facts] for one in found.reasons}
    assert by_reason == {"Too many pods": [of_pods], "Insufficient cpu": [of_cpu]}
    assert (of_pods.used, of_pods.allocatable, describe_fact(of_pods)) == ("2", "2", "2 of 2 pods")


@pytest.mark.parametrize(
    ("resource", "requested", "free"),
    [("ephemeral-storage", "10Gi", "6Gi"), ("hugepages-2Mi", "10Mi", "6Mi"), ("example.com/gpu", "10", "6")],
)
def test_other_resources_are_told_in_their_units(resource, requested, free):
    held = {"ephemeral-storage": "2Gi", "hugepages-2Mi": "2Mi", "example.com/gpu": "2"}[resource]
    there = {"ephemeral-storage": "8Gi", "hugepages-2Mi": "8Mi", "example.com/gpu": "8"}[resource]
    nodes = {node("a", allocatable={resource: there}): [pod("one", requests={resource: held})], node("b"): []}
    found = diagnosed(nodes, incoming(requests={resource: requested}))
    wanted = f"requests {requested} {resource}"
    most = f"most free in the cluster: {free} on a"
    alone = "no node has more free"
    assert words_on(found, "a") == [f"{wanted}, {free} of {there} free, too small even if empty; {alone}"]
    assert words_on(found, "b") == [f"{wanted}, 0 of 0 free, too small even if empty; {most}"]


def test_resources_that_no_node_has_are_all_named():
    found = diagnosed([node("a")], incoming(requests={"example.com/gpu": "1", "example.com/tpu": "2"}))
    assert words_on(found, "a") == [
        "requests 1 example.com/gpu, which no node has",
        "requests 2 example.com/tpu, which no node has",
    ]


def test_a_resource_that_no_node_has_is_told_of_no_node_in_particular():
    found = diagnosed([node("a"), node("b")], incoming(requests={"example.com/gpu": "1"}))
    assert "2 with too little example.com/gpu (requests 1 example.com/gpu, which no node has);" in found.why


def test_nominated_pods_take_the_room():
    nominee = incoming("next", cpu="3", priority=5000, status={"nominatedNodeName": "a"})
    found = diagnosed([node("a")], incoming(cpu="2"), others=[nominee])
    fact, nominated = facts_on(found, "a")
    assert (fact.free, fact.used, fact.allocatable) == ("1", "0", "4")
    assert nominated == NominatedFact(pods=("default/next",), count=1)
    found = diagnosed([node("a")], incoming(cpu="5"), others=[nominee])
    (fact,) = facts_on(found, "a")  # it would not fit without the nominated pod either
    assert isinstance(fact, ResourceFact)
    assert (fact.free, fact.used, fact.allocatable) == ("4", "0", "4")


def test_nominated_pods_are_no_cause_where_another_check_rejects_the_pod_anyway():
    nominee = incoming("next", cpu="3", priority=5000, status={"nominatedNodeName": "a"})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = {node("a"): [pod("web", cpu="0", labels={"app": "web"})]}
    (fact,) = facts_on(diagnosed(nodes, incoming(cpu="2", affinity=alone), others=[nominee]), "a")
    assert isinstance(fact, ResourceFact)


def resizing(reason, name="grower", **resources):
    pending = {"type": "PodResizePending", "status": "True", "reason": reason}
    held = {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
    return pod(name, cpu="11", status={"conditions": [pending], "containerStatuses": [held]}, **resources)


def test_a_deferred_resize_is_told_with_what_it_takes():
    found = diagnosed({node("a", cpu="12"): [resizing("Deferred")]}, incoming(cpu="2"))
    assert facts_on(found, "a")[1] == ResizeFact(
        resource="cpu", pod="default/grower", state="Deferred", allocated="4", wanted="11", counted="11"
    )
    assert "default/grower: resize Deferred, 4 allocated, 11 wanted, 11 cpu counted as used" in found.why


def test_an_infeasible_resize_takes_what_is_allocated():
    found = diagnosed({node("a", cpu="12"): [resizing("Infeasible")]}, incoming(cpu="10"))
    assert words_on(found, "a")[1] == (
        "default/grower: resize Infeasible, 4 allocated, 11 wanted, 4 cpu counted as used"
    )


def test_a_resize_of_another_resource_is_no_fact():
    found = diagnosed({node("a", cpu="12"): [resizing("Deferred")]}, incoming(cpu="100m", memory="64Gi"))
    assert [one.resource for one in facts_on(found, "a")] == ["memory"]
