"""Pass-through answers, as for the kill switch and mode Observe, and how decisions differ from them.

A pass-through answer changes nothing for kube-scheduler: /filter accepts every node, /prioritize scores none, and
/preempt returns kube-scheduler's own candidates with their victims.

Rule: nothing here needs the cluster cache.
"""

from collections.abc import Callable, Mapping
from typing import Any

from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.server.scheduler.result import Answer
from extender.utilities.text import join_names
from extender.wire.decode import FilterRequest, PreemptRequest
from extender.wire.encode import encode_filter, encode_preempt, encode_sent_candidates

NO_SCORES = Answer(b"[]", "asSent")
"""Answer to /prioritize that leaves kube-scheduler's own scores unchanged."""

NO_VICTIMS = Answer(encode_preempt(()), "noVictims")
"""Answer to /preempt without nodes, so that no pod is evicted."""

MAX_LISTED_NODES = 10
"""Maximum number of node names in a log line."""


def accept_every_node(request: FilterRequest) -> Answer:
    """Accept every node of the request, in the form of the request; whole nodes are returned byte for byte."""
    return Answer(encode_filter(request, range(len(request.nodes)), {}, {}), "asSent")


def as_sent(request: PreemptRequest) -> Answer:
    """Return the candidates as kube-scheduler sent them, with its own victims."""
    return Answer(encode_sent_candidates(request.sent), "asSent") if request.sent else NO_VICTIMS


ANSWERS: Mapping[str, Callable[[Any], Answer]] = {
    "filter": accept_every_node,
    "prioritize": lambda _: NO_SCORES,
    "preempt": as_sent,
}
"""Verb -> function that returns the pass-through answer to a request."""


def filter_difference(request: FilterRequest, decision: FilterDecision) -> str | None:
    """Describe the nodes that would have been rejected; None if there are none."""
    accepted = set(decision.accepted)
    rejected = [name for index, name in enumerate(request.nodes) if index not in accepted]
    if not rejected:
        return None
    return f"{len(rejected)} of {len(request.nodes)} nodes rejected: {_join_quoted(rejected)}"


def score_difference(request: FilterRequest, decision: PrioritizeDecision) -> str | None:
    """Describe the nodes that would have been preferred; None if all scores are equal."""
    best, worst = max(decision.scores, default=0), min(decision.scores, default=0)
    if best == worst:
        return None
    preferred = [name for name, score in zip(request.nodes, decision.scores, strict=True) if score == best]
    return f"scores from {worst} to {best}, the best on {_join_quoted(preferred)}"


def preempt_difference(request: PreemptRequest, decision: PreemptDecision) -> str | None:
    """Describe how the best candidate differs from the sent candidates; None if it was sent with the same victims.

    kube-scheduler might still have chosen a different candidate.
    """
    if not decision.kept:
        return "a veto" if request.sent else None
    first = decision.kept[0]
    sent_candidate = request.sent.get(first.node)
    if sent_candidate is not None and set(sent_candidate.victims) == {victim.metadata.uid for victim in first.victims}:
        return None
    return f"on node {first.node!r} the victims {[victim.key for victim in first.victims]}"


DIFFERENCES: Mapping[str, Callable[[Any, Any], str | None]] = {
    "filter": filter_difference,
    "prioritize": score_difference,
    "preempt": preempt_difference,
}
"""Verb -> function that describes how a decision differs from the pass-through answer; None if it does not."""


def _join_quoted(names: list[str]) -> str:
    return join_names([repr(name) for name in names[:MAX_LISTED_NODES]], MAX_LISTED_NODES, len(names))
