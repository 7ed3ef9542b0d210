"""Count the path of a call: the functions it enters, and how often it comes back to a module that it had left.

A hop is a module with the functions of it that are entered for the first time before the call moves on to another
module. A return is a hop to a module that the call had left. `tracer` says which calls they are.

The engine is what is entered from a call of the layers of `engine` and `evaluation` (import contract core-layers) by
anything outside core, until it returns. A report is what is entered from a call of a package of REPORTS. Left out of
both is what every step reads: the plugins, which kube-scheduler has, too, and the packages that the contracts put below
them (k8s, core.devices, core.snapshot, utilities). 44713b1 has 69 functions and 17 returns in the engine of /preempt.
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
class Traces:
    """What the tracer prints."""

    entries: dict[str, list[Entry]]
    """Call -> functions in the order of entry."""
    loaded: dict[str, list[str]]
    """Import -> modules of `extender` that are loaded after it."""


@cache
def start(tree: Tree, what: str) -> subprocess.Popen[str]:
    """Start to trace the `verbs` or `why` in a new process; what else is counted need not wait for it."""
    tracer = Path(__file__).with_name("tracer.py")
    # -P: the folder of the tracer is not searched for modules; the hash seed: the order of a set is part of the path.
    command = [sys.executable, "-P", str(tracer), what]
    environment = os.environ | {"PYTHONPATH": str(tree.root), "PYTHONHASHSEED": "0"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@cache
def traces(tree: Tree, what: str) -> Traces:
    """Return the traced calls of the `verbs` or of `why`."""
    process = start(tree, what)
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors)
    found = json.loads(output)
    entries = {
        call: [Entry(depth, _module(path), function) for depth, path, function in path_of_call]
        for call, path_of_call in found["entries"].items()
    }
    return Traces(entries, found["loaded"])


def entries_of(tree: Tree, call: str) -> list[Entry]:
    """Return the functions that a verb or `why` enters."""
    return traces(tree, "why" if call == "why" else "verbs").entries[call]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def called_from(
    entries: Iterable[Entry], starts: Callable[[str], bool], is_inside: Callable[[str], bool]
) -> list[Entry]:
    """Return what is entered from calls of the modules that start a part, by modules that are not inside it."""
    found: list[Entry] = []
    stack: list[Entry] = []
    begun: int | None = None  # depth of the call that started the part
    for entry in entries:
        del stack[entry.depth :]
        if begun is not None and entry.depth <= begun:
            begun = None
        caller = stack[-1].module if stack else ""
        if begun is None and starts(entry.module) and not is_inside(caller):
            begun = entry.depth
        stack.append(entry)
        if begun is not None:
            found.append(entry)
    return found


def engine(tree: Tree, entries: list[Entry]) -> list[Entry]:
    starts = tuple(f"core.{name}" for name in tree.beside("core-layers", "engine", "evaluation"))
    found = called_from(entries, lambda module: is_in(module, starts), lambda module: is_in(module, ("core",)))
    return without_what_every_step_reads(tree, found)


def reports(tree: Tree, entries: list[Entry]) -> list[Entry]:
    found = called_from(entries, lambda module: is_in(module, REPORTS), lambda module: is_in(module, REPORTS))
    return without_what_every_step_reads(tree, found)


def without_what_every_step_reads(tree: Tree, entries: list[Entry]) -> list[Entry]:
    """Leave out the plugins and the packages below them."""
    names = [*(f"core.{name}" for name in tree.below("core-layers", "framework")), *tree.below("layers", "core")]
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


def loaded(traced: Traces, module: str) -> Count:
    """Count the modules of `extender` that `import module` loads, those in the folder of plugins aside."""
    return Count.of([one for one in traced.loaded[module] if not one.startswith("extender.core.framework.plugins.")])
