"""The journal of a call, with five sinks: recording, decision log (/decisions), log line, audit log and Events.

A sink runs before the effects of the decision change the cluster cache. It returns a function that writes its entry
once `call.result` is final: before the answer to a /preempt is sent, but after the answer to a call without effects.

Rule: a sink that fails is logged and never affects the answer.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import Raw, structs

from extender.cluster.apiserver.binding import BindResult
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.core.eviction_history import EvictionHistory
from extender.core.record import (
    DecisionRecord,
    PreemptRecord,
    RecordedPod,
    record_filter,
    record_preempt,
    record_prioritize,
)
from extender.k8s.time import format_time
from extender.report.audit.schema import AuditCache, AuditLine, AuditPod, BindLine, PreemptLine
from extender.report.facts.node_facts import FAILED, NO_FACTS, facts_of_decision
from extender.report.scheduler_report import changed_policies
from extender.report.wording import PASSED_THROUGH
from extender.server.context import ServerContext
from extender.server.events.notices import AnsweredPreemption, is_worth_events, rejecting_policies
from extender.server.observability import audit
from extender.server.observability.cache_status import cache_summary
from extender.server.observability.decision_log import KeptDecision
from extender.server.recording.lines import CallLine
from extender.server.scheduler.result import CallResult, CallVerb
from extender.wire import ExtenderBindingArgs
from extender.wire.decode import FilterRequest, PreemptRequest

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Call:
    """A call, as input for the sinks."""

    id: str
    """ID of the call in /decisions, recordings and audit lines."""
    verb: CallVerb
    result: CallResult
    """Result of the decision; it becomes a failure if applying the effects of the decision fails."""
    history: EvictionHistory
    """Time of the call, and the evictions before it."""
    request: FilterRequest | PreemptRequest | ExtenderBindingArgs | None = None
    """The parsed request; None if the call failed before it was parsed."""
    body: bytes = b""
    milliseconds: float = 0.0
    """Time from the parsed request to the decision, or to the last response of the API server."""
    binding: BindResult | None = None
    """Result of the binding, for /bind."""
    record: DecisionRecord | None = None
    """Record of the decision; None until a sink needs it."""

    def decision_record(self) -> DecisionRecord | None:
        """Return the record of the decision, shared by the sinks; call it before the cluster cache changes."""
        decision = self.result.decision
        if self.record is None and decision is not None:
            if isinstance(decision, FilterDecision):
                self.record = record_filter(decision)
            elif isinstance(decision, PrioritizeDecision):
                self.record = record_prioritize(decision)
            elif isinstance(self.request, PreemptRequest):
                self.record = record_preempt(decision, self.request.sent)
        return self.record


_FAILED = "%s: failed to store the %s"

Write = Callable[[], None]
"""Function that writes a sink's entry for a call."""


def begin(server_context: ServerContext, call: Call) -> list[tuple[str, Write]]:
    """Run the sinks of a call before the effects of its decision; return their write functions, for `end`."""
    writes = []
    for name, sink in SINKS.items():
        try:
            write = sink(server_context, call)
        except Exception:
            log.exception(_FAILED, call.id, name)
        else:
            if write is not None:
                writes.append((name, write))
    return writes


def end(call: Call, writes: list[tuple[str, Write]]) -> None:
    """Write the journal's entries for a call whose result is final."""
    entries: list[tuple[str, Write]] = [("log line", partial(_log_line, call)), *writes]
    for name, write in entries:
        try:
            write()
        except Exception:
            log.exception(_FAILED, call.id, name)


def write(server_context: ServerContext, call: Call) -> None:
    """Write the journal's entries for a call whose decision has no effects, or whose effects have been applied."""
    end(call, begin(server_context, call))


# --- sinks ----------------------------------------------------------------------------------------------------------


def _record(server_context: ServerContext, call: Call) -> None:
    recorder, answer = server_context.recorder, call.result.answer
    if recorder is None or not recorder.is_on or call.verb == "bind" or call.request is None:
        return
    problem = server_context.problem() if call.result.decision is None else None
    time, body = format_time(call.history.now, 6), Raw(answer.body)
    line = CallLine(call.id, time, call.verb, answer.status, call.history, Raw(call.body), body, problem)
    recorder.record(line, call.history.now, server_context.settings)


def _keep(server_context: ServerContext, call: Call) -> Write | None:
    request, verb, decisions = call.request, call.verb, server_context.decisions
    if not decisions.is_enabled or verb == "bind" or not isinstance(request, FilterRequest | PreemptRequest):
        return None
    cache = call.result.answer.cache_status or cache_summary(server_context.cache, server_context.source)
    record = call.decision_record()
    pod = RecordedPod.of(request.pod) if record is None else record.request.pod
    decision, facts = call.result.decision, NO_FACTS
    if isinstance(decision, FilterDecision | PreemptDecision) and decision.evaluation is not None:
        try:
            facts = facts_of_decision(decision.evaluation, decisions.time_for_facts)
        except Exception:
            facts = FAILED
            log.exception("%s: what rejects its nodes could not be found out", call.id)

    def keep() -> None:
        kept = KeptDecision(
            id=call.id,
            now=call.history.now,
            milliseconds=call.milliseconds,
            pod=pod,
            profile=server_context.settings.scheduler.profile_of(request.pod),
            mode=call.result.mode,
            cache=cache,
            record=record,
            error=call.result.error,
            scheduler=server_context.settings.scheduler,
            facts=facts,
        )
        decisions.keep(kept)

    return keep


def _log_line(call: Call) -> None:
    """Log a /preempt at level INFO, other calls at level DEBUG."""
    if not isinstance(call.request, PreemptRequest) and not log.isEnabledFor(logging.DEBUG):
        return
    request, decision = call.request, call.result.decision
    fields = {"verb": call.verb, "mode": call.result.mode, "answer": call.result.answer.kind}
    extra, not_enforced = {"fields": fields}, ""
    if call.result.mode == "observed":
        given = "no victims" if call.result.answer.kind == "noVictims" else PASSED_THROUGH[call.verb]
        not_enforced = f"; not enforced (mode Observe), answered: {given}"
    if isinstance(request, PreemptRequest) and isinstance(decision, PreemptDecision):
        nodes = {candidate.node: [victim.key for victim in candidate.victims] for candidate in decision.kept}
        made = nodes or f"no victims: {decision.no_candidate_reason}"
        status = call.result.answer.cache_status
        log.info("preempt %r: %s%s; %s", request.pod.key, made, not_enforced, status, extra=extra)
    elif isinstance(request, FilterRequest) and isinstance(decision, FilterDecision):
        counts = len(decision.accepted), len(request.nodes)
        log.debug("filter %r: %d of %d nodes%s", request.pod.key, *counts, not_enforced, extra=extra)
    elif isinstance(request, FilterRequest) and decision is not None:
        log.debug("prioritize %r: %d nodes%s", request.pod.key, len(request.nodes), not_enforced, extra=extra)


def _audit(server_context: ServerContext, call: Call) -> Write | None:
    audit_log = server_context.audit
    if audit_log is None or not audit_log.is_on or call.verb not in ("preempt", "bind"):
        return None
    try:
        decision = call.result.decision
        cache = audit.cache_state(server_context.cache, server_context.source)
        decided = audit.decision_fields(decision) if isinstance(decision, PreemptDecision) else {}
    except Exception:
        audit_log.count_lost()
        raise

    def encode(process: str, sequence: int) -> bytes:
        line = _audit_line(server_context, call, cache, decided)
        return audit.encode_line(structs.replace(line, process=process, sequence=sequence))

    return partial(audit_log.write, encode)


def _events(server_context: ServerContext, call: Call) -> Write | None:
    """Return a function that queues the Events of a preemption; None if no pod gets an Event."""
    recorder, decision = server_context.events, call.result.decision
    if recorder is None or not recorder.is_on or call.result.mode != "answered":
        return None
    if not isinstance(decision, PreemptDecision) or not is_worth_events(decision):
        return None
    record = call.decision_record()
    assert isinstance(record, PreemptRecord)
    preemption = AnsweredPreemption(record, rejecting_policies(decision))

    def queue() -> None:
        if call.result.mode == "answered":  # otherwise applying the effects has failed, and so has the call
            recorder.record(preemption)

    return queue


SINKS: dict[str, Callable[[ServerContext, Call], Write | None]] = {
    "recording": _record,
    "decision": _keep,
    "audit line": _audit,
    "Events": _events,
}
"""Name of the entry -> sink. The log line needs no sink, as it does not read the cluster cache; `end` writes it."""


def _audit_line(server_context: ServerContext, call: Call, cache: AuditCache, decided: dict[str, Any]) -> AuditLine:
    """Return the audit line of a /preempt or /bind; `decided`: keys that depend on the decision of the /preempt."""
    request, result, binding = call.request, call.result, call.binding
    keys: dict[str, Any] = {
        "event": "audit",
        "timestamp": format_time(call.history.now, 6),
        "id": call.id,
        "verb": call.verb,
        "mode": result.mode,
        "status": result.answer.status,
        "milliseconds": round(call.milliseconds, 3),
    }
    if call.verb == "bind":
        if isinstance(request, ExtenderBindingArgs) and binding is not None:
            names = (request.pod_namespace, request.pod_name, request.pod_uid, request.node)
            namespace, name, uid, node = map(audit.shorten, names)
            pod = AuditPod(namespace=namespace, name=name, uid=uid)
            keys |= {"pod": pod, "node": node, "outcome": binding.outcome, "tries": binding.tries}
        return BindLine(error=result.error or "", **keys)
    if isinstance(request, PreemptRequest):
        scheduler = server_context.settings.scheduler
        keys |= {
            "preemptor": audit.preemptor(request.pod),
            "sent": len(request.sent),
            "policies": changed_policies(scheduler.profile_of(request.pod) or scheduler.profiles[0]),
            "scheduler_version": scheduler.version,
            "scheduler_release": scheduler.release,
        }
    return PreemptLine(answer=result.answer.kind, error=result.error, cache=cache, **keys, **decided)
