"""ApiServer on real sockets: what it sends, what it makes of answers and of faults, and how its waits are ended."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes.client import Configuration

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable, socket_options
from tests.builders import pod
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import Answer, CutBody, CutEvent, Drop, FakeAPI, Fault, Hang
from tests.fakes.certificates import Certificates
from tests.fakes.chaos import Chaos

PODS = "/api/v1/pods"
WATCH = {"watch": "true", "resourceVersion": "1"}
BINDING = "/api/v1/namespaces/default/pods/a/binding"


@pytest.fixture
def api():
    with FakeAPI() as fake:
        fake.put("Pod", pod("a"))
        yield fake


@pytest.fixture
def server(api):
    server = server_at(api.url)
    yield server
    server.close()


# --- questions and answers ------------------------------------------------------------------------------------------


def test_a_get_says_what_it_is_and_what_it_wants(api, server):
    assert b'"name":"a"' in server.get(PODS, {"limit": "5"})
    request = api.asked("list", "Pod")[0]
    assert request.params == {"limit": "5"}
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"].startswith("kube-scheduler-extender")
    assert "authorization" not in request.headers


def test_another_accept_header_may_be_asked_for(api, server):
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    assert b'"spec"' not in server.get(PODS, accept=accept)


def test_a_post_sends_json(api, server):
    api.put("Node", {"metadata": {"name": "n1"}})
    api.put("Pod", pod("a"))
    server.post(BINDING, b'{"apiVersion":"v1","kind":"Binding","target":{"kind":"Node","name":"n1"}}')
    request = api.asked("bind")[0]
    assert request.headers["content-type"] == "application/json"
    assert request.body.startswith(b'{"apiVersion"')


def test_a_path_before_that_of_the_api_is_kept(api):
    with server_with_errors(f"{api.url}/k8s/clusters/c-1/") as server:
        with pytest.raises(ApiError):
            server.get(PODS)
        assert api.requests[0].path == f"/k8s/clusters/c-1{PODS}"


@contextlib.contextmanager
def server_with_errors(url):
    server = server_at(url)
    yield server
    server.close()


def test_one_connection_serves_many_gets(api):
    with Chaos(("127.0.0.1", api.port)) as chaos, server_with_errors(chaos.url()) as server:
        for _ in range(5):
            server.get(PODS)
        assert chaos.seen == 1


def test_seventeen_threads_may_ask_at_once(api, server):
    with ThreadPoolExecutor(17) as threads:
        bodies = list(threads.map(lambda _: server.get(PODS), range(170)))
    assert len(set(bodies)) == 1


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_status_is_told_in_its_own_words(api, server):
    api.faults.add(Fault("list", "Pod", Answer(410, "too old resource version: 1 (5)", "Expired")))
    with pytest.raises(ApiError, match="410 Expired: too old resource version") as caught:
        server.get(PODS)
    error = caught.value
    assert (error.code, error.reason, error.retry_after, error.status) == (410, "Expired", None, 503)


@pytest.mark.parametrize("code", [429, 503])
def test_C9_retry_after_is_read_from_the_header(api, server, code):
    api.faults.add(Fault("list", "Pod", Answer(code, retry_after=7)))
    with pytest.raises(ApiError) as caught:
        server.get(PODS)
    assert caught.value.retry_after == 7.0


def test_C9_retry_after_is_read_from_the_status(api, server):
    body = b'{"kind":"Status","message":"wait","reason":"Timeout","code":504,"details":{"retryAfterSeconds":3}}'
    api.faults.add(Fault("list", "Pod", Answer(504, body=body)))
    with pytest.raises(ApiError) as caught:
        server.get(PODS)
    assert caught.value.retry_after == 3.0


def test_what_a_server_says_is_one_line_that_can_be_logged(api, server):
    api.faults.add(Fault("list", "Pod", Answer(500, "one\n\x1b[31mtwo " + "x" * 2000)))
    with pytest.raises(ApiError, match=r"one \?\[31mtwo x+$") as caught:
        server.get(PODS)
    assert len(str(caught.value)) < 1100


def test_the_page_of_a_proxy_is_not_quoted(api, server):
    api.faults.add(Fault("list", "Pod", Answer(502, body=b"<html>Bad gateway</html>")))
    with pytest.raises(ApiError) as caught:
        server.get(PODS)
    assert caught.value.code == 502
    assert "html" not in str(caught.value)


def test_a_redirect_is_an_error(api, server):
    api.faults.add(Fault("list", "Pod", Answer(307, body=b"")))
    with pytest.raises(ApiError) as caught:
        server.get(PODS)
    assert caught.value.code == 307


@pytest.mark.parametrize("fault", [Drop(), Drop(reset=False), CutBody(10), CutBody(10, reset=False), Answer(500)])
def test_nothing_is_tried_twice_behind_our_back(api, server, fault):
    api.faults.add(Fault("*", "Pod", fault, times=None))
    with pytest.raises((ApiUnreachable, ApiError)):
        server.get(PODS)
    with pytest.raises((ApiUnreachable, ApiError)):
        server.post(BINDING, b"{}")
    assert [request.method for request in api.requests] == ["GET", "POST"]


def test_a_refused_connection_is_told_with_the_address(api, server):
    api.stop()
    with pytest.raises(ApiUnreachable, match=rf"127.0.0.1:{api.port}: .*[Rr]efused") as caught:
        server.get(PODS)
    assert caught.value.status == 503


def test_a_server_that_does_not_answer_is_waited_for_only_so_long(api, server):
    hang = Hang()
    api.faults.add(Fault("list", "Pod", hang))
    with pytest.raises(ApiUnreachable, match="timed out"):
        server.get(PODS, timeout=(5, 0.05))
    hang.release()


# --- streams --------------------------------------------------------------------------------------------------------


def test_lines_come_as_they_are_sent(api, server):
    with server.stream(PODS, WATCH) as stream:
        lines = stream.lines()
        assert len(next(lines)) == 1
        api.put("Pod", pod("b"))
        assert b'"name":"b"' in next(lines)[0]
        api.end_watches("Pod")
        assert list(lines) == []


@pytest.mark.parametrize("how", ["reset", "close", "end"])
def test_C1_half_a_line_is_never_delivered(api, server, how):
    api.faults.add(Fault("watch", "Pod", CutEvent(2, how)))
    api.put("Pod", pod("b"))
    waiting = Waiting(server.stream(PODS, WATCH))
    assert waiting.ends()
    assert waiting.error is not None
    assert [b'"name":"a"' in line for line in waiting.lines] == [True]


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_C1_lines_are_put_together_however_they_are_cut(api, piece):
    for number in range(20):
        api.put("Pod", pod(f"p{number}"))
    with Chaos(("127.0.0.1", api.port)) as chaos, server_with_errors(chaos.url()) as server:
        chaos.trickle(piece)
        with server.stream(PODS, WATCH) as stream:
            lines = [line for _, batch in zip(range(21), stream.lines(), strict=False) for line in batch]
    assert [b'"name":"p%d"' % number in lines[number + 1] for number in range(20)] == [True] * 20


def test_C5_silence_is_an_error_after_the_read_timeout(api, server):
    with server.stream(PODS, WATCH, timeout=(10.0, 2.0)) as stream:
        lines = stream.lines()
        next(lines)
        with pytest.raises(ApiUnreachable, match="timed out"):
            next(lines)


def test_C5_a_peer_that_is_silently_gone_is_given_up_by_the_kernel_within_30_s(api, server):
    options = {}
    with server.stream(PODS, WATCH) as stream:
        sock = stream._socket
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
            options[name] = sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert options["TCP_KEEPIDLE"] + options["TCP_KEEPINTVL"] * options["TCP_KEEPCNT"] <= 30
    assert options["TCP_USER_TIMEOUT"] <= 30_000
    assert len(socket_options()) == 6


class Waiting:
    """A request that waits for an answer in a thread of its own."""

    def __init__(self, stream) -> None:
        self.stream = stream
        self.began = threading.Event()
        self.error: Exception | None = None
        self.lines: list[bytes] = []
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()

    def ends(self) -> bool:
        self.thread.join(10)
        return not self.thread.is_alive()

    def _wait(self) -> None:
        try:
            with self.stream:
                for batch in self.stream.lines():
                    self.lines += batch
                    self.began.set()
        except ApiUnreachable as error:
            self.error = error


def test_close_ends_a_read_in_another_thread(api, server):
    waiting = Waiting(server.stream(PODS, WATCH))
    assert waiting.began.wait(10)
    waiting.stream.close()
    assert waiting.ends()
    assert waiting.error is None
    assert len(waiting.lines) == 1


def test_close_ends_a_read_under_tls(tmp_path):
    certificates = Certificates(tmp_path)
    with FakeAPI(tls=certificates) as api:
        api.put("Pod", pod("a"))
        configuration = Configuration(host=api.url, ssl_ca_cert=str(certificates.ca_file))
        server = ApiServer(lambda: Credentials(configuration, "the test"))
        waiting = Waiting(server.stream(PODS, WATCH))
        assert waiting.began.wait(10)
        waiting.stream.close()
        assert waiting.ends()
        assert waiting.error is None
        server.close()


def test_close_ends_the_wait_for_the_head_of_an_answer(api, server):
    hang = Hang()
    api.faults.add(Fault("watch", "Pod", hang))
    waiting = Waiting(server.stream(PODS, WATCH))
    api.wait_for(lambda: api.asked("watch"))
    waiting.stream.close()
    assert waiting.ends()
    assert waiting.error is not None
    hang.release()


def test_close_before_the_request_is_sent_ends_it_too(api, server):
    hang = Hang()
    api.faults.add(Fault("watch", "Pod", hang))
    stream = server.stream(PODS, WATCH)
    stream.close()
    waiting = Waiting(stream)
    assert waiting.ends()
    hang.release()


def test_close_ends_a_connection_that_is_stalled_half_way(api):
    with Chaos(("127.0.0.1", api.port)) as chaos, server_with_errors(chaos.url()) as server:
        waiting = Waiting(server.stream(PODS, WATCH))
        assert waiting.began.wait(10)
        chaos.stall()
        waiting.stream.close()
        assert waiting.ends()


# --- TLS ------------------------------------------------------------------------------------------------------------


def test_a_certificate_of_another_authority_is_refused(tmp_path):
    (tmp_path / "other").mkdir()
    with FakeAPI(tls=Certificates(tmp_path)) as api:
        other = Certificates(tmp_path / "other")
        configuration = Configuration(host=api.url, ssl_ca_cert=str(other.ca_file))
        server = ApiServer(lambda: Credentials(configuration, "the test"))
        with pytest.raises(ApiUnreachable, match="certificate verify failed"):
            server.get(PODS)
        server.close()
