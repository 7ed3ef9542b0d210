"""What kube-scheduler does with answers to /preempt that are wrong: the facts that docs/wire.md rests on.

The extender is a few lines of this test, so that it can answer what ours never does.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from tests.e2e.control_plane.lab.objects import node, pod, priority_class
from tests.e2e.control_plane.lab.pods_of_all_kinds import clear_pods, settle

UNKNOWN = "00000000-0000-0000-0000-000000000000"


class Extender:
    """An HTTP extender for /preempt alone, which answers {node: [UID]} as `answer(sent)` says."""

    def __init__(self):
        self.sent: list[dict[str, list[str]]] = []
        self.answer = dict
        extender = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                candidates = request["NodeNameToMetaVictims"]
                sent = {name: [one["UID"] for one in it["Pods"]] for name, it in candidates.items()}
                extender.sent.append(sent)
                answered = extender.answer(sent)
                victims = {name: {"Pods": [{"UID": uid} for uid in uids]} for name, uids in answered.items()}
                body = json.dumps({"NodeNameToMetaVictims": victims}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def cluster(plane):
    """Three nodes that are full, and one with a taint that keeps it out of /preempt."""
    plane.kubelet.deletion_seconds = 0.1
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    plane.api.create(
        priority_class("high", 1000), priority_class("higher", 2000), *(node(f"n{i}", cpu="4") for i in range(3)),
        node("tainted", cpu="4", taints=[taint]),
    )  # fmt: skip
    return plane


@pytest.fixture(scope="module", params=[False, True], ids=["required", "ignorable"])
def extender(request, cluster):
    with Extender() as started:
        entry = {"urlPrefix": started.url, "preemptVerb": "preempt", "nodeCacheCapable": True,
                 "ignorable": request.param, "httpTimeout": "5s"}  # fmt: skip
        scheduler = cluster.start_scheduler({"extenders": [entry]})
        yield SimpleNamespace(is_ignorable=request.param, server=started, log=lambda: scheduler.log)
        scheduler.stop()


@pytest.fixture
def pods(cluster):
    """UID of each running pod: on n0 to n2 a low one that must go and a small one that need not, one on `tainted`."""
    api = cluster.api
    names = {
        one: api.create(pod(one, cpu, node=on, priority_class=name, grace=1))["metadata"]["uid"]
        for one, cpu, on, name in (
            ("low-0", "3", "n0", None), ("low-1", "3", "n1", None), ("low-2", "3", "n2", None),
            ("small-0", "500m", "n0", None), ("vital-0", "500m", "n0", "higher"), ("apart", "3", "tainted", None),
        )
    }  # fmt: skip
    api.wait_until(lambda: all(one["status"]["phase"] == "Running" for one in api.list("Pod", "default")))
    yield names
    clear_pods(api)


def preempt(cluster, extender, answer):
    """Create a pod for which a low pod must go, answer its first call so and later ones with no candidate.

    Return the pod, its condition's message and the names of the evicted pods.
    """
    answers = iter([answer])
    extender.server.answer = lambda sent: next(answers, lambda sent: {})(sent)
    extender.server.sent.clear()
    began = len(cluster.audit_events())
    cluster.api.create(pod("urgent", "3", priority_class="high"))
    one = settle(cluster.api, "urgent", or_once=lambda: len(extender.server.sent) > 1)
    message = next(it.get("message") for it in one["status"]["conditions"] if it["type"] == "PodScheduled")
    evicted = {
        it.name
        for it in cluster.audit_events()[began:]
        if (it.user, it.resource, it.verb) == ("system:kube-scheduler", "pods", "delete")
    }
    return one, message, evicted


FAILED = {
    "a UID that no pod has": (lambda uids: [UNKNOWN], "n0", "the pod is not found on that node"),
    "a UID of another node": (lambda uids: [uids["low-1"]], "n0", "the pod is not found on that node"),
    "a node that does not exist": (lambda uids: [UNKNOWN], "gone", 'nodeinfo not found for node name "gone"'),
}
"""Wrong entry -> function that returns its UIDs, its node, what kube-scheduler says."""


@pytest.mark.parametrize("wrong", FAILED)
def test_one_wrong_entry_fails_the_whole_response(cluster, extender, pods, wrong):
    victims, on, said = FAILED[wrong]
    one, message, evicted = preempt(cluster, extender, lambda sent: sent | {on: victims(pods)})
    assert set(extender.server.sent[0]) == {"n0", "n1", "n2"}
    assert len(extender.server.sent) == 1
    if extender.is_ignorable:  # as if there were no extender
        assert "Skipped extender as it returned error and has ignorable flag set" in extender.log()
        assert evicted < {"low-0", "low-1", "low-2"}
        assert (len(evicted), one["spec"]["nodeName"][0]) == (1, "n")
    else:
        assert evicted == set()
        assert said in message


def test_a_candidate_without_victims_fails_or_is_left_out(cluster, extender, pods):
    one, message, evicted = preempt(cluster, extender, lambda sent: {"n0": [], "n1": sent["n1"]})
    if extender.is_ignorable:
        assert (evicted, one["spec"]["nodeName"]) == ({"low-1"}, "n1")
    else:
        assert evicted == set()
        assert 'expected at least one victim pod on node "n0"' in message


def test_no_candidate_is_an_answer(cluster, extender, pods):
    _, message, evicted = preempt(cluster, extender, lambda sent: {})
    assert evicted == set()
    assert "no candidate node for preemption" in message
    assert "Skipped" not in message


FOLLOWED = {
    "more victims than sent": ("n0", ["low-0", "small-0"]),
    "a victim of higher priority": ("n0", ["low-0", "vital-0"]),
    "too few victims": ("n0", ["small-0"]),
    "a node that was not sent": ("tainted", ["apart"]),
}
"""What kube-scheduler does not check -> node, victims."""


@pytest.mark.parametrize("case", FOLLOWED)
def test_what_resolves_is_followed_without_a_check(cluster, extender, pods, case):
    on, victims = FOLLOWED[case]
    one, _, evicted = preempt(cluster, extender, lambda sent: {on: [pods[name] for name in victims]})
    assert evicted == set(victims)
    makes_room = "low-0" in victims
    assert one["spec"].get("nodeName") == (on if makes_room else None)
    assert len(extender.server.sent) == (1 if makes_room else 2)  # asked again once the pods have gone, for nothing
