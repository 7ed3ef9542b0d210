"""Kubernetes objects that decisions read, with only the fields that are read.

One Struct per API type, named as in k8s.io/api. More types are in `storage.objects`, `devices.objects` and `workloads`.
Unknown fields are ignored; None is an unset list, map or struct, which Go may write as `null`.

Rule: immutable values without any decisions.
"""

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, field

QuantityText = str | int | float | None
"""A quantity in JSON or YAML (null is 0); `quantity.parse` returns its amount."""

ResourceList = dict[str, QuantityText]
Labels = dict[str, str]
LabelsKey = tuple[tuple[str, str], ...]
"""Labels as a hashable value, sorted by key."""

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Value(msgspec.Struct, gc=False, rename="camel", omit_defaults=True, frozen=True):
    """Base of all values: immutable, and not tracked by the garbage collector, because they never form cycles."""


def labels_key(labels: Labels | None) -> LabelsKey:
    """Return a hashable key that is equal for equal labels, in any order."""
    return tuple(sorted((labels or {}).items()))


# --- metadata and selectors (meta/v1) ---------------------------------------------------------------------------


class OwnerReference(Value, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Value, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    """Incremented with every change of the spec; read only for PodDisruptionBudgets and pods."""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages the object (meta/v1 GetControllerOf, v1.36)."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class Object(Value, frozen=True):
    """Base of all objects with metadata."""

    metadata: ObjectMeta


class NamespacedObject(Object, frozen=True):
    """Base of objects that reports name by their namespace, too."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class LabelSelectorRequirement(Value, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Value, frozen=True):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(Value, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Value, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Value, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class Condition(Value, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    """kube-scheduler's message in PodScheduled, of a pod without a node; else empty. Only reports show it."""
    last_transition_time: str | None = None
    """Kept of a pod without a node, for reports."""


# --- Node -------------------------------------------------------------------------------------------------------


class Taint(Value, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(Value, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Value, frozen=True):
    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeSystemInfo(Value, frozen=True):
    kubelet_version: str = ""


class NodeStatus(Value, frozen=True):
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None
    node_info: NodeSystemInfo | None = None
    """Not read for decisions: reports compare the kubelets' versions with kube-scheduler's."""


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- Pod: scheduling constraints ------------------------------------------------------------------------------------


class Toleration(Value, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PreferredSchedulingTerm(Value, frozen=True):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Value, frozen=True):
    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: list[PreferredSchedulingTerm] | None = field(default=None, name=_PREFERRED)


class PodAffinityTerm(Value, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Value, frozen=True):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Value, frozen=True):
    """PodAffinity and PodAntiAffinity, which have the same fields."""

    required: list[PodAffinityTerm] | None = field(default=None, name=_REQUIRED)
    preferred: list[WeightedPodAffinityTerm] | None = field(default=None, name=_PREFERRED)


class Affinity(Value, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Value, frozen=True):
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Named(Value, frozen=True):
    """The name of a scheduling gate or a resource claim."""

    name: str = ""


# --- Pod: containers and volumes -------------------------------------------------------------------------------------


class ResourceRequirements(Value, frozen=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ContainerPort(Value, frozen=True):
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Value, frozen=True):
    action: str = ""


class VolumeMount(Value, frozen=True):
    bind_mount_options: list[str] | None = None


class Container(Value, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None


class ClaimVolumeSource(Value, frozen=True):
    claim_name: str = ""


class ImageVolumeSource(Value, frozen=True):
    reference: str = ""


class GCEPersistentDisk(Value, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Value, frozen=True):
    volume_id: str = field(default="", name="volumeID")


class AzureDisk(Value, frozen=True):
    disk_uri: str = field(default="", name="diskURI")


class CinderVolume(Value, frozen=True):
    volume_id: str = field(default="", name="volumeID")


class PortworxVolume(Value, frozen=True):
    volume_id: str = field(default="", name="volumeID")


class InTreeDisk(Value, frozen=True):
    """In-tree volume sources that migrated to CSI drivers; at most one is set."""

    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None


class ISCSIVolume(Value, frozen=True):
    iqn: str = ""
    read_only: bool = False


class RBDVolume(Value, frozen=True):
    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class Volume(InTreeDisk, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: dict[str, Any] | None = None
    rbd: RBDVolume | None = None
    iscsi: ISCSIVolume | None = None


class ContainerStatus(Value, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


# --- Pod ------------------------------------------------------------------------------------------------------------

SCHEDULING = "scheduling.k8s.io"
"""API group of Kubernetes' own PodGroups and PriorityClasses."""

COSCHEDULING = "scheduling.x-k8s.io"
"""API group of the PodGroups of kubernetes-sigs/scheduler-plugins."""

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
"""Label that names a pod's PodGroup of COSCHEDULING (scheduler-plugins apis/scheduling/v1alpha1 PodGroupLabel)."""


class PodGroupName(NamedTuple):
    """A PodGroup by its API group (SCHEDULING or COSCHEDULING) and name, in the namespace of its pods."""

    api_group: str
    name: str


class SchedulingGroup(Value, frozen=True):
    pod_group_name: str | None = None


class PodResourceClaim(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(Value, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    """None if the claim was not needed."""


class PodExtendedResourceClaimStatus(Value, frozen=True):
    resource_claim_name: str = ""


class PodSpec(Value, frozen=True):
    node_name: str = ""
    node_selector: Labels | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList | None = None
    volumes: list[Volume] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_gates: list[Named] | None = None
    scheduler_name: str = "default-scheduler"
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 | None = None
    scheduling_group: SchedulingGroup | None = None


class PodStatus(Value, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    qos_class: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(NamespacedObject, frozen=True, gc=True, weakref=True):
    # Weak references need gc=True; the collector still skips a pod's fields, which are untracked.
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        """Return spec.priority, 0 if unset (component-helpers corev1.PodPriority, v1.36)."""
        return self.spec.priority or 0

    @property
    def is_ready(self) -> bool:
        """Return whether the condition Ready is True; False without conditions (podutil.IsPodReady, v1.36)."""
        return next((one.status == "True" for one in self.status.conditions or () if one.type == "Ready"), False)

    @property
    def pod_group(self) -> PodGroupName | None:
        """Return the PodGroup that the pod names, which may not exist; the spec overrides the label."""
        if self.spec.scheduling_group is not None and self.spec.scheduling_group.pod_group_name:
            return PodGroupName(SCHEDULING, self.spec.scheduling_group.pod_group_name)
        name = (self.metadata.labels or {}).get(COSCHEDULING_LABEL)
        return PodGroupName(COSCHEDULING, name) if name else None


# --- budgets, namespaces and priority classes -----------------------------------------------------------------------


class PodDisruptionBudgetSpec(Value, frozen=True):
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Value, frozen=True):
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str | None] | None = None


class PodDisruptionBudget(Object, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Namespace(Object, frozen=True):
    """A namespace's metadata: name and labels."""


class PriorityClass(Object, frozen=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
