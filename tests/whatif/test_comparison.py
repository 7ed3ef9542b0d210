"""What two versions decide otherwise about a pod, and what is only said otherwise."""

from extender.cluster.files.manifests import load_cluster
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from extender.whatif.comparison import compare_versions
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import simulate
from tests.builders import cluster, incoming, node, pod, typed

HELD = {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
RESIZED = pod("resized", cpu="1", status={"phase": "Running", "containerStatuses": [HELD]})


def compared(nodes, *arriving):
    """Compare 1.32 with 1.33, from which on a pod that is resized takes what it was allocated."""
    results = []
    for minor in (32, 33):
        scheduler = KubeScheduler(features=Features.of(minor), minor=minor)
        snapshot = Snapshot.build(load_cluster(cluster(nodes)), scheduler.features)
        results.append(simulate(snapshot, scheduler, Scenario([typed(one) for one in arriving])))
    return compare_versions(*results)


def test_a_pod_that_preempts_in_one_version_only_is_decided_otherwise():
    found = compared({node("n1", cpu="4"): [RESIZED]}, incoming("new", cpu="3"))
    assert found.compared == ["1.32", "1.33"]
    assert (found.summary.pods, found.summary.decided_otherwise, found.summary.other_reason) == (1, 1, 0)
    (difference,) = found.differences
    assert difference.changes == ["nominatedNode", "victims", "feasible", "message"]
    before, after = difference.outcomes
    assert before is not None
    assert after is not None
    assert (before.outcome, before.node, before.victims, before.feasible) == ("Scheduled", "n1", [], 1)
    assert (after.outcome, after.node, after.victims, after.feasible) == ("Scheduled", "n1", ["default/resized"], 0)
    assert after.nominated_node == "n1"
    assert after.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pod_with_fewer_feasible_nodes_has_another_reason_only():
    nodes = {node("n1", cpu="8"): [], node("n2", cpu="4"): [RESIZED]}
    found = compared(nodes, incoming("new", cpu="3"))
    assert [(one.decided_otherwise, one.changes) for one in found.differences] == [(False, ["feasible"])]
    assert (found.summary.decided_otherwise, found.summary.other_reason) == (0, 1)


def test_pods_that_are_decided_otherwise_come_first():
    nodes = {node("n1", cpu="4"): [RESIZED]}
    small, large = incoming("small", cpu="1m", priority=3000), incoming("large", cpu="2900m", priority=2000)
    found = compared(nodes, small, large)
    assert [one.pod for one in found.differences][:1] == ["default/small"]
    assert [one.decided_otherwise for one in found.differences] == sorted(
        (one.decided_otherwise for one in found.differences), reverse=True
    )


def test_nothing_is_found_where_nothing_differs():
    found = compared({node("n1"): []}, incoming("new"))
    assert (found.differences, found.summary.pods) == ([], 1)
