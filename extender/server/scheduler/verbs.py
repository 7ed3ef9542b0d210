"""What each verb does: bytes -> request -> snapshot -> engine -> guard -> bytes, and what is answered if that fails.

With the kill switch on it is bytes -> request -> bytes. In mode Observe all of it is done, and answered as if not.

What was answered is kept for people to look at and recorded before anything follows from it (`scheduler.journal`).

Rule: nothing here knows HTTP. A RequestError is the sender's and goes up as it is; anything else is ours, is logged
once, and is answered by the failure rule of the verb (`server.scheduler.failure_policy`).
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
from extender.core.explain.record import Capture, capture_filter, capture_preempt, capture_prioritize
from extender.errors import GuardError
from extender.server.context import Binder, Recorder, ServerContext
from extender.server.guard.guard import guard_filter, guard_preempt, guard_scores
from extender.server.http.deadline import NEVER, Deadline
from extender.server.observability.cache_status import summary
from extender.server.scheduler import journal, passthrough
from extender.server.scheduler.bind import bind
from extender.server.scheduler.failure_policy import failure, note_failure, said
from extender.server.scheduler.journal import Call
from extender.server.scheduler.result import Answer, CallSummary, DecisionLike, Result
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

__all__ = ["VERBS", "Answer", "Binder", "Recorder", "ServerContext", "Verb", "answer", "bind", "on_failure"]

log = logging.getLogger(__name__)

MAX_GUARDED_TRIES = 3
"""How often the engine is asked anew, without the nodes that the guard rejected, before that counts as a failure."""


# --- decisions ----------------------------------------------------------------------------------------------------


def read_filter(service: ServerContext, body: bytes) -> FilterRequest:
    """The pod and the nodes; RequestError if the body is none, or too large."""
    request = decode_filter(body)
    service.check_size(body, request.full)
    return request


def decide_filter(
    service: ServerContext, request: FilterRequest, moment: EvictionHistory | None, _: Deadline
) -> FilterDecision:
    """Which of the offered nodes the pod can run on."""
    service.asked_for(request.pod)
    profile, moment = service.settings.profile, moment or service.moment()
    decision = engine.filter(service.snapshot(), request.pod, request.nodes, profile, moment)
    service.note_not_evaluated("filter", request.pod, decision.not_evaluated)
    guard_filter(request.nodes, decision)
    return decision


def _say_filter(request: FilterRequest, decision: FilterDecision, _: str | None) -> None:
    log.debug("filter %r: %d of %d nodes", request.pod.key, len(decision.accepted), len(request.nodes))


def read_prioritize(service: ServerContext, body: bytes) -> PrioritizeRequest:
    """The same as `/filter`'s."""
    request = decode_prioritize(body)
    service.check_size(body, request.full)
    return request


def decide_prioritize(
    service: ServerContext, request: PrioritizeRequest, moment: EvictionHistory | None, _: Deadline
) -> PrioritizeDecision:
    """How good each of the offered nodes is, 0 to 10."""
    profile, moment = service.settings.profile, moment or service.moment()
    decision = engine.prioritize(service.snapshot(), request.pod, request.nodes, profile, moment)
    service.note_not_evaluated("prioritize", request.pod, decision.not_evaluated)
    guard_scores(request.nodes, decision.scores)
    return decision


def _say_prioritize(request: PrioritizeRequest, _decision: PrioritizeDecision, _: str | None) -> None:
    log.debug("prioritize %r: %d nodes", request.pod.key, len(request.nodes))


def read_preempt(_: ServerContext, body: bytes) -> PreemptRequest:
    """The preemptor and what is offered; RequestError if the body is none."""
    return decode_preempt(body)


def decide_preempt(
    service: ServerContext, request: PreemptRequest, moment: EvictionHistory | None, deadline: Deadline
) -> PreemptDecision:
    """Where which pods should be evicted; GuardError if the engine's candidates do not get past the guard."""
    service.asked_for(request.pod)
    snapshot, offers, rejected = service.snapshot(), dict(request.offers), dict[str, str]()
    profile, moment = service.settings.profile, moment or service.moment()
    for attempt in range(MAX_GUARDED_TRIES):
        decision = engine.preempt(snapshot, request.pod, offers, profile, moment)
        if attempt == 0:  # the same at every try: one request, one note
            service.note_not_evaluated("preempt", request.pod, decision.not_evaluated)
            service.metrics.offers_unknown(decision.dropped.values())
        result = guard_preempt(
            snapshot,
            request.pod,
            offers,
            decision.kept,
            as_offered=decision.as_offered,
            profile=profile,
            moment=moment,
        )
        for node, rule in result.rejected.items():
            service.metrics.guard_rejected(rule)
            log.error("preempt %r: the guard rejects node %r: %s", request.pod.key, node, rule)
            offers.pop(node, None)
            rejected[node] = rule
        if result.kept or not decision.kept:
            said = {node: f"rejected by the last check ({rule})" for node, rule in rejected.items()}
            return replace(decision, kept=result.kept, dropped=decision.dropped | said, rejected=rejected)
        deadline.check()
    raise GuardError("every candidate node was rejected by the last check; the log says why")


def _say_preempt(request: PreemptRequest, decision: PreemptDecision, picture: str | None) -> None:
    nodes = {candidate.node: [victim.key for victim in candidate.victims] for candidate in decision.kept}
    log.info("preempt %r: %s; %s", request.pod.key, nodes or f"nobody: {decision.why_nobody}", picture)


def _preempted(service: ServerContext, request: PreemptRequest, decision: PreemptDecision) -> None:
    """Note what kube-scheduler will do now; with several nodes in the answer it chooses one of them itself."""
    if service.source.is_live and len(decision.kept) == 1:
        (chosen,) = decision.kept
        try:
            service.cache.assumed.preempted(request.pod, chosen.node, chosen.victims)
            service.history.approved(request.pod, chosen.victims)
        except Exception:
            service.cache.assumed.asked_for(request.pod)  # all of it or nothing
            raise
    service.metrics.preempted(request, decision)


def _nothing_follows(service: ServerContext, request: FilterRequest, decision: object) -> None:
    """kube-scheduler will go on asking."""


# --- the verbs ----------------------------------------------------------------------------------------------------


Req = TypeVar("Req", FilterRequest, PreemptRequest)
Dec = TypeVar("Dec", bound=DecisionLike)


@dataclass(frozen=True, slots=True)
class Verb(Generic[Req, Dec]):
    """The steps of one call."""

    name: schema.Verb
    read: Callable[[ServerContext, bytes], Req]
    """Raises RequestError."""
    decide: Callable[[ServerContext, Req, EvictionHistory | None, Deadline], Dec]
    """Raises what is wrong on our side. Without a moment: now."""
    encode: Callable[[Req, Dec], bytes]
    follow_up: Callable[[ServerContext, Req, Dec], None]
    """Once the decision is answered."""
    hands_off: Callable[[Req], bytes]
    """The answer that leaves all to kube-scheduler."""
    difference: Callable[[Req, Dec], str | None]
    """What the decision changes of what kube-scheduler does by itself; None: nothing."""
    capture: Callable[[Req, Dec], Capture]
    """What is kept of the decision."""
    say: Callable[[Req, Dec, str | None], None]
    """Log what was decided, and on which picture."""
    result: Callable[[Dec], str]
    """What the answer says, as it is counted (metrics.RESULTS)."""


VERBS: dict[str, Verb[Any, Any]] = {
    "filter": Verb(
        "filter",
        read_filter,
        decide_filter,
        encode_filter,
        _nothing_follows,
        passthrough.every_node,
        passthrough.filter_difference,
        lambda _, decision: capture_filter(decision),
        _say_filter,
        lambda decision: "fits" if decision.accepted else "nowhere",
    ),
    "prioritize": Verb(
        "prioritize",
        read_prioritize,
        decide_prioritize,
        lambda request, decision: encode_prioritize(request.nodes, decision.scores),
        _nothing_follows,
        passthrough.no_scores,
        passthrough.score_difference,
        lambda _, decision: capture_prioritize(decision),
        _say_prioritize,
        lambda _: "scored",
    ),
    "preempt": Verb(
        "preempt",
        read_preempt,
        decide_preempt,
        lambda _, decision: encode_preempt(decision.kept),
        _preempted,
        passthrough.as_offered,
        passthrough.preempt_difference,
        lambda request, decision: capture_preempt(decision, request.offers),
        _say_preempt,
        lambda decision: "evicted" if decision.kept else "vetoed",
    ),
}


def answer(
    verb: Verb[Req, Dec],
    service: ServerContext,
    body: bytes,
    moment: EvictionHistory | None = None,
    deadline: Deadline = NEVER,
) -> Answer:
    """What kube-scheduler is told: what was decided, unless the settings say otherwise. Raises RequestError only.

    `moment`: when it is; None: now. Where the deadline does not hold, nothing is decided.
    """
    request, began = verb.read(service, body), time.perf_counter()
    result = _result(verb, service, request, moment, deadline)
    milliseconds = (time.perf_counter() - began) * 1000
    offered = _offered(request)
    call = Call(service.decisions.next_id(verb.name), verb.name, request.pod, body, offered)
    taken = journal.take(service, call, result, lambda decision: verb.capture(request, decision), milliseconds)
    result = _followed_up(verb, service, request, result)
    if result.decision is not None:
        verb.say(request, result.decision, result.answer.picture)
    journal.put_away(service, taken, result)
    about = CallSummary(request.pod.metadata.namespace, request.pod.metadata.name, result.mode, offered, _kept(result))
    return replace(result.answer, id=call.id, about=about)


def _offered(request: FilterRequest | PreemptRequest) -> int:
    """How many nodes kube-scheduler offers."""
    return len(request.offers if isinstance(request, PreemptRequest) else request.nodes)


def _kept(result: Result[Any]) -> int:
    """How many nodes the decision accepts, scores or evicts from."""
    decision = result.decision
    if isinstance(decision, PreemptDecision):
        return len(decision.kept)
    if isinstance(decision, FilterDecision):
        return len(decision.accepted)
    return len(decision.scores) if isinstance(decision, PrioritizeDecision) else 0


def _result(
    verb: Verb[Req, Dec], service: ServerContext, request: Req, moment: EvictionHistory | None, deadline: Deadline
) -> Result[Dec]:
    settings = service.settings
    if settings.kill_switch is not None:
        veto = verb.name == "preempt" and settings.kill_switch == "Veto"
        return Result(Answer(passthrough.VETO if veto else verb.hands_off(request)), "handsOff")
    if settings.observing:
        return _observe(verb, service, request, moment, deadline)
    try:
        deadline.check()
        decision = verb.decide(service, request, moment, deadline)
        encoded = verb.encode(request, decision)
        deadline.check()
    except Exception as error:
        return Result(failure(verb.name, service, error), "failed", error=said(error))
    picture = summary(service.cache, service.source)
    return Result(Answer(encoded, 200, decision.not_evaluated, picture, _veto(decision)), "answered", decision)


def _veto(decision: object) -> str | None:
    return decision.why_nobody if isinstance(decision, PreemptDecision) and not decision.kept else None


def _observe(
    verb: Verb[Req, Dec], service: ServerContext, request: Req, moment: EvictionHistory | None, deadline: Deadline
) -> Result[Dec]:
    """Decide, and answer as if that had not been done, also where it fails."""
    try:
        deadline.check()
        decision = verb.decide(service, request, moment, deadline)
        difference = verb.difference(request, decision)
        deadline.check()
    except Exception as error:
        note_failure(verb.name, service, error)
        service.metrics.observed(verb.name, "failed")
        service.metrics.told(verb.name, "passed")
        return Result(Answer(verb.hands_off(request)), "failed", error=said(error))
    service.metrics.observed(verb.name, "same" if difference is None else "differs")
    if difference is not None:
        log.info("observe %s %r: the answer would have been: %s", verb.name, request.pod.key, difference)
    picture = summary(service.cache, service.source)
    return Result(Answer(verb.hands_off(request), 200, decision.not_evaluated, picture), "observed", decision)


def _followed_up(verb: Verb[Req, Dec], service: ServerContext, request: Req, result: Result[Dec]) -> Result[Dec]:
    """What is told in the end: if nothing can follow from a decision, it is none."""
    if result.mode != "answered" or result.decision is None:
        if result.mode != "failed":
            service.metrics.told(verb.name, "vetoed" if result.answer.body == passthrough.VETO else "passed")
        return result
    try:
        verb.follow_up(service, request, result.decision)
    except Exception as error:  # then the picture does not show what follows: better not to let it come about
        return Result(failure(verb.name, service, error), "failed", error=said(error))
    service.metrics.told(verb.name, verb.result(result.decision))
    return result


def on_failure(verb: str, service: ServerContext, error: Exception) -> Answer:
    """What is answered to a call that failed before its request was read."""
    answer = failure(verb, service, error)
    if verb == "preempt":
        journal.write_unread(service, "preempt", answer, said(error))
    if verb == "bind":
        journal.write_unread(service, "bind", answer, said(error))
    return answer
