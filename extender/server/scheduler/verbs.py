"""The verbs filter, prioritize and preempt: bytes -> request -> snapshot -> engine -> guard -> bytes.

The kill switch skips the middle: bytes -> request -> pass-through answer. Mode Observe runs every step, logs the
difference, and returns the pass-through answer. The journal entry of a call is drafted before the decision's effects
are applied to the cluster cache, and committed before the answer is sent (`scheduler.journal`).

Rule: nothing here knows HTTP. A RequestError is the client's fault and is raised; any other error is logged once and
answered by the failure policy of the verb (`server.scheduler.failure_policy`).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from extender.core import engine
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.core.eviction_history import EvictionHistory
from extender.core.explain import schema
from extender.core.explain.record import DecisionRecord, record_filter, record_preempt, record_prioritize
from extender.errors import GuardError
from extender.server.context import Binder, CallRecorder, ServerContext
from extender.server.guard.guard import guard_filter, guard_preempt, guard_scores
from extender.server.http.deadline import NO_DEADLINE, Deadline
from extender.server.observability.cache_status import cache_summary
from extender.server.scheduler import journal, passthrough
from extender.server.scheduler.bind import bind
from extender.server.scheduler.failure_policy import error_message, failure_answer, record_failure
from extender.server.scheduler.journal import Call
from extender.server.scheduler.result import Answer, AnswerKind, CallResult, CallSummary, DecisionT
from extender.wire import (
    FilterRequest,
    PreemptRequest,
    PrioritizeRequest,
    decode_filter,
    decode_preempt,
    decode_prioritize,
    encode_filter,
    encode_preempt,
    encode_prioritize,
)

__all__ = ["VERBS", "Answer", "Binder", "CallRecorder", "ServerContext", "VerbHandler", "answer", "bind", "on_failure"]

log = logging.getLogger(__name__)

MAX_GUARDED_ATTEMPTS = 3
"""Attempts to decide one /preempt, each without the nodes that the guard rejected, before the call fails."""


# --- decisions ----------------------------------------------------------------------------------------------------


def read_filter(server_context: ServerContext, body: bytes) -> FilterRequest:
    """Parse the pod and the nodes of a /filter; raises RequestError if the body is malformed or too large."""
    request = decode_filter(body)
    server_context.check_size(body, request.has_whole_nodes)
    return request


def decide_filter(
    server_context: ServerContext, request: FilterRequest, history: EvictionHistory | None, _: Deadline
) -> FilterDecision:
    """Decide which of the nodes in the request the pod can run on."""
    server_context.forget_preemption(request.pod)
    profile, history = server_context.settings.profile, history or server_context.history()
    decision = engine.filter(server_context.snapshot(), request.pod, request.nodes, profile, history)
    server_context.note_not_evaluated("filter", request.pod, decision.not_evaluated)
    guard_filter(request.nodes, decision)
    return decision


def _log_filter(request: FilterRequest, decision: FilterDecision, _: str | None) -> None:
    log.debug("filter %r: %d of %d nodes", request.pod.key, len(decision.accepted), len(request.nodes))


def read_prioritize(server_context: ServerContext, body: bytes) -> PrioritizeRequest:
    """Parse the pod and the nodes of a /prioritize; raises RequestError if the body is malformed or too large."""
    request = decode_prioritize(body)
    server_context.check_size(body, request.has_whole_nodes)
    return request


def decide_prioritize(
    server_context: ServerContext, request: PrioritizeRequest, history: EvictionHistory | None, _: Deadline
) -> PrioritizeDecision:
    """Score each node of the request from 0 to 10."""
    profile, history = server_context.settings.profile, history or server_context.history()
    decision = engine.prioritize(server_context.snapshot(), request.pod, request.nodes, profile, history)
    server_context.note_not_evaluated("prioritize", request.pod, decision.not_evaluated)
    guard_scores(request.nodes, decision.scores)
    return decision


def _log_prioritize(request: PrioritizeRequest, _decision: PrioritizeDecision, _: str | None) -> None:
    log.debug("prioritize %r: %d nodes", request.pod.key, len(request.nodes))


def read_preempt(_: ServerContext, body: bytes) -> PreemptRequest:
    """Parse the preemptor and the sent candidates of a /preempt; raises RequestError if the body is malformed."""
    return decode_preempt(body)


def decide_preempt(
    server_context: ServerContext, request: PreemptRequest, history: EvictionHistory | None, deadline: Deadline
) -> PreemptDecision:
    """Decide which pods to evict on which nodes; raises GuardError if the guard rejects every candidate."""
    server_context.forget_preemption(request.pod)
    snapshot, sent, rejected = server_context.snapshot(), dict(request.sent), dict[str, str]()
    profile, history = server_context.settings.profile, history or server_context.history()
    for attempt in range(MAX_GUARDED_ATTEMPTS):
        decision = engine.preempt(snapshot, request.pod, sent, profile, history)
        if attempt == 0:  # the same in every attempt: count and log once per request
            server_context.note_not_evaluated("preempt", request.pod, decision.not_evaluated)
            server_context.metrics.count_unknown_candidates(decision.dropped.values())
        result = guard_preempt(
            snapshot,
            request.pod,
            sent,
            decision.kept,
            as_sent=decision.as_sent,
            profile=profile,
            history=history,
        )
        for node, rule in result.rejected.items():
            server_context.metrics.count_guard_rejection(rule)
            log.error("preempt %r: guard rejected node %r: %s", request.pod.key, node, rule)
            sent.pop(node, None)
            rejected[node] = rule
        if result.kept or not decision.kept:
            reasons = {node: f"rejected by the guard ({rule})" for node, rule in rejected.items()}
            return replace(decision, kept=result.kept, dropped=decision.dropped | reasons, rejected=rejected)
        deadline.check()
    raise GuardError("the guard rejected every candidate node; see the log")


def _log_preempt(request: PreemptRequest, decision: PreemptDecision, cache_status: str | None) -> None:
    nodes = {candidate.node: [victim.key for victim in candidate.victims] for candidate in decision.kept}
    log.info(
        "preempt %r: %s; %s", request.pod.key, nodes or f"no victims: {decision.no_candidate_reason}", cache_status
    )


def _assume_preemption(server_context: ServerContext, request: PreemptRequest, decision: PreemptDecision) -> None:
    """Assume the preemption if the answer has one node; of several nodes kube-scheduler chooses one itself."""
    if server_context.source.is_live and len(decision.kept) == 1:
        (chosen,) = decision.kept
        try:
            server_context.cache.assumed.assume_preempted(request.pod, chosen.node, chosen.victims)
            server_context.eviction_log.record(request.pod, chosen.victims)
        except Exception:
            # A half-assumed preemption must not outlive the failed call: its answer evicts no pod.
            server_context.cache.assumed.forget_preemption(request.pod)
            raise
    server_context.metrics.count_preemption(request, decision)


def _no_effects(server_context: ServerContext, request: FilterRequest, decision: object) -> None:
    """Do nothing: /filter and /prioritize change no state."""


# --- the verbs ----------------------------------------------------------------------------------------------------


RequestT = TypeVar("RequestT", FilterRequest, PreemptRequest)


@dataclass(frozen=True, slots=True)
class VerbHandler(Generic[RequestT, DecisionT]):
    """The steps of a call of one verb."""

    name: schema.VerbName
    read: Callable[[ServerContext, bytes], RequestT]
    """Parses the body; raises RequestError."""
    decide: Callable[[ServerContext, RequestT, EvictionHistory | None, Deadline], DecisionT]
    """Makes the decision; raises ExtenderError if that fails. Without an eviction history: the current one."""
    encode: Callable[[RequestT, DecisionT], bytes]
    apply_effects: Callable[[ServerContext, RequestT, DecisionT], None]
    """Applies the answered decision to the assume cache, the eviction log and the metrics."""
    passthrough: Callable[[RequestT], Answer]
    """Returns the answer that changes nothing for kube-scheduler."""
    difference: Callable[[RequestT, DecisionT], str | None]
    """Returns how the decision differs from the pass-through answer; None: it does not."""
    record: Callable[[RequestT, DecisionT], DecisionRecord]
    """Returns the record of the decision for the journal."""
    log_decision: Callable[[RequestT, DecisionT, str | None], None]
    """Logs the decision and the cache status it was made on."""
    result_label: Callable[[DecisionT], str]
    """Returns the `result` label that the answer is counted under (metrics.ANSWER_RESULTS)."""


VERBS: dict[str, VerbHandler[Any, Any]] = {
    "filter": VerbHandler(
        "filter",
        read_filter,
        decide_filter,
        encode_filter,
        _no_effects,
        passthrough.accept_every_node,
        passthrough.filter_difference,
        lambda _, decision: record_filter(decision),
        _log_filter,
        lambda decision: "fits" if decision.accepted else "nowhere",
    ),
    "prioritize": VerbHandler(
        "prioritize",
        read_prioritize,
        decide_prioritize,
        lambda request, decision: encode_prioritize(request.nodes, decision.scores),
        _no_effects,
        passthrough.no_scores,
        passthrough.score_difference,
        lambda _, decision: record_prioritize(decision),
        _log_prioritize,
        lambda _: "scored",
    ),
    "preempt": VerbHandler(
        "preempt",
        read_preempt,
        decide_preempt,
        lambda _, decision: encode_preempt(decision.kept),
        _assume_preemption,
        passthrough.as_sent,
        passthrough.preempt_difference,
        lambda request, decision: record_preempt(decision, request.sent),
        _log_preempt,
        lambda decision: "evicted" if decision.kept else "vetoed",
    ),
}


def answer(
    verb: VerbHandler[RequestT, DecisionT],
    server_context: ServerContext,
    body: bytes,
    history: EvictionHistory | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> Answer:
    """Run one call and return its answer: the decision, or a pass-through answer or veto. Raises RequestError only.

    `history`: the time and the earlier evictions to decide by; None: now. A missed deadline counts as a failure.
    """
    request, started = verb.read(server_context, body), time.perf_counter()
    result = _decide(verb, server_context, request, history, deadline)
    milliseconds = (time.perf_counter() - started) * 1000
    sent = _count_sent(request)
    call = Call(server_context.decisions.next_id(verb.name), verb.name, request.pod, body, sent)
    entry = journal.draft_entry(
        server_context, call, result, lambda decision: verb.record(request, decision), milliseconds
    )
    result = _apply_effects(verb, server_context, request, result)
    if result.decision is not None:
        verb.log_decision(request, result.decision, result.answer.cache_status)
    journal.commit_entry(server_context, entry, result)
    summary = CallSummary(
        request.pod.metadata.namespace, request.pod.metadata.name, result.mode, sent, _count_kept(result)
    )
    return replace(result.answer, id=call.id, summary=summary)


def _count_sent(request: FilterRequest | PreemptRequest) -> int:
    """Return the number of nodes in the request."""
    return len(request.sent if isinstance(request, PreemptRequest) else request.nodes)


def _count_kept(result: CallResult[Any]) -> int:
    """Return the number of nodes that the decision accepts, scores or evicts from."""
    decision = result.decision
    if isinstance(decision, PreemptDecision):
        return len(decision.kept)
    if isinstance(decision, FilterDecision):
        return len(decision.accepted)
    return len(decision.scores) if isinstance(decision, PrioritizeDecision) else 0


def _decide(
    verb: VerbHandler[RequestT, DecisionT],
    server_context: ServerContext,
    request: RequestT,
    history: EvictionHistory | None,
    deadline: Deadline,
) -> CallResult[DecisionT]:
    settings = server_context.settings
    if settings.kill_switch is not None:
        veto = verb.name == "preempt" and settings.kill_switch == "Veto"
        return CallResult(passthrough.NO_VICTIMS if veto else verb.passthrough(request), "passthrough")
    if settings.is_observing:
        return _observe(verb, server_context, request, history, deadline)
    try:
        deadline.check()
        decision = verb.decide(server_context, request, history, deadline)
        encoded = verb.encode(request, decision)
        deadline.check()
    except Exception as error:
        return CallResult(failure_answer(verb.name, server_context, error), "failed", error=error_message(error))
    cache_status = cache_summary(server_context.cache, server_context.source)
    veto_reason = _veto_reason(decision)
    kind: AnswerKind = "decided" if veto_reason is None else "noVictims"
    return CallResult(
        Answer(encoded, kind, 200, decision.not_evaluated, cache_status, veto_reason), "answered", decision
    )


def _veto_reason(decision: object) -> str | None:
    return decision.no_candidate_reason if isinstance(decision, PreemptDecision) and not decision.kept else None


def _observe(
    verb: VerbHandler[RequestT, DecisionT],
    server_context: ServerContext,
    request: RequestT,
    history: EvictionHistory | None,
    deadline: Deadline,
) -> CallResult[DecisionT]:
    """Decide and log the difference, but return the pass-through answer, also if the decision fails."""
    try:
        deadline.check()
        decision = verb.decide(server_context, request, history, deadline)
        difference = verb.difference(request, decision)
        deadline.check()
    except Exception as error:
        record_failure(verb.name, server_context, error)
        server_context.metrics.count_observed_answer(verb.name, "failed")
        server_context.metrics.count_answer(verb.name, "passthrough")
        return CallResult(verb.passthrough(request), "failed", error=error_message(error))
    server_context.metrics.count_observed_answer(verb.name, "same" if difference is None else "differs")
    if difference is not None:
        log.info("observe %s %r: the answer would have been: %s", verb.name, request.pod.key, difference)
    cache_status = cache_summary(server_context.cache, server_context.source)
    given = replace(verb.passthrough(request), not_evaluated=decision.not_evaluated, cache_status=cache_status)
    return CallResult(given, "observed", decision)


def _apply_effects(
    verb: VerbHandler[RequestT, DecisionT],
    server_context: ServerContext,
    request: RequestT,
    result: CallResult[DecisionT],
) -> CallResult[DecisionT]:
    """Apply the effects of an answered decision and count the result; the call has failed if they cannot be applied."""
    if result.mode != "answered" or result.decision is None:
        if result.mode != "failed":
            server_context.metrics.count_answer(
                verb.name, "vetoed" if result.answer.kind == "noVictims" else "passthrough"
            )
        return result
    try:
        verb.apply_effects(server_context, request, result.decision)
    except Exception as error:  # the assume cache would miss the eviction: better to answer with a failure
        return CallResult(failure_answer(verb.name, server_context, error), "failed", error=error_message(error))
    server_context.metrics.count_answer(verb.name, verb.result_label(result.decision))
    return result


def on_failure(verb: str, server_context: ServerContext, error: Exception) -> Answer:
    """Return the answer to a call that failed before its request was parsed."""
    answer = failure_answer(verb, server_context, error)
    if verb == "preempt":
        journal.write_unparsed_audit_line(server_context, "preempt", answer, error_message(error))
    if verb == "bind":
        journal.write_unparsed_audit_line(server_context, "bind", answer, error_message(error))
    return answer
