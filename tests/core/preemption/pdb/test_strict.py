"""Strict disruption budgets: no candidate loses more of a budget's pods than it allows, whatever kube-scheduler counts.

Every case says its sum. A pod takes 1 cpu unless it says otherwise, and so does the one that comes in. Pods that are
equally important are spared in the order in which they are listed.
"""

from dataclasses import dataclass

import pytest

from extender.core import engine
from extender.core.engine import MAX_EXTENDER_SCORE
from extender.core.profile import KubeScheduler, PreemptionPolicy, Profile
from extender.k8s.candidates import SentCandidate
from extender.server.guard.guard import guard_preempt
from tests.builders import JSON, budget, built, cluster, drop_messages, incoming, node, pod, typed
from tests.device_builders import undecided_claim

STRICT = PreemptionPolicy(disruption_budgets="Strict")
BEST_EFFORT = PreemptionPolicy()


@dataclass(frozen=True)
class Answer:
    """Names of nodes and pods."""

    kept: dict[str, list[str]]
    violations: dict[str, int]
    dropped: dict[str, str]


def ask(nodes, preemptor=None, policy=STRICT, sent=None, keep=None, **others) -> Answer:
    """Every node is sent, without victims, unless `sent` says otherwise; the guard has no objection."""
    snapshot, waiting = built(cluster(nodes, **others)), typed(preemptor or incoming())
    given = dict.fromkeys(snapshot.node_names, ()) if sent is None else sent
    made = {name: SentCandidate(tuple(f"uid-{victim}" for victim in victims)) for name, victims in given.items()}
    profile = Profile(keep_candidates=keep, preemption=policy)
    decision = engine.preempt(snapshot, waiting, made, profile)
    looked_at = guard_preempt(snapshot, waiting, made, decision.kept, as_sent=decision.as_sent, profile=profile)
    assert looked_at.rejected == {}
    return Answer(
        {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept},
        {one.node: one.num_pdb_violations for one in decision.kept},
        drop_messages(decision),
    )


def of(app, name, cpu="1", **fields) -> JSON:
    """A pod of a budget."""
    return pod(name, cpu, labels={"app": app}, **fields)


def breaks(*names) -> str:
    return f"would break disruption budget{'s' if len(names) > 1 else ''} {', '.join(f'default/{n}' for n in names)}"


# --- one node -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class One:
    """A full node, and the pods that Strict evicts; None: none, because of these budgets."""

    pods: list[JSON]
    budgets: list[JSON]
    victims: list[str] | None
    broken: tuple[str, ...] = ()
    wanted: str = "1"
    left: str = "0"
    """cpu that is free."""


def later(second) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


BIG_OR_SMALL = [of("x", "small", "1", priority=5), of("x", "big", "3")]
"""Both count against one budget, the small one first because it is more important."""

ONE_BY_ONE = [
    pod("outsider", "1", priority=9),
    of("x", "first", "1", priority=5),
    of("x", "second", "3", priority=1),
]

ON_ONE_NODE = {
    "1: no budget, the last one goes": One([pod("a"), pod("b")], [], ["b"]),
    "2: a budget with room": One([of("x", "a")], [budget(allowed=1, app="x")], ["a"]),
    "3: a spent budget, and no other pod": One([of("x", "a")], [budget(app="x")], None, ("budget",)),
    "4: a spent budget, the other pod goes": One([pod("a"), of("x", "b")], [budget(app="x")], ["a"]),
    "5: a spent budget, a more important pod goes": One(
        [pod("a", priority=5), of("x", "b")], [budget(app="x")], ["a"]
    ),
    "6: two must go, one may": One(
        [of("x", "a"), of("x", "b")], [budget(allowed=1, app="x")], None, ("budget",), wanted="2"
    ),
    "7: two must go, two may": One([of("x", "a"), of("x", "b")], [budget(allowed=2, app="x")], ["a", "b"], wanted="2"),
    "8: one must go, one may": One([of("x", "a"), of("x", "b")], [budget(allowed=1, app="x")], ["a"]),
    "9: broken by kube-scheduler's count only: 1 charge of the 1 that is allowed": One(
        BIG_OR_SMALL, [budget(allowed=1, app="x")], ["big"], wanted="3"
    ),
    # 5 cpu, 4 wanted: kube-scheduler's order spares the outsider, and then both of x go. Sparing the first of x
    # instead would do with 1 of x, but other sets of victims are not tried.
    "10: other victims would break none": One(
        ONE_BY_ONE, [budget(allowed=1, app="x")], None, ("budget",), wanted="4"
    ),
    "11: two budgets, one spent": One(
        [of("x", "a")], [budget("full", allowed=1, app="x"), budget("spent", app="x")], None, ("spent",)
    ),
    "12: two budgets, both spent": One(
        [of("x", "a")], [budget("one", app="x"), budget("two", app="x")], None, ("one", "two")
    ),
    "13: two budgets with room": One(
        [of("x", "a")], [budget("one", allowed=1, app="x"), budget("two", allowed=3, app="x")], ["a"]
    ),
    "14: two budgets of two pods, both with room": One(
        [of("x", "a"), of("y", "b")],
        [budget("one", allowed=1, app="x"), budget("two", allowed=1, app="y")],
        ["a", "b"],
        wanted="2",
    ),
    "15: the API server has charged the budget for it already": One(
        [of("x", "a")], [budget(app="x", disrupted=["a"])], ["a"]
    ),
    "16: it has for the other one": One(
        [of("x", "a"), of("x", "b")], [budget(app="x", disrupted=["b"])], ["b"]
    ),
    "17: two must go, one may, one is charged already": One(
        [of("x", "a"), of("x", "b")], [budget(allowed=1, app="x", disrupted=["b"])], ["a", "b"], wanted="2"
    ),
    "18: less than nothing is allowed": One([of("x", "a")], [budget(allowed=-1, app="x")], None, ("budget",)),
    "19: less than nothing is allowed of other pods": One([pod("a")], [budget(allowed=-1, app="x")], ["a"]),
    "20: a budget of another namespace": One([of("x", "a")], [budget(namespace="shop", app="x")], ["a"]),
    "21: a pod without labels is in no budget": One(
        [pod("a", labels={})],
        [budget(selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})],
        ["a"],
    ),
    "22: a selector that does not parse matches no pod": One(
        [of("x", "a")],
        [budget(selector={"matchExpressions": [{"key": "app", "operator": "In", "values": []}]})],
        ["a"],
    ),
    # b and c are violating, so kube-scheduler puts them back first.
    "23: a pod that stays charges nothing: 1 of 3 must go, 1 may": One(
        [of("x", "a", priority=5), of("x", "b", priority=5), of("x", "c")], [budget(allowed=1, app="x")], ["a"]
    ),
    "24: a pod that is leaving charges what is reported, too": One(
        [of("x", "a", metadata={"labels": {"app": "x"}, "deletionTimestamp": later(0)})],
        [budget(app="x")],
        None,
        ("budget",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in ON_ONE_NODE.items()])
def test_on_one_node(case):
    taken = sum(int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in case.pods)
    nodes = {node("n1", cpu=str(taken + int(case.left))): case.pods}
    answer = ask(nodes, incoming(cpu=case.wanted), budgets=case.budgets)
    assert answer.kept == ({} if case.victims is None else {"n1": case.victims})
    assert set(answer.violations.values()) <= {0}
    assert answer.dropped == ({"n1": breaks(*case.broken)} if case.victims is None else {})


def test_what_kube_scheduler_flags_is_no_violation_where_the_budget_holds():
    """The small pod counts against the budget that allows 1 before the big one does, but it stays."""
    nodes, budgets = {node("n1", cpu="4"): BIG_OR_SMALL}, [budget(allowed=1, app="x")]
    upstream = ask(nodes, incoming(cpu="3"), BEST_EFFORT, budgets=budgets)
    strict = ask(nodes, incoming(cpu="3"), budgets=budgets)
    assert upstream.kept == strict.kept == {"n1": ["big"]}
    assert (upstream.violations, strict.violations) == ({"n1": 1}, {"n1": 0})


def test_a_budget_with_nothing_left_does_not_matter_where_no_pod_may_be_evicted():
    answer = ask({node("n1", cpu="1"): [of("x", "a", priority=1000)]}, budgets=[budget(app="x")])
    assert answer == Answer({}, {}, {"n1": "No preemption victims found for incoming pod"})


def test_pods_that_may_not_be_evicted_do_not_count_against_budgets():
    """1 of x may go; the important one is not among those that can."""
    nodes = {node("n1", cpu="2"): [of("x", "a", priority=1000), of("x", "b")]}
    assert ask(nodes, budgets=[budget(allowed=1, app="x")]).kept == {"n1": ["b"]}


# --- several nodes --------------------------------------------------------------------------------------------------


def test_of_several_nodes_the_clean_one_is_kept_alone():
    """n1 and n3 lose a pod of the spent budget; n2 loses a more important pod of none."""
    nodes = {
        node("n1", cpu="1"): [of("x", "a")],
        node("n2", cpu="1"): [pod("b", priority=50)],
        node("n3", cpu="1"): [of("x", "c")],
    }
    answer = ask(nodes, budgets=[budget(app="x")])
    assert answer == Answer({"n2": ["b"]}, {"n2": 0}, {"n1": breaks("budget"), "n3": breaks("budget")})
    assert list(ask(nodes, policy=BEST_EFFORT, budgets=[budget(app="x")]).kept) == ["n2", "n1", "n3"]


def test_where_all_would_break_a_budget_no_pod_is_evicted():
    nodes = {node("n1", cpu="1"): [of("x", "a")], node("n2", cpu="1"): [of("y", "b")]}
    answer = ask(nodes, keep=1, budgets=[budget("xs", app="x"), budget("ys", app="y")])
    assert answer == Answer({}, {}, {"n1": breaks("xs"), "n2": breaks("ys")})


def test_every_node_is_a_world_of_its_own():
    """1 of x may go, from either node."""
    nodes = {node(name, cpu="1"): [of("x", f"{name}-a")] for name in ("n1", "n2")}
    assert ask(nodes, budgets=[budget(allowed=1, app="x")]).kept == {"n1": ["n1-a"], "n2": ["n2-a"]}


def test_the_best_of_the_clean_ones_comes_first():
    """n1 would be best but for its budget; n3 loses less than n2."""
    nodes = {
        node("n1", cpu="1"): [of("x", "a")],
        node("n2", cpu="1"): [pod("b", priority=9)],
        node("n3", cpu="1"): [pod("c", priority=8)],
    }
    assert ask(nodes, keep=1, budgets=[budget(app="x")]).kept == {"n3": ["c"]}
    assert ask(nodes, keep=1).kept == {"n1": ["a"]}


def test_a_better_count_does_not_hide_that_a_violation_is_none():
    """On n1 the flagged pod goes (clean all the same), on n2 a more important one: both have 0, so n1 is better."""
    nodes = {node("n1", cpu="4"): BIG_OR_SMALL, node("n2", cpu="3"): [pod("c", "3", priority=2)]}
    budgets = [budget(allowed=1, app="x")]
    assert list(ask(nodes, incoming(cpu="3"), budgets=budgets).kept) == ["n1", "n2"]
    assert list(ask(nodes, incoming(cpu="3"), BEST_EFFORT, budgets=budgets).kept) == ["n2", "n1"]


# --- /filter and /prioritize ----------------------------------------------------------------------------------------

OF_ALL_SORTS = {
    node("breaks", cpu="1"): [of("x", "a")],
    node("clean", cpu="1"): [of("y", "b")],
    node("empty", cpu="1"): [],
    node("full", cpu="1"): [pod("c", priority=1000)],
}
BUDGETS = [budget("xs", app="x"), budget("ys", allowed=1, app="y")]


@pytest.mark.parametrize(
    ("policy", "failed", "unresolvable"),
    [
        pytest.param(STRICT, {"clean"}, {"breaks", "full"}, id="strict"),
        pytest.param(BEST_EFFORT, {"clean", "breaks"}, {"full"}, id="best effort"),
    ],
)
def test_a_node_that_only_broken_budgets_would_help_is_not_worth_preempting_on(policy, failed, unresolvable):
    snapshot, profile = built(cluster(OF_ALL_SORTS, budgets=BUDGETS)), Profile(preemption=policy)
    decision = engine.filter(snapshot, typed(incoming()), snapshot.node_names, profile)
    assert [snapshot.node_names[place] for place in decision.accepted] == ["empty"]
    assert decision.failed.keys() == failed
    assert decision.unresolvable.keys() == unresolvable
    assert decision.unresolvable["full"] == "Insufficient cpu"


def test_such_a_node_gets_no_score():
    """The node that fits is 6 or more, those that may be helped 1 to 5, all others 0."""
    snapshot, profile = built(cluster(OF_ALL_SORTS, budgets=BUDGETS)), Profile(preemption=STRICT)
    scores = engine.prioritize(snapshot, typed(incoming()), snapshot.node_names, profile).scores
    by_node = dict(zip(snapshot.node_names, scores, strict=True))
    assert by_node["breaks"] == by_node["full"] == 0
    assert 1 <= by_node["clean"] <= 5
    assert 6 <= by_node["empty"] <= MAX_EXTENDER_SCORE


# --- what kube-scheduler alone can judge ----------------------------------------------------------------------------


def with_a_device(**fields):
    """A pod of which only kube-scheduler knows if its claim has waited too long, on all nodes."""
    return incoming(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}], **fields)


def test_victims_as_sent_are_held_to_the_budgets_as_well():
    nodes = {node("n1", cpu="1"): [of("x", "a")], node("n2", cpu="1"): [pod("b", priority=50)]}
    sent, others = {"n1": ["a"], "n2": ["b"]}, undecided_claim("gpu")
    answer = ask(nodes, with_a_device(), sent=sent, budgets=[budget(app="x")], others=others)
    assert answer == Answer({"n2": ["b"]}, {"n2": 0}, {"n1": breaks("budget")})


def test_no_pod_replaces_victims_as_sent():
    """1 of x may go, 2 are sent; our own dry run would have done with 1."""
    nodes = {node("n1", cpu="2"): [of("x", "a"), of("x", "b")]}
    objects = {"budgets": [budget(allowed=1, app="x")], "others": undecided_claim("gpu")}
    assert ask(nodes, with_a_device(), sent={"n1": ["a", "b"]}, **objects).dropped == {"n1": breaks("budget")}
    assert ask(nodes, with_a_device(), sent={"n1": ["b"]}, **objects).kept == {"n1": ["b"]}


# --- beside others --------------------------------------------------------------------------------------------------


def test_a_pod_that_was_named_is_not_taken_for_one_of_another_budget():
    """The named one of two equal pods would go, but nothing is left of its budget."""
    nodes = {node("n1", cpu="2"): [of("x", "a"), of("y", "b")]}
    budgets = [budget("xs", app="x"), budget("ys", allowed=1, app="y")]
    assert ask(nodes, sent={"n1": ["a"]}, budgets=budgets).kept == {"n1": ["b"]}


def test_both_ways_of_counting_are_at_hand_on_one_snapshot():
    """Best effort and Strict share the budgets but not what they make of them; asked in turns."""
    snapshot = built(cluster({node("n1", cpu="1"): [of("x", "a")]}, budgets=[budget(app="x")]))
    for policy, violations in ((STRICT, []), (BEST_EFFORT, [1]), (STRICT, []), (BEST_EFFORT, [1])):
        profile = Profile(preemption=policy)
        kept = engine.preempt(snapshot, typed(incoming()), {"n1": SentCandidate(())}, profile).kept
        assert [one.num_pdb_violations for one in kept] == violations


def test_a_budget_that_is_spent_meanwhile_is_heeded():
    """The snapshot is asked, changed and asked again."""
    snapshot, profile = built(cluster({node("n1", cpu="5"): ONE_BY_ONE})), Profile(preemption=STRICT)
    engine.prepare(snapshot, KubeScheduler((profile,)))
    expected = {3: ["first", "second"], 1: None, 0: None, 2: ["first", "second"]}
    for allowed, victims in expected.items():
        snapshot.put(
            "PodDisruptionBudget",
            *built(cluster({}, budgets=[budget(allowed=allowed, app="x")])).objects.budgets.values(),
        )
        kept = engine.preempt(snapshot, typed(incoming(cpu="4")), {"n1": SentCandidate(())}, profile).kept
        assert [[pod.metadata.name for pod in one.victims] for one in kept] == ([] if victims is None else [victims])
