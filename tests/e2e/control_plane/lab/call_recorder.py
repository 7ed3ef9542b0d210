"""A pass-through between kube-scheduler and the extender that keeps every call in memory.

Rule: bytes pass unchanged, one connection to the extender for each of kube-scheduler's; they are parsed when a test
asks for the calls.
"""

import asyncio
import contextlib
import json
import re
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.e2e.control_plane.lab.http11 import content, read_body, read_head

JSON = dict[str, Any]


class ExtenderCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of kube-scheduler and the extender's answer."""

    time: float
    """Seconds since 1970 when the request was complete."""
    seconds: float = 0.0
    verb: str
    status: int = 200
    """0: kube-scheduler or the extender closed the connection before the answer."""
    headers: dict[str, str] = {}
    """Lower-case names of the answer's X-Extender-* headers."""
    uid: str = ""
    name: str = ""
    """Pod, as namespace/name."""
    priority: int = 0
    nominated_node: str = ""
    nodes: tuple[str, ...] = ()
    """Nodes sent to /filter, /prioritize and /bind."""
    victims: dict[str, tuple[str, ...]] = {}
    """Candidates sent to /preempt: node -> UIDs of victims."""
    violations: dict[str, int] = {}
    """Candidates sent to /preempt: node -> NumPDBViolations."""
    answer: Any = None
    """The decoded body."""

    @property
    def pod_version(self) -> float:
        """resourceVersion up to which the extender's watch of pods had come, by X-Extender-Cache; infinite without."""
        found = re.search(r"\bPod=(\d+)@", self.headers.get("x-extender-cache", ""))
        return int(found[1]) if found else float("inf")

    @property
    def answered_victims(self) -> dict[str, tuple[str, ...]]:
        """Answer of /preempt: node -> UIDs of victims."""
        answer = self.answer if isinstance(self.answer, dict) else {}
        return _uids(answer.get("NodeNameToMetaVictims"))


class CallRecorder:
    """Listens at `url` and passes calls on to `target`; a context manager."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._raw: list[tuple[float, float, str, bytes, int, dict[str, str], bytes]] = []
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_listening = threading.Event()
        self.url = ""

    def __enter__(self) -> "CallRecorder":
        self._thread.start()
        assert self._is_listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def calls(self) -> list[ExtenderCall]:
        """All calls so far, in the order of their answers."""
        return [_read(*one) for one in self._raw[:]]

    def calls_of(self, verb: str, name: str | None = None) -> list[ExtenderCall]:
        """Return calls of one verb, of the pod namespace/name if it is given."""
        return [one for one in self.calls if one.verb == verb and name in (None, one.name)]

    def clear(self) -> None:
        del self._raw[:]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._is_listening.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(self._target.hostname, self._target.port, limit=1 << 20)
            while await self._pass(reader, writer, answers, upstream):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            for one in filter(None, (upstream, writer)):
                one.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> bool:
        """Pass one call; False once the connection is over."""
        request = await read_head(reader)
        if request is None:
            return False
        body = [piece async for piece in read_body(reader, request)]
        began = time.time()
        target = request.line.split(" ", 2)[1]
        upstream.writelines([request.raw, *body])
        gone = asyncio.create_task(reader.read(1))
        answering = asyncio.create_task(_answer(answers))
        await asyncio.wait({gone, answering}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
        else:
            gone.cancel()
        await asyncio.gather(gone, answering, return_exceptions=True)
        verb = target.rstrip("/").rpartition("/")[2]
        asked = content(body, request)
        answered = None if answering.cancelled() or answering.exception() else answering.result()
        if answered is None:
            self._raw.append((began, time.time(), verb, asked, 0, {}, b""))
            return False
        head, pieces = answered
        shown = {key: value for key, value in head.headers.items() if key.startswith("x-extender-")}
        self._raw.append((began, time.time(), verb, asked, head.status, shown, content(pieces, head)))
        writer.writelines([head.raw, *pieces])
        await writer.drain()
        return head.headers.get("connection", "").lower() != "close"


async def _answer(answers: asyncio.StreamReader) -> Any:
    head = await read_head(answers)
    return None if head is None else (head, [piece async for piece in read_body(answers, head)])


def _read(
    began: float, ended: float, verb: str, asked: bytes, status: int, headers: dict[str, str], answered: bytes
) -> ExtenderCall:
    request: JSON = json.loads(asked) if asked else {}
    answer: Any = None
    with contextlib.suppress(ValueError):
        answer = json.loads(answered)
    pod = request.get("Pod") or {}
    about = pod.get("metadata", {})
    if verb == "bind":
        about = {"uid": request["PodUID"], "namespace": request["PodNamespace"], "name": request["PodName"]}
        nodes = [request["Node"]]
    elif request.get("NodeNames") is not None:
        nodes = request["NodeNames"]
    else:
        nodes = [one["metadata"]["name"] for one in (request.get("Nodes") or {}).get("items") or ()]
    sent = request.get("NodeNameToMetaVictims") or request.get("NodeNameToVictims") or {}
    return ExtenderCall(
        time=began,
        seconds=ended - began,
        verb=verb,
        status=status,
        headers=headers,
        uid=about.get("uid", ""),
        name=f"{about.get('namespace', '')}/{about.get('name', '')}",
        priority=pod.get("spec", {}).get("priority") or 0,
        nominated_node=pod.get("status", {}).get("nominatedNodeName", ""),
        nodes=tuple(nodes),
        victims=_uids(sent),
        violations={node: (victims or {}).get("NumPDBViolations", 0) for node, victims in sent.items()},
        answer=answer,
    )


def _uids(candidates: JSON | None) -> dict[str, tuple[str, ...]]:
    """Return the UIDs of victims by node, from either form of victims."""
    return {
        node: tuple(one["UID"] if "UID" in one else one["metadata"]["uid"] for one in (victims or {}).get("Pods") or ())
        for node, victims in (candidates or {}).items()
    }
