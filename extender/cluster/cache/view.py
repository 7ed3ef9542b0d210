"""How true the picture of one kind of objects is, for those who want to know."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamView:
    """How true the picture of one kind is."""

    kind: str
    phase: str
    """See StreamStatus."""
    version: str
    age: float | None
    """Seconds since the API server last proved that the stream is current; None: it never did."""
    error: str | None
    """What is wrong with it now."""
    relists: int
    watch_restarts: int
    events: int
    skipped: int
    divergences: int
