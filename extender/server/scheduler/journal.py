"""What is kept of a call: for people to look at, in recordings, and as audit lines.

Taken before anything follows from the decision, because that changes the picture; put away once it is known what is
answered, and before that is.

Rule: whatever goes wrong with it is logged and must not cost the answer.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from extender.core.engine import PreemptDecision
from extender.core.eviction_history import EvictionHistory
from extender.core.explain import schema
from extender.core.explain.record import Capture
from extender.k8s.objects import Pod
from extender.k8s.time import format_time
from extender.server.context import ServerContext
from extender.server.observability import audit
from extender.server.observability.audit import AuditLine, BindLine, PreemptLine
from extender.server.observability.cache_status import summary
from extender.server.observability.decision_log import Kept
from extender.server.scheduler.passthrough import VETO
from extender.server.scheduler.result import Answer, Result

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was read."""

    id: str
    verb: schema.Verb
    pod: Pod
    body: bytes
    offered: int
    """Nodes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is put away once the call is answered; None: nothing, or it could not be taken."""

    kept: Kept | None
    line: PreemptLine | None


def take(
    service: ServerContext, call: Call, result: Result[Any], capture: Callable[[Any], Capture], milliseconds: float
) -> Taken:
    """All that is kept of the call, as long as the picture is what was decided on."""
    line = _line(service, call, result, milliseconds) if call.verb == "preempt" and _is_audited(service) else None
    return Taken(_kept(service, call, result, capture, milliseconds), line)


def put_away(service: ServerContext, taken: Taken, result: Result[Any]) -> None:
    """The call is answered with that."""
    kept = taken.kept
    if kept is not None:
        try:
            service.decisions.keep(replace(kept, mode=result.mode, error=result.error))
        except Exception:
            log.exception("%s %r: the decision could not be kept", kept.verb, kept.pod.key)
    line = taken.line
    if line is not None:
        told = _answer(result.answer, result.mode)
        changes = {"mode": result.mode, "status": result.answer.status, "answer": told, "error": result.error}
        write(service, lambda: msgspec.structs.replace(line, **changes))


# --- decisions and recordings ---------------------------------------------------------------------------------------


def _kept(
    service: ServerContext, call: Call, result: Result[Any], capture: Callable[[Any], Capture], milliseconds: float
) -> Kept | None:
    decisions, recorder = service.decisions, service.recorder
    try:
        moment = _moment(service, result)
        if recorder is not None and recorder.is_on:
            answered = result.answer
            recorder.note(call.id, call.verb, call.body, answered.status, answered.body, moment, service.settings)
        if not decisions.are_kept:
            return None
        return Kept(
            id=call.id,
            verb=call.verb,
            now=moment.now,
            milliseconds=milliseconds,
            pod=call.pod,
            profile=service.settings.profile,
            mode=result.mode,
            picture=result.answer.picture or summary(service.cache, service.source),
            capture=None if result.decision is None else capture(result.decision),
            error=result.error,
        )
    except Exception:
        log.exception("%s %r: the decision could not be kept", call.verb, call.pod.key)
        return None


def _moment(service: ServerContext, result: Result[Any]) -> EvictionHistory:
    working = None if result.decision is None else result.decision.working
    moment: EvictionHistory = service.moment() if working is None else working.incoming.moment
    return moment


# --- audit lines ------------------------------------------------------------------------------------------------------


def write(service: ServerContext, line: Callable[[], AuditLine]) -> None:
    """An audit line, if there are any; it is written, or counted as lost."""
    if service.audit is None or not service.audit.is_on:
        return
    try:
        service.audit.write(audit.encoded(line()))
    except Exception as error:
        _not_written(service, error)


def write_unread(service: ServerContext, verb: Literal["preempt", "bind"], answer: Answer, error: str) -> None:
    """The audit line of a call that failed before its request was read."""
    write(service, lambda: _unread(service, verb, answer, error))


def _is_audited(service: ServerContext) -> bool:
    return service.audit is not None and service.audit.is_on


def _not_written(service: ServerContext, error: Exception) -> None:
    log.error("audit: a line was lost", exc_info=error)
    if service.audit is not None:
        service.audit.count_lost()


def _line(service: ServerContext, call: Call, result: Result[Any], milliseconds: float) -> PreemptLine | None:
    """Of a /preempt, but for what is known once it is answered."""
    decision = result.decision
    try:
        return PreemptLine(
            event="audit",
            timestamp=format_time(_moment(service, result).now, 6),
            id=call.id,
            verb="preempt",
            mode=result.mode,
            status=result.answer.status,
            answer=_answer(result.answer, result.mode),
            milliseconds=round(milliseconds, 3),
            preemptor=audit.preemptor(call.pod),
            offered=call.offered,
            policies=audit.policies_of(service.settings.profile),
            picture=audit.picture(service.cache, service.source),
            **(audit.of_decision(decision) if isinstance(decision, PreemptDecision) else {}),
        )
    except Exception as error:
        _not_written(service, error)
        return None


def _answer(answer: Answer, mode: audit.Mode) -> Literal["decided", "nobody", "asOffered", "error"]:
    if answer.status != 200:
        return "error"
    if answer.body == VETO:
        return "nobody"
    return "decided" if mode == "answered" else "asOffered"


def _unread(service: ServerContext, verb: Literal["preempt", "bind"], answer: Answer, error: str) -> AuditLine:
    now, number = format_time(time.time_ns(), 6), service.decisions.next_id(verb)
    if verb == "bind":
        return BindLine(
            event="audit",
            timestamp=now,
            id=number,
            verb="bind",
            mode="failed",
            status=answer.status,
            milliseconds=0.0,
            error=error,
        )
    return PreemptLine(
        event="audit",
        timestamp=now,
        id=number,
        verb="preempt",
        mode="failed",
        status=answer.status,
        answer=_answer(answer, "failed"),
        milliseconds=0.0,
        error=error,
        picture=audit.picture(service.cache, service.source),
    )
