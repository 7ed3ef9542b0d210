"""Objects that arrive as people write them: what admission and the controllers of a pod make of them."""

import numpy as np
import pytest

import extender
from extender.errors import RequestError
from tests.builders import JSON, budget, cluster, node, pod
from tests.device_builders import device_class, devices, resource_slice
from tests.whatif.steps import steps
from tests.whatif.written import (
    default_class,
    pod_spec,
    quota,
    run,
    storage_class,
    thing,
    workload,
    written_pod,
)

# --- claims of ephemeral volumes --------------------------------------------------------------------------------------


def scratch(**spec) -> JSON:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    return {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": given}}}]}


def test_a_generic_ephemeral_volume_gets_its_claim():
    given = written_pod(**scratch(storageClassName="slow"))
    assert steps(run(None, given, others=[storage_class("slow")])) == ["new Scheduled n1"]


def test_its_claim_gets_the_default_class():
    assert steps(run(None, written_pod(**scratch()), others=[default_class("slow")])) == ["new Scheduled n1"]
    (left,) = run(None, written_pod(**scratch()), others=[storage_class("slow")]).pending
    assert "unbound immediate PersistentVolumeClaims" in left.message


def test_a_claim_of_its_name_that_is_another_pods_is_a_conflict():
    mine = thing("PersistentVolumeClaim", "new-scratch", spec={"storageClassName": "slow"})
    mine["metadata"]["namespace"] = "default"
    (cycle,) = run(None, written_pod(**scratch()), others=[storage_class("slow"), mine]).cycles
    assert "PVC default/new-scratch was not created for pod default/new" in cycle.message


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_each_pod_of_a_workload_gets_its_claims(kind):
    """WaitForFirstConsumer with one volume on each node: a shared claim would hold up the second pod."""
    numbers: JSON = {"parallelism": 2, "completions": 2} if kind == "Job" else {"replicas": 2}
    own = workload(kind, pod=pod_spec(**scratch()), **numbers)
    result = run(None, workloads=[own], others=[default_class("slow")])
    assert (result.summary.scheduled, result.summary.pending) == (2, 0)


def test_copies_until_full_have_claims_of_their_own():
    limit = {"kind": "CSINode", "metadata": {"name": "n1", "uid": "u"}}
    limit["spec"] = {"drivers": [{"name": "disk.example.com", "nodeID": "n1", "allocatable": {"count": 3}}]}
    result = run(None, written_pod(**scratch()), until_full=True, others=[default_class("slow"), limit])
    assert result.scenario is not None
    found = result.scenario.until_full
    assert found is not None
    assert found.fits == 3


# --- claims of devices ------------------------------------------------------------------------------------------------

FROM_TEMPLATE: JSON = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


def one_gpu() -> JSON:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    return thing("ResourceClaimTemplate", "one-gpu", "resource.k8s.io/v1", spec={"spec": spec})


GPUS = [device_class(), resource_slice("n1", "n1", devices(2))]


def test_a_claim_template_beside_the_pods_gives_each_pod_a_claim():
    result = run(None, workloads=[workload(replicas=3, pod=pod_spec(**FROM_TEMPLATE))], claims=[one_gpu()], others=GPUS)
    assert (result.summary.scheduled, result.summary.pending) == (2, 1)
    assert [claim.allocation for one in result.cycles for claim in one.claims if one.node] == ["new", "new"]
    assert "cannot allocate all claims" in result.pending[0].message


def test_a_claim_template_of_the_cluster_does_as_well():
    there = one_gpu()
    there["metadata"]["namespace"] = "default"
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    there["spec"]["spec"]["devices"]["requests"][0]["exactly"] = asked
    result = run(None, written_pod(**FROM_TEMPLATE), others=[*GPUS, there])
    assert steps(result) == ["new Scheduled n1"]


def test_until_full_takes_a_device_for_each_copy():
    result = run(None, written_pod(**FROM_TEMPLATE), claims=[one_gpu()], others=GPUS, until_full=True)
    assert result.scenario is not None
    found = result.scenario.until_full
    assert found is not None
    assert found.fits == 2


def test_why_and_evaluate_create_the_claim_too():
    here = cluster({node("n1"): []}, others=GPUS)
    given = written_pod(**FROM_TEMPLATE)
    assert extender.why(here, given, claims=[one_gpu()]).verdict == "Fits"
    assert extender.evaluate(here, given, claims=[one_gpu()]).filter.statuses(np.arange(1)).indices.tolist() == [0]


# --- objects beside the pod -------------------------------------------------------------------------------------------


def test_a_claim_beside_the_pod_gets_the_default_class_beside_it():
    own = thing("PersistentVolumeClaim", "data", spec={"resources": {"requests": {"storage": "1Gi"}}})
    own["spec"]["accessModes"] = ["ReadWriteOnce"]
    given = written_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    assert steps(run(None, given, claims=[own, default_class("slow")])) == ["new Scheduled n1"]


def test_a_priority_class_beside_the_pod_makes_room():
    important = thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000)
    given = written_pod(cpu="3", priorityClassName="important")
    result = run({node("n1"): [pod("weak", cpu="2")]}, given, claims=[important])
    assert steps(result) == ["new Nominated n1 -weak", "new Scheduled n1"]
    with pytest.raises(RequestError, match="no PriorityClass with name important was found"):
        run(None, given, others=[thing("PriorityClass", "other", "scheduling.k8s.io/v1", value=1)])


def test_a_default_priority_class_and_one_that_never_preempts():
    usual = thing("PriorityClass", "usual", "scheduling.k8s.io/v1", value=7, globalDefault=True)
    (cycle,) = run(None, written_pod(), claims=[usual]).cycles
    assert cycle.priority == 7
    usual["preemptionPolicy"] = "Never"
    result = run({node("n1"): [pod("weak", cpu="4")]}, written_pod(), claims=[usual])
    assert steps(result) == ["new Unschedulable"]


def test_a_limit_range_beside_the_pod_applies_to_it():
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "5"}}]}
    (left,) = run({node("n1"): []}, written_pod(cpu=None), claims=[thing("LimitRange", "usual", spec=limits)]).pending
    assert "1 Insufficient cpu" in left.message


def test_a_quota_beside_the_pods_counts_them():
    with pytest.raises(RequestError, match="exceeded quota: few"):
        run(None, written_pod("a"), written_pod("b"), claims=[quota(pods="1")])


def test_a_runtime_class_beside_the_pod_adds_its_overhead():
    heavy = thing("RuntimeClass", "heavy", "node.k8s.io/v1", handler="heavy", overhead={"podFixed": {"cpu": "4"}})
    given = written_pod(runtimeClassName="heavy")
    assert steps(run({node("n1"): []}, given, claims=[heavy])) == ["new Unschedulable"]


def test_a_budget_beside_the_pod_allows_nothing_before_its_controller_has_counted():
    given = thing("PodDisruptionBudget", "guard", "policy/v1", spec={"minAvailable": 1})
    given["spec"]["selector"] = {"matchLabels": {"app": "weak"}}
    important = thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000)
    arriving = written_pod(priorityClassName="important")
    result = run({node("n1", cpu="1"): [pod("weak")]}, arriving, claims=[given, important])
    assert (steps(result)[0], result.summary.pdb_violations) == ("new Nominated n1 -weak", 1)


def test_an_object_that_the_cluster_has_already_stays_as_it_is():
    there = thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000)
    other = thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=5)
    (cycle,) = run(None, written_pod(priorityClassName="important"), others=[there], claims=[other]).cycles
    assert cycle.priority == 1000


def test_an_object_that_is_given_twice_is_an_error():
    twice = [thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000)] * 2
    with pytest.raises(RequestError, match="claim 2: duplicate PriorityClass 'important'"):
        run(None, written_pod(), claims=twice)


def test_a_kind_that_decisions_do_not_read_is_passed_over():
    assert steps(run(None, written_pod(), claims=[thing("ConfigMap", "settings", data={})])) == ["new Scheduled n1"]


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_generated_name_is_as_long_as_kubernetes_makes_it_and_its_own():
    first = written_pod()
    first["metadata"] = {"generateName": "new-"}
    result = run(None, first, first)
    names = [one.pod for one in result.cycles]
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {len("default/new-") + 5}
    again = [one.pod for one in run(None, first, first).cycles]
    assert again == names, "the same request gets the same answer"


@pytest.mark.parametrize("kind", ["Deployment", "Job", "CronJob", "StatefulSet", "DaemonSet"])
def test_workloads_have_generated_names_too(kind):
    own = workload(kind)
    own["metadata"] = {"generateName": "web-"}
    result = run(None, workloads=[own])
    assert result.summary.scheduled == 1
    assert result.cycles[0].pod.startswith("default/web-")


def test_until_full_counts_copies_of_a_pod_with_a_generated_name():
    given = written_pod()
    given["metadata"] = {"generateName": "new-"}
    result = run(None, given, until_full=True)
    assert result.scenario is not None
    found = result.scenario.until_full
    assert found is not None
    assert (found.fits, found.pod[: len("default/new-")], len(found.pod)) == (8, "default/new-", 17)


def test_pods_of_one_name_are_an_error():
    with pytest.raises(RequestError, match="duplicate pod 'default/new'"):
        run(None, written_pod(), written_pod())
    with pytest.raises(RequestError, match="duplicate workload Deployment default/web"):
        run(None, workloads=[workload(), workload()])


def test_a_pod_that_runs_already_cannot_arrive_again():
    with pytest.raises(RequestError, match="pod 'default/new' already exists on node 'n1'"):
        run({node("n1"): [pod("new")]}, written_pod())


# --- modes ------------------------------------------------------------------------------------------------------------


def test_admission_none_takes_the_object_as_it_is():
    ports = pod_spec(hostNetwork=True)
    ports["containers"][0]["ports"] = [{"containerPort": 80}]
    here = {node("n1"): [pod("old", ports=[{"hostPort": 80, "containerPort": 80}])]}
    given = written_pod() | {"spec": ports}
    assert steps(run(here, given)) == ["new Unschedulable"]
    result = run(here, given, admission="none")
    assert steps(result) == ["new Scheduled n1"]
    assert result.admission is not None
    assert result.admission.mode == "none"


def test_an_object_that_an_api_server_has_stored_is_not_admitted():
    stored = pod("new", ports=[{"containerPort": 80}], hostNetwork=True)
    here = {node("n1"): [pod("old", ports=[{"hostPort": 80, "containerPort": 80}])]}
    result = run(here, stored)
    assert (steps(result), result.admission) == (["new Scheduled n1"], None)


def test_a_required_field_that_changes_no_verdict_may_be_left_out():
    given = written_pod()
    del given["spec"]["containers"][0]["image"]
    result = run(None, given)
    assert result.admission is not None
    assert result.admission.left_out == ["spec.containers[0].image"]
    with pytest.raises(RequestError, match=r"spec\.containers\[0\]\.image: Required value"):
        run(None, given, strict=True)


def test_an_unknown_field_is_named_and_refused_with_strict():
    given = written_pod(nodeselector={"a": "b"})
    result = run(None, given)
    assert result.admission is not None
    assert result.admission.pruned == ["spec.nodeselector (did you mean nodeSelector?)"]
    with pytest.raises(RequestError, match=r"unknown field spec\.nodeselector"):
        run(None, given, strict=True)


def test_all_mistakes_are_named_at_once_with_their_places():
    given = written_pod("UPPER", hostNetwork="yes", priority=3, tolerations=[{"operator": "Exist"}])
    with pytest.raises(RequestError) as refused:
        run(None, written_pod("a"), given)
    assert str(refused.value).startswith("pod 2: Pod UPPER is invalid: ")
    given["spec"]["hostNetwork"] = True
    with pytest.raises(RequestError) as refused:
        run(None, given, others=[budget()])
    for field in ("metadata.name", "spec.tolerations[0].operator"):
        assert field in str(refused.value)


def test_admission_server_is_for_the_command_line():
    with pytest.raises((RequestError, ValueError), match="server"):
        run(None, written_pod(), admission="server")
