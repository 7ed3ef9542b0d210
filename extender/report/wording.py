"""Words for our codes: how the command line, the page, log lines and sentences name outcomes, roles and causes.

kube-scheduler's own reasons and messages stay in their plugins. The page loads these tables as /ui/wording.json.

Rule: codes and words only; nothing is decided here, and only types of the engine are imported.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from extender.admission.findings import ASSUMED, LEFT_OUT, PRUNED
from extender.core.scheduling_cycle.result import ClaimAllocation
from extender.report.audit.schema import AuditEnd
from extender.report.pod_schema import PodState, PreemptionHelp, Verdict
from extender.report.schema import NodeOutcome, SourceReport
from extender.report.simulation_schema import AdmissionReport, EvictionCause, EvictionRefusal
from extender.utilities.text import join_names, shortened


class Words(NamedTuple):
    """A code in words."""

    label: str
    meaning: str = ""
    """Explanation of the code, if the label is not enough."""
    style: str = ""
    """Style of the label on a terminal."""


class NodeWords(NamedTuple):
    """An outcome of a node in words."""

    label: str
    sentence: str
    """Sentence about one node and one pod; the caller fills in `{why}`, `{victims}` and `{score}`."""
    style: str = ""
    meaning: str = ""
    afterwards: str = "after"
    """Label of the node's state without its victims: after the eviction, or only if the node were chosen."""


class Criterion(NamedTuple):
    """A criterion of the ranking in words."""

    label: str
    better: str
    """The better value, such as `fewest`."""
    phrase: str = ""
    """Words after `best of N candidates by`."""


# --- decisions ------------------------------------------------------------------------------------------------------

DECISION_OUTCOMES = {
    "noVictims": Words("no victims", "answered: no pods evicted"),
    "vetoed": Words("vetoed", "answered: preemption not allowed now"),
    "observed": Words("observed only", "observe only: the decision was not sent to kube-scheduler"),
    "passthrough": Words("passed through", "passthrough: nothing was decided"),
    "failed": Words("failed", "failed: no decision could be made"),
}
"""Outcome of a decision -> words; an answered decision has no entry."""

AUDIT_ENDS: dict[AuditEnd, str] = {
    "stopped": "stopped, so none is missing at the end",
    "open": "no stop record, so it still runs or was killed: records after the last one may be missing",
    "unknown": "no sequence numbers, so written by an older version: missing records cannot be seen",
}
"""How the records of a process end in the audit log -> words."""

PASSED_THROUGH = {
    "filter": "every node accepted",
    "prioritize": "no scores",
    "preempt": "kube-scheduler's own candidates",
}
"""Verb -> the answer in mode Observe, in words."""

NODE_OUTCOMES: dict[NodeOutcome, NodeWords] = {
    # /filter
    "accepted": NodeWords("fits", "{pod} fits on {name}", "green"),
    "failed": NodeWords(
        "does not fit; evicting pods would help",
        "{pod} does not fit on {name} ({why}); evicting pods of lower priority would help",
        "yellow",
    ),
    "unresolvable": NodeWords(
        "does not fit; evicting pods would not help",
        "{pod} does not fit on {name} ({why}); evicting pods would not help",
        "red",
    ),
    # /prioritize
    "scored": NodeWords("scored", "{name} scored {score} of 10 for {pod}{why}", "green"),
    "unscored": NodeWords(
        "not scored by plugins",
        "{name} scored {score} of 10 for {pod}{why}",
        meaning="the pod does not fit without evictions",
    ),
    # /preempt
    "chosen": NodeWords(
        "chosen", "{name} was chosen for {pod}: evicting {victims} makes room", "bold green", "in the answer"
    ),
    "outranked": NodeWords(
        "outranked", "{name} was not chosen for {pod}: {why}", "yellow", "another candidate ranks higher", "if chosen"
    ),
    "rejectedByPolicy": NodeWords(
        "ruled out by policy",
        "{name} was ruled out for {pod}: evicting {victims} {why}",
        "red",
        "a policy forbids the victims",
        "if chosen",
    ),
    "insufficientAfterPreemption": NodeWords(
        "does not fit even after evicting all potential victims",
        "{pod} does not fit on {name} even after evicting {victims}{why}",
        "red",
        afterwards="if emptied",
    ),
    "noVictims": NodeWords(
        "no potential victims",
        "{name} has no potential victims for {pod}: {why}",
        "red",
        "the node has no pod that may be evicted for this one",
        "if emptied",
    ),
    "fits": NodeWords("fits without preemption", "{pod} fits on {name} without preemption", "green"),
    "notEvaluated": NodeWords(
        "not evaluated",
        "{name} was not evaluated for {pod}: {why}",
        meaning="not in the cluster cache, or preemption does not help",
    ),
    "rejected": NodeWords(
        "rejected by the guard",
        "{name} was removed from the response for {pod} by the guard: {why}",
        "bold red",
        "failed the final check of the answer",
        "if chosen",
    ),
    "vetoed": NodeWords("preemption not allowed now", "no pods on {name} are evicted for {pod}: {why}", "red"),
}
"""Outcome of a node -> words, its style and its sentence."""

STATUS_CODES = {
    "Success": Words("fits", style="green"),
    "Unschedulable": Words("evicting pods may help", style="yellow"),
    "UnschedulableAndUnresolvable": Words("evicting pods would not help", style="red"),
    "Error": Words("evicting pods would not help", style="red"),
}
"""Filter status of a node -> words."""

# --- preemption -----------------------------------------------------------------------------------------------------

VICTIM_SELECTION_NOTES = {
    "whole pod groups": "members of disrupted pod groups reprieved last",
    "scheduler preferred": "among equal pods, those that kube-scheduler chose",
    "kube-scheduler": "chosen by kube-scheduler: a plugin that is not evaluated here affects this node",
}
"""Method of victim selection (dry_run.VICTIM_SELECTION_METHODS) -> note; the plain reprieve has no entry."""

ROLES = {
    "kept": Words("kept", "at least as important as the preemptor", "dim"),
    "protected": Words("protected", "a policy forbids its eviction", "yellow"),
    "reprieved": Words("reprieved", "could be evicted, but fits beside the preemptor", "green"),
    "evictable": Words("evictable", "could be evicted, but that is not enough"),
    "victim": Words("victim", "to be evicted", "bold red"),
    "nominated": Words("nominated", "a pod nominated to this node, whose requests count as used"),
    "preemptor": Words("preemptor", "the pod to be scheduled"),
    "free": Words("free", ""),
}
"""Role of a pod on a node -> words."""

CRITERIA = {
    "PDBViolations": Criterion("PDB violations", "fewest", "disruption budget violations"),
    "HighestPriority": Criterion("Highest victim priority", "lowest", "the highest priority among its victims"),
    "PrioritySum": Criterion(
        "Sum of priorities",
        "lowest; each victim counts more than its priority, so fewer of them win",
        "the sum of priorities",
    ),
    "VictimCount": Criterion("Victims", "fewest", "the number of victims"),
    "LatestStartTime": Criterion(
        "Start time", "latest, of the most important victim", "the start of its most important victim"
    ),
    "PodDeletionCost": Criterion("Pod deletion cost", "lowest", "pod deletion cost"),
    "EvictionCost": Criterion("Eviction cost", "lowest", "eviction cost"),
    "QoSClass": Criterion("QoS class", "lowest", "the QoS class of its victims"),
    "GracePeriod": Criterion("Grace period", "shortest", "the longest grace period"),
    "Workloads": Criterion("Workloads", "fewest", "the number of workloads that lose a pod"),
    "PodGroups": Criterion("Broken pod groups", "fewest", "broken pod groups"),
    "UnusedCapacity": Criterion("Unused capacity", "least", "the capacity that is freed and left unused"),
    "named": Criterion("kube-scheduler’s choice", "its victims are the ones that kube-scheduler selected"),
    "name": Criterion("Name", "first"),
}
"""Criterion of the ranking -> words."""

# --- pods -----------------------------------------------------------------------------------------------------------

NOT_TRIED_SENTENCES: dict[PodState, str] = {
    "Gated": "kube-scheduler does not try {pod} yet: {message}",
    "NotOurs": "{pod} is for another scheduler: {message}",
    "Terminating": "{pod} is being deleted: kube-scheduler does not try it any more",
    "Finished": "{pod} has finished: it needs no node any more",
    "NotFound": "the cluster has no pod {pod}",
}
"""State -> sentence about a pod that kube-scheduler does not try."""

IN_OTHER_NAMESPACES = "; it has {names}"
PODS_OF_WORKLOAD = "; {workload} has the pods {names}"
"""Ends of a sentence about a name that the cluster does not have."""

REJECTED_BY = {
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
"""Plugin -> words for the nodes that it rejects, after their number; NodeResourcesFit names the resources."""

# --- pending pods -----------------------------------------------------------------------------------------------------

RETRY = (
    "kube-scheduler tries a pending pod again after its back-off, after a change that may help it, and every 5 minutes "
    "by default"
)
"""Hint for a pod that fits but is pending."""

LAST_TRY = "{retry}; when it last tried, its message was (condition PodScheduled): {message}"
"""Hint for a pod that fits and that kube-scheduler tried before."""

STATE_NOT_FOUND = (
    'the last "not found" of kube-scheduler\'s message only means that it tries no preemption for this pod: the reason '
    "stands before it"
)
"""Hint for a pod that a PreFilter plugin rejects before DynamicResources."""

PENDING_CAUSES = {
    "Gated": "{message}",
    "NotOurs": 'for another scheduler: "{scheduler}"',
    "Terminating": "being deleted",
    "Nodes": "nodes {phrase}",
    "NotTriedYet": "fits, and has not been tried yet",
    "Fits": "fits, and waits to be tried again",
    "Nominated": "fits on its nominated node, and waits to be tried again",
    "Waits": "nominated to a node, and waits until the pods evicted for it are gone",
    "NotEvaluated": "fits, unless a plugin that is not evaluated here rejects it",
}
"""State of a pending pod, or what it waits for -> words of its cause."""

PENDING_KINDS: dict[str, str] = {
    "DoesNotFit": "without a node that fits",
    "FitsAfterPreemption": "with room only after a preemption",
    "Fits": "waiting to be tried again",
    "Unknown": "up to plugins that are not evaluated here",
    "Gated": "gated",
    "NotOurs": "for another scheduler",
    "Terminating": "being deleted",
}
"""Verdict of a pending pod, or its state if kube-scheduler does not try it -> words after the number of such pods."""

PENDING_OMITTED = "{pods} not evaluated in time"
NO_NAMESPACE = "the cluster has no namespace {namespace}"
NOTHING_PENDING = "no pod is pending{where}"
COMMONEST_CAUSE = "commonest cause: {cause} ({pods})"

PREEMPTION_HELP: dict[PreemptionHelp, Words] = {
    "MakesRoom": Words("makes room", "evicting pods would make room", "yellow"),
    "NoRoom": Words("no room", "no eviction would make room", "red"),
    "NotAllowed": Words("not allowed", "the pod may not evict others now", "red"),
    "Waits": Words("waits", "pods evicted for it are still terminating", "yellow"),
    "NotTried": Words("", "not tried: the pod fits, or kube-scheduler does not try it"),
}
"""Whether preemption would help a pending pod -> words."""


def describe_help(candidates: int, nodes: int) -> str:
    """Return on how many of these nodes evicting pods would make room."""
    return "no room" if not candidates else "makes room" if candidates == nodes else f"makes room on {candidates}"


def describe_passed_over(kinds: Mapping[str, int]) -> str:
    """Name the kinds of a file that place no pods, as of a chart: they change no decision."""
    counts = join_names([f"{number} {shortened(kind, 80)}" for kind, number in sorted(kinds.items())], 20)
    return f"ignored, not used by any decision: {counts}"


BLOCKED_BY_TERMINATING = "pods that are still terminating on {node}"

VERDICT_STYLES: dict[Verdict, str] = {
    "Fits": "bold green",
    "FitsAfterPreemption": "bold yellow",
    "DoesNotFit": "bold red",
    "Unknown": "bold",
}
"""Verdict -> style of its sentence on a terminal."""

# --- the source of an answer ------------------------------------------------------------------------------------------

SOURCES: dict[str, str] = {
    "live": "context {context} ({server})",
    "file": "{files}",
    "example": "the example cluster that ships with the package",
    "objects": "objects given in Python",
}
"""Kind of a source -> words."""

IN_CLUSTER = "the cluster of this pod ({server})"
"""A live cluster without a kubeconfig."""

VERSION_FOUND = "{assumed} is set, but the cluster suggests kube-scheduler {found}: {source}"
"""Hint about the version that the cluster names."""

KUBELET_VERSIONS = (
    "kubelets are {kubelets}, so kube-scheduler may be {newest} rather than {assumed}: set it with --scheduler-version "
    "or scheduler.version"
)
"""Hint about the version that kubelets suggest."""


def describe_source(source: SourceReport) -> str:
    """Return where the cluster of an answer comes from, such as `context prod (https://api.example:6443)`."""
    files = ", ".join(f"{one.path}, written {one.modified}" if one.modified else one.path for one in source.files)
    words = IN_CLUSTER if source.kind == "live" and not source.context else SOURCES[source.kind]
    return words.format(context=source.context, server=source.server, files=files)


# --- simulations ----------------------------------------------------------------------------------------------------

CYCLE_OUTCOMES = {
    "Scheduled": "scheduled",
    "Nominated": "nominated",
    "Unschedulable": "stays pending",
    "Skipped": "skipped",
}
"""Outcome of a scheduling cycle -> words."""

EVICTION_REFUSALS: dict[EvictionRefusal, str] = {
    "NotAllowed": "budget {budgets} allows 0",
    "SeveralBudgets": "{pod} has more than one budget, {budgets}, which the eviction API does not support",
    "NotProcessed": "budget {budgets} is still being processed",
}
"""Reason why a drain cannot evict a pod -> words."""

EVICTION_CAUSES: dict[EvictionCause, str] = {
    "Preempted": "preempted",
    "Drained": "drained",
    "NodeRemoved": "node removed",
}
"""Cause of an eviction -> words."""

CLAIM_ALLOCATIONS: dict[ClaimAllocation, str] = {"new": "gets", "existing": "keeps", "created": "is created and gets"}
"""Allocation of a resource claim -> verb between the claim and its devices."""


# --- admission --------------------------------------------------------------------------------------------------------

ADMISSION_MODES: dict[str, str] = {
    "local": "local, as an API server {version} stores it",
    "server": "server, by a dry run of the API server",
    "none": "none: the manifest is taken as it is",
}
"""Mode of admission -> words; `{version}` is the API server's."""

ADMISSION_FINDINGS: dict[str, str] = {
    "leftOut": f"{LEFT_OUT}: ",
    "pruned": f"{PRUNED}: ",
    "assumed": f"{ASSUMED}: ",
    "existing": "in the cluster already, so the given one does not count: ",
    "warnings": "the API server warns: ",
}
"""List of an AdmissionReport -> words before it."""


MAX_ADMISSION_NAMES = 10
"""Number of fields that a sentence names of each list."""


def describe_admission(found: AdmissionReport) -> list[str]:
    """Return what was made of the manifests, one sentence each."""
    lists = msgspec.to_builtins(found)
    found_words = ((words, lists[key]) for key, words in ADMISSION_FINDINGS.items() if lists[key])
    sentences = [words + join_names(names, MAX_ADMISSION_NAMES) for words, names in found_words]
    return [ADMISSION_MODES[found.mode].format(version=found.version), *sentences]


def as_json() -> bytes:
    """Return the tables that the page shows, as objects by code."""
    tables: dict[str, dict[Any, Any]] = {
        "criteria": CRITERIA,
        "nodeOutcomes": NODE_OUTCOMES,
        "decisionOutcomes": DECISION_OUTCOMES,
        "roles": ROLES,
        "preemptionHelp": PREEMPTION_HELP,
        "cycleOutcomes": CYCLE_OUTCOMES,
        "evictionCauses": EVICTION_CAUSES,
        "claimAllocations": CLAIM_ALLOCATIONS,
        "sources": SOURCES | {"inCluster": IN_CLUSTER},
        "admissionModes": ADMISSION_MODES,
        "admissionFindings": ADMISSION_FINDINGS,
    }
    # A NamedTuple would become an array: the page reads columns by name.
    return msgspec.json.encode(
        {
            name: {code: one if isinstance(one, str) else one._asdict() for code, one in table.items()}
            for name, table in tables.items()
        }
    )
