"""What all tests have in common."""

import logging
import threading

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested. Whoever has asked for other settings has them.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() in ("default", "ci"):
    settings.load_profile("busy")


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop that coroutines run on: the service's own."""
    return "asyncio"


@pytest.fixture(autouse=True)
def logging_as_before():
    """A command sets up logs for its whole process, which here is that of other tests, too."""
    root, own = logging.getLogger(), logging.getLogger("extender")
    before = root.handlers[:], root.level, own.handlers[:], own.level, own.propagate, threading.excepthook
    yield
    logging.captureWarnings(False)
    root.handlers[:], own.handlers[:] = before[0], before[2]
    root.setLevel(before[1])
    own.setLevel(before[3])
    own.propagate, threading.excepthook = before[4:]
