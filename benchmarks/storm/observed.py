"""The delayed view of kube-scheduler and the extender; each has its own cache.

Both caches are the service's own (`ClusterCache`), including the assumed changes that each of the two makes.

Rule: no change reaches a cache before its watch delay, except what the owner of the cache assumed itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.storm.clock import Clock
from benchmarks.storm.plan import Storm
from benchmarks.storm.truth import Budget, Life, Truth
from extender.cluster.cache.cache import Change, ClusterCache
from extender.core.profile import KubeScheduler, Profile
from extender.k8s.kinds import ClusterObjects

Seen = Callable[[Change], None]


@dataclass(frozen=True, slots=True)
class ObservedClusters:
    """Delivers every change of the actual state to both caches after its delay, and then to `seen`."""

    storm: Storm
    clock: Clock
    truth: Truth
    of_scheduler: ClusterCache
    of_extender: ClusterCache
    seen: Seen
    _counting: set[str]
    """Names of the budgets that are recounted at the end of this instant."""

    @classmethod
    def begin(cls, storm: Storm, clock: Clock, truth: Truth, profile: Profile, seen: Seen) -> "ObservedClusters":
        """Start with both caches in sync; the extender decides by `profile`."""
        stores = ClusterCache(clock.seconds), ClusterCache(clock.seconds)
        stores[1].prepare_for(KubeScheduler((profile,)))
        objects = ClusterObjects(
            nodes=truth.nodes,
            pods=tuple(life.pod for life in truth.pods.values()),
            budgets=tuple(budget.object for budget in truth.budgets),
        )
        for cache in stores:
            cache.replace(objects)
        observed = cls(storm, clock, truth, *stores, seen, set())
        truth.listen(observed.pod_changed, observed.health_changed)
        return observed

    def pod_changed(self, life: Life, deleted: bool) -> None:
        self._show(self.storm.watch_lag, Change("Pod", life.pod, deleted))

    def health_changed(self, budget: Budget) -> None:
        """Plan one recount of the budget, which covers all changes of this instant."""
        if budget.limits.name not in self._counting:
            self._counting.add(budget.limits.name)
            self.clock.after(0, lambda: self._count(budget))

    def _count(self, budget: Budget) -> None:
        self._counting.discard(budget.limits.name)
        before = budget.object.status
        self.truth.renew_status(budget)
        if budget.object.status != before:
            self._show(self.storm.status_lag, Change("PodDisruptionBudget", budget.object))

    def _show(self, later: float, change: Change) -> None:
        def show() -> None:
            for cache in (self.of_scheduler, self.of_extender):
                cache.apply(change)
            self.seen(change)

        self.clock.after(later, show)
