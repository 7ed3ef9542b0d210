"""Describe a scheduling cycle before its effects: its outcome, its victims, and a hint for a skipped pod."""

from extender.core.preemption.pdb.index import budgets_counting
from extender.core.profile import KubeScheduler
from extender.core.scheduling_cycle.schedule_one import NOT_TRIED, Cycle
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.report.simulation_schema import CycleReport, EvictedPod


def report_cycle(snapshot: Snapshot, cycle: Cycle, attempt: int, scheduler: KubeScheduler) -> CycleReport:
    """Describe the cycle; the snapshot still contains the victims."""
    return CycleReport(
        pod=cycle.pod.key,
        uid=cycle.pod.metadata.uid,
        priority=cycle.pod.priority,
        attempt=attempt,
        outcome=cycle.outcome,
        # `node` of a cycle may also be the nominated node.
        node=cycle.node if cycle.outcome == "Scheduled" else None,
        feasible=cycle.feasible,
        score=cycle.score,
        message=cycle.message,
        rejected=list(cycle.rejected),
        post_filter=cycle.post_filter,
        nominated_node=cycle.nominated_node or None,
        victims=evicted_pods(snapshot, cycle, scheduler),
        num_pdb_violations=cycle.num_pdb_violations,
        vetoed=cycle.vetoed,
        claims=cycle.reservation.reports(),
        deallocated=None if cycle.deallocated is None else "/".join(cycle.deallocated),
        hint=claim_hint(snapshot, cycle.pod, cycle.message),
        not_evaluated=list(cycle.not_evaluated),
    )


def evicted_pods(snapshot: Snapshot, cycle: Cycle, scheduler: KubeScheduler) -> list[EvictedPod]:
    """Describe the victims of the cycle, which the snapshot still contains."""
    return [
        EvictedPod(
            pod=victim.key,
            uid=victim.metadata.uid,
            priority=victim.priority,
            node=cycle.node or "",
            budgets=budgets_counting(snapshot, victim, scheduler.preemption.empty_selector),
            preemptor=cycle.pod.key,
            terminating=victim.metadata.deletion_timestamp is not None,
        )
        for victim in cycle.victims
    ]


def claim_hint(snapshot: Snapshot, pod: Pod, message: str) -> str | None:
    """Return a hint about a resource claim that does not exist yet; None if the message is about something else."""
    if message != f'{NOT_TRIED}pod "{pod.key}": ResourceClaim not created yet':
        return None
    # A live cluster has a controller that creates the claim; a simulation creates those of new pods, a file has none.
    created = {one.name for one in pod.status.resource_claim_statuses or ()}
    for one in pod.spec.resource_claims or ():
        template = one.resource_claim_template_name
        if template is not None and one.resource_claim_name is None and one.name not in created:
            claim = f"put a ResourceClaim with its spec beside the pod, and name it as resourceClaimName of {one.name}"
            if (pod.metadata.namespace, template) in snapshot.objects.resource_claim_templates:
                return f"claims of ResourceClaimTemplate {template} are created for new pods only: {claim}"
            return f"no ResourceClaimTemplate {template} to create a claim from: put it beside a new pod, or {claim}"
    return None
