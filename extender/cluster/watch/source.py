"""Keep the cluster cache in sync with an API server: one reflector per kind, stale detection and resync.

The counterpart of client-go's SharedInformerFactory and Controller: a thread per kind lists and watches (`Reflector`)
and queues the results; the event loop applies them in short turns, between which requests are answered. The cache has
synced (WaitForCacheSync) once every kind has been listed or is known to be unreadable.

Rule: the cache is current, or `problem` reports why it may be stale.
"""

import asyncio
import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.cache.cache import Change, ClusterCache, ReflectorStatus
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, Replaced
from extender.cluster.watch.garbage import collect_periodically
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES, WatchSettings, no_permission
from extender.cluster.watch.reflector import Reflector
from extender.cluster.watch.retry import Outage
from extender.cluster.watch.state import Phase, ReflectorState
from extender.cluster.watch.verification import Verification
from extender.cluster.watch.version_finder import VersionFinder
from extender.core.profile import KubeScheduler
from extender.errors import INTERNAL, ClusterLost
from extender.k8s.objects import Object, Pod
from extender.k8s.version.found import FoundVersion, OnVersionFound, is_kube_scheduler
from extender.utilities.daemon_thread import run_in_daemon_thread

log = logging.getLogger(__name__)

TURN_SECONDS = 0.001  # Seconds for which changes are applied before the event loop serves requests again
INITIAL_TURN_SECONDS = 0.02  # Seconds of a turn before the first sync, when no request can be answered
NODES_PER_SETTLE = 50  # Changed nodes whose arrays are updated between two reads of the clock
RELIST_DELAY_SECONDS = 1.0  # Seconds from a failure to apply changes to the relist, so that a bug causes no tight loop
JOIN_SECONDS = 2.5  # Seconds to wait at shutdown for all threads together


class _FirstLists:
    """The first list of every kind, and the changes that arrive before every kind has been listed."""

    def __init__(self) -> None:
        self.objects: dict[str, Sequence[Object]] = {}
        self.forbidden: set[str] = set()
        self.changes: list[Change] = []

    def take(self, item: Replaced | Deltas) -> None:
        """Add changes, or a list, which supersedes earlier changes of its kind."""
        if isinstance(item, Deltas):
            self.changes.extend(item.changes)
            return
        self.objects[item.kind] = item.objects
        self.changes = [change for change in self.changes if change.kind != item.kind]
        self.forbidden.discard(item.kind)
        if item.is_forbidden:
            self.forbidden.add(item.kind)


class KubernetesSource:
    """Fill and update a ClusterCache from an API server; `run` is a task of the event loop that serves requests."""

    is_live = True  # Answers take effect in this cluster, so their effects are assumed

    def __init__(
        self,
        cache: ClusterCache,
        api: ApiServer,
        *,
        stale_after: float = 30.0,
        verify_interval: float = 1800.0,
        pod_annotations: frozenset[str] = frozenset(),
        pod_groups: bool = False,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`stale_after`: seconds after which a broken watch makes the cache stale.

        `verify_interval`: seconds between two verifications of all kinds, 0 disables them; `pod_annotations`: kept in
        addition to KEPT_ANNOTATIONS; `pod_groups`: whether to watch PodGroups.
        """
        self.cache = cache
        self.queue = DeltaQueue(cache, clock)
        self.fatal: str | None = None  # Reason why the source has stopped for good; None while it runs
        resources = (*RESOURCES, *POD_GROUP_RESOURCES) if pod_groups else RESOURCES
        outage = Outage(clock)
        decoders = {one.kind: Decoder(one.kind) for one in resources} | {"Pod": Decoder("Pod", pod_annotations)}
        # A kind without a reflector counts as having no objects.
        self.reflectors = {
            one.kind: Reflector(one, api, decoders[one.kind], self.queue, settings, clock, outage=outage)
            for one in resources
        }
        self.verification = Verification(
            cache, self.reflectors, self.queue, self._in_turns, verify_interval, clock, sleep
        )
        self._stale_after = stale_after
        self._clock = clock
        self._sleep = sleep
        self._version = VersionFinder(api)
        self._changing = asyncio.Lock()  # Held while the cache is changed: by a list, events or `adopt`
        self._first = _FirstLists()
        self._skipped: Counter[str] = Counter()

    # --- staleness --------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Return the reason not to use the cache for decisions now; None if it is current."""
        if self.fatal is not None:
            return self.fatal
        if self.cache.version == 0:
            return self._not_synced()
        now = self._clock()
        for reflector in self.reflectors.values():
            state, plural, since = reflector.state, reflector.resource.plural, reflector.state.broken_since
            if state.regressed:
                return f"resourceVersion of {plural} went backwards, waiting for a second list to confirm it"
            if since is not None and now - since > self._stale_after:
                return f"{plural} are stale: not watched for {now - since:.0f}s: {state.last_error}"
        oldest = self.queue.oldest
        if oldest is not None and now - oldest > self._stale_after:
            return f"the cache is stale: changes have been queued for {now - oldest:.0f}s"
        return None

    def _not_synced(self) -> str:
        missing = [reflector for kind, reflector in self.reflectors.items() if kind not in self._first.objects]
        names = ", ".join(reflector.resource.plural for reflector in missing)
        error = next(filter(None, (reflector.state.last_error for reflector in missing)), "")
        why = f" ({error})" if error else ""
        return f"the cache has not synced yet{why}: waiting for {names or 'the first snapshot'}"

    def warnings(self) -> Sequence[str]:
        """Return one line per kind without list permission."""
        forbidden = (kind for kind, one in self.reflectors.items() if one.state.phase is Phase.FORBIDDEN)
        return [no_permission(kind) for kind in forbidden]

    def reflector_statuses(self) -> list[ReflectorStatus]:
        """Return the status of every watched kind."""
        return [self._status(kind, reflector.state) for kind, reflector in self.reflectors.items()]

    def _status(self, kind: str, state: ReflectorState) -> ReflectorStatus:
        has_failed = state.broken_since is not None or state.phase.is_unreadable
        return ReflectorStatus(
            kind,
            state.phase.value,
            state.version,
            age=None if state.last_contact is None else max(0.0, self._clock() - state.last_contact),
            error=state.last_error if has_failed else None,
            relists=state.relists,
            watch_restarts=state.watch_restarts,
            events=state.events,
            skipped=state.skipped + self._skipped[kind],
            divergences=self.verification.divergences[kind],
        )

    @property
    def found_version(self) -> FoundVersion | None:
        """The version of kube-scheduler's pods, else the API server's; None before the first sync."""
        return self._version.found

    def watch_version(self, on_found: OnVersionFound) -> None:
        """Call `on_found` when `found_version` changes: before the first sync, and after an upgrade."""
        self._version.on_found = on_found

    # --- running ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch until cancelled, or until `fatal` is set."""
        self.queue.open(asyncio.get_running_loop())
        threads = [
            threading.Thread(target=one.run, name=f"reflector-{one.resource.plural}", daemon=True)
            for one in self.reflectors.values()
        ]
        for thread in threads:
            thread.start()
        gc.disable()  # see collect_periodically
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._apply_all())
                tasks.create_task(self._await_fatal())
                states = [reflector.state for reflector in self.reflectors.values()]
                tasks.create_task(collect_periodically(states, self._sleep))
                tasks.create_task(self._version.follow())
                tasks.create_task(self.verification.verify_periodically())
                tasks.create_task(self.verification.verify_after_interruptions())
        except* ClusterLost:
            log.critical("%s", self.fatal)
        except* Exception as errors:  # nothing updates the cache now: report not ready, so that the pod is restarted
            self.fatal = f"watching the cluster has ended: {INTERNAL}"
            log.critical("%s", self.fatal, exc_info=errors)
        finally:
            gc.enable()
            self.queue.close()
            for one in self.reflectors.values():
                one.stop()
            ends = time.monotonic() + JOIN_SECONDS
            for thread in threads:
                await run_in_daemon_thread(thread.join, max(0.0, ends - time.monotonic()))

    async def _await_fatal(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            for reflector in self.reflectors.values():
                if reflector.state.fatal is not None:
                    self.fatal = reflector.state.fatal
                    raise ClusterLost(self.fatal)

    # --- applying ---------------------------------------------------------------------------------------------

    async def _apply_all(self) -> None:
        await self._version.read_first()
        while True:
            await self.queue.get()
            async with self._changing:
                try:
                    await self._in_turns(self._apply_queued())
                # A bug must not end the sync. The cache may be inconsistent now: rebuild it, then relist the kind.
                except Exception:
                    item = await self.queue.get()
                    log.exception("applying changes of %s failed, relisting", item.kind)
                    await self._in_turns(self.cache.rebuild(self._skip) if self.cache.version else iter(()))
                    await self._sleep(RELIST_DELAY_SECONDS)
                    self.reflectors[item.kind].request_relist("applying changes failed")
                    self.queue.done()

    async def _in_turns(self, steps: Iterator[None]) -> None:
        turn = TURN_SECONDS if self.cache.version else INITIAL_TURN_SECONDS
        ends = time.perf_counter() + turn
        for _ in steps:
            if time.perf_counter() >= ends:
                await asyncio.sleep(0)
                ends = time.perf_counter() + turn

    async def adopt(self, scheduler: KubeScheduler, activate: Callable[[], None]) -> None:
        """Prepare the cache for a new KubeScheduler, while decisions continue with the previous one."""
        async with self._changing:
            await self._in_turns(self.cache.adopt(scheduler, activate, self._skip))

    def _apply_queued(self) -> Iterator[None]:
        """Apply the queued items in steps; an item that fails stays the first in the queue."""
        for _ in range(len(self.queue) - 1):
            yield from self._apply(self.queue.first)
            self.queue.done()
        yield from self._apply(self.queue.first)
        # Update the arrays once for all items: one event of a node costs as much as many.
        while self.cache.version and not self.cache.mutable_snapshot().refresh_layout(NODES_PER_SETTLE):
            yield
        self.queue.done()

    def _apply(self, item: Replaced | Deltas) -> Iterator[None]:
        if isinstance(item, Replaced):
            self.cache.listed_at[item.kind] = item.version
        if self.cache.version == 0:
            yield from self._sync_first(item)
            return
        if isinstance(item, Replaced):
            yield from self.cache.relist(item.kind, item.objects, self._skip, item.is_forbidden)
            if item.kind == "Pod":
                yield from self._look_for_version()
        else:
            yield from self._apply_changes(item.changes)

    def _look_for_version(self) -> Iterator[None]:
        return self._version.look_at(tuple(self.cache.mutable_snapshot().objects.pods.values()))

    def _apply_changes(self, changes: Sequence[Change]) -> Iterator[None]:
        for change in changes:
            try:
                self.cache.apply(change)
            except ValueError as error:
                self._skip(change.kind, error)
            yield
        if any(isinstance(one.object, Pod) and is_kube_scheduler(one.object) for one in changes):
            yield from self._look_for_version()

    def _skip(self, kind: str, error: ValueError) -> None:
        self._skipped[kind] += 1
        log.warning("%s skipped: %s", kind, error)

    def _sync_first(self, item: Replaced | Deltas) -> Iterator[None]:
        """Collect the first list of every kind; build the cache once every kind has been listed."""
        first = self._first
        first.take(item)
        if isinstance(item, Replaced) and first.objects.keys() == self.reflectors.keys():
            gc.collect()  # automatic collection is off, see `collect_periodically`
            yield from self._version.look_at([one for one in first.objects["Pod"] if isinstance(one, Pod)])
            yield from self.cache.build(first.objects, first.forbidden, self._skip)
            gc.freeze()
            yield from self._apply_changes(first.changes)
            self._first = _FirstLists()
            tables = self.cache.mutable_snapshot().objects
            core = (one.resource for one in self.reflectors.values() if one.resource.core)
            log.info("cache synced: %s", ", ".join(f"{len(tables.of(one.kind))} {one.plural}" for one in core))
