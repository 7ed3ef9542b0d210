"""Trace calls through the functions of `extender`: `tracer.py verbs` or `tracer.py why`.

A call is the second of its kind, so that what is built once is there: a verb with a body that was not sent before, on a
generated cluster of 50 nodes; `extender why` on the example cluster. Generator expressions, comprehensions and lambdas
belong to their function.

Prints JSON: `entries`, call -> [[depth, module, function]] in the order of entry (the depth counts functions of
`extender` only), and `loaded`, import -> modules of `extender` that are loaded after it. What is imported later imports
the earlier ones, too, so that one process measures them in turn.

Runs in a process of its own and takes `extender` and `benchmarks` from PYTHONPATH, so that it measures other revisions.
"""

import asyncio
import contextlib
import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import extender

PACKAGE = Path(extender.__file__).parent
FITS_AFTER_A_PREEMPTION = 3
"""Exit code of `extender why`."""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "search-6", "namespace": "shop"},
    "spec": {
        "priorityClassName": "shop-critical",
        "nodeSelector": {"example.com/node-type": "general"},
        "containers": [{"name": "main", "image": "search:2", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}],
    },
}
"""The pod of docs/why.md: it fits on no node, and evicting a pod makes room."""


VERBS = ("preempt", "filter", "prioritize")
LOADED = {"why": ("extender", "extender.cli"), "verbs": ("extender", "extender.core.engine", "extender.server.app")}
"""What is traced -> what is imported before, in this order."""


class Trace:
    """Profile function that notes which functions of `extender` the thread enters."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str, str]] = []
        self._depth = 0
        self._functions: dict[CodeType, tuple[str, str] | None] = {}
        """Code -> module and function; None: it is not ours, or has no name."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code not in self._functions:
            self._functions[code] = function_of(code)
        function = self._functions[code]
        if function is None:
            return
        if event == "call":
            self.entries.append((self._depth, *function))
            self._depth += 1
        elif event == "return" and self._depth:  # the function that started the trace returns, too
            self._depth -= 1


def function_of(code: CodeType) -> tuple[str, str] | None:
    path, name = Path(code.co_filename), code.co_qualname.replace(".<locals>", "")
    is_ours = path.is_relative_to(PACKAGE) and not name.endswith(">")
    return (path.relative_to(PACKAGE).as_posix(), name) if is_ours else None


@contextlib.contextmanager
def tracing():
    found = Trace()
    sys.setprofile(found)
    try:
        yield found
    finally:
        sys.setprofile(None)


def trace_verb(verb: str) -> Trace:
    """Send two calls of the verb to a new application; trace the second."""
    from benchmarks.generate import Plan
    from benchmarks.requests import filter_bodies, new_preempt_bodies
    from benchmarks.world import World
    from extender.config import Configuration
    from extender.server.app import create_app

    world = World(Plan(seed=1, nodes=50))
    app = create_app(world.cache, Configuration())
    bodies = new_preempt_bodies(world, 0, 2) if verb == "preempt" else filter_bodies(world, fits=False)[:2]
    asyncio.run(send(app, verb, bodies[0]))
    with tracing() as found:
        asyncio.run(send(app, verb, bodies[1]))
    return found


async def send(app: Any, verb: str, body: bytes) -> None:
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

    async def keep(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    if messages[0]["status"] != 200:
        raise RuntimeError(f"/{verb} was answered with status {messages[0]['status']}")


def trace_why() -> Trace:
    """Run `extender why` twice on the example cluster; trace the second."""
    from extender.cli import main

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        path = Path(folder, "pod.yaml")
        path.write_text(json.dumps(POD), encoding="utf-8")
        sys.argv = ["extender", "why", "--example", "--pod", str(path)]
        run_command(main)
        with tracing() as found:
            run_command(main)
    return found


def run_command(main: Callable[[], object]) -> None:
    try:
        main()
    except SystemExit as stopped:
        if stopped.code != FITS_AFTER_A_PREEMPTION:
            raise RuntimeError(f"extender why ended with exit code {stopped.code}") from None


def load(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Import the modules in turn."""
    found = {}
    for name in names:
        importlib.import_module(name)
        found[name] = sorted(one for one in sys.modules if one.partition(".")[0] == "extender")
    return found


if __name__ == "__main__":
    loaded = load(LOADED[sys.argv[1]])
    traces = {"why": trace_why()} if sys.argv[1] == "why" else {verb: trace_verb(verb) for verb in VERBS}
    json.dump({"entries": {call: trace.entries for call, trace in traces.items()}, "loaded": loaded}, sys.stdout)
