"""Facts about the nodes that reject a pod, by plugin.

Rule: nothing is decided here: a fact explains the verdict of an Evaluation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import (
    PREFILTERS,
    dynamic_resources,
    in_tree_volume_limits,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources,
    node_unschedulable,
    node_volume_limits,
    plugins_missing_permissions,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from extender.core.framework.scheduling_signature import template_signature
from extender.core.framework.status import Code
from extender.core.profile import Profile
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.derived import MAX_KEY_BYTES, derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.affinity import raw_terms
from extender.k8s.objects import Pod
from extender.k8s.requests import PODS
from extender.report.facts.affinity import pod_affinity_facts
from extender.report.facts.collected import first_pods
from extender.report.facts.devices import device_facts
from extender.report.facts.nodes import (
    cordon_facts,
    declared_feature_facts,
    node_affinity_facts,
    node_name_facts,
    taint_facts,
)
from extender.report.facts.ports import port_facts
from extender.report.facts.resources import INSUFFICIENT, TOO_MANY_PODS, freest_of, resource_facts
from extender.report.facts.schema import (
    AnyFact,
    FactsOf,
    MoreFact,
    NominatedFact,
    ResizeFact,
    ResourceFact,
)
from extender.report.facts.spread import spread_facts
from extender.report.facts.volume_use import volume_limit_facts, volume_restriction_facts
from extender.report.facts.volumes import volume_binding_facts, volume_zone_facts
from extender.utilities.lru import LRU
from extender.utilities.time_share import TimeShare

FACTS: dict[str, Callable[[Evaluation], FactsOf]] = {
    node_unschedulable.NAME: cordon_facts,
    node_name.NAME: node_name_facts,
    taint_toleration.NAME: taint_facts,
    node_affinity.NAME: node_affinity_facts,
    node_ports.NAME: port_facts,
    node_resources.FIT_NAME: resource_facts,
    pod_topology_spread.NAME: spread_facts,
    inter_pod_affinity.NAME: pod_affinity_facts,
    node_declared_features.NAME: declared_feature_facts,
    volume_restrictions.NAME: volume_restriction_facts,
    in_tree_volume_limits.EBS_NAME: partial(volume_limit_facts, in_tree_volume_limits.EBS_NAME),
    in_tree_volume_limits.GCE_PD_NAME: partial(volume_limit_facts, in_tree_volume_limits.GCE_PD_NAME),
    node_volume_limits.NAME: partial(volume_limit_facts, node_volume_limits.NAME),
    in_tree_volume_limits.AZURE_DISK_NAME: partial(volume_limit_facts, in_tree_volume_limits.AZURE_DISK_NAME),
    volume_binding.NAME: volume_binding_facts,
    volume_zone.NAME: volume_zone_facts,
    dynamic_resources.NAME: device_facts,
}
"""Plugin -> its facts about one pod; what depends on the pod alone is computed in this call."""

MAX_FACTS_OF_NODE = 12
"""Maximum number of facts about one node; MoreFact counts the others."""

MAX_NODES_OF_DECISION = 50
"""Maximum number of nodes of a decision that have facts, the same of each reason: a fact takes some 10 µs."""

MAX_TERM_PODS_OF_DECISION = 500_000
"""Maximum number of running pods times terms of the pod's own (anti-)affinity up to which InterPodAffinity has facts of
a decision: all of them may match, and the next call waits meanwhile."""

MAX_BYTES_OF_DECISION = 256 << 10
"""Maximum size of the facts of a decision as JSON: they quote what tenants write. Larger ones are left out."""

_MAX_KNOWN = 64
"""Maximum number of templates, with the nodes of a request, whose facts are cached."""


def facts_of_nodes(evaluation: Evaluation) -> Callable[[int, str], Sequence[AnyFact]]:
    """Return (node row, plugin that rejects the node) -> facts. The snapshot must not change meanwhile."""
    run, nominated = evaluation.filter, _nominated_facts(evaluation)
    prepared: dict[str, FactsOf] = {}
    # PreFilter leaves nodes out in the name of the framework: the plugins that name the others are the cause. If they
    # agree on no node, the run does not say which ones.
    naming = sorted(run.prefilter_plugins)
    if run.prefilter_status is not None and not run.prefilter_status.plugin:
        skipped = plugins_missing_permissions(evaluation.context, "filter")
        naming = [
            name
            for name in evaluation.context.profile.prefilter_plugins
            if name in PREFILTERS
            and name not in skipped
            and PREFILTERS[name](evaluation.context).node_names is not None
        ]

    def facts(row: int, plugin: str) -> Sequence[AnyFact]:
        found: list[AnyFact] = []
        for name in [plugin] if plugin else naming:
            if name in FACTS:
                if name not in prepared:
                    prepared[name] = FACTS[name](evaluation)
                found += prepared[name](row)
        found += nominated.get(row, ())
        left_out = len(found) - MAX_FACTS_OF_NODE
        return [*found[:MAX_FACTS_OF_NODE], MoreFact(count=left_out)] if left_out > 0 else found

    return facts


def _nominated_facts(evaluation: Evaluation) -> dict[int, list[NominatedFact]]:
    """Return row -> the fact about a node that would take the pod without the pods nominated to it."""
    run, nominees = evaluation.filter, evaluation.context.nominees
    by_row: dict[int, list[Pod]] = {}
    for pod in nominees:
        by_row.setdefault(evaluation.context.snapshot.node_row[pod.status.nominated_node_name], []).append(pod)
    if not by_row:
        return {}
    # The first check to reject the node may not be the only one.
    fits_alone = np.logical_and.reduce(
        [check.codes(alone) == Code.SUCCESS for check, alone in zip(run.checks, run.headrooms[1], strict=True)]
    )
    return {
        row: [NominatedFact(pods=first_pods(pods), count=len(pods))]
        for row, pods in by_row.items()
        if run.rejected_by[row] >= 0 and fits_alone[row]
    }


def facts_about(reason: str, facts: Iterable[AnyFact]) -> list[AnyFact]:
    """Return the facts that explain this reason of a node: each resource has a reason of its own."""
    resource = PODS if reason == TOO_MANY_PODS else reason.removeprefix(INSUFFICIENT)
    return [one for one in facts if not isinstance(one, ResourceFact | ResizeFact) or one.resource == resource]


# --- decisions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What exactly rejects the nodes of a decision, of up to MAX_NODES_OF_DECISION nodes."""

    of_node: Mapping[str, Sequence[AnyFact]]
    size: int
    """Approximate memory in bytes."""
    left_out: str | None = None
    """Reason why nodes have no facts, or not all of them."""


NO_FACTS = DecisionFacts({}, 0)
TOO_OFTEN = DecisionFacts({}, 0, "decisions reject nodes more often than there is time to look at them")
TOO_LARGE = DecisionFacts({}, 0, "the facts are too large to keep")
FAILED = DecisionFacts({}, 0, "an error, which the log of the service names")
TOO_MANY_TERMS = "too many terms of (anti-)affinity and running pods to look at"


def facts_of_decision(evaluation: Evaluation, share: TimeShare) -> DecisionFacts:
    """Return facts about the nodes that a /filter rejects, or that no eviction helps of those sent with a /preempt.

    Call it before the snapshot changes. `share`: the time that they may take.
    """
    context, places = evaluation.context, _rejected(evaluation)
    if not len(places):
        return NO_FACTS
    signature, known = template_signature(context.pod), _known(context.snapshot)
    if signature is None or len(signature) > MAX_KEY_BYTES:  # the pod has something of its own, or very much
        return share.spend(lambda: _computed(evaluation, places), TOO_OFTEN)
    key = id(context.profile), signature, evaluation.rows[places].tobytes()
    return share.spend(
        lambda: known.use_or_make(key, lambda: (_computed(evaluation, places), context.profile))[0], TOO_OFTEN
    )


def _rejected(evaluation: Evaluation) -> IntArray:
    """Return the indexes of the nodes that get facts, in the order of the request: some of each reason.

    Of a reason they are spread over its nodes; of too little of a resource, that with the most of it is among them.
    """
    if evaluation.node_names is not None:  # some nodes were in the snapshot for this decision only
        return np.zeros(0, np.int64)
    if evaluation.refusal is not None if evaluation.sent is not None else evaluation.fits_on_all_rows:
        return np.zeros(0, np.int64)
    run = evaluation.filter
    if evaluation.sent is None:
        places = np.flatnonzero(evaluation.statuses.codes)  # without Success, which is 0
        reasons = evaluation.statuses.indices[places]
    else:
        places = np.flatnonzero(run.codes[evaluation.rows] == Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        reasons = run.statuses(evaluation.rows[places]).indices
    # 1. The nodes by reason, the rarest first: what one does not need is left for the others.
    order = np.argsort(reasons, kind="stable")
    nodes_of = sorted(np.split(places[order], np.flatnonzero(np.diff(reasons[order])) + 1), key=len)
    nodes_of = nodes_of[-MAX_NODES_OF_DECISION:]
    # 2. Some of each.
    chosen, left = [np.zeros(0, np.int64)], MAX_NODES_OF_DECISION
    for place, nodes in enumerate(nodes_of):
        count = min(len(nodes), left // (len(nodes_of) - place))
        left -= count
        if count < len(nodes):
            freest = np.unique(freest_of(evaluation, evaluation.rows[nodes]))[:count]
            others = np.delete(nodes, freest)
            spread = np.arange(count - len(freest)) * len(others) // max(count - len(freest), 1)
            nodes = np.concatenate([nodes[freest], others[spread]])
        chosen.append(nodes)
    return np.sort(np.concatenate(chosen))


def _computed(evaluation: Evaluation, places: IntArray) -> DecisionFacts:
    context, rows = evaluation.context, evaluation.rows[places]
    facts, names = facts_of_nodes(evaluation), context.snapshot.node_names
    terms = 1 + sum(1 for _ in raw_terms(context.pod.spec.affinity))
    skipped = inter_pod_affinity.NAME if terms * len(context.snapshot.pods) > MAX_TERM_PODS_OF_DECISION else None
    of_node, left_out = dict[str, Sequence[AnyFact]](), None
    for row, status in zip(rows.tolist(), evaluation.filter.statuses(rows).to_list(), strict=True):
        if status.plugin == skipped:
            left_out = TOO_MANY_TERMS
        else:
            of_node[names[row]] = facts(row, status.plugin)
    distinct = {id(fact): fact for some in of_node.values() for fact in some}
    size = len(msgspec.json.encode([*distinct.values()]))
    if size > MAX_BYTES_OF_DECISION:
        return TOO_LARGE
    return DecisionFacts(of_node, 200 * len(of_node) + 4 * size, left_out)


@derived("any")
def _known(_snapshot: Snapshot) -> LRU[tuple[int, bytes, bytes], tuple[DecisionFacts, Profile]]:
    """Return the cache: (id of the profile, signature of the pod, node rows) -> facts, and the profile itself.

    While it is kept, no other profile gets its id.
    """
    return LRU(_MAX_KNOWN)
