"""The generated cluster as the engine sees it, built once for all groups of rows."""

from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks import generate
from benchmarks.generate import Plan
from extender.cluster.cache.cache import ClusterCache
from extender.core.engine import Candidate
from extender.core.framework.filter import FilterRun, run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.preemption.dry_run import DryRun, dry_run_preemption
from extender.core.profile import Profile
from extender.core.snapshot.arrays import IntArray
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod


def change_a_pod(snapshot: Snapshot) -> None:
    """Relabel one running pod, which invalidates everything derived from pods."""
    pod = snapshot.pods[0]
    labels = dict(pod.metadata.labels or {})
    labels["changed"] = "no" if labels.get("changed") == "yes" else "yes"
    snapshot.put("Pod", replace(pod, metadata=replace(pod.metadata, labels=labels)))
    snapshot.refresh_layout()


@dataclass(frozen=True)
class World:
    plan: Plan
    full: bool = False
    """Whether to measure without samples: larger clusters too, and the slow reference on the whole cluster."""

    @property
    def profile(self) -> Profile:
        return Profile()

    @cached_property
    def objects(self) -> ClusterObjects:
        return generate.as_objects(self.plan)

    @cached_property
    def cache(self) -> ClusterCache:
        cache = ClusterCache()
        cache.replace(self.objects)
        return cache

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot of `cache`; changes of the cache change it."""
        return self.cache.snapshot()

    @cached_property
    def pod(self) -> Pod:
        return msgspec.convert(generate.incoming(self.plan), Pod)

    @cached_property
    def spreading(self) -> Pod:
        return msgspec.convert(generate.spreading(self.plan), Pod)

    @cached_property
    def filter_run(self) -> FilterRun:
        return run_filter_plugins(scheduling_context(self.snapshot, self.pod, self.profile))

    @cached_property
    def tried(self) -> IntArray:
        """Rows of the nodes tried by the dry run: all nodes, since the pod fits nowhere."""
        return self.filter_run.rows(Code.UNSCHEDULABLE)

    @cached_property
    def run(self) -> DryRun:
        return dry_run_preemption(self.filter_run.context, self.filter_run.checks, self.tried)

    @cached_property
    def places(self) -> IntArray:
        """Positions of the candidates among the nodes tried."""
        return np.flatnonzero(self.run.candidate)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidate nodes with their victims."""
        violations, names = self.run.violations, self.snapshot.node_names
        return tuple(
            Candidate(names[self.tried[place]], self.run.victims_on(place), int(violations[place]))
            for place in self.places.tolist()
        )

    @cached_property
    def evictable(self) -> dict[str, list[Pod]]:
        """Candidate node -> its pods of lower priority than `pod`, most important first."""
        on_nodes = {one.node: self.snapshot.pods_on(one.node) for one in self.candidates}
        return {node: [pod for pod in pods if pod.priority < self.pod.priority] for node, pods in on_nodes.items()}

    @property
    def node_names(self) -> list[str]:
        return list(self.snapshot.node_names)
