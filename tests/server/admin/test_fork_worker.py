"""Work on a copy of the process: its answer, its end, and that nothing of it comes back but the answer."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from itertools import count

import pytest

from extender.errors import SimulationTimeout
from extender.server.admin import fork_worker
from extender.server.admin.fork_worker import ForkedWorker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not fork_worker.IS_FORK_SUPPORTED, reason="the system cannot fork a process with threads"),
]
SECONDS = 30.0


def forever() -> list[bytes]:
    for _ in count():
        signal.pause()
    return []


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_it_answers():
    assert await ForkedWorker.start(lambda: [b"42"], SECONDS).result(SECONDS, "") == b"42"


async def test_a_large_answer_is_whole():
    large = bytes(range(256)) * 40_000
    assert await ForkedWorker.start(lambda: [large], SECONDS).result(SECONDS, "") == large


async def test_an_answer_is_passed_on_while_the_copy_is_still_at_work():
    def work():
        yield bytes(2 * fork_worker.CHUNK_BYTES)
        signal.pause()

    copy = ForkedWorker.start(work, SECONDS)
    async with contextlib.aclosing(copy.chunks(SECONDS)) as chunks:
        assert set(await anext(chunks)) == {0}
    assert is_gone(copy.pid)


async def test_a_copy_that_fails_halfway_ends_with_an_error_not_as_if_it_were_complete(capfd):
    def work():
        yield b"4"
        raise ZeroDivisionError

    chunks = ForkedWorker.start(work, SECONDS).chunks(SECONDS)
    assert await anext(chunks) == b"4"
    with pytest.raises(RuntimeError, match="exited without a result"):
        await anext(chunks)
    assert "ZeroDivisionError" in capfd.readouterr().err


async def test_a_copy_waits_for_a_copy_of_its_own():
    def work():
        return [b"4", ForkedWorker.start(lambda: [b"2"], SECONDS).wait()]

    assert await ForkedWorker.start(work, SECONDS).result(SECONDS, "") == b"42"


def test_whoever_waits_for_a_copy_that_fails_gets_an_error(capfd):
    def work():
        yield b"4"
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="exited without a result"):
        ForkedWorker.start(work, SECONDS).wait()
    assert "ZeroDivisionError" in capfd.readouterr().err


async def test_changes_of_the_child_do_not_reach_the_parent():
    held = ["before"]

    def change():
        held.append("changed")
        return [repr(held).encode()]

    assert await ForkedWorker.start(change, SECONDS).result(SECONDS, "") == b"['before', 'changed']"
    assert held == ["before"]


async def test_the_copy_is_gone_with_its_answer():
    copy = ForkedWorker.start(lambda: [b"42"], SECONDS)
    await copy.result(SECONDS, "")
    assert is_gone(copy.pid)


async def test_a_copy_that_takes_too_long_is_stopped():
    copy = ForkedWorker.start(forever, SECONDS)
    with pytest.raises(SimulationTimeout, match=r"no result within 0.05 s: simulate fewer pods"):
        await copy.result(0.05, "simulate fewer pods")
    assert is_gone(copy.pid)


async def test_a_copy_is_stopped_when_whoever_asked_has_gone():
    copy = ForkedWorker.start(forever, SECONDS)
    asking = asyncio.create_task(copy.result(SECONDS, ""))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert is_gone(copy.pid)


def test_an_orphaned_child_exits_by_itself(monkeypatch):
    monkeypatch.setattr(fork_worker, "EXIT_GRACE_SECONDS", 0.01)
    copy = ForkedWorker.start(forever, 0)
    _, status = os.waitpid(copy.pid, 0)
    os.close(copy.result_fd)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGALRM


async def test_a_copy_that_fails_says_why_and_has_no_answer(capfd):
    copy = ForkedWorker.start(lambda: [b"%d" % (1 // 0)], SECONDS)
    with pytest.raises(RuntimeError, match="exited without a result"):
        await copy.result(SECONDS, "")
    assert is_gone(copy.pid)
    assert "ZeroDivisionError" in capfd.readouterr().err


async def test_the_copy_holds_no_connection_of_ours():
    """Else a client would not learn that we closed it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
    copy = ForkedWorker.start(forever, SECONDS)
    served.close()
    client.settimeout(SECONDS)
    assert client.recv(1) == b""
    client.close()
    with pytest.raises(SimulationTimeout):
        await copy.result(0, "")


async def test_other_threads_and_their_locks_do_not_matter():
    """A copy has one thread; whatever lock another one held is of no use to it."""
    lock, held, done = threading.Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(SECONDS)
    try:
        answer = await ForkedWorker.start(lambda: [b"%d" % threading.active_count()], SECONDS).result(SECONDS, "")
    finally:
        done.set()
        thread.join()
    assert answer == b"1"


async def test_nothing_meant_for_the_end_of_a_process_is_run(capfd):
    """Buffers of ours are ours to write."""
    sys.stdout.write("once")
    assert await ForkedWorker.start(lambda: [b"42"], SECONDS).result(SECONDS, "") == b"42"
    sys.stdout.flush()
    assert capfd.readouterr().out == "once"
