"""Records of a soak in order of time, from which the verdict is computed.

Rule: times are seconds of the system's monotonic clock, which all processes share.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """Resource use and metrics of the service at one moment."""

    time: float
    rss: int
    """Resident memory in KiB."""
    descriptors: int
    threads: int
    tasks: int
    blocks: int
    """Number of memory blocks allocated by Python."""
    cpu: float
    """CPU time so far, in seconds."""
    metrics: Mapping[str, float]
    """Values by name and labels, as on /metrics; {} if the request failed."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report of the load process about a few seconds."""

    time: float
    milliseconds: Mapping[str, Sequence[float]]
    counts: Mapping[str, int]
    moments: Sequence[tuple[float, str]]
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """A completed step of the schedule."""

    time: float
    what: str
    seconds: float | None = None
    """Time until it was in effect, where that is observable."""
    wrong: str = ""
    """Description of the failure; empty on success."""


@dataclass(frozen=True, slots=True)
class End:
    """Shutdown of the service."""

    signalled: float
    seconds: float
    """Time from SIGTERM to the exit."""
    code: int
    equal: bool
    """Whether the cache equalled the API server after some seconds without changes."""
    equal_text: str


@dataclass(slots=True)
class Course:
    """All records of one soak."""

    nodes: int
    rate: float
    """Requested scheduling cycles per second."""
    events: float
    """Requested cluster changes per second."""
    stale_after: float
    began: float = 0.0
    ended: float = 0.0
    """Time at which SIGTERM was sent."""
    samples: list[Sample] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    unready: list[Window] = field(default_factory=list)
    """Periods in which /readyz did not return 200."""
    changes: int = 0
    """Number of cluster changes between beginning and end."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds between beginning and end, by process."""
    waited: float = 0.0
    """Seconds for which the deciding thread was runnable without a core."""
    admin_requests: Counter[str] = field(default_factory=Counter)
    """Number of requests to the admin port, by path and status."""
    end: End | None = None

    # --- totals ---

    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report.counts)
        return total

    @property
    def starved(self) -> float:
        """Share of the time in which the deciding thread waited for a core."""
        return self.waited / (self.ended - self.began) if self.ended > self.began else 0.0

    def moments(self, what: str) -> list[float]:
        return [moment for report in self.reports for moment, kind in report.moments if kind == what]

    def milliseconds(self, what: str) -> list[float]:
        return [one for report in self.reports for one in report.milliseconds.get(what, ())]

    def texts(self) -> list[str]:
        return [text for report in self.reports for text in report.texts]

    def windows(self, begin: Iterable[str], end: Iterable[str], grace: float) -> list[Window]:
        """Return the periods from each step in `begin` to `grace` seconds after the next step in `end`."""
        begin, end, found, since = set(begin), set(end), [], None
        for step in sorted(self.done, key=lambda one: one.time):
            if step.what in begin and since is None:
                since = step.time
            elif step.what in end and since is not None:
                found.append((since, step.time + (step.seconds or 0.0) + grace))
                since = None
        return found if since is None else [*found, (since, float("inf"))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the individual call times."""
        return {
            "nodes": self.nodes,
            "seconds": self.ended - self.began,
            "samples": [
                {"second": round(one.time - self.began, 1), "rssMiB": one.rss / 1024, "descriptors": one.descriptors}
                | {"threads": one.threads, "tasks": one.tasks, "blocks": one.blocks, "cpuSeconds": one.cpu}
                for one in self.samples
            ],
            "steps": [
                {"second": round(one.time - self.began, 1), "what": one.what, "seconds": one.seconds}
                | {"wrong": one.wrong}
                for one in self.done
            ],
            "notReady": [[round(a - self.began, 1), round(b - self.began, 1)] for a, b in self.unready],
            "counts": dict(self.counts()),
            "adminRequests": dict(self.admin_requests),
            "cpuSeconds": self.cpu,
            "waitedSeconds": self.waited,
            "texts": self.texts(),
        }


def inside(moment: float, windows: Iterable[Window], margin: float = 0.0) -> bool:
    return any(begin - margin <= moment <= end + margin for begin, end in windows)
