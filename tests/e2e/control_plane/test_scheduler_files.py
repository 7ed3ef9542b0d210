"""kube-scheduler's own binary on the tables of tests/config/scheduler: it starts with a file, or ends with an error.

It needs no API server for that: a configuration is read, and extenders and profiles are built, before any connection.
"""

import subprocess

import pytest

from tests.config.scheduler import test_file as files
from tests.config.scheduler.test_startup import HEAD, REFUSED, STARTS, new_data
from tests.e2e.control_plane.lab.binaries import binary

KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return new_data(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def starts(tmp_path):
    """Whether kube-scheduler starts with a file, which names no kubeconfig."""

    def starts(text):
        path, kubeconfig = tmp_path / "config.yaml", tmp_path / "kubeconfig"
        path.write_text(text, encoding="utf-8")
        kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
        flags = ("--config", path, "--secure-port=0", "--master=http://127.0.0.1:1", "--leader-elect=false")
        command = [binary("kube-scheduler"), *flags]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            found = any("Starting Kubernetes Scheduler" in line for line in process.stdout)
            process.kill()
        return found

    return starts


def filled(text, data):
    for name, value in data.items():
        text = text.replace(f"${name}$", value)
    return text


@pytest.mark.parametrize("name", REFUSED)
def test_kube_scheduler_does_not_start(starts, data, name):
    assert not starts(HEAD + filled(REFUSED[name][0], data))


@pytest.mark.parametrize("name", STARTS)
def test_kube_scheduler_starts(starts, data, name):
    assert starts(HEAD + filled(STARTS[name], data))


@pytest.mark.parametrize("name", files.STARTS)
def test_kube_scheduler_reads_the_file(starts, name):
    assert starts(files.STARTS[name][0])


@pytest.mark.parametrize("name", files.REFUSED)
def test_kube_scheduler_refuses_the_file(starts, name):
    assert not starts(files.REFUSED[name][0])
