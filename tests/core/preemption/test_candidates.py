"""Which nodes and which victims policies find beyond those of kube-scheduler: AllNodes and whole pod groups.

Every case says its sum. A pod takes 1 cpu unless it says otherwise, and so does the one that comes in.
"""

from dataclasses import replace

import pytest

from extender.core import engine
from extender.core.preemption.protections import UNREQUESTED_SYSTEM_POD
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import DEFAULT_RANKING, PreemptionPolicy, Profile
from extender.k8s.candidates import SentCandidate
from extender.server.guard.guard import guard_preempt
from tests.builders import JSON, STARTED, budget, built, cluster, drop_messages, incoming, node, pod, thing, typed
from tests.device_builders import undecided_claim

ALL_NODES = PreemptionPolicy(candidates="AllNodes")
OFFERED = PreemptionPolicy()
NOBODY_NAMED: dict[str, list[str]] = {"n1": [], "n2": []}
GANGS_FIRST = PreemptionPolicy(ranking=("PodGroups", *DEFAULT_RANKING))
GANGS_LAST = PreemptionPolicy(ranking=(*DEFAULT_RANKING, "PodGroups"))


def decide(nodes, sent, policy, preemptor=None, keep=None, **others):
    """The decision, to which the guard must have no objection; offers are names of pods by node."""
    snapshot, waiting = built(cluster(nodes, **others)), typed(preemptor or incoming())
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in sent.items()}
    profile = Profile(keep_candidates=keep, preemption=policy)
    decision = engine.preempt(snapshot, waiting, made, profile)
    looked_at = guard_preempt(snapshot, waiting, made, decision.kept, as_sent=decision.as_sent, profile=profile)
    assert looked_at.rejected == {}
    return decision


def kept(*args, **others) -> list[tuple[str, list[str]]]:
    """(node, victims), the best first."""
    found = decide(*args, **others).kept
    return [(one.node, [victim.metadata.name for victim in one.victims]) for one in found]


def best(*args, **others) -> tuple[str, list[str]] | None:
    """The only one that is answered."""
    return next(iter(kept(*args, keep=1, **others)), None)


# --- candidates: AllNodes ---------------------------------------------------------------------------------------------


def test_a_better_node_that_was_not_sent_is_taken():
    """n1 costs a pod of priority 10, n2 one of 0."""
    nodes = {node("n1", cpu="1"): [pod("a", priority=10)], node("n2", cpu="1"): [pod("b")]}
    assert kept(nodes, {"n1": ["a"]}, ALL_NODES) == [("n2", ["b"]), ("n1", ["a"])]
    assert kept(nodes, {"n1": ["a"]}, OFFERED) == [("n1", ["a"])]


def test_nodes_are_found_where_nothing_was_sent_at_all():
    nodes = {node("n1", cpu="1"): [pod("a")]}
    assert kept(nodes, {}, ALL_NODES) == [("n1", ["a"])]
    assert kept(nodes, {}, OFFERED) == []


def test_a_worse_node_that_was_not_sent_is_not():
    nodes = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=10)]}
    assert best(nodes, {"n1": ["a"]}, ALL_NODES) == ("n1", ["a"])


def test_of_nodes_that_cost_the_same_the_sent_one_is_preferred():
    """By name it would be n1."""
    nodes = {node(name, cpu="1"): [pod(f"{name}-a")] for name in ("n1", "n2", "n3")}
    assert best(nodes, {"n2": ["n2-a"]}, ALL_NODES) == ("n2", ["n2-a"])


def test_only_sent_nodes_are_reported_as_outranked():
    nodes = {node(f"n{cost}", cpu="1"): [pod(f"a{cost}", priority=cost)] for cost in (1, 2, 3)}
    decision = decide(nodes, {"n2": ["a2"], "n3": ["a3"]}, ALL_NODES, keep=1)
    assert [one.node for one in decision.kept] == ["n1"]
    assert drop_messages(decision) == dict.fromkeys(("n2", "n3"), RejectionReason.OUTRANKED.value)


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
LEAVING = {"deletionTimestamp": STARTED}
SPECIAL = [
    pytest.param(pod("s", metadata=MIRROR), id="mirror pod"),
    pytest.param(pod("s", metadata=LEAVING), id="terminating pod"),
    pytest.param(pod("s", priority=2_000_000_000), id="system-critical pod"),
]
MOST_IMPORTANT = incoming(priority=2_000_001_000)


@pytest.mark.parametrize("special", SPECIAL)
def test_a_node_that_was_not_sent_is_not_used_to_evict_a_system_pod(special):
    """It would be the better one: n1 costs a pod of 2,000,000,500 that kube-scheduler named itself."""
    nodes = {node("n1", cpu="1"): [pod("a", priority=2_000_000_500)], node("n2", cpu="1"): [special]}
    assert kept(nodes, {"n1": ["a"]}, ALL_NODES, MOST_IMPORTANT) == [("n1", ["a"])]


@pytest.mark.parametrize("special", SPECIAL)
def test_another_pod_of_such_a_node_goes_instead(special):
    """1 of 2 cpu is needed, and the special pod stays."""
    nodes = {node("n2", cpu="2"): [pod("b", priority=500), special]}
    assert kept(nodes, {}, ALL_NODES, MOST_IMPORTANT) == [("n2", ["b"])]


@pytest.mark.parametrize("special", SPECIAL)
def test_a_system_pod_that_kube_scheduler_selected_may_be_a_victim(special):
    nodes = {node("n1", cpu="1"): [special]}
    assert kept(nodes, {"n1": ["s"]}, ALL_NODES, MOST_IMPORTANT) == [("n1", ["s"])]


@pytest.mark.parametrize("special", SPECIAL)
def test_a_system_pod_of_a_sent_node_that_was_not_selected_may_not(special):
    """b is named; the special pod would go first otherwise, being no more important."""
    nodes = {node("n1", cpu="2"): [pod("b", priority=special["spec"].get("priority", 0) + 5), special]}
    assert kept(nodes, {"n1": ["b"]}, ALL_NODES, MOST_IMPORTANT) == [("n1", ["b"])]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param({"n1": ["a", "unknown"]}, id="a victim of no node"),
        pytest.param({"n1": ["a", "b"]}, id="a victim of another node"),
    ],
)
def test_a_node_sent_with_an_unknown_victim_is_not_a_candidate(sent):
    """n1 would be best, but kube-scheduler sees something else there; n2 is found all the same."""
    nodes = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=10)]}
    decision = decide(nodes, sent, ALL_NODES)
    assert [one.node for one in decision.kept] == ["n2"]
    assert drop_messages(decision) == {"n1": RejectionReason.UNKNOWN_VICTIM.value}


def test_nodes_on_which_the_pod_fits_or_that_eviction_does_not_help_are_not_added():
    """All of them would cost less than n1."""
    nodes = {
        node("n1", cpu="1"): [pod("a", priority=10)],
        node("fits", cpu="2"): [pod("b")],
        node("cordoned", cpu="1", unschedulable=True): [pod("c")],
        node("tainted", cpu="1", taints=[{"key": "x", "effect": "NoSchedule"}]): [pod("d")],
        node("small", cpu="500m"): [pod("e", "500m")],
        node("important", cpu="1"): [pod("f", priority=1000)],
    }
    assert kept(nodes, {"n1": ["a"]}, ALL_NODES) == [("n1", ["a"])]


def test_nodes_of_which_a_plugin_that_is_not_modelled_has_a_say_are_not_added():
    """Only kube-scheduler knows where a pod with such a claim fits."""
    preemptor = incoming(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    nodes = {node("n1", cpu="1"): [pod("a", priority=10)], node("n2", cpu="1"): [pod("b")]}
    decision = decide(nodes, {"n1": ["a"]}, ALL_NODES, preemptor, others=undecided_claim("gpu"))
    assert [one.node for one in decision.kept] == ["n1"]
    assert decision.as_sent == {"n1"}


def test_the_node_within_its_budgets_is_found_that_was_not_sent():
    """Nothing is left of x, which n1 would lose."""
    nodes = {node("n1", cpu="1"): [pod("a", labels={"app": "x"})], node("n2", cpu="1"): [pod("b", priority=10)]}
    strict, budgets = replace(ALL_NODES, disruption_budgets="Strict"), [budget(app="x")]
    decision = decide(nodes, {"n1": ["a"]}, strict, budgets=budgets)
    assert [one.node for one in decision.kept] == ["n2"]
    assert drop_messages(decision) == {"n1": "would break disruption budget default/budget"}
    assert kept(nodes, {"n1": ["a"]}, replace(strict, candidates="Sent"), budgets=budgets) == []


# --- system pods, order, all together ---------------------------------------------------------------------------------


def start(second) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


@pytest.mark.parametrize("metadata", [MIRROR, LEAVING], ids=["mirror pod", "terminating pod"])
def test_a_node_is_not_a_candidate_if_a_system_pod_would_go_that_was_not_selected(metadata):
    """By default too: kube-scheduler evicts a mirror pod or one that leaves only where it chose it itself."""
    nodes = {node("n1", cpu="1"): [pod("a", metadata=metadata)], node("n2", cpu="1"): [pod("b")]}
    assert kept(nodes, {"n1": ["a"], "n2": ["b"]}, OFFERED) == [("n1", ["a"]), ("n2", ["b"])]
    assert kept(nodes, {"n1": [], "n2": ["b"]}, OFFERED) == [("n2", ["b"])]
    decision = decide(nodes, {"n1": []}, OFFERED)
    assert drop_messages(decision) == {"n1": f"would evict {UNREQUESTED_SYSTEM_POD}"}


def test_the_guard_counts_pods_that_are_equally_important_in_the_engines_order():
    """1 of x may go. Where importance is the priority alone, a counts first, being listed first, and b violates;
    the guard counts b first, which has run for longer."""
    nodes = {
        node("n1", cpu="2"): [pod(name, start=start(at), labels={"app": "x"}) for name, at in (("a", 5), ("b", 1))]
    }
    policy, budgets = PreemptionPolicy(importance=("Priority",)), [budget(allowed=1, app="x")]
    assert kept(nodes, {"n1": ["a"]}, policy, budgets=budgets) == [("n1", ["a"])]


def test_all_policies_about_candidates_go_together():
    """n1 is sent and breaks a budget whichever pod goes; n2 is not sent."""
    nodes = {node("n1", cpu="3"): [pod("a", "3", labels={"app": "x"})], node("n2", cpu="3"): [pod("b", "3")]}
    policy = PreemptionPolicy(disruption_budgets="Strict", candidates="AllNodes")
    budgets = [budget(app="x")]
    assert kept(nodes, {"n1": ["a"]}, policy, incoming(cpu="3"), budgets=budgets) == [("n2", ["b"])]


# --- PodGroups in the ranking ----------------------------------------------------------------------------------------

NATIVE = "scheduling.k8s.io/v1alpha2"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"


def gang(minimum, api=NATIVE, name="train") -> JSON:
    members = {"minMember": minimum}
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}} if api == NATIVE else members
    return thing("PodGroup", name, namespace="default", spec=spec, apiVersion=api)


def member(name, api=NATIVE, of="train", **fields) -> JSON:
    if api == NATIVE:
        return pod(name, schedulingGroup={"podGroupName": of}, **fields)
    return pod(name, labels={"scheduling.x-k8s.io/pod-group": of}, **fields)


def two_of(api=NATIVE) -> list[JSON]:
    """2 of 3 cpu are needed: putting back spares the first member, who is the most important one."""
    return [
        member("first", api, start=start(0)),
        pod("outsider", start=start(1)),
        member("second", api, start=start(2)),
    ]


@pytest.mark.parametrize("api", [NATIVE, COSCHEDULING])
@pytest.mark.parametrize(
    ("minimum", "victims"),
    [
        pytest.param(2, ["first", "second"], id="1: of 2 that are needed 1 would be left, so both go"),
        pytest.param(1, ["outsider", "second"], id="2: the 1 that is needed is left"),
        pytest.param(3, ["outsider", "second"], id="3: the gang is below its minimum already"),
        pytest.param(None, ["first", "second"], id="4: no such group is known: all of its members are needed"),
    ],
)
def test_a_pod_group_that_breaks_loses_its_other_members_before_outsiders_go(minimum, victims, api):
    groups = [] if minimum is None else [gang(minimum, api)]
    nodes = {node("n1", cpu="3"): two_of(api)}
    assert kept(nodes, {"n1": []}, GANGS_FIRST, incoming(cpu="2"), others=groups) == [("n1", victims)]


def test_pod_groups_do_not_matter_where_the_ranking_does_not_name_them():
    nodes = {node("n1", cpu="3"): two_of(COSCHEDULING)}
    assert kept(nodes, {"n1": []}, OFFERED, incoming(cpu="2"), others=[gang(2, COSCHEDULING)]) == [
        ("n1", ["outsider", "second"])
    ]


def test_a_group_of_the_other_api_is_another_one():
    """The pods name the native group, of which none is known, so all are needed; the other one would spare."""
    nodes, groups = {node("n1", cpu="3"): two_of()}, [gang(1, COSCHEDULING)]
    assert kept(nodes, {"n1": []}, GANGS_FIRST, incoming(cpu="2"), others=groups) == [("n1", ["first", "second"])]


def test_members_elsewhere_keep_a_pod_group_above_its_minimum():
    """3 run, 2 are needed, 1 goes."""
    nodes = {node("n1", cpu="3"): two_of(), node("n2", cpu="1"): [member("third", priority=5000)]}
    wanted = incoming(cpu="2")
    assert kept(nodes, {"n1": []}, GANGS_FIRST, wanted, others=[gang(2)]) == [("n1", ["outsider", "second"])]
    assert kept(nodes, {"n1": []}, GANGS_FIRST, wanted, others=[gang(3)]) == [("n1", ["first", "second"])]


def test_a_more_important_member_stays_where_priority_ranks_before_pod_groups():
    """Whole, the group would cost a pod of 5; with the outsider 0 is the highest priority."""
    nodes = {node("n1", cpu="3"): [member("first", priority=5), *two_of()[1:]]}
    wanted = incoming(cpu="2")
    assert kept(nodes, {"n1": []}, GANGS_LAST, wanted, others=[gang(2)]) == [("n1", ["outsider", "second"])]
    assert kept(nodes, {"n1": []}, GANGS_FIRST, wanted, others=[gang(2)]) == [("n1", ["first", "second"])]


def test_no_more_of_a_pod_group_goes_than_makes_room():
    """1 cpu is needed: the group breaks by one member, and the others replace no pod."""
    nodes = {node("n1", cpu="3"): two_of()}
    assert kept(nodes, {"n1": []}, GANGS_FIRST, others=[gang(2)]) == [("n1", ["second"])]


def test_a_budget_that_holds_is_not_broken_for_the_sake_of_a_pod_group():
    """Nothing is left of the budget of the first member."""
    first, *others = two_of()
    held = first | {"metadata": first["metadata"] | {"labels": {"app": "x"}}}
    nodes, budgets = {node("n1", cpu="3"): [held, *others]}, [budget(app="x")]
    for strictness in ("Strict", "BestEffort"):
        policy = replace(GANGS_LAST, disruption_budgets=strictness)
        found = kept(nodes, {"n1": []}, policy, incoming(cpu="2"), budgets=budgets, others=[gang(2)])
        assert found == [("n1", ["outsider", "second"])]


@pytest.mark.parametrize("policy", [GANGS_FIRST, GANGS_LAST])
def test_of_nodes_that_cost_the_same_the_one_where_no_pod_group_breaks_is_better(policy):
    """Both of the group are needed; by name it would be n1."""
    nodes = {
        node("n1", cpu="1"): [member("m1", COSCHEDULING)],
        node("n2", cpu="1"): [pod("o")],
        node("n3", cpu="1"): [member("m2", COSCHEDULING, priority=5000)],
    }
    sent = NOBODY_NAMED
    assert kept(nodes, sent, policy, others=[gang(2, COSCHEDULING)]) == [("n2", ["o"]), ("n1", ["m1"])]
    assert kept(nodes, sent, policy, others=[gang(1, COSCHEDULING)]) == [("n1", ["m1"]), ("n2", ["o"])]
    assert kept(nodes, sent, OFFERED, others=[gang(2, COSCHEDULING)]) == [("n1", ["m1"]), ("n2", ["o"])]


def test_of_pod_groups_that_break_the_one_with_fewer_outsiders_is_better():
    """2 of each node go. n1 breaks a group and loses an outsider, n2 breaks a group of which both go."""
    nodes = {
        node("n1", cpu="2"): [pod("o"), member("m1", COSCHEDULING, of="sort")],
        node("n2", cpu="2"): [member("m2", COSCHEDULING), member("m3", COSCHEDULING)],
    }
    groups, sent = [gang(1, COSCHEDULING, "sort"), gang(2, COSCHEDULING)], NOBODY_NAMED
    assert best(nodes, sent, GANGS_LAST, incoming(cpu="2"), others=groups) == ("n2", ["m2", "m3"])
    assert best(nodes, sent, OFFERED, incoming(cpu="2"), others=groups) == ("n1", ["o", "m1"])
