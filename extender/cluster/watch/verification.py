"""Compare the cluster cache with the API server, and relist the kinds that differ (instead of client-go's resync).

Names, UIDs and resourceVersions are compared: of all kinds at an interval, and of one kind after an interruption of its
watch. If etcd was restored from a backup meanwhile, and its resourceVersion has caught up with the cache's, the watch
resumes as if nothing had happened.

Rule: a difference that an event in flight can explain does not count.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from extender.cluster.cache.cache import ClusterCache, identity
from extender.cluster.watch.delta_queue import DeltaQueue
from extender.cluster.watch.reflector import Reflector
from extender.cluster.watch.state import Phase
from extender.errors import ExtenderError
from extender.k8s.kinds import Key
from extender.utilities.daemon_thread import run_in_daemon_thread

log = logging.getLogger(__name__)

INTERRUPTION_CHECK_SECONDS = 1.0  # Seconds between two checks for interrupted watches
MIN_REVERIFY_SECONDS = 300.0  # Minimum seconds between two verifications of a kind after interruptions
EVENT_GRACE_SECONDS = 5.0  # Seconds after which no event in flight explains a difference from the API server


@dataclass(eq=False)
class Verification:
    """Verifies the cached objects of the watched kinds. Used by the event loop's thread."""

    cache: ClusterCache
    reflectors: Mapping[str, Reflector]
    queue: DeltaQueue
    in_turns: Callable[[Iterator[None]], Awaitable[None]]  # Runs steps, serving requests in between
    interval: float  # Seconds between two verifications of all kinds; 0 disables every verification
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    divergences: Counter[str] = field(default_factory=Counter)  # Kind -> number of objects found to differ
    # Kind -> differences that have caused a relist; repeating it would not repair an object that cannot be decoded.
    reported: defaultdict[str, dict[Key, object]] = field(default_factory=lambda: defaultdict(dict))

    async def verify_periodically(self) -> None:
        """Verify all kinds every `interval` seconds, until cancelled."""
        while self.interval > 0:
            await self.sleep(self.interval)
            for kind in self.reflectors:
                await self._try_to_verify(kind)

    async def verify_after_interruptions(self) -> None:
        """Verify each kind after its watch was interrupted, until cancelled."""
        seen, not_before = dict.fromkeys(self.reflectors, 0), dict.fromkeys(self.reflectors, 0.0)
        while self.interval > 0:
            await self.sleep(INTERRUPTION_CHECK_SECONDS)
            for kind, reflector in self.reflectors.items():
                state, now = reflector.state, self.clock()
                is_watching = state.phase is Phase.WATCHING
                if state.interruptions > seen[kind] and is_watching and now >= not_before[kind]:
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
        """Verify one kind, relist it if objects differ, and return the number of new divergences.

        A kind that is not being watched is not verified. Raises ApiError and ApiUnreachable.
        """
        reflector = self.reflectors.get(kind)
        if reflector is None or reflector.state.phase is not Phase.WATCHING or not self.cache.version:
            return 0
        # 1. Compare, and compare again after events in flight have had time to arrive.
        began = self.clock()
        differing = await self._differences(kind)
        if differing:
            await self.sleep(EVENT_GRACE_SECONDS)
            again = await self._differences(kind)
            # 2. If changes from before the comparison are still queued, leave it to the next verification.
            if self.queue.oldest is not None and self.queue.oldest <= began:
                return 0
            differing = {key: both for key, both in differing.items() if again.get(key) == both}
        # 3. Relist, unless the same differences have caused a relist before.
        new = {key: both for key, both in differing.items() if self.reported[kind].get(key) != both}
        if new:
            self.divergences[kind] += len(new)
            log.error("verification of %s: %d objects differ from the API server, relisting", kind, len(new))
            self.reported[kind] = differing
            reflector.request_relist("verification found differences")
        return len(new)

    async def _differences(self, kind: str) -> dict[Key, object]:
        """Return the differing objects: key -> (cached, at the API server), each (uid, resourceVersion) or None."""
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

        await self.in_turns(compare())
        return found
