"""H5: connections that are opened and not used: none refuses a real call, and they take neither memory nor CPU time.

Rows 4 and 9 of the attack: a TLS port, and a process that may open few descriptors.
"""

import contextlib
import http.client
import os
import re
import resource
import socket
import ssl
import sys
import time

import pytest

from tests.abuse.service import MeasuredService, service
from tests.fakes.certificates import Certificates
from tests.server.conftest import filter_body

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

CONNECTIONS = 4000
CALL = filter_body(["worker-a1"])
ANSWERED_SECONDS = 10.0
"""Generous on a loaded machine: 0.1 s where nothing else runs, up to 2 s while handshakes are under way."""


@pytest.fixture
def many_descriptors():
    """This process may open as many descriptors as the system lets it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


def tls_settings(certificates):
    """Both listeners with TLS; the scheduler's asks for a client certificate."""
    pair = certificates.server()
    settings = {"SERVER__TLS__CLIENT_CA": str(certificates.ca_file)}
    for listener in ("SERVER", "ADMIN"):
        settings |= {f"{listener}__TLS__CERTIFICATE": str(pair.certificate), f"{listener}__TLS__KEY": str(pair.key)}
    return settings


def client_hello(context):
    """The first message of a client, which the server answers with a signature and 2 KiB."""
    from_server, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(from_server, to_server, server_hostname="localhost").do_handshake()
    return to_server.read()


class Client:
    """kube-scheduler and a probe, with TLS."""

    def __init__(self, process, certificates):
        self._process = process
        self.context = ssl.create_default_context(cafile=str(certificates.ca_file))
        self.context.load_cert_chain(*certificates.client())

    def connection(self, which="scheduler"):
        port = self._process.ports[which]
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=self.context)

    def call(self):
        """Seconds that a call takes, with a connection of its own."""
        began = time.monotonic()
        with contextlib.closing(self.connection()) as connection:
            self.call_on(connection)
        return time.monotonic() - began

    def call_on(self, connection):
        connection.request("POST", "/filter", CALL, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            assert response.status == 200
            response.read()

    def probe(self):
        """Seconds that /livez takes, with a connection of its own."""
        began = time.monotonic()
        with contextlib.closing(self.connection("admin")) as connection:
            connection.request("GET", "/livez")
            with connection.getresponse() as response:
                assert response.status == 200
        return time.monotonic() - began


@pytest.mark.parametrize(
    ("sent", "count", "which"),
    [("nothing", CONNECTIONS, "scheduler"), ("hello", 1500, "scheduler"), ("nothing", 1500, "admin")],
)
def test_H5_connections_to_a_tls_port_take_no_memory_and_a_real_call_gets_in(
    certificates, many_descriptors, sent, count, which
):
    with service(**tls_settings(certificates)) as process, contextlib.ExitStack() as held:
        client = Client(process, certificates)
        kept = held.enter_context(contextlib.closing(client.connection()))
        client.call_on(kept)
        client.call()
        client.probe()
        before, took = process.rss, []
        first = client_hello(client.context) if sent == "hello" else b""
        for number in range(count):
            one = held.enter_context(process.connect(which))
            if first:
                with contextlib.suppress(ConnectionError):  # closed in favour of a later one
                    one.send(first)
            if number % 500 == 499:
                took += [client.call(), client.probe()]
        took += [client.call(), client.probe()]
        client.call_on(kept)
        assert process.peak - before <= 50
        assert max(took) < ANSWERED_SECONDS
        held.close()
        assert process.rss - before <= 50
        assert len([line for line in process.lines if " WARNING " in line]) <= 6


def test_H5_idle_connections_do_not_use_up_the_descriptors(many_descriptors):
    """Without a limit, `accept` failed at once and each time, with a stack in the log."""
    prefix = ("/bin/sh", "-c", 'ulimit -n 128; exec "$@"', "sh")
    with contextlib.closing(MeasuredService(prefix=prefix)) as process, contextlib.ExitStack() as held:
        process.call("/filter", CALL)
        process.get("/livez")
        for which in ("scheduler", "admin"):
            for _ in range(300):
                held.enter_context(process.connect(which))
        assert process.seconds_of("/livez") < ANSWERED_SECONDS
        assert process.call("/filter", CALL)[0] == 200
        lines, cpu, began = len(process.lines), process.cpu_seconds, time.monotonic()
        time.sleep(5)  # what is measured is that nothing happens
        assert process.cpu_seconds - cpu < 0.2 * (time.monotonic() - began)
        assert len(process.lines) - lines <= 4
        assert len(os.listdir(f"/proc/{process.process.pid}/fd")) < 100
        assert process.call("/filter", CALL)[0] == 200
        assert process.seconds_of("/readyz") < ANSWERED_SECONDS


def test_H5_two_host_headers_are_refused_on_both_listeners():
    with service() as process:
        for which, path in (("scheduler", "POST /filter"), ("admin", "GET /livez")):
            with process.connect(which) as connection:
                connection.sendall(f"{path} HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".encode())
                assert re.match(rb"HTTP/1.1 400 ", connection.recv(1000)), which


def test_H5_slow_calls_do_not_refuse_a_real_one():
    """Twice as many calls as may be in flight, each without its body; 170 a second refused every real one."""
    with service(SERVER__MAX_IN_FLIGHT="20") as process, contextlib.ExitStack() as held:
        for _ in range(10):
            for _ in range(40):
                one: socket.socket = held.enter_context(process.connect())
                one.sendall(b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            assert process.call("/filter", CALL)[0] == 200
