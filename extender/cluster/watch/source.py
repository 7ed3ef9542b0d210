"""Keep the cluster cache in sync with an API server: one reflector per kind, stale detection and resync.

The counterpart of client-go's SharedInformerFactory and Controller: a thread per kind lists and watches (`Reflector`)
and queues what it read; the event loop applies it in short turns, between which requests are answered. The cache has
synced (WaitForCacheSync) once every kind has been listed or is known to be unreadable. Instead of client-go's timed
resync, `verify` compares names, UIDs and resourceVersions with the API server and relists a kind that differs.

Rule: the cache is current, or `problem` says why it may be stale.
"""

import asyncio
import gc
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain

from extender.cluster.apiserver.client import ApiServer
from extender.cluster.cache.cache import Change, ClusterCache, ReflectorStatus, identity
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import DeltaQueue, Deltas, Replaced
from extender.cluster.watch.garbage import collect_periodically
from extender.cluster.watch.list_watch import (
    POD_GROUP_RESOURCES,
    RESOURCES,
    UNREADABLE_PHASES,
    ReflectorState,
    WatchSettings,
)
from extender.cluster.watch.reflector import Reflector
from extender.cluster.watch.retry import Outage
from extender.cluster.watch.version_finder import VersionFinder
from extender.core.profile import KubeScheduler
from extender.errors import INTERNAL, ClusterLost, ExtenderError
from extender.k8s.kinds import Key
from extender.k8s.objects import Object, Pod
from extender.k8s.version.found import OnVersionFound, is_kube_scheduler
from extender.k8s.version.minor import FoundVersion
from extender.utilities.daemon_thread import run_in_daemon_thread

log = logging.getLogger(__name__)

TURN_SECONDS = 0.001
"""Seconds for which changes are applied before the event loop serves requests again."""

INITIAL_TURN_SECONDS = 0.02
"""Seconds of a turn before the first sync, when no request can be answered."""

NODES_PER_SETTLE = 50
"""Changed nodes whose arrays are updated between two reads of the clock."""

INTERRUPTION_CHECK_SECONDS = 1.0
"""Seconds between two checks for watches that were interrupted."""

MIN_REVERIFY_SECONDS = 300.0
"""Minimum seconds between two verifications of a kind that interruptions of its watch trigger."""

EVENT_GRACE_SECONDS = 5.0
"""Seconds after which a difference from the API server cannot be explained by an event in flight."""

RELIST_DELAY_SECONDS = 1.0
"""Seconds between a failure to apply changes and the relist, so that a bug does not cause a loop of relists."""

JOIN_SECONDS = 2.5
"""Seconds for which the end of the source waits for its threads, all of them together."""


@dataclass(eq=False)
class KubernetesSource:
    """Fill and update a ClusterCache from an API server; `run` is a task of the event loop that serves requests."""

    cache: ClusterCache
    api: ApiServer
    _: KW_ONLY
    stale_after: float = 30.0
    """Seconds after which a watch that is broken makes the cache stale."""
    verify_interval: float = 1800.0
    """Seconds between two verifications of all kinds; 0 disables them."""
    pod_annotations: frozenset[str] = frozenset()
    """Annotations of pods to keep in addition to KEPT_ANNOTATIONS."""
    pod_groups: bool = False
    """Whether to watch PodGroups."""
    settings: WatchSettings = field(default_factory=WatchSettings)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fatal: str | None = None
    """Reason why the source has ended for good; None while it runs."""

    def __post_init__(self) -> None:
        self.queue = DeltaQueue(self.cache, self.clock)
        resources = (*RESOURCES, *POD_GROUP_RESOURCES) if self.pod_groups else RESOURCES
        outage = Outage(self.clock)
        decoders = {one.kind: Decoder(one.kind) for one in resources} | {"Pod": Decoder("Pod", self.pod_annotations)}
        self.reflectors = {
            one.kind: Reflector(one, self.api, decoders[one.kind], self.queue, self.settings, self.clock, outage=outage)
            for one in resources
        }
        """Kind -> reflector, for the watched kinds; a kind without a reflector counts as having no objects."""
        self._version = VersionFinder(self.api)
        self._changing = asyncio.Lock()
        """Held while the cache is changed: by one list, some events, or the preparation for a profile."""
        self._initial: dict[str, Sequence[Object]] = {}
        """Kind -> objects of its first list, until all kinds have one."""
        self._early_changes: list[Change] = []
        """Changes that arrived before the first sync."""
        self._forbidden: set[str] = set()
        self._skipped: Counter[str] = Counter()
        self._divergences: Counter[str] = Counter()
        self._reported: defaultdict[str, dict[Key, object]] = defaultdict(dict)
        """Kind -> differences that were relisted already; a relist cannot repair an object that cannot be decoded."""

    # --- staleness --------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Return why the cache must not be used for decisions now (not synced, stale); None if it is current."""
        if self.fatal is not None:
            return self.fatal
        if self.cache.version == 0:
            return self._not_synced()
        now = self.clock()
        for reflector in self.reflectors.values():
            state, plural = reflector.state, reflector.resource.plural
            since = state.broken_since
            if state.regressed:
                return f"resourceVersion of {plural} went backwards, waiting for a second list to confirm it"
            if since is not None and now - since > self.stale_after:
                return f"{plural} are stale: not watched for {now - since:.0f}s: {state.last_error}"
        oldest = self.queue.oldest
        if oldest is not None and now - oldest > self.stale_after:
            return f"the cache is stale: changes have been queued for {now - oldest:.0f}s"
        return None

    def _not_synced(self) -> str:
        missing = [reflector for kind, reflector in self.reflectors.items() if kind not in self._initial]
        names = ", ".join(reflector.resource.plural for reflector in missing)
        error = next(filter(None, (reflector.state.last_error for reflector in missing)), "")
        why = f" ({error})" if error else ""
        return f"the cache has not synced yet{why}: waiting for {names or 'the first snapshot'}"

    @property
    def is_live(self) -> bool:
        """Return True: answers take effect in this cluster, so their effects are assumed."""
        return True

    def warnings(self) -> Sequence[str]:
        """Return one line per kind without list permission; decisions report the affected plugins as not evaluated."""
        forbidden = (one.kind for one in self.reflector_statuses() if one.phase == "forbidden")
        return [f"no permission to list {kind}: plugins that read them are not evaluated" for kind in forbidden]

    def reflector_statuses(self) -> list[ReflectorStatus]:
        """Return the status of every watched kind."""
        now = self.clock()
        return [self._status(kind, reflector.state, now) for kind, reflector in self.reflectors.items()]

    def _status(self, kind: str, state: ReflectorState, now: float) -> ReflectorStatus:
        has_failed = state.broken_since is not None or state.phase in UNREADABLE_PHASES
        return ReflectorStatus(
            kind,
            state.phase,
            state.version,
            age=None if state.last_contact is None else max(0.0, now - state.last_contact),
            error=state.last_error if has_failed else None,
            relists=state.relists,
            watch_restarts=state.watch_restarts,
            events=state.events,
            skipped=state.skipped + self._skipped[kind],
            divergences=self._divergences[kind],
        )

    @property
    def found_version(self) -> FoundVersion | None:
        """Return the version of kube-scheduler's pods, else the API server's; None before the first sync."""
        return self._version.found

    def watch_version(self, on_found: OnVersionFound) -> None:
        """Call `on_found` when `found_version` has changed: before the first sync, and after an upgrade."""
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
                tasks.create_task(collect_periodically(states, self.sleep))
                tasks.create_task(self._version.follow())
                tasks.create_task(self._verify_periodically())
                tasks.create_task(self._verify_after_interruptions())
        except* ClusterLost:
            log.critical("%s", self.fatal)
        except* Exception as errors:  # nothing updates the cache any more: not ready, so that the pod is restarted
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
        """Raise ClusterLost when a reflector gives up for good."""
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
                except Exception:  # a bug must not end the sync; the cache may be inconsistent now
                    item = await self.queue.get()
                    log.exception("applying changes of %s failed, relisting", item.kind)
                    await self._in_turns(self.cache.rebuild(self._skip) if self.cache.version else iter(()))
                    await self.sleep(RELIST_DELAY_SECONDS)
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
        """Prepare the cache for decisions for this kube-scheduler, while decisions continue with the previous one."""
        async with self._changing:
            await self._in_turns(self.cache.adopt(scheduler, activate, self._skip))

    def _apply_queued(self) -> Iterator[None]:
        """Apply what is queued now, in steps; the item that fails stays the first in the queue."""
        for _ in range(len(self.queue) - 1):
            yield from self._apply(self.queue.first)
            self.queue.done()
        yield from self._apply(self.queue.first)
        while self.cache.version and not self.cache.mutable_snapshot().refresh_layout(NODES_PER_SETTLE):
            yield
        self.queue.done()

    def _apply(self, item: Replaced | Deltas) -> Iterator[None]:
        """Apply a list or events in steps."""
        if isinstance(item, Replaced):
            self.cache.listed_at[item.kind] = item.version
        if self.cache.version == 0:
            yield from self._sync_first(item)
            return
        if isinstance(item, Replaced):
            yield from self.cache.relist(item.kind, item.objects, self._skip, item.is_forbidden)
        else:
            yield from self._apply_changes(item.changes)
        if item.kind == "Pod" and (isinstance(item, Replaced) or any(map(_is_of_kube_scheduler, item.changes))):
            yield from self._look_for_version()

    def _look_for_version(self) -> Iterator[None]:
        return self._version.look_at(tuple(self.cache.mutable_snapshot().objects.pods.values()))

    def _apply_changes(self, changes: Sequence[Change]) -> Iterator[None]:
        for change in changes:
            try:
                self.cache.apply(change)
            except ValueError as error:
                self._skip(change.kind, error)
            yield

    def _skip(self, kind: str, error: ValueError) -> None:
        self._skipped[kind] += 1
        log.warning("%s skipped: %s", kind, error)

    def _sync_first(self, item: Replaced | Deltas) -> Iterator[None]:
        """Collect the first list of every kind; build the cache when all kinds have one."""
        if isinstance(item, Deltas):
            self._early_changes.extend(item.changes)
            return
        self._initial[item.kind] = item.objects
        self._early_changes = [change for change in self._early_changes if change.kind != item.kind]
        self._forbidden = self._forbidden - {item.kind} | ({item.kind} if item.is_forbidden else set())
        if self._initial.keys() == self.reflectors.keys():
            gc.collect()
            yield from self._version.look_at([one for one in self._initial["Pod"] if isinstance(one, Pod)])
            yield from self.cache.build(self._initial, self._forbidden, self._skip)
            gc.freeze()
            yield from self._apply_changes(self._early_changes)
            if any(map(_is_of_kube_scheduler, self._early_changes)):
                yield from self._look_for_version()
            self._early_changes = []
            self._initial = dict.fromkeys(self._initial, ())
            tables = self.cache.mutable_snapshot().objects
            core = (one.resource for one in self.reflectors.values() if one.resource.core)
            log.info("cache synced: %s", ", ".join(f"{len(tables.of(one.kind))} {one.plural}" for one in core))

    # --- verifying (resync) -----------------------------------------------------------------------------------

    async def _verify_periodically(self) -> None:
        while self.verify_interval > 0:
            await self.sleep(self.verify_interval)
            for kind in self.reflectors:
                await self._try_to_verify(kind)

    async def _verify_after_interruptions(self) -> None:
        """Verify a kind after its watch was interrupted.

        An API server that was restored from a backup meanwhile, and whose resourceVersion has caught up with ours, lets
        the watch continue as if nothing had happened.
        """
        seen, not_before = dict.fromkeys(self.reflectors, 0), dict.fromkeys(self.reflectors, 0.0)
        while self.verify_interval > 0:
            await self.sleep(INTERRUPTION_CHECK_SECONDS)
            for kind, reflector in self.reflectors.items():
                state, now = reflector.state, self.clock()
                if state.interruptions > seen[kind] and state.phase == "watching" and now >= not_before[kind]:
                    seen[kind], not_before[kind] = state.interruptions, now + MIN_REVERIFY_SECONDS
                    await self._try_to_verify(kind)

    async def _try_to_verify(self, kind: str) -> None:
        try:
            await self.verify(kind)
        except ExtenderError:  # the reflector logs its own failures
            return
        except Exception:  # a bug must not end the sync
            log.exception("verification of %s failed", kind)

    async def verify(self, kind: str) -> int:
        """Ask the API server for names, UIDs and versions and relist the kind if objects differ.

        Return the number of new divergences: differences that an event in flight cannot explain. A kind that is not
        being watched is not verified, and older changes that are still queued postpone the result to the next
        verification. Raises ApiError and ApiUnreachable.
        """
        reflector = self.reflectors.get(kind)
        if reflector is None or reflector.state.phase != "watching" or not self.cache.version:
            return 0
        began = self.clock()
        differing = await self._differences(kind)
        if differing:
            await self.sleep(EVENT_GRACE_SECONDS)
            again = await self._differences(kind)
            if self.queue.oldest is not None and self.queue.oldest <= began:
                return 0
            differing = {key: both for key, both in differing.items() if again.get(key) == both}
        new = {key: both for key, both in differing.items() if self._reported[kind].get(key) != both}
        if new:
            self._divergences[kind] += len(new)
            log.error("verification of %s: %d objects differ from the API server, relisting", kind, len(new))
            self._reported[kind] = differing
            reflector.request_relist("verification found differences")
        return len(new)

    async def _differences(self, kind: str) -> dict[Key, object]:
        """Return key -> (cached, at the API server), each (uid, resourceVersion) or None."""
        listed = await run_in_daemon_thread(self.reflectors[kind].list_metadata)
        cached = self.cache.mutable_snapshot().objects.of(kind)
        found: dict[Key, object] = {}

        def compare() -> Iterator[None]:
            for key in chain(listed, tuple(cached)):
                from_api = self.cache.api_object(kind, key)
                both = None if from_api is None else identity(from_api), listed.get(key)
                if both[0] != both[1]:
                    found[key] = both
                yield

        await self._in_turns(compare())
        return found


def _is_of_kube_scheduler(change: Change) -> bool:
    return isinstance(change.object, Pod) and is_kube_scheduler(change.object)
