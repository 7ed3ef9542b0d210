"""What is told of a decision, on clusters that are small enough to be worked out by hand.

A pod takes 1 cpu unless it says otherwise, as does the one that comes in (default/incoming, priority 1000). All pods
have started at the same time, and then stand in the order in which they are listed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.core import engine
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.preemption.protections import UNREQUESTED_SYSTEM_POD
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason
from extender.core.profile import DEFAULT_RANKING, EXTRA_RANKING, Limits, PreemptionPolicy, Profile, Protection
from extender.core.record import RecordedPod, record_filter, record_preempt, record_prioritize
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.time import MINUTE, SECOND, parse_time
from extender.k8s.well_known import DELETION_COST, EVICTION_COST, MIRROR
from extender.report.render import FITS_AFTER_EVICTION, NO_EVICTION_HELPS, render_nodes
from extender.report.schema import BudgetReport, DecisionReport, NodeReport, PodReport
from extender.server.observability.decision_log import KeptDecision
from tests.builders import JSON, STARTED, budget, built, cluster, incoming, namespace, node, pod, thing, typed
from tests.device_builders import device_class, undecided_claim, using_claims

UPSTREAM = PreemptionPolicy()
STRICT = PreemptionPolicy(disruption_budgets="Strict")
NOW = parse_time(STARTED) + 30 * SECOND
"""Half a minute after the pods of the builders have started."""


def preempted(
    nodes: Any,
    sent: Mapping[str, Sequence[str]] | None = None,
    policy: PreemptionPolicy = UPSTREAM,
    preemptor: JSON | None = None,
    keep: int | None = 1,
    history: EvictionHistory | None = None,
    rejected: Mapping[str, str] | None = None,
    **others: Any,
) -> DecisionReport:
    """`sent`: names of victims by node; all nodes without any if left out. `rejected`: by the guard."""
    snapshot, wanted = built(cluster(nodes, **others)), typed(preemptor or incoming())
    named = dict.fromkeys((one.name for one in nodes), ()) if sent is None else sent
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in named.items()}
    profile = Profile(keep_candidates=keep, preemption=policy)
    decision = engine.preempt(snapshot, wanted, made, profile, history or EvictionHistory(NOW))
    if rejected is not None:
        kept = tuple(one for one in decision.kept if one.node not in rejected)
        dropped = {
            name: CandidateRejection(RejectionReason.REJECTED, f"rejected by the last check ({rule})")
            for name, rule in rejected.items()
        }
        decision = replace(decision, kept=kept, dropped=decision.dropped | dropped, rejected=rejected)
    record = record_preempt(decision, made)
    return KeptDecision(
        "preempt-1", NOW, 1.0, RecordedPod.of(wanted), profile, "answered", "version=1", record
    ).decision()


def on(decision: DecisionReport, name: str) -> NodeReport:
    (found,) = (one for one in decision.nodes if one.name == name)
    return found


def running(decision: DecisionReport, name: str) -> Any:
    """A pod, on whichever node it runs."""
    (found,) = (one for at in decision.nodes for one in at.pods if one.key == f"default/{name}")
    return found


def later(seconds: int) -> str:
    return f"2026-01-01T00:00:{seconds:02}Z"


def annotated(key: str, value: str) -> JSON:
    return {"annotations": {key: value}}


# --- outcomes ---------------------------------------------------------------------------------------------------------

FULL = {node("n1", cpu="1"): [pod("a", priority=10)], node("n2", cpu="1"): [pod("b", priority=20)]}
"""n1 costs a pod of 10, n2 one of 20."""


def test_the_best_candidate_is_chosen_and_the_other_one_outranked():
    found = preempted(FULL)
    assert [(one.name, one.outcome, one.rank, one.loses_by) for one in found.nodes] == [
        ("n1", "chosen", 1, None),
        ("n2", "outranked", 2, "HighestPriority"),
    ]
    assert (found.chosen, found.victims) == (["n1"], ["default/a"])
    assert [one.victims for one in found.nodes] == [["default/a"], ["default/b"]]
    assert on(found, "n2").why == RejectionReason.OUTRANKED.value


def test_as_many_are_chosen_as_are_answered():
    found = preempted(FULL, keep=None)
    assert [one.outcome for one in found.nodes] == ["chosen", "chosen"]
    assert (found.chosen, found.victims) == (["n1", "n2"], ["default/a", "default/b"])


@pytest.mark.parametrize(
    ("nodes", "settings", "outcome", "why"),
    [
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"policy": STRICT, "budgets": [budget(app="a")]},
            "rejectedByPolicy",
            "would break disruption budget default/budget",
            id="1: a strict budget rules it out",
        ),
        pytest.param(
            {node("n1", cpu="2"): [pod("a"), pod("b")]},
            {"policy": PreemptionPolicy(limits=Limits(max_victims=1)), "preemptor": incoming(cpu="2")},
            "rejectedByPolicy",
            "2 victims exceed the limit of 1 per preemption",
            id="2: a limit rules it out",
        ),
        pytest.param(
            {node("n1", cpu="2"): [pod("a"), pod("b", priority=2000)]},
            {"preemptor": incoming(cpu="2")},
            "insufficientAfterPreemption",
            "Insufficient cpu",
            id="3: 1 of 2 cpu can be had",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a", priority=1000)]},
            {},
            "noVictims",
            "No preemption victims found for incoming pod",
            id="4: the only pod is equally important",
        ),
        pytest.param(
            {node("n1", cpu="2"): [pod("a")]},
            {},
            "fits",
            "the pod fits without evicting anyone",
            id="5: 1 of 2 cpu is free",
        ),
        pytest.param(
            {node("n1", cpu="1", unschedulable=True): [pod("a")]},
            {},
            "notEvaluated",
            "node(s) were unschedulable",
            id="6: no eviction opens a cordoned node",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"sent": {"n1": ["unknown"]}},
            "notEvaluated",
            RejectionReason.UNKNOWN_VICTIM.value,
            id="7: kube-scheduler named a pod that is not known",
        ),
        pytest.param(
            {node("n2", cpu="1"): []},
            {"sent": {"n1": []}},
            "notEvaluated",
            RejectionReason.UNKNOWN_NODE.value,
            id="8: an unknown node",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"preemptor": incoming(preemptionPolicy="Never")},
            "vetoed",
            "not eligible due to preemptionPolicy=Never.",
            id="9: the pod may not preempt",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"rejected": {"n1": "victims run on the node"}},
            "rejected",
            "rejected by the last check (victims run on the node)",
            id="10: the guard rejects it",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"preemptor": incoming(**using_claims("gpu")), "others": undecided_claim()},
            "notEvaluated",
            RejectionReason.NO_ROOM.value,
            id="11: kube-scheduler alone knows the victims, and named none",
        ),
    ],
)
def test_a_node_that_is_not_chosen(nodes, settings, outcome, why):
    found = preempted(nodes, **settings)
    one = on(found, "n1")
    assert (one.outcome, one.why) == (outcome, why)
    assert found.chosen == []


def test_a_node_that_the_guard_rejected_before_the_others_were_ranked_again_is_rejected():
    """As the service does it: without the offer the engine knows nothing of n1."""
    snapshot, wanted = built(cluster(FULL)), typed(incoming())
    rest = {"n2": SentCandidate(())}
    decision = engine.preempt(snapshot, wanted, rest, Profile())
    why = "rejected by the last check (x)"
    decision = replace(
        decision,
        dropped=decision.dropped | {"n1": CandidateRejection(RejectionReason.REJECTED, why)},
        rejected={"n1": "x"},
    )
    record = record_preempt(decision, {"n1": SentCandidate(()), **rest})
    found = KeptDecision("preempt-1", NOW, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record).decision()
    assert {one.name: one.outcome for one in found.nodes} == {"n1": "rejected", "n2": "chosen"}
    assert found.rejected == {"n1": "x"}


def test_a_node_without_enough_room_shows_its_status_without_potential_victims():
    """Before, memory lacks too."""
    nodes = {node("n1", cpu="2", memory="1Gi"): [pod("a", memory="1Gi"), pod("b", priority=2000)]}
    one = on(preempted(nodes, preemptor=incoming(cpu="2", memory="1Gi")), "n1")
    assert one.filter is not None
    assert one.emptied is not None
    assert one.filter.reasons == ["Insufficient cpu", "Insufficient memory"]
    assert one.emptied.reasons == ["Insufficient cpu"]
    assert (one.filter.plugin, one.filter.code) == ("NodeResourcesFit", "Unschedulable")


def test_with_all_nodes_those_that_were_not_sent_are_marked():
    found = preempted(FULL, {"n2": ["b"]}, PreemptionPolicy(candidates="AllNodes"))
    assert [(one.name, one.outcome, one.sent) for one in found.nodes] == [
        ("n1", "chosen", False),
        ("n2", "outranked", True),
    ]


def test_nodes_that_were_not_sent_are_left_out():
    assert [one.name for one in preempted(FULL, {"n2": []}).nodes] == ["n2"]


def test_after_the_candidates_stand_the_nodes_that_were_tried_and_then_all_others_by_name():
    nodes = {
        node("fits"): [],
        node("b-full", cpu="1"): [pod("a", priority=5000)],
        node("a-full", cpu="1"): [pod("b", priority=5000)],
        node("z-best", cpu="1"): [pod("c")],
        node("cordoned", unschedulable=True): [],
    }
    found = [one.name for one in preempted(nodes).nodes]
    assert found == ["z-best", "a-full", "b-full", "cordoned", "fits"]


# --- what decides -----------------------------------------------------------------------------------------------------

OWNED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}]}
NATIVE = "scheduling.k8s.io/v1alpha2"


def gang(name: str, minimum: int) -> JSON:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return thing("PodGroup", name, namespace="default", spec=spec, apiVersion=NATIVE)


def member(name: str, of: str) -> JSON:
    return pod(name, schedulingGroup={"podGroupName": of})


@dataclass(frozen=True)
class Compared:
    """Two nodes that differ in one criterion."""

    by: str
    """In a sentence."""
    better: list[JSON]
    worse: list[JSON]
    shown: tuple[str, str]
    others: JSON = field(default_factory=dict)
    cpu: str = "2"
    """Return the rows of both nodes."""
    wanted: JSON = field(default_factory=lambda: incoming(cpu="2"))


GPU = {"example.com/gpu": "1"}
IMPORTANT = 5000

CRITERIA = {
    "PDBViolations": Compared(
        "disruption budget violations",
        [pod("a")],
        [pod("b", labels={"app": "x"})],
        ("0", "1"),
        {"budgets": [budget(app="x")]},
    ),
    "HighestPriority": Compared(
        "the highest priority among its victims", [pod("a", priority=-5)], [pod("b")], ("-5", "0")
    ),
    "PrioritySum": Compared(
        "the sum of priorities",
        [pod("a", priority=7), pod("b", priority=1)],
        [pod("c", priority=7), pod("d", priority=2)],
        ("8 (2 victims)", "9 (2 victims)"),
    ),
    "VictimCount": Compared("the number of victims", [pod("a", "2")], [pod("b"), pod("c")], ("1", "2")),
    "LatestStartTime": Compared(
        "the start of its most important victim",
        [pod("a", start=None)],
        [pod("b", start=later(9))],
        ("not started", later(9)),
    ),
    "PodDeletionCost": Compared(
        "pod deletion cost", [pod("a", metadata=annotated(DELETION_COST, "-3"))], [pod("b")], ("-3", "0")
    ),
    "EvictionCost": Compared(
        "eviction cost", [pod("a")], [pod("b", metadata=annotated(EVICTION_COST, "10"))], ("0", "10")
    ),
    "QoSClass": Compared(
        "the QoS class of its victims",
        [pod("a", None, requests=GPU)],
        [pod("b", requests=GPU)],
        ("BestEffort", "Burstable"),
        wanted=incoming(cpu=None, requests=GPU),
    ),
    "GracePeriod": Compared(
        "the longest grace period", [pod("a", terminationGracePeriodSeconds=5)], [pod("b")], ("5s", "30s")
    ),
    "Workloads": Compared(
        "the number of workloads that lose a pod",
        [pod("a", metadata=OWNED), pod("b", metadata=OWNED)],
        [pod("c", metadata=OWNED), pod("d")],
        ("1", "2"),
    ),
    "PodGroups": Compared(
        "broken pod groups",
        [pod("a")],
        [member("b", "train")],
        ("0, and 1 other pod", "1, and 0 other pods"),
        {"others": [gang("train", 1)]},
    ),
    # 2 of 4 cpu are needed: of 2.5 that are freed 0.5 are left, an eighth of the node.
    "UnusedCapacity": Compared(
        "the capacity that is freed and left unused",
        [pod("a", "2"), pod("c", "2", priority=IMPORTANT)],
        [pod("b", "2500m"), pod("d", "1500m", priority=IMPORTANT)],
        ("0.0 %", "12.5 %"),
        cpu="4",
    ),
}


def test_all_criteria_are_here():
    assert set(CRITERIA) == {*DEFAULT_RANKING, *EXTRA_RANKING}


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_says_what_it_compares_and_that_it_decided(criterion):
    """By name the other node would come first."""
    one = CRITERIA[criterion]
    worse, better = (node(name, one.cpu, allocatable=GPU) for name in ("worse", "z-better"))
    policy = PreemptionPolicy(ranking=(criterion,))
    found = preempted({worse: one.worse, better: one.better}, policy=policy, preemptor=one.wanted, **one.others)
    assert found.ranking is not None
    assert (found.ranking.decided_by, found.ranking.candidates, found.ranking.ties) == (criterion, 2, ["z-better"])
    assert [(shown.name, shown.loses_by) for shown in found.nodes] == [("z-better", None), ("worse", criterion)]
    assert tuple(shown.shown[0] for shown in found.nodes) == one.shown
    assert found.sentence.endswith(f": best of 2 candidates by {one.by}, {one.shown[0]} against {one.shown[1]}")


def test_the_criterion_that_leaves_one_decides_and_each_other_node_loses_by_the_first_that_differs():
    """n3 is worse by priority at once; n1 and n2 are equal in that, and n2 loses one pod more."""
    nodes = {
        node("n1", cpu="2"): [pod("a", "2", priority=5)],
        node("n2", cpu="2"): [pod("b", priority=5), pod("c", priority=5)],
        node("n3", cpu="2"): [pod("d", "2", priority=6)],
    }
    found = preempted(nodes, preemptor=incoming(cpu="2"))
    assert found.ranking is not None
    assert found.ranking.decided_by == "PrioritySum"
    assert [(one.name, one.loses_by) for one in found.nodes] == [
        ("n1", None),
        ("n2", "PrioritySum"),
        ("n3", "HighestPriority"),
    ]
    assert on(found, "n2").keys == [[0], [5], [10 + 2 * 2**31], [2], [-parse_time(STARTED)]]
    assert on(found, "n2").shown == ["0", "5", "10 (2 victims)", "2", STARTED]
    assert found.ranking.criteria == list(DEFAULT_RANKING)


@pytest.mark.parametrize(
    ("best", "other", "why"),
    [
        (
            [pod("a", "2", priority=0)],
            [pod("b", "1", priority=-100), pod("c", "1", priority=-100)],
            "fewer victims, 1 against 2, which comes before the sum of priorities, 0 against -200",
        ),
        (
            [pod("a", priority=-(2**31)), pod("b", priority=-(2**31))],
            [pod("c", "2", priority=5)],
            "victims of lower priority, 2 against 1, by the sum of priorities, -4294967296 against 5",
        ),
    ],
)
def test_a_sum_of_priorities_that_each_victim_raises_is_told_with_the_number_of_victims(best, other, why):
    policy = PreemptionPolicy(ranking=("PrioritySum",))
    nodes = {node("worse", cpu="2"): other, node("z-better", cpu="2"): best}
    found = preempted(nodes, policy=policy, preemptor=incoming(cpu="2"))
    assert found.sentence.endswith(f": best of 2 candidates by {why}")


def test_of_equal_candidates_the_one_whose_victims_kube_scheduler_chose_is_the_best():
    nodes = {node(name, cpu="1"): [pod(f"{name}-a")] for name in ("n1", "n2")}
    found = preempted(nodes, {"n1": [], "n2": ["n2-a"]})
    assert found.ranking is not None
    assert (found.ranking.decided_by, found.ranking.ties) == ("named", ["n2", "n1"])
    assert on(found, "n1").loses_by == "named"
    assert found.sentence.endswith(": both candidates cost the same, and kube-scheduler had chosen its victims")


def test_of_equal_candidates_that_differ_from_those_sent_the_one_that_differs_less_is_the_best():
    """2 of each node go; of n2 kube-scheduler named one."""
    nodes = {node(name, cpu="2"): [pod(f"{name}-a"), pod(f"{name}-b")] for name in ("n1", "n2")}
    found = preempted(nodes, {"n1": [], "n2": ["n2-a"]}, preemptor=incoming(cpu="2"))
    assert found.sentence.endswith(
        ": both candidates cost the same, and its victims differ least from those that kube-scheduler chose"
    )


def test_of_candidates_that_are_equal_in_that_too_the_first_by_name_is_the_best():
    nodes = {node(name, cpu="1"): [pod(f"{name}-a")] for name in ("n3", "n1", "n2")}
    found = preempted(nodes)
    assert found.ranking is not None
    assert (found.ranking.decided_by, found.ranking.ties) == ("name", ["n1", "n2", "n3"])
    assert [one.loses_by for one in found.nodes] == [None, "name", "name"]
    assert found.sentence.endswith(": all 3 candidates cost the same, and its name comes first")


def test_worse_candidates_do_not_count_as_equal_cost():
    nodes = {node(name, cpu="1"): [pod(f"{name}-a")] for name in ("n1", "n2")}
    nodes[node("n3", cpu="1")] = [pod("dear", priority=5)]
    found = preempted(nodes)
    assert found.ranking is not None
    assert found.ranking.ties == ["n1", "n2"]
    assert found.sentence.endswith(": 2 of 3 candidates cost the same, and its name comes first")


def test_the_only_candidate_was_not_compared():
    found = preempted({node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=5000)]})
    assert found.ranking is not None
    assert (found.ranking.decided_by, found.ranking.candidates) == (None, 1)
    assert found.sentence == "evicts default/a from n1 for default/incoming: the only candidate of 2 nodes"


def test_fractions_of_a_second_are_shown_where_there_are_any():
    nodes = {node(name, cpu="1"): [pod(name, start=f"2026-01-01T00:00:00.{name[1]}Z")] for name in ("n1", "n2")}
    found = preempted(nodes, policy=PreemptionPolicy(ranking=("LatestStartTime",)))
    assert [one.shown for one in found.nodes] == [["2026-01-01T00:00:00.2Z"], ["2026-01-01T00:00:00.1Z"]]


# --- sentences --------------------------------------------------------------------------------------------------------


def sentence(*args: Any, **others: Any) -> str:
    return preempted(*args, **others).sentence


def test_at_most_three_victims_are_listed():
    nodes = {node("n1", cpu="5"): [pod(name) for name in "abcde"]}
    sentences = [sentence(nodes, preemptor=incoming(cpu=str(cpu))) for cpu in (1, 3, 5)]
    assert [one.partition(" for ")[0] for one in sentences] == [
        "evicts default/e from n1",
        "evicts default/c, default/d, default/e from n1",
        "evicts default/a, default/b, default/c and 2 more from n1",
    ]
    assert sentences[0].endswith(" for default/incoming: the only candidate")


def test_where_several_nodes_are_answered_kube_scheduler_chooses():
    assert sentence(FULL, keep=None).endswith(
        ": best of 2 candidates by the highest priority among its victims, 10 against 20; "
        "kube-scheduler chooses among 2 nodes"
    )


def test_the_best_candidate_may_not_have_passed_the_last_check():
    found = sentence(FULL, keep=None, rejected={"n1": "x"})
    assert found == "evicts default/b from n2 for default/incoming: the best candidate that passed the last check"


@pytest.mark.parametrize(
    ("nodes", "settings", "why"),
    [
        pytest.param({}, {"sent": {}}, "kube-scheduler sent no node", id="1: no node was sent"),
        pytest.param(
            {node("n1", cpu="1"): [pod("a", priority=1000)]},
            {},
            "No preemption victims found for incoming pod (n1)",
            id="2: of one node it is named",
        ),
        pytest.param(
            {
                node("n1", cpu="1"): [pod("a", priority=1000)],
                node("n2", cpu="1"): [pod("b", priority=1000)],
                node("n3", unschedulable=True): [],
            },
            {},
            "No preemption victims found for incoming pod (2 nodes); node(s) were unschedulable (n3)",
            id="3: of several they are counted",
        ),
        pytest.param(
            {
                node("n1", cpu="1"): [pod("a", priority=1000)],
                node("n2", unschedulable=True): [],
                node("n3", taints=[{"key": "x", "effect": "NoSchedule"}]): [],
                node("n4"): [],
                node("n5", cpu="1"): [pod("b", "500m", priority=1000), pod("c", "500m")],
            },
            {},
            "node(s) were unschedulable (n2); node(s) had untolerated taint(s) (n3); "
            "the pod fits without evicting anyone (n4); 2 nodes for other reasons",
            id="4: three reasons are enough",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"policy": PreemptionPolicy(protections=(Protection("all"),))},
            "No preemption victims found for incoming pod, and some pods are protected (n1)",
            id="5: who is protected is told of the node",
        ),
        pytest.param(
            {node("n1", cpu="1"): [pod("a")]},
            {"preemptor": incoming(preemptionPolicy="Never")},
            "not eligible due to preemptionPolicy=Never.",
            id="6: a veto",
        ),
    ],
)
def test_reasons_for_evicting_no_pod(nodes, settings, why):
    assert sentence(nodes, **settings) == f"evicts no pod for default/incoming: {why}"


# --- pods of a node ---------------------------------------------------------------------------------------------------


def test_pods_whose_loss_breaks_a_budget_are_put_back_first():
    """3 of 4 cpu stay: b, whose budget is spent, then a and c; d is the victim. The system's pod stays anyway."""
    nodes = {
        node("n1", cpu="5"): [
            pod("c"),
            pod("d"),
            pod("a", priority=10),
            pod("b", priority=5, labels={"app": "x"}),
            pod("system", priority=5000),
        ]
    }
    found = preempted(nodes, {"n1": ["d"]}, budgets=[budget(app="x")])
    shown = [(one.key, one.role, one.order, one.violating, one.named) for one in on(found, "n1").pods]
    assert shown == [
        ("default/system", "kept", None, False, False),
        ("default/a", "reprieved", 2, False, False),
        ("default/b", "reprieved", 1, True, False),
        ("default/c", "reprieved", 3, False, False),
        ("default/d", "victim", 4, False, True),
    ]
    assert on(found, "n1").counts == {"kept": 1, "reprieved": 3, "victim": 1}
    assert running(found, "b").budgets == ["default/budget"]
    assert running(found, "a").started == STARTED


def test_terminating_pods_are_marked():
    leaving = pod("a", metadata={"deletionTimestamp": STARTED})
    assert running(preempted({node("n1", cpu="1"): [leaving]}), "a").terminating


ALL_POLICIES = PreemptionPolicy(
    protections=(
        Protection("jobs", owner_kinds=frozenset({"Job"})),
        Protection("young", min_runtime=60 * SECOND),
    ),
    preemption_toleration=True,
    tenant_label="team",
    limits=Limits(workload_cooldown=5 * MINUTE),
    candidates="AllNodes",
)
TOLERANT = thing(
    "PriorityClass",
    "tolerant",
    value=10,
    metadata={
        "annotations": {
            "preemption-toleration.scheduling.sigs.k8s.io/toleration-seconds": "40",
            "preemption-toleration.scheduling.sigs.k8s.io/minimum-preemptable-priority": "2000",
        }
    },
)


def test_a_protected_pod_has_every_reason_there_is():
    """It has run for 30 s of the 60 that it is protected, and of the 40 for which its class is tolerant."""
    job = {"ownerReferences": [{"kind": "Job", "name": "etl", "uid": "uid-etl", "controller": True}]}
    metadata = job | annotated(MIRROR, "x")
    held = pod("a", namespace="shop", metadata=metadata, priorityClassName="tolerant")
    found = preempted(
        {node("n1", cpu="1"): [held, pod("system", "0", priority=1000)]},
        policy=ALL_POLICIES,
        history=EvictionHistory(NOW, (Eviction(MINUTE, ("shop", "Job", "etl")),)),
        namespaces=[namespace("shop", team="blue"), namespace("default", team="red")],
        others=[TOLERANT],
    )
    system, shown = on(found, "n1").pods
    assert (system.role, shown.role) == ("kept", "protected")
    assert shown.protected_by == [
        "protected by jobs",
        "protected by young until 2026-01-01T00:01:00Z",
        "protected by PriorityClass tolerant from priorities below 2000 until 2026-01-01T00:00:40Z",
        "in another tenant: team is blue, not red",
        "cooling down after an eviction from its workload, until 2026-01-01T00:04:30Z",
        UNREQUESTED_SYSTEM_POD,
    ]
    assert system.protected_by == []
    assert on(found, "n1").outcome == "noVictims"


def test_a_system_pod_that_kube_scheduler_chose_is_not_protected():
    mirror = pod("a", metadata=annotated(MIRROR, "x"))
    found = preempted({node("n1", cpu="1"): [mirror]}, {"n1": ["a"]}, PreemptionPolicy(candidates="AllNodes"))
    assert (running(found, "a").role, running(found, "a").named) == ("victim", True)


def test_protection_reasons_use_the_history_of_the_decision():
    """Told after 31 seconds more it would no longer be protected."""
    policy = PreemptionPolicy(protections=(Protection("young", min_runtime=60 * SECOND),))
    found = preempted({node("n1", cpu="1"): [pod("a")]}, policy=policy, history=EvictionHistory(NOW))
    assert running(found, "a").protected_by == ["protected by young until 2026-01-01T00:01:00Z"]
    assert (
        on(
            preempted({node("n1", cpu="1"): [pod("a")]}, policy=policy, history=EvictionHistory(NOW + MINUTE)), "n1"
        ).rank
        == 1
    )


# --- budgets, room, nominated pods ------------------------------------------------------------------------------------


def test_budgets_are_shown_before_and_after_the_victims():
    """2 pods of x go and 1 may; 1 of y goes, which allows 3; none of z goes."""
    labels = [{"app": "x"}, {"app": "x", "tier": "y"}, {"app": "z"}]
    pods = [pod(name, labels=own) for name, own in zip("abc", labels, strict=True)]
    nodes = {node("n1", cpu="3"): [*pods[:2], {**pods[2], "spec": pods[2]["spec"] | {"priority": 5000}}]}
    budgets = [budget("xs", allowed=1, app="x"), budget("ys", allowed=3, tier="y"), budget("zs", app="z")]
    one = on(preempted(nodes, preemptor=incoming(cpu="2"), budgets=budgets), "n1")
    assert one.budgets == [
        BudgetReport(name="default/xs", allowed=1, used=2),
        BudgetReport(name="default/ys", allowed=3, used=1),
    ]
    assert [budget.after for budget in one.budgets] == [-1, 2]
    assert one.violations == 1


def test_live_budgets_are_charged_as_the_eviction_api_would():
    """A pod that two budgets select is never allowed to go; who is not ready charges a row of its own."""
    policy = PreemptionPolicy(budget_accounting="Live")
    nodes = {node("n1", cpu="2"): [pod("a", labels={"app": "x", "tier": "y"}), pod("b", labels={"app": "x"})]}
    budgets = [budget("xs", allowed=1, app="x"), budget("ys", allowed=3, tier="y")]
    found = preempted(nodes, policy=policy, preemptor=incoming(cpu="2"), budgets=budgets)
    assert running(found, "a").budgets == ["(more than one for a pod)"]
    assert running(found, "b").budgets == ["default/xs"]


def test_what_is_used_freed_and_needed_is_shown_of_cpu_memory_pods_and_what_else_the_pod_wants():
    """Other resources of the node, such as disks, are no matter."""
    gpu = {"example.com/gpu": "2"}
    nodes = {
        node("n1", cpu="3", memory="4Gi", pods="10", allocatable=gpu | {"example.com/disk": "9"}): [
            pod("a", "1500m", "1Gi", requests={"example.com/gpu": "2"}),
            pod("b", "500m", priority=5000),
        ]
    }
    found = preempted(nodes, preemptor=incoming(memory="1Gi", requests={"example.com/gpu": "1"}))
    one = on(found, "n1")
    assert one.allocatable == {"cpu": 3000, "memory": 4 << 30, "pods": 10, "example.com/gpu": 2}
    assert one.used == {"cpu": 2000, "memory": 1 << 30, "pods": 2, "example.com/gpu": 2}
    assert one.freed == {"cpu": 1500, "memory": 1 << 30, "pods": 1, "example.com/gpu": 2}
    assert found.incoming.requests == {"cpu": 1000, "memory": 1 << 30, "example.com/gpu": 1}
    assert running(found, "a").requests == {"cpu": 1500, "memory": 1 << 30, "example.com/gpu": 2}


def test_nominated_pods_of_equal_or_higher_priority_are_shown_on_their_node():
    """1 cpu is reserved there, so both pods go."""
    waiting = [
        incoming("nominee", priority=1000, status={"nominatedNodeName": "n1"}),
        incoming("lower", priority=5, status={"nominatedNodeName": "n1"}),
        incoming("elsewhere", priority=2000, status={"nominatedNodeName": "n2"}),
    ]
    nodes = {node("n1", cpu="2"): [pod("a"), pod("b")], node("n2", cpu="1"): [pod("c", priority=5000)]}
    found = preempted(nodes, waiting=waiting)
    one = on(found, "n1")
    assert one.nominated == [PodReport(key="default/nominee", uid="uid-nominee", priority=1000, requests={"cpu": 1000})]
    assert one.victims == ["default/a", "default/b"]


# --- how victims were found -------------------------------------------------------------------------------------------


def of(app: str, name: str, cpu: str = "1", **fields: Any) -> JSON:
    return pod(name, cpu, labels={"app": app}, **fields)


FOUND: dict[str, tuple[PreemptionPolicy, Any, JSON, list[str]]] = {
    # 2 of 3 cpu are needed; the first member is the most important pod, but without the second one it is worth nothing.
    "whole pod groups": (
        PreemptionPolicy(ranking=("PodGroups", *DEFAULT_RANKING)),
        {
            node("n1", cpu="3"): [
                pod("first", schedulingGroup={"podGroupName": "train"}, start=later(0)),
                pod("outsider", start=later(1)),
                pod("second", schedulingGroup={"podGroupName": "train"}, start=later(2)),
            ]
        },
        {"preemptor": incoming(cpu="2"), "others": [gang("train", 2)]},
        ["default/first", "default/second"],
    ),
    # Of equal pods the last one listed would go.
    "scheduler preferred": (
        UPSTREAM,
        {node("n1", cpu="2"): [of("x", "a"), of("x", "b")]},
        {"sent": {"n1": ["a"]}},
        ["default/a"],
    ),
    # Only kube-scheduler knows if the claim has waited too long.
    "kube-scheduler": (
        UPSTREAM,
        {node("n1", cpu="2"): [pod("a", priority=5), pod("b")]},
        {
            "preemptor": incoming(**using_claims("gpu")),
            "others": undecided_claim(),
            "sent": {"n1": ["a"]},
        },
        ["default/a"],
    ),
}


@pytest.mark.parametrize("how", FOUND)
def test_the_selection_method_is_shown_where_it_is_not_the_reprieve(how):
    policy, nodes, settings, victims = FOUND[how]
    found = preempted(nodes, policy=policy, **settings)
    one = on(found, "n1")
    assert (one.outcome, one.chosen_by, one.victims) == ("chosen", how, victims)
    assert sorted(pod.key for pod in one.pods if pod.role == "victim") == sorted(victims)
    # In which order pods were put back says nothing of victims that were found otherwise.
    assert any(pod.order for pod in one.pods) == (how == "scheduler preferred")


def test_the_reprieve_is_not_shown_as_a_method():
    assert on(preempted(FULL), "n1").chosen_by == ""


# --- the rules --------------------------------------------------------------------------------------------------------


def test_policies_that_differ_from_kube_schedulers_are_listed_with_their_values():
    policy = PreemptionPolicy(
        disruption_budgets="Strict",
        protections=(Protection("jobs"), Protection("young")),
        ranking=("VictimCount", "PodGroups"),
        limits=Limits(max_victims=5),
    )
    assert preempted(FULL, policy=policy, keep=None).policies == [
        "disruptionBudgets: Strict",
        "ranking: VictimCount, PodGroups",
        "protections: jobs, young",
        "limits.maxVictims: 5",
        "keepCandidates: All",
    ]
    assert preempted(FULL).policies == []


def test_the_incoming_pod_the_cache_status_and_the_filters_are_rendered():
    found = preempted(FULL)
    assert found.incoming == PodReport(
        key="default/incoming", uid="uid-incoming", priority=1000, requests={"cpu": 1000}
    )
    assert (found.pod, found.uid, found.priority, found.cache) == (
        "default/incoming",
        "uid-incoming",
        1000,
        "version=1",
    )
    assert found.filters[:2] == ["NodeName", "NodeUnschedulable"]
    assert (found.id, found.time, found.milliseconds) == ("preempt-1", "2026-01-01T00:00:30.000Z", 1.0)


def test_plugins_that_are_not_evaluated_are_listed():
    wanted = incoming(**using_claims("gpu"))
    assert preempted(FULL, preemptor=wanted, others=undecided_claim()).not_evaluated == ["DynamicResources"]


def test_one_node_is_rendered_alone_with_its_pods():
    snapshot, wanted = built(cluster(FULL)), typed(incoming())
    sent = {"n1": SentCandidate(()), "n2": SentCandidate(())}
    record = record_preempt(engine.preempt(snapshot, wanted, sent, Profile()), sent)
    one = KeptDecision("preempt-1", NOW, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record)
    assert [(shown.name, len(shown.pods)) for shown in one.decision("n2", every_pod=False).nodes] == [("n2", 1)]
    assert [(shown.name, len(shown.pods)) for shown in one.decision(every_pod=False).nodes] == [("n1", 0), ("n2", 0)]
    assert one.decision("n3").nodes == []


# --- /filter ----------------------------------------------------------------------------------------------------------

SOME = {
    node("fits"): [],
    node("full", cpu="1"): [pod("a")],
    node("important", cpu="1"): [pod("b", priority=5000)],
    node("cordoned", unschedulable=True): [],
}


def filtered(nodes: Any, requested: list[str], preemptor: JSON | None = None) -> DecisionReport:
    snapshot, wanted = built(cluster(nodes)), typed(preemptor or incoming())
    record = record_filter(engine.filter(snapshot, wanted, requested, Profile()))
    return KeptDecision("filter-1", NOW, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record).decision()


def test_a_filter_says_of_every_node_whether_it_fits_and_whether_an_eviction_would_help():
    found = filtered(SOME, ["cordoned", "full", "fits", "important"])
    assert [(one.name, one.outcome, one.filter.plugin if one.filter else "") for one in found.nodes] == [
        ("cordoned", "unresolvable", "NodeUnschedulable"),
        ("full", "failed", "NodeResourcesFit"),
        ("fits", "accepted", ""),
        ("important", "unresolvable", "NodeResourcesFit"),
    ]
    assert (found.ranking, found.highest, found.chosen) == (None, None, [])


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (["fits"], "default/incoming fits on fits"),
        (["fits", "fits-2"], "default/incoming fits on all 2 nodes"),
        (["full"], "default/incoming does not fit on full: Insufficient cpu"),
        (
            ["fits", "full", "important", "cordoned"],
            "default/incoming fits on 1 of 4 nodes: 2 with too little cpu, 1 cordoned",
        ),
        (["full", "important"], "default/incoming fits on none of 2 nodes: 2 with too little cpu"),
        ([], "kube-scheduler sent no node for default/incoming"),
    ],
)
def test_the_sentence_of_a_filter(requested, expected):
    assert filtered({**SOME, node("fits-2"): []}, requested).sentence == expected


def test_a_filter_tells_what_is_free_where_a_resource_is_short():
    gpus = {"example.com/gpu": "2"}
    nodes = {
        node("short", allocatable=gpus): [pod("a", cpu="3500m", requests={"example.com/gpu": "2"})],
        node("cordoned", unschedulable=True, allocatable=gpus): [],
        node("fits", allocatable=gpus): [],
    }
    found = filtered(nodes, [one.name for one in nodes], incoming(cpu="1", requests={"example.com/gpu": "1"}))
    assert {one.name: one.free for one in found.nodes} == {
        "short": {"cpu": 500, "example.com/gpu": 0, "pods": 109},
        "cordoned": {},
        "fits": {},
    }


def test_what_is_free_is_told_of_every_resource_that_the_pod_requests_wherever_it_does():
    """In an init container, and at the level of the pod."""
    gpus = {"example.com/gpu": "2", "memory": "8Gi"}
    nodes = {node("short", allocatable=gpus): [pod("a", requests={"example.com/gpu": "2"})]}
    loader = {"name": "load", "resources": {"requests": {"example.com/gpu": "1"}}}
    coming = incoming(cpu=None, initContainers=[loader], resources={"requests": {"memory": "1Gi"}})
    (found,) = filtered(nodes, ["short"], coming).nodes
    assert found.free == {"memory": 8 << 30, "example.com/gpu": 0, "pods": 109}


def test_nothing_is_free_of_resources_that_no_node_has():
    (found,) = filtered(
        {node("n1"): []}, ["n1"], incoming(cpu=None, requests={"example.com/a": "1", "example.com/b": "1"})
    ).nodes
    assert found.free == {"pods": 110, "example.com/a": 0, "example.com/b": 0}


def test_of_a_resource_that_devices_provide_there_is_no_amount():
    devices = device_class(extended_resource="example.com/gpu")
    coming = incoming(requests={"example.com/gpu": "1"}, cpu="64")
    snapshot = built(
        cluster({node("n1", cpu="1"): [], node("plugin", allocatable={"example.com/gpu": "2"}): []}, others=[devices])
    )
    record = record_filter(engine.filter(snapshot, typed(coming), ["n1"], Profile()))
    assert render_nodes(record)[0].free == {"cpu": 1000, "pods": 110}


def test_a_record_sums_up_no_pods_again(monkeypatch):
    gpus = {"example.com/gpu": "2"}
    nodes = {node("short", allocatable=gpus): [pod("a", requests={"example.com/gpu": "2"})]}
    decision = engine.filter(
        built(cluster(nodes)), typed(incoming(requests={"example.com/gpu": "1"})), ["short"], Profile()
    )
    monkeypatch.setattr(Snapshot, "scalar_demand", lambda *_: pytest.fail("computed again"))
    assert record_filter(decision).free["example.com/gpu"].tolist() == [0]


def test_where_every_node_has_room_nothing_is_recorded_of_it():
    snapshot = built(cluster({node("n1"): [], node("n2", unschedulable=True): []}))
    assert record_filter(engine.filter(snapshot, typed(incoming()), ["n1", "n2"], Profile())).free == {}


# --- /prioritize ------------------------------------------------------------------------------------------------------


def scored(nodes: Any, requested: list[str], preemptor: JSON | None = None) -> DecisionReport:
    snapshot, wanted = built(cluster(nodes)), typed(preemptor or incoming())
    record = record_prioritize(engine.prioritize(snapshot, wanted, requested, Profile()))
    return KeptDecision("prioritize-1", NOW, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record).decision()


def test_scores_are_rendered_plugin_by_plugin():
    """1 of 4 cpu is taken, and of 8 GiB what counts for a container that requests none, 200 MB: 75 and 97 of 100 are
    left, 86 in the mean."""
    found = scored({node("n1"): []}, ["n1"])
    (one,) = found.nodes
    assert one.plugins["NodeResourcesFit"] == 86
    assert "TaintToleration" in one.plugins
    assert (one.outcome, one.total) == ("scored", sum(one.plugins.values()))
    assert found.highest == 100 * sum(dict(Profile().score_weights)[name] for name in one.plugins)
    assert one.score == sum(one.plugins.values()) * 10 // found.highest


def test_nodes_on_which_the_pod_does_not_fit_say_what_their_score_stands_for():
    found = scored(SOME, ["fits", "full", "important"])
    assert [(one.name, one.outcome, one.why) for one in found.nodes] == [
        ("fits", "scored", ""),
        ("full", "unscored", FITS_AFTER_EVICTION),
        ("important", "unscored", NO_EVICTION_HELPS),
    ]
    assert [one.total for one in found.nodes[1:]] == [None, None]
    assert found.nodes[2].score == 0


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (["fits"], r"fits scored \d+ of 10 for default/incoming"),
        (["fits", "fits-2"], r"all 2 nodes scored \d+ of 10 for default/incoming"),
        (["fits", "full"], r"fits scored best of 2 nodes for default/incoming: \d+ of 10"),
        (["full", "fits-2", "fits"], r"fits-2 and 1 more scored best of 3 nodes for default/incoming: \d+ of 10"),
        ([], "kube-scheduler sent no node for default/incoming"),
    ],
)
def test_the_sentence_of_scores(requested, expected):
    found = scored({**SOME, node("fits-2"): []}, requested).sentence
    assert re.fullmatch(expected, found), found
