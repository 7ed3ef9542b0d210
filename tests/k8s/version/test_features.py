import re
from dataclasses import fields
from pathlib import Path

import pytest

from extender.k8s.version.features import (
    ALL_OF_STAGE,
    DEFAULT_FEATURES,
    DEFAULT_MINOR,
    GATES,
    GATES_NOT_FOLLOWED,
    NEWEST_MINOR,
    OLDEST_MINOR,
    Features,
    gate_notes,
)

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
REAL_GATES = (Path(__file__).parent / "gates.txt").read_text(encoding="utf-8").split()
"""Names of all gates that kube-scheduler 1.29 to 1.37 accepts."""


def on(minor, gates=None):
    """The gates that are on."""
    features = Features.of(minor, gates)
    return {
        one.metadata["gate"].name for one in fields(Features) if "gate" in one.metadata and getattr(features, one.name)
    }


def test_the_defaults_of_1_36_are_the_default_features():
    assert Features.of(DEFAULT_MINOR) == DEFAULT_FEATURES == Features()


GATES_ON = {
    29: set(),
    30: set(),
    31: {"CSIMigrationPortworx"},
    33: {"CSIMigrationPortworx", "InPlacePodVerticalScaling"},
}
GATES_ON[34] = GATES_ON[33] | {"PodLevelResources", "VolumeAttributesClass", "DynamicResourceAllocation"}
GATES_ON[35] = GATES_ON[34]
GATES_ON[36] = GATES_ON[35] | {
    "InPlacePodLevelResourcesVerticalScaling",
    "NodeDeclaredFeatures",
    "DRAExtendedResource",
}
GATES_ON[37] = GATES_ON[36] | {"StorageCapacityScoring", "VolumeLimitScaling"}


@pytest.mark.parametrize(("minor", "gates"), GATES_ON.items())
def test_gates_that_are_on_by_default(minor, gates):
    assert on(minor) == gates


def test_behaviors_without_a_gate_change_once():
    for one in fields(Features):
        if "gate" not in one.metadata:
            values = [getattr(Features.of(minor), one.name) for minor in MINORS]
            assert values == sorted(values, reverse="until" in one.metadata), one.name
            assert len(set(values)) == 2, one.name


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
    }
    assert on(36, {"AllBeta": False}) == locked_or_ga
    assert on(36, {"PodLevelResources": True, "AllBeta": False}) == locked_or_ga | {"PodLevelResources"}
    assert on(36, {"VolumeLimitScaling": False, "AllAlpha": True}) & {"VolumeLimitScaling"} == set()
    assert on(31, {"AllBeta": True}) == {"CSIMigrationPortworx", "VolumeAttributesClass"}


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
        (34, {"DRAExtendedResource": True, "DynamicResourceAllocation": False}, "needs feature gates that are off"),
        (37, {"NodeDeclaredFeatures": False}, "feature gate NodeDeclaredFeatures is locked to true in 1.37"),
        (36, {"PodLevelResource": False}, "PodLevelResource is not a feature gate; PodLevelResources is"),
        (36, {"podlevelresources": False}, "podlevelresources is not a feature gate; PodLevelResources is"),
        (36, {"allBeta": False}, "allBeta is not a feature gate; AllBeta is"),
    ],
)
def test_gates_that_kube_scheduler_would_refuse(minor, gates, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Features.of(minor, gates)


def test_what_is_set_as_it_is_anyway_is_accepted():
    assert Features.of(36, {"VolumeAttributesClass": True, "PodLevelResources": True}) == DEFAULT_FEATURES
    assert on(34, {"VolumeAttributesClass": False}) == GATES_ON[34] - {"VolumeAttributesClass"}  # GA, not yet locked


def test_every_real_gate_is_accepted_and_one_that_is_ignored_is_named():
    for name in REAL_GATES:
        if name not in GATES:
            assert Features.of(36, {name: True}) == DEFAULT_FEATURES or name in ALL_OF_STAGE, name
    assert gate_notes({"SchedulerQueueingHints": True, "SidecarContainers": True, "PodLevelResources": True}) == (
        "feature gate SchedulerQueueingHints changes no verdict here",
        "feature gate SidecarContainers is not followed: its default is assumed",
    )
    assert set(REAL_GATES) >= GATES.keys() | GATES_NOT_FOLLOWED
    assert gate_notes({"AllAlpha": True}) == ()
