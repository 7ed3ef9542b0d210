"""What each verb does: bytes -> request -> snapshot -> engine -> guard -> bytes, and what is answered if that fails.

Rule: nothing here knows HTTP. A RequestError is the sender's and goes up as it is; anything else is ours, is logged
once, and is answered by the failure rule of the verb.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from extender.cluster import binding
from extender.cluster.binding import BindResult
from extender.cluster.store import ClusterStore
from extender.core import engine
from extender.core.engine import Candidate
from extender.core.profile import Profile
from extender.core.snapshot import Snapshot
from extender.errors import INTERNAL, ExtenderError, GuardError, NotReady
from extender.k8s.objects import Pod
from extender.server.body import too_large
from extender.server.guard import guard_filter, guard_preempt, guard_scores
from extender.server.metrics import Metrics
from extender.server.picture import NO_SOURCE, Source, summary
from extender.wire import (
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


@dataclass(frozen=True, slots=True)
class Service:
    """What the verbs need, put together once."""

    store: ClusterStore
    profile: Profile
    source: Source = NO_SOURCE
    """Who keeps the store up to date."""
    binder: Binder | None = None
    """None: pods are not bound here."""
    on_preempt_failure: Literal["Error", "Veto"] = "Error"
    max_body_names: int = 2 << 20
    max_body_full: int = 128 << 20
    metrics: Metrics = field(default_factory=Metrics)

    def snapshot(self) -> Snapshot:
        """What decisions are made on; NotReady if there is no picture, or none that is true."""
        problem = self.source.problem()
        if problem is not None:
            raise NotReady(problem)
        return self.store.snapshot()

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


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    not_evaluated: tuple[str, ...]
    """As in the decision that it comes from."""


# --- the verbs ----------------------------------------------------------------------------------------------------


def filter_nodes(service: Service, body: bytes) -> Answer:
    """Which of the offered nodes the pod can run on."""
    request = decode_filter(body)
    service.check_size(body, request.full)
    service.asked_for(request.pod)
    decision = engine.filter(service.snapshot(), request.pod, request.nodes, service.profile)
    service.note_not_evaluated("filter", request.pod, decision.not_evaluated)
    guard_filter(request.nodes, decision)
    log.debug("filter %s: %d of %d nodes", request.pod.key, len(decision.accepted), len(request.nodes))
    return Answer(encode_filter(request, decision), decision.not_evaluated)


def prioritize(service: Service, body: bytes) -> Answer:
    """How good each of the offered nodes is, 0 to 10."""
    request = decode_prioritize(body)
    service.check_size(body, request.full)
    decision = engine.prioritize(service.snapshot(), request.pod, request.nodes, service.profile)
    service.note_not_evaluated("prioritize", request.pod, decision.not_evaluated)
    guard_scores(request.nodes, decision.scores)
    log.debug("prioritize %s: %d nodes", request.pod.key, len(request.nodes))
    return Answer(encode_prioritize(request.nodes, decision.scores), decision.not_evaluated)


def preempt(service: Service, body: bytes) -> Answer:
    """Where which pods should be evicted; GuardError if the engine's candidates do not get past the guard."""
    request = decode_preempt(body)
    service.asked_for(request.pod)
    snapshot, offers = service.snapshot(), dict(request.offers)
    for attempt in range(MAX_GUARDED_TRIES):
        decision = engine.preempt(snapshot, request.pod, offers, service.profile)
        if attempt == 0:  # the same at every try: one request, one note
            service.note_not_evaluated("preempt", request.pod, decision.not_evaluated)
            service.metrics.offers_unknown(decision.dropped.values())
        result = guard_preempt(snapshot, request.pod, offers, decision.kept, as_offered=decision.as_offered)
        for node, rule in result.rejected.items():
            service.metrics.guard_rejected(rule)
            log.error("preempt %s: the guard rejects node %s: %s", request.pod.key, node, rule)
            offers.pop(node, None)
        if result.kept or not decision.kept:
            _preempted(service, request.pod, result.kept)
            return Answer(encode_preempt(result.kept), decision.not_evaluated)
    raise GuardError("every candidate node was rejected by the last check; the log says why")


def _preempted(service: Service, preemptor: Pod, kept: tuple[Candidate, ...]) -> None:
    """Note what kube-scheduler will do now; with several nodes in the answer it chooses one of them itself."""
    nodes = {candidate.node: [victim.key for victim in candidate.victims] for candidate in kept}
    log.info("preempt %r: %s; %s", preemptor.key, nodes or "nobody", summary(service.store, service.source))
    if service.source.is_live and len(kept) == 1:
        service.store.assumed.preempted(preemptor, kept[0].node, kept[0].victims)


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

NO_SCORES = b"[]"
VETO = encode_preempt(())

Verb = Callable[[Service, bytes], Answer]


@dataclass(frozen=True, slots=True)
class Failure:
    """What is answered when a verb fails on our side: an answer with status 200, or an error."""

    answer: bytes | None
    status: int = 503


def on_failure(verb: str, service: Service, error: Exception) -> Failure:
    """Log the error and say what is answered: `/filter` 503, `/prioritize` no scores, `/preempt` as configured, `/bind`
    200 with the error."""
    if isinstance(error, ExtenderError):
        log.warning("%s failed: %s", verb, error)
    else:
        log.error("%s failed", verb, exc_info=error)
    if verb == "bind":
        return Failure(encode_bind(str(error) if isinstance(error, ExtenderError) else INTERNAL))
    if verb == "prioritize":
        return Failure(NO_SCORES)
    if verb == "preempt" and service.on_preempt_failure == "Veto":
        return Failure(VETO)
    return Failure(None)
