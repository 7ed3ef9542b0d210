"""A fake API server, and connections to it."""

from collections.abc import Iterator

import pytest

from tests.fakes.api_server import FakeAPI
from tests.fakes.client import Client


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with FakeAPI() as api:
        yield api


@pytest.fixture
def client(api: FakeAPI) -> Iterator[Client]:
    with Client(api.url) as client:
        yield client


@pytest.fixture
def other(api: FakeAPI) -> Iterator[Client]:
    """A second connection."""
    with Client(api.url) as client:
        yield client
