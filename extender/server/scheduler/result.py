"""The result of a call: the answer to kube-scheduler, and the summary for headers, traces and the journal.

Rule: plain values; `server.scheduler.verbs` makes them, `server.scheduler.routes` turns them into HTTP responses.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.report.schema import DecisionMode, VerbName
from extender.server.http.response import nothing_to_write

CallVerb = VerbName | Literal["bind"]

Decision = FilterDecision | PreemptDecision | PrioritizeDecision

AnswerKind = Literal["decided", "noVictims", "asSent", "error"]
"""Kind of answer. decided: the decision; noVictims: an empty map in answer to /preempt; asSent: an answer that changes
nothing for kube-scheduler (every node, no scores, its own candidates); error: an error."""


class Answer(msgspec.Struct, frozen=True):
    """The response body and status, and the values of the response headers."""

    body: bytes
    kind: AnswerKind
    status: int = 200
    """HTTP status; 503: no safe answer exists, and the body contains the reason."""
    not_evaluated: tuple[str, ...] = ()
    """Plugins that the decision leaves to kube-scheduler."""
    cache_status: str | None = None
    """Versions and ages of the cluster cache at the decision; None if no decision was made."""
    veto_reason: str | None = None
    """Why a /preempt evicts no pod; None if it evicts one, or if the call is not a /preempt."""
    id: str | None = None
    """ID of the call in /decisions, recordings and audit lines; None if the request could not be parsed."""
    summary: "CallSummary | None" = None
    """Summary of the call; None if the request could not be parsed."""
    after_send: Callable[[], None] = nothing_to_write
    """Function that writes the journal of a call without effects; call it once, before the cluster cache changes."""


class CallSummary(msgspec.Struct, frozen=True):
    """Summary of a call, for traces."""

    namespace: str
    pod: str
    mode: DecisionMode
    sent: int = 0
    """Number of nodes in the request."""
    kept: int = 0
    """Number of nodes that the decision accepts, scores or evicts from."""
    scheduler_name: str = ""
    """spec.schedulerName of the pod; "" for a binding, whose request does not contain it."""


class CallResult(msgspec.Struct, frozen=True):
    """The outcome of a request, before its effects are applied."""

    answer: Answer
    mode: DecisionMode
    decision: Decision | None = None
    error: str | None = None
    """Reason why the call failed or was left to kube-scheduler; None if neither."""
