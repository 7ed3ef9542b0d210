"""Facts about labels, names, cordons and declared features of nodes."""

import msgspec
import pytest
from msgspec.structs import replace

from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.k8s.objects import NodeAffinity
from extender.report.facts.node_facts import facts_of_nodes
from extender.report.facts.nodes import MAX_REQUIREMENTS
from extender.report.facts.schema import (
    MAX_LISTED,
    DeclaredFeatureFact,
    NodeNameFact,
    NodeRequirementFact,
    UnschedulableFact,
)
from tests.builders import JSON, built, cluster, incoming, node, typed
from tests.report.facts.diagnosed import causes, diagnosed, facts_on, words_on

DISKS = [
    node("a", labels={"disk": "hdd"}),
    node("b", labels={"disk": "hdd", "zone": "z1"}),
    node("c", labels={"disk": "nvme", "zone": "z2"}),
    node("d"),
]
HAVE = {"hdd": 2, "nvme": 1}


def required(*terms: list[tuple[str, str, list[str]]]) -> JSON:
    """Affinity with these nodeSelectorTerms; a term is a list of (key, operator, values)."""
    expressions = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in term]}
        for term in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}}


def test_a_node_selector_that_no_node_has_is_named_with_the_values_that_nodes_have():
    found = diagnosed(DISKS, incoming(nodeSelector={"disk": "ssd"}))
    fact = NodeRequirementFact(source="nodeSelector", requirement="disk=ssd", key="disk", value="hdd", values=HAVE)
    assert facts_on(found, "a") == [fact]
    assert facts_on(found, "d") == [replace(fact, value=None)]
    assert words_on(found, "a") == ["nodeSelector disk=ssd, the node has hdd; nodes have hdd (2), nvme (1)"]
    assert words_on(found, "d") == ["nodeSelector disk=ssd, the node has no disk; nodes have hdd (2), nvme (1)"]
    assert "(nodeSelector disk=ssd, which no node meets)" in found.why
    assert [(one.nodes, one.fact.requirement) for one in causes(found, "NodeAffinity")] == [(4, "disk=ssd")]


def test_only_the_requirements_that_fail_are_named_and_how_many_nodes_meet_them():
    found = diagnosed(DISKS, incoming(nodeSelector={"disk": "hdd", "zone": "z2"}))
    assert [[one.requirement for one in facts_on(found, name)] for name in "abcd"] == [
        ["zone=z2"],
        ["zone=z2"],
        ["disk=hdd"],
        ["disk=hdd", "zone=z2"],
    ]
    assert "(nodeSelector zone=z2, which 1 node meets; nodeSelector disk=hdd, which 2 nodes meet)" in found.why


def test_of_terms_each_one_is_named_with_what_fails_of_it():
    affinity = required(
        [("disk", "In", ["ssd", "sata"]), ("zone", "Exists", [])], [("disk", "NotIn", ["hdd"]), ("zone", "In", ["z9"])]
    )
    found = diagnosed(DISKS, incoming(affinity=affinity))
    assert [(one.term, one.terms, one.requirement) for one in facts_on(found, "a")] == [
        (1, 2, "disk in (sata, ssd)"),
        (1, 2, "zone"),
        (2, 2, "disk!=hdd"),
        (2, 2, "zone=z9"),
    ]
    assert [(one.term, one.requirement) for one in facts_on(found, "c")] == [(1, "disk in (sata, ssd)"), (2, "zone=z9")]
    assert words_on(found, "c")[1] == "nodeAffinity term 2 of 2 zone=z9, the node has z2; nodes have z1 (1), z2 (1)"


def test_what_does_not_depend_on_the_node_is_computed_once():
    found = diagnosed(DISKS, incoming(nodeSelector={"disk": "ssd"}))
    assert facts_on(found, "a")[0].values is facts_on(found, "c")[0].values


def test_terms_and_requirements_are_limited():
    term: list[tuple[str, str, list[str]]] = [(f"k{number}", "Exists", []) for number in range(9)]
    affinity = required(*[term] * 9)
    (*named,) = facts_on(diagnosed(DISKS, incoming(affinity=affinity)), "a")
    assert len(named) == 13
    assert named[-1].count == MAX_LISTED * MAX_REQUIREMENTS - 12


def test_terms_that_are_empty_match_no_node():
    affinity: JSON = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
    found = diagnosed(DISKS, incoming(affinity=affinity))
    assert facts_on(found, "a") == [NodeRequirementFact(source="nodeAffinity")]
    assert words_on(found, "a") == ["nodeAffinity without a valid term"]


@pytest.mark.parametrize(("wanted", "meeting"), [("b", 1), ("gone", 0)])
def test_nodes_that_prefilter_leaves_out_are_told_the_name(wanted, meeting):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = diagnosed(DISKS, incoming(affinity=affinity, cpu="64"))
    assert next(one.plugin for one in found.nodes if one.name == "a") == "NodeAffinity"
    (fact,) = facts_on(found, "a")
    assert (fact.requirement, fact.value, fact.meeting) == (f"metadata.name={wanted}", "a", meeting)


def test_names_that_exclude_one_another_are_named():
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    term = {"matchFields": names}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = diagnosed(DISKS, incoming(affinity=affinity))
    assert [one.requirement for one in facts_on(found, "a")] == ["metadata.name=b"]
    assert [one.requirement for one in facts_on(found, "d")] == ["metadata.name=a", "metadata.name=b"]


def test_the_affinity_that_the_profile_adds_is_named_as_such():
    added = msgspec.convert(required([("zone", "In", ["z1"])])["nodeAffinity"], NodeAffinity)
    found = diagnosed(DISKS, incoming(nodeSelector={"disk": "ssd"}), profile=Profile(added_affinity=added))
    assert words_on(found, "c")[0].startswith("addedAffinity zone=z1, the node has z2; nodes have z1 (1), z2 (1)")
    assert [one.source for one in facts_on(found, "b")] == ["nodeSelector"]
    sources = {one.reason: {facts_on(found, name)[0].source for name in one.examples} for one in found.reasons}
    assert sources == {
        "node(s) didn't match scheduler-enforced node affinity": {"addedAffinity"},
        "node(s) didn't match Pod's node affinity/selector": {"nodeSelector"},
    }


def test_a_cordon_is_told():
    found = diagnosed([node("a", unschedulable=True)])
    assert facts_on(found, "a") == [UnschedulableFact()]
    assert words_on(found, "a") == ["spec.unschedulable"]


@pytest.mark.parametrize(("name", "exists"), [("b", True), ("gone", False)])
def test_the_node_that_the_pod_names_is_told(name, exists):
    waiting = incoming(nodeName=name)
    snapshot = built(cluster(dict.fromkeys(DISKS, ())))
    facts = facts_of_nodes(Evaluation(snapshot, typed(waiting), Profile()))
    assert facts(snapshot.node_row["a"], "NodeName") == [NodeNameFact(name=name, exists=exists)]


def test_a_feature_that_the_node_does_not_declare_is_named():
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
    waiting = incoming()
    waiting["spec"]["containers"][0]["restartPolicyRules"] = [rule]
    feature = "RestartAllContainersOnContainerExits"
    found = diagnosed([node("a"), node("b", cpu="0", declaredFeatures=[feature])], waiting)
    assert facts_on(found, "a") == [DeclaredFeatureFact(feature=feature, declaring=1)]
    assert words_on(found, "a") == [f"needs {feature}, which 1 node declares"]
