"""What the verbs work with, put together once per application.

Rule: holds the parts, and decides nothing.
"""

import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from extender.cluster.apiserver import binding
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.cache.eviction_history import EvictionLog
from extender.core.eviction_history import EvictionHistory
from extender.core.explain import schema
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError, NotReady
from extender.k8s.objects import Pod
from extender.server.http.body import too_large
from extender.server.http.deadline import Clock, Deadline
from extender.server.lifecycle import Lifecycle
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import NO_SOURCE, Source
from extender.server.observability.decision_log import Decisions
from extender.server.observability.metrics import Metrics
from extender.server.observability.tracing import Tracing
from extender.server.settings import LiveSettings, Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Binder:
    """What binding a pod needs; the calls block, so they have threads of their own."""

    api: binding.Api
    timeout: float
    """Seconds for one pod, from the request to the last answer."""
    threads: ThreadPoolExecutor


class Recorder(Protocol):
    """Keeps calls to be replayed; see `server.recording`."""

    @property
    def is_on(self) -> bool: ...

    def start(self) -> None:
        """ExtenderError if it cannot be written where it should be."""

    def stop(self) -> None:
        """Everything is written when it returns."""

    def status(self) -> dict[str, Any]:
        """For people."""

    def note(
        self,
        key: str,
        verb: schema.Verb,
        body: bytes,
        status: int,
        answer: bytes,
        moment: EvictionHistory,
        settings: Settings,
        /,
    ) -> None:
        """A call was answered, and nothing of what follows from that has changed the picture yet."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What the verbs need."""

    cache: ClusterCache
    configured: LiveSettings
    """Which settings are in effect."""
    source: Source = NO_SOURCE
    """Who keeps the store up to date."""
    binder: Binder | None = None
    """None: pods are not bound here."""
    max_body_names: int = 2 << 20
    max_body_full: int = 128 << 20
    max_in_flight: int = 100
    """Calls at once; more are overload."""
    timeout: float = math.inf
    """Seconds from a call's first byte to its answer."""
    clock: Clock = time.monotonic
    metrics: Metrics = field(default_factory=Metrics)
    history: EvictionLog = field(default_factory=EvictionLog)
    decisions: Decisions = field(default_factory=lambda: Decisions(0, 0))
    recorder: Recorder | None = None
    audit: AuditLog | None = None
    """None: there are no audit lines."""
    tracing: Tracing | None = None
    """None: there are no spans."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)

    @property
    def settings(self) -> Settings:
        """The settings in effect now; they change between requests."""
        return self.configured.settings

    def deadline(self, began: float, refused: ExtenderError | None = None) -> Deadline:
        """Of a call that began at that time of the clock."""
        return Deadline(began + self.timeout, self.clock, refused)

    def moment(self) -> EvictionHistory:
        """When a decision is made, and what was approved before."""
        return self.history.moment(self.settings.profile.preemption.limits)

    def snapshot(self) -> Snapshot:
        """What decisions are made on; NotReady if there is no picture, or none that is true."""
        problem = self.source.problem()
        if problem is not None:
            raise NotReady(problem)
        snapshot = self.cache.snapshot()
        if self.source.is_live:
            self.history.begin(snapshot)
        return snapshot

    def asked_for(self, pod: Pod) -> None:
        """kube-scheduler asks about the pod."""
        if self.source.is_live:
            self.cache.assumed.asked_for(pod)

    def check_size(self, body: bytes, full: bool) -> None:
        """RequestTooLarge for a body that holds only node names and is larger than those may be."""
        if not full and len(body) > self.max_body_names:
            raise too_large(self.max_body_names)

    def note_not_evaluated(self, verb: str, pod: Pod, plugins: tuple[str, ...]) -> None:
        """Count and log that a decision leaves these plugins' part to kube-scheduler, whatever comes of the answer."""
        if plugins:
            self.metrics.not_evaluated(plugins)
            log.info("%s %r: not evaluated, left to kube-scheduler: %s", verb, pod.key, ", ".join(plugins))
