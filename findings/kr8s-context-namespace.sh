#!/usr/bin/env bash
# Package:   kr8s 0.20.15 (PyPI)
# Date:      2026-11-28
# Expected:  kr8s.api(context="staging") works in the namespace of that context, as `kubectl --context staging` does, and
#            in a pod in the namespace that the service account's directory names.
# Seen:      the server and the user are those of the context, the namespace is that of the kubeconfig's
#            current-context: pods of another namespace are listed, or deleted. In a pod it is always "default": the
#            file `namespace` is not read.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kr8s==0.20.15
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=finding -addext subjectAltName=IP:127.0.0.1 \
    -keyout server.key -out ca.crt 2>/dev/null
cat >look.py <<'PY'
import json
import os
import ssl
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kr8s
from kr8s.objects import Pod

warnings.simplefilter("ignore")  # kr8s warns about versions that it was not tested with


class Server(BaseHTTPRequestHandler):
    """Answers what the client asks, and prints which pods it asks for."""

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if "pods" in path:
            print("  GET", path, self.headers["Authorization"])
        version = {"major": "1", "minor": "35", "gitVersion": "v1.35.0"}
        pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}
        body = json.dumps(pods if "pods" in path else version).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("ca.crt", "server.key")
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = str(server.server_port)
cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
config = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "production",
    "clusters": [{"name": "c", "cluster": cluster}],
    "users": [{"name": name, "user": {"token": name}} for name in ("production", "staging")],
    "contexts": [
        {"name": name, "context": {"cluster": "c", "user": name, "namespace": f"shop-{name}"}}
        for name in ("production", "staging")
    ],
}
Path("config").write_text(json.dumps(config))
for context in ("production", "staging"):
    print(context, flush=True)
    list(kr8s.api(kubeconfig="config", context=context).get(Pod))
print("in a pod", flush=True)
Path("token").write_text("of-the-pod")
Path("namespace").write_text("shop")
os.environ |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
list(kr8s.api(kubeconfig="absent", serviceaccount=".").get(Pod))
PY
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
production
  GET /api/v1/namespaces/shop-production/pods Bearer production
staging
  GET /api/v1/namespaces/shop-production/pods Bearer staging
in a pod
  GET /api/v1/namespaces/default/pods Bearer of-the-pod
SEEN
