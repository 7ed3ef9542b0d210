"""What tests of the live cluster have in common; a module that needs another API server has its own `api`."""

import pytest

from tests.fakes.api_server import FakeAPI
from tests.server.conftest import CLUSTER


@pytest.fixture
def api():
    with FakeAPI() as fake:
        yield fake


@pytest.fixture(params=[False, True], ids=["lists in pages", "initial events"])
def api_either_way(request):
    """One that sends lists in pages, and one that sends initial events."""
    with FakeAPI() as fake:
        fake.watch_list = request.param
        yield fake


@pytest.fixture
def shop(api):
    """The cluster of the HTTP tests."""
    for one in CLUSTER["items"]:
        api.put(one["kind"], one)
    return api
