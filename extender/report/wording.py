"""Say in words what our codes mean: the one table that the command line, the page, log lines and sentences read.

What kube-scheduler itself says (filter reasons, messages) is not ours, and stays in its plugin. The page gets these
tables as /ui/wording.json.

Rule: codes and words only; nothing is computed here, and no module of the engine is loaded.
"""

from typing import Any, NamedTuple

import msgspec

from extender.report.pod_schema import PodState
from extender.report.schema import NodeOutcome


class Words(NamedTuple):
    """A code in words."""

    label: str
    meaning: str = ""
    """What it means, where the label does not say all."""


class Criterion(NamedTuple):
    """A criterion of the ranking in words."""

    label: str
    better: str
    """Which value is the better one."""
    phrase: str = ""
    """What stands behind `best of N candidates by`."""


# --- decisions ------------------------------------------------------------------------------------------------------

DECISION_OUTCOMES = {
    "noVictims": Words("no victims", "answered: no pods evicted"),
    "vetoed": Words("vetoed", "answered: preemption not allowed now"),
    "observed": Words("observed only", "observe only: the decision was not sent to kube-scheduler"),
    "passthrough": Words("passed through", "passthrough: nothing was decided"),
    "failed": Words("failed", "failed: no decision could be made"),
}
"""Outcome of a decision -> words; an answered decision has none."""

PASSED_THROUGH = {
    "filter": "every node accepted",
    "prioritize": "no scores",
    "preempt": "kube-scheduler's own candidates",
}
"""Verb -> what was answered in mode Observe, in words."""

NODE_OUTCOMES: dict[NodeOutcome, Words] = {
    "accepted": Words("fits"),
    "failed": Words("does not fit; evicting pods would help"),
    "unresolvable": Words("does not fit; evicting pods would not help"),
    "scored": Words("scored"),
    "unscored": Words("not scored by plugins", "the pod does not fit without evictions"),
    "chosen": Words("chosen", "in the answer"),
    "outranked": Words("outranked", "another candidate ranks higher"),
    "rejectedByPolicy": Words("ruled out by policy", "a policy forbids the victims"),
    "insufficientAfterPreemption": Words("does not fit even after evicting all potential victims"),
    "noVictims": Words("no potential victims", "the node has no pod that may be evicted for this one"),
    "fits": Words("fits without preemption"),
    "notEvaluated": Words("not evaluated", "not in the cluster cache, or preemption does not help"),
    "rejected": Words("rejected by the guard", "failed the final check of the answer"),
    "vetoed": Words("preemption not allowed now"),
}
"""Outcome of a node -> words."""

NODE_SENTENCES = {
    "fits": "{pod} fits on {name} without preemption",
    "accepted": "{pod} fits on {name}",
    "failed": "{pod} does not fit on {name} ({why}); evicting pods of lower priority would help",
    "unresolvable": "{pod} does not fit on {name} ({why}); evicting pods would not help",
    "notEvaluated": "{name} was not evaluated for {pod}: {why}",
    "rejected": "{name} was removed from the response for {pod} by the guard: {why}",
    "vetoed": "no pods on {name} are evicted for {pod}: {why}",
}
"""Outcome -> sentence about a node with that outcome."""

HELP_OF_EVICTIONS = {"Unschedulable": "evicting pods may help"}
"""Filter code -> whether evictions help; by default NO_HELP."""

NO_HELP = "evicting pods would not help"

# --- preemption -----------------------------------------------------------------------------------------------------

VICTIM_SELECTION_NOTES = {
    "whole pod groups": "members of disrupted pod groups reprieved last",
    "scheduler preferred": "among equal pods, those that kube-scheduler chose",
    "kube-scheduler": "chosen by kube-scheduler: a plugin that is not evaluated here affects this node",
}
"""Method of victim selection (dry_run.VICTIM_SELECTION_METHODS) -> note, for every method but the plain reprieve."""

ROLES = {
    "kept": Words("kept", "at least as important as the preemptor"),
    "protected": Words("protected", "a policy forbids its eviction"),
    "reprieved": Words("reprieved", "could be evicted, but fits beside the preemptor"),
    "evictable": Words("evictable", "could be evicted, but that is not enough"),
    "victim": Words("victim", "to be evicted"),
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
        "lowest after 2^31 is added for each victim; number of victims in brackets",
        "the sum of priorities",
    ),
    "VictimCount": Criterion("Victims", "fewest", "the number of victims"),
    "LatestStartTime": Criterion(
        "Start time", "latest, of the most important victim", "the start of its most important victim"
    ),
    "PodDeletionCost": Criterion("Pod deletion cost", "lowest", "pod deletion cost"),
    "EvictionCost": Criterion("Eviction cost", "lowest", "eviction cost"),
    "QoSClass": Criterion("QoS class", "lowest", "the quality of service of its victims"),
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
"""Plugin -> what is said of the nodes that it rejects; NodeResourcesFit names the resources."""


def as_json() -> bytes:
    """Return the tables that the page shows."""
    tables: dict[str, Any] = {
        "criteria": CRITERIA,
        "nodeOutcomes": NODE_OUTCOMES,
        "decisionOutcomes": DECISION_OUTCOMES,
        "roles": ROLES,
        "helpOfEvictions": HELP_OF_EVICTIONS,
        "noHelp": NO_HELP,
    }
    return msgspec.json.encode(tables)
