"""What a trace says is what was decided, whatever the cluster and the policies; each example is a seed.

Counted again here is in plain Python, from the trace itself or from the raw objects.
"""

import contextlib
from dataclasses import replace

import msgspec
from hypothesis import assume, given

from extender.core import engine
from extender.core.evaluation import ROOM_OF_TERMINATING_PODS, Evaluation
from extender.core.profile import FILTER_PLUGINS, Profile
from extender.core.record import RecordedPod, record_filter, record_preempt, record_prioritize
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import KINDS
from extender.k8s.requests import incoming_requests
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.report import summary
from extender.report.schema import DecisionReport, NodeReport
from extender.server.observability.decision_log import KeptDecision
from tests.builders import built, candidates_sent_by_kube_scheduler, drop_messages, stored_cluster, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import Draw, case
from tests.property.policies import Question, question, world

MANY = examples(6, 100, 20_000)
SOME = examples(5, 50, 10_000)


def kept(verb, pod, profile, record, now=0):
    return KeptDecision(f"{verb}-1", now, 1.0, RecordedPod.of(typed(pod)), profile, "answered", "version=1", record)


class Asked:
    """A preemption and its trace."""

    def __init__(self, seed, keep=None, policy=None):
        self.question: Question = question(seed, policy, keep)
        self.snapshot = built(self.question.cluster)
        self.decision = self.question.ask(self.snapshot)

    def kept(self):
        """Captured again."""
        record = record_preempt(self.decision, self.question.sent)
        return kept("preempt", self.question.pod, self.question.profile, record, self.question.history.now)

    def trace(self) -> DecisionReport:
        return self.kept().decision()


def by_name(decision: DecisionReport) -> dict[str, NodeReport]:
    nodes = {node.name: node for node in decision.nodes}
    assert len(nodes) == len(decision.nodes)
    return nodes


def keys(pods):
    return [pod.key for pod in pods]


def victims_of(node: NodeReport):
    return [pod.uid for pod in node.pods if pod.role == "victim"]


# --- /preempt ---------------------------------------------------------------------------------------------------------


def agrees_with_the_answer(seed, keep):
    asked = Asked(seed, keep)
    decision, trace = asked.decision, asked.trace()
    nodes = by_name(trace)
    assert trace.chosen == [one.node for one in decision.kept], "other nodes are chosen"
    assert [name for name, node in nodes.items() if node.outcome == "chosen"] == trace.chosen, (
        "the outcome of a node disagrees"
    )
    assert trace.victims == [victim.key for one in decision.kept for victim in one.victims], "other victims"
    for one in decision.kept:
        node = nodes[one.node]
        assert node.victims == keys(one.victims), "other victims of a node"
        assert sorted(victims_of(node)) == sorted(pod.metadata.uid for pod in one.victims)
        assert node.violations == one.num_pdb_violations, "another number of PDB violations"
    assert decision.dropped.keys() <= nodes.keys()
    assert set(asked.question.sent) <= nodes.keys()
    for name, why in drop_messages(decision).items():
        assert nodes[name].why == why, "another reason than the answer"
        assert nodes[name].sent
    assert {name for name, node in nodes.items() if node.sent} == set(asked.question.sent), "sent nodes disagree"
    assert (trace.outcome == "vetoed") == (decision.vetoed is not None)
    assert (trace.outcome == "noVictims") == (decision.vetoed is None and not decision.kept)


@MANY
@given(SEEDS)
def test_a_trace_names_the_nodes_and_victims_of_the_answer(seed):
    agrees_with_the_answer(seed, None)


@SOME
@given(SEEDS)
def test_it_does_so_where_one_node_is_answered(seed):
    agrees_with_the_answer(seed, 1)


@MANY
@given(SEEDS)
def test_its_candidates_stand_in_the_order_in_which_all_of_them_would_be_answered(seed):
    """However few are: what is shown of the others was not made for the answer."""
    asked = Asked(seed, 1)
    profile = replace(asked.question.profile, keep_candidates=None)
    every = replace(asked.question, profile=profile).ask(asked.snapshot).kept
    trace = asked.trace()
    ranked = [node for node in trace.nodes if node.rank is not None]
    assert [node.name for node in ranked] == [one.node for one in every], (
        "another order than the answer with all candidates"
    )
    assert [sorted(node.victims) for node in ranked] == [sorted(keys(one.victims)) for one in every], (
        "other victims than the answer"
    )
    assert [node.rank for node in ranked] == list(range(1, len(ranked) + 1)), "ranks are not 1 to n"
    assert [node.name for node in ranked[:1]] == trace.chosen, "the first candidate was not chosen"


@MANY
@given(SEEDS)
def test_its_ranking_can_be_followed(seed):
    """Keys rise from node to node, and who loses by what can be read off them."""
    trace = Asked(seed).trace()
    ranked, ranking = [node for node in trace.nodes if node.rank is not None], trace.ranking
    if ranking is None:
        assert not ranked
        return
    assert ranking.candidates == len(ranked)
    assert [node.keys for node in ranked] == sorted(node.keys for node in ranked), "the keys do not give the order"
    for node in ranked:
        assert len(node.keys) == len(node.shown) == len(ranking.criteria)
        differs = [name for name, a, b in zip(ranking.criteria, node.keys, ranked[0].keys, strict=True) if a != b]
        if node is ranked[0]:
            assert node.loses_by is None
        elif differs:
            assert node.loses_by == differs[0]
        else:
            assert node.loses_by in ("named", "name")
    ties = [node.name for node in ranked if node.keys == ranked[0].keys] if ranked else []
    assert ranking.ties == ties, "ties are miscounted"
    if len(ranked) < 2:
        assert ranking.decided_by is None
    elif len(ties) > 1:
        assert ranking.decided_by in ("named", "name")
    else:
        depth = max(ranking.criteria.index(str(node.loses_by)) for node in ranked[1:])
        assert ranking.decided_by == ranking.criteria[depth]


@MANY
@given(SEEDS)
def test_its_outcomes_can_be_followed(seed):
    asked = Asked(seed)
    for node in asked.trace().nodes:
        roles = {pod.role for pod in node.pods}
        counts = {role: sum(pod.role == role for pod in node.pods) for role in roles}
        assert node.counts == counts, "the counts do not match the pods"
        assert bool(node.victims) == (node.outcome in ("chosen", "outranked", "rejectedByPolicy")), (
            "victims do not match the outcome"
        )
        assert (node.rank is not None) == (node.outcome in ("chosen", "outranked")), "a rank does not match the outcome"
        assert (node.emptied is not None) == (node.outcome == "insufficientAfterPreemption")
        if node.outcome == "noVictims":
            assert not roles & {"victim", "reprieved"}
        if node.outcome == "insufficientAfterPreemption":
            assert "reprieved" in roles
            assert node.emptied is not None
            assert node.emptied.code != "Success"
        if node.outcome == "fits":
            assert node.filter is not None
            assert node.filter.code == "Success"
        if node.outcome not in ("chosen", "fits") and node.sent:
            assert node.why, "an outcome without a reason"
        limit = asked.question.pod["spec"].get("priority") or 0
        for pod in node.pods:
            assert (pod.role == "kept") == (pod.priority >= limit), "a pod of lower priority is kept, or the reverse"
            assert bool(pod.protected_by) == (pod.role == "protected"), "a protected pod without its protection"


@MANY
@given(SEEDS)
def test_the_preemptor_fits_where_it_says_so(seed):
    asked = Asked(seed)
    wanted = incoming_requests(typed(asked.question.pod), DEFAULT_FEATURES) | {"pods": 1}
    trace = asked.trace()
    for node in trace.nodes:
        if node.outcome == "chosen" and node.name not in asked.decision.as_sent:
            for name, amount in wanted.items():
                left = node.allocatable.get(name, 0) - node.used.get(name, 0) + node.freed.get(name, 0)
                assert amount == 0 or amount <= left, (node.name, name)
        for name, used in node.used.items():
            assert used == sum(1 if name == "pods" else pod.requests.get(name, 0) for pod in node.pods)


@MANY
@given(SEEDS)
def test_budgets_are_charged_by_those_who_go(seed):
    """And strict ones are not broken."""
    asked = Asked(seed)
    for node in asked.trace().nodes:
        charged: dict[str, int] = {}
        for pod in node.pods:
            for budget in pod.budgets if pod.role == "victim" else ():
                charged[budget] = charged.get(budget, 0) + 1
        told: dict[str, int] = {}
        for one in node.budgets:  # counted live, a budget stands there for its ready pods, and again for the others
            told[one.name] = told.get(one.name, 0) + one.used
        assert told == charged, "other budgets are charged than those of the victims"
        ours = node.outcome in ("chosen", "outranked") and node.name not in asked.decision.as_sent
        if ours and asked.question.profile.preemption.disruption_budgets == "Strict":
            assert all(one.used <= max(one.allowed, 0) for one in node.budgets), "more is used than allowed"


@MANY
@given(SEEDS)
def test_pods_are_put_back_in_turn_those_that_break_a_budget_first(seed):
    asked = Asked(seed)
    pods = (item["spec"] for item in asked.question.cluster["items"] if item["kind"] == "Pod")
    grouped = {spec.get("nodeName") for spec in pods if spec.get("schedulingGroup")}
    for node in asked.trace().nodes:
        if node.name in grouped:
            continue  # kube-scheduler's victims are kept there, without a reprieve
        turns = sorted((pod.order, not pod.violating) for pod in node.pods if pod.order is not None)
        taken_off = [pod for pod in node.pods if pod.role in ("victim", "reprieved")]
        if node.outcome != "notEvaluated" and node.chosen_by in ("", "scheduler preferred"):
            assert [order for order, _ in turns] == list(range(1, len(taken_off) + 1)), "the turns are not 1 to n"
            assert [last for _, last in turns] == sorted(last for _, last in turns), (
                "a pod without a PDB violation had its turn first"
            )
        else:
            assert turns == [], "a node that was not tried has turns"


@MANY
@given(SEEDS)
def test_without_policies_it_says_what_the_evaluation_of_the_cluster_says(seed):
    """On every node: the verdict, the victims, the violations, and why there are no victims."""
    cluster, pod = world(seed)
    snapshot = built(cluster)
    sent = dict.fromkeys(snapshot.node_names, SentCandidate(())) | candidates_sent_by_kube_scheduler(
        snapshot, typed(pod)
    )
    decision = engine.preempt(snapshot, typed(pod), sent, Profile(keep_candidates=None))
    nodes = by_name(kept("preempt", pod, Profile(), record_preempt(decision, sent)).decision())
    expected = Evaluation(snapshot, typed(pod), Profile()).to_dict()
    if decision.vetoed is not None:
        assert {node.outcome for node in nodes.values()} <= {"vetoed"}
        return
    for name, verdict in expected["filter"].items():
        shown = nodes[name].filter
        assert shown is not None
        assert (shown.code, shown.plugin, sorted(shown.reasons)) == (
            verdict["code"],
            verdict["plugin"],
            verdict["reasons"],
        ), "another filter verdict"
    for name, candidate in expected["candidates"].items():
        assert victims_sorted(nodes[name]) == sorted(candidate["victims"]), "other victims"
        assert nodes[name].violations == candidate["numPDBViolations"], "another number of PDB violations"
    for name, verdict in expected["nonCandidates"].items():
        node = nodes[name]
        assert node.outcome in ("insufficientAfterPreemption", "noVictims")
        said = [node.why] if node.emptied is None else node.emptied.reasons
        assert sorted(said) == verdict["reasons"], "other reasons"
    others = nodes.keys() - expected["candidates"].keys() - expected["nonCandidates"].keys()
    fitting = {name for name, verdict in expected["filter"].items() if verdict["code"] == "Success"}
    assert {name for name in others if nodes[name].outcome == "fits"} == fitting, "other nodes fit"
    assert {nodes[name].outcome for name in others - fitting} <= {"notEvaluated"}
    best = [name for name, node in nodes.items() if node.rank == 1]
    assert best == ([] if expected["selected"] is None else [expected["selected"]]), "another node is selected"


def victims_sorted(node):
    return sorted(victims_of(node))


# --- /filter and /prioritize ------------------------------------------------------------------------------------------


@MANY
@given(SEEDS)
def test_the_trace_of_a_filter_says_what_was_answered(seed):
    one = case(seed)
    snapshot = built(one.cluster)
    decision = engine.filter(snapshot, typed(one.pod), one.nodes, Profile())
    trace = kept("filter", one.pod, Profile(), record_filter(decision)).decision()
    assert [node.name for node in trace.nodes] == one.nodes, "other nodes, or another order"
    for place, node in enumerate(trace.nodes):
        assert (node.outcome == "accepted") == (place in decision.accepted), "accepted disagrees"
        assert (node.outcome == "failed") == (node.name in decision.failed), "failed disagrees"
        assert (node.outcome == "unresolvable") == (node.name in decision.unresolvable), "unresolvable disagrees"
        rejected = decision.failed | decision.unresolvable
        assert node.why in ({rejected[node.name]} if node.name in rejected else {"", ROOM_OF_TERMINATING_PODS}), (
            "another reason than the answer"
        )
        assert node.filter.plugin in ("", *(trace.filters or FILTER_PLUGINS))  # none: PreFilter rejected the pod
        assert ", ".join(node.filter.reasons) == node.why
    round_trip(trace)


@MANY
@given(SEEDS)
def test_the_trace_of_scores_says_what_was_answered(seed):
    one = case(seed)
    snapshot = built(one.cluster)
    assume(not snapshot.pod_table.terminating.any())  # on an offered node their room is free, unlike in an evaluation
    decision = engine.prioritize(snapshot, typed(one.pod), one.nodes, Profile())
    trace = kept("prioritize", one.pod, Profile(), record_prioritize(decision)).decision()
    assert [(node.name, node.score) for node in trace.nodes] == list(zip(one.nodes, decision.scores, strict=True)), (
        "other scores than the answer"
    )
    expected = Evaluation(snapshot, typed(one.pod), Profile()).to_dict()
    everywhere = set(one.nodes) == set(snapshot.node_names)
    for node in trace.nodes:
        assert (node.outcome == "scored") == (node.name in expected["scores"])
        assert node.total == (sum(node.plugins.values()) if node.outcome == "scored" else None), (
            "the plugins do not add up to the total"
        )
        if everywhere and node.outcome == "scored":  # scores are relative to the nodes that are offered
            assert node.plugins == expected["scores"][node.name]["plugins"], "a plugin has another score"
    round_trip(trace)


# --- telling ----------------------------------------------------------------------------------------------------------


def round_trip(trace: DecisionReport):
    encoded = msgspec.json.encode(trace)
    assert msgspec.json.decode(encoded, type=DecisionReport, strict=True) == trace
    assert trace.sentence
    assert trace.sentence.isprintable()


@SOME
@given(SEEDS)
def test_every_decision_can_be_told_and_read_again(seed):
    draw = Draw(seed)
    asked = Asked(seed, draw.pick((None, 1, 2)))
    one = asked.kept()
    trace = one.decision()
    round_trip(trace)
    for node in trace.nodes:
        (told,) = one.decision(node.name, every_pod=False).nodes
        assert msgspec.structs.replace(told, claims=[], not_followed="") == node, (
            "a node is reported otherwise alone"
        )  # these are told of one node only
    assert [node.name for node in one.decision(every_pod=False).nodes] == [node.name for node in trace.nodes]
    assert not any(node.pods for node in one.decision(every_pod=False).nodes)
    assert one.decision("nowhere").nodes == []
    assert {node.name for node in trace.nodes} == set(one.nodes), "a node is missing"
    assert summary.summarize(one.record, observed=True), "no summary"


@SOME
@given(SEEDS)
def test_it_says_the_same_after_the_snapshot_has_changed(seed):
    asked = Asked(seed)
    before, later = asked.kept(), asked.kept()
    told = msgspec.json.encode(before.decision())
    shake(asked.snapshot, seed)
    asked.question.ask(asked.snapshot)  # whatever is remembered follows
    assert msgspec.json.encode(later.decision()) == told, "the record changes with the snapshot"
    assert msgspec.json.encode(before.decision()) == told, "the record changes with the snapshot"


def shake(snapshot, seed):
    """Objects of another cluster take the place of these, and some go."""
    draw = Draw(seed + 5)
    others = stored_cluster(world(seed + 1)[0])
    for kind, of_kind in KINDS.items():
        for one in getattr(others, of_kind.field):
            with contextlib.suppress(ValueError):  # a UID of another pod
                snapshot.put(kind, one)
    for kind in KINDS:
        for key in draw.some([*snapshot.objects.of(kind)], 0.4):
            snapshot.remove(kind, key)
    snapshot.refresh_layout()
