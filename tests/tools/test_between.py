"""Programs between two parties in the tests with a real control plane: what passes, and what is kept of it."""

import http.client
import http.server
import json
import ssl
import threading
import time
from urllib.parse import urlsplit

import pytest

from tests.builders import node
from tests.e2e.control_plane.lab.call_recorder import CallRecorder
from tests.e2e.control_plane.lab.delayed_api import DelayedApi
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates

ANSWER = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-a"}], "NumPDBViolations": 0}}}


class Extender(http.server.BaseHTTPRequestHandler):
    """Answers every call with ANSWER, in chunks, and keeps connections."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("X-Extender-Decision", "preempt-1")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        body = json.dumps(ANSWER).encode()
        for piece in (body[:5], body[5:], b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def log_message(self, *about):
        pass


@pytest.fixture
def target():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Extender)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_calls_pass_and_are_kept(target):
    pod = {"metadata": {"namespace": "default", "name": "p", "uid": "u-p"}, "spec": {"priority": 9}}
    sent = {
        "Pod": pod,
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-a"}, {"UID": "u-b"}]}, "n2": {"Pods": None}},
    }
    with CallRecorder(target) as recorder:
        connection = http.client.HTTPConnection(urlsplit(recorder.url).netloc)
        for _ in range(2):  # over one connection
            connection.request("POST", "/preempt", json.dumps(sent))
            assert json.loads(connection.getresponse().read()) == ANSWER
        connection.close()
        first, _ = recorder.calls_of("preempt", "default/p")
    assert (first.uid, first.priority, first.status) == ("u-p", 9, 200)
    assert first.victims == {"n1": ("u-a", "u-b"), "n2": ()}
    assert first.answered_victims == {"n1": ("u-a",)}
    assert first.headers == {"x-extender-decision": "preempt-1"}


def test_watch_events_are_late_and_all_else_is_not(tmp_path):
    certificates = Certificates(tmp_path)
    with FakeAPI(tls=certificates) as api:
        api.put("Node", node("n1").raw)
        proxy = DelayedApi(tmp_path, api.url, certificates.ca_file, certificates.server(), (0.3, 0.3))
        proxy.start()
        context = ssl.create_default_context(cafile=str(certificates.ca_file))
        connection = http.client.HTTPSConnection(urlsplit(proxy.url).netloc, context=context, timeout=30)
        connection.request("GET", "/api/v1/nodes")
        listed = json.loads(connection.getresponse().read())
        assert [one["metadata"]["name"] for one in listed["items"]] == ["n1"]
        version = listed["metadata"]["resourceVersion"]
        connection.request("GET", f"/api/v1/nodes?watch=1&resourceVersion={version}&timeoutSeconds=30")
        watch = connection.getresponse()
        names = []
        for name in ("n2", "n3"):
            put = time.monotonic()
            api.put("Node", node(name).raw)
            names.append(json.loads(watch.readline())["object"]["metadata"]["name"])
            assert time.monotonic() - put >= 0.3
        assert names == ["n2", "n3"]
        watch.close()
        connection.close()
        proxy.stop()
