"""What `extender why` says of a scenario against kube-scheduler's verdicts: codes, reasons, scores and victims."""

from dataclasses import replace
from typing import Any

from extender.core.scheduling_cycle.fit_error import PREEMPTION
from extender.report.diagnose import diagnose
from extender.report.pod_schema import Diagnosis, NodeDiagnosis
from tests.parity.agreement import JSON, compare, errors_of_nodes
from tests.parity.cycles import error_of, filter_message, is_exempt_choice, is_told, post_filter_reasons, ties_of
from tests.parity.exemptions import exempt_nodes
from tests.parity.parity import NOW, Evaluated, Normal

LEFT_OUT = "node(s) didn't satisfy plugin(s) ["

COMPARED = ("feasible", "filter", "scores", "candidates", "nonCandidates")


def diagnosis_of(one: Evaluated) -> Diagnosis:
    profile = replace(one.profile, scheduler_name=one.pod.spec.scheduler_name)
    return diagnose(one.snapshot, one.pod, replace(one.scheduler, profiles=(profile,)), NOW)


def diagnosis_differences(one: Evaluated, normal: Normal = dict) -> list[object]:
    """Between what is said of the pod and its nodes, and kube-scheduler's verdicts.

    `normal` is applied to both before they are compared.
    """
    found, expected = diagnosis_of(one), one.scenario["expected"]
    if "prefilter" in expected:  # upstream has no status per node then
        rejection = expected["prefilter"]
        wrong: list[object] = [
            node
            for node in found.nodes
            if [node.code, sorted(node.reasons)] != [rejection["code"], rejection["reasons"]]
        ]
    else:
        scenario = one.scenario | {"expected": normal(expected)}
        wrong = [*compare(scenario, normal(verdicts_of(one, found)), COMPARED, excuse=False)]
    return wrong + (outcome_differences(one, found) if is_told(one) else [])


def verdicts_of(one: Evaluated, found: Diagnosis) -> JSON:
    """The diagnosis in the shape of the corpus."""
    uids = {pod.key: pod.metadata.uid for pod in one.snapshot.objects.pods.values()}

    def candidate(node: NodeDiagnosis) -> JSON:
        assert node.preemption is not None
        victims = [uids[victim] for victim in node.preemption.victims]
        return {"victims": victims, "numPDBViolations": node.preemption.num_pdb_violations}

    tried = [(node, node.preemption) for node in found.nodes if node.preemption is not None]
    return {
        "feasible": found.feasible,
        "filter": {node.name: _plain(node) | _left_out(node) for node in found.nodes},
        "scores": {
            node.name: {"plugins": node.scores.plugins, "total": node.scores.total}
            for node in found.nodes
            if node.scores is not None and one.profile.score_weights
        },
        "candidates": {node.name: candidate(node) for node, tries in tried if tries.status is None},
        "nonCandidates": {node.name: _plain(tries.status) for node, tries in tried if tries.status is not None},
    }


def _plain(status: Any) -> JSON:
    return {"code": status.code, "plugin": status.plugin, "reasons": sorted(status.reasons)}


def _left_out(node: NodeDiagnosis) -> JSON:
    """The plugin of a node that PreFilter leaves out: none for kube-scheduler, while `why` names those that do so."""
    is_left_out = node.code != "Success" and (not node.reasons or node.reasons[0].startswith(LEFT_OUT))
    return {"plugin": ""} if is_left_out else {}


def outcome_differences(one: Evaluated, found: Diagnosis) -> list[object]:
    """Between the verdict, the message and the victims, and what follows from kube-scheduler's verdicts."""
    scenario, expected = one.scenario, one.scenario["expected"]
    nominated = scenario["pod"].get("status", {}).get("nominatedNodeName")
    post_filter, got = expected.get("postFilter"), (found.state, found.verdict, found.message)
    if "preEnqueue" in expected:
        return _unless(("Gated", "Unknown", expected["preEnqueue"]["reasons"][0]), got)
    if error := error_of(expected, nominated):
        return [] if found.message in {error, *errors_of_nodes(expected)} else [error, got]
    if expected["feasible"]:
        ties = ties_of(expected, nominated)
        return _unless(("Pending", "Fits", "", ties[0]), (*got, found.node))
    if post_filter is None:
        return _unless(("Pending", "DoesNotFit", filter_message(scenario)), got)
    if found.preemption is None:
        return [post_filter, got]
    reasons = post_filter_reasons(scenario, found.preemption.node, len(found.preemption.victims))
    own = ", ".join(one for one in reasons if one.startswith(PREEMPTION))
    wrong = _unless(_parts(own), _parts(found.preemption.message))
    # Where the nominated node is filtered first, its plugin is named as one that left the other nodes out.
    if not ("prefilterNodes" in expected and nominated):
        rejected = filter_message(scenario)
        before, after = found.message[: len(rejected)], found.message[len(rejected) :]
        wrong += _unless((rejected, _parts(", ".join(reasons))), (before, _parts(after.strip())))
    if post_filter["nominatedNode"] and not is_exempt_choice(scenario, found.preemption.node):
        victims = [victim.uid for victim in found.preemption.victims]
        candidate = expected["candidates"].get(expected["selected"], {})
        wrong += _unless(("FitsAfterPreemption", expected["selected"]), (found.verdict, found.preemption.node))
        wrong += _unless(candidate.get("victims"), victims)
        if not exempt_nodes(scenario):  # a node whose victims are others may tie
            wrong += _unless(expected["selectedTies"], found.preemption.ties)
    return wrong


def _parts(message: str) -> list[str]:
    """The parts of a message, sorted: PostFilter plugins may be listed in another order."""
    return sorted(message.split(", "))


def _unless(expected: object, got: object) -> list[object]:
    return [] if got == expected else [expected, got]
