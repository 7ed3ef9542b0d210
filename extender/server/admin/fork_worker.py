"""Work on a copy of the whole process, so that it neither waits for the scheduler's questions nor keeps them waiting.

The copy (fork) has the cluster picture with all that was made of it, may change it as it likes, gives way to everybody
else and is gone with its answer: the memory it needs is what it changes. Redis writes its snapshots so, for the same
reason.

Rule: forked on the thread that changes the picture, so that it is whole. The copy has none of our threads, sockets or
files; it works and answers, and runs nothing that is meant for the end of a process.
"""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from extender.errors import TookTooLong

IS_POSSIBLE = sys.platform == "linux"
"""Elsewhere libraries of the system do not stand a fork of a process with threads."""

GRACE = 1.0
"""Seconds after which a copy stops that should have been stopped."""

_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Apart:
    """A copy at work."""

    pid: int
    answer: int
    """File descriptor that its answer can be read from."""

    @classmethod
    def start(cls, work: Callable[[], bytes], seconds: float) -> "Apart":
        """Have a copy of this process work, for so long at most."""
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: the copy takes no lock of theirs
            pid = os.fork()
        if pid == 0:
            _work(work, writing, seconds)
        os.close(writing)
        return cls(pid, reading)

    async def result(self, seconds: float) -> bytes:
        """What it answers; TookTooLong if that takes longer than so many seconds. It is stopped when nobody waits."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self._read()
        except TimeoutError:
            raise TookTooLong(f"no answer within {seconds:g} s: ask about fewer pods") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            await asyncio.to_thread(os.waitpid, self.pid, 0)  # a large process is not gone in an instant
        if not answer:
            raise RuntimeError("the copy of the process has ended without an answer")
        return answer

    async def _read(self) -> bytes:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self.answer, "rb", 0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            return await reader.read()
        finally:
            transport.close()


def _work(work: Callable[[], bytes], writing: int, seconds: float) -> NoReturn:
    """What the copy does from its first moment to its last."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)  # also where nobody is left to stop it
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        gc.disable()  # to look at every object would be to copy it
        os.nice(_NICENESS)
        answer = memoryview(work())
        while answer:
            answer = answer[os.write(writing, answer) :]
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        os._exit(code)
