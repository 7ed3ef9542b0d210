"""Create the pods of Deployments, ReplicaSets, StatefulSets and Jobs, as their controllers do.

Pods get the owner references, labels and names that their controller gives, but the random part of a name counts up.
A workload that already exists is scaled: its pods count, and only missing pods are created, for a Deployment in the
ReplicaSet of its running pods. Rollouts are not simulated.

Rule: a workload that cannot be created raises an error that names it.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import key_of
from extender.k8s.objects import (
    ClaimVolumeSource,
    Int32,
    Labels,
    LabelSelector,
    Object,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    Value,
    Volume,
)
from extender.k8s.selectors import SelectorError, compile_label_selector
from extender.k8s.storage.objects import PersistentVolumeClaim, PhaseStatus
from extender.k8s.storage.volumes import BETA_CLASS
from extender.k8s.validation import decode_error_message, validate
from extender.k8s.well_known import DEFAULT_STORAGE_CLASS
from extender.k8s.workloads import TEMPLATE_HASH, ReplicaSet, StatefulSet, Workload, WorkloadSpec, workload_of
from extender.whatif.controllers import SAFE_CHARACTERS, STATEFUL_SET, NameGenerator

WorkloadKind = Literal["Deployment", "ReplicaSet", "StatefulSet", "Job"]

API_VERSIONS: Mapping[str, str] = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
}

WORKLOAD_KINDS: Final = frozenset(API_VERSIONS)

_POD_NAME, _POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
_JOB_NAME, _JOB_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


class PodTemplate(Value, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class StatefulSetOrdinals(Value, frozen=True):
    start: Int32 = 0


class WorkloadManifestSpec(Value, frozen=True):
    """Fields of all four kinds; a manifest sets only fields of its own kind."""

    replicas: Int32 | None = None
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    pod_management_policy: str | None = None
    volume_claim_templates: list[PersistentVolumeClaim] | None = None
    ordinals: StatefulSetOrdinals | None = None


class WorkloadManifest(Object, frozen=True, kw_only=True):
    """A workload to create or to scale."""

    kind: WorkloadKind
    spec: WorkloadManifestSpec = WorkloadManifestSpec()

    @property
    def key(self) -> Workload:
        return self.metadata.namespace, self.kind, self.metadata.name

    @property
    def replicas(self) -> int:
        """Return the number of pods that run at once."""
        spec = self.spec
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


class PlannedPod(NamedTuple):
    """A pod to create, with the volume claims to create for it."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The pods that a workload lacks."""

    workload: WorkloadManifest
    existing: int
    """Number of replicas that already exist."""
    pods: tuple[PlannedPod, ...]

    @property
    def is_ordered(self) -> bool:
        """Return whether each pod is created only once its predecessor is Ready."""
        return self.workload.kind == STATEFUL_SET and self.workload.spec.pod_management_policy != "Parallel"


# --- manifests --------------------------------------------------------------------------------------------------------


def parse_workload(given: Any, namespace: str = "default") -> WorkloadManifest:
    """Parse a manifest from JSON values; `namespace`: the default of a manifest that names none.

    Raises RequestError that names the invalid field.
    """
    kind = given.get("kind") if isinstance(given, Mapping) else None
    version = API_VERSIONS.get(kind) if isinstance(kind, str) else None
    if version is None or given.get("apiVersion", version) != version:
        name = str(kind)[:80] if kind is not None else "an object without kind"
        raise RequestError(f"{name} is not one of {', '.join(f'{v} {k}' for k, v in API_VERSIONS.items())}")
    try:
        workload = msgspec.convert(given, WorkloadManifest)
        for path, one in _validated(workload):
            try:
                validate(one)
            except ValueError as error:
                raise ValueError(str(error).replace("at $", f"at $.{path}", 1)) from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{kind}: {decode_error_message(error)}") from error
    metadata = replace(workload.metadata, namespace=workload.metadata.namespace or namespace)
    workload = replace(workload, metadata=metadata)
    _check(workload)
    return workload


def _validated(workload: WorkloadManifest) -> Iterator[tuple[str, Object]]:
    template = workload.spec.template
    yield "spec.template", Pod(template.metadata, template.spec)
    for number, claim in enumerate(workload.spec.volume_claim_templates or ()):
        yield f"spec.volumeClaimTemplates[{number}]", claim


def _check(workload: WorkloadManifest) -> None:
    """Raise RequestError for a workload that the API server would reject, as far as the simulation depends on it."""
    spec = workload.spec
    if not workload.metadata.name:
        raise RequestError(f"{workload.kind}: metadata.name is missing")
    start = spec.ordinals.start if spec.ordinals is not None else 0
    if min(spec.replicas or 0, spec.parallelism or 0, spec.completions or 0, start) < 0:
        raise RequestError(f"{workload}: replicas, parallelism, completions and ordinals must not be negative")
    # The API server generates the selector of a Job.
    if workload.kind == "Job":
        return
    try:
        selects = spec.selector is not None and compile_label_selector(spec.selector).matches(
            spec.template.metadata.labels
        )
    except SelectorError as error:
        raise RequestError(f"{workload}: spec.selector: {error}") from error
    if not selects:
        raise RequestError(f"{workload}: spec.selector does not match the labels of spec.template")


# --- pods -------------------------------------------------------------------------------------------------------------


def current_pods(snapshot: Snapshot, workloads: Sequence[WorkloadManifest]) -> Mapping[Workload, Sequence[Pod]]:
    """Return the active pods of each workload, and the succeeded ones of a Job."""
    found: dict[Workload, list[Pod]] = {one.key: [] for one in workloads}
    for pod in snapshot.objects.pods.values() if found else ():
        own = found.get(workload_of(pod))
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
    template = _template_of(snapshot, workload, current)
    if workload.kind == STATEFUL_SET:
        yield from _missing_of_stateful_set(snapshot, workload, template, current)
        return
    for labels in _further_labels(workload, current):
        index = labels.get(_JOB_INDEX)
        prefix = f"{template.owner.name}-" if index is None else f"{template.owner.name}-{index}-"
        yield PlannedPod(template.pod(names.next(workload.metadata.namespace, prefix), labels))


@dataclass(frozen=True, slots=True)
class _Template:
    """Fields that all pods of a workload share."""

    owner: OwnerReference
    labels: Labels
    template: PodTemplate
    namespace: str

    def pod(self, name: str, further: Labels) -> Pod:
        """Return a pod with this name and the `further` labels."""
        metadata = ObjectMeta(
            name=name,
            namespace=self.namespace,
            uid=f"{self.namespace}/{name}",
            labels={**self.labels, **further} if further else self.labels,
            annotations=self.template.metadata.annotations,
            owner_references=[self.owner],
        )
        return Pod(metadata, replace(self.template.spec, node_name=""), PodStatus(phase="Pending"))


def _template_of(snapshot: Snapshot, workload: WorkloadManifest, current: Sequence[Pod]) -> _Template:
    """Return the template of the workload's pods, and put their controller into the snapshot."""
    given, template = workload.metadata, workload.spec.template
    labels = dict(template.metadata.labels or {})
    uid = given.uid or f"{given.namespace}/{workload.kind}/{given.name}"
    owner = OwnerReference(API_VERSIONS[workload.kind], workload.kind, given.name, uid, controller=True)
    if workload.kind == "Deployment":
        owner, labels[TEMPLATE_HASH] = _replica_set_of(workload, current, owner)
    if workload.kind == "Job":
        labels |= {_JOB_NAME: given.name, "job-name": given.name}
    _put_controller(snapshot, workload, owner, labels)
    return _Template(owner, labels, template, given.namespace)


def _replica_set_of(
    workload: WorkloadManifest, current: Sequence[Pod], deployment: OwnerReference
) -> tuple[OwnerReference, str]:
    """Return the ReplicaSet of a Deployment's new pods, and its pod-template-hash."""
    if current:  # rollouts are not simulated: new pods join the ReplicaSet that already has pods
        metadata = current[0].metadata
        assert metadata.controller is not None
        return metadata.controller, (metadata.labels or {})[TEMPLATE_HASH]
    # Any stable hash does: the pod-template-hash only has to be the same for the same template.
    number = str(zlib.crc32(msgspec.json.encode(workload.spec.template)))
    text = "".join(SAFE_CHARACTERS[ord(one) % len(SAFE_CHARACTERS)] for one in number)
    name = f"{deployment.name}-{text}"
    return replace(deployment, kind="ReplicaSet", name=name, uid=f"{deployment.uid}/{text}"), text


def _put_controller(snapshot: Snapshot, workload: WorkloadManifest, owner: OwnerReference, labels: Labels) -> None:
    """Create the ReplicaSet or StatefulSet, whose selector the default topology spread constraints use."""
    selector = workload.spec.selector
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
    snapshot: Snapshot, workload: WorkloadManifest, template: _Template, current: Sequence[Pod]
) -> Iterator[PlannedPod]:
    there = {pod.metadata.name for pod in current}
    templates = workload.spec.volume_claim_templates or ()
    for name in _stateful_set_names(workload):
        if name not in there:
            pod = template.pod(name, {_POD_NAME: name, _POD_INDEX: name.rpartition("-")[2]})
            claims = [_claim(snapshot, one, pod) for one in templates]
            lacking = (one for one in claims if key_of("PersistentVolumeClaim", one) not in snapshot.objects.claims)
            yield PlannedPod(_with_claims(pod, templates, claims), tuple(lacking))


def _claim(snapshot: Snapshot, template: PersistentVolumeClaim, pod: Pod) -> PersistentVolumeClaim:
    """Return the volume claim of a StatefulSet's pod, in the StorageClass of its template or the default one."""
    own, namespace, spec = template.metadata, pod.metadata.namespace, replace(template.spec, volume_name="")
    if spec.storage_class_name is None and BETA_CLASS not in (own.annotations or {}):
        spec = replace(spec, storage_class_name=_default_storage_class(snapshot))
    name = f"{own.name}-{pod.metadata.name}"
    metadata = replace(own, name=name, namespace=namespace, uid=f"{namespace}/{name}")
    return PersistentVolumeClaim(metadata, spec, PhaseStatus("Pending"))


def _default_storage_class(snapshot: Snapshot) -> str | None:
    """Return the default StorageClass, the newest if there are several (storage/util GetDefaultClass, v1.36)."""
    found = [
        one.metadata
        for one in snapshot.objects.storage_classes.values()
        if (one.metadata.annotations or {}).get(DEFAULT_STORAGE_CLASS) == "true"
    ]
    # max() returns the first of equals: of equally new classes, the first by name.
    newest = sorted(found, key=lambda one: one.name)
    return max(newest, key=lambda one: one.creation_timestamp or "").name if newest else None


def _with_claims(pod: Pod, templates: Sequence[PersistentVolumeClaim], claims: Sequence[PersistentVolumeClaim]) -> Pod:
    """Return the pod with a volume for each claim; it replaces a volume of the same name in the pod template."""
    volumes = {
        template.metadata.name: Volume(
            name=template.metadata.name, persistent_volume_claim=ClaimVolumeSource(claim.metadata.name)
        )
        for template, claim in zip(templates, claims, strict=True)
    }
    if not volumes:
        return pod
    others = [one for one in pod.spec.volumes or () if one.name not in volumes]
    return replace(pod, spec=replace(pod.spec, volumes=[*volumes.values(), *others]))
