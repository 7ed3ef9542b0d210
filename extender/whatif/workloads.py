"""Create the pods of workloads, as their controllers do.

Pods get the owner references, labels and names that their controller gives, but the random part of a name counts up.
A workload that already exists is scaled: its pods count, and only missing pods are created, for a Deployment in the
ReplicaSet of its running pods. Rollouts are not simulated.

Rule: a workload that cannot be created raises an error that names it.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Final, Literal
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from extender.admission.admit import decoded
from extender.admission.names import SAFE_CHARACTERS
from extender.admission.pods.strategy import affinity_terms
from extender.cluster.files.manifests import RawManifest
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import key_of
from extender.k8s.objects import (
    Int32,
    Labels,
    LabelSelector,
    Object,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    Value,
)
from extender.k8s.selectors import compile_label_selector
from extender.k8s.validation import decode_error_message
from extender.k8s.workloads import TEMPLATE_HASH, ReplicaSet, StatefulSet, Workload, WorkloadSpec, workload_of
from extender.whatif.arrivals import NO_CLUSTER, Arrivals, PlannedPod, place_of
from extender.whatif.controllers import DAEMON_SET, STATEFUL_SET, NameGenerator

WorkloadKind = Literal[
    "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob"
]

API_VERSIONS: Mapping[str, str] = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}

WORKLOAD_KINDS: Final = frozenset(API_VERSIONS)

_POD_NAME, _POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
_JOB_NAME, _JOB_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_JOB_UID, _REVISION = "batch.kubernetes.io/controller-uid", "controller-revision-hash"


class _PodTemplate(Value, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class StatefulSetOrdinals(Value, frozen=True):
    start: Int32 = 0


class WorkloadManifestSpec(Value, frozen=True):
    """Fields of all kinds; a manifest sets only fields of its own kind."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: Any = None
    """A LabelSelector; of a ReplicationController, labels."""
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    """The pod template as it is given: admission reads fields that decisions do not."""
    pod_management_policy: str | None = None
    volume_claim_templates: list[dict[str, Any]] | None = None
    ordinals: StatefulSetOrdinals | None = None


class WorkloadManifest(Object, frozen=True, kw_only=True):
    """A workload to create or to scale."""

    kind: WorkloadKind
    spec: WorkloadManifestSpec = WorkloadManifestSpec()

    @property
    def key(self) -> Workload:
        return self.metadata.namespace, self.kind, self.metadata.name

    @property
    def labels(self) -> Labels:
        """Return the labels of the pod template."""
        return (self.spec.template.get("metadata") or {}).get("labels") or {}

    @property
    def label_selector(self) -> LabelSelector | None:
        """Return the selector of its pods."""
        given = self.spec.selector
        if self.kind == "ReplicationController":
            return LabelSelector(match_labels=given or self.labels)
        return None if given is None else msgspec.convert(given, LabelSelector)

    @property
    def replicas(self) -> int:
        """Return the number of pods that run at once; of a DaemonSet, that depends on the nodes: 0."""
        spec = self.spec
        if self.kind == "DaemonSet":
            return 0
        if self.kind != "Job":
            return 1 if spec.replicas is None else spec.replicas
        if spec.suspend:
            return 0
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        return parallelism if spec.completions is None else min(parallelism, spec.completions)

    def active(self, succeeded: int) -> int:
        """Return the number of pods that run at once after `succeeded` pods of a Job succeeded (manageJob, v1.36)."""
        if not succeeded:
            return self.replicas
        completions = self.spec.completions
        return 0 if completions is None else min(self.replicas, max(0, completions - succeeded))

    def __str__(self) -> str:
        return f"{self.kind} {self.metadata.namespace}/{self.metadata.name}"


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The pods that a workload lacks."""

    workload: WorkloadManifest
    existing: int
    """Number of replicas that already exist."""
    pods: tuple[PlannedPod, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Nodes on which a DaemonSet runs no pod -> why."""

    @property
    def is_ordered(self) -> bool:
        """Return whether each pod is created only once its predecessor is Ready."""
        return self.workload.kind == STATEFUL_SET and self.workload.spec.pod_management_policy != "Parallel"


# --- manifests --------------------------------------------------------------------------------------------------------


def workload_of_manifest(given: Mapping[str, Any]) -> WorkloadManifest:
    """Return the workload of an admitted manifest; a CronJob's is its Job. ValueError names the invalid field."""
    if given.get("kind") == "CronJob":
        given = _job_of(given)
    workload = msgspec.convert(given, WorkloadManifest)
    if not workload.metadata.name:
        raise ValueError("metadata.name is missing")
    metadata = replace(workload.metadata, namespace=workload.metadata.namespace or "default")
    workload = replace(workload, metadata=metadata)
    spec = workload.spec
    start = spec.ordinals.start if spec.ordinals is not None else 0
    if min(spec.replicas or 0, spec.parallelism or 0, spec.completions or 0, start) < 0:
        raise ValueError("replicas, parallelism, completions and ordinals must not be negative")
    # The API server generates the selector of a Job.
    if workload.kind != "Job":
        selector = workload.label_selector
        if selector is None or not compile_label_selector(selector).matches(workload.labels):
            raise ValueError("spec.selector does not match the labels of spec.template")
    return workload


def check_workload(one: RawManifest) -> None:
    """Raise RequestError for a manifest of another kind or version."""
    version = API_VERSIONS.get(one.kind)
    if version is None or one.object.get("apiVersion", version) != version:
        name = one.kind or "an object without kind"
        supported = ", ".join(f"{version} {kind}" for kind, version in API_VERSIONS.items())
        raise RequestError(f"{one.place}: {name} is not one of {supported}")


def replicas_of(arrival: RawManifest) -> int:
    """Return the number of pods that a workload wants, before it is admitted; 0 if its manifest is invalid."""
    try:
        return given_workload(arrival).replicas
    except RequestError:
        return 0


def given_workload(arrival: RawManifest) -> WorkloadManifest:
    """Return a workload before it is admitted; RequestError if its manifest is invalid."""
    manifest = decoded(arrival.kind, arrival.object, NO_CLUSTER)
    metadata = manifest.get("metadata") or {}
    # Admission generates a name.
    name = metadata.get("name") or metadata.get("generateName") or ""
    return _workload(arrival, {**manifest, "metadata": {**metadata, "name": name}})


def admitted_workloads(arrivals: Arrivals, given: Sequence[RawManifest]) -> list[WorkloadManifest]:
    """Return the workloads as an API server stores them.

    Raises RequestError for a workload that is refused or given twice.
    """
    workloads: dict[Workload, WorkloadManifest] = {}
    for one in given:
        workload = _workload(one, arrivals.admitted(one))
        if workload.key in workloads:
            raise RequestError(f"{place_of(one)}duplicate workload {workload}")
        workloads[workload.key] = workload
    return list(workloads.values())


def _workload(arrival: RawManifest, manifest: Mapping[str, Any]) -> WorkloadManifest:
    try:
        workload = workload_of_manifest({**manifest, "kind": arrival.kind})
        msgspec.convert(workload.spec.template, _PodTemplate)  # whose hash all pods have
        return workload
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{place_of(arrival)}{arrival.kind}: {decode_error_message(error)}") from error


def _job_of(cron_job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Job that the CronJob's controller would create next (cronjob/utils.go getJobFromTemplate2, v1.37)."""
    given = cron_job.get("metadata") or {}
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    # The controller appends the scheduled time in minutes, which is not known.
    metadata = {
        **(template.get("metadata") or {}),
        "name": f"{given.get('name')}-1",
        "namespace": given.get("namespace"),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}


# --- pods -------------------------------------------------------------------------------------------------------------


def current_pods(snapshot: Snapshot, workloads: Sequence[WorkloadManifest]) -> Mapping[Workload, Sequence[Pod]]:
    """Return the active pods of each workload, and the succeeded ones of a Job.

    A ReplicaSet or ReplicationController adopts matching pods without a controller (controller_ref_manager.go, v1.37).
    """
    found: dict[Workload, list[Pod]] = {one.key: [] for one in workloads}
    adopting = [
        (found[one.key], one.metadata.namespace, compile_label_selector(one.label_selector))
        for one in workloads
        if one.kind in ("ReplicaSet", "ReplicationController")
    ]
    for pod in snapshot.objects.pods.values() if found else ():
        own = found.get(workload_of(pod))
        if own is None and adopting and pod.metadata.controller is None:
            metadata = pod.metadata
            own = next(
                (
                    pods
                    for pods, namespace, selector in adopting
                    if namespace == metadata.namespace and selector.matches(metadata.labels)
                ),
                None,
            )
        if own is not None and (_succeeded(pod) or (pod.metadata.deletion_timestamp is None and not is_finished(pod))):
            own.append(pod)
    return found


def _succeeded(pod: Pod) -> bool:
    """Return whether the pod is one of the completions of its Job."""
    owner = pod.metadata.controller
    return pod.status.phase == "Succeeded" and owner is not None and owner.kind == "Job"


def plan(snapshot: Snapshot, workload: WorkloadManifest, current: Sequence[Pod], names: NameGenerator) -> WorkloadPlan:
    """Plan the missing pods of the workload, and put its controller into the snapshot."""
    succeeded = sum(map(_succeeded, current))
    existing = len(current) - succeeded
    if workload.kind == STATEFUL_SET:
        # By name: pods with higher ordinals do not count, as the controller would delete them.
        wanted = set(islice(_stateful_set_names(workload), workload.replicas))
        existing = sum(pod.metadata.name in wanted for pod in current)
    lacking = max(0, workload.active(succeeded) - existing)
    return WorkloadPlan(workload, existing, tuple(islice(further_pods(snapshot, workload, current, names), lacking)))


def further_pods(
    snapshot: Snapshot, workload: WorkloadManifest, current: Sequence[Pod], names: NameGenerator
) -> Iterator[PlannedPod]:
    """Yield further pods of the workload endlessly, regardless of its number of replicas."""
    template = template_of(snapshot, workload, current)
    if workload.kind == STATEFUL_SET:
        yield from _missing_of_stateful_set(workload, template, current)
        return
    for labels in _further_labels(workload, current):
        index = labels.get(_JOB_INDEX)
        prefix = f"{template.owner.name}-" if index is None else f"{template.owner.name}-{index}-"
        metadata = template.metadata(names.next(workload.metadata.namespace, prefix), labels)
        yield PlannedPod({"metadata": metadata, "spec": template.spec}, is_like_others=not labels)


@dataclass(frozen=True, slots=True)
class Template:
    """Fields that all pods of a workload share."""

    owner: OwnerReference
    labels: Labels
    template: Mapping[str, Any]
    namespace: str

    def metadata(self, name: str, further: Labels) -> dict[str, Any]:
        """Return the metadata of a pod with this name and the `further` labels."""
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.labels, **further},
            "ownerReferences": [msgspec.to_builtins(self.owner)],
        }
        annotations = (self.template.get("metadata") or {}).get("annotations")
        return metadata | {"annotations": annotations} if annotations else metadata

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of every pod."""
        spec: dict[str, Any] = self.template.get("spec") or {}
        return spec


def template_of(snapshot: Snapshot, workload: WorkloadManifest, current: Sequence[Pod]) -> Template:
    """Return the template of the workload's pods, and put their controller into the snapshot."""
    given, template = workload.metadata, workload.spec.template
    labels = dict(workload.labels)
    uid = given.uid or f"{given.namespace}/{workload.kind}/{given.name}"
    owner = OwnerReference(API_VERSIONS[workload.kind], workload.kind, given.name, uid, controller=True)
    if workload.kind == "Deployment":
        owner, labels[TEMPLATE_HASH] = _replica_set_of(workload, current, owner)
    if workload.kind == "Job":
        label = str(uuid5(NAMESPACE_URL, uid))  # our UIDs are not valid label values
        labels |= {_JOB_NAME: given.name, "job-name": given.name, _JOB_UID: label, "controller-uid": label}
    if workload.kind in (STATEFUL_SET, DAEMON_SET):
        labels[_REVISION] = f"{given.name}-{_hash(workload)}" if workload.kind == STATEFUL_SET else _hash(workload)
    if workload.kind == DAEMON_SET:
        labels["pod-template-generation"] = "1"
    _put_controller(snapshot, workload, owner, labels)
    return Template(owner, labels, template, given.namespace)


def _replica_set_of(
    workload: WorkloadManifest, current: Sequence[Pod], deployment: OwnerReference
) -> tuple[OwnerReference, str]:
    """Return the ReplicaSet of a Deployment's new pods, and its pod-template-hash."""
    if current:  # rollouts are not simulated: new pods join the ReplicaSet that already has pods
        metadata = current[0].metadata
        assert metadata.controller is not None
        return metadata.controller, (metadata.labels or {})[TEMPLATE_HASH]
    text = _hash(workload)
    name = f"{deployment.name}-{text}"
    return replace(deployment, kind="ReplicaSet", name=name, uid=f"{deployment.uid}/{text}"), text


def _hash(workload: WorkloadManifest) -> str:
    """Return a hash of the pod template: any stable one does, it only has to be the same for the same template."""
    number = str(zlib.crc32(msgspec.json.encode(msgspec.convert(workload.spec.template, _PodTemplate))))
    return "".join(SAFE_CHARACTERS[ord(one) % len(SAFE_CHARACTERS)] for one in number)


def _put_controller(snapshot: Snapshot, workload: WorkloadManifest, owner: OwnerReference, labels: Labels) -> None:
    """Create the ReplicaSet or StatefulSet, whose selector the default topology spread constraints use."""
    selector = workload.label_selector
    if selector is None or owner.kind not in ("ReplicaSet", STATEFUL_SET):
        return
    if workload.kind == "Deployment":
        hashed = {TEMPLATE_HASH: labels[TEMPLATE_HASH]}
        selector = replace(selector, match_labels={**(selector.match_labels or {}), **hashed})
    metadata = ObjectMeta(name=owner.name, namespace=workload.metadata.namespace, uid=owner.uid)
    kind = StatefulSet if owner.kind == STATEFUL_SET else ReplicaSet
    one = kind(metadata, WorkloadSpec(selector))
    if key_of(owner.kind, one) not in snapshot.objects.of(owner.kind):
        snapshot.put(owner.kind, one)


def _further_labels(workload: WorkloadManifest, current: Sequence[Pod]) -> Iterator[Labels]:
    """Yield, pod by pod, the labels that the template lacks: the completion index of an Indexed Job."""
    is_indexed = workload.kind == "Job" and workload.spec.completion_mode == "Indexed"
    taken = {(pod.metadata.labels or {}).get(_JOB_INDEX) for pod in current}
    for number in count():
        if not is_indexed:
            yield {}
        elif str(number) not in taken:
            yield {_JOB_INDEX: str(number)}


# --- StatefulSets -----------------------------------------------------------------------------------------------------


def _stateful_set_names(workload: WorkloadManifest) -> Iterator[str]:
    """Yield the names of a StatefulSet's pods by ordinal."""
    ordinals = workload.spec.ordinals
    return (f"{workload.metadata.name}-{one}" for one in count(ordinals.start if ordinals is not None else 0))


def _missing_of_stateful_set(
    workload: WorkloadManifest, template: Template, current: Sequence[Pod]
) -> Iterator[PlannedPod]:
    there = {pod.metadata.name for pod in current}
    templates = workload.spec.volume_claim_templates or ()
    # The labels by which the pods may get different selectors.
    terms = (*affinity_terms(template.spec), *(template.spec.get("topologySpreadConstraints") or ()))
    keys = {key for term in terms for of in ("matchLabelKeys", "mismatchLabelKeys") for key in term.get(of) or ()}
    for name in _stateful_set_names(workload):
        if name not in there:
            further = {_POD_NAME: name, _POD_INDEX: name.rpartition("-")[2]}
            metadata, claims = (
                template.metadata(name, further),
                [_claim(one, name, template.namespace) for one in templates],
            )
            spec = _with_claims(template.spec, templates, claims) if claims else template.spec
            is_like_others = not claims and keys.isdisjoint(further)
            yield PlannedPod({"metadata": metadata, "spec": spec}, tuple(claims), is_like_others)


def _claim(template: Mapping[str, Any], pod: str, namespace: str) -> dict[str, Any]:
    """Return the volume claim of a StatefulSet's pod."""
    given = template.get("metadata") or {}
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name != "volumeName"}
    metadata = {**given, "name": f"{given.get('name')}-{pod}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _with_claims(
    spec: Mapping[str, Any], templates: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the spec with a volume for each claim; it replaces a volume of the same name in the pod template."""
    names = ((template.get("metadata") or {}).get("name") for template in templates)
    volumes = {
        name: {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in zip(names, claims, strict=True)
    }
    others = [one for one in spec.get("volumes") or () if one.get("name") not in volumes]
    return {**spec, "volumes": [*volumes.values(), *others]}
