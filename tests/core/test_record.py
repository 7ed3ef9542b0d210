"""What is kept of a decision refers to nothing that a snapshot changes in place."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from extender.core import engine
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.preemption.pdb.violations import budget_index
from extender.core.profile import DEFAULT_RANKING, Limits, PreemptionPolicy, Profile, Protection
from extender.core.record import DecisionRecord, PreemptRecord, record_filter, record_preempt, record_prioritize
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import KINDS
from extender.k8s.time import SECOND
from extender.report import summary
from extender.report.ranking_report import report_ranking
from extender.report.render import render_nodes
from tests.builders import budget, built, cluster, incoming, namespace, node, pod, stored_cluster, thing, typed

POLICIES = {
    "kube-scheduler's own": PreemptionPolicy(),
    "strict and live budgets": PreemptionPolicy(disruption_budgets="Strict", budget_accounting="Live"),
    "all nodes": PreemptionPolicy(candidates="AllNodes"),
    "protections": PreemptionPolicy(
        protections=(Protection("shop", namespaces=frozenset({"shop"})),),
        preemption_toleration=True,
        tenant_label="team",
        limits=Limits(workload_cooldown=60 * SECOND, max_victims=3),
    ),
    "another order": PreemptionPolicy(
        importance=("PodDeletionCost", "Priority"),
        ranking=("PodGroups", "Workloads", *DEFAULT_RANKING, "UnusedCapacity"),
    ),
}


def world():
    """n1 and n2 are full, n3 has room, n4 is cordoned."""
    nodes = {
        node("n1", cpu="3"): [pod("a", priority=5), pod("b", labels={"app": "x"}), pod("c", labels={"app": "x"})],
        node("n2", cpu="2"): [
            pod("d", "2", labels={"app": "x"}, requests={"example.com/gpu": "1"}, namespace="shop"),
        ],
        node("n3", cpu="8"): [pod("e", schedulingGroup={"podGroupName": "train"})],
        node("n4", unschedulable=True): [pod("f")],
    }
    return built(
        cluster(
            nodes,
            waiting=[incoming("nominee", priority=2000, status={"nominatedNodeName": "n1"})],
            budgets=[budget(allowed=1, app="x"), budget("other", app="a")],
            namespaces=[namespace("default", team="red"), namespace("shop", team="blue")],
            others=[thing("PriorityClass", "gold", value=5)],
        )
    )


def records(policy: PreemptionPolicy) -> Iterator[tuple[Any, DecisionRecord]]:
    """(snapshot, capture) of every verb."""
    profile, history = (
        Profile(keep_candidates=None, preemption=policy),
        EvictionHistory(10**18, (Eviction(5, ("x", "y", "z")),)),
    )
    wanted, names = typed(incoming(cpu="2")), ["n1", "n2", "n3", "n4"]
    snapshot = world()
    yield snapshot, record_filter(engine.filter(snapshot, wanted, names, profile, history))
    yield snapshot, record_prioritize(engine.prioritize(snapshot, wanted, names, profile, history))
    sent = {
        "n1": SentCandidate(("uid-b",)),
        "n2": SentCandidate(("uid-d",)),
        "n4": SentCandidate(()),
        "unknown": SentCandidate(()),
    }
    yield snapshot, record_preempt(engine.preempt(snapshot, wanted, sent, profile, history), sent)


each_policy = pytest.mark.parametrize("policy", [pytest.param(one, id=name) for name, one in POLICIES.items()])


def changeable(root: object, without: object = None) -> tuple[dict[int, np.ndarray], dict[int, object]]:
    """Everything that can be changed in place and is reached from there: arrays, and dictionaries, lists and sets.

    Objects of the API are values: they are frozen, and replaced as a whole.
    """
    arrays: dict[int, np.ndarray] = {}
    containers: dict[int, object] = {}
    seen: dict[int, object] = {}
    waiting: list[object] = [root]
    while waiting:
        one = waiting.pop()
        if (
            one is without
            or id(one) in seen
            or isinstance(one, (str, bytes, int, float, type(None), type, FunctionType, ModuleType, msgspec.Struct))
        ):
            continue
        seen[id(one)] = one
        if isinstance(one, np.ndarray):
            arrays[id(one)] = one
            waiting += [one.base] if one.base is not None else []
            continue
        if isinstance(one, (dict, list, set)):
            containers[id(one)] = one
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
        else:
            waiting += vars(one).values() if hasattr(one, "__dict__") else ()
            slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
            waiting += [getattr(one, name) for name in slots if hasattr(one, name) and name != "__weakref__"]
    return arrays, containers


@each_policy
def test_a_record_shares_nothing_with_the_snapshot(policy):
    for snapshot, record in records(policy):
        aside = record.request.context.snapshot  # which is never changed, but replaced
        theirs, their_containers = changeable(snapshot, aside)
        ours, our_containers = changeable(record, aside)
        assert len(theirs) > 10
        assert len(their_containers) > 50
        writeable = [array for array in ours.values() if array.flags.writeable]
        shared = [array for array in writeable if any(np.shares_memory(array, other) for other in theirs.values())]
        assert all(array is charging(snapshot, policy).allowances for array in shared)
        both = [our_containers[key] for key in our_containers.keys() & their_containers.keys()]
        values = [node.status.allocatable for node in snapshot.nodes]  # values of the API, which are never written to
        assert all(one is charging(snapshot, policy).names or any(one is value for value in values) for one in both)


def charging(snapshot, policy):
    return budget_index(snapshot, policy)


@each_policy
def test_the_two_that_are_shared_are_replaced_and_not_written_to(policy):
    snapshot = world()
    budgets = charging(snapshot, policy)
    allowances, names = budgets.allowances, budgets.names
    before, named = allowances.copy(), dict(names)
    change_everything(snapshot)
    assert (allowances == before).all()
    assert names == named
    assert charging(snapshot, policy).names != named


def change_everything(snapshot):
    """Every object goes, some come back differently."""
    frozen = snapshot.frozen()
    for kind, of_kind in KINDS.items():
        for key in [*snapshot.objects.of(kind)]:
            snapshot.remove(kind, key)
        snapshot.refresh_layout()
        for one in getattr(frozen, of_kind.field)[1:]:
            snapshot.put(kind, msgspec.structs.replace(one, metadata=renamed(one.metadata)))
    snapshot.refresh_layout()


def renamed(metadata):
    return msgspec.structs.replace(metadata, name=f"{metadata.name}-2", uid=f"{metadata.uid}-2", labels={"app": "new"})


def rendered(record: DecisionRecord) -> bytes:
    ranking = report_ranking(record) if isinstance(record, PreemptRecord) else None
    parts = [render_nodes(record), ranking, getattr(record, "highest", None), summary.summarize(record)]
    return msgspec.json.encode([*parts, record.request.filters, record.not_evaluated])


@each_policy
def test_a_record_renders_the_same_after_the_whole_cluster_changed(policy):
    told_before = [rendered(record) for _, record in records(policy)]
    kept = list(records(policy))
    for snapshot in {id(snapshot): snapshot for snapshot, _ in kept}.values():
        change_everything(snapshot)
    assert [rendered(record) for _, record in kept] == told_before


def test_a_decision_without_its_context_cannot_be_recorded():
    snapshot = world()
    decision = replace(engine.filter(snapshot, typed(incoming()), ["n1"], Profile()), evaluation=None)
    with pytest.raises(ValueError, match="no Evaluation"):
        record_filter(decision)


@each_policy
def test_a_record_estimates_its_memory(policy):
    """Within a factor of 10 of its arrays, which is good enough to bound memory by."""
    for _, record in records(policy):
        arrays, _ = changeable(record)
        assert sum(array.nbytes for array in arrays.values()) / 10 < record.size < 100_000


@each_policy
def test_the_snapshot_that_reasons_read_holds_no_more_than_they_do(policy):
    """No pod, no node, no budget of the cluster is kept alive by it."""
    for _, record in records(policy):
        objects = record.request.context.snapshot.objects
        kept = {of_kind.field for of_kind in KINDS.values() if getattr(objects, of_kind.field)}
        assert kept == {"namespaces", "priority_classes"}


def test_records_of_the_same_namespaces_share_the_snapshot_for_reasons():
    snapshot = world()
    one, other = (record_filter(engine.filter(snapshot, typed(incoming()), ["n1"], Profile())) for _ in range(2))
    assert one.request.context.snapshot is other.request.context.snapshot


def test_the_snapshot_for_reasons_is_rebuilt_when_a_namespace_changes():
    snapshot, policy = world(), POLICIES["protections"]
    sent = {"n2": SentCandidate(("uid-d",))}
    profile = Profile(preemption=policy)
    before = record_preempt(engine.preempt(snapshot, typed(incoming(cpu="2")), sent, profile), sent)
    said = rendered(before)
    assert b"in another tenant: team is blue, not red" in said
    snapshot.put("Namespace", stored_cluster(cluster({}, namespaces=[namespace("shop", team="green")])).namespaces[0])
    after = record_preempt(engine.preempt(snapshot, typed(incoming(cpu="2")), sent, profile), sent)
    assert b"in another tenant: team is green, not red" in rendered(after)
    assert rendered(before) == said
