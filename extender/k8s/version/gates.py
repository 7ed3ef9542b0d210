"""kube-scheduler's --feature-gates and --emulated-version: the stages of each gate by minor, and checks of both flags.

A gate is declared as in pkg/features/kube_features.go: "34 alpha off, 36 beta on" are its stages and defaults since
the given minors. `features` describes the verdicts that each gate of EVALUATED_GATES changes.

Rule: every gate is in one of the three tables at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, cast

Stage = Literal["alpha", "beta", "GA", "locked", "removed"]
"""Maturity of a feature gate. "locked" is GA and can no longer be changed (LockToDefault). kube-scheduler does not
start if a "removed" gate is set, and behaves according to its default."""

ALL_OF_STAGE: Final[Mapping[str, Stage]] = {"AllAlpha": "alpha", "AllBeta": "beta"}
"""Gate that sets all gates of a stage -> that stage."""

# First minor that does not start if a gate is on but a gate that it needs is off.
NEEDS_ARE_CHECKED_SINCE: Final = 35

# First minor whose pods of PodGroups are left to kube-scheduler, whatever the value of the gate GenericWorkload: an
# API server without the gate drops the fields.
GROUPS_LEFT_TO_SCHEDULER_SINCE: Final = 37

# Minors by which --emulated-version may be older than kube-scheduler.
MAX_MINORS_EMULATED: Final = 3

OLDEST_EMULATED_MINOR: Final = 31

# Ratio of difflib from which a name counts as a misspelt gate: LegacySidecarContainers, a gate of its own, is as
# similar to SidecarContainers as 0.85.
MIN_SIMILARITY: Final = 0.86


@dataclass(frozen=True, slots=True)
class Emulation:
    """Minors of --emulated-version and --min-compatibility-version; None if the flag is not set.

    They select the stages and defaults of feature gates only. Everything else (behaviors without a gate, dependencies
    between gates, removed gates) follows the version of the binary.
    """

    version: int | None = None
    min_compatibility: int | None = None

    def __str__(self) -> str:
        minors = {"emulates": self.version, "is compatible with": self.min_compatibility}
        return ", ".join(f"{what} 1.{minor}" for what, minor in minors.items() if minor is not None)

    def of(self, minor: int) -> tuple[int, int]:
        """Return (emulated minor, minimum compatibility minor) for a kube-scheduler of the given minor.

        Mirrors effectiveVersion.Validate (component-base, v1.36): raises ValueError for flags that it rejects.
        """
        if minor < OLDEST_EMULATED_MINOR and self != NO_EMULATION:
            raise ValueError(f"1.{minor} cannot emulate versions: 1.{OLDEST_EMULATED_MINOR} is the first that can")
        # The default of --min-compatibility-version is one minor before the emulated version (SetEmulationVersion).
        floor = max(minor - MAX_MINORS_EMULATED, OLDEST_EMULATED_MINOR)
        emulated = minor if self.version is None else self.version
        compatible = max(emulated - 1, floor) if self.min_compatibility is None else self.min_compatibility
        if self.version is not None and not floor <= emulated <= minor:
            raise ValueError(f"emulated version 1.{emulated} is not between 1.{floor} and 1.{minor}")
        if self.min_compatibility is not None and not floor <= compatible <= emulated:
            raise ValueError(f"minimum compatibility version 1.{compatible} is not between 1.{floor} and 1.{emulated}")
        return emulated, compatible


NO_EMULATION: Final = Emulation()


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    stages: tuple[tuple[int, Stage, bool], ...]
    """(first minor, stage, default) in ascending order; before the first minor the gate does not exist."""
    needs: tuple[str, ...] = ()
    """Gates that must be on if this gate is."""
    on_since_compatible: int | None = None
    """--min-compatibility-version from which the gate is on by default; None if the default does not depend on it."""

    @classmethod
    def declared(cls, name: str, text: str) -> "Gate":
        """Parse a declaration: "34 alpha off, 36 beta on; needs A, B; on-since-compatible 37"."""
        stages, *rest = text.split("; ")
        found = (each.split() for each in stages.split(", "))
        options = dict(one.split(" ", 1) for one in rest)
        return cls(
            name,
            tuple((int(minor), cast(Stage, stage), value == "on") for minor, stage, value in found),
            tuple(options["needs"].split(", ")) if "needs" in options else (),
            int(options["on-since-compatible"]) if "on-since-compatible" in options else None,
        )

    def stage(self, minor: int) -> Stage | None:
        """Return the gate's stage in a minor; None if the minor does not have it yet."""
        return next((stage for first, stage, _ in reversed(self.stages) if first <= minor), None)

    def default(self, minor: int, emulation: Emulation = NO_EMULATION) -> bool:
        """Return whether the gate is on by default."""
        emulated, compatible = emulation.of(minor)
        if self.on_since_compatible is not None and self.on_since_compatible <= compatible:
            return True
        return next((default for first, _, default in reversed(self.stages) if first <= emulated), False)

    def value(self, gates: Mapping[str, bool], minor: int, emulation: Emulation = NO_EMULATION) -> bool:
        """Return whether the gate is on with the given --feature-gates: by name, AllAlpha or AllBeta, or by default."""
        emulated, _ = emulation.of(minor)
        # A gate set by name wins over AllAlpha and AllBeta, which win over its default.
        by_stage: dict[Stage | None, bool] = {stage: gates[key] for key, stage in ALL_OF_STAGE.items() if key in gates}
        return gates.get(self.name, by_stage.get(self.stage(emulated), self.default(minor, emulation)))


def check_gates(gates: Mapping[str, bool], minor: int, emulation: Emulation) -> None:
    """Raise ValueError for gates that kube-scheduler does not start with (featureGate.unsafeSetFromMap)."""
    emulated, _ = emulation.of(minor)
    by_lower = {one.lower(): one for one in (*GATES, *ALL_OF_STAGE)}
    # 1. Check each gate by itself. Gates in none of the tables are accepted: other components have gates, too.
    for name, value in gates.items():
        known = GATES.get(name)
        if known is None:
            similar = get_close_matches(name.lower(), by_lower, n=1, cutoff=MIN_SIMILARITY)
            if similar and name != by_lower[similar[0]]:
                raise ValueError(f"{name} is not a feature gate; {by_lower[similar[0]]} is")
        elif "removed" in (known.stage(minor), known.stage(emulated)):
            raise ValueError(f"1.{minor} no longer has the feature gate {name}: kube-scheduler does not start with it")
        elif known.stage(emulated) is None:
            raise ValueError(f"1.{emulated} does not have the feature gate {name}")
        elif known.stage(emulated) == "locked" and value != known.default(emulated):
            raise ValueError(f"feature gate {name} is locked to {str(not value).lower()} in 1.{emulated}")
    # 2. Check the dependencies between gates, including gates at their defaults.
    if minor >= NEEDS_ARE_CHECKED_SINCE:
        values = {name: one.value(gates, minor, emulation) for name, one in GATES.items()}
        for name, one in GATES.items():
            off = [needed for needed in one.needs if values[name] and not values[needed]]
            if off:
                raise ValueError(f"{name} is on, but needs feature gates that are off: {', '.join(off)}")


def gate_notes(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return a sentence about each set gate that changes no verdict or is unknown, sorted."""
    ignored = sorted(gates.keys() - EVALUATED_GATES.keys() - UNSUPPORTED_GATES.keys() - ALL_OF_STAGE.keys())
    return tuple(
        f"feature gate {name} {'changes no verdict' if name in GATES else 'is unknown and ignored'}" for name in ignored
    )


def gate_warnings(gates: Mapping[str, bool], minor: int, emulation: Emulation = NO_EMULATION) -> tuple[str, ...]:
    """Return a sentence about each unsupported gate that is not at the minor's default, sorted.

    Gates are set by name, or by AllAlpha or AllBeta.
    """
    emulated, _ = emulation.of(minor)
    set_by: dict[Stage | None, str] = {stage: f", which {name} sets," for name, stage in ALL_OF_STAGE.items()}
    changed = {
        name: "" if name in gates else set_by[one.stage(emulated)]
        for name, one in UNSUPPORTED_GATES.items()
        if one.value(gates, minor, emulation) != one.default(minor, emulation)
    }
    # Pods with the fields of GenericWorkload are left to kube-scheduler anyway.
    if minor >= GROUPS_LEFT_TO_SCHEDULER_SINCE:
        changed.pop("GenericWorkload", None)
    return tuple(f"feature gate {name}{by} is not supported: its default is assumed" for name, by in changed.items())


# --- tables, each sorted by name --------------------------------------------------------------------------------------


def _table(text: str) -> Mapping[str, Gate]:
    lines = (line.split(": ") for line in text.strip().replace("\n    ", " ").splitlines())
    return {name: Gate.declared(name, stages) for name, stages in lines}


EVALUATED_GATES: Final = _table("""
CSIMigrationPortworx: 25 beta off, 31 beta on, 33 locked on, 36 removed on
DRAAdminAccess: 32 alpha off, 34 beta on, 36 locked on; needs DynamicResourceAllocation
DRAConsumableCapacity: 34 alpha off, 36 beta on; needs DynamicResourceAllocation
DRADeviceBindingConditions: 34 alpha off, 36 beta on; needs DynamicResourceAllocation, DRAResourceClaimDeviceStatus
DRADeviceTaintRules: 35 alpha off, 36 beta off, 37 GA on; needs DRADeviceTaints
DRADeviceTaints: 33 alpha off, 36 beta on, 37 GA on; needs DynamicResourceAllocation
DRAExtendedResource: 34 alpha off, 36 beta on, 37 locked on; needs DynamicResourceAllocation
DRAFractionalCapacityRange: 37 beta off; needs DRAConsumableCapacity; on-since-compatible 37
DRAPartitionableDevices: 33 alpha off, 36 beta on; needs DynamicResourceAllocation
DRAPrioritizedList: 33 alpha off, 34 beta on, 36 GA on, 37 locked on; needs DynamicResourceAllocation
DRAResourceClaimDeviceStatus: 32 alpha off, 33 beta on, 37 locked on
DynamicResourceAllocation: 26 alpha off, 32 beta off, 34 GA on, 35 locked on
InPlacePodLevelResourcesVerticalScaling: 35 alpha off, 36 beta on;
    needs InPlacePodVerticalScaling, PodLevelResources, NodeDeclaredFeatures
InPlacePodVerticalScaling: 27 alpha off, 33 beta on, 35 locked on
InPlacePodVerticalScalingSchedulerPreemption: 37 alpha off; needs InPlacePodVerticalScaling
MatchLabelKeysInPodTopologySpread: 25 alpha off, 27 beta on
MinDomainsInPodTopologySpread: 24 alpha off, 25 beta off, 27 beta on, 30 locked on, 32 removed on
NodeDeclaredFeatures: 35 alpha off, 36 beta on, 37 locked on
NodeInclusionPolicyInPodTopologySpread: 25 alpha off, 26 beta on, 33 locked on
PodLevelResources: 32 alpha off, 34 beta on
StorageCapacityScoring: 33 alpha off, 37 beta on
TaintTolerationComparisonOperators: 35 alpha off
VolumeAttributesClass: 29 alpha off, 31 beta off, 34 GA on, 36 locked on
VolumeLimitScaling: 35 alpha off, 37 beta on
""")
"""Gates that change verdicts and are evaluated: each has a field of `Features`."""

UNSUPPORTED_GATES: Final = _table("""
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
"""Gates that change verdicts but are not evaluated: their defaults are assumed."""

_WITHOUT_EFFECT: Final = _table("""
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
"""Gates that change no verdict. kube-scheduler does not start if one of them is on but a gate that it needs is off."""

GATES: Final[Mapping[str, Gate]] = {**EVALUATED_GATES, **UNSUPPORTED_GATES, **_WITHOUT_EFFECT}
