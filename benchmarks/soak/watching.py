"""Observe the service from outside: readiness, resource use, metrics, and the admin pages.

Rule: observing does not disturb the schedulers: all requests go to the admin port.
"""

import http.client
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.soak.course import Course, Sample

READYZ_INTERVAL_SECONDS = 0.1
ADMIN_INTERVAL_SECONDS = 2.0
_PATTERN = re.compile(r"^([a-zA-Z_:][^ ]*) (\S+)$", re.MULTILINE)


class Admin:
    """Client of the admin port with its own connection; for one thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str) -> tuple[int, bytes]:
        """Return (status, body); (0, b"") if the request fails."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, b""

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics by name and labels; {} if the request fails."""
        status, body = self.get("/metrics")
        return {name: float(number) for name, number in _PATTERN.findall(body.decode())} if status == 200 else {}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Readiness(threading.Thread):
    """Polls /readyz ten times a second and records when it did not return 200."""

    def __init__(self, port: int, course: Course) -> None:
        super().__init__(name="readiness", daemon=True)
        self._admin = Admin(port)
        self._course = course
        self._ended = threading.Event()

    def run(self) -> None:
        since: float | None = None
        while not self._ended.wait(READYZ_INTERVAL_SECONDS):
            status, _ = self._admin.get("/readyz")
            now = time.monotonic()
            if status != 200 and since is None:
                since = now
                self._course.unready.append((since, float("inf")))
            elif status == 200 and since is not None:
                self._course.unready[-1] = (since, now)
                since = None
        if since is not None:
            self._course.unready[-1] = (since, time.monotonic())
        self._admin.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


class AdminReader(threading.Thread):
    """Reads decisions and the status from the admin port, as operators do."""

    def __init__(self, port: int, course: Course) -> None:
        super().__init__(name="admin-reader", daemon=True)
        self._admin = Admin(port)
        self._course = course
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(ADMIN_INTERVAL_SECONDS):
            status, body = self._admin.get("/decisions?limit=5")
            self._course.admin_requests[f"/decisions {status}"] += 1
            for decision in json.loads(body)["decisions"][:1] if status == 200 else ():
                status, _ = self._admin.get(f"/decisions/{decision['id']}")
                self._course.admin_requests[f"/decisions/ID {status}"] += 1
            status, _ = self._admin.get("/status")
            self._course.admin_requests[f"/status {status}"] += 1
        self._admin.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


def sample(process: int, counts: Path, metrics: Mapping[str, float]) -> Sample:
    """Sample the process; `counts` is the file that `service` writes on SIGWINCH."""
    counts.unlink(missing_ok=True)
    os.kill(process, signal.SIGWINCH)
    status = Path(f"/proc/{process}/status").read_text()
    waited = time.monotonic()
    while not counts.exists() and time.monotonic() - waited < 5:
        time.sleep(0.01)
    inner = json.loads(counts.read_text()) if counts.exists() else {}
    return Sample(
        time.monotonic(),
        rss=_number(r"VmRSS:\s+(\d+) kB", status),
        descriptors=len(os.listdir(f"/proc/{process}/fd")),
        threads=_number(r"Threads:\s+(\d+)", status),
        tasks=inner.get("tasks", 0),
        blocks=inner.get("blocks", 0),
        cpu=cpu_seconds(process),
        metrics=metrics,
    )


def cpu_seconds(process: int) -> float:
    """Return user and system time so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waited_seconds(process: int) -> float:
    """Return how long the deciding thread was runnable without a free core; 0.0 if the kernel does not report it."""
    file = Path(f"/proc/{process}/schedstat")
    return int(file.read_text().split()[1]) / 1e9 if file.exists() else 0.0


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0
