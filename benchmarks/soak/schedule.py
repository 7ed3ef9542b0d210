"""Schedule of faults and operator steps: the minutes of the soak, as data.

The minutes of `PROGRAM` repeat. The last seconds have no steps, so that the cache can be compared and the shutdown
happens under load without other faults.

Rule: each minute ends as it began: the network works, the settings are the usual ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

World = Literal["reset", "trickle", "stall", "resume", "expire", "restart", "refuse", "accept", "garbage", "doubles"]
"""Steps carried out by the cluster's process; see `world`."""

Operator = Literal["rotate", "rotate authority", "mismatch", "careful", "strict", "usual", "kill switch", "bad file"]
"""Steps of an operator on certificates and configuration."""

IN_WORLD = frozenset(get_args(World))

QUIET_SECONDS = 12.0
"""Time before the end in which no step begins."""

STALE_AFTER = 10.0
"""cluster.staleAfter of the service in seconds; short, so that short outages suffice."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step at a second of its minute or of the soak."""

    second: float
    what: World | Operator


NETWORK_AND_CERTIFICATES = (
    Step(5, "rotate"),  # another certificate and key for the scheduler's port
    Step(12, "reset"),  # every connection to the API server ends with an RST
    Step(18, "trickle"),  # at most 700 bytes at a time
    Step(24, "resume"),
    Step(30, "doubles"),  # the next pod events come twice, and two in swapped order
    Step(32, "garbage"),  # an unknown type, a wrong kind, a pod that cannot be read
    Step(34, "mismatch"),  # a certificate with a mismatched key: the previous pair stays in use
    Step(50, "rotate"),
    Step(54, "reset"),
)

RELISTS_AND_SETTINGS = (
    Step(4, "expire"),  # the history is compacted, every stream dropped: 410, and every kind is relisted
    Step(12, "careful"),  # preemption.preset
    Step(20, "kill switch"),
    Step(30, "usual"),
    Step(38, "rotate authority"),  # schedulers get certificates of another authority, then the old one goes
    Step(44, "bad file"),  # the previous configuration stays in effect
    Step(52, "usual"),
    Step(54, "restart"),  # the API server is down for two seconds
)

OUTAGE = (
    Step(3, "rotate"),
    Step(6, "refuse"),  # every connection is reset and new ones are refused, for longer than staleAfter: not ready
    Step(24, "accept"),
)

SILENCE = (
    Step(4, "rotate"),
    Step(8, "stall"),  # half-open connections: no data and no error, until all data arrives at once
    Step(24, "resume"),
    Step(34, "strict"),
    Step(44, "expire"),
    Step(54, "usual"),
)

PROGRAM: tuple[tuple[Step, ...], ...] = (NETWORK_AND_CERTIFICATES, RELISTS_AND_SETTINGS, OUTAGE, SILENCE)


def steps_of(minutes: float, program: Sequence[Sequence[Step]] = PROGRAM) -> list[Step]:
    """Return the steps of a soak, at seconds since its beginning."""
    end = 60 * minutes - QUIET_SECONDS
    every = (
        Step(60 * minute + step.second, step.what)
        for minute in range(int(minutes) + 1)
        for step in program[minute % len(program)]
    )
    return with_unfinished_reverted([step for step in every if step.second < end], end)


def with_unfinished_reverted(steps: list[Step], end: float) -> list[Step]:
    """Append the counterparts of steps that the end cut off, such as the end of an outage."""
    done = [step.what for step in steps]
    for begin, finish in (("trickle", "resume"), ("stall", "resume"), ("refuse", "accept")):
        if begin in done and finish not in done[done.index(begin) :]:
            steps = [*steps, Step(end, finish)]  # type: ignore[arg-type]
    if done and any(what in ("careful", "strict", "kill switch", "bad file") for what in done):
        steps = [*steps, Step(end, "usual")]
    return steps
