"""Verdicts are kept for pods of one template, follow the nodes whose pods change, and go where that does not do."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from extender.core import engine
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.scheduling_signature import cached_verdicts, sign_pod
from extender.core.framework.score import score
from extender.core.profile import Profile
from tests.builders import built, cluster, incoming, namespace, node, pod, typed

PROFILE = Profile()
NAMES = ["n1", "n2", "n3"]
VERBS = engine.filter, engine.prioritize
ZONE = "topology.kubernetes.io/zone"


def small(**others):
    return built(cluster({node(name, labels={ZONE: name}): [] for name in NAMES}, **others))


def replica(number=1, **fields):
    return typed(incoming(f"web-{number}", labels={"app": "web"}, **fields))


def verdicts(snapshot, asked, profile=PROFILE):
    """Return what is kept for the pod; it says what a filter run and all score plugins say."""
    context = scheduling_context(snapshot, asked, profile)
    kept, run = cached_verdicts(context), run_filter_plugins(context)
    if kept is not None:
        every = np.arange(len(run.codes))
        assert kept.filter_run(context).statuses(every).to_list() == [run.status(row) for row in every.tolist()]
        assert kept.fits.tolist() == (run.codes == 0).tolist()
        rows = np.flatnonzero(kept.fits)
        assert plugins(score(context, rows, kept.scores(context))) == plugins(score(context, rows))
    return kept


def plugins(scores):
    return {name: column.tolist() for name, column in scores.plugins.items()}, scores.highest


def bind(snapshot, name, on, **fields):
    snapshot.put("Pod", typed(pod(name, nodeName=on, **fields)))
    snapshot.refresh_layout()


def remove(snapshot, *names):
    for name in names:
        snapshot.remove("Pod", ("default", name))
    snapshot.refresh_layout()


def test_replicas_share_verdicts_which_follow_the_pods_that_are_bound():
    snapshot = small()
    first = verdicts(snapshot, replica())
    assert first.fits.all()
    for number in range(2, 6):
        bind(snapshot, f"web-{number}", "n2")
        assert verdicts(snapshot, replica(number)) is first
    assert first.fits.tolist() == [True, False, True]
    remove(snapshot, "web-2", "web-3")
    assert verdicts(snapshot, replica(9)) is first
    assert first.fits.all()


def test_many_nodes_that_change_together_are_followed():
    nodes: dict[Any, list[Any]] = {node(f"n{number}", cpu="1"): [] for number in range(200)}
    snapshot = built(cluster(nodes))
    first = verdicts(snapshot, replica())
    for number in range(0, 200, 2):
        snapshot.put("Pod", typed(pod(f"web-{number}", nodeName=f"n{number}")))
    snapshot.refresh_layout()
    assert verdicts(snapshot, replica()) is first
    assert first.fits.tolist() == [False, True] * 100


def test_templates_asked_for_in_turns_are_kept_side_by_side():
    snapshot = small()
    kept = [verdicts(snapshot, replica(cpu=cpu)) for cpu in ("1", "2", "3")]
    bind(snapshot, "other", "n1", cpu="2")
    assert [verdicts(snapshot, replica(2, cpu=cpu)) for cpu in ("1", "2", "3")] == kept
    assert [one.fits.tolist()[0] for one in kept] == [True, True, False]


def test_only_some_templates_are_kept():
    snapshot = small()
    first = verdicts(snapshot, replica())
    for cpu in range(200):
        verdicts(snapshot, replica(cpu=f"{cpu}m"))
    assert verdicts(snapshot, replica()) is not first


def put_node(snapshot, **fields):
    snapshot.put("Node", built(cluster({node("n2", **fields): []})).nodes[0])


CHANGES = {
    "labels of a node": lambda snapshot: put_node(snapshot, labels={ZONE: "other"}),
    "a taint": lambda snapshot: put_node(snapshot, labels={ZONE: "n2"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
    "a cordoned node": lambda snapshot: put_node(snapshot, labels={ZONE: "n2"}, unschedulable=True),
    "less to allocate": lambda snapshot: put_node(snapshot, labels={ZONE: "n2"}, cpu="500m"),
    "another node": lambda snapshot: snapshot.put("Node", built(cluster({node("n4"): []})).nodes[0]),
    "a node less": lambda snapshot: snapshot.remove("Node", ("", "n1")),
    "anti-affinity to the pod": lambda snapshot: bind(snapshot, "loner", "n2", **anti_affinity("web")),
    "preferred affinity to the pod": lambda snapshot: bind(snapshot, "friend", "n2", **preferred("web")),
}


def anti_affinity(app):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preferred(app):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    weighted = [{"weight": 5, "podAffinityTerm": term}]
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_verdicts_go_when_more_changes_than_amounts(change):
    snapshot = small(namespaces=[namespace("default")])
    first = verdicts(snapshot, replica())
    change(snapshot)
    snapshot.refresh_layout()
    assert verdicts(snapshot, replica()) is not first


def test_terms_that_cannot_match_the_pod_change_nothing():
    snapshot = small(namespaces=[namespace("default")])
    first = verdicts(snapshot, replica())
    bind(snapshot, "loner", "n2", **anti_affinity("another"))
    assert verdicts(snapshot, replica()) is first


def test_a_nominated_pod_takes_room_from_pods_that_are_less_important():
    snapshot = small()
    first = verdicts(snapshot, replica())
    nominee = incoming("nominee", cpu="4", priority=3000, status={"nominatedNodeName": "n3"})
    snapshot.put("Pod", typed(nominee))
    snapshot.refresh_layout()
    with_nominee = verdicts(snapshot, replica())
    assert with_nominee is not first
    assert with_nominee.fits.tolist() == [True, True, False]
    bind(snapshot, "other", "n1", cpu="4")
    bind(snapshot, "beside", "n3", cpu="1")
    assert verdicts(snapshot, replica()) is with_nominee
    assert with_nominee.fits.tolist() == [False, True, False]
    assert verdicts(snapshot, replica(priority=5000)).fits.tolist() == [False, True, True]


def test_a_nominated_pod_of_a_negative_request_counts_as_in_a_filter_run():
    snapshot = small()
    nominee = incoming("nominee", cpu="-1", priority=3000, status={"nominatedNodeName": "n1"})
    snapshot.put("Pod", typed(nominee))
    first = verdicts(snapshot, replica(cpu=None))
    bind(snapshot, "other", "n1", cpu="100m")
    assert verdicts(snapshot, replica(cpu=None)) is first


def test_no_pod_is_kept_with_the_verdicts_on_it():
    snapshot, annotated = small(), replica(metadata={"annotations": {"note": "x" * 100_000}})
    kept, pod_is_there = verdicts(snapshot, annotated), weakref.ref(annotated)
    verdicts(snapshot, replica(cpu="10m"))  # the pod that was filtered last is kept, too
    del annotated
    gc.collect()
    assert kept is not None
    assert pod_is_there() is None


def test_other_images_change_their_scores_only():
    snapshot = small()
    first = verdicts(snapshot, replica())
    put_node(snapshot, labels={ZONE: "n2"}, images=[{"names": ["app:1"], "sizeBytes": 900 << 20}])
    assert verdicts(snapshot, replica()) is first
    context = scheduling_context(snapshot, replica(), PROFILE)
    assert len(set(score(context, np.arange(3), first.scores(context)).plugins["ImageLocality"].tolist())) == 2


def test_a_template_with_a_service_is_spread_by_the_pods_that_run_now():
    service = {
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    snapshot = small(others=[service])
    first = verdicts(snapshot, replica())
    bind(snapshot, "web-2", "n2", cpu="10m", labels={"app": "web"})
    assert verdicts(snapshot, replica()) is first
    context = scheduling_context(snapshot, replica(), PROFILE)
    spread = score(context, np.arange(3), first.scores(context)).plugins["PodTopologySpread"]
    assert spread[1] < spread[0] == spread[2]


def test_volumes_that_need_nothing_of_a_node_do_not_count():
    signature = sign_pod(replica(volumes=[{"name": "kube-api-access-x7f2q", "projected": {}}]))
    assert signature is not None
    assert signature == sign_pod(replica(2, volumes=[{"name": "kube-api-access-99kzt", "projected": {}}]))


UNSIGNED = {
    "a claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "an ephemeral volume": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
    "a disk": {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}]},
    "devices": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
    "pod affinity": preferred("web"),
    "a long spec": {"nodeSelector": {"key": "v" * 10_000}},
}


@pytest.mark.parametrize("fields", UNSIGNED.values(), ids=UNSIGNED)
def test_pods_with_verdicts_of_their_own_have_no_signature(fields):
    assert sign_pod(replica(**fields)) is None


NOT_KEPT = {
    "host ports": {"ports": [{"hostPort": 80}]},
    "extended resources": {"requests": {"example.com/gpu": "1"}},
    "hard spread": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    },
}


@pytest.mark.parametrize("fields", NOT_KEPT.values(), ids=NOT_KEPT)
def test_verdicts_that_depend_on_more_than_amounts_are_not_kept(fields):
    snapshot = small()
    assert verdicts(snapshot, replica(**fields)) is None
    bind(snapshot, "other", "n1", **({"requests": {"example.com/gpu": "1"}} if "requests" in fields else fields))
    assert verdicts(snapshot, replica(2, **fields)) is None


@pytest.mark.parametrize("ignored", [frozenset(), frozenset({"example.com/gpu"})])
def test_verdicts_on_resources_that_devices_may_provide_are_not_kept(ignored):
    profile, device_class = Profile(ignored_resources=ignored), {"metadata": {"name": "gpu"}, "kind": "DeviceClass"}
    snapshot = small(others=[device_class | {"spec": {"extendedResourceName": "example.com/gpu"}}])
    assert verdicts(snapshot, replica(requests={"example.com/gpu": "1"}), profile) is None
    assert verdicts(snapshot, replica(), profile) is not None


def test_a_cluster_without_nodes_has_verdicts_on_none():
    snapshot = built(cluster({}))
    assert engine.filter(snapshot, replica(), [], PROFILE).accepted == ()
    assert engine.prioritize(snapshot, replica(), [], PROFILE).scores == ()


def shown(decision):
    """Return all that an explanation reads of a decision, which is read before the snapshot changes."""
    evaluation = decision.evaluation
    if isinstance(decision, engine.PrioritizeDecision):
        return evaluation.rows.tolist(), plugins(evaluation.scores)
    return evaluation.rows.tolist(), evaluation.statuses.to_list(), evaluation.preemption_helps.tolist()


def test_no_decision_changes_what_an_earlier_one_holds():
    snapshot = small()
    held = [decide(snapshot, replica(), NAMES, PROFILE) for decide in VERBS]
    before = list(map(shown, held))
    for number in range(2, 6):
        bind(snapshot, f"web-{number}", "n2")
        assert list(map(shown, held)) == before
        held += [decide(snapshot, replica(number), NAMES, PROFILE) for decide in VERBS]
        before = list(map(shown, held))


def test_verdicts_do_not_keep_the_snapshot_alive():
    snapshot = small()
    verdicts(snapshot, replica())
    engine.prioritize(snapshot, replica(), NAMES, PROFILE)
    held = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert held() is None
    finally:
        gc.enable()
