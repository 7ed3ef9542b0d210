"""What happened in a soak: plain records, in the order of time, from which the verdict is made.

Rule: times are seconds of the system's monotonic clock, which all processes share.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """How the service is doing at a moment."""

    time: float
    rss: int
    """KiB."""
    descriptors: int
    threads: int
    tasks: int
    blocks: int
    """Blocks that Python has allocated."""
    cpu: float
    """Seconds of CPU time so far."""
    metrics: Mapping[str, float]
    """By name and labels, as on /metrics; {} if they could not be had."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the load says of a few seconds."""

    time: float
    milliseconds: Mapping[str, Sequence[float]]
    counts: Mapping[str, int]
    moments: Sequence[tuple[float, str]]
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was carried out."""

    time: float
    what: str
    seconds: float | None = None
    """Until it was in effect, where that can be seen."""
    wrong: str = ""
    """What did not go as it must."""


@dataclass(frozen=True, slots=True)
class End:
    """How it ended."""

    signalled: float
    seconds: float
    """From SIGTERM to the exit."""
    code: int
    equal: bool
    """Whether the cache equalled the API server after some seconds without changes."""
    equal_text: str


@dataclass(slots=True)
class Course:
    """Everything."""

    nodes: int
    rate: float
    """Scheduling cycles a second that were wanted."""
    events: float
    """Changes a second that were wanted."""
    stale_after: float
    began: float = 0.0
    ended: float = 0.0
    """When SIGTERM was sent."""
    samples: list[Sample] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    unready: list[Window] = field(default_factory=list)
    """When /readyz did not say 200."""
    changes: int = 0
    """Made by the cluster between beginning and end."""
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds of CPU time between beginning and end, by process."""
    waited: float = 0.0
    """Seconds for which the thread that decides was ready to run, and had no core."""
    people: Counter[str] = field(default_factory=Counter)
    """Questions to the admin port, by what came back."""
    end: End | None = None

    # --- summed up ---

    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report.counts)
        return total

    @property
    def starved(self) -> float:
        """Share of the time for which there was no core."""
        return self.waited / (self.ended - self.began) if self.ended > self.began else 0.0

    def moments(self, what: str) -> list[float]:
        return [moment for report in self.reports for moment, kind in report.moments if kind == what]

    def milliseconds(self, what: str) -> list[float]:
        return [one for report in self.reports for one in report.milliseconds.get(what, ())]

    def texts(self) -> list[str]:
        return [text for report in self.reports for text in report.texts]

    def windows(self, begin: Iterable[str], end: Iterable[str], grace: float) -> list[Window]:
        """From each step of `begin` to `grace` seconds after the next one of `end`."""
        begin, end, found, since = set(begin), set(end), [], None
        for step in sorted(self.done, key=lambda one: one.time):
            if step.what in begin and since is None:
                since = step.time
            elif step.what in end and since is not None:
                found.append((since, step.time + (step.seconds or 0.0) + grace))
                since = None
        return found if since is None else [*found, (since, float("inf"))]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what the load measured one by one."""
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
            "people": dict(self.people),
            "cpuSeconds": self.cpu,
            "waitedSeconds": self.waited,
            "texts": self.texts(),
        }


def inside(moment: float, windows: Iterable[Window], margin: float = 0.0) -> bool:
    return any(begin - margin <= moment <= end + margin for begin, end in windows)
