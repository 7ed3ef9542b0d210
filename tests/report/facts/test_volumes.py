"""Facts about claims and their volumes: missing, elsewhere, too small, selected for another node."""

from typing import Any

import msgspec
import pytest

from extender.report.facts.schema import (
    ClaimFact,
    FactCount,
    MoreFact,
    NodeRequirementFact,
    SelectedNodeFact,
    StorageCapacityFact,
    VolumeMatchFact,
    VolumeTopologyFact,
)
from extender.report.facts.wording import describe_fact
from tests.builders import (
    JSON,
    STARTED,
    NodeObject,
    incoming,
    node,
    storage_class,
    thing,
    using_volumes,
    volume,
    volume_claim,
)
from tests.report.facts.volumes import diagnosed, facts_of

Nodes = dict[NodeObject, list[JSON]]
ZONE = "topology.kubernetes.io/zone"
A, B = {ZONE: "a"}, {ZONE: "b"}
A_ZONE = {ZONE: ["a"]}
LAZY, LOCAL = storage_class(), storage_class("local", "kubernetes.io/no-provisioner")


def one_node(*others, claims=("data",), labels=None, **pod):
    """The facts of the only node, for a pod with these claims."""
    found = diagnosed({node("n1", labels=labels or {}): []}, incoming(**using_volumes(*claims), **pod), *others)
    (only,) = found.nodes
    return only.facts, found


# --- claims that cannot be used anywhere ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "fact", "words"),
    [
        pytest.param([], ClaimFact(claim="default/data", problem="NotFound"), "does not exist", id="missing"),
        pytest.param(
            [volume_claim("data", metadata={"deletionTimestamp": STARTED}), LAZY],
            ClaimFact(claim="default/data", problem="BeingDeleted", storage_class="lazy"),
            "is being deleted",
            id="deleted",
        ),
        pytest.param(
            [volume_claim("data", volume="gone", phase="Lost"), LAZY],
            ClaimFact(claim="default/data", problem="VolumeNotFound", storage_class="lazy", volume="gone"),
            "is bound to volume gone, which does not exist",
            id="lost",
        ),
        pytest.param(
            [volume_claim("data", volume="gone"), LAZY],
            ClaimFact(claim="default/data", problem="VolumeNotFound", storage_class="lazy", volume="gone"),
            "is bound to volume gone, which does not exist",
            id="volume is gone",
        ),
        pytest.param(
            [volume_claim("data", storage_class="fast")],
            ClaimFact(claim="default/data", problem="ClassNotFound", storage_class="fast"),
            "needs storage class fast, which does not exist",
            id="class is missing",
        ),
        pytest.param(
            [volume_claim("data", storage_class=None)],
            ClaimFact(claim="default/data", problem="NoClass"),
            "has neither a volume nor a storage class",
            id="no class",
        ),
        pytest.param(
            [volume_claim("data", storage_class="now"), storage_class("now", volumeBindingMode="Immediate")],
            ClaimFact(claim="default/data", problem="NotBound", storage_class="now"),
            "of class now, which binds at once, has no volume yet",
            id="immediate",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_is_named(others, fact, words):
    facts, found = one_node(*others)
    assert facts == [fact]
    assert describe_fact(fact) == f"claim default/data {words}"
    assert found.verdict == "DoesNotFit"


def test_every_unusable_claim_is_named_up_to_a_limit():
    names = [f"c{number:02}" for number in range(25)]
    facts, _ = one_node(claims=names)
    assert [one.claim for one in facts] == [f"default/{name}" for name in names[:6]]


def test_the_claim_of_an_ephemeral_volume_is_named_while_it_is_not_created_or_another_s():
    scratch: JSON = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
    (only,) = diagnosed({node("n1"): []}, incoming(**scratch)).nodes
    assert only.facts == [ClaimFact(claim="default/incoming-scratch", problem="NotCreated")]
    (only,) = diagnosed({node("n1"): []}, incoming(**scratch), volume_claim("incoming-scratch"), LAZY).nodes
    assert only.facts == [ClaimFact(claim="default/incoming-scratch", problem="NotOwner", storage_class="lazy")]


# --- where volumes are ------------------------------------------------------------------------------------------------


def test_the_zone_of_a_bound_volume_stands_beside_the_node_s():
    bound = [volume_claim("data", volume="pv-1"), volume("pv-1", on={ZONE: ["a", "c"]}, claim="data")]
    found = diagnosed({node("n1", labels=B): [], node("n2"): []}, incoming(**using_volumes("data")), *bound, LAZY)
    own: Any = {"claim": "default/data", "volume": "pv-1", "storage_class": "lazy", "driver": "csi.example.com"}
    facts = {
        name: VolumeTopologyFact(**own, terms=(f"{ZONE} in (a, c)",), labels={ZONE: value})
        for name, value in (("n1", "b"), ("n2", None))
    }
    assert facts_of(found) == {name: [fact] for name, fact in facts.items()}
    where = f"volume pv-1 (csi.example.com) of claim default/data is only where {ZONE} in (a, c)"
    assert [describe_fact(one) for one in facts.values()] == [
        f"{where}; the node has {ZONE}=b",
        f"{where}; the node has no {ZONE}",
    ]
    (reason,) = found.reasons  # one cause, whatever the nodes have
    assert reason.facts == [FactCount(fact=facts["n1"], nodes=2, node="n1")]
    assert f"2 without a volume for its claims ({where})" in found.why


def test_every_volume_that_is_elsewhere_is_named_and_many_are_counted():
    names = [f"d{number:02}" for number in range(14)]
    bound = [one for name in names for one in (volume_claim(name, volume=name), volume(name, on=A, claim=name))]
    facts, _ = one_node(*bound, LAZY, claims=names, labels=B)
    assert [one.volume for one in facts[:-1]] == names[:6]
    assert facts[-1] == MoreFact(count=8)


def test_a_zone_label_of_a_volume_stands_beside_the_node_s():
    bound = [volume_claim("data", volume="pv-1"), volume("pv-1", claim="data", metadata={"labels": {ZONE: "a__c"}})]
    facts, _ = one_node(*bound, LAZY, labels=B)
    assert facts == [
        VolumeTopologyFact(
            claim="default/data",
            volume="pv-1",
            storage_class="lazy",
            driver="csi.example.com",
            terms=(f"{ZONE} in (a, c)",),
            labels={ZONE: "b"},
        )
    ]


def test_a_class_makes_volumes_only_in_its_allowed_topologies():
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    facts, _ = one_node(volume_claim("data"), storage_class(allowedTopologies=allowed), labels=B)
    (fact,) = facts
    assert describe_fact(fact) == (
        f"class lazy makes volumes for claim default/data only where {ZONE}=a; the node has {ZONE}=b"
    )


@pytest.mark.parametrize("exists", [True, False])
def test_a_volume_is_made_for_the_selected_node_only(exists):
    claim = volume_claim("data", annotations={"volume.kubernetes.io/selected-node": "n2"})
    nodes: Nodes = {node("n1"): []}
    if exists:
        nodes[node("n2", unschedulable=True)] = []
    found = diagnosed(nodes, incoming(**using_volumes("data")), claim, LAZY)
    fact = SelectedNodeFact(claim="default/data", node="n2", node_exists=exists)
    assert facts_of(found)["n1"] == [fact]
    gone = "" if exists else ", which does not exist"
    assert describe_fact(fact) == (
        f"the volume of claim default/data is made for node n2{gone} (annotation selected-node)"
    )


# --- volumes that do not match ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "mismatches"),
    [
        pytest.param({"size": "10Gi"}, ["Size"], id="size"),
        pytest.param({"modes": ["ReadWriteMany"]}, ["AccessModes"], id="access mode"),
        pytest.param({"phase": "Released"}, ["Phase"], id="phase"),
        pytest.param({"on": B}, ["NodeAffinity"], id="node affinity"),
        pytest.param({"volumeMode": "Block"}, ["VolumeMode"], id="volume mode"),
        pytest.param({"storage_class": "other"}, ["Class"], id="class"),
        pytest.param({"size": "10Gi", "on": B}, ["Size", "NodeAffinity"], id="several"),
    ],
)
def test_the_nearest_volume_does_not_match_for_a_reason(there, mismatches):
    facts, _ = one_node(
        volume_claim("data", storage_class="local"),
        volume("pv-1", **{"storage_class": "local"} | there),
        LOCAL,
        labels=A,
    )
    assert facts == [
        VolumeMatchFact(
            claim="default/data",
            storage_class="local",
            requested="20Gi",
            access_modes=("ReadWriteOnce",),
            available=int("storage_class" not in there and "phase" not in there),
            nearest="pv-1",
            nearest_capacity=there.get("size", "20Gi"),
            nearest_class=there.get("storage_class", "local"),
            mismatches=tuple(mismatches),
        )
    ]


def test_of_several_volumes_the_nearest_is_named_in_words():
    facts, _ = one_node(
        volume_claim("data", storage_class="local"),
        volume("pv-1", storage_class="local", size="10Gi", modes=["ReadWriteMany"]),
        volume("pv-2", storage_class="local", size="10Gi"),
        volume("pv-3", storage_class="local", size="5Gi", on=B),
        LOCAL,
        labels=A,
    )
    (fact,) = facts
    assert describe_fact(fact) == (
        "claim default/data of class local needs 20Gi ReadWriteOnce: none of 3 available volumes matches; the nearest, "
        "pv-2 with 10Gi, is too small"
    )


def test_without_any_volume_the_class_and_the_size_are_named():
    facts, _ = one_node(volume_claim("data", storage_class="local"), LOCAL)
    assert [describe_fact(one) for one in facts] == [
        "claim default/data of class local needs 20Gi ReadWriteOnce: no volume is available"
    ]


def test_a_volume_that_another_claim_of_the_pod_gets_is_taken():
    facts, _ = one_node(
        volume_claim("d1", storage_class="local"),
        volume_claim("d2", storage_class="local"),
        volume("pv-1", storage_class="local"),
        LOCAL,
        claims=("d1", "d2"),
    )
    assert [(one.claim, one.nearest, one.mismatches) for one in facts] == [("default/d2", "pv-1", ("Taken",))]


def test_a_volume_that_is_reserved_for_the_claim_elsewhere_is_the_nearest():
    facts, _ = one_node(
        volume_claim("data", storage_class="local"),
        volume("pv-1", storage_class="local", on=B, claim="data", phase="Available"),
        volume("pv-2", storage_class="local"),
        LOCAL,
        labels=A,
    )
    assert [(one.nearest, one.mismatches) for one in facts] == [("pv-1", ("NodeAffinity",))]


# --- capacity ---------------------------------------------------------------------------------------------------------


def capacity(name, size, zone, **fields):
    topology = {"matchLabels": {ZONE: zone}}
    return (
        thing(
            "CSIStorageCapacity",
            name,
            namespace="default",
            storageClassName="lazy",
            nodeTopology=topology,
            capacity=size,
        )
        | fields
    )


def test_the_published_capacity_stands_beside_what_is_requested():
    driver = thing("CSIDriver", "csi.example.com", spec={"storageCapacity": True})
    others = [volume_claim("data"), LAZY, driver, capacity("c1", "10Gi", "a"), capacity("c2", "4Gi", "a")]
    nodes: Nodes = {node("n1", labels=A): [], node("n2", labels=B): []}
    found = diagnosed(nodes, incoming(**using_volumes("data")), *others)
    own: Any = {"claim": "default/data", "storage_class": "lazy", "driver": "csi.example.com", "requested": "20Gi"}
    assert facts_of(found) == {
        "n1": [StorageCapacityFact(**own, largest="10Gi")],
        "n2": [StorageCapacityFact(**own)],
    }
    assert [describe_fact(one.facts[0]) for one in found.nodes] == [
        "csi.example.com has 10Gi of 20Gi for claim default/data of class lazy",
        "csi.example.com publishes no capacity for claim default/data of class lazy, which needs 20Gi",
    ]
    assert "(csi.example.com has 10Gi of 20Gi for claim default/data of class lazy)" in found.why


@pytest.mark.parametrize("version", ["1.31.1", "1.37"])
def test_only_the_volume_with_another_host_name_is_named(version):
    bound = [
        *(volume_claim("local", volume="local"), volume("local", on={"kubernetes.io/hostname": ["n1"]}, claim="local")),
        *(volume_claim("zonal", volume="zonal"), volume("zonal", on=A_ZONE, claim="zonal")),
    ]
    nodes: Nodes = {node("n1", labels=A, cpu="0"): [], node("n2", labels=A): []}
    found = diagnosed(nodes, incoming(**using_volumes("local", "zonal")), *bound, LAZY, version=version)
    assert [one.volume for one in facts_of(found)["n2"]] == ["local"]


def test_claims_beyond_those_that_are_named_are_not_compared_with_volumes():
    names = [f"d{number:02}" for number in range(20)]
    claims = [volume_claim(name, storage_class="local") for name in names]
    facts, _ = one_node(*claims, LOCAL, claims=names)
    assert [one.claim for one in facts[:-1]] == [f"default/{one}" for one in names[:6]]
    assert (facts[-1], describe_fact(facts[-1])) == (MoreFact(count=0), "and more")


@pytest.mark.parametrize("disabled", ["", "NodeAffinity"])
def test_plugins_that_are_disabled_do_not_leave_nodes_out(disabled):
    hosts = {"a": "n1", "b": "n2"}
    claims = [volume_claim(name, volume=name) for name in hosts]
    bound = [volume(name, on={"kubernetes.io/hostname": [host]}, claim=name) for name, host in hosts.items()]
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    waiting = incoming(affinity=affinity, **using_volumes(*hosts))
    nodes: Nodes = {node("n1"): [], node("n2"): [], node("n3"): []}
    found = diagnosed(nodes, waiting, *claims, *bound, LAZY, version="1.31.1", disabled=disabled)
    kinds = {type(one) for one in facts_of(found)["n3"]}
    assert kinds == {VolumeTopologyFact} | (set() if disabled else {NodeRequirementFact})


def test_nodes_that_prefilter_leaves_out_without_a_reason_are_counted():
    names = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [names]}}}
    nodes: Nodes = {node("n1", cpu="0"): [], node("n2"): [], node("n3"): []}
    found = diagnosed(nodes, incoming(affinity=affinity), version="1.31")
    assert [(one.reason, one.nodes, len(one.facts)) for one in found.reasons] == [
        ("node(s) excluded by its node selector or node affinity", 2, 1),
        ("Insufficient cpu", 1, 1),
    ]
    local = [volume_claim("data", volume="data"), volume("data", on={"kubernetes.io/hostname": ["n1"]}, claim="data")]
    waiting = incoming(affinity=affinity, **using_volumes("data"))
    found = diagnosed(nodes, waiting, *local, LAZY, version="1.31.1")
    assert "2 excluded by where its affinity, volumes or devices pin it" in found.why


def test_sizes_of_a_sentence_have_one_unit():
    """As they are written, if that is in one unit already."""
    own = {"claim": "default/data", "storage_class": "lazy"}
    said = [
        describe_fact(StorageCapacityFact(**own, driver="csi.example.com", requested=requested, largest=largest))
        for requested, largest in (("20G", "10G"), ("1Ti", "500Gi"), ("20Gi", "10G"))
    ]
    assert [" ".join(one.split()[:5]) for one in said] == [
        "csi.example.com has 10G of 20G",
        "csi.example.com has 0.49Ti of 1Ti",
        "csi.example.com has 9.31Gi of 20Gi",
    ]
    nearest = {"nearest": "pv-1", "nearestCapacity": "512Gi", "storageClass": "lazy", "claim": "default/data"}
    claim = msgspec.convert({"kind": "volumeMatch", "requested": "1Ti", "available": 1, **nearest}, VolumeMatchFact)
    assert describe_fact(claim).endswith("the nearest, pv-1 with 0.5Ti, ")
