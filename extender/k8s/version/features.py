"""Switches for the verdicts that differ between versions of kube-scheduler.

Some are feature gates, whose stages are in `gates`; the rest are changes of behavior without a gate, declared with
their versions. docs/scheduler.md lists both, with the verdicts that each changes.

Rule: a switch is declared here once; plugins read it by its field and never compare versions themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from extender.k8s.version.gates import EVALUATED_GATES, NO_EMULATION, Emulation, check_gates
from extender.k8s.version.versions import DEFAULT_MINOR, OLDEST_MINOR, Backports, Version


def since(minor: int, *, backports: Backports = MappingProxyType({})) -> Any:
    """Declare a behavior without a gate that kube-scheduler has since the first release of `minor`.

    `since(37, backports={36: 5})`: from 1.36.5 on in 1.36, and from 1.37.0 on. A behavior that 1.37.0 does not have,
    but 1.37.2 does, is `since(38, backports={37: 2})`.
    """
    return _switch(since=minor, backports=backports)


def until(minor: int, *, since: int = OLDEST_MINOR, ended: Backports = MappingProxyType({})) -> Any:
    """Declare a behavior without a gate that kube-scheduler had up to `minor`, inclusive.

    `until(31, ended={30: 7, 31: 3})`: up to 1.30.6 in 1.30, and up to 1.31.2. `since`: the first minor that has it.
    """
    return _switch(until=minor, first=since, backports=ended)


def gate(name: str) -> Any:
    """Declare a feature gate of EVALUATED_GATES."""
    return _switch(gate=EVALUATED_GATES[name])


def _switch(**declared: Any) -> Any:
    return field(default=_value_in(declared, {}, Version(DEFAULT_MINOR), NO_EMULATION), metadata=declared)


def _value_in(declared: Mapping[str, Any], gates: Mapping[str, bool], version: Version, emulation: Emulation) -> bool:
    if "gate" in declared:
        value: bool = declared["gate"].value(gates, version.minor, emulation)
        return value
    if "since" in declared:
        return version.has(declared["since"], declared["backports"])
    # "until": a change that ended the behavior in the next minor, or earlier by a backport.
    return declared["first"] <= version.minor and not version.has(declared["until"] + 1, declared["backports"])


@dataclass(frozen=True, slots=True)
class Features:
    """The switches of one kube-scheduler; `Features()` has those of DEFAULT_MINOR with its default feature gates."""

    # --- feature gates (docs/scheduler.md lists fields in this order)
    in_place_pod_vertical_scaling: bool = gate("InPlacePodVerticalScaling")
    """A running pod counts with the maximum of its desired, allocated and actuated requests."""
    in_place_pod_level_resources_vertical_scaling: bool = gate("InPlacePodLevelResourcesVerticalScaling")
    """Pod-level resources of a running pod count with that maximum, too (InPlacePodVerticalScaling)."""
    pod_level_resources: bool = gate("PodLevelResources")
    """Pod-level resources replace the sum over the containers."""
    csi_migration_portworx: bool = gate("CSIMigrationPortworx")
    """Portworx volumes of the in-tree plugin count towards the limit of its CSI driver."""
    volume_attributes_class: bool = gate("VolumeAttributesClass")
    """Claims may name a VolumeAttributesClass."""
    node_declared_features: bool = gate("NodeDeclaredFeatures")
    """NodeDeclaredFeatures is a plugin of the default profile."""
    dynamic_resource_allocation: bool = gate("DynamicResourceAllocation")
    """DynamicResources is a plugin of the default profile."""
    dra_extended_resource: bool = gate("DRAExtendedResource")
    """DeviceClasses may back extended resources."""
    dra_admin_access: bool = gate("DRAAdminAccess")
    """Claims may request admin access to devices that other claims use."""
    dra_prioritized_list: bool = gate("DRAPrioritizedList")
    """Claims may list alternatives (`firstAvailable`)."""
    dra_partitionable_devices: bool = gate("DRAPartitionableDevices")
    """Devices may share counters, and may each name their nodes."""
    dra_device_taints: bool = gate("DRADeviceTaints")
    """Devices may have taints, which requests tolerate."""
    dra_device_taint_rules: bool = gate("DRADeviceTaintRules")
    """DeviceTaintRules taint devices."""
    dra_resource_claim_device_status: bool = gate("DRAResourceClaimDeviceStatus")
    """Claims report the conditions of their devices."""
    dra_device_binding_conditions: bool = gate("DRADeviceBindingConditions")
    """Devices may have conditions that must be true before a pod is bound."""
    dra_consumable_capacity: bool = gate("DRAConsumableCapacity")
    """Several claims may share a device and consume its capacity."""
    dra_fractional_capacity_range: bool = gate("DRAFractionalCapacityRange")
    """Capacity ranges may have fractions; off, they are in whole units."""
    taint_toleration_comparison_operators: bool = gate("TaintTolerationComparisonOperators")
    """Tolerations may compare by Gt and Lt."""
    in_place_pod_vertical_scaling_scheduler_preemption: bool = gate("InPlacePodVerticalScalingSchedulerPreemption")
    """A bound pod whose resize is deferred may preempt on its node; that is left to kube-scheduler."""
    storage_capacity_scoring: bool = gate("StorageCapacityScoring")
    """VolumeBinding scores dynamic provisioning by storage capacity."""
    volume_limit_scaling: bool = gate("VolumeLimitScaling")
    """NodeVolumeLimits rejects nodes without the CSI driver, if the CSIDriver asks for that."""
    match_label_keys_in_pod_topology_spread: bool = gate("MatchLabelKeysInPodTopologySpread")
    """PodTopologySpread reads `matchLabelKeys`; off, kube-scheduler ignores them."""
    min_domains_in_pod_topology_spread: bool = gate("MinDomainsInPodTopologySpread")
    """PodTopologySpread reads `minDomains`."""
    node_inclusion_policy_in_pod_topology_spread: bool = gate("NodeInclusionPolicyInPodTopologySpread")
    """PodTopologySpread reads `nodeAffinityPolicy` and `nodeTaintsPolicy`."""

    # --- behaviors without a gate
    image_locality_counts_init_containers: bool = since(30)
    """ImageLocality counts the images of init containers, and divides by their number."""
    disjoint_prefilters_are_unresolvable: bool = since(30)
    """PreFilter results without a common node are UnschedulableAndUnresolvable; before, Unschedulable."""
    in_tree_volume_limits: bool = until(30)
    """EBSLimits, GCEPDLimits and AzureDiskLimits are plugins of the default profile."""
    volume_attributes_class_is_ignored: bool = until(30)
    """Without the gate VolumeAttributesClass, a claim's class is ignored; since then, the claim fails."""
    volume_limits_of_allocatable: bool = until(31)
    """NodeVolumeLimits reads `attachable-volumes-csi-*` of the node's allocatable in addition to its CSINode."""
    host_names_of_volumes_are_node_names: bool = until(31, ended={29: 11, 30: 7, 31: 3})
    """VolumeBinding: PreFilter treats the host names in a bound volume's node affinity as node names."""
    victims_are_sorted: bool = since(32, backports={29: 11, 30: 7, 31: 3})
    """A node's victims are sorted by importance; before, those that violate a PDB came first, and the first victim's
    priority counted as the highest."""
    volume_attachments_count: bool = since(32)
    """NodeVolumeLimits counts volumes that are attached by a VolumeAttachment but used by no pod of the node."""
    sidecars_add_to_non_zero_requests: bool = since(32)
    """Sidecars add to NonZeroRequested; before, only the largest one counted."""
    left_out_nodes_are_unresolvable: bool = since(32)
    """Nodes that a PreFilterResult leaves out get a status with a reason."""
    host_ports_of_sidecars: bool = since(34, backports={33: 6})
    """NodePorts counts the host ports of sidecars."""
    fit_score_reads_containers_only: bool = since(33)
    """NodeResourcesFit scores by the containers' requests in the spec; resizes and pod-level requests do not count."""
    balanced_allocation_skips_best_effort: bool = since(33)
    """NodeResourcesBalancedAllocation skips pods that request none of its resources."""
    volume_affinity_reason_of_1_33: bool = since(33)
    """VolumeBinding: wording of the reason about a PersistentVolume's node affinity."""
    fit_above_allocatable_is_unresolvable: bool = since(34)
    """NodeResourcesFit: a request above the node's allocatable is UnschedulableAndUnresolvable."""
    absent_scalars_fit: bool = until(34)
    """NodeResourcesFit with DRAExtendedResource: a pod that requests no extended resources passes on nodes that lack a
    scalar resource that it requests, such as huge pages."""
    negative_namespace_selector_matches_all: bool = until(36, since=34)
    """InterPodAffinity: a namespaceSelector of NotIn or DoesNotExist matches every namespace (incoming pod)."""
    read_write_once_pod_reason_of_1_34: bool = since(34)
    """VolumeRestrictions: wording of the reason about ReadWriteOncePod."""
    taint_reason_without_taint: bool = since(35, backports={34: 2})
    """TaintToleration: the reason does not name the taint's key and value."""
    shared_devices_of_1_35: bool = since(35)
    """DynamicResources: `distinctAttribute` compares values (before, each device only needed the attribute), and
    capacity errors name the subrequest."""
    device_pools_of_1_35: bool = since(35)
    """DynamicResources: incomplete and invalid pools are skipped, and slices of a pool are counted cluster-wide."""
    portworx_is_migrated_by_node: bool = until(35)
    """Portworx volumes of the in-tree plugin count only on nodes whose CSINode lists the plugin as migrated."""
    device_claims_are_evaluated: bool = since(34)
    """DynamicResources is evaluated (older minors do not read resource.k8s.io/v1)."""
    extended_resource_claims_are_evaluated: bool = since(35)
    """DynamicResources is evaluated for extended resources that a DeviceClass backs (gate DRAExtendedResource)."""
    extended_resource_devices_are_scored: bool = since(35)
    """NodeResourcesFit and NodeResourcesBalancedAllocation score devices for an extended resource that a DeviceClass
    backs and no device plugin provides (gate DRAExtendedResource)."""
    prioritized_lists_are_scored: bool = since(35)
    """DynamicResources scores nodes by the alternative of a prioritized list that is allocated."""
    declared_features_are_named: bool = until(35)
    """NodeDeclaredFeatures: the reason names the missing features."""
    user_namespaces_of_host_network_are_declared: bool = since(36)
    """NodeDeclaredFeatures: hostNetwork with hostUsers=false requires a node that declares it."""
    device_allocator_of_1_36: bool = since(36)
    """DynamicResources tries pools and slices in name order, and isolates the results of alternatives."""
    device_limit_is_checked_by_request: bool = since(38, backports={34: 12, 36: 5, 37: 1})
    """DynamicResources adds up a claim's devices request by request, and names the request with too many."""
    claim_reasons_of_1_36: bool = since(36)
    """DynamicResources: wording of the reason about another pod's claim."""
    alpha_device_gates_are_evaluated: bool = since(36)
    """DynamicResources is evaluated with DRAPartitionableDevices, DRADeviceTaints, DRADeviceBindingConditions or
    DRAConsumableCapacity on; as alpha gates they allocated differently."""
    balanced_allocation_scores_change: bool = since(36)
    """NodeResourcesBalancedAllocation scores the change made by the pod: 50 + (50 + with - without) / 2."""
    image_locality_counts_image_volumes: bool = since(36)
    """ImageLocality counts the images of image volumes."""
    resize_is_summed_by_pod: bool = since(37)
    """Desired, allocated and actuated requests are each summed over the pod before the maximum is taken (before: the
    maximum of each container), and the statuses of all init containers count."""
    nominations_count_before_pre_enqueue: bool = since(37)
    """Nominated pods count even while a PreEnqueue plugin keeps them out of the queue."""
    unstarted_pods_in_listing_order: bool = since(37)
    """The last listed of equally important pods without a start time is evicted first; before, the first listed."""
    node_name_is_prefiltered: bool = since(37)
    """NodeName restricts a pod to its spec.nodeName in PreFilter, and runs before NodeUnschedulable."""
    image_locality_divides_by_image_volumes: bool = since(37)
    """ImageLocality divides by the number of image volumes, too."""
    bind_mount_options_are_required_features: bool = since(37)
    """NodeDeclaredFeatures: `bindMountOptions` require a node that declares VolumeBindMountOptions."""
    claim_post_filter_tells_changes_only: bool = since(37)
    """DynamicResources: PostFilter gives a reason only if it deallocates or deletes a claim."""
    post_filter_tells_placement: bool = since(37)
    """The message of a preemptor names its nominated node and the number of victims."""
    selector_errors_name_device: bool = since(37)
    """DynamicResources: the error of a selector names the device."""
    device_counters_of_1_36_2: bool = since(37, backports={36: 2})
    """DynamicResources: an allocated shared device keeps its counters in use; before, they counted as free, and a
    request for all devices crashed kube-scheduler if one had counters (not evaluated)."""
    counters_are_given_back: bool = since(37, backports={36: 3})
    """DynamicResources gives back the counters of a device that a taint, a constraint or its capacity rules out, and
    those of a shared device when the search backtracks."""
    counters_are_of_drivers: bool = since(37, backports={36: 4})
    """DynamicResources keeps counters by driver and pool; before, pools of one name shared those of the first."""
    allocated_claims_are_scored: bool = since(37, backports={35: 6, 36: 2})
    """DynamicResources scores a pod that has both allocated and new claims; before, that was an error."""
    taint_rules_need_a_selector: bool = since(38, backports={37: 1})
    """A DeviceTaintRule without deviceSelector selects no device; before, all devices."""
    distinct_attribute_remembers_all_values: bool = since(37)
    """DynamicResources: `distinctAttribute` compares with all devices of a request; before, with the last one."""
    all_devices_include_full_ones: bool = since(37)
    """DynamicResources: a request for all devices fails if one has no capacity left; before, it was skipped."""
    unusable_capacity_requests_are_errors: bool = since(37)
    """DynamicResources: a capacity request below 0, or too large to round, ends the scheduling cycle."""
    counter_slices_have_nodes: bool = since(37)
    """DynamicResources: a pool with counters is visible on the nodes of its devices only; before, on every node."""
    shares_without_capacity_count: bool = since(37)
    """DynamicResources: a share marks its device's counters as in use even if it consumes no capacity."""
    groups_are_evicted_whole: bool = since(37)
    """kube-scheduler's own choice is kept for pods that name a PodGroup (`spec.schedulingGroup`): it schedules them
    together, and may have to evict them together (GenericWorkload)."""
    selectors_of_1_37: bool = since(37)
    """Device selectors follow cel-go 0.29 (before, 0.26) and that minor's libraries: attributes are dyn and may be
    lists, and the error about a missing key has a hint."""
    budget_count_ends_where_exceeded: bool = since(37)
    """A potential victim counts against its PodDisruptionBudgets only until one is exceeded, in no fixed order."""
    candidates_may_lack_victims: bool = since(38)
    """kube-scheduler may send /preempt candidates without victims."""
    empty_selectors_match_all: bool = since(38)
    """Selector {} of a PodDisruptionBudget or topology spread constraint matches all pods of the namespace; pods
    without labels count against budgets."""

    @classmethod
    def of(
        cls, version: Version | int, gates: Mapping[str, bool] | None = None, emulation: Emulation = NO_EMULATION
    ) -> "Features":
        """Return the switches of a version with the given --feature-gates.

        A minor alone (29 for 1.29) means its newest patch. An unverified version has the switches of the newest
        verified version, except 1.38, whose switches are known from its changelog. Raises ValueError for gates that
        kube-scheduler does not start with, and for a name that is nearly that of a gate.
        """
        version, gates = Version(version) if isinstance(version, int) else version, gates or {}
        check_gates(gates, version.minor, emulation)
        return cls(**{one.name: _value_in(one.metadata, gates, version, emulation) for one in fields(cls)})

    def changed_gates(self, minor: int, emulation: Emulation = NO_EMULATION) -> dict[str, bool]:
        """Return the feature gates that differ from the minor's defaults, by name, with their values."""
        values = {one.metadata["gate"]: getattr(self, one.name) for one in fields(self) if "gate" in one.metadata}
        return {one.name: value for one, value in values.items() if value != one.default(minor, emulation)}


DEFAULT_FEATURES: Final = Features()
"""Switches of DEFAULT_MINOR with its default feature gates."""
