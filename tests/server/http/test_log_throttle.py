"""Lines that others can cause as often as they like."""

import logging

from extender.server.http.log_throttle import INTERVAL, ThrottledLogger


def test_one_line_an_interval_and_the_next_says_how_many_were_left_out(caplog):
    now = 1000.0
    note = ThrottledLogger(logging.getLogger("seldom"), clock=lambda: now)
    for _ in range(4):
        note("%s called", "mallory")
    now += INTERVAL - 0.1
    note("%s called", "mallory")
    now += 0.1
    note("%s called", "alice")
    now += INTERVAL
    note("%s called", "bob")
    assert [record.getMessage() for record in caplog.records] == [
        "mallory called",
        "alice called (and 4 such before, not logged)",
        "bob called",
    ]
