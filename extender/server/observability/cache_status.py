"""Cache status: the freshness of the cluster cache, for health checks, response headers and decisions.

Rule: this module renders the state of the source and decides nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.core.profile import Profile


class ClusterSource(Protocol):
    """The source of the cluster cache: FileSource or KubernetesSource."""

    @property
    def is_live(self) -> bool:
        """Return whether the source watches a live cluster, in which the answers take effect."""

    @property
    def fatal(self) -> str | None:
        """Return why the source gave up; `run` has returned then. None: it has not."""

    async def run(self) -> None:
        """Keep the cluster cache in sync with the source until cancelled."""

    async def adopt(self, profile: Profile) -> None:
        """Prepare the cluster cache for decisions with this profile, while decisions continue with the old one."""

    def problem(self) -> str | None:
        """Return why the cluster cache is not ready for decisions; None: it is ready."""

    def warnings(self) -> Sequence[str]:
        """Return conditions that an operator should know about, but that do not prevent decisions."""

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        """Return the status of the reflector of each kind; empty if the source is not a live cluster."""


class NoSource:
    """A source for a cluster cache that is filled once and never changes."""

    is_live = False
    fatal = None

    async def run(self) -> None:
        """Do nothing."""

    async def adopt(self, profile: Profile) -> None:
        """Do nothing."""

    def problem(self) -> str | None:
        return None

    def warnings(self) -> Sequence[str]:
        return ()

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        return ()


NO_SOURCE: ClusterSource = NoSource()


def cache_summary(cache: ClusterCache, source: ClusterSource) -> str:
    """Summarize the state of the cluster cache: `version=812 Node=8123@0.2s Pod=8125@0.0s …` (X-Extender-Cache)."""
    kinds = (f"{one.kind}={one.version or '-'}@{_seconds(one.age)}" for one in source.reflector_statuses())
    return " ".join((f"version={cache.version}", *kinds))


def _seconds(age: float | None) -> str:
    return "never" if age is None else f"{age:.1f}s"


def check_lines(source: ClusterSource) -> list[str]:
    """Return one line per reflector for `/readyz?verbose`."""
    return [_line(one) for one in source.reflector_statuses()]


def _line(one: ReflectorStatus) -> str:
    sign = {"watching": "+", "absent": "!", "forbidden": "!"}.get(one.phase, "-")
    seen = f"version {one.version}, {_seconds(one.age)} ago" if one.version else "nothing yet"
    return f"[{sign}] {one.kind}: {one.phase}, {seen}{f': {one.error}' if one.error else ''}"
