"""The first line of a simulation: what hangs, what fits and what does not, and why."""

import pytest

from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from extender.whatif import simulator
from extender.whatif.comparison import compare_policies, compare_versions
from extender.whatif.scenario import AddedNodes, Scenario
from extender.whatif.simulator import simulate
from tests.builders import budget, built, cluster, incoming, node, pod, snapshot, typed
from tests.device_builders import undecided_claim, using_claims
from tests.whatif.test_scenarios import guarded, on, owned, run, workload

SMALL = {node("n1", cpu="2"): [], node("n2", cpu="1"): [pod("full", priority=9000)]}
TAINTED = node("t1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])


def sentence(nodes, *arriving, **scenario):
    return run(snapshot(nodes), *arriving, **scenario).sentence


def test_one_node_was_and_several_were():
    cordoned = [node(name, unschedulable=True) for name in ("c1", "c2")]
    assert sentence({cordoned[0]: []}, incoming()).endswith("does not fit: 1 of 1 node was unschedulable")
    assert sentence(dict.fromkeys(cordoned, ()), incoming()).endswith("does not fit: 2 of 2 nodes were unschedulable")


# --- pods that arrive -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arriving", "expected"),
    [
        pytest.param([incoming("a")], "default/a fits on n1", id="one that fits"),
        pytest.param([incoming("a"), incoming("b")], "both pods fit", id="two"),
        pytest.param([incoming(one, cpu="100m") for one in "abc"], "all 3 pods fit", id="three"),
        pytest.param(
            [incoming("a", cpu="9")], "default/a does not fit: Insufficient cpu on 2 of 2 nodes", id="one that does not"
        ),
        pytest.param(
            [incoming("a"), incoming("b", cpu="9")],
            "1 of 2 pods fits; default/b does not: Insufficient cpu on 2 of 2 nodes",
            id="one of two",
        ),
        pytest.param(
            [
                incoming("a"),
                incoming("b", cpu="9"),
                incoming("c", **on("n3")),
                incoming("d", cpu="8"),
            ],
            "1 of 4 pods fits; 3 do not: Insufficient cpu on 2 of 2 nodes (for 2 of them)",
            id="several reasons",
        ),
        pytest.param(
            [incoming("a", cpu="9"), incoming("b", cpu="8")],
            "none of 2 pods fits: Insufficient cpu on 2 of 2 nodes",
            id="none",
        ),
        pytest.param(
            [incoming("a", schedulingGates=[{"name": "quota"}])],
            "default/a not tried: waiting for scheduling gates: [quota]",
            id="a gate",
        ),
        pytest.param(
            [incoming("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}])],
            'default/a does not fit: persistentvolumeclaim "gone" not found',
            id="no node is asked",
        ),
    ],
)
def test_pods_fit_or_do_not(arriving, expected):
    assert sentence(SMALL, *arriving) == expected


def test_reasons_of_nodes_that_evictions_may_help_come_first():
    nodes: dict = {**{node(f"n{one}"): [] for one in range(3)}, node("small", cpu="1"): [pod("full", priority=9000)]}
    assert sentence({**nodes, TAINTED: []}, incoming("a", **on("small"))) == (
        "default/a does not fit: Insufficient cpu on 1 of 5 nodes, 3 didn't match Pod's node affinity/selector, "
        "1 had untolerated taint(s)"
    )


def test_a_node_with_several_reasons_counts_for_each():
    full = node("n1", cpu="1", memory="1Gi"), node("n2", cpu="1")
    found = sentence({one: [pod(one.name, priority=9000)] for one in full}, incoming("a", memory="2Gi"))
    assert found == "default/a does not fit: Insufficient cpu on 2 of 2 nodes, Insufficient memory on 1"


def test_victims_and_what_becomes_of_them_are_named():
    nodes = {node("n1", cpu="1"): [owned("web-abcde")]}
    found = run(snapshot(nodes, budgets=[budget(app="web")]), incoming("a"))
    assert found.sentence == (
        "default/a fits on n1; default/web-abcde is preempted (1 against a disruption budget); "
        "the replacement default/web-bbbbb does not fit: Insufficient cpu on 1 of 1 node"
    )


def test_what_is_not_evaluated_is_said():
    here = built(cluster({node("n1"): []}, others=undecided_claim("gpu")))
    assert run(here, incoming("a", **using_claims("gpu"))).sentence == (
        "default/a fits on n1; that is also up to DynamicResources, not evaluated here"
    )


def test_nothing_to_do():
    assert sentence(SMALL, pending=True) == "nothing to schedule: no pod is pending"


# --- workloads, until full, all or nothing ----------------------------------------------------------------------------


def test_replicas_of_a_workload():
    assert sentence(SMALL, workloads=[workload(replicas=3)]) == (
        "2 of 3 pods of Deployment default/web fit; default/web-86d67495b5-bbbbd does not: "
        "Insufficient cpu on 2 of 2 nodes"
    )
    assert sentence(SMALL, workloads=[workload(replicas=0)]) == (
        "nothing to schedule for Deployment default/web: 0 pods of it exist"
    )


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("500m", "4 more of default/a fit; the next does not: Insufficient cpu on 2 of 2 nodes"),
        ("2", "1 more of default/a fits; the next does not: Insufficient cpu on 2 of 2 nodes"),
        ("9", "no more of default/a fits; the next does not: Insufficient cpu on 2 of 2 nodes"),
    ],
)
def test_until_full(cpu, expected):
    found = run(snapshot(SMALL), incoming("a", cpu=cpu), until_full=True)
    assert found.sentence == expected
    assert found.cycles == []


def test_the_limit_of_until_full_is_no_result(monkeypatch):
    monkeypatch.setattr(simulator, "MAX_UNTIL_FULL_PODS", 2)
    assert sentence(SMALL, incoming("a", cpu="1m"), until_full=True) == (
        "2 more of default/a fit, and perhaps more: that is the limit of a simulation"
    )


def test_all_or_nothing():
    fits, larger = incoming("a"), incoming("b", cpu="9")
    assert sentence(SMALL, fits, gang=True) == "the gang of 1 pod fits"
    assert sentence(SMALL, fits, larger, gang=True) == (
        "the gang of 2 pods does not fit as a whole: default/b does not fit: Insufficient cpu on 2 of 2 nodes"
    )


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_drain_that_hangs_names_the_budget():
    here = snapshot({node("n1"): [owned("web-abcde")], node("n2"): []}, budgets=[guarded(0, 1, 1, "web", "keep")])
    assert run(here, drain=["n1"]).sentence == "the drain of n1 hangs: budget default/keep allows 0"


def test_a_drain_that_hangs_names_the_pod_of_several_budgets():
    budgets = [guarded(1, 2, 1, "web", name) for name in ("p1", "p2")]
    here = snapshot({node("n1"): [owned("web-abcde")], node("n2"): []}, budgets=budgets)
    assert run(here, drain=["n1"]).sentence == (
        "the drain of n1 hangs: default/web-abcde has more than one budget, default/p1 and default/p2, "
        "which the eviction API does not support"
    )


def test_a_drain_that_ends_says_where_the_pods_go():
    here = snapshot({node("n1"): [owned("web-abcde"), pod("bare")], node("n2"): []})
    assert run(here, drain=["n1"]).sentence == (
        "the drain of n1 ends with 2 pods evicted; default/bare does not come back; "
        "the replacement default/web-bbbbb fits on n2"
    )


def test_removed_added_and_cordoned_nodes_are_counted():
    here = snapshot({node("n1"): [pod("bare")], node("n2"): []})
    new = [AddedNodes(here.objects.nodes["", "n2"], 2)]
    assert run(here, remove_nodes=["n1"], cordon=["n2"], add_nodes=new).sentence == (
        "n1 removed with 1 pod; 2 nodes added; 1 node cordoned; default/bare does not come back"
    )


# --- two simulations --------------------------------------------------------------------------------------------------


def by_minors(nodes, *arriving, minors=(33, 36), **scenario):
    results = []
    for minor in minors:
        scheduler = KubeScheduler(features=Features.of(minor), minor=minor)
        here = Snapshot.build(snapshot(nodes).frozen(), scheduler.features)
        results.append(simulate(here, scheduler, Scenario([typed(one) for one in arriving], **scenario)))
    return compare_versions(*results)


FULL = {node("n1", cpu="1"): [pod("full", priority=9000)], TAINTED: []}


def test_other_words_are_no_other_reason():
    """1.33 names the taint; 1.34 to 1.36 say that no claim can be deallocated."""
    found = by_minors(FULL, incoming("a"), incoming("b"))
    assert [(one.in_words_only, one.changes) for one in found.differences] == [(True, ["message"])] * 2
    assert (found.summary.decided_otherwise, found.summary.other_reason, found.summary.other_words) == (0, 0, 2)
    assert found.sentence == "1.33 and 1.36 decide all 2 pods alike; 2 for the same reason in other words"


def test_a_gang_that_fails_in_other_words_has_no_other_reason():
    nodes = {node("n2", cpu="1"): [], **FULL}
    found = by_minors(nodes, incoming("a"), incoming("b"), gang=True)
    assert [(one.pod, one.in_words_only) for one in found.differences] == [("default/a", True), ("default/b", True)]


def test_a_node_that_can_never_take_the_pod_is_another_reason():
    """From 1.34 on a request above the allocatable resources is not resolved by evictions."""
    found = by_minors(FULL, incoming("a", cpu="9"))
    assert [one.in_words_only for one in found.differences] == [False]
    assert found.sentence == "1.33 and 1.36 decide the only pod alike; 1 for another reason"


def test_two_policies_that_agree_and_two_that_do_not():
    same = [run(snapshot(SMALL), incoming("a")) for _ in range(2)]
    assert compare_policies(same).sentence == " and  decide the only pod alike"
    other = [run(snapshot(SMALL), incoming("a")), run(snapshot(SMALL), incoming("a", cpu="9"))]
    assert compare_policies(other).sentence == (
        " and  decide 1 of 1 pod (default/a) differently: 1 and 0 scheduled, 0 and 1 pending"
    )
    drains = [
        run(snapshot({node("n1"): [owned("web-abcde")]}, budgets=[guarded(0, 1, 1, "web", "keep")]), drain=["n1"])
        for _ in range(2)
    ]
    assert compare_policies(drains).sentence == (
        " and  decide alike: the drain of n1 hangs: budget default/keep allows 0"
    )
