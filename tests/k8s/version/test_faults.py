"""Faults of single patches that no verdict shows."""

import pytest

from extender.k8s.version.faults import FAULTS, known_faults
from extender.k8s.version.features import NEWEST_PATCHES, Version


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.text[:40])
def test_a_fault_is_said_up_to_the_patch_that_mends_it(fault):
    for minor, patch in fault.mended.items():
        assert 0 < patch <= NEWEST_PATCHES[minor]
        (said,) = [one for one in known_faults(Version(minor, patch - 1)) if fault.text in one]
        assert said == f"kube-scheduler 1.{minor}.{patch - 1} has a fault, mended in 1.{minor}.{patch}: {fault.text}"
        without = [patch, fault.begun.get(minor, 0) - 1]
        assert not any(fault.text in one for each in without for one in known_faults(Version(minor, each)))


@pytest.mark.parametrize("minor", [*NEWEST_PATCHES, max(NEWEST_PATCHES) + 1])
def test_a_minor_alone_and_its_newest_patch_have_no_known_fault(minor):
    assert known_faults(Version(minor)) == known_faults(Version(minor, NEWEST_PATCHES.get(minor, 0))) == []
