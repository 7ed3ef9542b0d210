"""deploy/kind/steps on a real control plane: what `make kind` does once a cluster is there.

Its nodes are objects, so the second kube-scheduler and the extender run as processes, with the files, the permissions
and the identities that helm installed.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.e2e.control_plane.lab.objects import node
from tests.e2e.control_plane.lab.plane import CONTROLLERS, DEPLOYMENT_CONTROLLERS, ControlPlane
from tests.e2e.control_plane.lab.second_scheduler import kube_scheduler, kubeconfig_of_secret
from tests.e2e.control_plane.lab.service import Service
from tests.e2e.deploy.manifests import DEPLOY, HELM, KUBECTL, NO_HELM, NO_KUBECTL

pytestmark = [
    pytest.mark.skipif(not HELM, reason=NO_HELM),
    pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL),
]

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """A control plane with the nodes of deploy/kind/kind.yaml, whose Deployments and default scheduler work."""
    directory = tmp_path_factory.mktemp("plane")
    with ControlPlane(directory, controllers=(*CONTROLLERS, *DEPLOYMENT_CONTROLLERS)) as started:
        taint = {"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"}
        control_plane = node("extender-control-plane", labels={CONTROL_PLANE_LABEL: ""}, taints=[taint])
        started.api.create(control_plane, node("extender-worker"), node("extender-worker2"))
        started.start_scheduler()
        yield started


@pytest.fixture(scope="module")
def steps(plane, tmp_path_factory):
    """A function that runs a step of deploy/kind/steps with the lab's kubeconfig."""
    programs = tmp_path_factory.mktemp("programs")
    assert HELM
    assert KUBECTL
    (programs / "helm").symlink_to(os.path.abspath(HELM))
    forwarding = 'case "$*" in *port-forward*) echo "$@" >>"$FORWARDED"; echo "$FORWARDING"; exec sleep 300 ;; esac'
    for name, lines in (
        ("kubectl", f'{forwarding}\nexec {os.path.abspath(KUBECTL)} "$@"'),  # no kubelet forwards a port here
        ("extender", f'exec {sys.executable} -m extender "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n")
        (programs / name).chmod(0o755)
    surroundings = os.environ | {
        "KUBECONFIG": str(plane.kubeconfig()),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "EXTENDER": "extender",
    }

    surroundings.pop("EXTENDER_ADMIN_URL", None)

    def run(step, **environment):
        command = [shutil.which("bash"), str(DEPLOY / "kind" / "steps"), step]
        return subprocess.run(
            command, env=surroundings | environment, capture_output=True, text=True, check=False, timeout=300
        )

    return run


@pytest.fixture(scope="module")
def installed(plane, steps):
    """The extender's admin address, after `install` and with the processes of one of the pods that it made."""
    done = steps("install")
    assert done.returncode == 0, done.stderr
    with started_by_hand(plane) as service:
        yield service.admin_url


@contextlib.contextmanager
def started_by_hand(plane):
    """Run the containers of the Deployment `extender` as processes, as the kubelet would in a pod."""
    api = plane.api
    pod = api.get("Deployment", "extender", "kube-system")["spec"]["template"]["spec"]
    (sidecar,), (container,) = pod["initContainers"], pod["containers"]
    files = {
        name: text
        for one in ("extender", "extender-scheduler")
        for name, text in api.get("ConfigMap", one, "kube-system")["data"].items()
    }
    file = plane.directory / "second-scheduler.yaml"
    file.write_text(files["kube-scheduler.yaml"])
    service = Service(
        plane,
        yaml.safe_load(files["extender.yaml"]) | {"scheduler": {"config": str(file)}},
        kubeconfig=kubeconfig_of_secret(plane, "extender-token"),
        roles=None,
    )
    service.environment |= {
        one["name"]: one["value"] for one in sidecar["env"] if one["name"] == "EXTENDER_SCHEDULER__VERSION"
    }
    identity = plane.service_account_kubeconfig("kube-system", pod["serviceAccountName"])
    config = yaml.safe_load(files["kube-scheduler.yaml"].replace("http://127.0.0.1:8888", service.url))
    text = yaml.safe_dump(config | {"clientConnection": {"kubeconfig": str(identity)}})
    flags = [word for word in container["command"] if word.startswith("--pod-max")]
    with service, kube_scheduler(plane, text, identity, flags=flags):
        yield service


def test_the_second_kube_scheduler_is_of_the_clusters_version(plane, installed):
    pod = plane.api.get("Deployment", "extender", "kube-system")["spec"]["template"]["spec"]
    version = plane.api.request("GET", "/version")["gitVersion"]
    assert pod["containers"][0]["image"] == f"registry.k8s.io/kube-scheduler:{version}"
    assert pod["initContainers"][0]["image"] == "localhost/kube-scheduler-extender:dev"


def test_another_image_of_the_same_tag_makes_other_pods(plane, steps, installed):
    """The kubelet would keep the pods that run, of an image that the nodes have no more."""

    def pod_template():
        return plane.api.get("Deployment", "extender", "kube-system")["spec"]["template"]

    before = pod_template()
    assert before["metadata"]["annotations"]["image"] == ""
    try:
        assert steps("install", IMAGE_ID="sha256:1").returncode == 0
        assert pod_template()["metadata"]["annotations"]["image"] == "sha256:1"
        assert pod_template()["spec"] == before["spec"]
    finally:
        assert steps("install").returncode == 0
    assert pod_template() == before


def test_a_pod_is_evicted_and_explained_and_the_next_run_evicts_another(plane, steps, installed):
    evicted = [preemption(plane, steps, installed) for _ in range(2)]
    assert steps("install").returncode == 0
    evicted.append(preemption(plane, steps, installed))
    assert len(set(evicted)) == 3


def preemption(plane, steps, admin_url):
    """Run the step once and compare what it prints with what happened; return the evicted pod's name."""
    done = steps("preempt", EXTENDER_ADMIN_URL=admin_url)
    assert done.returncode == 0, done.stderr + done.stdout
    (victim,) = re.findall(r"^--- why was batch/(etl-\S+) evicted\?$", done.stdout, re.MULTILINE)
    assert plane.api.find("Pod", victim, "batch") is None
    assert plane.api.get("Pod", "cart", "shop")["spec"]["nodeName"] == "extender-worker2"
    explanation = done.stdout.partition("evicted?\n")[2]
    assert (
        f"evicts batch/{victim} from extender-worker2 for shop/cart: "
        "best of 2 candidates by disruption budget violations, 0 against 1" in explanation
    )
    table = [line.split() for line in explanation.splitlines() if re.match(r" +\d  extender-worker", line)]
    assert [row[1:3] for row in table] == [["extender-worker2", "chosen"], ["extender-worker", "outranked"]]
    web = [one for one in plane.api.list("Pod", "shop") if one["metadata"]["labels"].get("app") == "web"]
    assert [one["status"]["phase"] for one in web] == ["Running", "Running"]
    return victim


def test_the_leaders_pod_is_asked_through_a_port_forward(plane, steps, installed, tmp_path):
    port = installed.rpartition(":")[2]
    done = steps(
        "preempt",
        FORWARDED=str(tmp_path / "forwarded"),
        FORWARDING=f"Forwarding from 127.0.0.1:{port} -> 8889",
    )
    assert done.returncode == 0, done.stderr + done.stdout
    leader = plane.api.get("Lease", "extender-scheduler", "kube-system")["spec"]["holderIdentity"].rpartition("_")[0]
    expected = f"--namespace kube-system port-forward --address 127.0.0.1 pod/{leader} :8889\n"
    assert (tmp_path / "forwarded").read_text() == expected
    missing = [line for line in normalized(expected_output()) if line not in normalized(done.stdout)]
    assert missing == []


def expected_output():
    """What docs/kind.md says that the steps print."""
    page = (DEPLOY.parent / "docs" / "kind.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n\$ make kind\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line for line in block.splitlines() if line != "…"]
    return "\n".join(lines[lines.index("--- find two worker nodes") :])


def normalized(text):
    """The lines of an output without what differs from run to run."""
    text = re.sub(r"\b(etl|web)(-\w+){2}", r"\1-POD", text)
    text = re.sub(r"(pod/|pod )[\w-]+(?=;| 8889)", r"\1LEADER", text)
    text = re.sub(r"--kubeconfig \S+", "--kubeconfig FILE", text)
    text = re.sub(r"preempt-\d+", "preempt-N", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", "TIME", text)
    return [re.sub(r"[\d.]+ ms|  +|─+", " ", line) for line in text.splitlines()]


def test_a_step_that_fails_shows_the_pods_and_says_what_to_look_at(plane, steps, installed):
    done = steps("preempt", EXTENDER_ADMIN_URL="http://127.0.0.1:1")
    assert done.returncode != 0
    assert re.search(r"^shop +pod/cart +1/1 +Running", done.stderr, re.MULTILINE)
    assert done.stderr.splitlines()[-1].startswith("error: failed: why was batch/etl-")
    assert "? (look at: kubectl -n kube-system logs deployment/extender" in done.stderr.splitlines()[-1]
