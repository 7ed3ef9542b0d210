"""The guard: validate every answer before it is encoded, so that no bug elsewhere evicts a wrong pod or omits a node.

kube-scheduler trusts an extender: it deletes the victims of a /preempt answer without the eviction API. So the guard
checks each rule again on the snapshot, with as little of the engine's code as possible.

Rule: the guard repairs nothing. A candidate that breaks a rule is rejected and logged; a /filter or /prioritize answer
that breaks a rule raises GuardError.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import ge
from typing import Annotated

from msgspec import Meta, ValidationError, convert
from msgspec.json import Encoder

from extender.core.engine import Candidate, FilterDecision
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.preemption.protections import protections_of
from extender.core.profile import UPSTREAM, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import GuardError
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import Pod
from extender.k8s.priority import SYSTEM_CRITICAL_PRIORITY
from extender.k8s.well_known import MIRROR
from extender.server.guard.pdb_recount import importance, recount_budgets

_Scores = Sequence[Annotated[int, Meta(ge=0, le=10)]]
"""Type of valid scores: integers from 0 to extenderv1.MaxExtenderPriority."""

_ENCODER = Encoder()
"""JSON encoder to check many indexes: JSON distinguishes integers from `true` and `2.0`, and nothing is faster."""

_TERMINAL_PHASES = ("Succeeded", "Failed")
"""Phases of pods that kube-scheduler does not keep in its node infos."""

DUPLICATE_NODE = "DuplicateNode"
"""The only rule that compares candidates; `rules` returns the rules about one candidate."""


@dataclass(frozen=True, slots=True)
class GuardResult:
    """Candidates of a /preempt answer that passed the guard, and nodes whose candidates it rejected."""

    kept: tuple[Candidate, ...]
    rejected: dict[str, str]
    """Node -> name of the first rule that its candidate breaks."""


# --- /preempt -----------------------------------------------------------------------------------------------------


class GuardCase:
    """One candidate, and the data that the rules check it against."""

    def __init__(
        self,
        context: SchedulingContext,
        sent: SentCandidate | None,
        candidate: Candidate,
        pods_by_uid: Mapping[str, Pod],
        as_sent: bool,
    ) -> None:
        """`context`: inputs of the decision. `sent`: the sent candidate; None if kube-scheduler did not send the node.

        `pods_by_uid`: UID -> pod on the candidate's node; empty if the node is unknown. `as_sent`: whether the victims
        must be kube-scheduler's own.
        """
        self.context = context
        self.preemptor, self.snapshot, self.policy = context.pod, context.snapshot, context.profile.preemption
        self.sent, self.candidate, self.pods_by_uid, self.as_sent = sent, candidate, pods_by_uid, as_sent
        self.sent_uids = sent.victims if sent is not None else ()
        deletions = context.history.recent_deletions
        self.deleted_uids = {uid for uid, node in deletions.items() if node == candidate.node} if deletions else set()
        """UIDs of pods on the node that were recently deleted or began to terminate; they count as gone."""
        self.uids = [pod.metadata.uid for pod in candidate.victims]
        self.victims = [pods_by_uid[uid] for uid in self.uids if uid in pods_by_uid]
        """The victims from the snapshot, without victims that are not on the node, which VictimUnknown rejects."""


def guard_preempt(
    snapshot: Snapshot,
    preemptor: Pod,
    sent: Mapping[str, SentCandidate],
    candidates: Iterable[Candidate],
    *,
    as_sent: Collection[str] = (),
    profile: Profile = UPSTREAM,
    history: EvictionHistory = NO_HISTORY,
) -> GuardResult:
    """Return the candidates that break no rule, in their order, and the first rule that each other candidate breaks.

    `as_sent`: nodes that are answered with kube-scheduler's own victims. On these nodes the victims must be the sent
    victims, and kube-scheduler's count of PDB violations is accepted, too.
    """
    context, candidates = SchedulingContext(preemptor, snapshot, profile, (), history), tuple(candidates)
    count_per_node = Counter(candidate.node for candidate in candidates)
    kept, rejected = [], {}
    for candidate in candidates:
        pods_by_uid = pods_by_uid_on(snapshot, candidate.node)
        case = GuardCase(context, sent.get(candidate.node), candidate, pods_by_uid, candidate.node in as_sent)
        broken = next((name for name, holds in rules() if not holds(case)), None)
        # The answer is a map by node, so of two candidates for a node one would replace the other.
        if count_per_node[candidate.node] > 1:
            broken = DUPLICATE_NODE
        if broken is None:
            kept.append(candidate)
        else:
            rejected[candidate.node] = broken
    return GuardResult(tuple(kept), rejected)


def pods_by_uid_on(snapshot: Snapshot, node: str) -> dict[str, Pod]:
    """Return UID -> pod for the pods that kube-scheduler has on the node; empty if the node is unknown."""
    if node not in snapshot.node_row:
        return {}
    # Pods from a file may lack a UID; kube-scheduler could not find a victim without one.
    pods = (pod for pod in snapshot.pods_on(node) if pod.metadata.uid and pod.spec.node_name == node)
    return {pod.metadata.uid: pod for pod in pods if pod.status.phase not in _TERMINAL_PHASES}


def _may_preempt(case: GuardCase) -> bool:
    """Return whether the preemptor is waiting for a node, may preempt, and is not its own victim."""
    metadata, spec, phase = case.preemptor.metadata, case.preemptor.spec, case.preemptor.status.phase
    waits = not (spec.node_name or spec.scheduling_gates or metadata.deletion_timestamp or phase in _TERMINAL_PHASES)
    return waits and spec.preemption_policy != "Never" and metadata.uid not in case.uids


def _adds_no_system_pod(case: GuardCase) -> bool:
    """Return whether kube-scheduler chose every victim that is a mirror, terminating or system-critical pod."""
    return not any(_is_system_pod(victim) for victim in case.victims if victim.metadata.uid not in case.sent_uids)


def _is_system_pod(pod: Pod) -> bool:
    return (
        MIRROR in (pod.metadata.annotations or {})
        or pod.metadata.deletion_timestamp is not None
        or pod.priority >= SYSTEM_CRITICAL_PRIORITY
    )


def _counts_violations_correctly(case: GuardCase) -> bool:
    claimed = case.candidate.num_pdb_violations
    if case.as_sent and case.sent is not None and claimed == case.sent.num_pdb_violations:
        return True
    # The potential victims: unprotected pods of lower priority; policies that may change victims protect system pods.
    keeps_system_pods = case.policy.may_change_victims
    potential = (
        pod
        for uid, pod in case.pods_by_uid.items()
        if pod.priority < case.preemptor.priority
        and not (keeps_system_pods and uid not in case.sent_uids and _is_system_pod(pod))
        and not any(protections_of(case.context, pod))
    )
    counted = recount_budgets(case.snapshot, case.policy).violations(potential, frozenset(case.uids))
    return claimed == counted


def _respects_strict_budgets(case: GuardCase) -> bool:
    """Return whether no victim violates a budget, if the policy is Strict, whatever count kube-scheduler sent."""
    if case.policy.disruption_budgets != "Strict":
        return True
    return recount_budgets(case.snapshot, case.policy).violations(case.victims, frozenset(case.uids)) == 0


def _is_within_max_victims(case: GuardCase) -> bool:
    max_victims = case.policy.limits.max_victims
    evicted = [victim for victim in case.victims if victim.metadata.deletion_timestamp is None]
    return max_victims is None or len(evicted) <= max_victims


def _is_most_important_first(case: GuardCase) -> bool:
    order = list(map(importance, case.victims))
    return order == sorted(order)


def _is_as_sent(case: GuardCase) -> bool:
    """Return whether the victims are the sent victims where required; recently deleted victims may be missing."""
    sent, answered = set(case.sent_uids), set(case.uids)
    return not case.as_sent or sent - case.deleted_uids <= answered <= sent


def rules() -> tuple[tuple[str, Callable[[GuardCase], bool]], ...]:
    """Return (name of the rule, predicate that candidates must satisfy) in order; a rule may rely on earlier rules.

    The names are metric labels.
    """
    # This is a function instead of a constant, because `make mutants` mutates only functions.
    return (
        ("NodeNotSent", lambda case: case.sent is not None or case.policy.candidates == "AllNodes"),
        ("NodeUnknown", lambda case: case.candidate.node in case.snapshot.node_row),
        ("PreemptorMustNotPreempt", _may_preempt),
        ("SentVictimUnknown", lambda case: case.pods_by_uid.keys() | case.deleted_uids >= set(case.sent_uids)),
        ("NoVictims", lambda case: bool(case.uids) or (case.sent is not None and not case.sent.victims)),
        ("VictimUnknown", lambda case: all(uid in case.pods_by_uid for uid in case.uids)),
        ("DuplicateVictim", lambda case: len(set(case.uids)) == len(case.uids)),
        ("VictimNotLower", lambda case: all(victim.priority < case.preemptor.priority for victim in case.victims)),
        ("ProtectedVictimAdded", _adds_no_system_pod),
        ("VictimProtected", lambda case: not any(any(protections_of(case.context, one)) for one in case.victims)),
        ("TooManyVictims", _is_within_max_victims),
        ("NotMostImportantFirst", _is_most_important_first),
        ("NotAsSent", _is_as_sent),
        ("ViolationsNotAnInteger", lambda case: type(case.candidate.num_pdb_violations) is int),
        ("ViolationsMiscounted", _counts_violations_correctly),
        ("BudgetViolated", _respects_strict_budgets),
    )


# --- /filter and /prioritize ---------------------------------------------------------------------------------------


def guard_filter(nodes: Sequence[str], decision: FilterDecision) -> None:
    """Raise GuardError unless each sent node, and no other, is in exactly one of the three sets, in the sent order."""
    accepted, failed, unresolvable = decision.accepted, decision.failed, decision.unresolvable
    if not failed and not unresolvable:
        # The usual case: kube-scheduler has filtered the nodes, so most calls accept all of them.
        if _ENCODER.encode(accepted) != _every_index(len(nodes)):
            raise GuardError(_filter_error(nodes, decision))
    elif (
        set(map(type, accepted)) - {int}
        or not failed.keys().isdisjoint(unresolvable.keys())
        or accepted != _not_rejected(nodes, failed, unresolvable)
    ):
        raise GuardError(_filter_error(nodes, decision))


@lru_cache(maxsize=2)
def _every_index(count: int) -> bytes:
    """Return the indexes of `count` nodes as JSON."""
    return _ENCODER.encode(list(range(count)))


def _not_rejected(nodes: Sequence[str], *rejected: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the indexes of all nodes that no map rejects; None if a rejected node was not sent."""
    rejected_count = sum(map(len, rejected))
    sent_nodes = set(nodes)
    if not all(names.keys() <= sent_nodes for names in rejected):
        return None
    if rejected_count == len(sent_nodes):  # all nodes are rejected, because the maps are disjoint
        return ()
    passed = sent_nodes.difference(*rejected)
    return tuple([index for index, node in enumerate(nodes) if node in passed])


def _filter_error(nodes: Sequence[str], decision: FilterDecision) -> str:
    """Return the error message for an invalid filter decision."""
    accepted, failed, unresolvable = decision.accepted, decision.failed.keys(), decision.unresolvable.keys()
    if any(type(index) is not int or not 0 <= index < len(nodes) for index in accepted):
        return "the filter answer has a node that was not sent"
    if any(map(ge, accepted, islice(accepted, 1, None))):
        return "the filter answer changes the order of the nodes"
    passed, rejected = {nodes[index] for index in accepted}, failed | unresolvable
    if passed & rejected or failed & unresolvable:
        return "the filter answer has a node in two sets"
    if passed | rejected != set(nodes):
        return "the filter answer lacks a sent node, or has one that was not sent"
    return "the filter answer accepts a duplicate node only once"


def guard_scores(nodes: Sequence[str], scores: Sequence[int]) -> None:
    """Raise GuardError unless every sent node has one integer score from 0 to 10."""
    if len(scores) != len(nodes):
        raise GuardError("the prioritize answer does not have one score per sent node")
    try:
        convert(scores, _Scores)
    except ValidationError:
        raise GuardError("the prioritize answer has a score that is not an integer from 0 to 10") from None
