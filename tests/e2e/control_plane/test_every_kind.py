"""A 1.37 cluster with every kind that decisions read: a dump of it is read as it is, and decides as kube-scheduler."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extender import cli
from tests.e2e.control_plane.lab import every_kind
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.test_simulate import events

FIXTURE = Path(__file__).parents[2] / "cluster" / "files" / "kubernetes-1.37.json"
"""That dump, for the tests that need no control plane. KUBE_KEEP=1 keeps the folder with a new one, dump.json."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    directory, served = tmp_path_factory.mktemp("plane"), every_kind.RUNTIME_CONFIG
    with ControlPlane(directory, runtime_config=served, feature_gates=every_kind.GATES) as started:
        every_kind.create_every_kind(started.api)
        found = json.dumps(every_kind.anonymised(every_kind.dump(started.api)), indent=1)
        (directory / "dump.json").write_text(found + "\n")
        yield started


def test_the_kept_dump_has_the_fields_that_this_api_server_has(plane):
    kept, found = (json.loads(path.read_text()) for path in (FIXTURE, plane.directory / "dump.json"))
    assert {*fields_of(kept)} == {*fields_of(found)}


def fields_of(found: Any) -> Iterator[tuple[str, ...]]:
    """Yield kind, name and path of every field."""
    for one in found["items"]:
        for path in paths(one):
            yield one["apiVersion"], one["kind"], one["metadata"]["name"], *path


def paths(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield (name,)
            yield from ((name, *path) for path in paths(one))
    elif isinstance(value, list):
        for one in value:
            yield from paths(one)


def test_why_reads_the_dump_and_says_what_kube_scheduler_says(plane):
    api, file = plane.api, plane.directory / "dump.json"
    done = CliRunner().invoke(cli.app, ["why", every_kind.PENDING, "--cluster", str(file), "-o", "json"])
    assert done.exit_code == 1, done.output
    said = json.loads(done.stdout)
    scheduler = plane.start_scheduler()
    uid = api.get("Pod", every_kind.PENDING.partition("/")[2])["metadata"]["uid"]
    message = api.wait_until(lambda: events(api, uid), 20, "the pod to be tried")[0]
    scheduler.stop()
    assert said["message"] == message
    assert said["notEvaluated"] == []
