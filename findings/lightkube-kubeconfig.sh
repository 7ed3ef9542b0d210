#!/usr/bin/env bash
# Packages:  lightkube 1.0.1 and, as a yardstick, the official client kubernetes 37.0.2 (PyPI)
# Date:      2026-11-28
# Expected:  lightkube reads a kubeconfig as kubectl does, or says what it does not support; its table of differences
#            from kubectl is about contexts, clusters and users that are not there.
# Seen:      exec plugins of client.authentication.k8s.io/v1, which has been the stable version since 1.22 and what
#            cloud providers' tools write, are refused; one of v1beta1 that answers with a certificate ends in a
#            KeyError. A relative tokenFile is looked for in the current directory. A cluster's proxy-url is ignored
#            without a word: the requests go past the proxy.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset no_proxy NO_PROXY
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lightkube==1.0.1 kubernetes==37.0.2
cat >look.py <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kubernetes
from lightkube import Client, KubeConfig
from lightkube.resources.core_v1 import Pod

EXEC = "client.authentication.k8s.io"
asked = []


class Server(BaseHTTPRequestHandler):
    """The API server, and its proxy; a proxy is asked for a whole URL."""

    def do_GET(self) -> None:
        via = "by the proxy" if self.path.startswith("http") else "directly"
        asked.append(f"asked {via} as {self.headers['Authorization']}")
        body = b'{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def serve() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def official(file: str) -> None:
    kubernetes.config.load_kube_config(file)
    kubernetes.client.CoreV1Api().list_namespaced_pod("shop")


def lightkube(file: str) -> None:
    list(Client(config=KubeConfig.from_file(file)).list(Pod, namespace="shop"))


def plugin(version: str, status: dict[str, str]) -> dict[str, object]:
    """Return a user with an exec plugin that prints this status."""
    answer = {"apiVersion": f"{EXEC}/{version}", "kind": "ExecCredential", "status": status}
    exec_ = {"apiVersion": f"{EXEC}/{version}", "interactiveMode": "Never", "command": "echo"}
    return {"exec": exec_ | {"args": [json.dumps(answer)]}}


Path("folder").mkdir()
Path("folder/token").write_text("of-the-file")
pem = {name: Path(f"{name}.pem").read_text() for name in ("certificate", "key")}
certificate = {"clientCertificateData": pem["certificate"], "clientKeyData": pem["key"]}
server, proxy = serve(), serve()
for what, user, cluster in (
    ("exec v1beta1", plugin("v1beta1", {"token": "of-the-plugin"}), {}),
    ("exec v1", plugin("v1", {"token": "of-the-plugin"}), {}),
    ("exec v1beta1, certificate", plugin("v1beta1", certificate), {}),
    ("tokenFile", {"tokenFile": "token"}, {}),
    ("proxy-url", {"token": "t"}, {"proxy-url": proxy}),
):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    Path("folder/config").write_text(json.dumps(config))
    for client in (official, lightkube):
        try:
            client("folder/config")
            seen = asked.pop()
        except Exception as error:
            seen = f"{type(error).__name__}: {error}"
        print(f"{what}, {client.__name__}: {seen}")
PY
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=finding -keyout key.pem -out certificate.pem 2>/dev/null
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
exec v1beta1, official: asked directly as Bearer of-the-plugin
exec v1beta1, lightkube: asked directly as Bearer of-the-plugin
exec v1, official: asked directly as Bearer of-the-plugin
exec v1, lightkube: ConfigError: auth exec api version client.authentication.k8s.io/v1 not implemented
exec v1beta1, certificate, official: asked directly as None
exec v1beta1, certificate, lightkube: KeyError: 'token'
tokenFile, official: asked directly as Bearer of-the-file
tokenFile, lightkube: ConfigError: Token file token not found
proxy-url, official: asked by the proxy as Bearer t
proxy-url, lightkube: asked directly as Bearer t
SEEN
