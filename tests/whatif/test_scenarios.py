"""Scenarios step by step: what changes in the cluster, who is tried when, and what comes of it."""

import itertools

import pytest

import extender
from extender.core.profile import KubeScheduler
from extender.errors import RequestError
from extender.k8s.objects import Node, NodeStatus, ObjectMeta
from extender.whatif import scenario as scenarios
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.simulator import simulate
from tests.builders import JSON, budget, built, cluster, incoming, node, pod, raw, snapshot, typed
from tests.whatif.steps import steps

READY: JSON = {"conditions": [{"type": "Ready", "status": "True"}]}


def owned(name, kind="ReplicaSet", owner=None, **fields):
    """A Ready pod of a controller."""
    owner = owner or name.rsplit("-", 1)[0]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    metadata = {"ownerReferences": [reference]} | fields.pop("metadata", {})
    return pod(name, labels={"app": owner}, metadata=metadata, status=READY, **fields)


def guarded(allowed, healthy, desired, app, name="budget", **spec):
    """A budget as the disruption controller reports it."""
    found = budget(name, allowed, app=app)
    counts = {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": healthy}
    return found | {"status": found["status"] | counts, "spec": found["spec"] | spec}


def on(name):
    """Spec of a pod that runs on no other node."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def of_daemon_set(name, node_name):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return owned(name, "DaemonSet", affinity=affinity)


def mirror(name, node_name):
    return pod(name, metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})


def run(here, *arriving, **scenario):
    return simulate(here, KubeScheduler(), Scenario([typed(one) for one in arriving], **scenario))


def short(keys):
    return [one.removeprefix("default/") for one in keys]


def returned(result):
    return [
        f"{one.of.removeprefix('default/')} -> {one.pod.removeprefix('default/')} {one.outcome} {one.node}"
        for one in result.replacements
    ]


def workload(kind="Deployment", name="web", cpu="1", labels=None, **spec):
    """A workload; `template` and so on in `spec` replace what is filled in."""
    labels = labels or {"app": name}
    is_job = kind == "Job"
    pod_spec = pod("x", cpu)["spec"] | ({"restartPolicy": "Never"} if is_job else {})
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    given = {"template": template} | ({} if is_job else {"selector": {"matchLabels": labels}}) | spec
    version = "batch/v1" if is_job else "apps/v1"
    return raw({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": given})


# --- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "names"),
    [(1, ["n1-1"]), (3, ["n1-1", "n1-3", "n1-4"])],
)
def test_added_nodes_get_free_names_and_their_own_hostname(count, names):
    here = snapshot({node("n1", cpu="1"): [], node("n1-2" if count > 1 else "other", cpu="1"): []})
    result = run(here, add_nodes=[AddedNodes(here.objects.nodes["", "n1"], count)])
    assert result.scenario.added == names
    labels = [here.objects.nodes["", name].metadata.labels or {} for name in names]
    assert [one["kubernetes.io/hostname"] for one in labels] == names
    assert [(one.name, one.state) for one in result.summary.nodes] == [(name, "added") for name in names]


def test_a_single_added_node_keeps_a_free_name_and_gives_room_to_pending_pods():
    here = snapshot({node("n1", cpu="1"): []}, waiting=[incoming("waits", cpu="3")])
    new = snapshot({node("big", cpu="4"): []}).objects.nodes["", "big"]
    result = run(here, pending=True, add_nodes=[AddedNodes(new)])
    assert steps(result) == ["waits Scheduled big"]
    (usage,) = result.summary.nodes
    assert (usage.name, usage.state, usage.before["cpu"], usage.after["cpu"]) == ("big", "added", 0, 3000)


def test_pods_of_daemon_sets_are_missing_on_added_nodes_which_is_noted():
    here = snapshot({node("n1"): [of_daemon_set("agent-abcde", "n1"), of_daemon_set("agent-fghjk", "n1")]})
    new = [AddedNodes(here.objects.nodes["", "n1"])]
    (note,) = run(here, add_nodes=new).notes
    assert note == "added nodes have no pods of DaemonSets, of which the cluster has 1"
    assert run(here, cordon=["n1"]).notes == []


def test_nothing_new_runs_on_a_cordoned_node_and_what_runs_there_stays():
    here = snapshot({node("n1"): [pod("a")], node("n2"): []})
    result = run(here, incoming("new", **on("n1")), incoming("free"), cordon=["n1"])
    assert steps(result) == ["new Unschedulable", "free Scheduled n2"]
    assert "1 node(s) were unschedulable" in result.cycles[0].message
    assert [(one.name, one.state) for one in result.summary.nodes] == [("n1", "cordoned"), ("n2", None)]
    assert [one.key for one in here.pods_on("n1")] == ["default/a"]


def test_the_pods_of_a_removed_node_come_back_elsewhere_if_their_controllers_can():
    pods = [
        owned("web-abcde"),
        owned("db-0", "StatefulSet", cpu="2"),
        pod("bare"),
        of_daemon_set("agent-vwxyz", "n1"),
        mirror("static-n1", "n1"),
    ]
    here = snapshot({node("n1", cpu="8"): pods, node("n2", cpu="2"): []})
    result = run(here, remove_nodes=["n1"])
    (removed,) = result.scenario.removed
    assert short(removed.deleted) == ["agent-vwxyz", "bare", "db-0", "static-n1", "web-abcde"]
    assert short(removed.lost) == ["agent-vwxyz", "bare", "static-n1"]
    assert returned(result) == ["db-0 -> db-0 Scheduled n2", "web-abcde -> web-bbbbb Unschedulable None"]
    assert [one.cause for one in result.replacements] == ["NodeRemoved"] * 2
    gone, _ = result.summary.nodes
    assert (gone.name, gone.state, gone.before["cpu"], gone.after["cpu"]) == ("n1", "removed", 6000, 0)
    assert "n1" not in here.node_row


def test_removed_nodes_ignore_budgets_and_use_them_up():
    here = built(cluster({node("n1"): [owned("web-abcde")], node("n2"): []}, budgets=[guarded(0, 1, 1, "web")]))
    result = run(here, remove_nodes=["n1"], replace_evicted=False)
    assert short(result.scenario.removed[0].deleted) == ["web-abcde"]
    assert here.objects.budgets["default", "budget"].status.current_healthy == 0


# --- drains -------------------------------------------------------------------------------------------------------


def test_a_drain_ignores_pods_of_daemon_sets_and_mirror_pods_and_loses_bare_ones():
    pods = [owned("web-abcde"), of_daemon_set("agent-vwxyz", "n1"), mirror("static-n1", "n1"), pod("bare")]
    here = snapshot({node("n1"): pods, node("n2"): []})
    result = run(here, drain=["n1"])
    (drained,) = result.scenario.drained
    assert short(drained.evicted) == ["bare", "web-abcde"]
    assert short(drained.ignored) == ["agent-vwxyz", "static-n1"]
    assert short(drained.lost) == ["bare"]
    assert drained.blocked == []
    assert returned(result) == ["web-abcde -> web-bbbbb Scheduled n2"]
    assert (result.summary.evicted, result.summary.scheduled) == (0, 1)
    assert {one.name: one.state for one in result.summary.nodes} == {"n1": "drained", "n2": None}


def test_a_budget_lets_one_pod_go_after_the_other_while_replacements_become_ready():
    pods = [owned(f"web-{letter}xxxx") for letter in "abc"]
    here = built(cluster({node("n1"): pods, node("n2"): []}, budgets=[guarded(1, 3, 2, "web")]))
    result = run(here, drain=["n1"])
    assert short(result.scenario.drained[0].evicted) == ["web-axxxx", "web-bxxxx", "web-cxxxx"]
    assert result.scenario.drained[0].blocked == []
    status = here.objects.budgets["default", "budget"].status
    assert (status.disruptions_allowed, status.current_healthy) == (1, 3)


def test_a_drain_stops_where_a_replacement_fits_nowhere():
    pods = [owned(f"web-{letter}xxxx") for letter in "abc"]
    here = built(cluster({node("n1"): pods, node("n2", cpu="1"): []}, budgets=[guarded(1, 3, 2, "web")]))
    result = run(here, drain=["n1"])
    (drained,) = result.scenario.drained
    assert short(drained.evicted) == ["web-axxxx", "web-bxxxx"]
    (blocked,) = drained.blocked
    assert (blocked.pod, blocked.budgets) == ("default/web-cxxxx", ["default/budget"])
    assert blocked.message == "The disruption budget budget needs 2 healthy pods and has 2 currently"
    assert [one.pod for one in result.pending] == ["default/web-bbbbc"]
    assert {one.name: one.state for one in result.summary.nodes} == {"n1": "draining", "n2": None}


@pytest.mark.parametrize(
    ("pods", "budgets", "blocked"),
    [
        pytest.param([owned("a-1")], [guarded(0, 1, 1, "a")], ["a-1"], id="nothing is allowed"),
        pytest.param([owned("a-1")], [guarded(1, 2, 1, "a")], [], id="one is allowed"),
        pytest.param([owned("a-1")], [guarded(0, 1, 1, "b")], [], id="another app's budget"),
        pytest.param(
            [owned("a-1")], [guarded(5, 9, 1, "a"), guarded(5, 9, 1, "a", "other")], ["a-1"], id="more than one budget"
        ),
        pytest.param([owned("a-1") | {"status": {"phase": "Pending"}}], [guarded(0, 1, 1, "a")], [], id="pending"),
        pytest.param(
            [owned("a-1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            [guarded(0, 1, 1, "a")],
            [],
            id="terminating",
        ),
        pytest.param(
            [owned("a-1") | {"status": {"phase": "Running"}}],
            [guarded(0, 1, 2, "a")],
            ["a-1"],
            id="unready beside too few healthy ones",
        ),
        pytest.param(
            [owned("a-1") | {"status": {"phase": "Running"}}], [guarded(0, 2, 2, "a")], [], id="unready beside enough"
        ),
        pytest.param(
            [owned("a-1") | {"status": {"phase": "Running"}}],
            [guarded(0, 1, 2, "a", unhealthyPodEvictionPolicy="AlwaysAllow")],
            [],
            id="unready, always allowed",
        ),
        pytest.param(
            [owned("a-1")],
            [guarded(0, 1, 1, "a") | {"spec": {"selector": {}}}],
            ["a-1"],
            id="an empty selector selects every pod",
        ),
    ],
)
def test_the_eviction_api_decides_who_may_go(pods, budgets, blocked):
    here = built(cluster({node("n1"): pods, node("n2"): []}, budgets=budgets))
    result = run(here, drain=["n1"])
    assert short(one.pod for one in result.scenario.drained[0].blocked) == blocked


def test_a_status_that_is_behind_allows_nothing():
    behind = guarded(1, 2, 1, "a")
    behind["metadata"]["generation"] = 2
    here = built(cluster({node("n1"): [owned("a-1")], node("n2"): []}, budgets=[behind]))
    (blocked,) = run(here, drain=["n1"]).scenario.drained[0].blocked
    assert blocked.message == "The disruption budget budget is still being processed by the server."


def test_several_nodes_are_cordoned_first_and_drained_one_after_the_other():
    here = snapshot({node("n1"): [owned("a-1xxxx")], node("n2"): [owned("b-1xxxx")], node("n3"): []})
    result = run(here, drain=["n2", "n1"])
    assert steps(result) == ["b-bbbbb Scheduled n3", "a-bbbbb Scheduled n3"]
    assert [one.node for one in result.scenario.drained] == ["n2", "n1"]


def test_what_was_blocked_goes_once_another_drain_has_made_its_app_healthy():
    """The unready pod of n2 comes back Ready, which frees the budget for the one of n1."""
    ready, unready = owned("a-1xxxx"), owned("a-2xxxx") | {"status": {"phase": "Running"}}
    allows = guarded(0, 1, 1, "a")
    here = built(cluster({node("n1"): [ready], node("n2"): [unready], node("n3"): []}, budgets=[allows]))
    result = run(here, drain=["n1", "n2"])
    assert [short(one.evicted) for one in result.scenario.drained] == [["a-1xxxx"], ["a-2xxxx"]]
    assert not any(one.blocked for one in result.scenario.drained)


def test_a_replacement_that_tolerates_the_drain_may_land_there_and_stays():
    tolerant = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], **on("n1")}
    here = snapshot({node("n1"): [owned("a-1xxxx", **tolerant)]})
    result = run(here, drain=["n1"])
    assert returned(result) == ["a-1xxxx -> a-bbbbb Scheduled n1"]
    assert short(result.scenario.drained[0].evicted) == ["a-1xxxx"]


def test_a_replacement_that_arrived_on_a_node_before_its_turn_is_evicted_again():
    tolerant = {"tolerations": [{"operator": "Exists"}], **on("n2")}
    result = run(snapshot({node("n1"): [owned("a-1xxxx", **tolerant)], node("n2"): []}), drain=["n1", "n2"])
    assert [short(one.evicted) for one in result.scenario.drained] == [["a-1xxxx"], ["a-bbbbb"]]
    assert returned(result) == ["a-1xxxx -> a-bbbbb Scheduled n2", "a-bbbbb -> a-bbbbc Scheduled n2"]


def test_pods_that_arrive_find_the_room_that_is_left_after_the_drain():
    here = snapshot({node("n1", cpu="1"): [owned("a-1xxxx")], node("n2", cpu="1"): []})
    result = run(here, incoming("new", priority=0), drain=["n1"])
    assert steps(result) == ["a-bbbbb Scheduled n2", "new Unschedulable"]


# --- evicted pods come back ---------------------------------------------------------------------------------------


def test_a_preempted_pod_comes_back_and_yields_to_the_nomination():
    here = snapshot({node("n1", cpu="2"): [owned("web-abcde", cpu="2")], node("n2", cpu="1"): []})
    result = run(here, incoming("new", cpu="2"))
    assert steps(result) == ["new Nominated n1 -web-abcde", "web-bbbbb Unschedulable", "new Scheduled n1"]
    assert returned(result) == ["web-abcde -> web-bbbbb Unschedulable None"]
    assert result.scenario is None
    assert [one.pod for one in result.pending] == ["default/web-bbbbb"]


@pytest.mark.parametrize(
    ("victim", "back"),
    [
        pytest.param(owned("web-7c9d8-abcde", owner="web-7c9d8"), ["web-7c9d8-bbbbb"], id="ReplicaSet"),
        pytest.param(owned("db-0", "StatefulSet"), ["db-0"], id="StatefulSet keeps the name"),
        pytest.param(owned("job-3-abcde", "Job", "job"), ["job-3-bbbbb"], id="an Indexed Job keeps the index"),
        pytest.param(owned("odd", "ReplicaSet", "set"), ["set-bbbbb"], id="a name of its own"),
        pytest.param(of_daemon_set("agent-abcde", "n1"), ["agent-bbbbb"], id="DaemonSet"),
        pytest.param(owned("x-abcde", "Rollout", "x"), ["x-bbbbb"], id="any other controller"),
        pytest.param(pod("bare"), [], id="no controller"),
        pytest.param(
            owned("web-abcde", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), [], id="replaced already"
        ),
        pytest.param(
            owned("db-0", "StatefulSet", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            ["db-0"],
            id="a StatefulSet waits for the end of the old pod",
        ),
    ],
)
def test_who_comes_back_and_by_which_name(victim, back):
    here = snapshot({node("n1", cpu="1"): [victim]})
    result = run(here, incoming("new"))
    assert short(one.pod for one in result.replacements) == back
    assert not run(snapshot({node("n1", cpu="1"): [victim]}), incoming("new"), replace_evicted=False).replacements


def test_a_pod_of_a_stateful_set_is_tried_afresh_and_counted_once():
    here = snapshot({node("n1", cpu="1"): [], node("n2", cpu="1"): []})
    own = owned("db-0", "StatefulSet", cpu="1")
    waiting = own | {"status": {"phase": "Pending"}}
    result = run(here, waiting, incoming("new", priority=2000, **on("n1")), incoming("last", priority=0, **on("n1")))
    assert steps(result) == ["new Scheduled n1", "db-0 Scheduled n2", "last Unschedulable"]
    here = snapshot({node("n1", cpu="1"): [own], node("n2", cpu="1"): []})
    result = run(here, incoming("new", **on("n1")))
    assert steps(result) == ["new Nominated n1 -db-0", "db-0 Scheduled n2", "new Scheduled n1"]
    assert (result.summary.scheduled, result.summary.evicted, result.replacements[0].node) == (2, 1, "n2")


def test_a_pod_comes_back_a_limited_number_of_times(monkeypatch):
    """Both exclude each other in the zone: each time the more important one is nominated, the other one is faster."""
    zone = {"zone": "a"}
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = {node("n1", labels=zone): [owned("web-abcde")], node("n2", labels=zone): []}
    result = run(snapshot(nodes), incoming("new", affinity=apart))
    assert len(result.replacements) == 10
    assert result.notes == ["pod default/web-bbbbm was evicted again and again: it is not recreated any more"]
    assert steps(result)[-1].startswith("new Scheduled")


# --- workloads ----------------------------------------------------------------------------------------------------


def names_of(result):
    return short(one.pod for one in result.cycles)


def test_a_deployment_creates_pods_of_a_replica_set():
    here = snapshot({node("n1"): []})
    result = run(here, workloads=[workload(replicas=2)])
    (name, other) = names_of(result)
    assert (name[:4], name[-6:], other[-6:]) == ("web-", "-bbbbb", "-bbbbc")
    created = here.objects.pods["default", name]
    owner = created.metadata.controller
    assert owner is not None
    assert (owner.kind, owner.api_version, f"{owner.name}-bbbbb") == ("ReplicaSet", "apps/v1", name)
    assert created.metadata.labels == {"app": "web", "pod-template-hash": owner.name.removeprefix("web-")}
    found = here.objects.replica_sets["default", owner.name].spec.selector
    assert found is not None
    assert found.match_labels == created.metadata.labels
    (report,) = result.scenario.workloads
    assert (report.workload, report.existing, short(report.created)) == ("Deployment default/web", 0, [name, other])


def test_a_workload_that_runs_already_is_scaled():
    running = [owned(f"web-7c9d8-{letter}xxxx", owner="web-7c9d8") for letter in "ab"]
    for one in running:
        one["metadata"]["labels"]["pod-template-hash"] = "7c9d8"
    here = snapshot({node("n1"): running})
    result = run(here, workloads=[workload(replicas=3)])
    assert names_of(result) == ["web-7c9d8-bbbbb"]
    assert result.scenario.workloads[0].existing == 2
    assert not run(here, workloads=[workload(replicas=1)]).cycles


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param(workload("ReplicaSet", replicas=2), ["web-bbbbb", "web-bbbbc"], id="ReplicaSet"),
        pytest.param(workload("StatefulSet", replicas=2), ["web-0", "web-1"], id="StatefulSet"),
        pytest.param(workload("StatefulSet", replicas=2, ordinals={"start": 5}), ["web-5", "web-6"], id="ordinals"),
        pytest.param(workload("Job"), ["web-bbbbb"], id="Job"),
        pytest.param(workload("Job", parallelism=3, completions=2), ["web-bbbbb", "web-bbbbc"], id="completions"),
        pytest.param(
            workload("Job", parallelism=2, completions=5, completionMode="Indexed"),
            ["web-0-bbbbb", "web-1-bbbbb"],
            id="Indexed Job",
        ),
        pytest.param(workload("Job", parallelism=2, suspend=True), [], id="a suspended Job"),
        pytest.param(workload(replicas=0), [], id="no replicas"),
    ],
)
def test_the_pods_of_a_workload_by_name(given, names):
    here = snapshot({node("n1"): []})
    result = run(here, workloads=[given])
    assert names_of(result) == names
    assert short(result.scenario.workloads[0].created) == names
    if names:
        owner = here.objects.pods["default", names[-1]].metadata.controller
        assert owner is not None
        assert owner.kind == given.kind


def test_an_indexed_job_gets_the_indexes_that_lack():
    there = owned("web-1-abcde", "Job", "web")
    there["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = "1"
    given = workload("Job", parallelism=3, completions=3, completionMode="Indexed")
    result = run(snapshot({node("n1"): [there]}), workloads=[given])
    assert names_of(result) == ["web-0-bbbbb", "web-2-bbbbb"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"completions": 3, "completionMode": "Indexed"}, ["web-1-bbbbb", "web-2-bbbbb"]),
        ({"completions": 2}, ["web-bbbbb"]),
        ({"completions": 1}, []),
        ({}, []),
    ],
)
def test_a_job_creates_no_more_pods_than_completions_are_left(given, names):
    done = owned("web-0-abcde", "Job", "web") | {"status": {"phase": "Succeeded"}}
    done["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = "0"
    result = run(snapshot({node("n1"): [done]}), workloads=[workload("Job", parallelism=3, **given)])
    assert names_of(result) == names
    assert result.scenario.workloads[0].existing == 0


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_without_a_number_there_is_one_pod(kind):
    result = run(snapshot({node("n1"): []}), workloads=[workload(kind, replicas=None, parallelism=None)])
    assert len(result.cycles) == 1


@pytest.mark.parametrize(
    ("policy", "tried", "waiting"),
    [
        ("OrderedReady", ["db-0 Scheduled n1", "db-1 Unschedulable"], ["db-2"]),
        ("Parallel", ["db-0 Scheduled n1", "db-1 Unschedulable", "db-2 Unschedulable"], []),
    ],
)
def test_pods_of_a_stateful_set_come_one_after_the_other_or_at_once(policy, tried, waiting):
    here = snapshot({node("n1", cpu="1"): []})
    result = run(here, workloads=[workload("StatefulSet", "db", replicas=3, podManagementPolicy=policy)])
    assert steps(result) == tried
    assert short(result.scenario.workloads[0].waiting) == waiting


def test_a_stateful_set_creates_its_volume_claims_in_the_default_class():
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "example.com/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        for name in ("fast", "slow")
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data"}, "spec": spec}
    here = built(cluster({node("n1"): []}, others=classes))
    given = workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=[template])
    assert steps(run(here, workloads=[given])) == ["db-0 Scheduled n1", "db-1 Scheduled n1"]
    claim = here.objects.claims["default", "data-db-1"]
    assert claim.spec.storage_class_name == "fast"
    assert claim.metadata.annotations == {"volume.kubernetes.io/selected-node": "n1"}
    (volume,) = here.objects.pods["default", "db-1"].spec.volumes or []
    assert volume.persistent_volume_claim is not None
    assert (volume.name, volume.persistent_volume_claim.claim_name) == ("data", "data-db-1")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"metadata": {"name": "x"}}, "an object without kind is not one of apps/v1 Deployment, apps/v1 ReplicaSet"),
        ({"kind": "Rollout"}, "Rollout is not one of"),
        ({"kind": ["Job"]}, "['Job'] is not one of"),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}, "Job is not one of"),
        ({"kind": "Job"}, "Job is invalid: metadata.name: Required value: name or generateName is required"),
        ({"kind": "Job", "metadata": {}}, "Job is invalid: metadata.name: Required value"),
        (
            {"kind": "Job", "metadata": {"name": "x"}, "spec": {"parallelism": -1}},
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": pod("p")["spec"]}}},
            'Job x is invalid: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            {"kind": "Deployment", "metadata": {"name": "x"}},
            "spec.selector: Required value; spec.template.metadata.labels: Invalid value: {}",
        ),
        (
            {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": "3"}},
            'Deployment x is invalid: spec.replicas: expected an integer, got "3"',
        ),
        (
            {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": pod("p", cpu="x")}},
            "spec.template.spec.containers[0].resources.requests[cpu]: 'x' is not a quantity",
        ),
    ],
)
def test_a_workload_that_cannot_be_created_is_refused(given, problem):
    with pytest.raises(RequestError) as refused:
        extender.simulate(cluster({node("n1"): []}), workloads=[given])
    assert problem in str(refused.value)


# --- until full ---------------------------------------------------------------------------------------------------


def test_how_many_more_of_a_pod_fit_and_what_stops_the_next_one():
    here = snapshot({node("n1", cpu="3"): [pod("a")], node("n2", cpu="1"): [], node("n3", unschedulable=True): []})
    result = run(here, incoming("new"), until_full=True)
    found = result.scenario.until_full
    assert (found.pod, found.fits, found.limit_reached) == ("default/new", 3, False)
    assert [(one.node, one.pods) for one in found.nodes] == [("n1", 2), ("n2", 1)]
    assert (found.next.pod, found.next.outcome) == ("default/new-4", "Nominated")
    assert short(one.pod for one in found.next.victims) == ["a"]
    assert found.next.message == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: found a potential "
        "placement for pod on node n1, preempting 1 victims"
    )
    assert (result.cycles, result.pending, result.evicted) == ([], [], [])
    assert [(one.name, one.after["cpu"]) for one in result.summary.nodes] == [("n1", 3000), ("n2", 1000)]
    assert ("default", "new-4") not in here.objects.pods


def test_a_workload_is_filled_with_further_pods_whatever_its_replicas():
    here = snapshot({node("n1", cpu="3"): [owned("db-1", "StatefulSet")]})
    found = run(here, workloads=[workload("StatefulSet", "db", replicas=1)], until_full=True).scenario.until_full
    assert (found.pod, found.fits, found.next.pod) == ("StatefulSet default/db", 2, "default/db-3")
    assert found.next.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_filling_follows_the_nodes_that_were_added_and_stops_at_a_limit(monkeypatch):
    here = snapshot({node("n1", cpu="1"): []})
    nodes = [AddedNodes(here.objects.nodes["", "n1"], 2)]
    assert run(here, incoming("new"), add_nodes=nodes, until_full=True).scenario.until_full.fits == 3
    monkeypatch.setattr("extender.whatif.simulator.MAX_UNTIL_FULL_PODS", 2)
    found = run(snapshot({node("n1", cpu="9"): []}), incoming("new"), until_full=True).scenario.until_full
    assert (found.fits, found.limit_reached, found.next) == (2, True, None)
    assert scenarios.MAX_UNTIL_FULL_PODS == 10_000


def test_a_pod_that_is_not_tried_fits_nowhere():
    gated = incoming("new", schedulingGates=[{"name": "quota"}])
    found = run(snapshot({node("n1"): []}), gated, until_full=True).scenario.until_full
    assert (found.fits, found.next.outcome) == (0, "Skipped")


# --- gangs --------------------------------------------------------------------------------------------------------


def test_a_gang_is_scheduled_if_all_of_it_fits():
    here = snapshot({node("n1", cpu="2"): []})
    result = run(here, incoming("a"), incoming("b"), gang=True)
    assert (result.scenario.gang.scheduled, result.scenario.gang.pods) == (True, 2)
    assert steps(result) == ["a Scheduled n1", "b Scheduled n1"]


def test_nothing_is_bound_or_evicted_for_a_gang_of_which_one_pod_does_not_fit():
    """`b` preempts, and the victim's replacement runs elsewhere; then `c` fits nowhere."""
    nodes = {node("n1", cpu="3"): [owned("web-abcde")], node("n2", cpu="1"): []}
    here = snapshot(nodes)
    before = here.frozen()
    result = run(here, incoming("a", cpu="2"), incoming("b", **on("n1")), incoming("c", cpu="4"), gang=True)
    assert not result.scenario.gang.scheduled
    assert result.scenario.gang.message.startswith("1 of 3 pods do not fit: default/c: 0/2 nodes are available")
    assert steps(result) == ["a Unschedulable", "b Unschedulable", "c Unschedulable"]
    assert result.cycles[0].message.startswith("fits, but its gang does not: 1 of 3 pods do not fit")
    assert (result.evicted, result.replacements, result.summary.scheduled, result.summary.pending) == ([], [], 0, 3)
    assert result.summary.nodes == []
    assert sorted(here.frozen().pods, key=lambda one: one.key) == sorted(before.pods, key=lambda one: one.key)


def test_a_gang_comes_after_the_pending_pods():
    here = snapshot({node("n1", cpu="2"): []}, waiting=[incoming("waits", priority=0)])
    result = run(
        here, incoming("a", preemptionPolicy="Never"), incoming("b", preemptionPolicy="Never"), gang=True, pending=True
    )
    assert steps(result) == ["waits Scheduled n1", "a Unschedulable", "b Unschedulable"]
    assert not result.scenario.gang.scheduled


def test_the_pods_of_a_stateful_set_are_a_gang_too():
    result = run(snapshot({node("n1", cpu="1"): []}), workloads=[workload("StatefulSet", "db", replicas=3)], gang=True)
    assert result.scenario.gang.message.startswith("2 of 3 pods do not fit: default/db-1: 0/1 nodes")
    assert (result.scenario.workloads[0].created, result.scenario.workloads[0].waiting) == ([], [])


def test_a_gang_whose_replicas_all_exist_has_nothing_to_schedule():
    result = run(snapshot({node("n1"): []}), workloads=[workload("StatefulSet", "db", replicas=0)], gang=True)
    assert (result.scenario.gang.scheduled, result.scenario.gang.pods) == (True, 0)
    assert result.scenario.gang.message == "nothing to schedule for StatefulSet default/db: 0 pods of it exist"


# --- what cannot be carried out -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "pods", "problem"),
    [
        ({"drain": ["nx"]}, 0, "drain: no node 'nx' in the cluster"),
        ({"cordon": ["n1"], "drain": ["n1"]}, 0, "drain: node 'n1' is named in cordon too"),
        ({"remove_nodes": ["n1", "n1"]}, 0, "removeNodes: node 'n1' is named twice"),
        ({"until_full": True}, 0, "untilFull: requires exactly one pod or one workload"),
        ({"until_full": True}, 2, "untilFull: requires exactly one pod or one workload"),
        ({"until_full": True, "gang": True}, 1, "untilFull and gang are mutually exclusive"),
        ({"workloads": [workload(), workload()]}, 0, "duplicate workload Deployment default/web"),
        ({"workloads": [workload(replicas=150_001)]}, 0, "workloads: 150001 exceed the limit of 150000"),
    ],
)
def test_a_scenario_that_cannot_be_carried_out_is_refused(scenario, pods, problem):
    arriving = [incoming(f"p{number}") for number in range(pods)]
    with pytest.raises(RequestError) as refused:
        run(snapshot({node("n1"): []}), *arriving, **scenario)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("count", "allocatable", "problem"),
    [
        (0, {"cpu": "1"}, "addNodes: node 'x': count must be at least 1"),
        (1, None, "addNodes: node 'x': status.allocatable is missing"),
        (150_001, {"cpu": "1"}, "addNodes: 150001 exceed the limit of 150000"),
    ],
)
def test_nodes_that_cannot_be_added_are_refused(count, allocatable, problem):
    added = AddedNodes(Node(ObjectMeta("x"), status=NodeStatus(allocatable=allocatable)), count)
    with pytest.raises(RequestError) as refused:
        run(snapshot({node("n1"): []}), add_nodes=[added])
    assert str(refused.value) == problem


def test_a_workload_s_pod_takes_no_name_of_another_pod():
    here = snapshot({node("n1"): [pod("db-0")]})
    with pytest.raises(RequestError, match="pod 'default/db-0' of a workload already exists"):
        run(here, workloads=[workload("StatefulSet", "db")])


# --- all together -------------------------------------------------------------------------------------------------


def test_the_order_of_a_scenario():
    """Nodes are added before others are removed and drained, and pods arrive at the end."""
    nodes = {node("n1", cpu="1"): [owned("a-1xxxx")], node("n2", cpu="1"): [owned("b-1xxxx")], node("n3", cpu="1"): []}
    here = snapshot(nodes, waiting=[incoming("waits", priority=0)])
    new = here.objects.nodes["", "n3"]
    result = run(
        here,
        incoming("new", priority=0),
        pending=True,
        add_nodes=[AddedNodes(new, 2)],
        remove_nodes=["n1"],
        drain=["n2"],
    )
    assert steps(result) == [
        "waits Scheduled n3",
        "a-bbbbb Scheduled n3-1",
        "b-bbbbb Scheduled n3-2",
        "new Unschedulable",
    ]
    states = {one.name: one.state for one in result.summary.nodes}
    assert states == {"n1": "removed", "n2": "drained", "n3": None, "n3-1": "added", "n3-2": "added"}


@pytest.mark.parametrize("order", list(itertools.permutations(("n1", "n2"))))
def test_the_same_scenario_gives_the_same_result(order):
    nodes = {node(name): [owned(f"{name}-{letter}xxxx") for letter in "ab"] for name in ("n1", "n2", "n3")}
    one, other = (run(snapshot(nodes), drain=list(order)) for _ in range(2))
    assert one == other
