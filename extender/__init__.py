"""A scheduler extender with kube-scheduler's own verdicts: the public Python API.

    import extender
    cluster = extender.load_cluster("cluster.yaml")
    extender.evaluate(cluster, pod).to_dict()

Files, clusters and pods are what `kubectl get -o json` or `-o yaml` prints.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from extender.cluster.files import load_cluster
from extender.core.evaluation import Evaluation
from extender.core.evaluation import evaluate as _evaluate
from extender.core.moment import Moment
from extender.core.profile import Profile
from extender.core.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod

__all__ = ["ClusterObjects", "Evaluation", "Moment", "Pod", "Profile", "Snapshot", "evaluate", "load_cluster"]
__version__ = "0.1.0"


def evaluate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: Pod | Mapping[str, Any],
    profile: Profile | None = None,
    moment: Moment | None = None,
) -> Evaluation:
    """What kube-scheduler would say of `pod` on `cluster`: verdicts, scores, preemption candidates.

    `cluster` is a `List` object as `kubectl get -o json` prints it, what `load_cluster` returned, or a Snapshot.
    `profile` adds the policies of a configuration (`Configuration.profile()`); `moment` is when, if not now.
    Raises ClusterFileError for a cluster and msgspec.ValidationError for a pod that cannot be understood.
    """
    snapshot = cluster if isinstance(cluster, Snapshot) else Snapshot.build(load_cluster(cluster))
    incoming = pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)
    return _evaluate(snapshot, incoming, profile or Profile(), moment or Moment(time.time_ns()))
