"""H8: SIGTERM ends the process in its time, whatever hangs."""

import contextlib
import os
import signal
import time

import pytest

from extender.server.admin import fork_worker
from tests.abuse.service import patch_service, service, until
from tests.abuse.test_simulations import SLOW_SIMULATIONS, SMALL, ask, children

SHORT = """
    from extender.server import run

    run.EXIT_LIMIT_SECONDS = 3.0
"""

STUCK_THREAD = """
    import threading

    threading.Thread(target=threading.Event().wait, name="reload").start()
"""

STUCK_LOG = f"""{SHORT}
    import logging
    import threading

    class Handler(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("shutting down"):
                threading.Event().wait()

    logging.getLogger("extender").addHandler(Handler())
"""


def seconds_to_end(process):
    """Exit code of the process, and the seconds that it took after SIGTERM."""
    began = time.monotonic()
    process.say(signal.SIGTERM)
    return process.ends(), time.monotonic() - began


def test_H8_a_thread_that_hangs_does_not_keep_the_process_after_its_shutdown(monkeypatch, tmp_path):
    """Such as a read of a file that never ends: Python itself would wait for the thread for ever."""
    patch_service(monkeypatch, tmp_path, STUCK_THREAD)
    with service(SERVER__DRAIN_TIME="0s") as process:
        code, seconds = seconds_to_end(process)
        assert (code, seconds < 10) == (0, True), seconds
        until(lambda: any("shutdown complete" in line for line in process.lines))
        (line,) = (line for line in process.lines if "ending the process" in line)
        assert "still running: thread reload at " in line


def test_H8_a_log_that_hangs_does_not_keep_the_process(monkeypatch, tmp_path):
    """Nor the line about what hangs: then C code ends the process, without Python."""
    patch_service(monkeypatch, tmp_path, STUCK_LOG)
    with service(SERVER__DRAIN_TIME="0s") as process:
        code, seconds = seconds_to_end(process)
        assert (code, seconds < 15) == (1, True), seconds


@pytest.mark.skipif(not fork_worker.IS_FORK_SUPPORTED, reason="the system cannot fork a process with threads")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_H8_a_simulation_under_way_ends_with_the_process(number, monkeypatch, tmp_path):
    patch_service(monkeypatch, tmp_path, SLOW_SIMULATIONS.replace("sleep(3)", "sleep(50)"))
    with service(SERVER__DRAIN_TIME="0s") as process, process.connect("admin") as connection:
        ask(connection, SMALL)
        until(lambda: children(process))
        (child,) = map(int, children(process))
        began = time.monotonic()
        process.say(number)
        assert process.ends() == (0 if number == signal.SIGTERM else -number)
        assert time.monotonic() - began < 10
        until(lambda: has_ended(child))
        if number == signal.SIGTERM:
            assert b"503" in connection.recv(65536)


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_H8_a_fifo_in_place_of_the_configuration_does_not_keep_the_process(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("mode: Enforce\n")
    with service("--config", str(file), SERVER__DRAIN_TIME="0s") as process, contextlib.closing(process.connection()):
        file.unlink()
        os.mkfifo(file)
        until(lambda: b"configuration:" in process.get("/readyz?verbose")[1])
        code, seconds = seconds_to_end(process)
        assert (code, seconds < 10) == (0, True), seconds
