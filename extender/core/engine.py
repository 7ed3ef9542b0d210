"""The three questions that kube-scheduler asks: filter(), prioritize(), preempt(). Snapshot in, decision out.

Rule: one decision reads one snapshot and nothing else; the same snapshot and request give the same decision.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from extender.core.checks import Incoming, Rows
from extender.core.choosing import choose, with_victims
from extender.core.columns import BoolArray, IntArray, how_many
from extender.core.criteria import best_of, costs
from extender.core.filtering import Filtering, meet, not_evaluated, run_filters
from extender.core.limits import veto
from extender.core.moment import TIMELESS, Moment
from extender.core.plugins import INDEXES
from extender.core.policies import is_special, protects, reasons
from extender.core.preemption import (
    KUBE_SCHEDULER,
    NAMED_OF_EQUALS,
    NEVER_PREEMPTS,
    Barrier,
    DryRun,
    eligible,
    groups,
    in_other_order,
)
from extender.core.profile import UPSTREAM, Profile
from extender.core.ranking import standing
from extender.core.scoring import Scores, score
from extender.core.snapshot import Snapshot
from extender.core.verdict import Code, Verdict
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
class Working:
    """What a decision was made from: good for as long as its snapshot is not changed (see `core.capture`)."""

    incoming: Incoming
    rows: Rows
    """Node rows that were asked about; of `/preempt` the offered ones that are known."""
    filtering: Filtering | None = None
    """None: nothing was filtered, because the pod may evict nobody."""
    verdicts: Sequence[Verdict] = ()
    """`/filter`: of the offered nodes that fail, in their order."""
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
    working: Working | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PrioritizeDecision:
    scores: tuple[int, ...]
    """0-10 per offered node."""
    not_evaluated: tuple[str, ...]
    working: Working | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Offer:
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
    working: Working | None = field(default=None, compare=False, repr=False)

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
    anybody = meet(snapshot, Pod(ObjectMeta()), profile)
    grouped = groups(anybody)
    if profile.preemption.disruption_budgets == "Strict":
        in_other_order(anybody, None, grouped)
    _ = snapshot.allocatable, snapshot.taints, snapshot.name_order
    return snapshot


def _undecided(incoming: Incoming, rows: Rows) -> tuple[tuple[str, ...], BoolArray]:
    """The filter plugins whose verdict on some of `rows` is kube-scheduler's alone; and [node] where it is."""
    masks = not_evaluated(incoming)
    anywhere = np.logical_or.reduce([*masks.values()])
    return tuple(name for name, mask in masks.items() if mask[rows].any()), anywhere


def filter(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, moment: Moment = TIMELESS
) -> FilterDecision:
    """Which of the offered nodes take the pod. Raises UnknownNode if one is not in the snapshot."""
    rows = _rows(snapshot, nodes)
    filtering = run_filters(meet(snapshot, pod, profile, moment))
    left, _ = _undecided(filtering.incoming, rows)
    codes = filtering.codes[rows]
    helped = _helped(filtering, rows)
    out = np.flatnonzero(codes != Code.SUCCESS)
    verdicts = filtering.verdicts(rows[out])
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for place, verdict in zip(out.tolist(), verdicts, strict=True):
        (failed if helped[rows[place]] else unresolvable)[nodes[place]] = verdict.message
    accepted = tuple(np.flatnonzero(codes == Code.SUCCESS).tolist())
    working = Working(filtering.incoming, rows, filtering, verdicts)
    return FilterDecision(accepted, failed, unresolvable, left, working)


def _rows(snapshot: Snapshot, nodes: Sequence[str]) -> Rows:
    try:
        return np.array([snapshot.node_row[name] for name in nodes], np.int64)
    except KeyError:
        unknown = [name for name in nodes if name not in snapshot.node_row]
        raise UnknownNode(f"{len(unknown)} of {len(nodes)} nodes are not in the cluster picture") from None


def _helped(filtering: Filtering, rows: Rows) -> BoolArray:
    """[node]: would evicting lower-priority pods make room? (of `rows` only)."""
    helped = np.zeros(len(filtering.codes), np.bool_)
    run = _tried(filtering, rows)
    if run is not None:
        helped[run.rows] = run.candidate
    return helped


def _tried(filtering: Filtering, rows: Rows) -> DryRun | None:
    """Preempt on those of `rows` where that may help; None if it may not be tried."""
    tried = np.unique(rows[filtering.codes[rows] == Code.UNSCHEDULABLE])
    if not len(tried) or not eligible(filtering)[0] or veto(filtering.incoming) is not None:
        return None
    return choose(filtering.incoming, filtering.checks, tried)


def prioritize(
    snapshot: Snapshot, pod: Pod, nodes: Sequence[str], profile: Profile, moment: Moment = TIMELESS
) -> PrioritizeDecision:
    """How good each offered node is, 0-10. Raises UnknownNode if one is not in the snapshot.

    If all fit, the weighted plugin total as a share of the best possible. If some need preemption, those that fit
    are 6-10, those 1-5 by the preemption ranking, and nodes that cannot be helped 0.
    """
    rows = _rows(snapshot, nodes)
    filtering = run_filters(meet(snapshot, pod, profile, moment))
    left, _ = _undecided(filtering.incoming, rows)
    fitting = np.unique(rows[filtering.codes[rows] == Code.SUCCESS])
    result = np.zeros(len(filtering.codes), np.int64)
    scores = score(filtering.incoming, fitting)
    floor = _LOWEST_FITTING if len(fitting) < len(np.unique(rows)) else 0
    if len(fitting):
        result[fitting] = floor + scores.total * (MAX_EXTENDER_SCORE - floor) // max(scores.highest, 1)
    run = _tried(filtering, rows)
    if run is not None:
        places = np.flatnonzero(run.candidate)
        result[run.rows[places]] = _by_standing(standing(costs(run, places)), floor)
    working = Working(filtering.incoming, rows, filtering, scores=scores, run=run)
    return PrioritizeDecision(tuple(result[rows].tolist()), left, working)


def _by_standing(standings: IntArray, floor: int) -> IntArray:
    """Best candidate 5, the others evenly down to 1; equal candidates equal."""
    return floor - 1 - standings * (floor - 1) // max(len(standings), 1)


def preempt(
    snapshot: Snapshot, pod: Pod, offers: Mapping[str, Offer], profile: Profile, moment: Moment = TIMELESS
) -> PreemptDecision:
    """The best of the offered nodes, or of all, with the victims that our own dry run finds there.

    On a node where a plugin that is not modelled has a say, our reprieve could spare a pod that must go:
    kube-scheduler's own victims are kept there, ranked all the same.
    """
    offered = _Offered.of(snapshot, offers)
    incoming, rows = meet(snapshot, pod, profile, moment), _rows(snapshot, offered.names)
    left, undecided = _undecided(incoming, rows)
    vetoed = NEVER_PREEMPTS if pod.spec.preemption_policy == "Never" else veto(incoming)
    if vetoed is not None:
        dropped = dict.fromkeys(offers, vetoed)
        return PreemptDecision((), dropped, left, frozenset(), vetoed, working=Working(incoming, rows))
    filtering = run_filters(incoming)
    tried = _to_try(filtering, rows, undecided, offered.dropped)
    run = choose(incoming, filtering.checks, tried, offered.victims if protects(profile.preemption) else None)
    named = offered.on(run)
    run = _prefer_named(run, named)
    if left:
        theirs = np.flatnonzero(undecided[run.rows])
        run = with_victims(run, theirs, _as_offered(run, named)[:, theirs], KUBE_SCHEDULER)
    run = _adding_nobody_special(run, named)
    best = _best(run, named, profile.keep_candidates)
    violations, names = run.violations, snapshot.node_names
    kept = tuple(
        Candidate(names[run.rows[place]], run.victims_on(place), int(violations[place])) for place in best.tolist()
    )
    dropped = offered.dropped | _not_tried(filtering, rows[~np.isin(rows, tried)])
    dropped |= _beaten(run, offered, {candidate.node for candidate in kept})
    as_offered = frozenset(name for name, row in zip(offered.names, rows.tolist(), strict=True) if undecided[row])
    working = Working(incoming, rows, filtering, run=run, named=named)
    return PreemptDecision(kept, dropped, left, as_offered, working=working)


def _to_try(filtering: Filtering, rows: Rows, undecided: BoolArray, dropped: Collection[str]) -> Rows:
    """Offered nodes where eviction may help as far as we can say; with AllNodes all where we can say that it may.

    Not where kube-scheduler knows of pods that we do not (`dropped`).
    """
    codes, node_row = filtering.codes, filtering.incoming.snapshot.node_row
    offered = rows[(codes[rows] == Code.UNSCHEDULABLE) | (undecided[rows] & (codes[rows] != Code.UNRESOLVABLE))]
    if filtering.incoming.profile.preemption.candidates == "Offered":
        return np.unique(offered)
    others = (codes == Code.UNSCHEDULABLE) & ~undecided
    others[[node_row[name] for name in dropped if name in node_row]] = False
    return np.union1d(offered, np.flatnonzero(others))


@dataclass(frozen=True, slots=True)
class _Offered:
    """What kube-scheduler offers, as far as the snapshot knows it."""

    names: list[str]
    """Nodes with offers that may be answered."""
    dropped: dict[str, str]
    """Offers that name a node or a victim that the snapshot does not hold: one wrong UID fails a whole answer."""
    victims: BoolArray
    """[pod]: named as a victim of its own node."""

    @classmethod
    def of(cls, snapshot: Snapshot, offers: Mapping[str, Offer]) -> Self:
        names, row_of = list(offers), snapshot.running.row_of
        nodes = np.array([snapshot.node_row.get(name, -1) for name in names], np.int64)
        owner = np.repeat(np.arange(len(names)), [len(offer.victims) for offer in offers.values()])
        rows = np.array([row_of.get(uid, -1) for offer in offers.values() for uid in offer.victims], np.int64)
        known = (rows >= 0) & (snapshot.pod_node[rows] == nodes[owner])
        lacking = np.bincount(owner[~known], minlength=len(names)) > 0
        dropped = {names[place]: UNKNOWN_VICTIM for place in np.flatnonzero(lacking)}
        dropped |= {names[place]: UNKNOWN_NODE for place in np.flatnonzero(nodes < 0)}
        victims = np.zeros(len(snapshot.pod_node), np.bool_)
        victims[rows[known]] = True
        return cls([name for name in names if name not in dropped], dropped, victims)

    def on(self, run: DryRun) -> BoolArray:
        """[k, node] of a dry run."""
        pods = run.pods
        found: BoolArray = self.victims[pods] & (pods >= 0)
        return found


def _not_tried(filtering: Filtering, rows: Rows) -> dict[str, str]:
    names = filtering.incoming.snapshot.node_names
    return {
        names[row]: verdict.message or "the pod fits without evicting anyone"
        for row, verdict in zip(rows.tolist(), filtering.verdicts(rows), strict=True)
    }


def _as_offered(run: DryRun, named: BoolArray) -> BoolArray:
    """kube-scheduler's victims as [k, node]; a node with one that may not be evicted has none at all."""
    wrong = (named & ~run.grouped.evictable.mask).any(axis=0)
    return named & ~wrong


def _prefer_named(run: DryRun, named: BoolArray) -> DryRun:
    """Where two pods may take each other's place, let the one go that kube-scheduler named.

    It may not know the other one any more, and one UID that it does not know fails the whole answer.
    """
    mixed = (run.victims & ~named).any(axis=0) & (named & ~run.victims & run.grouped.evictable.mask).any(axis=0)
    if not mixed.any():
        return run
    victims, ways = run.victims.copy(), run.ways.copy()
    for place in np.flatnonzero(mixed & run.candidate).tolist():
        spared = np.flatnonzero(named[:, place] & ~victims[:, place]).tolist()
        for k in np.flatnonzero(victims[:, place] & ~named[:, place]).tolist():
            other = next((one for one in spared if run.interchangeable(place, k, one)), None)
            if other is not None:
                victims[[k, other], place] = False, True
                spared.remove(other)
                ways[place] = NAMED_OF_EQUALS
    return replace(run, victims=victims, ways=ways)


def _adding_nobody_special(run: DryRun, named: BoolArray) -> DryRun:
    """Not where a pod would go that only kube-scheduler may choose; where policies choose, they leave those out."""
    if protects(run.incoming.profile.preemption):
        return run
    places = np.flatnonzero(run.candidate)
    added = run.taken_on(places, (run.victims & ~named)[:, places])
    pods = run.snapshot.pods
    special = [
        place for pod, place in zip(added.pods.tolist(), added.places.tolist(), strict=True) if is_special(pods[pod])
    ]
    if not special:
        return run
    nodes = np.zeros(len(run.rows), np.bool_)
    nodes[places[special]] = True
    return replace(run, barriers=(*run.barriers, Barrier(nodes, lambda _: f"would evict {SPECIAL}")))


def _best(run: DryRun, named: BoolArray, limit: int | None) -> IntArray:
    """Places of the best candidates in order."""
    places = np.flatnonzero(run.candidate)
    return best_of(run, places, limit, then=then_by(run, named, places))


def then_by(run: DryRun, named: BoolArray, places: IntArray) -> tuple[IntArray, IntArray]:
    """Of candidates that cost the same, those first whose victims kube-scheduler named; then by name."""
    return how_many(run.victims & ~named)[places], run.snapshot.name_order[run.rows[places]]


BEATEN = "another node is the better candidate"

SPECIAL = "a mirror pod, system-critical or leaving already, and not chosen by kube-scheduler"

_FEW = 3
"""Of so many pods of a node is said why they may not be evicted, …"""

_MOST_NODES = 100
"""… and on no more nodes than these: who reads of more?"""


def _beaten(run: DryRun, offered: _Offered, kept: set[str]) -> dict[str, str]:
    """Why the offered nodes that were tried are not in the answer."""
    place_of = {row: place for place, row in enumerate(run.rows.tolist())}
    rows = ((name, run.snapshot.node_row[name]) for name in offered.names if name not in kept)
    places = {name: place_of[row] for name, row in rows if row in place_of}
    candidate, dropped = run.candidate, {}
    others = [name for name, place in places.items() if not candidate[place]]
    explained = set(others[:_MOST_NODES]) if protects(run.incoming.profile.preemption) else ()
    for name, place in places.items():
        dropped[name] = BEATEN if candidate[place] else run.verdict(place).message or NO_HELP
        if name in explained and not run.makes_room[place]:
            dropped[name] += _not_evictable(run, offered, name)
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
