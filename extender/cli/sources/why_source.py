"""Read what `extender why` needs: the cluster, the pod, the kube-scheduler that judges it, and what Events say.

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
class Subject:
    """The pod that is asked for, by name or by its manifest."""

    namespace: str
    """Empty: that of the kubeconfig's context, or of this process's pod."""
    name: str
    manifest: Pod | None = None
    """A pod that does not exist yet."""
    claims: Sequence[ResourceClaim] = ()
    """Its resource claims, which do not exist yet either."""


@dataclass(frozen=True, slots=True)
class PodCluster:
    """A cluster that was read for one pod."""

    namespace: str
    name: str
    snapshot: Snapshot
    pod: Pod | None
    """None: the cluster does not have it."""
    scheduler: KubeScheduler
    history: PodHistory | None = None
    warnings: Sequence[str] = ()


Read = Callable[[], PodCluster]
"""Reads the cluster as it is now."""


def read_file(objects: ClusterObjects, settings: "Configuration", subject: Subject) -> PodCluster:
    """Return the cluster of a file, in which a pod is of the namespace default unless it says otherwise."""
    from extender.config.scheduler import load_kube_scheduler
    from extender.k8s.version.found import version_of_pods

    scheduler = load_kube_scheduler(settings, version_of_pods(objects.pods))
    snapshot, namespace = _snapshot(objects, scheduler), subject.namespace or "default"
    pod = _arrived(snapshot, subject) or snapshot.objects.pods.get((namespace, subject.name))
    return PodCluster(namespace, subject.name, snapshot, pod, scheduler)


def read_live(
    api: "ApiServer", settings: "Configuration", subject: Subject, *, timeout: float, no_color: bool
) -> PodCluster:
    """Read of a live cluster what the pod needs, within `timeout` seconds."""
    from extender.cli.sources.read_progress import reading_progress
    from extender.cluster.list.read import read_for_pod
    from extender.config.scheduler import load_kube_scheduler

    namespace = subject.namespace or api.namespace
    with reading_progress(no_color) as on_progress:
        found = read_for_pod(
            api,
            subject.manifest or (namespace, subject.name),
            lambda version: load_kube_scheduler(settings, version),
            timeout=timeout,
            on_progress=on_progress,
        )
    snapshot = _snapshot(found.objects, found.scheduler)
    pod = _arrived(snapshot, subject) or found.pod
    return PodCluster(namespace, subject.name, snapshot, pod, found.scheduler, found.history, found.warnings)


def _snapshot(objects: ClusterObjects, scheduler: KubeScheduler) -> Snapshot:
    try:
        return Snapshot.build(objects, scheduler.features)
    except ValueError as error:
        raise ClusterFileError(str(error)) from error


def _arrived(snapshot: Snapshot, subject: Subject) -> Pod | None:
    """Return the pod of the manifest as the API server would store it, with its claims; None without a manifest."""
    if subject.manifest is None:
        return None
    add_claims(snapshot, subject.claims)
    return add_arrivals(snapshot, [subject.manifest])[0]
