"""What goes wrong when: the minutes of the soak, as data.

The minutes of `PROGRAM` follow each other again and again. The last seconds are left alone, so that the cache can be
compared and the end is an end under load and nothing else.

Rule: each minute ends as it began: bytes flow, the settings are the usual ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

World = Literal["reset", "trickle", "stall", "resume", "expire", "restart", "refuse", "accept", "garbage", "doubles"]
"""What is done by the process of the cluster, see `world`."""

Operator = Literal["rotate", "rotate authority", "mismatch", "careful", "strict", "usual", "kill switch", "bad file"]
"""What an operator does: to certificates and to the configuration."""

IN_WORLD = frozenset(get_args(World))

CALM = 12.0
"""Seconds before the end in which nothing is begun."""

STALE_AFTER = 10.0
"""cluster.staleAfter of the service, so that an outage need not last long."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done at a second, of its minute or of the soak."""

    second: float
    what: World | Operator


NETWORK_AND_CERTIFICATES = (
    Step(5, "rotate"),  # another certificate and key for the scheduler's port
    Step(12, "reset"),  # every connection to the API server ends with an RST
    Step(18, "trickle"),  # at most 700 bytes at a time
    Step(24, "resume"),
    Step(30, "doubles"),  # the next pod events come twice, and two in swapped order
    Step(32, "garbage"),  # an unknown type, a wrong kind, a pod that cannot be read
    Step(34, "mismatch"),  # a certificate without its key: the pair before stays
    Step(50, "rotate"),
    Step(54, "reset"),
)

RELISTS_AND_SETTINGS = (
    Step(4, "expire"),  # the history is compacted, every stream dropped: 410, and every kind is relisted
    Step(12, "careful"),  # preemption.preset
    Step(20, "kill switch"),
    Step(30, "usual"),
    Step(38, "rotate authority"),  # schedulers get certificates of another authority, then the old one goes
    Step(44, "bad file"),  # the configuration stays what it was
    Step(52, "usual"),
    Step(54, "restart"),  # of the API server, for two seconds
)

OUTAGE = (
    Step(3, "rotate"),
    Step(6, "refuse"),  # every connection is reset and new ones are refused, for longer than staleAfter: not ready
    Step(24, "accept"),
)

SILENCE = (
    Step(4, "rotate"),
    Step(8, "stall"),  # half-open connections: nothing flows and nobody notices, until everything comes at once
    Step(24, "resume"),
    Step(34, "strict"),
    Step(44, "expire"),
    Step(54, "usual"),
)

PROGRAM: tuple[tuple[Step, ...], ...] = (NETWORK_AND_CERTIFICATES, RELISTS_AND_SETTINGS, OUTAGE, SILENCE)


def steps_of(minutes: float, program: Sequence[Sequence[Step]] = PROGRAM) -> list[Step]:
    """The steps of a soak, at seconds since its beginning."""
    end = 60 * minutes - CALM
    every = (
        Step(60 * minute + step.second, step.what)
        for minute in range(int(minutes) + 1)
        for step in program[minute % len(program)]
    )
    return unfinished_taken_back([step for step in every if step.second < end], end)


def unfinished_taken_back(steps: list[Step], end: float) -> list[Step]:
    """Complete the steps that the end cut off: an outage without its end gets one."""
    done = [step.what for step in steps]
    for begin, finish in (("trickle", "resume"), ("stall", "resume"), ("refuse", "accept")):
        if begin in done and finish not in done[done.index(begin) :]:
            steps = [*steps, Step(end, finish)]  # type: ignore[arg-type]
    if done and any(what in ("careful", "strict", "kill switch", "bad file") for what in done):
        steps = [*steps, Step(end, "usual")]
    return steps
