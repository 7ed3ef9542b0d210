"""Switches that change verdicts between kube-scheduler's minors: one field per switch, with its minors beside it.

Some are feature gates (pkg/features/kube_features.go); the others are changes of behavior without a gate. Which
verdicts a switch changes is documented in docs/scheduler.md.

Rule: a switch is declared here once; plugins read it by its field and never compare minors themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

OLDEST_MINOR: Final = 29
NEWEST_MINOR: Final = 38
DEFAULT_MINOR: Final = 36
"""Minor whose verdicts hold where nothing says which one: the newest of which verdicts are at hand."""

Stage = Literal["alpha", "beta", "GA"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate: its default and stage in each minor."""

    name: str
    """Name in kube-scheduler's --feature-gates."""
    stages: tuple[tuple[int, Stage, bool], ...]
    """(minor since which this holds, stage, default), by rising minor; before the first one the gate does not exist."""


def since(minor: int) -> Any:
    """Declare a behavior without a gate that kube-scheduler has since this minor."""
    return field(default=minor <= DEFAULT_MINOR, metadata={"since": minor})


def until(minor: int) -> Any:
    """Declare a behavior without a gate that kube-scheduler had up to this minor, that one included."""
    return field(default=minor >= DEFAULT_MINOR, metadata={"until": minor})


def gate(name: str, *stages: tuple[int, Stage, bool]) -> Any:
    """Declare a feature gate; `stages` as in `Gate`."""
    return field(default=_default_in(stages, DEFAULT_MINOR), metadata={"gate": Gate(name, stages)})


def _default_in(stages: tuple[tuple[int, Stage, bool], ...], minor: int) -> bool:
    return next((default for first, _, default in reversed(stages) if first <= minor), False)


@dataclass(frozen=True, slots=True)
class Features:
    """The switches of one kube-scheduler; `Features()` are those of v1.36 with its default feature gates."""

    # --- feature gates
    in_place_pod_vertical_scaling: bool = gate(
        "InPlacePodVerticalScaling", (27, "alpha", False), (33, "beta", True), (35, "GA", True)
    )
    """A running pod takes the maximum of what it requests, was allocated and holds."""
    in_place_pod_level_resources_vertical_scaling: bool = gate(
        "InPlacePodLevelResourcesVerticalScaling", (35, "alpha", False), (36, "beta", True)
    )
    """The same for the resources of the pod as a whole."""
    pod_level_resources: bool = gate("PodLevelResources", (32, "alpha", False), (34, "beta", True))
    """Resources of the pod as a whole replace the sum of its containers."""
    volume_attributes_class: bool = gate(
        "VolumeAttributesClass", (29, "alpha", False), (31, "beta", False), (34, "GA", True)
    )
    """Claims may name a VolumeAttributesClass."""
    node_declared_features: bool = gate("NodeDeclaredFeatures", (35, "alpha", False), (36, "beta", True))
    """NodeDeclaredFeatures is a plugin of the default profile."""
    dynamic_resource_allocation: bool = gate(
        "DynamicResourceAllocation", (26, "alpha", False), (32, "beta", False), (34, "GA", True)
    )
    """DynamicResources is a plugin of the default profile."""
    dra_extended_resource: bool = gate("DRAExtendedResource", (34, "alpha", False), (36, "beta", True))
    """DeviceClasses may back extended resources."""
    nominated_node_name_for_expectation: bool = gate(
        "NominatedNodeNameForExpectation", (34, "alpha", False), (35, "beta", True)
    )
    """Pods that are being bound name their node in status.nominatedNodeName."""
    taint_toleration_comparison_operators: bool = gate("TaintTolerationComparisonOperators", (35, "alpha", False))
    """Tolerations may compare by Gt and Lt."""
    storage_capacity_scoring: bool = gate("StorageCapacityScoring", (33, "alpha", False), (37, "beta", True))
    """VolumeBinding scores dynamic provisioning by storage capacity."""
    volume_limit_scaling: bool = gate("VolumeLimitScaling", (35, "alpha", False), (37, "beta", True))
    """NodeVolumeLimits rejects nodes without a CSI driver that asks for it."""

    # --- behaviors without a gate
    image_locality_counts_init_containers: bool = since(30)
    """ImageLocality counts the images of init containers, and divides by their number."""
    prefilter_results_are_merged: bool = since(30)
    """A PreFilter that rejects does not stop the others; disjoint PreFilterResults are Unresolvable."""
    in_tree_volume_limits: bool = until(30)
    """EBSLimits, GCEPDLimits and AzureDiskLimits are plugins of the default profile."""
    volume_attributes_class_is_ignored: bool = until(30)
    """Without VolumeAttributesClass, a claim that names one is treated as one that does not, instead of failing."""
    volume_limits_of_allocatable: bool = until(31)
    """NodeVolumeLimits reads `attachable-volumes-csi-*` of the node's allocatable beside its CSINode."""
    sidecars_add_to_non_zero_requests: bool = since(32)
    """Sidecars add to NonZeroRequested; before, their maximum was taken."""
    left_out_nodes_are_unresolvable: bool = since(32)
    """Nodes that a PreFilterResult leaves out have a status with a reason."""
    host_ports_of_sidecars: bool = since(33)
    """NodePorts counts the host ports of sidecars."""
    balanced_allocation_skips_best_effort: bool = since(33)
    """NodeResourcesBalancedAllocation skips pods that request none of its resources."""
    volume_affinity_reason_of_1_33: bool = since(33)
    """The text of VolumeBinding about a PersistentVolume's node affinity."""
    fit_above_allocatable_is_unresolvable: bool = since(34)
    """NodeResourcesFit: a request above the node's allocatable is UnschedulableAndUnresolvable."""
    negative_namespace_selector_matches_all: bool = since(34)
    """InterPodAffinity: the incoming pod's namespaceSelector of NotIn or DoesNotExist matches every namespace."""
    reasons_of_1_34: bool = since(34)
    """Texts of TaintToleration (without key and value) and of VolumeRestrictions about ReadWriteOncePod."""
    balanced_allocation_scores_change: bool = since(36)
    """NodeResourcesBalancedAllocation scores the change that the pod makes: 50 + (50 + with - without) / 2."""
    image_locality_counts_image_volumes: bool = since(36)
    """ImageLocality counts the images of image volumes."""
    candidates_may_lack_victims: bool = since(38)
    """kube-scheduler may send /preempt candidates without victims."""
    empty_selectors_match_all: bool = since(38)
    """A PodDisruptionBudget and a topology spread constraint with selector {} match all pods of the namespace."""

    @classmethod
    def of(cls, minor: int, gates: Mapping[str, bool] | None = None) -> "Features":
        """Return the switches of a minor (29 for 1.29) with these feature gates; raises ValueError for an unknown one.

        A gate that the minor does not have is unknown, and one that is GA cannot be changed.
        """
        values = {}
        for one in fields(cls):
            told = one.metadata
            if "gate" in told:
                values[one.name] = _default_in(told["gate"].stages, minor)
            else:
                values[one.name] = told["since"] <= minor if "since" in told else minor <= told["until"]
        for name, value in (gates or {}).items():
            values[FIELD_OF_GATE[_changed_gate(name, value, minor)]] = value
        return cls(**values)


def _changed_gate(name: str, value: bool, minor: int) -> str:
    known = GATES.get(name)
    stage = next((one for one in reversed(known.stages) if one[0] <= minor), None) if known else None
    if stage is None:
        raise ValueError(f"{name} is not a feature gate of 1.{minor} that changes verdicts")
    if stage[1] == "GA" and value != stage[2]:
        raise ValueError(f"{name} is GA in 1.{minor} and cannot be set to {str(value).lower()}")
    return name


GATES: Final[Mapping[str, Gate]] = {
    one.metadata["gate"].name: one.metadata["gate"] for one in fields(Features) if "gate" in one.metadata
}
"""Name of a feature gate that changes verdicts -> gate."""

FIELD_OF_GATE: Final[Mapping[str, str]] = {
    one.metadata["gate"].name: one.name for one in fields(Features) if "gate" in one.metadata
}
"""Name of a feature gate that changes verdicts -> field of Features."""

DEFAULT_FEATURES: Final = Features()
"""Switches of DEFAULT_MINOR with its default feature gates."""
