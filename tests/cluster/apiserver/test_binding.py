"""Binding a pod: what is asked of the API server, what is made of its answers, and what is said when there is none."""

import json
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import Configuration
from msgspec.structs import replace

from extender.cluster.apiserver.binding import MIN_CALL_SECONDS, BindResult, bind
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.wire import ExtenderBindingArgs
from tests.fakes.api_server import Answer, CutBody, Drop, FakeAPI, Fault, Hang
from tests.fakes.clock import Clock

REQUEST = ExtenderBindingArgs(pod_namespace="shop", pod_name="web-0", pod_uid="uid-1", node="worker-1")
BOUND = BindResult("bound", tries=1)
POD = "pod shop/web-0"


def pod(uid="uid-1", on="", name="web-0", **metadata):
    spec = {"containers": []} | ({"nodeName": on} if on else {})
    return {"metadata": {"name": name, "namespace": "shop", "uid": uid, **metadata}, "spec": spec}


@dataclass
class World:
    """A fake API server with one pod, and the way to it."""

    api: FakeAPI
    server: ApiServer
    clock: Clock = field(default_factory=Clock)

    def bind(self, request=REQUEST, deadline=6.0):
        return bind(self.server, request, deadline, clock=self.clock, pause=self.clock.pause)

    def fails(self, verb, action, times=1, skip=0):
        self.api.faults.add(Fault(verb, "Pod", action, times=times, skip=skip))

    @property
    def node(self):
        stored = self.api.get("Pod", "web-0", "shop")
        return stored["spec"].get("nodeName", "") if stored else None

    @property
    def calls(self):
        return [request.verb for request in self.api.requests]


@pytest.fixture
def world():
    with FakeAPI() as api:
        api.put("Pod", pod())
        server = ApiServer(lambda: Credentials(Configuration(host=api.url), "a test"))
        yield World(api, server)
        server.close()


# --- the usual answers --------------------------------------------------------------------------------------------


def test_a_binding_is_created(world):
    assert world.bind() == BOUND
    assert world.node == "worker-1"
    (request,) = world.api.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/pods/web-0/binding")
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "uid-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "worker-1"},
    }


def test_binding_again_is_no_error(world):
    assert world.bind() == BOUND
    assert world.bind() == BOUND
    assert world.calls == ["bind", "bind", "get"]


def test_another_pod_of_that_name_is_not_bound(world):
    world.api.put("Pod", pod(uid="uid-2"))
    assert world.bind() == BindResult("refused", f"{POD} was replaced by a pod with another UID", 1)
    assert world.node == ""


def test_another_pod_of_that_name_on_the_wanted_node_does_not_count(world):
    world.api.put("Pod", pod(uid="uid-2", on="worker-1"))
    assert world.bind().outcome == "refused"


def test_a_pod_on_another_node_is_an_error_that_names_both(world):
    world.api.put("Pod", pod(on="worker-2"))
    assert world.bind() == BindResult("refused", f"{POD} is bound to worker-2 already, not to worker-1", 1)


def test_a_pod_that_is_not_there(world):
    world.api.delete("Pod", "web-0", "shop")
    result = world.bind()
    assert result.outcome == "refused"
    assert result.error == f'{POD} does not exist: the API server answered 404 NotFound: pods "web-0" not found'
    assert world.calls == ["bind"]


def test_a_conflict_that_is_not_about_nodes_is_told_and_not_tried_again(world):
    world.api.put("Pod", pod(deletionTimestamp="2026-01-01T00:00:00Z"))
    result = world.bind()
    assert (result.outcome, result.tries) == ("refused", 1)
    assert result.error.startswith(f"{POD} cannot be bound to worker-1: the API server answered 409 Conflict")
    assert "is being deleted" in result.error
    assert world.calls == ["bind", "get"]


def test_a_missing_permission_is_named(world):
    world.api.forbid("Pod", "bind")
    result = world.bind()
    assert result.outcome == "refused"
    assert "permission to create pods/binding in namespace shop" in result.error
    assert world.calls == ["bind"]


@pytest.mark.parametrize("code", [400, 401, 405, 410, 422])
def test_other_refusals_are_told_and_not_tried_again(world, code):
    world.fails("bind", Answer(code, "because"), times=None)
    result = world.bind()
    assert (result.outcome, result.tries) == ("refused", 1)
    assert result.error.startswith(f"{POD} was not bound to worker-1: the API server answered {code} ")
    assert result.error.endswith(": because")
    assert "get" not in world.calls


# --- no answer ----------------------------------------------------------------------------------------------------

LOST = [Drop(done=True), Drop(done=True, reset=False), CutBody(0), CutBody(20), CutBody(20, reset=False)]


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_an_answer_lost_after_the_work(world, lost):
    world.fails("bind", lost)
    assert world.bind() == BOUND
    assert world.calls == ["bind", "get"]


@pytest.mark.parametrize("reset", [True, False])
def test_a_request_lost_before_the_work_is_sent_again(world, reset):
    world.fails("bind", Drop(reset=reset))
    assert world.bind() == BindResult("bound", tries=2)
    assert world.calls == ["bind", "get", "bind"]


def test_both_lost_once_each_way(world):
    world.fails("bind", Drop())
    world.fails("bind", Drop(done=True))
    assert world.bind() == BindResult("bound", tries=2)
    assert world.calls == ["bind", "get", "bind", "get"]


def test_lost_twice_is_an_error(world):
    world.fails("bind", Drop(), times=2)
    result = world.bind()
    assert (result.outcome, result.tries) == ("unknown", 2)
    assert result.error.startswith(f"{POD} had no node when last read: no answer from the API server")
    assert world.calls == ["bind", "get", "bind", "get"]


@pytest.mark.parametrize("gone", [Drop(), Answer(503), Answer(403), Answer(200, body=b"<html>")], ids=str)
def test_if_the_pod_cannot_be_asked_for_nothing_is_known(world, gone):
    world.fails("bind", Drop(done=True))
    world.fails("get", gone)
    result = world.bind()
    assert result.outcome == "unknown"
    assert result.error.startswith(f"not known whether {POD} was bound to worker-1: no answer from the API server")
    assert "reading the pod failed: " in result.error


def test_an_api_server_that_is_down(world):
    world.api.stop()
    result = world.bind()
    assert (result.outcome, result.tries) == ("unknown", 1)
    assert world.api.requests == []


def test_idle_connections_that_ended_do_no_harm(world):
    assert world.bind() == BOUND
    world.api.put("Pod", pod(uid="uid-2", name="web-1"))
    world.api.drop_connections()
    assert world.bind(replace(REQUEST, pod_name="web-1", pod_uid="uid-2")).outcome == "bound"


def test_a_pod_deleted_while_its_binding_got_lost(world):
    world.fails("bind", Drop())
    world.fails("get", Answer(404))
    assert world.bind() == BindResult("refused", f"{POD} no longer exists", 1)


NO_SUCCESS = [b"", b"ok", b"{}", b'{"kind":"Status","status":"Failure"}', b'{"kind":"Job","status":"Success"}']


@pytest.mark.parametrize("body", NO_SUCCESS)
def test_an_answer_that_does_not_say_success_does_not_count(world, body):
    world.fails("bind", Answer(200, body=body), times=None)
    result = world.bind()
    assert (result.outcome, result.tries) == ("unknown", 2)
    assert "is not a Success status" in result.error


# --- errors that may pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [408, 500, 502, 503, 504])
def test_an_error_of_the_server_and_then_success(world, code):
    world.fails("bind", Answer(code))
    assert world.bind() == BindResult("bound", tries=2)
    assert world.calls == ["bind", "get", "bind"]
    assert world.clock.waits == []


def test_two_errors_of_the_server(world):
    world.fails("bind", Answer(500, "etcd"), times=None)
    result = world.bind()
    assert (result.outcome, result.tries) == ("unknown", 2)
    assert result.error.endswith("the API server answered 500 InternalError: etcd")


def test_too_many_requests_waits_as_told(world):
    world.fails("bind", Answer(429, retry_after=2), times=2)
    assert world.bind() == BindResult("bound", tries=3)
    assert world.clock.waits == [2, 2]
    assert world.calls == ["bind", "bind", "bind"]


@pytest.mark.parametrize("retry_after", [None, 0])
def test_too_many_requests_waits_a_second_at_least(world, retry_after):
    world.fails("bind", Answer(429, retry_after=retry_after))
    assert world.bind() == BindResult("bound", tries=2)
    assert world.clock.waits == [1]


def test_too_many_requests_to_the_end(world):
    world.fails("bind", Answer(429, retry_after=1), times=None)
    result = world.bind(deadline=4.5)
    assert (result.outcome, result.tries) == ("unknown", 5)
    assert world.clock.waits == [1, 1, 1, 1]
    assert world.calls == ["bind"] * 5 + ["get"]
    assert "429 TooManyRequests" in result.error


def test_too_many_requests_for_longer_than_there_is_time(world):
    """The answer is to this try; an earlier one, from a call that the scheduler gave up, may have done it."""
    world.fails("bind", Answer(429, retry_after=60), times=None)
    assert world.bind().outcome == "unknown"
    world.api.put("Pod", pod(on="worker-1"))
    assert world.bind() == BOUND
    assert world.calls == ["bind", "get", "bind", "get"]
    assert world.clock.waits == []


def test_too_many_requests_when_there_is_no_time_for_the_least_wait(world):
    world.fails("bind", Answer(429))
    result = world.bind(deadline=1.1)
    assert (result.outcome, result.tries) == ("unknown", 1)
    assert world.calls == ["bind", "get"]


@pytest.mark.parametrize(("retry_after", "outcome", "pauses"), [(2, "bound", [2]), (60, "unknown", [])])
def test_a_server_that_is_away_is_given_the_time_it_asks_for(world, retry_after, outcome, pauses):
    world.fails("bind", Answer(503, retry_after=retry_after))
    assert world.bind().outcome == outcome
    assert world.clock.waits == pauses


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def hang():
    """Let go in the end, so that the server can stop."""
    action = Hang()
    yield action
    action.release()


def test_a_hang_ends_before_the_deadline(world, hang):
    world.fails("bind", hang, times=None)
    result = bind(world.server, REQUEST, 2)  # with less, a busy machine leaves no time to look whether it was bound
    assert result.outcome == "unknown"
    assert world.calls[:2] == ["bind", "get"]


def test_a_binding_that_hung_is_sent_again(world, hang):
    world.fails("bind", hang)
    assert world.bind(deadline=2) == BindResult("bound", tries=2)
    assert world.calls == ["bind", "get", "bind"]


def test_everything_hangs(world, hang):
    world.fails("*", hang, times=None)
    result = bind(world.server, REQUEST, 0.6)
    assert (result.outcome, result.tries) == ("unknown", 1)
    assert result.error.startswith(f"not known whether {POD} was bound to worker-1")


def test_a_call_that_takes_longer_than_it_was_given(world):
    """Timeouts are between two pieces of an answer, and a 401 makes two calls of one."""

    class Slow:
        def post(self, path, body, *, timeout):
            world.clock.pause(6.0)
            return world.server.post(path, body, timeout)

        get = world.server.get

    world.fails("bind", Drop(done=True))
    result = bind(Slow(), REQUEST, 6.0, clock=world.clock)
    assert result.outcome == "unknown"
    assert result.error.endswith("; no time left to read the pod")
    assert world.calls == ["bind"]


@pytest.mark.parametrize("deadline", [0.0, -3.0, MIN_CALL_SECONDS / 2])
def test_without_time_nothing_is_sent(world, deadline):
    result = world.bind(deadline=deadline)
    assert result == BindResult("refused", "no time left for a first attempt; nothing was sent to the API server", 0)
    assert world.calls == []


# --- names --------------------------------------------------------------------------------------------------------

BAD_NAMES = [".", "..", "../x", "a/b", "a%2Fb", "a?b", "a#b", "A", "-a", "a-", "a b", "a\n", "ä", "\x00", "a" * 254]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("key", ["pod_namespace", "pod_name", "node"])
def test_what_is_no_name_goes_nowhere(world, key, name):
    result = world.bind(replace(REQUEST, **{key: name}))
    spelled = {"pod_namespace": "PodNamespace", "pod_name": "PodName", "node": "Node"}[key]
    assert (result.outcome, result.tries) == ("refused", 0)
    assert result.error.startswith(f"{spelled}: not a valid name")
    assert world.calls == []


@pytest.mark.parametrize("namespace", ["a.b", "a" * 64])
def test_a_namespace_is_one_label(world, namespace):
    assert world.bind(replace(REQUEST, pod_namespace=namespace)).error.startswith("PodNamespace: ")


def test_names_with_dots(world):
    world.api.put("Pod", pod(name="web.v-1.0", uid="uid-3"))
    request = replace(REQUEST, pod_name="web.v-1.0", pod_uid="uid-3", node="ip-10-0-0-1.example.com")
    assert world.bind(request) == BOUND


@pytest.mark.parametrize("uid", ['"', "uid-1/../x", "UID-1", "u" * 253])
def test_a_uid_is_only_compared(world, uid):
    assert world.bind(replace(REQUEST, pod_uid=uid)).error == f"{POD} was replaced by a pod with another UID"


@pytest.mark.parametrize("uid", ["\x00", "☃", "a b", "u" * 254])
def test_a_uid_is_short_and_plain(world, uid):
    assert world.bind(replace(REQUEST, pod_uid=uid)).error.startswith("PodUID: not a valid name")
    assert world.calls == []


# --- at the same time ---------------------------------------------------------------------------------------------


def at_once(world, requests):
    results = {}
    threads = [
        threading.Thread(target=lambda n=n, request=request: results.update({n: world.bind(request)}))
        for n, request in enumerate(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [results[n].outcome for n in range(len(requests))]


def test_many_for_the_same_node_at_once(world):
    assert at_once(world, [REQUEST] * 8) == ["bound"] * 8


def test_many_for_different_nodes_at_once(world):
    nodes = [f"worker-{n}" for n in range(8)]
    outcomes = at_once(world, [replace(REQUEST, node=node) for node in nodes])
    assert [node for node, outcome in zip(nodes, outcomes, strict=True) if outcome == "bound"] == [world.node]
    assert sorted(outcomes) == ["bound"] + ["refused"] * 7


# --- any order of events ------------------------------------------------------------------------------------------

LOST_OR_LATE = ["lost", "done, then lost", "hangs", "hangs, done late"]
REFUSALS = ["400", "403", "404"]
PASSING = ["429", "500", "done, then 500", "no Status"]
BEFORE = ["nothing", "bound here", "bound elsewhere", "deleted", "replaced"]
events = st.tuples(st.sampled_from(BEFORE), st.sampled_from(["works", *LOST_OR_LATE, *REFUSALS, *PASSING]))


class Adversary:
    """An API server with one pod, which takes as long, and does what, it likes."""

    def __init__(self, script, deadline):
        self.script = list(script)
        self.clock = Clock()
        self.ends = self.clock.now + deadline
        self.pod = pod()
        self.late = False

    def get(self, path, *, timeout):
        how = self.next(timeout)
        if self.pod is None:
            raise ApiError(404, "NotFound", "")
        return self.answer(how, timeout, json.dumps(self.pod).encode())

    def post(self, path, body, *, timeout):
        how = self.next(timeout)
        if how in ("works", "done, then lost", "done, then 500", "no Status"):
            self.work()
        self.late = self.late or how == "hangs, done late"
        return self.answer(how, timeout, b'{"kind":"Status","status":"Success"}')

    def next(self, timeout):
        assert min(timeout) > 0
        assert self.clock.now + sum(timeout) <= self.ends
        if self.late:
            self.late = False
            if self.pod and self.pod["metadata"]["uid"] == "uid-1" and "nodeName" not in self.pod["spec"]:
                self.pod = pod(on="worker-1")
        before, how = self.script.pop(0) if self.script else ("nothing", "works")
        self.meddle(before)
        return how

    def meddle(self, before):
        if before == "deleted":
            self.pod = None
        elif before == "replaced":
            self.pod = pod(uid="uid-2")
        elif before != "nothing" and self.pod and "nodeName" not in self.pod["spec"]:
            self.pod["spec"]["nodeName"] = "worker-1" if before == "bound here" else "worker-2"

    def work(self):
        if self.pod is None:
            raise ApiError(404, "NotFound", "")
        if self.pod["metadata"]["uid"] != "uid-1" or "nodeName" in self.pod["spec"]:
            raise ApiError(409, "Conflict", "")
        self.pod["spec"]["nodeName"] = "worker-1"

    def answer(self, how, timeout, body):
        if how.startswith("hangs"):
            self.clock.now += sum(timeout)
        if how in LOST_OR_LATE:
            raise ApiUnreachable("gone")
        code = how.removeprefix("done, then ")
        if code.isdecimal():
            raise ApiError(int(code), "Reason", "", 1.5 if code == "429" else None)
        return b"<html>" if how == "no Status" else body


@given(st.lists(events, max_size=6), st.floats(0, 8))
def test_bound_is_only_said_of_a_pod_that_is_bound(script, deadline):
    api = Adversary(script, deadline)
    result = bind(api, REQUEST, deadline, clock=api.clock, pause=api.clock.pause)
    there = api.pod and (api.pod["metadata"]["uid"], api.pod["spec"].get("nodeName"))
    assert (result.outcome == "bound") == (result.error == "")
    assert result.outcome != "bound" or there == ("uid-1", "worker-1"), "reported as bound, but it is not"
    assert api.clock.now <= api.ends, "the deadline has passed"
