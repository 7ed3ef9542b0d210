"""C10: credentials that stay good, whatever is rotated and whoever asks."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes.client import Configuration

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials, CredentialsError, read_token
from extender.cluster.apiserver.stream import ApiError
from tests.fakes.api_server import FakeAPI
from tests.fakes.clock import Clock

PODS = "/api/v1/pods"


@pytest.fixture
def api():
    with FakeAPI() as fake:
        yield fake


def with_token_file(api, path, clock=None):
    loads = []

    def load() -> Credentials:
        loads.append(path.read_text())
        return Credentials(Configuration(host=api.url), "the test", f"Bearer {read_token(path)}", path)

    server = ApiServer(load, clock or Clock())
    return server, loads


def test_C10_a_rotated_token_file_is_read_within_60_s(api, tmp_path):
    path, clock = tmp_path / "token", Clock()
    path.write_text("first\n")
    server, loads = with_token_file(api, path, clock)
    server.get(PODS)
    path.write_text("second\n")
    for number in range(8):
        clock.now += 15.0
        server.get(PODS)
        if number == 3:
            path.write_text("third\n")
    server.close()
    sent = [request.headers["authorization"].removeprefix("Bearer ") for request in api.requests]
    assert sent == ["first", "first", "second", "second", "second", "second", "third", "third", "third"]
    assert len(loads) == 1


def test_C10_a_401_loads_everything_at_once_and_asks_again(api, tmp_path):
    path = tmp_path / "token"
    path.write_text("first")
    server, loads = with_token_file(api, path)
    api.tokens = {"second"}
    path.write_text("second")
    server.get(PODS)
    server.close()
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer first", "Bearer second"]
    assert len(loads) == 2


def test_C10_a_second_401_is_told_without_the_token(api, tmp_path):
    path = tmp_path / "token"
    path.write_text("s3cret")
    server, _ = with_token_file(api, path)
    api.tokens = {"another"}
    with pytest.raises(ApiError) as caught:
        server.get(PODS)
    server.close()
    assert caught.value.code == 401
    assert "s3cret" not in str(caught.value)
    assert len(api.requests) == 2


def test_C10_many_threads_with_a_401_load_once(api):
    meet = threading.Barrier(17)
    loads = []

    def load() -> Credentials:
        loads.append(1)
        return Credentials(Configuration(host=api.url), "the test", f"Bearer token-{len(loads)}")

    server = ApiServer(load)
    api.tokens = {"token-2"}

    def ask(_: int) -> bytes:
        meet.wait(10)
        return server.get(PODS)

    with ThreadPoolExecutor(17) as threads:
        assert len(list(threads.map(ask, range(17)))) == 17
    server.close()
    assert len(loads) == 2


def test_C10_a_token_file_that_is_gone_for_a_moment_does_not_end_anything(api, tmp_path, caplog):
    path, clock = tmp_path / "token", Clock()
    path.write_text("first")
    server, _ = with_token_file(api, path, clock)
    os.remove(path)
    clock.now += 60.0
    server.get(PODS)
    path.write_text("second")
    clock.now += 10.0
    server.get(PODS)
    server.close()
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer first", "Bearer second"]
    assert "keeping the old ones" in caplog.text


def test_C10_credentials_that_expire_are_loaded_before_they_do(api):
    clock, loads = Clock(), []

    def load() -> Credentials:
        loads.append(clock.now)
        return Credentials(Configuration(host=api.url), "the test", "Bearer x", lifetime=600.0)

    server = ApiServer(load, clock)
    for _ in range(10):
        server.get(PODS)
        clock.now += 60.0
    server.close()
    assert loads == [1000.0, 1540.0]


def test_C10_when_new_credentials_cannot_be_loaded_the_401_says_why(api):
    loads = []

    def load() -> Credentials:
        loads.append(1)
        if len(loads) > 1:
            raise CredentialsError("the plugin failed")
        return Credentials(Configuration(host=api.url), "the test", "Bearer x")

    server = ApiServer(load)
    api.tokens = set()
    with pytest.raises(ApiError, match="the plugin failed") as caught:
        server.get(PODS)
    server.close()
    assert caught.value.code == 401
