"""Clusters and requests at the edges, made by hand. Each is also held against the slow reference."""

import pytest

import extender
import tests.parity.reference
from extender.core import engine
from extender.core.profile import Profile
from extender.k8s.candidates import SentCandidate
from tests.builders import budget, built, candidates_sent_by_kube_scheduler, cluster, incoming, node, pod, typed
from tests.device_builders import undecided_claim, using_claims

HIGHEST, LOWEST = 2**31 - 1, -(2**31)


def evaluated(objects, waiting):
    """The engine's evaluation, on which the reference agrees."""
    got = extender.evaluate(objects, waiting, version=tests.parity.reference.VERSION).to_dict()
    assert got.items() >= tests.parity.reference.evaluate(objects, waiting).items()
    return got


def preempted(objects, waiting, sent=None, keep=None):
    """`/preempt` with every node offered -> {node: victims}, best first."""
    snapshot = built(objects)
    given = {name: SentCandidate(tuple(uids)) for name, uids in (sent or {}).items()}
    if sent is None:
        given = dict.fromkeys(snapshot.node_names, SentCandidate(())) | candidates_sent_by_kube_scheduler(
            snapshot, typed(waiting)
        )
    decision = engine.preempt(snapshot, typed(waiting), given, Profile(keep_candidates=keep))
    assert {kept.node for kept in decision.kept} | decision.dropped.keys() == given.keys()
    return {kept.node: [victim.metadata.name for victim in kept.victims] for kept in decision.kept}


def victims(evaluation, name):
    return [uid.removeprefix("uid-") for uid in evaluation["candidates"][name]["victims"]]


# --- little or nothing there ----------------------------------------------------------------------------------------


def test_an_empty_cluster_has_no_answer_and_no_error():
    evaluation = evaluated(cluster({}), incoming())
    assert (evaluation["filter"], evaluation["candidates"], evaluation["selected"]) == ({}, {}, None)
    assert engine.filter(built(cluster({})), typed(incoming()), [], Profile()).accepted == ()
    assert engine.prioritize(built(cluster({})), typed(incoming()), [], Profile()).scores == ()
    assert preempted(cluster({}), incoming()) == {}


def test_an_empty_cluster_drops_every_offer():
    assert preempted(cluster({}), incoming(), {"n1": ["uid-a"], "n2": []}) == {}


def test_a_list_without_nodes_still_holds_pods_and_budgets():
    objects = cluster({}, waiting=[pod("a", nodeName="gone")], budgets=[budget(app="a")])
    assert evaluated(objects, incoming())["filter"] == {}


def test_a_node_without_pods_takes_the_pod_or_never_will():
    objects = cluster({node("large"): [], node("small", cpu="500m"): []})
    evaluation = evaluated(objects, incoming(cpu="1"))
    assert evaluation["filter"]["large"]["code"] == "Success"
    assert evaluation["filter"]["small"]["code"] == "UnschedulableAndUnresolvable"
    assert preempted(objects, incoming(cpu="1")) == {}


@pytest.mark.parametrize("pods", ["110", "0"])
def test_a_node_with_nothing_to_give_is_never_a_candidate(pods):
    """Zero cores and bytes; its pods ask for none, so that nothing is gained by evicting them."""
    objects = cluster({node("n1", cpu="0", memory="0", pods=pods): [pod("a", cpu=None)]})
    assert evaluated(objects, incoming(cpu="1"))["candidates"] == {}
    assert preempted(objects, incoming(cpu="1")) == {}


def test_a_node_without_allocatable_takes_nobody():
    empty = node("n1")
    del empty.raw["status"]
    objects = cluster({empty: [pod("a")]})
    assert evaluated(objects, incoming(cpu=None))["candidates"] == {}


def test_pods_that_have_finished_take_no_room_and_are_no_victims():
    finished = [pod("done", cpu="4", phase="Succeeded"), pod("lost", cpu="4", phase="Failed")]
    objects = cluster({node("n1", cpu="4"): finished})
    assert evaluated(objects, incoming(cpu="4"))["filter"]["n1"]["code"] == "Success"
    assert preempted(objects, incoming(cpu="4")) == {}


def test_a_finished_victim_that_is_offered_drops_the_node():
    objects = cluster({node("n1", cpu="4"): [pod("done", cpu="4", phase="Failed"), pod("a", cpu="4")]})
    assert preempted(objects, incoming(cpu="4"), {"n1": ["uid-done"]}) == {}
    assert preempted(objects, incoming(cpu="4"), {"n1": ["uid-a"]}) == {"n1": ["a"]}


# --- very many, very large ------------------------------------------------------------------------------------------


def test_of_200_pods_on_one_node_the_least_important_leave():
    """200 × 20m = 4 cores, all in use; 1 core is wanted: 50 must go, the last started first."""
    crowd = [pod(f"p{i:03}", cpu="20m", start=f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z") for i in range(200)]
    objects = cluster({node("n1", cpu="4", pods="250"): crowd})
    evaluation = evaluated(objects, incoming(cpu="1"))
    assert victims(evaluation, "n1") == [f"p{i:03}" for i in range(150, 200)]


def test_one_place_among_200_pods_of_all_priorities_costs_the_lowest():
    crowd = [pod(f"p{i}", cpu=None, priority=i - 100) for i in range(200)]
    objects = cluster({node("n1", pods="200"): crowd})
    assert victims(evaluated(objects, incoming(cpu=None, priority=1000)), "n1") == ["p0"]


def test_priorities_at_the_ends_of_int32():
    """The sums of the ranking need 64 bits: two pods of the highest but one priority against one."""
    two = [pod("a", cpu="2", priority=HIGHEST - 1), pod("b", cpu="2", priority=HIGHEST - 1)]
    objects = cluster({node("one"): [pod("c", cpu="4", priority=HIGHEST - 1)], node("two"): two})
    evaluation = evaluated(objects, incoming(cpu="4", priority=HIGHEST))
    assert evaluation["selected"] == "one"
    assert list(preempted(objects, incoming(cpu="4", priority=HIGHEST))) == ["one", "two"]


def test_a_pod_less_costs_less_even_at_the_lowest_priority():
    two = [pod("a", cpu="2", priority=LOWEST), pod("b", cpu="2", priority=LOWEST)]
    objects = cluster({node("one"): [pod("c", cpu="4", priority=LOWEST)], node("two"): two})
    assert evaluated(objects, incoming(cpu="4", priority=LOWEST + 1))["selected"] == "one"


def test_nobody_is_lower_than_the_lowest_and_nobody_is_evicted_by_an_equal():
    objects = cluster({node("n1"): [pod("a", cpu="4", priority=LOWEST)], node("n2"): [pod("b", cpu="4")]})
    assert evaluated(objects, incoming(cpu="4", priority=LOWEST))["candidates"] == {}
    assert preempted(objects, incoming(cpu="4", priority=LOWEST), {"n1": ["uid-a"], "n2": ["uid-b"]}) == {}
    highest = cluster({node("n1"): [pod("a", cpu="4", priority=HIGHEST)]})
    assert preempted(highest, incoming(cpu="4", priority=HIGHEST), {"n1": ["uid-a"]}) == {}


# --- budgets --------------------------------------------------------------------------------------------------------


def test_budgets_that_select_one_pod_several_times_over_count_it_once():
    """Three budgets that allow nothing, one pod: one violation."""
    budgets = [budget(f"b{i}", 0, app="a") for i in range(3)]
    objects = cluster({node("n1", cpu="1"): [pod("a")]}, budgets=budgets)
    assert evaluated(objects, incoming())["candidates"]["n1"] == {"victims": ["uid-a"], "numPDBViolations": 1}


def test_of_two_budgets_over_one_pod_the_tighter_decides():
    """b has a budget with room and one without: it is put back first, though a is more important."""
    budgets = [budget("wide", 5, tier="x"), budget("tight", 0, app="b")]
    pods = [
        pod("a", cpu="1", priority=10, labels={"app": "a", "tier": "x"}),
        pod("b", cpu="1", priority=5, labels={"app": "b", "tier": "x"}),
    ]
    objects = cluster({node("n1", cpu="2"): pods}, budgets=budgets)
    assert evaluated(objects, incoming(cpu="1"))["candidates"]["n1"] == {"victims": ["uid-a"], "numPDBViolations": 0}


def test_pods_that_stay_have_charged_their_budget_all_the_same():
    """Allowed 1: a charges it, b breaks it and is put back first for that; then a goes, without a violation."""
    pods = [pod(name, cpu="2", priority=10 - i, labels={"app": "x"}) for i, name in enumerate("ab")]
    objects = cluster({node("n1", cpu="4"): pods}, budgets=[budget(allowed=1, app="x")])
    assert evaluated(objects, incoming(cpu="2"))["candidates"]["n1"] == {"victims": ["uid-a"], "numPDBViolations": 0}


@pytest.mark.parametrize("allowed", [0, -1, LOWEST])
def test_a_budget_that_is_overdrawn_is_as_one_that_allows_nothing(allowed):
    objects = cluster({node("n1", cpu="1"): [pod("a")]}, budgets=[budget(allowed=allowed, app="a")])
    assert evaluated(objects, incoming())["candidates"]["n1"]["numPDBViolations"] == 1


# --- odd questions --------------------------------------------------------------------------------------------------


def test_a_preemptor_that_requests_nothing_wants_only_a_place():
    """Overfull in cores, which it does not ask for; no place left: the lowest pod goes, however little it holds."""
    full = [pod("a", cpu="8", priority=5), pod("b", cpu=None, priority=1)]
    objects = cluster({node("full", cpu="1", pods="2"): full, node("free", cpu="1"): [pod("c", cpu="8")]})
    evaluation = evaluated(objects, incoming(cpu=None))
    assert evaluation["filter"]["free"]["code"] == "Success"
    assert victims(evaluation, "full") == ["b"]


def test_L2_offers_for_every_node_at_once_are_all_answered_for():
    """500 nodes; each pod holds all of its node, of five priorities: the lowest, 0, wins, then the first by name."""
    nodes = {node(f"n{i:03}", cpu="1"): [pod(f"p{i:03}", priority=i % 5)] for i in range(500)}
    objects = cluster(nodes)
    sent = {f"n{i:03}": [f"uid-p{i:03}"] for i in range(500)}
    answered = preempted(objects, incoming(), sent)
    assert list(answered) == sorted(sent, key=lambda name: (int(name[1:]) % 5, name))
    assert preempted(objects, incoming(), sent, keep=1) == {"n000": ["p000"]}


def test_an_offered_list_with_duplicates_is_answered_as_it_came():
    objects = cluster({node("free"): [], node("full", cpu="1"): [pod("a")], node("small", cpu="500m"): []})
    names = ["full", "free", "free", "small", "full", "free"]
    decision = engine.filter(built(objects), typed(incoming()), names, Profile())
    assert decision.accepted == (1, 2, 5)
    assert (list(decision.failed), list(decision.unresolvable)) == (["full"], ["small"])
    scores = engine.prioritize(built(objects), typed(incoming()), names, Profile()).scores
    assert scores[1] == scores[2] == scores[5] >= 6
    assert scores[0] == scores[4] == 5
    assert scores[3] == 0


def test_the_same_victim_offered_twice_is_evicted_once():
    objects = cluster({node("n1", cpu="1"): [pod("a")]})
    assert preempted(objects, incoming(), {"n1": ["uid-a", "uid-a"]}) == {"n1": ["a"]}


def test_an_offer_without_victims_gets_those_that_are_needed():
    objects = cluster({node("n1", cpu="1"): [pod("a")]})
    assert preempted(objects, incoming(), {"n1": []}) == {"n1": ["a"]}


def test_victims_of_another_node_drop_the_node():
    objects = cluster({node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b")]})
    assert preempted(objects, incoming(), {"n1": ["uid-b"], "n2": ["uid-b"]}) == {"n2": ["b"]}


def with_a_resource_claim(waiting):
    """Only kube-scheduler knows if the claim has waited too long: its own victims are kept, if they may be evicted."""
    return waiting | {"spec": waiting["spec"] | using_claims("gpu")}


CLAIMS = undecided_claim("gpu")


def test_where_the_offer_decides_its_victims_are_kept_even_if_fewer_would_do():
    objects = cluster({node("n1", cpu="2"): [pod("a", priority=1), pod("b", priority=2)]}, others=CLAIMS)
    assert preempted(objects, with_a_resource_claim(incoming()), {"n1": ["uid-a", "uid-b"]}) == {"n1": ["b", "a"]}


@pytest.mark.parametrize("priority", [1000, 1001, HIGHEST])
def test_where_the_offer_decides_a_protected_victim_drops_the_node(priority):
    nodes = {node("n1", cpu="2"): [pod("a"), pod("b", priority=priority)], node("n2"): [pod("c", cpu="4")]}
    objects, sent = cluster(nodes, others=CLAIMS), {"n1": ["uid-a", "uid-b"], "n2": ["uid-c"]}
    assert preempted(objects, with_a_resource_claim(incoming()), sent) == {"n2": ["c"]}
