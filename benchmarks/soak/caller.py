"""A scheduler of the soak: cycle after cycle at its pace over a kept connection, every answer checked.

Rule: nothing is asked twice. A call that fails is counted, and the connection is reopened.
"""

import contextlib
import http.client
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from benchmarks.soak.questions import CACHE_HEADER, Asking, Reply, Verb, Wrong

TIMEOUT = 5.0
"""kube-scheduler's httpTimeout."""
RENEW = 10.0
"""Seconds after which a connection is given up for a new one, so that new certificates are seen."""

Context = Callable[[], ssl.SSLContext | None]
"""The present credentials; None for plain HTTP."""


class Tally:
    """What has happened since it was last taken; shared by all threads of the load."""

    KEPT = 20
    """How many texts of failures are kept each time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._moments: list[tuple[float, str]] = []
        self._texts: list[str] = []

    def took(self, what: str, seconds: float) -> None:
        with self._lock:
            self._seconds[what].append(round(1000 * seconds, 3))

    def count(self, what: str, text: str = "") -> None:
        with self._lock:
            self._counts[what] += 1
            if text and len(self._texts) < self.KEPT:
                self._texts.append(f"{what}: {text}")

    def at(self, moment: float, what: str) -> None:
        """Something that must be explained by what was going on then."""
        with self._lock:
            self._moments.append((moment, what))

    def take(self) -> dict[str, object]:
        """Milliseconds by call, counts, moments (by the system's monotonic clock) and texts."""
        with self._lock:
            taken = {
                "milliseconds": dict(self._seconds),
                "counts": dict(self._counts),
                "moments": self._moments,
                "texts": self._texts,
            }
            self._clear()
            return taken


class Caller(threading.Thread):
    """The scheduler's thread; `stop` ends it after the cycle that is under way."""

    def __init__(self, port: int, context: Context, asking: Asking, rate: float, tally: Tally) -> None:
        super().__init__(name="scheduler", daemon=True)
        self._port = port
        self._context = context
        self._asking = asking
        self._rate = rate
        self._tally = tally
        self._connection: http.client.HTTPConnection | None = None
        self._made = 0.0
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            self.cycle()
            due = max(due + 1 / self._rate, time.monotonic() - 1)
        self._close()

    def cycle(self) -> None:
        """Ask about one pod."""
        cycle = self._asking.next()
        try:
            first, seconds = self._call("filter", cycle.filter_body)
            if first is None:
                return
            left = cycle.filtered(first)
            if cycle.offered is not None:
                second, _ = self._call("preempt", cycle.preempt_body)
                if second is not None and cycle.preempted(second):
                    self._tally.at(time.monotonic(), "beyond")
            elif left:
                body = cycle.prioritize_body(left)
                second, more = self._call("prioritize", body)
                if second is not None:
                    cycle.scored(left, second)
                    if first.is_decided and second.is_decided:
                        self._tally.took("filter + prioritize", seconds + more)
        except Wrong as wrong:
            self._tally.count("wrong answer", str(wrong))
        self._tally.count("cycles")

    def _call(self, verb: Verb, body: bytes) -> tuple[Reply | None, float]:
        """(The answer, or None if there is none to check; seconds)."""
        start = time.monotonic()
        try:
            reply = self._post(f"/{verb}", body)
        except (OSError, http.client.HTTPException) as error:
            self._tally.count("failed call", f"{verb}: {type(error).__name__}: {error}")
            self._tally.at(time.monotonic(), "failed call")
            self._close()
            return None, 0.0
        seconds = time.monotonic() - start
        self._tally.count(f"{verb} {reply.status}")
        if reply.status == 503:
            self._tally.at(time.monotonic(), "503")
            return None, seconds
        if reply.status == 200 and reply.is_decided:
            self._tally.took(verb, seconds)
        elif reply.status == 200:
            self._tally.at(time.monotonic(), "undecided")
        return reply, seconds

    def _post(self, path: str, body: bytes) -> Reply:
        connection = self._connected()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        return Reply(response.status, answer, response.getheader(CACHE_HEADER) is not None)

    def _connected(self) -> http.client.HTTPConnection:
        if time.monotonic() - self._made > RENEW:
            self._close()
        if self._connection is None:
            context = self._context()
            self._connection = (
                http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
                if context is None
                else http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT, context=context)
            )
            self._made = time.monotonic()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
