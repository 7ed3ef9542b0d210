"""Feature gates of kube-scheduler: their stages by minor, and those that are no switch of `features`.

Rule: a gate is declared once, as in pkg/features/kube_features.go: "34 alpha off, 36 beta on" since these minors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from extender.k8s.version.versions import NO_EMULATION, Emulation

Stage = Literal["alpha", "beta", "GA", "locked", "removed"]
"""Maturity of a feature gate; "locked" is GA and can no longer be changed (LockToDefault). Where it is "removed",
kube-scheduler does not start with it; its default says how kube-scheduler behaves without it."""


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    """Name in kube-scheduler's --feature-gates."""
    stages: tuple[tuple[int, Stage, bool], ...]
    """(minor since which this holds, stage, default), by rising minor; before the first one the gate does not exist."""
    needs: tuple[str, ...] = ()
    """Gates that must be on where this one is."""
    on_since_compatible: int | None = None
    """--min-compatibility-version from which it is on by default; None: that has no say."""

    def stage(self, minor: int) -> Stage | None:
        """Return the gate's stage in a minor; None: that minor does not have it yet."""
        return next((stage for first, stage, _ in reversed(self.stages) if first <= minor), None)

    def default(self, minor: int, emulation: Emulation = NO_EMULATION) -> bool:
        """Return whether the gate is on by default in a minor."""
        at, compatible = emulation.of(minor)
        if self.on_since_compatible is not None and self.on_since_compatible <= compatible:
            return True
        return next((default for first, _, default in reversed(self.stages) if first <= at), False)

    @classmethod
    def declared(cls, name: str, text: str, on_since_compatible: int | None = None) -> "Gate":
        """Return the gate of a text: "34 alpha off, 36 beta on; needs DynamicResourceAllocation"."""
        stages, _, needs = text.partition("; needs ")
        found = [each.split() for each in stages.split(", ")]
        return cls(
            name,
            tuple((int(minor), _STAGES[stage], value == "on") for minor, stage, value in found),
            tuple(needs.split(", ")) if needs else (),
            on_since_compatible,
        )

    def value(self, gates: Mapping[str, bool], minor: int, emulation: Emulation = NO_EMULATION) -> bool:
        """Return whether the gate is on in a minor; what is set by name comes before AllAlpha and AllBeta."""
        at, _ = emulation.of(minor)
        by_stage: dict[Stage | None, bool] = {stage: gates[key] for key, stage in ALL_OF_STAGE.items() if key in gates}
        return gates.get(self.name, by_stage.get(self.stage(at), self.default(minor, emulation)))


_STAGES: Final[Mapping[str, Stage]] = {stage: stage for stage in get_args(Stage)}

ALL_OF_STAGE: Final[Mapping[str, Stage]] = {"AllAlpha": "alpha", "AllBeta": "beta"}
"""Gate of kube-scheduler's command line -> stage of the gates that it sets."""


def _gates(table: str) -> Mapping[str, Gate]:
    lines = (line.split(": ") for line in table.strip().splitlines())
    return {name: Gate.declared(name, text) for name, text in lines}


UNFOLLOWED_GATES: Final = _gates("""
CSIMigrationRBD: 28 GA off, 31 removed off
CompositePodGroup: 37 alpha off; needs GenericWorkload, TopologyAwareWorkloadScheduling
DRAControlPlaneController: 31 alpha off, 32 removed off
DRADerivedAttributes: 37 alpha off; needs DynamicResourceAllocation
DRADeviceCompatibilityGroups: 37 alpha off; needs DynamicResourceAllocation, DRAPartitionableDevices
DRAListTypeAttributes: 36 alpha off; needs DynamicResourceAllocation
DRANodeAllocatableResources: 36 alpha off; needs DynamicResourceAllocation
DRAOptionalNodeOperations: 37 alpha off; needs DynamicResourceAllocation, NodeDeclaredFeatures
DRASchedulerFilterTimeout: 34 beta on; needs DynamicResourceAllocation
DRAWorkloadResourceClaims: 36 alpha off, 37 beta off; needs DynamicResourceAllocation, GenericWorkload
GangScheduling: 35 alpha off, 37 removed off; needs GenericWorkload
GenericWorkload: 35 alpha off, 37 beta off
PodDisruptionConditions: 26 beta on, 31 locked on, 34 removed on
PodGroupPreemptionPolicy: 37 alpha off; needs GenericWorkload
PodSchedulingReadiness: 27 beta on, 30 locked on
SidecarContainers: 29 beta on, 33 locked on, 37 removed on
TopologyAwareWorkloadScheduling: 36 alpha off; needs GenericWorkload
VolumeCapacityPriority: 21 alpha off, 33 removed off
WorkloadAwarePreemption: 36 alpha off, 37 removed off; needs GangScheduling
""")
"""Name of a gate that changes verdicts where it is not at its default -> gate; here its default is assumed."""

IDLE_GATES: Final = _gates("""
ContainerRestartRules: 34 alpha off, 35 beta on
DRAPartitionableDevicesType: 37 alpha off; needs DRAPartitionableDevices, DRAResourcePoolStatus
DRAResourceClaimGranularStatusAuthorization: 36 beta on; needs DRAResourceClaimDeviceStatus
DRAResourcePoolStatus: 36 alpha off; needs DynamicResourceAllocation
ExtendWebSocketsToKubelet: 36 beta on; needs NodeDeclaredFeatures
InPlacePodVerticalScalingInitContainers: 36 beta on, 37 locked on; needs InPlacePodVerticalScaling, NodeDeclaredFeatures
InterPodAffinityHostnameFastPath: 37 alpha off
MatchLabelKeysInPodTopologySpreadSelectorMerge: 34 beta on; needs MatchLabelKeysInPodTopologySpread
NominatedNodeNameForExpectation: 34 alpha off, 35 beta on
OpportunisticBatching: 35 beta on
PodLevelResourceManagers: 36 alpha off, 37 beta off; needs PodLevelResources
PodLevelResourcesFixDefaulting: 37 beta on; needs PodLevelResources
PodLevelResourcesFixKubeletQOSClass: 37 beta on; needs PodLevelResources
RestartAllContainersOnContainerExits: 35 alpha off, 36 beta on; needs ContainerRestartRules, NodeDeclaredFeatures
SchedulerAsyncAPICalls: 34 beta off
SchedulerAsyncPreemption: 32 alpha off, 33 beta on
SchedulerPopFromBackoffQ: 33 beta on
SchedulerPreQueueingHints: 37 alpha off
SchedulerQueueingHints: 28 beta off, 32 beta on, 34 locked on, 37 removed on
VolumeBindMountOptions: 37 alpha off
WorkloadWithJob: 36 alpha off; needs GenericWorkload
""")
"""Name of a gate that changes no verdict -> gate; kube-scheduler does not start where one that it needs is off."""
