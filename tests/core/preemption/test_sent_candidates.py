"""Where two choices are equal, the victims that kube-scheduler named are preferred: it surely knows them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import engine
from extender.core.preemption.sent_candidates import RejectionReason, resolve_candidates
from extender.core.profile import Profile
from extender.k8s.candidates import UID_BYTES, SentCandidate, SentCandidates
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
        "n1": RejectionReason.UNKNOWN_VICTIM,
        "n2": RejectionReason.UNKNOWN_VICTIM,
        "n4": RejectionReason.UNKNOWN_NODE,
        "n5": RejectionReason.UNKNOWN_NODE,
    }
    assert resolved.victims.nonzero()[0].tolist() == [snapshot.pod_table.row_of["uid-n1-a"]]
    nothing = resolve_candidates(snapshot, {}, {})
    assert not nothing.nodes
    assert not nothing.victims.any()


# --- UIDs of the usual length, which are looked up all at once ----------------------------------------------------


def as_bytes(sent):
    """These candidates with UIDs in an array of bytes, as `wire` reads what kube-scheduler writes."""
    made = SentCandidates.of(sent)
    return SentCandidates(made.nodes, made.num_pdb_violations, made.sizes, made.uids.astype(f"S{UID_BYTES}"))


def fields_of(resolved):
    values = (getattr(resolved, field.name) for field in dataclasses.fields(resolved))
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def long_name(number):
    """A pod name with whose prefix `uid-` a UID has the usual length; some differ only at the beginning."""
    return f"{number % 3}{number // 3:02d}" + "x" * (UID_BYTES - 4 - 11) + f"{number // 6:08d}"


PODS = [long_name(number) for number in range(24)]
UNKNOWN = "y" * UID_BYTES


@st.composite
def clusters_and_candidates(draw):
    """Pods on four nodes, one without; candidates with victims in any order, absent, elsewhere, named twice."""
    names, pods = iter(draw(st.permutations(PODS))), {"n4": [pod("short")]}
    for number in range(4):
        count = draw(st.sampled_from([0, 1, 3, 6]))
        pods[f"n{number}"] = [pod(next(names), priority=draw(st.integers(0, 2))) for _ in range(count)]
    on_node = {name: [f"uid-{one['metadata']['name']}" for one in of_node] for name, of_node in pods.items()}
    any_uid = st.sampled_from([*(f"uid-{name}" for name in PODS), UNKNOWN])
    sent = {}
    for name in draw(st.permutations([*on_node, "n5"])):
        own = draw(st.lists(st.sampled_from(on_node[name]), unique=True)) if on_node.get(name) else []
        victims = [*own, *draw(st.lists(any_uid, max_size=draw(st.sampled_from([0, 0, 2]))))]
        sent[name] = SentCandidate(tuple(uid for uid in victims if len(uid) == UID_BYTES), len(victims))
    recent = draw(st.dictionaries(any_uid, st.sampled_from([*on_node]), max_size=2))
    return {node(name): of_node for name, of_node in pods.items()}, sent, recent


@given(clusters_and_candidates())
def test_victims_are_the_same_whether_they_are_looked_up_one_by_one_or_at_once(made):
    nodes, sent, recent = made
    snapshot = built(cluster(nodes))
    assert as_bytes(sent) == sent
    assert fields_of(resolve_candidates(snapshot, as_bytes(sent), recent)) == fields_of(
        resolve_candidates(snapshot, sent, recent)
    )
    # Another pod takes the place of one that leaves.
    gone = next(pod for pod in snapshot.objects.pods.values())
    snapshot.remove("Pod", ("default", gone.metadata.name))
    snapshot.put("Pod", typed(pod(long_name(99), nodeName="n4")))
    snapshot.refresh_layout()
    sent["n4"] = SentCandidate((f"uid-{long_name(99)}",), 1)
    resolved = resolve_candidates(snapshot, as_bytes(sent), recent)
    assert fields_of(resolved) == fields_of(resolve_candidates(snapshot, sent, recent)), (
        "the two ways find other victims"
    )
    assert "n4" in resolved.nodes


def test_a_candidate_is_read_from_the_arrays_when_it_is_asked_for():
    sent = {"n1": SentCandidate(("a" * UID_BYTES, "b" * UID_BYTES), 2), "n2": SentCandidate((), 0)}
    kept = as_bytes(sent)
    assert dict(kept) == sent
    assert kept.get("n3") is None
    assert SentCandidates.of(kept) is kept
