"""H8: a read that hangs neither keeps the event loop from closing nor the process from exiting, and it is reported."""

import asyncio
import logging
import re
import subprocess
import sys
import threading

import pytest

from extender.utilities.daemon_thread import ReloadThread, run_in_daemon_thread

HUNG = """
import asyncio, threading
from extender.utilities.daemon_thread import run_in_daemon_thread

async def main():
    try:
        async with asyncio.timeout(0.05):
            await run_in_daemon_thread(threading.Event().wait)
    except TimeoutError:
        print("given up")

asyncio.run(main())
"""


def test_a_result_and_an_error_reach_the_caller():
    async def both():
        assert await run_in_daemon_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await run_in_daemon_thread(divmod, 7, 0)

    asyncio.run(both())


def test_H8_a_process_exits_while_a_read_hangs():
    done = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, timeout=30, text=True, check=True)
    assert (done.stdout, done.stderr) == ("given up\n", "")


def test_H8_a_result_that_comes_after_the_end_is_dropped(caplog):
    may_end = threading.Event()

    async def leave():
        task = asyncio.create_task(run_in_daemon_thread(may_end.wait))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "read-wait":
            thread.join(10)
    assert not caplog.records


def test_H7_a_reload_that_takes_long_is_reported_once_and_its_end_too(caplog):
    reloads, may_end = ReloadThread("configuration", slow_seconds=0.01), threading.Event()

    async def reload():
        task = asyncio.create_task(reloads.run(may_end.wait))
        await asyncio.sleep(0.5)
        warnings = reloads.warnings()
        may_end.set()
        assert await task
        return warnings

    with caplog.at_level(logging.INFO, "extender"):
        warnings = asyncio.run(reload())
    assert re.fullmatch(r"configuration: a reload has been running for \d+s; using the previous one", *warnings)
    assert reloads.warnings() == []
    assert [record.getMessage() for record in caplog.records] == [
        "configuration: a reload is not finished after 0.01s, using the previous one meanwhile",
        f"configuration: the slow reload ended after {caplog.records[-1].args[1]:.0f}s",
    ]


def test_a_reload_in_time_is_not_reported(caplog):
    reloads = ReloadThread("configuration")
    assert asyncio.run(reloads.run(int, "5")) == 5
    assert reloads.warnings() == []
    assert reloads.pause(2.0) == 2.0
    assert not caplog.records
