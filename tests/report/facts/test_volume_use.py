"""Facts about volumes that other pods use, and limits of attached volumes."""

import pytest

from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.report.facts.schema import InUseFact, MissingOnNodeFact, VolumeLimitFact
from extender.report.facts.volume_use import volume_restriction_facts
from extender.report.facts.wording import describe_fact
from tests.builders import (
    JSON,
    built,
    cluster,
    csi_node,
    incoming,
    node,
    pod,
    storage_class,
    thing,
    typed,
    using_volumes,
    volume,
    volume_claim,
)
from tests.report.facts.cost import growth
from tests.report.facts.volumes import diagnosed, facts_of

DRIVER = "csi.example.com"


def bound(*names, **fields):
    return [one for name in names for one in (volume_claim(name, volume=name, **fields), volume(name, claim=name))]


def test_needs_limit_and_use_of_a_driver_are_counted():
    names = ["a1", "a2", "b1", "b2", "b3"]
    nodes = {node("n1"): [pod("a", **using_volumes("a1", "a2"))], node("n2"): []}
    limits = [csi_node("n1", **{DRIVER: 4}), csi_node("n2", **{DRIVER: 2})]
    found = diagnosed(nodes, incoming(**using_volumes("b1", "b2", "b3")), *bound(*names), *limits, storage_class())
    facts = {
        "n1": VolumeLimitFact(driver=DRIVER, needs=3, limit=4, in_use=2),
        "n2": VolumeLimitFact(driver=DRIVER, needs=3, limit=2, in_use=0, exceeds_empty_node=True),
    }
    assert facts_of(found) == {name: [fact] for name, fact in facts.items()}
    assert [describe_fact(one) for one in facts.values()] == [
        "csi.example.com: needs 3, limit 4, in use 2",
        "csi.example.com: needs 3, limit 2, in use 0, more than the limit even on an empty node",
    ]


def test_volumes_that_the_pod_shares_with_a_running_one_are_in_use_and_not_needed_again():
    nodes = {node("n1"): [pod("a", **using_volumes("a1", "b1"))]}
    found = diagnosed(
        nodes,
        incoming(**using_volumes("b1", "b2")),
        *bound("a1", "b1", "b2"),
        csi_node("n1", **{DRIVER: 2}),
        storage_class(),
    )
    assert facts_of(found) == {"n1": [VolumeLimitFact(driver=DRIVER, needs=1, limit=2, in_use=2)]}


def test_volumes_of_nominated_pods_are_in_use():
    nominee = incoming(
        "nominee", priority=5000, **using_volumes("a1"), status={"phase": "Pending", "nominatedNodeName": "n1"}
    )
    found = diagnosed(
        {node("n1"): []},
        incoming(**using_volumes("b1")),
        *bound("a1", "b1"),
        csi_node("n1", **{DRIVER: 1}),
        storage_class(),
        nominees=[nominee],
    )
    assert facts_of(found)["n1"][0] == VolumeLimitFact(driver=DRIVER, needs=1, limit=1, in_use=1)


def test_up_to_1_30_the_limits_of_in_tree_volumes_are_counted():
    disks = [{"name": f"v{at}", "awsElasticBlockStore": {"volumeID": f"vol-{at}"}} for at in range(40)]
    found = diagnosed({node("n1"): []}, incoming(volumes=disks), version="1.30")
    (only,) = found.nodes
    assert (only.plugin, only.facts) == (
        "EBSLimits",
        [VolumeLimitFact(driver="ebs.csi.aws.com", needs=40, limit=39, in_use=0, exceeds_empty_node=True)],
    )


def test_a_driver_that_the_node_must_have_is_named():
    driver = thing("CSIDriver", DRIVER, spec={"preventPodSchedulingIfMissing": True})
    found = diagnosed(
        {node("n1"): []}, incoming(**using_volumes("b1")), *bound("b1"), csi_node("n1"), driver, storage_class()
    )
    assert facts_of(found) == {"n1": [MissingOnNodeFact(driver=DRIVER)]}
    assert describe_fact(MissingOnNodeFact(driver=DRIVER)) == "no driver csi.example.com"


# --- in use -----------------------------------------------------------------------------------------------------------


def test_the_pods_that_use_a_read_write_once_pod_claim_are_named():
    nodes = {node("n1"): [pod("user", **using_volumes("data"))], node("n2"): []}
    data = bound("data", modes=["ReadWriteOncePod"])
    found = diagnosed(nodes, incoming(**using_volumes("data")), *data, storage_class())
    fact = InUseFact(claim="default/data", users=("default/user",), total=1)
    assert facts_of(found) == {"n1": [fact], "n2": [fact]}
    assert describe_fact(fact) == "claim default/data (ReadWriteOncePod) in use by default/user"
    assert "(claim default/data (ReadWriteOncePod) in use by default/user)" in found.why


def test_the_pods_that_mount_a_disk_are_named_up_to_a_limit():
    disk: JSON = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    nodes = {node("n1"): [pod(f"user-{at}", cpu=None, **disk) for at in range(5)], node("n2", unschedulable=True): []}
    found = diagnosed(nodes, incoming(**disk))
    fact = InUseFact(disk="aws vol-1", users=("default/user-0", "default/user-1", "default/user-2"), total=5)
    assert facts_of(found)["n1"] == [fact]
    assert describe_fact(fact) == ("disk aws vol-1 in use by default/user-0, default/user-1, default/user-2 and 2 more")


@pytest.mark.parametrize("field", ["claim", "disk"])
def test_a_nominated_pod_uses_the_volume_of_its_node(field):
    disk: JSON = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    uses = disk if field == "disk" else using_volumes("data")
    nominee = incoming("nominee", priority=5000, **uses, status={"phase": "Pending", "nominatedNodeName": "n1"})
    both = uses if field == "disk" else {"volumes": [*uses["volumes"], *disk["volumes"]]}  # a claim alone is skipped
    found = diagnosed(
        {node("n1"): [], node("n2", unschedulable=True): []},
        incoming(**both),
        *bound("data", modes=["ReadWriteOncePod"]),
        storage_class(),
        nominees=[nominee],
    )
    name = {"claim": "default/data", "disk": "aws vol-1"}[field]
    assert facts_of(found)["n1"][0] == InUseFact(users=("default/nominee",), total=1, **{field: name})


@pytest.mark.parametrize("uses", ["disks", "claims"])
def test_the_cost_is_linear_in_the_volumes_of_the_pod_and_of_the_nominated_ones(uses):
    def volumes(size):
        names = [f"v{at}" for at in range(size)]
        disks: JSON = {"volumes": [{"name": one, "awsElasticBlockStore": {"volumeID": one}} for one in names]}
        return disks if uses == "disks" else using_volumes(*names)

    def work_of(size):
        there = {"phase": "Pending", "nominatedNodeName": "n1"}
        nominees = [incoming(f"nominee-{at}", priority=5000, **volumes(size), status=there) for at in range(size)]
        claims = [volume_claim(f"v{at}", modes=["ReadWriteOncePod"]) for at in range(size)]
        here = built(cluster({node("n1"): []}, waiting=nominees, others=claims))
        evaluation = Evaluation(here, typed(incoming(**volumes(size))), Profile())
        assert evaluation.filter is not None, "the filters ran before"
        return lambda: volume_restriction_facts(evaluation)(0)

    assert growth(work_of, 20) < 5, "linear in the number of volumes of all pods, which is 4 times as large"
