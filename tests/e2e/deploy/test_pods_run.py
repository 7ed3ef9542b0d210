"""A pod's command with its environment and its files, started: the kubelet finds it ready, and it is called as said.

The API server is a fake; certificates are made as cert-manager would; ports are free ones.
"""

import re
import signal
import ssl
import subprocess
import sys
import time

import httpx
import pytest
import yaml

from tests.e2e.deploy.manifests import extender_of, of_kind, pod_of, rendered, scheduler_file
from tests.e2e.deploy.test_manifests import PROBES
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates
from tests.server.conftest import CLUSTER, filter_body


@pytest.fixture(params=["second-scheduler", "service, everything", "control-plane, everything"])
def started(request, tmp_path):
    """(name, address of each listener, certificates) of the pod's process."""
    pod = pod_of(rendered(request.param))
    container = extender_of(pod)
    certificates = Certificates(tmp_path)
    mounted(pod, request.param, tmp_path, certificates)
    with FakeAPI() as api:
        for one in CLUSTER["items"]:
            api.put(one["kind"], one)
        access = {
            "clusters": [{"name": "fake", "cluster": {"server": api.url}}],
            "users": [{"name": "fake", "user": {"token": "t"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(access), encoding="utf-8")
        process = run(container, tmp_path)
        log = tmp_path / "log"
        try:
            wait_until(lambda: len(listeners(log)) == 2 or process.poll() is not None)
            assert process.poll() is None, log.read_text(encoding="utf-8")
            yield request.param, listeners(log), certificates
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


def run(container, directory):
    """The container's process, with the directory for /etc/extender and free ports."""

    def here(text):
        return text.replace("/etc/extender", str(directory))

    env = {one["name"]: here(one["value"]) for one in container["env"]}
    ports = {"EXTENDER_SERVER__PORT": "0", "EXTENDER_ADMIN__PORT": "0"}
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "extender", *map(here, container["args"])],
            env={"KUBECONFIG": str(directory / "kubeconfig"), "HOME": str(directory), **env, **ports},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def mounted(pod, name, directory, certificates):
    """Write what the pod's volumes hold to where they are mounted, below the directory."""
    (directory / "config").mkdir()
    (directory / "scheduler").mkdir()
    for file, text in scheduler_file(name).items():
        (directory / "scheduler" / file).write_text(text, encoding="utf-8")
    for volume in pod["spec"]["volumes"]:
        if volume["name"] == "config":
            (data,) = [
                one["data"]
                for one in of_kind(rendered(name), "ConfigMap")
                if one["metadata"]["name"] == volume["configMap"]["name"]
            ]
            for file, text in data.items():
                (directory / "config" / file).write_text(text, encoding="utf-8")
        if volume["name"] == "tls":
            pair = certificates.server()
            (directory / "tls").mkdir()
            for file, made in {
                "tls.crt": pair.certificate,
                "tls.key": pair.key,
                "ca.crt": certificates.ca_file,
            }.items():
                (directory / "tls" / file).write_bytes(made.read_bytes())


def listeners(log):
    """Name of the listener -> its address, as far as the log has them."""
    return dict(re.findall(r"(\w+): listening on (https?://[\w.:]+)", log.read_text(encoding="utf-8")))


def wait_until(condition, limit=120.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def local(address):
    return address.replace("0.0.0.0", "127.0.0.1")


def test_a_pod_is_ready_and_answers_those_who_may_call(started):
    name, addresses, certificates = started
    probes = {probe: extender_of(pod_of(rendered(name)))[probe]["httpGet"] for probe in PROBES}
    admin = local(addresses["admin"])
    assert {get.get("scheme", "HTTP").lower() for get in probes.values()} == {admin.partition(":")[0]}
    with httpx.Client(verify=False) as kubelet:
        for get in probes.values():
            wait_until(lambda path=get["path"]: kubelet.get(f"{admin}{path}").status_code == 200)
        # Where calls are only observed, it is ready before it has a picture.
        wait_until(lambda: "extender_cache_ready 1.0" in kubelet.get(f"{admin}/metrics").text)
    url = f"{local(addresses['scheduler'])}/filter"
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    if url.startswith("https"):
        with httpx.Client(verify=context) as nobody, pytest.raises(httpx.TransportError):
            nobody.post(url, content=filter_body())
        shown = certificates.client("kube-scheduler")
        context = ssl.create_default_context(cafile=str(certificates.ca_file))
        context.load_cert_chain(shown.certificate, shown.key)
    with httpx.Client(verify=context) as scheduler:
        answer = scheduler.post(url, content=filter_body(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["NodeNames"]
