"""Recently approved evictions: how long it is remembered, what a restart leaves of it, and clocks that jump."""

from extender.cluster.cache import eviction_history as module
from extender.cluster.cache.eviction_history import EvictionLog
from extender.core.eviction_history import Attempt, Eviction, EvictionHistory
from extender.core.profile import Limits
from extender.k8s.time import MINUTE, SECOND
from tests.builders import incoming, node, pod, snapshot, typed

URGENT, MODEST = typed(incoming("urgent")), typed(incoming("modest"))
A, B, C = (typed(pod(name, namespace="shop")) for name in "abc")
COOLING = Limits(workload_cooldown=300 * SECOND, max_attempts=3, attempts_within=600 * SECOND)


class Clocks:
    """Two clocks that stand still unless a test moves them: one that measures, one on the wall."""

    def __init__(self) -> None:
        self.measured = 5_000 * SECOND
        self.wall = 1_767_225_600 * SECOND

    def log(self) -> EvictionLog:
        return EvictionLog(lambda: self.measured, lambda: self.wall)

    def pass_(self, seconds: float) -> None:
        self.measured += round(seconds * SECOND)
        self.wall += round(seconds * SECOND)


PER_MINUTE = Limits(evictions_per_minute=9)


def evicted(history: EvictionHistory) -> list[tuple[float, str]]:
    return [(one.ago / SECOND, one.workload[2]) for one in history.evictions]


def tried(history: EvictionHistory) -> list[tuple[float, str]]:
    return [(one.ago / SECOND, one.preemptor) for one in history.attempts]


def test_without_a_past_there_is_only_now():
    clocks = Clocks()
    assert clocks.log().history(Limits()) == EvictionHistory(clocks.wall)


def test_what_is_approved_is_in_the_next_moment():
    clocks = Clocks()
    log = clocks.log()
    log.record(URGENT, [A, B])
    clocks.pass_(10)
    assert log.history(COOLING) == EvictionHistory(
        clocks.wall,
        (Eviction(10 * SECOND, ("shop", "Pod", "b")), Eviction(10 * SECOND, ("shop", "Pod", "a"))),
        (Attempt(10 * SECOND, "uid-urgent"),),
    )


def test_the_latest_is_the_first():
    clocks = Clocks()
    log = clocks.log()
    for preemptor, victim in ((URGENT, A), (MODEST, B), (URGENT, C)):
        log.record(preemptor, [victim])
        clocks.pass_(5)
    history = log.history(COOLING)
    assert evicted(history) == [(5, "c"), (10, "b"), (15, "a")]
    assert tried(history) == [(5, "uid-urgent"), (10, "uid-modest"), (15, "uid-urgent")]


def test_to_evict_nobody_is_no_attempt():
    log = Clocks().log()
    log.record(URGENT, [])
    assert not log.history(COOLING).attempts


def test_who_is_leaving_already_is_not_evicted_again():
    """As when kube-scheduler asks once more before the first victims have gone."""
    log = Clocks().log()
    leaving = typed(pod("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    log.record(URGENT, [leaving])
    assert log.history(COOLING) == EvictionHistory(1_767_225_600 * SECOND)
    log.record(URGENT, [leaving, B])
    assert evicted(log.history(COOLING)) == [(0, "b")]
    assert len(log.history(COOLING).attempts) == 1


# --- forgetting -------------------------------------------------------------------------------------------------------


def remembered(limits: Limits, seconds: float) -> tuple[int, int]:
    """How many evictions and attempts of one preemption are there so long after it?"""
    clocks = Clocks()
    log = clocks.log()
    log.record(URGENT, [A, B])
    clocks.pass_(seconds)
    history = log.history(limits)
    return len(history.evictions), len(history.attempts)


def test_evictions_are_remembered_for_a_minute_and_for_the_cooldown():
    for limits in (
        Limits(workload_cooldown=1),
        Limits(workload_cooldown=MINUTE),
        PER_MINUTE,
        Limits(namespace_evictions_per_minute=9),
    ):
        assert remembered(limits, 59.999999999)[0] == 2
        assert remembered(limits, 60)[0] == 0
    assert remembered(Limits(workload_cooldown=300 * SECOND), 299)[0] == 2
    assert remembered(Limits(workload_cooldown=300 * SECOND), 300)[0] == 0


def test_a_moment_holds_only_what_limits_look_at():
    assert remembered(Limits(), 1) == (0, 0)
    assert remembered(PER_MINUTE, 1) == (2, 0)
    assert remembered(Limits(max_attempts=3), 1) == (0, 1)


def test_attempts_are_remembered_for_as_long_as_limits_look_back():
    limits = Limits(max_attempts=3, attempts_within=90 * SECOND)
    assert remembered(limits, 89)[1] == 1
    assert remembered(limits, 90)[1] == 0


def test_only_what_is_too_old_is_forgotten():
    clocks = Clocks()
    log = clocks.log()
    for victim in (A, B, C):
        log.record(URGENT, [victim])
        clocks.pass_(30)
    assert evicted(log.history(PER_MINUTE)) == [(30, "c")]
    clocks.pass_(29)
    assert evicted(log.history(PER_MINUTE)) == [(59, "c")]


def test_what_longer_limits_look_for_is_lost_once_shorter_ones_were_in_effect():
    """A configuration may change; nothing is kept in case it does."""
    clocks = Clocks()
    log = clocks.log()
    log.record(URGENT, [A])
    clocks.pass_(100)
    assert evicted(log.history(COOLING)) == [(100, "a")]
    assert evicted(log.history(Limits())) == []
    assert evicted(log.history(COOLING)) == []


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED_EVICTIONS", 100)
    log = Clocks().log()
    for _ in range(105):
        log.record(URGENT, [A])
    log.record(MODEST, [B])
    history = log.history(COOLING)
    assert len(history.evictions) == len(history.attempts) == 100
    assert history.evictions[0].workload == ("shop", "Pod", "b")


# --- a restart --------------------------------------------------------------------------------------------------------


def leaving(name, reason="PreemptionByScheduler", status="True", **fields):
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    return pod(name, status={"conditions": [condition]}, metadata=metadata, **fields)


def test_after_a_restart_who_is_being_preempted_counts_as_evicted_now():
    clocks = Clocks()
    log = clocks.log()
    pods = [
        leaving("preempted", namespace="shop"),
        leaving("drained", "EvictionByEvictionAPI"),
        leaving("spared", status="False"),
        pod("deleted", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("running"),
        pod("doomed", status={"conditions": leaving("x")["status"]["conditions"]}),
    ]
    log.record_terminating(snapshot({node("n1"): pods}))
    clocks.pass_(20)
    history = log.history(COOLING)
    assert history.evictions == (Eviction(20 * SECOND, ("shop", "Pod", "preempted")),)
    assert history.attempts == ()


def test_only_the_first_sync_tells_of_the_past():
    """A pod that terminates later was approved by this service."""
    clocks = Clocks()
    log = clocks.log()
    log.record_terminating(snapshot({node("n1"): []}))
    log.record_terminating(snapshot({node("n1"): [leaving("a")]}))
    assert evicted(log.history(COOLING)) == []
    log = clocks.log()
    for _ in range(3):
        log.record_terminating(snapshot({node("n1"): [leaving("a")]}))
    assert evicted(log.history(COOLING)) == [(0, "a")]


def test_what_is_approved_after_a_restart_comes_before_what_was_found():
    clocks = Clocks()
    log = clocks.log()
    log.record_terminating(snapshot({node("n1"): [leaving("a")]}))
    clocks.pass_(7)
    log.record(URGENT, [B])
    assert evicted(log.history(COOLING)) == [(0, "b"), (7, "a")]
    clocks.pass_(60)
    assert evicted(log.history(Limits())) == []


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_a_wall_clock_that_jumps_changes_no_age():
    clocks = Clocks()
    log = clocks.log()
    log.record(URGENT, [A])
    clocks.pass_(10)
    for jump in (3600, -7200, 10**6):
        clocks.wall += jump * SECOND
        history = log.history(COOLING)
        assert (history.now, evicted(history), tried(history)) == (clocks.wall, [(10, "a")], [(10, "uid-urgent")])


def test_a_machine_that_has_just_started_forgets_nothing():
    """The clock that measures starts near 0: what is a minute before that is below it."""
    clocks = Clocks()
    clocks.measured = 0
    log = clocks.log()
    log.record(URGENT, [A])
    assert evicted(log.history(COOLING)) == [(0, "a")]


def test_by_itself_it_goes_by_the_clocks_of_the_machine():
    """Ages are never negative, and now is after this was written."""
    log = EvictionLog()
    log.record(URGENT, [A])
    history = log.history(COOLING)
    assert history.now > 1_767_225_600 * SECOND
    assert 0 <= history.evictions[0].ago < MINUTE
