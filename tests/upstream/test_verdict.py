"""Ask the judge (a stand-in of it) about a pod of a cluster file."""

import json

import pytest

from tests.builders import cluster, incoming, node, pod
from tests.upstream.verdict import NotAsked, main, scenario_of

WAITING = incoming(nodeSelector={"disk": "none"}, preemptionPolicy="PreemptLowerPriority")
NAME = "{namespace}/{name}".format(**WAITING["metadata"])


@pytest.fixture
def file(tmp_path):
    """Write a cluster with these nodes, in which the pod waits."""

    def of(*names):
        given = cluster({node(name): [pod(f"p-{name}")] for name in names})
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps(given | {"items": [*given["items"], WAITING]}), encoding="utf-8")
        return path

    return of


def test_the_pod_is_taken_out_of_the_cluster_and_every_pod_names_a_scheduler(file):
    scenario = scenario_of(file("a", "b"), NAME)
    pods = [one for one in scenario["cluster"]["items"] if one["kind"] == "Pod"]
    assert [one["metadata"]["name"] for one in pods] == ["p-a", "p-b"]
    assert scenario["pod"]["metadata"] == WAITING["metadata"]
    assert {one["spec"]["schedulerName"] for one in (*pods, scenario["pod"])} == {"default-scheduler"}


def test_a_pod_of_a_file_is_asked_about_with_its_configuration(file, tmp_path):
    (tmp_path / "pod.yaml").write_text(json.dumps(WAITING), encoding="utf-8")
    (tmp_path / "config.yaml").write_text("kind: KubeSchedulerConfiguration", encoding="utf-8")
    scenario = scenario_of(file("a"), str(tmp_path / "pod.yaml"), tmp_path / "config.yaml")
    assert scenario["config"] == {"kind": "KubeSchedulerConfiguration"}


def test_extenders_are_not_called_and_that_is_said(file, stand_in, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    extender = {"urlPrefix": "http://localhost", "filterVerb": "filter", "managedResources": managed}
    about = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps(about | {"extenders": [extender]}), encoding="utf-8")
    assert "extenders" not in scenario_of(file("a"), NAME, config)["config"]
    assert main(["--judge", str(stand_in), "--config", str(config), str(file("a")), NAME]) == 0
    assert "The configuration's extenders are not called; " in capsys.readouterr().out


def test_a_pod_without_uid_has_its_name_as_uid(tmp_path):
    def written(name, **spec):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [], **spec}}

    path = tmp_path / "cluster.json"
    items = [*cluster({node("a"): []})["items"], written("runs", nodeName="a"), written("waits")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    scenario = scenario_of(path, "default/waits")
    (runs,) = [one for one in scenario["cluster"]["items"] if one["kind"] == "Pod"]
    assert (runs["metadata"]["uid"], scenario["pod"]["metadata"]["uid"]) == ("default/runs", "default/waits")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds 0 documents, not one pod"),
        ("kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}", "holds 2 documents, not one pod"),
        ("kind: List\nitems: []", "is a List, not a Pod"),
        ("metadata: {name: a}", "has no kind"),
        ("kind: Pod", "has no metadata.name"),
        ("- a", "is not an object"),
    ],
)
def test_a_file_that_is_not_one_pod_is_not_asked_about(text, reason, file, tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotAsked, match=f"pod.yaml {reason}"):
        scenario_of(file("a"), str(path))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the pod is not named"),
        ("default/unknown", "default/unknown is neither a file nor the namespace/name of a pod in the cluster file"),
        ("default/p-a", "pod default/p-a runs on a: kube-scheduler was asked about it before"),
    ],
)
def test_a_pod_that_does_not_wait_is_not_asked_about(name, reason, file):
    with pytest.raises(NotAsked, match=reason):
        scenario_of(file("a"), name)


@pytest.mark.parametrize(("nodes", "code", "end"), [("ab", 0, "agree"), (("a", "odd"), 1, "differ")])
def test_the_verdict_is_printed_and_what_the_engine_says_otherwise(nodes, code, end, file, stand_in, capsys):
    assert main(["--judge", str(stand_in), str(file(*nodes)), NAME]) == code
    verdict, *lines = capsys.readouterr().out.rpartition("\n}\n")[::2]
    assert json.loads(verdict + "}")["feasible"] == 0
    assert lines[0].splitlines()[-1] == f"kube-scheduler 1.36.5 and the engine: {end}"
    assert ("planted" in lines[0]) == bool(code)


def test_what_cannot_be_asked_is_an_error(file, tmp_path, capsys):
    assert main(["--judge", str(tmp_path / "none"), str(file("a")), NAME]) == 2
    assert "none cannot be run" in capsys.readouterr().err
