"""The state of a reflector: its phase, the one function that changes it, and counters.

Rule: written by the reflector's thread, read by any.
"""

from enum import StrEnum


class Phase(StrEnum):
    """The phases of a reflector; the values are those of the metric `watch_streams` and of /readyz."""

    STARTING = "starting"  # nothing has been requested yet
    LISTING = "listing"  # a list is under way, or it is complete and its watch has not been accepted yet
    WATCHING = "watching"  # the cache has everything so far, and later events will follow
    BACKOFF = "broken"  # a list or watch failed and is retried; the cache may be stale since `broken_since`
    FORBIDDEN = "forbidden"  # 403 for an optional kind: its objects are unknown; retried every few minutes
    ABSENT = "absent"  # 404 for an optional kind: it has no objects; retried every few minutes

    @property
    def is_unreadable(self) -> bool:
        """Whether the kind counts as having no objects."""
        return self in (Phase.FORBIDDEN, Phase.ABSENT)


class ReflectorState:
    """The state of one reflector; times are those of its clock, in seconds."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.version = ""  # resourceVersion of the last list, event or bookmark (client-go's LastSyncResourceVersion)
        self.last_contact: float | None = None  # Time of the last list page, event or bookmark
        self.broken_since: float | None = None  # Time since which the cache may be stale; None while it is watched
        self.regressed = False  # The last list was older than the cache, and no second one has confirmed that yet
        self.fatal: str | None = None  # Reason why the reflector has ended for good
        self.last_error: str | None = None
        self.interruptions = 0  # Number of times the watch was interrupted
        self.relists = 0
        self.watch_restarts = 0
        self.events = 0
        self.skipped = 0

    def enter(self, phase: Phase, now: float, error: Exception | None = None) -> None:
        """Make the transition to a phase; `error`: the reason, if a list or watch failed."""
        if error is not None:
            self.last_error = str(error)
        # A kind that is unreadable stays so while it is retried, until a list of it is complete.
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
        """Record that the cache has a complete list of this resourceVersion."""
        self.version, self.broken_since, self.regressed = version, None, False
        self.enter(Phase.LISTING, now)
