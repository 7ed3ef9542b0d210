"""Scenarios on random clusters: every cycle as on the cluster built again, budgets kept, nothing left of a gang."""

import copy
from dataclasses import replace

import numpy as np
from hypothesis import given

from extender.core.profile import KubeScheduler
from extender.core.scheduling_cycle.schedule_one import schedule_one
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.selectors import SelectorError, compile_label_selector
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.simulator import simulate
from tests.builders import built, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import Draw, case

SOME = examples(4, 50, 10_000)
FEW = examples(3, 30, 5_000)

CONTROLLERS = ("ReplicaSet", "StatefulSet", "Job", "DaemonSet")


def world(seed):
    """A case whose running pods mostly have controllers and are Ready."""
    draw, found = Draw(seed), copy.deepcopy(case(seed).cluster)
    for number, item in enumerate(found["items"]):
        if item["kind"] == "Pod" and item["spec"].get("nodeName"):
            if draw.maybe(0.8) and not item["metadata"].get("ownerReferences"):
                name = f"set-{number % 3}"
                owner = {"apiVersion": "apps/v1", "kind": draw.pick(CONTROLLERS), "name": name, "uid": name}
                item["metadata"]["ownerReferences"] = [owner | {"controller": True}]
            if draw.maybe(0.7):
                others = [one for one in item["status"].get("conditions") or () if one["type"] != "Ready"]
                item["status"]["conditions"] = [*others, {"type": "Ready", "status": "True"}]
    return found


def scenario(seed, here):
    """Nodes are added like one of the cluster; of the others some are cordoned, removed or drained."""
    draw, names = Draw(seed), list(here.node_names)
    changes = {name: draw.pick(("cordon", "remove_nodes", "drain", "drain", "")) for name in names}
    named = {field: [one for one in names if changes[one] == field] for field in ("cordon", "remove_nodes", "drain")}
    base = here.objects.nodes["", names[0]]
    added = [AddedNodes(base, 1 + draw.below(2))] if base.status.allocatable and draw.maybe(0.5) else []
    cordon, removed, drained = (named[field] for field in ("cordon", "remove_nodes", "drain"))
    return Scenario(add_nodes=added, cordon=cordon, remove_nodes=removed, drain=drained)


def changed(seed, **options):
    here = built(world(seed))
    asked = scenario(seed, here)
    pods = [typed(case(seed).pod)] if not here.objects.pods.get(("default", case(seed).pod["metadata"]["name"])) else []
    return here, simulate(here, KubeScheduler(), replace(asked, pods=pods, pending=True), **options)


@FEW
@given(SEEDS)
def test_every_cycle_is_what_it_would_be_on_the_same_cluster_built_again(seed):
    here = built(world(seed))

    def compare(step):
        assert schedule_one(Snapshot.build(here.frozen()), step.cycle.pod, KubeScheduler()) == step.cycle

    simulate(here, KubeScheduler(), replace(scenario(seed, here), pending=True), on_step=compare)
    rebuilt = Snapshot.build(here.frozen())
    for name in here.node_names:
        one, other = here.used[:, here.node_row[name]], rebuilt.used[:, rebuilt.node_row[name]]
        assert np.array_equal(one, other), name


@SOME
@given(SEEDS)
def test_a_drained_node_keeps_what_is_ignored_or_blocked_and_what_came_later(seed):
    before = built(world(seed))
    running = {name: {pod.key for pod in before.pods_on(name)} for name in before.node_names}
    here, result = changed(seed)
    preempted = {one.pod for one in result.evicted}
    arrived = {one.pod for one in result.cycles if one.outcome == "Scheduled"}
    for one in result.scenario.drained if result.scenario else ():
        blocked = {pod.pod for pod in one.blocked}
        assert {*one.evicted, *one.ignored, *blocked} >= running[one.node] - preempted - arrived, (
            "a pod of the node has no outcome"
        )
        assert set(one.lost) <= set(one.evicted), "a pod is lost that was not evicted"
        left = {pod.key for pod in here.pods_on(one.node)} - arrived
        assert left <= {*one.ignored, *blocked}, "a pod stays that is neither ignored nor blocked"
        for refused in one.blocked:
            assert refused.budgets == budgets_of(here, refused.pod), "a blocked eviction names other budgets"
            assert len(refused.budgets) > 1 or not allows(here, refused.pod, refused.budgets[0])
    assert all(
        one.status.disruptions_allowed >= 0 for one in here.objects.budgets.values() if one.status.expected_pods
    ), "a budget below zero"
    assert not {one.pod for one in result.replacements} & {lost for one in drained(result) for lost in one.lost}, (
        "a lost pod is replaced"
    )


def drained(result):
    return result.scenario.drained if result.scenario else []


def budgets_of(here, pod):
    """Names of the budgets that select the pod, found the slow way."""
    namespace, _, name = pod.partition("/")
    labels, found = here.objects.pods[namespace, name].metadata.labels or {}, []
    for budget in here.objects.budgets.values():
        if budget.metadata.namespace == namespace:
            try:
                selects = compile_label_selector(budget.spec.selector).matches(labels)
            except SelectorError:
                continue
            if selects:
                found.append(f"{namespace}/{budget.metadata.name}")
    return sorted(found)


def allows(here, pod, budget):
    """Whether the eviction API would allow it in the end."""
    found, object_ = here.objects.pods[tuple(pod.split("/"))], here.objects.budgets[tuple(budget.split("/"))]
    status = object_.status
    if not found.is_ready and (
        object_.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
        or (status.desired_healthy > 0 and status.current_healthy >= status.desired_healthy)
    ):
        return True
    return status.observed_generation >= object_.metadata.generation and status.disruptions_allowed > 0


@SOME
@given(SEEDS)
def test_until_full_binds_what_as_many_copies_bind_one_by_one(seed):
    cluster, pod = world(seed), copy.deepcopy(case(seed).pod)
    pod["metadata"]["name"] = "copy"
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending"}
    found = simulate(built(cluster), KubeScheduler(), Scenario([typed(pod)], until_full=True))
    assert found.scenario is not None
    full = found.scenario.until_full
    assert full is not None
    assert full.next is not None
    fits, following = full.fits, full.next
    names = [f"copy-{number}" for number in range(1, fits + 2)]
    namespace = pod["metadata"]["namespace"]
    copies = [
        typed(pod | {"metadata": pod["metadata"] | {"name": name, "uid": f"{namespace}/{name}"}}) for name in names
    ]
    here = built(cluster)
    for copy_ in copies[:fits]:
        (cycle,) = simulate(here, KubeScheduler(), Scenario([copy_])).cycles
        assert cycle.outcome == "Scheduled"
    last = simulate(here, KubeScheduler(), Scenario([copies[-1]], replace_evicted=False)).cycles[0]
    assert (last.outcome, last.message, last.victims) == (following.outcome, following.message, following.victims), (
        "the last copy ends otherwise than alone"
    )
    nodes = [one.spec.node_name for one in here.objects.pods.values() if one.metadata.name in names[:fits]]
    assert {one.node: one.pods for one in full.nodes} == {node: nodes.count(node) for node in nodes}, (
        "a node has another number of copies"
    )


@SOME
@given(SEEDS)
def test_a_gang_is_scheduled_if_its_pods_are_and_otherwise_leaves_nothing_behind(seed):
    cluster = world(seed)
    pods = [copy.deepcopy(case(seed + number).pod) for number in range(3)]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"new-{number}", "uid": f"uid-new-{number}"}
    arriving = list(map(typed, pods))
    here = built(cluster)
    alone = simulate(here, KubeScheduler(), Scenario(arriving))
    there = [here.objects.pods.get((one.metadata.namespace, one.metadata.name)) for one in arriving]
    bound = [one is not None and one.spec.node_name for one in there]
    together = built(cluster)
    before = {kind: set(map(id, objects.values())) for kind, objects in tables(together)}
    result = simulate(together, KubeScheduler(), Scenario(arriving, gang=True))
    assert result.scenario is not None
    assert result.scenario.gang is not None
    assert result.scenario.gang.scheduled == all(bound), "the gang and its pods disagree"
    if all(bound):
        assert result.cycles == alone.cycles, "other cycles than of the pods alone"
    else:
        after = {kind: set(map(id, objects.values())) for kind, objects in tables(together)}
        assert {kind: ids for kind, ids in after.items() if kind != "Pod"} == {
            kind: ids for kind, ids in before.items() if kind != "Pod"
        }
        assert before["Pod"] <= after["Pod"], "a gang that failed costs a pod"
        assert (result.evicted, result.replacements, result.summary.scheduled) == ([], [], 0)


def tables(snapshot):
    return [
        ("Pod", snapshot.objects.pods),
        ("PodDisruptionBudget", snapshot.objects.budgets),
        ("PersistentVolumeClaim", snapshot.objects.claims),
        ("ResourceClaim", snapshot.objects.resource_claims),
    ]
