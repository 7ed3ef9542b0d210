"""How true the picture of the cluster is, in the words of health checks, headers and logs."""

from collections.abc import Sequence
from typing import Protocol

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.cache.view import StreamView
from extender.core.profile import Profile


class Source(Protocol):
    """Where the picture comes from: FileSource or KubernetesSource."""

    @property
    def is_live(self) -> bool:
        """Does it follow a cluster in which what is answered comes about?"""

    @property
    def fatal(self) -> str | None:
        """Why there was no point in going on; `run` has ended then."""

    async def run(self) -> None:
        """Keep the store equal to the source until cancelled."""

    async def adopt(self, profile: Profile) -> None:
        """Get the picture ready for decisions by this profile, while others are made."""

    def problem(self) -> str | None:
        """Why nothing may be decided on the picture now; None if it is as true as it can be."""

    def warnings(self) -> Sequence[str]:
        """What is wrong without being a problem."""

    def streams(self) -> Sequence[StreamView]:
        """How each kind of objects is followed; nothing if the source is no cluster."""


class NoSource:
    """Nobody changes the store."""

    is_live = False
    fatal = None

    async def run(self) -> None:
        """Nothing to do."""

    async def adopt(self, profile: Profile) -> None:
        """Nothing to do."""

    def problem(self) -> str | None:
        return None

    def warnings(self) -> Sequence[str]:
        return ()

    def streams(self) -> Sequence[StreamView]:
        return ()


NO_SOURCE: Source = NoSource()


def summary(cache: ClusterCache, source: Source) -> str:
    """Which state of the cluster a decision is made on: `version=812 Node=8123@0.2s Pod=8125@0.0s …`."""
    streams = (f"{one.kind}={one.version or '-'}@{_seconds(one.age)}" for one in source.streams())
    return " ".join((f"version={cache.version}", *streams))


def _seconds(age: float | None) -> str:
    return "never" if age is None else f"{age:.1f}s"


def check_lines(source: Source) -> list[str]:
    """A line for every stream, as `/readyz?verbose` shows it."""
    return [_line(one) for one in source.streams()]


def _line(one: StreamView) -> str:
    sign = {"watching": "+", "absent": "!", "forbidden": "!"}.get(one.phase, "-")
    seen = f"version {one.version}, {_seconds(one.age)} ago" if one.version else "nothing yet"
    return f"[{sign}] {one.kind}: {one.phase}, {seen}{f': {one.error}' if one.error else ''}"
