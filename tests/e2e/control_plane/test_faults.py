"""After each fault of the control plane the extender is ready again by itself, and its cache equals the API server."""

import contextlib
import time

import httpx
import pytest
import yaml

from tests.e2e.control_plane.lab.cache_check import assert_cache_is_current
from tests.e2e.control_plane.lab.keys import Keys, encoded
from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.process import wait_until
from tests.e2e.control_plane.lab.service import RBAC, Service


@pytest.fixture(scope="module", autouse=True)
def cluster(plane):
    plane.api.create(priority_class("high", 1000), *(node(f"n{i}", cpu="4") for i in range(4)))
    plane.api.create(*(pod(f"low-{i}", "3", node=f"n{i}") for i in range(4)))


@pytest.fixture(scope="module")
def running_service(plane):
    with Service(plane, {"cluster": {"staleAfter": "5s"}}) as started:
        yield started


@pytest.fixture
def service(plane, running_service):
    """A service that is ready; after the test it is so again, and its cache equals the API server after a change."""
    running_service.wait_ready()
    yield running_service
    assert running_service.is_running
    change(plane.api)
    running_service.wait_ready(40.0)
    assert_cache_is_current(running_service, plane.api)
    assert "Traceback" not in running_service.log


def change(api):
    """Create a pod, change another and delete a third, as far as they exist."""
    number = len(api.list("Pod"))
    api.create(pod(f"more-{number}-{time.monotonic_ns()}", "100m", node="n0"))
    api.patch("Node", "n1", {"metadata": {"labels": {"example.com/changed": str(time.monotonic_ns())}}})
    if more := [one for one in api.list("Pod") if one["metadata"]["name"].startswith("more-")][:-2]:
        api.delete("Pod", more[0]["metadata"]["name"], grace=0)


def is_unready(service):
    return not service.is_ready()


# --- the API server and etcd


def test_changes_are_missed_and_compacted_while_the_service_is_stopped(plane, service):
    service.pause()
    for _ in range(3):
        change(plane.api)
    plane.compact()
    plane.restart_api_server()  # its watch cache begins after the compaction: 410 for the resourceVersions of before
    service.resume()


def test_the_api_server_is_killed_and_started(plane, service):
    plane.restart_api_server()


def test_etcd_and_the_api_server_are_killed_and_started(plane, service):
    plane.api_server.kill()
    plane.etcd.kill()
    plane.etcd.start()
    plane.api_server.start()


def test_the_api_server_is_stopped_for_some_seconds(plane, service):
    plane.api_server.pause()
    try:
        with pytest.raises(httpx.TimeoutException):
            plane.api.request("GET", "/readyz", timeout=4.0)
    finally:
        plane.api_server.resume()


def test_d6_ready_soon_after_the_api_server_is_back(plane, service):
    """Absent for long enough for the backoff to grow; it answers 403 while it starts. tests/cluster/watch/test_retry.py
    has the waits."""
    plane.api_server.kill()
    absent_since = time.monotonic()
    wait_until(lambda: is_unready(service), 30, "the service not to be ready")
    wait_until(lambda: time.monotonic() - absent_since > 12.5, 30, "the backoff to grow to 12s")
    plane.api_server.start()
    service.wait_ready(30.0)
    assert "forbidden, retrying" not in service.log


# --- credentials


def test_the_service_account_is_deleted_and_created_again(plane, service):
    plane.api.delete("ServiceAccount", "extender", "kube-system")
    plane.api.apply(RBAC / "rbac" / "rbac.yaml")
    plane.restart_api_server()  # ends the watches; the old token belongs to a service account that is gone
    wait_until(lambda: "401 Unauthorized" in service.log, 40, "the old token to be rejected")
    plane.write_token("kube-system", "extender")


def test_d8_a_changed_ca_in_the_kubeconfig_is_followed(plane):
    kubeconfig = plane.service_account_kubeconfig("kube-system", "extender", label="other-ca")
    right = kubeconfig.read_text()
    content = yaml.safe_load(right)
    other = Keys(plane.directory / "other-keys")
    content["clusters"][0]["cluster"]["certificate-authority-data"] = encoded(other.ca_file)
    kubeconfig.write_text(yaml.safe_dump(content))
    service = Service(plane, name="other-ca", kubeconfig=kubeconfig)
    with contextlib.ExitStack() as stack:
        stack.callback(service.stop)
        service.start(wait=False)
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in service.log, 30, "the other CA to be rejected")
        assert is_unready(service)
        kubeconfig.write_text(right)
        service.wait_ready(30.0)


# --- calls without a waiting caller


def test_d7_calls_that_were_given_up_assume_nothing(plane):
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in plane.api.list("Pod")}
    offered = {f"n{i}": {"Pods": [{"UID": uids[f"low-{i}"]}], "NumPDBViolations": 0} for i in range(4)}
    with Service(plane, {"server": {"httpTimeout": "1s"}}, name="short-timeout") as service:
        service.pause()
        for number in range(3):
            preemptor = plane.api.create(pod(f"urgent-{number}", "3", priority_class="high"))
            with pytest.raises(httpx.ReadTimeout):
                service.call("preempt", {"Pod": preemptor, "NodeNameToMetaVictims": offered}, timeout=1.0)
        service.resume()
        asked = {"Pod": plane.api.create(pod("later", "100m")), "NodeNames": list(offered)}
        assert sorted(service.call("filter", asked).json()["NodeNames"]) == sorted(offered)
        assert service.metric("extender_answers_total", verb="preempt") == 3
        assert service.metric("extender_assumed_pods") == 0
