"""Every way in that users have: each test loads real files, and where it matters asks a real server with them."""

import base64
import os
import select
import socket
import socketserver
import sys
import threading

import pytest

from extender.cluster.apiserver import credentials
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import CredentialsError
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from tests.cluster.apiserver.credentials.kubeconfigs import PODS, SECRET, ask, inline, kubeconfig
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates

# --- a pod's service account ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def incluster_config():
    """Imported here: it takes seconds, which every run that only collects the tests would pay."""
    from kubernetes.config import incluster_config

    return incluster_config


@pytest.fixture
def in_a_pod(monkeypatch, tmp_path, tls_api, certificates, incluster_config):
    token = tmp_path / "token"
    token.write_text("good")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(tls_api.port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificates.ca_file))
    return token


def test_a_pod_uses_its_service_account(in_a_pod):
    server = ApiServer.connect()
    server.get(PODS)
    assert server.place == "the pod's service account"
    server.close()


def test_the_namespace_is_the_pod_s_or_the_context_s_or_default(in_a_pod, tmp_path):
    assert credentials.load().namespace == "default"
    (tmp_path / "namespace").write_text("shop\n")
    assert credentials.load().namespace == "shop"
    context = {"name": "main", "context": {"cluster": "main", "user": "main", "namespace": "batch"}}
    given = {"token": "good"}, {"server": "https://127.0.0.1:1"}
    assert credentials.load(kubeconfig(tmp_path / "plain", *given)).namespace == "default"
    assert credentials.load(kubeconfig(tmp_path / "named", *given, contexts=[context])).namespace == "batch"


def test_C10_a_service_account_token_is_read_again(in_a_pod, tls_api):
    server = ApiServer.connect()
    server.get(PODS)
    tls_api.tokens = {"rotated"}
    in_a_pod.write_text("rotated\n")
    server.get(PODS)
    server.close()


def test_a_given_kubeconfig_comes_before_the_pod(in_a_pod, tmp_path, api):
    ask(kubeconfig(tmp_path / "config", {"token": "good"}, {"server": api.url}))
    assert len(api.requests) == 1


def test_a_pod_without_the_authority_says_so(in_a_pod, monkeypatch, tmp_path, incluster_config):
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="the pod's service account: Service certification file does not exist"):
        credentials.load()


def test_without_a_token_file_it_is_no_pod(in_a_pod):
    in_a_pod.unlink()
    with pytest.raises(CredentialsError, match=r"^kubeconfig ~/.kube/config: no such file, and this is not a pod"):
        credentials.load()


# --- which kubeconfig, which context --------------------------------------------------------------------------------


def test_the_default_kubeconfig_is_in_the_home_directory(tmp_path, api):
    kubeconfig(tmp_path / "home/.kube/config", {"token": "good"}, {"server": api.url})
    ask()


def test_KUBECONFIG_names_several_files_and_what_comes_first_wins(tmp_path, monkeypatch):
    first = kubeconfig(tmp_path / "a", {"token": "good"}, {"server": "https://a"}, context="a")
    second = kubeconfig(tmp_path / "b", {"token": "good"}, {"server": "https://b"}, context="b")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    assert credentials.load().configuration.host == "https://a"
    assert credentials.load(context="b").configuration.host == "https://b"


def test_a_context_may_be_named(tmp_path):
    path = kubeconfig(
        tmp_path / "config",
        contexts=[{"name": name, "context": {"cluster": name}} for name in ("dev", "prod")],
        clusters=[{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("dev", "prod")],
        **{"current-context": "dev"},
    )
    assert credentials.load(path).configuration.host == "https://dev"
    assert credentials.load(path, "prod").configuration.host == "https://prod"
    with pytest.raises(CredentialsError, match=r"config: unknown context 'test' \(known: dev, prod\)"):
        credentials.load(path, "test")


TO_USER_C = "current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\nclusters: [{name: b}]"

BROKEN = {
    "no such file": (None, "no such file$"),
    "empty": ("", "not a kubeconfig"),
    "a list": ("- a\n- b\n", "not a kubeconfig"),
    "text": (SECRET, "not a kubeconfig"),
    "not YAML": (f"users: [{SECRET}\n  x: {{", "not YAML at line"),
    "entries without a name": (f"current-context: a\nusers:\n- token: {SECRET}\n", "not a kubeconfig"),
    "entries that are text": (f"current-context: a\nusers: [{SECRET}]\n", "not a kubeconfig"),
    "no current-context": (f"users: []\ntoken: {SECRET}", "no current-context"),
    "no such cluster": (
        "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]",
        r"context a: unknown cluster 'b' \(known: none\)",
    ),
    "no such user": (
        TO_USER_C,
        "unknown user 'c'",
    ),
    "no server": (
        "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b}]",
        "its cluster has no server",
    ),
    "a user that is text": (
        "\n".join([TO_USER_C, f"users: [{{name: c, user: {SECRET}}}]"]),
        "the user 'c' is not a mapping",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_kubeconfig_is_told_in_one_sentence_without_quoting_it(case, tmp_path):
    content, message = BROKEN[case]
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match=message) as caught:
        credentials.load(str(path))
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"client-certificate": "gone.crt", "token": SECRET}, "File does not exist: .*gone.crt"),
        ({"client-certificate-data": SECRET + "!"}, "context main"),
        ({"tokenFile": "gone"}, "the token file .*gone: No such file"),
        ({"token": f"{SECRET} {SECRET}"}, "not a valid token"),
        ({"token": SECRET, "as": "admin"}, "impersonation"),
        ({"exec": {"command": "x", "apiVersion": "v1", "env": [{"value": SECRET}]}}, "apiVersion must be one of"),
        (
            {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "env": [{"value": SECRET}]}},
            "invalid args or env",
        ),
        ({"auth-provider": {"name": "oidc", "config": {"client-secret": SECRET}}}, "context main: Invalid kube-config"),
    ],
)
def test_a_broken_user_is_told_without_quoting_it(user, message, tmp_path):
    path = kubeconfig(tmp_path / "config", user, {"server": "https://127.0.0.1:1"})
    with pytest.raises(CredentialsError, match=message) as caught:
        credentials.load(path)
    assert SECRET not in str(caught.value)


# --- tokens and passwords -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [{"token": "good"}, {"token": "good\n"}, {"tokenFile": "token"}])
def test_a_token_may_stand_in_the_kubeconfig_or_in_a_file_beside_it(user, tmp_path, api):
    (tmp_path / "token").write_text("good\n")
    ask(kubeconfig(tmp_path / "config", user, {"server": api.url}))


def test_C10_a_tokenFile_is_read_again_and_comes_before_a_token(tmp_path, api):
    (tmp_path / "token").write_text("good")
    user = {"tokenFile": "token", "token": "stale"}
    now = [0.0]
    server = ApiServer.connect(kubeconfig(tmp_path / "config", user, {"server": api.url}), clock=lambda: now[0])
    server.get(PODS)
    (tmp_path / "token").write_text("rotated")
    now[0] = 31.0
    with pytest.raises(ApiError):
        server.get(PODS)
    server.close()
    assert api.requests[1].headers["authorization"] == "Bearer rotated"


def test_a_name_and_a_password_are_basic_authentication(tmp_path, api):
    with pytest.raises(ApiError):
        ask(kubeconfig(tmp_path / "config", {"username": "me", "password": "x"}, {"server": api.url}))
    assert api.requests[0].headers["authorization"].startswith("Basic ")


# --- certificates, server names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["files", "relative files", "data"])
def test_a_client_certificate_is_shown(form, tmp_path, tls_api, certificates):
    pair = certificates.client()
    authority = certificates.ca_file
    tls_api.tokens = set()
    if form == "data":
        user = {"client-certificate-data": inline(pair.certificate), "client-key-data": inline(pair.key)}
        cluster = {"certificate-authority-data": inline(authority)}
    elif form == "files":
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        cluster = {"certificate-authority": str(authority)}
    else:
        user = {"client-certificate": pair.certificate.name, "client-key": pair.key.name}
        cluster = {"certificate-authority": authority.name}
    ask(kubeconfig(tmp_path / "config", user, cluster | {"server": tls_api.url}))


def test_tls_server_name_is_the_name_that_the_certificate_must_have(tmp_path):
    certificates = Certificates(tmp_path, names=("api.internal",))
    cluster = {"certificate-authority": str(certificates.ca_file)}
    with FakeAPI(tls=certificates) as api:
        cluster["server"] = api.url
        with pytest.raises(ApiUnreachable, match="certificate verify failed: IP address mismatch"):
            ask(kubeconfig(tmp_path / "config", None, cluster))
        ask(kubeconfig(tmp_path / "config", None, cluster | {"tls-server-name": "api.internal"}))
        with pytest.raises(ApiUnreachable, match="certificate verify failed: Hostname mismatch"):
            ask(kubeconfig(tmp_path / "config", None, cluster | {"tls-server-name": "other.internal"}))


def test_insecure_skip_tls_verify_takes_any_certificate_and_says_so_once(tmp_path, tls_api, caplog):
    cluster = {"server": tls_api.url, "insecure-skip-tls-verify": True}
    server = ApiServer.connect(kubeconfig(tmp_path / "config", {"token": "good"}, cluster))
    server.get(PODS)
    server.get(PODS)
    server.close()
    assert caplog.text.count("certificate is not verified") == 1


def test_without_an_authority_the_system_decides(tmp_path, tls_api):
    with pytest.raises(ApiUnreachable, match="certificate verify failed"):
        ask(kubeconfig(tmp_path / "config", {"token": "good"}, {"server": tls_api.url}))


# --- proxies --------------------------------------------------------------------------------------------------------


class Tunnel(socketserver.ThreadingTCPServer):
    """An HTTP proxy that knows CONNECT, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _TunnelHandler)
        self.heads: list[str] = []

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _TunnelHandler(socketserver.StreamRequestHandler):
    server: Tunnel

    def handle(self) -> None:
        head = b"".join(iter(self.rfile.readline, b"\r\n")).decode()
        self.server.heads.append(head)
        host, port = head.split()[1].split(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            pairs = {self.request: upstream, upstream: self.request}
            while all(self._pass(one, pairs[one]) for one in select.select(list(pairs), [], [])[0]):
                pass

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> bool:
        try:
            data = source.recv(65536)
            sink.sendall(data)
        except OSError:
            return False
        return bool(data)


def test_proxy_url_leads_through_the_proxy_with_its_password_whatever_NO_PROXY_says(
    tmp_path, tls_api, certificates, monkeypatch
):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    cluster = {"server": tls_api.url, "certificate-authority": str(certificates.ca_file)}
    with Tunnel() as tunnel:
        cluster["proxy-url"] = f"http://me:p%40ss@{tunnel.place}"
        ask(kubeconfig(tmp_path / "config", {"token": "good"}, cluster))
        assert tunnel.heads[0].startswith(f"CONNECT 127.0.0.1:{tls_api.port} HTTP/1.")
        assert base64.b64encode(b"me:p@ss").decode() in tunnel.heads[0]
        assert "good" not in tunnel.heads[0]


def test_a_proxy_that_is_gone_is_told(tmp_path, tls_api, certificates):
    with Tunnel() as tunnel:
        gone = f"http://{tunnel.place}"
    cluster = {"server": tls_api.url, "certificate-authority": str(certificates.ca_file), "proxy-url": gone}
    with pytest.raises(ApiUnreachable, match="refused"):
        ask(kubeconfig(tmp_path / "config", {"token": "good"}, cluster))


def test_a_proxy_from_the_environment_respects_NO_PROXY(tmp_path, tls_api, certificates, monkeypatch):
    cluster = {"server": tls_api.url, "certificate-authority": str(certificates.ca_file)}
    path = kubeconfig(tmp_path / "config", {"token": "good"}, cluster)
    with Tunnel() as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{tunnel.place}")
        ask(path)
        assert len(tunnel.heads) == 1
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        ask(path)
        assert len(tunnel.heads) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [("ftp://127.0.0.1", "its server or proxy-url cannot be used"), ("socks5://127.0.0.1:1", "package PySocks")],
)
def test_a_proxy_of_a_kind_that_cannot_be_used_is_told(url, message, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "socks", None)
    path = kubeconfig(tmp_path / "config", {"token": SECRET}, {"server": "https://127.0.0.1:1", "proxy-url": url})
    with pytest.raises(CredentialsError, match=message):
        ApiServer.connect(path)


# --- files within limits --------------------------------------------------------------------------------------------


def refusal(*load):
    with pytest.raises(CredentialsError) as caught:
        credentials.load(*load)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_H7_only_regular_files_are_read_as_kubeconfig_token_certificate_and_authority(tmp_path):
    fifo, path = tmp_path / "fifo", tmp_path / "config"
    os.mkfifo(fifo)
    server = {"server": "https://127.0.0.1"}
    assert refusal(str(fifo)) == f"kubeconfig {fifo}: is a FIFO, not a regular file"
    assert refusal(str(tmp_path)) == f"kubeconfig {tmp_path}: is a directory"
    user = kubeconfig(path, {"tokenFile": str(fifo)}, server)
    assert refusal(user) == f"the token file {fifo}: is a FIFO, not a regular file"
    authority = kubeconfig(path, {"token": SECRET}, server | {"certificate-authority": str(fifo)})
    assert refusal(authority).endswith(f"{fifo}: is a FIFO, not a regular file") or "does not exist" in refusal(
        authority
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("users: " + "[" * 25_000, "is nested deeper than 100 levels"),
        ("#" * (1 << 20) + "\n", "is larger than 1 MiB"),
        (
            "a0: &a0 {k: v}\n"
            + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 20)),
            "its aliases expand to more than 10,000 values",
        ),
        ("users: \0", "not YAML"),
    ],
    ids=["nesting", "size", "merge keys", "a NUL byte"],
)
def test_H7_a_kubeconfig_is_refused_for_its(tmp_path, text, reason):
    (tmp_path / "config").write_text(text)
    assert refusal(str(tmp_path / "config")) == f"kubeconfig {tmp_path / 'config'}: {reason}"


def test_H7_a_token_is_no_large_file(tmp_path):
    (tmp_path / "token").write_text("x" * (64 << 10) + "x")
    with pytest.raises(CredentialsError, match="is larger than 64 KiB"):
        credentials.read_token(tmp_path / "token")
