"""The extender in the storm: the engine's decision on its own cache, and its history of approved evictions."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.renamed import SentCandidate
from benchmarks.storm.clock import Clock
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.cache.eviction_history import EvictionLog
from extender.core import engine
from extender.core.engine import Candidate
from extender.core.profile import Profile
from extender.k8s.objects import Pod


@dataclass(frozen=True, slots=True)
class Extender:
    """The extender, called by kube-scheduler once for every preemption."""

    cache: ClusterCache
    profile: Profile
    eviction_log: EvictionLog

    @classmethod
    def begin(cls, clock: Clock, cache: ClusterCache, profile: Profile) -> "Extender":
        return cls(cache, profile, EvictionLog(clock.nanoseconds, clock.nanoseconds))

    def preempt(self, pod: Pod, sent: Mapping[str, SentCandidate]) -> Candidate | None:
        """Decide as the service does, then assume and record the approved victims. None: vetoed."""
        self.cache.assumed.forget_preemption(pod)
        history = self.eviction_log.history(self.profile.preemption.limits)
        decision = engine.preempt(self.cache.snapshot(), pod, sent, self.profile, history)
        if not decision.kept:
            return None
        (candidate,) = decision.kept
        self.cache.assumed.assume_preempted(pod, candidate.node, candidate.victims)
        self.eviction_log.record(pod, candidate.victims)
        return candidate
