"""The reflector against a real server on loopback, with a bad network between them: C1 to C13 of RELIABILITY."""

import inspect
import random
import threading
import time

import pytest

from extender.cluster.apiserver import client as api_module
from extender.cluster.apiserver import stream
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials, read_token
from extender.cluster.watch import list_watch, object_reader, reflector
from extender.cluster.watch.delta_queue import Replaced
from extender.cluster.watch.list_watch import WatchSettings
from tests.builders import pod
from tests.cluster.watch.reflector_rig import RecordingStore, Running, server_at
from tests.fakes.api_server import Answer, CutBody, Drop, FakeAPI, Fault, Hang
from tests.fakes.chaos import Chaos
from tests.fakes.clock import Clock
from tests.profiles import by_profile

QUICK = WatchSettings(page_size=3, backoff=(0.01, 0.05), min_watch_seconds=0.2, unreadable_retry_seconds=0.05)
"""Real waits, but short ones."""


@pytest.fixture
def api(api_either_way):
    return api_either_way


@pytest.fixture
def chaos(api):
    with Chaos(("127.0.0.1", api.port)) as proxy:
        yield proxy


@pytest.fixture
def store():
    return RecordingStore()


@pytest.fixture
def server(chaos):
    found = server_at(chaos.url())
    yield found
    found.close()


@pytest.fixture
def running(server, store):
    with Running("Pod", server, store, settings=QUICK) as found:
        yield found


def synced(store, api):
    """Wait until the cache is the server's."""
    store.wait_for(lambda: store.holds(api.objects("Pod")))


def followed(api, running):
    """Wait until the watch is open on both sides, and its initial events are complete."""
    running.store.wait_for(lambda: running.store.calls)
    api.wait_for(lambda: api.open_watches("Pod") == 1)


# --- C1 -------------------------------------------------------------------------------------------------------------


def test_C1_a_reset_in_the_middle_of_an_event_loses_and_doubles_nothing(api, chaos, running, store):
    followed(api, running)
    first = api.revision
    chaos.cut_after(60_000)
    chance = random.Random(1)
    alive: list[str] = []
    events = by_profile(2_000, 10_000, 10_000)
    for number in range(events):
        if alive and chance.random() < 0.3:
            api.delete("Pod", alive.pop(chance.randrange(len(alive))))
        elif alive and chance.random() < 0.5:
            api.put("Pod", pod(chance.choice(alive), cpu=str(number)))
        else:
            api.put("Pod", pod(f"p{number}"))
            alive.append(f"p{number}")
    store.wait_for(lambda: len(store.versions) >= events)
    synced(store, api)  # compares every pod, after each batch that comes while it waits: last
    assert store.versions == [str(version) for version in range(first + 1, first + events + 1)]
    assert chaos.cuts >= events / 200
    assert running.state.relists == 0
    assert sum(call.startswith("listed") for call in store.calls) == 1


def test_C1_a_list_that_is_cut_is_asked_for_again(api, running, store):
    with FakeAPI() as other:
        for number in range(7):
            other.put("Pod", pod(f"p{number}"))
        other.faults.add(Fault("list", "Pod", CutBody(50), page=2), Fault("list", "Pod", Drop(), page=3))
        found = server_at(other.url)
        with Running("Pod", found, store := RecordingStore(), settings=QUICK):
            synced(store, other)
        found.close()
        assert store.calls == [f"listed 7 @{other.revision}"]


# --- C2 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_status", [True, False], ids=["status", "event"])
def test_C2_410_costs_one_relist_and_what_was_deleted_meanwhile_is_gone(as_status, api, chaos, running, store):
    api.expired_as_status = as_status
    for number in range(5):
        api.put("Pod", pod(f"p{number}"))
    synced(store, api)
    followed(api, running)
    chaos.refuse()
    chaos.reset()
    api.delete("Pod", "p1")
    api.put("Pod", pod("p9"))
    api.compact()
    chaos.accept()
    synced(store, api)
    assert store.names == {"p0", "p2", "p3", "p4", "p9"}
    assert store.calls[-1] == f"listed 5 @{api.revision}"
    assert running.state.relists == 1


def test_C2_410_on_page_two_restarts_the_list(store):
    with FakeAPI() as api:
        for number in range(7):
            api.put("Pod", pod(f"p{number}"))
        api.faults.add(Fault("list", "Pod", Answer(410), page=2))
        found = server_at(api.url)
        with Running("Pod", found, store, settings=QUICK) as running:
            synced(store, api)
        found.close()
        assert running.state.relists == 1
        assert store.calls == [f"listed 7 @{api.revision}"]
        assert [request.page for request in api.asked("list", "Pod")] == [1, 2, 1, 2, 3]


# --- C3 -------------------------------------------------------------------------------------------------------------


def test_C3_events_that_come_twice_or_again_do_not_change_where_it_goes_on(api, chaos, running, store):
    followed(api, running)
    api.duplicate_next("Pod")
    api.put("Pod", pod("a"))
    api.put("Pod", pod("b"))
    store.wait_for(lambda: len(store.versions) == 3)
    api.replay("Pod", 2)
    store.wait_for(lambda: len(store.versions) == 5)
    chaos.reset()
    api.put("Pod", pod("c"))
    store.wait_for(lambda: "c" in store.names)
    assert len(store.versions) == 6


# --- C4 -------------------------------------------------------------------------------------------------------------


def test_C4_a_server_that_was_restored_from_a_backup_is_followed_from_there(api, server, store):
    for name in "abc":
        api.put("Pod", pod(name))
    backup = api.revision
    settings = WatchSettings(backoff=(0.01, 0.05), idle_timeout=0.1, initial_events_timeout=5.0)
    regressed = []
    with Running("Pod", server, store, settings=settings) as running:
        followed(api, running)
        api.put("Pod", pod("later"))
        api.put("Pod", pod("last"))
        synced(store, api)
        put = store.put

        def put_(item):
            if isinstance(item, Replaced):
                regressed.append(running.state.regressed)
            put(item)

        store.put = put_
        api.rewind(backup)
        synced(store, api)
        assert store.names == {"a", "b", "c"}
        assert store.calls[-1] == f"listed 3 @{backup}"
    assert any(regressed)
    assert running.state.regressed is False


# --- C5 -------------------------------------------------------------------------------------------------------------


def test_C5_a_stalled_connection_is_left_after_the_silence_limit(api, chaos, server, store):
    settings = WatchSettings(backoff=(0.01, 0.05), idle_timeout=0.3)
    with Running("Pod", server, store, settings=settings) as running:
        followed(api, running)
        chaos.stall()
        api.put("Pod", pod("a"))
        chaos.wait_for(connections=2, or_more=True)  # the old one, which is not told that it is over, and a new one
        assert running.state.broken_since is not None
        chaos.resume()
        synced(store, api)
        assert store.versions.count(str(api.revision)) + store.calls.count(f"listed 1 @{api.revision}") == 1


# --- C8, C9 ---------------------------------------------------------------------------------------------------------


class Waits(Clock):
    """A clock that only waits move; does something at one of them."""

    def __init__(self, at: int, do) -> None:
        super().__init__()
        self.at = at
        self.do = do
        self.returned = 0.0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if len(self.waits) == self.at:
            self.do()
            self.returned = self.now
        return super().wait(event, seconds)


def test_D6_after_a_restart_of_the_server_the_cache_is_true_within_5_s(api, server, store):
    clock = Waits(12, api.start)
    with Running("Pod", server, store, clock=clock, wait=clock.wait) as running:
        followed(api, running)
        api.stop()
        api.put("Pod", pod("a"))
        synced(store, api)
        assert clock.now - clock.returned <= 5.0
        assert running.state.relists == 0
    assert sum(clock.waits) > 20.0


def test_C8_5xx_is_waited_out_and_nothing_is_listed_anew(api, server, store):
    clock = Clock()
    with Running("Pod", server, store, clock=clock, wait=clock.wait) as running:
        followed(api, running)
        api.faults.add(Fault("watch", "Pod", Answer(500), times=3))
        api.drop_connections()
        api.put("Pod", pod("a"))
        synced(store, api)
    assert 2 <= len(clock.waits) <= 3
    assert running.state.relists == 0


def test_C9_retry_after_is_honoured(api, server, store):
    clock = Clock()
    api.put("Pod", pod("a"))
    api.faults.add(Fault("watch", "Pod", Answer(429, retry_after=11)), Fault("list", "Pod", Answer(503, retry_after=9)))
    with Running("Pod", server, store, clock=clock, wait=clock.wait):
        synced(store, api)
    assert clock.waits[: 1 if api.watch_list else 2] == ([11.0] if api.watch_list else [11.0, 9.0])


# --- C10, C11 -------------------------------------------------------------------------------------------------------


def test_C10_a_rotated_token_does_not_disturb_the_following(api, store, tmp_path):
    from kubernetes.client import Configuration

    path = tmp_path / "token"
    path.write_text("first")
    api.tokens = {"first"}
    where = Configuration(host=api.url)
    server = ApiServer(lambda: Credentials(where, "the test", f"Bearer {read_token(path)}", path))
    with Running("Pod", server, store, settings=QUICK) as running:
        followed(api, running)
        path.write_text("second")
        api.tokens = {"second"}
        api.drop_connections()
        api.put("Pod", pod("a"))
        synced(store, api)
    server.close()
    assert running.state.relists == 0
    assert "401 Unauthorized" not in str(running.state.last_error)


def test_C11_jumps_of_the_wall_clock_change_nothing(api, running, store, monkeypatch):
    followed(api, running)
    now = time.time()
    for jump in (3600, -3600):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        api.put("Pod", pod(f"p{jump}"))
        synced(store, api)
    assert running.state.broken_since is None
    assert running.state.relists == 0


@pytest.mark.parametrize("module", [api_module, list_watch, object_reader, reflector, stream])
def test_C11_no_wall_clock_is_read(module):
    source = inspect.getsource(module)
    assert "time.time" not in source
    assert "datetime" not in source


# --- C13 ------------------------------------------------------------------------------------------------------------


def test_C13_the_loop_lives_whatever_comes(api, running, store):
    followed(api, running)
    odd = [b'{"type":"SURPRISE","object":{}}\n', b'{"type":"ADDED","object":{"kind":"Pod","metadata":null}}\n', b"\n"]
    for line in odd:
        api.send_raw("Pod", line)
    api.put("Pod", pod("a"))
    synced(store, api)
    assert running.state.skipped == 2
    assert running.state.broken_since is None


def test_C13_a_line_that_is_no_json_ends_the_connection(api, running, store):
    followed(api, running)
    api.send_raw("Pod", b'{"type":"ADD\n')
    api.put("Pod", pod("a"))
    synced(store, api)
    assert running.state.relists == 0


# --- permissions ----------------------------------------------------------------------------------------------------


def test_a_core_kind_that_may_not_be_read_ends_the_thread(api, server, store):
    api.forbid("Pod", "watch")
    with Running("Pod", server, store, settings=QUICK) as running:
        running.thread.join(10)
        assert not running.thread.is_alive()
    assert "no permission to watch pods" in str(running.state.fatal)


def test_an_optional_kind_that_is_forbidden_absent_and_allowed_again(api, server, store, caplog):
    api.put("CSINode", {"metadata": {"name": "n1"}, "spec": {"drivers": []}})
    api.forbid("CSINode")
    with Running("CSINode", server, store, settings=QUICK) as running:
        store.wait_for(lambda: store.calls == ["unreadable forbidden"])
        api.allow("CSINode")
        store.wait_for(lambda: store.names == {"n1"})
        api.wait_for(lambda: api.open_watches("CSINode") == 1)
        api.remove_resource("CSINode")
        store.wait_for(lambda: store.calls[-1] == "unreadable absent")
        api.restore_resource("CSINode")
        store.wait_for(lambda: store.names == {"n1"})
    assert running.state.fatal is None
    (lost,) = (record for record in caplog.records if "csinodes absent" in record.getMessage())
    assert lost.levelname == "WARNING"


# --- other threads --------------------------------------------------------------------------------------------------


def test_stop_ends_a_read(api, running):
    followed(api, running)
    running.reflector.stop()
    running.thread.join(20)
    assert not running.thread.is_alive()


def test_stop_ends_the_wait_for_an_answer(api, server, store):
    hang = Hang()
    api.faults.add(Fault("*", "Pod", hang))
    with Running("Pod", server, store) as running:
        api.wait_for(lambda: api.asked("watch"))
        running.reflector.stop()
        running.thread.join(20)
        assert not running.thread.is_alive()
    hang.release()


def test_stop_ends_a_wait_of_its_own(api, server, store):
    waits = threading.Event()

    def wait(event, seconds):
        waits.set()
        return event.wait(seconds)

    api.faults.add(Fault("*", "Pod", Answer(503, retry_after=300), times=None))
    with Running("Pod", server, store, wait=wait) as running:
        assert waits.wait(10)
        running.reflector.stop()
        running.thread.join(20)
        assert not running.thread.is_alive()


def test_C15_a_compare_asks_for_metadata_only_and_a_relist_is_done_at_once(api, running, store):
    for name in "abcd":
        api.put("Pod", pod(name))
    synced(store, api)
    followed(api, running)
    truth = {key: (one.metadata.uid, one.metadata.resource_version) for key, one in store.objects.items()}
    assert running.reflector.list_metadata() == truth
    assert api.asked("list", "Pod")[-1].partial
    del store.objects["default", "a"]
    running.reflector.request_relist("the compare found a difference")
    synced(store, api)
    assert running.state.relists == 1
    assert running.state.last_error is None
