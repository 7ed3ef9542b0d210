"""Repetitions are counted in one Event, and the rates are kept."""

from extender.server.events.correlator import (
    EVENT_BURST,
    EVENTS_PER_SECOND,
    MAX_REMEMBERED,
    OBJECT_BURST,
    OBJECT_EVENTS_PER_SECOND,
    PATCH_INTERVAL_SECONDS,
    SERIES_SECONDS,
    EventCorrelator,
)
from tests.fakes.clock import Clock


def correlator():
    clock = Clock(0.0)
    return EventCorrelator(clock), clock


def verdicts(events, keys):
    return [events.correlate(uid, (uid, note))[0] for uid, note in keys]


def test_a_repetition_is_counted_and_written_once_a_minute():
    events, clock = correlator()
    assert verdicts(events, [("a", "x")] * 3) == ["create", "count", "count"]
    clock.now += PATCH_INTERVAL_SECONDS
    verdict, series = events.correlate("a", ("a", "x"))
    assert (verdict, series.count) == ("patch", 4)
    assert verdicts(events, [("a", "x")]) == ["count"]


def test_another_note_and_another_pod_are_events_of_their_own():
    events, _ = correlator()
    assert verdicts(events, [("a", "x"), ("a", "y"), ("b", "x")]) == ["create"] * 3


def test_a_series_ends_when_nothing_was_repeated_for_some_time():
    events, clock = correlator()
    verdicts(events, [("a", "x")])
    clock.now += SERIES_SECONDS - 1
    assert verdicts(events, [("a", "x")]) == ["patch"]
    clock.now += SERIES_SECONDS
    assert verdicts(events, [("a", "x")]) == ["create"]


def test_a_forgotten_series_begins_again():
    events, _ = correlator()
    verdicts(events, [("a", "x")])
    events.forget(("a", "x"))
    assert verdicts(events, [("a", "x")]) == ["create"]


def test_a_pod_has_a_burst_and_then_one_event_in_five_minutes():
    events, clock = correlator()
    found = verdicts(events, [("a", str(number)) for number in range(OBJECT_BURST + 2)])
    assert found == ["create"] * OBJECT_BURST + ["limit"] * 2
    assert verdicts(events, [("b", "x")]) == ["create"]
    clock.now += 1 / OBJECT_EVENTS_PER_SECOND
    assert verdicts(events, [("a", "later"), ("a", "latest")]) == ["create", "limit"]


def test_all_pods_together_have_a_rate_too():
    events, clock = correlator()
    found = verdicts(events, [(str(number), "x") for number in range(EVENT_BURST + 5)])
    assert found == ["create"] * EVENT_BURST + ["limit"] * 5
    clock.now += 2 / EVENTS_PER_SECOND
    assert verdicts(events, [(f"more-{number}", "x") for number in range(3)]) == ["create", "create", "limit"]


def test_a_repetition_beyond_the_rate_is_counted_and_not_written():
    events, clock = correlator()
    verdicts(events, [("a", "x")])
    clock.now += PATCH_INTERVAL_SECONDS
    verdicts(events, [(str(number), "x") for number in range(EVENT_BURST)])
    assert verdicts(events, [("a", "x")]) == ["count"]


def test_the_least_recently_used_series_is_forgotten():
    events, clock = correlator()
    verdicts(events, [("first", "x"), ("second", "x")])
    for number in range(MAX_REMEMBERED - 1):
        clock.now += 1 / EVENTS_PER_SECOND
        assert verdicts(events, [(str(number), "x")]) == ["create"]
        if number % 500 == 0:  # used again and again, so that its series goes on
            verdicts(events, [("first", "x")])
    assert verdicts(events, [("first", "x")])[0] in ("count", "patch")
    assert verdicts(events, [("second", "x")]) == ["create"]
