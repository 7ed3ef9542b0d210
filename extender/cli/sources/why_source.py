"""Read the input of `extender why`: the cluster, the pod, its kube-scheduler and its Events.

Rule: a live cluster is only read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from extender.admission.admit import AdmissionMode, Admit, admit
from extender.cluster.list.pod_history import PodHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.report.simulation_schema import AdmissionReport
from extender.whatif.arrivals import Arrivals, decode
from extender.whatif.controllers import DAEMON_SET, NameGenerator
from extender.whatif.daemon_sets import daemon_spec
from extender.whatif.workloads import admitted_workloads, current_pods, further_pods, given_workload

if TYPE_CHECKING:
    from extender.cli.sources.arrivals import ManifestFiles
    from extender.cluster.apiserver.client import ApiServer
    from extender.config import Configuration


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """The pod to explain: one of the cluster, or a manifest."""

    namespace: str
    """Namespace; empty for that of the kubeconfig's context, or of the pod that this process runs in."""
    name: str
    manifests: "ManifestFiles | None" = None
    """The pod or workload and what it needs, if it does not exist yet."""
    admission: AdmissionMode = "local"
    admit: Admit = field(default=admit)


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
    admission: AdmissionReport | None = None
    """What admission made of the manifest."""


Read = Callable[[], PodCluster]
"""Reads the current state of the cluster."""


def read_file(objects: ClusterObjects, settings: "Configuration", target: ReportTarget) -> PodCluster:
    """Return the cluster of a file; a target without a namespace is in `default`."""
    from extender.config.scheduler.load import load_kube_scheduler
    from extender.k8s.version.found import version_of_pods

    scheduler = load_kube_scheduler(settings, version_of_pods(objects.pods))
    snapshot, namespace = _snapshot(objects, scheduler), target.namespace or "default"
    if target.manifests is not None:
        arrived, report = _arrived(snapshot, target, target.manifests, scheduler)
        return PodCluster(namespace, target.name, snapshot, arrived, scheduler, admission=report)
    pod = snapshot.objects.pods.get((namespace, target.name))
    return PodCluster(namespace, target.name, snapshot, pod, scheduler)


def read_live(
    api: "ApiServer", settings: "Configuration", target: ReportTarget, *, timeout: float, no_color: bool
) -> PodCluster:
    """Read the parts of a live cluster that the pod's verdict depends on, within `timeout` seconds."""
    from extender.cli.sources.read_progress import reading_progress
    from extender.cluster.list.read import read_for_pod
    from extender.config.scheduler.load import load_kube_scheduler

    namespace = target.namespace or api.namespace
    manifest = None if target.manifests is None else _preview(target.manifests)
    # What admission reads is read only for what is admitted here: not for a manifest of a stored pod.
    is_new = manifest is not None and target.admission == "local" and not manifest["metadata"].get("uid")
    with reading_progress(no_color) as on_progress:
        found = read_for_pod(
            api,
            (namespace, target.name) if manifest is None else cast(Pod, decode("Pod", manifest)),
            lambda version: load_kube_scheduler(settings, version),
            timeout=timeout,
            on_progress=on_progress,
            manifest=manifest if is_new else None,
        )
    snapshot = _snapshot(found.objects, found.scheduler)
    pod, report = found.pod, None
    if target.manifests is not None:
        pod, report = _arrived(snapshot, target, target.manifests, found.scheduler)
    return PodCluster(namespace, target.name, snapshot, pod, found.scheduler, found.history, found.warnings, report)


def _snapshot(objects: ClusterObjects, scheduler: KubeScheduler) -> Snapshot:
    try:
        return Snapshot.build(objects, scheduler.features)
    except ValueError as error:
        raise ClusterFileError(str(error)) from error


def _preview(given: "ManifestFiles") -> Mapping[str, Any]:
    """Return the manifest of the pod, to know which kinds its verdict depends on."""
    if given.pods:
        return given.pods[0].object
    workload = given_workload(given.workloads[0])
    blank = Snapshot(DEFAULT_FEATURES)
    return next(further_pods(blank, workload, (), NameGenerator(blank))).manifest


def _arrived(
    snapshot: Snapshot, target: ReportTarget, given: "ManifestFiles", scheduler: KubeScheduler
) -> tuple[Pod, AdmissionReport | None]:
    """Return the pod of the manifest, or the first pod of the workload, as an API server stores it, with its claims."""
    arrivals = Arrivals(snapshot, target.admission, target.admit, scheduler.minor)
    arrivals.add_objects(given.others)
    if given.pods:
        return arrivals.add_pods(given.pods)[0], arrivals.report()
    (workload,) = admitted_workloads(arrivals, given.workloads)
    current, names = current_pods(snapshot, [workload])[workload.key], NameGenerator(snapshot)
    planned = next(further_pods(snapshot, workload, current, names))
    if workload.kind == DAEMON_SET:
        planned = planned._replace(manifest={**planned.manifest, "spec": daemon_spec(planned.manifest["spec"])})
    pod = arrivals.create(planned)
    snapshot.put("Pod", pod)
    snapshot.refresh_layout()
    return pod, arrivals.report()
