"""Budgets with very many requirements, and pods with very many budgets."""

import random

import msgspec
import numpy as np
import pytest

from extender.core.preemption.pdb.index import BudgetIndex, NamespaceSelectors
from extender.core.preemption.pdb.live import LiveBudgetIndex
from extender.k8s.objects import LabelSelector, PodDisruptionBudget
from extender.k8s.selectors import LabelMatcher, Requirement, compile_label_selector
from tests.builders import JSON, budget, built, cluster, node, pod

KINDS = pytest.mark.parametrize("kind", [BudgetIndex, LiveBudgetIndex])


def pods(count, **labels):
    return [pod(f"r{nth}", "1m", labels=labels | {"pod": f"r{nth}"}) for nth in range(count)]


def typed_budget(raw: JSON) -> PodDisruptionBudget:
    return msgspec.convert(raw, PodDisruptionBudget)


def compiled(labels: dict[str, str]) -> LabelMatcher:
    return compile_label_selector(LabelSelector(labels))


def spent(monkeypatch):
    """Return a list with one entry for each requirement that is checked from now on."""
    checked, holds = list[Requirement](), Requirement.holds

    def noted(one, value):
        checked.append(one)
        return holds(one, value)

    monkeypatch.setattr(Requirement, "holds", noted)
    return checked


@KINDS
@pytest.mark.parametrize(
    "expressions",
    [
        pytest.param([{"key": f"k{nth}", "operator": "DoesNotExist"} for nth in range(1000)], id="keys"),
        pytest.param(
            [{"key": "app", "operator": "NotIn", "values": [f"v{nth}"]} for nth in range(1000)], id="of one key"
        ),
    ],
)
def test_H1_a_budget_of_many_requirements_checks_those_of_the_labels(kind, expressions, monkeypatch):
    snapshot = built(cluster({node("n1"): pods(100, app="web")}))
    index, checked = snapshot.index(kind, "Nothing"), spent(monkeypatch)
    snapshot.put("PodDisruptionBudget", typed_budget(budget("b", selector={"matchExpressions": expressions})))
    assert all(index.budgets_of(row) for row in range(100))
    assert len(checked) <= 1000 + 2 * 100


def test_H1_a_pod_of_many_budgets_costs_other_pods_nothing():
    snapshot = built(cluster({node("n1"): [*pods(500), pod("evil", "1m", namespace="evil", labels={"app": "x"})]}))
    index = snapshot.index(BudgetIndex, "Nothing")
    for nth in range(300):
        snapshot.put("PodDisruptionBudget", typed_budget(budget(f"b{nth}", namespace="evil", app="x")))
    (row,) = (row for row in range(501) if index.budgets_of(row))
    places, budgets = index.uses(np.arange(501))
    assert set(places.tolist()) == {row}
    assert set(budgets.tolist()) == set(index.budgets_of(row)) == set(range(300))
    assert len(index._uses._numbers) <= 4 * 300


@KINDS
def test_pods_of_the_same_budgets_share_the_set(kind):
    snapshot = built(cluster({node("n1"): pods(9, app="web")}))
    index = snapshot.index(kind, "Nothing")
    for nth in range(3):
        snapshot.put("PodDisruptionBudget", typed_budget(budget(f"b{nth}", app="web")))
    assert len({id(index.budgets_of(row)) for row in range(9)}) == 1


def test_what_is_cached_of_a_namespace_is_what_its_selectors_select():
    chance, selectors = random.Random(1), NamespaceSelectors(skips_unlabelled=True)
    by_row: dict[int, dict[str, str]] = {}
    for _ in range(300):
        row = chance.randrange(6)
        chosen = {chance.choice("abc"): chance.choice("xy") for _ in range(2)} if chance.random() < 0.7 else None
        by_row.pop(row, None)
        if chosen is not None:
            by_row[row] = chosen
        selectors.set(row, None if chosen is None else compiled(chosen))
        assert bool(selectors) == bool(by_row)
        for _ in range(5):
            labels = {key: chance.choice("xy") for key in chance.sample("abcd", chance.randrange(5))}
            expected = {row for row, chosen in by_row.items() if chosen.items() <= labels.items()}
            assert selectors.rows_selecting(labels) == expected


def test_H1_the_cache_of_a_namespace_is_bounded():
    selectors = NamespaceSelectors(skips_unlabelled=True)
    selectors.set(0, compiled({"pod": "x"}))
    for nth in range(10_000):
        selectors.rows_selecting({"pod": str(nth)})
    assert len(selectors._known) <= 4096
