"""Compare two simulations of the same scenario: under two versions of kube-scheduler, or two policies.

The decision differs if a pod runs elsewhere or other pods are evicted for it; otherwise only the reason may differ, or
only the words of the same reason.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from extender.core.scheduling_cycle.result import CycleOutcome
from extender.report.simulation_schema import (
    Comparison,
    CycleReport,
    PodOutcome,
    PolicyDifference,
    Simulation,
    SimulationStruct,
)
from extender.whatif.result_sentence import comparison_sentence

Change = Literal["outcome", "node", "nominatedNode", "victims", "numPDBViolations", "feasible", "message"]

DECISIONS: tuple[Change, ...] = ("outcome", "node", "nominatedNode", "victims", "numPDBViolations")
REASONS: tuple[Change, ...] = ("feasible", "message")

REWORDED_PLUGINS = frozenset(
    {"TaintToleration", "VolumeBinding", "VolumeRestrictions", "DynamicResources", "NodeDeclaredFeatures", ""}
)
"""Plugins whose reasons have other words in some minor (k8s.version.features); "": the framework."""

_ATTRIBUTES = {"nominatedNode": "nominated_node", "numPDBViolations": "num_pdb_violations"}


class VersionOutcome(SimulationStruct, frozen=True):
    """The decision of one version about a pod, over all attempts to schedule it."""

    outcome: CycleOutcome
    """Outcome of the last attempt."""
    node: str | None
    nominated_node: str | None
    """Node of the last nomination."""
    victims: list[str]
    """Pods that are evicted for the pod, sorted."""
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")
    feasible: int
    """Number of feasible nodes in the first attempt."""
    message: str
    """Message of the last attempt that had one."""


class VersionDifference(SimulationStruct, frozen=True):
    """The difference that an upgrade makes for one pod."""

    pod: str
    decided_otherwise: bool
    """False: the decision is the same, only `feasible` or `message` differ."""
    in_words_only: bool
    """True if the same plugins reject the same numbers of nodes, so that `message` differs in its words only."""
    changes: list[Change]
    outcomes: list[VersionOutcome | None]
    """One per version; null where the pod does not occur."""


class VersionSummary(SimulationStruct, frozen=True):
    """Pod counts of a comparison."""

    pods: int
    decided_otherwise: int
    other_reason: int
    """Pods with the same decision, but a different reason or number of feasible nodes."""
    other_words: int
    """Pods with the same decision for the same reason, in other words."""


class VersionComparison(SimulationStruct, frozen=True):
    """Two simulations that differ in the version of kube-scheduler."""

    sentence: str
    """The result in one plain sentence."""
    compared: list[str]
    """The two versions."""
    summary: VersionSummary
    differences: list[VersionDifference]
    """Pods with different decisions, then different reasons, then other words, each in the order of first attempts."""
    results: list[Simulation]


def compare_versions(one: Simulation, other: Simulation) -> VersionComparison:
    """Compare the outcome of every pod in two simulations."""
    attempts = [_attempts_by_pod(each.attempts) for each in (one, other)]
    pods, differences = dict.fromkeys((*attempts[0], *attempts[1])), list[VersionDifference]()
    for pod in pods:
        own = [each.get(pod, []) for each in attempts]
        outcomes = [_outcome(each) if each else None for each in own]
        changes = [key for key in (*DECISIONS, *REASONS) if value_of(outcomes[0], key) != value_of(outcomes[1], key)]
        if changes:
            is_decision = any(key in DECISIONS for key in changes)
            is_reworded = changes == ["message"] and _causes(own[0]) == _causes(own[1])
            found = VersionDifference(
                pod=pod, decided_otherwise=is_decision, in_words_only=is_reworded, changes=changes, outcomes=outcomes
            )
            differences.append(found)
    differences.sort(key=lambda found: (not found.decided_otherwise, found.in_words_only))
    decided = [found.pod for found in differences if found.decided_otherwise]
    reworded = [found.pod for found in differences if found.in_words_only]
    summary = VersionSummary(
        pods=len(pods),
        decided_otherwise=len(decided),
        other_reason=len(differences) - len(decided) - len(reworded),
        other_words=len(reworded),
    )
    compared = [one.release, other.release]
    sentence = comparison_sentence(compared, (one, other), summary.pods, decided)
    others = ((summary.other_reason, "for another reason"), (summary.other_words, "for the same reason in other words"))
    return VersionComparison(
        sentence="; ".join([sentence, *(f"{count} {how}" for count, how in others if count)]),
        compared=compared,
        summary=summary,
        differences=differences,
        results=[one, other],
    )


def value_of(outcome: VersionOutcome | None, key: Change) -> object:
    """Return one property of an outcome; None if the pod is not in that simulation or has no such value."""
    return getattr(outcome, _ATTRIBUTES.get(key, key), None)


def _attempts_by_pod(cycles: Iterable[CycleReport]) -> dict[str, list[CycleReport]]:
    """Return pod -> its attempts, in the order of first attempts."""
    of_pod: dict[str, list[CycleReport]] = {}
    for cycle in cycles:
        of_pod.setdefault(cycle.pod, []).append(cycle)
    return of_pod


def _causes(attempts: list[CycleReport]) -> list[object]:
    """Return what the messages of the attempts say, but for their words."""
    found = list[object]()
    for one in attempts:
        nodes, post_filter = Counter[tuple[str, ...]](), one.post_filter
        for each in one.rejected:
            reasons = () if each.plugin in REWORDED_PLUGINS else each.reasons
            nodes[each.code, each.plugin, *reasons] += 1 if each.nodes is None else each.nodes
        # From 1.37 on, a preemption that succeeds says so in the message, and DynamicResources says nothing.
        said = post_filter.reasons if post_filter is not None and post_filter.code != "Success" else ()
        preemption = [reason for reason in said if reason.startswith("preemption: ")]
        # A pod that fits says why another one of its gang does not.
        unexplained = "" if nodes or one.feasible else one.message
        found.append((nodes, preemption, one.vetoed, one.deallocated, unexplained))
    return found


def _outcome(attempts: list[CycleReport]) -> VersionOutcome:
    last = attempts[-1]
    return VersionOutcome(
        outcome=last.outcome,
        node=last.node,
        # The last attempt may have bound the pod, which ends its nomination.
        nominated_node=next((one.nominated_node for one in reversed(attempts) if one.nominated_node), None),
        victims=sorted(victim.pod for one in attempts for victim in one.victims),
        num_pdb_violations=sum(one.num_pdb_violations for one in attempts),
        feasible=attempts[0].feasible,
        message=next((one.message for one in reversed(attempts) if one.message), ""),
    )


# --- policies ---------------------------------------------------------------------------------------------------------


def compare_policies(results: Sequence[Simulation]) -> Comparison:
    """Compare two simulations of the same scenario under two policies."""
    one, other = map(pod_outcomes, results)
    differences = [
        PolicyDifference(pod=pod, outcomes=[one.get(pod), other.get(pod)])
        for pod in dict.fromkeys((*one, *other))
        if _decided(one.get(pod)) != _decided(other.get(pod))
    ]
    compared = [one.policies for one in results]
    return Comparison(
        sentence=comparison_sentence(
            compared, results, len(one.keys() | other.keys()), [found.pod for found in differences]
        ),
        compared=compared,
        results=[*results],
        differences=differences,
    )


def pod_outcomes(result: Simulation) -> dict[str, PodOutcome]:
    """Return pod -> its outcome, in the order of first attempts."""
    return {
        pod: PodOutcome(
            outcome=cycles[-1].outcome,
            node=cycles[-1].node,
            message=cycles[-1].message,
            vetoed=cycles[-1].vetoed,
            evicts=[victim.pod for cycle in cycles for victim in cycle.victims],
            num_pdb_violations=sum(cycle.num_pdb_violations for cycle in cycles),
        )
        for pod, cycles in _attempts_by_pod(result.attempts).items()
    }


def _decided(one: PodOutcome | None) -> tuple[Any, ...] | None:
    # Not the message, which also depends on the evictions for other pods.
    return None if one is None else (one.outcome, one.node, sorted(one.evicts), one.num_pdb_violations)
