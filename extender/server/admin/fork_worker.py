"""Run long work in a forked child process, so that it and kube-scheduler's calls do not delay each other.

The child inherits the cluster cache with every index derived from it and may change its copy freely. It runs at low
priority and exits after its answer, so it costs only the memory pages that it changes (copy-on-write). Redis writes its
snapshots in the same way, for the same reason.

Rule: fork on the thread that updates the cluster cache, so that the child never sees a half-applied update. The child
has none of the parent's threads, sockets or files; it works, answers and ends with `os._exit`, without exit handlers.
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from extender.errors import SimulationTimeout

IS_FORK_SUPPORTED = sys.platform == "linux"
"""True on Linux; on macOS system libraries do not survive a fork of a process with threads."""

EXIT_GRACE_SECONDS = 1.0
"""Time after the timeout at which a child that the parent did not kill exits by itself."""

CHUNK_BYTES = 1 << 16
"""Size of the parts in which a result is passed on."""

_NICENESS = 10


@dataclass(frozen=True, slots=True)
class ForkedWorker:
    """A running child process."""

    pid: int
    result_fd: int
    """File descriptor of the pipe that the child writes its result to."""

    @classmethod
    def start(cls, work: Callable[[], Iterable[bytes]], seconds: float) -> "ForkedWorker":
        """Fork a child that runs `work` and writes its chunks, for at most `seconds`."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # forks beside threads: the child takes no lock of theirs
            pid = os.fork()
        if pid == 0:
            _run_in_child(work, writing, seconds)
        os.close(writing)
        return cls(pid, reading)

    async def result(self, seconds: float) -> bytes:
        """Return the whole result; SimulationTimeout after `seconds`, otherwise as `chunks`."""
        try:
            return b"".join([chunk async for chunk in self.chunks(seconds)])
        except TimeoutError:
            raise SimulationTimeout(f"no result within {seconds:g} s: simulate fewer pods") from None

    async def chunks(self, seconds: float) -> AsyncGenerator[bytes]:
        """Yield the result as the child writes it, which waits while the result is not read.

        TimeoutError after `seconds`, RuntimeError if the child failed. Kill the child in any case, also if cancelled.
        """
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            async with contextlib.aclosing(self._read(deadline)) as result:
                async for chunk in result:
                    yield chunk
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            # The exit of a large process takes a while.
            _, status = await asyncio.to_thread(os.waitpid, self.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:  # a child that has closed the pipe is exiting: it is not killed
            raise RuntimeError("the child process exited without a result")

    async def _read(self, deadline: float) -> AsyncGenerator[bytes]:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self.result_fd, "rb", 0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while True:
                async with asyncio.timeout_at(deadline):
                    chunk = await reader.read(CHUNK_BYTES)
                if not chunk:
                    return
                yield chunk
        finally:
            transport.close()


def _run_in_child(work: Callable[[], Iterable[bytes]], writing: int, seconds: float) -> NoReturn:
    """Run `work` in the child, write its result to the pipe, and exit."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + EXIT_GRACE_SECONDS)  # also if the parent dies
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # a collection would touch, and so copy, every page
        os.nice(_NICENESS)
        with open(writing, "wb", CHUNK_BYTES, closefd=False) as pipe:
            pipe.writelines(work())
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(code)
