"""Accept the connections of one listener, within limits: connections, TLS handshakes under way, accepts per turn.

A connection that has sent nothing costs only a socket and a timer: the HTTP parser, or the SSL object with its buffers,
is created when the first byte arrives. At the limit, a new connection displaces the least useful one, in this order:

1. It has sent nothing, or waits for its TLS handshake, as many others do.
2. Its first request is incomplete.
3. It is idle.
4. A later request is incomplete.

The oldest of each kind is closed first. A connection whose call is being answered is never closed; if all are, new ones
wait in the kernel's backlog. Only a few TLS handshakes start per turn of the event loop, so that calls on open
connections are answered in between.

Rule: a new connection is never refused, so that kube-scheduler can connect however many connections others hold open;
connections never use up the descriptors of the process.
"""

import asyncio
import contextlib
import heapq
import logging
import os
import resource
import socket
from asyncio import Task, TimerHandle
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from extender.server.http.protocol import LimitedProtocol, ListenerState
from extender.server.http.tls import TLSFiles
from extender.utilities.log_throttle import ThrottledLoggers

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
"""Maximum number of connections per listener; kube-scheduler keeps about as many open as it has calls in flight."""

RESERVED_DESCRIPTORS = 64
"""Descriptors reserved for the rest of the process: a watch per kind, /bind, files, simulations."""

MIN_CONNECTIONS = 8
"""Minimum of `max_connections()`, however few descriptors the process may open."""

MAX_HANDSHAKES = 128
"""Maximum number of TLS handshakes under way per listener."""

HANDSHAKES_PER_TURN = 8
"""TLS handshakes started per turn of the event loop at most; each costs up to 2 ms for the signature of an RSA key."""

HANDSHAKE_TIMEOUT_SECONDS = 10
"""Time limit for the first byte of a TLS connection, and then for its handshake."""

TLS_SHUTDOWN_TIMEOUT_SECONDS = 2.0
"""Seconds that a closing TLS connection waits for the client's close_notify."""

TLS_READ_BYTES = 64 << 10
"""Read buffer of a TLS connection, allocated while it is open; asyncio's is 256 KiB."""

FIRST_BYTE_SECONDS_AT_CLOSE = 0.05
"""Time limit for the first byte once the listener closes: a client that has just connected may be about to send."""

HANDSHAKE_SECONDS_AT_CLOSE = 1.0
"""Time limit for TLS handshakes once the listener closes."""

ACCEPT_PAUSE_SECONDS = 0.2
"""Pause in accepting when the process has no descriptor left, or when every connection is being answered."""


class Acceptor:
    """Accepts connections from one listening socket on the running event loop: `open()`, then `close()`."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        make_protocol: Callable[[], LimitedProtocol],
        state: ListenerState,
        keep_alive: float,
    ) -> None:
        """Accept from `listening`, which `close` closes; `keep_alive`: seconds for the first byte, without TLS."""
        self.max_connections = max_connections()
        self._listening = listening
        self._make_protocol = make_protocol
        self._state = state
        self._first_byte_timeout = keep_alive if state.tls is None else HANDSHAKE_TIMEOUT_SECONDS
        self._is_open = False
        self._loop: asyncio.AbstractEventLoop
        self._resume_timer: TimerHandle | None = None
        self._silent: dict[socket.socket, TimerHandle] = {}
        """Connection that has sent nothing -> its timeout, oldest first."""
        self._ready: deque[socket.socket] = deque()
        """Connections whose TLS handshake can start, oldest first."""
        self._starting: dict[Task[Any], None] = {}
        """TLS handshakes under way, oldest first; without TLS, connections that are becoming a protocol."""
        warn = ThrottledLoggers(log)
        self._warn: Callable[..., None] = lambda key, message, *args: warn(key, f"%s: {message}", name, *args)

    @property
    def _batch(self) -> int:
        """Size of the batches in which connections are accepted or closed; the newest survive several turns."""
        return max(1, self.max_connections // 16)

    @property
    def _patience(self) -> int:
        """Silent connections, and connections waiting for a handshake, that new connections do not displace."""
        return self.max_connections // 4

    @property
    def is_starting(self) -> bool:
        """Return whether an accepted connection is not yet in `ListenerState.connections`."""
        return bool(self._silent or self._ready or self._starting)

    def open(self) -> None:
        """Start accepting on the running event loop."""
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Close the listening socket; connections that send something at once still start, also from the backlog."""

        def close_silent() -> None:
            for connection in list(self._silent):
                self._give_up(connection)

        if self._is_open:
            self._is_open = False
            if self._resume_timer is not None:
                self._resume_timer.cancel()
            self._loop.remove_reader(self._listening)
            with contextlib.suppress(OSError):
                while self._count() < self.max_connections:  # closing the socket would reset those in the backlog
                    self._accept_one()
            self._loop.call_later(FIRST_BYTE_SECONDS_AT_CLOSE, close_silent)
            self._loop.call_later(HANDSHAKE_SECONDS_AT_CLOSE, self._close_starting)
        # Before any connection: a client that connects again must reach another replica.
        self._listening.close()

    def _close_starting(self) -> None:
        """End the remaining handshakes, and close connections that have not begun a request."""
        for handshake in self._starting:
            handshake.cancel()
        while self._ready:
            self._ready.popleft().close()
        for connection in list(self._state.connections):
            connection.shutdown()

    # --- accepting --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        room = min(self._batch, self.max_connections - self._count())
        if room <= 0:
            self._warn("full", "more than %d connections, closing idle ones", self.max_connections)
            room = self._make_room()
            if not room:
                self._pause()
        for _ in range(room):
            try:
                self._accept_one()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM
                self._warn("no descriptor", "cannot accept connections: %s", error.strerror)
                self._make_room()
                self._pause()
                return

    def _accept_one(self) -> None:
        connection, _ = self._listening.accept()
        connection.setblocking(False)
        self._silent[connection] = self._loop.call_later(self._first_byte_timeout, self._give_up, connection)
        self._loop.add_reader(connection, self._begin, connection)

    def _count(self) -> int:
        return len(self._silent) + len(self._ready) + len(self._starting) + len(self._state.connections)

    def _pause(self) -> None:
        self._loop.remove_reader(self._listening)
        self._resume_timer = self._loop.call_later(ACCEPT_PAUSE_SECONDS, self.open)

    def _make_room(self) -> int:
        """Close a batch of the least useful connections; return how many."""
        silent = list(self._silent)[: max(0, min(self._batch, len(self._silent) - self._patience))]
        for connection in silent:
            self._give_up(connection)
        ready = max(0, min(self._batch - len(silent), len(self._ready) - self._patience))
        for _ in range(ready):
            self._ready.popleft().close()
        return len(silent) + ready or self._close_least_useful()

    def _close_least_useful(self) -> int:
        """Close a batch of connections whose first request is incomplete, or else the least useful one."""
        ranks = ((rank, id(one), one) for one in self._state.connections if (rank := one.usefulness()) is not None)
        least = heapq.nsmallest(self._batch, ranks)
        closed = [one for rank, _, one in least if not rank.has_been_answered] or [one for _, _, one in least[:1]]
        for one in closed:
            one.transport.abort()
        return len(closed)

    # --- starting ---------------------------------------------------------------------------------------------------

    def _forget(self, connection: socket.socket) -> None:
        self._silent.pop(connection).cancel()
        self._loop.remove_reader(connection)

    def _give_up(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _begin(self, connection: socket.socket) -> None:
        """Start HTTP, or queue for a TLS handshake, if the connection has sent something; otherwise close it."""
        self._forget(connection)
        try:
            has_sent = bool(connection.recv(1, socket.MSG_PEEK))
        except OSError:
            has_sent = False
        if not has_sent:
            connection.close()
        elif self._state.tls is None:
            self._start(self._loop.connect_accepted_socket(self._make_protocol, connection))
        else:
            self._ready.append(connection)
            if len(self._ready) == 1:
                self._loop.call_soon(self._start_handshakes, self._state.tls)

    def _start(self, starting: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(starting)
        self._starting[task] = None
        task.add_done_callback(lambda done: self._starting.pop(done, None))

    def _start_handshakes(self, tls: TLSFiles) -> None:
        # Each handshake uses the certificate that is current when it starts.
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._ready))):
            if len(self._starting) >= MAX_HANDSHAKES:
                oldest = next(iter(self._starting))
                del self._starting[oldest]
                oldest.cancel()
                self._warn("full", "more than %d TLS handshakes under way, closing the oldest", MAX_HANDSHAKES)
            self._start(self._shake_hands(self._ready.popleft(), tls))
        if self._ready:
            self._loop.call_soon(self._start_handshakes, tls)

    async def _shake_hands(self, connection: socket.socket, tls: TLSFiles) -> None:
        done = self._loop.create_future()
        protocol = _TLSProtocol(
            self._loop,
            self._make_protocol(),
            tls.context,
            done,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
            ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT_SECONDS,
        )
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection)
        try:
            await done
        except OSError as error:  # TLSFiles has logged it
            error.__traceback__ = None  # refers to the buffers, in a reference cycle
        except asyncio.CancelledError:
            transport.abort()
            raise


class _TLSProtocol(SSLProtocol):
    """asyncio's TLS with a smaller read buffer."""

    max_size = TLS_READ_BYTES


def max_connections() -> int:
    """Return the limit on connections per listener: half of the free descriptors, but at most MAX_CONNECTIONS."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    free = limit - len(os.listdir("/dev/fd")) - RESERVED_DESCRIPTORS
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, free // 2))
