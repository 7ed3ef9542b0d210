"""Facts about topology spread: the skew, the minimum, and the domains."""

import pytest

from extender.core.profile import Profile
from extender.k8s.objects import TopologySpreadConstraint
from extender.report.facts.schema import DomainCount, SpreadFact
from tests.builders import incoming, node, pod
from tests.report.facts.diagnosed import diagnosed, facts_on, words_on

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
TAINT = {"key": "group", "value": "special", "effect": "NoSchedule"}


def constraint(key=HOSTNAME, skew=1, **rest):
    selector = {"matchLabels": {"app": "a"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector} | rest


def spreading(*constraints, labels=None):
    return incoming(labels={"app": "a"} if labels is None else labels, topologySpreadConstraints=list(constraints))


def pods(count, name="p", **fields):
    return [pod(f"{name}-{one}", cpu="0", labels={"app": "a"}, **fields) for one in range(count)]


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (node("special", taints=[TAINT]), "all nodes tainted"),
        (node("special", unschedulable=True), "all nodes cordoned"),
        (node("special", cpu="0"), "all nodes full"),
    ],
)
def test_the_domain_that_keeps_the_minimum_down_is_named(special, words):
    nodes = {node("w1"): pods(1, "x"), node("w2"): pods(2, "y"), special: []}
    found = diagnosed(nodes, spreading(constraint()))
    skew = f"w1: 1 + 1 - 0 > maxSkew 1 by {HOSTNAME}, domain special: 0, {words}"
    domains = f"domains special: 0 ({words}), w1: 1, w2: 2"
    assert words_on(found, "w1") == [f"{skew}; selector app=a; {domains}"]
    assert f"({skew})" in found.why


def test_a_domain_that_the_pod_may_use_is_just_the_minimum():
    nodes = {node("w1", labels={ZONE: "z1"}): pods(3), node("w2", labels={ZONE: "z2"}): pods(1, "q")}
    found = diagnosed(nodes, spreading(constraint(ZONE, 2)))
    assert facts_on(found, "w1") == [
        SpreadFact(
            topology_key=ZONE,
            selector="app=a",
            max_skew=2,
            domain="z1",
            matching=3,
            self_matching=1,
            minimum=1,
            domains=(DomainCount(domain="z2", pods=1), DomainCount(domain="z1", pods=3)),
            count=2,
        )
    ]
    assert words_on(found, "w1")[0].startswith(f"z1: 3 + 1 - 1 > maxSkew 2 by {ZONE}, domain z2: 1; selector app=a;")


def test_a_pod_that_its_selector_does_not_match_adds_nothing_to_the_skew():
    nodes = {node("w1"): pods(2), node("w2"): []}
    found = diagnosed(nodes, spreading(constraint(), labels={"app": "b"}))
    assert words_on(found, "w1")[0].startswith("w1: 2 + 0 - 0 > maxSkew 1")


def test_a_missing_label_is_told_as_such():
    found = diagnosed({node("w1"): [], node("w2", labels={ZONE: "z"}, cpu="0"): []}, spreading(constraint(ZONE)))
    (fact,) = facts_on(found, "w1")
    assert (fact.missing_label, fact.domain, fact.topology_key) == (True, None, ZONE)
    assert words_on(found, "w1") == [f"no label {ZONE}"]


def test_too_few_domains_make_the_minimum_zero():
    nodes = {node("w1"): pods(1), node("w2"): pods(1, "q")}
    found = diagnosed(nodes, spreading(constraint(minDomains=3)))
    (fact,) = facts_on(found, "w1")
    assert (fact.minimum, fact.min_domains, fact.count) == (0, 3, 2)
    assert words_on(found, "w1")[0].startswith(
        f"w1: 1 + 1 - 0 > maxSkew 1 by {HOSTNAME}, 2 domains of minDomains 3; selector app=a"
    )


def test_each_of_two_constraints_that_fail_is_named():
    nodes = {
        node("w1", labels={ZONE: "z1"}): pods(4),
        node("w2", labels={ZONE: "z2"}, unschedulable=True): [],
    }
    found = diagnosed(nodes, spreading(constraint(ZONE, 2), constraint(HOSTNAME, 3)))
    assert [(one.topology_key, one.max_skew) for one in facts_on(found, "w1")] == [(ZONE, 2), (HOSTNAME, 3)]


def test_match_label_keys_are_part_of_the_selector():
    labels = {"app": "a", "pod-template-hash": "new"}
    nodes = {node("w1"): [pod("p", cpu="0", labels=labels)], node("w2", taints=[TAINT]): []}
    found = diagnosed(nodes, spreading(constraint(matchLabelKeys=["pod-template-hash"]), labels=labels))
    assert facts_on(found, "w1")[0].selector == "app=a, pod-template-hash=new"


def test_a_nominated_pod_counts_on_its_node():
    nominee = incoming("next", priority=5000, labels={"app": "a"}, status={"nominatedNodeName": "w1"})
    found = diagnosed({node("w1"): [], node("w2", taints=[TAINT]): []}, spreading(constraint()), others=[nominee])
    assert [one.partition(";")[0] for one in words_on(found, "w1")] == [
        f"w1: 0 + 1 nominated + 1 - 0 > maxSkew 1 by {HOSTNAME}, domain w2: 0, all nodes tainted",
        "room is kept for the nominated default/next",
    ]


def test_default_constraints_are_told_as_own_ones():
    default = TopologySpreadConstraint(1, HOSTNAME, "DoNotSchedule")
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "a"}}}
    nodes = {node("w1"): pods(1), node("w2", taints=[TAINT]): []}
    profile = Profile(default_spread_constraints=(default,))
    found = diagnosed(nodes, incoming(labels={"app": "a"}), others=[service], profile=profile)
    assert facts_on(found, "w1")[0].selector == "app=a"


def test_many_domains_are_counted():
    nodes = {node(f"w{one}"): pods(1, f"p{one}") for one in range(9)} | {node("w9", taints=[TAINT]): []}
    found = diagnosed(nodes, spreading(constraint()))
    (fact,) = facts_on(found, "w0")
    assert (len(fact.domains), fact.count, fact.domains[0].domain) == (5, 10, "w9")
    assert words_on(found, "w0")[0].endswith("and 5 more")
