"""Whether the tests notice a mutant: each is imported, in a process of its own, in the place of the right module.

What the tests import besides is imported once, before; a process is a fork of this one. So nothing is written to disk,
and a mutant costs no more than its tests.

Rule: a mutant is killed when a test fails, none can be collected, or the tests take longer than LIMIT.
"""

import importlib
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from time import monotonic
from types import CodeType, ModuleType

from tests.tools.mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[3]

MODULES = ("extender.server.guard.guard", "extender.server.guard.pdb_recount")
TESTS = tuple(f"tests/server/guard/{name}.py" for name in ("test_pdb_recount", "test_guard_answers", "test_guard"))
SHARED = ("pytest", "hypothesis", "extender.core.engine", "extender.cluster.files.manifests")
"""What is imported before, and imports none of MODULES."""

LIMIT = 60.0
"""Seconds for the tests of one mutant; the right modules take about one."""


class ModulesAlreadyImported(Exception):
    """A mutant could not take the place of its module any more."""


def all_mutants() -> list[Mutant]:
    return [one for module in MODULES for one in mutants(module, ROOT / f"{module.replace('.', '/')}.py")]


@dataclass(frozen=True, slots=True)
class Fate:
    mutant: Mutant
    is_killed: bool


def prepare() -> None:
    """Import what all processes share."""
    for name in SHARED:
        importlib.import_module(name)
    early = sorted({*MODULES} & sys.modules.keys())
    if early:
        raise ModulesAlreadyImported(", ".join(early))


def run(chosen: Iterable[Mutant], workers: int, tests: Sequence[str] = TESTS) -> Iterator[Fate]:
    """What becomes of each, as soon as it is known; `prepare` must have been called."""
    fork, left = multiprocessing.get_context("fork"), iter(chosen)
    running: dict[int, tuple[ForkProcess, Mutant, float]] = {}
    try:
        while True:
            while len(running) < workers and (mutant := next(left, None)) is not None:
                process = fork.Process(target=_run_tests, args=(mutant, tests), daemon=True)
                process.start()
                running[process.sentinel] = process, mutant, monotonic() + LIMIT
            if not running:
                return
            soonest = min(end for _, _, end in running.values())
            ended = set(connection.wait(list(running), timeout=max(soonest - monotonic(), 0)))
            for sentinel, (process, mutant, end) in list(running.items()):
                if sentinel in ended or monotonic() >= end:
                    del running[sentinel]
                    yield Fate(mutant, not _passed(process))
    finally:
        for process, _, _ in running.values():
            process.kill()


def passes_unchanged(tests: Sequence[str] = TESTS) -> bool:
    """Whether the tests pass on the right modules; what they print is shown."""
    process = multiprocessing.get_context("fork").Process(target=_run_tests, args=(None, tests), daemon=True)
    process.start()
    process.join(LIMIT)
    return _passed(process)


def _passed(process: ForkProcess) -> bool:
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode == 0


# --- in the process of a mutant ---------------------------------------------------------------------------------------


def _run_tests(mutant: Mutant | None, tests: Sequence[str]) -> None:
    import hypothesis
    import pytest

    if mutant is not None:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        sys.meta_path.insert(0, _InPlace(mutant.module, mutant.code()))
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    # No file of settings and no plugin: the tests need none, and start sooner.
    options = ["-c", os.devnull, "--rootdir", str(ROOT), "-x", "-q", "-p", "no:cacheprovider"]
    os._exit(pytest.main([*options, *(str(ROOT / test) for test in tests)]))


class _InPlace(MetaPathFinder, Loader):
    """Imports the code under the name of the module."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)
