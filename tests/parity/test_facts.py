"""Facts in every scenario of the corpus: each rejected node has one, and without what it names the plugin accepts.

The second is found by evaluation: the taint goes, the pods with a port or a term go, the missing amount is added.
"""

from collections import Counter
from dataclasses import replace as replaced
from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace

from extender import Snapshot
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import FILTERS
from extender.core.framework.status import Code
from extender.core.snapshot.arrays import MAX_AMOUNT
from extender.k8s import quantity
from extender.report.facts import schema as facts
from extender.report.facts.node_facts import FACTS, facts_of_nodes
from extender.report.facts.wording import describe_fact
from tests.builders import stored_cluster, typed
from tests.parity.agreement import CATEGORIES_OF_1_37, EVERY_CATEGORY, load
from tests.parity.parity import NOW, Evaluated
from tests.parity.volume_facts import without_volume
from tests.profiles import by_profile

WITHOUT_FACTS: set[str] = set()
"""Plugins that have no facts yet."""

NOT_REMOVED = {"DynamicResources"}
"""Plugins whose facts are not checked by evaluation: devices depend on each other."""

CHECKED = {
    "taints": "TaintToleration",
    "affinity": "NodeAffinity",
    "ports": "NodePorts",
    "resources": "NodeResourcesFit",
    "nominated": "NodeResourcesFit",
    "interpod": "InterPodAffinity",
    "spread": "PodTopologySpread",
    "v1.37/declared": "NodeDeclaredFeatures",
}
"""Category -> a plugin whose rejections it has."""

ROUNDS = 12
"""Number of times that what facts name is removed: a node may have several pods with a port, each fact three pods."""


def test_every_filter_plugin_has_facts():
    assert FACTS.keys() == FILTERS.keys() - WITHOUT_FACTS


@pytest.mark.parametrize("category", [*EVERY_CATEGORY, *CATEGORIES_OF_1_37])
def test_every_rejected_node_has_facts_that_explain_its_verdict(category):
    nth = by_profile(24 if "/" in category else 12, 3, 1)
    nameless, unexplained, seen = list[object](), list[object](), Counter[str]()
    for scenario in load(category, nth):
        if "error" in scenario:  # a configuration that kube-scheduler refuses
            continue
        minor = "1.37" if category in CATEGORIES_OF_1_37 else "1.36"
        scheduler = kube_scheduler_of(scenario.get("config") or {}, version=minor)
        pod, snapshot = typed(scenario["pod"]), partial(fresh, scenario, scheduler.features)
        profile = Evaluated.profile_of(scheduler.for_calls(), pod)
        evaluation = Evaluation(snapshot(), pod, profile, NOW)
        of_node, tried = facts_of_nodes(evaluation), Counter[str]()
        for row, name, plugin in rejections(evaluation):
            found = of_node(row, plugin)
            if not found:
                nameless.append((scenario["id"], name, plugin))
            assert all(map(describe_fact, found))
            tried[plugin] += 1
            if found and tried[plugin] <= 2 and plugin not in NOT_REMOVED:
                seen[plugin] += 1
                if still := explained(snapshot(), pod, profile, name, plugin):
                    unexplained.append((scenario["id"], name, plugin, still))
    assert (nameless, unexplained) == ([], [])
    assert category not in CHECKED or seen[CHECKED[category]]


@pytest.mark.parametrize("category", [*EVERY_CATEGORY, *CATEGORIES_OF_1_37])
def test_the_order_of_a_clusters_objects_does_not_show(category):
    for scenario in load(category, by_profile(24 if "/" in category else 12, 3, 1)):
        if "error" not in scenario:
            objects = {
                kind: some[::-1] if isinstance(some, list) else some for kind, some in scenario["cluster"].items()
            }
            assert facts_by_node(scenario) == facts_by_node({**scenario, "cluster": objects}), scenario["id"]


def facts_by_node(scenario):
    scheduler = kube_scheduler_of(scenario.get("config") or {}, version="1.37")
    pod = typed(scenario["pod"])
    profile = Evaluated.profile_of(scheduler.for_calls(), pod)
    evaluation = Evaluation(fresh(scenario, scheduler.features), pod, profile, NOW)
    of_node = facts_of_nodes(evaluation)
    return {name: list(of_node(row, plugin)) for row, name, plugin in rejections(evaluation)}


def fresh(scenario, features):
    return Snapshot.build(stored_cluster(scenario["cluster"]), features)


def rejections(evaluation):
    """Yield (row, node, plugin) of the nodes that plugins with facts reject."""
    run = evaluation.filter
    if run.prefilter_status is not None and run.prefilter_status.plugin in ("PodTopologySpread", "InterPodAffinity"):
        return  # the reason is the invalid selector
    statuses = run.statuses(np.arange(len(run.codes)))
    for row, name in enumerate(evaluation.context.snapshot.node_names):
        status = statuses.status(row)
        # Left out by PreFilter: if the plugins name no common node, only the reason says which ones they are.
        plugins = {status.plugin} if status.plugin else run.prefilter_plugins
        plugins = plugins or {name for name in WITHOUT_FACTS if name in status.message}
        if status.code not in (Code.SUCCESS, Code.ERROR) and not plugins & WITHOUT_FACTS:
            yield row, name, status.plugin


def explained(snapshot, pod, profile, name, plugin):
    """Return the last facts if the plugin still rejects the node without what its facts named."""
    found: list[facts.AnyFact] = []
    for _ in range(ROUNDS):
        evaluation = Evaluation(snapshot, pod, profile, NOW)
        row = snapshot.node_row[name]
        status = evaluation.filter.status(row)
        if status.code == Code.SUCCESS or status.plugin != plugin:
            return []
        found = [*facts_of_nodes(evaluation)(row, plugin)]
        if any(isinstance(one, facts.ResourceFact) and is_clamped(one) for one in found):
            return []
        for fact in found:
            snapshot, pod, profile = without(snapshot, pod, profile, name, fact)
        snapshot.refresh_layout()
    return found


def is_clamped(fact):
    """Return whether an amount is at the limit of what a snapshot holds, which no real node reaches."""
    units = quantity.milli_value if fact.resource == "cpu" else quantity.value
    return any(units(quantity.parse(one)) >= MAX_AMOUNT for one in (fact.requested, fact.allocatable, fact.used))


def without(snapshot, pod, profile, name, fact):
    """Return snapshot, pod and profile without what the fact names."""
    node = snapshot.nodes[snapshot.node_row[name]]

    def put(**changes):
        parts = {part: replace(getattr(node, part), **of) for part, of in changes.items()}
        snapshot.put("Node", replace(node, **parts))

    def delete(*pods):
        for key in pods:
            if tuple(key.split("/")) in snapshot.objects.pods:
                snapshot.remove("Pod", tuple(key.split("/")))

    labels = node.metadata.labels or {}
    match fact:
        case facts.TaintFact(key=key, value=value, effect=effect):
            put(
                spec={
                    "taints": [
                        one for one in node.spec.taints if (one.key, one.value, one.effect) != (key, value, effect)
                    ]
                }
            )
        case facts.UnschedulableFact():
            put(spec={"unschedulable": False})
        case facts.NodeNameFact():
            pod = replace(pod, spec=replace(pod.spec, node_name=""))
        case facts.DeclaredFeatureFact(feature=feature):
            put(status={"declared_features": [*(node.status.declared_features or ()), feature]})
        case facts.PortFact(pod=holder):
            delete(holder)
        case facts.NominatedFact(pods=pods):
            delete(*pods)
        case facts.ResourceFact(resource=resource):
            amount = quantity.parse(fact.allocatable) + quantity.parse(fact.requested) - quantity.parse(fact.free)
            put(status={"allocatable": (node.status.allocatable or {}) | {resource: f"{amount}n"}})
        case facts.PodAffinityFact(rule="affinity", topology_key=key):
            affinity = pod.spec.affinity
            terms = [one for one in affinity.pod_affinity.required if one.topology_key != key]
            affinity = replace(affinity, pod_affinity=replace(affinity.pod_affinity, required=terms))
            pod = replace(pod, spec=replace(pod.spec, affinity=affinity))
        case facts.PodAffinityFact(pods=pods):
            delete(*pods)
        case facts.SpreadFact(missing_label=True, topology_key=key):
            put(metadata={"labels": labels | {key: "new"}})
        case facts.SpreadFact(topology_key=key):
            skew = fact.matching + fact.self_matching - fact.minimum
            assert skew > fact.max_skew
            own = pod.spec.topology_spread_constraints
            raised = [
                replace(one, max_skew=skew) if (one.topology_key, one.max_skew) == (key, fact.max_skew) else one
                for one in own or profile.default_spread_constraints
            ]
            if own:
                pod = replace(pod, spec=replace(pod.spec, topology_spread_constraints=raised))
            else:
                profile = replaced(profile, default_spread_constraints=tuple(raised))
        case facts.NodeRequirementFact(source="addedAffinity"):
            profile = replaced(profile, added_affinity=None)
        case facts.NodeRequirementFact(source="nodeSelector", key=key):
            put(metadata={"labels": labels | {key: pod.spec.node_selector[key]}})
        case facts.NodeRequirementFact():
            pod = replace(pod, spec=replace(pod.spec, affinity=without_requirement(pod.spec.affinity, fact)))
        case _:
            pod = without_volume(snapshot, pod, name, fact)
    return snapshot, pod, profile


def without_requirement(affinity, fact):
    """Return the affinity without the requirement, which it must have; a term without requirements matches no node."""
    if affinity.node_affinity.required is None:  # another fact about it was first
        return affinity
    terms = []
    for term in affinity.node_affinity.required.node_selector_terms or ():
        labels = [one for one in term.match_expressions or () if one.key != fact.key]
        fields = [one for one in term.match_fields or () if one.key != fact.key]
        terms.append(replace(term, match_expressions=labels, match_fields=fields))
    required = replace(affinity.node_affinity.required, node_selector_terms=terms)
    is_met = not all(one.match_expressions or one.match_fields for one in terms) or not terms
    return replace(affinity, node_affinity=replace(affinity.node_affinity, required=None if is_met else required))
