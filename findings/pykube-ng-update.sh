#!/usr/bin/env bash
# Package:   pykube-ng 23.6.0 (PyPI)
# Date:      2026-11-27
# Expected:  an object is changed in its dictionary `obj` and stored by update() (documentation, "How to update a
#            Deployment image"): a taint taken out of the list is gone afterwards. is_strategic, a parameter that is
#            true by default, is named after the strategic merge patch, which replaces the list of taints as a whole.
# Seen:      update() merges lists by position and never shortens one. With the first of two taints removed it sends
#            the second one twice, once with the value of the removed one; with all removed it sends both back.
#            Finalizers, owners and containers cannot be removed this way, either; is_strategic=False does it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pykube-ng==23.6.0
cat >look.py <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from pykube import HTTPClient, KubeConfig, Node


class PrintPatches(BaseHTTPRequestHandler):
    def do_PATCH(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(json.dumps(json.loads(body)["spec"]["taints"], sort_keys=True))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = HTTPServer(("localhost", 0), PrintPatches)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = HTTPClient(KubeConfig.from_url(f"http://localhost:{server.server_port}"))


def node() -> Node:
    taints = [{"key": "a", "value": "gpu", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}]
    return Node(api, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}})


first_removed, all_removed, by_merge_patch = node(), node(), node()
del first_removed.obj["spec"]["taints"][0]
first_removed.update()
all_removed.obj["spec"]["taints"].clear()
all_removed.update()
del by_merge_patch.obj["spec"]["taints"][0]
by_merge_patch.update(is_strategic=False)
PY
venv/bin/python look.py >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
[{"effect": "NoSchedule", "key": "b", "value": "gpu"}, {"effect": "NoSchedule", "key": "b"}]
[{"effect": "NoExecute", "key": "a", "value": "gpu"}, {"effect": "NoSchedule", "key": "b"}]
[{"effect": "NoSchedule", "key": "b"}]
SEEN
