"""The guard of /preempt: each rule against a candidate that breaks it. Node n1 runs big, mid, old and new."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.engine import Candidate
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.profile import UPSTREAM, Limits, PreemptionPolicy, Profile, Protection
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    Named,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    PodStatus,
)
from extender.k8s.selectors import compile_label_selector
from extender.server.guard.guard import GuardCase, guard_preempt, pods_by_uid_on, rules
from tests.profiles import by_profile


def pod(name, priority=0, node="n1", start="2026-01-01T00:00:00Z", never=False, phase="Running", **meta):
    meta = {"namespace": "shop", "uid": f"uid-{name}", "labels": {"app": name}, **meta}
    policy = "Never" if never else None
    return Pod(
        ObjectMeta(name=name, **meta),
        PodSpec(node_name=node, priority=priority, preemption_policy=policy),
        PodStatus(phase=phase, start_time=start),
    )


def replace_priority(one, priority):
    return Pod(one.metadata, PodSpec(node_name=one.spec.node_name, priority=priority), one.status)


def replace_gates(one, *gates):
    spec = PodSpec(priority=one.spec.priority, scheduling_gates=[Named(gate) for gate in gates])
    return Pod(one.metadata, spec, one.status)


def budget(selector, allowed=0, namespace="shop", disrupted=None):
    return PodDisruptionBudget(
        ObjectMeta(name="budget", namespace=namespace),
        PodDisruptionBudgetSpec(selector),
        PodDisruptionBudgetStatus(disruptions_allowed=allowed, disrupted_pods=disrupted),
    )


def app(*names):
    return LabelSelector(match_expressions=[LabelSelectorRequirement("app", "In", list(names))])


def snapshot(*pods, budgets=()):
    nodes = tuple(Node(ObjectMeta(name=name)) for name in ("n1", "n2"))
    return Snapshot.build(ClusterObjects(nodes=nodes, pods=pods, budgets=tuple(budgets)))


BIG = pod("big", 900)
MID = pod("mid", 50)
OLD = pod("old", 10, start="2026-01-01T00:00:00Z")
NEW = pod("new", 10, start="2026-02-01T00:00:00Z")
OLD_STARTED = 1_767_225_600 * 10**9
"""2026-01-01T00:00:00Z in nanoseconds."""
UNSTARTED = pod("unstarted", 10, start=None)
DEFAULT = pod("default", None)
SAME = pod("same", 100)
ELSEWHERE = pod("elsewhere", 10, node="n2")
TERMINATING = pod("terminating", 10, deletion_timestamp="2026-03-01T00:00:00Z")
MIRROR = pod("mirror", 10, annotations={"kubernetes.io/config.mirror": "abc"})
DONE = pod("done", 10, phase="Succeeded")
NO_UID = pod("no-uid", 10, uid="")
GHOST = pod("ghost", 10)
RUNNING = (BIG, MID, OLD, NEW, UNSTARTED, DEFAULT, SAME, ELSEWHERE, TERMINATING, MIRROR, DONE, NO_UID)

CLUSTER = snapshot(*RUNNING)
PREEMPTOR = pod("preemptor", 100, node="")


def offer(*victims, violations=0):
    return SentCandidate(tuple(victim.metadata.uid for victim in victims), violations)


def candidate(*victims, node="n1", violations=0):
    return Candidate(node, victims, violations)


def deleted(*pods):
    return EvictionHistory(recent_deletions={pod.metadata.uid: "n1" for pod in pods})


ON_N1 = frozenset({"n1"})


ALL_NODES = PreemptionPolicy(candidates="AllNodes")
STRICT = PreemptionPolicy(disruption_budgets="Strict")
PROTECTS_OLD = PreemptionPolicy(protections=(Protection("old", selector=compile_label_selector(app("old"))),))
SPENT = snapshot(*RUNNING, budgets=[budget(app("mid"))])

GATED = replace_gates(pod("preemptor", 100, node=""), "gate")


@dataclass(frozen=True)
class Planted:
    rule: str
    candidate: Candidate
    sent: dict[str, SentCandidate]
    preemptor: Pod = PREEMPTOR
    as_sent: frozenset = frozenset()
    policy: PreemptionPolicy = UPSTREAM.preemption
    cluster: Snapshot = CLUSTER
    history: EvictionHistory = NO_HISTORY


PLANTED = {
    "a node that was not offered": Planted("NodeNotSent", candidate(MID), {"n2": offer(ELSEWHERE)}),
    "a node that we do not know": Planted("NodeUnknown", candidate(MID, node="n9"), {"n9": offer(MID)}),
    "a preemptor that never preempts": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, pod("preemptor", 100, node="", never=True)
    ),
    "a preemptor that is its own victim": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, pod("mid", 100, node="")
    ),
    "a preemptor that runs": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, pod("preemptor", 100, node="n2")
    ),
    "a preemptor that terminates": Planted(
        "PreemptorMustNotPreempt",
        candidate(MID),
        {"n1": offer(MID)},
        pod("preemptor", 100, node="", deletion_timestamp="2026-01-01T00:00:00Z"),
    ),
    "a preemptor that has finished": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, pod("preemptor", 100, node="", phase="Failed")
    ),
    "a preemptor that is gated": Planted("PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, GATED),
    "an offered victim that we do not know": Planted("SentVictimUnknown", candidate(MID), {"n1": offer(MID, GHOST)}),
    "an offered victim that runs elsewhere": Planted(
        "SentVictimUnknown", candidate(MID), {"n1": offer(MID, ELSEWHERE)}
    ),
    "no victims": Planted("NoVictims", candidate(), {"n1": offer(MID)}),
    "a victim that we do not know": Planted("VictimUnknown", candidate(GHOST), {"n1": offer(MID)}),
    "a victim that runs elsewhere": Planted("VictimUnknown", candidate(ELSEWHERE), {"n1": offer(MID)}),
    "a victim that has ended": Planted("VictimUnknown", candidate(DONE), {"n1": offer(MID)}),
    "a victim without a uid": Planted("VictimUnknown", candidate(NO_UID), {"n1": offer(MID)}),
    "a victim named twice": Planted("DuplicateVictim", candidate(MID, MID), {"n1": offer(MID)}),
    "a victim of higher priority": Planted("VictimNotLower", candidate(BIG), {"n1": offer(MID)}),
    "a victim of equal priority": Planted("VictimNotLower", candidate(SAME), {"n1": offer(MID)}),
    "an offered victim of equal priority": Planted("VictimNotLower", candidate(SAME), {"n1": offer(SAME)}),
    "a preemptor without a priority against a victim without one": Planted(
        "VictimNotLower", candidate(DEFAULT), {"n1": offer(DEFAULT)}, pod("preemptor", None, node="")
    ),
    "a mirror pod that was not offered": Planted("ProtectedVictimAdded", candidate(MIRROR), {"n1": offer(MID)}),
    "a terminating pod that was not offered": Planted(
        "ProtectedVictimAdded", candidate(TERMINATING), {"n1": offer(MID)}
    ),
    "lower priority first": Planted("NotMostImportantFirst", candidate(OLD, MID), {"n1": offer(MID, OLD)}),
    "later start first": Planted("NotMostImportantFirst", candidate(NEW, OLD), {"n1": offer(OLD, NEW)}),
    "no start first": Planted("NotMostImportantFirst", candidate(UNSTARTED, NEW), {"n1": offer(NEW)}),
    "another victim although the scheduler decides": Planted(
        "NotAsSent", candidate(OLD), {"n1": offer(MID)}, as_sent=ON_N1
    ),
    "one victim less although the scheduler decides": Planted(
        "NotAsSent", candidate(MID), {"n1": offer(MID, OLD)}, as_sent=ON_N1
    ),
    "violations as a fraction": Planted("ViolationsNotAnInteger", candidate(MID, violations=0.0), {"n1": offer(MID)}),
    "violations as a truth": Planted("ViolationsNotAnInteger", candidate(MID, violations=False), {"n1": offer(MID)}),
    "a violation that is none": Planted("ViolationsMiscounted", candidate(MID, violations=1), {"n1": offer(MID)}),
    "a node that does not exist, with all nodes as candidates": Planted(
        "NodeUnknown", candidate(MID, node="n9"), {"n1": offer(MID)}, policy=ALL_NODES
    ),
    "no victims on a node that was not offered": Planted(
        "NoVictims", candidate(node="n2"), {"n1": offer(MID)}, policy=ALL_NODES
    ),
    "a mirror pod on a node that was not offered": Planted(
        "ProtectedVictimAdded", candidate(MIRROR), {"n2": offer(ELSEWHERE)}, policy=ALL_NODES
    ),
    "a protected victim that we added": Planted(
        "VictimProtected", candidate(OLD), {"n1": offer(MID)}, policy=PROTECTS_OLD
    ),
    "a protected victim that the scheduler chose": Planted(
        "VictimProtected", candidate(OLD), {"n1": offer(OLD)}, as_sent=ON_N1, policy=PROTECTS_OLD
    ),
    "more victims than may be": Planted(
        "TooManyVictims",
        candidate(MID, OLD),
        {"n1": offer(MID, OLD)},
        policy=PreemptionPolicy(limits=Limits(max_victims=1)),
    ),
    "a broken budget, counted right": Planted(
        "BudgetViolated", candidate(MID, violations=1), {"n1": offer(MID)}, policy=STRICT, cluster=SPENT
    ),
    "a broken budget, as the scheduler counted": Planted(
        "BudgetViolated",
        candidate(MID, violations=7),
        {"n1": offer(MID, violations=7)},
        as_sent=ON_N1,
        policy=STRICT,
        cluster=SPENT,
    ),
    "a broken budget, not counted": Planted(
        "ViolationsMiscounted", candidate(MID), {"n1": offer(MID)}, policy=STRICT, cluster=SPENT
    ),
    "violations that neither we nor the scheduler counted": Planted(
        "ViolationsMiscounted", candidate(MID, violations=2), {"n1": offer(MID, violations=1)}, as_sent=ON_N1
    ),
}


def looked_at(planted):
    return guard_preempt(
        planted.cluster,
        planted.preemptor,
        planted.sent,
        [planted.candidate],
        as_sent=planted.as_sent,
        profile=Profile(preemption=planted.policy),
        history=planted.history,
    )


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_candidate_is_rejected_by_its_rule(case):
    result = looked_at(case)
    assert result.kept == ()
    assert result.rejected == {case.candidate.node: case.rule}


def test_every_rule_has_a_planted_candidate():
    assert {name for name, _ in rules()} == {case.rule for case in PLANTED.values()}


STATIC_100 = replace_priority(MIRROR, 100)
PROTECTS_MIRROR = PreemptionPolicy(protections=(Protection("m", selector=compile_label_selector(app("mirror"))),))
ONE_VICTIM = Limits(max_victims=1)

BREAK_TWO = {
    "1: NodeUnknown": Planted("NodeNotSent", candidate(MID, node="n9"), {"n1": offer(MID)}),
    "2: PreemptorMustNotPreempt": Planted(
        "NodeUnknown", candidate(MID, node="n9"), {"n9": offer(MID)}, pod("preemptor", 100, node="", never=True)
    ),
    "3: SentVictimUnknown": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(GHOST)}, pod("preemptor", 100, node="", never=True)
    ),
    "4: NoVictims": Planted("SentVictimUnknown", candidate(), {"n1": offer(GHOST)}),
    "5: DuplicateVictim": Planted("VictimUnknown", candidate(GHOST, GHOST), {"n1": offer(MID)}),
    "6: VictimNotLower": Planted("DuplicateVictim", candidate(BIG, BIG), {"n1": offer(MID)}),
    "7: ProtectedVictimAdded": Planted(
        "VictimNotLower", candidate(STATIC_100), {"n1": offer(MID)}, cluster=snapshot(MID, STATIC_100)
    ),
    "8: VictimProtected": Planted(
        "ProtectedVictimAdded", candidate(MIRROR), {"n1": offer(MID)}, policy=PROTECTS_MIRROR
    ),
    "9: TooManyVictims": Planted(
        "VictimProtected", candidate(MID, OLD), {"n1": offer(MID)}, policy=replace(PROTECTS_OLD, limits=ONE_VICTIM)
    ),
    "10: NotMostImportantFirst": Planted(
        "TooManyVictims", candidate(OLD, MID), {"n1": offer(MID)}, policy=PreemptionPolicy(limits=ONE_VICTIM)
    ),
    "11: NotAsSent": Planted(
        "NotMostImportantFirst", candidate(OLD, MID), {"n1": offer(MID)}, as_sent=ON_N1
    ),
    "12: ViolationsNotAnInteger": Planted(
        "NotAsSent", candidate(OLD, violations=0.0), {"n1": offer(MID)}, as_sent=ON_N1
    ),
    "13: ViolationsMiscounted": Planted(
        "ViolationsNotAnInteger", candidate(MID, violations=1.0), {"n1": offer(MID)}
    ),
    "14: BudgetViolated": Planted(
        "ViolationsMiscounted", candidate(MID, violations=2), {"n1": offer(MID)}, policy=STRICT, cluster=SPENT
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "case"), BREAK_TWO.items(), ids=BREAK_TWO.keys())
def test_of_two_rules_that_are_broken_the_first_is_named(name, case):
    """The name of the case is the second one."""
    present, (node, as_sent) = pods_by_uid_on(case.cluster, "n1"), (case.candidate.node, bool(case.as_sent))
    context = SchedulingContext(case.preemptor, case.cluster, Profile(preemption=case.policy), (), case.history)
    holds = dict(rules())[name.partition(": ")[2]]
    assert not holds(GuardCase(context, case.sent.get(node), case.candidate, present, as_sent))
    assert looked_at(case).rejected == {node: case.rule}


def test_every_rule_is_tried_against_the_next_one():
    """But NoVictims: where there are none, none of them is unknown."""
    tried = {(case.rule, name.partition(": ")[2]) for name, case in BREAK_TWO.items()}
    next_to_each_other = {(one, other) for (one, _), (other, _) in pairwise(rules())}
    assert next_to_each_other - tried == {("NoVictims", "VictimUnknown")}


KEPT = {
    "as many victims as may be": Planted(
        "", candidate(MID, OLD), {"n1": offer(MID)}, policy=PreemptionPolicy(limits=Limits(max_victims=2))
    ),
    "a victim less than offered, for it was deleted shortly ago": Planted(
        "", candidate(MID), {"n1": offer(MID, GHOST)}, history=deleted(GHOST)
    ),
    "a victim less than offered although the scheduler decides": Planted(
        "", candidate(MID), {"n1": offer(MID, TERMINATING)}, as_sent=ON_N1, history=deleted(TERMINATING)
    ),
    "one that is leaving already is not counted": Planted(
        "", candidate(MID, TERMINATING), {"n1": offer(MID, TERMINATING)}, policy=PreemptionPolicy(limits=ONE_VICTIM)
    ),
    "a budget that is kept, with Strict": Planted(
        "",
        candidate(OLD),
        {"n1": offer(OLD)},
        policy=STRICT,
        cluster=snapshot(*RUNNING, budgets=[budget(app("old", "new"), allowed=1)]),
    ),
    "as the scheduler counted, where the budget is kept": Planted(
        "", candidate(MID, violations=7), {"n1": offer(MID, violations=7)}, as_sent=ON_N1, policy=STRICT
    ),
    "a victim of which nothing is told but that it is there": Planted(
        "",
        candidate(pod("bare", 10, labels=None)),
        {"n1": offer(MID)},
        cluster=snapshot(MID, pod("bare", 10, labels=None)),
    ),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT.keys())
def test_what_other_policies_allow_passes(case):
    assert looked_at(case).kept == (case.candidate,)


def test_without_a_moment_no_time_has_passed():
    """No pod has run for any time yet, so pods that are protected at first are protected."""
    profile = Profile(preemption=PreemptionPolicy(protections=(Protection("young", min_runtime=1),)))
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(OLD)}, [candidate(OLD)], profile=profile)
    assert result.rejected == {"n1": "VictimProtected"}


# --- the cluster cache --------------------------------------------------------------------------------------------


def test_nobody_runs_on_a_node_that_is_not_known():
    assert pods_by_uid_on(CLUSTER, "n9") == {}


@pytest.mark.parametrize(
    "there", [DONE, pod("failed", 10, phase="Failed"), ELSEWHERE, NO_UID], ids=lambda one: one.metadata.name
)
def test_a_pod_that_is_in_the_wrong_place_of_the_snapshot_is_not_on_the_node(there):
    """As if what lays out the nodes were wrong: MID's place is taken by a pod that cannot be evicted there."""
    cluster = snapshot(MID, OLD)
    cluster.pod_table.pods[cluster.pods.index(MID)] = there
    assert there in cluster.pods_on("n1")
    assert pods_by_uid_on(cluster, "n1") == {"uid-old": OLD}


def test_with_all_nodes_as_candidates_a_node_that_was_not_offered_passes():
    profile, other = Profile(preemption=ALL_NODES), candidate(ELSEWHERE, node="n2")
    assert guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(MID)}, [other], profile=profile).kept == (other,)


def test_a_protection_that_has_ended_protects_nobody():
    """OLD started on 1 January: for 31 days it is protected."""
    rule = Protection("young", min_runtime=31 * 86_400 * 10**9)
    profile = Profile(preemption=PreemptionPolicy(protections=(rule,)))
    for day, kept in ((30, 0), (31, 1)):
        now = EvictionHistory(OLD_STARTED + day * 86_400 * 10**9)
        result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(OLD)}, [candidate(OLD)], profile=profile, history=now)
        assert len(result.kept) == kept


def test_a_system_critical_pod_is_never_added():
    critical, highest = pod("critical", 2_000_000_000), pod("preemptor", 2_000_001_000, node="")
    cluster = snapshot(MID, critical)
    added = guard_preempt(cluster, highest, {"n1": offer(MID)}, [candidate(critical)])
    assert added.rejected == {"n1": "ProtectedVictimAdded"}
    offered = guard_preempt(cluster, highest, {"n1": offer(critical)}, [candidate(critical)])
    assert offered.rejected == {}


def test_a_node_named_twice_is_rejected_altogether():
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(MID)}, [candidate(MID), candidate(OLD)])
    assert result.kept == ()
    assert result.rejected == {"n1": "DuplicateNode"}


@pytest.mark.parametrize(
    ("victims", "offered"),
    [
        ((MID, OLD, NEW), (MID, OLD, NEW)),
        ((OLD, NEW, UNSTARTED, DEFAULT), (NEW,)),
        ((TERMINATING,), (TERMINATING,)),
        ((MIRROR,), (MIRROR,)),
        ((), ()),
    ],
)
def test_what_breaks_no_rule_passes(victims, offered):
    given_, right = {"n1": offer(*offered)}, candidate(*victims)
    assert guard_preempt(CLUSTER, PREEMPTOR, given_, [right]).kept == (right,)


def test_one_bad_candidate_does_not_spoil_the_others_nor_their_order():
    sent = {"n1": offer(MID), "n2": offer(ELSEWHERE), "n9": offer(GHOST)}
    right = (candidate(ELSEWHERE, node="n2"), candidate(MID))
    result = guard_preempt(CLUSTER, PREEMPTOR, sent, [right[0], candidate(GHOST, node="n9"), right[1]])
    assert result.kept == right
    assert result.rejected == {"n9": "NodeUnknown"}


@pytest.mark.parametrize("claimed", [0, 3])
def test_when_the_scheduler_decides_its_count_is_as_good_as_ours(claimed):
    sent = {"n1": offer(MID, violations=3)}
    result = guard_preempt(CLUSTER, PREEMPTOR, sent, [candidate(MID, violations=claimed)], as_sent=ON_N1)
    assert result.rejected == {}


def test_the_pods_of_the_picture_count_not_those_of_the_candidate():
    lowered = replace_priority(BIG, 1)
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(MID)}, [candidate(lowered)])
    assert result.rejected == {"n1": "VictimNotLower"}


# --- budgets ------------------------------------------------------------------------------------------------------

BUDGETS = {
    "one budget with nothing left": ([budget(app("mid"))], 1),
    "one budget with room": ([budget(app("mid"), allowed=1)], 0),
    "two budgets over one pod are one violation": ([budget(app("mid")), budget(app("mid"))], 1),
    "a pod that stays uses up the room first": ([budget(app("mid", "old"), allowed=1)], 1),
    "one that is more important than the preemptor does not": ([budget(app("big", "mid", "old"), allowed=2)], 0),
    "a broken budget is charged on": ([budget(app("mid", "old", "new"), allowed=1)], 1),
    "another namespace": ([budget(app("mid", "old"), namespace="other")], 0),
    "no selector": ([budget(None)], 0),
    "an empty selector": ([budget(LabelSelector())], 0),
    "an invalid selector": ([budget(LabelSelector(match_labels={"": "x"}))], 0),
    "a pod that is being disrupted already": ([budget(app("mid", "old"), disrupted={"mid": None})], 1),
    "a negative allowance": ([budget(app("old"), allowed=-1)], 1),
}


@pytest.mark.parametrize(("budgets", "violations"), BUDGETS.values(), ids=BUDGETS.keys())
def test_violations_are_counted_anew(budgets, violations):
    """mid stays or leaves; the victims are mid and old (new has just room or none)."""
    cluster = snapshot(*RUNNING, budgets=budgets)
    sent = {"n1": offer(MID, OLD)}
    for claimed in range(3):
        result = guard_preempt(cluster, PREEMPTOR, sent, [candidate(MID, OLD, violations=claimed)])
        assert bool(result.kept) == (claimed == violations)


STATIC = pod("static", 60, annotations={"kubernetes.io/config.mirror": "abc"})
LEAVING = pod("leaving", 60, deletion_timestamp="2026-03-01T00:00:00Z")
PROTECTS_MID = PreemptionPolicy(protections=(Protection("mid", selector=compile_label_selector(app("mid"))),))

CHARGES = {
    "1: a less important one": (pod("other", 60), UPSTREAM.preemption, (OLD,), 1),
    "2: not one of the preemptor's priority": (SAME, UPSTREAM.preemption, (OLD,), 0),
    "3: not one that is protected": (MID, PROTECTS_MID, (OLD,), 0),
    "4: one that is not protected": (MID, UPSTREAM.preemption, (OLD,), 1),
    "5: a mirror pod, for kube-scheduler": (STATIC, UPSTREAM.preemption, (OLD,), 1),
    "6: no mirror pod where other pods are protected": (STATIC, ALL_NODES, (OLD,), 0),
    "7: the mirror pod that the scheduler chose": (STATIC, ALL_NODES, (STATIC, OLD), 1),
    "8: one that is leaving, for kube-scheduler": (LEAVING, UPSTREAM.preemption, (OLD,), 1),
    "9: not one that is leaving where other pods are protected": (LEAVING, ALL_NODES, (OLD,), 0),
    "10: a pod that is nothing special, though other pods are protected": (pod("other", 60), ALL_NODES, (OLD,), 1),
}


@pytest.mark.parametrize(("other", "policy", "offered", "violations"), CHARGES.values(), ids=CHARGES.keys())
def test_who_charges_a_budget_before_the_victim_does(other, policy, offered, violations):
    """The budget has room for one of the two, and the victim is the less important one."""
    cluster = snapshot(other, OLD, budgets=[budget(app(other.metadata.name, "old"), allowed=1)])
    for claimed in range(2):
        right = candidate(OLD, violations=claimed)
        result = guard_preempt(cluster, PREEMPTOR, {"n1": offer(*offered)}, [right], profile=Profile(preemption=policy))
        assert result.rejected == ({} if claimed == violations else {"n1": "ViolationsMiscounted"})


def test_a_pod_without_labels_is_in_no_budget():
    bare = pod("bare", 10, labels=None)
    absent = LabelSelector(match_expressions=[LabelSelectorRequirement("app", "DoesNotExist")])
    cluster = snapshot(bare, budgets=[budget(absent)])
    assert guard_preempt(cluster, PREEMPTOR, {"n1": offer(bare)}, [candidate(bare)]).kept


# --- generated ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(RUNNING), max_size=4), st.lists(st.sampled_from((*RUNNING, GHOST)), max_size=4))
@settings(max_examples=by_profile(fast=200, ci=500, long=5000))
def test_whatever_gets_past_the_guard_is_safe(offered, victims):
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(*offered)}, [candidate(*victims)])
    for kept in result.kept:
        chosen, by_scheduler = uids(kept.victims), uids(offered)
        assert all(victim.spec.node_name == "n1" and victim.priority < 100 for victim in kept.victims), (
            "a victim of another node or priority"
        )
        assert len(chosen) == len(kept.victims), "a victim twice"
        assert kept.victims or not offered, "a candidate lost all its victims"
        assert not chosen & {"uid-done", "", "uid-ghost"}, "a pod that cannot be evicted is a victim"
        assert not {"uid-mirror", "uid-terminating"} & chosen - by_scheduler, "a mirror or terminating pod is a victim"


def uids(pods):
    return {one.metadata.uid for one in pods}
