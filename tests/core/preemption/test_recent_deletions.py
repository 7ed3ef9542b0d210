"""D2, D3: two caches that differ by a deletion. A pod takes 1 cpu unless it says otherwise."""

import pytest

from extender.core import engine
from extender.core.eviction_history import EvictionHistory
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import UPSTREAM, PreemptionPolicy, Profile
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP
from extender.k8s.candidates import SentCandidate
from extender.server.guard.guard import guard_preempt
from tests.builders import STARTED, budget, built, cluster, incoming, namespace, node, pod, typed
from tests.device_builders import undecided_claim

TERMINATING = {"deletionTimestamp": STARTED}
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
APPROVED = {"deletionTimestamp": ASSUMED_DELETION_TIMESTAMP}


def decide(nodes, sent, deleted=(), preemptor=None, profile=UPSTREAM, *, trusts_fit=False, **others):
    """The decision, to which the guard must have no objection; `deleted`: node/pod that was deleted shortly ago."""
    snapshot, waiting = built(cluster(nodes, **others)), typed(preemptor or incoming())
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in sent.items()}
    recent = {f"uid-{name}": node for node, _, name in (one.partition("/") for one in deleted)}
    history = EvictionHistory(recent_deletions=recent, trusts_fit=trusts_fit)
    decision = engine.preempt(snapshot, waiting, made, profile, history)
    looked_at = guard_preempt(
        snapshot, waiting, made, decision.kept, as_sent=decision.as_sent, profile=profile, history=history
    )
    assert looked_at.rejected == {}
    return decision


def kept(*args, **others):
    return [(one.node, [v.metadata.name for v in one.victims]) for one in decide(*args, **others).kept]


# --- our cache has seen the deletion first ----------------------------------------------------------------------------


def test_a_victim_that_is_gone_leaves_its_node_a_candidate():
    """n1 had a, which is gone: b must go as well, for both took 1 of 2 cpus and the pod wants 2. n2 costs more."""
    nodes = {node("n1", cpu="2"): [pod("b")], node("n2", cpu="2"): [pod("c", cpu="2", priority=10)]}
    sent = {"n1": ["a", "b"], "n2": ["c"]}
    assert kept(nodes, sent, ["n1/a"], incoming(cpu="2")) == [("n1", ["b"])]


def test_without_the_knowledge_that_it_is_gone_the_node_is_dropped():
    nodes = {node("n1", cpu="2"): [pod("b")], node("n2", cpu="2"): [pod("c", cpu="2", priority=10)]}
    decision = decide(nodes, {"n1": ["a", "b"], "n2": ["c"]}, [], incoming(cpu="2"))
    assert [one.node for one in decision.kept] == ["n2"]
    assert decision.dropped["n1"].code is RejectionReason.UNKNOWN_VICTIM
    assert decision.contradicts_scheduler


def test_a_victim_gone_from_another_node_is_unknown():
    nodes = {node("n1", cpu="2"): [pod("b")]}
    assert (
        decide(nodes, {"n1": ["a", "b"]}, ["n2/a"], incoming(cpu="2")).dropped["n1"].code
        is RejectionReason.UNKNOWN_VICTIM
    )


def test_a_victim_that_terminates_is_not_evicted_again_and_not_put_back():
    """a is more important than b, and would be put back before b is tried."""
    nodes = {node("n1", cpu="2"): [pod("a", priority=10, metadata=TERMINATING), pod("b")]}
    assert kept(nodes, {"n1": ["a", "b"]}, ["n1/a"], incoming(cpu="2")) == [("n1", ["b"])]


def test_where_only_terminating_victims_remain_on_the_best_node_they_are_named():
    """The pod is nominated to n1, and no further pod goes."""
    nodes = {node("n1", cpu="1"): [pod("a", metadata=TERMINATING)], node("n2", cpu="1"): [pod("b", priority=10)]}
    assert kept(nodes, {"n1": ["a"], "n2": ["b"]}, ["n1/a"]) == [("n1", ["a"])]


def test_a_node_that_ranks_better_is_taken_as_in_kube_scheduler():
    """A pod that terminates for an hour must not hold up all preemptions."""
    nodes = {node("n1", cpu="1"): [pod("a", priority=10, metadata=TERMINATING)], node("n2", cpu="1"): [pod("b")]}
    assert kept(nodes, {"n1": ["a"], "n2": ["b"]}, ["n1/a"]) == [("n2", ["b"])]


def test_a_victim_that_was_approved_and_still_runs_is_named_again():
    """The deletion of a may have failed, and kube-scheduler sends it again."""
    nodes = {node("n1", cpu="2"): [pod("a", metadata=APPROVED), pod("b")]}
    assert kept(nodes, {"n1": ["a", "b"]}, ["n1/a"], incoming(cpu="2")) == [("n1", ["a", "b"])]


def test_where_all_victims_of_a_node_are_gone_no_pod_is_evicted():
    nodes = {node("n1", cpu="1"): [], node("n2", cpu="1"): [pod("b")]}
    decision = decide(nodes, {"n1": ["a"], "n2": ["b"]}, ["n1/a"])
    assert decision.kept == ()
    assert decision.vetoed == "no eviction is needed: the victims on node n1 are gone"
    assert {dropped.code for dropped in decision.dropped.values()} == {RejectionReason.NOT_NEEDED}


def test_a_deletion_of_a_pod_that_kube_scheduler_did_not_choose_proves_nothing():
    """n1 has 2 cpus, and b is gone: kube-scheduler knows that, or has a reason that is not known here."""
    nodes = {node("n1", cpu="2"): [pod("a")], node("n2", cpu="1"): [pod("c")]}
    assert kept(nodes, {"n1": ["a"], "n2": ["c"]}, ["n1/b"]) == [("n2", ["c"])]


def test_where_the_pod_fits_after_a_deletion_kube_scheduler_is_trusted_to_see_it_once():
    nodes = {node("n1", cpu="2"): [pod("a")], node("n2", cpu="1"): [pod("c")]}
    decision = decide(nodes, {"n1": ["a"], "n2": ["c"]}, ["n1/b"], trusts_fit=True)
    assert decision.vetoed == "no eviction is needed: the pod fits on node n1 now"
    assert decision.contradicts_scheduler
    assert kept(nodes, {"n1": ["a"], "n2": ["c"]}, ["n3/b"], trusts_fit=True) == [("n2", ["c"])]


def test_a_pod_that_fits_for_another_reason_is_a_node_less():
    """Without a deletion: kube-scheduler has a reason that is not known here."""
    nodes = {node("n1", cpu="2"): [pod("a")], node("n2", cpu="1"): [pod("c")]}
    decision = decide(nodes, {"n1": ["a"], "n2": ["c"]})
    assert [one.node for one in decision.kept] == ["n2"]
    assert decision.dropped["n1"].code is RejectionReason.FITS


def test_a_pod_that_terminates_for_long_is_a_victim_as_in_kube_scheduler():
    nodes = {node("n1", cpu="1"): [pod("a", metadata=TERMINATING)]}
    assert kept(nodes, {"n1": ["a"]}) == [("n1", ["a"])]


def test_room_that_another_nominated_pod_waits_for_is_not_free():
    nominated = pod("other", priority=1000, start=None, phase="Pending", status={"nominatedNodeName": "n1"})
    nodes = {node("n1", cpu="1"): [pod("a", metadata=TERMINATING)], node("n2", cpu="1"): [pod("b")]}
    assert kept(nodes, {"n1": ["a"], "n2": ["b"]}, ["n1/a"], waiting=[nominated]) == [("n2", ["b"])]


def test_nodes_are_ranked_with_the_victims_that_terminate():
    """As in kube-scheduler: n1 costs a pod of priority 10, though that one terminates; b on n1 has to go too."""
    nodes = {
        node("n1", cpu="2"): [pod("a", priority=10, metadata=TERMINATING), pod("b")],
        node("n2", cpu="2"): [pod("c"), pod("d")],
    }
    assert kept(nodes, {"n1": ["a", "b"], "n2": ["c", "d"]}, ["n1/a"], incoming(cpu="2")) == [("n2", ["c", "d"])]


def test_a_budget_counts_the_victim_that_terminates():
    nodes = {
        node("n1", cpu="2"): [
            pod(name, labels={"app": "web"}, metadata=TERMINATING if name == "a" else None) for name in "ab"
        ]
    }
    (one,) = decide(nodes, {"n1": ["a", "b"]}, ["n1/a"], incoming(cpu="2"), budgets=[budget(allowed=1, app="web")]).kept
    assert ([victim.metadata.name for victim in one.victims], one.num_pdb_violations) == (["b"], 1)


# --- the nominated node -----------------------------------------------------------------------------------------------


def test_a_pod_that_fits_on_its_nominated_node_now_evicts_nobody():
    nodes = {node("n1", cpu="1"): [], node("n2", cpu="1"): [pod("b")]}
    waiting = incoming(status={"nominatedNodeName": "n1"})
    decision = decide(nodes, {"n2": ["b"]}, ["n1/a"], waiting)
    assert decision.vetoed == "no eviction is needed: the pod fits on its nominated node n1 now"


def test_a_pod_whose_victims_terminate_on_its_nominated_node_evicts_nobody():
    nodes = {node("n1", cpu="1"): [pod("a", metadata=TERMINATING, status=PREEMPTED)], node("n2", cpu="1"): [pod("b")]}
    waiting = incoming(status={"nominatedNodeName": "n1"})
    assert "terminating pod on the nominated node" in str(decide(nodes, {"n2": ["b"]}, ["n1/a"], waiting).vetoed)
    assert kept(nodes, {"n2": ["b"]}, [], waiting) == [("n2", ["b"])]


# --- kube-scheduler has seen the deletion first -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "deleted"),
    [
        pytest.param(APPROVED, [], id="approved here"),
        pytest.param(TERMINATING, ["n1/x"], id="terminating since shortly"),
    ],
)
def test_a_pod_that_kube_scheduler_no_longer_holds_costs_no_further_victim(metadata, deleted):
    """x is more important than the incoming pod. On n1 a alone makes room, if x is gone; n2 costs more."""
    nodes = {
        node("n1", cpu="2"): [pod("x", priority=5000, metadata=metadata), pod("a", cpu="2")],
        node("n2", cpu="1"): [pod("b", priority=10)],
    }
    assert kept(nodes, {"n1": ["a"], "n2": ["b"]}, deleted) == [("n1", ["a"])]


def test_a_pod_that_terminates_and_was_not_chosen_holds_its_room_where_nothing_contradicts():
    nodes = {node("n1", cpu="2"): [pod("x", priority=5000, metadata=TERMINATING), pod("a")]}
    assert kept(nodes, {"n1": ["a"]}, ["n1/x"]) == [("n1", ["a"])]


# --- where kube-scheduler decides -------------------------------------------------------------------------------------


def test_kube_schedulers_victims_without_the_one_that_terminates():
    claims = undecided_claim("gpu")
    waiting = incoming(cpu="2", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    nodes = {node("n1", cpu="2"): [pod("a", metadata=TERMINATING), pod("b")]}
    decision = decide(nodes, {"n1": ["a", "b"]}, ["n1/a"], waiting, others=claims)
    assert [[victim.metadata.name for victim in one.victims] for one in decision.kept] == [["b"]]
    assert decision.as_sent == {"n1"}


def test_with_policies_too():
    nodes = {node("n1", cpu="2"): [pod("a", priority=10, metadata=TERMINATING), pod("b")]}
    strict = Profile(preemption=PreemptionPolicy(disruption_budgets="Strict", candidates="AllNodes"))
    assert kept(nodes, {"n1": ["a", "b"]}, ["n1/a"], incoming(cpu="2"), strict) == [("n1", ["b"])]


# --- /filter ----------------------------------------------------------------------------------------------------------


def filtered(nodes, preemptor=None, **others):
    snapshot = built(cluster(nodes, **others))
    return engine.filter(snapshot, typed(preemptor or incoming()), snapshot.node_names, UPSTREAM)


@pytest.mark.parametrize("metadata", [TERMINATING, APPROVED], ids=["terminating", "approved here"])
def test_on_an_offered_node_the_room_of_terminating_pods_is_free(metadata):
    decision = filtered({node("n1", cpu="1"): [pod("a", metadata=metadata)], node("n2", cpu="1"): [pod("b")]})
    assert decision.accepted == (0,)
    assert list(decision.failed) == ["n2"]


def test_room_that_live_pods_hold_is_not_free():
    decision = filtered({node("n1", cpu="2"): [pod("a", metadata=TERMINATING), pod("b", cpu="2", priority=5000)]})
    assert decision.accepted == ()


def test_a_node_that_no_eviction_helps_stays_unresolvable():
    decision = filtered({node("n1", cpu="1", unschedulable=True): [pod("a", metadata=TERMINATING)]})
    assert list(decision.unresolvable) == ["n1"]


def test_the_nominated_node_is_not_unresolvable_while_victims_terminate_there():
    """kube-scheduler would preempt elsewhere at once. b keeps the pod out, not the terminating one."""
    nodes = {node("n1", cpu="2"): [pod("a", metadata=TERMINATING, status=PREEMPTED), pod("b", cpu="2")]}
    decision = filtered(nodes, incoming(cpu="2", status={"nominatedNodeName": "n1"}))
    assert (list(decision.failed), decision.unresolvable) == (["n1"], {})
    assert decision.contradicts_scheduler


def test_such_a_node_is_scored_as_one_where_the_pod_fits():
    snapshot = built(cluster({node("n1", cpu="1"): [pod("a", metadata=TERMINATING)], node("n2", cpu="1"): []}))
    decision = engine.prioritize(snapshot, typed(incoming()), ["n1", "n2"], UPSTREAM)
    assert min(decision.scores) > 0


def test_topology_spread_does_not_count_terminating_pods_in_the_first_place():
    """n1 has one live pod of app web, n2 none: one more on n1 is too many, whatever terminates there."""
    web, by_host = {"app": "web"}, {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname"}
    spread = [by_host | {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]
    nodes = {node("n1"): [pod("a", labels=web), pod("b", metadata=TERMINATING, labels=web)], node("n2"): []}
    decision = filtered(nodes, incoming(topologySpreadConstraints=spread, labels=web))
    assert decision.accepted == (1,)


# --- equal choices ----------------------------------------------------------------------------------------------------


def test_an_equal_choice_is_no_sign_of_another_cache():
    """n1 has 3 cpus: x terminates, and of a and b, which are equal, kube-scheduler chose a."""
    nodes = {
        node("n1", cpu="3"): [pod("x", priority=5000, metadata=TERMINATING), pod("a"), pod("b")],
        node("n2", cpu="1"): [pod("c", priority=10)],
    }
    for named in "ab":
        assert kept(nodes, {"n1": [named], "n2": ["c"]}, ["n1/x"]) == [("n1", [named])]


def test_a_protected_victim_beside_one_that_is_gone_needs_no_veto():
    claims = undecided_claim("gpu")
    waiting = incoming(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    nodes = {node("n1", cpu="2"): [pod("p", namespace="other")], node("n2", cpu="2"): [pod("b")]}
    tenants = Profile(preemption=PreemptionPolicy(tenant_label="tenant"))
    spaces = [namespace("default", tenant="x"), namespace("other", tenant="y")]
    sent = {"n1": ["gone", "p"], "n2": ["b"]}
    assert kept(nodes, sent, ["n1/gone"], waiting, tenants, others=claims, namespaces=spaces) == [("n2", ["b"])]
