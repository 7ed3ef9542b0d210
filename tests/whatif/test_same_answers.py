"""Manifests that are asked about by the Python API, by POST /simulate and on the command line: one answer."""

import json

import msgspec
import pytest
from typer.testing import CliRunner

import extender
from extender import cli
from extender.cluster.files.manifests import load_cluster
from extender.core.framework.status import Code
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError
from extender.server.admin.simulate import simulate_request
from tests.builders import JSON, cluster, node, pod
from tests.device_builders import device_class, devices, resource_slice
from tests.whatif.written import default_class, pod_spec, quota, storage_class, thing, workload, written_pod

HERE = cluster(
    {
        node("n1", labels={"disk": "ssd"}): [pod("old", ports=[{"hostPort": 80, "containerPort": 80}])],
        node("n2", taints=[{"key": "dedicated", "effect": "NoSchedule"}]): [],
    },
    others=[
        default_class("slow"),
        storage_class("other"),
        device_class(),
        resource_slice("n1", "n1", devices(1)),
        quota("full", pods="1"),
        thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000),
    ],
)

DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCRATCH: JSON = {"volumes": [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": DATA}}}]}
HTTP = {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80}]}], "hostNetwork": True}
MINE: JSON = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


def in_full(one: JSON) -> JSON:
    return one | {"metadata": one["metadata"] | {"namespace": "full"}}


def unnamed(one: JSON) -> JSON:
    return one | {"metadata": {"generateName": "any-"}}


SCENARIOS = [
    pytest.param([written_pod()], [], [], id="a pod"),
    pytest.param([written_pod(priorityClassName="important", cpu="3500m")], [], [], id="a priority"),
    pytest.param([written_pod() | {"spec": HTTP}], [], [], id="host ports"),
    pytest.param([written_pod(**SCRATCH)], [], [], id="an ephemeral volume"),
    pytest.param(
        [written_pod(**MINE)], [thing("PersistentVolumeClaim", "data", spec=DATA)], [], id="a claim beside it"
    ),
    pytest.param([unnamed(written_pod())], [], [], id="a generated name"),
    pytest.param([written_pod(nodeSelectr={"a": "b"})], [], [], id="an unknown field"),
    pytest.param([], [], [workload(replicas=4)], id="a deployment"),
    pytest.param([], [], [in_full(workload(replicas=4))], id="a quota"),
    pytest.param([], [], [in_full(workload("StatefulSet", replicas=4))], id="a quota of an ordered set"),
    pytest.param([], [], [workload("DaemonSet")], id="a daemon set"),
    pytest.param([], [], [workload("CronJob", pod=pod_spec(**SCRATCH))], id="a cron job"),
    pytest.param([written_pod("UPPER")], [], [], id="a bad name"),
    pytest.param([written_pod(priorityClassName="none")], [], [], id="a missing class"),
    pytest.param([], [], [workload(selector={"matchLabels": {"a": "b"}})], id="a wrong selector"),
    pytest.param([], [], [in_full(workload(pod=pod_spec(tolerations=[{"operator": "no"}])))], id="a wrong template"),
]


OF_ASKER = ("policies", "source")
"""What depends on who asks: the name of the policies, and where the cluster comes from."""


def answer(ask):
    """What is answered, without the place in the request that an error begins with, and OF_ASKER."""
    try:
        found = msgspec.to_builtins(ask())
    except ExtenderError as error:
        return str(error).split(": ", 1)[1]
    return {field: value for field, value in found.items() if field not in OF_ASKER}


@pytest.mark.parametrize(("pods", "claims", "workloads"), SCENARIOS)
def test_a_simulation_is_the_same_by_every_path(tmp_path, pods, claims, workloads):
    objects = load_cluster(HERE)
    by_api = answer(lambda: extender.simulate(objects, pods, claims=claims, workloads=workloads))
    body = json.dumps({"pods": pods, "claims": claims, "workloads": workloads}).encode()
    assert answer(lambda: simulate_request(objects, KubeScheduler(), body)) == by_api
    assert answer(lambda: simulate_request(Snapshot.build(objects), KubeScheduler(), body)) == by_api

    (tmp_path / "cluster.json").write_text(json.dumps(HERE))
    (tmp_path / "new.json").write_text(json.dumps({"kind": "List", "items": [*claims, *pods, *workloads]}))
    where = ["--cluster", str(tmp_path / "cluster.json"), "--pod", str(tmp_path / "new.json"), "-o", "json"]
    result = CliRunner().invoke(cli.app, ["simulate", *where], env={})
    if isinstance(by_api, str):
        assert isinstance(result.exception, ExtenderError)
        assert str(result.exception).endswith(by_api)
    else:
        shown = json.loads(result.stdout)
        assert {field: value for field, value in shown.items() if field not in OF_ASKER} == by_api


@pytest.mark.parametrize(("pods", "claims", "workloads"), [one for one in SCENARIOS if one.values[0]])
def test_why_evaluate_and_simulate_agree_on_a_pod(tmp_path, pods, claims, workloads):
    objects = load_cluster(HERE)
    explained = answer(lambda: extender.why(objects, pods[0], claims=claims))
    simulated = answer(lambda: extender.simulate(objects, pods, claims=claims))
    if isinstance(explained, str) or isinstance(simulated, str):
        assert str(explained) in str(simulated)
        with pytest.raises(ExtenderError):
            extender.evaluate(objects, pods[0], claims=claims)
        return
    first = simulated["cycles"][0]
    outcome = {"Fits": "Scheduled", "FitsAfterPreemption": "Nominated", "DoesNotFit": "Unschedulable"}
    assert outcome[explained["verdict"]] == first["outcome"]
    assert (explained["message"], explained["admission"]) == (
        "" if first["node"] else first["message"],
        simulated["admission"],
    )
    feasible = extender.evaluate(objects, pods[0], claims=claims).filter.rows(Code.SUCCESS)
    assert (len(feasible) > 0) == (first["node"] is not None)

    (tmp_path / "cluster.json").write_text(json.dumps(HERE))
    (tmp_path / "new.json").write_text(json.dumps({"kind": "List", "items": [*claims, *pods]}))
    where = ["--cluster", str(tmp_path / "cluster.json"), "--pod", str(tmp_path / "new.json"), "-o", "json"]
    shown = json.loads(CliRunner().invoke(cli.app, ["why", *where], env={}).stdout)
    assert shown == {**explained, "nodes": shown["nodes"], "policies": shown["policies"], "source": shown["source"]}


@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"]
)
def test_why_explains_the_first_pod_of_a_workload(tmp_path, kind):
    own = workload(kind, pod=pod_spec(cpu="7"))
    (tmp_path / "cluster.json").write_text(json.dumps(HERE))
    (tmp_path / "new.json").write_text(json.dumps(own))
    where = ["--cluster", str(tmp_path / "cluster.json"), "--pod", str(tmp_path / "new.json"), "-o", "json"]
    result = CliRunner().invoke(cli.app, ["why", *where], env={})
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert found["pod"].startswith("default/web-")
    assert "1 Insufficient cpu" in found["message"]
    simulated = extender.simulate(load_cluster(HERE), workloads=[own])
    assert found["pod"] in [one.pod for one in simulated.cycles]
