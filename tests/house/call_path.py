"""Count the path of a call: the functions it enters, and how often it comes back to a module that it had left.

A hop is a module with the functions of it that are entered for the first time before the call moves on to another
module. A return is a hop to a module that the call had left. `tracer` says which calls they are.

The engine is what is entered from a call of the layer of `evaluation` (import contract core-layers) by anything outside
core, until it returns. A report is what is entered from a call of a package of REPORTS. Left out of both is what every
step reads: the plugins, which kube-scheduler has, too, and the packages that the contracts put below them (k8s,
core.devices, core.snapshot, utilities). 44713b1 has 69 functions and 17 returns in the engine of /preempt.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.house.count import Count
from tests.house.tree import Tree, is_in

REPORTS = ("report", "whatif", "core.diagnosis", "core.explain", "core.simulator")
"""Packages with what people read; the last three are those of 44713b1."""


@dataclass(frozen=True)
class Entry:
    """A function that was entered."""

    depth: int
    module: str
    function: str


@dataclass(frozen=True)
class Trace:
    """What the tracer prints."""

    entries: list[Entry]
    loaded: dict[str, list[str]]
    """Import -> modules of `extender` that are loaded after it."""


@cache
def start(tree: Tree, what: str) -> subprocess.Popen[str]:
    """Start to trace a call, of a verb or of `why`, in a new process; what else is counted need not wait for it."""
    tracer = Path(__file__).with_name("tracer.py")
    # -P: the folder of the tracer is not searched for modules; the hash seed: the order of a set is part of the path.
    command = [sys.executable, "-P", str(tracer), what]
    environment = os.environ | {"PYTHONPATH": str(tree.root), "PYTHONHASHSEED": "0"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@cache
def trace(tree: Tree, what: str) -> Trace:
    """Return the traced call; starts it if that was not done."""
    process = start(tree, what)
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors)
    found = json.loads(output)
    entries = [Entry(depth, _module(path), function) for depth, path, function in found["entries"]]
    return Trace(entries, found["loaded"])


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def called_from(
    entries: Iterable[Entry], starts: Callable[[str], bool], is_inside: Callable[[str], bool]
) -> list[Entry]:
    """Return what is entered from calls of the modules that start a part, by modules that are not inside it."""
    found: list[Entry] = []
    stack: list[Entry] = []
    start: int | None = None  # depth of the call that started the part
    for entry in entries:
        del stack[entry.depth :]
        if start is not None and entry.depth <= start:
            start = None
        caller = stack[-1].module if stack else ""
        if start is None and starts(entry.module) and not is_inside(caller):
            start = entry.depth
        stack.append(entry)
        if start is not None:
            found.append(entry)
    return found


def engine(tree: Tree, entries: list[Entry]) -> list[Entry]:
    layer = next(layer for layer in tree.layers("core-layers") if "evaluation" in layer)
    starts = tuple(f"core.{name}" for name in layer)
    found = called_from(entries, lambda module: is_in(module, starts), lambda module: is_in(module, ("core",)))
    return without_what_every_step_reads(tree, found)


def reports(tree: Tree, entries: list[Entry]) -> list[Entry]:
    found = called_from(entries, lambda module: is_in(module, REPORTS), lambda module: is_in(module, REPORTS))
    return without_what_every_step_reads(tree, found)


def without_what_every_step_reads(tree: Tree, entries: list[Entry]) -> list[Entry]:
    """Leave out the plugins and the packages below them."""
    core = tree.layers("core-layers")
    below_framework = core[next(place for place, layer in enumerate(core) if "framework" in layer) + 1 :]
    layers = tree.layers("layers")
    below_core = layers[next(place for place, layer in enumerate(layers) if "core" in layer) + 1 :]
    names = [f"core.{name}" for layer in below_framework for name in layer]
    names += [name for layer in below_core for name in layer]
    packages = tuple(name for name in names if Path(tree.package, *name.split(".")).is_dir())
    plugins = tuple(name.removeprefix("extender.") for name in tree.contracts["plugins"]["modules"])
    left_out = (*packages, plugins[0].rpartition(".")[0])
    return [entry for entry in entries if not is_in(entry.module, left_out)]


def hops(entries: Iterable[Entry]) -> list[tuple[str, list[str]]]:
    """Return (module, functions entered for the first time) in the order of the call."""
    found: list[tuple[str, list[str]]] = []
    for module, function in dict.fromkeys((entry.module, entry.function) for entry in entries):
        if not found or found[-1][0] != module:
            found.append((module, []))
        found[-1][1].append(function)
    return found


def functions(entries: Iterable[Entry]) -> Count:
    path = hops(entries)
    return Count(sum(len(names) for _, names in path), [f"{module:45} {', '.join(names)}" for module, names in path])


def returns(entries: Iterable[Entry]) -> Count:
    """Count the hops to a module that the call had left."""
    left: set[str] = set()
    found = []
    for number, (module, names) in enumerate(hops(entries), 1):
        if module in left:
            found.append(f"{number:3} {module:45} {', '.join(names)}")
        left.add(module)
    return Count.of(found)


def modules(entries: Iterable[Entry]) -> Count:
    return Count.of(sorted({entry.module for entry in entries}))


def loaded(traced: Trace, module: str) -> Count:
    """Count the modules of `extender` that `import module` loads."""
    return Count.of(traced.loaded[module])
