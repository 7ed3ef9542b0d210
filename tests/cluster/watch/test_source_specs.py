"""A pod's spec is not read again while its generation is the same: it must be the same for certain.

Binding counts no generation, and a server that was set back counts the same ones again.
"""

import asyncio
import threading
import time

import pytest

from extender.cluster.cache.cache import Change
from extender.cluster.watch.delta_queue import Deltas
from tests.cluster.watch.source_rig import Piling, following
from tests.fakes.api_server import Fault, Hang
from tests.fakes.clock import Clock
from tests.server.conftest import pod

pytestmark = pytest.mark.anyio


def spec(rig, name="p"):
    return rig.cache.mutable_snapshot().objects.pods["shop", name].spec


def cpu(rig):
    return spec(rig).containers[0].resources.requests["cpu"]


async def test_C4_a_pod_that_is_bound_elsewhere_since_the_server_was_set_back_is_seen_there(shop):
    """The server has got to our version again, and so the watch goes on as if nothing had happened."""
    shop.put("Pod", pod("p"))
    async with following(shop.url, clock=time.monotonic) as rig:
        await rig.read()
        backup = shop.revision
        shop.put("Pod", pod("p", on="worker-1"))
        await rig.until(lambda: spec(rig).node_name == "worker-1")
        late = Hang()
        shop.faults.add(Fault("watch", "Pod", late))
        shop.rewind(backup)
        for number in range(2):
            shop.put("Node", {"metadata": {"name": f"unrelated-{number}"}})
        late.release()
        await rig.until(lambda: rig.state("Pod").phase == "watching")
        shop.put("Pod", pod("p", on="worker-2"))
        await rig.until(lambda: rig.holds(shop, ["Pod"]))
        assert spec(rig).node_name == "worker-2"


@pytest.mark.parametrize("is_applied", [True, False], ids=["the list is applied", "the list waits"])
@pytest.mark.parametrize("what", ["bound", "resized"])
async def test_C4_what_comes_after_a_list_that_waits_is_not_taken_for_what_was_before_it(shop, what, is_applied):
    """The server was set back, which is noticed; then it does otherwise what it had done before."""
    first, second = {"bound": ("worker-1", "worker-2"), "resized": ("2", "3")}[what]

    def changed(to):
        return pod("p", on=to) if what == "bound" else pod("p", on="worker-1", cpu=to)

    def found(rig):
        return spec(rig).node_name if what == "bound" else cpu(rig)

    shop.put("Pod", pod("p", on="" if what == "bound" else "worker-1"))
    backup = shop.revision
    async with following(shop.url, clock=time.monotonic) as rig:
        await rig.read()
        shop.put("Pod", changed(first))
        for name in ("q", "r"):
            shop.put("Pod", pod(name))
        await rig.until(lambda: rig.holds(shop))
        busy = Piling([Change("Pod", rig.cache.mutable_snapshot().objects.pods["shop", "large"])])
        busy.ended = is_applied
        rig.source.queue.put(Deltas("Pod", busy))
        rig.impatient("Pod", 0.5)
        shop.rewind(backup)
        await rig.followed("Pod", lists=2)
        await rig.until(lambda: not is_applied or rig.holds(shop))
        events = rig.state("Pod").events
        shop.put("Pod", changed(second))
        await rig.until(lambda: rig.state("Pod").events > events)
        busy.ended = True
        await rig.until(lambda: rig.holds(shop))
        assert found(rig) == second


async def test_what_was_only_assumed_is_not_taken_for_what_the_server_said(shop):
    """The thread that reads looks the pod up while it is assumed to be bound, and asks on when it no longer is."""
    clock = Clock()
    shop.put("Pod", pod("p"))
    async with following(shop.url, clock=clock) as rig:
        await rig.read()
        assumed = rig.cache.assumed
        assumed.assume_bound("shop", "p", "uid-p", "worker-1")
        assert spec(rig).node_name == "worker-1"
        api_object, asked, go_on = assumed.api_object, threading.Event(), threading.Event()

        def api_object_late(held):
            if held.metadata.name == "p" and threading.current_thread().name == "reflector-pods":
                asked.set()
                go_on.wait(20)
            return api_object(held)

        vars(assumed)["api_object"] = api_object_late
        shop.put("Pod", pod("p") | {"status": {"phase": "Pending", "conditions": []}})
        assert await asyncio.to_thread(asked.wait, 20)
        clock.now += 31
        rig.cache.snapshot()
        assert spec(rig).node_name == ""
        go_on.set()
        await rig.until(lambda: rig.holds(shop))
        assert spec(rig).node_name == ""
