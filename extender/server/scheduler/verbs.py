"""The verbs filter, prioritize and preempt: bytes -> request -> snapshot -> engine -> guard -> bytes.

The kill switch skips the middle: bytes -> request -> pass-through answer. Mode Observe runs every step, logs the
difference, and returns the pass-through answer.

Rule: nothing here knows HTTP. A RequestError is the client's fault and is raised; every other error is logged once and
answered by the verb's failure policy (`server.scheduler.failure_policy`).
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import structs

from extender.core import engine
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.core.eviction_history import EvictionHistory
from extender.core.preemption.eligibility import nominated_node
from extender.core.preemption.sent_candidates import CandidateRejection, RejectionReason
from extender.errors import GuardError, LeftToScheduler, RequestError, UnknownScheduler
from extender.k8s.candidates import SentCandidates
from extender.report import schema
from extender.server.context import ServerContext
from extender.server.guard.guard import guard_filter, guard_preempt, guard_scores
from extender.server.http.body import too_large
from extender.server.http.deadline import NO_DEADLINE, Deadline
from extender.server.http.response import nothing_to_write
from extender.server.observability.cache_status import cache_summary
from extender.server.scheduler import journal, passthrough
from extender.server.scheduler.failure_policy import (
    error_message,
    failure_answer,
    pass_through,
    record_failure,
    record_not_evaluated,
)
from extender.server.scheduler.journal import Call
from extender.server.scheduler.passthrough import NO_VICTIMS
from extender.server.scheduler.result import Answer, CallResult, CallSummary, CallVerb
from extender.server.scheduler.sent_nodes import decide_as_sent
from extender.wire.decode import FilterRequest, PreemptRequest, decode_filter, decode_preempt
from extender.wire.encode import encode_filter, encode_preempt, encode_prioritize

log = logging.getLogger(__name__)

MAX_GUARDED_ATTEMPTS = 3
"""Maximum number of attempts to decide one /preempt, each without the nodes that the guard has rejected so far."""

RequestT = TypeVar("RequestT", FilterRequest, PreemptRequest)
DecisionT = TypeVar("DecisionT", FilterDecision, PrioritizeDecision, PreemptDecision)


# --- a call -------------------------------------------------------------------------------------------------------


def answer(
    verb: "Verb[Any, Any]",
    server_context: ServerContext,
    body: bytes,
    history: EvictionHistory | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> Answer:
    """Run one call and return its answer: the decision, a pass-through answer, a veto or an error.

    Raises only RequestError. `history`: time of the decision and the evictions before it; None: now, and the current
    evictions. A missed deadline counts as a failure.
    """
    request, started = verb.decode(server_context, body), time.perf_counter()
    decide = partial(verb.decide, server_context, request, history, deadline, set())
    result = _decide(verb, server_context, request, decide, deadline)
    given = _finish(verb, server_context, body, request, result, started)
    given.after_send()
    return structs.replace(given, after_send=nothing_to_write)


async def answer_live(verb: "Verb[Any, Any]", server_context: ServerContext, body: bytes, deadline: Deadline) -> Answer:
    """Run one call like `answer`, but wait for the watch if the decision contradicts kube-scheduler (`CacheLag`).

    The caller must call the answer's `after_send`.
    """
    request, started = verb.decode(server_context, body), time.perf_counter()
    decide: Callable[[], Any] = partial(verb.decide, server_context, request, None, deadline, set())
    settings, source = server_context.settings, server_context.source
    if source.is_live and settings.needs_cluster and not settings.is_observing:
        decide = await _decided(decide, server_context, request, deadline)
    result = _decide(verb, server_context, request, decide, deadline)
    return _finish(verb, server_context, body, request, result, started)


async def _decided(
    decide: Callable[[], Any], server_context: ServerContext, request: Any, deadline: Deadline
) -> Callable[[], Any]:
    """Decide until the decision is final; return a function that returns the decision or raises its error."""
    cache, metrics, uid = server_context.cache, server_context.metrics, request.pod.metadata.uid
    decision: Future[Any] = Future()
    try:
        deadline.check()
        decision.set_result(await server_context.cache_lag.decide(cache, metrics, uid, deadline.ends_at, decide))
    except Exception as error:
        decision.set_exception(error)
    return decision.result


def _finish(
    verb: "Verb[Any, Any]", server_context: ServerContext, body: bytes, request: Any, result: CallResult, started: float
) -> Answer:
    """Apply the effects of a decision and return the answer; the journal is written here or by `after_send`."""
    milliseconds = (time.perf_counter() - started) * 1000
    sent = len(request.sent if isinstance(request, PreemptRequest) else request.nodes)
    kept, evaluation = 0, None
    if result.decision is not None:
        kept, evaluation = verb.kept(result.decision), result.decision.evaluation
    history = server_context.history() if evaluation is None else evaluation.context.history
    call_id = server_context.decisions.next_id(verb.name)
    call = Call(call_id, verb.name, result, history, request, body, milliseconds)
    # 1. Collect the data that the journal needs from the cluster cache, because the effects change the cache. The
    #    journal records evictions before kube-scheduler gets the answer, other decisions after it: that saves latency.
    writes = journal.begin(server_context, call) if isinstance(request, PreemptRequest) else None
    # 2. Apply the effects.
    if result.mode == "answered":
        try:
            verb.apply_effects(server_context, request, result.decision)
            server_context.metrics.count("answers", verb.name, verb.results[0 if kept else 1])
        except Exception as error:  # the assume cache lacks the eviction, so fail the call
            call.result, kept = _failed(verb.name, server_context, request, error), 0
    # 3. Write the journal, now that the result is final.
    if writes is not None:
        journal.end(call, writes)
    pod, result = request.pod.metadata, call.result
    summary = CallSummary(pod.namespace, pod.name, result.mode, sent, kept, request.pod.spec.scheduler_name)
    given = structs.replace(result.answer, id=call_id, summary=summary)
    if writes is not None:
        return given
    return structs.replace(given, after_send=partial(journal.write, server_context, call))


def _decide(
    verb: "Verb[Any, Any]",
    server_context: ServerContext,
    request: Any,
    decide: Callable[[], Any],
    deadline: Deadline,
) -> CallResult:
    """Return the result of the call: a decision, a pass-through answer (kill switch, mode Observe), or a failure."""
    settings, metrics = server_context.settings, server_context.metrics
    if settings.kill_switch is not None:
        is_veto = verb.name == "preempt" and settings.kill_switch == "Veto"
        given = NO_VICTIMS if is_veto else passthrough.ANSWERS[verb.name](request)
        metrics.count("answers", verb.name, "vetoed" if given.kind == "noVictims" else "passthrough")
        return CallResult(given, "passthrough")
    try:
        # 1. Decide.
        deadline.check()
        decision = decide()
        if isinstance(decision, PreemptDecision):
            metrics.count_unknown_candidates(decision.dropped.values())
        # 2. Encode the answer. A late answer has no effects: kube-scheduler has given up and evicts no victims.
        difference = passthrough.DIFFERENCES[verb.name](request, decision) if settings.is_observing else None
        given = passthrough.ANSWERS[verb.name](request) if settings.is_observing else verb.encode(request, decision)
        deadline.check()
    except Exception as error:
        if isinstance(error, RequestError) and not settings.is_observing:  # a whole node that cannot be decoded
            raise
        return _failed(verb.name, server_context, request, error)
    # 3. Add the values of the headers, and count the answer.
    cache_status = cache_summary(server_context.cache, server_context.source)
    given = structs.replace(given, not_evaluated=decision.not_evaluated, cache_status=cache_status)
    if not settings.is_observing:
        return CallResult(given, "answered", decision)
    metrics.count("observed_answers", verb.name, "same" if difference is None else "differs")
    metrics.count("answers", verb.name, "vetoed" if given.kind == "noVictims" else "passthrough")
    if difference is not None:
        log.info("observe %s %r: the answer would have been: %s", verb.name, request.pod.key, difference)
    return CallResult(given, "observed", decision)


def _failed(verb: schema.VerbName, server_context: ServerContext, request: Any, error: Exception) -> CallResult:
    """Return the result of a call that failed, or whose pod is left to kube-scheduler (see `failure_policy`)."""
    metrics, is_observing = server_context.metrics, server_context.settings.is_observing
    is_passed = isinstance(error, LeftToScheduler) or (isinstance(error, UnknownScheduler) and verb != "preempt")
    if is_observing:  # the call is passed through, but counted under the result that it would have had
        metrics.count("observed_answers", verb, "same" if is_passed else "failed")
    if is_passed:
        given = pass_through(verb, server_context, request, error)
    elif is_observing:
        record_failure(verb, server_context, error)
        metrics.count("answers", verb, "passthrough")
        given = passthrough.ANSWERS[verb](request)
    else:
        given = failure_answer(verb, server_context, error)
    return CallResult(given, "passthrough" if is_passed else "failed", error=error_message(error))


# --- the verbs ----------------------------------------------------------------------------------------------------


class Verb(ABC, Generic[RequestT, DecisionT]):
    """The steps of a call that differ from verb to verb."""

    name: ClassVar[schema.VerbName]
    results: ClassVar[tuple[str, str]]
    """Labels (metrics.ANSWER_RESULTS) of decisions that keep at least one node, and of decisions that keep none."""

    @abstractmethod
    def decode(self, server_context: ServerContext, body: bytes) -> RequestT:
        """Parse the body; raises RequestError if it is malformed or too large."""

    @abstractmethod
    def decide(
        self,
        server_context: ServerContext,
        request: RequestT,
        history: EvictionHistory | None,
        deadline: Deadline,
        counted: set[str],
    ) -> DecisionT:
        """Make a decision that the guard accepts; raises ExtenderError if that fails, RequestError for a bad node.

        `history`: None: use the current history; `counted`: see `record_not_evaluated`.
        """

    @abstractmethod
    def encode(self, request: RequestT, decision: DecisionT) -> Answer:
        """Return the decision as an answer."""

    @abstractmethod
    def kept(self, decision: DecisionT) -> int:
        """Return the number of nodes that the decision accepts, scores or evicts from."""

    def apply_effects(self, server_context: ServerContext, request: RequestT, decision: DecisionT) -> None:
        """Apply the answered decision to the assume cache, the eviction log and the metrics."""


class Filter(Verb[FilterRequest, FilterDecision]):
    """POST /filter: decide which nodes of the request the pod fits on."""

    name = "filter"
    results = ("fits", "nowhere")

    def decode(self, server_context: ServerContext, body: bytes) -> FilterRequest:
        return _decode_nodes(server_context, body)

    def decide(
        self,
        server_context: ServerContext,
        request: FilterRequest,
        history: EvictionHistory | None,
        deadline: Deadline,
        counted: set[str],
    ) -> FilterDecision:
        server_context.cache.assumed.forget_preemption(request.pod)
        snapshot, profile, history = server_context.decision_inputs(request.pod, history)
        decision = decide_as_sent(
            snapshot, request, lambda: engine.filter(snapshot, request.pod, request.nodes, profile, history)
        )
        record_not_evaluated("filter", server_context, request.pod, decision.not_evaluated, counted)
        guard_filter(request.nodes, decision)
        return decision

    def encode(self, request: FilterRequest, decision: FilterDecision) -> Answer:
        return Answer(encode_filter(request, decision.accepted, decision.failed, decision.unresolvable), "decided")

    def kept(self, decision: FilterDecision) -> int:
        return len(decision.accepted)


class Prioritize(Verb[FilterRequest, PrioritizeDecision]):
    """POST /prioritize: score each node of the request from 0 to 10."""

    name = "prioritize"
    results = ("scored", "scored")

    def decode(self, server_context: ServerContext, body: bytes) -> FilterRequest:
        return _decode_nodes(server_context, body)

    def decide(
        self,
        server_context: ServerContext,
        request: FilterRequest,
        history: EvictionHistory | None,
        deadline: Deadline,
        counted: set[str],
    ) -> PrioritizeDecision:
        snapshot, profile, history = server_context.decision_inputs(request.pod, history)
        decision = decide_as_sent(
            snapshot, request, lambda: engine.prioritize(snapshot, request.pod, request.nodes, profile, history)
        )
        record_not_evaluated("prioritize", server_context, request.pod, decision.not_evaluated, counted)
        guard_scores(request.nodes, decision.scores)
        return decision

    def encode(self, request: FilterRequest, decision: PrioritizeDecision) -> Answer:
        return Answer(encode_prioritize(request.nodes, decision.scores), "decided")

    def kept(self, decision: PrioritizeDecision) -> int:
        return len(decision.scores)


class Preempt(Verb[PreemptRequest, PreemptDecision]):
    """POST /preempt: choose nodes, and the pods to evict from each so that the pod fits."""

    name = "preempt"
    results = ("evicted", "vetoed")

    def decode(self, _: ServerContext, body: bytes) -> PreemptRequest:
        return decode_preempt(body)

    def decide(
        self,
        server_context: ServerContext,
        request: PreemptRequest,
        history: EvictionHistory | None,
        deadline: Deadline,
        counted: set[str],
    ) -> PreemptDecision:
        server_context.cache.assumed.forget_preemption(request.pod)
        snapshot, profile, current = server_context.decision_inputs(request.pod, history)
        # 1. Find deletions on the nodes of the request that kube-scheduler may not have seen yet.
        if history is None:
            recent, nominated = server_context.cache.recent_deletions, nominated_node(snapshot, request.pod)
            deletions = recent.on_nodes(request.sent) | recent.on_nodes((nominated,))
            unseen = {uid: node for uid, node in deletions.items() if uid not in request.terminating}
            if unseen:
                trusts_fit = server_context.cache_lag.trusts_fit(request.pod.metadata.uid)
                current = replace(current, recent_deletions=unseen, trusts_fit=trusts_fit)
        # 2. Decide. If the guard rejects every candidate, decide again without the rejected nodes.
        sent, rejected = request.sent, dict[str, str]()
        for _ in range(MAX_GUARDED_ATTEMPTS):
            decision = engine.preempt(snapshot, request.pod, sent, profile, current)
            record_not_evaluated("preempt", server_context, request.pod, decision.not_evaluated, counted)
            result = guard_preempt(
                snapshot, request.pod, sent, decision.kept, as_sent=decision.as_sent, profile=profile, history=current
            )
            for node, rule in result.rejected.items():
                server_context.metrics.count("guard_rejections", rule)
                # A bug in the extender, so the log line is not throttled.
                log.error("preempt %r: guard rejected node %r: %s", request.pod.key, node, rule)
                rejected[node] = rule
            if result.kept or not decision.kept:
                reasons = {
                    node: CandidateRejection(RejectionReason.REJECTED, f"rejected by the guard ({rule})")
                    for node, rule in rejected.items()
                }
                return replace(decision, kept=result.kept, dropped=decision.dropped | reasons, rejected=rejected)
            sent = SentCandidates.of({node: one for node, one in sent.items() if node not in rejected})
            deadline.check()
        raise GuardError("the guard rejected every candidate node; see the log")

    def encode(self, _: PreemptRequest, decision: PreemptDecision) -> Answer:
        if not decision.kept:
            return structs.replace(NO_VICTIMS, veto_reason=decision.no_candidate_reason)
        return Answer(encode_preempt(decision.kept), "decided")

    def kept(self, decision: PreemptDecision) -> int:
        return sum(bool(candidate.victims) for candidate in decision.kept)

    def apply_effects(self, server_context: ServerContext, request: PreemptRequest, decision: PreemptDecision) -> None:
        """Assume the preemption if the answer has one node; among several, kube-scheduler makes the choice."""
        try:
            if server_context.source.is_live and len(decision.kept) == 1 and decision.kept[0].victims:
                (chosen,) = decision.kept
                server_context.cache.assumed.assume_preempted(request.pod, chosen.node, chosen.victims)
                server_context.eviction_log.record(request.pod, chosen.victims)
            server_context.metrics.count_preemption(request, decision)
            refused = decision.dropped.values() if decision.vetoed is not None else ()
            if any(one.code is RejectionReason.FITS for one in refused):
                server_context.cache_lag.note_fit(request.pod.metadata.uid)
        except Exception:
            # Do not keep the assumed preemption after the call failed, because its answer evicts no pod.
            server_context.cache.assumed.forget_preemption(request.pod)
            raise


VERBS: dict[str, Verb[Any, Any]] = {"filter": Filter(), "prioritize": Prioritize(), "preempt": Preempt()}


def _decode_nodes(server_context: ServerContext, body: bytes) -> FilterRequest:
    most = server_context.max_node_names_body_bytes
    return server_context.last_names.decode(body, most) if len(body) <= most else decode_nodes(server_context, body)


def decode_nodes(server_context: ServerContext, body: bytes) -> FilterRequest:
    """Decode ExtenderArgs without `last_names`; a large body is rejected unless it contains whole nodes."""
    most = server_context.max_node_names_body_bytes
    request = decode_filter(body, most)
    if len(body) > most and not request.has_whole_nodes:
        raise too_large(most)
    return request


def on_failure(verb: CallVerb, server_context: ServerContext, error: Exception) -> Answer:
    """Return the answer to a call that failed before its request was parsed."""
    given = failure_answer(verb, server_context, error)
    if verb in ("preempt", "bind"):
        result, number = CallResult(given, "failed", error=error_message(error)), server_context.decisions.next_id(verb)
        journal.write(server_context, Call(number, verb, result, EvictionHistory(time.time_ns())))
    return given
