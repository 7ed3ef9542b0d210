"""What is answered where nothing may be decided, and what a decision would have changed.

With the kill switch on, or in mode Observe, kube-scheduler is told what leaves all to itself: every node that it
offered, no scores, its own victims.

Rule: nothing here needs a picture of the cluster.
"""

from collections.abc import Sequence

from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.wire import FilterRequest, PreemptRequest, PrioritizeRequest, encode_filter, encode_offers, encode_preempt

NO_SCORES = b"[]"
VETO = encode_preempt(())

MOST_NAMES = 10
"""How many nodes a line of the log names."""


# --- answers --------------------------------------------------------------------------------------------------------


def every_node(request: FilterRequest) -> bytes:
    """All that was offered is accepted, in the form of the request; whole nodes byte for byte."""
    return encode_filter(request, FilterDecision(tuple(range(len(request.nodes))), {}, {}, ()))


def no_scores(_: PrioritizeRequest) -> bytes:
    """Nothing is added to kube-scheduler's own scores."""
    return NO_SCORES


def as_offered(request: PreemptRequest) -> bytes:
    """kube-scheduler's own victims on every node that it offered."""
    return encode_offers(request.offers)


# --- differences ----------------------------------------------------------------------------------------------------


def filter_difference(request: FilterRequest, decision: FilterDecision) -> str | None:
    """Which nodes would have been rejected; None: none."""
    accepted = set(decision.accepted)
    rejected = [name for place, name in enumerate(request.nodes) if place not in accepted]
    if not rejected:
        return None
    return f"{len(rejected)} of {len(request.nodes)} nodes rejected: {_some(rejected)}"


def score_difference(request: PrioritizeRequest, decision: PrioritizeDecision) -> str | None:
    """Which nodes would have been preferred; None if all scores are the same."""
    best, worst = max(decision.scores, default=0), min(decision.scores, default=0)
    if best == worst:
        return None
    preferred = [name for name, score in zip(request.nodes, decision.scores, strict=True) if score == best]
    return f"scores from {worst} to {best}, the best on {_some(preferred)}"


def preempt_difference(request: PreemptRequest, decision: PreemptDecision) -> str | None:
    """What kube-scheduler could not have done by itself; None if the first node is one of its offers as it is.

    Which of its offers kube-scheduler would have chosen is not compared.
    """
    if not decision.kept:
        return "a veto" if request.offers else None
    first = decision.kept[0]
    offer = request.offers.get(first.node)
    if offer is not None and set(offer.victims) == {victim.metadata.uid for victim in first.victims}:
        return None
    return f"on node {first.node!r} the victims {[victim.key for victim in first.victims]}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{list(names[:MOST_NAMES])}{more}"
