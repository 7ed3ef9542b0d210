"""Facts about the pod itself: gates, nominations, its group, why it failed, claims that stay unbound, its resize."""

import pytest

from extender.core.profile import KubeScheduler, Profile
from extender.report.diagnose import diagnose, not_found
from extender.report.facts.schema import (
    NominationFact,
    PodGroupFact,
    PodStatusFact,
    ResizeFact,
    SchedulingGatesFact,
    UnboundClaimsFact,
    UnreadableFact,
)
from extender.report.facts.wording import describe_fact
from tests.builders import (
    JSON,
    NodeObject,
    built,
    cluster,
    incoming,
    node,
    placed,
    pod,
    storage_class,
    thing,
    typed,
    using_volumes,
    volume_claim,
)
from tests.report.facts.volumes import diagnosed

SCHEDULER = KubeScheduler((Profile(),))


def of_running(nodes, name="a", **objects):
    here = built(cluster(nodes, **objects))
    return diagnose(here, here.objects.pods["default", name], SCHEDULER)


def test_gates_are_named_up_to_a_limit():
    gates = [{"name": f"example.com/g{at}"} for at in range(7)]
    found = diagnosed({node("n1"): []}, incoming(schedulingGates=gates))
    fact = SchedulingGatesFact(gates=tuple(one["name"] for one in gates[:5]), total=7)
    assert (found.state, found.facts) == ("Gated", [fact])
    assert describe_fact(fact).startswith("scheduling gates example.com/g0, ")
    assert describe_fact(fact).endswith(" and 2 more")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "OutOfpods",
            "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
        ),
        ("Evicted", "The node was low on resource: memory."),
        ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
        ("UnexpectedAdmissionError", ""),
    ],
)
def test_a_failed_pod_says_why(reason, message):
    status = {"phase": "Failed", "reason": reason, "message": message}
    failed = placed(pod("failed", status=status), "n1")
    found = diagnosed({node("n1"): []}, failed)
    assert (found.state, found.facts) == ("Finished", [PodStatusFact(reason=reason, message=message)])
    assert found.why == "default/failed has failed: " + (f"{reason}: {message}" if message else reason)


def test_nominations_of_the_pod_and_of_others_are_named():
    def nominated(name, to, priority):
        return incoming(name, priority=priority, status={"phase": "Pending", "nominatedNodeName": to})

    others = [nominated("higher", "n1", 5000), nominated("lower", "n1", 5)]
    found = diagnosed({node("n1", cpu="1"): []}, nominated("incoming", "gone", 1000), nominees=others)
    assert found.facts == [
        NominationFact(pod="default/incoming", node="gone", priority=1000, node_exists=False),
        NominationFact(pod="default/higher", node="n1", priority=5000, node_exists=True),
    ]
    assert [describe_fact(one) for one in found.facts] == [
        "default/incoming (priority 1000) is nominated to gone, which does not exist",
        "default/higher (priority 5000) is nominated to n1",
    ]


def test_a_nomination_of_another_pod_is_no_fact_where_its_node_plays_no_part():
    other = incoming("other", priority=5000, status={"phase": "Pending", "nominatedNodeName": "n1"})
    cordoned: dict[NodeObject, list[JSON]] = {node("n1", unschedulable=True): [], node("n2", cpu="10m"): []}
    assert diagnosed(cordoned, incoming(), nominees=[other]).facts == []
    snapshot = built(cluster({node("n1", cpu="1"): []}, waiting=[other]))
    assert not_found(snapshot, "default", "absent", SCHEDULER).facts == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_pod_group_is_named_with_the_number_of_its_pods(exists):
    label = {"scheduling.x-k8s.io/pod-group": "train"}
    group = thing("PodGroup", "train", namespace="default", spec={"minMember": 4})
    group |= {"apiVersion": "scheduling.x-k8s.io/v1alpha1"}
    others = [group] if exists else []
    nodes = {node("n1"): [pod("a", labels=label), pod("other", labels={**label, "x": "y"}, namespace="elsewhere")]}
    found = diagnosed(nodes, incoming(labels=label), *others)
    fact = PodGroupFact(group="default/train", exists=exists, min_count=4 if exists else None, pods=2, assigned=1)
    assert found.facts == [fact]
    assert describe_fact(fact) == (
        "pod group default/train: 2 of at least 4 pods exist, 1 has a node"
        if exists
        else "pod group default/train (the group does not exist): 2 pods exist, 1 has a node"
    )


def test_a_diagnosis_for_a_list_of_pods_has_no_facts_about_the_pod():
    waiting = incoming(labels={"scheduling.x-k8s.io/pod-group": "train"})
    here = built(cluster({node("n1"): []}, waiting=[waiting]))
    assert diagnose(here, typed(waiting), SCHEDULER).facts
    assert diagnose(here, typed(waiting), SCHEDULER, with_nodes=False).facts == []


def test_claims_of_a_pod_that_has_its_node_from_elsewhere_stay_unbound():
    others = [
        volume_claim("data"),
        volume_claim("made", annotations={"volume.kubernetes.io/selected-node": "n1"}),
        volume_claim("now", storage_class="now"),
        storage_class(),
        storage_class("now", volumeBindingMode="Immediate"),
    ]
    hand = pod("a", **using_volumes("data", "made", "now"), phase="Pending")
    found = of_running({node("n1"): [hand]}, others=others)
    assert found.facts == [UnboundClaimsFact(node="n1", claims=("default/data",), total=1)]
    assert found.why.endswith(
        "; claim default/data stays unbound: the pod has its node n1 not from kube-scheduler, which binds claims first"
    )


def test_a_pending_resize_says_what_the_pod_holds_and_wants():
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        "containerStatuses": [
            {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
        ],
    }
    found = of_running({node("n1", cpu="16"): [pod("a", cpu="11", status=status)]})
    fact = ResizeFact(resource="cpu", pod="default/a", state="Deferred", allocated="4", wanted="11", counted="11")
    assert found.facts == [fact]
    assert "default/a: resize Deferred, 4 allocated, 11 wanted" in describe_fact(fact)


def test_kinds_that_may_not_be_read_are_named_once():
    waiting = incoming(**using_volumes("data"))
    here = built(cluster({node("n1"): []}, waiting=[waiting]))
    here.unreadable_tables = frozenset({"csi_storage_capacities", "claims"})
    found = diagnose(here, typed(waiting), SCHEDULER)
    (fact,) = found.facts
    assert isinstance(fact, UnreadableFact)
    assert fact.kinds == ("CSIStorageCapacity", "PersistentVolumeClaim")
    assert sorted(fact.plugins) == sorted(found.not_evaluated)
    assert describe_fact(fact) == "no permission to list CSIStorageCapacity, PersistentVolumeClaim"


def test_a_pod_without_anything_particular_has_no_facts():
    assert diagnosed({node("n1"): []}, incoming()).facts == []
