"""What all tests have in common: which of them run by default, chance, and logs as they were before."""

import functools
import logging
import os
import random
import sys
import threading
from pathlib import Path

import pytest

from tests.profiles import Seeds

ABSENT = str(Path(__file__).with_name("absent"))
if ABSENT not in sys.path:
    sys.path.insert(0, ABSENT)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ABSENT, os.environ.get("PYTHONPATH"))))

MARKED = {
    "abuse": ("abuse",),
    "slow": ("property/fuzz/test_openapi.py",),
    "e2e": (
        "e2e",
        "server/test_shutdown.py",
        "server/test_start.py",
        "server/test_stopped_process.py",
        "upstream/test_cel_program.py",
        "upstream/test_go.py",
    ),
    "tools": (
        "parity/test_update.py",
        "tools",
        "upstream/generate",
        "upstream/test_cel_fuzz.py",
        "upstream/test_expressions.py",
        "upstream/test_fuzz.py",
        "upstream/test_interruption.py",
        "upstream/test_progress.py",
        "upstream/test_shrink.py",
        "upstream/test_verdict.py",
    ),
}
"""Marker -> folders and modules of this folder; `make test` leaves them out, `make test-all` runs everything."""


@functools.cache  # each test asks for that of its module
def marker_of(path: Path) -> str | None:
    within = path.relative_to(Path(__file__).parent).as_posix() if path.is_relative_to(Path(__file__).parent) else ""
    for marker, prefixes in MARKED.items():
        if any(within == prefix or within.startswith(f"{prefix}/") for prefix in prefixes):
            return marker
    return None


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its options, and before workers are started with them
def pytest_configure(config):
    named = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
    chosen = any(str(arg).startswith("-m") for arg in config.invocation_params.args)
    if not chosen and all(path.suffix == ".py" or marker_of(path) for path in named):
        config.option.markexpr = ""  # a module, or a marked folder, that is named runs whole
    if config.option.hypothesis_profile == "long" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


@pytest.hookimpl(optionalhook=True)  # xdist may be switched off
def pytest_xdist_auto_num_workers():
    """Return one worker more than there are cores: tests with sockets and processes wait more than they compute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def pytest_report_header(config):
    seed = config.option.hypothesis_seed
    return None if seed is None else f"chance: --hypothesis-seed={seed}"


def pytest_ignore_collect(collection_path, config):
    """Do not even import what the markers leave out."""
    marker = marker_of(collection_path)
    return True if marker and f"not {marker}" in config.option.markexpr else None


def pytest_itemcollected(item):
    marker = marker_of(item.path)
    if marker:
        item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    seeds = getattr(item, "funcargs", {}).get("seeds")
    if report.failed and seeds is not None and seeds.current is not None:
        report.sections.append(("chance", f"seed {seeds.current}"))
    return report


@pytest.fixture(scope="session")
def seeds(pytestconfig) -> Seeds:
    """seeds(fast, ci, long): that many seeds, by the profile."""
    return Seeds(int(pytestconfig.option.hypothesis_seed or 0) << 16)


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop that coroutines run on: the service's own."""
    return "asyncio"


@pytest.fixture(autouse=True)
def logging_as_before():
    """A command sets up logs for its whole process, which here is that of other tests, too."""
    root, own = logging.getLogger(), logging.getLogger("extender")
    before = root.handlers[:], root.level, own.handlers[:], own.level, own.propagate, threading.excepthook
    hooks = sys.excepthook, sys.unraisablehook
    yield
    logging.captureWarnings(False)
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers[:], own.handlers[:] = before[0], before[2]
    root.setLevel(before[1])
    own.setLevel(before[3])
    own.propagate, threading.excepthook = before[4:]
    sys.excepthook, sys.unraisablehook = hooks
