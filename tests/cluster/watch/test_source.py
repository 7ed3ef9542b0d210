"""A cache that is kept in sync with an API server: when it has synced, which events reach it, and when it is stale."""

import asyncio
import gc
import inspect
import itertools
import random
import threading
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given

from extender.cluster.apiserver.client import Timeout
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable, Stream
from extender.cluster.cache import assume
from extender.cluster.cache import cache as cache_module
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch import delta_queue
from extender.cluster.watch import source as source_module
from extender.cluster.watch.delta_queue import Deltas
from extender.cluster.watch.list_watch import RESOURCES, WatchSettings
from extender.errors import NotReady
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import ObjectMeta, Pod
from tests.builders import budget, namespace, node, placed, pod, thing
from tests.cluster.watch.reflector_rig import NO_INITIAL_EVENTS, bookmark
from tests.cluster.watch.source_rig import QUICK, following, held
from tests.fakes.api_server import Answer, Fault, Hang
from tests.fakes.clock import Clock
from tests.fakes.watches import event_line
from tests.profiles import SEEDS, examples

pytestmark = pytest.mark.anyio


@pytest.fixture
def api(api_either_way):
    return api_either_way


# --- the first sync ----------------------------------------------------------------------------------------------


async def test_the_cache_has_not_synced_before_every_kind_was_listed(api):
    api.put("Pod", pod("a"))
    hang = Hang()
    api.faults.add(Fault("watch" if api.watch_list else "list", "Service", hang))
    async with following(api.url) as rig:
        assert (rig.source.problem() or "").startswith("the cache has not synced yet: waiting for nodes, pods, ")
        with pytest.raises(NotReady):
            rig.cache.snapshot()
        only_services = "the cache has not synced yet: waiting for services"
        await rig.until(lambda: rig.source.problem() == only_services)
        assert rig.cache.version == 0
        hang.release()
        await rig.until(lambda: rig.source.problem() is None)
        assert set(rig.cache.snapshot().objects.pods) == {("default", "a")}


async def test_why_the_cache_has_not_synced_yet_is_reported(api):
    api.faults.add(Fault("*", "PodDisruptionBudget", Answer(500, "etcd is slow today"), times=None))
    async with following(api.url) as rig:
        budgets, others = rig.state("PodDisruptionBudget"), len(RESOURCES) - 1
        await rig.until(lambda: len(rig.lists) == others and rig.source.queue.oldest is None and budgets.last_error)
        problem = rig.source.problem() or ""
        assert problem.startswith("the cache has not synced yet (500 ")
        assert problem.endswith(" etcd is slow today): waiting for poddisruptionbudgets")
        api.faults.clear()
        await rig.read()
        assert rig.source.problem() is None


async def test_what_happens_while_the_first_lists_are_read_is_in_the_first_snapshot(api):
    """The watch of pods is open long before the list of services comes."""
    for name in ("a", "b"):
        api.put("Pod", pod(name))
    hang = Hang()
    api.faults.add(Fault("watch" if api.watch_list else "list", "Service", hang))
    async with following(api.url) as rig:
        await asyncio.to_thread(api.wait_for, lambda: api.open_watches("Pod") == 1)
        api.put("Pod", pod("c"))
        api.delete("Pod", "a")
        await rig.until(lambda: rig.state("Pod").events == 2)
        hang.release()
        await rig.read()
        await rig.until(lambda: rig.names() == {"b", "c"})
        assert rig.cache.version == 3  # one sync, two changes


async def test_a_list_that_came_again_before_the_first_sync_is_the_one_that_counts(api):
    api.put("Pod", pod("a"))
    hang = Hang()
    api.faults.add(Fault("watch" if api.watch_list else "list", "Service", hang))
    async with following(api.url) as rig:
        await asyncio.to_thread(api.wait_for, lambda: api.open_watches("Pod") == 1)
        api.put("Pod", pod("b"))
        await rig.until(lambda: rig.state("Pod").events == 1)
        with api.changed:
            api.send_error("Pod", 410)
            api.delete("Pod", "a")
            api.compact()
        await rig.followed("Pod", lists=2)
        hang.release()
        await rig.read()
        assert rig.holds(api)


# --- following ------------------------------------------------------------------------------------------------------


async def test_events_reach_the_cache(api):
    api.put("Node", node("n1").raw)
    async with following(api.url) as rig:
        await rig.read()
        api.put("Pod", placed(pod("a", cpu="1"), "n1"))
        api.put("Pod", placed(pod("b"), "n1"))
        api.put("Pod", placed(pod("a", cpu="3"), "n1"))
        api.delete("Pod", "b")
        api.put("PodDisruptionBudget", budget(app="a"))
        api.put("Namespace", namespace("shop"))
        api.put("StorageClass", thing("StorageClass", "fast", provisioner="disk"))
        await rig.until(lambda: rig.holds(api))
        snapshot = rig.cache.snapshot()
        assert [one.metadata.name for one in snapshot.pods_on("n1")] == ["a"]
        assert snapshot.used[0, 0] == 3000
        assert len(snapshot.objects.budgets) == 1


async def test_what_the_streams_say_of_themselves(api):
    clock = Clock()
    async with following(api.url, clock=clock) as rig:
        await rig.read()
        api.put("Pod", pod("a"))
        await rig.until(lambda: rig.holds(api))
        clock.now += 7.0
        views = {view.kind: view for view in rig.source.reflector_statuses()}
        assert list(views) == [one.kind for one in RESOURCES]
        assert {view.phase for view in views.values()} == {"watching"}
        assert views["Pod"].version == str(api.revision)
        assert (views["Pod"].events, views["Pod"].age) == (1, 7.0)
        assert not rig.source.warnings()


async def test_when_it_ends_so_does_everything_that_it_began(api):
    async with following(api.url) as rig:
        await rig.read()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reflector-")]


async def test_changes_that_wait_too_long_are_a_problem(api):
    clock = Clock()
    async with following(api.url, clock=clock, settings=QUICK) as rig:
        await rig.read()
        rig.source.queue.put(Deltas("Pod", [change("a", 100)]))
        clock.now += 31.0
        assert rig.source.problem() == "the cache is stale: changes have been queued for 31s"
        await rig.until(lambda: rig.source.problem() is None)
        assert "a" in rig.names()


async def test_a_backlog_of_single_events_is_applied_in_turns_too(api, monkeypatch):
    """Each event is an item of its own: all of them together, and not each one, have a turn's time."""
    backlog = 40
    async with following(api.url) as rig:
        await rig.read()
        readings = itertools.count()
        monkeypatch.setattr("time.perf_counter", lambda: next(readings) * source_module.TURN_SECONDS / 4)
        for number in range(backlog):
            rig.source.queue.put(Deltas("Pod", [change(f"pod-{number}", 100 + number)]))
        turns = 0
        while rig.source.queue.oldest is not None:
            await asyncio.sleep(0)
            turns += 1
        monkeypatch.undo()
        assert turns > backlog / 5
        assert len(rig.names()) == backlog


# --- C3: whatever comes, and in whatever order ----------------------------------------------------------------------


def change(name: str, version: int, uid: str = "1", deleted: bool = False) -> Change:
    return Change("Pod", Pod(ObjectMeta(name=name, namespace="shop", uid=uid, resource_version=str(version))), deleted)


def gone(name: str, version: int, uid: str = "1") -> Change:
    return change(name, version, uid, deleted=True)


ORDERS = {
    "an event that comes twice counts once": ([change("a", 1), change("a", 1)], {"a": ("1", "1")}),
    "an older event does not undo a newer one": ([change("a", 5), change("a", 3)], {"a": ("1", "5")}),
    "versions are numbers: 10 comes after 9": ([change("a", 9), change("a", 10)], {"a": ("1", "10")}),
    "versions are numbers: 9 comes before 10": ([change("a", 10), change("a", 9)], {"a": ("1", "10")}),
    "what is deleted does not come back": ([change("a", 1), gone("a", 3), change("a", 2)], {}),
    "a deletion that comes before the creation": ([gone("a", 3), change("a", 1)], {}),
    "a new UID replaces the old one": ([change("a", 1), change("a", 4, "2")], {"a": ("2", "4")}),
    "the old one's deletion leaves the new one": ([change("a", 4, "2"), gone("a", 3)], {"a": ("2", "4")}),
    "the old one's events leave the new one": ([change("a", 4, "2"), change("a", 2)], {"a": ("2", "4")}),
    "recreated again and again": ([gone("a", 5, "2"), change("a", 6, "3"), change("a", 1)], {"a": ("3", "6")}),
}


@pytest.mark.parametrize(("changes", "wanted"), ORDERS.values(), ids=ORDERS.keys())
def test_C3_the_higher_version_wins_and_a_new_uid_replaces(changes, wanted):
    cache = empty()
    for one in changes:
        cache.apply(one)
    assert {name: identity for (_, name), identity in held(cache, "Pod").items()} == wanted


@examples(10, 50, 5_000)
@given(SEEDS)
def test_C3_events_in_any_order_and_number_give_what_is_true_in_the_end(seed):
    chance = random.Random(seed)
    events: list[Change] = []
    alive: dict[str, tuple[str, str]] = {}
    for version in range(1, 60):
        name = chance.choice("abc")
        if name in alive and chance.random() < 0.4:
            events.append(gone(name, version, alive.pop(name)[0]))
        else:
            uid = alive[name][0] if name in alive else f"{name}-{version}"
            alive[name] = uid, str(version)
            events.append(change(name, version, uid))
    shuffled = events + chance.choices(events, k=20)
    chance.shuffle(shuffled)
    cache = empty()
    for one in shuffled:
        cache.apply(one)
    assert held(cache, "Pod") == {("shop", name): identity for name, identity in alive.items()}, (
        "the cache differs from the API server"
    )


@pytest.mark.parametrize("at_once", [0, 200], ids=["as a new snapshot", "in one go"])
def test_C3_what_a_list_no_longer_shows_does_not_come_back_with_a_late_event(at_once, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_CHANGES_IN_PLACE", at_once)
    cache = empty()
    for one in (change("a", 1), change("b", 2), gone("c", 3, "c")):
        cache.apply(one)
    for _ in cache.relist("Pod", [change("b", 2).object, change("c", 3, "c").object]):
        pass
    for late in (change("a", 1), change("a", 2), change("b", 1)):
        assert not cache.apply(late)
    assert cache.apply(change("c", 4, "c"))  # of which a list says that it is there, whatever was said before
    assert set(held(cache, "Pod")) == {("shop", "b"), ("shop", "c")}


def empty() -> ClusterCache:
    cache = ClusterCache()
    cache.replace(ClusterObjects())
    return cache


async def test_C3_end_to_end_duplicates_swaps_and_replays_change_nothing(api):
    async with following(api.url) as rig:
        await rig.read()
        api.duplicate_next("Pod", 2)
        api.put("Pod", pod("a"))
        api.put("Pod", pod("a", cpu="2"))
        api.swap_next("Pod")
        api.put("Pod", pod("a", cpu="3"))
        api.put("Pod", pod("a", cpu="4"))
        api.put("Pod", pod("b"))
        api.swap_next("Pod")
        api.delete("Pod", "b")
        api.put("Pod", pod("b", metadata={"uid": "another"}))
        api.replay("Pod", 6)
        api.put("Pod", pod("c"))
        await rig.until(lambda: "c" in rig.names())
        assert rig.differences(api) == []
        assert rig.state("Pod").relists == 0


async def test_C3_an_event_from_before_the_list_tells_nothing(api):
    """A deletion that precedes the first list is not remembered."""
    api.put("Pod", pod("a"))
    (history,) = api.storage.history
    api.delete("Pod", "a")
    api.put("Pod", pod("b"))
    async with following(api.url) as rig:
        await rig.read()
        api.send_raw("Pod", event_line(history))
        api.put("Pod", pod("c"))
        await rig.until(lambda: "c" in rig.names())
        assert rig.names() == {"b", "c"}


async def test_C13_a_deletion_that_cannot_be_read_deletes_what_the_list_had(api):
    api.put("Pod", pod("a"))
    api.put("Pod", pod("b"))
    async with following(api.url) as rig:
        await rig.read()
        held_a = rig.cache.snapshot().objects.pods["default", "a"].metadata
        metadata = {"name": "a", "namespace": "default", "uid": held_a.uid, "resourceVersion": str(api.revision + 1)}
        event = {"type": "DELETED", "object": {"kind": "Pod", "metadata": metadata, "spec": {"priority": "high"}}}
        api.send_raw("Pod", msgspec.json.encode(event) + b"\n")
        await rig.until(lambda: rig.names() == {"b"})
        assert rig.state("Pod").relists == 0


async def test_C3_the_same_name_with_a_new_uid_is_another_pod(api):
    api.put("Pod", pod("a"))
    async with following(api.url) as rig:
        await rig.read()
        api.put("Pod", pod("b"))
        api.put("Pod", pod("a", metadata={"uid": "another"}))
        await rig.until(lambda: rig.holds(api))
        assert [key[1] for key in rig.cache.snapshot().objects.pods] == ["b", "a"]


# --- C6, C11 --------------------------------------------------------------------------------------------------------


class Quiet:
    """A healthy API server, by a test's clock, in whose empty cluster nothing happens; an Api of reflectors."""

    def __init__(self, clock: Clock, bookmarks: bool) -> None:
        self.clock = clock
        self.bookmarks = bookmarks
        self.changed = threading.Condition()
        self.moment = 0
        self._waits: dict[str, int] = {}

    def stream(self, path: str, params: dict, *, timeout: Timeout) -> Stream:
        return QuietStream(self, path, params, timeout[1])

    def get(self, path: str, *, timeout: Timeout) -> bytes:
        assert path == "/version", "no verification was requested"
        return b'{"gitVersion": "v1.36.2"}'

    def close(self) -> None: ...

    def pass_time(self, seconds: float) -> None:
        """Begin when every watch waits; return when each has heard of it and waits again."""
        with self.changed:
            self._all_wait()
            self.clock.now += seconds
            self.moment += 1
            self.changed.notify_all()
            self._all_wait()

    def _all_wait(self) -> None:
        now = [self.moment] * len(RESOURCES)
        assert self.changed.wait_for(lambda: list(self._waits.values()) == now, 20.0), self._waits

    def wait(self, path: str, is_closed: threading.Event) -> None:
        with self.changed:
            moment = self._waits[path] = self.moment
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.moment != moment or is_closed.is_set())


class QuietStream(Stream):
    def __init__(self, api: Quiet, path: str, params: dict, patience: float) -> None:
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]
        self.api, self.path, self.params, self.patience = api, path, params, patience

    def __enter__(self):
        if "sendInitialEvents" in self.params:
            raise ApiError(NO_INITIAL_EVENTS.code, NO_INITIAL_EVENTS.reason, NO_INITIAL_EVENTS.message)
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> bytes:
        return msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": []})

    def lines(self) -> Iterator[list[bytes]]:
        begun = heard = self.api.clock()
        while True:
            self.api.wait(self.path, self._closed)
            now = self.api.clock()
            if self._closed.is_set() or now - begun >= float(self.params["timeoutSeconds"]):
                return
            if self.api.bookmarks:
                heard = now
                yield [bookmark(7, kind="")]
            elif now - heard >= self.patience:
                raise ApiUnreachable("timed out")

    def close(self) -> None:
        with self.api.changed:
            self._closed.set()
            self.api.changed.notify_all()


@pytest.mark.parametrize("bookmarks", [True, False], ids=["with bookmarks", "in silence"])
async def test_C6_a_quiet_healthy_cluster_stays_ready_for_10_minutes_without_any_event(bookmarks):
    clock = Clock()
    quiet = Quiet(clock, bookmarks)
    async with following(quiet, clock=clock, settings=WatchSettings()) as rig:
        await rig.read()
        for _ in range(20):
            await asyncio.to_thread(quiet.pass_time, 30.0)
            assert rig.source.problem() is None
        assert clock.now == 1600.0
        views = rig.source.reflector_statuses()
        assert sum(view.events for view in views) == 0
        assert max(view.age or 0.0 for view in views) <= (0.0 if bookmarks else 90.0)
        assert sum(view.watch_restarts for view in views) >= len(RESOURCES)


@pytest.mark.parametrize("module", [source_module, delta_queue, cache_module, assume])
def test_C11_no_wall_clock_is_read(module):
    source = inspect.getsource(module)
    assert "time.time" not in source
    assert "datetime" not in source
