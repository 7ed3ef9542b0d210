"""The Python API: versions, feature gates and configurations of kube-scheduler."""

import inspect
import json
import os

import msgspec
import pytest

import extender
from extender.core.profile import PreemptionPolicy
from extender.errors import ConfigError, RequestError, UnknownScheduler
from extender.k8s.version.features import Features
from tests.builders import cluster, incoming, node, pod, typed

PACKING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
        },
    ],
}
HALF_FULL = {node("n1"): [pod("a", cpu="2")], node("n2"): []}
RESIZED = pod(
    "resized",
    cpu="1",
    status={
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
        ],
    },
)


def sources(given, **options):
    """What each function says of where the cluster comes from."""
    waiting = incoming()
    listed, one = extender.why(given, **options), extender.why(given, waiting, **options)
    evaluated = extender.evaluate(given, waiting, **options).to_dict()["source"]
    return [
        *msgspec.to_builtins([listed.source, one.source, extender.simulate(given, [waiting], **options).source]),
        evaluated,
    ]


def test_every_answer_says_which_files_the_cluster_was_loaded_from(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster(HALF_FULL)))
    os.utime(path, (0, 86400))
    file = {"kind": "file", "namespace": "default", "files": [{"path": str(path), "modified": "1970-01-02T00:00:00Z"}]}
    assert sources(extender.load_cluster(path)) == [file] * 4
    folder = file | {"files": [{"path": str(tmp_path), "modified": "1970-01-02T00:00:00Z"}]}
    assert sources(extender.load_cluster(tmp_path)) == [folder] * 4


def test_a_cluster_that_was_not_read_from_a_file_is_said_to_be_given_as_objects():
    loaded = extender.load_cluster(cluster(HALF_FULL))
    for given in (cluster(HALF_FULL), loaded, extender.Snapshot.build(loaded)):
        assert sources(given) == [{"kind": "objects", "namespace": "default"}] * 4


def test_a_verdict_says_the_version_and_that_kubelets_suggest_another():
    old = node("n1", nodeInfo={"kubeletVersion": "v1.33.1"})
    found = extender.evaluate(cluster({old: []}), incoming()).to_dict()
    assert (found["version"], found["versionSource"]) == ("1.37", "assumed: its version is not known")
    assert found["source"]["versionHint"].startswith("kubelets are 1.33 on 1 node")


def feasible(*arguments, **options):
    return extender.evaluate(*arguments, **options).to_dict()["feasible"]


@pytest.fixture
def files(tmp_path):
    """(our configuration, kube-scheduler's)."""
    ours, theirs = tmp_path / "extender.yaml", tmp_path / "scheduler-config.yaml"
    theirs.write_text(json.dumps(PACKING))
    ours.write_text(
        json.dumps({"preemption": {"preset": "strict"}, "scheduler": {"config": str(theirs), "version": "1.30"}})
    )
    return ours, theirs


def test_the_version_decides_what_a_running_pod_requests():
    """A pod that is being resized takes what it was allocated, from 1.33 on."""
    here = cluster({node("n1", cpu="4"): [RESIZED]})
    assert feasible(here, incoming("new", cpu="3"), version="1.32") == 1
    assert feasible(here, incoming("new", cpu="3"), version="1.33") == 0
    off = {"InPlacePodVerticalScaling": False}
    assert feasible(here, incoming("new", cpu="3"), version="1.33", feature_gates=off) == 1


def test_a_patch_may_carry_a_change_of_a_later_minor_back():
    """NodePorts counts the host ports of sidecars from 1.33.6 on."""
    sidecar = {"name": "side", "restartPolicy": "Always", "ports": [{"hostPort": 80, "containerPort": 80}]}
    held, new = pod("held"), incoming("new")
    held["spec"]["initContainers"] = new["spec"]["initContainers"] = [sidecar]
    here = cluster({node("n1"): [held]})
    versions = ("1.32.13", "1.33.0", "1.33.5", "1.33.6", "1.33", "1.34.0")
    assert [feasible(here, new, version=one) for one in versions] == [1, 1, 1, 0, 0, 0]


def test_a_snapshot_is_built_again_for_another_version():
    here = cluster({node("n1", cpu="4"): [RESIZED]})
    snapshot = extender.Snapshot.build(extender.load_cluster(here))
    assert extender.evaluate(snapshot, typed(incoming("new", cpu="3"))).context.snapshot is snapshot
    assert feasible(snapshot, incoming("new", cpu="3")) == 0
    assert feasible(snapshot, incoming("new", cpu="3"), version="1.32") == 1
    old = extender.Snapshot.build(extender.load_cluster(here), Features.of(32))
    assert feasible(old, incoming("new", cpu="3")) == 0
    assert extender.simulate(snapshot, [incoming("new", cpu="3")], version="1.32").cycles[0].outcome == "Scheduled"


@pytest.mark.parametrize("as_path", [str, lambda path: path, lambda _: PACKING], ids=["text", "path", "dict"])
def test_a_pod_is_judged_by_the_profile_of_its_scheduler_name(files, as_path):
    def best(name):
        scores = extender.evaluate(
            cluster(HALF_FULL), incoming("new", schedulerName=name), scheduler_config=as_path(files[1])
        ).to_dict()["scores"]
        return max(scores, key=lambda one: scores[one]["total"])

    assert (best("default-scheduler"), best("packing")) == ("n2", "n1")


def test_a_pod_that_no_profile_schedules_is_an_error_or_skipped():
    foreign = incoming("new", schedulerName="other")
    with pytest.raises(UnknownScheduler) as error:
        extender.evaluate(cluster(HALF_FULL), foreign, scheduler_config=PACKING)
    assert str(error.value) == (
        "pod 'default/new': not ours: no profile has schedulerName \"other\" (profiles: default-scheduler, packing)"
    )
    assert feasible(cluster(HALF_FULL), foreign) == 2
    assert feasible(cluster(HALF_FULL), foreign, version="1.33") == 2
    for scheduler in (None, extender.load_scheduler(PACKING)):
        result = extender.simulate(cluster(HALF_FULL), [foreign], scheduler=scheduler)
        assert [(one.outcome, one.message) for one in result.cycles] == [
            ("Skipped", 'not tried: not ours: no profile has schedulerName "other"')
        ]


def test_a_scheduler_is_loaded_from_both_files(files):
    ours, theirs = files
    found = extender.load_scheduler(config=ours)
    assert [one.scheduler_name for one in found.profiles] == ["default-scheduler", "packing"]
    assert found.version == "1.30"
    assert found.preemption.disruption_budgets == "Strict"
    later = extender.load_scheduler(config=ours, version="1.34", feature_gates={"PodLevelResources": False})
    assert (later.version, later.changed_gates) == ("1.34", {"PodLevelResources": False})
    assert later.preemption == found.preemption
    for given in ({"profiles": [{"schedulerName": "own"}]}, theirs):
        config = {**PACKING, **given} if isinstance(given, dict) else given
        again = extender.load_scheduler(config, config=ours)
        assert (again.version, again.preemption) == (found.version, found.preemption)
    assert extender.load_scheduler(theirs).preemption == PreemptionPolicy()


def test_a_scheduler_is_given_or_described_but_not_both():
    with pytest.raises(ValueError, match="either scheduler="):
        extender.evaluate(cluster(HALF_FULL), incoming(), version="1.33", scheduler=extender.KubeScheduler())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"version": "1.12"}, '"1.12" is not supported: 1.29 to 1.38'),
        ({"version": "1.33", "feature_gates": {"PodLevelResourcez": True}}, "PodLevelResourcez"),
        ({"scheduler_config": {"kind": "Pod"}}, "KubeSchedulerConfiguration"),
        ({"version": 1.33}, 'version must be text such as "1.33", not 1.33'),
        ({"scheduler_config": 5}, "scheduler_config must be a mapping or the path of a file, not 5"),
        ({"scheduler_config": "absent.yaml"}, "absent.yaml: No such file or directory"),
    ],
)
def test_a_mistake_is_an_error_that_names_it(options, problem):
    with pytest.raises(ConfigError) as error:
        extender.evaluate(cluster(HALF_FULL), incoming(), **options)
    assert problem in str(error.value)


def test_evaluate_and_simulate_take_the_same_description_of_kube_scheduler():
    shared = {"version", "feature_gates", "scheduler_config", "scheduler", "history"}
    for function in (extender.evaluate, extender.simulate):
        parameters = inspect.signature(function).parameters
        assert {name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY} >= shared


def test_a_scenario_is_simulated():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    here = cluster({node("n1", cpu="1"): [pod("web-abcde", metadata={"ownerReferences": [owner]})]})
    new = node("new", cpu="2").raw
    result = extender.simulate(here, add_nodes=[(new, 1)], drain=["n1"])
    assert [(one.pod, one.node) for one in result.replacements] == [("default/web-bbbbb", "new")]
    assert extender.simulate(here, add_nodes=[(new, 1)], drain=["n1"], replace_evicted=False).replacements == []
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], "restartPolicy": "Never"}
    job = {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    filled = extender.simulate(here, workloads=[job], remove_nodes=["n1"], add_nodes=[(new, 2)], until_full=True)
    assert filled.scenario is not None
    assert filled.scenario.until_full is not None
    assert filled.scenario.until_full.fits == 3
    assert extender.simulate(here, [incoming("a", cpu="9")], gang=True, cordon=["n1"]).summary.scheduled == 0


# --- why ------------------------------------------------------------------------------------------------------------


def test_why_takes_a_name_or_a_manifest_and_leaves_the_cluster_as_it_is():
    here = extender.Snapshot.build(extender.load_cluster(cluster(HALF_FULL, waiting=[incoming("x")])))
    before = here.frozen()
    assert extender.why(here, "x").why.startswith("default/x fits on 2 of 2 nodes; ")
    assert extender.why(here, "default/a").why.startswith("default/a is on n1, ")
    assert extender.why(here, incoming("new", cpu="9")).verdict == "DoesNotFit"
    assert extender.why(here, "shop/x").state == "NotFound"
    assert here.frozen() == before


def test_why_takes_a_name_in_a_namespace_and_refuses_arguments_that_do_not_apply():
    here = cluster(HALF_FULL, waiting=[incoming("x", namespace="shop")])
    assert extender.why(here, "x", namespace="shop").pod == "shop/x"
    assert extender.why(here, "shop/x", namespace="shop").state == "Pending"
    assert extender.why(here, namespace="shpo").why == "the cluster has no namespace shpo (did you mean shop?)"
    for arguments, said in (
        ({"pod": "shop/x", "namespace": "batch"}, "namespace batch contradicts shop/x"),
        ({"pod": incoming("y"), "namespace": "shop"}, "namespace= applies to a name"),
        ({"node": "n1"}, "node= applies to one pod"),
        ({"claims": [{}]}, "claims= applies to a pod that does not exist yet"),
        ({"pod": "shop/x", "claims": [{}]}, "claims= applies to a pod that does not exist yet"),
    ):
        with pytest.raises(RequestError, match=said):
            extender.why(here, **arguments)


@pytest.mark.parametrize("ask", [extender.why, lambda cluster, pod: extender.simulate(cluster, [pod])])
def test_what_is_not_a_pod_is_refused(ask):
    with pytest.raises(RequestError, match="a Deployment is not a Pod"):
        ask(cluster(HALF_FULL), {"kind": "Deployment", "metadata": {"name": "web"}})


def test_why_is_asked_of_a_version_and_a_configuration(files):
    here = cluster({node("n1", cpu="4"): [RESIZED]}, waiting=[incoming("x", cpu="3", priority=0)])
    assert [extender.why(here, "x", version=one).verdict for one in ("1.32", "1.33")] == ["Fits", "DoesNotFit"]
    found = extender.why(cluster(HALF_FULL, waiting=[incoming("x", schedulerName="packing")]), "x", node="n1")
    assert (found.state, found.details) == ("NotOurs", None)
    packed = extender.why(
        cluster(HALF_FULL, waiting=[incoming("x", schedulerName="packing")]), "x", scheduler_config=files[1]
    )
    assert packed.node == "n1"
