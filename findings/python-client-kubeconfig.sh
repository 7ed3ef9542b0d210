#!/usr/bin/env bash
# Package:   kubernetes 37.0.2, the official Python client (PyPI)
# Date:      2026-11-28
# Expected:  load_kube_config() gives a kubeconfig the meaning that kubectl gives it, or raises ConfigException. The
#            reference of kubeconfig (v1) says that tokenFile takes precedence over token, and that `as` is the user to
#            act as; the page on authentication that a plugin may return a token and a certificate, which both are used.
# Seen:      `as` is ignored: requests are made as the user itself, who may do more than the one it should act as. A
#            plugin that fails or is not there is logged, and the requests go out without credentials. Of a token and a
#            certificate of a plugin the certificate is dropped. `token` takes precedence over `tokenFile`. A newline at
#            the end of a tokenFile stays, and every request is a ValueError.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kubernetes==37.0.2
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=finding -keyout key.pem -out certificate.pem 2>/dev/null
cat >look.py <<'PY'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kubernetes import client, config

EXEC = "client.authentication.k8s.io/v1"
asked = []
logging.disable()


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked.append(f"{self.headers['Authorization']}, acting as {self.headers['Impersonate-User']}")
        body = b'{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def plugin(command: str, status: dict[str, str]) -> dict[str, object]:
    answer = {"apiVersion": EXEC, "kind": "ExecCredential", "status": status}
    exec_ = {"apiVersion": EXEC, "interactiveMode": "Never", "command": command, "args": [json.dumps(answer)]}
    return {"exec": exec_}


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
both = {
    "token": "of-the-plugin",
    "clientCertificateData": Path("certificate.pem").read_text(),
    "clientKeyData": Path("key.pem").read_text(),
}
Path("line").write_text("of-the-file\n")
Path("plain").write_text("of-the-file")
for what, user in (
    ("as", {"token": "of-an-admin", "as": "somebody-else"}),
    ("plugin fails", plugin("false", {})),
    ("plugin is not there", plugin("no-such-plugin", {})),
    ("plugin returns both", plugin("echo", both)),
    ("token and tokenFile", {"token": "inline", "tokenFile": "plain"}),
    ("tokenFile with a newline", {"tokenFile": "line"}),
):
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    Path("config").write_text(json.dumps(kubeconfig))
    loaded = client.Configuration()
    config.load_kube_config("config", client_configuration=loaded)
    try:
        client.CoreV1Api(client.ApiClient(loaded)).list_namespaced_pod("shop")
        seen = asked.pop()
    except ValueError as error:
        seen = f"ValueError: {error}"
    print(f"{what}: {seen}, certificate {bool(loaded.cert_file)}")
PY
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
as: Bearer of-an-admin, acting as None, certificate False
plugin fails: None, acting as None, certificate False
plugin is not there: None, acting as None, certificate False
plugin returns both: Bearer of-the-plugin, acting as None, certificate False
token and tokenFile: Bearer inline, acting as None, certificate False
tokenFile with a newline: ValueError: Invalid header value b'Bearer of-the-file\n', certificate False
SEEN
