"""The version of the kube-scheduler that runs in a cluster."""

import pytest

from extender.k8s.version.found import (
    FoundVersion,
    chosen_version,
    is_kube_scheduler,
    version_of_api_server,
    version_of_pods,
)
from tests.builders import stored_cluster

CALICO = "calico/node:v3.28.0"


def scheduler_pod(name="cp-1", image="registry.k8s.io/kube-scheduler:v1.33.2", phase="Running", **metadata):
    """A mirror pod of kubeadm's static pod."""
    labels = {"component": "kube-scheduler", "tier": "control-plane"}
    return {
        "kind": "Pod",
        "metadata": {"name": f"kube-scheduler-{name}", "namespace": "kube-system", "labels": labels, **metadata},
        "spec": {"nodeName": name, "containers": [{"name": "kube-scheduler", "image": image}]},
        "status": {"phase": phase},
    }


def found(*pods):
    return version_of_pods(stored_cluster({"kind": "List", "items": list(pods)}).pods)


def test_the_tag_of_kubeadm_s_static_pod_is_the_version():
    assert found(scheduler_pod()) == FoundVersion(33, "image tag v1.33.2 of pod kube-system/kube-scheduler-cp-1", 2)


@pytest.mark.parametrize(
    "changed",
    [
        {"namespace": "shop"},
        {"labels": {"component": "kube-apiserver"}},
        {"labels": None},
        {"image": "registry.k8s.io/kube-scheduler@sha256:" + "a" * 64},
        {"image": "kube-scheduler:latest"},
        {"image": CALICO},
        {"image": "example.com/kube-scheduler:1.2.0"},
        {"image": "example.com/kube-scheduler:v1.28.9"},
        {"image": "example.com/kube-scheduler:v1.39.0"},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
    ],
)
def test_a_pod_that_does_not_say_it(changed):
    assert found(scheduler_pod(**changed)) is None


def test_sidecars_of_kube_scheduler_do_not_count():
    pod = scheduler_pod(image="kube-scheduler:custom")
    pod["spec"]["containers"].append({"name": "proxy", "image": "proxy:v1.30.0"})
    assert found(pod) is None


def test_during_an_upgrade_the_lowest_version_holds_whatever_the_order():
    pods = [scheduler_pod(f"cp-{tag}", f"kube-scheduler:{tag}") for tag in ("v1.36.0", "v1.35.4", "v1.36.1")]
    expected = FoundVersion(
        35, "image tag v1.35.4 of pod kube-system/kube-scheduler-cp-v1.35.4, the lowest of 1.35.4, 1.36.0, 1.36.1", 4
    )
    assert found(*pods) == found(*reversed(pods)) == expected
    assert found(pods[2], pods[0]) == FoundVersion(
        36, "image tag v1.36.0 of pod kube-system/kube-scheduler-cp-v1.36.0, the lowest of 1.36.0, 1.36.1", 0
    )


def test_a_tag_that_is_not_supported_does_not_hide_one_that_is():
    assert found(scheduler_pod(image="kube-scheduler:1.2.0"), scheduler_pod("cp-2")) == FoundVersion(
        33, "image tag v1.33.2 of pod kube-system/kube-scheduler-cp-2", 2
    )


@pytest.mark.parametrize("of_pods", [33, 34, 36, 37])
def test_the_pods_version_counts_before_the_api_server_s(of_pods):
    version = FoundVersion(of_pods, "image tag")
    assert chosen_version(version, FoundVersion(36, "API server v1.36.1")) == version
    assert chosen_version(version, None) == version


@pytest.mark.parametrize("of_pods", [29, 32, 38])
def test_a_tag_that_kube_scheduler_cannot_have_beside_the_api_server_is_ignored_and_said(of_pods):
    version = FoundVersion(of_pods, "image tag 1 of pod a")
    ignored = "ignored, as too far from it: image tag 1 of pod a"
    assert chosen_version(version, FoundVersion(36, "API server v1.36.1")) == FoundVersion(
        36, f"API server v1.36.1; {ignored}"
    )


def test_without_a_pod_the_api_server_s_version_counts():
    source = "API server v1.36.1; no pod of kube-scheduler names its version"
    assert chosen_version(None, FoundVersion(36, "API server v1.36.1")) == FoundVersion(36, source)
    assert chosen_version(None, None) is None


def test_other_pods_are_not_kube_scheduler_s():
    (pod,) = stored_cluster({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}).pods
    assert not is_kube_scheduler(pod)


@pytest.mark.parametrize(
    ("version", "patch"),
    [("v1.33.2", 2), ("v1.33.2+k3s1", 2), ("v1.33.5-eks-113cf36", 5), ("v1.33.1-gke.1107000", 1), ("v1.33", None)],
)
def test_the_api_server_s_version(version, patch):
    body = b'{"major":"1","minor":"33+","gitVersion":"%s","platform":"linux/amd64"}' % version.encode()
    assert version_of_api_server(body) == FoundVersion(33, f"API server {version}", patch)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"gitVersion": ""}', b"<html>", b'{"gitVersion": "v2.0.0"}', b"[]"])
def test_an_answer_without_a_version(body):
    with pytest.raises(ValueError, match=r"not a version|not .*1\.x|JSON|truncated|Expected"):
        version_of_api_server(body)
