"""A store that follows a live cluster: one stream per kind, and how true the picture is.

A thread per kind lists and watches (`Reflector`) and hands over what it read; the event loop applies it in short turns,
between which requests are answered. There is a picture once every kind has been listed or is known to be unreadable.

Rule: the picture is true, or `problem` says why it may not be.
"""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from extender.cluster.cache.cache import Change, ClusterCache, ReflectorStatus, version_of
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, ProfileChange, QueueItem, Replaced, Unreadable
from extender.cluster.watch.list_watch import (
    POD_GROUP_RESOURCES,
    RESOURCES,
    ListerWatcher,
    WatchSettings,
    is_older_version,
)
from extender.cluster.watch.reflector import Reflector
from extender.core.profile import Profile
from extender.errors import INTERNAL, ClusterLost, ExtenderError
from extender.k8s.kinds import KINDS, Key
from extender.k8s.objects import Value

log = logging.getLogger(__name__)

TURN_SECONDS = 0.001
"""Seconds for which changes are applied before requests have their turn, once there is a picture."""

INITIAL_TURN_SECONDS = 0.02
"""The same before, when no request could be answered."""

NODES_PER_SETTLE = 50
"""Nodes, before the next look at the clock."""

INTERRUPTION_CHECK_SECONDS = 1.0
"""Seconds between two looks whether a stream was broken meanwhile."""

MIN_REVERIFY_SECONDS = 300.0
"""Seconds between two comparisons of a kind for the reason that its stream was broken."""

REDELIVERY_GRACE_SECONDS = 5.0
"""Seconds after which a difference to the API server cannot be an event that is on its way."""

RELIST_DELAY_SECONDS = 1.0
"""Seconds before what could not be applied is listed anew, lest the API server lists for ever."""

GC_INTERVAL_SECONDS = 10.0
GC_INTERVAL_WHILE_LISTING_SECONDS = 0.5
"""Seconds between two collections of reference cycles."""


class KubernetesSource:
    """Follows an API server with `run`, a task of the event loop that decides."""

    def __init__(
        self,
        cache: ClusterCache,
        api: ListerWatcher,
        *,
        stale_after: float = 30.0,
        verify_interval: float = 1800.0,
        pod_annotations: frozenset[str] = frozenset(),
        pod_groups: bool = False,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Seconds; a stream that is broken for longer than `stale_after` makes the picture stale.

        `pod_annotations`: those that decisions read beside KEPT_ANNOTATIONS; `pod_groups`: whether they read PodGroups.
        """
        self.cache = cache
        self.stale_after = stale_after
        self.verify_interval = verify_interval
        """0: never compare."""
        self.fatal: str | None = None
        """Why there was no point in going on."""
        self.queue = DeltaQueue(cache, clock)
        self._clock = clock
        self._sleep = sleep
        resources = (*RESOURCES, *POD_GROUP_RESOURCES) if pod_groups else RESOURCES
        decoders = {one.kind: Decoder(one.kind) for one in resources} | {"Pod": Decoder("Pod", pod_annotations)}
        self.reflectors = {
            one.kind: Reflector(one, api, decoders[one.kind], self.queue, settings=settings, clock=clock)
            for one in resources
        }
        """Of the kinds that are followed; of all others there is nothing, and that is known."""
        self._read = asyncio.Event()
        self._first: dict[str, Sequence[Value]] = {}
        self._early: list[Change] = []
        self._forbidden: set[str] = set()
        self._listed_at: dict[str, str] = {}
        """Kind -> resourceVersion of its last list."""
        self._refused = dict.fromkeys(KINDS, 0)
        self._divergences = dict.fromkeys(KINDS, 0)
        self._excused: dict[str, dict[Key, object]] = {kind: {} for kind in KINDS}

    # --- how true it is ---------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Why nothing may be decided on the picture now; None if it is true."""
        if self.fatal is not None:
            return self.fatal
        if self.cache.version == 0:
            return self._not_read_yet()
        now = self._clock()
        for reflector in self.reflectors.values():
            status, plural = reflector.status, reflector.resource.plural
            since = status.broken_since
            if status.regressed:
                return f"the API server shows {plural} as they were before what it has shown already"
            if since is not None and now - since > self.stale_after:
                return f"{plural} have not been followed for {now - since:.0f} s: {status.last_error}"
        oldest = self.queue.oldest
        if oldest is not None and now - oldest > self.stale_after:
            return f"changes have been waiting to be applied for {now - oldest:.0f} s"
        return None

    def _not_read_yet(self) -> str:
        missing = [reflector for kind, reflector in self.reflectors.items() if kind not in self._first]
        names = ", ".join(reflector.resource.plural for reflector in missing)
        error = next(filter(None, (reflector.status.last_error for reflector in missing)), "")
        why = f" ({error})" if error else ""
        return f"the cluster has not been read yet{why}: waiting for {names or 'the first picture'}"

    @property
    def is_live(self) -> bool:
        return True

    def warnings(self) -> Sequence[str]:
        """What is not known; decisions say `not evaluated` where it matters."""
        forbidden = (view for view in self.reflector_statuses() if view.phase == "forbidden")
        return [f"{view.kind} may not be read, so that some plugins are not evaluated" for view in forbidden]

    def reflector_statuses(self) -> list[ReflectorStatus]:
        """Of every kind that is followed."""
        now = self._clock()
        return [self._view(kind, reflector, now) for kind, reflector in self.reflectors.items()]

    def _view(self, kind: str, reflector: Reflector, now: float) -> ReflectorStatus:
        status = reflector.status
        is_wrong = status.broken_since is not None or status.phase in ("forbidden", "absent")
        return ReflectorStatus(
            kind,
            status.phase,
            status.version,
            None if status.last_contact is None else max(0.0, now - status.last_contact),
            status.last_error if is_wrong else None,
            status.relists,
            status.watch_restarts,
            status.events,
            status.skipped + self._refused[kind],
            self._divergences[kind],
        )

    # --- following --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow until cancelled, or until `fatal` is said."""
        self.queue.open(asyncio.get_running_loop())
        reflectors = self.reflectors.values()
        threads = [
            threading.Thread(target=one.run, name=f"follow-{one.resource.plural}", daemon=True) for one in reflectors
        ]
        for thread in threads:
            thread.start()
        gc.disable()  # see _collect
        try:
            async with asyncio.TaskGroup() as tasks:
                for task in (
                    self._apply_all(),
                    self._await_the_end(),
                    self._collect(),
                    self._compare_all(),
                    self._recheck(),
                ):
                    tasks.create_task(task)
        except* ClusterLost:
            log.critical("%s", self.fatal)
        except* Exception as errors:  # nobody follows any more: whoever restarts us helps
            self.fatal = f"the cluster is not followed any more: {INTERNAL}"
            log.critical("%s", self.fatal, exc_info=errors)
        finally:
            gc.enable()
            self.queue.close()
            for one in reflectors:
                one.stop()
            for thread in threads:
                await asyncio.to_thread(thread.join, 5.0)

    async def read_once(self, limit: float) -> None:
        """Follow until there is a picture; ClusterLost if there is none within so many seconds, or never will be."""
        following, read = asyncio.create_task(self.run()), asyncio.create_task(self._read.wait())
        try:
            await asyncio.wait((following, read), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not read.done():
                raise ClusterLost(self.fatal or f"not read within {limit:g} s: {self.problem()}")
        finally:
            following.cancel()
            read.cancel()
            await asyncio.gather(following, read, return_exceptions=True)

    async def _await_the_end(self) -> None:
        """Raise ClusterLost when a stream gives up."""
        while True:
            await asyncio.sleep(0.2)
            for reflector in self.reflectors.values():
                if reflector.status.fatal is not None:
                    self.fatal = reflector.status.fatal
                    raise ClusterLost(self.fatal)

    async def _collect(self) -> None:
        """Look for reference cycles among what is new since the last time; what is old lives long.

        A collection over the whole picture would stop everything for seconds, as would one after a large list: while
        there are lists it is done often, and so each time for few objects. Not to do it then would keep for ever what
        is garbage by the next time.
        """
        seen, left = self._lists_seen(), GC_INTERVAL_SECONDS
        while True:
            await self._sleep(GC_INTERVAL_WHILE_LISTING_SECONDS)
            before, seen, left = seen, self._lists_seen(), left - GC_INTERVAL_WHILE_LISTING_SECONDS
            if left <= 0 or seen != before or seen[1]:
                gc.collect()
                gc.freeze()
                left = GC_INTERVAL_SECONDS

    def _lists_seen(self) -> tuple[int, int]:
        """(lists that were begun anew, lists under way)."""
        phases = (reflector.status.phase == "listing" for reflector in self.reflectors.values())
        return sum(reflector.status.relists for reflector in self.reflectors.values()), sum(phases)

    # --- applying ---------------------------------------------------------------------------------------------

    async def _apply_all(self) -> None:
        while True:
            item = await self.queue.next()
            try:
                await self._in_turns(self._steps(item))
            except Exception:  # a bug of ours must not end the following; what is held may be wrong now
                log.exception("%s: what was read could not be applied", item.kind)
                await self._in_turns(self.cache.rebuild(self._refuse) if self.cache.version else iter(()))
                await self._sleep(RELIST_DELAY_SECONDS)
                self.reflectors[item.kind].request_relist("what was read could not be applied")
            self.queue.done()

    async def _in_turns(self, steps: Iterator[None]) -> None:
        turn = TURN_SECONDS if self.cache.version else INITIAL_TURN_SECONDS
        ends = time.perf_counter() + turn
        for _ in steps:
            if time.perf_counter() >= ends:
                await asyncio.sleep(0)
                ends = time.perf_counter() + turn

    async def adopt(self, profile: Profile) -> None:
        """Get the picture ready for decisions by this profile, while others are made."""
        await self.queue.policies(profile).wait()

    def _steps(self, item: QueueItem) -> Iterator[None]:
        if isinstance(item, ProfileChange):
            yield from self.cache.adopt(item.profile, self._refuse)
            item.is_ready.set()
            return
        if isinstance(item, Replaced):
            self._listed_at[item.kind] = item.version
        if self.cache.version == 0:
            yield from self._begin(item)
            return
        if isinstance(item, Deltas):
            yield from self._apply(item.changes)
        else:
            is_unread = isinstance(item, Unreadable) and item.why == "forbidden"
            objects = item.objects if isinstance(item, Replaced) else ()
            yield from self.cache.relist(item.kind, objects, self._refuse, is_unread)
        while not self.cache.settle(NODES_PER_SETTLE):
            yield

    def _begin(self, item: QueueItem) -> Iterator[None]:
        """Before there is a picture: gather the first list of every kind, and make it when all are there."""
        if isinstance(item, Deltas):
            self._early.extend(item.changes)
            return
        self._first[item.kind] = item.objects if isinstance(item, Replaced) else ()
        self._early = [change for change in self._early if change.kind != item.kind]
        if isinstance(item, Unreadable) and item.why == "forbidden":
            self._forbidden.add(item.kind)
        else:
            self._forbidden.discard(item.kind)
        if self._first.keys() == self.reflectors.keys():
            gc.collect()
            yield from self.cache.build(self._first, self._forbidden, self._refuse)
            gc.freeze()
            yield from self._apply(self._early)
            self._early = []
            self._first = dict.fromkeys(self._first, ())
            self._read.set()
            log.info("the cluster has been read: %s", self._counts())

    def _counts(self) -> str:
        tables = self.cache.mutable_snapshot().objects
        return ", ".join(f"{len(tables.of(one.resource.kind))} {one.resource.plural}" for one in self._core())

    def _core(self) -> Iterator[Reflector]:
        return (reflector for reflector in self.reflectors.values() if reflector.resource.core)

    def _apply(self, changes: Sequence[Change]) -> Iterator[None]:
        for change in changes:
            try:
                if not self._is_old(change):
                    self.cache.apply(change)
            except ValueError as error:
                self._refuse(change.kind, error)
            yield

    def _is_old(self, change: Change) -> bool:
        """Whether the last list has told it already, and maybe what came of it."""
        version, listed_at = version_of(change.object), self._listed_at.get(change.kind, "")
        return is_older_version(version, listed_at) or (version == listed_at != "")

    def _refuse(self, kind: str, error: ValueError) -> None:
        self._refused[kind] += 1
        log.warning("%s: left out: %s", kind, error)

    # --- comparing --------------------------------------------------------------------------------------------

    async def _compare_all(self) -> None:
        while self.verify_interval > 0:
            await self._sleep(self.verify_interval)
            for kind in self.reflectors:
                await self._try_to_compare(kind)

    async def _recheck(self) -> None:
        """Compare a kind after its stream was broken.

        A server that was set back to an older state meanwhile, and has got to our version again, lets the watch go on
        as if nothing had happened.
        """
        seen, not_before = dict.fromkeys(self.reflectors, 0), dict.fromkeys(self.reflectors, 0.0)
        while self.verify_interval > 0:
            await self._sleep(INTERRUPTION_CHECK_SECONDS)
            for kind, reflector in self.reflectors.items():
                status, now = reflector.status, self._clock()
                if status.interruptions > seen[kind] and status.phase == "watching" and now >= not_before[kind]:
                    seen[kind], not_before[kind] = status.interruptions, now + MIN_REVERIFY_SECONDS
                    await self._try_to_compare(kind)

    async def _try_to_compare(self, kind: str) -> None:
        try:
            await self.compare(kind)
        except ExtenderError:  # a stream with trouble says so itself
            return
        except Exception:  # a bug of ours must not end the following
            log.exception("%s: could not be compared with the API server's", kind)

    async def compare(self, kind: str) -> int:
        """Ask the API server for names, UIDs and versions -> how many objects differ that should not; then list anew.

        A kind that is not being followed is not compared, and there is no verdict where what came before has not been
        applied yet: the next comparison tells. Raises ApiError and ApiUnreachable.
        """
        reflector = self.reflectors.get(kind)
        if reflector is None or reflector.status.phase != "watching" or not self.cache.version:
            return 0
        began = self._clock()
        differing = await self._differences(kind)
        if differing:
            await self._sleep(REDELIVERY_GRACE_SECONDS)
            again = await self._differences(kind)
            if self.queue.oldest is not None and self.queue.oldest <= began:
                return 0
            differing = {key: both for key, both in differing.items() if again.get(key) == both}
        new = {key: both for key, both in differing.items() if self._excused[kind].get(key) != both}
        if new:
            self._divergences[kind] += len(new)
            log.error("%s: %d objects differ from the API server's without an event: listing anew", kind, len(new))
            self._excused[kind] = differing  # what a list does not mend, such as an object that cannot be read
            reflector.request_relist("it differed from the API server")
        return len(new)

    async def _differences(self, kind: str) -> dict[Key, object]:
        """Key -> (what we hold, what the API server has), each (uid, version) or None."""
        there = await asyncio.to_thread(self.reflectors[kind].metadata_list)
        found: dict[Key, object] = {}
        await self._in_turns(self._differ(kind, there, found))
        return found

    def _differ(self, kind: str, there: dict[Key, tuple[str, str]], found: dict[Key, object]) -> Iterator[None]:
        for key, of_server in there.items():
            held = _identity(self.cache.api_object(kind, key))
            if held != of_server:
                found[key] = held, of_server
            yield
        for key in tuple(self.cache.mutable_snapshot().objects.of(kind)):
            held = _identity(self.cache.api_object(kind, key)) if key not in there else None
            if held is not None:
                found[key] = held, None
            yield


def _identity(one: Any) -> tuple[str, str] | None:
    return None if one is None else (one.metadata.uid, one.metadata.resource_version)
