"""Objects without a UID are admitted once all files are read; those with one are taken as they are."""

import pytest
import yaml

from extender.cluster.files.manifests import load_cluster, read_cluster
from extender.config.scheduler.load import kube_scheduler_of
from extender.errors import ClusterFileError

NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}
CLASS = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
LIMITS = {
    "kind": "LimitRange",
    "metadata": {"name": "defaults"},
    "spec": {"limits": [{"type": "Container", "default": {"memory": "2Gi"}, "defaultRequest": {"memory": "1Gi"}}]},
}
STORAGE = {
    "kind": "StorageClass",
    "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/disk",
}
CLAIM = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def pod(name="a", **spec):
    containers = [{"name": "main", "image": "web", "resources": {"limits": {"cpu": "2"}}}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def cluster(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def requests_of(one):
    (container,) = one.spec.containers
    return container.resources.requests


def test_what_an_api_server_fills_in_is_filled_in_whatever_the_order_of_the_objects():
    found = load_cluster(cluster(pod(priorityClassName="high"), CLAIM, STORAGE, LIMITS, CLASS, NODE))
    [one] = found.pods
    assert (one.spec.priority, one.metadata.namespace, one.metadata.uid) == (1000, "default", "default/a")
    assert requests_of(one) == {"cpu": "2", "memory": "1Gi"}
    assert found.claims[0].spec.storage_class_name == "fast"
    assert found.nodes[0].status.allocatable == {"cpu": "4", "pods": "110"}


def test_an_object_with_a_uid_is_taken_as_it_is():
    given = pod(priorityClassName="high")
    given["metadata"]["uid"] = "u1"
    [one] = load_cluster(cluster(given, LIMITS, CLASS)).pods
    assert (one.spec.priority, requests_of(one)) == (None, None)


def test_without_admission_objects_are_taken_as_they_are():
    [one] = load_cluster(cluster(pod(priority=200)), admission="none").pods
    assert (one.spec.priority, requests_of(one)) == (200, None)


def test_the_order_of_a_listing_is_kept_across_both():
    second = pod("b")
    second["metadata"]["uid"] = "u2"
    assert [one.metadata.name for one in load_cluster(cluster(pod("c"), second, pod("a"))).pods] == ["c", "b", "a"]


def test_a_priority_without_a_class_is_refused_for_a_pending_pod_only():
    with pytest.raises(ClusterFileError, match=r"^cluster: Pod a is forbidden: the integer value of priority \(200\)"):
        load_cluster(cluster(pod(priority=200)))
    [one] = load_cluster(cluster(NODE, pod(priority=200, nodeName="n1"))).pods
    assert one.spec.priority == 200


def test_null_is_absent(tmp_path):
    text = "kind: Pod\nmetadata: {name: a, labels: }\nspec: {schedulerName: null, containers: [{name: main, image: x}]}"
    (tmp_path / "c.yaml").write_text(text)
    assert load_cluster(tmp_path / "c.yaml").pods[0].spec.scheduler_name == "default-scheduler"


def test_a_refusal_has_file_object_and_every_mistake(tmp_path):
    wrong = pod(nodeSelector={"zone": True}, terminationGracePeriodSeconds="soon", hostNetwork="yes")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump_all([NODE, wrong]))
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(tmp_path / "c.yaml")
    message = str(caught.value)
    assert message.startswith("c.yaml: Pod a is invalid: ")
    for path in ("spec.nodeSelector[zone]", "spec.terminationGracePeriodSeconds", "spec.hostNetwork"):
        assert f"{path}: expected" in message


def test_what_is_left_out_and_what_is_dropped_is_noted_once():
    bare = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeNam": "n1", "containers": [{"name": "main"}]}}
    report = read_cluster(cluster(NODE, bare))
    assert [note for note in report.notes() if "image" in note] == [
        "left out, and not read by kube-scheduler: cluster: Pod a spec.containers[0].image"
    ]
    [dropped] = [note for note in report.notes() if "dropped" in note or "drops" in note]
    assert dropped.startswith("unknown, and dropped by an API server: cluster: Pod a spec.nodeNam")


def test_the_version_is_that_of_kube_scheduler_in_the_files():
    scheduler = pod("kube-scheduler-cp")
    scheduler["metadata"] |= {"namespace": "kube-system", "labels": {"component": "kube-scheduler"}}
    scheduler["spec"]["containers"][0] |= {"name": "kube-scheduler", "image": "k8s/kube-scheduler:v1.33.2"}
    scheduler["spec"]["nodeName"] = "cp"
    seen = []

    def scheduler_of(found):
        seen.append(found)
        return kube_scheduler_of({}, version="1.33")

    read_cluster(cluster(scheduler), scheduler_of=scheduler_of)
    assert [one.minor for one in seen] == [33]
