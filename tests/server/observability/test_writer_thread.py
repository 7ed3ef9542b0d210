"""The queue of what is written in a thread."""

import sys

import pytest

from extender.server.observability.writer_thread import WriterThread


@pytest.fixture
def switching():
    """Threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_what_is_written_between_two_clears_has_no_gap(switching):
    written: list[tuple[int, int]] = []
    thread = WriterThread("test", 50, written.extend)
    thread.start()
    segment = number = 0
    for _ in range(20_000):
        if thread.put((segment, number), 1):
            number += 1
        else:
            thread.clear()
            segment, number = segment + 1, 0
    assert thread.finish(10)
    assert segment
    expected = (0, 0)
    for one in written:
        assert one == expected or (one[0] > expected[0] and one[1] == 0), f"{one} after {expected}"
        expected = (one[0], one[1] + 1)


def test_the_size_is_nothing_once_everything_is_written():
    written: list[int] = []
    thread = WriterThread("test", 10, written.extend)
    assert [thread.put(number, 4) for number in range(4)] == [True, True, False, False]
    assert thread.clear() == [0, 1]
    assert thread.put(5, 100)
    thread.start()
    assert thread.finish(10)
    assert (written, thread.size) == ([5], 0)
