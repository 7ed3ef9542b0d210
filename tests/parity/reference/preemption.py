"""Who must leave a node so that one more pod fits.

Mirrors `SelectVictimsOnNode`, `filterPodsWithPDBViolation` and `PodEligibleToPreemptOthers` of
pkg/scheduler/framework/plugins/defaultpreemption (v1.36). Ties of importance keep the order in
which the pods are listed, and are inverted between pods without a start time.
"""

from dataclasses import dataclass

from tests.parity.reference.filters import Cycle
from tests.parity.reference.objects import ERROR, JSON, UNRESOLVABLE, UNSCHEDULABLE, Verdict, status, terminating
from tests.parity.reference.state import Budget, Node, Pod


@dataclass(frozen=True, slots=True)
class Candidate:
    victims: list[Pod]
    violations: int

    def to_dict(self) -> JSON:
        return {"victims": [pod.uid for pod in self.victims], "numPDBViolations": self.violations}


def dry_run(cycle: Cycle) -> tuple[dict[str, Candidate], dict[str, Verdict]]:
    """Candidates, and why the other nodes that were tried are none."""
    candidates, others = {}, {}
    for node in nodes_to_try(cycle):
        found = select_victims(cycle, node)
        if isinstance(found, Candidate):
            candidates[node.name] = found
        else:
            others[node.name] = found
    return candidates, others


def nodes_to_try(cycle: Cycle) -> list[Node]:
    nodes = cycle.cluster.nodes
    if cycle.rejected:
        return list(nodes.values()) if cycle.rejected.code == UNSCHEDULABLE else []
    return [nodes[name] for name, verdict in cycle.verdicts.items() if verdict.code == UNSCHEDULABLE]


def select_victims(cycle: Cycle, original: Node) -> Candidate | Verdict:
    """Take every evictable pod off; if the preemptor then fits, put back each pod that it still fits beside."""
    node, counted = original.clone(), cycle.counted().clone()

    def take_off(pod: Pod) -> None:
        node.remove(pod)
        counted.count(pod, node, -1)

    def put_back(pod: Pod) -> None:
        node.add(pod)
        counted.count(pod, node, 1)

    evictable = [pod for pod in original.pods if pod.priority < cycle.pod.priority]
    if not evictable:
        return Verdict(UNRESOLVABLE, "", ("No preemption victims found for incoming pod",))
    for pod in evictable:
        take_off(pod)
    verdict = cycle.fits(node, counted)
    if not verdict.fits:
        return verdict

    evictable = most_important_first(evictable)
    violating, harmless = split_by_budgets(evictable, cycle.cluster.budgets)
    victims = []
    for pod in (*violating, *harmless):
        put_back(pod)
        if not cycle.fits(node, counted).fits:
            take_off(pod)
            victims.append(pod)
    if not victims:
        return Verdict(ERROR, "", (f'expected at least one victim pod on node "{node.name}"',))
    violations = sum(pod in violating for pod in victims)
    if violating and harmless:
        victims = most_important_first(victims)
    return Candidate(victims, violations)


def most_important_first(pods: list[Pod]) -> list[Pod]:
    """Sort as Go does by insertion, where of two equal pods without a start time the one asked about first is less."""
    waiting = [pod for pod in pods if not status(pod.raw).get("startTime")]
    started = [pod for pod in pods if status(pod.raw).get("startTime")]
    return sorted([*started, *reversed(waiting)], key=lambda pod: pod.importance)


def split_by_budgets(pods: list[Pod], budgets: list[Budget]) -> tuple[list[Pod], list[Pod]]:
    """Those whose loss breaks a budget, and the others, if all of them go, in this order.

    Every budget that matches is charged, also after another one is found broken.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[Pod] = []
    harmless: list[Pod] = []
    for pod in pods:
        broken = False
        for i, budget in enumerate(budgets):
            if budget.is_charged_for(pod):
                left[i] -= 1
                broken = broken or left[i] < 0
        (violating if broken else harmless).append(pod)
    return violating, harmless


def eligibility(cycle: Cycle) -> tuple[bool, str]:
    """May the pod preempt others, and why not.

    A feasible nominated node does not stop a preemption: upstream records no verdict for it, and the default for
    nodes without one is UnschedulableAndUnresolvable.
    """
    pod = cycle.pod
    if pod.raw["spec"].get("preemptionPolicy") == "Never":
        return False, "not eligible due to preemptionPolicy=Never."
    nominated = status(pod.raw).get("nominatedNodeName") or ""
    verdict = cycle.rejected or cycle.verdicts.get(nominated)
    if verdict is None or verdict.code != UNSCHEDULABLE:
        return True, ""
    for other in cycle.cluster.nodes[nominated].pods:
        if other.priority < pod.priority and is_being_preempted(other.raw):
            return False, "not eligible due to a terminating pod on the nominated node."
    return True, ""


def is_being_preempted(pod: JSON) -> bool:
    """It is terminating, and its first DisruptionTarget condition says by the scheduler's preemption."""
    if not terminating(pod):
        return False
    for condition in status(pod).get("conditions") or ():
        if condition["type"] == "DisruptionTarget":
            return bool(condition["status"] == "True" and condition.get("reason") == "PreemptionByScheduler")
    return False
