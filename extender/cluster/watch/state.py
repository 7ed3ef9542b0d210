"""The state of a reflector: its phase, the function that changes the phase, counters, and results of earlier rounds.

Rule: only the reflector's thread writes; other threads read nothing but `ReflectorState`.
"""

from dataclasses import dataclass
from enum import StrEnum

from extender.k8s.kinds import Key
from extender.k8s.objects import Object


class Phase(StrEnum):
    """The phases of a reflector; the metric `watch_streams` and /readyz show the values."""

    STARTING = "starting"  # nothing has been requested yet
    LISTING = "listing"  # a list is under way, or it is complete and its watch has not been accepted yet
    WATCHING = "watching"  # the cache is up to date, and later events will arrive
    BACKOFF = "broken"  # a list or watch failed and is retried; the cache may be stale since `broken_since`
    FORBIDDEN = "forbidden"  # 403 for an optional kind: its objects are unknown; retried every few minutes
    ABSENT = "absent"  # 404 for an optional kind: it has no objects; retried every few minutes

    @property
    def is_unreadable(self) -> bool:
        """Whether the kind counts as having no objects."""
        return self in (Phase.FORBIDDEN, Phase.ABSENT)


class ReflectorState:
    """The state of one reflector; times are in seconds, by the reflector's clock."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.version = ""  # resourceVersion of the last list, event or bookmark (client-go's LastSyncResourceVersion)
        self.last_contact: float | None = None  # Time of the last list page, event or bookmark
        self.broken_since: float | None = None  # Time since when the cache may be stale; None while the kind is watched
        self.regressed = False  # True if the last list was older than the cache and no second list has confirmed it
        self.fatal: str | None = None  # Reason why the reflector has stopped for good
        self.last_error: str | None = None
        self.interruptions = 0  # Number of interruptions of the watch
        self.relists = 0
        self.watch_restarts = 0
        self.events = 0
        self.skipped = 0

    def enter(self, phase: Phase, now: float, error: Exception | None = None) -> None:
        """Enter a phase; `error`: the reason, if a list or watch failed."""
        if error is not None:
            self.last_error = str(error)
        # An unreadable kind keeps its phase during retries, until a list is complete.
        if phase is Phase.BACKOFF and self.phase.is_unreadable:
            return
        self.phase = phase
        if phase is Phase.BACKOFF and self.broken_since is None:
            self.broken_since = now
            self.interruptions += 1
        elif phase is Phase.WATCHING:
            self.broken_since = None
        elif phase.is_unreadable:  # nothing is cached that could be stale
            self.version, self.broken_since, self.regressed = "", None, False

    def take_list(self, version: str, now: float) -> None:
        """Record a complete list at this resourceVersion."""
        self.version, self.broken_since, self.regressed = version, None, False
        self.enter(Phase.LISTING, now)


@dataclass(slots=True)
class CurrentWatch:
    """The watch of the current round."""

    accepted_at: float | None = None  # Time at which the server accepted it; None before that
    has_received: bool = False
    has_progressed: bool = False  # True if an event or bookmark advanced the resourceVersion


@dataclass(slots=True)
class InitialEvents:
    """The initial events of a watch, which replace a list (client-go's watchList, KEP-3157)."""

    enabled: bool = True  # False after a failure: the kind is listed in pages
    fallback_reason: str | None = None  # Reason of that failure, until a list in pages has succeeded
    objects: dict[Key, Object] | None = None  # Collected so far; None once complete, or if none were requested
    cuts: int = 0  # Watches in a row that ended before their initial events were complete

    def fall_back(self, reason: str) -> None:
        """List in pages from now on. client-go falls back for one list only (ListAndWatch, fallbackToList)."""
        self.enabled, self.fallback_reason = False, reason


@dataclass(slots=True)
class EarlierRounds:
    """Results of earlier rounds, which determine how the next failure is handled and whether it is logged."""

    synced: bool = False  # True if the kind has been watched since it was last unreadable
    refusals: int = 0  # 403s and 404s in a row
    too_large: int = 0  # "Too large resource version" errors in a row
    silent_watches: int = 0  # Watches in a row that received nothing
    logged_error: str = ""  # Error of the last warning: it is logged once, not at every retry
    logged_phase: Phase | None = None  # FORBIDDEN or ABSENT if that has been logged since the kind was last watched
