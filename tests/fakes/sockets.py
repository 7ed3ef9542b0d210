"""Loopback sockets that threads can be woken from: what both fakes stand on.

Rule: a thread that waits here waits for its waker too, so that whoever stops it never waits for the network.
"""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable

LOOPBACK = "127.0.0.1"

JOIN_SECONDS = 30.0
"""How long a thread may take to end; longer means that it hangs, which is a bug of the fake."""


class Waker:
    """Wakes one thread that polls; a wake before the poll is not lost."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # full: a wake-up is pending; closed: no thread waits
            self._writer.send(b"\0")

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def reset_on_close(sock: socket.socket) -> None:
    """Makes `close` send an RST instead of a FIN."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def shut(sock: socket.socket) -> None:
    """Ends both directions, whichever thread is blocked in it; also under TLS, with no farewell."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def join(thread: threading.Thread) -> None:
    """Waits for the end of a thread that was told to end."""
    if thread is not threading.current_thread():
        thread.join(JOIN_SECONDS)
        if thread.is_alive():
            raise RuntimeError(f"the thread {thread.name} does not end")


class Listener:
    """A loopback port that can stop and start to listen and keeps its number meanwhile.

    While it does not listen the port stays bound: connections are refused, and no other process gets the port.
    """

    def __init__(self, accepted: Callable[[socket.socket], None]) -> None:
        self._accepted = accepted
        self._socket = self._bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._thread: threading.Thread | None = None
        self._waker = Waker()

    @property
    def listening(self) -> bool:
        return self._thread is not None

    def listen(self) -> None:
        """Accepts connections from now on; each is handed to `accepted`, in the listener's thread."""
        if self._thread is None:
            self._socket.listen(512)
            self._thread = threading.Thread(target=self._run, name=f"listener-{self.port}", daemon=True)
            self._thread.start()

    def refuse(self) -> None:
        """Refuses connections from now on; those that were accepted are not touched."""
        if self._thread is not None:
            self._end()
            self._socket.close()
            self._socket = self._bound(self.port)

    def close(self) -> None:
        """Lets go of the port."""
        if self._thread is not None:
            self._end()
        self._socket.close()
        self._waker.close()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        self._waker.wake()
        if thread is not None:
            join(thread)
        self._waker.drain()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        self._socket.setblocking(False)
        while all(fd != self._waker.fileno() for fd, _ in poll.poll()):
            with contextlib.suppress(OSError):  # gone again before it was accepted
                sock, _ = self._socket.accept()
                sock.setblocking(True)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._accepted(sock)

    @staticmethod
    def _bound(port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        return sock
