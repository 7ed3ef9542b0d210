"""Render scheduling cycles as kube-scheduler's events; pods with the same event share a row."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from extender.cli.output.tables import TextRow
from extender.core.framework.status import cut_message
from extender.core.scheduling_cycle.result import ReservedClaim
from extender.report.simulation_schema import CycleReport, Simulation
from extender.report.wording import CLAIM_ALLOCATIONS
from extender.utilities.text import join_names, pluralize

MAX_LISTED_DEVICES = 8
"""Maximum number of devices of a claim that a line names."""

MAX_LISTED_REPLICAS = 10
"""Maximum number of pods of one workload that get a row each."""


def event_rows(result: Simulation) -> list[TextRow]:
    """Return the events in order, each as namespace, type, reason, object and message."""
    workloads = result.scenario.workloads if result.scenario is not None else []
    workload_of = {pod: one.workload for one in workloads for pod in one.created}
    return [row for cycles in _alike(result.cycles, workload_of) for row in _shared_rows(cycles, workload_of)]


def _alike(cycles: Sequence[CycleReport], workload_of: Mapping[str, str]) -> Iterator[list[CycleReport]]:
    """Group consecutive cycles that differ only in the pod, or that schedule pods of the same workload."""

    def shared(cycle: CycleReport) -> object:
        if cycle.outcome == "Scheduled" and not cycle.claims:
            return workload_of.get(cycle.pod, cycle.pod)
        return [(namespace, kind, reason, message) for namespace, kind, reason, _, message in _cycle_rows(cycle)]

    for _, group in groupby(cycles, shared):
        alike = [*group]
        is_listed = alike[0].outcome == "Scheduled" and len(alike) <= MAX_LISTED_REPLICAS
        yield from ([one] for one in alike) if is_listed else [alike]


def _shared_rows(cycles: Sequence[CycleReport], workload_of: Mapping[str, str]) -> Iterator[TextRow]:
    """Yield the rows of the first pod, with the number of pods that share them."""
    (namespace, kind, reason, about, message), *others = _cycle_rows(cycles[0])
    pods = len({cycle.pod for cycle in cycles})
    if pods > 1 and reason == "Scheduled":
        nodes = pluralize(len({cycle.node for cycle in cycles}), "node")
        message = f"Successfully assigned {pods} pods of {workload_of[cycles[0].pod]} to {nodes}"
    yield namespace, kind, reason, join_names([about], 1, pods), message
    yield from others


def _cycle_rows(cycle: CycleReport) -> Iterator[TextRow]:
    """Render the events of a cycle as kube-scheduler does (schedule_one.go, preemption/executor.go, v1.36).

    A line without a type adds a fact that kube-scheduler itself would not report.
    """
    namespace, _, name = cycle.pod.partition("/")
    about = f"pod/{name}"
    if cycle.outcome == "Scheduled":
        yield namespace, "Normal", "Scheduled", about, f"Successfully assigned {cycle.pod} to {cycle.node}"
    elif cycle.outcome == "Skipped":
        yield namespace, "Normal", "Skipped", about, cycle.message
    else:
        yield namespace, "Warning", "FailedScheduling", about, cut_message(cycle.message)
    if cycle.hint is not None:
        yield "", "", "", "", cycle.hint
    for claim in cycle.claims:
        yield "", "", "", "", _describe_claim(claim)
    if cycle.deallocated is not None:
        yield "", "", "", "", f"claim {cycle.deallocated} is deallocated: no pod uses it, and the pod does not fit"
    if cycle.vetoed is not None:
        yield "", "", "", "", f"preemption vetoed: {cycle.vetoed}"
    if cycle.not_evaluated:
        names = ", ".join(cycle.not_evaluated)
        yield "", "", "", "", f"not evaluated here, kube-scheduler may decide otherwise: {names}"
    # kube-scheduler names the preemptor by its UID, but a simulation makes up the UIDs of pods that it creates.
    preemptor = cycle.pod if cycle.uid.startswith(f"{cycle.pod}#") else cycle.uid
    for victim in cycle.victims:
        namespace, _, name = victim.pod.partition("/")
        note = f"Preempted by pod {preemptor} on node {victim.node}"
        if not victim.terminating:  # kube-scheduler does not delete a terminating victim again
            yield namespace, "Normal", "Preempted", f"pod/{name}", note


def _describe_claim(claim: ReservedClaim) -> str:
    """Render `claim default/train gets gpu.example.com/n1/gpu-0`; driver, pool and name of each device."""
    names = [f"{one.driver}/{one.pool}/{one.device}" for one in claim.devices]
    listed = join_names(names, MAX_LISTED_DEVICES) or "no devices"
    return f"claim {claim.claim} {CLAIM_ALLOCATIONS[claim.allocation]} {listed}"
