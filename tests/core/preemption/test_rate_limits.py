"""Not now, or not so many: when a preemption is refused, and what is said of until when.

Now is 2026-01-01T01:00:00Z, unless a case says otherwise.
"""

import pytest

from extender.core import engine
from extender.core.eviction_history import Attempt, Eviction, EvictionHistory
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import Limits, PreemptionPolicy, Profile
from extender.k8s.candidates import SentCandidate
from extender.k8s.time import MINUTE, SECOND
from tests.builders import drop_messages, incoming, node, pod, snapshot, typed

NOW = (1_767_225_600 + 3600) * SECOND


def profile(*, min_pending_duration=0, keep=1, **limits):
    policy = PreemptionPolicy(min_pending_duration=round(min_pending_duration * SECOND), limits=Limits(**limits))
    return Profile(keep_candidates=keep, preemption=policy)


def past(evicted=(), attempts=(), beyond=0):
    """`evicted`: seconds ago, or (seconds ago, namespace); `attempts`: the same, or with whose; `beyond`: now."""
    pairs = [(one, "default") if isinstance(one, (int, float)) else one for one in evicted]
    tries = [(one, "uid-incoming") if isinstance(one, (int, float)) else one for one in attempts]
    return EvictionHistory(
        NOW + beyond,
        tuple(Eviction(round(ago * SECOND), (where, "Pod", "any")) for ago, where in sorted(pairs)),
        tuple(Attempt(round(ago * SECOND), whose) for ago, whose in sorted(tries)),
    )


def created(at):
    return {} if at is None else {"creationTimestamp": at}


FULL = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b")]}
"""Two full nodes, of which one pod has to leave."""


def decide(chosen, history, preemptor=None, nodes=FULL):
    here = snapshot(nodes)
    leaving = {one.name: [pod for pod in here.pods_on(one.name) if pod.metadata.deletion_timestamp] for one in nodes}
    sent = {name: SentCandidate(tuple(pod.metadata.uid for pod in pods)) for name, pods in leaving.items()}
    return engine.preempt(here, typed(preemptor or incoming()), sent, chosen, history)


def kept(decision):
    return {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}


def check_veto(chosen, history, preemptor, vetoed):
    """All three verbs heed it."""
    decision = decide(chosen, history, preemptor)
    assert decision.vetoed == vetoed
    assert drop_messages(decision) == (
        dict.fromkeys(("n1", "n2"), vetoed) if vetoed else {"n2": RejectionReason.OUTRANKED.value}
    )
    assert kept(decision) == ({} if vetoed else {"n1": ["a"]})
    here = snapshot(FULL)
    filtered = engine.filter(here, typed(preemptor), ["n1", "n2"], chosen, history)
    assert list(filtered.unresolvable if vetoed else filtered.failed) == ["n1", "n2"]
    assert not (filtered.failed if vetoed else filtered.unresolvable)
    scores = engine.prioritize(here, typed(preemptor), ["n1", "n2"], chosen, history).scores
    assert scores == ((0, 0) if vetoed else (5, 5))


# --- how long a pod waits before it preempts --------------------------------------------------------------------------

PENDING = "pending for less than 30s: may not preempt until"


@pytest.mark.parametrize(
    ("at", "vetoed"),
    [
        pytest.param("2026-01-01T00:59:31Z", f"{PENDING} 2026-01-01T01:00:01Z", id="1: 29 s old"),
        pytest.param("2026-01-01T00:59:30.000000001Z", f"{PENDING} 2026-01-01T01:00:01Z", id="2: a nanosecond left"),
        pytest.param("2026-01-01T00:59:30Z", None, id="3: 30 s old"),
        pytest.param("2026-01-01T00:59:29Z", None, id="4: 31 s old"),
        pytest.param("2026-01-01T01:00:00Z", f"{PENDING} 2026-01-01T01:00:30Z", id="5: just created"),
        pytest.param("2026-01-01T01:00:10Z", f"{PENDING} 2026-01-01T01:00:40Z", id="6: created in the future"),
        pytest.param(None, f"{PENDING} 2026-01-01T01:00:30Z", id="7: not known: as if just created"),
    ],
)
def test_a_pod_waits_before_it_preempts(at, vetoed):
    check_veto(profile(min_pending_duration=30), past(), incoming(metadata=created(at)), vetoed)


@pytest.mark.parametrize("at", ["2026-01-01T01:00:00Z", "2026-01-01T01:00:10Z", None])
@pytest.mark.parametrize("history", [past(), EvictionHistory()], ids=["now", "at no time"])
def test_without_that_policy_no_pod_waits(at, history):
    """Also one that was created in the future, as clocks have it; and none where the time is not looked at."""
    check_veto(profile(), history, incoming(metadata=created(at)), None)


def test_half_a_second_is_said_as_it_is():
    decision = decide(profile(min_pending_duration=0.5), past(), incoming())
    assert decision.vetoed == "pending for less than 0.5s: may not preempt until 2026-01-01T01:00:01Z"


# --- how often it may -------------------------------------------------------------------------------------------------

TWICE = "the pod has preempted 2 times without starting to run: may not preempt until"


@pytest.mark.parametrize(
    ("attempts", "vetoed"),
    [
        pytest.param([], None, id="1: none yet"),
        pytest.param([10], None, id="2: one yet"),
        pytest.param([10, 20], f"{TWICE} 2026-01-01T01:01:20Z", id="3: two: the first one is forgotten in 80 s"),
        pytest.param([10, 99], f"{TWICE} 2026-01-01T01:00:01Z", id="4: in 1 s"),
        pytest.param([10, 100], None, id="5: just forgotten"),
        pytest.param([10, 20, 30], f"{TWICE} 2026-01-01T01:01:20Z", id="6: three: two of them must be forgotten"),
        pytest.param([10, (20, "uid-other")], None, id="7: another pod's"),
        pytest.param([10, 20, (30, "uid-other")], f"{TWICE} 2026-01-01T01:01:20Z", id="8: among another pod's"),
        pytest.param([0, 0], f"{TWICE} 2026-01-01T01:01:40Z", id="9: both just now"),
    ],
)
def test_a_pod_may_preempt_so_often(attempts, vetoed):
    """Twice in 100 s."""
    chosen = profile(max_attempts=2, attempts_within=100 * SECOND)
    check_veto(chosen, past(attempts=attempts), incoming(), vetoed)


# --- how much is evicted ----------------------------------------------------------------------------------------------

THREE = "eviction rate limit (3 per minute) reached: not until"


@pytest.mark.parametrize(
    ("evicted", "vetoed"),
    [
        pytest.param([], None, id="1: none"),
        pytest.param([1, 2], None, id="2: one left"),
        pytest.param([1, 2, 3], f"{THREE} 2026-01-01T01:00:57Z", id="3: none left: the first was 3 s ago"),
        pytest.param([1, 2, 59], f"{THREE} 2026-01-01T01:00:01Z", id="4: one second left"),
        pytest.param([1, 2, 59.999999999], f"{THREE} 2026-01-01T01:00:01Z", id="5: a nanosecond left"),
        pytest.param([1, 2, 60], None, id="6: just over"),
        pytest.param([1, 2, 60, 3000], None, id="7: long over"),
        pytest.param([1, 2, 3, 4, 5], f"{THREE} 2026-01-01T01:00:57Z", id="8: more than the limit: three must be over"),
        pytest.param([(1, "a"), (2, "b"), (3, "c")], f"{THREE} 2026-01-01T01:00:57Z", id="9: wherever they were"),
    ],
)
def test_no_pod_is_evicted_when_nothing_is_left_of_the_limit(evicted, vetoed):
    check_veto(profile(evictions_per_minute=3), past(evicted), incoming(), vetoed)


def four(**fields):
    """A full node of four pods."""
    return {node("n1", cpu="4"): [pod(name, **fields) for name in "abcd"]}


LEFT = "victims exceed what remains of the eviction rate limit (3 per minute):"


@pytest.mark.parametrize(
    ("victims", "evicted", "said"),
    [
        pytest.param(1, [10, 20], None, id="1: 1 victim, 1 left"),
        pytest.param(2, [10], None, id="2: 2 victims, 2 left"),
        pytest.param(3, [], None, id="3: 3 victims, 3 left"),
        pytest.param(2, [10, 20], f"2 {LEFT} not until 2026-01-01T01:00:40Z", id="4: 2 victims, 2 left in 40 s"),
        pytest.param(3, [10], f"3 {LEFT} not until 2026-01-01T01:00:50Z", id="5: 3 victims, 3 left in 50 s"),
        pytest.param(3, [10, 20], f"3 {LEFT} not until 2026-01-01T01:00:50Z", id="6: 3 victims, all left in 50 s"),
        pytest.param(3, [10, 60], f"3 {LEFT} not until 2026-01-01T01:00:50Z", id="7: one of them is over already"),
        pytest.param(4, [], f"4 {LEFT} never", id="8: 4 victims are never allowed"),
        pytest.param(4, [10], f"4 {LEFT} never", id="9: 4 victims, and something evicted"),
    ],
)
def test_a_node_with_more_victims_than_are_left_is_no_candidate(victims, evicted, said):
    decision = decide(profile(evictions_per_minute=3), past(evicted), incoming(cpu=str(victims)), four())
    assert decision.vetoed is None
    assert drop_messages(decision) == ({} if said is None else {"n1": said})
    assert len(kept(decision).get("n1", [])) == (0 if said else victims)


THERE = "exceed what remains of its eviction rate limit (2 per minute):"


@pytest.mark.parametrize(
    ("victims", "evicted", "said"),
    [
        pytest.param("ss", [], None, id="1: 2 victims, 2 left"),
        pytest.param("sss", [], f"3 victims in shop {THERE} never", id="2: 3 victims are never allowed"),
        pytest.param("ssbb", [], None, id="3: 2 in each of two namespaces"),
        pytest.param("s", [(10, "shop")], None, id="4: 1 victim, 1 left"),
        pytest.param("ss", [(10, "shop")], f"2 victims in shop {THERE} not until 2026-01-01T01:00:50Z", id="5: 1 left"),
        pytest.param(
            "s",
            [(10, "shop"), (20, "shop")],
            f"1 victim in shop {THERE.replace('exceed', 'exceeds', 1)} not until 2026-01-01T01:00:40Z",
            id="6: none left",
        ),
        pytest.param("ss", [(60, "shop")], None, id="7: just over"),
        pytest.param("ss", [(10, "blog"), (10, "mail")], None, id="8: evicted elsewhere"),
        pytest.param("bbs", [(10, "shop")], None, id="9: 1 left where 1 is asked for"),
        pytest.param(
            "bbss",
            [(10, "shop"), (5, "blog"), (7, "blog")],
            f"2 victims in blog {THERE} not until 2026-01-01T01:00:55Z; "
            f"2 victims in shop {THERE} not until 2026-01-01T01:00:50Z",
            id="10: too many in both",
        ),
    ],
)
def test_every_namespace_has_a_limit_of_its_own(victims, evicted, said):
    names = {"s": "shop", "b": "blog"}
    pods = [pod(f"p{number}", namespace=names[one]) for number, one in enumerate(victims)]
    chosen = profile(namespace_evictions_per_minute=2)
    decision = decide(chosen, past(evicted), incoming(cpu=str(len(pods))), {node("n1", cpu=str(len(pods))): pods})
    assert drop_messages(decision) == ({} if said is None else {"n1": said})


@pytest.mark.parametrize(
    ("victims", "said"),
    [
        pytest.param(1, None, id="1: fewer"),
        pytest.param(2, None, id="2: as many"),
        pytest.param(3, "3 victims exceed the limit of 2 per preemption", id="3: one more"),
        pytest.param(4, "4 victims exceed the limit of 2 per preemption", id="4: two more"),
    ],
)
def test_a_preemption_has_so_many_victims_at_most(victims, said):
    decision = decide(profile(max_victims=2), past([1, 2, 3]), incoming(cpu=str(victims)), four())
    assert drop_messages(decision) == ({} if said is None else {"n1": said})


def test_all_limits_that_a_node_exceeds_are_named():
    chosen = profile(max_victims=2, evictions_per_minute=3, namespace_evictions_per_minute=1)
    decision = decide(chosen, past([10]), incoming(cpu="3"), four())
    assert drop_messages(decision)["n1"] == (
        "3 victims exceed the limit of 2 per preemption, "
        "3 victims exceed what remains of the eviction rate limit (3 per minute): not until 2026-01-01T01:00:50Z, "
        "3 victims in default exceed what remains of its eviction rate limit (1 per minute): never"
    )


def test_a_node_within_the_limits_is_taken_instead_although_it_costs_more():
    """Two of priority 0 on n1, one of priority 10 on n2."""
    nodes = {node("n1", cpu="2"): [pod("a"), pod("b")], node("n2", cpu="2"): [pod("c", "2", priority=10)]}
    assert kept(decide(profile(), past(), incoming(cpu="2"), nodes)) == {"n1": ["a", "b"]}
    for chosen in (profile(max_victims=1), profile(evictions_per_minute=1), profile(namespace_evictions_per_minute=1)):
        assert kept(decide(chosen, past(), incoming(cpu="2"), nodes)) == {"n2": ["c"]}
        here, preemptor = snapshot(nodes), typed(incoming(cpu="2"))
        filtered = engine.filter(here, preemptor, ["n1", "n2"], chosen, past())
        assert (list(filtered.failed), list(filtered.unresolvable)) == (["n2"], ["n1"])
        assert engine.prioritize(here, preemptor, ["n1", "n2"], chosen, past()).scores == (0, 5)


def test_terminating_pods_do_not_count():
    """One of three victims is terminating already: two are evicted."""
    leaving = {"deletionTimestamp": "2026-01-01T00:59:00Z"}
    nodes = {node("n1", cpu="3"): [pod("a"), pod("b"), pod("c", metadata=leaving)]}
    for limit in ({"max_victims": 2}, {"evictions_per_minute": 2}, {"namespace_evictions_per_minute": 2}):
        assert kept(decide(profile(**limit), past(), incoming(cpu="3"), nodes)) == {"n1": ["a", "b", "c"]}
        fewer = dict.fromkeys(limit, 1)
        decision = decide(profile(**fewer), past(), incoming(cpu="3"), nodes)
        assert kept(decision) == {}
        assert drop_messages(decision)["n1"].startswith("2 victims ")


def test_the_first_veto_is_the_one_that_is_said():
    chosen = profile(min_pending_duration=30, max_attempts=1, evictions_per_minute=1)
    history = past([1], [1])
    assert decide(chosen, history).vetoed == f"{PENDING} 2026-01-01T01:00:30Z"
    old = incoming(metadata=created("2026-01-01T00:00:00Z"))
    assert decide(chosen, history, old).vetoed.startswith("the pod has preempted 1 times")
    assert decide(chosen, past([1]), old).vetoed.startswith("eviction rate limit (1 per minute)")
    assert decide(chosen, past(), old).vetoed is None


def test_a_pod_that_never_preempts_is_told_so_first():
    decision = decide(profile(min_pending_duration=30), past(), incoming(preemptionPolicy="Never"))
    assert decision.vetoed == "not eligible due to preemptionPolicy=Never."


def test_nodes_that_take_the_pod_as_it_is_are_left_alone():
    nodes = {node("n1", cpu="1"): [], node("n2", cpu="1"): [pod("b")]}
    chosen, preemptor = profile(evictions_per_minute=1), typed(incoming())
    filtered = engine.filter(snapshot(nodes), preemptor, ["n1", "n2"], chosen, past([1]))
    assert filtered.accepted == (0,)
    assert list(filtered.unresolvable) == ["n2"]


def test_a_second_that_has_begun_is_a_whole_one_in_what_is_said():
    """Half a second past: 40.5 s from now is 41 s past the hour."""
    history = past([20], beyond=SECOND // 2)
    assert decide(profile(evictions_per_minute=1), history).vetoed.endswith("not until 2026-01-01T01:00:41Z")


def test_a_limit_of_a_minute_is_a_minute():
    assert MINUTE == 60 * SECOND
