"""A bad network: a TCP proxy on loopback that stands before any address and does to its connections what it is told.

    with Chaos(("127.0.0.1", api.port)) as chaos:
        ...                 # the code under test talks to chaos.url()
        chaos.stall()       # the peer is half open: nothing flows, nothing closes
        chaos.resume()
        chaos.reset()

Rule: it passes bytes on unchanged, in order and only once, until it ends the connection; it never sleeps.
"""

import random
import socket
import threading
from typing import Self

from tests.fakes.relay import Conduct, Relay
from tests.fakes.sockets import LOOPBACK, Listener, join

Address = tuple[str, int]


class Chaos:
    """The proxy. Every method may be called from any thread, and holds when it returns."""

    def __init__(self, upstream: Address) -> None:
        self._upstream = upstream
        self._changed = threading.Condition()
        self._relays: dict[threading.Thread, Relay] = {}
        self._conduct = Conduct()
        self._seen = 0
        self._listener = Listener(self._accepted)

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> Address:
        return LOOPBACK, self._listener.port

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://{LOOPBACK}:{self._listener.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._changed:
            return len(self._relays)

    @property
    def seen(self) -> int:
        """How many connections there have been."""
        return self._seen

    @property
    def cuts(self) -> int:
        """How many connections `cut_after` has ended."""
        return self._conduct.cuts

    def accept(self) -> None:
        """Accepts connections, as it does from the beginning."""
        self._listener.listen()

    def refuse(self) -> None:
        """Refuses new connections; those that are open go on."""
        self._listener.refuse()

    def close(self) -> None:
        """Ends everything."""
        self._listener.close()
        self.reset()

    def reset(self) -> None:
        """Ends every open connection with an RST to both sides."""
        with self._changed:
            relays = dict(self._relays)
            for relay in relays.values():
                relay.doom()
        for thread in relays:
            join(thread)

    def stall(self) -> None:
        """No byte flows in either direction, on any connection; not even their ends are passed on."""
        self._stalled(True)

    def resume(self) -> None:
        """Bytes flow again, those that were held back first."""
        self._stalled(False)

    def trickle(self, bytes_per_chunk: int | None, seed: int | None = None) -> None:
        """Passes at most so many bytes at a time, by `seed` a random number up to it; None: all there are."""
        with self._changed:
            self._conduct.piece = bytes_per_chunk
            self._conduct.chance = None if seed is None else random.Random(seed)
            self._wake()

    def cut_after(self, server_bytes: int | None, times: int | None = None) -> None:
        """Resets each connection, open or to come, after so many more bytes of its server; at most `times` connections.

        None: no more cuts. A connection that was cut is not cut again, so a client that reconnects gets as many again.
        """
        with self._changed:
            self._conduct.cut_after, self._conduct.cuts_left = server_bytes, times
            for relay in self._relays.values():
                relay.allow(server_bytes)

    def wait_for(self, connections: int, *, or_more: bool = False, timeout: float = 30.0) -> None:
        """Waits until so many connections are open, or more; TimeoutError after `timeout` seconds."""

        def are_open() -> bool:
            return len(self._relays) == connections or (or_more and len(self._relays) > connections)

        with self._changed:
            if not self._changed.wait_for(are_open, timeout):
                raise TimeoutError(f"{len(self._relays)} connections are open, not {connections}, after {timeout} s")

    def _stalled(self, stalled: bool) -> None:
        with self._changed:
            self._conduct.stalled = stalled
            self._wake()

    def _wake(self) -> None:
        for relay in self._relays.values():
            relay.wake()

    def _accepted(self, client: socket.socket) -> None:
        with self._changed:
            relay = Relay(client, self._upstream, self._conduct)
            relay.allow(self._conduct.cut_after)
            thread = threading.Thread(target=self._run, args=(relay,), name="chaos-relay", daemon=True)
            self._relays[thread] = relay
            self._seen += 1
            self._changed.notify_all()
            thread.start()

    def _run(self, relay: Relay) -> None:
        try:
            relay.run()
        finally:
            relay.close()
            with self._changed:
                del self._relays[threading.current_thread()]
                self._changed.notify_all()
