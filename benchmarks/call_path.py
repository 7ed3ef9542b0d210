"""Print the path of one call through the modules of `extender`: `python -m benchmarks.call_path preempt`.

A row is a hop: the functions that are entered for the first time before the call moves on to another module. A return
is a hop to a module that the call had left. The call is the second of its kind on a generated cluster of 50 nodes, with
a body that was not sent before; generator expressions, comprehensions and lambdas belong to their function.

The last lines count the whole call, the part outside the engine, and the engine: from its entry to its return, without
the plugins (kube-scheduler has the same), the vocabulary of `extender.k8s` and the columns of the snapshot (COLUMNS),
which every step reads. The hops that are listed are those of the engine.
"""

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import extender
from benchmarks.generate import Plan
from benchmarks.requests import filter_bodies, new_preempt_bodies
from benchmarks.world import World
from extender.config import Configuration
from extender.server.app import create_app

PACKAGE = Path(extender.__file__).parent
VERBS = ("filter", "prioritize", "preempt")
COLUMNS = tuple(f"core/snapshot/{name}.py" for name in ("arrays", "derived", "snapshot", "node_layout", "pod_table"))
VOCABULARY = ("core/framework/plugins/", "k8s/")
PLAN = Plan(seed=1, nodes=50)


@dataclass(frozen=True)
class Entry:
    """A function that was entered."""

    module: str
    function: str
    in_engine: bool


class Trace:
    """Profile function that notes which functions of `extender` a thread enters."""

    def __init__(self, verb: str) -> None:
        self.entries: list[Entry] = []
        self._engine = ("core/engine.py", verb)
        self._depth = 0
        """Number of calls of the engine that have not returned."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname.replace(".<locals>", "")
        if event not in ("call", "return") or not path.is_relative_to(PACKAGE) or name.endswith(">"):
            return
        module = path.relative_to(PACKAGE).as_posix()
        if event == "call":
            self._depth += (module, name) == self._engine
            self.entries.append(Entry(module, name, self._depth > 0))
        else:
            self._depth -= (module, name) == self._engine


def hops(entries: Iterable[Entry]) -> list[tuple[str, list[str]]]:
    """Return (module, functions entered for the first time) in the order of the call."""
    found: list[tuple[str, list[str]]] = []
    for module, function in dict.fromkeys((entry.module, entry.function) for entry in entries):
        if not found or found[-1][0] != module:
            found.append((module, []))
        found[-1][1].append(function)
    return found


def trace(verb: str) -> list[Entry]:
    """Send two calls of the verb to a new application and return the entries of the second."""
    world = World(PLAN)
    app = create_app(world.cache, Configuration())
    bodies = new_preempt_bodies(world, 0, 2) if verb == "preempt" else filter_bodies(world, fits=False)[:2]
    asyncio.run(_call(app, verb, bodies[0]))
    found = Trace(verb)
    sys.setprofile(found)
    try:
        asyncio.run(_call(app, verb, bodies[1]))
    finally:
        sys.setprofile(None)
    return found.entries


async def _call(app: Any, verb: str, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": f"/{verb}",
        "headers": headers,
        "query_string": b"",
    }
    scope |= {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "", "client": None}
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    if messages[0]["status"] != 200:
        raise RuntimeError(f"/{verb} was answered with status {messages[0]['status']}")


def main(verb: str) -> None:
    """Print the hops of one call and the totals."""
    entries = trace(verb)
    engine = [
        entry
        for entry in entries
        if entry.in_engine and not entry.module.startswith(VOCABULARY) and entry.module not in COLUMNS
    ]
    parts = {"whole call": entries, "outside the engine": [e for e in entries if not e.in_engine], "engine": engine}
    for number, (module, functions) in enumerate(hops(engine), 1):
        print(f"{number:3} {module:45} {', '.join(functions)}")
    for part, chosen in parts.items():
        path = hops(chosen)
        count, modules = sum(len(functions) for _, functions in path), {module for module, _ in path}
        print(f"{part}: {count} functions in {len(modules)} modules, {len(path) - len(modules)} returns")


if __name__ == "__main__":
    if sys.argv[1:] not in [[verb] for verb in VERBS]:
        sys.exit(f"usage: python -m benchmarks.call_path {'|'.join(VERBS)}")
    main(sys.argv[1])
