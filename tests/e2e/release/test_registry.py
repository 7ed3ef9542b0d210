"""The chart in a real registry: the release's own step pushes it, and it is installed from there as from the folder."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from extender import __version__
from tests.e2e.control_plane.lab.process import Process, answers, free_port
from tests.e2e.deploy.manifests import CHART, HELM, NO_HELM, chart
from tests.e2e.release.pipelines import named, repository, run

REGISTRY = shutil.which("docker-registry")

pytestmark = [
    pytest.mark.skipif(not HELM, reason=NO_HELM),
    pytest.mark.skipif(not REGISTRY, reason="no docker-registry: install Debian's package of that name"),
]


@pytest.fixture
def registry(tmp_path):
    """The host and port of a registry without TLS."""
    address = f"127.0.0.1:{free_port()}"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
    config = tmp_path / "registry.yml"
    config.write_text(yaml.safe_dump({"version": 0.1, "storage": storage, "http": {"addr": address}}))
    process = Process("registry", [REGISTRY, "serve", config], tmp_path, lambda: answers(f"http://{address}/v2/"))
    process.start()
    yield address
    process.stop()


def test_the_chart_is_pushed_by_the_release_and_installed_from_the_registry(registry, tmp_path):
    if "--plain-http" not in helm("push", "--help"):
        pytest.skip("this helm pushes over TLS only")
    release, tools = tmp_path / "build" / "release", tmp_path / "build" / "tools"
    release.mkdir(parents=True)
    tools.mkdir()
    (tools / "helm").write_text(f'#!/bin/sh\nexec "{HELM}" "$@" --plain-http\n')
    (tools / "helm").chmod(0o755)
    helm("package", CHART, "--destination", release)
    repository(tmp_path)
    output = tmp_path / "output"
    step = named("release.yaml", "Push the chart")
    (packed,) = release.iterdir()
    for file_time in (1, 2):  # of a download in another run of the job
        os.utime(packed, (file_time, file_time))
        done = run(step, tmp_path, {"CHARTS": f"{registry}/charts", "GITHUB_OUTPUT": str(output)})
        assert done.returncode == 0, done.stderr
    first, digest = re.findall(r"^digest=(sha256:[0-9a-f]{64})$", output.read_text(), re.MULTILINE)
    assert first == digest, "a second push replaced the first"
    manifest = httpx.get(
        f"http://{registry}/v2/charts/kube-scheduler-extender/manifests/{__version__}", trust_env=False,
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )  # fmt: skip
    assert manifest.headers["docker-content-digest"] == digest
    address = f"oci://{registry}/charts/kube-scheduler-extender"
    assert chart({}, "--version", __version__, "--plain-http", directory=address) == chart({})


def helm(*words: str | Path) -> str:
    """Run helm; return what it prints."""
    return subprocess.run([str(HELM), *map(str, words)], capture_output=True, text=True, check=True).stdout
