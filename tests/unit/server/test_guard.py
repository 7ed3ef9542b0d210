"""Each rule of the guard, against a candidate that breaks just it. Node n1 runs big, mid, old and new."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.engine import Candidate, FilterDecision, Offer
from extender.core.moment import Moment
from extender.core.profile import UPSTREAM, Limits, PreemptionPolicy, Profile, Protection
from extender.core.snapshot import Snapshot
from extender.errors import GuardError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import (
    LabelSelector,
    LabelSelectorRequirement,
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
from extender.server.guard import RULES, guard_filter, guard_preempt, guard_scores


def pod(name, priority=0, node="n1", start="2026-01-01T00:00:00Z", never=False, phase="Running", **meta):
    meta = {"namespace": "shop", "uid": f"uid-{name}", "labels": {"app": name}, **meta}
    policy = "Never" if never else None
    return Pod(
        ObjectMeta(name=name, **meta),
        PodSpec(node_name=node, priority=priority, preemption_policy=policy),
        PodStatus(phase=phase, start_time=start),
    )


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
    return Offer(tuple(victim.metadata.uid for victim in victims), violations)


def candidate(*victims, node="n1", violations=0):
    return Candidate(node, victims, violations)


ON_N1 = frozenset({"n1"})


ALL_NODES = PreemptionPolicy(candidates="AllNodes")
STRICT = PreemptionPolicy(disruption_budgets="Strict")
PROTECTS_OLD = PreemptionPolicy(protections=(Protection("old", selector=compile_label_selector(app("old"))),))
SPENT = snapshot(*RUNNING, budgets=[budget(app("mid"))])


@dataclass(frozen=True)
class Planted:
    rule: str
    candidate: Candidate
    offers: dict[str, Offer]
    preemptor: Pod = PREEMPTOR
    as_offered: frozenset = frozenset()
    policy: PreemptionPolicy = UPSTREAM.preemption
    cluster: Snapshot = CLUSTER


PLANTED = {
    "a node that was not offered": Planted("NodeNotOffered", candidate(MID), {"n2": offer(ELSEWHERE)}),
    "a node that we do not know": Planted("NodeUnknown", candidate(MID, node="n9"), {"n9": offer(MID)}),
    "a preemptor that never preempts": Planted(
        "PreemptorMustNotPreempt", candidate(MID), {"n1": offer(MID)}, pod("preemptor", 100, node="", never=True)
    ),
    "an offered victim that we do not know": Planted("OfferedVictimUnknown", candidate(MID), {"n1": offer(MID, GHOST)}),
    "an offered victim that runs elsewhere": Planted(
        "OfferedVictimUnknown", candidate(MID), {"n1": offer(MID, ELSEWHERE)}
    ),
    "no victims": Planted("NoVictims", candidate(), {"n1": offer(MID)}),
    "a victim that we do not know": Planted("VictimUnknown", candidate(GHOST), {"n1": offer(MID)}),
    "a victim that runs elsewhere": Planted("VictimUnknown", candidate(ELSEWHERE), {"n1": offer(MID)}),
    "a victim that has ended": Planted("VictimUnknown", candidate(DONE), {"n1": offer(MID)}),
    "a victim without a uid": Planted("VictimUnknown", candidate(NO_UID), {"n1": offer(MID)}),
    "a victim named twice": Planted("VictimTwice", candidate(MID, MID), {"n1": offer(MID)}),
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
        "NotAsOffered", candidate(OLD), {"n1": offer(MID)}, as_offered=ON_N1
    ),
    "one victim less although the scheduler decides": Planted(
        "NotAsOffered", candidate(MID), {"n1": offer(MID, OLD)}, as_offered=ON_N1
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
        "VictimProtected", candidate(OLD), {"n1": offer(OLD)}, as_offered=ON_N1, policy=PROTECTS_OLD
    ),
    "more victims than may be": Planted(
        "TooManyVictims",
        candidate(MID, OLD),
        {"n1": offer(MID, OLD)},
        policy=PreemptionPolicy(limits=Limits(max_victims=1)),
    ),
    "a broken budget, counted right": Planted(
        "BudgetBroken", candidate(MID, violations=1), {"n1": offer(MID)}, policy=STRICT, cluster=SPENT
    ),
    "a broken budget, as the scheduler counted": Planted(
        "BudgetBroken",
        candidate(MID, violations=7),
        {"n1": offer(MID, violations=7)},
        as_offered=ON_N1,
        policy=STRICT,
        cluster=SPENT,
    ),
    "a broken budget, not counted": Planted(
        "ViolationsMiscounted", candidate(MID), {"n1": offer(MID)}, policy=STRICT, cluster=SPENT
    ),
    "violations that neither we nor the scheduler counted": Planted(
        "ViolationsMiscounted", candidate(MID, violations=2), {"n1": offer(MID, violations=1)}, as_offered=ON_N1
    ),
}


@pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_candidate_is_rejected_by_its_rule(case):
    profile = Profile(preemption=case.policy)
    result = guard_preempt(
        case.cluster, case.preemptor, case.offers, [case.candidate], as_offered=case.as_offered, profile=profile
    )
    assert result.kept == ()
    assert result.rejected == {case.candidate.node: case.rule}


def test_every_rule_has_a_planted_candidate():
    assert {name for name, _ in RULES} == {case.rule for case in PLANTED.values()}


def test_with_all_nodes_as_candidates_a_node_that_was_not_offered_passes():
    profile, other = Profile(preemption=ALL_NODES), candidate(ELSEWHERE, node="n2")
    assert guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(MID)}, [other], profile=profile).kept == (other,)


def test_a_protection_that_has_ended_protects_nobody():
    """OLD started on 1 January: for 31 days it is protected."""
    rule = Protection("young", min_runtime=31 * 86_400 * 10**9)
    profile = Profile(preemption=PreemptionPolicy(protections=(rule,)))
    for day, kept in ((30, 0), (31, 1)):
        now = Moment(OLD_STARTED + day * 86_400 * 10**9)
        result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(OLD)}, [candidate(OLD)], profile=profile, moment=now)
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
    assert result.rejected == {"n1": "NodeTwice"}


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
    offers = {"n1": offer(MID), "n2": offer(ELSEWHERE), "n9": offer(GHOST)}
    right = (candidate(ELSEWHERE, node="n2"), candidate(MID))
    result = guard_preempt(CLUSTER, PREEMPTOR, offers, [right[0], candidate(GHOST, node="n9"), right[1]])
    assert result.kept == right
    assert result.rejected == {"n9": "NodeUnknown"}


@pytest.mark.parametrize("claimed", [0, 3])
def test_when_the_scheduler_decides_its_count_is_as_good_as_ours(claimed):
    offers = {"n1": offer(MID, violations=3)}
    result = guard_preempt(CLUSTER, PREEMPTOR, offers, [candidate(MID, violations=claimed)], as_offered=ON_N1)
    assert result.rejected == {}


def test_the_pods_of_the_picture_count_not_those_of_the_candidate():
    lowered = replace_priority(BIG, 1)
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(MID)}, [candidate(lowered)])
    assert result.rejected == {"n1": "VictimNotLower"}


def replace_priority(one, priority):
    return Pod(one.metadata, PodSpec(node_name=one.spec.node_name, priority=priority), one.status)


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
    offers = {"n1": offer(MID, OLD)}
    for claimed in range(3):
        result = guard_preempt(cluster, PREEMPTOR, offers, [candidate(MID, OLD, violations=claimed)])
        assert bool(result.kept) == (claimed == violations)


def test_a_pod_without_labels_is_in_no_budget():
    bare = pod("bare", 10, labels=None)
    absent = LabelSelector(match_expressions=[LabelSelectorRequirement("app", "DoesNotExist")])
    cluster = snapshot(bare, budgets=[budget(absent)])
    assert guard_preempt(cluster, PREEMPTOR, {"n1": offer(bare)}, [candidate(bare)]).kept


# --- generated ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(RUNNING), max_size=4), st.lists(st.sampled_from((*RUNNING, GHOST)), max_size=4))
@settings(max_examples=500)
def test_whatever_gets_past_the_guard_is_safe(offered, victims):
    result = guard_preempt(CLUSTER, PREEMPTOR, {"n1": offer(*offered)}, [candidate(*victims)])
    for kept in result.kept:
        chosen, by_scheduler = uids(kept.victims), uids(offered)
        assert all(victim.spec.node_name == "n1" and victim.priority < 100 for victim in kept.victims)
        assert len(chosen) == len(kept.victims)
        assert kept.victims or not offered
        assert not chosen & {"uid-done", "", "uid-ghost"}
        assert not {"uid-mirror", "uid-terminating"} & chosen - by_scheduler


def uids(pods):
    return {one.metadata.uid for one in pods}


# --- filter and prioritize ----------------------------------------------------------------------------------------

NODES = ["b", "a", "c", "a"]
RIGHT = FilterDecision(accepted=(1, 3), failed={"b": "full"}, unresolvable={"c": "cordoned"}, not_evaluated=())


def test_a_right_filter_answer_passes():
    guard_filter(NODES, RIGHT)
    guard_filter([], FilterDecision((), {}, {}, ()))


@pytest.mark.parametrize(
    "change",
    [
        {"accepted": (1, 3, 4)},
        {"accepted": (-1, 1, 3)},
        {"accepted": (3, 1)},
        {"accepted": (1, 1, 3)},
        {"accepted": (1,)},
        {"accepted": (True, 3)},
        {"accepted": (0, 1, 3)},
        {"accepted": ()},
        {"failed": {}},
        {"failed": {"b": "full", "c": "full"}},
        {"failed": {"b": "full", "a": "full"}},
        {"failed": {"b": "full", "z": "invented"}},
        {"unresolvable": {}},
        {"unresolvable": {"c": "cordoned", "a": "cordoned"}},
        {"unresolvable": {"c": "cordoned", "z": "invented"}},
    ],
    ids=str,
)
def test_a_wrong_filter_answer_is_none(change):
    with pytest.raises(GuardError) as raised:
        guard_filter(NODES, replace(RIGHT, **change))
    assert raised.value.status == 503


def test_right_scores_pass():
    guard_scores(["a", "b"], (0, 10))


@pytest.mark.parametrize("scores", [(1,), (1, 2, 3), (1, 11), (-1, 1), (1, 2.0), (1, True)])
def test_wrong_scores_are_none(scores):
    with pytest.raises(GuardError):
        guard_scores(["a", "b"], scores)
