"""Pods of each kind of workload, as its controller creates them and an API server stores them."""

import pytest

import extender
from extender.errors import RequestError
from tests.builders import JSON, NodeObject, built, cluster, incoming, node, pod
from tests.whatif.steps import steps
from tests.whatif.written import (
    default_class,
    pod_spec,
    pods_of,
    quota,
    run,
    storage_class,
    thing,
    workload,
    written_pod,
)

Nodes = dict[NodeObject, list[JSON]]

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


# --- DaemonSet --------------------------------------------------------------------------------------------------------


def test_a_daemon_set_runs_on_each_node_that_its_pods_tolerate_and_select():
    nodes: Nodes = {
        node("a", labels={"disk": "ssd"}): [],
        node("b", labels={"disk": "ssd"}, taints=[TAINT]): [],
        node("c"): [],
        node("d", labels={"disk": "ssd"}, unschedulable=True): [],
        node("e", labels={"disk": "ssd"}, cpu="500m"): [],
    }
    result = run(nodes, workloads=[workload("DaemonSet", "agent", pod=pod_spec(nodeSelector={"disk": "ssd"}))])
    own = pods_of(result)
    assert own.excluded == {
        "b": "node(s) had untolerated taint(s)",
        "c": "node(s) didn't match Pod's node affinity/selector",
    }
    assert (own.workload, own.existing, own.waiting, own.refused) == ("DaemonSet default/agent", 0, [], 0)
    assert steps(result) == ["agent-bbbbb Scheduled a", "agent-bbbbc Scheduled d", "agent-bbbbd Unschedulable"]
    (left,) = result.pending
    assert "1 Insufficient cpu" in left.message


def test_pods_of_a_daemon_set_get_its_tolerations_and_the_affinity_of_their_node():
    other = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other]}}
    taints = [
        {"key": f"node.kubernetes.io/{name}", "effect": "NoSchedule"}
        for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable", "network-unavailable")
    ]
    here = built(cluster({node("n1", taints=taints): []}))
    spec = pod_spec(hostNetwork=True, tolerations=[TAINT | {"operator": "Equal"}], affinity=anti)
    result = extender.simulate(here, workloads=[workload("DaemonSet", "agent", pod=spec)])
    assert steps(result) == ["agent-bbbbb Scheduled n1"]
    without = pods_of(extender.simulate(here, workloads=[workload("DaemonSet", "agent", pod=pod_spec())]))
    assert list(without.excluded) == ["n1"], "without hostNetwork, the network's taint is not tolerated"


def test_a_daemon_set_creates_no_second_pod_on_a_node():
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    there = pod("agent-abcde", metadata={"ownerReferences": [owner]})
    result = run({node("a"): [there], node("b"): []}, workloads=[workload("DaemonSet", "agent")])
    assert (pods_of(result).existing, steps(result)) == (1, ["agent-bbbbb Scheduled b"])


def test_a_daemon_set_runs_on_added_nodes_and_evicts_what_is_less_important():
    new = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "new"},
        "status": {"capacity": {"cpu": "2", "pods": "9"}},
    }
    nodes = {node("a", cpu="1"): [pod("weak", priority=-5)]}
    result = run(nodes, workloads=[workload("DaemonSet", "agent")], add_nodes=[(new, 1)])
    assert steps(result) == [
        "agent-bbbbb Nominated a -weak",
        "agent-bbbbc Scheduled new",
        "agent-bbbbb Scheduled a",
    ]


def test_a_daemon_set_that_runs_nowhere_creates_nothing():
    own = pods_of(run({node("a", taints=[TAINT]): []}, workloads=[workload("DaemonSet", "agent")]))
    assert (own.created, list(own.excluded)) == ([], ["a"])


# --- CronJob, Job -----------------------------------------------------------------------------------------------------


def test_a_cron_job_is_its_next_job():
    result = run(None, workloads=[workload("CronJob", "nightly", parallelism=2, completions=3)])
    assert pods_of(result).workload == "Job default/nightly-1"
    assert steps(result) == ["nightly-1-bbbbb Scheduled n1", "nightly-1-bbbbc Scheduled n1"]


def test_a_cron_job_hands_its_jobs_labels_and_pods_the_fields_that_an_api_server_fills_in():
    spec = pod_spec(None)
    spec["containers"][0]["resources"] = {"limits": {"cpu": "9"}}
    result = run(None, workloads=[workload("CronJob", "nightly", pod=spec)])
    assert "1 Insufficient cpu" in result.pending[0].message, "limits become requests"


@pytest.mark.parametrize("spec", [{"suspend": True}, {"parallelism": 0}, {"completions": 0}])
def test_a_job_that_is_suspended_or_done_creates_no_pods(spec):
    assert pods_of(run(None, workloads=[workload("Job", **spec)])).created == []


# --- ReplicationController, ReplicaSet --------------------------------------------------------------------------------


def test_a_replication_controller_selects_by_labels():
    result = run(None, workloads=[workload("ReplicationController", replicas=2)])
    assert pods_of(result).workload == "ReplicationController default/web"
    assert steps(result) == ["web-bbbbb Scheduled n1", "web-bbbbc Scheduled n1"]
    one = workload("ReplicationController")
    del one["spec"]["selector"]
    assert steps(run(None, workloads=[one])) == ["web-bbbbb Scheduled n1"], "the template's labels are its selector"


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_pods_without_a_controller_are_adopted(kind):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "u", "controller": True}
    there = [
        pod("bare", labels={"app": "web", "more": "yes"}),
        pod("owned", labels={"app": "web"}, metadata={"ownerReferences": [owner]}),
        pod("unlike", labels={"app": "db"}),
        pod("elsewhere", labels={"app": "web"}, namespace="shop"),
        pod("finished", labels={"app": "web"}, phase="Failed"),
        pod("going", labels={"app": "web"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    own = pods_of(run({node("n1", cpu="20"): there}, workloads=[workload(kind, replicas=3)]))
    assert (own.existing, len(own.created)) == (1, 2)


def test_a_deployment_does_not_adopt_pods():
    """Its ReplicaSet selects by pod-template-hash, which a bare pod lacks."""
    there = [pod("bare", labels={"app": "web"})]
    own = pods_of(run({node("n1"): there}, workloads=[workload(replicas=1)]))
    assert (own.existing, len(own.created)) == (0, 1)


# --- StatefulSet ------------------------------------------------------------------------------------------------------


def test_pods_of_a_stateful_set_get_selectors_of_their_own_from_match_label_keys():
    """Each pod differs in its own name and index: a spread among pods of one index delays none of them."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "matchLabelKeys": ["apps.kubernetes.io/pod-index"],
    }
    nodes: Nodes = {node("a", cpu="8"): [], node("b", cpu="0"): []}
    own = workload("StatefulSet", "db", pod=pod_spec(topologySpreadConstraints=[spread]), replicas=3, serviceName="db")
    assert run(nodes, workloads=[own]).summary.scheduled == 3
    del spread["matchLabelKeys"]
    assert run(nodes, workloads=[own]).summary.scheduled == 1


def test_claims_of_a_stateful_set_get_the_default_class():
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data"}, "spec": claim}
    own = workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[template])
    assert run(None, workloads=[own], others=[default_class("fast")]).summary.scheduled == 2
    left = run(None, workloads=[own], others=[storage_class("slow")]).pending
    assert "unbound immediate PersistentVolumeClaims" in left[0].message


# --- quotas and LimitRanges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"])
def test_a_quota_refuses_the_pods_that_exceed_it(kind):
    numbers: JSON = {"parallelism": 3, "completions": 5} if kind == "Job" else {"replicas": 3}
    own = workload(kind, **numbers)
    found = pods_of(run(None, workloads=[own], others=[quota(requests_cpu="2")]))
    assert (len([*found.created, *found.waiting]), found.refused) == (2, 1)
    assert "exceeded quota: few, requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2" in (
        found.refusal
    )


def test_a_quota_refuses_pods_of_a_daemon_set():
    found = pods_of(run({node("a"): [], node("b"): []}, workloads=[workload("DaemonSet")], others=[quota(pods="1")]))
    assert (len(found.created), found.refused) == (1, 1)


def test_a_workload_of_which_all_pods_are_refused_is_an_error():
    with pytest.raises(RequestError, match="exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0"):
        run(None, workloads=[workload(replicas=3)], others=[quota(pods="0")])


def test_a_quota_counts_pods_that_run_already_and_pods_before():
    there = {node("n1", cpu="8"): [pod("old")]}
    result = run(there, written_pod("first"), workloads=[workload(replicas=3)], others=[quota(pods="3")])
    found = pods_of(result)
    assert (len(found.created), found.refused) == (1, 2)
    assert result.summary.scheduled == 2


def test_a_quota_of_another_namespace_does_not_count():
    assert run(None, workloads=[workload(replicas=3)], others=[quota("shop", pods="0")]).summary.scheduled == 3


def test_several_pods_share_one_quota():
    with pytest.raises(RequestError, match=r"used: requests\.cpu=2, limited: requests\.cpu=2"):
        run(None, *(written_pod(f"p{n}") for n in range(3)), others=[quota(requests_cpu="2")])
    assert run(None, *(written_pod(f"p{n}") for n in range(2)), others=[quota(requests_cpu="2")]).summary.scheduled == 2


def test_a_quota_wants_requests_that_a_limit_range_gives():
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}, "default": {"cpu": "4"}}]}
    one = thing("LimitRange", "usual", spec=limits)
    one["metadata"]["namespace"] = "default"
    own = workload(replicas=3, pod=pod_spec(None))
    with pytest.raises(RequestError, match=r"failed quota: few: must specify requests\.cpu for: main"):
        run(None, workloads=[own], others=[quota(requests_cpu="9")])
    result = run(None, workloads=[own], others=[quota(requests_cpu="9"), one])
    assert (result.summary.scheduled, result.summary.pending) == (2, 1), "3 cpu each, on a node of 8"


def test_until_full_ends_where_the_quota_does():
    result = run(None, written_pod(), until_full=True, others=[quota(pods="2")])
    assert result.scenario is not None
    found = result.scenario.until_full
    assert found is not None
    assert (found.fits, found.limit_reached, found.next) == (2, False, None)
    assert "exceeded quota: few, requested: pods=1, used: pods=2" in found.refusal
    with pytest.raises(RequestError, match="exceeded quota: few"):
        run(None, written_pod(), until_full=True, others=[quota(pods="0")])


def test_a_gang_of_which_pods_are_refused_is_not_scheduled():
    result = run(None, workloads=[workload(replicas=3)], gang=True, others=[quota(pods="2")])
    assert result.scenario is not None
    found = result.scenario.gang
    assert found is not None
    assert (found.scheduled, found.pods, result.summary.scheduled) == (False, 3, 0)
    assert found.message.startswith("1 of 3 pods are refused: Pod web-")


def test_pending_pods_are_stored_and_not_admitted_again():
    here = cluster({node("n1"): []}, waiting=[incoming("old")], others=[quota(pods="0")])
    assert extender.simulate(here, pending=True).summary.scheduled == 1
