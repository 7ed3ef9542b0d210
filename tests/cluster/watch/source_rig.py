"""What the tests of the live cluster stand on: a source that follows a fake API server, and the service before it.

    async with following(api.url) as live:
        api.put("Pod", pod("a"))
        await live.until(lambda: live.holds(api))

Rule: nothing sleeps. A wait ends by what happens: something is applied, a stream tells something, the clock moves.
"""

import asyncio
import contextlib
import gc
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import httpx

from extender.cluster.cache import cache as cache_module
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch.delta_queue import Deltas, Replaced
from extender.cluster.watch.list_watch import WatchSettings
from extender.cluster.watch.source import KubernetesSource
from extender.cluster.watch.state import ReflectorState
from extender.k8s.kinds import KINDS, Key, key_of
from extender.server.app import create_app
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import FakeAPI, Fault, Hang
from tests.fakes.clock import Clock
from tests.server.conftest import client_for, configuration

QUICK = WatchSettings(page_size=50, backoff=(0.01, 0.05), min_watch_seconds=0.2, unreadable_retry_seconds=0.05)
"""Real waits, but short ones."""

FAILS_AFTER = 20.0
"""Seconds after which a wait fails."""

READABLE = ("watching", "forbidden", "absent")

_CLOSED = itertools.count(1)
_CLOSED_PER_UNFREEZE = 25

Identities = dict[Key, tuple[str, str]]
"""Key -> (uid, resourceVersion)."""


class Sleeps:
    """The source's own sleeps, which end when a test says so."""

    def __init__(self) -> None:
        self._sleeping: dict[float, list[asyncio.Future[None]]] = defaultdict(list)
        self._more = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleeping[seconds].append(future)
        self._more.set()
        await future

    async def end(self, seconds: float) -> None:
        """Wait until a task sleeps for so long, and wake it."""
        async with asyncio.timeout(FAILS_AFTER):
            while not self._sleeping[seconds]:
                self._more.clear()
                await self._more.wait()
        for future in self._sleeping.pop(seconds):
            if not future.done():
                future.set_result(None)


class _TellingState(ReflectorState):
    """Tells when something of it changes."""

    tell: Callable[[], object]

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self.tell()


class SourceRig:
    """A KubernetesSource with its cache, and ways to wait for what they do."""

    def __init__(
        self,
        server: str | Any,
        *,
        clock: Callable[[], float] | None = None,
        cache_clock: Clock | None = None,
        settings: WatchSettings = QUICK,
        **options: Any,
    ) -> None:
        """`server`: a URL, or something that a reflector can ask."""
        self.clock = clock or Clock()
        self.sleeps = Sleeps()
        self.server = server_at(server) if isinstance(server, str) else server
        self.cache = ClusterCache(cache_clock or self.clock)
        given: dict[str, Any] = {"verify_interval": 0.0, "sleep": self.sleeps} | options
        self.source = KubernetesSource(self.cache, self.server, settings=settings, clock=self.clock, **given)
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        for reflector in self.source.reflectors.values():
            state: Any = reflector.state
            vars(state)["tell"] = self._tell
            state.__class__ = _TellingState
        self.lists: Counter[str] = Counter()
        """Kind -> lists that were handed over."""
        self._overhear(self.source.queue)

    def _overhear(self, queue: Any) -> None:
        done, put = queue.done, queue.put

        def done_() -> None:
            done()
            self._news.set()

        def put_(item: Replaced | Deltas) -> None:
            put(item)
            self.lists[item.kind] += isinstance(item, Replaced) and item.version != ""

        queue.done, queue.put = done_, put_

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(self._news.set)

    async def until(self, is_so: Callable[[], object], limit: float = FAILS_AFTER) -> None:
        """Wait until it is true; asked when anything has been applied, and when a stream says anything."""
        try:
            async with asyncio.timeout(limit):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(
                f"not within {limit} s; {self.source.problem()}; {self.source.reflector_statuses()}"
            ) from None

    async def a_moment(self, count: int, limit: float = 0.05) -> None:
        """Let a few things happen, or time pass in which nothing does."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                for _ in range(count):
                    self._news.clear()
                    await self._news.wait()

    async def read(self) -> None:
        """Wait until the cache has synced and every kind is watched or known to be unreadable."""
        followed = self.source.reflectors
        await self.until(lambda: self.cache.version and all(self.state(k).phase in READABLE for k in followed))

    async def followed(self, kind: str, lists: int) -> None:
        """Wait until the watch after so many lists is open."""
        await self.until(lambda: self.lists[kind] == lists and self.state(kind).phase == "watching")

    def impatient(self, kind: str, idle_timeout: float) -> None:
        """From its next watch on, a kind gives up after so many seconds of silence; other kinds never relist."""
        reflector = self.source.reflectors[kind]
        reflector.settings = replace(reflector.settings, idle_timeout=idle_timeout)

    def close(self) -> None:
        """What a source froze for good, later tests need not keep; but its successors begin with a garbage collection,
        which takes a fifth of a second where everything that pytest has imported is not frozen any more.
        """
        self.server.close()
        if next(_CLOSED) % _CLOSED_PER_UNFREEZE == 0:
            gc.unfreeze()

    def state(self, kind: str) -> ReflectorState:
        return self.source.reflectors[kind].state

    # --- what the cache holds ---

    def names(self, kind: str = "Pod") -> set[str]:
        return {name for _, name in self.cache.mutable_snapshot().objects.of(kind)}

    def holds(self, api: FakeAPI, kinds: Iterable[str] = KINDS) -> bool:
        """Whether the cache is the server's: keys, UIDs and versions."""
        return not any(self.differences(api, kinds))

    def differences(self, api: FakeAPI, kinds: Iterable[str] = KINDS) -> list[str]:
        """Where it is not: `Pod default/a: ('uid', '1'), the server: None`."""
        if not self.cache.version:
            return ["the cache has not synced"]
        found = []
        for kind in kinds:
            ours, theirs = held(self.cache, kind), there(api, kind)
            keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
            found += [f"{kind} {'/'.join(k)}: {ours.get(k)}, the server: {theirs.get(k)}" for k in keys]
        return found


def held(cache: ClusterCache, kind: str) -> Identities:
    """Return key -> (uid, resourceVersion) of the cached objects."""
    objects: Iterable[Any] = cache.mutable_snapshot().objects.of(kind).values()
    return {key_of(kind, one): (one.metadata.uid, one.metadata.resource_version) for one in objects}


def there(api: FakeAPI, kind: str) -> Identities:
    """What the server has."""
    with api.changed:
        everything = api.storage.all(kind)
    keys = (one.key.rpartition("/") for one in everything)
    return {(k[0], k[2]): (one.uid, str(one.revision)) for k, one in zip(keys, everything, strict=True)}


# --- at work --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def following(server: str | Any, **options: Any) -> AsyncIterator[SourceRig]:
    """A source that follows; ends with the block, and with everything that it started."""
    rig = SourceRig(server, **options)
    task = asyncio.create_task(rig.source.run())
    try:
        yield rig
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        rig.close()


@contextlib.asynccontextmanager
async def serving(
    url: str,
    sections: dict[str, Any] | None = None,
    on_stop: Callable[[], None] = lambda: None,
    **options: Any,
) -> AsyncIterator[tuple[httpx.AsyncClient, SourceRig]]:
    """The service before it, with its lifespan; `sections` of the configuration; `on_stop`: what stops the server."""
    rig = SourceRig(url, **options)
    app = create_app(rig.cache, configuration(**(sections or {})), rig.source, rig.server)
    app.stop = on_stop
    try:
        async with app.lifespan(), client_for(app) as client:
            yield client, rig
    finally:
        rig.close()


class Piling(list[Change]):
    """Changes that are not applied to the end before the test says so."""

    ended = False

    def __iter__(self) -> Iterator[Change]:
        while not self.ended:
            time.sleep(0)  # lets the threads of the server and of the reader have the interpreter in between
            yield from list(self[:])


# --- what a test does to the server -----------------------------------------------------------------------------------

MANY = 2 * cache_module.MAX_CHANGES_IN_PLACE
"""Objects: more than a list may change in one go."""


@contextlib.contextmanager
def unseen(api: FakeAPI, kind: str) -> Iterator[None]:
    """The watches of a kind never hear of what happens in the block: it is compacted when they come back."""
    hang = Hang()
    api.faults.add(Fault("watch", kind, hang))
    api.end_watches(kind)
    api.wait_for(lambda: api.open_watches(kind) == 0)
    yield
    api.compact()
    hang.release()
