"""What the threads that list and watch hand over: in order, and never more than there is room for."""

import asyncio
import threading

import pytest

from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch import delta_queue
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, Replaced
from extender.k8s.objects import ObjectMeta, Pod
from tests.fakes.clock import Clock

pytestmark = pytest.mark.anyio


def change(name: str, version: int) -> Change:
    return Change("Pod", Pod(ObjectMeta(name=name, namespace="shop", uid="1", resource_version=str(version))))


def one(kind: str) -> Deltas:
    return Deltas(kind, [change("a", 1)])


class Room(threading.Condition):
    """Tells when a thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.awaited.set()
        return super().wait(timeout)


async def test_a_thread_that_is_ahead_of_the_loop_waits_for_room(monkeypatch):
    monkeypatch.setattr(delta_queue, "MAX_QUEUED_OBJECTS", 2)
    queue = DeltaQueue(ClusterCache(), Clock())
    room = queue._condition = Room()
    queue.open(asyncio.get_running_loop())
    queue.put(Deltas("Pod", [change("a", 1), change("b", 2)]))
    thread = threading.Thread(target=queue.put, args=(Deltas("Pod", [change("c", 3)]),))
    thread.start()
    assert await asyncio.to_thread(room.awaited.wait, 10.0)
    assert len((await queue.get()).changes) == 2  # type: ignore[union-attr]
    assert thread.is_alive()
    queue.done()
    await asyncio.to_thread(thread.join, 10.0)
    assert len((await queue.get()).changes) == 1  # type: ignore[union-attr]
    queue.done()
    assert queue.oldest is None


async def test_nobody_waits_for_room_once_it_is_closed(monkeypatch):
    monkeypatch.setattr(delta_queue, "MAX_QUEUED_OBJECTS", 1)
    queue = DeltaQueue(ClusterCache(), Clock())
    queue.open(asyncio.get_running_loop())
    queue.put(one("Pod"))
    threads = [threading.Thread(target=queue.put, args=(one("Pod"),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10.0)
        assert not thread.is_alive()


async def test_what_is_handed_over_comes_out_in_order_and_knows_since_when_it_waits():
    clock = Clock()
    queue = DeltaQueue(ClusterCache(), clock)
    queue.open(asyncio.get_running_loop())
    queue.put(Replaced("Pod", [], "7"))
    clock.now += 1.0
    queue.put(Deltas("Pod", [change("a", 8)]))
    queue.put(Replaced("Service", [], "", is_forbidden=True))
    kinds = []
    for since in (1000.0, 1001.0, 1001.0):
        item = await queue.get()
        assert item is await queue.get()  # until it is done
        assert queue.oldest == since
        kinds.append(type(item).__name__)
        queue.done()
    assert kinds == ["Replaced", "Deltas", "Replaced"]
    assert queue.oldest is None


async def test_whoever_waits_for_something_is_woken_from_any_thread():
    queue = DeltaQueue(ClusterCache(), Clock())
    queue.open(asyncio.get_running_loop())
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.to_thread(queue.put, one("Pod"))
    async with asyncio.timeout(10):
        assert (await waiting).kind == "Pod"
