"""Terms of running pods: few or many of them say the same, and the index finds every pod that has a matching one."""

from random import Random

import msgspec
import pytest

from extender.core.snapshot import affinity_terms
from extender.core.snapshot.affinity_terms import ExistingTerms, FewTerms, ManyTerms, TargetPod, TermOwnerIndex
from extender.k8s.affinity import preferred_terms
from extender.k8s.objects import Affinity, PodAffinity
from tests.builders import node, pod, snapshot, typed
from tests.profiles import by_profile

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = {"a": {"team": "red"}, "b": {"team": "blue"}, "c": {}}


def selector(random):
    if random.random() < 0.1:
        return None
    expressions = []
    for _ in range(random.randrange(3)):
        operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = random.sample(("x", "y", "z"), 2) if operator in ("In", "NotIn") else []
        expressions.append({"key": random.choice(("app", "team")), "operator": operator, "values": values})
    return {"matchExpressions": expressions}


def term(random):
    given = {"topologyKey": random.choice((HOSTNAME, ZONE, "missing.key/it")), "labelSelector": selector(random)}
    if random.random() < 0.3:
        given["namespaces"] = random.sample(["a", "b", "unknown"], 2)
    if random.random() < 0.3:
        given["namespaceSelector"] = selector(random)
    return given


def targets():
    for namespace, labels in NAMESPACES.items():
        for app in ({}, {"app": "x"}, {"app": "z"}, {"team": "y", "app": "other"}):
            yield TargetPod(namespace, app, (labels,))
            yield TargetPod(namespace, app, (labels, {}))


@pytest.mark.parametrize("seed", range(20))
def test_many_terms_weigh_as_each_of_them_does(seed, monkeypatch):
    monkeypatch.setattr(affinity_terms, "_MAX_CACHED_NAMESPACES", 1 + seed)
    random = Random(seed)
    raw = [{"weight": random.randint(-9, 9), "podAffinityTerm": term(random)} for _ in range(30)]
    side = msgspec.convert({PREFERRED: raw}, PodAffinity)
    keys = frozenset((HOSTNAME, ZONE))
    few, many = FewTerms(preferred_terms("a", side, 1)), ManyTerms(preferred_terms("a", side, 1), keys)
    for _ in range(2):  # computed, then kept
        for target in targets():
            assert many.weights_for(target, keys) == few.weights_for(target, keys)
            living = FewTerms(one for one in few.terms if one.topology_key in keys)
            assert many.all_match(target) == living.all_match(target)


def with_terms(random, count, namespace="a"):
    terms = [term(random) for _ in range(count)]
    return pod(f"p{random.random()}", namespace=namespace, affinity={"podAntiAffinity": {REQUIRED: terms}})


@pytest.mark.parametrize(("limit", "anchors"), [(64, 32), (64, 2), (0, 32)])
@pytest.mark.parametrize("seed", range(by_profile(3, 10, 500)))
def test_the_index_finds_every_pod_with_a_matching_term(seed, limit, anchors, monkeypatch):
    monkeypatch.setattr(affinity_terms, "MAX_REQUIREMENTS_ONE_BY_ONE", limit)
    monkeypatch.setattr(affinity_terms, "_MAX_ANCHORS", anchors)
    random = Random(seed)
    pods = [with_terms(random, random.randint(1, 3), random.choice("abc")) for _ in range(30)]
    here = snapshot({node("n1"): pods})
    index, keys = here.index(TermOwnerIndex), here.node_label_keys
    for target in targets():
        found = {row for owners in index.owners_for(target) for row in owners.rows.tolist()}
        for row, one in here.running_pods():
            terms = ExistingTerms(one.metadata.namespace, one.spec.affinity).on(keys)
            if terms.anti_affinity.weights_for(target, keys):
                assert row in found
    for key in list(here.objects.pods):
        here.remove("Pod", key)
    assert not index._by_key
    assert not index._by_anchor
    assert not index.has_namespace_selectors


def test_H1_pods_whose_terms_cannot_match_are_not_looked_at():
    never = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nothing"}}, "namespaceSelector": {}}
    others = [
        pod(f"p{nth}", affinity={"podAntiAffinity": {REQUIRED: [never | {"namespaces": [f"n{nth}"]}]}})
        for nth in range(50)
    ]
    here = snapshot({node("n1"): others})
    assert not [*here.index(TermOwnerIndex).owners_for(TargetPod("default", {"app": "web"}, ({},)))]


@pytest.mark.parametrize(
    "given",
    [
        {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [*map(str, range(100))]}]}},
        {"labelSelector": {}, "namespaces": [f"n{nth}" for nth in range(100)]},
        {"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": [f"n{nth}" for nth in range(30)]},
    ],
    ids=("values", "namespaces", "both"),
)
@pytest.mark.parametrize("count", [1, 20])
def test_H4_what_finds_a_pod_is_bounded_for_all_of_its_terms_together(count, given):
    terms = [
        {"topologyKey": HOSTNAME} | given | {"namespaces": [f"{name}-{nth}" for name in given.get("namespaces", ())]}
        for nth in range(count)
    ]
    here = snapshot({node("n1"): [pod("p", affinity={"podAntiAffinity": {REQUIRED: terms}})]})
    assert 1 <= sum(map(len, here.index(TermOwnerIndex)._by_anchor.values())) <= 32


def test_H1_of_many_terms_a_label_set_sums_only_those_that_name_its_labels(monkeypatch):
    sums, summed = ManyTerms._sums, []

    def counting(self, rows, counts):
        summed.append(len(rows))
        return sums(self, rows, counts)

    monkeypatch.setattr(ManyTerms, "_sums", counting)
    raw = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [one]}}}
        for nth in range(1000)
        for one in (
            {"key": "app", "operator": "NotIn", "values": [f"app-{nth}"]},
            {"key": "pod", "operator": "In", "values": [f"pod-{nth}"]},
        )
    ]
    keys = frozenset((ZONE,))
    many = ManyTerms(preferred_terms("a", msgspec.convert({PREFERRED: raw}, PodAffinity), 1), keys)
    for nth in range(3):
        target = TargetPod("a", {"app": f"app-{nth}", "pod": f"pod-{nth + 5}"}, ({},))
        assert many.weights_for(target, keys) == {ZONE: 1000}
    assert summed == [1000, 2, 2, 2]


def affinity(*keys):
    terms = [{"topologyKey": key, "labelSelector": {}, "namespaceSelector": {}} for key in keys]
    return msgspec.convert({"podAntiAffinity": {REQUIRED: terms}}, Affinity)


def test_H2_of_many_terms_only_those_of_keys_that_nodes_have_are_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(ManyTerms, "_add", lambda self, one: compiled.append(one.topology_key))
    terms = ExistingTerms("a", affinity(*(f"missing.key/{nth}" for nth in range(100)), ZONE))
    assert terms.are_many
    terms.on(frozenset((HOSTNAME,)))
    assert compiled == []
    terms.on(frozenset((HOSTNAME, ZONE)))
    assert compiled == [ZONE]
    terms.on(frozenset((HOSTNAME, ZONE, "another.key/of-nodes")))
    assert compiled == [ZONE]


def test_terms_follow_the_label_keys_of_the_nodes():
    hostile = pod("hostile", affinity=msgspec.to_builtins(affinity(*(f"new.key/{nth}" for nth in range(100)))))
    here = snapshot({node("n1"): [hostile], node("n2"): []})

    def matching():
        (owners,) = here.index(TermOwnerIndex).owners_for(target)
        return owners.terms.on(here.node_label_keys).anti_affinity.weights_for(target, here.node_label_keys)

    target = TargetPod("default", {}, ({},))
    assert matching() == {}
    labelled = here.nodes[1]
    more = msgspec.structs.replace(labelled.metadata, labels={"new.key/7": "x"})
    here.put("Node", msgspec.structs.replace(labelled, metadata=more))
    assert matching() == {"new.key/7": 1}
    here.remove("Node", ("", "n2"))
    assert matching() == {}


@pytest.mark.parametrize("count", [2, 100])
def test_a_list_with_a_term_that_does_not_parse_counts_as_empty(count):
    broken = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"not a key": "x"}}}
    good = {"topologyKey": HOSTNAME, "labelSelector": {}}
    sides = {
        "podAntiAffinity": {REQUIRED: [good] * count + [broken], PREFERRED: [{"weight": 3, "podAffinityTerm": good}]},
        "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": broken}]},
    }
    keys, target = frozenset((HOSTNAME,)), TargetPod("a", {}, ({},))
    terms = ExistingTerms("a", msgspec.convert(sides, Affinity)).on(keys)
    assert terms.anti_affinity.weights_for(target, keys) == {}
    assert terms.preferred.weights_for(target, keys) == {HOSTNAME: -3}


def test_H2_terms_of_a_nominated_pod_are_compiled_once():
    terms = msgspec.to_builtins(affinity(HOSTNAME, ZONE))
    waiting = pod("waiting", affinity=terms, phase="Pending", start=None, status={"nominatedNodeName": "n1"})
    here = snapshot({node("n1"): []}, waiting=[waiting])
    index, (nominee,) = here.index(TermOwnerIndex), here.nominees
    assert index.terms_of_nominee(nominee) is index.terms_of_nominee(nominee)
    assert index.terms_of_nominee(typed(waiting)) is not index.terms_of_nominee(nominee)
