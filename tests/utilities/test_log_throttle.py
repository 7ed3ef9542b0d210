"""Rate-limited log lines for events that clients can trigger."""

import logging

from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, ThrottledLoggers


def test_one_line_per_interval_and_the_next_says_how_many_were_suppressed(caplog):
    now = 1000.0
    note = ThrottledLoggers(logging.getLogger("throttled"), clock=lambda: now)
    for _ in range(4):
        note("call", "%s called", "mallory")
    now += LOG_INTERVAL_SECONDS - 0.1
    note("call", "%s called", "mallory")
    now += 0.1
    note("call", "%s called", "alice")
    now += LOG_INTERVAL_SECONDS
    note("call", "%s called", "bob")
    assert [record.getMessage() for record in caplog.records] == [
        "mallory called",
        "alice called (4 similar messages suppressed)",
        "bob called",
    ]


def test_the_first_event_of_each_kind_is_logged(caplog):
    now = 1000.0
    note = ThrottledLoggers(logging.getLogger("throttled"), clock=lambda: now)
    for kind in ("late", "late", "busy", "late", "busy"):
        note(kind, "%s", kind)
    now += LOG_INTERVAL_SECONDS
    note("late", "late again")
    assert caplog.messages == ["late", "busy", "late again (2 similar messages suppressed)"]
