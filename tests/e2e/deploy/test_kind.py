"""deploy/kind: what `make kind` and `make k3d` do before a cluster is there. No container engine is needed.

kind, k3d and the container engines are stubs, which record how they are called and refuse what is not documented. What
follows is in tests/e2e/control_plane/test_kind_steps.py.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.e2e.deploy.manifests import DEPLOY, HELM, NO_HELM, ROOT, chart, containers, extender_of, of_kind, pod_of
from tests.e2e.deploy.schemas import VERSIONS, mistakes

FOLDER = DEPLOY / "kind"

BASICS = ("bash", "dirname", "env", "grep", "make", "mkdir", "mv", "rm", "sed")
"""Programs that the script or make itself may need."""

IMAGE = "localhost/kube-scheduler-extender:dev"

DOCUMENTED = {
    "kind get clusters": "",
    "kind get kubeconfig": "--name --internal",
    "kind create cluster": "--name --config --image --kubeconfig --retain --wait",
    "kind load image-archive": "--name --nodes",
    "kind delete cluster": "--name --kubeconfig",
    "k3d cluster list": "--no-headers --output --token",
    "k3d cluster create": "--agents --agents-memory --api-port --config --enforce-registry-port-match --env --gpus "
    "--host-alias --host-pid-mode --image --k3s-arg --k3s-node-label --kubeconfig-switch-context "
    "--kubeconfig-update-default --lb-config-override --network --no-image-volume --no-lb --no-rollback --port "
    "--registry-config --registry-create --registry-use --runtime-label --runtime-ulimit --servers --servers-memory "
    "--subnet --timeout --token --volume --wait",
    "k3d cluster delete": "--all --config",
    "k3d image import": "--cluster --keep-tarball --keep-tools --mode",
    "k3d kubeconfig get": "--all",
    "ENGINE info": "--format",
    "ENGINE build": "--tag --file --build-arg --no-cache --platform --quiet",
    "ENGINE save": "--output",
    "ENGINE image inspect": "--format",
}
"""Command -> its options by https://kind.sigs.k8s.io, https://k3d.io/stable/usage/commands and those of the engines; an
engine's are those that docker, nerdctl and podman share."""

STUB = """\
import json, os, pathlib, sys

name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
state = pathlib.Path(os.environ["STATE"])
program = name if name in ("kind", "k3d") else "ENGINE"
documented = json.loads((state / "documented").read_text())
command = next((one for one in documented if f"{program} {' '.join(words)} ".startswith(one + " ")), None)
if command is None:
    sys.exit(f"{name}: no command {words}")
options = {word.partition("=")[0] for word in words if word.startswith("-")}
unknown = options - set(documented[command].split())
if unknown:
    sys.exit(f"{name}: no options {unknown}")
with (state / "calls").open("a") as calls:
    calls.write(json.dumps([name, *words]) + "\\n")
with (state / "environment").open("a") as seen:
    seen.write(json.dumps([command, dict(os.environ)]) + "\\n")
cluster = state / "cluster"
match command:
    case "ENGINE info":
        sys.exit((state / f"{name}-is-down").exists())
    case "ENGINE save":
        print("the layers of", words[-1])
    case "ENGINE image inspect":
        print("sha256:1234")
    case "kind create cluster" | "k3d cluster create":
        cluster.touch()
    case "kind delete cluster" | "k3d cluster delete":
        cluster.unlink(missing_ok=True)
    case "kind get clusters":
        print("another", *(["extender"] if cluster.exists() else []), sep="\\n")
    case "k3d cluster list":
        sys.exit(not cluster.exists())
    case "kind get kubeconfig" | "k3d kubeconfig get":
        print("the kubeconfig")
    case "kind load image-archive" | "k3d image import":
        assert pathlib.Path(words[2]).read_text() == "the layers of localhost/kube-scheduler-extender:dev\\n"
"""


class Machine:
    """A folder with a copy of deploy/kind, and a PATH with some programs only."""

    def __init__(self, directory, *programs):
        self.checkout = directory / "checkout"
        self._path, self._state = directory / "bin", directory / "state"
        shutil.copytree(FOLDER, self.checkout / "deploy" / "kind")
        shutil.copy(ROOT / "Makefile", self.checkout)
        for folder in (self._path, self._state):
            folder.mkdir()
        for name in BASICS:
            (self._path / name).symlink_to(shutil.which(name))
        for name in programs:
            (self._path / name).write_text(f"#!{sys.executable}\n{STUB}")
            (self._path / name).chmod(0o755)
        (self._state / "documented").write_text(json.dumps(DOCUMENTED))

    def run(self, *words, **environment):
        kept = {"PATH": str(self._path), "STATE": str(self._state), "HOME": str(self._state)}
        return subprocess.run(
            words, cwd=self.checkout, env=kept | environment, capture_output=True, text=True, check=False, timeout=60
        )

    def cluster(self, *words, **environment):
        """Run deploy/kind/cluster; return the commands that it ran since the last time."""
        done = self.run("deploy/kind/cluster", *words, **environment)
        assert done.returncode == 0, done.stderr
        return self.calls()

    def calls(self):
        file = self._state / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [" ".join(json.loads(line)) for line in lines]

    def environment_of(self, command):
        lines = map(json.loads, (self._state / "environment").read_text().splitlines())
        return [environment for one, environment in lines if one == command][-1]

    def remove_programs(self, *names):
        for name in names:
            (self._path / name).unlink()

    def stop_engine(self, name):
        (self._state / f"{name}-is-down").touch()


KIND = ("kind", "kubectl", "helm")
K3D = ("k3d", "kubectl", "helm")


# --- what is missing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "programs", "message"),
    [
        ("kind", (), "make kind needs kind, kubectl, helm; not on the PATH: kind kubectl helm"),
        ("kind", ("docker", "kubectl", "helm"), "make kind needs kind, kubectl, helm; not on the PATH: kind"),
        ("k3d", ("docker", "k3d", "kubectl"), "make k3d needs k3d, kubectl, helm; not on the PATH: helm"),
        (
            "kind",
            KIND,
            "make kind needs a container engine that runs and that you may use: docker or nerdctl or podman",
        ),
        ("k3d", (*K3D, "podman"), "make k3d needs a container engine that runs and that you may use: docker"),
    ],
)
@pytest.mark.parametrize("way", ["make", "script"])
def test_what_is_missing_is_said_in_a_line_before_anything_is_done(tmp_path, way, tool, programs, message):
    machine = Machine(tmp_path, *programs)
    before = sorted(machine.checkout.rglob("*"))
    done = machine.run("make", tool) if way == "make" else machine.run("deploy/kind/cluster", tool, "up")
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert (done.stdout, lines) == ("", [f"error: {message}"])
    assert sorted(machine.checkout.rglob("*")) == before
    assert machine.calls() == []


def test_an_engine_that_does_not_run_is_none(tmp_path):
    machine = Machine(tmp_path, *KIND, "docker")
    machine.stop_engine("docker")
    done = machine.run("deploy/kind/cluster", "kind", "check")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert machine.calls() == ["docker info"]


@pytest.mark.parametrize("words", [(), ("kind",), ("minikube", "up"), ("kind", "fill")])
def test_other_words_print_the_usage(tmp_path, words):
    done = Machine(tmp_path, *KIND, "docker").run("deploy/kind/cluster", *words)
    assert done.returncode == 2
    assert "deploy/kind/cluster kind|k3d down " in done.stderr


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        (("docker",), "make kind-down needs kind; not on the PATH: kind"),
        (
            ("kind",),
            "make kind-down needs a container engine that runs and that you may use: docker or nerdctl or podman",
        ),
    ],
)
def test_to_remove_a_cluster_fewer_programs_are_needed(tmp_path, programs, message):
    done = Machine(tmp_path, *programs).run("make", "kind-down")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == f"error: {message}"


def test_steps_refuses_to_take_the_cluster_of_your_own_kubeconfig(tmp_path):
    """It may have a release of the same name."""
    machine = Machine(tmp_path, *KIND)
    for unset in ({}, {"KUBECONFIG": ""}):
        done = machine.run("deploy/kind/steps", "install", **unset)
        assert done.returncode != 0
        assert "KUBECONFIG: set it to build/kind.kubeconfig or build/k3d.kubeconfig" in done.stderr
    assert machine.calls() == []


# --- a cluster with an image ----------------------------------------------------------------------------------------


def build_and_load(engine, load):
    inspect = f"{engine} image inspect --format {{{{.Id}}}} {IMAGE}"
    return [f"{engine} build --tag {IMAGE} .", f"{engine} save {IMAGE}", load, inspect]


LOAD_INTO_KIND = "kind load image-archive build/image.tar --name extender"


def test_kind_creates_a_cluster_once_and_loads_the_image_each_time(tmp_path):
    machine = Machine(tmp_path, *KIND, "docker", "podman")
    kubeconfig = machine.checkout / "build" / "kind.kubeconfig"
    create = f"kind create cluster --name extender --config deploy/kind/kind.yaml --kubeconfig {kubeconfig} --wait 5m"
    end = ["kind get kubeconfig --name extender", *build_and_load("docker", LOAD_INTO_KIND)]
    assert machine.cluster("kind", "create") == ["docker info", "kind get clusters", create, *end]
    assert machine.environment_of("ENGINE build")["BUILDX_NO_DEFAULT_ATTESTATIONS"] == "1"
    assert (kubeconfig.read_text(), kubeconfig.stat().st_mode & 0o777) == ("the kubeconfig\n", 0o600)
    assert machine.cluster("kind", "create") == ["docker info", "kind get clusters", *end]
    assert os.listdir(kubeconfig.parent) == ["kind.kubeconfig"]
    assert "KIND_EXPERIMENTAL_PROVIDER" not in machine.environment_of("kind load image-archive")

    machine.remove_programs("kubectl", "helm")
    assert machine.cluster("kind", "down")[1:] == [f"kind delete cluster --name extender --kubeconfig {kubeconfig}"]
    assert not kubeconfig.exists()


def test_up_runs_the_steps_with_the_kubeconfig_and_the_id_of_the_image(tmp_path):
    machine = Machine(tmp_path, *KIND, "docker")
    steps = machine.checkout / "deploy" / "kind" / "steps"
    steps.write_text('#!/usr/bin/env bash\necho "$1 $IMAGE_ID $KUBECONFIG" >>steps.log\n')
    done = machine.run("deploy/kind/cluster", "kind", "up")
    assert done.returncode == 0, done.stderr
    kubeconfig = machine.checkout / "build" / "kind.kubeconfig"
    log = (machine.checkout / "steps.log").read_text()
    assert log.splitlines() == [f"install sha256:1234 {kubeconfig}", f"preempt sha256:1234 {kubeconfig}"]
    assert f"export KUBECONFIG={kubeconfig}. " in done.stdout
    assert machine.calls()[-1] == f"docker image inspect --format {{{{.Id}}}} {IMAGE}"
    steps.write_text("#!/usr/bin/env bash\nexit 3\n")
    assert machine.run("deploy/kind/cluster", "kind", "up").returncode == 3


@pytest.mark.parametrize("engine", ["nerdctl", "podman"])
def test_kind_is_told_of_an_engine_that_is_not_docker(tmp_path, engine):
    machine = Machine(tmp_path, *KIND, "docker", engine)
    machine.stop_engine("docker")
    calls = machine.cluster("kind", "create")
    assert calls[:2] == ["docker info", f"{engine} info"]
    assert calls[-4:] == build_and_load(engine, LOAD_INTO_KIND)
    assert machine.environment_of("kind create cluster")["KIND_EXPERIMENTAL_PROVIDER"] == engine


def test_the_engine_that_the_variable_names_is_the_one(tmp_path):
    machine = Machine(tmp_path, *KIND, "docker", "podman")
    assert machine.cluster("kind", "check", KIND_EXPERIMENTAL_PROVIDER="podman") == ["podman info"]


def test_k3d_creates_a_cluster_once_and_loads_the_image_each_time(tmp_path):
    machine = Machine(tmp_path, *K3D, "docker")
    create = "k3d cluster create extender --config deploy/kind/k3d.yaml --wait --timeout 5m"
    load = "k3d image import build/image.tar --cluster extender --mode auto"
    end = ["k3d kubeconfig get extender", *build_and_load("docker", load)]
    assert machine.cluster("k3d", "create") == ["docker info", "k3d cluster list extender", create, *end]
    assert machine.cluster("k3d", "create") == ["docker info", "k3d cluster list extender", *end]
    assert (machine.checkout / "build" / "k3d.kubeconfig").read_text() == "the kubeconfig\n"
    assert machine.cluster("k3d", "down")[1:] == ["k3d cluster delete extender"]


def test_the_stubs_refuse_what_is_not_documented(tmp_path):
    machine = Machine(tmp_path, "kind")
    assert "no options {'--wat'}" in machine.run("kind", "create", "cluster", "--wat", "5m").stderr
    assert "no command" in machine.run("kind", "load", "everything").stderr


# --- make -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["kind", "k3d"])
def test_make_checks_then_installs_then_runs(tool):
    def recipe(target):
        words = ["make", "-n", target, "VENV=other"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith(("deploy/", "EXTENDER=", "make "))]

    assert recipe(tool) == [
        f"deploy/kind/cluster {tool} check",
        "make --no-print-directory install",
        f"EXTENDER=other/bin/extender deploy/kind/cluster {tool} up",
    ]
    assert recipe(f"{tool}-down") == [f"deploy/kind/cluster {tool} down"]


# --- files ----------------------------------------------------------------------------------------------------------


def documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["pods.yaml", "preemptor.yaml"])
def test_kubernetes_takes_every_object(name, version):
    assert [mistake for one in documents(name) for mistake in mistakes(one, version)] == []


def shape(required, **properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


FLAG = {"type": "boolean"}

CONFIGURATIONS = {
    # pkg/apis/config/v1alpha4/types.go of kind
    "kind.yaml": shape(
        ["kind", "apiVersion", "nodes"],
        kind={"const": "Cluster"},
        apiVersion={"const": "kind.x-k8s.io/v1alpha4"},
        nodes={"type": "array", "items": shape(["role"], role={"enum": ["control-plane", "worker"]})},
    ),
    # pkg/config/v1alpha5/schema.json of k3d
    "k3d.yaml": shape(
        ["apiVersion", "kind"],
        apiVersion={"const": "k3d.io/v1alpha5"},
        kind={"const": "Simple"},
        servers={"type": "number", "minimum": 1},
        agents={"type": "number", "minimum": 0},
        kubeAPI=shape([], hostIP={"type": "string"}, hostPort={"type": "string"}),
        options=shape(
            [],
            k3d=shape([], wait=FLAG, timeout={}, disableLoadbalancer=FLAG, disableImageVolume=FLAG),
            k3s=shape(
                [],
                extraArgs={
                    "type": "array",
                    "items": shape(["arg"], arg={"type": "string"}, nodeFilters={"type": "array"}),
                },
            ),
            kubeconfig=shape([], updateDefaultKubeconfig=FLAG, switchCurrentContext=FLAG),
        ),
    ),
}
"""What these files use of the schemas."""


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_configuration_of_a_cluster_has_the_documented_shape_and_two_workers(name):
    (configuration,) = documents(name)
    assert [error.message for error in Draft202012Validator(CONFIGURATIONS[name]).iter_errors(configuration)] == []
    workers = [one for one in configuration.get("nodes", ()) if one["role"] == "worker"]
    assert (configuration.get("agents") or len(workers)) == 2


@pytest.mark.skipif(not HELM, reason=NO_HELM)
def test_the_chart_takes_the_values_and_the_image_is_the_one_that_is_loaded():
    (values,) = documents("values.yaml")
    objects = chart(values)
    extender = extender_of(pod_of(objects))
    assert (extender["image"], extender["imagePullPolicy"]) == (IMAGE, "Never")
    (held,) = [one for one in of_kind(objects, "ConfigMap") if one["metadata"]["name"] == "extender"]
    assert yaml.safe_load(held["data"]["extender.yaml"])["mode"] == "Enforce"
    cpu = [one["resources"]["requests"]["cpu"] for one in containers(pod_of(objects))]
    assert cpu == ["100m", "100m"]  # three such pods fit on one small node
    (scheduler,) = [one for one in containers(pod_of(objects)) if one["name"] == "kube-scheduler"]
    assert scheduler["command"] == ["kube-scheduler", "--config=/etc/kubernetes/kube-scheduler.yaml"]


def test_the_page_names_the_files():
    page = (ROOT / "docs" / "kind.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+\.yaml)`|\(\.\./deploy/kind/(\w+)\)", page))
    assert {first or second for first, second in named} == {one.name for one in FOLDER.iterdir()}
