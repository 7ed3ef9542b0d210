"""Switches that change verdicts between kube-scheduler's versions: one field per switch, with its versions beside it.

Some are feature gates (pkg/features/kube_features.go); the others are changes of behavior without a gate. Which
verdicts a switch changes is documented in docs/scheduler.md.

Rule: a switch is declared here once; plugins read it by its field and never compare versions themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from extender.k8s.version.gates import ALL_OF_STAGE, IDLE_GATES, UNFOLLOWED_GATES, Gate, Stage
from extender.k8s.version.versions import DEFAULT_MINOR, NO_EMULATION, OLDEST_MINOR, Backports, Emulation, Version

NEEDS_ARE_CHECKED_SINCE: Final = 35
"""First minor that does not start with a gate that is on while one that it needs is off."""


def since(minor: int, *, backports: Backports = MappingProxyType({})) -> Any:
    """Declare a behavior without a gate that kube-scheduler has since this minor's first release.

    `since(37, backports={36: 5})`: in 1.36.5 and later patches of 1.36, and from 1.37.0 on. A behavior that 1.37.0 does
    not have, but 1.37.2 does, is `since(38, backports={37: 2})`.
    """
    return field(
        default=Version(DEFAULT_MINOR).has(minor, backports), metadata={"since": minor, "backports": backports}
    )


def until(minor: int, *, since: int = OLDEST_MINOR, ended: Backports = MappingProxyType({})) -> Any:
    """Declare a behavior without a gate that kube-scheduler had up to this minor, that one included.

    `until(31, ended={30: 7, 31: 3})`: up to 1.30.6 in 1.30, and up to 1.31.2. `since`: the first minor that has it.
    """
    had = since <= DEFAULT_MINOR and not Version(DEFAULT_MINOR).has(minor + 1, ended)
    return field(default=had, metadata={"until": minor, "first": since, "backports": ended})


def gate(name: str, declared: str, *, on_since_compatible: int | None = None) -> Any:
    """Declare a feature gate as in `Gate.declared`."""
    found = Gate.declared(name, declared, on_since_compatible)
    return field(default=found.default(DEFAULT_MINOR), metadata={"gate": found})


@dataclass(frozen=True, slots=True)
class Features:
    """The switches of one kube-scheduler; `Features()` are those of DEFAULT_MINOR with its default feature gates."""

    # --- feature gates
    in_place_pod_vertical_scaling: bool = gate("InPlacePodVerticalScaling", "27 alpha off, 33 beta on, 35 locked on")
    """A running pod takes the maximum of what it requests, was allocated and holds."""
    in_place_pod_level_resources_vertical_scaling: bool = gate(
        "InPlacePodLevelResourcesVerticalScaling",
        "35 alpha off, 36 beta on; needs InPlacePodVerticalScaling, PodLevelResources, NodeDeclaredFeatures",
    )
    """The resources of a running pod as a whole are the maximum of requested, allocated and held ones as well."""
    pod_level_resources: bool = gate("PodLevelResources", "32 alpha off, 34 beta on")
    """Resources of the pod as a whole replace the sum of its containers."""
    csi_migration_portworx: bool = gate("CSIMigrationPortworx", "25 beta off, 31 beta on, 33 locked on, 36 removed on")
    """Portworx volumes of the in-tree plugin count for the limit of its CSI driver."""
    volume_attributes_class: bool = gate("VolumeAttributesClass", "29 alpha off, 31 beta off, 34 GA on, 36 locked on")
    """Claims may name a VolumeAttributesClass."""
    node_declared_features: bool = gate("NodeDeclaredFeatures", "35 alpha off, 36 beta on, 37 locked on")
    """NodeDeclaredFeatures is a plugin of the default profile."""
    dynamic_resource_allocation: bool = gate(
        "DynamicResourceAllocation", "26 alpha off, 32 beta off, 34 GA on, 35 locked on"
    )
    """DynamicResources is a plugin of the default profile."""
    dra_extended_resource: bool = gate(
        "DRAExtendedResource", "34 alpha off, 36 beta on, 37 locked on; needs DynamicResourceAllocation"
    )
    """DeviceClasses may back extended resources."""
    dra_admin_access: bool = gate(
        "DRAAdminAccess", "32 alpha off, 34 beta on, 36 locked on; needs DynamicResourceAllocation"
    )
    """Claims may ask for devices with admin access, which others may use as well."""
    dra_prioritized_list: bool = gate(
        "DRAPrioritizedList", "33 alpha off, 34 beta on, 36 GA on, 37 locked on; needs DynamicResourceAllocation"
    )
    """Claims may list alternatives (`firstAvailable`)."""
    dra_partitionable_devices: bool = gate(
        "DRAPartitionableDevices", "33 alpha off, 36 beta on; needs DynamicResourceAllocation"
    )
    """Devices may share counters, and have nodes of their own."""
    dra_device_taints: bool = gate(
        "DRADeviceTaints", "33 alpha off, 36 beta on, 37 GA on; needs DynamicResourceAllocation"
    )
    """Devices may have taints, which requests tolerate."""
    dra_device_taint_rules: bool = gate(
        "DRADeviceTaintRules", "35 alpha off, 36 beta off, 37 GA on; needs DRADeviceTaints"
    )
    """DeviceTaintRules taint devices."""
    dra_resource_claim_device_status: bool = gate(
        "DRAResourceClaimDeviceStatus", "32 alpha off, 33 beta on, 37 locked on"
    )
    """Claims report the conditions of their devices."""
    dra_device_binding_conditions: bool = gate(
        "DRADeviceBindingConditions",
        "34 alpha off, 36 beta on; needs DynamicResourceAllocation, DRAResourceClaimDeviceStatus",
    )
    """Devices may have conditions that must be true before a pod is bound."""
    dra_consumable_capacity: bool = gate(
        "DRAConsumableCapacity", "34 alpha off, 36 beta on; needs DynamicResourceAllocation"
    )
    """Several claims may share a device and consume its capacity."""
    dra_fractional_capacity_range: bool = gate(
        "DRAFractionalCapacityRange", "37 beta off; needs DRAConsumableCapacity", on_since_compatible=37
    )
    """Ranges of capacity may have fractions; off, they count in whole units."""
    taint_toleration_comparison_operators: bool = gate("TaintTolerationComparisonOperators", "35 alpha off")
    """Tolerations may compare by Gt and Lt."""
    in_place_pod_vertical_scaling_scheduler_preemption: bool = gate(
        "InPlacePodVerticalScalingSchedulerPreemption", "37 alpha off; needs InPlacePodVerticalScaling"
    )
    """A bound pod that waits for room to grow in place may preempt on its node: left to kube-scheduler."""
    storage_capacity_scoring: bool = gate("StorageCapacityScoring", "33 alpha off, 37 beta on")
    """VolumeBinding scores dynamic provisioning by storage capacity."""
    volume_limit_scaling: bool = gate("VolumeLimitScaling", "35 alpha off, 37 beta on")
    """NodeVolumeLimits rejects nodes without a CSI driver that asks for it."""
    match_label_keys_in_pod_topology_spread: bool = gate(
        "MatchLabelKeysInPodTopologySpread", "25 alpha off, 27 beta on"
    )
    """PodTopologySpread reads `matchLabelKeys`; off, kube-scheduler ignores them."""
    min_domains_in_pod_topology_spread: bool = gate(
        "MinDomainsInPodTopologySpread", "24 alpha off, 25 beta off, 27 beta on, 30 locked on, 32 removed on"
    )
    """PodTopologySpread reads `minDomains`."""
    node_inclusion_policy_in_pod_topology_spread: bool = gate(
        "NodeInclusionPolicyInPodTopologySpread", "25 alpha off, 26 beta on, 33 locked on"
    )
    """PodTopologySpread reads `nodeAffinityPolicy` and `nodeTaintsPolicy`."""

    # --- behaviors without a gate
    image_locality_counts_init_containers: bool = since(30)
    """ImageLocality counts the images of init containers, and divides by their number."""
    disjoint_prefilters_are_unresolvable: bool = since(30)
    """PreFilter plugins that leave no node together are UnschedulableAndUnresolvable; before, Unschedulable."""
    in_tree_volume_limits: bool = until(30)
    """EBSLimits, GCEPDLimits and AzureDiskLimits are plugins of the default profile."""
    volume_attributes_class_is_ignored: bool = until(30)
    """Without VolumeAttributesClass, a claim that names one is treated as one that does not, instead of failing."""
    volume_limits_of_allocatable: bool = until(31)
    """NodeVolumeLimits reads `attachable-volumes-csi-*` of the node's allocatable beside its CSINode."""
    host_names_of_volumes_are_node_names: bool = until(31, ended={29: 11, 30: 7, 31: 3})
    """VolumeBinding: the PreFilter takes the host names in the node affinity of a bound volume for node names."""
    victims_are_sorted: bool = since(32, backports={29: 11, 30: 7, 31: 3})
    """The victims of a node are sorted by importance; before, those that violate a PDB come first, and the priority of
    the first one counts as the highest."""
    volume_attachments_count: bool = since(32)
    """NodeVolumeLimits counts volumes that a VolumeAttachment attaches and no pod of the node uses."""
    sidecars_add_to_non_zero_requests: bool = since(32)
    """Sidecars add to NonZeroRequested; before, their maximum was taken."""
    left_out_nodes_are_unresolvable: bool = since(32)
    """Nodes that a PreFilterResult leaves out have a status with a reason."""
    host_ports_of_sidecars: bool = since(34, backports={33: 6})
    """NodePorts counts the host ports of sidecars."""
    fit_score_reads_containers_only: bool = since(33)
    """NodeResourcesFit scores by containers' requests of the spec, whatever the gates of resizes and pod-level ones."""
    balanced_allocation_skips_best_effort: bool = since(33)
    """NodeResourcesBalancedAllocation skips pods that request none of its resources."""
    volume_affinity_reason_of_1_33: bool = since(33)
    """The text of VolumeBinding about a PersistentVolume's node affinity."""
    fit_above_allocatable_is_unresolvable: bool = since(34)
    """NodeResourcesFit: a request above the node's allocatable is UnschedulableAndUnresolvable."""
    absent_scalars_fit: bool = until(34)
    """NodeResourcesFit: a node that lacks a scalar resource has enough of it for a pod without extended resources (gate
    DRAExtendedResource)."""
    negative_namespace_selector_matches_all: bool = until(36, since=34)
    """InterPodAffinity: the incoming pod's namespaceSelector of NotIn or DoesNotExist matches every namespace."""
    read_write_once_pod_reason_of_1_34: bool = since(34)
    """The text of VolumeRestrictions about ReadWriteOncePod."""
    taint_reason_without_taint: bool = since(35, backports={34: 2})
    """The text of TaintToleration, without key and value."""
    shared_devices_of_1_35: bool = since(35)
    """DynamicResources: `distinctAttribute` compares values (before, it only demands the attribute of each device), and
    errors about capacity name the subrequest."""
    device_pools_of_1_35: bool = since(35)
    """DynamicResources: incomplete and invalid pools are passed over, and a pool's slices are counted in the cluster,
    not on the node."""
    portworx_is_migrated_by_node: bool = until(35)
    """Portworx volumes of the in-tree plugin count on nodes whose CSINode lists it as migrated, not on all."""
    device_claims_are_evaluated: bool = since(34)
    """DynamicResources is evaluated: it allocates what resource.k8s.io/v1 describes."""
    extended_resource_claims_are_evaluated: bool = since(35)
    """DynamicResources is evaluated for extended resources that a DeviceClass backs (gate DRAExtendedResource)."""
    extended_resource_devices_are_scored: bool = since(35)
    """NodeResourcesFit and NodeResourcesBalancedAllocation score devices where a DeviceClass backs an extended resource
    that no device plugin provides (gate DRAExtendedResource)."""
    prioritized_lists_are_scored: bool = since(35)
    """DynamicResources scores which alternative of a prioritized list is allocated."""
    declared_features_are_named: bool = until(35)
    """NodeDeclaredFeatures: the reason names what the node lacks."""
    user_namespaces_of_host_network_are_declared: bool = since(36)
    """NodeDeclaredFeatures: hostNetwork with hostUsers=false needs a node that declares it."""
    device_allocator_of_1_36: bool = since(36)
    """DynamicResources tries pools and slices in the order of their names, and keeps apart what alternatives found."""
    device_limit_is_checked_by_request: bool = since(38, backports={34: 12, 36: 5, 37: 1})
    """DynamicResources adds up the devices of a claim request by request, and names the one that takes too many."""
    claim_reasons_of_1_36: bool = since(36)
    """The text of DynamicResources about a claim of another pod."""
    alpha_device_gates_are_evaluated: bool = since(36)
    """DynamicResources is evaluated with DRAPartitionableDevices, DRADeviceTaints, DRADeviceBindingConditions or
    DRAConsumableCapacity: alpha before, where it allocates otherwise."""
    balanced_allocation_scores_change: bool = since(36)
    """NodeResourcesBalancedAllocation scores the change that the pod makes: 50 + (50 + with - without) / 2."""
    image_locality_counts_image_volumes: bool = since(36)
    """ImageLocality counts the images of image volumes."""
    resize_is_summed_by_pod: bool = since(37)
    """What a pod wants, was allocated and holds is summed over its containers before the maximum is taken, which was
    taken of each container before; the status of any init container counts."""
    nominations_count_before_pre_enqueue: bool = since(37)
    """Nominated pods count although a PreEnqueue plugin keeps them out of the queue."""
    unstarted_pods_in_listing_order: bool = since(37)
    """The last one listed of equal pods without a start time is evicted first, as with equal start times; before, the
    first one."""
    node_name_is_prefiltered: bool = since(37)
    """NodeName restricts a pod with spec.nodeName to that node in PreFilter, and stands before NodeUnschedulable."""
    image_locality_divides_by_image_volumes: bool = since(37)
    """ImageLocality divides by the number of image volumes, too."""
    bind_mount_options_are_required_features: bool = since(37)
    """NodeDeclaredFeatures: `bindMountOptions` need a node that declares VolumeBindMountOptions."""
    claim_post_filter_tells_changes_only: bool = since(37)
    """DynamicResources' PostFilter gives a reason only where it deallocates or deletes a claim."""
    post_filter_tells_placement: bool = since(37)
    """The message of a pod that preempts others names the node that it is nominated to, and the number of victims."""
    selector_errors_name_device: bool = since(37)
    """DynamicResources: the error of a selector names the device."""
    device_counters_of_1_36_2: bool = since(37, backports={36: 2})
    """DynamicResources: a device that is shared uses up its counters; before, it does not once a claim has it, and a
    request for all devices ends kube-scheduler where one has counters, which is not evaluated."""
    counters_are_given_back: bool = since(37, backports={36: 3})
    """DynamicResources gives counters back of a device that a taint, a constraint or its capacity rules out, and of a
    shared one when the search steps back."""
    counters_are_of_drivers: bool = since(37, backports={36: 4})
    """DynamicResources keeps counters by driver and pool; before, pools of one name have those of the first one."""
    allocated_claims_are_scored: bool = since(37, backports={35: 6, 36: 2})
    """DynamicResources scores a pod that has allocated claims beside new ones; before, that is an error."""
    taint_rules_need_a_selector: bool = since(38, backports={37: 1})
    """A DeviceTaintRule without deviceSelector selects no device; before, every one."""
    distinct_attribute_remembers_all_values: bool = since(37)
    """DynamicResources: `distinctAttribute` compares with every device of a request, not with the last one only."""
    all_devices_include_full_ones: bool = since(37)
    """DynamicResources: a request for all devices fails where one that it selects has no capacity left; before, that
    one is left out."""
    unusable_capacity_requests_are_errors: bool = since(37)
    """DynamicResources: requests of capacity below 0, or too large to be rounded, end the scheduling cycle."""
    counter_slices_have_nodes: bool = since(37)
    """DynamicResources: a pool is seen on the nodes of its devices only, not on every node because of its counters."""
    shares_without_capacity_count: bool = since(37)
    """DynamicResources: a share that consumes no capacity tells that the counters of its device are in use, too."""
    groups_are_evicted_whole: bool = since(37)
    """Where pods name a PodGroup (`spec.schedulingGroup`), kube-scheduler's own choice is kept: it schedules them
    together, and may evict them together only (GenericWorkload)."""
    selectors_of_1_37: bool = since(37)
    """Selectors of devices are those of cel-go 0.29 (before, 0.26) and of the libraries of that minor: attributes are
    dyn and may be lists, and the error about a key that a device lacks gives a hint."""
    budget_count_ends_where_exceeded: bool = since(37)
    """A potential victim counts against its PodDisruptionBudgets up to the first one that it exceeds, in any order."""
    candidates_may_lack_victims: bool = since(38)
    """kube-scheduler may send /preempt candidates without victims."""
    empty_selectors_match_all: bool = since(38)
    """A PodDisruptionBudget and a topology spread constraint with selector {} match all pods of the namespace; pods
    without labels count against budgets."""

    @classmethod
    def of(
        cls, version: Version | int, gates: Mapping[str, bool] | None = None, emulation: Emulation = NO_EMULATION
    ) -> "Features":
        """Return a version's switches with these feature gates, as of kube-scheduler's command line.

        A minor alone (29 for 1.29) means its newest patch; a minor or patch that is not verified has those of the
        newest that is, but for 1.38, whose own are known from its changelog.

        AllAlpha and AllBeta set what is not set by name. Gates of no table here are ignored (`gate_notes` and
        `gate_warnings` name them). Raises ValueError for what kube-scheduler does not start with: a gate that it does
        not have (yet or any more), one that is locked, one that needs another; and for a name that is nearly one.
        """
        version = Version(version) if isinstance(version, int) else version
        gates = gates or {}
        _check_gates(gates, version.minor, emulation)
        return cls(**{one.name: _value_in(one.metadata, gates, version, emulation) for one in fields(cls)})

    def changed_gates(self, minor: int, emulation: Emulation = NO_EMULATION) -> dict[str, bool]:
        """Return the feature gates that differ from the minor's defaults, by name, with their values."""
        values = {one.metadata["gate"]: getattr(self, one.name) for one in fields(self) if "gate" in one.metadata}
        return {one.name: value for one, value in values.items() if value != one.default(minor, emulation)}


def gate_notes(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return a sentence about each gate that is set and changes no verdicts or is in no table here, sorted."""
    ignored = sorted(gates.keys() - GATES.keys() - UNFOLLOWED_GATES.keys() - ALL_OF_STAGE.keys())
    said = {name: "changes no verdict here" if name in IDLE_GATES else "is not known here" for name in ignored}
    return tuple(f"feature gate {name} {what}" for name, what in said.items())


_LEFT_TO_SCHEDULER_SINCE: Final = {"GenericWorkload": 37}
"""Gate that is not followed -> minor since which pods with its fields are left to kube-scheduler, also if it is off: an
API server whose own gate is off drops the fields."""


def gate_warnings(gates: Mapping[str, bool], minor: int, emulation: Emulation = NO_EMULATION) -> tuple[str, ...]:
    """Return a sentence about each gate that changes verdicts and is not followed here, sorted by gate.

    These are the UNFOLLOWED_GATES that are not at the minor's default: set by name, or by AllAlpha or AllBeta. Without
    those whose pods are left to kube-scheduler anyway.
    """
    at, _ = emulation.of(minor)
    set_by: dict[Stage | None, str] = {stage: f", which {name} sets," for name, stage in ALL_OF_STAGE.items()}
    by = {
        one.name: "" if one.name in gates else set_by[one.stage(at)]
        for one in UNFOLLOWED_GATES.values()
        if one.value(gates, minor, emulation) != one.default(minor, emulation)
        and minor < _LEFT_TO_SCHEDULER_SINCE.get(one.name, minor + 1)
    }
    return tuple(f"feature gate {name}{by[name]} is not followed: its default is assumed" for name in sorted(by))


def _value_in(
    metadata: Mapping[str, Any], gates: Mapping[str, bool], version: Version, emulation: Emulation = NO_EMULATION
) -> bool:
    declared: Gate | None = metadata.get("gate")
    if declared is not None:
        return declared.value(gates, version.minor, emulation)
    if "since" in metadata:
        return version.has(metadata["since"], metadata["backports"])
    return metadata["first"] <= version.minor and not version.has(metadata["until"] + 1, metadata["backports"])


def _check_gates(gates: Mapping[str, bool], minor: int, emulation: Emulation) -> None:
    """Raise ValueError for gates that kube-scheduler does not start with (featureGate.unsafeSetFromMap)."""
    at, _ = emulation.of(minor)
    for name, value in gates.items():
        known = _EVERY_GATE.get(name)
        if known is None:
            _check_spelling(name)
        elif "removed" in (known.stage(minor), known.stage(at)):
            raise ValueError(f"1.{minor} no longer has the feature gate {name}: kube-scheduler does not start with it")
        elif known.stage(at) is None:
            raise ValueError(f"1.{at} does not have the feature gate {name}")
        elif known.stage(at) == "locked" and value != known.default(at):
            raise ValueError(f"feature gate {name} is locked to {str(known.default(at)).lower()} in 1.{at}")
    if minor >= NEEDS_ARE_CHECKED_SINCE:
        values = {name: one.value(gates, minor, emulation) for name, one in _EVERY_GATE.items()}
        for name, one in _EVERY_GATE.items():
            off = [needed for needed in one.needs if values[name] and not values[needed]]
            if off:
                raise ValueError(f"{name} is on, but needs feature gates that are off: {', '.join(off)}")


def _check_spelling(name: str) -> None:
    known = (*_EVERY_GATE, *ALL_OF_STAGE)
    # LegacySidecarContainers, a gate of its own, is as near to SidecarContainers as 0.85.
    meant = get_close_matches(name.lower(), [one.lower() for one in known], n=1, cutoff=0.86)
    right = next((one for one in known if meant == [one.lower()]), None)
    if right is not None and name != right:
        raise ValueError(f"{name} is not a feature gate; {right} is")


GATES: Final[Mapping[str, Gate]] = {
    one.metadata["gate"].name: one.metadata["gate"] for one in fields(Features) if "gate" in one.metadata
}
"""Name of a feature gate that changes verdicts -> gate."""

_EVERY_GATE: Final[Mapping[str, Gate]] = {**GATES, **UNFOLLOWED_GATES, **IDLE_GATES}

DEFAULT_FEATURES: Final = Features()
"""Switches of DEFAULT_MINOR with its default feature gates."""
