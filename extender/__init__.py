"""A scheduler extender with kube-scheduler's own verdicts: the public Python API.

    import extender
    cluster = extender.load_cluster("cluster.yaml")
    extender.evaluate(cluster, pod).to_dict()
    extender.simulate(cluster, [pod]).summary

    for result in extender.replay("recording"):
        assert not result.differences

Files, clusters and pods are what `kubectl get -o json` or `-o yaml` prints.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from extender.cluster.files.manifests import load_cluster
from extender.core.evaluation import Evaluation
from extender.core.evaluation import evaluate as _evaluate
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import Profile
from extender.core.simulator.result import Simulation
from extender.core.simulator.schedule_one import draws
from extender.core.simulator.simulator import simulate as _simulate
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.version import __version__

if TYPE_CHECKING:  # the service, which reading a cluster does not need
    from extender.server.recording.replay import Result

__all__ = [
    "ClusterObjects",
    "Evaluation",
    "Moment",
    "Pod",
    "Profile",
    "Simulation",
    "Snapshot",
    "__version__",
    "evaluate",
    "load_cluster",
    "replay",
    "simulate",
]


def evaluate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: Pod | Mapping[str, Any],
    profile: Profile | None = None,
    moment: EvictionHistory | None = None,
) -> Evaluation:
    """What kube-scheduler would say of `pod` on `cluster`: verdicts, scores, preemption candidates.

    `cluster` is a `List` object as `kubectl get -o json` prints it, what `load_cluster` returned, or a Snapshot.
    `profile` adds the policies of a configuration (`Configuration.profile()`); `moment` is when, if not now.
    Raises ClusterFileError for a cluster and msgspec.ValidationError for a pod that cannot be understood.
    """
    snapshot = cluster if isinstance(cluster, Snapshot) else Snapshot.build(load_cluster(cluster))
    return _evaluate(snapshot, _typed(pod), profile or Profile(), moment or EvictionHistory(time.time_ns()))


def simulate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pods: Iterable[Pod | Mapping[str, Any]] = (),
    *,
    pending: bool = False,
    profile: Profile | None = None,
    moment: EvictionHistory | None = None,
    seed: int | None = None,
) -> Simulation:
    """What would happen if `pods` arrived, and if those that wait in the cluster were tried (`pending`).

    Whole scheduling cycles as kube-scheduler runs them; the cluster that is given does not change. `seed` draws among
    equal nodes, which are taken by name otherwise; the rest is as for `evaluate`. Raises RequestError for pods that
    cannot arrive, as of a PriorityClass that is not there.
    """
    objects = cluster.frozen() if isinstance(cluster, Snapshot) else load_cluster(cluster)
    return _simulate(
        Snapshot.build(objects),
        profile or Profile(),
        [_typed(pod) for pod in pods],
        waiting=pending,
        moment=moment or EvictionHistory(time.time_ns()),
        draw=None if seed is None else draws(seed),
        seed=seed,
    )


def _typed(pod: Pod | Mapping[str, Any]) -> Pod:
    return pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)


def replay(path: str | os.PathLike[str], config: str | os.PathLike[str] | None = None) -> "Iterator[Result]":
    """Answer every call of a recording again, on the picture that it was answered on; yield what differs.

    `config`: a configuration file to answer by, instead of the settings that were in effect then.
    Raises RecordingError for a recording and ConfigError for a file that cannot be read.
    """
    from pathlib import Path

    from extender.config import load_config
    from extender.server.recording.replay import open_recording
    from extender.server.settings import Settings

    other = None if config is None else Settings.of(load_config(Path(config), {}))
    return open_recording(path).results(under=lambda settings: other or settings)
