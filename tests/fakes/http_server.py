"""HTTP/1.1 on loopback, a thread per connection: just what an API server's clients use of it.

Rule: bytes in, bytes out; what they mean is the handler's business. A connection is closed by its own thread only.
"""

import math
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from tests.fakes.sockets import Listener, Waker, join, reset_on_close, shut

LAST_CHUNK = b"0\r\n\r\n"


class Dropped(ConnectionError):
    """This connection ends here, without a word to its client."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a body."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came; names of headers in lower case."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Connection:
    """A client's connection, in the hands of its thread."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    @property
    def has_client_certificate(self) -> bool:
        return isinstance(self.sock, ssl.SSLSocket) and bool(self.sock.getpeercert())

    def handshake(self) -> None:
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.do_handshake()

    def call(self) -> Call | None:
        """The next request, or None when the client is gone."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._fill():
                return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, url, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = self._body(int(headers.get("content-length", 0)))
        split = urlsplit(url)
        params = dict(parse_qsl(split.query, keep_blank_values=True))
        return None if body is None else Call(method, split.path, params, headers, body)

    def reply(self, reply: Reply, cut_at: int | None = None) -> None:
        """Sends an answer, or its head and the first `cut_at` bytes of its body."""
        headers = {"Content-Type": "application/json", "Content-Length": str(len(reply.body)), **reply.headers}
        self.send(_head(reply.code, headers))
        self.send(reply.body if cut_at is None else reply.body[:cut_at])

    def begin_stream(self) -> None:
        """Sends the head of an answer in chunks."""
        self.send(_head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def wait(self, waker: Waker, timeout: float | None = None) -> bool:
        """Waits for the waker, the client or the end of `timeout` seconds; False when the client is gone."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(waker, select.POLLIN)
        ready = poll.poll(None if timeout is None else math.ceil(max(timeout, 0.0) * 1000))
        return self._fill() if any(fd == self.sock.fileno() for fd, _ in ready) else True

    def drop(self, reset: bool = True) -> Dropped:
        """What to raise so that the connection ends, with an RST or with a FIN."""
        if reset:
            reset_on_close(self.sock)
        return Dropped("dropped on purpose")

    def _body(self, length: int) -> bytes | None:
        while len(self._buffer) < length:
            if not self._fill():
                return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _fill(self) -> bool:
        data = self.sock.recv(65536)
        self._buffer += data
        return bool(data)


class Server:
    """Hands every connection to `handle`, in a thread of its own; keeps its port until `close`."""

    def __init__(self, handle: Callable[[Connection], None], tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._handle = handle
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._threads: dict[threading.Thread, Connection] = {}
        self._listener = Listener(self._accepted)
        self.port = self._listener.port

    def start(self) -> None:
        self._context = self._tls() if self._tls else None
        self._listener.listen()

    def stop(self) -> None:
        """Refuses connections and ends those that there are."""
        self._listener.refuse()
        self.drop_connections()

    def close(self) -> None:
        """Stops, and lets go of the port."""
        self._listener.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Ends every connection, whatever its thread is doing, and waits until it has ended."""
        with self._lock:
            threads = dict(self._threads)
        for connection in threads.values():
            shut(connection.sock)
        for thread in threads:
            join(thread)

    def _accepted(self, sock: socket.socket) -> None:
        if self._context is not None:
            try:
                sock = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:  # gone already
                sock.close()
                return
        connection = Connection(sock)
        thread = threading.Thread(target=self._run, args=(connection,), name=f"connection-{self.port}", daemon=True)
        with self._lock:
            self._threads[thread] = connection
            thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            connection.handshake()
            self._handle(connection)
        except OSError:  # the client went, or was sent away
            pass
        finally:
            connection.sock.close()
            with self._lock:
                del self._threads[threading.current_thread()]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "Unknown"
    lines = [f"HTTP/1.1 {code} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
