"""Freshness of the cluster cache, for health checks, response headers and decisions.

Rule: renders the state of the source, and decides nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from extender.cluster.cache.cache import ClusterCache, ReflectorStatus
from extender.core.profile import KubeScheduler
from extender.k8s.version.found import FoundVersion, OnVersionFound


class ClusterSource(Protocol):
    """The source of the cluster cache: FileSource or KubernetesSource.

    The defaults are those of a cluster cache that is filled once and never changes.
    """

    @property
    def is_live(self) -> bool:
        """Return whether the source watches a live cluster, so that answers have effects in it."""
        return False

    @property
    def fatal(self) -> str | None:
        """Return the reason why the source gave up for good, after which `run` returns; None if it has not."""
        return None

    async def run(self) -> None:
        """Keep the cluster cache in sync with the source until cancelled."""
        return

    @property
    def found_version(self) -> FoundVersion | None:
        """Return the version of the kube-scheduler in the cluster; None if none was found."""
        return None

    def watch_version(self, on_found: OnVersionFound) -> None:
        """Call `on_found` on the event loop's thread when `found_version` changes."""
        return

    async def adopt(self, scheduler: KubeScheduler, activate: Callable[[], None]) -> None:
        """Prepare the cluster cache for a new KubeScheduler, between decisions with the old settings.

        `activate` is called at the switch-over: decisions use the new settings from then on.
        """
        activate()

    def problem(self) -> str | None:
        """Return the reason why the cluster cache is not ready for decisions; None if it is ready."""
        return None

    def warnings(self) -> Sequence[str]:
        """Return conditions that an operator should know about, but that do not prevent decisions."""
        return ()

    def reflector_statuses(self) -> Sequence[ReflectorStatus]:
        """Return the status of each kind's reflector; empty without a live cluster."""
        return ()


class NoSource(ClusterSource):
    """A source for a cluster cache that is filled once and never changes."""


NO_SOURCE = NoSource()


def cache_summary(cache: ClusterCache, source: ClusterSource) -> str:
    """Summarize the state of the cluster cache: `version=812 Node=8123@0.2s Pod=8125@0.0s …` (X-Extender-Cache)."""
    kinds = (f"{one.kind}={one.version or '-'}@{_seconds(one.age)}" for one in source.reflector_statuses())
    return " ".join((f"version={cache.version}", *kinds))


def check_lines(source: ClusterSource) -> Iterator[str]:
    """Yield one line per reflector for `/readyz?verbose`."""
    for one in source.reflector_statuses():
        sign = {"watching": "+", "absent": "+", "forbidden": "!"}.get(one.phase, "-")
        seen = f"version {one.version}, {_seconds(one.age)} ago" if one.version else "nothing yet"
        yield f"[{sign}] {one.kind}: {one.phase}, {seen}{f': {one.error}' if one.error else ''}"


def _seconds(age: float | None) -> str:
    return "never" if age is None else f"{age:.1f}s"
