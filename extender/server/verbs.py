"""What each verb does: bytes -> request -> snapshot -> engine -> guard -> bytes, and what is answered if that fails.

With the kill switch on it is bytes -> request -> bytes. In mode Observe all of it is done, and answered as if not.

What was answered is kept for people to look at (`server.decisions`) and recorded before anything follows from it.

Rule: nothing here knows HTTP. A RequestError is the sender's and goes up as it is; anything else is ours, is logged
once, and is answered by the failure rule of the verb.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from extender.cluster import binding
from extender.cluster.binding import BindResult
from extender.cluster.history import History
from extender.cluster.store import ClusterStore
from extender.core import engine, trace
from extender.core.capture import Capture, capture_filter, capture_preempt, capture_prioritize
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision, Working
from extender.core.moment import Moment
from extender.core.snapshot import Snapshot
from extender.errors import INTERNAL, ExtenderError, GuardError, NotReady
from extender.k8s.objects import Pod
from extender.server import hands_off
from extender.server.body import too_large
from extender.server.decisions import Decisions, Kept, Mode
from extender.server.errors import error_body
from extender.server.guard import guard_filter, guard_preempt, guard_scores
from extender.server.lifecycle import Lifecycle
from extender.server.metrics import Metrics
from extender.server.picture import NO_SOURCE, Source, summary
from extender.server.settings import LiveSettings, Settings
from extender.wire import (
    FilterRequest,
    PreemptRequest,
    PrioritizeRequest,
    decode_bind,
    decode_filter,
    decode_preempt,
    decode_prioritize,
    encode_bind,
    encode_filter,
    encode_preempt,
    encode_prioritize,
)

log = logging.getLogger(__name__)

AFTER_DEADLINE = 0.3
"""Seconds that a binding may take beyond its own deadline before nobody waits for it any more."""

MAX_GUARDED_TRIES = 3
"""How often the engine is asked anew, without the nodes that the guard rejected, before that counts as a failure."""


@dataclass(frozen=True, slots=True)
class Binder:
    """What binding a pod needs; the calls block, so they have threads of their own."""

    api: binding.Api
    timeout: float
    """Seconds for one pod, from the request to the last answer."""
    threads: ThreadPoolExecutor


class Recorder(Protocol):
    """Keeps calls to be replayed; see `server.recording`."""

    @property
    def is_on(self) -> bool: ...

    def start(self) -> None:
        """ExtenderError if it cannot be written where it should be."""

    def stop(self) -> None:
        """Everything is written when it returns."""

    def status(self) -> dict[str, Any]:
        """For people."""

    def note(
        self, key: str, verb: trace.Verb, body: bytes, status: int, answer: bytes, moment: Moment, settings: Settings, /
    ) -> None:
        """A call was answered, and nothing of what follows from that has changed the picture yet."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the verbs need, put together once."""

    store: ClusterStore
    configured: LiveSettings
    """Which settings are in effect."""
    source: Source = NO_SOURCE
    """Who keeps the store up to date."""
    binder: Binder | None = None
    """None: pods are not bound here."""
    max_body_names: int = 2 << 20
    max_body_full: int = 128 << 20
    metrics: Metrics = field(default_factory=Metrics)
    history: History = field(default_factory=History)
    decisions: Decisions = field(default_factory=lambda: Decisions(0, 0))
    recorder: Recorder | None = None
    lifecycle: Lifecycle = field(default_factory=Lifecycle)

    @property
    def settings(self) -> Settings:
        """The settings in effect now; they change between requests."""
        return self.configured.settings

    def moment(self) -> Moment:
        """When a decision is made, and what was approved before."""
        return self.history.moment(self.settings.profile.preemption.limits)

    def snapshot(self) -> Snapshot:
        """What decisions are made on; NotReady if there is no picture, or none that is true."""
        problem = self.source.problem()
        if problem is not None:
            raise NotReady(problem)
        snapshot = self.store.snapshot()
        if self.source.is_live:
            self.history.begin(snapshot)
        return snapshot

    def asked_for(self, pod: Pod) -> None:
        """kube-scheduler asks about the pod."""
        if self.source.is_live:
            self.store.assumed.asked_for(pod)

    def check_size(self, body: bytes, full: bool) -> None:
        """RequestTooLarge for a body that holds only node names and is larger than those may be."""
        if not full and len(body) > self.max_body_names:
            raise too_large(self.max_body_names)

    def note_not_evaluated(self, verb: str, pod: Pod, plugins: tuple[str, ...]) -> None:
        """Count and log that a decision leaves these plugins' part to kube-scheduler, whatever comes of the answer."""
        if plugins:
            self.metrics.not_evaluated(verb, plugins)
            log.info("%s %r: not evaluated, left to kube-scheduler: %s", verb, pod.key, ", ".join(plugins))


# --- decisions ----------------------------------------------------------------------------------------------------


def read_filter(service: Service, body: bytes) -> FilterRequest:
    """The pod and the nodes; RequestError if the body is none, or too large."""
    request = decode_filter(body)
    service.check_size(body, request.full)
    return request


def decide_filter(service: Service, request: FilterRequest, moment: Moment | None = None) -> FilterDecision:
    """Which of the offered nodes the pod can run on."""
    service.asked_for(request.pod)
    profile, moment = service.settings.profile, moment or service.moment()
    decision = engine.filter(service.snapshot(), request.pod, request.nodes, profile, moment)
    service.note_not_evaluated("filter", request.pod, decision.not_evaluated)
    guard_filter(request.nodes, decision)
    log.debug("filter %s: %d of %d nodes", request.pod.key, len(decision.accepted), len(request.nodes))
    return decision


def read_prioritize(service: Service, body: bytes) -> PrioritizeRequest:
    """The same as `/filter`'s."""
    request = decode_prioritize(body)
    service.check_size(body, request.full)
    return request


def decide_prioritize(service: Service, request: PrioritizeRequest, moment: Moment | None = None) -> PrioritizeDecision:
    """How good each of the offered nodes is, 0 to 10."""
    profile, moment = service.settings.profile, moment or service.moment()
    decision = engine.prioritize(service.snapshot(), request.pod, request.nodes, profile, moment)
    service.note_not_evaluated("prioritize", request.pod, decision.not_evaluated)
    guard_scores(request.nodes, decision.scores)
    log.debug("prioritize %s: %d nodes", request.pod.key, len(request.nodes))
    return decision


def read_preempt(_: Service, body: bytes) -> PreemptRequest:
    """The preemptor and what is offered; RequestError if the body is none."""
    return decode_preempt(body)


def decide_preempt(service: Service, request: PreemptRequest, moment: Moment | None = None) -> PreemptDecision:
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
            log.error("preempt %s: the guard rejects node %s: %s", request.pod.key, node, rule)
            offers.pop(node, None)
            rejected[node] = rule
        if result.kept or not decision.kept:
            said = {node: f"rejected by the last check ({rule})" for node, rule in rejected.items()}
            decided = replace(decision, kept=result.kept, dropped=decision.dropped | said, rejected=rejected)
            _log_preemption(service, request.pod, decided)
            return decided
    raise GuardError("every candidate node was rejected by the last check; the log says why")


def _log_preemption(service: Service, preemptor: Pod, decision: PreemptDecision) -> None:
    nodes = {candidate.node: [victim.key for victim in candidate.victims] for candidate in decision.kept}
    what = nodes or f"nobody: {decision.why_nobody}"
    log.info("preempt %r: %s; %s", preemptor.key, what, summary(service.store, service.source))


def _preempted(service: Service, request: PreemptRequest, decision: PreemptDecision) -> None:
    """Note what kube-scheduler will do now; with several nodes in the answer it chooses one of them itself."""
    if service.source.is_live and len(decision.kept) == 1:
        (chosen,) = decision.kept
        service.store.assumed.preempted(request.pod, chosen.node, chosen.victims)
        service.history.approved(request.pod, chosen.victims)


def _nothing_follows(service: Service, request: FilterRequest, decision: object) -> None:
    """kube-scheduler will go on asking."""


# --- the verbs ----------------------------------------------------------------------------------------------------


class _Decision(Protocol):
    @property
    def not_evaluated(self) -> tuple[str, ...]: ...
    @property
    def working(self) -> Working | None: ...


Req = TypeVar("Req", FilterRequest, PreemptRequest)
Dec = TypeVar("Dec", bound=_Decision)


@dataclass(frozen=True, slots=True)
class Verb(Generic[Req, Dec]):
    """The steps of one call."""

    name: trace.Verb
    read: Callable[[Service, bytes], Req]
    """Raises RequestError."""
    decide: Callable[[Service, Req, Moment | None], Dec]
    """Counts and logs what it decides; raises what is wrong on our side. Without a moment: now."""
    encode: Callable[[Req, Dec], bytes]
    follow_up: Callable[[Service, Req, Dec], None]
    """Once the decision is answered."""
    hands_off: Callable[[Req], bytes]
    """The answer that leaves all to kube-scheduler."""
    difference: Callable[[Req, Dec], str | None]
    """What the decision changes of what kube-scheduler does by itself; None: nothing."""
    capture: Callable[[Req, Dec], Capture]
    """What is kept of the decision."""


VERBS: dict[str, Verb[Any, Any]] = {
    "filter": Verb(
        "filter",
        read_filter,
        decide_filter,
        encode_filter,
        _nothing_follows,
        hands_off.every_node,
        hands_off.filter_difference,
        lambda _, decision: capture_filter(decision),
    ),
    "prioritize": Verb(
        "prioritize",
        read_prioritize,
        decide_prioritize,
        lambda request, decision: encode_prioritize(request.nodes, decision.scores),
        _nothing_follows,
        hands_off.no_scores,
        hands_off.score_difference,
        lambda _, decision: capture_prioritize(decision),
    ),
    "preempt": Verb(
        "preempt",
        read_preempt,
        decide_preempt,
        lambda _, decision: encode_preempt(decision.kept),
        _preempted,
        hands_off.as_offered,
        hands_off.preempt_difference,
        lambda request, decision: capture_preempt(decision, request.offers),
    ),
}


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


@dataclass(frozen=True, slots=True)
class _Result(Generic[Dec]):
    answer: Answer
    mode: Mode
    decision: Dec | None = None
    error: str | None = None


def answer(verb: Verb[Req, Dec], service: Service, body: bytes, moment: Moment | None = None) -> Answer:
    """What kube-scheduler is told: what was decided, unless the settings say otherwise. Raises RequestError only.

    `moment`: when it is; None: now.
    """
    request, began = verb.read(service, body), time.perf_counter()
    result = _result(verb, service, request, moment)
    _keep(verb, service, request, body, result, time.perf_counter() - began)
    if result.mode == "answered" and result.decision is not None:
        try:
            verb.follow_up(service, request, result.decision)
        except Exception as error:  # then the picture does not show what follows: better not to let it come about
            return on_failure(verb.name, service, error)
    return result.answer


def _result(verb: Verb[Req, Dec], service: Service, request: Req, moment: Moment | None) -> _Result[Dec]:
    settings = service.settings
    if settings.kill_switch is not None:
        veto = verb.name == "preempt" and settings.kill_switch == "Veto"
        return _Result(Answer(hands_off.VETO if veto else verb.hands_off(request)), "handsOff")
    if settings.observing:
        return _observe(verb, service, request, moment)
    try:
        decision = verb.decide(service, request, moment)
        encoded = verb.encode(request, decision)
    except Exception as error:
        return _Result(on_failure(verb.name, service, error), "failed", error=_said(error))
    picture = summary(service.store, service.source)
    return _Result(Answer(encoded, 200, decision.not_evaluated, picture, _veto(decision)), "answered", decision)


def _veto(decision: object) -> str | None:
    return decision.why_nobody if isinstance(decision, PreemptDecision) and not decision.kept else None


def _observe(verb: Verb[Req, Dec], service: Service, request: Req, moment: Moment | None) -> _Result[Dec]:
    """Decide, and answer as if that had not been done, also where it fails."""
    try:
        decision = verb.decide(service, request, moment)
        difference = verb.difference(request, decision)
    except Exception as error:
        _log_failure(verb.name, error)
        service.metrics.observed(verb.name, "failed")
        return _Result(Answer(verb.hands_off(request)), "failed", error=_said(error))
    service.metrics.observed(verb.name, "same" if difference is None else "differs")
    if difference is not None:
        log.info("observe %s %r: the answer would have been: %s", verb.name, request.pod.key, difference)
    picture = summary(service.store, service.source)
    return _Result(Answer(verb.hands_off(request), 200, decision.not_evaluated, picture), "observed", decision)


def _keep(
    verb: Verb[Req, Dec], service: Service, request: Req, body: bytes, result: _Result[Dec], seconds: float
) -> None:
    """For those who ask later. Whatever goes wrong with that must not cost the answer."""
    decisions, recorder = service.decisions, service.recorder
    try:
        number = decisions.next_id(verb.name)
        working = None if result.decision is None else result.decision.working
        moment = working.incoming.moment if working else service.moment()
        if recorder is not None and recorder.is_on:
            answered = result.answer
            recorder.note(number, verb.name, body, answered.status, answered.body, moment, service.settings)
        if decisions.are_kept:
            captured = None if result.decision is None else verb.capture(request, result.decision)
            picture = result.answer.picture or summary(service.store, service.source)
            profile = service.settings.profile
            decisions.keep(
                Kept(
                    id=number,
                    verb=verb.name,
                    now=moment.now,
                    milliseconds=seconds * 1000,
                    pod=request.pod,
                    profile=profile,
                    mode=result.mode,
                    picture=picture,
                    capture=captured,
                    error=result.error,
                )
            )
    except Exception:
        log.exception("%s %r: the decision could not be kept", verb.name, request.pod.key)


# --- /bind ----------------------------------------------------------------------------------------------------------


async def bind(service: Service, binder: Binder, body: bytes) -> bytes:
    """Bind the pod; the answer says why not if the API server does not say that it is bound."""
    ends = time.monotonic() + binder.timeout
    request = decode_bind(body)
    service.check_size(body, full=False)

    def work() -> BindResult:
        return binding.bind(binder.api, request, ends - time.monotonic())

    try:
        async with asyncio.timeout(binder.timeout + AFTER_DEADLINE):
            result = await asyncio.get_running_loop().run_in_executor(binder.threads, work)
    except TimeoutError:  # the thread goes on, and ends by its own timeouts
        result = BindResult("unknown", "not known whether the pod was bound: there was no end within bind.timeout")
    if result.outcome == "bound" and service.store.version:
        service.store.assumed.bound(request.pod_namespace, request.pod_name, request.pod_uid, request.node)
    service.metrics.bind(result.outcome)
    pod = f"{request.pod_namespace}/{request.pod_name}"
    log.info("bind %r to %r: %s after %d tries %r", pod, request.node, result.outcome, result.tries, result.error)
    return encode_bind(result.error)


# --- the failure rule ---------------------------------------------------------------------------------------------


def on_failure(verb: str, service: Service, error: Exception) -> Answer:
    """Log the error and say what is answered: `/filter` 503, `/prioritize` no scores, `/preempt` as configured, `/bind`
    200 with the error."""
    _log_failure(verb, error)
    if verb == "bind":
        return Answer(encode_bind(_said(error)))
    if verb == "prioritize":
        return Answer(hands_off.NO_SCORES)
    if verb == "preempt" and service.settings.on_preempt_failure == "Veto":
        return Answer(hands_off.VETO)
    return Answer(error_body(_said(error)), 503)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ExtenderError) else INTERNAL


def _log_failure(verb: str, error: Exception) -> None:
    if isinstance(error, ExtenderError):
        log.warning("%s failed: %s", verb, error)
    else:
        log.error("%s failed", verb, exc_info=error)
