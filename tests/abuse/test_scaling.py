"""H1, H2: work is linear in the size of every field that a tenant controls, of incoming, running and nominated pods.

The cost is CPU time in this process. A step may cost six times as much for four times the entries: a quadratic one
costs sixteen times as much. Beside that, SMALL is all that a step may cost without any entry.
"""

import gc
import time
from collections.abc import Callable

import pytest

from extender.k8s.time import parse_duration
from tests.abuse.hostile_cluster import Costs, costs, costs_of_budgets, costs_of_others, hostile_cluster, keep_lowest
from tests.abuse.hostile_fields import BUDGETS, FIELDS, hostile, pods_that_share_claims

FEW, MANY = 250, 1000
"""Entries; every figure of both is below the bound of the caches of names."""

MAX_GROWTH = 6
SMALL = 0.002
"""CPU seconds that no bound is about."""

NODES = 100
ATTEMPTS = 8
"""Measurements of a pair: the lowest of each counts, because other processes only ever add time."""

ROLES = ("incoming", "running", "nominated", "all of them")


@pytest.fixture(scope="module")
def snapshot():
    """The cluster, without the cycle collector: it would count everything that the other tests have left."""
    found = hostile_cluster(NODES)
    gc.collect()
    gc.disable()
    yield found
    gc.enable()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("field", FIELDS)
def test_H1_work_is_linear_in(field, role, snapshot):
    _assert_linear(lambda n: costs(snapshot, role, field, n))


@pytest.mark.parametrize("field", BUDGETS)
def test_H1_work_is_linear_in_pod_disruption_budgets(field, snapshot):
    _assert_linear(lambda n: costs_of_budgets(snapshot, BUDGETS[field](n)))


@pytest.mark.parametrize("text", ["1", "1.", "1s", "."])
def test_H1_reading_text_that_is_no_duration_is_linear(text):
    """`duration()` of a device selector may be called for each entry of a list, at a few steps of its budget."""

    def read(n: int) -> Costs:
        began = time.process_time()
        assert parse_duration(text * 40 * n + "x") is None
        return {text: time.process_time() - began}

    _assert_linear(read)


def _assert_linear(measure: Callable[[int], Costs]) -> None:
    """Measure with few and with many entries in turns."""
    few: Costs = {}
    many: Costs = {}
    above: dict[str, tuple[float, float]] = {}
    for _ in range(ATTEMPTS):
        keep_lowest(few, measure(FEW))
        keep_lowest(many, measure(MANY))
        above = {step: (few[step], spent) for step, spent in many.items() if spent > MAX_GROWTH * few[step] + SMALL}
        if not above:
            return
    pytest.fail(", ".join(f"{step}: {a * 1000:.1f} -> {b * 1000:.1f} ms" for step, (a, b) in above.items()))


MAX_SHARE_OF_OTHERS = 1.2
SMALL_SHARE = 0.003
"""CPU seconds that no bound on calls about other pods is about."""


@pytest.mark.parametrize("field", FIELDS)
def test_H2_calls_about_other_pods_hardly_notice_a_running_pod_with_many(field, snapshot):
    _assert_others_hardly_notice(snapshot, [hostile("evil", field, MANY, priority=1, nodeName="n3")])


def test_H2_calls_about_other_pods_hardly_notice_claims_that_pods_share_in_many_ways(snapshot):
    _assert_others_hardly_notice(snapshot, pods_that_share_claims(14, MANY, "claim-", nodeName="n3"))


def _assert_others_hardly_notice(snapshot, pods):
    without: Costs = {}
    beside: Costs = {}
    for _ in range(ATTEMPTS):
        keep_lowest(without, costs_of_others(snapshot, []))
        keep_lowest(beside, costs_of_others(snapshot, pods))
        if all(spent <= MAX_SHARE_OF_OTHERS * without[step] + SMALL_SHARE for step, spent in beside.items()):
            return
    pytest.fail(f"{without} -> {beside}")
