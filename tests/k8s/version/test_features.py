import gzip
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from extender.k8s.version.features import DEFAULT_FEATURES, Features, _value_in, since, until
from extender.k8s.version.gates import (
    ALL_OF_STAGE,
    EVALUATED_GATES,
    GATES,
    NO_EMULATION,
    UNSUPPORTED_GATES,
    Emulation,
    gate_notes,
    gate_warnings,
)
from extender.k8s.version.versions import DEFAULT_MINOR, NEWEST_MINOR, NEWEST_PATCHES, OLDEST_MINOR, Version

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
REAL_GATES = (Path(__file__).parent / "gates.txt").read_text(encoding="utf-8").split()
"""Names of all gates that kube-scheduler 1.29 to 1.37 accepts."""


def on(minor, gates=None):
    """The gates that are on."""
    features = Features.of(minor, gates)
    return {
        one.metadata["gate"].name for one in fields(Features) if "gate" in one.metadata and getattr(features, one.name)
    }


def test_the_defaults_of_the_default_minor_are_the_default_features():
    assert Features.of(DEFAULT_MINOR) == DEFAULT_FEATURES == Features()


SPREAD = {
    "MatchLabelKeysInPodTopologySpread",
    "MinDomainsInPodTopologySpread",
    "NodeInclusionPolicyInPodTopologySpread",
}
GATES_ON = {
    29: SPREAD,
    30: SPREAD,
    31: SPREAD | {"CSIMigrationPortworx"},
    33: SPREAD | {"CSIMigrationPortworx", "InPlacePodVerticalScaling", "DRAResourceClaimDeviceStatus"},
}
GATES_ON[34] = GATES_ON[33] | {
    "PodLevelResources",
    "VolumeAttributesClass",
    "DynamicResourceAllocation",
    "DRAAdminAccess",
    "DRAPrioritizedList",
}
GATES_ON[35] = GATES_ON[34]
GATES_ON[36] = GATES_ON[35] | {
    "InPlacePodLevelResourcesVerticalScaling",
    "NodeDeclaredFeatures",
    "DRAExtendedResource",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
}
GATES_ON[37] = GATES_ON[36] | {"StorageCapacityScoring", "VolumeLimitScaling", "DRADeviceTaintRules"}


@pytest.mark.parametrize(("minor", "gates"), GATES_ON.items())
def test_gates_that_are_on_by_default(minor, gates):
    assert on(minor) == gates


def test_behaviors_without_a_gate_change_once_in_each_minor_that_has_not_always_had_them():
    for one in fields(Features):
        if "gate" not in one.metadata:
            backports = one.metadata["backports"]
            is_new, first = "since" in one.metadata, one.metadata.get("first", OLDEST_MINOR)
            steady = [getattr(Features.of(minor), one.name) for minor in MINORS if minor not in backports]
            assert not any(steady[: first - OLDEST_MINOR]), one.name
            assert steady[first - OLDEST_MINOR :] == sorted(steady[first - OLDEST_MINOR :], reverse=not is_new), (
                one.name
            )
            for minor, patch in backports.items():
                patches = range(NEWEST_PATCHES[minor] + 1)
                values = [getattr(Features.of(Version(minor, each)), one.name) for each in patches]
                assert values == [is_new == (each >= patch) for each in patches], one.name
                assert getattr(Features.of(minor), one.name) == values[-1] == is_new, one.name
            assert backports or len(set(steady)) == 2, one.name


DECLARED = {"mended": since(38, backports={35: 6, 37: 2}), "faulty": until(36, ended={35: 3, 36: 1})}


@pytest.mark.parametrize(
    ("version", "mended", "faulty"),
    [
        (Version(34), False, True),
        (Version(35, 2), False, True),
        (Version(35, 3), False, False),
        (Version(35, 6), True, False),
        (Version(35), True, False),
        (Version(36), False, False),
        (Version(36, 0), False, True),
        (Version(37, 1), False, False),
        (Version(37, 2), True, False),
        (Version(37), True, False),
        (Version(38, 0), True, False),
    ],
)
def test_a_change_that_patches_carry_back(version, mended, faulty):
    values = {name: _value_in(one.metadata, {}, version, NO_EMULATION) for name, one in DECLARED.items()}
    assert values == {"mended": mended, "faulty": faulty}


def test_all_alpha_and_all_beta_set_what_is_not_set_by_name():
    assert on(36, {"AllAlpha": True}) == on(36) | {
        "StorageCapacityScoring",
        "VolumeLimitScaling",
        "TaintTolerationComparisonOperators",
    }
    locked_or_ga = on(36) & {
        "CSIMigrationPortworx",
        "InPlacePodVerticalScaling",
        "VolumeAttributesClass",
        "DynamicResourceAllocation",
        "DRAAdminAccess",
        "DRAPrioritizedList",
        "MinDomainsInPodTopologySpread",
        "NodeInclusionPolicyInPodTopologySpread",
    }
    assert on(36, {"AllBeta": False}) == locked_or_ga
    assert on(36, {"PodLevelResources": True, "AllBeta": False}) == locked_or_ga | {"PodLevelResources"}
    assert on(36, {"VolumeLimitScaling": False, "AllAlpha": True}) & {"VolumeLimitScaling"} == set()
    assert on(31, {"AllBeta": True}) == SPREAD | {"CSIMigrationPortworx", "VolumeAttributesClass"}
    assert on(29, {"AllBeta": False}) == set()


@pytest.mark.parametrize(
    ("minor", "gates", "said"),
    [
        (31, {"PodLevelResources": True}, "1.31 does not have the feature gate PodLevelResources"),
        (36, {"VolumeAttributesClass": False}, "feature gate VolumeAttributesClass is locked to true in 1.36"),
        (35, {"DynamicResourceAllocation": False}, "feature gate DynamicResourceAllocation is locked to true in 1.35"),
        (
            36,
            {"PodLevelResources": False},
            "InPlacePodLevelResourcesVerticalScaling is on, but needs feature gates that are off: PodLevelResources",
        ),
        (35, {"DRADeviceTaintRules": True}, "needs feature gates that are off: DRADeviceTaints"),
        (37, {"NodeDeclaredFeatures": False}, "feature gate NodeDeclaredFeatures is locked to true in 1.37"),
        (37, {"DRADeviceTaints": False}, "DRADeviceTaintRules is on, but needs feature gates that are off: DRADevice"),
        (37, {"DRAPartitionableDevicesType": True}, "needs feature gates that are off: DRAResourcePoolStatus"),
        (37, {"AllAlpha": True}, "needs feature gates that are off: GenericWorkload"),
        (
            37,
            {"SchedulerQueueingHints": True},
            "1.37 no longer has the feature gate SchedulerQueueingHints: kube-scheduler does not start with it",
        ),
        (32, {"MinDomainsInPodTopologySpread": True}, "1.32 no longer has the feature gate MinDomainsInPodTopology"),
        (36, {"VolumeBindMountOptions": True}, "1.36 does not have the feature gate VolumeBindMountOptions"),
        (36, {"PodLevelResource": False}, "PodLevelResource is not a feature gate; PodLevelResources is"),
        (36, {"podlevelresources": False}, "podlevelresources is not a feature gate; PodLevelResources is"),
        (36, {"allBeta": False}, "allBeta is not a feature gate; AllBeta is"),
        (37, {"genericworkload": True}, "genericworkload is not a feature gate; GenericWorkload is"),
        (36, {"SchedulerQueueingHint": True}, "SchedulerQueueingHint is not a feature gate; SchedulerQueueingHints is"),
    ],
)
def test_gates_that_kube_scheduler_would_refuse(minor, gates, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Features.of(minor, gates)


def test_what_is_set_as_it_is_anyway_is_accepted():
    assert Features.of(36, {"VolumeAttributesClass": True, "PodLevelResources": True}) == Features.of(36)
    assert on(34, {"VolumeAttributesClass": False}) == GATES_ON[34] - {"VolumeAttributesClass"}  # GA, not yet locked


JUDGED = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "judged_gates.jsonl.gz").read_bytes()).decode().splitlines()
]
"""What kube-scheduler's own code says of its gates; see judged_gates.py."""


def minor_of(line):
    return int(line["release"].split(".")[1])


@pytest.mark.parametrize("line", [one for one in JUDGED if "stages" in one], ids=lambda one: one["release"])
def test_stages_and_defaults_are_those_of_kube_scheduler(line):
    minor = minor_of(line)
    stages = {name: one.stage(minor) for name, one in GATES.items()}
    ours = {
        name: f"{'on' if GATES[name].default(minor) else 'off'}, {stage.lower()}"
        for name, stage in stages.items()
        if stage not in (None, "removed")
    }
    assert ours == {name: said for name, said in line["stages"].items() if name in GATES}


def refusal(minor, gates):
    try:
        return "", Features.of(minor, gates).changed_gates(minor)
    except ValueError as error:
        return str(error), {}


def test_sets_of_gates_are_refused_and_change_others_as_in_kube_scheduler():
    sets = [one for one in JUDGED if "gates" in one]
    assert sum(one["refused"] is None for one in sets) > 100
    for one in sets:
        said, changed = refusal(minor_of(one), one["gates"])
        assert bool(said) == bool(one["refused"]), (one["gates"], said, one["refused"])
        of_judge = {name: value for name, value in one["changed"].items() if name in EVALUATED_GATES}
        assert changed == of_judge, one["gates"]


# --- emulated and compatible versions ---------------------------------------------------------------------------------


def test_an_emulated_version_has_its_own_gates_and_no_other_behavior_of_it():
    emulating, own = Features.of(37, {}, Emulation(35)), Features.of(35)
    for one in fields(Features):
        of = own if "gate" in one.metadata else Features.of(37)
        assert getattr(emulating, one.name) == getattr(of, one.name), one.name
    assert emulating.changed_gates(37, Emulation(35)) == {}


@pytest.mark.parametrize(
    ("minor", "emulation", "said"),
    [
        (30, Emulation(30), "1.30 cannot emulate versions: 1.31 is the first that can"),
        (37, Emulation(33), "emulated version 1.33 is not between 1.34 and 1.37"),
        (37, Emulation(38), "emulated version 1.38 is not between 1.34 and 1.37"),
        (32, Emulation(30), "emulated version 1.30 is not between 1.31 and 1.32"),
        (37, Emulation(36, 37), "minimum compatibility version 1.37 is not between 1.34 and 1.36"),
        (37, Emulation(None, 33), "minimum compatibility version 1.33 is not between 1.34 and 1.37"),
    ],
)
def test_versions_that_kube_scheduler_does_not_emulate(minor, emulation, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Features.of(minor, {}, emulation)


def test_gates_that_kube_scheduler_refuses_are_those_of_the_emulated_version_and_those_it_has_no_more():
    assert not Features.of(37, {"NodeDeclaredFeatures": False}, Emulation(35)).node_declared_features
    for gates, said in (
        ({"GangScheduling": False}, "1.37 no longer has the feature gate GangScheduling"),
        ({"DRADerivedAttributes": True}, "1.36 does not have the feature gate DRADerivedAttributes"),
    ):
        with pytest.raises(ValueError, match=said):
            Features.of(37, gates, Emulation(36))


def test_a_compatible_version_turns_a_gate_on():
    assert Features.of(37, {}, Emulation(None, 37)).dra_fractional_capacity_range
    assert not Features.of(37, {}, Emulation(None, 36)).dra_fractional_capacity_range
    assert not Features.of(37, {"DRAFractionalCapacityRange": False}, Emulation(None, 37)).dra_fractional_capacity_range
    assert Features.of(37, {}, Emulation(None, 37)).changed_gates(37, Emulation(None, 37)) == {}


def test_every_real_gate_is_accepted_and_one_that_is_ignored_is_named():
    for name in set(REAL_GATES) - GATES.keys() - ALL_OF_STAGE.keys():
        assert Features.of(DEFAULT_MINOR, {name: True}) == DEFAULT_FEATURES, name
        assert gate_notes({name: True}) == (f"feature gate {name} is unknown and ignored",)
    gates = {"SchedulerQueueingHints": True, "SidecarContainers": False, "PodLevelResources": True, "AllAlpha": False}
    assert gate_notes(gates) == ("feature gate SchedulerQueueingHints changes no verdict",)
    assert gate_warnings(gates, 32) == ("feature gate SidecarContainers is not supported: its default is assumed",)
    assert set(REAL_GATES) >= GATES.keys()
    assert {one.metadata["gate"].name for one in fields(Features) if "gate" in one.metadata} == EVALUATED_GATES.keys()
    assert [*UNSUPPORTED_GATES] == sorted(UNSUPPORTED_GATES)


@pytest.mark.parametrize("minor", MINORS)
def test_a_gate_that_is_not_followed_is_named_only_where_it_is_not_at_its_default(minor):
    defaults = {name: one.default(minor) for name, one in UNSUPPORTED_GATES.items()}
    assert gate_warnings({}, minor) == gate_warnings(defaults, minor) == gate_notes(defaults) == ()
    named = gate_warnings({name: not value for name, value in defaults.items()}, minor)
    assert len(named) == len(defaults.keys() - ({"GenericWorkload"} if minor >= 37 else set()))


def test_gates_that_are_set_by_all_alpha_or_all_beta_and_not_followed_are_named():
    said = "feature gate {}, which {} sets, is not supported: its default is assumed"
    of_1_29 = ("PodDisruptionConditions", "PodSchedulingReadiness", "SidecarContainers")
    assert gate_warnings({"AllBeta": False}, 29) == tuple(said.format(name, "AllBeta") for name in of_1_29)
    assert gate_warnings({"AllBeta": False, "SidecarContainers": True}, 32) == ()
    assert said.format("GangScheduling", "AllAlpha") in gate_warnings({"AllAlpha": True}, 36)
    beta = ("DRAWorkloadResourceClaims",)
    assert gate_warnings({"AllBeta": True}, 37) == tuple(said.format(name, "AllBeta") for name in beta)
    assert gate_warnings({"GenericWorkload": True}, 37) == ()  # pods of PodGroups are left to kube-scheduler
    assert gate_warnings({"GenericWorkload": True}, 36) == (
        "feature gate GenericWorkload is not supported: its default is assumed",
    )
