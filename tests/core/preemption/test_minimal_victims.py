"""The best victims on one node: small cases, each with its sum. Ranks are places in the lists; rank 0 is the most
important pod. What pods take and what is free is in plain units; `free` is what is left beside the preemptor with all
evictable pods gone, so a set is enough when the pods that stay take no more than that."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from extender.core.framework.constraint import ColumnwiseConstraint, ConflictConstraint, Constraint
from extender.core.preemption.minimal_victims.problem import MinimalVictimsProblem
from extender.core.preemption.minimal_victims.search import MAX_SEARCH_STEPS, MinimalVictimsResult, find_minimal_victims
from tests.builders import taken_of_one_node


@dataclass(frozen=True)
class Resources(ColumnwiseConstraint):
    def reasons(self, headroom, row):
        return ()


@dataclass(frozen=True)
class NotAlone(Constraint):
    """One pod of a kind has to stay: less room is better."""

    def fits(self, headroom):
        return headroom[0] < 0

    def reasons(self, headroom, row):
        return ()


def columns(kind, takes, free, nominated=None, **others):
    """`takes`: per pod one number, or one per column."""
    wide = taken_of_one_node([[one] if isinstance(one, int) else one for one in takes])
    beside = None if nominated is None else np.array([nominated], np.int64).reshape(-1, 1)
    return kind("Any", np.array([free], np.int64).reshape(-1, 1), wide, beside, **others)


def problem(
    *constraints: Constraint,
    priority: Sequence[int],
    violating: Sequence[int] = (),
    budgets: Sequence[tuple[int, Sequence[int]]] = (),
    strict: bool = False,
    evictable: Sequence[int] | None = None,
) -> MinimalVictimsProblem:
    """`violating`: ranks; `budgets`: (what it allows, the ranks that count against it)."""
    size = len(priority)
    return MinimalVictimsProblem(
        constraints,
        tuple(one.headroom for one in constraints),
        tuple(range(size)) if evictable is None else tuple(evictable),
        np.array(priority, np.int64),
        np.array([k in violating for k in range(size)], np.bool_),
        {k: tuple(row for row, (_, pods) in enumerate(budgets) if k in pods) for k in range(size)},
        [allowed for allowed, _ in budgets],
        strict,
    )


def cpu(takes, free, *, priority=None, nominated=None, **others):
    """A node where one column decides."""
    return problem(columns(Resources, takes, free, nominated), priority=priority or [0] * len(takes), **others)


def best(one: MinimalVictimsProblem, start=None):
    found = find_minimal_victims(one, None if start is None else frozenset(start))
    assert found.exact
    return None if found.victims is None else sorted(found.victims)


# --- which set is best ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "victims"),
    [
        pytest.param(cpu([1, 1, 4], 2), [2], id="one of 4 instead of two and more: 6 - 4 leaves 2"),
        pytest.param(cpu([4, 1, 1, 1, 1], 4), [0], id="one of 4 for four of 1: 8 - 4 leaves 4"),
        pytest.param(cpu([3, 2, 1], 3), [0], id="3 of 6 must go: 3 alone, not 2 + 1"),
        pytest.param(cpu([3, 2, 2], 3), [1, 2], id="4 of 7 must go: 2 + 2, which spares the more important 3"),
        pytest.param(cpu([2, 2, 2], 4), [2], id="2 of 6 must go: of equals the least important"),
        pytest.param(
            cpu([2, 3, 1], 4), [1], id="2 of 6 must go: rank 1 frees 3 and so spares rank 0, which would have done"
        ),
        pytest.param(
            cpu([4, 1, 1, 1, 1], 4, priority=[5, 0, 0, 0, 0]),
            [1, 2, 3, 4],
            id="the highest priority counts before the number: four of 0 for one of 5",
        ),
        pytest.param(
            cpu([2, 2, 1, 1], 4, priority=[10, 10, 0, 0]),
            [2, 3],
            id="the highest priority counts before the number: two of 0 for one of 10",
        ),
        pytest.param(
            cpu([3, 2, 1, 1], 3, priority=[10, 10, 9, 0]),
            [0, 3],
            id="4 of 7 must go: 3 + 1, of the ones that of priority 0",
        ),
        pytest.param(
            cpu([3, 1, 2, 2], 5, priority=[2**31 - 1, 2**31 - 1, -(2**31), -(2**31)]),
            [2, 3],
            id="3 of 8 must go: two of the lowest priority for one of the highest",
        ),
        pytest.param(
            cpu([5, 1, 4, 2], 7, priority=[9, 9, -(2**31), -(2**31)]),
            [2, 3],
            id="5 of 12 must go: 4 + 2 of the lowest priority",
        ),
        pytest.param(cpu([1, 2, 3], 6), [2], id="all fit, but there has to be a victim: the least important"),
        pytest.param(cpu([1, 2, 3], -1), None, id="even with all gone 1 is missing"),
        pytest.param(cpu([1, 2, 3], 0), [0, 1, 2], id="all of them have to go"),
        pytest.param(cpu([3, 3, 3], 3, evictable=[0, 2]), [2], id="rank 1 is not asked: 3 of 6 must go"),
        pytest.param(cpu([3, 3], 0, evictable=[]), None, id="nobody may leave"),
        pytest.param(
            cpu([2, 2, 2], 4, nominated=2), [1, 2], id="2 are kept for a nominated pod: 6 - 4 leaves 2 beside it"
        ),
        pytest.param(
            cpu([2, 2, 2], 4, priority=[0, 5, 1]), [0], id="importance is not priority: the lowest priority goes"
        ),
    ],
)
def test_the_best_set(one, victims):
    assert best(one) == victims


def test_a_set_is_enough_only_with_room_in_every_column():
    """6 of 10 must go in both: any two would do in one of them; (6, 1) and (1, 6) do in both, and spare rank 0."""
    resources = columns(Resources, [[3, 3], [6, 1], [1, 6]], [4, 4])
    assert best(problem(resources, priority=[0, 0, 0])) == [1, 2]


def test_a_pod_in_the_way_is_evicted_and_frees_what_it_takes():
    """The conflict is with rank 1; its 1 is half of the 2 that must go, so one of the others goes with it."""
    resources = columns(Resources, [2, 1, 1, 1], 3)
    conflicts = columns(ConflictConstraint, [0, 1, 0, 0], 0, reason="in the way")
    assert best(problem(resources, conflicts, priority=[0] * 4)) == [1, 3]


def test_what_a_larger_set_would_break_is_not_concluded_from_it():
    """Ranks 1 and 2 are company, one of which has to stay. 2 of 6 must go, then 4 (not both of them), then all."""
    resources = columns(Resources, [2, 2, 2], 4)
    company = columns(NotAlone, [0, 1, 1], 0)
    assert best(problem(resources, company, priority=[0] * 3)) == [2]
    assert best(problem(columns(Resources, [2, 2, 2], 2), company, priority=[0] * 3)) == [0, 2]
    assert best(problem(columns(Resources, [2, 2, 2], 0), company, priority=[0] * 3)) is None


def test_room_that_only_others_ask_for_is_found():
    """No resource is short; of the nominated pod's company one has to go and one has to stay, so it is rank 2."""
    company = columns(NotAlone, [0, 1, 1, 0], 0, nominated=1)
    in_the_way = columns(ConflictConstraint, [0, 1, 1, 0], 1, reason="in the way")
    assert best(problem(company, in_the_way, priority=[0] * 4)) == [2]


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_violations_count_before_all_else():
    """3 of 6 must go: 3 breaks a budget, 2 + 1 does not."""
    assert best(cpu([2, 1, 3], 3, priority=[9, 9, 0], violating=[2])) == [0, 1]


def test_the_fewest_violations_are_found_where_there_must_be_some():
    """5 of 7 must go: without violations 2 at most; one of 3 and the 2 do, and it is the one of lower priority."""
    assert best(cpu([3, 2, 3], 3, priority=[5, 0, 0], violating=[0, 2])) == [1, 2]
    assert best(cpu([1, 2, 4], 3, violating=[0, 1, 2])) == [2]


def test_strict_as_many_pods_of_a_budget_go_as_it_allows():
    """4 of 8 must go. The two of priority 0 would do, but their budget allows one of them: 2 + 2 with rank 1."""
    assert best(cpu([2, 2, 2, 2], 4, priority=[9, 5, 0, 0])) == [2, 3]
    assert best(cpu([2, 2, 2, 2], 4, priority=[9, 5, 0, 0], budgets=[(1, [2, 3])], strict=True)) == [1, 3]


@pytest.mark.parametrize("allowed", [0, -1])
def test_strict_a_budget_with_nothing_left_bars_its_pods(allowed):
    one = cpu([2, 2, 2], 4, budgets=[(allowed, [1, 2])], strict=True)
    assert best(one) == [0]
    assert best(cpu([2, 2, 2], 2, budgets=[(allowed, [1, 2])], strict=True)) is None


def test_strict_a_pod_counts_for_all_its_budgets():
    """4 of 8 must go; rank 3 uses up both budgets, so the other is rank 0. 1 and 2 are of one budget each."""
    budgets = [(1, [1, 3]), (1, [2, 3])]
    assert best(cpu([2, 2, 2, 2], 4, priority=[9, 0, 0, 0], budgets=budgets, strict=True)) == [1, 2]
    assert best(cpu([2, 2, 2, 4], 6, priority=[9, 0, 0, 0], budgets=budgets, strict=True)) == [3]


def test_strict_flags_do_not_count():
    assert best(cpu([2, 2, 2], 4, violating=[0, 1, 2], strict=True)) == [2]


def test_without_strict_budgets_do_not_count():
    assert best(cpu([2, 2, 2], 4, budgets=[(0, [0, 1, 2])])) == [2]


# --- start and steps --------------------------------------------------------------------------------------------------


def test_a_start_that_costs_no_more_is_returned_as_it_is():
    """One of three equals has to go: the search would have taken rank 2."""
    assert best(cpu([2, 2, 2], 4), start=[0]) == [0]
    assert best(cpu([2, 2, 2], 4), start=[0, 1]) == [2]


def test_strict_a_start_that_breaks_a_budget_counts_as_none():
    one = cpu([2, 2], 2, budgets=[(0, [1])], strict=True)
    assert not one.keeps_budgets([1])
    assert best(one, start=[1]) == [0]
    assert find_minimal_victims(one, frozenset([1]), steps=0) == MinimalVictimsResult(None, False, 0)


def hard(size: int = 110) -> MinimalVictimsProblem:
    """Four columns in which all pods differ; three tenths of each have to go. Too much to be sure of."""
    takes = [[(k * factor) % 1009 + 1 for factor in (331, 577, 733, 919)] for k in range(1, size + 1)]
    free = [sum(column) * 7 // 10 for column in zip(*takes, strict=True)]
    return problem(columns(Resources, takes, free), priority=[0] * size)


@pytest.mark.parametrize("steps", [0, 1, 100, MAX_SEARCH_STEPS])
def test_when_steps_run_out_the_best_so_far_is_returned_and_it_says_so(steps):
    start = frozenset(range(100))
    found = find_minimal_victims(hard(), start, steps)
    assert not found.exact
    assert found.steps <= steps
    assert found.victims is not None
    assert hard().cost(found.victims) <= hard().cost(start)


def test_with_no_start_and_no_steps_there_is_no_answer():
    assert find_minimal_victims(hard(), None, steps=0) == MinimalVictimsResult(None, False, 0)


def test_a_node_with_a_thousand_pods_is_searched_no_deeper_than_steps_allow():
    assert not find_minimal_victims(hard(1000), frozenset(range(1000))).exact


def test_the_same_problem_has_the_same_answer():
    first, second = find_minimal_victims(hard(40), None), find_minimal_victims(hard(40), None)
    assert first == second


SIZES = [
    (50, 64),
    (100, 128),
    (100, 256),
    (250, 256),
    (500, 512),
    (500, 1024),
    (1000, 2048),
    (2000, 4096),
    (4000, 8192),
]
"""Millicores and MiB."""


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("size", [30, 110])
def test_on_ordinary_nodes_there_are_steps_to_spare(size, seed):
    """A tenth of processors and memory has to go, of pods in sizes and priorities as people write them."""
    chance = Random(seed)
    takes = [(chance.choice(SIZES)[0], chance.choice(SIZES)[1], 1, chance.choice((0, 0, 0, 1024))) for _ in range(size)]
    free = [sum(column) * 9 // 10 for column in zip(*takes, strict=True)]
    free[2:] = [size - 1, 10**6]
    priority = sorted((chance.choice((0, 0, 0, 1000, 100_000)) for _ in range(size)), reverse=True)
    violating = [k for k in range(size) if chance.random() < 0.3]
    one = problem(columns(Resources, takes, free), priority=priority, violating=violating)
    found = find_minimal_victims(one, frozenset(range(size)))
    assert found.exact
    assert found.steps < MAX_SEARCH_STEPS // 10


def test_priorities_whose_pods_could_not_help_are_passed_over():
    """A third has to go, which the 59 pods of the lower priority could free; but ranks 0 and 59 have to go both."""
    takes = [(k * 7 % 60 + 1, k * 11 % 60 + 1) for k in range(60)]
    resources = columns(Resources, takes, [sum(column) * 2 // 3 for column in zip(*takes, strict=True)])
    both = columns(NotAlone, [-1] + [0] * 58 + [-1], -1)
    found = find_minimal_victims(problem(resources, both, priority=[5] + [0] * 59), None)
    assert found.exact
    assert found.victims is not None
    assert found.victims >= {0, 59}


def test_a_hundred_pods_that_are_alike_are_not_tried_in_all_combinations():
    """50 of 100 must go."""
    found = find_minimal_victims(cpu([1] * 100, 50), None)
    assert found.exact
    assert found.victims == frozenset(range(50, 100))
