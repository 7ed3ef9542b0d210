"""Run long work in a forked child process, so that it does not delay kube-scheduler's calls.

The child inherits the cluster cache with all its indexes, and may change its copy. It costs only the memory pages that
it changes (copy-on-write) and runs at low priority. Redis writes its snapshots in the same way, for the same reason.

Rule: fork on the thread that updates the cluster cache (`DecisionThread.run`), so that the child never sees a
half-applied update. The child has none of the parent's threads, sockets or files. It ends with `os._exit`, without exit
handlers, or is killed when the parent ends or no longer needs the result.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from extender.errors import SimulationTimeout
from extender.utilities.daemon_thread import run_in_daemon_thread

IS_FORK_SUPPORTED = sys.platform == "linux"
"""False on macOS, whose system libraries do not survive a fork of a process with threads."""

EXIT_GRACE_SECONDS = 1.0
"""Seconds after its timeout at which a child ends by itself if the parent has not killed it."""

CHUNK_BYTES = 1 << 16
"""Size of the chunks in which a result is read and passed on."""

_NICENESS = 10
_OOM_SCORE = 1000
"""oom_score_adj of a child: if memory runs out, the kernel kills the child and not the process that decides."""
_PR_SET_PDEATHSIG = 1
"""prctl(2): set the signal that a child gets when the thread that forked it ends."""


@dataclass(frozen=True, slots=True)
class ForkedWorker:
    """A running child process."""

    pid: int
    result_fd: int
    """File descriptor of the pipe that the child writes its result to."""

    @classmethod
    def start(
        cls, work: Callable[[], Iterable[bytes]], seconds: float, max_memory_bytes: int | None = None
    ) -> "ForkedWorker":
        """Fork a child that runs `work` and writes its chunks, for at most `seconds`.

        `max_memory_bytes`: memory that it may allocate besides the parent's; beyond it MemoryError is raised in `work`.
        """
        reading, writing = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python warns about a fork with threads, which may hold locks. The child takes none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _run_in_child(work, writing, seconds, parent, max_memory_bytes)
        os.close(writing)
        return cls(pid, reading)

    def abandon(self) -> None:
        """Kill the child and discard its result."""
        os.close(self.result_fd)
        self._kill()
        threading.Thread(target=os.waitpid, args=(self.pid, 0), name="reap-child", daemon=True).start()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> bytes:
        """Block this thread until the child ends, and return its whole result; RuntimeError if it failed."""
        with os.fdopen(self.result_fd, "rb") as pipe:
            result = pipe.read()
        self._check(os.waitpid(self.pid, 0)[1])
        return result

    async def result(self, seconds: float, remedy: str) -> bytes:
        """Return the whole result; SimulationTimeout with the `remedy` after `seconds`, RuntimeError if it failed."""
        try:
            return b"".join([chunk async for chunk in self.chunks(seconds)])
        except TimeoutError:
            raise SimulationTimeout(f"no result within {seconds:g} s: {remedy}") from None

    async def chunks(self, seconds: float) -> AsyncGenerator[bytes]:
        """Yield the result as the child writes it; the child waits if the result is not read.

        TimeoutError after `seconds`, RuntimeError if the child failed. In every case the child has ended afterwards.
        """
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            async with contextlib.aclosing(self._read(deadline)) as result:
                async for chunk in result:
                    yield chunk
        finally:
            self._kill()
            # Waiting blocks for a while: the kernel frees the page tables of a large process.
            _, status = await run_in_daemon_thread(os.waitpid, self.pid, 0)
        self._check(status)  # unchanged by the kill: the pipe ends when the child exits

    def _check(self, status: int) -> None:
        if os.waitstatus_to_exitcode(status) != 0:
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


def _run_in_child(
    work: Callable[[], Iterable[bytes]], writing: int, seconds: float, parent: int, max_memory_bytes: int | None
) -> NoReturn:
    """Run `work` in the child, write its result to the pipe, and exit."""
    code = 1
    try:
        # 1. End by signals, by the timeout, and with the parent.
        signal.set_wakeup_fd(-1)
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + EXIT_GRACE_SECONDS)
        _end_with_parent(parent)
        # 2. Limit memory and CPU, and close the parent's sockets and files.
        if max_memory_bytes is not None:
            _limit_memory(max_memory_bytes)
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # a collection would write to every object, and so copy every page
        os.nice(_NICENESS)
        # 3. Write the result to the pipe, or a failure to standard error.
        with open(writing, "wb", CHUNK_BYTES, closefd=False) as pipe:
            pipe.writelines(work())
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(code)


_DEFAULT_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
"""Signals that end a child, whatever handlers it inherits."""


def _end_with_parent(parent: int) -> None:
    """Have the kernel kill this child when the parent ends; Linux only."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent had ended before prctl took effect
        os._exit(1)


def _limit_memory(max_memory_bytes: int) -> None:
    """Limit the private, writable memory of this child to its present size plus `max_memory_bytes`; Linux only.

    Not the address space: that has the 64 MiB that glibc reserves for the allocations of a thread. In these, Python
    goes on for seconds once the limit is reached, with a failing mmap(2) for each small object.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # read-only /proc
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    pages = int(Path("/proc/self/statm").read_text().split()[5])  # "data"
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = pages * resource.getpagesize() + max_memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
