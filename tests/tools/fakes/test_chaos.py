"""The bad network passes bytes on, until it is told otherwise."""

import http.client
from collections.abc import Iterator

import pytest

from tests.fakes.api_server import FakeAPI
from tests.fakes.chaos import Chaos
from tests.fakes.client import Client
from tests.fakes.objects import bare_pod

PODS = "/api/v1/pods"


@pytest.fixture
def chaos(api: FakeAPI) -> Iterator[Chaos]:
    """The network before an API server of 20 pods."""
    api.load("Pod", (bare_pod(f"p{number:02}") for number in range(20)))
    with Chaos(("127.0.0.1", api.port)) as chaos:
        yield chaos


@pytest.fixture
def client(chaos: Chaos) -> Iterator[Client]:
    with Client(chaos.url()) as client:
        yield client


def test_what_goes_in_comes_out(api: FakeAPI, chaos: Chaos, client: Client):
    assert len(client.items(PODS)) == 20
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        api.put("Pod", bare_pod("new"))
        assert watch.events(1) == [f"ADDED new {api.revision}"]
        assert (chaos.connections, chaos.seen) == (1, 1)
    chaos.wait_for(connections=0)
    api.wait_for(lambda: api.open_watches() == 0)


def test_a_reset_ends_what_is_open(api: FakeAPI, chaos: Chaos, client: Client):
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        chaos.reset()
        assert chaos.connections == 0
        with pytest.raises(ConnectionResetError):
            watch.line()
    api.wait_for(lambda: api.open_watches() == 0)
    assert len(client.items(PODS)) == 20


def test_connections_are_refused_and_accepted_again(api: FakeAPI, chaos: Chaos, client: Client):
    with client.watch(PODS, resourceVersion=api.revision) as watch, Client(chaos.url()) as late:
        chaos.refuse()
        with pytest.raises(ConnectionRefusedError):
            late.get(PODS)
        api.put("Pod", bare_pod("new"))
        assert len(watch.events(1)) == 1
        chaos.accept()
        assert late.get(PODS)[0] == 200


def test_a_stalled_connection_stays_open_and_goes_on_where_it_was(api: FakeAPI, chaos: Chaos, client: Client):
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        chaos.stall()
        api.put("Pod", bare_pod("new"))
        api.wait_for(lambda: api.lines_sent("Pod") == 1)
        client.connection.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.connection.sock.recv(1)
        assert (chaos.connections, api.open_watches()) == (1, 1)
        client.connection.sock.settimeout(10)
        chaos.resume()
        assert watch.events(1) == [f"ADDED new {api.revision}"]


def test_the_end_of_a_stalled_peer_is_not_noticed(api: FakeAPI, chaos: Chaos, client: Client):
    with client.watch(PODS):
        chaos.stall()
    assert (chaos.connections, api.open_watches()) == (1, 1)
    chaos.resume()
    chaos.wait_for(connections=0)
    api.wait_for(lambda: api.open_watches() == 0)


@pytest.mark.parametrize("seed", [None, 1], ids=["all alike", "at random"])
def test_bytes_trickle(seed: int | None, api: FakeAPI, chaos: Chaos, client: Client):
    chaos.trickle(3, seed)
    assert len(client.items(PODS)) == 20
    chaos.trickle(None)
    assert len(client.items(PODS)) == 20


def test_connections_are_cut_after_so_many_bytes(api: FakeAPI, chaos: Chaos, client: Client):
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        api.put("Pod", bare_pod("new"))
        line = watch.line()
        chaos.cut_after(40, times=1)
        api.put("Pod", bare_pod("newer"))
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            watch._response.read(len(line))
    assert len(client.items(PODS)) == 22
    assert chaos.cuts == 1


def test_and_so_are_those_to_come(chaos: Chaos):
    chaos.cut_after(10)
    for _ in range(3):
        with Client(chaos.url()) as client, pytest.raises((ConnectionError, http.client.HTTPException)):
            client.get(PODS)
    chaos.wait_for(connections=0)
    assert chaos.cuts == 3
    chaos.cut_after(None)
    with Client(chaos.url()) as client:
        assert client.get(PODS)[0] == 200


def test_a_missing_server_is_a_reset(api: FakeAPI, chaos: Chaos, client: Client):
    api.stop()
    with pytest.raises(ConnectionResetError):
        client.get(PODS)
