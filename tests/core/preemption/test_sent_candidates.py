"""Where two choices are equal, the victims that kube-scheduler named are preferred: it surely knows them."""

import pytest

from extender.core import engine
from extender.core.preemption.sent_candidates import DropCode, SentCandidate, resolve_candidates
from extender.core.profile import Profile
from tests.builders import budget, built, cluster, incoming, node, pod, typed


def preempt(nodes, sent, pod, keep=None, **others):
    snapshot = built(cluster(nodes, **others))
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in sent.items()}
    decision = engine.preempt(snapshot, typed(pod), made, Profile(keep_candidates=keep))
    return {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}


def test_of_two_equal_pods_the_one_that_was_named_goes():
    nodes = {node("n1", cpu="2"): [pod("a"), pod("b")]}
    assert preempt(nodes, {"n1": ["a"]}, incoming()) == {"n1": ["a"]}
    assert preempt(nodes, {"n1": ["b"]}, incoming()) == {"n1": ["b"]}


def test_as_many_as_were_named_are_taken():
    nodes = {node("n1", cpu="4"): [pod("a"), pod("b"), pod("c"), pod("d")]}
    assert preempt(nodes, {"n1": ["b", "d"]}, incoming(cpu="2")) == {"n1": ["b", "d"]}
    assert preempt(nodes, {"n1": ["b"]}, incoming(cpu="2")) == {"n1": ["b", "d"]}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("b", priority=1), id="a more important pod stays"),
        pytest.param(pod("b", start="2025-01-01T00:00:00Z"), id="a pod that started earlier stays"),
        pytest.param(pod("b", cpu="2"), id="a pod that takes more would not be put back"),
    ],
)
def test_choices_that_are_not_equal_are_not_changed(other):
    nodes = {node("n1", cpu="3"): [other, pod("a")]}
    taken = preempt(nodes, {"n1": []}, incoming())
    assert preempt(nodes, {"n1": ["b"]}, incoming()) == taken


def test_a_named_pod_whose_loss_breaks_a_budget_is_not_taken_for_another():
    nodes = {node("n1", cpu="2"): [pod("a", labels={"app": "kept"}), pod("b")]}
    budgets = [budget(app="kept")]
    assert preempt(nodes, {"n1": ["a"]}, incoming(), budgets=budgets) == {"n1": ["b"]}


def test_of_two_nodes_that_cost_the_same_the_one_whose_victims_were_named_is_first():
    nodes = {node(name, cpu="1"): [pod(f"{name}-a")] for name in ("n1", "n2")}
    assert preempt(nodes, {"n1": [], "n2": ["n2-a"]}, incoming(), keep=1) == {"n2": ["n2-a"]}
    assert preempt(nodes, {"n1": ["n1-a"], "n2": ["n2-a"]}, incoming(), keep=1) == {"n1": ["n1-a"]}


def test_a_victim_is_known_on_its_own_node_only():
    snapshot = built(cluster({node(name): [pod(f"{name}-a"), pod(f"{name}-b")] for name in ("n1", "n2", "n3")}))
    uids = ("uid-n1-a", "uid-unknown")
    sent = {"n4": (), "n1": uids, "n2": uids, "n3": (), "n5": ("uid-n3-a",)}
    resolved = resolve_candidates(snapshot, {name: SentCandidate(uids) for name, uids in sent.items()}, {})
    assert resolved.nodes == ["n3"]
    assert resolved.rows.tolist() == [snapshot.node_row["n3"]]
    assert {name: dropped.code for name, dropped in resolved.dropped.items()} == {
        "n1": DropCode.UNKNOWN_VICTIM,
        "n2": DropCode.UNKNOWN_VICTIM,
        "n4": DropCode.UNKNOWN_NODE,
        "n5": DropCode.UNKNOWN_NODE,
    }
    assert resolved.victims.nonzero()[0].tolist() == [snapshot.pod_table.row_of["uid-n1-a"]]
    nothing = resolve_candidates(snapshot, {}, {})
    assert not nothing.nodes
    assert not nothing.victims.any()
