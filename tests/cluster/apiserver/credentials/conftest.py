"""A machine that knows of no cluster, and API servers that take the token `good`."""

import pytest

from tests.cluster.apiserver.credentials.kubeconfigs import forget_everything
from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    forget_everything(monkeypatch, tmp_path / "home")


@pytest.fixture
def api():
    with FakeAPI() as fake:
        fake.tokens = {"good"}
        yield fake


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


@pytest.fixture
def tls_api(certificates):
    with FakeAPI(tls=certificates) as fake:
        fake.tokens = {"good"}
        yield fake
