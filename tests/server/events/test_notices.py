"""What Events say about a preemption, and what of it other namespaces learn."""

import pytest

from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.profile import Limits, PreemptionPolicy, Protection
from extender.k8s.time import SECOND, parse_time
from extender.server.events.notices import is_worth_events, notices
from tests.builders import budget, incoming, node, pod
from tests.server.events.preemptions import answered, decide, reported

URGENT = incoming("urgent", "4", namespace="shop")
"""Needs a whole node."""

NOW = parse_time("2026-01-01T12:00:00Z")
STRICT = PreemptionPolicy(disruption_budgets="Strict")


def occupied(name="n1", **fields):
    """A node whose only pod, of 3 of its 4 cores, is in the way."""
    return {node(name): [pod(f"low-{name}", "3", priority=10, **fields)]}


# --- pods are evicted -----------------------------------------------------------------------------------------------


def test_the_preemptor_learns_where_and_why_and_the_victim_for_whom():
    nodes = occupied("n1", namespace="shop") | {
        node("n2"): [pod("low-n2", "3", priority=20, namespace="shop")],
    }
    of_preemptor = (
        "Preempting on node n1, best of 2 candidates by the highest priority among its victims, 10 against 20; "
        "evicting shop/low-n1"
    )
    of_victim = (
        "Chosen for eviction from node n1: pod shop/urgent of priority 1000 takes the room, this pod has priority 10"
    )
    assert reported(answered(nodes, URGENT)) == [
        ("PreemptionNominated", "shop/urgent", of_preemptor),
        ("PreemptionVictim", "shop/low-n1", of_victim),
    ]


def test_nobody_is_named_in_the_events_of_another_namespace():
    """What the Events of a namespace say is read by its tenant: neither learns what the other's pod is called."""
    nodes = {node("n1"): [pod(f"low-{n}", "2", priority=10, namespace="batch") for n in range(2)]}
    preemption = answered(nodes, URGENT)
    preemptor, *victims = notices(preemption, names_across_namespaces=False)
    assert preemptor.note == "Preempting on node n1, the only candidate; evicting 2 pods of other namespaces"
    for victim in victims:
        assert victim.note == (
            "Chosen for eviction from node n1: a pod of another namespace of priority 1000 takes the room, this pod "
            "has priority 10"
        )
        assert victim.related is None
    assert len(victims) == 2


def test_all_are_named_where_that_is_allowed():
    nodes = {node("n1"): [pod("low", "3", priority=10, namespace="batch")]}
    preemptor, victim = notices(answered(nodes, URGENT), names_across_namespaces=True)
    assert "evicting batch/low" in preemptor.note
    assert "pod shop/urgent of priority 1000" in victim.note
    assert victim.related is not None
    assert victim.related.key == "shop/urgent"


def test_of_many_victims_a_few_are_named():
    own = [pod(f"own-{n}", "500m", priority=10, namespace="shop") for n in range(5)]
    others = [pod(f"other-{n}", "500m", priority=10, namespace="batch") for n in range(3)]
    (_, _, note), *_ = reported(answered({node("n1"): own + others}, URGENT))
    assert note.count("shop/own-") == 3
    assert note.endswith(" and 2 more and 3 pods of other namespaces")


def test_a_pod_that_terminates_already_is_told_nothing():
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    going = pod("going", "2", priority=10, namespace="shop", metadata=deleted)
    low = pod("low", "2", priority=10, namespace="shop")
    reasons = [(reason, key) for reason, key, _ in reported(answered({node("n1"): [going, low]}, URGENT))]
    assert reasons == [("PreemptionNominated", "shop/urgent"), ("PreemptionVictim", "shop/low")]


def test_of_several_nodes_kube_scheduler_chooses_so_that_no_victim_is_known():
    nodes = occupied("n1") | occupied("n2")
    ((reason, key, note),) = reported(answered(nodes, URGENT, keep=None))
    assert (reason, key) == ("PreemptionNominated", "shop/urgent")
    assert note.startswith("Preemption candidates: n1 is the ")
    assert note.endswith("; kube-scheduler chooses among 2 nodes")


# --- a policy is in the way -----------------------------------------------------------------------------------------


def test_a_veto_says_until_when_and_by_which_policy():
    created = {"creationTimestamp": "2026-01-01T11:59:50Z"}
    preemptor = incoming("urgent", "4", namespace="shop", metadata=created)
    policy = PreemptionPolicy(min_pending_duration=30 * SECOND)
    assert reported(answered(occupied(), preemptor, policy, history=EvictionHistory(NOW))) == [
        (
            "PreemptionVetoed",
            "shop/urgent",
            "No pod is evicted: pending for less than 30s: may not preempt until 2026-01-01T12:00:20Z",
        )
    ]


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (STRICT, "disruptionBudgets: Strict"),
        (PreemptionPolicy(limits=Limits(max_victims=1)), "limits.maxVictims: 1"),
        (PreemptionPolicy(limits=Limits(evictions_per_minute=1)), "limits.evictionsPerMinute: 1"),
        (
            PreemptionPolicy(limits=Limits(namespace_evictions_per_minute=1)),
            "limits.evictionsPerMinutePerNamespace: 1",
        ),
    ],
)
def test_a_veto_of_the_victims_names_the_policy_and_neither_pods_nor_budgets(policy, named):
    """Pods, budgets and their namespaces may be those of another tenant."""
    both = [pod(f"secret-{n}", "2", priority=10, namespace="batch", labels={"app": "x"}) for n in range(2)]
    preemption = answered({node("n1"): both}, URGENT, policy, budgets=[budget("secret", namespace="batch", app="x")])
    ((reason, _, note),) = reported(preemption)
    assert reason == "PreemptionVetoed"
    assert note == f"No pod is evicted: {named} rejects the victims on 1 node"
    ((_, _, in_full),) = reported(preemption, names_across_namespaces=True)
    assert in_full != note


PER_MINUTE = PreemptionPolicy(limits=Limits(evictions_per_minute=2))
PER_NAMESPACE = PreemptionPolicy(limits=Limits(namespace_evictions_per_minute=2))


@pytest.mark.parametrize(
    ("policy", "named", "ages", "until"),
    [
        (PER_MINUTE, "limits.evictionsPerMinute: 2", (30,), "2026-01-01T12:00:30Z"),
        (PER_NAMESPACE, "limits.evictionsPerMinutePerNamespace: 2", (30,), "2026-01-01T12:00:30Z"),
        (PER_NAMESPACE, "limits.evictionsPerMinutePerNamespace: 2", (40, 50), "2026-01-01T12:00:20Z"),
    ],
)
def test_a_veto_of_a_rate_limit_says_until_when_it_holds_on_every_node(policy, named, ages, until):
    """The time names no pod and no namespace; n1 has more victims than the limit ever allows."""
    nodes = {
        node(name): [pod(f"{name}-{n}", f"{4000 // count}m", priority=10, namespace="batch") for n in range(count)]
        for name, count in (("n1", 3), ("n2", 2))
    }
    past = EvictionHistory(NOW, evictions=tuple(Eviction(ago * SECOND, ("batch", "Pod", "old")) for ago in ages))
    ((_, _, note),) = reported(answered(nodes, URGENT, policy, history=past))
    assert note == f"No pod is evicted: {named} rejects the victims on 2 nodes, until {until} at least"


def test_a_cooldown_says_until_when_the_first_workload_is_protected():
    policy = PreemptionPolicy(limits=Limits(workload_cooldown=60 * SECOND))
    nodes = occupied("n1", namespace="batch") | occupied("n2", namespace="batch")
    evictions = tuple(Eviction(ago * SECOND, ("batch", "Pod", f"low-{name}")) for ago, name in ((10, "n1"), (20, "n2")))
    ((_, _, note),) = reported(answered(nodes, URGENT, policy, history=EvictionHistory(NOW, evictions=evictions)))
    assert note == (
        "No pod is evicted: pods that policies protect are in the way on 2 nodes, until 2026-01-01T12:00:40Z at least"
    )


def test_protected_pods_are_counted_by_node():
    policy = PreemptionPolicy(protections=(Protection("batch-pods", namespaces=frozenset({"batch"})),))
    nodes = occupied("n1", namespace="batch") | occupied("n2", namespace="batch")
    preemption = answered(nodes, URGENT, policy)
    ((_, _, note),) = reported(preemption)
    assert note == "No pod is evicted: pods that policies protect are in the way on 2 nodes"
    ((_, _, in_full),) = reported(preemption, names_across_namespaces=True)
    assert "batch/low-n1 is protected by batch-pods" in in_full


# --- nothing to say ---------------------------------------------------------------------------------------------------


def test_where_no_policy_is_the_reason_kube_schedulers_own_event_says_it_all():
    decision, _ = decide({node("n1"): [pod("high", "3", priority=2000)]}, URGENT)
    assert not decision.kept
    assert not is_worth_events(decision)


def test_a_limit_that_is_not_reached_says_nothing():
    history = EvictionHistory(NOW, evictions=(Eviction(90 * SECOND, ("shop", "Deployment", "old")),))
    policy = PreemptionPolicy(limits=Limits(evictions_per_minute=2))
    reasons = [reason for reason, _, _ in reported(answered(occupied(), URGENT, policy, history=history))]
    assert reasons == ["PreemptionNominated", "PreemptionVictim"]
