"""What a call ends with: the answer, and what is told about it beside.

Rule: values; `server.scheduler.verbs` makes them, `server.scheduler.routes` puts them into HTTP.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from extender.core.engine import DecisionContext
from extender.server.observability.decision_log import Mode


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: int = 200
    """503: there is no safe answer, and the body says why."""
    not_evaluated: tuple[str, ...] = ()
    """As in the decision that it comes from."""
    picture: str | None = None
    """The state of the cluster that was decided on; None where nothing was decided."""
    vetoed: str | None = None
    """Why nobody is evicted; None: somebody is, or that was not the question."""
    id: str | None = None
    """What it is called in /decisions, in recordings and in audit lines; None: it never was a request."""
    about: "CallSummary | None" = None
    """None: it never was a request."""


@dataclass(frozen=True, slots=True)
class CallSummary:
    """What was asked and said, for those who follow calls."""

    namespace: str
    pod: str
    mode: Mode
    offered: int = 0
    """Nodes."""
    kept: int = 0
    """Nodes that the decision accepts, scores or evicts from."""


class DecisionLike(Protocol):
    """What the three kinds of decisions have in common."""

    @property
    def not_evaluated(self) -> tuple[str, ...]: ...
    @property
    def working(self) -> DecisionContext | None: ...


Dec = TypeVar("Dec", bound=DecisionLike)


@dataclass(frozen=True, slots=True)
class Result(Generic[Dec]):
    """What came of a request, before anything follows from it."""

    answer: Answer
    mode: Mode
    decision: Dec | None = None
    error: str | None = None
    """Why there is no decision."""
