"""The retries of several reflectors: what an outage of the API server makes of them, and what its end does."""

import threading
import time

import pytest

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.watch import retry
from extender.cluster.watch.list_watch import WatchSettings, backoff
from extender.cluster.watch.retry import Outage, RetryTimer
from extender.k8s.kinds import KINDS
from tests.builders import pod
from tests.cluster.watch.source_rig import following
from tests.fakes.clock import Clock

REFUSED = ApiUnreachable("connection refused")
FORBIDDEN = ApiError(403, "Forbidden", "")
TO_WAIT = [ApiError(429, "", ""), ApiError(503, "", "", retry_after=1.0)]


@pytest.fixture
def clock():
    return Clock()


def timers(count, clock=time.monotonic, wait=threading.Event.wait, jitter=0.0):
    outage = Outage(clock)
    return [RetryTimer(outage, lambda: backoff(0.8, 30.0, lambda: 1.0), wait, lambda: jitter) for _ in range(count)]


def fail(timer, error=REFUSED, times=1):
    """Fail so many rounds at once; return the seconds to wait after the last one."""
    for _ in range(times - 1):
        timer.begin()
        timer.delay(error)
    timer.begin()
    return timer.delay(error)


def test_D6_one_reflector_at_a_time_probes_and_the_others_back_off(clock):
    first, second, third = timers(3, clock, clock.wait)
    assert [fail(timer, times=7) for timer in (first, second, third)] == [25.6, 25.6, 25.6]
    clock.now += 0.8
    assert [fail(timer) for timer in (second, first, third)] == [3.0, 30.0, 30.0], "the turn had been the first one's"
    clock.now += 3.0
    assert [fail(timer) for timer in (third, first, second)] == [3.0, 30.0, 30.0]


def test_D6_the_first_success_wakes_all_who_wait_for_the_server_and_spreads_their_retries(clock):
    first, second = timers(2, clock, clock.wait, jitter=0.5)
    fail(first)
    seconds = fail(second, times=7)
    first.begin()
    first.succeed()
    second.sleep(seconds)
    assert clock.waits == [25.6, 0.5], "the fake clock passes the time even if the event is set"
    assert fail(second) == 0.8


def test_D6_a_success_between_the_failure_and_the_wait_is_not_missed():
    first, second = timers(2)
    fail(second)
    first.begin()
    first.succeed()
    second.sleep(600.0)


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [(FORBIDDEN, False), (ApiError(500, "InternalError", ""), False), *((one, True) for one in TO_WAIT)],
    ids=str,
)
def test_D6_what_a_server_answered_itself_is_waited_out_whoever_succeeds(error, is_outage, clock):
    first, second = timers(2, clock, clock.wait)
    if is_outage:
        fail(first, times=2)
    seconds = fail(second, error, times=4)
    first.begin()
    first.succeed()
    second.sleep(seconds)
    assert clock.waits == [3.2]


def test_D6_what_a_server_refuses_before_it_has_served_anybody_is_part_of_the_outage(clock):
    first, second = timers(2, clock, clock.wait)
    fail(first)
    fail(second)
    assert fail(second, FORBIDDEN, times=4) == 6.4
    clock.now += 3.0
    seconds = fail(second, FORBIDDEN)
    assert (seconds, second.is_outage) == (3.0, True), "its turn to probe"
    first.begin()
    first.succeed()
    second.sleep(seconds)
    assert fail(second, FORBIDDEN) == 0.8
    assert not second.is_outage


def test_D6_a_refusal_that_comes_after_the_end_of_the_outage_that_it_was_part_of_is_not_waited_out(clock):
    first, second = timers(2, clock, clock.wait, jitter=0.5)
    fail(first)
    fail(second, times=7)
    first.begin()
    second.begin()
    first.succeed()
    assert second.is_outage
    second.sleep(second.delay(FORBIDDEN))
    assert clock.waits[-1] == 0.5
    assert fail(second, FORBIDDEN) == 0.8
    assert not second.is_outage


def test_D6_a_connection_that_is_lost_after_an_answer_is_no_outage(clock):
    first, second = timers(2, clock, clock.wait)
    seconds = []
    for _ in range(4):
        first.begin()
        first.succeed()
        seconds.append(first.delay(REFUSED))
    second.begin()
    second.succeed()
    first.sleep(seconds[-1])
    assert clock.waits == [3.2]


def test_stop_ends_a_wait_for_the_end_of_an_outage():
    (timer,) = timers(1)
    fail(timer)
    timer.stop()
    timer.sleep(600.0)


@pytest.mark.anyio
async def test_D6_when_the_server_is_back_every_kind_is_watched_although_its_own_backoff_is_long(api, monkeypatch):
    monkeypatch.setattr(retry, "PROBE_INTERVAL_SECONDS", 0.1)
    settings = WatchSettings(backoff=(600.0, 600.0))
    async with following(api.url, clock=time.monotonic, settings=settings) as rig:
        await rig.read()
        api.stop()
        states = [reflector.state for reflector in rig.source.reflectors.values()]
        await rig.until(lambda: all(state.phase == "broken" and "refused" in str(state.last_error) for state in states))
        api.put("Pod", pod("a"))
        api.start()
        await rig.until(lambda: all(state.phase == "watching" for state in states) and rig.holds(api))
        assert rig.source.problem() is None


@pytest.mark.anyio
@pytest.mark.parametrize("is_down_at_first", [False, True])
async def test_D6_a_server_that_starts_and_refuses_all_requests_at_first_loses_no_kind(
    api, is_down_at_first, monkeypatch
):
    monkeypatch.setattr(retry, "PROBE_INTERVAL_SECONDS", 0.1)
    settings = WatchSettings(backoff=(600.0, 600.0), unreadable_retry_seconds=600.0)
    kinds = list(KINDS)
    if is_down_at_first:
        api.stop()
    async with following(api.url, clock=time.monotonic, settings=settings) as rig:
        if not is_down_at_first:
            await rig.read()
            api.stop()
        states = [reflector.state for reflector in rig.source.reflectors.values()]
        await rig.until(lambda: all(state.phase == "broken" and "refused" in str(state.last_error) for state in states))
        for kind in kinds:
            api.access.forbid(kind)
        api.start()
        await rig.until(lambda: any("403 Forbidden" in str(state.last_error) for state in states))
        for kind in kinds:
            api.access.allow(kind)
        await rig.until(lambda: all(state.phase == "watching" for state in states) and rig.holds(api))
        assert rig.source.problem() is None
