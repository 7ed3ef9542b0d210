"""Read the input of `extender why`: the cluster, the pod, its kube-scheduler and its Events.

Rule: a live cluster is only read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from extender.admission.admit import AdmissionMode, Admit, admit
from extender.cli.sources.cluster import source_of
from extender.cluster.list.pod_history import PodHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.report.scheduler_report import with_version_hint
from extender.report.schema import SourceReport
from extender.report.simulation_schema import AdmissionReport, ClusterSize
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
    """The pod to explain: one of the cluster, or a manifest; or the pending pods to list."""

    namespace: str
    """Namespace; empty for that of the kubeconfig's context, or of the pod that this process runs in, and in a list for
    all."""
    name: str
    manifests: "ManifestFiles | None" = None
    """The pod or workload and what it needs, if it does not exist yet."""
    admission: AdmissionMode = "local"
    admit: Admit = field(default=admit)

    @property
    def is_list(self) -> bool:
        """Return whether the pending pods are listed: neither a name nor a manifest was given."""
        return not self.name and self.manifests is None


@dataclass(frozen=True, slots=True)
class PodCluster:
    """The parts of a cluster that were read for one pod."""

    namespace: str
    name: str
    source: SourceReport
    size: ClusterSize
    """Nodes and pods without the manifest."""
    snapshot: Snapshot
    pod: Pod | None
    """None if the cluster has no such pod, or if the pending pods are listed."""
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

    found = version_of_pods(objects.pods)
    scheduler = load_kube_scheduler(settings, found)
    snapshot = snapshot_of(objects, scheduler)
    source = source_of(None, objects.files)
    namespace = target.namespace or ("" if target.is_list else source.namespace)
    pod, report, size = snapshot.objects.pods.get((namespace, target.name)), None, size_of(snapshot)
    if target.manifests is not None:
        pod, report = _arrived(snapshot, target, target.manifests, scheduler)
    hinted = with_version_hint(source, scheduler, objects.nodes, found)
    return PodCluster(namespace, target.name, hinted, size, snapshot, pod, scheduler, admission=report)


def read_live(
    api: "ApiServer",
    settings: "Configuration",
    target: ReportTarget,
    *,
    timeout: float,
    no_color: bool,
) -> PodCluster:
    """Read what the verdict on the pod, or on all pods, depends on from a live cluster, within `timeout` seconds."""
    from extender.cli.sources.progress import show_progress
    from extender.cluster.list.read import read_cluster, read_for_pod
    from extender.config.scheduler.load import load_kube_scheduler

    source = source_of(api)
    if target.is_list:
        with show_progress(no_color) as on_progress:
            whole = read_cluster(api, settings.preemption.policy(), timeout=timeout, on_progress=on_progress)
        scheduler = load_kube_scheduler(settings, whole.found)
        snapshot = snapshot_of(whole.objects, scheduler)
        hinted = with_version_hint(source, scheduler, whole.objects.nodes, whole.found)
        size, warnings = size_of(snapshot), whole.warnings
        return PodCluster(target.namespace, "", hinted, size, snapshot, None, scheduler, warnings=warnings)
    namespace = target.namespace or api.namespace
    manifest = None if target.manifests is None else _preview(target.manifests)
    # What admission reads is read only for what is admitted here: not for a manifest of a stored pod.
    is_new = manifest is not None and target.admission == "local" and not manifest["metadata"].get("uid")
    with show_progress(no_color) as on_progress:
        found = read_for_pod(
            api,
            (namespace, target.name) if manifest is None else cast(Pod, decode("Pod", manifest)),
            lambda version: load_kube_scheduler(settings, version),
            timeout=timeout,
            on_progress=on_progress,
            manifest=manifest if is_new else None,
        )
    snapshot, scheduler = snapshot_of(found.objects, found.scheduler), found.scheduler
    pod, report, size = found.pod, None, size_of(snapshot)
    if target.manifests is not None:
        pod, report = _arrived(snapshot, target, target.manifests, scheduler)
    hinted = with_version_hint(source, scheduler, found.objects.nodes, found.found)
    about = (hinted, size, snapshot, pod, scheduler, found.history, found.warnings, report)
    return PodCluster(namespace, target.name, *about)


def size_of(snapshot: Snapshot) -> ClusterSize:
    return ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))


def snapshot_of(objects: ClusterObjects, scheduler: KubeScheduler) -> Snapshot:
    """Return the snapshot of what was read; ClusterFileError if it is invalid."""
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
