"""What must hold for any cluster, pod and offer, on cases from `generate.py`; each example is a seed.

python -c 'from tests.property.generate import case; print(case(4711))'
"""

import copy
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import extender
import tests.parity.reference
from extender.core import engine
from extender.core.framework.filter import evaluate_constraints, run_filter_plugins, scheduling_context
from extender.core.framework.filter_checks import Constraint
from extender.core.framework.plugins.node_ports import PortConflictConstraint
from extender.core.framework.status import Code
from extender.core.preemption.criteria import ranking_keys
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.preemption.potential_victims import potential_victims
from extender.core.preemption.ranking import RankingKeys
from extender.core.preemption.reprieve import reprieve
from extender.core.profile import DEFAULT_RANKING, Profile
from extender.core.snapshot.arrays import NEVER
from extender.k8s.candidates import SentCandidate
from tests.builders import built, candidates_sent_by_kube_scheduler, typed
from tests.parity.agreement import compare
from tests.parity.reference import best_nodes
from tests.profiles import SEEDS, examples
from tests.property import recount, values
from tests.property.generate import REFERENCE_FEATURES, Draw, case

MANY = examples(15, 500, 100_000)
SOME = examples(8, 200, 20_000)


def filtered(one):
    return run_filter_plugins(scheduling_context(built(one.cluster), typed(one.pod), Profile()))


# --- all rows == one row == reference -------------------------------------------------------------------------------


@MANY
@given(SEEDS)
def test_the_engine_says_what_the_slow_reference_says(seed):
    one = case(seed)
    expected = tests.parity.reference.evaluate(one.cluster, one.pod)
    got = extender.evaluate(one.cluster, one.pod, admission="none", version=tests.parity.reference.VERSION).to_dict()
    assert compare({"cluster": one.cluster, "pod": one.pod, "expected": expected}, got) == []
    assert got.items() >= expected.items(), "the engine and the reference differ"


def outcome(run, place):
    """All that a dry run says of one node."""
    keys = [int(key[0]) for key in ranking_keys(run, np.array([place])).flat] if run.candidate[place] else []
    said = (
        bool(run.candidate[place]),
        run.statuses(np.array([place])),
        run.emptied.status(place),
        int(run.violations[place]),
    )
    return said, keys, run.victims_on(place), run.victims[:, place].tolist()


@MANY
@given(SEEDS)
def test_a_node_alone_fares_as_among_all(seed):
    filter_run = filtered(case(seed))
    nodes = range(len(filter_run.codes))
    if filter_run.prefilter_status is not None:
        return
    everywhere = dry_run_preemption(filter_run.context, filter_run.checks, np.array(nodes, np.int64))
    for row in nodes:
        alone = np.array([row], np.int64)
        checks = [check.take(alone) for check in filter_run.checks]
        assert evaluate_constraints(checks, 1).status(0) == filter_run.status(row), (
            "a node alone has another status than among all"
        )
        here = dry_run_preemption(filter_run.context, filter_run.checks, alone)
        assert outcome(here, 0) == outcome(everywhere, row), "a node alone has another outcome than among all"


@SOME
@given(SEEDS)
def test_many_nodes_asked_at_once_are_told_the_reasons_of_each(seed):
    filter_run = filtered(case(seed))
    rows = np.arange(len(filter_run.codes))[::-1].copy()
    each = [filter_run.status(row) for row in rows.tolist()]
    at_once = filter_run.statuses(rows).to_list()
    assert at_once == each, "reasons differ between one node and all nodes"


# --- the three verbs ------------------------------------------------------------------------------------------------


def judged(seed):
    """A case, what the reference says of it, and the snapshot to ask the engine about."""
    one = case(seed)
    return one, tests.parity.reference.evaluate(one.cluster, one.pod), built(one.cluster, REFERENCE_FEATURES)


def nodes_to_preempt_on(one, expected):
    """Candidates, also beside a victim that still terminates on the nominated node: kube-scheduler waits for that."""
    return set() if one.pod["spec"].get("preemptionPolicy") == "Never" else set(expected["candidates"])


@SOME
@given(SEEDS)
def test_filter_says_of_each_node_what_the_reference_says_of_the_cluster(seed):
    """Failed are the nodes where preemption would help; all others that do not take the pod are unresolvable."""
    one, expected, snapshot = judged(seed)
    decision = engine.filter(snapshot, typed(one.pod), snapshot.node_names, Profile())
    verdicts: dict[str, Any] = expected["filter"] or dict.fromkeys(snapshot.node_names, expected["prefilter"])
    helped = nodes_to_preempt_on(one, expected)
    refused = {node for node, verdict in verdicts.items() if verdict["code"] != "Success"}
    accepted = [snapshot.node_names[place] for place in decision.accepted]
    # Beyond the reference: offered nodes where only terminating pods are in the way.
    terminating = {name for name in refused if any(p.metadata.deletion_timestamp for p in snapshot.pods_on(name))}
    beyond = refused.intersection(accepted)
    assert beyond <= terminating
    refused, helped = refused - beyond, helped - beyond
    assert accepted == [n for n in verdicts if n not in refused], "other nodes are accepted"
    assert decision.failed.keys() == helped, "other nodes may be helped by an eviction"
    assert decision.unresolvable.keys() == refused - helped, "other nodes are unresolvable"
    for node, message in (decision.failed | decision.unresolvable).items():
        assert sorted(message.split(", ")) == verdicts[node]["reasons"], "other reasons than the reference's"


@SOME
@given(SEEDS)
def test_preempt_answers_the_candidates_of_the_reference_best_first(seed):
    one, expected, snapshot = judged(seed)
    sent = dict.fromkeys(snapshot.node_names, SentCandidate(())) | candidates_sent_by_kube_scheduler(
        snapshot, typed(one.pod)
    )
    decision = engine.preempt(snapshot, typed(one.pod), sent, Profile(keep_candidates=None))
    candidates = expected["candidates"] if one.pod["spec"].get("preemptionPolicy") != "Never" else {}
    assert {kept.node: plain(kept) for kept in decision.kept} == candidates, "other candidates or victims"
    assert decision.dropped.keys() == set(snapshot.node_names) - candidates.keys(), "a node is neither kept nor dropped"
    pods = [item for item in one.cluster["items"] if item["kind"] == "Pod"]
    left = dict(candidates)
    for kept in decision.kept:
        assert kept.node == best_nodes(left, pods)[0], "another order than pickOneNodeForPreemption's"
        del left[kept.node]


def plain(kept):
    return {"victims": [pod.metadata.uid for pod in kept.victims], "numPDBViolations": kept.num_pdb_violations}


@SOME
@given(SEEDS)
def test_prioritize_puts_fitting_nodes_before_candidates_and_these_before_the_rest(seed):
    one, expected, snapshot = judged(seed)
    assume(not snapshot.pod_table.terminating.any())  # on an offered node their room is free, beyond the reference
    scores = engine.prioritize(snapshot, typed(one.pod), snapshot.node_names, Profile()).scores
    helped = nodes_to_preempt_on(one, expected)
    lowest = 0 if len(expected["scores"]) == len(snapshot.nodes) else 6
    for node, score in zip(snapshot.node_names, scores, strict=True):
        band = (lowest, 10) if node in expected["scores"] else (1, 5) if node in helped else (0, 0)
        assert band[0] <= score <= band[1], "a score is outside the band of its kind of node"
    totals = sorted((of_node["total"], scores[snapshot.node_row[node]]) for node, of_node in expected["scores"].items())
    assert [score for _, score in totals] == sorted(score for _, score in totals), "scores are out of order"


# --- order changes nothing ------------------------------------------------------------------------------------------


@SOME
@given(SEEDS)
def test_the_order_of_the_nodes_changes_nothing(seed):
    """But for an image's size, which is what the first node listed says."""
    one = case(seed)
    items = with_one_size_per_image(one.cluster["items"])
    nodes = iter(Draw(seed + 1).shuffled([item for item in items if item["kind"] == "Node"]))
    moved = [next(nodes) if item["kind"] == "Node" else item for item in items]
    assert evaluated(moved, one.pod) == evaluated(items, one.pod), "the order of the nodes changes the verdict"


def with_one_size_per_image(items):
    items = copy.deepcopy(items)
    for item in items:
        for image in item["status"].get("images") or () if item["kind"] == "Node" else ():
            image["sizeBytes"] = values.IMAGES[image["names"][0]]
    return items


def evaluated(items, pod):
    return extender.evaluate({"kind": "List", "items": items}, pod, admission="none").to_dict()


@SOME
@given(SEEDS)
def test_the_order_of_objects_changes_nothing_but_for_the_pods_of_one_node(seed):
    """Nor does that of the nominated pods, of the budgets, or of one kind to another."""
    one = case(seed)
    moved = interleaved(Draw(seed + 1), one.cluster["items"])
    assert evaluated(moved, one.pod) == evaluated(one.cluster["items"], one.pod), (
        "the order of the objects changes the verdict"
    )


def interleaved(draw, items):
    """All in a new order, but for the nodes and the pods of each node, which keep theirs."""
    queues = defaultdict(list)
    for place, item in enumerate(items):
        node = item["spec"].get("nodeName") if item["kind"] == "Pod" else None
        queues["Node" if item["kind"] == "Node" else node or place].append(item)
    turns = draw.shuffled([key for key, queue in queues.items() for _ in queue])
    heads = {key: iter(queue) for key, queue in queues.items()}
    return [next(heads[key]) for key in turns]


# --- taking off and putting back ------------------------------------------------------------------------------------


@SOME
@given(SEEDS)
def test_taking_off_and_putting_back_restores_the_room_exactly(seed):
    """Not of host ports: upstream keeps them as a set, so that one of two holders frees a port."""
    filter_run = filtered(case(seed))
    context = filter_run.context
    evictable = potential_victims(context).evictable
    before = copy.deepcopy([check.headroom for check in constraints(filter_run)])
    headrooms = [check.remove_pods(evictable) for check in constraints(filter_run)]
    for check, headroom in zip(constraints(filter_run), headrooms, strict=True):
        if not isinstance(check, PortConflictConstraint):
            demand = check.ranked_demand.to_dense()
            assert (headroom - (demand * evictable.mask[:, np.newaxis]).sum(axis=0) == check.headroom).all(), (
                "the room of the evictable pods does not add up"
            )
    unchanged = zip(constraints(filter_run), before, strict=True)
    assert all((check.headroom == headroom).all() for check, headroom in unchanged), (
        "a constraint has other room than before"
    )


@SOME
@given(SEEDS)
def test_only_what_may_run_short_need_be_followed_while_pods_are_put_back(seed):
    """The victims are those of the plain way, which adds up all columns of all nodes, and also on some of the nodes."""
    filter_run = filtered(case(seed))
    grouped = potential_victims(filter_run.context)
    follows_the_plain_way(filter_run.checks, grouped)
    rows = np.arange(0, len(filter_run.codes), 2)
    follows_the_plain_way([check.take(rows) for check in filter_run.checks], grouped.take(rows))


def follows_the_plain_way(checks, grouped):
    headrooms = [
        check.remove_pods(grouped.evictable) if isinstance(check, Constraint) else check.headroom for check in checks
    ]
    emptied = evaluate_constraints(checks, grouped.violating.shape[1], grouped.evictable)
    order = (grouped.violating, grouped.non_violating)
    plain = put_back_plainly(checks, headrooms, order) & (emptied.codes == Code.SUCCESS)
    assert (reprieve(emptied, grouped.evictable, order) == plain).all(), "other victims than the plain way finds"


def put_back_plainly(checks, headrooms, order):
    """[k, node]: who cannot stay; every constraint is asked about all of its room, every time."""
    parts = [
        (check, check.ranked_demand.to_dense(), headroom.copy())
        for check, headroom in zip(checks, headrooms, strict=True)
        if isinstance(check, Constraint)
    ]
    victims = np.zeros_like(order[0])
    for group in order:
        for k, wanted in enumerate(group):
            stay = wanted.copy()
            for check, demand, headroom in parts:
                stay &= check.fits(headroom - demand[k])
                if check.nominated_demand is not None:
                    stay &= check.fits(headroom - demand[k] - check.nominated_demand)
            for _, demand, headroom in parts:
                headroom -= demand[k] * stay
            victims[k] |= wanted & ~stay
    return victims


def constraints(filter_run):
    return [check for check in filter_run.checks if isinstance(check, Constraint)]


# --- victims --------------------------------------------------------------------------------------------------------


@SOME
@given(SEEDS)
def test_no_victim_is_protected_by_its_priority(seed):
    """E3, of every candidate."""
    one = case(seed)
    filter_run = filtered(one)
    run = dry_run_preemption(filter_run.context, filter_run.checks, np.arange(len(filter_run.codes)))
    limit = recount.priority(one.pod)
    assert all(
        pod.priority < limit for place in np.flatnonzero(run.candidate).tolist() for pod in run.victims_on(place)
    ), "a victim of at least the priority of the preemptor"


@MANY
@given(SEEDS)
def test_without_the_victims_the_pod_fits_and_no_victim_could_be_put_back(seed):
    """E8, of every candidate; `recount.Room` says where this cannot be asked."""
    one = case(seed)
    room = recount.Room.of(one.cluster, one.pod)
    got = extender.evaluate(one.cluster, one.pod, admission="none", version=tests.parity.reference.VERSION).to_dict()
    for node, candidate in got["candidates"].items():
        assert room.complaint(node, candidate["victims"]) is None, "without its victims the node does not take the pod"


# --- ranking --------------------------------------------------------------------------------------------------------

FEW = st.integers(0, 2)
COSTS = st.lists(
    st.tuples(FEW, st.sampled_from((-(2**31), -1, 0, 2**31 - 1)), FEW, FEW, st.sampled_from((0, 1, NEVER)))
)


def ranked(costs, *names):
    """Keys of candidates with these costs, the smaller the better; then their names."""
    keys = {name: [np.array([key(cost)[i] for cost in costs], np.int64)] for i, name in enumerate(DEFAULT_RANKING)}
    return RankingKeys(keys | ({"name": [np.array(names, np.int64)]} if names else {}))


def key(cost):
    """Fewer violations, lower priority, smaller sum, fewer victims, later start."""
    return (*cost[:4], -cost[4])


@SOME
@given(COSTS, st.randoms(use_true_random=False))
def test_the_rank_is_that_of_plain_sorting_of_tuples(ranking_keys, chance):
    names = list(range(len(ranking_keys)))
    chance.shuffle(names)
    expected = sorted(range(len(ranking_keys)), key=lambda place: (*key(ranking_keys[place]), names[place]))
    assert ranked(ranking_keys, *names).order.tolist() == expected, "another order than that of sorted tuples"


@SOME
@given(COSTS)
def test_the_standing_is_the_number_of_better_candidates(ranking_keys):
    better = [sum(key(other) < key(cost) for other in ranking_keys) for cost in ranking_keys]
    assert ranked(ranking_keys).ranks.tolist() == better, "a rank is not the number of better candidates"


def test_the_standing_tells_all_pairs_apart():
    """Every two of 32 that differ in some criteria, so that each criterion decides."""
    for one, other in product(list(product((0, 1), repeat=5)), repeat=2):
        expected = [int(key(other) < key(one)), int(key(one) < key(other))]
        keys = ranked([one, other])
        assert keys.ranks.tolist() == expected
        assert ranked([one]).is_better(ranked([other])).tolist() == [key(one) < key(other)]
        differing = (name for name, a, b in zip(DEFAULT_RANKING, key(one), key(other), strict=True) if a != b)
        assert keys.decided_by(0, 1) == next(differing, None)
