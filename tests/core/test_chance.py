"""Victims that are one of kube-scheduler's several answers: they are those in the order of the lists, and say so."""

from dataclasses import replace
from typing import get_args

import pytest

from extender.core import chance, engine
from extender.core.evaluation import Evaluation
from extender.core.profile import UPSTREAM, KubeScheduler, Profile
from extender.core.record import RecordedPod, record_preempt
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.version.features import Features
from extender.report import schema
from extender.report.diagnose import diagnose
from extender.server.guard.guard import guard_preempt
from extender.server.observability.decision_log import KeptDecision
from tests.builders import budget, cluster, incoming, node, pod, stored_cluster, typed
from tests.parity.parity import NOW
from tests.report.test_render import on

WAITS = incoming(cpu="2")
B1, B2 = budget("b1", app="x"), budget("b2", allowed=1, tier="t")
"""b1 is exhausted; b2 allows to evict one of the two pods that it selects."""


def of_two_budgets(*budgets, others=()):
    """A node of 3 cpus: a pod of both budgets, one of b2, one of none."""
    pods = [
        pod("a", priority=3, labels={"app": "x", "tier": "t"}),
        pod("b", priority=2, labels={"tier": "t"}),
        pod("c", priority=1),
    ]
    return cluster({node("n1", cpu="3"): pods}, budgets=[*budgets, *others])


def many(count, **last):
    """A full node of pods that are equally important, but for the last one."""
    pods = [pod(f"p{number}", priority=1) for number in range(count - 1)]
    return cluster({node("n1", cpu=str(count)): [*pods, pod("last", **last)]})


def built(listed, minor):
    return Snapshot.build(stored_cluster(listed), Features.of(minor))


def candidate_of(snapshot, waits=WAITS):
    """Names of the victims on n1, violations, and what is chance."""
    found = Evaluation(snapshot, typed(waits), UPSTREAM, NOW).to_dict()
    candidate = found["candidates"]["n1"]
    victims = [uid.removeprefix("uid-") for uid in candidate["victims"]]
    return victims, candidate["numPDBViolations"], found.get("chance", {}).get("n1", [])


@pytest.mark.parametrize(
    ("minor", "budgets", "victims", "violations", "chance"),
    [
        (37, (B1, B2), ["b", "c"], 0, ["BudgetOrder"]),  # a counts against b1 alone, which leaves b2 to b
        (37, (B2, B1), ["b", "c"], 1, ["BudgetOrder"]),  # a counts against b2 first
        (36, (B1, B2), ["b", "c"], 1, []),  # a counts against both
        (36, (B2, B1), ["b", "c"], 1, []),
        (37, (budget("b1", allowed=1, app="x"), B2), ["a", "c"], 0, []),  # a exceeds none, and counts against both
        (37, (B1, budget("b2", allowed=2, tier="t")), ["b", "c"], 0, []),  # b2 has enough for both
    ],
)
def test_a_pod_counts_against_its_budgets_up_to_the_first_that_it_exceeds(minor, budgets, victims, violations, chance):
    assert candidate_of(built(of_two_budgets(*budgets), minor)) == (victims, violations, chance)


def test_the_order_is_that_in_which_budgets_were_listed_or_created_also_in_the_row_of_a_deleted_one():
    snapshot = built(of_two_budgets(B2, others=[budget("gone", other="z")]), 37)
    for change in (lambda: snapshot.remove("PodDisruptionBudget", ("default", "b2")), snapshot.refresh_layout):
        change()
    for one in stored_cluster(of_two_budgets(B1, B2)).budgets:
        snapshot.put("PodDisruptionBudget", one)
    snapshot.refresh_layout()
    assert candidate_of(snapshot) == candidate_of(built(of_two_budgets(B1, B2), 37))
    decision, passed = preempted(snapshot)
    assert passed.rejected == {}
    assert [one.num_pdb_violations for one in decision.kept] == [0]


def preempted(snapshot):
    """The decision about n1, and what the guard says of it."""
    sent, waits, profile = {"n1": SentCandidate(())}, typed(WAITS), Profile()
    decision = engine.preempt(snapshot, waits, sent, profile, NOW)
    passed = guard_preempt(snapshot, waits, sent, decision.kept, as_sent=decision.as_sent, profile=profile)
    return decision, passed


@pytest.mark.parametrize("budgets", [(B1, B2), (B2, B1)])
def test_the_guard_counts_in_the_same_order(budgets):
    _, passed = preempted(built(of_two_budgets(*budgets), 37))
    assert passed.rejected == {}


@pytest.mark.parametrize(
    ("minor", "listed", "chance"),
    [
        (37, many(12, priority=1), []),
        (37, many(13, priority=1), ["UnstableSort"]),
        (36, many(13, priority=1), ["UnstableSort"]),
        (37, cluster({node("n1", cpu="13"): [pod(f"p{n}", priority=n) for n in range(13)]}), []),
        # Up to 1.36 the clock is read at each comparison, later once for each pod.
        (37, cluster({node("n1", cpu="13"): [pod(f"p{n}", start=None) for n in range(13)]}), []),
        (36, cluster({node("n1", cpu="13"): [pod(f"p{n}", start=None) for n in range(13)]}), ["UnstableSort"]),
    ],
)
def test_more_than_12_pods_are_not_sorted_stably(minor, listed, chance):
    _, _, found = candidate_of(built(listed, minor))
    assert found == chance


def test_the_order_of_importance_of_a_policy_is_no_chance():
    policy = replace(UPSTREAM.preemption, importance=("Priority", "QoSClass"))
    snapshot = built(many(13, priority=1), 37)
    found = Evaluation(snapshot, typed(WAITS), replace(UPSTREAM, preemption=policy), NOW).to_dict()
    assert (found["candidates"].keys(), found.get("chance")) == ({"n1"}, None)


def test_why_and_explained_decisions_name_it_for_the_node_and_for_the_choice():
    snapshot = built(of_two_budgets(B1, B2), 37)
    found = diagnose(snapshot, typed(WAITS), KubeScheduler((Profile(),)))
    (n1,) = found.nodes
    assert n1.preemption is not None
    assert found.preemption is not None
    assert (n1.preemption.chance, found.preemption.chance) == (["BudgetOrder"], ["BudgetOrder"])
    decision, _ = preempted(snapshot)
    record, waits = record_preempt(decision, ["n1"]), RecordedPod.of(typed(WAITS))
    kept = KeptDecision("preempt-1", 0, 1.0, waits, Profile(), "answered", "", record).decision()
    assert kept.ranking is not None
    assert (on(kept, "n1").chance, kept.ranking.chance) == (["BudgetOrder"], ["BudgetOrder"])


def test_explanations_name_what_the_engine_calls_chance():
    assert get_args(chance.Chance) == get_args(schema.Chance)
