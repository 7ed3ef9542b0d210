"""The functions of the public Python API and the types that they take and return; `extender` exports them."""

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
from extender.core.simulator.schedule_one import seeded_draw
from extender.core.simulator.simulator import simulate as _simulate
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod

if TYPE_CHECKING:  # importing the server costs time, which reading a cluster does not need
    from extender.server.replay import ReplayResult

__all__ = [
    "ClusterObjects",
    "Evaluation",
    "EvictionHistory",
    "Pod",
    "Profile",
    "Simulation",
    "Snapshot",
    "evaluate",
    "load_cluster",
    "replay",
    "simulate",
]


def evaluate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: Pod | Mapping[str, Any],
    profile: Profile | None = None,
    history: EvictionHistory | None = None,
) -> Evaluation:
    """Evaluate `pod` on every node of `cluster`: filter statuses, scores and preemption candidates.

    `cluster` is a `List` object as `kubectl get -o json` prints it, the result of `load_cluster`, or a Snapshot.
    `profile` adds the policies of a configuration (`Configuration.profile()`); `history` sets the time and the recent
    evictions, if not now and none.
    Raises ClusterFileError for a cluster and msgspec.ValidationError for a pod that cannot be understood.
    """
    snapshot = cluster if isinstance(cluster, Snapshot) else Snapshot.build(load_cluster(cluster))
    return _evaluate(snapshot, _convert_pod(pod), profile or Profile(), history or EvictionHistory(time.time_ns()))


def simulate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pods: Iterable[Pod | Mapping[str, Any]] = (),
    *,
    pending: bool = False,
    profile: Profile | None = None,
    history: EvictionHistory | None = None,
    seed: int | None = None,
) -> Simulation:
    """Simulate the arrival of `pods`, and with `pending` new attempts for the pending pods of the cluster.

    Runs whole scheduling cycles as kube-scheduler does; `cluster` itself does not change. `seed` chooses among equal
    nodes at random, otherwise the first by name is chosen; the other arguments are those of `evaluate`. Raises
    RequestError for a pod that cannot be admitted, for example because its PriorityClass does not exist.
    """
    objects = cluster.frozen() if isinstance(cluster, Snapshot) else load_cluster(cluster)
    return _simulate(
        Snapshot.build(objects),
        profile or Profile(),
        [_convert_pod(pod) for pod in pods],
        include_pending=pending,
        history=history or EvictionHistory(time.time_ns()),
        draw=None if seed is None else seeded_draw(seed),
        seed=seed,
    )


def _convert_pod(pod: Pod | Mapping[str, Any]) -> Pod:
    return pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)


def replay(path: str | os.PathLike[str], config: str | os.PathLike[str] | None = None) -> "Iterator[ReplayResult]":
    """Answer every recorded call again on the cluster state of that time; yield each result with its differences.

    `config`: a configuration file to use instead of the recorded settings.
    Raises RecordingError for a recording and ConfigError for a file that cannot be read.
    """
    from pathlib import Path

    from extender.config import load_config
    from extender.server.replay import open_recording
    from extender.server.settings import Settings

    other = None if config is None else Settings.from_config(load_config(Path(config), {}))
    return open_recording(path).results(under=lambda settings: other or settings)
