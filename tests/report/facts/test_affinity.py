"""Facts about pod affinity and anti-affinity: the term, the domain, and the pods."""

import pytest

from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.report.facts.affinity import pod_affinity_facts
from extender.report.facts.schema import DomainCount, MoreFact, PodAffinityFact
from tests.builders import built, cluster, incoming, namespace, node, pod, typed
from tests.report.facts.diagnosed import causes, diagnosed, facts_on, words_on

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def term(app, key=HOSTNAME, **rest):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} | rest


def attracted(*terms):
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def repelled(*terms):
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def zoned(name, zone):
    return node(name, labels={ZONE: zone})


def test_pods_that_the_own_anti_affinity_excludes_are_named_by_domain():
    nodes = {zoned("a", "z1"): [pod(f"web-{one}", cpu="0", labels={"app": "web"}) for one in range(5)]}
    nodes |= {zoned("b", "z1"): [], zoned("c", "z2"): [pod("web-9", labels={"app": "web"})], node("d", cpu="0"): []}
    found = diagnosed(nodes, incoming(affinity=repelled(term("web", ZONE))))
    assert facts_on(found, "b") == [
        PodAffinityFact(
            rule="antiAffinity",
            topology_key=ZONE,
            selector="app=web",
            domain="z1",
            pods=("default/web-0", "default/web-1", "default/web-2"),
            count=5,
        )
    ]
    assert words_on(found, "b") == [
        f"anti-affinity to app=web: default/web-0, default/web-1, default/web-2 and 2 more in {ZONE}=z1"
    ]
    assert words_on(found, "c") == [f"anti-affinity to app=web: default/web-9 in {ZONE}=z2"]
    assert [(one.nodes, one.fact.selector) for one in causes(found, "InterPodAffinity")] == [(3, "app=web")]


def test_the_pod_whose_anti_affinity_excludes_is_named_with_its_term():
    old = pod("old", namespace="kube-system", affinity=repelled(term("incoming", namespaces=["default"])))
    found = diagnosed({node("a"): [old], node("b", cpu="0"): []})
    (fact,) = facts_on(found, "a")
    assert (fact.rule, fact.pods, fact.selector, fact.namespaces, fact.domain) == (
        "existingAntiAffinity",
        ("kube-system/old",),
        "app=incoming",
        "default",
        "a",
    )
    assert words_on(found, "a") == [
        f"anti-affinity of kube-system/old to app=incoming in namespaces default in {HOSTNAME}=a"
    ]


def test_a_namespace_selector_is_part_of_the_term():
    everywhere = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
    nodes = {node("a"): [pod("old", namespace="other", affinity=repelled(term("incoming", **everywhere)))]}
    found = diagnosed(nodes, namespaces=[namespace("default", team="shop"), namespace("other")])
    assert facts_on(found, "a")[0].namespaces == "those with team=shop"
    nodes = {node("a"): [pod("old", namespace="other", affinity=repelled(term("incoming", namespaceSelector={})))]}
    assert facts_on(diagnosed(nodes), "a")[0].namespaces == "all"


def test_affinity_to_no_pod_at_all_is_told():
    found = diagnosed([zoned("a", "z1"), node("b")], incoming(affinity=attracted(term("db", ZONE))))
    assert words_on(found, "a") == [f"affinity to app=db, which no pod on a node with {ZONE} matches, in {ZONE}=z1"]
    assert words_on(found, "b") == [f"no label {ZONE}"]


def test_nodes_without_the_label_are_counted_apart():
    nodes = [zoned("a", "z1"), zoned("b", "z2"), node("c"), node("d")]
    found = diagnosed(nodes, incoming(affinity=attracted(term("db", ZONE))))
    counts = {one.fact.missing_label: one.nodes for one in causes(found, "InterPodAffinity")}
    assert counts == {False: 2, True: 2}


def test_the_first_pod_of_a_series_lacks_only_the_label():
    terms = attracted(term("web", ZONE), term("web"))
    found = diagnosed([node("a")], incoming(labels={"app": "web"}, affinity=terms))
    assert words_on(found, "a") == [f"no label {ZONE}"]
    labelled = {node("a"): [], zoned("b", "z1"): [pod("x", cpu="4")]}
    found = diagnosed(labelled, incoming(labels={"app": "web"}, affinity=terms))
    assert words_on(found, "a") == [f"no label {ZONE}"]


def test_affinity_names_the_domains_that_have_a_match():
    nodes = {zoned("a", "z1"): [], zoned("b", "z2"): [pod("db", cpu="4", labels={"app": "db"})], node("c"): []}
    found = diagnosed(nodes, incoming(affinity=attracted(term("db", ZONE))))
    (fact,) = facts_on(found, "a")
    assert (fact.domain, fact.count, fact.domains) == ("z1", 1, (DomainCount(domain="z2", pods=1),))
    assert words_on(found, "a") == [f"affinity to app=db, which no pod in {ZONE}=z1 matches, but z2: 1"]
    assert facts_on(found, "c")[0].domain is None


def test_of_several_affinity_terms_all_have_to_match_one_pod():
    nodes = {zoned("a", "z1"): [pod("db", labels={"app": "db"})]}
    wanted = [term("db"), {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"tier": "gold"}}}]
    found = diagnosed(nodes, incoming(affinity=attracted(*wanted)))
    assert words_on(found, "a") == [
        f"affinity to app=db, tier=gold, which no pod on a node with {HOSTNAME} matches, in {HOSTNAME}=a"
    ]


def test_a_topology_key_that_no_node_has_is_told():
    found = diagnosed([node("a")], incoming(affinity=attracted(term("db", "rack"))))
    assert words_on(found, "a") == ["no label rack"]


def test_terms_too_many_to_be_matched_one_by_one_are_named_by_domain():
    nodes = {node("a"): [pod("x", labels={"app": "web-3"})]}
    found = diagnosed(nodes, incoming(affinity=repelled(*[term(f"web-{one}") for one in range(100)])))
    assert words_on(found, "a") == [f"anti-affinity to one of many terms: default/x in {HOSTNAME}=a"]
    found = diagnosed({node("a"): []}, incoming(affinity=attracted(*[term(f"web-{one}") for one in range(100)])))
    assert facts_on(found, "a")[0].selector == "app=web-0, app=web-1, app=web-2, app=web-3, app=web-4 and 95 more"


def test_terms_of_one_selector_are_one_selector():
    wanted = [term("db", f"rack-{one}") for one in range(7)]
    found = diagnosed(
        [node("a", labels={f"rack-{one}": "r" for one in range(7)})], incoming(affinity=attracted(*wanted))
    )
    assert facts_on(found, "a")[0].selector == "app=db"
    assert facts_on(found, "a")[-1] == MoreFact(count=1)


@pytest.mark.parametrize("kind", ["affinity", "existingAntiAffinity"])
def test_the_facts_of_a_node_are_limited_however_many_terms_there_are(kind):
    running, wanted = [], attracted(*[term("db", f"rack-{one}") for one in range(100)])
    if kind == "existingAntiAffinity":
        terms = [term("incoming", namespaces=["default", f"x{one}"]) for one in range(100)]
        running, wanted = [pod(f"p{at}", affinity=repelled(one), cpu="0") for at, one in enumerate(terms)], {}
    here = built(cluster({node("a"): running}))
    evaluation = Evaluation(here, typed(incoming(affinity=wanted)), Profile())
    facts = pod_affinity_facts(evaluation)(0)
    assert (len(facts), facts[-1]) == (7, MoreFact(count=94))


def test_a_nominated_pod_excludes_too():
    nominee = incoming("next", priority=5000, labels={"app": "web"}, status={"nominatedNodeName": "a"})
    found = diagnosed([node("a")], incoming(affinity=repelled(term("web"))), others=[nominee])
    assert words_on(found, "a") == ["room is kept for the nominated default/next"]
