"""What the reflector's tests stand on: a sink that remembers, a clock that only waits move, and an API by script.

Rule: a scripted run happens in the test's own thread and takes no time; a real one ends with its `with` block.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from extender.cluster.apiserver.client import ApiServer, Timeout
from extender.cluster.apiserver.credentials import Credentials
from extender.cluster.apiserver.stream import ApiError, ApiUnreachable, Stream
from extender.cluster.cache.cache import Change
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import Deltas, Replaced
from extender.cluster.watch.list_watch import RESOURCES, Resource, WatchSettings
from extender.cluster.watch.reflector import Reflector
from extender.k8s.kinds import Key, key_of
from tests.builders import pod
from tests.fakes.clock import Clock

JSON = dict[str, Any]

BY_KIND = {resource.kind: resource for resource in RESOURCES}


def server_at(url: str, token: str | None = None) -> ApiServer:
    """An ApiServer without any file."""
    from kubernetes.client import Configuration

    authorization = f"Bearer {token}" if token else None
    return ApiServer(lambda: Credentials(Configuration(host=url), "the test", authorization))


class RecordingStore:
    """A sink: the objects by key, and every call in order."""

    def __init__(self) -> None:
        self.objects: dict[Key, Any] = {}
        self.calls: list[str] = []
        """`listed 2 @7`, `changed +a -b`, `unreadable absent`."""
        self.versions: list[str] = []
        """The resourceVersion of every event, in order."""
        self._changed = threading.Condition()

    @property
    def has_synced(self) -> bool:
        return bool(self.objects)

    def get_for_list(self, kind: str, key: Key) -> Any:
        return self.objects.get(key)

    def get_for_event(self, kind: str, key: Key) -> Any:
        return self.objects.get(key)

    def put(self, item: Replaced | Deltas) -> None:
        with self._changed:
            self.calls.append(self._replace(item) if isinstance(item, Replaced) else self._apply_all(item.changes))
            self._changed.notify_all()

    def _replace(self, item: Replaced) -> str:
        self.objects = {key_of(item.kind, one): one for one in item.objects}
        unreadable = "unreadable forbidden" if item.is_forbidden else "unreadable absent"
        return f"listed {len(item.objects)} @{item.version}" if item.version else unreadable

    def _apply_all(self, changes: Sequence[Change]) -> str:
        assert changes
        for change in changes:
            self._apply(change.object, change.deleted)
        names = [f"{'-' if c.deleted else '+'}{c.object.metadata.name}" for c in changes]
        return " ".join(["changed", *names])

    def wait_for(self, predicate: Callable[[], object], timeout: float = 20.0) -> None:
        """Wait until it is true of this cache; asked after every call."""
        with self._changed:
            assert self._changed.wait_for(predicate, timeout), f"not within {timeout} s; {self.calls[-10:]}"

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.objects}

    def holds(self, objects: list[JSON]) -> bool:
        """Whether these, by key, uid and version, are all that there is."""
        wanted = {(o["metadata"].get("namespace", ""), o["metadata"]["name"]): o["metadata"] for o in objects}
        held = {key: one.metadata for key, one in self.objects.items()}
        return wanted.keys() == held.keys() and all(
            (m["uid"], m["resourceVersion"]) == (held[key].uid, held[key].resource_version) for key, m in wanted.items()
        )

    def _apply(self, one: Any, deleted: bool) -> None:
        key = (one.metadata.namespace, one.metadata.name)
        self.versions.append(one.metadata.resource_version)
        if deleted:
            self.objects.pop(key, None)
        else:
            self.objects[key] = one


class Running:
    """A reflector in a thread of its own; ends with the `with` block."""

    def __init__(self, kind: str, api: ApiServer, store: RecordingStore, **options: Any) -> None:
        self.reflector = Reflector(BY_KIND[kind], api, Decoder(kind), cast("Any", store), **options)
        self.state = self.reflector.state
        self.store = store
        self.thread = threading.Thread(target=self.reflector.run, name=f"reflector-{kind}", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.reflector.stop()
        self.thread.join(10)
        assert not self.thread.is_alive(), "the reflector does not stop"


# --- an API by script -----------------------------------------------------------------------------------------------

Batch = list[bytes]


class Said:
    """One answer: an error instead of it, a body, or batches of lines; `error` and `seconds` come at its end."""

    def __init__(
        self,
        *batches: Batch,
        body: bytes = b"",
        refused: Exception | None = None,
        error: Exception | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.batches = batches
        self.body = body
        self.refused = refused
        self.error = error
        self.seconds = seconds
        self.before: Callable[[], object] = lambda: None
        """Called when the answer begins: what is true now?"""


class ScriptedStream(Stream):
    def __init__(self, said: Said, clock: Clock) -> None:
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]
        self.said = said
        self.clock = clock
        self.given_up = False

    def __enter__(self) -> Self:
        self.said.before()
        if self.said.refused is not None:
            raise self.said.refused
        return self

    def __exit__(self, *_: object) -> None: ...

    def lines(self) -> Iterator[Batch]:
        yield from (batch for batch in self.said.batches if not self.given_up)
        self._end()

    def read(self) -> bytes:
        self._end()
        return self.said.body

    def close(self) -> None:
        self.given_up = True

    def _end(self) -> None:
        self.clock.now += self.said.seconds
        if self.said.error is not None:
            raise self.said.error


class Script:
    """Answers in order; after the last one the reflector is stopped. Remembers what was asked."""

    def __init__(
        self,
        kind: str,
        *answers: Said,
        settings: WatchSettings | None = None,
        decoder: Decoder | None = None,
        jitter: float = 1.0,
    ) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.clock = Clock()
        self.store = RecordingStore()
        resource: Resource = BY_KIND[kind]
        self.reflector = Reflector(
            resource,
            cast("Any", self),
            decoder or Decoder(kind),
            cast("Any", self.store),
            settings=settings or WatchSettings(),
            clock=self.clock,
            wait=self.clock.wait,
            jitter=lambda: jitter,
        )
        self.state = self.reflector.state

    def run(self) -> Self:
        self.reflector.run()
        assert not self.answers, "some answers were not asked for"
        return self

    def stream(self, path: str, params: Any = None, *, timeout: Timeout = (0.0, 0.0)) -> Stream:
        if not self.answers:
            self.reflector.stop()
            return ScriptedStream(Said(refused=ApiUnreachable("given up")), self.clock)
        self.asked.append(dict(params))
        return ScriptedStream(self.answers.pop(0), self.clock)

    def get(self, path: str, params: Any = None, *, accept: str) -> bytes:
        return self.stream(path, params).read()

    @property
    def lists(self) -> list[dict[str, str]]:
        return [params for params in self.asked if "watch" not in params]

    @property
    def watches(self) -> list[dict[str, str]]:
        return [params for params in self.asked if "watch" in params]


# --- what a server says ---------------------------------------------------------------------------------------------


def a_pod(name: str, version: int, uid: str = "", **more: Any) -> JSON:
    found = pod(name, **more)
    found["metadata"] |= {"uid": uid or f"uid-{name}", "resourceVersion": str(version), "namespace": "default"}
    return found | {"kind": "Pod", "apiVersion": "v1"}


def a_list(version: int, *objects: JSON, rest: str = "", kind: str = "Pod", **said: Any) -> Said:
    metadata = {"resourceVersion": str(version)} | ({"continue": rest} if rest else {})
    body = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": list(objects)}
    return Said(body=msgspec.json.encode(body), **said)


def line(event_type: str, obj: JSON | None) -> bytes:
    return msgspec.json.encode({"type": event_type, "object": obj})


def added(name: str, version: int, **more: Any) -> bytes:
    return line("ADDED", a_pod(name, version, **more))


def modified(name: str, version: int, **more: Any) -> bytes:
    return line("MODIFIED", a_pod(name, version, **more))


def deleted(name: str, version: int, **more: Any) -> bytes:
    return line("DELETED", a_pod(name, version, **more))


def bookmark(version: int, end: bool = False, kind: str = "Pod") -> bytes:
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if end else {}
    metadata = {"resourceVersion": str(version), "creationTimestamp": None} | annotations
    return line("BOOKMARK", {"kind": kind, "apiVersion": "v1", "metadata": metadata})


def error(code: int, reason: str = "", message: str = "", **details: Any) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return line("ERROR", status)


NO_INITIAL_EVENTS = ApiError(422, "Invalid", "sendInitialEvents is forbidden")


def ok() -> Said:
    """A watch in which a bookmark comes, and which ends after a minute."""
    return Said([bookmark(1_000)], seconds=60.0)


def paged(*answers: Said, kind: str = "Pod", **options: Any) -> Script:
    """A script for a server that lists in pages; the first question, for initial events, is refused."""
    return Script(kind, Said(refused=NO_INITIAL_EVENTS), *answers, **options)
