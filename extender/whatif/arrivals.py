"""Create the objects that arrive in a simulation, as an API server and the controllers of a new pod do.

    manifest -> admission -> the object as stored -> claims of its ephemeral volumes and claim templates

An object that has a UID was stored by an API server, and is taken as it is, like a typed object.

Rule: an object that is not admitted fails the whole simulation with an error that names it; of a workload's pods, only
if all are refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from extender.admission.admit import AdmissionMode, Admit, decoded
from extender.admission.cluster import AdmissionCluster
from extender.admission.controllers import ephemeral_claims
from extender.admission.findings import Findings, Refused
from extender.admission.plugins.priority import with_priority
from extender.cluster.files.manifests import RawManifest, kind_of
from extender.core.snapshot.pod_table import identity, is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.devices.objects import ResourceClaim, ResourceClaimStatus
from extender.k8s.kinds import KINDS, Key, ObjectTables, key_of
from extender.k8s.objects import Node, Object, ObjectMeta, OwnerReference, Pod, PodResourceClaimStatus
from extender.k8s.storage.objects import PersistentVolumeClaim, PhaseStatus
from extender.k8s.time import parse_time
from extender.k8s.validation import decode_error_message, validate
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.k8s.version.versions import DEFAULT_MINOR
from extender.report.simulation_schema import AdmissionReport

MAX_NOTED = 20
"""Number of fields that the report lists of each sort."""

NO_CLUSTER = AdmissionCluster(ObjectTables(), DEFAULT_FEATURES, DEFAULT_MINOR)


_TEMPLATES = ("spec.template", "spec.jobTemplate.spec.template")
"""Places of the pod in a workload."""


class PlannedPod(NamedTuple):
    """A pod that a controller creates."""

    manifest: dict[str, Any]
    claims: tuple[dict[str, Any], ...] = ()
    """Volume claims to create for it."""
    is_like_others: bool = True
    """Whether admission makes the same spec of all pods with this `spec` object."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        metadata = self.manifest["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"


def pending_pods(snapshot: Snapshot) -> list[Pod]:
    """List the pods without a node in the order of kube-scheduler's queue (PrioritySort.Less)."""
    pending = (
        pod
        for pod in snapshot.pods_without_row()
        if not pod.spec.node_name and not is_finished(pod) and pod.metadata.deletion_timestamp is None
    )

    def queue_order(pod: Pod) -> tuple[int, int, str, str]:
        created = pod.metadata.creation_timestamp
        return -pod.priority, parse_time(created) if created else 0, pod.metadata.namespace, pod.metadata.name

    return sorted(pending, key=queue_order)


class Arrivals:
    """Creates objects in a snapshot, and keeps what admission finds in them."""

    def __init__(self, snapshot: Snapshot, mode: AdmissionMode, admit: Admit, minor: int) -> None:
        """`minor`: minor version of the API server."""
        self.snapshot = snapshot
        self._mode, self._admit = mode, admit
        self._cluster = AdmissionCluster(snapshot.objects, snapshot.features, minor, snapshot.unreadable_tables)
        self._findings: dict[str, Findings] = {}
        self._like: dict[int, tuple[Any, dict[str, Any], Pod]] = {}
        """id() of a spec -> the spec itself, which thereby lives, and the first pod with it: its manifest and Pod."""
        self._exists: list[str] = []
        """Given objects that the cluster has already."""
        self._claim_numbers = count(1)

    # --- objects beside the pods ---

    def add_objects(self, given: Iterable[RawManifest]) -> None:
        """Create the objects that pods need; one that the cluster has already stays, unless it is an unused claim.

        Raises RequestError if an allocated ResourceClaim exists, for a duplicate name, and for a refused object.
        """
        created = set[tuple[str, Key]]()
        # Claims last: the default StorageClass may be among the objects.
        for arrival in sorted(given, key=lambda one: one.kind == "PersistentVolumeClaim"):
            kind = key_of_kind(arrival)
            if kind is None:
                continue
            loaded = self._with_uid(kind, self._decoded(arrival, self.admitted(arrival)))
            key = key_of(kind, loaded)
            name = "/".join(filter(None, key))
            if (kind, key) in created:
                raise RequestError(f"{place_of(arrival)}duplicate {arrival.kind} {name!r}")
            created.add((kind, key))
            before = self.snapshot.objects.of(kind).get(key)
            if isinstance(before, ResourceClaim) and before.status.allocation is not None:
                raise RequestError(f"resource claim {name!r} already exists and is allocated: choose another name")
            if isinstance(loaded, ResourceClaim):
                loaded = replace(loaded, status=ResourceClaimStatus())
            if before is None or isinstance(before, ResourceClaim):
                self.snapshot.put(kind, loaded)
            else:
                self._exists.append(f"{arrival.kind} {name}")

    # --- pods ---

    def add_pods(self, given: Sequence[RawManifest | Pod]) -> list[Pod]:
        """Create the pods with their claims, and return them as stored.

        A pending pod of the same name is replaced. Raises RequestError for a pod that cannot be created.
        """
        created: dict[str, Pod] = {}
        for one in given:
            pod = self._typed(one) if isinstance(one, Pod) else self.arriving_pod(one)
            place = "" if isinstance(one, Pod) else place_of(one)
            if pod.key in created:
                raise RequestError(f"{place}duplicate pod {pod.key!r}")
            created[pod.key] = self._put_pod(pod, place)
        self.snapshot.refresh_layout()
        return list(created.values())

    def create(self, planned: PlannedPod) -> Pod:
        """Return the pod of a controller as stored, which the caller puts into the snapshot, and create its claims.

        Raises RequestError if it exists already, and Refused if an API server would refuse it.
        """
        metadata = planned.manifest["metadata"]
        namespace, spec = metadata["namespace"], planned.manifest["spec"]
        if (namespace, metadata["name"]) in self.snapshot.objects.pods:
            raise RequestError(f"pod {planned.key!r} of a workload already exists, and belongs to another one")
        # A quota counts each pod; everything else that admission does is the same for all pods of a template.
        quotas = self._mode == "local" and any(key[0] == namespace for key in self.snapshot.objects.resource_quotas)
        like = self._like.get(id(spec)) if planned.is_like_others and not quotas else None
        if like is None:
            arrival = RawManifest("", "Pod", planned.manifest)
            admitted = self.admitted(arrival)
            like = spec, admitted, self._typed(cast(Pod, self._decoded(arrival, admitted)))
            if planned.is_like_others:
                self._like[id(spec)] = like
        _, admitted, typed = like
        for claim in planned.claims:
            self._create_claim(claim)
        own = msgspec.convert({**metadata, "uid": typed.metadata.uid}, ObjectMeta)
        pod = replace(typed, metadata=replace(own, uid=planned.key))
        return self._with_claims(pod, {**admitted, "metadata": metadata | {"uid": planned.key}})

    def typed_pod(self, arrival: RawManifest) -> Pod:
        """Return a pod as stored without creating it, such as one to ask which nodes a DaemonSet runs on."""
        return self._typed(cast(Pod, self._decoded(arrival, self.admitted(arrival))))

    def node(self, given: RawManifest | Node) -> Node:
        """Return a node as stored without creating it; RequestError if it has no resources."""
        node = given if isinstance(given, Node) else cast(Node, self._decoded(given, self.admitted(given)))
        if not node.status.allocatable:
            raise RequestError(f"addNodes: node {node.metadata.name!r}: status.allocatable is missing")
        return node

    def arriving_pod(self, arrival: RawManifest) -> Pod:
        """Create the pod's claims, and return it as stored without creating it."""
        admitted = self.admitted(arrival)
        pod = self._typed(cast(Pod, self._decoded(arrival, admitted)))
        if arrival.is_stored:
            return pod
        metadata = {**admitted["metadata"], "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        return self._with_claims(pod, {**admitted, "metadata": metadata})

    def _typed(self, pod: Pod) -> Pod:
        """Return the pod with a namespace and a UID, by which reports tell pods apart."""
        return cast(Pod, self._with_uid("Pod", pod))

    def _put_pod(self, pod: Pod, place: str) -> Pod:
        before = self.snapshot.objects.pods.get(key_of("Pod", pod))
        if before is not None and before.spec.node_name:
            if identity(before) != identity(pod) and not pod.spec.node_name:
                raise RequestError(
                    f"{place}pod {pod.key!r} already exists on node {before.spec.node_name!r}: choose another name"
                )
            return before
        if not pod.spec.node_name:
            try:
                self.snapshot.put("Pod", pod)
            except ValueError as error:
                raise RequestError(f"{place}pod {pod.key!r}: {error}") from error
        return pod

    # --- claims of a new pod ---

    def _with_claims(self, pod: Pod, manifest: dict[str, Any]) -> Pod:
        """Create the claims of the pod's ephemeral volumes and claim templates; return the pod with their names."""
        for claim in ephemeral_claims(manifest):
            self._create_claim(claim)
        statuses = list(self._resource_claims(pod))
        return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses)) if statuses else pod

    def _create_claim(self, manifest: dict[str, Any]) -> None:
        arrival = RawManifest("", "PersistentVolumeClaim", manifest)
        claim = cast(PersistentVolumeClaim, self._decoded(arrival, self.admitted(arrival)))
        if key_of("PersistentVolumeClaim", claim) not in self.snapshot.objects.claims:
            new = replace(claim, status=PhaseStatus("Pending"))
            self.snapshot.put("PersistentVolumeClaim", self._with_uid("PersistentVolumeClaim", new))

    def _resource_claims(self, pod: Pod) -> Iterator[PodResourceClaimStatus]:
        """Create a ResourceClaim for each template that the pod names (pkg/controller/resourceclaim, v1.37)."""
        namespace, pod_uid = pod.metadata.namespace, pod.metadata.uid
        owner = OwnerReference("v1", "Pod", pod.metadata.name, pod_uid, controller=True)
        for one in pod.spec.resource_claims or ():
            template = self.snapshot.objects.resource_claim_templates.get(
                (namespace, one.resource_claim_template_name or "")
            )
            if template is None or one.resource_claim_name is not None:
                continue
            # Numbered, not random: the same request must get the same answer.
            name = f"{pod.metadata.name}-{one.name}-{next(self._claim_numbers)}"
            metadata = replace(
                template.spec.metadata,
                name=name,
                namespace=namespace,
                uid=f"{namespace}/{name}",
                owner_references=[owner],
            )
            self.snapshot.put("ResourceClaim", ResourceClaim(metadata, template.spec.spec))
            yield PodResourceClaimStatus(one.name, name)

    # --- admission ---

    def admitted(self, arrival: RawManifest) -> dict[str, Any]:
        """Return the manifest as stored; Refused if an API server would refuse it."""
        if arrival.is_stored:
            given = dict(arrival.object)
            return with_priority(given, self._cluster) if arrival.kind == "Pod" and self._mode != "none" else given
        try:
            manifest, findings = self._admit(key_of_kind(arrival) or arrival.kind, arrival.object, self._cluster)
        except Refused as error:
            raise Refused(f"{place_of(arrival)}{error}") from error
        metadata = manifest.get("metadata") or {}
        self._findings[f"{arrival.kind} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"] = findings
        return manifest

    def report(self) -> AdmissionReport | None:
        """Return what admission found; None if nothing was admitted."""
        found = self._findings
        if not found:
            return None
        return AdmissionReport(
            mode=self._mode,
            version=f"1.{self._cluster.minor}",
            left_out=_noted(found, "left_out"),
            pruned=_noted(found, "pruned"),
            assumed=_noted(found, "assumed"),
            existing=self._exists,
            warnings=_noted(found, "warnings"),
        )

    def _decoded(self, arrival: RawManifest, manifest: Mapping[str, Any]) -> Object:
        try:
            loaded = msgspec.convert(manifest, KINDS[key_of_kind(arrival) or ""].type)
            validate(loaded)
            if not loaded.metadata.name:
                raise ValueError("metadata.name is missing")
        except (ValueError, RecursionError) as error:
            name = f" {'/'.join(arrival.name)}" if arrival.name[1] else ""
            raise RequestError(f"{place_of(arrival)}{arrival.kind}{name}: {decode_error_message(error)}") from error
        return loaded

    def _with_uid(self, kind: str, loaded: Object) -> Object:
        metadata = loaded.metadata
        namespace = (metadata.namespace or "default") if KINDS[kind].namespaced else ""
        uid = metadata.uid or f"{namespace}/{metadata.name}"
        return replace(loaded, metadata=replace(metadata, namespace=namespace, uid=uid))


def has_own_claims(pod: RawManifest) -> bool:
    """Return whether controllers create claims for the pod; True for a manifest that is invalid there."""
    spec = pod.object.get("spec")
    parts = spec if isinstance(spec, dict) else {}
    volumes, claims = parts.get("volumes") or (), parts.get("resourceClaims") or ()
    if claims or not isinstance(volumes, list | tuple):
        return True
    return any(not isinstance(one, dict) or "ephemeral" in one for one in volumes)


def decode(kind: str, manifest: Mapping[str, Any]) -> Object:
    """Return the object of a manifest as it is; RequestError for wrong types. `kind`: key of KINDS."""
    try:
        return msgspec.convert(decoded(kind, manifest, NO_CLUSTER), KINDS[kind].type)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{kind}: {decode_error_message(error)}") from error


def key_of_kind(one: RawManifest) -> str | None:
    """Return the key of KINDS for a manifest, None if its kind is not read; RequestError for an unsupported version."""
    version = one.object.get("apiVersion")
    try:
        return kind_of(one.kind, version if isinstance(version, str) else "")
    except ValueError as error:
        raise RequestError(f"{place_of(one)}{one.kind}: {error}") from error


def place_of(arrival: RawManifest) -> str:
    """Return the beginning of a message about the manifest."""
    return f"{arrival.place}: " if arrival.place else ""


def _noted(findings: dict[str, Findings], field: str) -> list[str]:
    """Return what was found of one sort, each once: a workload's pods lack what its template lacks."""
    every = dict.fromkeys(one for found in findings.values() for one in getattr(found, field))
    once = [one for one in every if not any(f"{place}.{one}" in every for place in _TEMPLATES)]
    if len(findings) == 1 or field not in ("left_out", "pruned"):
        return once
    first = {one: of for of, found in reversed(findings.items()) for one in getattr(found, field)}
    return [f"{first[one]} {one}" for one in once]
