"""One control plane per module: its tests share it."""

import pytest

from tests.e2e.control_plane.lab import binaries
from tests.e2e.control_plane.lab.plane import ControlPlane


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """A control plane with etcd of the release."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest.fixture(scope="module", params=binaries.ETCDS)
def plane_of_each_etcd(request, tmp_path_factory):
    """A control plane with each etcd in turns; the tests of a module run once with each."""
    with ControlPlane(tmp_path_factory.mktemp("plane"), request.param) as started:
        yield started
