"""What the search for the best victims finds is what trying all sets finds; each example is a seed.

python -c 'from tests.property.test_fewest import case; print(case(4711))'
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.core.framework.constraint import ColumnwiseConstraint, ConflictConstraint, Constraint
from extender.core.preemption.minimal_victims.problem import MinimalVictimsProblem
from extender.core.preemption.minimal_victims.search import MAX_SEARCH_STEPS, find_minimal_victims
from tests.builders import taken_of_one_node

SEEDS = st.integers(0, 2**48)

MANY = settings(
    max_examples=800, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
SOME = settings(MANY, max_examples=300)
AT_LENGTH = settings(MANY, max_examples=30_000)

ENOUGH = 10**9
"""Steps for any of these cases."""


# --- constraints ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resources(ColumnwiseConstraint):
    def reasons(self, headroom, row):
        return ()


@dataclass(frozen=True)
class Company(Constraint):
    """Somebody of the kind has to stay, or nobody at all."""

    def fits(self, headroom):
        return (headroom[0] >= 1) | (headroom[-1] == 0)

    def reasons(self, headroom, row):
        return ()


@dataclass(frozen=True)
class InPairs(Constraint):
    """Whatever this means, it is neither better nor worse with a pod less."""

    def fits(self, headroom):
        return headroom.sum(axis=0) % 2 == 0

    def reasons(self, headroom, row):
        return ()


FITS: dict[str, Any] = {
    "resources": lambda headroom: min(headroom) >= 0,
    "conflicts": lambda headroom: min(headroom) >= 0,
    "company": lambda headroom: headroom[0] >= 1 or headroom[-1] == 0,
    "pairs": lambda headroom: sum(headroom) % 2 == 0,
}
BUILD: dict[str, Any] = {
    "resources": Resources,
    "conflicts": partial(ConflictConstraint, reason="in the way"),
    "company": Company,
    "pairs": InPairs,
}


# --- cases ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class One:
    """Plain numbers, by rank; some ranks may not leave."""

    priority: list[int]
    evictable: list[int]
    constraints: list[tuple[str, list[int], list[list[int]], list[int] | None]]
    """(kind, room without the evictable pods, [k][column] takes, nominated)."""
    violating: list[bool]
    charges: dict[int, tuple[int, ...]]
    allowed: list[int]
    strict: bool

    def problem(self):
        def constraint(kind, headroom, takes, nominated):
            beside = None if nominated is None else np.array(nominated, np.int64)[:, np.newaxis]
            columns = np.array(headroom, np.int64)[:, np.newaxis]
            return BUILD[kind](kind, columns, taken_of_one_node(takes), beside)

        built = tuple(constraint(*one) for one in self.constraints)
        return MinimalVictimsProblem(
            built,
            tuple(one.headroom for one in built),
            tuple(self.evictable),
            np.array(self.priority, np.int64),
            np.array(self.violating, np.bool_),
            self.charges,
            self.allowed,
            self.strict,
        )


PRIORITIES = ([0], [0, 0, 10], [0, 10, 100], [-10, 0, 5], [-(2**31), -1, 0, 2**31 - 1], [0, 1_999_999_999], range(50))
SIZES = ([1], [1, 2], [0, 1, 2, 5], [0, 250, 500, 1000], range(1, 30))


def case(seed: int) -> One:
    chance = Random(seed)
    size = chance.randint(1, 9)
    priorities = chance.choice(PRIORITIES)
    priority = [chance.choice(priorities) for _ in range(size)]
    if chance.random() < 0.8:  # otherwise importance is something else
        priority.sort(reverse=True)
    evictable = [k for k in range(size) if chance.random() < 0.9] or [0]
    budgets = chance.randint(0, 3)
    charging = chance.choice((0.2, 0.5))
    return One(
        priority,
        evictable,
        _constraints(chance, size, evictable),
        [chance.random() < 0.4 for _ in range(size)] if chance.random() < 0.6 else [False] * size,
        {k: tuple(one for one in range(budgets) if chance.random() < charging) for k in evictable},
        [chance.choice((-1, 0, 1, 1, 2, 3)) for _ in range(budgets)],
        chance.random() < 0.5,
    )


def _constraints(chance, size, evictable):
    kinds = ["resources"] * (chance.random() < 0.9)
    kinds += ["conflicts"] * (chance.random() < 0.3)
    kinds += chance.choice(([], [], [], ["company"], ["pairs"], ["company", "pairs"]))
    return [_MAKE[kind](chance, size, evictable) for kind in chance.sample(kinds, len(kinds))]


def _resources(chance, size, evictable):
    """What is free with all of them gone lies between nothing and what they all take."""
    columns = chance.randint(1, 4)
    sizes = [chance.choice(SIZES) for _ in range(columns)]
    least = -2 if chance.random() < 0.05 else 0
    takes = [[chance.choice(own) + chance.randint(least, 0) for own in sizes] for _ in range(size)]
    totals = [sum(max(takes[k][column], 0) for k in evictable) for column in range(columns)]
    headroom = [chance.randint(-1 if chance.random() < 0.05 else 0, max(total, 1)) for total in totals]
    nominated = [chance.randint(0, max(total // 4, 1)) for total in totals] if chance.random() < 0.3 else None
    return "resources", headroom, takes, nominated


def _conflicts(chance, size, evictable):
    takes = [[int(chance.random() < 0.3)] for _ in range(size)]
    return "conflicts", [0], takes, [0] if chance.random() < 0.2 else None


def _company(chance, size, evictable):
    matches = [int(chance.random() < 0.4) for _ in range(size)]
    elsewhere = chance.randint(0, 1)
    here = sum(matches[k] for k in evictable)
    takes = [[-match, -match] for match in matches]  # a pod that stays adds a match
    return "company", [0, elsewhere], takes, [-1, -1] if here and chance.random() < 0.2 else None


def _pairs(chance, size, evictable):
    takes = [[chance.randint(0, 2), chance.randint(0, 1)] for _ in range(size)]
    return "pairs", [chance.randint(0, 5), 2], takes, [0, 2] if chance.random() < 0.3 else None


_MAKE = {"resources": _resources, "conflicts": _conflicts, "company": _company, "pairs": _pairs}


# --- the reference --------------------------------------------------------------------------------------------------


def makes_room(one: One, victims) -> bool:
    stay = [k for k in one.evictable if k not in victims]
    for kind, headroom, takes, nominated in one.constraints:
        left = [have - sum(takes[k][column] for k in stay) for column, have in enumerate(headroom)]
        if not FITS[kind](left):
            return False
        beside = [have - taken for have, taken in zip(left, nominated or [0] * len(left), strict=True)]
        if not FITS[kind](beside):
            return False
    return True


def is_allowed(one: One, victims) -> bool:
    charged = Counter(budget for k in victims for budget in one.charges.get(k, ()))
    return not one.strict or all(charged[budget] <= max(one.allowed[budget], 0) for budget in charged)


def cost(one: One, victims):
    priorities = [one.priority[k] for k in victims]
    violations = 0 if one.strict else sum(one.violating[k] for k in victims)
    return violations, max(priorities), sum(priorities) + 2**31 * len(priorities), len(priorities)


def spared(one: One, victims):
    """False before True: the first that is not taken wins."""
    order = sorted(one.evictable, key=lambda k: (-one.priority[k], k))
    return [k in victims for k in order]


def all_sets(one: One):
    """The sets that make room, best first."""
    sets = (
        frozenset(some) for count in range(1, len(one.evictable) + 1) for some in combinations(one.evictable, count)
    )
    good = [some for some in sets if is_allowed(one, some) and makes_room(one, some)]
    return sorted(good, key=lambda some: (cost(one, some), spared(one, some)))


# --- what holds -----------------------------------------------------------------------------------------------------


def finds_the_best(seed):
    one = case(seed)
    good = all_sets(one)
    found = find_minimal_victims(one.problem(), None, ENOUGH)
    assert found.exact
    assert found.victims == (good[0] if good else None)


@MANY
@given(SEEDS)
def test_it_is_the_best_of_all_sets(seed):
    finds_the_best(seed)


@pytest.mark.slow
@AT_LENGTH
@given(SEEDS)
def test_it_is_the_best_of_all_sets_at_length(seed):
    finds_the_best(seed)


def starts_from(seed):
    """From any set that makes room: the best, but the start itself if that is none the worse."""
    one = case(seed)
    good = all_sets(one)
    if good:
        start = Random(seed).choice(good)
        expected = start if cost(one, start) == cost(one, good[0]) else good[0]
        assert find_minimal_victims(one.problem(), start, ENOUGH).victims == expected


@SOME
@given(SEEDS)
def test_a_start_is_kept_unless_another_set_costs_less(seed):
    starts_from(seed)


@pytest.mark.slow
@AT_LENGTH
@given(SEEDS)
def test_a_start_is_kept_unless_another_set_costs_less_at_length(seed):
    starts_from(seed)


@SOME
@given(SEEDS, st.integers(0, 60))
def test_it_is_never_worse_than_the_start_however_few_steps_there_are(seed, steps):
    one = case(seed)
    good = all_sets(one)
    start = Random(seed).choice(good) if good else None
    found = find_minimal_victims(one.problem(), start, steps)
    assert found.steps <= steps
    if found.victims is None:
        assert start is None
    else:
        assert found.victims in good
        assert start is None or found.victims == start or cost(one, found.victims) < cost(one, start)
    if found.exact:
        assert found.victims == find_minimal_victims(one.problem(), start, ENOUGH).victims


@SOME
@given(SEEDS)
def test_the_same_problem_has_the_same_answer(seed):
    first, second = (find_minimal_victims(case(seed).problem(), None, MAX_SEARCH_STEPS) for _ in range(2))
    assert first == second
