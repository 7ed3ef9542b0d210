"""All manifests of deploy/, rendered: the overlays with and without components, and the chart with its values.

kubectl and helm render; a test that needs one of them is skipped where it is not found.

Rule: what is rendered once is not changed; tests read it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.deploy.schemas import VERSIONS

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
OVERLAYS = DEPLOY / "kustomize" / "overlays"
CHART = DEPLOY / "helm" / "kube-scheduler-extender"

HELM = os.environ.get("HELM") or shutil.which("helm")
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
KUBERNETES = f"--kube-version={VERSIONS[-1]}"
"""For helm, which else takes the version that was new when helm itself was made."""

NO_HELM = "no helm: set HELM, or see .ci/tools"
NO_KUBECTL = "no kubectl: set KUBECTL, or see .ci/tools"

Object = dict[str, Any]

KUSTOMIZED: Mapping[str, tuple[str, ...]] = {
    "second-scheduler": (),
    "second-scheduler, everything": ("careful", "bind", "events", "pod-groups", "network-policy", "../../monitoring"),
    "service": (),
    "service, everything": (
        "strict", "bind", "events", "pod-groups", "cert-manager", "network-policy-scheduler", "monitoring-tls",
        "scheduler-config",
    ),
    "control-plane": (),
    "control-plane, everything": ("careful", "bind", "events", "pod-groups", "scheduler-config-host"),
}  # fmt: skip
"""Name, which begins with its overlay -> components."""

EXAMPLES = {f"helm examples/{path.name}": path for path in sorted((CHART / "examples").glob("*.yaml"))}
"""Name -> file of the chart."""

CHARTED: Mapping[str, Object] = {
    **{name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in EXAMPLES.items()},
    # What the examples leave out.
    "helm second-scheduler, everything": {
        "config": {
            "mode": "Enforce",
            "server": {"httpTimeout": "10s"},
            "bind": {"enabled": True},
            "preemption": {"preset": "careful", "ranking": ["PDBViolations", "PodGroups", "HighestPriority"]},
        },
        "scheduler": {
            "name": "careful-scheduler",
            "extender": {"bindVerb": "bind", "prioritizeVerb": "prioritize", "weight": 2},
            "image": "registry.example.com:5000/kube-scheduler:v1.36.2",
        },
        "networkPolicy": {"enabled": True},
        "podAnnotations": {"example.com/note": "hello"},
    },
    "helm service, everything": {
        "variant": "Service",
        "config": {"mode": "Enforce", "bind": {"enabled": True}, "events": {"enabled": False}},
        "tls": {"certManager": True, "allowedNames": ["system:kube-scheduler", "other"]},
        "networkPolicy": {"enabled": True, "schedulerCIDRs": ["10.0.0.0/28", "10.0.1.0/28"]},
        "monitoring": {"podMonitor": True, "rules": True, "dashboard": True},
        "image": {"repository": "registry.example.net/extender", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "replicas": 1,
        "listenAddress": "::",
        "podLabels": {"team": "platform"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
    },
    "helm control-plane, everything": {
        "variant": "ControlPlane",
        "config": {"mode": "Enforce", "bind": {"enabled": True}, "events": {"enabled": True}},
        "networkPolicy": {"enabled": True},
        "fullnameOverride": "other",
        "env": [{"name": "TZ", "value": "UTC"}],
    },
}
"""Name -> values."""


def composed(overlay: str, components: Sequence[str], directory: Path) -> Path:
    """Write a kustomization that adds components to an overlay, beside a link to deploy/; return its directory."""
    (directory / "deploy").symlink_to(DEPLOY)
    own = directory / "own"
    own.mkdir()
    file = {
        "resources": [f"../deploy/kustomize/overlays/{overlay}"],
        "components": [f"../deploy/kustomize/components/{one}" for one in components],
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
    return own


SCHEDULER_FILE = DEPLOY / "scheduler" / "two-profiles.yaml"
"""What stands for a kube-scheduler's own configuration where a user brings it: in a ConfigMap, or on the node."""


def scheduler_file(name: str) -> dict[str, str]:
    """Return the KubeSchedulerConfiguration that is mounted in that extender, file name -> content; {}: none is."""
    pod = pod_of(rendered(name))
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    mounts = {one["mountPath"]: volumes[one["name"]] for one in extender_of(pod)["volumeMounts"]}
    volume = mounts.get("/etc/extender/scheduler")
    if volume is None:
        return {}
    if "hostPath" in volume or volume["configMap"]["name"] == "kube-scheduler-config":
        return {"config.yaml": SCHEDULER_FILE.read_text(encoding="utf-8")}
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind(rendered(name), "ConfigMap")}
    held: dict[str, str] = maps[volume["configMap"]["name"]]
    return held


STATIC = "static-pod"
"""A file for a node, and what it may do: the overlay and the folder in it."""


def those(is_wanted: Callable[[str], bool]) -> list[Any]:
    """Names of what is rendered and wanted, as parameters of a test."""
    no_helm = pytest.mark.skipif(not HELM, reason=NO_HELM)
    kustomized = [name for name in (*KUSTOMIZED, STATIC) if is_wanted(name)]
    return [*kustomized, *(pytest.param(name, marks=no_helm) for name in CHARTED if is_wanted(name))]


ALL = those(lambda _: True)
"""Names of all that is rendered, as parameters of a test."""


def is_second_scheduler(name: str) -> bool:
    return "second-scheduler" in name


def has_scheduler_file(name: str) -> bool:
    """Whether a kube-scheduler's own configuration is mounted there."""
    is_asked_for = "schedulerConfig" in CHARTED[name] if name in CHARTED else "everything" in name
    return is_second_scheduler(name) or is_asked_for


@cache
def rendered(name: str) -> list[Object]:
    """The objects of one of ALL, without those that exist only during `helm test`."""
    if name in CHARTED:
        return [one for one in _charted(name) if not is_test_hook(one)]
    if name == STATIC:
        return kustomize(OVERLAYS / STATIC) + kustomize(OVERLAYS / STATIC / "rbac")
    overlay = name.partition(",")[0]
    with tempfile.TemporaryDirectory() as directory:
        return kustomize(composed(overlay, KUSTOMIZED[name], Path(directory)))


@cache
def _charted(name: str) -> list[Object]:
    return chart(CHARTED[name])


def hooks_of(name: str) -> list[Object]:
    """The objects of one of ALL that exist only during `helm test`; [] without a chart."""
    return [one for one in _charted(name) if is_test_hook(one)] if name in CHARTED else []


def is_test_hook(one: Object) -> bool:
    return one["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"


def chart(values: Object, *options: str, directory: Path | str = CHART) -> list[Object]:
    """All objects of the chart with these values; CalledProcessError with helm's words if it refuses them."""
    assert HELM is not None
    fixed = ["--namespace", "kube-system", "--values", "-", KUBERNETES]
    printed = subprocess.run(
        [HELM, "template", "extender", str(directory), *fixed, *options],
        input=yaml.safe_dump(values), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [one for one in yaml.safe_load_all(printed.stdout) if one]


def kustomize(directory: Path) -> list[Object]:
    """The objects that `kubectl kustomize` prints for the directory; skips the test without kubectl."""
    if KUBECTL is None:
        pytest.skip(NO_KUBECTL)
    printed = subprocess.run([KUBECTL, "kustomize", str(directory)], capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    return [one for one in yaml.safe_load_all(printed.stdout) if one]


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    return [one for one in objects if one["kind"] in kinds]


def workload(objects: Sequence[Object]) -> Object:
    """The one Deployment, DaemonSet or Pod that stays."""
    (found,) = [one for one in of_kind(objects, "Deployment", "DaemonSet", "Pod") if not is_test_hook(one)]
    return found


def pod_of(objects: Sequence[Object]) -> Object:
    """The pod that it makes: metadata and spec."""
    found = workload(objects)
    pod: Object = found if found["kind"] == "Pod" else found["spec"]["template"]
    return pod


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def extender_of(pod: Object) -> Object:
    """The container that is the extender."""
    (found,) = [one for one in containers(pod) if one["name"] == "extender"]
    return found
