"""Read the input of `extender why`: the cluster, the pod, its kube-scheduler and its Events.

Rule: a live cluster is only read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extender.cluster.list.pod_history import PodHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.whatif.arrivals import add_arrivals, add_claims

if TYPE_CHECKING:
    from extender.cluster.apiserver.client import ApiServer
    from extender.config import Configuration


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """The pod to explain: one of the cluster, or a manifest."""

    namespace: str
    """Namespace; empty for that of the kubeconfig's context, or of the pod that this process runs in."""
    name: str
    manifest: Pod | None = None
    """The pod, if it does not exist yet."""
    claims: Sequence[ResourceClaim] = ()
    """Resource claims of the manifest."""


@dataclass(frozen=True, slots=True)
class PodCluster:
    """The parts of a cluster that were read for one pod."""

    namespace: str
    name: str
    snapshot: Snapshot
    pod: Pod | None
    """None if the cluster has no such pod."""
    scheduler: KubeScheduler
    history: PodHistory | None = None
    warnings: Sequence[str] = ()


Read = Callable[[], PodCluster]
"""Reads the current state of the cluster."""


def read_file(objects: ClusterObjects, settings: "Configuration", target: ReportTarget) -> PodCluster:
    """Return the cluster of a file; a target without a namespace is in `default`."""
    from extender.config.scheduler.load import load_kube_scheduler
    from extender.k8s.version.found import version_of_pods

    scheduler = load_kube_scheduler(settings, version_of_pods(objects.pods))
    snapshot, namespace = _snapshot(objects, scheduler), target.namespace or "default"
    pod = _arrived(snapshot, target) or snapshot.objects.pods.get((namespace, target.name))
    return PodCluster(namespace, target.name, snapshot, pod, scheduler)


def read_live(
    api: "ApiServer", settings: "Configuration", target: ReportTarget, *, timeout: float, no_color: bool
) -> PodCluster:
    """Read the parts of a live cluster that the pod's verdict depends on, within `timeout` seconds."""
    from extender.cli.sources.read_progress import reading_progress
    from extender.cluster.list.read import read_for_pod
    from extender.config.scheduler.load import load_kube_scheduler

    namespace = target.namespace or api.namespace
    with reading_progress(no_color) as on_progress:
        found = read_for_pod(
            api,
            target.manifest or (namespace, target.name),
            lambda version: load_kube_scheduler(settings, version),
            timeout=timeout,
            on_progress=on_progress,
        )
    snapshot = _snapshot(found.objects, found.scheduler)
    pod = _arrived(snapshot, target) or found.pod
    return PodCluster(namespace, target.name, snapshot, pod, found.scheduler, found.history, found.warnings)


def _snapshot(objects: ClusterObjects, scheduler: KubeScheduler) -> Snapshot:
    try:
        return Snapshot.build(objects, scheduler.features)
    except ValueError as error:
        raise ClusterFileError(str(error)) from error


def _arrived(snapshot: Snapshot, target: ReportTarget) -> Pod | None:
    """Return the pod of the manifest as the API server would store it, with its claims; None without a manifest."""
    if target.manifest is None:
        return None
    add_claims(snapshot, target.claims)
    return add_arrivals(snapshot, [target.manifest])[0]
