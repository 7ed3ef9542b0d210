"""A scheduler of the soak: scheduling cycles at a fixed rate over a kept-alive connection, every response checked.

Rule: no call is retried. A failed call is counted, and the connection is reopened.
"""

import contextlib
import http.client
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from benchmarks.soak.questions import CACHE_HEADER, CycleGenerator, Reply, Verb, WrongAnswer

TIMEOUT_SECONDS = 5.0
"""httpTimeout of kube-scheduler."""
MAX_CONNECTION_AGE_SECONDS = 10.0
"""Age at which a connection is replaced, so that new certificates are seen."""

Context = Callable[[], ssl.SSLContext | None]
"""Returns the current TLS context; None for plain HTTP."""


class Tally:
    """Counters and times since the last `take`; shared by all threads of the load."""

    MAX_TEXTS = 20
    """Maximum number of failure texts kept between two calls of `take`."""

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
            if text and len(self._texts) < self.MAX_TEXTS:
                self._texts.append(f"{what}: {text}")

    def at(self, moment: float, what: str) -> None:
        """Record an event that must be explained by a fault at that moment."""
        with self._lock:
            self._moments.append((moment, what))

    def take(self) -> dict[str, object]:
        """Return and reset milliseconds by call, counts, moments (system monotonic clock) and texts."""
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
    """Thread of one scheduler; `stop` ends it after the current cycle."""

    def __init__(self, port: int, context: Context, cycles: CycleGenerator, rate: float, tally: Tally) -> None:
        super().__init__(name="scheduler", daemon=True)
        self._port = port
        self._client_context = context
        self._cycles = cycles
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
        """Run the scheduling cycle of one pod."""
        cycle = self._cycles.next()
        try:
            first, seconds = self._call("filter", cycle.filter_body)
            if first is None:
                return
            left = cycle.filtered(first)
            if cycle.sent is not None:
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
        except WrongAnswer as wrong:
            self._tally.count("wrong answer", str(wrong))
        self._tally.count("cycles")

    def _call(self, verb: Verb, body: bytes) -> tuple[Reply | None, float]:
        """Make one call; return the reply to check (None if the call failed or got 503) and its seconds."""
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
        if time.monotonic() - self._made > MAX_CONNECTION_AGE_SECONDS:
            self._close()
        if self._connection is None:
            context = self._client_context()
            self._connection = (
                http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
                if context is None
                else http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS, context=context)
            )
            self._made = time.monotonic()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
