"""Live budgets: what a budget allows by the pods in the cache, and what each of them counts against.

How much that is shows in decisions: with Strict, so many pods of the node `n1` may be lost, and not one more
(`may_lose`). All pods take 1 cpu, and the sum of each case is min(reported, healthy - desired).
"""

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given

from extender.core import engine
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import LiveBudgetIndex
from extender.core.profile import KubeScheduler, PreemptionPolicy, Profile
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import KINDS, key_of
from extender.k8s.objects import PodDisruptionBudget
from extender.server.guard.guard import guard_preempt
from tests.builders import (
    JSON,
    STARTED,
    budget,
    built,
    cluster,
    drop_messages,
    incoming,
    node,
    pod,
    stored_cluster,
    typed,
)
from tests.profiles import SEEDS, examples

LIVE = PreemptionPolicy(disruption_budgets="Strict", budget_accounting="Live")
REPORTED = PreemptionPolicy(disruption_budgets="Strict")
BOTH_ACCOUNTINGS = [
    one for way in (REPORTED, PreemptionPolicy()) for one in (way, replace(way, budget_accounting="Live"))
]
EVERY_WAY = [one for way in BOTH_ACCOUNTINGS for one in (way, replace(way, empty_selector="Everything"))]

READY, UNREADY = ({"type": "Ready", "status": status} for status in ("True", "False"))


def one(name, *, ready=True, app="x", leaving=None, **fields) -> JSON:
    """A pod of the budget; `leaving`: its deletionTimestamp."""
    metadata = {} if leaving is None else {"deletionTimestamp": leaving}
    status = {"conditions": [READY if ready else UNREADY]}
    return pod(name, labels={"app": app} if app else {}, metadata=metadata, status=status, **fields)


def held(reported=9, desired=0, *, name="xs", current=None, observed=1, lets_go=None, app="x", **fields) -> JSON:
    """A budget of generation 1. `current`: what it reports as healthy; `lets_go`: its unhealthyPodEvictionPolicy."""
    made = budget(name, reported, **({"selector": fields.pop("selector")} if "selector" in fields else {"app": app}))
    made["metadata"]["generation"] = 1
    made["status"] |= {"desiredHealthy": desired, "observedGeneration": observed} | fields
    made["status"]["currentHealthy"] = 9 if current is None else current
    if lets_go is not None:
        made["spec"]["unhealthyPodEvictionPolicy"] = lets_go
    return made


def ask(snapshot, policy, count=1, names=("n1",)):
    """Who must go for a pod of so many cpus: names by node, and why other nodes are out; the guard has no objection."""
    profile = Profile(keep_candidates=None, preemption=policy)
    leaving = {name: [pod for pod in snapshot.pods_on(name) if pod.metadata.deletion_timestamp] for name in names}
    sent = {name: SentCandidate(tuple(pod.metadata.uid for pod in pods)) for name, pods in leaving.items()}
    waiting = typed(incoming(cpu=str(count)))
    decision = engine.preempt(snapshot, waiting, sent, profile)
    rejected = guard_preempt(snapshot, waiting, sent, decision.kept, profile=profile).rejected
    assert rejected == {}
    victims = {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}
    return victims, {one.node: one.num_pdb_violations for one in decision.kept}, drop_messages(decision)


def may_lose(snapshot, policy=LIVE) -> int:
    """How many of the pods of n1, which is full, may go."""
    allowed = [bool(ask(snapshot, policy, count + 1)[0]) for count in range(len(snapshot.pods_on("n1")))]
    assert allowed == sorted(allowed, reverse=True)
    return sum(allowed)


def world(here, elsewhere=(), budgets=(), waiting=()) -> JSON:
    """The node n1, and n2 on which no pod may be evicted."""
    important = [dict(one, spec=one["spec"] | {"priority": 5000}) for one in elsewhere]
    nodes = {node("n1", cpu=str(len(here))): here, node("n2", cpu="9"): important}
    return cluster(nodes, budgets=budgets, waiting=waiting)


# --- ready pods -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    here: list[JSON]
    """Pods of n1."""
    budget: JSON
    may_lose: int
    elsewhere: tuple[JSON, ...] = ()
    waiting: tuple[JSON, ...] = ()


A, B = one("a"), one("b")
GONE = dict(one("c"), spec=one("c")["spec"] | {"nodeName": "gone"})

READY_PODS = {
    "1: no more than healthy pods leave over, 2 - 1, though 9 are reported": Case([A, B], held(9, 1), 1),
    "2: no more than is reported, 0, though 2 - 0 are left over": Case([A, B], held(0, 0), 0),
    "3: both say 1": Case([A, B], held(1, 1), 1),
    "4: all of them: 2 - 0": Case([A, B], held(9, 0), 2),
    "5: fewer are healthy than there should be, 2 - 3": Case([A, B], held(9, 3), 0),
    "6: less than nothing is reported": Case([A, B], held(-1, 0), 0),
    "7: healthy pods of other nodes count, 3 - 1": Case([A, B], held(9, 1), 2, (one("c"),)),
    "8: one that is not ready does not, 2 - 1": Case([A, B], held(9, 1), 1, (one("c", ready=False),)),
    "9: one without conditions does not, 2 - 1": Case([A, B], held(9, 1), 1, (pod("c", labels={"app": "x"}),)),
    "10: one that is leaving does not, 2 - 1": Case([A, B], held(9, 1), 1, (one("c", leaving=STARTED),)),
    "11: one that has finished does not, 2 - 1": Case([A, B], held(9, 1), 1, (one("c", phase="Succeeded"),)),
    "12: one that waits for a node does not, 2 - 1": Case([A, B], held(9, 1), 1, waiting=(one("c", phase="Pending"),)),
    "13: one on a node that is not known does not, 2 - 1": Case([A, B], held(9, 1), 1, waiting=(GONE,)),
    "14: one that the API server has charged already does not, 2 - 1": Case(
        [A, B], held(9, 1, disruptedPods={"c": STARTED}), 1, (one("c"),)
    ),
    "15: nor does it charge again: 1 of two healthy ones should stay": Case(
        [A, B], held(0, 1, disruptedPods={"b": STARTED}), 1
    ),
    "16: one of another namespace does not, 2 - 1": Case([A, B], held(9, 1), 1, (one("c", namespace="shop"),)),
    "17: one of another label does not, 2 - 1": Case([A, B], held(9, 1), 1, (one("c", app="y"),)),
    "18: assumed to leave, reported does not know: 1 - 1": Case(
        [A, B], held(1, 0), 0, (one("c", leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "19: assumed to leave, reported does not know: 2 - 1": Case(
        [A, B], held(2, 0), 1, (one("c", leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "20: leaving, reported knows: 1": Case([A, B], held(1, 0), 1, (one("c", leaving=STARTED),)),
    "21: assumed to leave, but charged already: 1": Case(
        [A, B], held(1, 0, disruptedPods={"c": STARTED}), 1, (one("c", leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "22: assumed to leave, but never ready, so never counted: 1": Case(
        [A, B], held(1, 0), 1, (one("c", ready=False, leaving=ASSUMED_DELETION_TIMESTAMP),)
    ),
    "23: two assumed to leave, 2 - 2": Case(
        [A, B],
        held(2, 0),
        0,
        (one("c", leaving=ASSUMED_DELETION_TIMESTAMP), one("d", leaving=ASSUMED_DELETION_TIMESTAMP)),
    ),
    "24: the status is of an older spec": Case([A, B], held(9, 0, observed=0), 0),
    "25: the status is of this spec": Case([A, B], held(9, 0, observed=1), 2),
    "26: the status is of a spec that we do not know yet": Case([A, B], held(9, 0, observed=2), 2),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in READY_PODS.items()])
def test_how_many_healthy_pods_may_be_lost(case):
    assert may_lose(built(world(case.here, case.elsewhere, [case.budget], case.waiting))) == case.may_lose


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in READY_PODS.items()])
def test_it_is_the_same_in_a_snapshot_that_pods_came_to_one_by_one(case):
    snapshot = Snapshot()
    for policy in EVERY_WAY:
        engine.prepare(snapshot, KubeScheduler((Profile(preemption=policy),)))
    objects = stored_cluster(world(case.here, case.elsewhere, [case.budget], case.waiting))
    for kind in ("Pod", "PodDisruptionBudget", "Node"):
        for each in getattr(objects, KINDS[kind].field):
            snapshot.put(kind, each)
    snapshot.refresh_layout()
    assert may_lose(snapshot) == case.may_lose


@pytest.mark.parametrize("reported", [0, 1, 2])
def test_what_is_reported_is_all_that_counts_where_accounting_is_not_live(reported):
    """One of the two is not ready, 2 should stay, and the status is of an older spec."""
    snapshot = built(world([A, one("b", ready=False)], budgets=[held(reported, 2, observed=0)]))
    assert may_lose(snapshot, REPORTED) == reported
    assert may_lose(snapshot) == 0


# --- pods that are not ready ------------------------------------------------------------------------------------------

POLICIES = (None, "IfHealthyBudget", "AlwaysAllow")


@pytest.mark.parametrize("lets_go", POLICIES)
@pytest.mark.parametrize(
    ("budget", "healthy", "expected"),
    [
        pytest.param(held(0, 1), 1, 3, id="1: healthy, 1 of 1: all may go, though 0 are reported"),
        pytest.param(held(0, 2), 3, 3, id="2: healthy, 3 of 2: all may go"),
        pytest.param(held(0, 2), 1, 0, id="3: not healthy, 1 of 2: none"),
        pytest.param(held(9, 2), 1, 0, id="4: not healthy, 1 of 2: none, though 9 are reported"),
        pytest.param(held(9, 1, current=0), 1, 0, id="5: not healthy as reported: 1 - 1 are left over"),
        pytest.param(held(9, 1, current=0), 2, 0, id="6: not healthy as reported: none before the status says it is"),
        pytest.param(held(0, 0), 1, 0, id="7: none need be healthy: 0 are reported"),
        pytest.param(held(1, 0), 1, 1, id="8: none need be healthy: 1 is reported"),
        pytest.param(held(9, 0), 2, 2, id="9: none need be healthy: 2 - 0 are left over"),
        pytest.param(held(9, 1, observed=0), 1, 3, id="10: healthy, of an older spec: all may go"),
        pytest.param(held(9, 0, observed=0), 1, 0, id="11: none need be healthy, of an older spec: none"),
    ],
)
def test_how_many_unready_pods_may_be_lost(budget, healthy, expected, lets_go):
    """3 of n1 are not ready; AlwaysAllow lets all go whatever the budget says."""
    budget = dict(budget, spec=budget["spec"] | ({} if lets_go is None else {"unhealthyPodEvictionPolicy": lets_go}))
    here = [one(name, ready=False) for name in "abc"]
    snapshot = built(world(here, [one(f"h{number}") for number in range(healthy)], [budget]))
    assert may_lose(snapshot) == (3 if lets_go == "AlwaysAllow" else expected)


def test_unready_pods_that_may_go_leave_the_ready_ones_their_share():
    """2 - 1 of the ready ones, and both that are not ready: 3 of 4."""
    here = [one("a", ready=False), one("b", ready=False), one("c"), one("d")]
    assert may_lose(built(world(here, budgets=[held(9, 1)]))) == 3


# --- what charges nothing, and what is never allowed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        pytest.param(one("a"), 0, id="1: a ready pod"),
        pytest.param(one("a", ready=False), 0, id="2: one that is not"),
        pytest.param(one("a", leaving=STARTED), 1, id="3: one that is leaving"),
        pytest.param(one("a", leaving=ASSUMED_DELETION_TIMESTAMP), 1, id="4: one that is assumed to leave"),
        pytest.param(one("a", phase="Pending", ready=False), 1, id="5: one that has not started"),
        pytest.param(one("a", app="y"), 1, id="6: one of no budget"),
    ],
)
def test_who_may_be_lost_where_a_budget_allows_nothing(victim, expected):
    assert may_lose(built(world([victim], budgets=[held(0, 2)]))) == expected


TWO = [held(9, 0), held(9, 0, name="also")]


@pytest.mark.parametrize("ready", [True, False])
def test_a_pod_of_two_budgets_may_never_be_lost(ready):
    """Each of them would allow it. The one of a single budget may."""
    also = held(9, 0, name="also", selector={"matchLabels": {"app": "x", "two": "yes"}}, lets_go="AlwaysAllow")
    both = one("a", ready=ready)
    both["metadata"]["labels"]["two"] = "yes"
    snapshot = built(world([both], [one("h")], [held(9, 0, lets_go="AlwaysAllow"), also]))
    victims, _, dropped = ask(snapshot, LIVE)
    assert (victims, dropped) == ({}, {"n1": "would break disruption budget (more than one for a pod)"})
    assert ask(snapshot, REPORTED)[0] == {"n1": ["a"]}
    assert may_lose(built(world([one("a", ready=ready)], [one("h")], [held(9, 0, lets_go="AlwaysAllow"), also]))) == 1


def test_a_pod_of_two_budgets_counts_as_healthy_in_both():
    """a is of both, b and c of one each: 2 - 1 and 2 - 1 may be lost, so b and c may, and a may not."""
    a, b, c = one("a"), one("b"), one("c", app="y")
    a["metadata"]["labels"] = {"app": "x", "also": "y"}
    c["metadata"]["labels"] = {"also": "y"}
    budgets = [held(9, 1), held(9, 1, name="also", selector={"matchLabels": {"also": "y"}})]
    assert may_lose(built(world([b, c], [a], budgets))) == 2
    assert may_lose(built(world([b, c], [], budgets))) == 0


def test_a_pod_of_two_budgets_may_be_lost_when_it_terminates_but_not_when_one_budget_counted_it():
    assert may_lose(built(world([one("a", leaving=STARTED)], budgets=TWO))) == 1
    charged = [held(9, 0, disruptedPods={"a": STARTED}), TWO[1]]
    assert may_lose(built(world([one("a")], budgets=charged))) == 0


@pytest.mark.parametrize(
    ("here", "violations"),
    [
        pytest.param([A], 1, id="1: 1 - 1 are left over"),
        pytest.param([A, B], 1, id="2: 2 - 1 are left over, 2 must go"),
        pytest.param([one("a", leaving=STARTED), B], 1, id="3: 1 - 1 are left over, who leaves charges nothing"),
        pytest.param([one("a", app="y"), one("b", app="y")], 0, id="4: no budget"),
    ],
)
def test_violations_are_counted_live_where_budgets_are_not_strict(here, violations):
    policy = replace(LIVE, disruption_budgets="BestEffort")
    counted = ask(built(world(here, budgets=[held(9, 1)])), policy, len(here))[1]
    assert counted == {"n1": violations}


def test_a_broken_budget_is_named_whether_its_ready_or_its_unready_pods_break_it():
    for ready in (True, False):
        snapshot = built(world([one("a", ready=ready)], budgets=[held(9, 1)]))
        assert ask(snapshot, LIVE)[2] == {"n1": "would break disruption budget default/xs"}


# --- an empty selector ------------------------------------------------------------------------------------------------

EMPTY: JSON = {"1: {}": {}, "2: {} with empty parts": {"matchLabels": {}, "matchExpressions": []}}
NONE = {"3: none": None}
OF_THE_UNLABELLED = {"4: app does not exist": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}


@pytest.mark.parametrize("accounting", ["Reported", "Live"])
@pytest.mark.parametrize("labels", [{"app": "x"}, {}], ids=["labels", "no labels"])
@pytest.mark.parametrize(
    ("selector", "everything", "nothing"),
    [
        *(pytest.param(selector, 0, 1, id=name) for name, selector in EMPTY.items()),
        *(pytest.param(selector, 1, 1, id=name) for name, selector in (NONE | OF_THE_UNLABELLED).items()),
    ],
)
def test_which_pods_an_empty_selector_selects(selector, everything, nothing, labels, accounting):
    """The budget allows 0. A pod without labels is selected by an empty selector only."""
    here = one("a") | {"metadata": one("a")["metadata"] | {"labels": labels}}
    snapshot = built(world([here], budgets=[held(0, 1, selector=selector)]))
    policy = PreemptionPolicy(disruption_budgets="Strict", budget_accounting=accounting)
    assert may_lose(snapshot, policy) == nothing
    assert may_lose(snapshot, replace(policy, empty_selector="Everything")) == everything


def test_an_empty_selector_means_its_namespace_only():
    snapshot = built(world([one("a", namespace="shop")], budgets=[held(0, 1, selector={})]))
    assert may_lose(snapshot, replace(LIVE, empty_selector="Everything")) == 1


# --- changes ----------------------------------------------------------------------------------------------------------


def put(snapshot, item):
    """Decode the raw object; a pod runs on n1 unless it says where."""
    item = dict(item)
    if item["kind"] == "Pod":
        item["spec"] = {"nodeName": "n1"} | item["spec"]
    (typed_one,) = getattr(stored_cluster({"kind": "List", "items": [item]}), KINDS[item["kind"]].field)
    snapshot.put(item["kind"], typed_one)


def gone(kind, name):
    return lambda snapshot: snapshot.remove(kind, ("default", name))


def comes(item):
    return lambda snapshot: put(snapshot, item)


BEFORE = (held(9, 1),)


@pytest.mark.parametrize(
    ("here", "before", "changes", "after"),
    [
        pytest.param([A, one("b", ready=False)], 1, [comes(B)], 1, id="1: b becomes ready: all of 1 - 1, then 2 - 1"),
        pytest.param([A, B], 1, [comes(one("b", ready=False))], 1, id="2: b becomes unready: b itself may go"),
        pytest.param([A, B], 1, [comes(one("b", leaving=STARTED))], 1, id="3: b leaves: b itself may go"),
        pytest.param([A, B], 1, [gone("Pod", "b")], 0, id="4: b is gone: 1 - 1"),
        pytest.param([A, B], 1, [comes(one("b", app="y"))], 1, id="5: b is relabelled: b itself may go"),
        pytest.param([A, one("b", app="y")], 1, [comes(B)], 1, id="6: b is of the budget now: 2 - 1"),
        pytest.param([A, B], 1, [comes(one("b", phase="Succeeded"))], 0, id="7: b has finished: 1 - 1"),
        pytest.param([A, B], 1, [comes(held(0, 1))], 0, id="8: nothing is reported any more"),
        pytest.param([A, B], 1, [comes(held(9, 0))], 2, id="9: no pod need stay: 2 - 0"),
        pytest.param([A, B], 1, [comes(held(9, 1, observed=0))], 0, id="10: the status is of an older spec now"),
        pytest.param([A, B], 1, [gone("PodDisruptionBudget", "xs")], 2, id="11: without the budget"),
        pytest.param([A, B], 1, [comes(held(9, 1, app="y"))], 2, id="12: the budget is of others now"),
        pytest.param(
            [A, B], 1, [gone("PodDisruptionBudget", "xs"), comes(held(9, 2, name="new"))], 0, id="13: a row used again"
        ),
        pytest.param(
            [A, B],
            1,
            [gone("PodDisruptionBudget", "xs"), comes(held(9, 2, name="new", app="y"))],
            2,
            id="14: a row used again for others",
        ),
        pytest.param([A, B], 1, [comes(held(9, 0, name="also"))], 0, id="15: a second budget: never again"),
        pytest.param(
            [A, B], 1, [comes(held(9, 0, name="also")), gone("PodDisruptionBudget", "also")], 1, id="16: and without it"
        ),
        pytest.param([A, B], 1, [comes(held(9, 1, disruptedPods={"b": STARTED}))], 1, id="17: b is charged already"),
        pytest.param(
            [A, B],
            1,
            [comes(held(9, 1, disruptedPods={"b": STARTED})), comes(held(9, 1))],
            1,
            id="18: b is not charged any more",
        ),
        pytest.param([A], 0, [comes(B)], 1, id="19: b comes: 2 - 1"),
        pytest.param(
            [A, B],
            1,
            [comes(one("b", leaving=ASSUMED_DELETION_TIMESTAMP)), comes(B)],
            1,
            id="20: b stays after all",
        ),
        pytest.param(
            [A, B], 1, [comes(one("b", ready=False)), comes(held(9, 1, lets_go="AlwaysAllow"))], 1, id="21: b may go"
        ),
    ],
)  # fmt: skip
def test_a_change_is_heeded(here, before, changes, after):
    """Both of the budget want 1 to stay. The snapshot is asked before, between and after."""
    snapshot = built(world(here, budgets=BEFORE))
    assert may_lose(snapshot) == before
    for change in changes:
        change(snapshot)
        snapshot.refresh_layout()
        put(snapshot, node("n1", cpu=str(len(snapshot.pods_on("n1")))).raw)
        assert may_lose(snapshot) == may_lose(Snapshot.build(snapshot.frozen()))
    assert may_lose(snapshot) == after


def test_who_goes_after_a_change_is_who_may():
    """1 of a and b should stay healthy: b may go itself when it is not ready, and a may not."""
    snapshot = built(world([B, A], budgets=BEFORE))
    assert ask(snapshot, LIVE)[0] == {"n1": ["b"]}  # a counts second, and is put back first
    put(snapshot, one("b", ready=False))
    snapshot.refresh_layout()
    assert ask(snapshot, LIVE)[0] == {"n1": ["b"]}
    put(snapshot, one("a", ready=False))
    put(snapshot, B)
    snapshot.refresh_layout()
    assert ask(snapshot, LIVE)[0] == {"n1": ["a"]}


# --- many changes -----------------------------------------------------------------------------------------------------

NAMES = tuple(f"p{number}" for number in range(7))


def any_pod(chance) -> JSON:
    """Some pod in some state on n1, n2 or a node that is not there."""
    made = one(
        chance.choice(NAMES),
        ready=chance.random() < 0.7,
        app=chance.choice(("x", "x", "y", None)),
        leaving=chance.choice((None, None, None, None, STARTED, ASSUMED_DELETION_TIMESTAMP)),
        phase=chance.choice(("Running",) * 5 + ("Pending", "Succeeded")),
        priority=chance.choice((0, 0, 5)),
    )
    made["spec"]["nodeName"] = chance.choice(("n1", "n1", "n2", "gone"))
    return made


SELECTORS: tuple[JSON | None, ...] = ({"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y"}}, {}, None)


def any_budget(chance) -> JSON:
    return held(
        chance.choice((-1, 0, 1, 1, 2, 3)),
        chance.choice((0, 0, 1, 2)),
        name=chance.choice(("b1", "b2")),
        selector=chance.choice(SELECTORS),
        current=chance.choice((0, 1, 3)),
        observed=chance.choice((0, 1, 1, 1)),
        lets_go=chance.choice(POLICIES),
        disruptedPods=dict.fromkeys(chance.sample(NAMES, chance.choice((0, 0, 1, 2))), STARTED),
    )


def change(snapshot, chance):
    kind = chance.choice(("Pod", "Pod", "PodDisruptionBudget"))
    there = list(snapshot.objects.of(kind))
    if there and chance.random() < 0.25:
        snapshot.remove(kind, chance.choice(there))
    else:
        put(snapshot, any_pod(chance) if kind == "Pod" else any_budget(chance))


@examples(1, 30, 5_000)
@given(SEEDS)
def test_a_changed_snapshot_decides_as_a_new_one_in_every_way(seed):
    """All ways of counting follow one snapshot; each of them is compared with a snapshot of its own."""
    chance = random.Random(seed)
    snapshot = built(cluster({node("n1", cpu="4"): [], node("n2", cpu="3"): []}))
    for _ in range(15):
        for _ in range(chance.randint(1, 4)):
            change(snapshot, chance)
        snapshot.refresh_layout()
        wanted = chance.randint(1, 4)
        for policy in EVERY_WAY:
            rebuilt = Snapshot.build(snapshot.frozen())
            names = ("n1", "n2")
            assert ask(snapshot, policy, wanted, names) == ask(rebuilt, policy, wanted, names), (
                "the changed snapshot decides otherwise than a new one"
            )


@examples(2, 20, 5_000)
@given(SEEDS)
def test_what_is_kept_of_a_snapshot_that_is_empty_again_is_what_there_was(seed):
    chance = random.Random(seed)
    snapshot = built(cluster({node("n1", cpu="4"): []}))
    kept = [
        snapshot.index(kind, empty) for kind in (BudgetIndex, LiveBudgetIndex) for empty in ("Nothing", "Everything")
    ]
    for _ in range(40):
        change(snapshot, chance)
    for kind in ("Pod", "PodDisruptionBudget") if seed % 2 else ("PodDisruptionBudget", "Pod"):
        for key in list(snapshot.objects.of(kind)):
            snapshot.remove(kind, key)
    snapshot.refresh_layout()
    for charging in kept:
        assert not len(charging.uses(np.arange(len(snapshot.pods)))[0]), "charges are left of pods that went"
        assert not any(nodes for nodes in charging.pods_on_node.values())
    snapshot.put("PodDisruptionBudget", typed_budget(held(9, 1)))
    put(snapshot, A)
    put(snapshot, B)
    put(snapshot, node("n1", cpu="2").raw)
    snapshot.refresh_layout()
    assert may_lose(snapshot) == 1, "the empty cluster has room for no loss"


def typed_budget(raw) -> PodDisruptionBudget:
    (found,) = stored_cluster({"kind": "List", "items": [raw]}).budgets
    assert key_of("PodDisruptionBudget", found) == ("default", raw["metadata"]["name"])
    return found
