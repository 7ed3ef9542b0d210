"""Never evict wrongly: what must hold for every answer, whatever the cluster and whatever is offered.

Generated cases are answered once per process, from request bytes to answer bytes, and each answer is checked
for all of the rules; then each test asks for the violations of its own rule, and whether the rule was put to the test.
E1 to E12 are the requirements' names.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import pytest

from extender.core import engine
from extender.core.profile import Profile
from extender.errors import UnknownNode
from extender.server.guard.guard import guard_filter, guard_preempt
from extender.wire.decode import decode_filter, decode_preempt
from extender.wire.encode import encode_filter, encode_preempt
from tests.builders import JSON, built
from tests.device_builders import undecided_claim, using_claims
from tests.property.generate import REFERENCE_FEATURES, Case, case
from tests.property.recount import Room, finished, importance, priority

BEST = Profile()
ALL = Profile(keep_candidates=None)


@dataclass(slots=True)
class Report:
    """Rule -> what was found; at most a few lines each are kept."""

    cases: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def check(self, rule: str, holds: bool, what: object) -> None:
        self.asked[rule] += 1
        if not holds:
            self.broken[rule] += 1
            self.examples[rule] += [str(what)] if self.broken[rule] <= 5 else []

    def none_broken(self, rule: str, per_mille: int) -> None:
        """`per_mille`: how often the rule must have been asked about, for a thousand cases."""
        print(f"{rule}: asked {self.asked[rule]} times in {self.cases} cases")  # noqa: T201
        assert self.broken[rule] == 0, self.examples[rule]
        assert self.asked[rule] >= max(1, self.cases * per_mille // 1000), "too few cases apply to the rule"


@pytest.fixture(scope="module")
def report(seeds):
    report = Report()
    before = Question.of(0)
    for seed in seeds(150, 1_500, 100_000):
        question = Question.of(seed)
        examine(report, question, before)
        before = question
        report.cases += 1
    return report


# --- questions and answers ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A case as the bytes that kube-scheduler would send."""

    case: Case
    modelled: bool
    filter_body: bytes
    preempt_body: bytes
    profile: Profile

    @classmethod
    def of(cls, seed: int) -> "Question":
        one, modelled = case(seed), seed % 5 != 0
        if not modelled:
            claims = undecided_claim("gpu", one.pod["metadata"]["namespace"])
            one = replace(one, cluster=one.cluster | {"items": [*one.cluster["items"], *claims]})
        pod = one.pod if modelled else with_a_resource_claim(one.pod)
        profile = BEST if seed % 2 else ALL
        return cls(one, modelled, filter_body(one, pod, whole=seed % 4 == 0), preempt_body(one, pod), profile)

    @cached_property
    def running(self) -> dict[str, dict[str, JSON]]:
        """Node -> UID -> pod."""
        items = self.case.cluster["items"]
        on: dict[str, dict[str, JSON]] = {item["metadata"]["name"]: {} for item in items if item["kind"] == "Node"}
        for item in items:
            if item["kind"] == "Pod" and item["spec"].get("nodeName") in on and not finished(item):
                on[item["spec"]["nodeName"]][item["metadata"]["uid"]] = item
        return on


def with_a_resource_claim(pod):
    """The pod with a claim that the engine cannot judge and knows it: kube-scheduler's victims count."""
    return pod | {"spec": pod["spec"] | using_claims("gpu")}


def filter_body(one, pod, *, whole):
    items = [{"metadata": {"name": name}, "spec": {"x": 1.50}} for name in one.nodes]
    nodes, names = ({"metadata": {}, "items": items}, None) if whole else (None, one.nodes)
    return msgspec.json.encode({"Pod": pod, "Nodes": nodes, "NodeNames": names})


def preempt_body(one, pod):
    return msgspec.json.encode({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": one.sent})


def answer_filter(snapshot, question):
    request = decode_filter(question.filter_body)
    decision = engine.filter(snapshot, request.pod, request.nodes, question.profile)
    guard_filter(request.nodes, decision)
    return encode_filter(request, decision.accepted, decision.failed, decision.unresolvable)


def answer_preempt(snapshot, question):
    """The answer, and what the guard had against it."""
    request = decode_preempt(question.preempt_body)
    decision = engine.preempt(snapshot, request.pod, request.sent, question.profile)
    result = guard_preempt(snapshot, request.pod, request.sent, decision.kept, as_sent=decision.as_sent)
    return encode_preempt(result.kept), result.rejected


def examine(report, question, other):
    seed, snapshot = question.case.seed, built(question.case.cluster, REFERENCE_FEATURES)
    filtered = answer_filter(snapshot, question)
    preempted, rejected = answer_preempt(snapshot, question)
    report.check("guard", not rejected, (seed, rejected))
    examine_filter(report, question, filtered)
    examine_preempt(report, question, preempted)
    # Another pod is asked about before, so that what a snapshot keeps for later cannot hide.
    if seed % 5 == 0:
        snapshot = built(question.case.cluster, REFERENCE_FEATURES)
    answer_preempt(snapshot, other)
    again = answer_filter(snapshot, question), answer_preempt(snapshot, question)[0]
    report.check("E12", again == (filtered, preempted), seed)


# --- the rules ------------------------------------------------------------------------------------------------------


def examine_filter(report, question, body):
    seed, offered = question.case.seed, question.case.nodes
    answer = json.loads(body)
    report.check("E5", is_strict_filter_answer(answer, question), (seed, body))
    accepted = answer["NodeNames"]
    if accepted is None:
        accepted = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    failed, unresolvable = answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]
    named = {*accepted, *failed, *unresolvable}
    report.check("E1", named <= set(offered), (seed, body))
    in_order = accepted == [name for name in offered if name in set(accepted)]
    apart = len(set(accepted)) + len(failed) + len(unresolvable) == len(named)
    report.check("E9", in_order and apart and named == set(offered), (seed, body))


def is_strict_filter_answer(answer, question):
    """One of Nodes and NodeNames, as asked; whole nodes as they came; maps of text, never null."""
    asked = json.loads(question.filter_body)
    lists = answer["Nodes"] if asked["NodeNames"] is None else answer["NodeNames"]
    whole = asked["NodeNames"] is None
    if whole and not all(item in asked["Nodes"]["items"] for item in lists["items"]):
        return False
    maps = answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]
    return (
        type(lists["items"] if whole else lists) is list
        and (answer["NodeNames"] if whole else answer["Nodes"]) is None
        and all(type(one) is dict and all(type(text) is str for text in one.values()) for one in maps)
        and answer.get("Error", "") == ""
    )


def examine_preempt(report, question, body):
    one, seed = question.case, question.case.seed
    answer = json.loads(body)
    report.check("E5", is_strict_preempt_answer(answer, one.sent), (seed, body))
    chosen = {node: [meta["UID"] for meta in each["Pods"]] for node, each in answer["NodeNameToMetaVictims"].items()}
    report.check("E1", chosen.keys() <= one.sent.keys() & question.running.keys(), (seed, body))
    examine_offers(report, question, chosen)
    never = one.pod["spec"].get("preemptionPolicy") == "Never"
    if never:
        report.check("E3 Never", chosen == {}, (seed, body))
    if not chosen:
        return
    room = Room.of(one.cluster, one.pod)
    for node, uids in chosen.items():
        here = question.running[node]
        known = len(set(uids)) == len(uids) and here.keys() >= set(uids)
        report.check("E2", known, (seed, node, uids))
        victims = [here[uid] for uid in uids if uid in here]
        lower = all(priority(victim) < priority(one.pod) for victim in victims)
        report.check("E3", lower, (seed, node, uids))
        if len(victims) > 1:
            report.check("E6", victims == sorted(victims, key=importance), (seed, node, uids))
        claimed = answer["NodeNameToMetaVictims"][node]["NumPDBViolations"]
        report.check("E7", claimed == room.violations(node, uids), (seed, node, claimed))
        if question.modelled:
            complaint = room.complaint(node, uids)
            report.check("E8", complaint is None, (seed, complaint))


def examine_offers(report, question, chosen):
    """An unknown victim drops the node; one of too high a priority is not taken over where offers are."""
    limit = priority(question.case.pod)
    for node, offer in question.case.sent.items():
        here = question.running.get(node, {})
        if not all(meta["UID"] in here for meta in offer["Pods"]):
            report.check("E2 unknown", node not in chosen, (question.case.seed, node, offer))
        elif not question.modelled and any(priority(here[meta["UID"]]) >= limit for meta in offer["Pods"]):
            report.check("E3 offered", node not in chosen, (question.case.seed, node, offer))


def is_strict_preempt_answer(answer, sent):
    """Only what Go reads, with the types that it reads; `Pods` is empty only if it was offered empty."""
    if list(answer) != ["NodeNameToMetaVictims"] or type(answer["NodeNameToMetaVictims"]) is not dict:
        return False
    for node, each in answer["NodeNameToMetaVictims"].items():
        if list(each) != ["Pods", "NumPDBViolations"] or type(each["Pods"]) is not list:
            return False
        if not each["Pods"] and sent.get(node, {}).get("Pods"):
            return False
        if not all(list(meta) == ["UID"] and type(meta["UID"]) is str and meta["UID"] for meta in each["Pods"]):
            return False
        if type(each["NumPDBViolations"]) is not int or each["NumPDBViolations"] < 0:
            return False
    return True


# --- one test each --------------------------------------------------------------------------------------------------


def test_E1_answered_nodes_are_a_subset_of_the_offered(report):
    report.none_broken("E1", per_mille=2000)


def test_E2_every_victim_is_known_on_its_node_and_named_once(report):
    report.none_broken("E2", per_mille=300)


def test_E2_an_offered_victim_that_we_do_not_know_drops_the_node(report):
    report.none_broken("E2 unknown", per_mille=100)


def test_E3_every_victim_is_of_strictly_lower_priority(report):
    report.none_broken("E3", per_mille=300)


def test_E3_a_pod_that_never_preempts_gets_an_empty_map(report):
    report.none_broken("E3 Never", per_mille=30)


def test_E3_an_offered_victim_that_is_protected_is_never_taken_over(report):
    report.none_broken("E3 offered", per_mille=2)


def test_E5_our_own_bytes_pass_a_strict_decoder(report):
    report.none_broken("E5", per_mille=2000)


def test_E6_victims_come_most_important_first(report):
    report.none_broken("E6", per_mille=100)


def test_E7_violations_are_those_of_an_independent_recount(report):
    report.none_broken("E7", per_mille=300)


def test_E8_the_pod_fits_without_the_victims_and_needs_every_one_of_them_gone(report):
    report.none_broken("E8", per_mille=250)


def test_E9_each_offered_node_is_in_one_set_and_the_order_is_kept(report):
    report.none_broken("E9", per_mille=1000)


def test_E12_the_same_question_gets_the_same_bytes(report):
    """From the same snapshot, from a fresh one, and after questions about another pod."""
    report.none_broken("E12", per_mille=1000)


def test_the_guard_finds_nothing_to_reject(report):
    report.none_broken("guard", per_mille=100)


def test_E10_a_node_that_we_do_not_know_is_refused_not_dropped(seeds):
    for seed in seeds(10, 100, 1_000):
        question = Question.of(seed)
        request = decode_filter(question.filter_body)
        with pytest.raises(UnknownNode):
            engine.filter(
                built(question.case.cluster, REFERENCE_FEATURES), request.pod, [*request.nodes, "unknown"], BEST
            )
