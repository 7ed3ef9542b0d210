"""A list is taken in beside the requests (C2, C12): they see the old snapshot or the new one, and never wait long."""

import asyncio
from itertools import groupby

import pytest

from extender.cluster.cache import cache as cache_module
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch import source as source_module
from extender.cluster.watch.delta_queue import Replaced
from extender.core.snapshot.snapshot import PODS_PER_STEP, Snapshot
from extender.k8s.kinds import ClusterObjects
from tests.builders import node, placed, pod, stored_cluster, thing, typed
from tests.cluster.watch.source_rig import MANY, following, serving, unseen
from tests.server.conftest import filter_body

pytestmark = pytest.mark.anyio


def names(cache):
    return frozenset(name for _, name in cache.snapshot().objects.pods)


def before_the_next_list(queue):
    """An event that is set when a thread has read a list and is about to hand it over."""
    loop, event, listed = asyncio.get_running_loop(), asyncio.Event(), queue.put

    def listed_(item):
        if isinstance(item, Replaced):
            loop.call_soon_threadsafe(event.set)
        listed(item)

    queue.put = listed_
    return event


async def observe(cache, seen, begin):
    """Read the cache at every turn of the loop; not sooner, as a loop that never waits leaves threads no time."""
    await begin.wait()
    while True:
        seen.append(names(cache))
        await asyncio.sleep(0)


async def test_C2_a_reader_never_sees_a_half_filled_cache(api, monkeypatch):
    monkeypatch.setattr(source_module, "TURN_SECONDS", 0.0)
    for number in range(MANY):
        api.put("Pod", pod(f"old-{number}"))
        api.put("Pod", pod(f"kept-{number}"))
    async with following(api.url) as rig:
        await rig.read()
        old, seen = names(rig.cache), list[frozenset[str]]()
        reading = asyncio.create_task(observe(rig.cache, seen, before_the_next_list(rig.source.queue)))
        with unseen(api, "Pod"):
            for number in range(MANY):
                api.delete("Pod", f"old-{number}")
                api.put("Pod", pod(f"new-{number}"))
        await rig.until(lambda: rig.holds(api))
        await asyncio.sleep(0)  # the reader's turn
        new = names(rig.cache)
        reading.cancel()
    assert len(old) == len(new) == 2 * MANY
    assert len(old & new) == MANY
    assert set(seen) == {old, new}
    assert len(seen) > 2 * MANY / PODS_PER_STEP
    assert rig.state("Pod").relists == 1


@pytest.mark.parametrize(
    "count", [10, cache_module.MAX_CHANGES_IN_PLACE // 2, cache_module.MAX_CHANGES_IN_PLACE // 2 + 1, MANY]
)
def test_C2_every_step_of_a_relist_shows_the_old_snapshot_or_the_new_one(count):
    def pods(prefix):
        return [typed(placed(pod(f"{prefix}{number}", cpu="1m"), "n1")) for number in range(count)]

    cache = ClusterCache()
    cache.replace(ClusterObjects(nodes=(typed_node("n1"),), pods=tuple(pods("old"))))
    old, new = names(cache), frozenset(one.metadata.name for one in pods("new"))
    seen = []
    for _ in cache.relist("Pod", pods("new")):
        snapshot = cache.snapshot()
        seen.append(names(cache))
        assert {one.metadata.name for one in snapshot.pods_on("n1")} == seen[-1]
    assert names(cache) == new
    assert [one for one, _ in groupby(seen)] in ([old], [old, new])
    assert cache.snapshot().used[0, 0] == count


def typed_node(name):
    return stored_cluster({"kind": "List", "items": [node(name).raw]}).nodes[0]


@pytest.mark.parametrize("count", [1, MANY])
def test_C2_a_kind_is_unread_from_the_moment_on_when_its_objects_are_gone(count):
    """A claim whose volume is not there is another matter than one whose volume may not be read."""
    volumes = stored_cluster(
        {"kind": "List", "items": [thing("PersistentVolume", f"v{n}") for n in range(count)]}
    ).volumes
    cache = ClusterCache()
    cache.replace(ClusterObjects(volumes=volumes))

    def look():
        snapshot = cache.snapshot()
        return len(snapshot.objects.volumes), *snapshot.unreadable_tables

    for objects, before, after in (((), (count,), (0, "volumes")), (volumes, (0, "volumes"), (count,))):
        assert look() == before
        seen = [look() for _ in cache.relist("PersistentVolume", objects, is_unread=not objects)] + [look()]
        assert seen[0] == before
        assert seen[-1] == after
        assert set(seen) == {before, after}


async def test_C2_what_was_deleted_in_the_gap_is_gone_and_what_came_is_there(api):
    for name in "abc":
        api.put("Pod", pod(name))
    async with following(api.url) as rig:
        await rig.read()
        with unseen(api, "Pod"):
            api.delete("Pod", "a")
            api.put("Pod", pod("b", metadata={"uid": "another"}))
            api.put("Pod", pod("d"))
        await rig.until(lambda: rig.holds(api))
        assert rig.names() == {"b", "c", "d"}
        assert rig.state("Pod").relists == 1
        assert all(rig.state(kind).relists == 0 for kind in ("Node", "Service"))


async def test_C12_a_big_list_is_taken_in_while_requests_are_answered(shop, monkeypatch):
    """No turn of the loop puts more than a step's objects into the cache; every request in between has its answer."""
    monkeypatch.setattr(source_module, "TURN_SECONDS", 0.0)
    turns = [0]
    put_all = Snapshot.put_all

    def counting(self, kind, objects, on_skipped=None):
        held, before = self.objects.of(kind), 0
        for _ in put_all(self, kind, objects, on_skipped):
            turns[-1] += len(held) - before
            before = len(held)
            yield

    async def count_turns():
        while True:
            await asyncio.sleep(0)
            turns.append(0)

    async with serving(shop.url) as (client, rig):
        await rig.read()
        monkeypatch.setattr(Snapshot, "put_all", counting)
        counting_turns = asyncio.create_task(count_turns())
        with unseen(shop, "Pod"):
            shop.load("Pod", (pod(f"p{number}", cpu="1m") for number in range(3000)))
        answered = 0
        while not rig.state("Pod").relists or len(rig.names()) < 3000:
            response = await client.post("/filter", content=filter_body())
            assert response.json()["NodeNames"] == ["worker-1"]
            answered += 1
            await asyncio.sleep(0)  # as a socket does: the loop turns
        counting_turns.cancel()
        assert rig.holds(shop)
    assert answered > 10
    assert sum(turns) >= 3000
    assert max(turns) <= PODS_PER_STEP


@pytest.mark.parametrize("others", [1, MANY])
def test_L3_of_a_pod_that_did_not_change_there_is_one_object_before_and_after_a_relist(others):
    """Kept decisions refer to the pods as they were; they must not keep a second snapshot alive."""

    def pods(*prefixes):
        return [typed(placed(pod(f"{one}{number}", cpu="1m"), "n1")) for one in prefixes for number in range(others)]

    cache = ClusterCache()
    cache.replace(ClusterObjects(nodes=(typed_node("n1"),), pods=tuple(pods("kept", "old"))))
    before = cache.snapshot().objects.pods.copy()
    for _ in cache.relist("Pod", pods("new", "kept")):
        pass
    after = cache.snapshot().objects.pods
    kept = before.keys() & after.keys()
    assert len(kept) == others
    assert all(after[key] is before[key] for key in kept)
