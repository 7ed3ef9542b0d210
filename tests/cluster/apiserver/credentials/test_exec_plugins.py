"""Exec plugins of client.authentication.k8s.io: each is a small script that really runs."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from extender.cluster.apiserver import credentials
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import CredentialsError
from extender.cluster.apiserver.stream import ApiError
from tests.cluster.apiserver.credentials.kubeconfigs import PODS, ask, inline, kubeconfig

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def plugin(directory: Path, status, version: str = V1, before: str = "", **more):
    """Write a plugin that prints this status, and return the exec section that names it."""
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    script = directory / "plugin.py"
    script.write_text(f"import json, os, sys\n{textwrap.dedent(before)}\nprint({json.dumps(credential)!r})\n")
    return {"command": sys.executable, "args": [str(script)], "apiVersion": version} | more


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_an_exec_plugin_gives_a_token(version, tmp_path, api):
    given = plugin(tmp_path, {"token": "good"}, version, interactiveMode="IfAvailable")
    ask(kubeconfig(tmp_path / "config", {"exec": given}, {"server": api.url}))


def test_a_plugin_with_a_relative_path_stands_beside_the_kubeconfig(tmp_path, monkeypatch, api):
    given = plugin(tmp_path, {"token": "good"})
    script = tmp_path / "bin/get-token"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{given["command"]}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.chdir("/")
    path = kubeconfig(tmp_path / "config", {"exec": given | {"command": "bin/get-token"}}, {"server": api.url})
    ask(path)


def test_a_plugin_without_a_path_is_looked_for_in_PATH(tmp_path, monkeypatch, api):
    given = plugin(tmp_path, {"token": "good"})
    monkeypatch.setenv("PATH", str(Path(given["command"]).parent))
    given["command"] = Path(given["command"]).name
    ask(kubeconfig(tmp_path / "config", {"exec": given}, {"server": api.url}))


def test_an_exec_plugin_is_told_the_cluster_and_gets_its_environment(tmp_path, certificates):
    before = """
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        open(os.environ["OUT"], "w").write(json.dumps([info, sys.stdin.read()]))
    """
    out = tmp_path / "out"
    env = [{"name": "OUT", "value": str(out)}]
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
    cluster = {
        "server": "https://127.0.0.1:1",
        "certificate-authority": certificates.ca_file.name,
        "tls-server-name": "x",
        "extensions": [extension],
    }
    given = plugin(tmp_path, {"token": "good"}, before=before, env=env, provideClusterInfo=True)
    credentials.load(kubeconfig(tmp_path / "config", {"exec": given}, cluster))
    info, stdin = json.loads(out.read_text())
    assert stdin == ""
    assert info["apiVersion"] == V1
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://127.0.0.1:1",
            "tls-server-name": "x",
            "certificate-authority-data": inline(certificates.ca_file),
            "config": {"audience": "us"},
        },
    }


def test_an_exec_plugin_may_give_a_certificate_and_a_token(tmp_path, tls_api, certificates):
    pair = certificates.client()
    status = {
        "clientCertificateData": pair.certificate.read_text(),
        "clientKeyData": pair.key.read_text(),
        "token": "ignored",
    }
    cluster = {"server": tls_api.url, "certificate-authority": str(certificates.ca_file)}
    ask(kubeconfig(tmp_path / "config", {"exec": plugin(tmp_path, status)}, cluster))
    assert tls_api.requests[0].headers["authorization"] == "Bearer ignored"


def test_C10_an_exec_plugin_runs_again_on_401_and_before_its_token_expires(tmp_path, api):
    before = f"""
        count = len(open({str(tmp_path / "runs")!r}, "a+").read())
        open({str(tmp_path / "runs")!r}, "a").write("x")
    """
    given = plugin(tmp_path, {"token": "good", "expirationTimestamp": "2020-01-01T00:00:00Z"}, before=before)
    now = [0.0]
    path = kubeconfig(tmp_path / "config", {"exec": given}, {"server": api.url})
    server = ApiServer.connect(path, clock=lambda: now[0])
    server.get(PODS)
    now[0] = 4.0  # it has expired long ago, but the plugin does not run with every request
    server.get(PODS)
    assert (tmp_path / "runs").read_text() == "x"
    now[0] = 5.0
    server.get(PODS)
    assert (tmp_path / "runs").read_text() == "xx"
    api.tokens = set()
    with pytest.raises(ApiError):
        server.get(PODS)
    assert (tmp_path / "runs").read_text() == "xxx"
    server.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"command": "no-such-plugin", "apiVersion": V1}, "exec plugin no-such-plugin: No such file or directory"),
        ({"command": "./no-such-plugin", "apiVersion": V1}, "No such file or directory"),
        ({"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion must be one of"),
        ({"apiVersion": V1}, "command is missing"),
        ({"command": "x", "apiVersion": V1, "interactiveMode": "Always"}, "interactiveMode is Always"),
    ],
)
def test_an_exec_plugin_that_cannot_be_run_is_told(given, message, tmp_path):
    with pytest.raises(CredentialsError, match=message):
        credentials.load(kubeconfig(tmp_path / "config", {"exec": given}, {"server": "https://127.0.0.1:1"}))


@pytest.mark.parametrize("expires", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.5-08:00"])
def test_a_token_may_expire_in_any_year(tmp_path, expires):
    given = plugin(tmp_path, {"token": "good", "expirationTimestamp": expires})
    path = kubeconfig(tmp_path / "config", {"exec": given}, {"server": "https://127.0.0.1:1"})
    lifetime = credentials.load(path).lifetime
    assert lifetime is not None
    assert lifetime > 1e9


@pytest.mark.parametrize(
    ("status", "before", "message"),
    [
        ({}, "sys.exit('no\\nsession')", "exited with status 1: no session$"),
        ({}, "sys.exit(3)", "exited with status 3: no output on stderr"),
        ({}, "", "neither a token nor a client certificate"),
        ({"clientCertificateData": "x"}, "", "neither a token nor a client certificate with its key"),
        ({"token": "a b"}, "", "token: not a valid token"),
        ({"token": "a", "expirationTimestamp": "soon"}, "", "invalid expirationTimestamp"),
        ("x", "", "no ExecCredential with a status"),
        ({}, "print('{}')", "no ExecCredential"),
    ],
)
def test_an_exec_plugin_that_fails_is_told(status, before, message, tmp_path):
    given = plugin(tmp_path, status, before=before)
    with pytest.raises(CredentialsError, match=message):
        credentials.load(kubeconfig(tmp_path / "config", {"exec": given}, {"server": "https://127.0.0.1:1"}))


def test_an_exec_plugin_that_answers_in_another_version_is_refused(tmp_path):
    given = plugin(tmp_path, {"token": "x"}, V1BETA1) | {"apiVersion": V1}
    with pytest.raises(
        CredentialsError, match=r"exec plugin .* returned apiVersion .*, expected client\.authentication\.k8s\.io/v1"
    ):
        credentials.load(kubeconfig(tmp_path / "config", {"exec": given}, {"server": "https://127.0.0.1:1"}))


def test_an_exec_plugin_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "EXEC_PLUGIN_TIMEOUT_SECONDS", 0.1)
    given = plugin(tmp_path, {}, before="import threading; threading.Event().wait()")
    with pytest.raises(CredentialsError, match=r"timed out after 0\.1 seconds"):
        credentials.load(kubeconfig(tmp_path / "config", {"exec": given}, {"server": "https://127.0.0.1:1"}))
