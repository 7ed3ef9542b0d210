"""Say the result of a simulation in one sentence: what hangs, what fits and what does not, and why.

Rule: a sentence states only what the simulation's own parts say.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from extender.core.scheduling_cycle.schedule_one import NOT_TRIED
from extender.report.simulation_schema import CycleReport, Gang, ScenarioReport, Simulation, UntilFull, WorkloadPods
from extender.report.wording import EVICTION_REFUSALS
from extender.utilities.text import join_names, pluralize

MAX_LISTED = 5
"""Maximum number of names, causes or reasons that a sentence lists."""


def result_sentence(found: Simulation) -> str:
    """Return the sentence about one simulation: what became of nodes, of pods that arrive, and of evicted pods."""
    last = {one.pod: one for one in found.cycles}
    returned = dict.fromkeys(one.pod for one in found.replacements if one.pod in last)
    arrived, scenario = [one for pod, one in last.items() if pod not in returned], found.scenario
    clauses = [] if scenario is None else [*_node_clauses(scenario)]
    if scenario is not None and scenario.until_full is not None:
        clauses.insert(0, _until_full_clause(scenario.until_full))
    elif scenario is not None and scenario.gang is not None:
        clauses.insert(0, _gang_clause(scenario.gang, arrived))
    else:
        workloads = [] if scenario is None else scenario.workloads
        whole = [f"pods of {one.workload}" for one in workloads if len(one.created) == len(arrived)]
        clauses += [*_pod_clauses(arrived, whole[0] if whole else "pods"), *workload_clauses(workloads)]
    if found.evicted:
        victims, broken = join_names([one.pod for one in found.evicted], 1), found.summary.pdb_violations
        clauses.append(f"{victims} {'is' if len(found.evicted) == 1 else 'are'} preempted")
        clauses[-1] += f" ({broken} against a disruption budget)" if broken else ""
    clauses += _pod_clauses([last[pod] for pod in returned], "replacements", "the replacement ")
    if left_out := dict.fromkeys(name for one in last.values() for name in one.not_evaluated):
        clauses.append(f"that is also up to {join_names([*left_out], MAX_LISTED)}, not evaluated here")
    return "; ".join(clauses) or "nothing to schedule: no pod is pending"


def comparison_sentence(
    compared: Sequence[str], results: Sequence[Simulation], pods: int, differing: Sequence[str]
) -> str:
    """Return the sentence about two simulations and their pods, of which some are decided otherwise."""
    before, after = map(counts_of, results)
    changed = [
        f"{before.get(name, 0)} and {after.get(name, 0)} {name}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    if differing:
        how = f"{len(differing)} of {pluralize(pods, 'pod')} ({join_names(differing, MAX_LISTED)}) differently"
    elif pods:
        how = "the only pod alike" if pods == 1 else f"all {pods} pods alike"
    else:
        how = f"alike: {results[0].sentence}"
    return f"{' and '.join(compared)} decide {how}" + (f": {', '.join(changed)}" if changed else "")


def counts_of(found: Simulation) -> dict[str, int]:
    """Return the counts that a comparison shows; counts of a scenario only for drains and `until_full`."""
    summary, scenario = found.summary, found.scenario
    counts = {name: getattr(summary, name) for name in ("scheduled", "pending", "skipped")}
    counts |= {"preempted": summary.evicted, "PDB violations": summary.pdb_violations}
    if scenario is not None and scenario.drained:
        counts["blocked by drains"] = sum(len(one.blocked) for one in scenario.drained)
    if scenario is not None and scenario.until_full is not None:
        counts["fit until full"] = scenario.until_full.fits
    return counts


def _node_clauses(found: ScenarioReport) -> Iterator[str]:
    refusals = dict.fromkeys(
        EVICTION_REFUSALS[pod.cause].format(pod=pod.pod, budgets=" and ".join(pod.budgets))
        for one in found.drained
        for pod in one.blocked
    )
    if refusals:
        nodes = join_names([one.node for one in found.drained if one.blocked], MAX_LISTED)
        yield f"the drain of {nodes} hangs: {join_names([*refusals], MAX_LISTED)}"
    if ended := [one for one in found.drained if not one.blocked]:
        evicted = pluralize(sum(len(one.evicted) for one in ended), "pod")
        yield f"the drain of {join_names([one.node for one in ended], MAX_LISTED)} ends with {evicted} evicted"
    if found.removed:
        deleted = pluralize(sum(len(one.deleted) for one in found.removed), "pod")
        yield f"{join_names([one.node for one in found.removed], MAX_LISTED)} removed with {deleted}"
    for names, what in ((found.added, "added"), (found.cordoned, "cordoned")):
        if names:
            yield f"{pluralize(len(names), 'node')} {what}"
    lost = [pod for one in found.drained for pod in one.lost] + [pod for one in found.removed for pod in one.lost]
    if lost:
        yield f"{join_names(lost, 1)} {'does' if len(lost) == 1 else 'do'} not come back"


def _pod_clauses(pods: Sequence[CycleReport], several: str, single: str = "") -> Iterator[str]:
    """Yield a clause about pods that were tried, and one about those that were not.

    `several`: words for them; `single`: words before the name of a single one.
    """
    tried = [one for one in pods if one.outcome != "Skipped"]
    failed = [one for one in tried if one.outcome != "Scheduled"]
    fit = len(tried) - len(failed)
    if len(tried) == 1:
        yield f"{single}{tried[0].pod} {f'does not fit: {_why(failed)}' if failed else f'fits on {tried[0].node}'}"
    elif tried and not failed:
        yield f"{'both' if fit == 2 else f'all {fit}'} {several} fit"
    elif tried:
        rest = f"{failed[0].pod} does" if len(failed) == 1 else f"{len(failed)} do"
        verb = "fit" if fit > 1 else "fits"
        verb += f"; {rest} not" if fit else ""
        yield f"{fit or 'none'} of {len(tried)} {several} {verb}: {_why(failed)}"
    if skipped := [one for one in pods if one.outcome == "Skipped"]:
        messages = dict.fromkeys(one.message.removeprefix(NOT_TRIED) for one in skipped)
        yield f"{join_names([one.pod for one in skipped], 1)} not tried: {join_names([*messages], 1)}"


def workload_clauses(workloads: Iterable[WorkloadPods]) -> Iterator[str]:
    """Yield clauses about pods that are not created."""
    for one in workloads:
        if not one.created and not one.refused:
            yield f"nothing to schedule for {one.workload}: {pluralize(one.existing, 'pod')} of it exist"
        if one.refused:
            yield f"the API server refuses {one.refused} of {one.workload}: {one.refusal}"


def _until_full_clause(found: UntilFull) -> str:
    fit = f"{found.fits or 'no'} more of {found.pod} {'fit' if found.fits > 1 else 'fits'}"
    if found.limit_reached:
        return f"{fit}, and perhaps more: that is the limit of a simulation"
    return f"{fit}; the next does not: {found.refusal if found.next is None else _reason(found.next)}"


def _gang_clause(found: Gang, pods: Sequence[CycleReport]) -> str:
    gang = f"the gang of {pluralize(found.pods, 'pod')}"
    if found.scheduled:
        return f"{gang} fits" if found.pods else found.message
    # Members of a gang that does not fit fail for the one that does not.
    failed = next((one for one in pods if one.outcome != "Scheduled" and not one.feasible), None)
    why = found.message if failed is None else f"{failed.pod} does not fit: {_reason(failed)}"
    return f"{gang} does not fit as a whole: {why}"


def _why(failed: Sequence[CycleReport]) -> str:
    """Return the most common reason of the pods, and for how many of them it holds unless for all."""
    ((reason, pods),) = Counter(map(_reason, failed)).most_common(1)
    return reason if pods == len(failed) else f"{reason} (for {pods} of them)"


_SINGULAR = {"were": "was", "exceed": "exceeds"}
"""Verb of a reason as kube-scheduler writes it for any number of nodes -> the same for one node."""


def _reason(cycle: CycleReport) -> str:
    """Return `Insufficient cpu on 4 of 5 nodes, 1 had untolerated taint(s)`.

    Nodes on which evictions may help come first: on the others, the pod could not run anyway.
    """
    if not cycle.rejected or cycle.rejected[0].nodes is None:
        return ", ".join(cycle.rejected[0].reasons) if cycle.rejected else cycle.message
    counts, resolvable = Counter[str](), set[str]()
    for one in cycle.rejected:
        counts.update(dict.fromkeys(one.reasons, one.nodes or 0))
        resolvable.update(one.reasons if one.code == "Unschedulable" else ())
    phrases, of = [], f" of {pluralize(sum(one.nodes or 0 for one in cycle.rejected), 'node')}"
    for reason, nodes in sorted(counts.items(), key=lambda item: (item[0] not in resolvable, -item[1], item[0])):
        verb = reason.removeprefix("node(s) ")  # as after the number of nodes in kube-scheduler's message
        first, _, rest = verb.partition(" ")
        verb = f"{_SINGULAR.get(first, first)} {rest}" if nodes == 1 and verb != reason else verb
        phrases.append(f"{reason} on {nodes}{of}" if verb == reason else f"{nodes}{of} {verb}")
        of = ""
    why = join_names(phrases, MAX_LISTED)
    return why if cycle.vetoed is None else f"{why}; the policies allow no eviction: {cycle.vetoed}"
