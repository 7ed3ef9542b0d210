"""The dependencies of the scheduler's verbs: cache, settings, metrics, audit log and so on, assembled once.

Rule: holds the parts, and decides nothing.
"""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from extender.cluster.apiserver import binding
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.cache.eviction_history import EvictionLog
from extender.core.eviction_history import EvictionHistory
from extender.core.framework.plugins import waits_to_grow
from extender.core.profile import KubeScheduler, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import LeftToScheduler, NotReady, UnknownScheduler
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.found import FoundVersion
from extender.report.schema import OBJECTS, SourceReport
from extender.server.cache_lag import CacheLag
from extender.server.events.recorder import EventRecorder
from extender.server.http.deadline import Clock
from extender.server.http.tls import TLSFiles
from extender.server.observability.audit import shorten
from extender.server.observability.audit_log import AuditLog
from extender.server.observability.cache_status import NO_SOURCE, ClusterSource
from extender.server.observability.decision_log import DecisionLog
from extender.server.observability.metrics import Metrics
from extender.server.observability.tracing import Tracing
from extender.server.recording.recorder import Recorder
from extender.server.settings import LiveSettings, Settings
from extender.utilities.log_throttle import ThrottledLoggers
from extender.wire.decode import LastNames


@dataclass(frozen=True, slots=True)
class Binder:
    """API client of POST /bind, with a thread pool of its own because the client blocks."""

    api: binding.BindingApi
    timeout: float
    """Seconds for one pod, from the first API request to the last response."""
    threads: ThreadPoolExecutor


@dataclass(slots=True)
class Lifecycle:
    """Process lifecycle, written by `server.run` only; health checks and metrics read it."""

    is_draining: bool = False
    """True once a shutdown has begun: calls are still answered, but /readyz fails so that endpoints are removed."""
    certificates: dict[str, TLSFiles] = field(default_factory=dict)
    """Listener (`server`, `admin`) -> its TLS files, for the listeners that serve TLS."""

    def warnings(self) -> list[str]:
        """Return one line per certificate that expires soon or could not be reloaded."""
        return [line for files in self.certificates.values() for line in files.warnings()]


@dataclass(frozen=True, slots=True)
class WorkInputs:
    """The state that a simulation or a report reads."""

    cluster: Snapshot | ClusterObjects
    """A snapshot that the work may change, or objects where the system cannot fork."""
    scheduler: KubeScheduler
    history: EvictionHistory
    source: SourceReport
    found_version: FoundVersion | None

    def snapshot(self) -> Snapshot:
        """Return the snapshot, or one of the objects."""
        given = self.cluster
        return given if isinstance(given, Snapshot) else Snapshot.build(given, self.scheduler.features)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """Everything a verb needs besides the request."""

    cache: ClusterCache
    live_settings: LiveSettings
    """The settings in effect, reloaded from the configuration file."""
    source: ClusterSource = NO_SOURCE
    """Source that keeps the cluster cache up to date."""
    where: Callable[[], SourceReport] = lambda: OBJECTS
    """Returns where the cluster comes from, as answers say it."""
    binder: Binder | None = None
    """Binder of POST /bind; None if disabled."""
    max_node_names_body_bytes: int = 2 << 20
    max_body_bytes: int = 128 << 20
    max_in_flight: int = 100
    """Maximum number of calls in flight; further calls are answered as overload."""
    timeout: float = math.inf
    """Seconds from a call's first byte to the deadline of its decision (80 % of `server.httpTimeout`)."""
    clock: Clock = time.monotonic
    metrics: Metrics = field(default_factory=Metrics)
    eviction_log: EvictionLog = field(default_factory=EvictionLog)
    decisions: DecisionLog = field(default_factory=lambda: DecisionLog(0, 0))
    recorder: Recorder | None = None
    audit: AuditLog | None = None
    """Audit log; None if disabled."""
    events: EventRecorder | None = None
    """Events about preemptions; None if disabled."""
    tracing: Tracing | None = None
    """Tracing; None if disabled."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    log_failure: ThrottledLoggers = field(
        default_factory=lambda: ThrottledLoggers(logging.getLogger("extender.server.scheduler.failure_policy"))
    )
    cache_lag: CacheLag = field(default_factory=CacheLag)
    last_names: LastNames = field(default_factory=LastNames)

    @property
    def settings(self) -> Settings:
        """The settings in effect now; a reload replaces them between requests."""
        return self.live_settings.active

    def decision_inputs(self, pod: Pod, history: EvictionHistory | None) -> tuple[Snapshot, Profile, EvictionHistory]:
        """Return the snapshot, the pod's profile and the history to decide on; `history`: None for the current one.

        Raises UnknownScheduler, LeftToScheduler and NotReady.
        """
        scheduler = self.settings.scheduler
        profile = scheduler.profile_of(pod)
        if profile is None:
            raise UnknownScheduler(not_ours_message(pod, scheduler))
        if waits_to_grow(pod, scheduler.features):
            raise LeftToScheduler("a bound pod that waits for room to grow in place: left to kube-scheduler")
        if scheduler.features.groups_are_evicted_whole and pod.spec.scheduling_group is not None:
            raise LeftToScheduler("a pod of a PodGroup, scheduled together with others: left to kube-scheduler")
        # The snapshot first: after a start, it seeds the history with the pods that are terminating.
        return self.snapshot(), profile, history or self.history()

    def work_inputs(self) -> WorkInputs:
        """Return what a simulation or a report reads; raises NotReady."""
        found = self.source.found_version
        return WorkInputs(self.snapshot(), self.settings.scheduler, self.history(), self.where(), found)

    def history(self) -> EvictionHistory:
        """Return the current time and the earlier evictions that the rate limits need."""
        return self.eviction_log.history(self.settings.scheduler.preemption.limits)

    def problem(self) -> str | None:
        """Return the reason why nothing can be decided now (cache not current, settings never valid), or None."""
        return self.source.problem() or self.live_settings.problem

    def warnings(self) -> list[str]:
        """Return conditions that an operator should know about, but that do not prevent decisions."""
        return [*self.source.warnings(), *self.live_settings.warnings(), *self.lifecycle.warnings()]

    def snapshot(self) -> Snapshot:
        """Return the snapshot to decide on; raises NotReady."""
        problem = self.problem()
        if problem is not None:
            raise NotReady(problem)
        snapshot = self.cache.snapshot()
        if self.source.is_live:
            self.eviction_log.record_terminating(snapshot)
        return snapshot


def not_ours_message(pod: Pod, scheduler: KubeScheduler) -> str:
    """Return the message for a pod whose schedulerName no profile has."""
    name, known = pod.spec.scheduler_name, ", ".join(one.scheduler_name for one in scheduler.profiles)
    return f"not ours: no profile of kube-scheduler has schedulerName {shorten(name)!r}; profiles: {known}"
