"""Say in one plain sentence what kube-scheduler would decide about a pod, and why.

Rule: words only; kube-scheduler's own message stands beside the sentence.
"""

from collections import Counter
from collections.abc import Iterable

from extender.cluster.list.pod_history import PreemptedBy
from extender.core.preemption.eligibility import PREEMPTION_POLICY_NEVER, TERMINATING_POD_ON_NOMINATED_NODE
from extender.core.scheduling_cycle.schedule_one import Cycle
from extender.k8s.objects import Pod
from extender.report.pod_schema import NodeDiagnosis, PodState, PreemptionOutcome
from extender.utilities.text import join_names, pluralize

MAX_LISTED = 3
"""Pods or nodes that a sentence names."""

MAX_PHRASES = 6
"""Reasons that a sentence lists."""

_INSUFFICIENT = "Insufficient "

_PHRASES = {
    "NodeUnschedulable": "cordoned",
    "NodeName": "other than the node that it names",
    "TaintToleration": "with a taint that it does not tolerate",
    "NodeAffinity": "excluded by its node selector or node affinity",
    "NodePorts": "with one of its host ports in use",
    "VolumeRestrictions": "where a volume that it needs is in use",
    "VolumeBinding": "without a volume for its claims",
    "VolumeZone": "in another zone than its volumes",
    "EBSLimits": "that cannot attach more volumes",
    "GCEPDLimits": "that cannot attach more volumes",
    "AzureDiskLimits": "that cannot attach more volumes",
    "NodeVolumeLimits": "that cannot attach more volumes",
    "PodTopologySpread": "excluded by its topology spread constraints",
    "InterPodAffinity": "excluded by pod affinity or anti-affinity",
    "DynamicResources": "without the devices that it asks for",
    "NodeDeclaredFeatures": "without a feature that it needs",
    "": "excluded by where its affinity, volumes or devices pin it",
}
"""Plugin -> what is said of the nodes that it rejects; NodeResourcesFit names the resources."""


def phrase_of(code: str, plugin: str, reasons: Iterable[str]) -> str:
    """Return what is said of a node with this status, to stand behind a number of nodes."""
    message = ", ".join(reasons)
    if code == "Error":
        return f"on which a plugin fails ({message})"
    if plugin == "NodeResourcesFit":
        short = [one.removeprefix(_INSUFFICIENT) for one in reasons if one.startswith(_INSUFFICIENT)]
        if short:
            return f"with too little {' and '.join(short)}"
        return "that run as many pods as they may" if "Too many pods" in reasons else f"with {message}"
    return _PHRASES.get(plugin, f"rejected by {plugin} ({message})")


def reason_phrases(nodes: Iterable[NodeDiagnosis]) -> str:
    """Render `5 with too little cpu, 1 cordoned`, the most common reason first."""
    counts = Counter(phrase_of(one.code, one.plugin, tuple(one.reasons)) for one in nodes if one.code != "Success")
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = sum(count for _, count in ordered[MAX_PHRASES:])
    listed = [f"{count} {phrase}" for phrase, count in ordered[:MAX_PHRASES]]
    return ", ".join(listed + ([f"{more} for other reasons"] if more else []))


def fits_sentence(cycle: Cycle, total: int) -> str:
    """Return the sentence about a pod that fits."""
    pod, ties = cycle.pod.key, 1 if cycle.score is None else cycle.score.tied
    where = f"{pod} fits on {cycle.feasible} of {pluralize(total, 'node')}"
    if cycle.pod.status.nominated_node_name == cycle.node:
        return f"{pod} fits on {cycle.node}, to which it is nominated"
    if cycle.feasible == 1:
        return f"{where}: {cycle.node}"
    tied = f", one of {ties} with the highest score" if ties > 1 else ", which has the highest score"
    return f"{where}; kube-scheduler would bind it to {cycle.node}{tied}"


def rejected_sentence(cycle: Cycle, nodes: list[NodeDiagnosis], prefilter: str, preemption: PreemptionOutcome) -> str:
    """Return the sentence about a pod that fits on no node; `prefilter`: the message that rejects it everywhere."""
    pod = cycle.pod.key
    if not nodes:
        return f"{pod} fits nowhere: the cluster has no nodes"
    if cycle.post_filter is None:
        return f"{pod} is not scheduled: {cycle.message}"
    where = f"{pod} fits on none of {len(nodes)} nodes: {prefilter or reason_phrases(nodes)}"
    if len(nodes) == 1:
        where = f"{pod} does not fit on {nodes[0].name}: {prefilter or ', '.join(nodes[0].reasons)}"
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


_NOT_TRIED: dict[PodState, str] = {
    "Gated": "kube-scheduler does not try {pod} yet: {message}",
    "NotOurs": "{pod} is for another scheduler: {message}",
    "Terminating": "{pod} is being deleted: kube-scheduler does not try it any more",
    "Finished": "{pod} has finished: it needs no node any more",
    "NotFound": "the cluster has no pod {pod}",
}
"""State -> sentence about a pod that kube-scheduler does not try."""


def not_tried_sentence(state: PodState, pod: str, message: str) -> str:
    """Return the sentence about a pod that kube-scheduler does not try."""
    return _NOT_TRIED[state].format(pod=pod, message=message)


def evicted_sentence(pod: str, by: PreemptedBy) -> str:
    """Return the sentence about a pod that was evicted: which pod took its place, and where that one is now."""
    where = f" on {by.node}" if by.node else ""
    if by.preemptor is None:
        return f"{pod} was preempted{where}: {by.message}"
    if not by.preemptor_exists:
        return f"{pod} was preempted{where} by {by.preemptor}, which does not exist any more"
    now = "is waiting"
    if by.preemptor_node:
        now = f"is {'on' if by.is_running else 'nominated to'} {by.preemptor_node}"
    return f"{pod} was preempted{where} by {by.preemptor}, which {now}"
