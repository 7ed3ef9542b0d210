"""The journal of a call, with three sinks: the decision log (/decisions), recordings, and audit lines.

An entry is drafted before the effects of the decision are applied, because those change the cluster cache, and is
committed once the answer is known, before it is sent.

Rule: a failing sink is logged and never costs the answer.
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
from extender.core.explain.record import DecisionRecord
from extender.k8s.objects import Pod
from extender.k8s.time import format_time
from extender.server.context import ServerContext
from extender.server.observability import audit
from extender.server.observability.audit import AuditLine, BindLine, PreemptLine
from extender.server.observability.cache_status import cache_summary
from extender.server.observability.decision_log import KeptDecision
from extender.server.scheduler.result import Answer, CallResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request."""

    id: str
    verb: schema.VerbName
    pod: Pod
    body: bytes
    sent: int
    """Number of nodes in the request."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The draft of a call's journal entry; a part is None if its sink is disabled or failed."""

    kept: KeptDecision | None
    line: PreemptLine | None


def draft_entry(
    server_context: ServerContext,
    call: Call,
    result: CallResult[Any],
    record: Callable[[Any], DecisionRecord],
    milliseconds: float,
) -> JournalEntry:
    """Return the call's journal entry and record the call; the cluster cache must be in the state of the decision."""
    line = (
        _draft_audit_line(server_context, call, result, milliseconds)
        if call.verb == "preempt" and _is_audited(server_context)
        else None
    )
    return JournalEntry(_record_and_draft(server_context, call, result, record, milliseconds), line)


def commit_entry(server_context: ServerContext, entry: JournalEntry, result: CallResult[Any]) -> None:
    """Write the entry to the decision log and the audit log, completed with the final result of the call."""
    kept = entry.kept
    if kept is not None:
        try:
            server_context.decisions.keep(replace(kept, mode=result.mode, error=result.error))
        except Exception:
            log.exception("%s %r: failed to store the decision", kept.verb, kept.pod.key)
    line = entry.line
    if line is not None:
        answer = result.answer
        changes = {"mode": result.mode, "status": answer.status, "answer": answer.kind, "error": result.error}
        write_audit_line(server_context, lambda: msgspec.structs.replace(line, **changes))


# --- decision log and recordings ------------------------------------------------------------------------------------


def _record_and_draft(
    server_context: ServerContext,
    call: Call,
    result: CallResult[Any],
    record: Callable[[Any], DecisionRecord],
    milliseconds: float,
) -> KeptDecision | None:
    decisions, recorder = server_context.decisions, server_context.recorder
    try:
        history = _history(server_context, result)
        if recorder is not None and recorder.is_on:
            recorded_answer = result.answer
            recorder.record_call(
                call.id,
                call.verb,
                call.body,
                recorded_answer.status,
                recorded_answer.body,
                history,
                server_context.settings,
            )
        if not decisions.is_enabled:
            return None
        return KeptDecision(
            id=call.id,
            verb=call.verb,
            now=history.now,
            milliseconds=milliseconds,
            pod=call.pod,
            profile=server_context.settings.profile,
            mode=result.mode,
            cache=result.answer.cache_status or cache_summary(server_context.cache, server_context.source),
            record=None if result.decision is None else record(result.decision),
            error=result.error,
        )
    except Exception:
        log.exception("%s %r: failed to store the decision", call.verb, call.pod.key)
        return None


def _history(server_context: ServerContext, result: CallResult[Any]) -> EvictionHistory:
    decision_context = None if result.decision is None else result.decision.decision_context
    history: EvictionHistory = (
        server_context.history() if decision_context is None else decision_context.context.history
    )
    return history


# --- audit lines ------------------------------------------------------------------------------------------------------


def write_audit_line(server_context: ServerContext, line: Callable[[], AuditLine]) -> None:
    """Write an audit line if the audit log is enabled; a line that cannot be written is counted as lost."""
    if server_context.audit is None or not server_context.audit.is_on:
        return
    try:
        server_context.audit.write(audit.encode_line(line()))
    except Exception as error:
        _record_lost_line(server_context, error)


def write_unparsed_audit_line(
    server_context: ServerContext, verb: Literal["preempt", "bind"], answer: Answer, error: str
) -> None:
    """Write the audit line of a call that failed before its request was parsed."""
    write_audit_line(server_context, lambda: _unparsed_line(server_context, verb, answer, error))


def _is_audited(server_context: ServerContext) -> bool:
    return server_context.audit is not None and server_context.audit.is_on


def _record_lost_line(server_context: ServerContext, error: Exception) -> None:
    log.error("audit: failed to write a line", exc_info=error)
    if server_context.audit is not None:
        server_context.audit.count_lost()


def _draft_audit_line(
    server_context: ServerContext, call: Call, result: CallResult[Any], milliseconds: float
) -> PreemptLine | None:
    """Return the audit line of a /preempt, without the final mode, status and answer."""
    decision = result.decision
    try:
        return PreemptLine(
            event="audit",
            timestamp=format_time(_history(server_context, result).now, 6),
            id=call.id,
            verb="preempt",
            mode=result.mode,
            status=result.answer.status,
            answer=result.answer.kind,
            milliseconds=round(milliseconds, 3),
            preemptor=audit.preemptor(call.pod),
            sent=call.sent,
            policies=audit.policies_of(server_context.settings.profile),
            cache=audit.cache_state(server_context.cache, server_context.source),
            **(audit.decision_fields(decision) if isinstance(decision, PreemptDecision) else {}),
        )
    except Exception as error:
        _record_lost_line(server_context, error)
        return None


def _unparsed_line(
    server_context: ServerContext, verb: Literal["preempt", "bind"], answer: Answer, error: str
) -> AuditLine:
    now, number = format_time(time.time_ns(), 6), server_context.decisions.next_id(verb)
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
        answer=answer.kind,
        milliseconds=0.0,
        error=error,
        cache=audit.cache_state(server_context.cache, server_context.source),
    )
