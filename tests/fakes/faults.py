"""What can be scripted to go wrong with a request: which request, and what happens to it.

    api.faults.add(Fault("list", "Pod", Answer(410), page=2))
    api.faults.add(Fault("watch", "*", CutEvent(3), times=2))

Faults that strike watches which are already open are methods of FakeAPI.

Rule: the first fault that matches strikes, and is used up after `times` strikes; faults come before authentication.
"""

import threading
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from tests.fakes import statuses
from tests.fakes.http_server import Connection, Reply
from tests.fakes.requests import Request
from tests.fakes.sockets import Waker


@dataclass(frozen=True, slots=True)
class Answer:
    """This status instead of the answer, with a Status as the body, or with a `body` that is none (a proxy's page)."""

    code: int
    message: str = ""
    reason: str = ""
    retry_after: int | None = None
    body: bytes | None = None

    def reply(self) -> Reply:
        status: dict[str, Any] = statuses.failure(self.code, self.message, self.reason)
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return Reply(self.code, msgspec.json.encode(status) if self.body is None else self.body, headers)


@dataclass(frozen=True, slots=True)
class Drop:
    """No answer: the connection ends, by RST or FIN; `done` if the work is done nevertheless (a binding that holds)."""

    done: bool = False
    reset: bool = True


@dataclass(frozen=True, slots=True)
class CutBody:
    """The head of the answer and this many bytes of its body; then the connection ends."""

    at: int
    reset: bool = True


@dataclass(frozen=True, slots=True)
class CutEvent:
    """A watch whose `nth` line (from 1) arrives as a half; then an RST, a FIN, or a proper end of the answer."""

    nth: int = 1
    how: Literal["reset", "close", "end"] = "reset"


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """A watch that answers 200 and then nothing but an ERROR event with this Status."""

    code: int = 410
    message: str = ""
    reason: str = ""


class Hang:
    """No answer until `release`; then the usual one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released = False
        self._waiting: list[Waker] = []

    def release(self) -> None:
        """Lets all go that wait, and whoever comes later."""
        with self._lock:
            self._released = True
            for waker in self._waiting:
                waker.wake()

    def hold(self, connection: Connection) -> bool:
        """Waits for the release; False if the client went first."""
        waker = Waker()
        with self._lock:
            self._waiting.append(waker)
        try:
            while not self._released:
                if not connection.wait(waker):
                    return False
            return True
        finally:
            with self._lock:
                self._waiting.remove(waker)
            waker.close()


Action = Answer | Drop | CutBody | CutEvent | ErrorEvent | Hang


@dataclass(slots=True)
class Fault:
    """Strikes the requests of a verb ("list", "watch", "get", "bind", "*") for a kind ("*": any).

    The first `skip` that match are spared, then `times` are struck (None: all that come). `page` is one of a list's.
    """

    verb: str
    kind: str
    action: Action
    times: int | None = 1
    page: int | None = None
    skip: int = 0
    struck: int = field(default=0, init=False)

    def strikes(self, request: Request) -> bool:
        """Whether this request is struck; counts it."""
        if self.verb not in ("*", request.verb) or self.kind not in ("*", request.kind):
            return False
        if self.page not in (None, request.page) or self.struck == self.times:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.struck += 1
        return True


class Faults:
    """The script, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._script: list[Fault] = []

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._script += faults

    def clear(self) -> None:
        """Nothing goes wrong any more; requests that hang are released."""
        with self._lock:
            script, self._script = self._script, []
        for fault in script:
            if isinstance(fault.action, Hang):
                fault.action.release()

    def strike(self, request: Request) -> Action | None:
        """What goes wrong with this request."""
        with self._lock:
            return next((fault.action for fault in self._script if fault.strikes(request)), None)
