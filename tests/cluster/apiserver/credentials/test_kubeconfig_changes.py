"""D8: a kubeconfig that changes while it is in use: what the next connection uses, and what becomes of open watches."""

import logging
from pathlib import Path

import pytest

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from tests.cluster.apiserver.credentials.kubeconfigs import PODS, SECRET, inline, kubeconfig
from tests.cluster.watch.reflector_rig import RecordingStore, Running
from tests.fakes.api_server import FakeAPI
from tests.fakes.clock import Clock

WATCH = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "0"}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def connect(clock):
    servers = []

    def connect_(path: str) -> ApiServer:
        servers.append(ApiServer.connect(path, clock=clock))
        return servers[-1]

    yield connect_
    for server in servers:
        server.close()


@pytest.fixture
def write(tmp_path, tls_api, certificates):
    """Write the kubeconfig: the CA of now, inline, and the token or the user given."""

    def write_(user=None, **cluster) -> str:
        cluster = {"server": tls_api.url, "certificate-authority-data": inline(certificates.ca_file)} | cluster
        return kubeconfig(tmp_path / "config", user or {"token": "good"}, cluster)

    return write_


def poll(server, clock, times=3):
    """Ask a few times, 2 s apart, as reflectors do that retry; the last answer is the one that counts."""
    for left in reversed(range(times)):
        clock.now += 2.0
        try:
            server.get(PODS)
        except (ApiError, ApiUnreachable):
            if not left:
                raise


def test_D8_an_inline_CA_that_was_rotated_is_used_by_the_next_connection(write, connect, clock, tls_api, certificates):
    server = connect(write())
    server.get(PODS)
    tls_api.stop()
    certificates.rotate()
    tls_api.start()
    with pytest.raises(ApiUnreachable, match="certificate verify failed"):
        poll(server, clock)
    write()
    poll(server, clock)


def test_D8_an_inline_client_certificate_that_was_rotated_is_shown(write, connect, clock, tls_api, certificates):
    def client(name):
        pair = certificates.client(name)
        return {"client-certificate-data": inline(pair.certificate), "client-key-data": inline(pair.key)}

    tls_api.tokens = set()
    server = connect(write(client("first")))
    server.get(PODS)
    tls_api.stop()
    certificates.rotate()
    tls_api.start()
    write(client("second"))
    poll(server, clock)


def test_D8_an_address_that_has_changed_is_where_the_next_request_goes(tmp_path, connect, clock, api):
    with FakeAPI() as moved:
        server = connect(kubeconfig(tmp_path / "config", {"token": "good"}, {"server": api.url}))
        server.get(PODS)
        kubeconfig(tmp_path / "config", {"token": "good"}, {"server": moved.url})
        poll(server, clock)
        assert server.host == moved.url
        assert len(moved.requests) >= 1


def test_D8_open_watches_end_when_address_or_TLS_changes_and_go_on_when_a_token_does(
    tmp_path, connect, clock, api, caplog
):
    caplog.set_level(logging.INFO)
    api.tokens = {"good", "better"}
    server = connect(kubeconfig(tmp_path / "config", {"token": "good"}, {"server": api.url}))
    with server.stream(PODS, WATCH) as stream, FakeAPI() as moved:
        kubeconfig(tmp_path / "config", {"token": "better"}, {"server": api.url})
        poll(server, clock)
        assert api.requests[-1].headers["authorization"] == "Bearer better"
        assert api.open_watches("Pod") == 1
        kubeconfig(tmp_path / "config", {"token": "better"}, {"server": moved.url})
        poll(server, clock)
        assert list(stream.lines()) == []
    assert sum("reloaded" in record.message for record in caplog.records) == 2


def test_D8_a_reflector_follows_its_kubeconfig_to_another_server(tmp_path, connect, clock, api):
    with FakeAPI() as moved:
        moved.put("Pod", {"metadata": {"name": "there", "namespace": "default"}, "spec": {"containers": []}})
        server = connect(kubeconfig(tmp_path / "config", {"token": "good"}, {"server": api.url}))
        with Running("Pod", server, store := RecordingStore()):
            api.wait_for(lambda: api.open_watches("Pod") == 1)
            kubeconfig(tmp_path / "config", {"token": "good"}, {"server": moved.url})
            poll(server, clock)
            store.wait_for(lambda: store.names == {"there"})


@pytest.mark.parametrize("content", ["", "a: [b", f"{{users: {SECRET}", "apiVersion: v1\nkind: Config\n"])
def test_D8_a_kubeconfig_that_is_half_written_is_told_once_and_changes_nothing(
    content, tmp_path, write, connect, clock, tls_api, caplog
):
    tls_api.tokens = {"good", "better"}
    path = write()
    server = connect(path)
    Path(path).write_text(content)
    for _ in range(20):
        poll(server, clock)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "keeping the old ones" in caplog.text
    assert SECRET not in caplog.text
    assert tls_api.requests[-1].headers["authorization"] == "Bearer good"
    write({"token": "better"})
    poll(server, clock)
    assert tls_api.requests[-1].headers["authorization"] == "Bearer better"


def test_D8_a_kubeconfig_that_is_gone_changes_nothing(write, connect, clock, tls_api, caplog):
    path = write()
    server = connect(path)
    Path(path).unlink()
    for _ in range(20):
        poll(server, clock)
    assert len(caplog.records) == 1
    assert tls_api.requests[-1].headers["authorization"] == "Bearer good"


def test_D8_an_exec_plugin_runs_again_only_if_its_kubeconfig_changes(tmp_path, write, connect, clock):
    runs, plugin = tmp_path / "runs", tmp_path / "plugin"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"good"}}'
    plugin.write_text(f"#!/bin/sh\necho run >> {runs}\necho '{answer}'\n")
    plugin.chmod(0o755)
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    server = connect(write({"exec": spec}))
    poll(server, clock, times=20)
    assert runs.read_text().count("run") == 1
    write({"exec": spec | {"args": ["again"]}})
    poll(server, clock, times=20)
    assert runs.read_text().count("run") == 2
