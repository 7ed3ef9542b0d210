"""One connection through the bad network: two sockets, and what is on its way between them.

Rule: one thread moves the bytes of both directions; others only wake it, or doom it.
"""

import contextlib
import random
import select
import socket
import threading
from dataclasses import dataclass, field

from tests.fakes.sockets import Waker, reset_on_close

BUFFER = 65536


@dataclass(slots=True)
class Conduct:
    """How all connections behave at the moment."""

    stalled: bool = False
    piece: int | None = None
    chance: random.Random | None = None
    cut_after: int | None = None
    cuts_left: int | None = None
    cuts: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def size(self) -> int:
        """How many bytes may pass at a time."""
        if self.piece is None:
            return BUFFER
        return self.chance.randint(1, self.piece) if self.chance else self.piece

    def take_cut(self) -> bool:
        """Whether one more connection may be cut; counts it."""
        with self.lock:
            if self.cuts_left == 0:
                return False
            if self.cuts_left is not None:
                self.cuts_left -= 1
            self.cuts += 1
            return True


class _Flow:
    """One direction: what was read from `source` and not yet written to `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.pending = b""
        self.ended = False
        """Whether the source has ended and the sink knows."""

    def interest(self) -> list[tuple[socket.socket, int]]:
        """What to wait for."""
        if self.ended:
            return []
        return [(self.sink, select.POLLOUT) if self.pending else (self.source, select.POLLIN)]

    def move(self, ready: set[int], most: int) -> int:
        """Reads or writes if the socket is ready; how many bytes were written."""
        with contextlib.suppress(BlockingIOError):  # ready, but for the other direction
            if self.pending and self.sink.fileno() in ready:
                sent = self.sink.send(self.pending[:most])
                self.pending = self.pending[sent:]
                return sent
            if not self.pending and not self.ended and self.source.fileno() in ready:
                self.pending = self.source.recv(BUFFER)
                if not self.pending:
                    self.ended = True
                    self.sink.shutdown(socket.SHUT_WR)
        return 0


class Relay:
    """A client's connection and the one to its server."""

    def __init__(self, client: socket.socket, upstream: tuple[str, int], conduct: Conduct) -> None:
        self._client = client
        self._server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._upstream = upstream
        self._conduct = conduct
        self._waker = Waker()
        self._lock = threading.Lock()
        self._doomed = False
        self._left: int | None = None

    def doom(self) -> None:
        """Ends the connection, soon, with an RST to both sides."""
        self._doomed = True
        self._waker.wake()

    def wake(self) -> None:
        """The conduct has changed; when this returns, no byte moves by the old one."""
        with self._lock:
            self._waker.wake()

    def allow(self, server_bytes: int | None) -> None:
        """Cuts after so many more bytes of the server; None: never."""
        with self._lock:
            self._left = server_bytes
        self._waker.wake()

    def run(self) -> None:
        """Move bytes until one side breaks off, both have ended, or the relay is stopped."""
        try:
            self._server.connect(self._upstream)
            for sock in (self._client, self._server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setblocking(False)
            self._move(_Flow(self._client, self._server), _Flow(self._server, self._client))
        except OSError:  # one side broke off: so does the other
            self._doomed = True

    def close(self) -> None:
        """By the thread that ran it."""
        for sock in (self._client, self._server):
            if self._doomed:
                reset_on_close(sock)
            sock.close()
        self._waker.close()

    def _move(self, up: _Flow, down: _Flow) -> None:
        while not (self._doomed or (up.ended and down.ended)):
            ready = self._ready(up, down)
            with self._lock:
                if not (self._conduct.stalled or self._doomed):
                    up.move(ready, self._conduct.size())
                    self._move_down(ready, down)

    def _move_down(self, ready: set[int], down: _Flow) -> None:
        if self._left == 0:
            if self._conduct.take_cut():
                self._doomed = True
                return
            self._left = None
        size = self._conduct.size()
        sent = down.move(ready, size if self._left is None else min(size, self._left))
        if self._left is not None:
            self._left -= sent

    def _ready(self, up: _Flow, down: _Flow) -> set[int]:
        """Waits; the sockets on which something can be done."""
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        stalled = self._conduct.stalled
        masks: dict[socket.socket, int] = {}
        for flow in () if stalled else (up, down):
            for sock, mask in flow.interest():
                masks[sock] = masks.get(sock, 0) | mask
        for sock, mask in masks.items():
            poll.register(sock, mask)
        cut_is_due = self._left == 0 and not stalled
        ready = {fd for fd, _ in poll.poll(0 if cut_is_due else None)}
        self._waker.drain()
        return ready
