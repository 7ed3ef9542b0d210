"""H1: work is linear in the size of every field that a tenant controls, of incoming, running and nominated pods.

The cost is CPU time in this process. A step may cost six times as much for four times the entries: a quadratic one
costs sixteen times as much. What a step costs without any entry is no excuse: SMALL is all that is allowed beside it.
"""

import pytest

from tests.abuse.hostile_cluster import Costs, costs, hostile_cluster
from tests.abuse.hostile_fields import FIELDS

FEW, MANY = 250, 1000
"""Entries; every figure of both is below the bound of the caches of names."""

MAX_GROWTH = 6
SMALL = 0.002
"""CPU seconds that no bound is about."""

NODES = 100
ATTEMPTS = 4
"""Measurements of a pair: the lowest of each counts, because other processes only ever add time."""

ROLES = ("incoming", "running", "nominated", "all of them")


@pytest.fixture(scope="module")
def snapshot():
    return hostile_cluster(NODES)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("field", FIELDS)
def test_H1_work_is_linear_in(field, role, snapshot):
    few: Costs = {}
    many: Costs = {}
    for _ in range(ATTEMPTS):
        _keep_lowest(few, costs(snapshot, role, field, FEW))
        _keep_lowest(many, costs(snapshot, role, field, MANY))
        above = {step: (few[step], spent) for step, spent in many.items() if spent > MAX_GROWTH * few[step] + SMALL}
        if not above:
            return
    pytest.fail(", ".join(f"{step}: {a * 1000:.1f} -> {b * 1000:.1f} ms" for step, (a, b) in above.items()))


def _keep_lowest(lowest: Costs, spent: Costs) -> None:
    for step, seconds in spent.items():
        lowest[step] = min(seconds, lowest.get(step, seconds))
