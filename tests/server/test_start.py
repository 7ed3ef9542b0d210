"""How the process starts: with what it needs, all of it before the first call, and nothing else."""

import contextlib
import json
import re
import signal
from importlib import resources

import pytest

from extender.cli.commands.serve import EXAMPLE_PREEMPTION, EXAMPLE_REQUEST
from tests.server.processes import running

SELDOM = (
    "cryptography",
    "httpx",
    "kubernetes",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "rich",
    "extender.cli.output.decision_report",
    "extender.server.replay",
)
"""Modules that only other commands or a live cluster need; kubernetes alone takes as long as all the rest."""

CALLS = {"/filter": EXAMPLE_REQUEST, "/prioritize": EXAMPLE_REQUEST, "/preempt": EXAMPLE_PREEMPTION}


@pytest.fixture(autouse=True)
def _python_says_what_it_imports(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")


def imported(lines):
    return re.findall(r"^import time: .* \| +([\w.]+)$", "".join(lines), re.MULTILINE)


def test_the_example_is_served_without_what_others_need():
    with running(SERVER__DRAIN_TIME="0s") as process:
        assert process.readyz() == 200
        with contextlib.closing(process.connection("admin")) as connection:
            connection.request("GET", "/readyz?verbose")
            assert b"[+] source: the example cluster that ships with the package\n" in connection.getresponse().read()
        process.say(signal.SIGTERM)
        assert process.ends() == 0
        found = imported(process.lines)
    assert {"extender.server.app", "extender.core.engine", "yaml"} <= {*found}
    assert not [one for one in found if one.startswith(SELDOM)]


def test_no_call_waits_for_an_import():
    """Filter a cluster other than the example, which the start has already evaluated once."""
    example = resources.files("extender.cluster.files") / "example.yaml"
    with running(SERVER__DRAIN_TIME="0s", CLUSTER__PATH=str(example)) as process:
        with contextlib.closing(process.connection()) as connection:
            for path, body in CALLS.items():
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                assert (response.status, bool(response.read())) == (200, True)
        process.say(signal.SIGTERM)
        assert process.ends() == 0
        begin, end = (
            position(process.lines, said) for said in ("scheduler: listening on", "draining in-flight requests")
        )
        assert len(imported(process.lines[:begin])) > 500
        assert imported(process.lines[begin:end]) == []


def position(lines, said):
    return next(number for number, line in enumerate(lines) if said in line)
