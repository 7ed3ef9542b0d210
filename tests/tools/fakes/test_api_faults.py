"""The fake API server breaks as it is told."""

import http.client
from threading import Thread

import pytest

from tests.fakes.api_server import Answer, CutBody, CutEvent, Drop, ErrorEvent, FakeAPI, Fault, Hang
from tests.fakes.client import Client
from tests.fakes.objects import bare_pod, put_pods

PODS = "/api/v1/pods"
WEB = "/api/v1/namespaces/default/pods/web/binding"
TO_N1 = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}


# --- faults of requests ---


def test_a_status_as_often_as_asked_for(api: FakeAPI, client: Client):
    api.faults.add(Fault("list", "Pod", Answer(429, retry_after=7), times=2, skip=1))
    assert [client.get(PODS)[0] for _ in range(4)] == [200, 429, 429, 200]
    api.faults.add(Fault("*", "*", Answer(503, body=b"<html>")))
    with client.request("GET", PODS, {}, {}) as response:
        assert (response.status, response.read()) == (503, b"<html>")
    api.faults.add(Fault("list", "Pod", Answer(503, retry_after=7)))
    with client.request("GET", PODS, {}, {}) as response:
        assert response.headers["Retry-After"] == "7"
        assert b'"reason":"ServiceUnavailable"' in response.read()


def test_a_page_of_a_list_expires(api: FakeAPI, client: Client):
    put_pods(api, 3)
    api.faults.add(Fault("list", "Pod", Answer(410), page=2))
    _, first = client.get(PODS, limit=2)
    assert client.get(PODS, limit=2, continue_=first["metadata"]["continue"])[0] == 410


@pytest.mark.parametrize("reset", [True, False], ids=["by RST", "by FIN"])
def test_a_connection_is_dropped_before_the_answer(reset: bool, api: FakeAPI, client: Client):
    api.faults.add(Fault("list", "Pod", Drop(reset=reset)))
    with pytest.raises(ConnectionResetError):  # RemoteDisconnected is one
        client.get(PODS)


def test_a_body_is_cut(api: FakeAPI, client: Client):
    put_pods(api, 3)
    api.faults.add(Fault("list", "Pod", CutBody(50, reset=False)))
    with pytest.raises(http.client.IncompleteRead) as cut:
        client.get(PODS)
    assert len(cut.value.partial) == 50


def test_a_request_hangs_until_it_is_released(api: FakeAPI, client: Client):
    hang, answers = Hang(), []
    api.faults.add(Fault("list", "Pod", hang))
    thread = Thread(target=lambda: answers.append(client.get(PODS)[0]))
    thread.start()
    api.wait_for(lambda: api.asked("list", "Pod"))
    assert answers == []
    hang.release()
    thread.join(10)
    assert answers == [200]


def test_a_server_that_stops_lets_go_of_what_hangs(api: FakeAPI, client: Client):
    api.faults.add(Fault("list", "Pod", Hang()))
    client.connection.request("GET", PODS)
    api.wait_for(lambda: api.asked("list", "Pod"))
    api.stop()
    with pytest.raises(ConnectionError):
        client.connection.getresponse()


def test_a_fault_that_is_cleared_strikes_no_more(api: FakeAPI, client: Client):
    api.faults.add(Fault("*", "*", Answer(500), times=None))
    assert [client.get(PODS)[0] for _ in range(3)] == [500, 500, 500]
    api.faults.clear()
    assert client.get(PODS)[0] == 200


# --- faults of watches ---


@pytest.mark.parametrize(
    ("how", "error"), [("reset", ConnectionResetError), ("close", http.client.IncompleteRead), ("end", None)]
)
def test_a_watch_is_cut_in_the_middle_of_a_line(how, error: type[Exception] | None, api: FakeAPI, client: Client):
    put_pods(api, 5)
    api.faults.add(Fault("watch", "Pod", CutEvent(3, how)))
    with client.watch(PODS) as watch:
        assert watch.events(2) == ["ADDED p0 2", "ADDED p1 3"]
        if error is None:
            half = watch.line()
            assert half.startswith(b'{"type":"ADDED"')
            assert not half.endswith(b"\n")
            assert watch.line() == b""
        else:
            with pytest.raises(error):
                watch._response.read()


def test_what_can_come_out_of_an_open_watch(api: FakeAPI, client: Client):
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        api.send_raw("Pod", b"junk\n")
        assert watch.line() == b"junk\n"
        api.duplicate_next("Pod", 2)
        put_pods(api, 3)
        assert watch.events(5) == ["ADDED p0 2", "ADDED p0 2", "ADDED p1 3", "ADDED p1 3", "ADDED p2 4"]
        api.swap_next("Pod")
        api.delete("Pod", "p0")
        assert api.bookmark("Pod") == 0
        api.delete("Pod", "p1")
        api.delete("Pod", "p2")
        assert watch.events(3) == ["DELETED p1 6", "DELETED p0 5", "DELETED p2 7"]
        api.replay("Pod", 2)
        assert watch.events(2) == ["DELETED p0 5", "DELETED p2 7"]
        api.send_error("Pod", 500)
        assert watch.event()["object"]["reason"] == "InternalError"
        assert watch.rest() == []


def test_a_watch_that_begins_with_an_error(api: FakeAPI, client: Client):
    api.faults.add(Fault("watch", "Pod", ErrorEvent(410)))
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        assert watch.event()["object"]["code"] == 410
        assert watch.rest() == []


def test_dropped_connections_are_dropped_at_once(api: FakeAPI, client: Client):
    with client.watch(PODS) as watch:
        api.drop_connections()
        assert api.open_watches() == 0
        with pytest.raises(http.client.IncompleteRead):
            watch._response.read()


def test_a_client_that_goes_is_noticed(api: FakeAPI, client: Client):
    with client.watch(PODS):
        assert api.open_watches("Pod") == 1
    api.wait_for(lambda: api.open_watches("Pod") == 0)


# --- faults of bindings ---


def test_a_binding_whose_answer_is_lost_holds(api: FakeAPI, client: Client):
    api.put("Pod", bare_pod("web"))
    api.faults.add(Fault("bind", "Pod", Drop(done=True)))
    with pytest.raises(ConnectionError):
        client.post(WEB, TO_N1)
    assert client.post(WEB, TO_N1)[0] == 409
