"""Diagnose one pod: kube-scheduler's decision now, the reasons, and the verdict on every node (`extender why`).

    not tried   gated, another scheduler's, terminating, finished
    pending     one Evaluation of all nodes gives the scheduling cycle its verdict and message, and every
                node its reasons, scores and victims
    assigned    one Evaluation of all nodes as if the pod had no node, to rank its own node

Rule: nothing is decided here, and the snapshot is left unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from extender.cluster.list.pod_history import PodHistory, PreemptedBy
from extender.core.chance import chance_of
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.filter import FilterRun
from extender.core.framework.status import Code, Status
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, TERMINATING_POD_ON_NOMINATED_NODE
from extender.core.profile import KubeScheduler
from extender.core.record import record_dry_run, record_request
from extender.core.scheduling_cycle.fit_error import CYCLE_STATE_NOT_FOUND, PREEMPTION
from extender.core.scheduling_cycle.pod_off_node import pod_removed_from_node
from extender.core.scheduling_cycle.schedule_one import (
    NOT_OURS,
    NOT_TRIED,
    Cycle,
    not_tried_reason,
    schedule_evaluated,
)
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.requests import incoming_requests
from extender.k8s.workloads import is_mirror
from extender.report.cycle_report import claim_hint, evicted_pods
from extender.report.facts.node_facts import facts_about, facts_of_nodes
from extender.report.facts.pods import nomination_facts, pod_facts
from extender.report.facts.schema import PodStatusFact, UnboundClaimsFact
from extender.report.facts.wording import describe_fact, summarize
from extender.report.lists.similar_names import suggest_pods
from extender.report.pod_schema import (
    Diagnosis,
    NodeDiagnosis,
    NodePreemption,
    NodeScores,
    Placement,
    PluginStatus,
    PodState,
    PreemptionOutcome,
    ReasonCount,
    Verdict,
)
from extender.report.render import with_claims
from extender.report.scheduler_report import changed_policies, limitations
from extender.report.schema import NodeOutcome, NodeReport
from extender.report.simulation_schema import ClusterSize
from extender.report.summary import Cause, phrase_of, rejected_sentence
from extender.report.tried_node import TriedNode
from extender.report.wording import LAST_TRY, NOT_TRIED_SENTENCES, RETRY, STATE_NOT_FOUND
from extender.utilities.text import is_bytes, join_names, pluralize, suggestion

MAX_EXAMPLES = 10
"""Maximum number of node names that a reason lists."""

MAX_NODES_WITH_FACTS = 50
"""Maximum number of nodes that are asked for facts where the nodes are not shown: a fact takes some 20 µs."""

MAX_LISTED = 3
"""Maximum number of pods that a sentence names, and of nodes that the pod's own node is compared with."""

OTHER_PROFILES = "to see how that scheduler would decide, use a KubeSchedulerConfiguration with a profile of this name"
"""Hint for a pod of another scheduler."""

EXTENDER_VERBS = ("filter", "prioritize", "bind")
"""Verbs for which kube-scheduler calls other extenders about a pod that fits."""


def diagnose(
    snapshot: Snapshot,
    pod: Pod,
    scheduler: KubeScheduler,
    history: EvictionHistory = NO_HISTORY,
    node: str | None = None,
    *,
    with_nodes: bool = True,
) -> Diagnosis:
    """Diagnose a pod of the snapshot, or a pod that does not exist yet; `node`: name of a node to show in full.

    Without `with_nodes`, `nodes` and `facts` stay empty, and a pod that kube-scheduler does not try is not evaluated.
    An assigned pod is removed from its node meanwhile. Raises RequestError if the cluster has no such node.
    """
    if node is not None and node not in snapshot.node_row:
        raise RequestError(f"node {node!r} does not exist{suggestion(node, snapshot.node_names)}")
    about, profile = _about(snapshot, pod, scheduler), scheduler.profile_of(pod)
    if with_nodes:  # no list of pods shows them, and counting the members of a pod group reads all pods
        about = replace(about, facts=pod_facts(snapshot, pod, profile))
    # 1. An assigned pod is evaluated as if it had no node.
    if pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None:
        if profile is None:
            return _with_placement(about, pod, has_profile=False)
        with pod_removed_from_node(snapshot, pod) as before:
            judged = _with_nodes(about, Evaluation(snapshot, before, profile, history), node, with_scores=True)
        return _with_placement(judged, pod, has_profile=True)
    # 2. A pod that kube-scheduler does not try: nodes are still evaluated, unless the pod no longer needs a node.
    skipped = not_tried_reason(snapshot, pod, scheduler)
    if skipped is not None:
        about = _with_reason(snapshot, about, pod, skipped, has_profile=profile is not None)
    if profile is None or about.state in ("Terminating", "Finished") or (skipped is not None and not with_nodes):
        return about
    # 3. A pending pod: the cycle reads the Evaluation first, so that the nodes below show what the cycle compared.
    evaluation = Evaluation(snapshot, pod, profile, history)
    cycle = schedule_evaluated(evaluation) if skipped is None else None
    judged = _with_nodes(about, evaluation, node, with_scores=with_nodes)
    if cycle is not None:
        judged = _with_outcome(judged, cycle, evaluation, scheduler)
    if not with_nodes:  # only some nodes have facts, which would be counted wrongly
        judged = replace(judged, nodes=[], reasons=[replace(one, facts=[]) for one in judged.reasons])
    return judged


def not_found(snapshot: Snapshot, namespace: str, name: str, scheduler: KubeScheduler) -> Diagnosis:
    """Return the diagnosis of a pod that the cluster does not have."""
    pod = Pod(ObjectMeta(name, namespace))
    more, suggested = suggest_pods(snapshot.objects.pods.values(), namespace, name)
    why = NOT_TRIED_SENTENCES["NotFound"].format(pod=pod.key) + more
    # The schedulerName of an empty Pod is a default, and would read like a fact.
    about = _about(snapshot, pod, scheduler)
    return replace(about, state="NotFound", scheduler_name="", why=why, suggestions=suggested)


def with_history(found: Diagnosis, history: PodHistory | None) -> Diagnosis:
    """Add a pod's Events and conditions to the diagnosis, such as its eviction."""
    by = None if history is None else history.preempted
    is_gone = found.state in ("NotFound", "Terminating")
    why = evicted_sentence(found.pod, by) if by is not None and is_gone else found.why
    was_tried = history is not None and history.failed_scheduling is not None
    waits = was_tried and found.state == "Pending" and found.verdict == "Fits"
    return replace(found, history=history, why=why, hint=found.hint or (RETRY if waits else None))


def retry_hint(pod: Pod) -> str | None:
    """Return what a pending pod that fits waits for, and what kube-scheduler said of it before.

    None without the condition: the pod is a manifest, or kube-scheduler has not tried it yet.
    """
    tried = [one for one in pod.status.conditions or () if one.type == "PodScheduled" and one.status == "False"]
    if not tried:
        return None
    return LAST_TRY.format(retry=RETRY, message=tried[0].message) if tried[0].message else RETRY


def _about(snapshot: Snapshot, pod: Pod, scheduler: KubeScheduler) -> Diagnosis:
    """Return a diagnosis of the pod, the cluster and the kube-scheduler, without a verdict."""
    profile, requests = scheduler.profile_of(pod), incoming_requests(pod, snapshot.features)
    return Diagnosis(
        pod=pod.key,
        uid=pod.metadata.uid,
        priority=pod.priority,
        scheduler_name=pod.spec.scheduler_name,
        requests=requests,
        units={name: "millicores" if name == "cpu" else "bytes" if is_bytes(name) else "count" for name in requests},
        state="Pending",
        why="",
        node=pod.spec.node_name or None,
        nominated_node=pod.status.nominated_node_name or None,
        cluster=ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods)),
        version=scheduler.version,
        release=scheduler.release,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        policies=[] if profile is None else changed_policies(profile),
        notes=limitations(scheduler),
    )


def _with_reason(snapshot: Snapshot, about: Diagnosis, pod: Pod, skipped: str, *, has_profile: bool) -> Diagnosis:
    """Add the reason why kube-scheduler does not try the pod to the diagnosis."""
    state: PodState = "Gated" if has_profile else "NotOurs"
    if pod.metadata.deletion_timestamp is not None:
        state = "Terminating"
    elif is_finished(pod):
        state = "Finished"
    message = skipped.removeprefix(NOT_TRIED).removeprefix(NOT_OURS)
    failed = [one for one in about.facts if isinstance(one, PodStatusFact)]
    why = NOT_TRIED_SENTENCES[state].format(pod=pod.key, message=message)
    if state == "Finished" and failed:
        why = f"{pod.key} has failed: {describe_fact(failed[0])}"
    hint = OTHER_PROFILES if state == "NotOurs" else claim_hint(snapshot, pod, skipped)
    return replace(about, state=state, message=message, why=why, hint=hint)


# --- every node -------------------------------------------------------------------------------------------------------


def _with_nodes(about: Diagnosis, evaluation: Evaluation, node: str | None, *, with_scores: bool) -> Diagnosis:
    """Add all nodes (or those that reject), the counts of reasons and the details of `node` to the diagnosis."""
    row, profile = evaluation.context.snapshot.node_row.get(node or ""), evaluation.context.profile
    nodes = node_diagnoses(evaluation, row, is_brief=not with_scores)
    feasible = len(evaluation.feasible)
    not_evaluated = [name for name, mask in evaluation.filters_not_evaluated.items() if mask.any()]
    # PostFilter plugins run only for a pod that fits on no node, extenders filter only nodes on which it fits.
    not_evaluated += evaluation.extenders("filter") if feasible else profile.not_evaluated_post_filters
    # Nominated pods play a part only on nodes that take the pod where they have fewer pods.
    short = {one.name for one in nodes if one.code == Code.UNSCHEDULABLE.text}
    nominees = (one for one in evaluation.context.nominees if one.status.nominated_node_name in short)
    others = () if about.node is not None else nomination_facts(evaluation.context.snapshot, nominees)
    return replace(
        about,
        facts=[*about.facts, *others],
        nodes=nodes,
        reasons=_reason_counts(nodes),
        feasible=feasible,
        not_evaluated=not_evaluated,
        details=None if row is None else _node_details(evaluation, row),
    )


def node_diagnoses(evaluation: Evaluation, first: int | None = None, *, is_brief: bool = False) -> list[NodeDiagnosis]:
    """Return every node, sorted by name; `first`: row of the node that limited work begins with.

    `is_brief`: only the nodes that reject the pod, without scores and victims; some of them have facts.
    """
    # 1. Turn each distinct status into its report once: a cluster has thousands of nodes, and few reasons.
    snapshot, facts = evaluation.context.snapshot, facts_of_nodes(evaluation)
    statuses = evaluation.filter.statuses(np.arange(len(snapshot.node_names)))
    distinct = [_report_status(status, evaluation.filter.prefilter_plugins) for status in statuses.distinct]
    if first is not None and distinct[int(statuses.indices[first])].plugin:
        facts(first, distinct[int(statuses.indices[first])].plugin)
    # 2. What else is known, per row of the snapshot.
    candidates = evaluation.policies.rows[evaluation.candidates].tolist()
    preemption_of = dict.fromkeys(candidates, _CANDIDATE) if is_brief else _preemptions(evaluation)
    scores_of = {} if is_brief else _scores(evaluation)
    masks = [(plugin, mask.tolist()) for plugin, mask in evaluation.filters_not_evaluated.items()]
    passed = (evaluation.filter.codes == Code.SUCCESS).tolist()
    masks += [(extender, passed) for extender in evaluation.extenders("filter")]
    # 3. Put it together.
    indices, nodes = statuses.indices.tolist(), list[NodeDiagnosis]()
    every = 1 + len(indices) // MAX_NODES_WITH_FACTS if is_brief else 1
    for place, row in enumerate(np.argsort(snapshot.name_order).tolist()):
        status, plugin = distinct[indices[row]], statuses.distinct[indices[row]].plugin
        if is_brief and status.code == "Success":
            continue
        node = NodeDiagnosis(
            name=snapshot.node_names[row],
            code=status.code,
            plugin=status.plugin,
            reasons=status.reasons,
            facts=[*facts(row, plugin)] if place % every == 0 and status.code in _REJECTED else [],
            scores=scores_of.get(row),
            preemption=preemption_of.get(row),
            not_evaluated=[name for name, mask in masks if mask[row]],
        )
        nodes.append(node)
    return nodes


def _scores(evaluation: Evaluation) -> dict[int, NodeScores]:
    """Return node row -> scores; none if a plugin fails."""
    scores = evaluation.scores
    if scores.error is not None:
        return {}
    ranks = 1 + np.searchsorted(np.sort(-scores.total), -scores.total)  # equal totals have the same rank
    plugins = {plugin: values.tolist() for plugin, values in scores.plugins.items()}
    rows = zip(scores.rows.tolist(), scores.total.tolist(), ranks.tolist(), strict=True)
    return {
        row: NodeScores(total=total, plugins={plugin: of[place] for plugin, of in plugins.items()}, rank=rank)
        for place, (row, total, rank) in enumerate(rows)
    }


def _preemptions(evaluation: Evaluation) -> dict[int, NodePreemption]:
    """Return node row -> victims, or the reason why no eviction would make room, of the nodes that are tried."""
    tried = evaluation.policies
    others, chance = np.flatnonzero(~tried.candidate), chance_of(tried)
    victims = {place: tried.victims_on(place) for place in evaluation.candidates.tolist()}
    why_not = dict(zip(others.tolist(), tried.statuses(others), strict=True))
    return {
        row: NodePreemption(
            victims=[pod.key for pod in victims.get(place, ())],
            num_pdb_violations=int(tried.violations[place]) if place in victims else 0,
            status=_report_status(why_not[place]) if place in why_not else None,
            chance=chance.get(place, []),
        )
        for place, row in enumerate(tried.rows.tolist())
    }


_REJECTED = ("Unschedulable", "UnschedulableAndUnresolvable")
"""Codes of nodes about which there are facts."""

_CANDIDATE = NodePreemption(victims=[], num_pdb_violations=0, status=None)
"""A node on which evicting pods would make room, where the pods are not listed."""


def _report_status(status: Status, left_out_by: Iterable[str] = ()) -> PluginStatus:
    """Describe a status; `left_out_by`: plugins whose PreFilterResult leaves the node out."""
    plugin = status.plugin or ("" if status.code == Code.SUCCESS else ", ".join(sorted(left_out_by)))
    return PluginStatus(code=status.code.text, plugin=plugin, reasons=list(status.reasons))


def _reason_counts(nodes: Iterable[NodeDiagnosis]) -> list[ReasonCount]:
    """Count the nodes per reason, as FitError does."""
    rejected: dict[tuple[str, str, str], list[NodeDiagnosis]] = {}
    for one in nodes:
        if one.code != "Success":
            # Up to v1.31 kube-scheduler gives no reason for nodes that PreFilter leaves out.
            for reason in one.reasons or [f"node(s) {phrase_of(one.code, one.plugin, ())}"]:
                rejected.setdefault((one.code, one.plugin, reason), []).append(one)
    counts = [
        ReasonCount(
            code=code,
            plugin=plugin,
            reason=reason,
            nodes=len(of),
            candidates=sum(one.preemption is not None and one.preemption.status is None for one in of),
            examples=[one.name for one in of[:MAX_EXAMPLES]],
            facts=summarize(of, partial(facts_about, reason)),
        )
        for (code, plugin, reason), of in rejected.items()
    ]
    return sorted(counts, key=lambda one: (-one.nodes, one.reason, one.code))


def _node_details(evaluation: Evaluation, row: int) -> NodeReport:
    """Return the report of the node in this row with all its pods; preemption is dry-run on this node alone."""
    dry_run = record_dry_run(evaluation.filter, evaluation.policies_on(np.array([row])))
    request = record_request(evaluation, evaluation.context.nominees)
    place = 0 if len(dry_run.candidate_keys.candidates) else None
    report = TriedNode(request, dry_run, 0, place, request.amounts()).report_with_pods()
    # TriedNode names the outcome of a preemption, which kube-scheduler does not try on nodes with these codes.
    outcomes: dict[int, NodeOutcome] = {
        Code.SUCCESS: "accepted",
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "unresolvable",
        Code.ERROR: "unresolvable",
    }
    outcome = outcomes.get(int(evaluation.filter.codes[row]), report.outcome)
    # Without a rank: the node would be the only candidate.
    shown = replace(report, outcome=outcome, sent=True, rank=None, keys=[], shown=[], loses_by=None)
    return with_claims(request, shown, report.name)


# --- a pending pod ----------------------------------------------------------------------------------------------------


def _with_outcome(found: Diagnosis, cycle: Cycle, evaluation: Evaluation, scheduler: KubeScheduler) -> Diagnosis:
    """Add the outcome of the cycle to the diagnosis."""
    preemption, cause = None, Cause("", 0)
    if cycle.outcome == "Scheduled":
        why = _fits_sentence(cycle, len(evaluation.rows), evaluation)
    else:
        preemption = _preemption_outcome(found.nodes, cycle, evaluation, scheduler)
        causes = _causes(cycle, found.nodes, evaluation.filter)
        cause = causes[0]
        why = _rejected_sentence(cycle, found.nodes, causes, preemption)
        extenders = [one for verb in ("preempt", "filter") for one in evaluation.extenders(verb)]
        if asked := [one for one in extenders if one in cycle.not_evaluated]:
            why += f"; that is also up to {join_names(asked, MAX_LISTED)}, not evaluated here"
    hint = retry_hint(cycle.pod) if cycle.outcome == "Scheduled" else found.hint
    if cycle.post_filter is not None and cycle.post_filter.reasons == [CYCLE_STATE_NOT_FOUND]:
        hint = STATE_NOT_FOUND
    return replace(
        found,
        verdict=_verdict(cycle, preemption, evaluation.context.profile.not_evaluated_post_filters),
        hint=hint,
        message=cycle.message,
        why=why,
        cause=cause.words,
        cause_nodes=cause.nodes,
        cause_facts=[one.fact for one in cause.facts],
        node=cycle.node if cycle.outcome == "Scheduled" else None,
        ties=[] if cycle.score is None else cycle.score.ties,
        preemption=preemption,
        claims=cycle.reservation.reports(),
        not_evaluated=list(dict.fromkeys((*found.not_evaluated, *cycle.not_evaluated))),
    )


def _verdict(cycle: Cycle, preemption: PreemptionOutcome | None, other_post_filters: Sequence[str]) -> Verdict:
    # A PostFilter plugin that is not evaluated may nominate a pod that the filters have rejected.
    if cycle.unschedulable_plugins and other_post_filters:
        return "Unknown"
    # A filter that is not evaluated can only reject nodes: a pod that fits nowhere still fits nowhere.
    waits = preemption is not None and TERMINATING_POD_ON_NOMINATED_NODE in preemption.message
    if cycle.outcome == "Unschedulable" and not waits:
        return "DoesNotFit"
    if cycle.not_evaluated:
        return "Unknown"
    return "Fits" if cycle.outcome == "Scheduled" else "FitsAfterPreemption"


def _preemption_outcome(
    nodes: Sequence[NodeDiagnosis], cycle: Cycle, evaluation: Evaluation, scheduler: KubeScheduler
) -> PreemptionOutcome:
    ties = [] if cycle.node is None else evaluation.selected_ties
    # Not among our ties: several candidates were kept, and kube-scheduler chose by its own criteria.
    if cycle.node is not None and cycle.node not in ties:
        ties = [cycle.node]
    tried = [one.preemption for one in nodes if one.preemption is not None and cycle.node is not None]
    reasons = [] if cycle.post_filter is None else cycle.post_filter.reasons
    obstacles: Counter[str] = Counter()
    if not len(evaluation.candidates):
        run = evaluation.policies
        obstacles.update(", ".join(one.reasons) for one in run.statuses(np.arange(len(run.rows))))
    return PreemptionOutcome(
        node=cycle.node,
        ties=ties,
        chance=sorted({why for one in tried for why in one.chance}),
        candidates=len(evaluation.candidates),
        victims=evicted_pods(evaluation.context.snapshot, cycle, scheduler),
        num_pdb_violations=cycle.num_pdb_violations,
        vetoed=cycle.vetoed,
        # Of other plugins' PostFilter, kube-scheduler tells further reasons.
        message=", ".join(one for one in reasons if one.startswith(PREEMPTION)),
        obstacle=min(obstacles, key=lambda one: (-obstacles[one], one), default=""),
    )


def _fits_sentence(cycle: Cycle, total: int, evaluation: Evaluation) -> str:
    pod, ties = cycle.pod.key, 1 if cycle.score is None else cycle.score.tied
    where = f"{pod} fits on {cycle.feasible} of {pluralize(total, 'node')}"
    filters, scores, binds = (join_names(evaluation.extenders(verb), MAX_LISTED) for verb in EXTENDER_VERBS)
    if filters:
        return f"{where} by kube-scheduler's own filters; which of them remain is up to {filters}, not evaluated here"
    bound = f"; {binds}, binds it" if binds else ""
    if cycle.pod.status.nominated_node_name == cycle.node:
        return f"{pod} fits on {cycle.node}, to which it is nominated{bound}"
    if cycle.feasible == 1:
        return f"{where}: {cycle.node}{bound}"
    tied = f", one of {ties} with the highest score" if ties > 1 else ", which has the highest score"
    scored = f" without that of {scores}, so it may be another one" if scores else ""
    return f"{where}; kube-scheduler would bind it to {cycle.node}{tied}{scored}{bound}"


def _causes(cycle: Cycle, nodes: Sequence[NodeDiagnosis], run: FilterRun) -> list[Cause]:
    """Return the causes by which nodes reject the pod, the most common first."""
    if cycle.post_filter is None:
        return [Cause(cycle.message, 0)]
    if run.prefilter_status is not None:
        return [Cause(run.prefilter_status.message, 0, summarize(nodes))]
    # The nodes to which the pod is not pinned come last: they are rarely why it is not scheduled.
    pinned, rejected = run.prefilter_node_names, dict[tuple[bool, str], list[NodeDiagnosis]]()
    for one in nodes:
        if one.code != "Success":
            words = phrase_of(one.code, one.plugin, tuple(one.reasons))
            rejected.setdefault((pinned is not None and one.name not in pinned, words), []).append(one)
    ordered = sorted(rejected.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
    return [Cause(words, len(of), summarize(of)) for (_, words), of in ordered]


def _rejected_sentence(
    cycle: Cycle, nodes: Sequence[NodeDiagnosis], causes: Sequence[Cause], preemption: PreemptionOutcome
) -> str:
    """Return the sentence about a pod that fits on no node."""
    pod, first = cycle.pod.key, causes[0]
    if not nodes:
        return f"{pod} fits nowhere: the cluster has no nodes"
    if cycle.post_filter is None:
        return f"{pod} is not scheduled: {cycle.message}"
    only = f"{nodes[0].name}: {', '.join(nodes[0].reasons) or first.words}" if len(nodes) == 1 else ""
    where = rejected_sentence(pod, len(nodes), 0, causes, only)
    return f"{where}; {_preemption_clause(cycle.pod, preemption)}"


def _preemption_clause(pod: Pod, found: PreemptionOutcome) -> str:
    if found.node is not None:
        victims = [victim.pod for victim in found.victims]
        broken = f" ({found.num_pdb_violations} against a disruption budget)" if found.num_pdb_violations else ""
        return f"evicting {join_names(victims, MAX_LISTED)} from {found.node}{broken} would make room"
    if found.vetoed is not None:
        return f"your policies allow no eviction for it ({found.vetoed})"
    if PREEMPTION_POLICY_NEVER in found.message:
        return "it may not evict others (preemptionPolicy: Never)"
    if TERMINATING_POD_ON_NOMINATED_NODE in found.message:
        return f"it waits until the pods evicted for it on {pod.status.nominated_node_name} are gone"
    return "no eviction would make room"


def evicted_sentence(pod: str, by: PreemptedBy) -> str:
    """Return the sentence about an evicted pod: its preemptor, and where the preemptor is now."""
    where = f" on {by.node}" if by.node else ""
    if by.preemptor is None:
        return f"{pod} was preempted{where}: {by.message}"
    if not by.preemptor_exists:
        return f"{pod} was preempted{where} by {by.preemptor}, which does not exist any more"
    # The preemptor may have its node, still wait for the victims to terminate, or have lost its nomination.
    now = "is waiting"
    if by.preemptor_node:
        now = f"is {'on' if by.is_running else 'nominated to'} {by.preemptor_node}"
    return f"{pod} was preempted{where} by {by.preemptor}, which {now}"


# --- an assigned pod --------------------------------------------------------------------------------------------------


def _with_placement(found: Diagnosis, pod: Pod, *, has_profile: bool) -> Diagnosis:
    """Add the placement of an assigned pod to the diagnosis; with a profile, its node is compared with other nodes."""
    node = pod.spec.node_name
    own = next((one for one in found.nodes if one.name == node), None)
    others = [one for one in found.nodes if one.scores is not None and one is not own]
    others.sort(key=lambda one: (-_total(one), one.name))
    placement = Placement(
        node=node,
        status=None if own is None else PluginStatus(code=own.code, plugin=own.plugin, reasons=own.reasons),
        scores=None if own is None else own.scores,
        runners_up=[one.name for one in others[:MAX_LISTED]],
        is_static=is_mirror(pod),
    )
    where = f"{pod.key} is on {node}"
    if placement.is_static:
        why = f"{where}: its kubelet runs it as a static pod, and kube-scheduler did not place it"
    elif not has_profile:
        why = f'{where}; no profile has its schedulerName "{pod.spec.scheduler_name}": another scheduler placed it'
    elif own is None:
        why = f"{where}, a node that no longer exists"
    elif own.code != "Success":
        reasons = ", ".join(own.reasons)
        why = f"{where}, where it would no longer fit: {reasons}; kube-scheduler does not move running pods"
    else:
        why = f"{where}, {_rank(own, others, found.nodes)}"
    # Of a pod with a node, this alone may keep it from starting.
    why = "; ".join([why, *(describe_fact(one) for one in found.facts if isinstance(one, UnboundClaimsFact))])
    return replace(found, state="Assigned", verdict="Fits", placement=placement, why=why)


def _rank(own: NodeDiagnosis, others: Sequence[NodeDiagnosis], nodes: Sequence[NodeDiagnosis]) -> str:
    """Return how the pod's own node ranks; `others`: the other nodes with scores, best first."""
    feasible, total = sum(one.code == "Success" for one in nodes), _total(own)
    if len(nodes) == 1:
        return "the only node of the cluster"
    if feasible == 1:
        return f"the only one of {len(nodes)} nodes on which it fits"
    if own.scores is None:  # a score plugin fails
        return f"one of {feasible} nodes on which it fits"
    best, compared = others[0], f"of {feasible} nodes on which it fits now"
    if own.scores.rank > 1:
        ahead = f"{best.name} would score {_total(best)} now, and {own.name} {total}"
        return f"with rank {own.scores.rank} {compared}: {ahead}; kube-scheduler does not move running pods"
    if _total(best) == total:
        return f"which has the highest score {compared}, {total}, as {best.name} has"
    return f"which has the highest score {compared}: {total}, before {best.name} with {_total(best)}"


def _total(node: NodeDiagnosis) -> int:
    return 0 if node.scores is None else node.scores.total
