"""What must hold for any policies of preemption, on the cases of `policies.py`; each example is a seed.

What is counted again here is counted in plain Python on the raw objects, and not as the engine or its guard do it.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from extender.core import engine
from extender.core.eviction_history import Attempt, Eviction, EvictionHistory
from extender.core.framework.filter import scheduling_context
from extender.core.preemption.potential_victims import potential_victims
from extender.core.profile import Limits, PreemptionPolicy, Profile
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.k8s.candidates import SentCandidate
from extender.k8s.time import MINUTE, SECOND
from extender.server.guard.guard import guard_preempt
from tests.builders import built, drop_messages, typed
from tests.parity.reference.selectors import InvalidSelectorError, Selector, label_selector
from tests.profiles import SEEDS, examples
from tests.property.generate import REFERENCE_FEATURES, Draw
from tests.property.policies import NOW, every_node, question, some_protections
from tests.property.recount import Room, finished, priority

MANY = examples(6, 120, 20_000)
SOME = examples(5, 60, 10_000)
FEW = examples(2, 30, 5_000)
"""Cases of each of several policies."""

UPSTREAM = PreemptionPolicy()
STRICT = PreemptionPolicy(disruption_budgets="Strict")

NARROWING = {
    "strict budgets": STRICT,
    "strict and live budgets": replace(STRICT, budget_accounting="Live"),
    "strict budgets, an empty selector means all": replace(STRICT, empty_selector="Everything"),
    "at most two victims": PreemptionPolicy(limits=Limits(max_victims=2)),
    "evictions a minute": PreemptionPolicy(limits=Limits(evictions_per_minute=3)),
    "evictions a minute in a namespace": PreemptionPolicy(limits=Limits(namespace_evictions_per_minute=2)),
    "attempts": PreemptionPolicy(limits=Limits(max_attempts=1)),
    "a while pending": PreemptionPolicy(min_pending_duration=10 * SECOND),
}
"""Policies that only rule out nodes, or sets of victims."""

PROTECTING = {
    "protections": PreemptionPolicy(protections=some_protections(Draw(1), share=1.0)),
    "toleration": PreemptionPolicy(preemption_toleration=True),
    "tenants": PreemptionPolicy(tenant_label="team"),
    "workloadCooldown": PreemptionPolicy(limits=Limits(workload_cooldown=5 * MINUTE)),
}
"""Policies that rule out victims."""

OTHERS = {
    "live budgets": PreemptionPolicy(budget_accounting="Live"),
    "all nodes": PreemptionPolicy(candidates="AllNodes"),
}


def each(policies):
    return pytest.mark.parametrize("policy", [pytest.param(one, id=name) for name, one in policies.items()])


class Asked:
    """A question, the snapshot to ask, and what is said of it."""

    def __init__(self, seed, policy=None, keep=None, everywhere=False):
        self.question = question(seed, policy, keep)
        self.snapshot = built(self.question.cluster, REFERENCE_FEATURES)
        if everywhere:
            self.question = replace(self.question, sent=every_node(self.snapshot, self.question.pod))
        self.decision = self.question.ask(self.snapshot)
        items = self.question.cluster["items"]
        self.pods = {item["metadata"]["uid"]: item for item in items if item["kind"] == "Pod"}
        self.limit = priority(self.question.pod)

    @property
    def policy(self):
        return self.question.profile.preemption

    def under(self, policy):
        """Ask the same question of the same snapshot under another policy."""
        profile = replace(self.question.profile, preemption=policy)
        return replace(self.question, profile=profile).ask(self.snapshot)

    def evictable(self, policy):
        """[k, node], in upstream's layout."""
        profile = replace(self.question.profile, preemption=policy)
        context = scheduling_context(self.snapshot, typed(self.question.pod), profile, self.question.history)
        return potential_victims(context).evictable.mask.copy()

    def judged(self):
        """(node, victims) of the candidates that we judge ourselves."""
        return [(node, uids) for node, uids in chosen(self.decision).items() if node not in self.decision.as_sent]


def chosen(decision):
    return {one.node: [victim.metadata.uid for victim in one.victims] for one in decision.kept}


# --- policies only narrow ---------------------------------------------------------------------------------------------


@each(NARROWING | PROTECTING | {"live budgets": OTHERS["live budgets"]})
@FEW
@given(SEEDS)
def test_nobody_may_be_evicted_whom_kube_scheduler_would_not(policy, seed):
    asked = Asked(seed, policy)
    mask, upstreams = asked.evictable(policy), asked.evictable(UPSTREAM)
    assert not (mask & ~upstreams).any(), "a policy adds a potential victim"
    if policy not in PROTECTING.values():
        assert (mask == upstreams).all(), "without policies, other potential victims than upstream"


@each(NARROWING)
@FEW
@given(SEEDS)
def test_a_policy_that_rules_out_nodes_adds_none(policy, seed):
    """And of those that are left the victims are kube-scheduler's, but for the other order of strict budgets."""
    asked = Asked(seed, policy, everywhere=True)
    upstreams = chosen(asked.under(UPSTREAM))
    kept = chosen(asked.decision)
    assert kept.keys() <= upstreams.keys(), "a policy adds a candidate"
    if policy.disruption_budgets == "BestEffort":
        assert kept == {node: upstreams[node] for node in kept}, "a policy changes the victims of a node"


@each(PROTECTING | OTHERS)
@FEW
@given(SEEDS)
def test_victims_are_of_lower_priority_run_there_and_their_loss_makes_room(policy, seed):
    """They may be others than kube-scheduler's."""
    makes_room(Asked(seed, policy))


@MANY
@given(SEEDS)
def test_victims_are_of_lower_priority_run_there_and_their_loss_makes_room_under_any_policies(seed):
    makes_room(Asked(seed))


def makes_room(asked):
    if not asked.decision.kept:
        return
    room = Room.of(asked.question.cluster, asked.question.pod)
    for node, uids in chosen(asked.decision).items():
        victims = [asked.pods[uid] for uid in uids]
        assert uids, "a candidate without victims"
        assert len(set(uids)) == len(uids), "a victim twice"
        assert all(victim["spec"]["nodeName"] == node and not finished(victim) for victim in victims), (
            "a victim that does not run there"
        )
        assert all(priority(victim) < asked.limit for victim in victims), "a victim of the preemptor's priority or more"
    for node, uids in asked.judged():
        assert room.complaint(node, uids) is None, "without its victims the node does not take the pod"


@SOME
@given(SEEDS)
def test_a_veto_leaves_nothing(seed):
    """Cases of any policies that would have answered something."""
    asked = Asked(seed)
    uid, workload = asked.question.pod["metadata"]["uid"], ("default", "Pod", "x")
    before = EvictionHistory(NOW, (Eviction(SECOND, workload),) * 3, (Attempt(SECOND, uid),) * 3)
    for vetoing in (
        replace(asked.policy, min_pending_duration=60 * SECOND),
        replace(asked.policy, limits=Limits(max_attempts=3)),
        replace(asked.policy, limits=Limits(evictions_per_minute=3)),
    ):
        profile = replace(asked.question.profile, preemption=vetoing)
        decision = replace(asked.question, profile=profile, history=before).ask(asked.snapshot)
        assert decision.vetoed
        assert decision.kept == (), "a veto with candidates"
        assert drop_messages(decision) == dict.fromkeys(asked.question.sent, decision.vetoed), (
            "a node of a veto has another message"
        )


# --- strict budgets ---------------------------------------------------------------------------------------------------


def broken(asked, uids):
    """Names of the budgets that these victims really break, by the raw objects."""
    items, policy = asked.question.cluster["items"], asked.policy
    budgets = [item for item in items if item["kind"] == "PodDisruptionBudget"]
    victims = [asked.pods[uid] for uid in uids]
    if policy.budget_accounting == "Live":
        return broken_live(asked, budgets, victims)
    charges = Counter(
        place for place, one in enumerate(budgets) for victim in victims if charges_for(one, victim, policy)
    )
    return [budgets[place] for place, count in charges.items() if count > max(allowed(budgets[place]), 0)]


def allowed(budget):
    return budget["status"].get("disruptionsAllowed", 0)


def is_selected(budget, pod, policy):
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    try:
        selector = label_selector(budget["spec"].get("selector"))
    except InvalidSelectorError:
        selector = Selector(None)
    if selector.is_empty:
        return policy.empty_selector == "Everything"
    labels = pod["metadata"].get("labels")
    return bool(labels) and selector.matches(labels)


def is_charged_already(budget, pod):
    return pod["metadata"]["name"] in (budget["status"].get("disruptedPods") or {})


def charges_for(budget, pod, policy):
    return is_selected(budget, pod, policy) and not is_charged_already(budget, pod)


def is_ready(pod):
    conditions = [one for one in pod["status"].get("conditions") or () if one["type"] == "Ready"]
    return bool(conditions) and conditions[0]["status"] == "True"


def broken_live(asked, budgets, victims):
    """As the eviction API would say: a pod of several budgets never goes; who leaves or has not started is free."""
    found, ready, unready = [], Counter[int](), Counter[int]()
    for victim in victims:
        own = [place for place, one in enumerate(budgets) if is_selected(one, victim, asked.policy)]
        if not own or victim["metadata"].get("deletionTimestamp") or victim["status"].get("phase") == "Pending":
            continue
        if len(own) > 1:
            found += [budgets[place] for place in own]
        elif not is_charged_already(budgets[own[0]], victim):
            (ready if is_ready(victim) else unready)[own[0]] += 1
    for place in ready + unready:
        may_go, unready_go_free = left_over(asked, budgets[place])
        charged = ready[place] + (0 if unready_go_free else unready[place])
        if charged > max(may_go, 0):
            found.append(budgets[place])
    return found


def left_over(asked, budget):
    """How many healthy pods may be lost, and whether those that are not ready need not be counted."""
    status, nodes = budget["status"], set(asked.snapshot.node_names)
    of_it = [
        pod
        for pod in asked.pods.values()
        if pod["spec"].get("nodeName") in nodes and not finished(pod) and charges_for(budget, pod, asked.policy)
    ]
    stamps = [pod["metadata"].get("deletionTimestamp") for pod in of_it if is_ready(pod)]
    healthy, approved = stamps.count(None), stamps.count(ASSUMED_DELETION_TIMESTAMP)
    desired = status["desiredHealthy"]
    free = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    free = free or (desired > 0 and min(healthy, status["currentHealthy"]) >= desired)
    if status["observedGeneration"] < budget["metadata"]["generation"]:
        return 0, free
    return min(allowed(budget) - approved, healthy - desired), free


@MANY
@given(SEEDS)
def test_no_candidate_of_strict_budgets_breaks_one(seed):
    """Under any other policies, and as offered, too."""
    asked = Asked(seed)
    strict = Asked(seed, replace(asked.policy, disruption_budgets="Strict"))
    for one in strict.decision.kept:
        assert one.num_pdb_violations == 0, "a PDB violation under strict budgets"
        assert broken(strict, [victim.metadata.uid for victim in one.victims]) == [], (
            "the victims violate a budget by our own count"
        )


@pytest.mark.parametrize("accounting", ["Reported", "Live"])
@FEW
@given(SEEDS)
def test_strict_budgets_rule_out_no_node_where_kube_schedulers_victims_break_none(accounting, seed):
    """And the reason that is given names a budget wherever they do."""
    strict = Asked(seed, replace(STRICT, budget_accounting=accounting), everywhere=True)
    kept = chosen(strict.decision)
    upstream = strict.under(replace(UPSTREAM, budget_accounting=accounting))
    for node, uids in chosen(upstream).items():
        if not broken(strict, uids):
            assert kept[node] == uids, "a node without PDB violations has other victims"
        elif node not in kept:
            assert drop_messages(strict.decision)[node].startswith("would break disruption budget"), (
                "dropped for another reason than its budget"
            )


# --- candidates: all nodes --------------------------------------------------------------------------------------------


def is_special(pod):
    metadata = pod["metadata"]
    mirror = "kubernetes.io/config.mirror" in (metadata.get("annotations") or {})
    return mirror or bool(metadata.get("deletionTimestamp")) or priority(pod) >= 2_000_000_000


@MANY
@given(SEEDS)
def test_E4_no_special_pod_is_a_victim_that_kube_scheduler_did_not_name(seed):
    asked = Asked(seed)
    everywhere = Asked(seed, replace(asked.policy, candidates="AllNodes"))
    for node, uids in chosen(everywhere.decision).items():
        assert node in everywhere.snapshot.node_row, "an unknown node"
        offer = everywhere.question.sent.get(node, SentCandidate(()))
        assert not [uid for uid in uids if uid not in offer.victims and is_special(everywhere.pods[uid])], (
            "a special pod is a victim that kube-scheduler did not name"
        )


UPSTREAMS_WAY = ("PDBViolations", "HighestPriority", "PrioritySum", "VictimCount", "LatestStartTime")


def cost(asked, kept):
    """By upstream's ranking: the smaller, the better."""
    priorities = [victim.priority for victim in kept.victims]
    return kept.num_pdb_violations, max(priorities), sum(priorities) + len(priorities) * 2**31, len(priorities)


@SOME
@given(SEEDS)
def test_the_best_of_all_nodes_is_no_worse_than_the_best_of_the_offered_ones(seed):
    """Without special pods, which may be victims under Offered."""
    asked = Asked(seed, PreemptionPolicy(candidates="AllNodes"))
    offered = asked.under(UPSTREAM)
    victims = [asked.pods[uid] for uids in chosen(offered).values() for uid in uids]
    if offered.kept and not any(is_special(pod) for pod in [*asked.pods.values()]):
        assert victims
        assert cost(asked, asked.decision.kept[0]) <= cost(asked, offered.kept[0]), (
            "the best of all nodes costs more than the best of the offered ones"
        )
        assert chosen(asked.decision).items() >= chosen(offered).items()


# --- the guard, and sameness ------------------------------------------------------------------------------------------


@MANY
@given(SEEDS)
def test_the_guard_accepts_whatever_policies_choose(seed):
    asked = Asked(seed, keep=None if seed % 2 else 1)
    one = asked.question
    result = guard_preempt(
        asked.snapshot,
        typed(one.pod),
        one.sent,
        asked.decision.kept,
        as_sent=asked.decision.as_sent,
        profile=one.profile,
        history=one.history,
    )
    assert result.rejected == {}, "the guard rejects an answer of the policies"


@SOME
@given(SEEDS)
def test_the_same_question_has_the_same_answer(seed):
    """From the same snapshot, from a new one, and after other policies were asked about; and all nodes are told."""
    asked, other = Asked(seed), question(seed + 1)
    assert asked.question.ask(asked.snapshot) == asked.decision, "asked again, the snapshot answers otherwise"
    assert asked.question.ask(built(asked.question.cluster, REFERENCE_FEATURES)) == asked.decision, (
        "a new snapshot answers otherwise"
    )
    changed = built(asked.question.cluster, REFERENCE_FEATURES)
    replace(asked.question, profile=other.profile, history=other.history).ask(changed)
    replace(asked.question, profile=Profile(keep_candidates=None)).ask(changed)
    assert asked.question.ask(changed) == asked.decision, "after changes that were undone, it answers otherwise"
    told = chosen(asked.decision).keys() | asked.decision.dropped.keys()
    assert told >= asked.question.sent.keys()
    assert not chosen(asked.decision).keys() & asked.decision.dropped.keys()


@SOME
@given(SEEDS)
def test_one_candidate_is_the_first_of_all(seed):
    everything, one = Asked(seed), Asked(seed, keep=1)
    assert one.decision.kept == everything.decision.kept[:1], "the one candidate is not the best of all"


@SOME
@given(SEEDS)
def test_filter_says_that_eviction_helps_where_preempt_finds_somebody(seed):
    """Where all nodes are offered. In /filter special pods may be victims; in /preempt if kube-scheduler names them."""
    asked = Asked(seed, everywhere=True)
    one = asked.question
    if asked.decision.as_sent or asked.policy.candidates == "AllNodes":
        return
    names = asked.snapshot.node_names
    failed = engine.filter(asked.snapshot, typed(one.pod), names, one.profile, one.history).failed
    for node in failed.keys() - chosen(asked.decision).keys():
        assert any(is_special(asked.pods[pod.metadata.uid]) for pod in asked.snapshot.pods_on(node))
    scores = engine.prioritize(asked.snapshot, typed(one.pod), names, one.profile, one.history).scores
    assert all(score > 0 for name, score in zip(names, scores, strict=True) if name in failed), (
        "a candidate that no eviction helps"
    )
    assert np.count_nonzero(scores) >= len(failed), "fewer nodes may be helped than failed"
