"""H7: a recordings folder that others may write to: nothing outside is deleted, nothing in it crashes a command."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from tests.abuse.service import MIB, service, until

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}
OLD = "20200101T000000.000000Z"
FILES = ("settings.json", "cluster.json.gz", "calls.jsonl")


def recorded(folder, calls=3):
    """Record some calls; return the directories of the segments."""
    with service(
        RECORDING__DIRECTORY=str(folder), RECORDING__SEGMENT_SIZE="1", RECORDING__TOTAL_SIZE="20000"
    ) as process:
        for number in range(calls):
            pod = POD | {"spec": {"containers": [], "nodeSelector": {f"k{number}": "x" * 60}}}
            call = {"Pod": pod, "NodeNames": ["worker-a1"]}
            assert process.call("/filter", call)[0] == 200
            until(lambda number=number: json.loads(process.get("/recording")[1])["calls"] == number + 1)
        assert not [line for line in process.lines if "Traceback" in line or " ERROR " in line], process.lines
    return sorted(path for path in folder.iterdir() if not path.is_symlink())


def test_H7_no_file_behind_a_link_in_the_recordings_folder_is_deleted(tmp_path):
    """The links are older than all segments: the rotation meets them first."""
    folder, elsewhere = tmp_path / "recordings", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    for name in FILES:
        (elsewhere / name).write_bytes(b"x" * 100_000)
    (folder / OLD).symlink_to(elsewhere)
    (folder / f".{OLD}.part").symlink_to(elsewhere)
    (real := folder / OLD.replace("2020", "2021")).mkdir()
    for name in FILES:
        (real / name).symlink_to(elsewhere / name)
    segments = recorded(folder, calls=12)
    assert len([one for one in segments if one.name > "2022"]) < 12  # the rotation has deleted some
    assert sorted(path.name for path in elsewhere.iterdir()) == sorted(FILES)
    assert all(path.stat().st_size == 100_000 for path in elsewhere.iterdir())
    assert [(folder / OLD).is_symlink(), (folder / f".{OLD}.part").is_symlink()] == [True, True]
    assert all((real / name).is_symlink() for name in FILES)


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    (found,) = recorded(tmp_path_factory.mktemp("recordings"), calls=1)
    return found


def deep(text):
    """The recorded line, with a request that is nested deeper than the stack of any Python allows."""
    return text.replace(b'"request":{', b'"request":{"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b",", 1)


def deep_pod(text):
    return text.replace(
        b'"spec":{', b'"spec":{"volumes":[{"ephemeral":' + b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000 + b"}],", 1
    )


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def linked(target):
    def link(path):
        path.unlink()
        path.symlink_to(target)

    return link


def rewritten(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def sparse(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE = {
    "a deep line": ("calls.jsonl", rewritten(deep), "calls.jsonl: line 1: nested too deeply"),
    "a deep pod": ("calls.jsonl", rewritten(deep_pod), "calls.jsonl: line 1: nested too deeply"),
    "a line of brackets": ("calls.jsonl", rewritten(lambda _: b"[" * 5_000_000 + b"\n"), "calls.jsonl: line 1: "),
    "a line without end": ("calls.jsonl", sparse, "calls.jsonl: line 1: is larger than 384 MiB"),
    "calls that are a FIFO": ("calls.jsonl", fifo, "calls.jsonl: is a FIFO, not a regular file"),
    "calls from /dev/zero": ("calls.jsonl", linked("/dev/zero"), "calls.jsonl: is a character device, not a"),
    "settings that are a FIFO": ("settings.json", fifo, "settings.json: is a FIFO, not a regular file"),
    "endless settings": ("settings.json", sparse, "settings.json: is larger than 16 MiB"),
    "deep settings": ("settings.json", rewritten(lambda _: b"[" * 5_000_000), "settings.json: "),
    "a gzip bomb": (
        "cluster.json.gz",
        rewritten(lambda _: gzip.compress(b" " * MIB) * 2048),
        "cluster.json.gz: is larger than 1024 MiB once decompressed",
    ),
    "a cluster that is cut off": (
        "cluster.json.gz",
        rewritten(lambda data: data[:-20]),
        "cluster.json.gz: the gzip file",
    ),
    "a directory": ("cluster.json.gz", lambda path: (path.unlink(), path.mkdir()), "cluster.json.gz: is a directory"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_H7_a_hostile_recording_is_one_line_that_names_the_file(what, segment, tmp_path):
    name, change, reason = HOSTILE[what]
    copy = tmp_path / "recording" / segment.name
    copy.mkdir(parents=True)
    for one in FILES:
        (copy / one).write_bytes((segment / one).read_bytes())
    change(copy / name)
    commands = [["replay", copy.parent]]
    if what == "a deep line":
        commands.append(["explain", "filter-1", "--recording", copy.parent])
    for command in commands:
        found = run(*command)
        assert found.returncode == 2, found
        (line,) = found.stderr.splitlines()
        assert line.startswith("extender: ")
        assert f"{segment.name}/{reason}" in line
        assert len(line) < 500


def run(*arguments):
    """A command with at most 2 GiB of memory."""
    limited = "import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); "
    command = [sys.executable, "-c", limited + "runpy.run_module('extender', run_name='__main__')"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
