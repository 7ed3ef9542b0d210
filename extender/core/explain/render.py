"""Tell a decision: from what was kept of it to the shape that people and programs read.

Rule: nothing is decided anew; what is shown was compared, counted or said when the decision was made. The one thing
that is worked out later is why pods are protected, from the same objects at the same moment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from msgspec.structs import replace

from extender.core.engine import SPECIAL
from extender.core.explain.ranking_report import flags_on, keys_of, loses_by, ranking_of, shown_keys
from extender.core.explain.record import (
    EVICTABLE,
    NAMED,
    PROTECTED,
    VICTIM,
    VIOLATING,
    Asked,
    Capture,
    FilterCapture,
    PreemptCapture,
    PrioritizeCapture,
    Tried,
)
from extender.core.explain.schema import (
    Amounts,
    BudgetShown,
    NodeShown,
    Outcome,
    PodShown,
    Ranking,
    Role,
    RunningPod,
    VerdictShown,
)
from extender.core.framework.status import FITS, Code, Status
from extender.core.preemption.dry_run import NAMED_OF_EQUALS, REPRIEVE, WAYS
from extender.core.preemption.protections import is_special, reasons
from extender.core.profile import UPSTREAM, Profile
from extender.k8s import requests
from extender.k8s.objects import Pod
from extender.k8s.time import SECOND

AFTER_EVICTION = "the pod would fit after an eviction; scored by what that would cost"
NO_EVICTION = "the pod does not fit, and no eviction that is allowed would change that"
"""Why nodes have no score of the plugins."""


PUT_BACK = (REPRIEVE, NAMED_OF_EQUALS)
"""How victims were found where the order in which pods were put back tells it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a capture has to say."""

    nodes: list[NodeShown]
    ranking: Ranking | None = None
    highest: int | None = None


def tell(capture: Capture, *, node: str | None = None, every_pod: bool = True) -> Told:
    """Everything, or of one node only; that node's pods, or those of all nodes if wanted."""
    if isinstance(capture, FilterCapture):
        nodes = [one for one in _filtered(capture) if node in (None, one.name)]
        return Told(nodes)
    if isinstance(capture, PrioritizeCapture):
        nodes = [one for one in _scored(capture) if node in (None, one.name)]
        return Told(nodes, highest=capture.highest)
    found = _candidates_and_others(capture, capture.tried, node, every_pod=every_pod) if capture.tried else ()
    nodes = [*found, *(one for one in _untried(capture) if node in (None, one.name))]
    return Told(nodes, ranking_of(capture))


# --- the pod and the rules --------------------------------------------------------------------------------------------


def incoming_pod(pod: Pod) -> PodShown:
    """The pod that is to be scheduled."""
    return _shown(pod, requests.incoming_requests(pod))


def _shown(pod: Pod, amounts: Mapping[str, int]) -> PodShown:
    return PodShown(key=pod.key, uid=pod.metadata.uid, priority=pod.priority, requests=dict(amounts))


def policies(profile: Profile) -> list[str]:
    """Keys of the policies that are not kube-scheduler's, with their values."""
    upstream, policy = UPSTREAM.preemption, profile.preemption
    found = list(_differences(policy, upstream))
    if policy.limits != upstream.limits:
        found += [f"limits.{one}" for one in _differences(policy.limits, upstream.limits)]
    if profile.keep_candidates != UPSTREAM.keep_candidates:
        found.append(f"keepCandidates: {profile.keep_candidates or 'All'}")
    return found


def _differences(these: Any, those: Any) -> Iterator[str]:
    for field in fields(these):
        value = getattr(these, field.name)
        if value != getattr(those, field.name) and field.name != "limits":
            yield f"{_camel(field.name)}: {_value(field.name, value)}"


_DURATIONS = ("preempt_after", "cooldown", "attempts_within")


def _value(name: str, value: Any) -> str:
    if name in _DURATIONS:
        return f"{value / SECOND:g}s"
    if name == "protections":
        return ", ".join(dict.fromkeys(protection.name for protection in value))
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


# --- /filter ----------------------------------------------------------------------------------------------------------


def _filtered(capture: FilterCapture) -> Iterator[NodeShown]:
    for name, verdict, helped in zip(capture.names, capture.verdicts.each(), capture.helped.tolist(), strict=True):
        outcome: Outcome = "accepted"
        if verdict.code != Code.SUCCESS:
            outcome = "failed" if helped else "unresolvable"
        yield NodeShown(name=name, outcome=outcome, why=verdict.message, filter=_verdict(verdict))


def _verdict(verdict: Status) -> VerdictShown:
    return VerdictShown(code=verdict.code.text, plugin=verdict.plugin, reasons=list(verdict.reasons))


# --- /prioritize ------------------------------------------------------------------------------------------------------


def _scored(capture: PrioritizeCapture) -> Iterator[NodeShown]:
    place_of = {row: place for place, row in enumerate(capture.scored.tolist())}
    plugins = {name: values.tolist() for name, values in capture.plugins.items()}
    for name, score, row in zip(capture.names, capture.scores, capture.rows.tolist(), strict=True):
        place = place_of.get(row)
        if place is None:
            yield NodeShown(name=name, outcome="unscored", score=score, why=AFTER_EVICTION if score else NO_EVICTION)
            continue
        own = {plugin: values[place] for plugin, values in plugins.items()}
        yield NodeShown(name=name, outcome="scored", score=score, total=sum(own.values()), plugins=own)


# --- /preempt: nodes --------------------------------------------------------------------------------------------------


def _candidates_and_others(
    capture: PreemptCapture, tried: Tried, only: str | None, *, every_pod: bool
) -> Iterator[NodeShown]:
    """The nodes that were tried, or one of them: candidates best first, then the others by name."""
    ranked, names = tried.ranked.candidates.tolist(), [node.metadata.name for node in tried.nodes]
    answered = {candidate.node: [victim.key for victim in candidate.victims] for candidate in capture.decision.kept}
    offered = frozenset(capture.offered)
    others = sorted(set(range(len(names))) - set(ranked), key=names.__getitem__)
    for place, node in [*enumerate(ranked), *((None, node) for node in others)]:
        name = names[node]
        if only in (None, name):
            show_pods = every_pod or name == only
            yield _node(capture, tried, node, place, answered.get(name), name in offered, show_pods)


def _node(
    capture: PreemptCapture,
    tried: Tried,
    node: int,
    place: int | None,
    answered: list[str] | None,
    is_offered: bool,
    show_pods: bool,
) -> NodeShown:
    """`place`: among the candidates, best first; `answered`: the victims in the answer, if it is in there."""
    name, criteria = tried.nodes[node].metadata.name, capture.asked.incoming.profile.preemption.ranking
    outcome = _outcome(capture, tried, node, is_candidate=place is not None, is_answered=answered is not None)
    victims, way = _ranks_of(tried, node, VICTIM), int(tried.ways[node])
    budgets = _charged(tried, node, victims)
    shown = NodeShown(
        name=name,
        outcome=outcome,
        offered=is_offered,
        why=capture.decision.dropped.get(name) or _why(tried, node, outcome, budgets),
        filter=_verdict(tried.filter.of(node)),
        emptied=_verdict(tried.emptied[node]) if node in tried.emptied else None,
        rank=None if place is None else place + 1,
        keys=[] if place is None else [keys_of(of_one, place) for of_one in tried.ranked.keys],
        shown=[] if place is None else shown_keys(capture, tried, place),
        loses_by=None if place is None else loses_by(criteria, tried, place),
        victims=[tried.on[node].pods[k].key for k in victims] if answered is None else answered,
        violations=int(tried.violations[node]) if victims else 0,
        chosen_by=WAYS[way] if victims and way != REPRIEVE else "",
        counts=_counts(capture, tried, node),
        budgets=budgets,
    )
    return _with_pods(shown, capture, tried, node) if show_pods else shown


def _with_pods(shown: NodeShown, capture: PreemptCapture, tried: Tried, node: int) -> NodeShown:
    """With every pod, and what they take together."""
    pods = list(_pods_on(capture, tried, node))
    allocatable = requests.allocatable(tried.nodes[node].status.allocatable)
    with_pods: NodeShown = replace(
        shown,
        allocatable=_of_interest(capture.asked, allocatable),
        used=_of_interest(capture.asked, _sum(pods)),
        freed=_of_interest(capture.asked, _sum([pod for pod in pods if pod.role == "victim"])),
        nominated=list(_nominated(capture, shown.name)),
        pods=pods,
    )
    return with_pods


def _why(tried: Tried, node: int, outcome: Outcome, budgets: Sequence[BudgetShown]) -> str:
    """Of a node about which kube-scheduler did not ask."""
    if outcome == "ruledOut":
        broken = [budget.name for budget in budgets if budget.after < 0]
        return f"would break {', '.join(broken)}" if broken else "a policy forbids to evict its victims"
    return tried.emptied[node].message if node in tried.emptied else ""


def _outcome(capture: PreemptCapture, tried: Tried, node: int, *, is_candidate: bool, is_answered: bool) -> Outcome:
    if tried.nodes[node].metadata.name in capture.decision.rejected:
        return "rejected"
    if is_answered:
        return "chosen"
    if is_candidate:
        return "beaten"
    flags = flags_on(tried, node)
    if not (flags & EVICTABLE).any():
        return "noVictims"
    if (flags & VICTIM).any():
        return "ruledOut"
    return "noRoom" if node in tried.emptied else "leftOut"


def _ranks_of(tried: Tried, node: int, flag: int) -> list[int]:
    """Places among the node's pods of those that have the flag."""
    ranks: list[int] = np.flatnonzero(flags_on(tried, node) & flag).tolist()
    return ranks


def _counts(capture: PreemptCapture, tried: Tried, node: int) -> dict[Role, int]:
    """How many pods have which role: as `_role` of each, without looking at each."""
    flags, own = flags_on(tried, node), capture.asked.pod.priority
    victims, evictable = (int(np.count_nonzero(flags & flag)) for flag in (VICTIM, EVICTABLE))
    spared = [k for k in _ranks_of(tried, node, PROTECTED) if not flags[k] & EVICTABLE]
    protected = sum(tried.on[node].pods[k].priority < own for k in spared)
    counts: dict[Role, int] = {
        "victim": victims,
        "reprieved": evictable - victims,
        "protected": protected,
        "kept": len(flags) - evictable - protected,
    }
    return {role: count for role, count in counts.items() if count}


def _charged(tried: Tried, node: int, victims: Sequence[int]) -> list[BudgetShown]:
    """The budgets that the victims of a node charge."""
    charged = Counter(budget for k in victims for budget in tried.on[node].charged[k].tolist() if budget >= 0)
    shown = [
        BudgetShown(name=tried.budgets[budget], allowed=int(tried.allowed[budget]), charged=count)
        for budget, count in charged.items()
    ]
    return sorted(shown, key=lambda budget: budget.name)


def _nominated(capture: PreemptCapture, node: str) -> Iterator[PodShown]:
    for pod in capture.asked.incoming.nominees:
        if pod.status.nominated_node_name == node:
            yield _shown(pod, requests.incoming_requests(pod))


def _of_interest(asked: Asked, amounts: Mapping[str, int]) -> Amounts:
    """cpu, memory, pods, and what else the incoming pod wants."""
    wanted = ("cpu", "memory", "pods", *sorted(requests.incoming_requests(asked.pod)))
    return {name: amounts[name] for name in dict.fromkeys(wanted) if name in amounts}


def _sum(pods: Sequence[RunningPod]) -> Amounts:
    total = Counter[str](pods=len(pods))
    for pod in pods:
        total.update(pod.requests)
    return dict(total)


def _untried(capture: PreemptCapture) -> Iterator[NodeShown]:
    """Offered nodes on which nothing was tried."""
    seen = {node.metadata.name for node in capture.tried.nodes} if capture.tried else set()
    for name in sorted({*capture.offered, *capture.decision.dropped} - seen):
        verdict = capture.untried.get(name)
        outcome: Outcome = "leftOut"
        if name in capture.decision.rejected:
            outcome = "rejected"
        elif capture.decision.vetoed is not None:
            outcome = "vetoed"
        elif verdict is not None and verdict == FITS:
            outcome = "fits"
        why = capture.decision.dropped.get(name, "")
        yield NodeShown(name=name, outcome=outcome, why=why, filter=_verdict(verdict) if verdict else None)


# --- /preempt: the pods of a node -------------------------------------------------------------------------------------


def _pods_on(capture: PreemptCapture, tried: Tried, node: int) -> Iterator[RunningPod]:
    """Most important first."""
    flags, on = flags_on(tried, node).tolist(), tried.on[node]
    order = _order(flags) if tried.ways[node] in PUT_BACK else {}
    for place, (pod, flag) in enumerate(zip(on.pods, flags, strict=True)):
        role = _role(pod, flag, capture.asked)
        yield RunningPod(
            key=pod.key,
            uid=pod.metadata.uid,
            role=role,
            priority=pod.priority,
            started=pod.status.start_time,
            order=order.get(place),
            violating=bool(flag & VIOLATING),
            budgets=[tried.budgets[row] for row in on.charged[place].tolist() if row >= 0],
            named=bool(flag & NAMED),
            leaving=pod.metadata.deletion_timestamp is not None,
            protected_by=_protected_by(capture.asked, pod, flag) if role == "protected" else [],
            requests=requests.running_usage(pod).requests,
        )


def _order(flags: Sequence[int]) -> dict[int, int]:
    """Place of a pod -> its turn to be put back: those whose loss breaks a budget come first."""
    taken_off = [place for place, flag in enumerate(flags) if flag & EVICTABLE]
    in_turn = sorted(taken_off, key=lambda place: not flags[place] & VIOLATING)
    return {place: number for number, place in enumerate(in_turn, 1)}


def _role(pod: Pod, flag: int, asked: Asked) -> Role:
    if flag & VICTIM:
        return "victim"
    if flag & EVICTABLE:
        return "reprieved"
    return "protected" if flag & PROTECTED and pod.priority < asked.pod.priority else "kept"


def _protected_by(asked: Asked, pod: Pod, flag: int) -> list[str]:
    found = reasons(asked.incoming, pod)
    is_chosen = bool(flag & NAMED)
    return list((*found, SPECIAL) if is_special(pod) and not is_chosen else found)
