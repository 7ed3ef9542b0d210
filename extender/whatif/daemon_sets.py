"""Create the pods of a DaemonSet: one on each node that its pods may run on.

Mirrors pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod) and util/daemonset_util.go, v1.37.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from extender.cluster.files.manifests import RawManifest
from extender.core.evaluation import Evaluation
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod
from extender.whatif.arrivals import Arrivals, PlannedPod
from extender.whatif.controllers import NameGenerator
from extender.whatif.workloads import WorkloadManifest, WorkloadPlan, template_of

_FILTERS = ("TaintToleration", "NodeAffinity")
"""What the controller compares itself, whatever the profile says."""

# (key, effect) of the taints that every pod of a DaemonSet tolerates.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATED_WITH_HOST_NETWORK = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def plan_daemon_set(
    snapshot: Snapshot,
    workload: WorkloadManifest,
    current: Sequence[Pod],
    arrivals: Arrivals,
    names: NameGenerator,
    scheduler: KubeScheduler,
) -> WorkloadPlan:
    """Plan a pod for each node that lacks one and that the DaemonSet's pods may run on."""
    template = template_of(snapshot, workload, current)
    spec = daemon_spec(template.spec)
    namespace, prefix = workload.metadata.namespace, f"{workload.metadata.name}-"
    # 1. The controller compares node affinity, node selector and taints, before kube-scheduler sees any pod.
    prototype = arrivals.typed_pod(
        RawManifest("", "Pod", {"metadata": template.metadata(f"{prefix}node", {}), "spec": spec})
    )
    own = replace(
        scheduler.profiles[0],
        prefilter_plugins=_FILTERS,
        filter_plugins=_FILTERS,
        not_evaluated_filters=(),
        added_affinity=None,
    )
    evaluation = Evaluation(snapshot, prototype, own)
    statuses = evaluation.filter.statuses(np.arange(len(snapshot.node_names)))
    # 2. A node whose pod exists already gets no second one.
    have = {pod.spec.node_name for pod in current}
    pods, excluded = list[PlannedPod](), dict[str, str]()
    for name, index in sorted(zip(snapshot.node_names, statuses.indices.tolist(), strict=True)):
        status = statuses.distinct[index]
        if status.reasons:
            excluded[name] = ", ".join(status.reasons)
        elif name not in have:
            metadata = template.metadata(names.next(namespace, prefix), {})
            pods.append(PlannedPod({"metadata": metadata, "spec": _pinned(spec, name)}, is_like_others=False))
    return WorkloadPlan(workload, len(current), tuple(pods), excluded)


def daemon_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with the tolerations that every pod of a DaemonSet gets (AddOrUpdateDaemonPodTolerations)."""
    given = list(spec.get("tolerations") or ())
    tolerated = _TOLERATED + (_TOLERATED_WITH_HOST_NETWORK if spec.get("hostNetwork") else ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    return {**spec, "tolerations": [*given, *(one for one in added if one not in given)]}


def _pinned(spec: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the spec with the affinity of a node's pod (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), **required}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}
