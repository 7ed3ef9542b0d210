"""Statuses of many nodes at once: each node gets the status that it gets alone."""

import pytest

from extender.core import engine
from extender.core.profile import PreemptionPolicy, Profile
from extender.k8s.candidates import SentCandidate
from tests.builders import budget, drop_messages, incoming, node, pod, snapshot, typed


@pytest.mark.parametrize("count", [2, 32, 33, 61, 70])
def test_nodes_that_lack_different_resources_get_different_reasons(count):
    """The last columns are insufficient, where the bit masks of the reason keys are largest."""
    names = [f"example.com/r{number:02}" for number in range(count)]
    nodes = []
    for number in range(400):
        lacking = {(number * 7 + 3) % count, count - 1 - number % min(count, 8)}
        there = {name: "1" for place, name in enumerate(names) if place not in lacking}
        nodes.append((node(f"n{number}", allocatable=there), [names[place] for place in sorted(lacking)]))
    here = snapshot({one: [] for one, _ in nodes})
    waiting = typed(incoming(requests=dict.fromkeys(names, "1")))
    decision = engine.filter(here, waiting, here.node_names, Profile())
    expected = {one.name: ", ".join(f"Insufficient {name}" for name in lacking) for one, lacking in nodes}
    assert decision.failed | decision.unresolvable == expected


@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
def test_each_node_names_its_own_budget_in_any_order_of_candidates(order):
    here = snapshot(
        {node("n1"): [pod("vip", "0", priority=5000), pod("a", "4")], node("n2"): [pod("b", "4")]},
        budgets=[budget(f"budget-{name}", app=name) for name in ("a", "b", "vip")],
    )
    victims = {"n1": "uid-a", "n2": "uid-b"}
    sent = {name: SentCandidate((victims[name],), 1) for name in order}
    strict = Profile(preemption=PreemptionPolicy(disruption_budgets="Strict"))
    decision = engine.preempt(here, typed(incoming(cpu="4")), sent, strict)
    assert drop_messages(decision) == {
        "n1": "would break disruption budget default/budget-a",
        "n2": "would break disruption budget default/budget-b",
    }
