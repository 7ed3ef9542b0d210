"""The storm is what it says: the same twice, late where it says so, and its exhaustive check finds what there is.

A small storm is run under the presets; it is small enough that what upstream breaks would be seen to break.
"""

import dataclasses
import itertools
import random

import pytest

from benchmarks.storm.clock import Clock
from benchmarks.storm.exhaustive import Removable, clean_placement, frees
from benchmarks.storm.generate import Limits, Placed, Start, Template, generate
from benchmarks.storm.plan import Storm
from benchmarks.storm.policies import POLICIES
from benchmarks.storm.report import promises, share, side_by_side
from benchmarks.storm.simulate import Outcome, Simulation, simulate
from benchmarks.storm.tally import REPEAT_WINDOW_SECONDS, Tally
from benchmarks.storm.truth import Life, Truth
from tests import builders

STORM = Storm(4, nodes=25, pods=500, workloads=60, budgets=15, preemptors=40, arriving=10, lasting=400)
CAUTIOUS = ["careful", "strict"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {preset: simulate(STORM, profile) for preset, profile in POLICIES.items()}


# --- a small storm ----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_storm(outcomes):
    again = simulate(STORM, POLICIES["upstream"])
    assert (again.tally, again.clean) == (outcomes["upstream"].tally, outcomes["upstream"].clean)
    other = simulate(dataclasses.replace(STORM, seed=5), POLICIES["upstream"], checked=False)
    assert other.tally != again.tally


def test_upstream_breaks_budgets_evicts_daemons_and_comes_back_to_the_same_workloads(outcomes):
    tally = outcomes["upstream"].tally
    assert tally.violations > 0
    assert tally.daemons > 0
    assert tally.repeated > 0


def test_what_upstream_breaks_it_breaks_because_the_status_comes_late():
    tally = simulate(dataclasses.replace(STORM, status_lag=0, watch_lag=0), POLICIES["upstream"], checked=False).tally
    assert tally.violations == 0
    assert tally.evictions > 0


@pytest.mark.parametrize("preset", CAUTIOUS)
def test_careful_and_strict_break_nothing(outcomes, preset):
    tally = outcomes[preset].tally
    assert (tally.violations, tally.daemons, tally.repeated) == (0, 0, 0)
    assert tally.evictions > 0


@pytest.mark.parametrize("preset", CAUTIOUS)
def test_careful_and_strict_place_nine_tenths_of_what_upstream_places_and_could_be_placed_cleanly(outcomes, preset):
    own = outcomes[preset]
    placed = share(own.placed, outcomes["upstream"].placed & own.clean.placements)
    assert placed is not None
    assert placed >= 0.9


@pytest.mark.parametrize("preset", POLICIES)
def test_every_eviction_is_of_some_workload_and_every_preemptor_is_placed_once_at_most(outcomes, preset):
    tally = outcomes[preset].tally
    assert tally.of_workload.total() == tally.evictions
    assert len(outcomes[preset].placed) <= STORM.preemptors
    assert outcomes[preset].clean.rested <= outcomes[preset].clean.placements


def test_the_table_has_a_column_for_every_preset_and_a_promise_can_be_broken(outcomes):
    header = side_by_side(outcomes).splitlines()[0]
    assert header.split() == list(POLICIES)
    broken = outcomes | {"strict": outcomes["upstream"]}
    assert [row.met for row in promises(broken) if row.name == "violations of strict"] == [False]


# --- the cluster before it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storm", [STORM, Storm(3)], ids=["small", "whole"])
def test_there_is_as_much_of_everything_as_the_plan_says(storm):
    start = generate(storm)
    assert len(start.nodes) == storm.nodes
    assert len(start.running) == storm.pods
    assert len(start.budgets) == storm.budgets
    assert len({arrival.name for arrival in start.arrivals}) == storm.preemptors
    assert max(arrival.at for arrival in start.arrivals) <= storm.arriving


def test_every_node_is_nearly_full_and_every_budget_selects_somebody():
    truth = Truth(Clock(), generate(STORM))
    for name, room in truth.room.items():
        taken = sum(life.template.cpu for life in truth.on_node[name].values())
        assert 0.93 <= taken / (taken + room.cpu) <= 1
        assert room.memory >= 0
    assert all(budget.members for budget in truth.budgets)
    assert any(budget.left == 0 for budget in truth.budgets)


# --- what is so, and who knows it -------------------------------------------------------------------------------------


def template(app: str = "web", *, cpu: int = 500, memory: int = 500, priority: int = 0, kind: str = "ReplicaSet"):
    return Template(("team", kind, app), {"app": app}, priority, cpu, memory, grace=10)


URGENT = template("urgent", cpu=1000, memory=1000, priority=2000)


def truth_of(pods, limits=(), cpu="1000m", memory="1000Mi") -> Truth:
    """One node with (template, ready) pods, named by their place."""
    running = [Placed(f"pod-{place}", one, "n1", -60.0, ready) for place, (one, ready) in enumerate(pods)]
    nodes = builders.built(builders.cluster({builders.node("n1", cpu, memory): []})).nodes
    return Truth(Clock(), Start(tuple(nodes), tuple(running), tuple(limits), ()))


def limits(desired: int, *, always_allow: bool = False, app: str = "web") -> Limits:
    return Limits(f"budget-{app}", "team", {"app": app}, desired, always_allow)


@pytest.mark.parametrize(
    ("readiness", "desired", "always_allow", "broken"),
    [
        pytest.param([True, True], 1, False, False, id="one ready pod may go"),
        pytest.param([True, True], 2, False, True, id="nothing is left"),
        pytest.param([False, True, True], 2, False, False, id="an unready pod may go while no pod is missing"),
        pytest.param([False, True], 2, False, True, id="an unready pod may not go while one is missing"),
        pytest.param([False, True], 2, True, False, id="unless the budget always allows it"),
        pytest.param([True, False], 2, True, True, id="which says nothing of ready pods"),
    ],
)
def test_an_eviction_breaks_what_the_eviction_api_would_refuse(readiness, desired, always_allow, broken):
    truth = truth_of(
        [(template(cpu=100, memory=100), ready) for ready in readiness], [limits(desired, always_allow=always_allow)]
    )
    assert truth.evict(truth.pods["uid-pod-0"]) == broken


def test_a_pod_that_leaves_is_not_healthy_and_breaks_nothing_again():
    truth = truth_of([(template(), True), (template(), True)], [limits(1)])
    (budget,) = truth.budgets
    first, second = truth.pods.values()
    truth.evict(first)
    assert (budget.healthy, budget.left) == (1, 0)
    assert not budget.is_broken_by(first)
    assert budget.is_broken_by(second)


def test_a_node_that_is_overfull_is_an_error():
    with pytest.raises(RuntimeError, match="no room"):
        truth_of([(template(), True)] * 3)


def test_pods_are_seen_soon_and_the_status_of_budgets_late():
    simulation = Simulation(STORM, generate(STORM), POLICIES["upstream"], checked=False)
    budget = next(one for one in simulation.truth.budgets if one.left > 0)
    victim = next(life for life in budget.members.values() if life.healthy)
    before = budget.object.status.disruptions_allowed
    simulation.truth.evict(victim)

    def seen() -> tuple[bool, int]:
        objects = simulation.scheduler.cache.snapshot().objects
        pod = objects.pods[victim.pod.metadata.namespace, victim.name]
        known = objects.budgets[budget.limits.namespace, budget.limits.name]
        return pod.metadata.deletion_timestamp is not None, known.status.disruptions_allowed

    at = {0.05: (False, before), 0.15: (True, before), 1.9: (True, before), 2.1: (True, before - 1)}
    for now, expected in at.items():
        simulation.clock.run(now)
        assert seen() == expected


def test_kube_scheduler_offers_a_hundred_candidates_and_not_more():
    storm = Storm(1, nodes=130, pods=1300, workloads=150, budgets=10, preemptors=5, arriving=5, lasting=8)
    offered = []

    class Watched(Simulation):
        def ask(self, pod, sent):
            offered.append(list(sent))
            return super().ask(pod, sent)

    Watched(storm, generate(storm), POLICIES["upstream"], checked=False).clock.run(storm.lasting)
    assert {len(names) for names in offered} == {100}
    assert len({names[0] for names in offered}) > 1


def test_an_eviction_is_repeated_if_an_earlier_preemption_was_less_than_five_minutes_ago():
    tally, lives = Tally(), [Life(template().pod(name, 0), template()) for name in "ab"]
    tally.evicted(lives, 10.0)
    assert tally.repeated == 0
    tally.evicted(lives[:1], 10.0 + REPEAT_WINDOW_SECONDS - 1)
    assert tally.repeated == 1
    tally.evicted(lives[:1], 10.0 + 2 * REPEAT_WINDOW_SECONDS)
    assert tally.repeated == 1


# --- the exhaustive check ---------------------------------------------------------------------------------------------


def test_the_search_agrees_with_trying_every_set():
    chance = random.Random(4)
    answers = set()
    for _ in range(400):
        charges = [(), ("a",), ("b",), ("a", "b")]
        pods = [
            Removable(chance.randint(1, 9), chance.randint(1, 9), chance.choice(charges))
            for _ in range(chance.randint(0, 8))
        ]
        left = {"a": chance.randint(0, 2), "b": chance.randint(0, 3)}
        cpu, memory = chance.randint(0, 40), chance.randint(0, 40)
        answer = frees(cpu, memory, pods, left)
        assert answer == any(is_enough(chosen, cpu, memory, left) for chosen in subsets(pods))
        answers.add(answer)
    assert answers == {True, False}


def subsets(pods):
    return itertools.chain.from_iterable(itertools.combinations(pods, size) for size in range(len(pods) + 1))


def is_enough(chosen, cpu, memory, left):
    charged = [name for pod in chosen for name in pod.charges]
    keeps = all(charged.count(name) <= count for name, count in left.items())
    return keeps and sum(pod.cpu for pod in chosen) >= cpu and sum(pod.memory for pod in chosen) >= memory


def test_a_search_that_takes_too_long_says_so():
    pods = [Removable(2, 2, (f"budget-{place}",)) for place in range(30)]
    left = {f"budget-{place}": 1 for place in range(30)} | {"shared": 15}
    pods = [dataclasses.replace(pod, charges=(*pod.charges, "shared")) for pod in pods]
    assert frees(31, 0, pods, left) is None


@pytest.mark.parametrize(
    ("pods", "budgets", "clean"),
    [
        pytest.param([template(), template()], [], True, id="no pod is in a budget"),
        pytest.param([template(), template()], [limits(0)], True, id="the budget lets both go"),
        pytest.param([template(), template()], [limits(1)], False, id="the budget lets one go"),
        pytest.param([template(), template(priority=2000)], [], False, id="one is as important"),
        pytest.param([template(), template(kind="DaemonSet")], [], False, id="one is a daemon"),
        pytest.param([template(cpu=400), template(memory=300)], [], True, id="with the room that there is"),
    ],
)
def test_a_clean_placement_takes_nobody_who_may_not_go(pods, budgets, clean):
    truth = truth_of([(one, True) for one in pods], budgets)
    assert clean_placement(truth, Life(URGENT.pod("urgent", 0), URGENT)) is clean


def test_a_clean_placement_leaves_alone_who_rests_and_what_is_promised_to_others():
    truth = truth_of([(template("a"), True), (template("b"), True)])
    preemptor = Life(URGENT.pod("urgent", 0), URGENT)
    assert clean_placement(truth, preemptor)
    assert not clean_placement(truth, preemptor, {template("a").workload})
    truth.evict(truth.pods["uid-pod-0"])
    assert clean_placement(truth, preemptor, {template("a").workload}), "it leaves already"
    truth.nominate(truth.create("other", URGENT), "n1")
    assert not clean_placement(truth, preemptor)
