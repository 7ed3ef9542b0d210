"""The functions of the public Python API and the types that they take and return; `extender` exports them."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from extender.admission.admit import Admit, admission_of
from extender.cluster.files.manifests import FileAdmission, RawManifest, load_cluster, read_cluster
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import UNCONFIGURED, UPSTREAM, KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ConfigError, RequestError, UnknownScheduler
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.found import version_of_pods
from extender.report.diagnose import diagnose, not_found
from extender.report.lists.pending import pending_report
from extender.report.pod_schema import Diagnosis, PendingReport
from extender.report.scheduler_report import source_of_files, with_source, with_version_hint
from extender.report.schema import OBJECTS, SourceReport
from extender.report.simulation_schema import AdmissionReport, ClusterSize, Simulation
from extender.whatif.arrivals import Arrivals, has_own_claims
from extender.whatif.body import manifests
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.simulator import simulate as _simulate

if TYPE_CHECKING:  # importing the server costs time, which reading a cluster does not need
    from extender.server.replay import ReplayResult

__all__ = [
    "ClusterObjects",
    "Diagnosis",
    "Evaluation",
    "EvictionHistory",
    "KubeScheduler",
    "PendingReport",
    "Pod",
    "Simulation",
    "Snapshot",
    "evaluate",
    "load_cluster",
    "load_scheduler",
    "replay",
    "simulate",
    "why",
]

SchedulerConfig = Mapping[str, Any] | str | os.PathLike[str]
"""A KubeSchedulerConfiguration, or the path of its file."""


def load_scheduler(
    scheduler_config: SchedulerConfig | None = None,
    *,
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> KubeScheduler:
    """Return the kube-scheduler that a KubeSchedulerConfiguration describes; without one, with default settings.

    `version` is its minor version, such as "1.33" (default 1.37), `feature_gates` its --feature-gates. `config` is a
    configuration file of the extender with the preemption policies; arguments override its `scheduler` section.
    Raises ConfigError with one line per mistake and its location.
    """
    from extender.config.scheduler.load import kube_scheduler_of

    if config is not None:
        return _scheduler_of_file(Path(config), scheduler_config, version, feature_gates)
    return kube_scheduler_of(_document(scheduler_config), version=version, feature_gates=feature_gates)


def evaluate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: Pod | Mapping[str, Any],
    *,
    claims: Iterable[Mapping[str, Any]] = (),
    admission: FileAdmission = "local",
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: SchedulerConfig | None = None,
    scheduler: KubeScheduler | None = None,
    history: EvictionHistory | None = None,
) -> Evaluation:
    """Evaluate `pod` on every node of `cluster`: filter statuses, scores and preemption candidates.

    `cluster` is a `List` object as `kubectl get -o json` prints it, the result of `load_cluster`, or a Snapshot; a
    Snapshot built for a different version or feature gates is rebuilt. Pass either `version`, `feature_gates` and
    `scheduler_config`, as for `load_scheduler`, or its result as `scheduler`; the default is kube-scheduler v1.37.
    The profile with the pod's spec.schedulerName evaluates it; without a configuration, the default profile evaluates
    every pod. `history` holds the current time and the recent evictions; by default now and none.
    A mapping without a UID becomes what an API server would store (`admission`: local, or none to take it as it is),
    and its ephemeral volumes get their claims; `claims` are further objects that it needs and the cluster lacks.
    Raises ClusterFileError for an invalid cluster, RequestError for a pod that an API server would refuse, ConfigError
    for an invalid configuration, and UnknownScheduler for a pod that no profile of the given configuration schedules.
    """
    ours = _chosen_scheduler(scheduler, scheduler_config, version, feature_gates)
    objects = cluster if isinstance(cluster, Snapshot) else _objects(cluster, ours, admission)
    snapshot = _snapshot(objects, ours)
    if isinstance(pod, Pod):
        typed = pod
    else:
        arriving, others = _pod_manifest(pod, ""), manifests(claims, "claim")
        if snapshot is cluster and (others or has_own_claims(arriving)):
            snapshot = Snapshot.build(snapshot.frozen(), ours.features)  # the caller's must not change
        arrivals = Arrivals(snapshot, admission, _admit(admission), ours.minor)
        arrivals.add_objects(others)
        typed = arrivals.arriving_pod(arriving)
    profile = ours.profile_of(typed)
    if profile is None:
        if scheduler is not None or scheduler_config is not None:
            names = ", ".join(one.scheduler_name for one in ours.profiles)
            wanted = f'schedulerName "{typed.spec.scheduler_name}" (profiles: {names})'
            raise UnknownScheduler(f"pod {typed.key!r}: not ours: no profile has {wanted}")
        profile = ours.profiles[0]
    found = Evaluation(snapshot, typed, profile, history or EvictionHistory(time.time_ns()))
    source = to_builtins(_source(objects, ours))
    found.judged_by = {"version": ours.release, "versionSource": ours.version_source, "source": source}
    return found


def simulate(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pods: Iterable[Pod | Mapping[str, Any]] = (),
    *,
    claims: Iterable[Mapping[str, Any]] = (),
    pending: bool = False,
    workloads: Iterable[Mapping[str, Any]] = (),
    add_nodes: Iterable[tuple[Mapping[str, Any], int]] = (),
    cordon: Iterable[str] = (),
    remove_nodes: Iterable[str] = (),
    drain: Iterable[str] = (),
    until_full: bool = False,
    gang: bool = False,
    replace_evicted: bool = True,
    admission: FileAdmission = "local",
    strict: bool = False,
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: SchedulerConfig | None = None,
    scheduler: KubeScheduler | None = None,
    history: EvictionHistory | None = None,
    seed: int | None = None,
) -> Simulation:
    """Simulate the arrival of `pods`; with `pending`, also try the pending pods of the cluster again.

    Runs whole scheduling cycles as kube-scheduler does; `cluster` itself does not change. A pod whose schedulerName has
    no profile is skipped; without a configuration, `default-scheduler` is the only profile. `seed` makes the choice
    among equal nodes random; without it, the first by name is chosen. The other arguments are those of `evaluate`.
    First, nodes are added (`add_nodes`: pairs of a Node and a count), cordoned, removed with their pods, and
    drained within disruption budgets; then the pods arrive, and the missing pods of `workloads` (manifests of
    Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and ReplicationControllers). `claims` and
    `admission` are those of `evaluate`; with `strict`, fields that are unknown or left out are mistakes, too.
    `gang` schedules all arriving pods or none; `until_full` counts
    how many copies of the only pod, or pods of the only workload, fit. Controllers recreate evicted pods
    unless `replace_evicted` is False. Node changes and recreated pods are in `scenario` and `replacements`.
    Raises RequestError for a pod that cannot be admitted, for example because its PriorityClass does not exist, and for
    a scenario that names a nonexistent node.
    """
    added = list(add_nodes)
    _admit(admission)
    scenario = Scenario(
        pods=[
            pod if isinstance(pod, Pod) else _pod_manifest(pod, f"pod {number}") for number, pod in enumerate(pods, 1)
        ],
        claims=manifests(claims, "claim"),
        pending=pending,
        seed=seed,
        add_nodes=[
            AddedNodes(node, count)
            for node, (_, count) in zip(manifests([node for node, _ in added], "added node"), added, strict=True)
        ],
        cordon=list(cordon),
        remove_nodes=list(remove_nodes),
        drain=list(drain),
        workloads=manifests(workloads, "workload"),
        until_full=until_full,
        gang=gang,
        replace_evicted=replace_evicted,
        admission=admission,
        strict=strict,
    )
    ours = _chosen_scheduler(scheduler, scheduler_config, version, feature_gates)
    objects = cluster if isinstance(cluster, Snapshot) else _objects(cluster, ours, admission)
    now = history or EvictionHistory(time.time_ns())
    return with_source(_simulate(_own_snapshot(objects, ours), ours, scenario, history=now), _source(objects, ours))


@overload
def why(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: None = None,
    *,
    namespace: str | None = None,
    admission: FileAdmission = "local",
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: SchedulerConfig | None = None,
    scheduler: KubeScheduler | None = None,
    history: EvictionHistory | None = None,
) -> PendingReport: ...


@overload
def why(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: str | Pod | Mapping[str, Any],
    *,
    namespace: str | None = None,
    node: str | None = None,
    claims: Iterable[Mapping[str, Any]] = (),
    admission: FileAdmission = "local",
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: SchedulerConfig | None = None,
    scheduler: KubeScheduler | None = None,
    history: EvictionHistory | None = None,
) -> Diagnosis: ...


def why(
    cluster: ClusterObjects | Mapping[str, Any] | Snapshot,
    pod: str | Pod | Mapping[str, Any] | None = None,
    *,
    namespace: str | None = None,
    node: str | None = None,
    claims: Iterable[Mapping[str, Any]] = (),
    admission: FileAdmission = "local",
    version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: SchedulerConfig | None = None,
    scheduler: KubeScheduler | None = None,
    history: EvictionHistory | None = None,
) -> Diagnosis | PendingReport:
    """Explain why a pod is pending, or why it runs on its node; without a pod, list all pending pods.

    `pod`: `namespace/name` of a pod in the cluster, or a pod that does not exist yet. `node`: node to show in full;
    `namespace`: of a name without one, by default `default`, or of the pending pods to list, by default all. The other
    arguments are those of `evaluate`; a pod whose schedulerName has no profile is Unknown. `cluster` itself does not
    change. Raises RequestError for a pod that cannot be admitted, a nonexistent node, and arguments that do not apply.
    """
    others = list(claims)
    before, slash, name = pod.rpartition("/") if isinstance(pod, str) else ("", "", "")
    if pod is None and node is not None:
        raise RequestError("node= applies to one pod: pass a pod")
    if others and (pod is None or isinstance(pod, str)):
        raise RequestError("claims= applies to a pod that does not exist yet: pass its manifest")
    if namespace is not None and pod is not None and not isinstance(pod, str):
        raise RequestError("namespace= applies to a name: a manifest has metadata.namespace")
    if slash and namespace not in (None, before):
        raise RequestError(f"namespace {namespace} contradicts {pod}")
    ours = _chosen_scheduler(scheduler, scheduler_config, version, feature_gates)
    history = history or EvictionHistory(time.time_ns())
    objects = cluster if isinstance(cluster, Snapshot) else _objects(cluster, ours, admission)
    source = _source(objects, ours)
    if pod is None:
        return with_source(pending_report(_snapshot(objects, ours), ours, history, namespace), source)
    if isinstance(pod, str):
        snapshot, key = _snapshot(objects, ours), (before or namespace or "default", name)
        found = snapshot.objects.pods.get(key)
        known = not_found(snapshot, *key, ours) if found is None else diagnose(snapshot, found, ours, history, node)
    else:
        snapshot = _own_snapshot(objects, ours)
        size = ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
        found, report = _admitted(snapshot, pod, others, admission, ours)
        known = replace_fields(diagnose(snapshot, found, ours, history, node), admission=report, cluster=size)
    return with_source(known, source)


def replay(path: str | os.PathLike[str], config: str | os.PathLike[str] | None = None) -> "Iterator[ReplayResult]":
    """Answer every recorded call again on the recorded cluster state; yield each result with its differences.

    `config`: a configuration file to use instead of the recorded settings.
    Raises RecordingError for an invalid recording and ConfigError for an invalid file.
    """
    from extender.config import load_config
    from extender.server.replay import open_recording, settings_of

    if config is None:
        return open_recording(path).results()
    return open_recording(path).results(under=settings_of(load_config(Path(config), {})))


# --- arguments --------------------------------------------------------------------------------------------------------


def _chosen_scheduler(
    scheduler: KubeScheduler | None,
    scheduler_config: SchedulerConfig | None,
    version: str | None,
    feature_gates: Mapping[str, bool] | None,
) -> KubeScheduler:
    """Return the kube-scheduler that the arguments describe; the default v1.37 if all of them are None."""
    is_described = not (version is None and feature_gates is None and scheduler_config is None)
    if scheduler is not None and is_described:
        raise ValueError("pass either scheduler= or version=/feature_gates=/scheduler_config=, not both")
    if is_described:
        return load_scheduler(scheduler_config, version=version, feature_gates=feature_gates)
    return scheduler or UNCONFIGURED


def _objects(
    cluster: ClusterObjects | Mapping[str, Any], scheduler: KubeScheduler, admission: FileAdmission
) -> ClusterObjects:
    return read_cluster(cluster, admission=admission, scheduler_of=lambda _: scheduler).objects


def _source(cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler) -> SourceReport:
    """Return the files that the cluster was loaded from, or that it was given as objects."""
    if isinstance(cluster, Snapshot):
        return with_version_hint(OBJECTS, scheduler, cluster.objects.nodes.values(), None)
    source = source_of_files(cluster.files, OBJECTS)
    return with_version_hint(source, scheduler, cluster.nodes, version_of_pods(cluster.pods))


def _snapshot(cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler) -> Snapshot:
    """Return a snapshot of the cluster; a given one is reused if it was built for the scheduler's features."""
    if isinstance(cluster, Snapshot) and cluster.features == scheduler.features:
        return cluster
    return _own_snapshot(cluster, scheduler)


def _own_snapshot(cluster: ClusterObjects | Snapshot, scheduler: KubeScheduler) -> Snapshot:
    """Return a snapshot of the cluster that may be changed."""
    return Snapshot.build(cluster.frozen() if isinstance(cluster, Snapshot) else cluster, scheduler.features)


def _admitted(
    snapshot: Snapshot,
    pod: Pod | Mapping[str, Any],
    claims: Iterable[Mapping[str, Any]],
    admission: FileAdmission,
    scheduler: KubeScheduler,
) -> tuple[Pod, AdmissionReport | None]:
    """Create the pod and the objects that it needs in the snapshot, and return it as stored."""
    arrivals = Arrivals(snapshot, admission, _admit(admission), scheduler.minor)
    arrivals.add_objects(manifests(claims, "claim"))
    arrived = arrivals.add_pods([pod if isinstance(pod, Pod) else _pod_manifest(pod, "")])
    return arrived[0], arrivals.report()


def _admit(mode: FileAdmission) -> Admit:
    if mode not in ("local", "none"):
        raise RequestError(f"admission: expected local or none, not {mode!r}: server is for the command line")
    return admission_of(mode, strict=False)


def _document(scheduler_config: SchedulerConfig | None) -> Mapping[str, Any] | Path:
    """Return the configuration itself, or the path of its file."""
    if scheduler_config is None or isinstance(scheduler_config, Mapping):
        return scheduler_config or {}
    try:
        return Path(scheduler_config)
    except TypeError as error:
        message = f"scheduler_config must be a mapping or the path of a file, not {scheduler_config!r}"
        raise ConfigError(message) from error


def _scheduler_of_file(
    config: Path, scheduler_config: SchedulerConfig | None, version: str | None, gates: Mapping[str, bool] | None
) -> KubeScheduler:
    """Return the kube-scheduler of the extender's configuration file `config`; the other arguments override it."""
    from extender.config import load_config
    from extender.config.scheduler.load import kube_scheduler_of, load_kube_scheduler

    document = _document(scheduler_config)
    overrides = {
        "scheduler_config": ("scheduler.config", str(document) if isinstance(document, Path) else None),
        "version": ("scheduler.version", version),
        "feature_gates": ("scheduler.featureGates", None if gates is None else dict(gates)),
    }
    settings = load_config(config, {}, {name: given for name, given in overrides.items() if given[1] is not None})
    ours = load_kube_scheduler(settings)
    if scheduler_config is None or isinstance(document, Path):
        return ours
    own, section = ours.profiles[0], settings.scheduler
    return kube_scheduler_of(
        document,
        version=None if section.version == "auto" else section.version,
        feature_gates=section.feature_gates,
        emulation=section.emulation,
        base=replace(UPSTREAM, preemption=own.preemption, keep_candidates=own.keep_candidates),
    )


def _pod_manifest(pod: Mapping[str, Any], place: str) -> RawManifest:
    if not isinstance(pod, Mapping):
        raise RequestError(f"{place or 'pod'}: expected an object with metadata and spec")
    if pod.get("kind", "Pod") != "Pod":  # the pod template of a workload would be ignored
        raise RequestError(f"a {pod['kind']} is not a Pod")
    return RawManifest(place, "Pod", dict(pod))
