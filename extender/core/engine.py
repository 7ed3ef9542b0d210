"""The three questions that kube-scheduler asks: filter(), prioritize(), preempt(). Snapshot in, decision out.

Rule: one decision reads one snapshot and nothing else; the same snapshot and request give the same decision.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, repeat
from typing import Self

import numpy as np

from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.framework.constraint import Rows, SchedulingContext
from extender.core.framework.filter import FilterRun, Statuses, not_evaluated, run_filter_plugins, scheduling_context
from extender.core.framework.filter_cache import FilterCache
from extender.core.framework.plugins import INDEXES
from extender.core.framework.score import Scores, score
from extender.core.framework.status import Code
from extender.core.preemption.candidates import find_candidates, preemption_would_help, with_victims
from extender.core.preemption.criteria import best_of, ranking_keys
from extender.core.preemption.dry_run import KUBE_SCHEDULER, NAMED_OF_EQUALS, DryRun, PolicyVeto
from extender.core.preemption.eligibility import NEVER_PREEMPTS, eligible
from extender.core.preemption.node_pods import NodePods
from extender.core.preemption.potential_victims import in_other_order, potential_victims
from extender.core.preemption.protections import is_special, protects, reasons
from extender.core.preemption.ranking import dense_rank
from extender.core.preemption.rate_limits import veto
from extender.core.preemption.victim_resolver import VictimResolver
from extender.core.profile import UPSTREAM, Profile
from extender.core.snapshot.arrays import BoolArray, IntArray, Taken, columns, count_per_node, mask_of
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import UnknownNode
from extender.k8s.objects import ObjectMeta, Pod

MAX_EXTENDER_SCORE = 10
"""extender/v1 MaxExtenderPriority."""

_LOWEST_FITTING = 6
"""Where some nodes need preemption, those that fit get this score or more, and the others less."""


MOST_REASONS = 3
"""How many reasons are given why nobody is evicted."""

UNKNOWN_NODE = "node is not in the cluster picture"
UNKNOWN_VICTIM = "an offered victim is not known on this node"
NO_HELP = "no victims would make the pod fit"


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision was made from: good for as long as its snapshot is not changed (see `core.explain.record`)."""

    incoming: SchedulingContext
    rows: Rows
    """Node rows that were asked about; of `/preempt` the offered ones that are known."""
    filtering: FilterRun | None = None
    """None: nothing was filtered, because the pod may evict nobody."""
    verdicts: Statuses | None = None
    """`/filter`: of the offered nodes."""
    helped: BoolArray | None = None
    """`/filter`: [offered] where eviction would make room."""
    scores: Scores | None = None
    """`/prioritize`: of the offered nodes that fit."""
    run: DryRun | None = None
    """Preemption on the nodes that were tried."""
    named: BoolArray | None = None
    """[k, node] of `run`: victims that kube-scheduler named."""


@dataclass(frozen=True, slots=True)
class FilterDecision:
    """Every offered node is in exactly one of the three."""

    accepted: tuple[int, ...]
    """Places in the offered list, in its order."""
    failed: dict[str, str]
    """Node -> message, where evicting lower-priority pods would help."""
    unresolvable: dict[str, str]
    """Node -> message, where it would not."""
    not_evaluated: tuple[str, ...]
    """Filter plugins of kube-scheduler that have a say about this pod but are not modelled."""
    working: DecisionContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PrioritizeDecision:
    scores: tuple[int, ...]
    """0-10 per offered node."""
    not_evaluated: tuple[str, ...]
    working: DecisionContext | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SentCandidate:
    """What kube-scheduler would evict from one node."""

    victims: tuple[str, ...]
    """Pod UIDs."""
    num_pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What to evict from one node."""

    node: str
    victims: tuple[Pod, ...]
    """Most important first."""
    num_pdb_violations: int


@dataclass(frozen=True, slots=True)
class PreemptDecision:
    kept: tuple[Candidate, ...]
    """Best first."""
    dropped: dict[str, str]
    """Offered node -> why it is not in the answer."""
    not_evaluated: tuple[str, ...]
    as_offered: frozenset[str]
    """Nodes where plugins that are not evaluated have a say: kube-scheduler's own victims are kept there."""
    vetoed: str | None = None
    """Why the pod may evict nobody now, and until when."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Node -> the rule that its candidate broke, where somebody else looked the candidates over; then it is dropped."""
    working: DecisionContext | None = field(default=None, compare=False, repr=False)

    @property
    def why_nobody(self) -> str:
        """Of an empty answer: what holds for all nodes, or the reasons that most of them have."""
        if self.vetoed is not None:
            return self.vetoed
        said = Counter(self.dropped.values()).most_common(MOST_REASONS)
        return "; ".join(f"{count} nodes: {reason}" if count > 1 else f"1 node: {reason}" for reason, count in said)


def prepare(snapshot: Snapshot, profile: Profile = UPSTREAM) -> Snapshot:
    """Compute now what the first request on the snapshot would otherwise wait for; returns the snapshot."""
    for index in INDEXES:
        snapshot.index(index)
    anybody = scheduling_context(snapshot, Pod(ObjectMeta()), profile)
    grouped = potential_victims(anybody)
    if profile.preemption.disruption_budgets == "Strict":
        in_other_order(anybody, None, grouped)
    snapshot.index(NodePods, profile.preemption).on(anybody.layout, np.arange(len(snapshot.nodes)))
    _ = snapshot.allocatable, snapshot.taints, snapshot.name_order
    return snapshot


def _undecided(incoming: SchedulingContext, rows: Rows) -> tuple[tuple[str, ...], BoolArray]:
    """The filter plugins whose verdict on some of `rows` is kube-scheduler's alone; and [node] where it is."""
    masks = not_evaluated(incoming)
    anywhere = np.logical_or.reduce([*masks.values()])
    return tuple(name for name, mask in masks.items() if mask[rows].any()), anywhere


def filter(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> FilterDecision:
    """Which of the offered nodes take the pod. Raises UnknownNode if one is not in the snapshot."""
    rows = _rows(snapshot, nodes)
    filtering = snapshot.index(FilterCache).filtering(scheduling_context(snapshot, pod, profile, history))
    left, _ = _undecided(filtering.incoming, rows)
    fits = filtering.codes[rows] == Code.SUCCESS
    verdicts, helped = filtering.grouped(rows), _helped(filtering, rows)
    messages = [verdict.message for verdict in verdicts.distinct]

    def said(offered: BoolArray) -> dict[str, str]:
        if not offered.any():
            return {}
        which = verdicts.which[offered].tolist()
        return dict(zip(compress(nodes, offered.tolist()), map(messages.__getitem__, which), strict=True))

    accepted = tuple(np.flatnonzero(fits).tolist())
    working = DecisionContext(filtering.incoming, rows, filtering, verdicts, helped)
    return FilterDecision(accepted, said(helped), said(~fits & ~helped), left, working)


def _rows(snapshot: Snapshot, nodes: Sequence[str]) -> Rows:
    try:
        return snapshot.index(FilterCache).rows(nodes)
    except KeyError:
        unknown = [name for name in nodes if name not in snapshot.node_row]
        raise UnknownNode(f"{len(unknown)} of {len(nodes)} nodes are not in the cluster picture") from None


def _with_code(filtering: FilterRun, rows: Rows, code: Code) -> Rows:
    """Those of `rows` that have the code, each once, ascending."""
    return np.flatnonzero(mask_of(rows, len(filtering.codes)) & (filtering.codes == code))


def _helped(filtering: FilterRun, rows: Rows) -> BoolArray:
    """[row]: would evicting lower-priority pods make room?"""
    helped, tried = np.zeros(len(filtering.codes), np.bool_), _to_help(filtering, rows)
    if len(tried):
        helped[tried] = preemption_would_help(filtering.incoming, filtering.checks, tried)
    return helped[rows]


def _to_help(filtering: FilterRun, rows: Rows) -> Rows:
    """Those of `rows` where eviction may help, each once, ascending; none if the pod may evict nobody."""
    tried = _with_code(filtering, rows, Code.UNSCHEDULABLE)
    if not len(tried) or not eligible(filtering)[0] or veto(filtering.incoming) is not None:
        return tried[:0]
    return tried


def prioritize(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, history: EvictionHistory = NO_HISTORY
) -> PrioritizeDecision:
    """How good each offered node is, 0-10. Raises UnknownNode if one is not in the snapshot.

    If all fit, the weighted plugin total as a share of the best possible. If some need preemption, those that fit
    are 6-10, those 1-5 by the preemption ranking, and nodes that cannot be helped 0.
    """
    rows = _rows(snapshot, nodes)
    filtering = snapshot.index(FilterCache).filtering(scheduling_context(snapshot, pod, profile, history))
    left, _ = _undecided(filtering.incoming, rows)
    fitting = _with_code(filtering, rows, Code.SUCCESS)
    result = np.zeros(len(filtering.codes), np.int64)
    scores = score(filtering.incoming, fitting)
    floor = 0 if (filtering.codes[rows] == Code.SUCCESS).all() else _LOWEST_FITTING
    if len(fitting):
        result[fitting] = floor + scores.total * (MAX_EXTENDER_SCORE - floor) // max(scores.highest, 1)
    tried, run = _to_help(filtering, rows), None
    if len(tried):
        run = find_candidates(filtering.incoming, filtering.checks, tried)
        places = np.flatnonzero(run.candidate)
        result[run.rows[places]] = _by_standing(dense_rank(ranking_keys(run, places)), floor)
    working = DecisionContext(filtering.incoming, rows, filtering, scores=scores, run=run)
    return PrioritizeDecision(tuple(result[rows].tolist()), left, working)


def _by_standing(standings: IntArray, floor: int) -> IntArray:
    """Best candidate 5, the others evenly down to 1; equal candidates equal."""
    return floor - 1 - standings * (floor - 1) // max(len(standings), 1)


def preempt(
    snapshot: Snapshot,
    pod: Pod,
    offers: Mapping[str, SentCandidate],
    profile: Profile,
    history: EvictionHistory = NO_HISTORY,
) -> PreemptDecision:
    """The best of the offered nodes, or of all, with the victims that our own dry run finds there.

    On a node where a plugin that is not modelled has a say, our reprieve could spare a pod that must go:
    kube-scheduler's own victims are kept there, ranked all the same.
    """
    offered = _Offered.of(snapshot, offers)
    incoming, rows = scheduling_context(snapshot, pod, profile, history), offered.rows
    left, undecided = _undecided(incoming, rows)
    vetoed = NEVER_PREEMPTS if pod.spec.preemption_policy == "Never" else veto(incoming)
    if vetoed is not None:
        dropped = dict.fromkeys(offers, vetoed)
        return PreemptDecision((), dropped, left, frozenset(), vetoed, working=DecisionContext(incoming, rows))
    filtering = run_filter_plugins(incoming)
    tried = _to_try(filtering, rows, undecided, offered.dropped)
    run = find_candidates(incoming, filtering.checks, tried, offered.victims if protects(profile.preemption) else None)
    named = offered.on(run)
    run = _prefer_scheduler_victims(run, named)
    if left:
        theirs = np.flatnonzero(undecided[run.rows])
        run = with_victims(run, theirs, _as_offered(run, named)[:, theirs], KUBE_SCHEDULER)
    run = _drop_unrequested_system_victims(run, named)
    best = _best(run, named, profile.keep_candidates)
    violations, names = run.violations, snapshot.node_names
    kept = tuple(
        Candidate(names[run.rows[place]], run.victims_on(place), int(violations[place])) for place in best.tolist()
    )
    dropped = offered.dropped | _not_tried(filtering, rows, tried)
    dropped |= _beaten(run, offered, [candidate.node for candidate in kept])
    as_offered = frozenset(compress(offered.names, undecided[rows].tolist()))
    working = DecisionContext(incoming, rows, filtering, run=run, named=named)
    return PreemptDecision(kept, dropped, left, as_offered, working=working)


def _to_try(filtering: FilterRun, rows: Rows, undecided: BoolArray, dropped: Collection[str]) -> Rows:
    """Offered nodes where eviction may help as far as we can say; with AllNodes all where we can say that it may.

    Not where kube-scheduler knows of pods that we do not (`dropped`).
    """
    codes, node_row = filtering.codes, filtering.incoming.snapshot.node_row
    offered = mask_of(rows, len(codes))
    offered &= (codes == Code.UNSCHEDULABLE) | (undecided & (codes != Code.UNRESOLVABLE))
    if filtering.incoming.profile.preemption.candidates == "Offered":
        return np.flatnonzero(offered)
    others = (codes == Code.UNSCHEDULABLE) & ~undecided
    others[[node_row[name] for name in dropped if name in node_row]] = False
    return np.flatnonzero(offered | others)


@dataclass(frozen=True, slots=True)
class _Offered:
    """What kube-scheduler offers, as far as the snapshot knows it."""

    names: list[str]
    """Nodes with offers that may be answered."""
    rows: Rows
    """Of these."""
    dropped: dict[str, str]
    """Offers that name a node or a victim that the snapshot does not hold: one wrong UID fails a whole answer."""
    victims: BoolArray
    """[pod]: named as a victim of its own node."""

    @classmethod
    def of(cls, snapshot: Snapshot, offers: Mapping[str, SentCandidate]) -> Self:
        names = list(offers)
        nodes = np.fromiter(map(snapshot.node_row.get, names, repeat(-1)), np.int64, len(names))
        uids = [offer.victims for offer in offers.values()]
        there, answerable = nodes >= 0, np.zeros(len(names), np.bool_)
        if not there.all():
            uids = list(compress(uids, there.tolist()))
        rows = nodes[there]
        answerable[there], found = snapshot.index(VictimResolver).of(rows.tolist(), uids)
        dropped = {names[place]: UNKNOWN_VICTIM for place in np.flatnonzero(there & ~answerable)}
        dropped |= {names[place]: UNKNOWN_NODE for place in np.flatnonzero(~there)}
        victims = mask_of(found, len(snapshot.pod_node))
        return cls(list(compress(names, answerable.tolist())), nodes[answerable], dropped, victims)

    def on(self, run: DryRun) -> BoolArray:
        """[k, node] of a dry run."""
        pods = run.pods
        found: BoolArray = self.victims[pods] & (pods >= 0)
        return found


def _not_tried(filtering: FilterRun, rows: Rows, tried: Rows) -> dict[str, str]:
    """Why those of the offered nodes are not in the answer that were not tried."""
    names = filtering.incoming.snapshot.node_names
    rows = rows[~mask_of(tried, len(filtering.codes))[rows]]
    return {
        names[row]: verdict.message or "the pod fits without evicting anyone"
        for row, verdict in zip(rows.tolist(), filtering.verdicts(rows), strict=True)
    }


def _as_offered(run: DryRun, named: BoolArray) -> BoolArray:
    """kube-scheduler's victims as [k, node]; a node with one that may not be evicted has none at all."""
    wrong = (named & ~run.grouped.evictable.mask).any(axis=0)
    return named & ~wrong


def _prefer_scheduler_victims(run: DryRun, named: BoolArray) -> DryRun:
    """Where two pods may take each other's place, let the one go that kube-scheduler named.

    It may not know the other one any more, and one UID that it does not know fails the whole answer.
    """
    unnamed, left_out = run.victims & ~named, named & ~run.victims & run.grouped.evictable.mask
    mixed = np.flatnonzero(unnamed.any(axis=0) & left_out.any(axis=0) & run.candidate)
    equal = _with_equals(run, mixed, unnamed, left_out)
    if not equal:
        return run
    victims, ways = run.victims.copy(), run.ways.copy()
    for place in equal:
        spared = np.flatnonzero(named[:, place] & ~victims[:, place]).tolist()
        for k in np.flatnonzero(victims[:, place] & ~named[:, place]).tolist():
            other = next((one for one in spared if run.interchangeable(place, k, one)), None)
            if other is not None:
                victims[[k, other], place] = False, True
                spared.remove(other)
                ways[place] = NAMED_OF_EQUALS
    return replace(run, victims=victims, ways=ways)


def _with_equals(run: DryRun, places: IntArray, some: BoolArray, others: BoolArray) -> list[int]:
    """Those of the places where a pod of the one [k, node] is as important as one of the others."""
    running = run.snapshot.pod_table
    one, other = (run.taken_on(places, columns(mask, places)) for mask in (some, others))

    def importance(taken: Taken) -> Iterator[tuple[int, int, int]]:
        """With the place, of each."""
        priority, start = running.priority[taken.pods], running.start[taken.pods]
        return zip(taken.places.tolist(), priority.tolist(), start.tolist(), strict=True)

    equal = set(importance(one)).intersection(importance(other))
    return sorted({int(places[nth]) for nth, _, _ in equal})


def _drop_unrequested_system_victims(run: DryRun, named: BoolArray) -> DryRun:
    """Not where a pod would go that only kube-scheduler may choose; where policies choose, they leave those out."""
    if protects(run.incoming.profile.preemption):
        return run
    places = np.flatnonzero(run.candidate)
    added = run.taken_on(places, columns(run.victims & ~named, places))
    pods = run.snapshot.pods
    special = [
        place for pod, place in zip(added.pods.tolist(), added.places.tolist(), strict=True) if is_special(pods[pod])
    ]
    if not special:
        return run
    nodes = mask_of(places[special], len(run.rows))
    barrier = PolicyVeto(nodes, lambda _, places: [f"would evict {SPECIAL}"] * len(places))
    return replace(run, barriers=(*run.barriers, barrier))


def _best(run: DryRun, named: BoolArray, limit: int | None) -> IntArray:
    """Places of the best candidates in order."""
    places = np.flatnonzero(run.candidate)
    return best_of(run, places, limit, then=then_by(run, named, places))


def then_by(run: DryRun, named: BoolArray, places: IntArray) -> tuple[IntArray, IntArray]:
    """Of candidates that cost the same, those first whose victims kube-scheduler named; then by name."""
    return count_per_node(run.victims & ~named)[places], run.snapshot.name_order[run.rows[places]]


BEATEN = "another node is the better candidate"

SPECIAL = "a mirror pod, system-critical or leaving already, and not chosen by kube-scheduler"

_FEW = 3
"""Of so many pods of a node is said why they may not be evicted, …"""

_MOST_NODES = 100
"""… and on no more nodes than these: who reads of more?"""


def _beaten(run: DryRun, offered: _Offered, kept: Iterable[str]) -> dict[str, str]:
    """Why the offered nodes that were tried are not in the answer."""
    place_of = np.full(len(run.snapshot.nodes), -1)
    place_of[run.rows] = np.arange(len(run.rows))
    places = place_of[offered.rows]
    tried = places >= 0
    names, places = list(compress(offered.names, tried.tolist())), places[tried]
    dropped = dict.fromkeys(names, BEATEN)
    others = np.flatnonzero(~run.candidate[places])
    explained = _MOST_NODES if protects(run.incoming.profile.preemption) else 0
    verdicts = run.verdicts(places[others])
    for number, (nth, verdict) in enumerate(zip(others.tolist(), verdicts, strict=True)):
        name = names[nth]
        dropped[name] = verdict.message or NO_HELP
        if number < explained and not run.makes_room[places[nth]]:
            dropped[name] += _not_evictable(run, offered, name)
    for name in kept:
        dropped.pop(name, None)
    return dropped


def _not_evictable(run: DryRun, offered: _Offered, node: str) -> str:
    """Which pods of lower priority a policy protects, with all reasons."""
    lower = (pod for pod in run.snapshot.pods_on(node) if pod.priority < run.incoming.pod.priority)
    protected = [(pod, why) for pod in lower if (why := _protected_by(run, offered, pod))]
    shown = [f"{pod.key} is {'; '.join(why)}" for pod, why in protected[:_FEW]]
    more = [f"{len(protected) - _FEW} more"] if len(protected) > _FEW else []
    return f"; not evictable: {', '.join(shown + more)}" if protected else ""


def _protected_by(run: DryRun, offered: _Offered, pod: Pod) -> tuple[str, ...]:
    found, row = reasons(run.incoming, pod), run.snapshot.running_row(pod)
    is_chosen = row is not None and offered.victims[row]
    return (*found, SPECIAL) if is_special(pod) and not is_chosen else found
