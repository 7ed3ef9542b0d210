"""A bar on a terminal, lines in a log."""

from io import StringIO

from tests.upstream.progress import Progress


class Terminal(StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_that_is_cleared():
    terminal = Terminal()
    progress = Progress(10, terminal)
    progress.show(5, "2 differ")
    bar = terminal.getvalue()
    assert bar.startswith(f"\r\x1b[K[{'#' * 15}{'-' * 15}] 5 of 10, ")
    assert bar.endswith(" a second, 2 differ")
    progress.clear()
    assert terminal.getvalue() == f"{bar}\r\x1b[K"


def test_a_log_has_a_line_for_each_tenth():
    log = StringIO()
    progress = Progress(1000, log)
    for done in range(50, 1050, 50):
        progress.show(done, "0 differ")
    progress.clear()
    lines = log.getvalue().splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"{tenth}0 %" for tenth in range(1, 11)]
    assert lines[-1].startswith("100 %: 1,000 of 1,000, ")
