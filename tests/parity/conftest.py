"""These tests build thousands of small clusters, none of which leaves reference cycles behind."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def no_cycle_collector():
    """The collector would look at the decoded scenarios again and again: a quarter of the time, to free nothing."""
    gc.disable()
    yield
    gc.enable()
