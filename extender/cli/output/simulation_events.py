"""Render scheduling cycles as kube-scheduler's events; pods with the same event share a row."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from extender.core.framework.status import cut_message
from extender.report.simulation_schema import CycleReport, Simulation
from extender.report.wording import CLAIM_ALLOCATIONS
from extender.utilities.text import join_names, pluralize

MAX_LISTED_DEVICES = 8
"""Maximum number of devices of a claim that a line names."""

MAX_LISTED_REPLICAS = 10
"""Maximum number of pods of a workload, or of none, that get a row each when they are scheduled."""

EventRow = tuple[str, str, str, str, str]
"""Namespace, type, reason, object and message."""


def event_rows(result: Simulation) -> list[EventRow]:
    """Return the events in order; pods that fail with the same message and evict none share the first one's row."""
    workloads = result.scenario.workloads if result.scenario is not None else []
    workload_of = {pod: one.workload for one in workloads for pod in one.created}
    return [row for cycles in _alike(result.cycles, workload_of) for row in _shared_rows(cycles, workload_of)]


def _alike(cycles: Sequence[CycleReport], workload_of: Mapping[str, str]) -> Iterator[list[CycleReport]]:
    """Group cycles that change nothing and differ only in the pod, and consecutive ones that schedule alike pods."""
    bound = Counter(workload_of.get(one.pod, "") for one in cycles if one.outcome == "Scheduled")
    groups: dict[object, list[CycleReport]] = {}
    run, before = 0, None
    for number, cycle in enumerate(cycles):
        rows = [(namespace, kind, reason, message) for namespace, kind, reason, _, message in _cycle_rows(cycle)]
        scheduled = workload_of.get(cycle.pod, "") if cycle.outcome == "Scheduled" and not cycle.claims else None
        run += scheduled != before
        before = scheduled
        if scheduled is not None:
            groups.setdefault((run, *rows[1:]), []).append(cycle)
        else:
            groups.setdefault(number if cycle.victims or cycle.deallocated else tuple(rows), []).append(cycle)
    for alike in groups.values():
        is_listed = alike[0].outcome == "Scheduled" and bound[workload_of.get(alike[0].pod, "")] <= MAX_LISTED_REPLICAS
        yield from ([one] for one in alike) if is_listed else [alike]


def _shared_rows(cycles: Sequence[CycleReport], workload_of: Mapping[str, str]) -> Iterator[EventRow]:
    """Yield the rows of the first pod, with the number of pods that share them."""
    (namespace, kind, reason, about, message), *others = _cycle_rows(cycles[0])
    pods = len({cycle.pod for cycle in cycles})
    if pods > 1 and reason == "Scheduled":
        nodes = pluralize(len({cycle.node for cycle in cycles}), "node")
        of = f" of {workload_of[cycles[0].pod]}" if cycles[0].pod in workload_of else ""
        message = f"Successfully assigned {pods} pods{of} to {nodes}"
    yield namespace, kind, reason, join_names([about], 1, pods), message
    yield from others


def _cycle_rows(cycle: CycleReport) -> Iterator[EventRow]:
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
        devices = [f"{one.driver}/{one.pool}/{one.device}" for one in claim.devices]
        listed = join_names(devices, MAX_LISTED_DEVICES) or "no devices"
        yield "", "", "", "", f"claim {claim.claim} {CLAIM_ALLOCATIONS[claim.allocation]} {listed}"
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
