"""Answer `extender why` from a file or a live cluster: the pending pods, or one pod with its Events.

Rule: a live cluster is only read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from extender.admission.admit import AdmissionMode, Admit, admit
from extender.cli.sources.cluster import namespace_of, print_warnings, read_cluster_once, source_of
from extender.cli.sources.progress import show_progress
from extender.cluster.list.pod_history import PodHistory
from extender.config.scheduler.load import load_kube_scheduler
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.report.diagnose import diagnose, not_found, with_history
from extender.report.lists.pending import pending_report
from extender.report.pod_schema import Diagnosis, PendingReport
from extender.report.scheduler_report import with_source, with_version_hint
from extender.report.schema import SourceReport
from extender.report.simulation_schema import AdmissionReport, ClusterSize
from extender.whatif.arrivals import Arrivals, decode
from extender.whatif.controllers import DAEMON_SET, NameGenerator
from extender.whatif.daemon_sets import daemon_spec
from extender.whatif.workloads import admitted_workloads, current_pods, further_pods, given_workload

if TYPE_CHECKING:
    from extender.cli.sources.arrivals import ManifestFiles
    from extender.cluster.apiserver.client import ApiServer
    from extender.cluster.files.manifests import FileAdmission
    from extender.cluster.list.read import ClusterForPod
    from extender.config import Configuration
    from extender.k8s.version.found import FoundVersion


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
class ClusterReader:
    """Reads the cluster of a command to answer about it: a live one again for each answer."""

    settings: "Configuration"
    api: "ApiServer | None"
    admission: "FileAdmission"
    timeout: float
    """Seconds to read a live cluster."""
    no_color: bool
    warned: set[str] = field(default_factory=set)
    """See `print_warnings`."""

    def list_pending(self, namespace: str) -> PendingReport:
        """List the pending pods of the namespace, or of all if it is empty."""
        objects, version = self._read_all()
        scheduler = load_kube_scheduler(self.settings, version)
        snapshot, history = _snapshot(objects, scheduler), EvictionHistory(time_ns())
        found = pending_report(snapshot, scheduler, history, namespace or None)
        return with_source(found, self._source(scheduler, objects, version))

    def explain(self, target: ReportTarget, node: str | None) -> Diagnosis:
        """Diagnose the pod; a target of a file without a namespace is in `default`. `node`: see `diagnose`."""
        namespace = target.namespace or namespace_of(self.api)
        # 1. A file, or what the verdict depends on from a live cluster.
        history: PodHistory | None = None
        if self.api is None:
            objects, version = self._read_all()
            scheduler = load_kube_scheduler(self.settings, version)
            snapshot = _snapshot(objects, scheduler)
            pod = snapshot.objects.pods.get((namespace, target.name))
        else:
            found = self._read_for_pod(self.api, target, namespace)
            objects, version, scheduler = found.objects, found.found, found.scheduler
            snapshot, pod, history = _snapshot(objects, scheduler), found.pod, found.history
        # 2. The pod of a manifest comes on top.
        report, size = None, ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
        if target.manifests is not None:
            pod, report = _arrived(snapshot, target, target.manifests, scheduler)
        # 3. Judge it.
        if pod is None:
            judged = not_found(snapshot, namespace, target.name, scheduler)
        else:
            judged = diagnose(snapshot, pod, scheduler, EvictionHistory(time_ns()), node)
        source = self._source(scheduler, objects, version)
        return replace(with_history(judged, history), admission=report, cluster=size, source=source)

    def _read_all(self) -> "tuple[ClusterObjects, FoundVersion | None]":
        return read_cluster_once(self.settings, self.api, self.timeout, self.no_color, self.admission, self.warned)

    def _read_for_pod(self, api: "ApiServer", target: ReportTarget, namespace: str) -> "ClusterForPod":
        from extender.cluster.list.read import read_for_pod

        manifest = None if target.manifests is None else _preview(target.manifests)
        # What admission reads is read only for what is admitted here: not for a manifest of a stored pod.
        is_new = manifest is not None and target.admission == "local" and not manifest["metadata"].get("uid")
        with show_progress(self.no_color) as on_progress:
            found = read_for_pod(
                api,
                (namespace, target.name) if manifest is None else cast(Pod, decode("Pod", manifest)),
                lambda version: load_kube_scheduler(self.settings, version),
                timeout=self.timeout,
                on_progress=on_progress,
                manifest=manifest if is_new else None,
            )
        print_warnings(found.warnings, self.warned)
        return found

    def _source(
        self, scheduler: KubeScheduler, objects: ClusterObjects, version: "FoundVersion | None"
    ) -> SourceReport:
        return with_version_hint(source_of(self.api, objects.files), scheduler, objects.nodes, version)


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
