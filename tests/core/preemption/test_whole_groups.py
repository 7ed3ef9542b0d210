"""Victims that kube-scheduler evicts as a whole PodGroup (v1.37, GenericWorkload): all of them, or none.

Every case says its sum. A pod takes 1 cpu unless it says otherwise, and so does the one that comes in.
"""

from dataclasses import replace

import pytest
from msgspec import structs

from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import DEFAULT_RANKING, UPSTREAM, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.version.features import Features
from extender.server.guard.guard import guard_preempt
from tests.builders import JSON, cluster, incoming, node, pod, stored_cluster, thing, typed

READS_GROUPS = PreemptionPolicy(ranking=(*DEFAULT_RANKING, "PodGroups"))
ALL: JSON = {"disruptionMode": {"all": {}}}
SINGLE: JSON = {"disruptionMode": {"single": {}}}
NO_MODE: JSON = {}
OF_COMPOSITE = {"parentCompositePodGroupName": "campaign", **SINGLE}


def member(name, **fields):
    return pod(name, schedulingGroup={"podGroupName": "train"}, **fields)


def group(mode):
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, **mode}
    return thing("PodGroup", "train", namespace="default", apiVersion="scheduling.k8s.io/v1beta1", spec=spec)


def decide(nodes, sent, minor=37, policy=None, *, unreadable=(), others=()):
    """The decision, to which the guard must have no objection; `sent` are names of pods by node."""
    objects = structs.replace(stored_cluster(cluster(nodes, others=others)), unreadable_tables=unreadable)
    snapshot, waiting = Snapshot.build(objects, Features.of(minor)), typed(incoming())
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in sent.items()}
    profile = Profile(keep_candidates=None, preemption=policy or PreemptionPolicy())
    decision = engine.preempt(snapshot, waiting, made, profile)
    looked_at = guard_preempt(snapshot, waiting, made, decision.kept, as_sent=decision.as_sent, profile=profile)
    assert looked_at.rejected == {}
    return decision


def victims(decision):
    return {one.node: sorted(victim.metadata.name for victim in one.victims) for one in decision.kept}


def two_members():
    """1 cpu is needed, and each of the three has it; the one that started last is the least important."""
    pods = [member("m1"), pod("outsider"), member("m2", start="2026-01-02T00:00:00Z")]
    return {node("n1", cpu="3"): pods}


def test_a_group_on_the_node_goes_whole():
    decision = decide(two_members(), {"n1": ["m1", "m2"]})
    assert victims(decision) == {"n1": ["m1", "m2"]}
    assert decision.as_sent == {"n1"}


def test_kube_scheduler_s_choice_is_kept_too_where_it_spares_the_group():
    assert victims(decide(two_members(), {"n1": ["outsider"]})) == {"n1": ["outsider"]}


def test_up_to_1_36_each_pod_stands_for_itself():
    assert victims(decide(two_members(), {"n1": ["m1", "m2"]}, minor=36)) == {"n1": ["m2"]}


def test_a_node_without_members_is_decided_as_ever():
    nodes = {**two_members(), node("n2", cpu="2"): [pod("a"), pod("b")]}
    decision = decide(nodes, {"n1": ["m1", "m2"], "n2": ["a", "b"]})
    assert victims(decision)["n2"] != ["a", "b"]
    assert decision.as_sent == {"n1"}


@pytest.mark.parametrize("mode", [SINGLE, NO_MODE], ids=["single", "no mode"])
def test_where_groups_are_read_one_whose_pods_may_go_alone_is_decided_here(mode):
    decision = decide(two_members(), {"n1": ["m1", "m2"]}, policy=READS_GROUPS, others=[group(mode)])
    assert victims(decision) == {"n1": ["m2"]}


@pytest.mark.parametrize("mode", [ALL, OF_COMPOSITE], ids=["all", "below a composite group"])
def test_where_groups_are_read_one_whose_pods_go_together_is_kept(mode):
    decision = decide(two_members(), {"n1": ["m1", "m2"]}, policy=READS_GROUPS, others=[group(mode)])
    assert victims(decision) == {"n1": ["m1", "m2"]}


def test_a_group_that_does_not_exist_is_none():
    assert victims(decide(two_members(), {"n1": ["m2"]}, policy=READS_GROUPS))["n1"] != []
    assert decide(two_members(), {"n1": ["m2"]}, policy=READS_GROUPS).as_sent == set()


def test_groups_that_may_not_be_read_may_be_any():
    decision = decide(two_members(), {"n1": ["m1", "m2"]}, policy=READS_GROUPS, unreadable=("pod_groups",))
    assert victims(decision) == {"n1": ["m1", "m2"]}


# --- groups on several nodes ------------------------------------------------------------------------------------------


def on_two_nodes():
    return {node("n1", cpu="1"): [member("m1")], node("n2", cpu="1"): [member("m2")], node("n3", cpu="1"): [pod("a")]}


def test_a_group_with_pods_on_other_nodes_cannot_be_named_so_another_node_is_taken():
    decision = decide(on_two_nodes(), {"n1": ["m1", "m2"], "n2": ["m1", "m2"], "n3": ["a"]})
    assert victims(decision) == {"n3": ["a"]}
    assert {name: one.code for name, one in decision.dropped.items()} == dict.fromkeys(
        ("n1", "n2"), RejectionReason.GROUP_ELSEWHERE
    )


def test_without_another_node_nothing_is_evicted_and_nothing_is_waited_for():
    decision = decide(on_two_nodes(), {"n1": ["m1", "m2"]})
    assert decision.kept == ()
    assert decision.no_candidate_reason == f"1 node: {RejectionReason.GROUP_ELSEWHERE.value}"
    assert not decision.contradicts_scheduler


def test_any_other_pod_elsewhere_is_one_that_the_watch_lacks():
    decision = decide(on_two_nodes(), {"n1": ["m1", "a"]})
    assert [one.code for one in decision.dropped.values()] == [RejectionReason.UNKNOWN_VICTIM]
    assert decision.contradicts_scheduler


def test_policies_still_veto_a_whole_group():
    limited = replace(PreemptionPolicy(), limits=replace(PreemptionPolicy().limits, max_victims=1))
    assert decide(two_members(), {"n1": ["m1", "m2"]}, policy=limited).kept == ()


def test_a_pod_of_a_group_is_said_to_be_left_to_kube_scheduler():
    waiting = typed(incoming(schedulingGroup={"podGroupName": "train"}))
    for minor, expected in ((36, {}), (37, {"GangScheduling": ["n1"]})):
        snapshot = Snapshot.build(stored_cluster(cluster(two_members())), Features.of(minor))
        assert Evaluation(snapshot, waiting, UPSTREAM).to_dict().get("notEvaluated", {}) == expected
