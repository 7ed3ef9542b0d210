"""A pod's command with its environment and its files, started: the kubelet finds it ready, and it is called as said.

The API server is a fake; certificates are made as cert-manager would; ports are free ones.
"""

import ssl

import httpx
import pytest

from tests.e2e.deploy.manifests import extender_of, pod_of, rendered
from tests.e2e.deploy.pod_process import pod_process, tls_files, wait_until
from tests.e2e.deploy.test_manifests import PROBES
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates
from tests.server.conftest import CLUSTER, filter_body


@pytest.fixture(params=["second-scheduler", "service, everything", "control-plane, everything"])
def started(request, tmp_path):
    """(name, address of each listener, certificates) of the pod's process."""
    certificates = Certificates(tmp_path)
    with FakeAPI() as api:
        for one in CLUSTER["items"]:
            api.put(one["kind"], one)
        files = tls_files(certificates, certificates.server())
        with pod_process(request.param, tmp_path, api.url, files) as addresses:
            yield request.param, addresses, certificates


def test_a_pod_is_ready_and_answers_those_who_may_call(started):
    name, addresses, certificates = started
    probes = {probe: extender_of(pod_of(rendered(name)))[probe]["httpGet"] for probe in PROBES}
    admin = addresses["admin"]
    assert {get.get("scheme", "HTTP").lower() for get in probes.values()} == {admin.partition(":")[0]}
    with httpx.Client(verify=False) as kubelet:
        for get in probes.values():
            wait_until(lambda path=get["path"]: kubelet.get(f"{admin}{path}").status_code == 200)
        # Where calls are only observed, it is ready before its cache has synced.
        wait_until(lambda: "extender_cache_ready 1.0" in kubelet.get(f"{admin}/metrics").text)
    url = f"{addresses['scheduler']}/filter"
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    if url.startswith("https"):
        with httpx.Client(verify=context) as anonymous, pytest.raises(httpx.TransportError):
            anonymous.post(url, content=filter_body())
        shown = certificates.client("kube-scheduler")
        context = ssl.create_default_context(cafile=str(certificates.ca_file))
        context.load_cert_chain(shown.certificate, shown.key)
    with httpx.Client(verify=context) as scheduler:
        answer = scheduler.post(url, content=filter_body(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["NodeNames"]
