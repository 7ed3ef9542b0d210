"""The last look at every answer before it becomes bytes, so that no mistake elsewhere evicts a pod or loses a node.

kube-scheduler checks next to nothing of an answer: it deletes the victims that it is told, without the eviction API.
Each rule below is checked against the cluster picture anew, with as little as possible of the engine's own code.

Rule: nothing is repaired here. A candidate that breaks a rule is left out, and said so; a filter or prioritize
answer that breaks one is no answer (GuardError).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import ge

from extender.core.engine import Candidate, FilterDecision, SentCandidate
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import SchedulingContext
from extender.core.preemption.protections import SYSTEM_CRITICAL, protects, reasons
from extender.core.profile import UPSTREAM, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import GuardError
from extender.k8s.annotations import MIRROR
from extender.k8s.objects import Pod
from extender.server.guard.pdb_recount import importance, recount

SCORES = frozenset(range(11))
"""Up to extenderv1.MaxExtenderPriority."""

_TERMINAL_PHASES = ("Succeeded", "Failed")

NODE_TWICE = "NodeTwice"
"""The one rule about all candidates together; RULES has those about each."""


@dataclass(frozen=True, slots=True)
class GuardResult:
    kept: tuple[Candidate, ...]
    rejected: dict[str, str]
    """node -> name of the first rule that it breaks."""


# --- /preempt -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate with all that the rules compare it with."""

    incoming: SchedulingContext
    """The preemptor, and the policies and the time by which it was decided."""
    offer: SentCandidate | None
    candidate: Candidate
    present: Mapping[str, Pod]
    """UID -> pod that runs on the candidate's node; empty if we do not know the node."""
    as_offered: bool

    @property
    def policy(self) -> PreemptionPolicy:
        return self.incoming.profile.preemption

    @property
    def preemptor(self) -> Pod:
        return self.incoming.pod

    @property
    def snapshot(self) -> Snapshot:
        return self.incoming.snapshot

    @property
    def victims(self) -> list[Pod]:
        return [self.present[uid] for uid in self.uids]

    @property
    def uids(self) -> list[str]:
        return [pod.metadata.uid for pod in self.candidate.victims]

    @property
    def offered_uids(self) -> Sequence[str]:
        return self.offer.victims if self.offer else ()

    @property
    def added(self) -> list[Pod]:
        """Victims that the scheduler did not choose itself."""
        return [self.present[uid] for uid in self.uids if uid not in self.offered_uids]


def guard_preempt(
    snapshot: Snapshot,
    preemptor: Pod,
    offers: Mapping[str, SentCandidate],
    candidates: Iterable[Candidate],
    *,
    as_offered: Collection[str] = (),
    profile: Profile = UPSTREAM,
    moment: EvictionHistory = NO_HISTORY,
) -> GuardResult:
    """The candidates that break no rule, in their order, and what the others break.

    `as_offered`: nodes that the engine could not judge (`not_evaluated`), where it answers what the scheduler chose.
    There the victims must be those offered, and the scheduler's count of violations is as good as ours.
    """
    incoming, offered = SchedulingContext(preemptor, snapshot, profile, (), moment), tuple(candidates)
    times = Counter(candidate.node for candidate in offered)
    kept, rejected = [], {}
    for candidate in offered:
        offer, present = offers.get(candidate.node), running_on(snapshot, candidate.node)
        case = Case(incoming, offer, candidate, present, candidate.node in as_offered)
        broken = NODE_TWICE if times[candidate.node] > 1 else first_broken(case)
        if broken is None:
            kept.append(candidate)
        else:
            rejected[candidate.node] = broken
    return GuardResult(tuple(kept), rejected)


def first_broken(case: Case) -> str | None:
    """The name of the first rule that the candidate breaks, None if it keeps them all."""
    return next((name for name, holds in RULES if not holds(case)), None)


def running_on(snapshot: Snapshot, node: str) -> dict[str, Pod]:
    """UID -> pod, of those that kube-scheduler could find on the node; empty if the node is unknown."""
    if node not in snapshot.node_row:
        return {}
    pods = (pod for pod in snapshot.pods_on(node) if pod.metadata.uid and pod.spec.node_name == node)
    return {pod.metadata.uid: pod for pod in pods if pod.status.phase not in _TERMINAL_PHASES}


def _most_important_first(case: Case) -> bool:
    order = [importance(case.present[uid]) for uid in case.uids]
    return order == sorted(order)


def _was_offered(case: Case) -> bool:
    return case.offer is not None or case.policy.candidates == "AllNodes"


def _no_protected_added(case: Case) -> bool:
    return not any(map(_is_special, case.added))


def _is_special(pod: Pod) -> bool:
    return (
        MIRROR in (pod.metadata.annotations or {})
        or pod.metadata.deletion_timestamp is not None
        or pod.priority >= SYSTEM_CRITICAL
    )


def _evictable(case: Case) -> Iterator[Pod]:
    """Pods of the node that the preemptor may evict."""
    for uid, pod in case.present.items():
        is_left_out = protects(case.policy) and uid not in case.offered_uids and _is_special(pod)
        if pod.priority < case.preemptor.priority and not is_left_out and not reasons(case.incoming, pod):
            yield pod


def _violations_counted_right(case: Case) -> bool:
    claimed = case.candidate.num_pdb_violations
    if case.as_offered and case.offer is not None and claimed == case.offer.num_pdb_violations:
        return True
    counted = recount(case.snapshot, case.policy).violations(_evictable(case), frozenset(case.uids))
    return claimed == counted


def _keeps_budgets(case: Case) -> bool:
    """Of Strict budgets, whatever the scheduler says of what it offered."""
    if case.policy.disruption_budgets != "Strict":
        return True
    return recount(case.snapshot, case.policy).violations(case.victims, frozenset(case.uids)) == 0


def _is_within_limit(case: Case) -> bool:
    most = case.policy.limits.max_victims
    return most is None or sum(victim.metadata.deletion_timestamp is None for victim in case.victims) <= most


RULES: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("NodeNotOffered", _was_offered),
    ("NodeUnknown", lambda case: case.candidate.node in case.snapshot.node_row),
    ("PreemptorMustNotPreempt", lambda case: case.preemptor.spec.preemption_policy != "Never"),
    ("OfferedVictimUnknown", lambda case: all(uid in case.present for uid in case.offered_uids)),
    ("NoVictims", lambda case: bool(case.uids) or (case.offer is not None and not case.offer.victims)),
    ("VictimUnknown", lambda case: all(uid in case.present for uid in case.uids)),
    ("VictimTwice", lambda case: len(set(case.uids)) == len(case.uids)),
    ("VictimNotLower", lambda case: all(case.present[u].priority < case.preemptor.priority for u in case.uids)),
    ("ProtectedVictimAdded", _no_protected_added),
    ("VictimProtected", lambda case: not any(reasons(case.incoming, victim) for victim in case.victims)),
    ("TooManyVictims", _is_within_limit),
    ("NotMostImportantFirst", _most_important_first),
    ("NotAsOffered", lambda case: not case.as_offered or set(case.uids) == set(case.offered_uids)),
    ("ViolationsNotAnInteger", lambda case: type(case.candidate.num_pdb_violations) is int),
    ("ViolationsMiscounted", _violations_counted_right),
    ("BudgetBroken", _keeps_budgets),
)
"""Rule -> whether a candidate keeps it. In order: a rule may rely on those before it."""


# --- /filter and /prioritize ---------------------------------------------------------------------------------------


def guard_filter(nodes: Sequence[str], decision: FilterDecision) -> None:
    """GuardError unless each offered node is in exactly one of the three sets, none is invented, the order kept."""
    accepted, failed, unresolvable = decision.accepted, decision.failed, decision.unresolvable
    if (
        set(map(type, accepted)) - {int}
        or not failed.keys().isdisjoint(unresolvable.keys())
        or accepted != _not_rejected(nodes, failed, unresolvable)
    ):
        raise GuardError(_what_is_wrong(nodes, decision))


def _not_rejected(nodes: Sequence[str], *rejected: Mapping[str, str]) -> tuple[int, ...] | None:
    """Places of these; None if some node is rejected that was not offered. No node is rejected twice."""
    how_many = sum(map(len, rejected))
    if how_many == 0:
        return tuple(range(len(nodes)))
    offered = set(nodes)
    if not all(names.keys() <= offered for names in rejected):
        return None
    if how_many == len(offered):
        return ()
    passed = offered.difference(*rejected)
    return tuple([place for place, node in enumerate(nodes) if node in passed])


def _what_is_wrong(nodes: Sequence[str], decision: FilterDecision) -> str:
    """Of a decision that is."""
    accepted, failed, unresolvable = decision.accepted, decision.failed.keys(), decision.unresolvable.keys()
    if any(type(place) is not int or not 0 <= place < len(nodes) for place in accepted):
        return "the filter answer holds a node that was not offered"
    if any(map(ge, accepted, islice(accepted, 1, None))):
        return "the filter answer does not keep the order of the nodes"
    passed, rejected = {nodes[place] for place in accepted}, failed | unresolvable
    if passed & rejected or failed & unresolvable:
        return "the filter answer holds a node in two sets"
    if passed | rejected != set(nodes):
        return "the filter answer lacks an offered node, or holds one that was not offered"
    return "the filter answer accepts a node once that was offered twice"


def guard_scores(nodes: Sequence[str], scores: Sequence[int]) -> None:
    """GuardError unless every offered node has one whole score from 0 to 10."""
    if len(scores) != len(nodes):
        raise GuardError("the prioritize answer does not score each offered node once")
    if set(map(type, scores)) - {int} or set(scores) - SCORES:
        raise GuardError("the prioritize answer holds a score that is not a whole number from 0 to 10")
