"""Batches of work in several processes, each with a program of its own, that end with this one.

Rule: results come in the order of the batches, and memory does not grow with their number.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children, get_context
from types import FrameType
from typing import Any, Final, TypeVar

from tests.upstream.judge import ProgramFailed

Batch = TypeVar("Batch", bound=Sequence[Any])
Result = TypeVar("Result")

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, SIGTERM and SIGHUP."""
BATCHES_PER_WORKER: Final = 2
"""Under way or waiting, so that no worker is idle."""


def in_processes(
    function: Callable[[Batch], Result], batches: Iterator[Batch], workers: int
) -> Generator[Result, None, None]:
    """Yield what the function returns for each batch; ends the workers when it is closed. Raises ProgramFailed."""
    waiting: deque[tuple[Batch, Future[Result]]] = deque()
    others = {*active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        while True:
            for one in islice(batches, workers * BATCHES_PER_WORKER - len(waiting)):
                waiting.append((one, _submitted(pool, function, one)))
            if not waiting:
                return
            asked, future = waiting.popleft()
            yield _result(asked, future)
    finally:
        for process in {*active_children()} - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Take SIGTERM and SIGHUP as Ctrl-C, so that the workers end with this process."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _submitted(pool: ProcessPoolExecutor, function: Callable[[Batch], Result], batch: Batch) -> Future[Result]:
    """Submit the batch; workers that it starts leave Ctrl-C, which a terminal sends to all processes, to this one."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return pool.submit(_run, function, batch)
    finally:
        signal.signal(signal.SIGINT, before)


class _Terminated(BaseException):
    """The worker is asked to end; what runs for it must end first."""


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise _Terminated


def _run(function: Callable[[Batch], Result], batch: Batch) -> Result:
    signal.signal(signal.SIGTERM, _terminated)
    try:
        result = function(batch)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return result
    except _Terminated:
        os._exit(1)


def _result(asked: Sequence[Any], future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ProgramFailed(
            f"a worker died in or beside the batch of {len(asked)} from {asked[0]} to {asked[-1]}"
        ) from None
