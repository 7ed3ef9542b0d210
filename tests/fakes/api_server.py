"""A scripted Kubernetes API server on a real loopback socket: lists in pages, watches, bindings, Events, and
everything that can go wrong with them.

    with FakeAPI() as api:
        api.put("Pod", pod("a"))
        api.faults.add(Fault("list", "Pod", Answer(503, retry_after=1)))
        ...                                   # the code under test talks to api.url
        api.wait_for(lambda: api.open_watches("Pod") == 1)
        api.end_watches("Pod")

Rule: what it answers is what a real API server answers, unless a fault says otherwise; nothing depends on chance.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tests.fakes import statuses
from tests.fakes.faults import Answer, CutBody, CutEvent, Drop, ErrorEvent, Fault, Faults, Hang
from tests.fakes.handler import Handler
from tests.fakes.http_server import Server
from tests.fakes.kinds import RESOURCES, Resource, resource_of
from tests.fakes.requests import Request
from tests.fakes.sockets import LOOPBACK
from tests.fakes.state import State, decoded
from tests.fakes.storage import key_of, whole
from tests.fakes.watches import End, Watch, error_line

if TYPE_CHECKING:
    from tests.fakes.certificates import Certificates

__all__ = [
    "RESOURCES",
    "Answer",
    "CutBody",
    "CutEvent",
    "Drop",
    "ErrorEvent",
    "FakeAPI",
    "Fault",
    "Faults",
    "Hang",
    "Request",
    "Resource",
]

JSON = dict[str, Any]


class FakeAPI(State):
    """The server; everything may be called from any thread, whether it runs or not."""

    def __init__(self, *, tls: "Certificates | None" = None, require_client_certificate: bool = False) -> None:
        super().__init__()
        context = (lambda: tls.server_context(require_client_certificate)) if tls else None
        self._server = Server(Handler(self), context)
        self.url = f"{'https' if tls else 'http'}://{LOOPBACK}:{self._server.port}"

    # --- the server ---

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        """Listens, with all contents, and with the server certificate that there is by now."""
        self._server.start()

    def stop(self) -> None:
        """Ends all connections and refuses new ones, until `start`; contents, history and port are kept."""
        self._server.stop()

    def close(self) -> None:
        """Stops for good."""
        self.faults.clear()
        self._server.close()

    def drop_connections(self) -> None:
        """Ends every connection in the middle of whatever it does; the server goes on."""
        self._server.drop_connections()

    # --- objects ---

    @property
    def revision(self) -> int:
        """The resourceVersion of the last change."""
        return self.storage.revision

    def get(self, kind: str, name: str, namespace: str = "") -> JSON | None:
        """A copy of an object, with kind and apiVersion, or None."""
        with self.changed:
            stored = self.storage.get(kind, key_of(kind, name, namespace))
        return msgspec.json.decode(whole(kind, stored.body)) if stored else None

    def objects(self, kind: str) -> list[JSON]:
        """Copies of all objects of a kind, by namespace and name, with kind and apiVersion."""
        with self.changed:
            everything = self.storage.all(kind)
        return [msgspec.json.decode(whole(kind, stored.body)) for stored in everything]

    def delete(self, kind: str, name: str, namespace: str = "") -> JSON:
        """Deletes an object and tells its watches; returns its last state; KeyError if there is none."""
        with self.changed:
            event = self.storage.delete(kind, key_of(kind, name, namespace))
            self.publish([event])
            return decoded(event)

    def load(self, kind: str, objs: Iterable[JSON]) -> int:
        """Puts many objects at once, as if that was long ago; returns how many. No watch may be open.

        Leaves no history: earlier resourceVersions and continue tokens are expired.
        """
        with self.changed:
            if self.open_watches(kind):
                raise RuntimeError(f"a watch of {kind} is open and would not hear of what is loaded; use put")
            count = self.storage.load(kind, objs)
            self.pages.forget(before=self.storage.revision)
            self.changed.notify_all()
            return count

    def compact(self) -> None:
        """Forgets all that has happened: whoever watches from, or continues at, an earlier revision gets 410."""
        with self.changed:
            self.storage.compact(self.storage.revision)
            self.pages.forget(before=self.storage.revision)

    def rewind(self, revision: int) -> None:
        """Restores objects and resourceVersions as of a revision, as an etcd backup does, and drops all connections.

        ValueError if that revision was compacted. Whoever watches from a later revision hears nothing until the
        server gets there; whoever lists from one gets 504 "Too large resource version".
        """
        with self.changed:
            self.storage.rewind(revision)
            self.pages.forget()
            for watch in self.watches:
                watch.queue([End()])
        self.drop_connections()

    # --- who may do what ---

    @property
    def tokens(self) -> set[str] | None:
        """The bearer tokens that are good; None: anybody is. A client certificate needs no token."""
        return self.access.tokens

    @tokens.setter
    def tokens(self, tokens: set[str] | None) -> None:
        self.access.tokens = tokens

    def forbid(self, kind: str, *verbs: str) -> None:
        """Answers 403 to these verbs (list, watch, get, bind, create, patch; none named: all)."""
        with self.changed:
            self.access.forbid(kind, *verbs)

    def allow(self, kind: str, *verbs: str) -> None:
        """Takes `forbid` back."""
        with self.changed:
            self.access.allow(kind, *verbs)

    def remove_resource(self, kind: str) -> None:
        """Answers 404 as if the cluster did not know the kind, and ends its watches."""
        with self.changed:
            self.access.remove(kind)
            self.end_watches(kind)

    def restore_resource(self, kind: str) -> None:
        """Takes `remove_resource` back; objects are still there."""
        with self.changed:
            self.access.restore(kind)

    # --- open watches: each returns how many watches it struck ---

    def bookmark(self, kind: str) -> int:
        """Sends a bookmark of the current revision to the watches that asked for bookmarks."""
        with self.changed:
            return sum(watch.bookmark(self.storage.revision) for watch in self._watching(kind))

    def send_raw(self, kind: str, line: bytes) -> int:
        """Sends bytes as they are, as one chunk; the newline is the caller's."""
        return self._each(kind, lambda watch: watch.queue([line]))

    def send_error(self, kind: str, code: int = 410, message: str = "", reason: str = "") -> int:
        """Sends an ERROR event and ends the watches."""
        line = error_line(statuses.failure(code, message, reason))
        return self._each(kind, lambda watch: watch.queue([line, End()]))

    def end_watches(self, kind: str) -> int:
        """Ends the watches properly, as after timeoutSeconds."""
        return self._each(kind, lambda watch: watch.queue([End()]))

    def duplicate_next(self, kind: str, count: int = 1) -> int:
        """Sends each of the next `count` events twice."""

        def double(watch: Watch) -> None:
            watch.doubles += count

        return self._each(kind, double)

    def swap_next(self, kind: str) -> int:
        """Sends the next two events in swapped order: the first waits for the second."""

        def swap(watch: Watch) -> None:
            watch.swapping = True

        return self._each(kind, swap)

    def replay(self, kind: str, count: int) -> int:
        """Sends the last `count` events of each watch (of 1,024 that it remembers) again, old ones first."""
        return self._each(kind, lambda watch: watch.queue(list(watch.sent)[-count:]))

    # --- what tests look at ---

    def open_watches(self, kind: str | None = None) -> int:
        """How many watches are open, of a kind or in all."""
        with self.changed:
            return len(self._watching(kind))

    def lines_sent(self, kind: str) -> int:
        """How many lines the watches of a kind have written so far, closed ones included; a cut line does not count."""
        with self.changed:
            return self.lines.get(kind, 0)

    def asked(self, verb: str, kind: str | None = None) -> list[Request]:
        """The requests of a verb so far, of a kind or of all, in the order of arrival."""
        with self.changed:
            return [r for r in self.requests if r.verb == verb and kind in (None, r.kind)]

    def wait_for(self, predicate: Callable[[], object], timeout: float = 30.0) -> None:
        """Waits until `predicate` is true of this server; it is asked after every request, answer, watch, line and
        change of an object, with the lock held. TimeoutError, with the latest requests, after `timeout` seconds."""
        with self.changed:
            if not self.changed.wait_for(predicate, timeout):
                latest = [f"{r.verb} {r.kind or r.path} {dict(r.params)} -> {r.status}" for r in self.requests[-10:]]
                raise TimeoutError("\n".join([f"not within {timeout} s; the latest requests:", *latest]))

    def _watching(self, kind: str | None) -> list[Watch]:
        if kind is not None:
            resource_of(kind)
        return [watch for watch in self.watches if kind in (None, watch.kind)]

    def _each(self, kind: str, strike: Callable[[Watch], object]) -> int:
        with self.changed:
            watches = self._watching(kind)
            for watch in watches:
                strike(watch)
            return len(watches)
