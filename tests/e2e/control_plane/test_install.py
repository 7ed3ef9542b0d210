"""The manifests of deploy/ on a real API server: nothing is rejected, warned about or taken from another variant."""

import os
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.control_plane.lab import keys
from tests.e2e.control_plane.lab.api import ApiError
from tests.e2e.control_plane.lab.objects import owner_reference, workload
from tests.e2e.deploy.chart_readme import commands
from tests.e2e.deploy.manifests import (
    ALL,
    CHART,
    CHARTED,
    EXAMPLES,
    HELM,
    KUBECTL,
    KUBERNETES,
    KUSTOMIZED,
    NO_HELM,
    NO_KUBECTL,
    STATIC,
    composed,
    hooks_of,
    kustomize,
    of_kind,
    rendered,
)
from tests.e2e.deploy.manifests import OVERLAYS as OVERLAY_FOLDERS
from tests.e2e.deploy.manifests import workload as workload_of

DEFINITIONS = Path(__file__).parent / "crds.yaml"

OVERLAYS = [name for name in KUSTOMIZED if "," not in name]


@pytest.fixture(scope="module")
def cluster(plane):
    """A control plane that knows the kinds of the Prometheus operator and of cert-manager, and has a node."""
    for one in plane.api.apply(DEFINITIONS):
        spec = one["spec"]
        path = f"/apis/{spec['group']}/v1/{spec['names']['plural']}"
        plane.api.wait_until(lambda path=path: serves(plane.api, path), 20, path)
    plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control-plane-1"}})
    return plane


def serves(api, path):
    try:
        return api.request("GET", path)
    except ApiError as error:
        if error.status not in (404, 429):  # not established, or its storage is being initialized
            raise
        return None


def server_side_apply(plane, objects):
    """Apply the objects, unknown fields being errors; return the warnings."""
    context = ssl.create_default_context(cafile=str(plane.keys.ca_file))
    token = {"Authorization": f"Bearer {plane.keys.token(keys.ADMIN)}", "Content-Type": "application/apply-patch+yaml"}
    query = {"fieldManager": "install", "fieldValidation": "Strict"}
    warnings = []
    with httpx.Client(base_url=plane.url, headers=token, verify=context, trust_env=False) as client:
        for one in objects:
            response = client.patch(plane.api.path_of(one), params=query, json=one)
            assert response.status_code in (200, 201), f"{one['kind']} {one['metadata']['name']}: {response.text}"
            warnings += response.headers.get_list("warning")
    return warnings


def remove(plane, objects):
    for one in objects:
        kind = f"{one['apiVersion']}/{one['kind']}"
        plane.api.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace", "default"), grace=0)


def without_status(plane, objects):
    """(kind, name) -> the object as stored, but for metadata and status."""
    stored = [plane.api.request("GET", plane.api.path_of(one)) for one in objects]
    return {
        (one["kind"], one["metadata"]["name"]): {key: one[key] for key in one if key not in ("metadata", "status")}
        for one in stored
    }


def mirror_pod(plane):
    """What the kubelet creates for the static pod."""
    (static,) = of_kind(rendered(STATIC), "Pod")
    node = plane.api.get("Node", "control-plane-1")
    about = {
        **static["metadata"],
        "name": f"{static['metadata']['name']}-{node['metadata']['name']}",
        "annotations": {"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"},
        "ownerReferences": [owner_reference(node | {"apiVersion": "v1", "kind": "Node"})],
    }
    return {**static, "metadata": about, "spec": {**static["spec"], "nodeName": node["metadata"]["name"]}}


def placed(plane, objects):
    """The objects as they come to the API server: a static pod as its mirror pod."""
    static = of_kind(rendered(STATIC), "Pod")
    return [mirror_pod(plane) if one in static else one for one in objects]


# --- accepted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_api_server_accepts_every_object_without_a_warning(cluster, name):
    objects = placed(cluster, rendered(name)) + hooks_of(name)
    try:
        assert server_side_apply(cluster, objects) == []
    finally:
        remove(cluster, objects)


def test_a_deprecated_kind_and_an_unknown_field_would_be_found(cluster):
    old = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "old", "namespace": "default"}}
    assert any("deprecated" in warning for warning in server_side_apply(cluster, [old]))
    deployment = workload_of(rendered("service"))
    with pytest.raises(AssertionError, match="replicaz"):
        server_side_apply(cluster, [{**deployment, "spec": {**deployment["spec"], "replicaz": 1}}])


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_kubectl_applies_a_folder_of_ones_own_and_changes_nothing_the_second_time(cluster, tmp_path):
    name = "second-scheduler, everything"
    own = composed(name.partition(",")[0], KUSTOMIZED[name], tmp_path)

    def kubectl(*words):
        return run(cluster, [KUBECTL, *words, "-k", str(own)])

    assert len(kubectl("apply").splitlines()) == len(rendered(name))
    try:
        before = without_status(cluster, rendered(name))
        kubectl("apply")
        assert without_status(cluster, rendered(name)) == before
    finally:
        kubectl("delete", "--ignore-not-found", "--wait=false")  # the Secret goes with its ServiceAccount


def run(plane, words, **options):
    """Run kubectl or helm as the administrator; return what it prints. Warnings are errors."""
    done = subprocess.run(
        [str(word) for word in words],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig())},
        capture_output=True, text=True, check=False, **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    return done.stdout


# --- the chart ------------------------------------------------------------------------------------------------------


@pytest.fixture
def helm(cluster):
    """Run helm in kube-system; releases are uninstalled in the end."""

    def run_helm(*words):
        return run(cluster, [HELM, *words, "--namespace", "kube-system"])

    yield run_helm
    for release in run_helm("list", "--short").split():
        run_helm("uninstall", release)


needs_helm = pytest.mark.skipif(not HELM, reason=NO_HELM)


@needs_helm
@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
@pytest.mark.parametrize("path", EXAMPLES.values(), ids=[path.name for path in EXAMPLES.values()])
def test_kubectl_finds_nothing_wrong_with_what_an_example_would_apply(cluster, path):
    text = run(
        cluster, [HELM, "template", "extender", CHART, "--namespace", "kube-system", "--values", path, KUBERNETES]
    )
    dry = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-"]
    applied = run(cluster, [KUBECTL, *dry], input=text)
    name = f"helm examples/{path.name}"
    assert len(applied.splitlines()) == len(rendered(name) + hooks_of(name))


@needs_helm
def test_helm_installs_two_releases_side_by_side_and_uninstalls_one(cluster, helm):
    helm("install", "extender", CHART)
    helm("install", "other", CHART, "--set", "variant=ControlPlane")
    helm("uninstall", "other")
    helm("upgrade", "extender", CHART, "--set", "config.mode=Enforce")
    configuration = cluster.api.get("ConfigMap", "extender", "kube-system")["data"]["extender.yaml"]
    assert yaml.safe_load(configuration)["mode"] == "Enforce"
    assert cluster.api.find("ClusterRoleBinding", "extender")


@needs_helm
def test_helm_refuses_a_second_scheduler_that_is_newer_than_the_api_server(cluster):
    minor = int(cluster.api.request("GET", "/version")["minor"])
    image = f"scheduler.image=registry.k8s.io/kube-scheduler:v1.{minor + 1}.0"
    done = subprocess.run(
        [str(HELM), "install", "extender", str(CHART), "--namespace", "kube-system", "--set", image],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig())}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"scheduler.image: v1.{minor + 1} is newer than the API server, 1.{minor}" in done.stderr


def labelled(plane, release):
    """(kind, name) of all objects of the release, of every kind that the chart or a controller makes."""
    kinds = {f"{one['apiVersion']}/{one['kind']}" for name in CHARTED for one in rendered(name) + hooks_of(name)}
    kinds |= {"apps/v1/ReplicaSet", "apps/v1/ControllerRevision", "discovery.k8s.io/v1/EndpointSlice", "v1/Pod"}
    selector = f"app.kubernetes.io/instance={release}"
    return {
        (kind.rpartition("/")[2], one["metadata"]["name"])
        for kind in kinds
        for one in plane.api.list(kind, labelSelector=selector)
        if "deletionTimestamp" not in one["metadata"]
    }


@needs_helm
def test_helm_upgrades_from_each_example_to_the_next_and_leaves_nothing_behind(cluster, helm):
    """One release is all variants in turn; what the next one does not have is removed with each upgrade."""
    made_by_controllers = {"ReplicaSet", "ControllerRevision", "EndpointSlice", "Pod"}
    for number, (name, path) in enumerate(EXAMPLES.items()):
        helm("upgrade" if number else "install", "extender", CHART, "--values", path)
        found = {one for one in labelled(cluster, "extender") if one[0] not in made_by_controllers}
        assert found == {(one["kind"], one["metadata"]["name"]) for one in rendered(name)}
    helm("uninstall", "extender")
    cluster.api.wait_until(lambda: not labelled(cluster, "extender"), 30, "nothing of the release")


def phase_of_the_test(plane):
    """The phase of the test pod; None without one."""
    pod = plane.api.find("Pod", "extender-test", "kube-system")
    return pod and pod["status"]["phase"]


def helm_test(plane, phase):
    """Run `helm test`, and end its pod in this phase once it exists, as a kubelet would; return helm's exit code."""
    words = [str(HELM), "test", "extender", "--namespace", "kube-system"]
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig())}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as testing:
        try:
            plane.api.wait_until(lambda: phase_of_the_test(plane) == "Pending", 30, "the test pod")
            kinds = {kind for kind, name in labelled(plane, "extender") if name == "extender-test"}
            assert kinds == {"Pod", "Service", "NetworkPolicy"}
            plane.api.patch_status("Pod", "extender-test", {"phase": phase}, "kube-system")
            return testing.wait(60)
        finally:
            testing.kill()


@needs_helm
@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_helm_test_leaves_its_pod_behind_and_the_readme_removes_what_is_left(cluster, helm):
    helm("install", "extender", CHART, "--set", "networkPolicy.enabled=true")
    assert helm_test(cluster, "Failed") != 0
    assert phase_of_the_test(cluster) == "Failed"
    assert helm_test(cluster, "Succeeded") == 0  # its pod replaces the one that failed
    assert phase_of_the_test(cluster) == "Succeeded"

    def left():
        return {kind for kind, name in labelled(cluster, "extender") if name == "extender-test"}

    cluster.api.wait_until(lambda: left() == {"Pod"}, 20, "the deletion of all but the pod")
    assert helm_test(cluster, "Failed") != 0
    helm("uninstall", "extender")
    assert phase_of_the_test(cluster) == "Failed"
    (words,) = [words for words in commands() if "-l" in words]
    run(cluster, [KUBECTL, *words[1:]])
    cluster.api.wait_until(lambda: not labelled(cluster, "extender"), 30, "nothing of the release")


# --- side by side ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OVERLAYS)
def test_static_pods_leave_another_variant_as_it_is(cluster, name):
    """Applied after it and deleted again, as with kubectl apply, kubectl delete and a kubelet."""
    first, second = rendered(name), placed(cluster, rendered(STATIC))
    server_side_apply(cluster, first)
    try:
        before = without_status(cluster, first)
        server_side_apply(cluster, second)
        assert without_status(cluster, first) == before
        remove(cluster, second)
        assert without_status(cluster, first) == before
    finally:
        remove(cluster, first + second)


@pytest.mark.parametrize("name", ["second-scheduler", "service"])
def test_the_disruption_budget_of_a_deployment_counts_its_pods_beside_static_pods(cluster, name):
    """A pod that a Node owns, matched by the budget, would make it allow no disruption at all."""
    api, objects = cluster.api, placed(cluster, rendered(name) + rendered(STATIC))
    try:
        server_side_apply(cluster, objects)
        deployment = api.get("Deployment", "extender", "kube-system")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        owner = api.create(workload("ReplicaSet", "extender-1", 2, labels, namespace="kube-system", owner=deployment))
        api.create(replica(owner, labels))

        def status():
            return api.get("PodDisruptionBudget", "extender", "kube-system")["status"]

        api.wait_until(lambda: status().get("expectedPods") == 2, 20, "two expected pods")
    finally:
        remove(cluster, objects)
        api.delete("ReplicaSet", "extender-1", "kube-system")
        api.delete("Pod", "extender-1-a", "kube-system", grace=0)


def replica(owner, labels):
    about = {"name": "extender-1-a", "namespace": "kube-system", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**about, "ownerReferences": [owner_reference(owner | {"apiVersion": "apps/v1"})]},
        "spec": {"containers": [{"name": "extender", "image": "extender"}]},
    }


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_the_static_pods_user_keeps_its_binding_when_other_overlays_follow(cluster):
    own = kustomize(OVERLAY_FOLDERS / STATIC / "rbac")
    server_side_apply(cluster, own)
    before = without_status(cluster, own)
    for name in OVERLAYS:
        server_side_apply(cluster, rendered(name))
        remove(cluster, rendered(name))
    assert without_status(cluster, own) == before
    remove(cluster, own)
