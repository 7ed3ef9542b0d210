"""What all tests have in common."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop that coroutines run on: the service's own."""
    return "asyncio"
