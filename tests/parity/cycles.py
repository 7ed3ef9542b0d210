"""One whole scheduling cycle against kube-scheduler's: the node, the nomination and the messages.

Rule: what a cycle must say follows from upstream's verdicts alone, written down a second time here.
"""

from collections import Counter
from dataclasses import replace

from extender.core.scheduling_cycle.schedule_one import Cycle, Draw, schedule_one
from tests.parity.agreement import JSON, errors_of_nodes, errors_of_the_dry_run
from tests.parity.exemptions import exempt_nodes
from tests.parity.parity import NOW, Evaluated

PLACEMENT = "preemption: found a potential placement for pod on node "


def cycle_of(one: Evaluated, draw: Draw | None = None) -> Cycle:
    """Our scheduling cycle of the scenario's pod."""
    profile = replace(one.profile, scheduler_name=one.pod.spec.scheduler_name)
    return schedule_one(one.snapshot, one.pod, replace(one.scheduler, profiles=(profile,)), history=NOW, draw=draw)


def ties_of(expected: JSON, nominated: str | None) -> list[str]:
    """Nodes that a pod may be bound to: the nominated one if it takes the pod, else those with the highest total.

    Nothing is scored without score plugins, nor for a single node, whose score plugins may then fail.
    """
    if expected["filter"].get(nominated, {}).get("code") == "Success":
        return [str(nominated)]
    if not expected["scores"]:
        return sorted(node for node, status in expected["filter"].items() if status["code"] == "Success")
    best = max(score["total"] for score in expected["scores"].values())
    return sorted(node for node, score in expected["scores"].items() if score["total"] == best)


def filter_message(scenario: JSON) -> str:
    """What FitError says before it comes to preemption: written down again, from upstream's verdicts."""
    expected = scenario["expected"]
    names = [item["metadata"]["name"] for item in scenario["cluster"]["items"] if item["kind"] == "Node"]
    if "prefilter" in expected:
        said = ", ".join(expected["prefilter"]["reasons"])
    else:
        counts = Counter(reason for name in names for reason in expected["filter"][name]["reasons"])
        said = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(names)} nodes are available:{f' {said}.' if said else ''}"


def is_exempt_choice(scenario: JSON, node: str | None) -> bool:
    """Whether the victims on the cycle's node or on upstream's are exempt, so that the nodes may be others, too."""
    return not exempt_nodes(scenario).isdisjoint({node, scenario["expected"]["selected"]})


def post_filter_reasons(scenario: JSON, node: str | None, victims: int) -> list[str]:
    """What the PostFilter plugins must say, sorted: since 1.37 also of the node that the pod is nominated to.

    Where the choice of victims on one of the two nodes is exempt, node and number are those of the cycle itself.
    """
    reasons: list[str] = scenario["expected"]["postFilter"]["reasons"]
    if not is_exempt_choice(scenario, node):
        return reasons
    placement = f"{PLACEMENT}{node}, preempting {victims} victims"
    return [placement if reason.startswith(PLACEMENT) else reason for reason in reasons]


def is_told(one: Evaluated) -> bool:
    """Whether upstream's verdicts tell how its cycle ends, and nothing that is not evaluated has a say in it.

    They do not say what PostFilter does where DefaultPreemptionArgs let the dry run try a random part of the nodes, nor
    in which order it lists errors that differ.
    """
    expected = one.scenario["expected"]
    ends = expected["feasible"] or not expected.keys().isdisjoint({"preEnqueue", "cycleError", "postFilter"})
    ends = ends or not one.profile.post_filter_plugins
    ends = ends and len(errors_of_the_dry_run(expected)) < 2
    return bool(ends) and not one.not_evaluated


def error_of(expected: JSON, nominated: str | None) -> str | None:
    """The error of a plugin that ends the cycle, if one does."""
    if expected["filter"].get(nominated, {}).get("code") == "Success":
        return None
    return expected.get("cycleError") or (expected.get("scoreError") if expected["feasible"] > 1 else None)


def cycle_differences(one: Evaluated) -> list[object]:
    """Between a scheduling cycle of ours and kube-scheduler's: the node, the nomination and the messages."""
    scenario, cycle = one.scenario, cycle_of(one)
    expected, nominated = scenario["expected"], scenario["pod"].get("status", {}).get("nominatedNodeName")
    post_filter = expected.get("postFilter")
    if "preEnqueue" in expected:
        right = ("Skipped", f"not tried: {expected['preEnqueue']['reasons'][0]}")
        return [] if (cycle.outcome, cycle.message) == right else [right, cycle]
    if error := error_of(expected, nominated):
        possible = {error, *errors_of_nodes(expected)}  # nodes are filtered in parallel
        return [] if cycle.outcome == "Unschedulable" and cycle.message in possible else [error, cycle]
    if post_filter is None and not expected["feasible"]:  # without PostFilter plugins
        unschedulable = ("Unschedulable", filter_message(scenario))
        return [] if (cycle.outcome, cycle.message) == unschedulable else [unschedulable, cycle]
    if post_filter is None:
        ties = ties_of(expected, nominated)
        scheduled = ("Scheduled", ties[0], "", None)
        got = (cycle.outcome, cycle.node, cycle.message, cycle.post_filter)
        return [] if got == scheduled else [scheduled, cycle]
    if cycle.post_filter is None:
        return [post_filter, cycle]
    found: list[object] = []
    reasons = list(cycle.post_filter.reasons)
    expected_reasons = post_filter_reasons(scenario, cycle.node, len(cycle.victims))
    if [cycle.post_filter.code, sorted(reasons)] != [post_filter["code"], expected_reasons]:  # the judge sorts
        found += [post_filter, cycle.post_filter]
    message = " ".join(filter(None, (filter_message(scenario), ", ".join(reasons))))
    # Where the nominated node is filtered first, its plugin is named as one that left the other nodes out.
    if cycle.message != message and not ("prefilterNodes" in expected and nominated):
        found += [message, cycle.message]
    if post_filter["nominatedNode"]:
        victims = [pod.metadata.uid for pod in cycle.victims]
        candidate = expected["candidates"].get(cycle.node)
        if cycle.outcome != "Nominated" or (
            cycle.node != expected["selected"] and not is_exempt_choice(scenario, cycle.node)
        ):
            found += [expected["selected"], cycle]
        elif cycle.node not in exempt_nodes(scenario) and (candidate is None or victims != candidate["victims"]):
            found += [candidate, victims]
    elif cycle.outcome != "Unschedulable" or cycle.victims:
        found += ["Unschedulable", cycle]
    return found
