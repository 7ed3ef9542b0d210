"""How the fake API server answers: the loop of a connection, and one function per verb.

Rule: what a request reads and the watch that it opens are of one moment; the network waits outside the lock.
"""

import time
from collections.abc import Sequence

import msgspec

from tests.fakes import binding, dry_run, events, statuses
from tests.fakes.faults import Action, Answer, CutBody, CutEvent, Drop, ErrorEvent, Hang
from tests.fakes.http_server import Connection, Reply
from tests.fakes.kinds import Target
from tests.fakes.requests import Request, flag, request_of
from tests.fakes.state import State
from tests.fakes.statuses import Refused
from tests.fakes.storage import Event, Stored, key_of, whole
from tests.fakes.watches import End, Item, Watch, error_line


class Handler:
    """Answers the requests of any connection from one state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __call__(self, connection: Connection) -> None:
        """Serves a connection until either side ends it."""
        while (call := connection.call()) is not None:
            request = request_of(call)
            action = self._state.faults.strike(request)
            self._state.arrived(request)
            if not self._serve(connection, request, action) or call.headers.get("connection", "").lower() == "close":
                return

    def _serve(self, connection: Connection, request: Request, action: Action | None) -> bool:
        """Answers one request; False if the connection is over."""
        if isinstance(action, Hang) and not action.hold(connection):
            return False
        if isinstance(action, Drop) and not (action.done and request.verb != "watch"):
            raise connection.drop(action.reset)
        reply = action.reply() if isinstance(action, Answer) else self._answer(request, connection, action)
        if isinstance(action, Drop):
            raise connection.drop(action.reset)
        if isinstance(reply, Watch):
            return self._stream(connection, request, reply, action)
        self._state.answered(request, reply.code)
        if isinstance(action, CutBody):
            connection.reply(reply, cut_at=action.at)
            raise connection.drop(action.reset)
        connection.reply(reply)
        return True

    def _stream(self, connection: Connection, request: Request, watch: Watch, action: Action | None) -> bool:
        state = self._state
        try:
            seconds = request.params.get("timeoutSeconds")
            deadline = time.monotonic() + float(seconds) if seconds else None
            cut = action if isinstance(action, CutEvent) else None
            state.answered(request, 200)
            return watch.run(
                connection, deadline, state.periodic_bookmark, lambda count: state.written(watch.kind, count), cut
            )
        finally:
            state.closed(watch)

    def _answer(self, request: Request, connection: Connection, action: Action | None) -> Reply | Watch:
        with self._state.changed:
            try:
                if request.path == "/version" and self._state.version is not None:
                    return Reply(200, msgspec.json.encode({"major": "1", "gitVersion": self._state.version}))
                target = self._state.access.target(request, connection.has_client_certificate)
                if isinstance(action, ErrorEvent):
                    status = statuses.failure(action.code, action.message, action.reason)
                    return self._open(
                        Watch(target.resource.kind, self._state.storage.revision), [error_line(status), End()]
                    )
                return self._work(request, target)
            except Refused as refused:
                return Reply(refused.status["code"], msgspec.json.encode(refused.status))

    def _work(self, request: Request, target: Target) -> Reply | Watch:
        for selector in ("labelSelector", "fieldSelector"):
            if request.params.get(selector) and request.verb != "list":
                raise Refused(statuses.failure(400, f"the fake API server knows no {selector} of a {request.verb}"))
        match request.verb:
            case "list":
                _check_accept(request, as_list=True)
                return Reply(200, self._state.pages.answer(target, request.params, request.partial))
            case "watch":
                _check_accept(request, as_list=False)
                return self._watch(request, target.resource.kind)
            case "get":
                return self._get(request, target)
            case "bind":
                self._state.put("Pod", binding.bound(self._state.storage, target, request.body))
                return Reply(201, msgspec.json.encode(statuses.success(201)))
            case "create" if target.resource.kind == events.KIND:
                stored = self._state.put(events.KIND, events.created(self._state.storage, target, request.body))
                return Reply(201, msgspec.json.encode(stored))
            case "create":
                return dry_run.answer(self._state.storage, request, self._state.admit)
            case "patch" if target.resource.kind == events.KIND:
                content_type = request.headers.get("content-type", "")
                event = events.patched(self._state.storage, target, request.body, content_type)
                return Reply(200, msgspec.json.encode(self._state.put(events.KIND, event)))
        raise Refused(statuses.failure(405, "the server does not allow this method on the requested resource"))

    def _get(self, request: Request, target: Target) -> Reply:
        kind = target.resource.kind
        stored = self._state.storage.get(kind, key_of(kind, target.name, target.namespace))
        if stored is None:
            raise Refused(statuses.not_found(target.resource, target.name))
        return Reply(200, whole(kind, stored.body, request.partial))

    def _watch(self, request: Request, kind: str) -> Watch:
        storage = self._state.storage
        version = request.params.get("resourceVersion") or "0"
        if not version.isdecimal():
            raise Refused(statuses.failure(400, f"resourceVersion: Invalid value: {version!r}"))
        after, initial = int(version), flag(request.params, "sendInitialEvents")
        if initial:
            self._check_initial_events(request, after)
        fresh = initial or after == 0
        if not fresh and after < storage.compacted:
            return self._expired(kind, statuses.too_old(after, storage.compacted))
        watch = Watch(
            kind,
            storage.revision if fresh else after,
            bookmarks=flag(request.params, "allowWatchBookmarks"),
            partial=request.partial,
        )
        if fresh:
            events = [_added(kind, stored) for stored in storage.all(kind)]
        else:
            events = [event for event in storage.since(after) if event.kind == kind]
        watch.sent.extend(events)
        self._open(watch, events)
        if initial:
            watch.bookmark(storage.revision, initial_end=True)
        return watch

    def _expired(self, kind: str, status: statuses.JSON) -> Watch:
        if self._state.expired_as_status:
            raise Refused(status)
        return self._failed(kind, status)

    def _failed(self, kind: str, status: statuses.JSON) -> Watch:
        return self._open(Watch(kind, self._state.storage.revision), [error_line(status), End()])

    def _check_initial_events(self, request: Request, after: int) -> None:
        if not self._state.watch_list:
            why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise Refused(statuses.invalid_options("sendInitialEvents", why))
        if request.params.get("resourceVersionMatch") != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise Refused(statuses.invalid_options("resourceVersionMatch", why))
        if after > self._state.storage.revision:
            raise Refused(statuses.too_large(after, self._state.storage.revision))

    def _open(self, watch: Watch, items: Sequence[Item]) -> Watch:
        watch.queue(items)
        self._state.opened(watch)
        return watch


def _added(kind: str, stored: Stored) -> Event:
    return Event("ADDED", kind, stored.revision, stored.body)


def _check_accept(request: Request, as_list: bool) -> None:
    """A list is asked for as PartialObjectMetadataList, and a watch as PartialObjectMetadata."""
    if request.partial and as_list != ("as=PartialObjectMetadataList" in request.headers["accept"]):
        raise Refused(statuses.failure(406, f"not acceptable for a {request.verb}: {request.headers['accept']}"))
