"""The guard's own count of what budgets say of victims, asked directly, without the engine and without the guard.

All pods run on n1 unless a case says otherwise, and all of them may be evicted.
"""

from dataclasses import dataclass, replace

import pytest

from extender.core.profile import PreemptionPolicy
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from extender.server.guard.pdb_recount import importance_under_policy, recount_budgets
from tests.builders import JSON, STARTED, budget, built, cluster, node, pod, stored_cluster

REPORTED = PreemptionPolicy()
STRICT = PreemptionPolicy(disruption_budgets="Strict")
LIVE = PreemptionPolicy(budget_accounting="Live")
STRICT_LIVE = replace(LIVE, disruption_budgets="Strict")

READY, UNREADY = ({"type": "Ready", "status": status} for status in ("True", "False"))


def one(name, *, ready=True, app="x", leaving=None, priority=10, **fields) -> JSON:
    metadata = {} if leaving is None else {"deletionTimestamp": leaving}
    fields["status"] = {"conditions": [READY if ready else UNREADY]}
    return pod(name, labels={"app": app}, metadata=metadata, priority=priority, **fields)


def held(reported=9, desired=0, *, name="xs", app="x", current=9, observed=1, lets_go=None, **status) -> JSON:
    """A budget of generation 1. `current`: what it reports as healthy; `lets_go`: its unhealthyPodEvictionPolicy."""
    made = budget(name, reported, app=app)
    made["metadata"]["generation"] = 1
    made["status"] |= {"desiredHealthy": desired, "currentHealthy": current, "observedGeneration": observed} | status
    if lets_go is not None:
        made["spec"]["unhealthyPodEvictionPolicy"] = lets_go
    return made


def count(policy, here, budgets, victims=None, elsewhere=()) -> int:
    """Count the PDB violations of the victims: all pods of n1 if none are named."""
    snapshot = built(cluster({node("n1"): here, node("n2"): elsewhere}, budgets=budgets))
    pods = snapshot.pods_on("n1")
    lost = frozenset(f"uid-{name}" for name in victims) if victims is not None else {one.metadata.uid for one in pods}
    return recount_budgets(snapshot, policy).violations(pods, frozenset(lost))


@dataclass(frozen=True)
class Case:
    here: list[JSON]
    budgets: list[JSON]
    expected: int
    victims: tuple[str, ...] | None = None
    elsewhere: tuple[JSON, ...] = ()


A, B, C = (one(name) for name in "abc")
TWO = [held(0, 0), held(9, 0, name="also")]

# --- what budgets report ----------------------------------------------------------------------------------------------

VIOLATING = {
    "1: nothing is left": Case([A], [held(0)], 1),
    "2: room for one of one": Case([A], [held(1)], 0),
    "3: room for one of two": Case([A, B], [held(1)], 1),
    "4: less than nothing is left": Case([A], [held(-1)], 1),
    "5: a pod that stays uses up the room": Case([A, B], [held(1)], 1, ("b",)),
    "6: and is not a violation itself": Case([A, B], [held(0)], 1, ("b",)),
    "7: a pod that is violating charges, too: the room of 2 is used up by 3": Case([A, B, C], [held(1)], 2),
    "8: one of two budgets is enough": Case([A], TWO, 1),
    "9: that is one violation, not two": Case([A], [held(0), held(0, name="also")], 1),
    "10: of another label": Case([one("a", app="y")], [held(0)], 0),
    "11: of another namespace": Case([one("a", namespace="shop")], [held(0)], 0),
    "12: of a namespace that has a budget for others": Case([one("a", app="y"), B], [held(0)], 1),
    "13: charged already": Case([A], [held(0, disruptedPods={"a": STARTED})], 0),
    "14: another one is charged already": Case([A], [held(0, disruptedPods={"b": STARTED})], 1),
    "15: what is charged already leaves room": Case([A, B], [held(1, disruptedPods={"a": STARTED})], 0),
    "16: one that is not ready charges as all do": Case([one("a", ready=False)], [held(0)], 1),
    "17: one that is leaving, too": Case([one("a", leaving=STARTED)], [held(0)], 1),
    "18: and one that has not started": Case([one("a", phase="Pending")], [held(0)], 1),
    "19: healthy pods do not matter": Case([A], [held(1, 5, observed=0)], 0),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in VIOLATING.items()])
def test_victims_that_break_what_budgets_report(case):
    assert count(REPORTED, case.here, case.budgets, case.victims, case.elsewhere) == case.expected


OVERDRAWN = {
    "1: nothing is left": Case([A], [held(0)], 1),
    "2: room for one of one": Case([A], [held(1)], 0),
    "3: room for one of three": Case([A, B, C], [held(1)], 2),
    "4: less than nothing is left counts as nothing": Case([A], [held(-1)], 1),
    "5: a pod that stays charges nothing": Case([A, B], [held(1)], 0, ("b",)),
    "6: two budgets are overdrawn twice": Case([A], [held(0), held(0, name="also")], 2),
    "7: room in the one does not help the other": Case(
        [A, B, one("c", app="y")], [held(0), held(9, app="y", name="ys")], 2
    ),
    "8: charged already": Case([A], [held(0, disruptedPods={"a": STARTED})], 0),
    "9: of no budget": Case([one("a", app="y")], [held(0)], 0),
    "10: much room": Case([A], [held(9)], 0),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in OVERDRAWN.items()])
def test_how_far_victims_overdraw_budgets_with_strict(case):
    assert count(STRICT, case.here, case.budgets, case.victims, case.elsewhere) == case.expected


# --- live -------------------------------------------------------------------------------------------------------------

OVERDRAWN_LIVE = {
    "1: 2 - 1 healthy ones may go": Case([A, B], [held(9, 1)], 1),
    "2: 2 - 0": Case([A, B], [held(9, 0)], 0),
    "3: 2 - 2": Case([A, B], [held(9, 2)], 2),
    "4: only 1 is reported": Case([A, B], [held(1, 0)], 1),
    "5: fewer than there should be: none": Case([A, B], [held(9, 3)], 2),
    "6: healthy ones of other nodes count: 3 - 1": Case([A, B], [held(9, 1)], 0, elsewhere=(C,)),
    "7: those of another label do not": Case([A, B], [held(9, 1)], 1, elsewhere=(one("c", app="y"),)),
    "8: nor those of another namespace": Case([A, B], [held(9, 1)], 1, elsewhere=(one("c", namespace="shop"),)),
    "9: nor those that are not ready": Case([A, B], [held(9, 1)], 1, elsewhere=(one("c", ready=False),)),
    "10: nor those that are charged already": Case(
        [A, B], [held(9, 1, disruptedPods={"c": STARTED})], 1, elsewhere=(C,)
    ),
    "11: nor those that are leaving": Case([A, B], [held(9, 1)], 1, elsewhere=(one("c", leaving=STARTED),)),
    "12: what is assumed to leave is taken off what is reported: 2 - 1": Case(
        [A, B], [held(2, 0)], 1, elsewhere=(one("c", leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "13: what is leaving is not: 2": Case([A, B], [held(2, 0)], 0, elsewhere=(one("c", leaving=STARTED),)),
    "14: nor what is assumed to leave, but charged already": Case(
        [A, B], [held(2, 0, disruptedPods={"c": STARTED})], 0, elsewhere=(one("c", leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "15: nor what is assumed to leave, but was not ready": Case(
        [A, B], [held(2, 0)], 0, elsewhere=(one("c", ready=False, leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "16: the status is of an older spec: none": Case([A, B], [held(9, 0, observed=0)], 2),
    "17: of a newer one: 2 - 0": Case([A, B], [held(9, 0, observed=2)], 0),
    "18: who is leaving charges nothing": Case([one("a", leaving=STARTED)], [held(0, 1)], 0),
    "19: nor who has not started": Case([one("a", phase="Pending")], [held(0, 1)], 0),
    "20: nor who is charged already": Case([A], [held(0, 1, disruptedPods={"a": STARTED})], 0),
    "21: a pod of two budgets may never go": Case([A], [held(9, 0), held(9, 0, name="also")], 1),
    "22: nor two of them": Case([A, B], [held(9, 0), held(9, 0, name="also")], 2),
    "23: not though it is charged already": Case(
        [A], [held(9, 0, disruptedPods={"a": STARTED}), held(9, 0, name="also", disruptedPods={"a": STARTED})], 1
    ),
    "24: it may where it is leaving": Case([one("a", leaving=STARTED)], TWO, 0),
    "25: what the others do not leave over is not theirs": Case(
        [A, one("b", app="y")], [held(0, 0), held(9, 0, name="ys", app="y")], 1
    ),
    "26: of no budget": Case([one("a", app="y")], [held(0, 1)], 0),
    "27: of one budget of two in the namespace": Case([A], [held(9, 0), held(0, 1, name="ys", app="y")], 0),
    "28: a pod of two budgets may not go though both have room for those that are not ready": Case(
        [A], [held(9, 1), held(9, 1, name="also")], 1, elsewhere=(B, C)
    ),
    "29: one may go of those that would be two pods": Case([A, B], [held(9, 1)], 0, ("a",)),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in OVERDRAWN_LIVE.items()])
def test_how_far_victims_overdraw_what_live_budgets_leave_over(case):
    assert count(STRICT_LIVE, case.here, case.budgets, case.victims, case.elsewhere) == case.expected


U, V = one("u", ready=False), one("v", ready=False)

UNREADY_PODS = {
    "1: healthy, 1 of 1: all may go, though 0 are reported": Case([U, V], [held(0, 1)], 0, elsewhere=(A,)),
    "2: healthy, 2 of 1": Case([U, V], [held(0, 1)], 0, elsewhere=(A, B)),
    "3: not healthy, 1 of 2: none, though 9 are reported": Case([U, V], [held(9, 2)], 2, elsewhere=(A,)),
    "4: not healthy as reported, 1 of 2: none": Case([U, V], [held(9, 2, current=1)], 2, elsewhere=(A, B)),
    "5: healthy as reported, 1 of 1": Case([U, V], [held(9, 1, current=1)], 0, elsewhere=(A, B)),
    "6: none need be healthy: what is left over, 0 - 0": Case([U, V], [held(9, 0)], 2),
    "7: none need be healthy: what is left over, 1 - 0": Case([U, V], [held(9, 0)], 1, elsewhere=(A,)),
    "8: none need be healthy, 0 are reported": Case([U], [held(0, 0)], 1, elsewhere=(A, B)),
    "9: AlwaysAllow, not healthy": Case([U, V], [held(0, 2, lets_go="AlwaysAllow")], 0),
    "10: AlwaysAllow, none need be healthy": Case([U, V], [held(0, 0, lets_go="AlwaysAllow")], 0),
    "11: IfHealthyBudget, not healthy": Case([U, V], [held(0, 2, lets_go="IfHealthyBudget")], 2),
    "12: AlwaysAllow is of no use to ready ones": Case([A], [held(0, 0, lets_go="AlwaysAllow")], 1),
    "13: healthy, of an older spec": Case([U, V], [held(9, 1, observed=0)], 0, elsewhere=(A,)),
    "14: they leave the ready ones their share, 1 - 1": Case([A, U], [held(9, 1)], 1),
    "15: and take nothing of it, 2 - 1": Case([A, U], [held(9, 1)], 0, elsewhere=(B,)),
    "16: fewer than none need be healthy is never healthy": Case([U, V], [held(9, -1)], 2, elsewhere=(A,)),
    "17: they share where none need be healthy, 2 - 0 for three": Case([A, U, V], [held(9, 0)], 2, elsewhere=()),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in UNREADY_PODS.items()])
def test_how_far_victims_that_are_not_ready_overdraw_live_budgets(case):
    assert count(STRICT_LIVE, case.here, case.budgets, case.victims, case.elsewhere) == case.expected


VIOLATING_LIVE = {
    "1: 1 - 1 are left over": Case([A], [held(9, 1)], 1),
    "2: 2 - 1, the more important one first": Case([A, B], [held(9, 1)], 0, ("a",)),
    "3: and the other one is violating": Case([A, B], [held(9, 1)], 1, ("b",)),
    "4: one that is leaving charges nothing": Case([one("a", leaving=STARTED), B, C], [held(9, 1)], 0, ("b",)),
    "5: one of two budgets is violating": Case([A], [held(9, 0), held(9, 0, name="also")], 1),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in VIOLATING_LIVE.items()])
def test_victims_that_break_live_budgets_without_strict(case):
    assert count(LIVE, case.here, case.budgets, case.victims, case.elsewhere) == case.expected


@pytest.mark.parametrize("policy", [REPORTED, STRICT, LIVE, STRICT_LIVE])
@pytest.mark.parametrize(
    ("selector", "labels", "everything", "nothing"),
    [
        pytest.param({}, {"app": "x"}, 1, 0, id="1: an empty one"),
        pytest.param({}, {}, 1, 0, id="2: an empty one, of pods without labels"),
        pytest.param(None, {"app": "x"}, 0, 0, id="3: none"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {}, 0, 0, id="4: no label"),
        pytest.param(
            {"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}, {"app": "x"}, 1, 1, id="5: another label"
        ),
        pytest.param({"matchLabels": {"": "x"}}, {"app": "x"}, 0, 0, id="6: an invalid one"),
    ],
)
def test_whom_a_selector_means(selector, labels, everything, nothing, policy):
    """1: a victim of a budget that allows nothing."""
    spent = held(0, 5)
    spent["spec"]["selector"] = selector
    victim = one("a")
    victim["metadata"]["labels"] = labels
    assert count(policy, [victim], [spent]) == nothing
    assert count(replace(policy, empty_selector="Everything"), [victim], [spent]) == everything


# --- who charges first ------------------------------------------------------------------------------------------------


def resources(requests, limits) -> JSON:
    return {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": limits}}]}


def annotated(name, key, value) -> JSON:
    made = one(name)
    made["metadata"]["annotations"] = {key: value}
    return made


GUARANTEED = one("first") | {
    "spec": {"priority": 10} | resources({"cpu": "1", "memory": "1"}, {"cpu": "1", "memory": "1"})
}
COST, OURS = "controller.kubernetes.io/pod-deletion-cost", "example.com/cost"

FIRST = {
    "Priority": (one("first", priority=11), one("second")),
    "StartTime": (one("first"), one("second", start="2026-01-02T00:00:00Z")),
    "StartTime, of one that has not started": (one("first"), one("second", start=None)),
    "PodDeletionCost": (annotated("first", COST, "1"), one("second")),
    "EvictionCost": (annotated("first", OURS, "1"), one("second")),
    "QoSClass": (GUARANTEED, one("second")),
    "GracePeriod": (one("first", terminationGracePeriodSeconds=31), one("second")),
}  # fmt: skip


@pytest.mark.parametrize(("criterion", "pods"), FIRST.items(), ids=FIRST.keys())
def test_the_more_important_one_charges_first(criterion, pods):
    """The budget has room for one: the other one is violating, in whichever order they are listed."""
    policy = PreemptionPolicy(importance=(criterion.partition(",")[0],), eviction_cost_annotation=OURS)
    for here in pods, pods[::-1]:
        assert count(policy, list(here), [held(1)], ("first",)) == 0
        assert count(policy, list(here), [held(1)], ("second",)) == 1


def test_of_equally_important_ones_the_first_one_listed_charges_first():
    policy = PreemptionPolicy(importance=("Priority",))
    assert count(policy, [B, A], [held(1)], ("b",)) == 0
    assert count(policy, [B, A], [held(1)], ("a",)) == 1


@pytest.mark.parametrize(("minor", "violating"), [(36, "a"), (37, "b")])
def test_of_equal_ones_that_have_not_started_the_first_one_listed_charges_first_from_1_37_on(minor, violating):
    listed = cluster({node("n1"): [one(name, start=None) for name in "ab"]}, budgets=[held(1)])
    snapshot = Snapshot.build(stored_cluster(listed), Features.of(minor))
    recount, pods = recount_budgets(snapshot, REPORTED), snapshot.pods_on("n1")
    assert {name: recount.violations(pods, frozenset({f"uid-{name}"})) for name in "ab"} == {
        name: int(name == violating) for name in "ab"
    }


def test_criteria_count_in_their_order():
    snapshot = built(cluster({node("n1"): [A]}))
    (pod_,) = snapshot.pods_on("n1")
    policy = PreemptionPolicy(importance=("GracePeriod", "Priority"))
    assert importance_under_policy(policy, pod_) == (-30, -10)


# --- remembered -------------------------------------------------------------------------------------------------------


def test_it_is_made_once_for_each_of_the_last_four_policies_and_anew_after_a_change_of_budgets():
    snapshot = built(cluster({node("n1"): [A]}, budgets=[held(0)]))
    policies = [PreemptionPolicy(min_pending_duration=number) for number in range(5)]
    made = [recount_budgets(snapshot, policy) for policy in policies]
    assert [recount_budgets(snapshot, policy) for policy in policies[1:]] == made[1:]
    assert recount_budgets(snapshot, policies[0]) is not made[0]
    (changed,) = built(cluster({}, budgets=[held(1)])).objects.budgets.values()
    snapshot.put("PodDisruptionBudget", changed)
    assert recount_budgets(snapshot, policies[4]) is not made[4]
    assert recount_budgets(snapshot, policies[4]).violations(snapshot.pods_on("n1"), frozenset({"uid-a"})) == 0
