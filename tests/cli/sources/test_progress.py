"""Progress of what takes long: on a terminal, and only there."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from extender.cli.sources.progress import show_progress


@contextlib.contextmanager
def standard_error(monkeypatch, is_terminal: bool) -> Iterator[Callable[[], str]]:
    """Yield a function that returns what standard error has shown so far."""
    ours, theirs = os.openpty() if is_terminal else os.pipe()
    os.set_blocking(ours, False)

    def shown() -> str:
        file.flush()
        with contextlib.suppress(BlockingIOError):
            return os.read(ours, 100_000).decode()
        return ""

    with os.fdopen(theirs, "w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", file)
        yield shown
    os.close(ours)


def test_each_kind_has_a_line_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with standard_error(monkeypatch, True) as shown, show_progress(no_color=True) as on_progress:
        assert on_progress is not None
        on_progress("Pod", 2000, 150_000)
        on_progress("Node", 5000, 5000)
        on_progress("Pod", 4000, 150_000)
        text, ends_at = "", time.monotonic() + 10
        while "4000/150000" not in text and time.monotonic() < ends_at:  # it is drawn some times a second
            text += shown()
    assert "reading Pod" in text
    assert "reading Node" in text
    assert "4000/150000" in text


@pytest.mark.parametrize(("is_terminal", "kind"), [(False, "xterm"), (True, "dumb")])
def test_nothing_is_written_elsewhere(monkeypatch, is_terminal, kind):
    monkeypatch.setenv("TERM", kind)
    with standard_error(monkeypatch, is_terminal) as shown:
        with show_progress() as on_progress:
            assert on_progress is None
        assert shown() == ""


def test_nothing_is_shown_of_what_takes_a_short_time(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with standard_error(monkeypatch, True) as shown:
        with show_progress(True, "simulating", after_seconds=3600) as on_progress:
            assert on_progress is not None
            on_progress("pods", 1, 2)
        assert shown() == ""
