"""Work within a share of the time."""

import pytest

from extender.utilities.time_share import TimeShare


class Clock:
    """Time that passes by the work alone, or on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> str:
        self.now += seconds
        return "done"


def test_work_is_left_out_while_the_share_is_used_up():
    clock = Clock()
    share = TimeShare(0.1, 1.0, clock)
    assert [share.spend(lambda: clock.work(0.75), "left out") for _ in range(3)] == ["done", "done", "left out"]
    clock.now += 3.4
    assert share.spend(lambda: clock.work(0.1), "left out") == "left out"
    clock.now += 1
    assert share.spend(lambda: clock.work(0.1), "left out") == "done"


def test_no_more_than_the_limit_is_saved_up():
    clock = Clock()
    share = TimeShare(0.1, 1.0, clock)
    clock.now += 1e9
    assert [share.spend(lambda: clock.work(2), "left out") for _ in range(2)] == ["done", "left out"]


def test_a_share_of_all_the_time_is_never_used_up():
    clock = Clock()
    share = TimeShare(1, 0.25, clock)
    assert [share.spend(lambda: clock.work(1), "left out") for _ in range(9)] == ["done"] * 9


def test_work_that_fails_takes_its_time():
    clock = Clock()
    share = TimeShare(0.1, 1.0, clock)

    def failing() -> str:
        clock.work(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share.spend(failing, "left out")
    assert share.spend(lambda: clock.work(1), "left out") == "left out"
