"""Facts of decisions: what /decisions says of rejected nodes, and that it is what `extender why` says of them."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from extender.cli.output.decision_report import render_other_nodes
from extender.core import engine
from extender.core.profile import KubeScheduler, Profile
from extender.core.record import RecordedPod, record_filter, record_preempt
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.report.diagnose import diagnose
from extender.report.facts import node_facts
from extender.report.facts.node_facts import NO_FACTS, TOO_OFTEN, DecisionFacts, facts_of_decision
from extender.report.facts.schema import ResourceFact
from extender.report.facts.wording import describe_fact
from extender.report.schema import DecisionReport
from extender.server.observability.decision_log import KeptDecision
from extender.utilities.time_share import TimeShare
from tests.builders import JSON, NodeObject, built, cluster, incoming, node, placed, pod, typed
from tests.report.facts.cost import calls_of
from tests.report.facts.groups import TAINTED

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def of_nodes(*nodes: NodeObject) -> Snapshot:
    return built(cluster(dict.fromkeys(nodes, ())))


def decided_by(snapshot: Snapshot, waiting: JSON, names: list[str]) -> DecisionReport:
    """What is kept of a /filter of these nodes."""
    wanted = typed(waiting)
    decision = engine.filter(snapshot, wanted, names, Profile())
    assert decision.evaluation is not None
    facts = facts_of_decision(decision.evaluation, TimeShare(1, 1))
    recorded, pod_ = record_filter(decision), RecordedPod.of(wanted)
    return KeptDecision("filter-1", 0, 1.0, pod_, Profile(), "answered", "", recorded, facts=facts).decision()


LISTENING = [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]
CASES: dict[str, tuple[Any, JSON]] = {
    "taints": (
        {node(f"n{at}", taints=[TAINT]): [] for at in range(3)} | {node("cordoned", unschedulable=True): []},
        incoming(),
    ),
    "resources": (
        {node("n1", cpu="2"): [pod("a", cpu="500m")], node("n2", cpu="2"): [pod("b", priority=5000)]},
        incoming(cpu="2"),
    ),
    "two resources": (
        {
            node("cpu"): [pod("a", cpu="4")],
            node("both", memory="2Gi"): [pod("b", cpu="4", memory="2Gi")],
            node("cordoned", unschedulable=True): [],
            node("few", pods="0"): [],
        },
        incoming(memory="1Gi"),
    ),
    "selector": ([node("n1", labels={"disk": "hdd"}), node("n2")], incoming(nodeSelector={"disk": "ssd"})),
    "host port": (
        {
            node(name): [
                pod(f"holder-{name}", containers=[{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}])
            ]
            for name in ("n1", "n2")
        },
        incoming(containers=[{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]),
    ),
    "one node": ([node("n1", taints=[TAINT])], incoming()),
    "a claim that does not exist": (
        [node("n1"), node("n2")],
        incoming(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ),
}


@pytest.mark.parametrize(("nodes", "waiting"), CASES.values(), ids=CASES)
def test_a_decision_says_what_why_says(nodes, waiting):
    there = nodes if isinstance(nodes, dict) else dict.fromkeys(nodes, ())
    snapshot = built(cluster(there, waiting=[waiting]))
    found = decided_by(snapshot, waiting, [one.name for one in there])
    asked = diagnose(snapshot, typed(waiting), KubeScheduler((Profile(),)))
    assert asked.why.startswith(f"{found.sentence}; ")
    assert {one.name: one.facts for one in found.nodes} == {one.name: one.facts for one in asked.nodes}
    assert all(one.fact_sentences == [*map(describe_fact, one.facts)] for one in found.nodes)
    assert any(one.fact_sentences for one in found.nodes)


def test_nodes_that_take_the_pod_have_no_facts_and_count_as_fitting():
    nodes: dict[NodeObject, list[JSON]] = {node("fits"): [], node("tainted", taints=[TAINT]): []}
    found = decided_by(built(cluster(nodes)), incoming(), ["tainted", "fits"])
    assert found.sentence == (
        "default/incoming fits on 1 of 2 nodes: 1 with a taint that it does not tolerate (gpu=yes:NoSchedule)"
    )
    assert {one.name: one.fact_sentences for one in found.nodes} == {"tainted": ["gpu=yes:NoSchedule"], "fits": []}
    assert decided_by(of_nodes(node("fits")), incoming(), ["fits"]).sentence == "default/incoming fits on fits"


@pytest.mark.parametrize(("taints", "said"), TAINTED)
def test_the_table_of_the_terminal_has_the_facts_of_the_sentence(taints, said):
    nodes = [node(f"n{place}", taints=some) for place, some in enumerate(taints)]
    found = decided_by(of_nodes(*nodes), incoming(), [f"n{place}" for place in range(len(nodes))])
    assert found.sentence.endswith(said)
    printed, received = io.StringIO(), msgspec.json.decode(msgspec.json.encode(found), type=DecisionReport)
    Console(width=300, file=printed).print(*render_other_nodes(received, show_all=False))
    assert said in printed.getvalue()


def test_of_many_nodes_some_are_looked_at_and_the_sentence_says_how_many():
    names = [f"n{at:03}" for at in range(120)]
    found = decided_by(of_nodes(*(node(name, taints=[TAINT]) for name in names)), incoming(), names)
    known = [one.name for one in found.nodes if one.facts]
    assert known == [names[at * 120 // 50] for at in range(50)]
    assert found.sentence.endswith(
        ": 120 with a taint that it does not tolerate (gpu=yes:NoSchedule; 50 of 120 looked at)"
    )


def test_each_reason_has_nodes_with_facts_and_the_most_free_one_is_among_them():
    """Nodes are often listed zone by zone in turn, and one zone may be cordoned."""
    nodes = [node(f"n{at:03}", unschedulable=not at % 3, cpu="1" if at % 3 else "8") for at in range(120)]
    nodes[61] = node("n061", cpu="3")
    snapshot, names = of_nodes(*nodes), [one.name for one in nodes]
    found = decided_by(snapshot, incoming(cpu="4"), names)
    looked_at = [int(one.name[1:]) for one in found.nodes if one.facts]
    assert (len(looked_at), sum(at % 3 == 0 for at in looked_at)) == (50, 25)
    assert found.sentence == (
        "default/incoming fits on none of 120 nodes: 80 with too little cpu (requests 4 cpu, most free: 3 on n061; "
        "25 of 80 looked at), 40 cordoned"
    )


def test_the_node_to_which_a_pod_is_pinned_comes_first_as_in_why():
    nodes = [node(f"n{at}", cpu="1") for at in range(60)]
    snapshot, names = of_nodes(*nodes), [one.name for one in nodes]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
    pinned = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    waiting = incoming(cpu="4", affinity=pinned)
    found = decided_by(snapshot, waiting, names)
    assert diagnose(snapshot, typed(waiting), KubeScheduler()).why.startswith(found.sentence)
    assert ": 1 with too little cpu (requests 4 cpu, 1 of 1 free, too small even if empty on n3), 59 " in found.sentence
    assert sum(bool(one.facts) for one in found.nodes) == 50
    assert found.facts_left_out is None


def test_facts_are_computed_once_for_pods_of_a_template_until_the_cluster_changes():
    snapshot, profile = of_nodes(node("n1", taints=[TAINT]), node("n2", cpu="1")), Profile()

    def facts(name: str, **others: Any) -> DecisionFacts:
        found = engine.filter(
            snapshot, typed(incoming(name, labels={"app": "web"}, **others)), ["n1", "n2"], profile
        ).evaluation
        assert found is not None
        return facts_of_decision(found, TimeShare(1, 1))

    first = facts("one", cpu="2")
    assert facts("two", cpu="2") is first
    assert facts("other", cpu="1").of_node.keys() == {"n1"}
    snapshot.put("Pod", typed(placed(pod("a"), "n2")))
    snapshot.refresh_layout()
    (taint,), (resource,) = facts("one", cpu="2").of_node.values()
    assert isinstance(resource, ResourceFact)
    assert (taint, resource.free) == (first.of_node["n1"][0], "0")


def test_large_facts_are_left_out(monkeypatch):
    monkeypatch.setattr(node_facts, "MAX_BYTES_OF_DECISION", 10)
    found = decided_by(of_nodes(node("n1", taints=[TAINT])), incoming(), ["n1"])
    sentence = "default/incoming does not fit on n1: node(s) had untolerated taint(s)"
    assert (found.sentence, found.nodes[0].facts, found.facts_left_out) == (
        sentence,
        [],
        "the facts are too large to keep",
    )


def test_terms_that_many_pods_may_match_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(node_facts, "MAX_TERM_PODS_OF_DECISION", 1)
    snapshot = built(cluster({node("apart"): [pod("a", labels={"app": "web"})], node("tainted", taints=[TAINT]): []}))
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = decided_by(snapshot, incoming(affinity=alone), ["apart", "tainted"])
    assert {one.name: len(one.facts) for one in found.nodes} == {"apart": 0, "tainted": 1}
    assert found.facts_left_out == "too many terms of (anti-)affinity and running pods to look at"


def test_a_decision_says_that_there_was_no_time_to_look_at_its_nodes():
    found = engine.filter(of_nodes(node("n1", taints=[TAINT]), node("n2")), typed(incoming()), ["n1", "n2"], Profile())
    fits = engine.filter(of_nodes(node("n2")), typed(incoming()), ["n2"], Profile())
    assert found.evaluation is not None
    assert fits.evaluation is not None
    no_time = TimeShare(0, 0)
    assert (facts_of_decision(found.evaluation, no_time), facts_of_decision(fits.evaluation, no_time)) == (
        TOO_OFTEN,
        NO_FACTS,
    )


def test_sent_nodes_that_no_eviction_helps_have_facts():
    snapshot = built(cluster({node("full", cpu="1"): [pod("a")], node("tainted", taints=[TAINT]): []}))
    wanted, sent = typed(incoming()), {"full": SentCandidate(("uid-a",)), "tainted": SentCandidate(())}
    decision = engine.preempt(snapshot, wanted, sent, Profile())
    assert decision.evaluation is not None
    facts = facts_of_decision(decision.evaluation, TimeShare(1, 1))
    assert {name: [*map(describe_fact, some)] for name, some in facts.of_node.items()} == {
        "tainted": ["gpu=yes:NoSchedule"]
    }
    record, waits = record_preempt(decision, sent), RecordedPod.of(wanted)
    kept = KeptDecision("preempt-1", 0, 1.0, waits, Profile(), "answered", "", record, facts=facts)
    sentences = {one.name: one.fact_sentences for one in kept.decision().nodes}
    assert sentences == {"full": [], "tainted": ["gpu=yes:NoSchedule"]}
    assert kept.size > KeptDecision("preempt-1", 0, 1.0, waits, Profile(), "answered", "", record).size


def test_the_cost_does_not_grow_with_the_nodes_of_the_request():
    def work(count: int) -> int:
        nodes = [node(f"n{at}", cpu="1") for at in range(count)]
        wanted, names = typed(incoming(cpu="2")), [one.name for one in nodes]
        evaluation = engine.filter(of_nodes(*nodes), wanted, names, Profile()).evaluation
        assert evaluation is not None
        return calls_of(lambda: facts_of_decision(evaluation, TimeShare(1, 1)))

    assert work(800) < 1.3 * work(100)
