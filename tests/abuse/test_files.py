"""H7: no file that the service reads crashes, hangs or exhausts it; H8: nor does one keep the process from ending."""

import contextlib
import gzip
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time

import pytest

from tests.abuse.service import MIB, patch_service, service, until
from tests.fakes.certificates import Certificates
from tests.server.conftest import node

FILTER = {
    "Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": []}},
    "NodeNames": ["n1"],
}


def cluster(*nodes):
    return json.dumps({"kind": "List", "items": [node(name, cpu="4") for name in nodes]}).encode()


def lines_of_levels(first, line):
    return first + b"".join(line(level) for level in range(1, 30))


LAUGHS = lines_of_levels(
    b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n",
    lambda level: b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 9)),
)
MERGES = lines_of_levels(
    b"a0: &a0 {k: v}\n",
    lambda level: b"a%d: &a%d {<<: [%s]}\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 9)),
)
POD = b"kind: Pod\nmetadata: {name: a}\n"

CONTENTS = {
    "25,000 brackets": (b"a: " + b"[" * 25_000, "is nested deeper than 100 levels at line 1"),
    "1,000,000 dashes": (b"- " * 1_000_000, "is nested deeper than 100 levels at line 1"),
    "brackets in JSON": (b'{"kind": "Pod", "spec": ' + b"[" * 5_000_000, "is nested too deeply"),
    "aliases": (POD + LAUGHS, "its aliases expand to more than 1,000,000 values"),
    "merge keys": (POD + MERGES, "its aliases expand to more than 1,000,000 values"),
    "a scalar of 64 MiB": (POD + b"x: " + b"y" * 64 * MIB, "a scalar or comment is longer than 3 MiB at line 3"),
    "an integer": (POD + b"spec: {priority: " + b"9" * 1_000_000 + b"}", "spec.priority: expected an integer, got"),
    "100,000 directives": (b"".join(b"%%TAG !%d! x\n" % one for one in range(100_000)) + b"--- a", "%TAG directives"),
    "a NUL byte": (b"kind: \0", "not YAML: control characters are not allowed"),
    "text that is not UTF-8": (b"kind: \xff", "not YAML: invalid leading UTF-8 octet"),
    "a gzip bomb of 4 GiB": (
        gzip.compress(gzip.compress(b"") + b" " * MIB) * 4096,
        "is larger than 256 MiB once decomp",
    ),
    "gzip that is cut off": (gzip.compress(b"{}" * 1000)[:-20], "the gzip file is truncated"),
}

LINKS = {
    "a FIFO": "is a FIFO, not a regular file",
    "/dev/zero": "is a character device, not a regular file",
    "a directory": "no file in this directory ends in",
    "a sparse file of 1 TiB": "is larger than 256 MiB",
}


class Files:
    """A cluster file that is replaced as a whole by contents, or by a link to something else."""

    def __init__(self, folder):
        self._folder = folder
        self.path = folder / "cluster.yaml"
        self.write(cluster("n1"))
        (folder / "a directory").mkdir()
        os.mkfifo(folder / "a FIFO")
        with (folder / "a sparse file of 1 TiB").open("wb") as file:
            file.truncate(1 << 40)

    def write(self, data):
        (self._folder / "next").write_bytes(data)
        os.replace(self._folder / "next", self.path)

    def link(self, target):
        (self._folder / "next").symlink_to(target)
        os.replace(self._folder / "next", self.path)


def warns(process, text):
    """Whether /readyz?verbose says so; it stays ready."""
    status, lines = process.get("/readyz?verbose")
    assert status == 200
    return any(line.startswith("[!]") and text in line for line in lines.decode().splitlines())


def test_H7_a_hostile_cluster_file_is_refused_with_the_reason_and_the_last_good_cache_stays(tmp_path):
    files = Files(tmp_path)
    with service("--cluster", str(files.path), CLUSTER__RELOAD_INTERVAL="100ms") as process:
        assert process.call("/filter", FILTER)[0] == 200
        before, worked, count = process.rss, process.cpu_seconds, 0
        changes = [(lambda data=data: files.write(data), problem) for data, problem in CONTENTS.values()]
        changes += [(lambda target=target: files.link(target), problem) for target, problem in LINKS.items()]
        for change, problem in changes:
            change()
            until(lambda problem=problem: warns(process, problem))
            status, body = process.call("/filter", FILTER)
            assert (status, json.loads(body)["NodeNames"]) == (200, ["n1"])
            count += 1
        assert count == len(CONTENTS) + len(LINKS)
        assert process.cpu_seconds - worked < 20  # all of them; one of them alone never ended
        assert process.peak < before + 192  # the largest are 64 MiB themselves
        assert not [line for line in process.lines if "Traceback" in line]
        files.write(cluster("n1", "n2"))
        until(lambda: any("cluster file reloaded" in line for line in process.lines))
        both = FILTER | {"NodeNames": ["n1", "n2"]}
        assert json.loads(process.call("/filter", both)[1])["NodeNames"] == ["n1", "n2"]


def test_H7_calls_are_answered_while_a_large_cluster_file_is_parsed(tmp_path):
    files = Files(tmp_path)
    with service("--cluster", str(files.path), CLUSTER__RELOAD_INTERVAL="100ms") as process:
        files.write(b"kind: List\nitems:\n" + b"- {kind: Secret, data: [{a: b}, {c: d}, {e: f}]}\n" * 20_000 + b"- [")
        spent = process.cpu_seconds
        until(lambda: process.cpu_seconds - spent > 0.3)  # it is being parsed
        found = []
        while not warns(process, "not YAML"):
            began = time.monotonic()
            assert process.call("/filter", FILTER)[0] == 200
            found.append(time.monotonic() - began)
        assert len(found) >= 10
        late = [seconds for seconds in found if seconds > 1]
        assert len(late) <= len(found) / 10, late


def test_H7_a_cluster_file_that_always_changes_is_not_always_parsed(tmp_path):
    files = Files(tmp_path)
    other = b"".join(b"---\nkind: Secret\ndata: {a: [1, 2, 3]}\n" for _ in range(20_000))
    with service("--cluster", str(files.path), CLUSTER__RELOAD_INTERVAL="100ms") as process:
        files.write(other)
        until(lambda: any("cluster file reloaded" in line for line in process.lines))
        time.sleep(1)
        began, worked, number = time.monotonic(), process.cpu_seconds, 0
        while time.monotonic() - began < 5:  # changes that settle for three polls
            files.write(other + b"#%d" % number)
            number += 1
            time.sleep(0.3)
        assert process.cpu_seconds - worked < 0.4 * (time.monotonic() - began)
        assert process.call("/filter", FILTER)[0] in (200, 503)


@contextlib.contextmanager
def https(process, context):
    connection = http.client.HTTPSConnection("127.0.0.1", process.ports["scheduler"], timeout=10, context=context)
    with contextlib.closing(connection):
        yield connection


def test_H7_fifos_in_place_of_configuration_key_and_cluster_file_are_reported_and_H8_sigterm_ends_the_process(tmp_path):
    files, certificates, config = Files(tmp_path), Certificates(tmp_path), tmp_path / "extender.yaml"
    pair = certificates.server()
    config.write_text("scheduler: {profiles: [{schedulerName: a}]}\n")
    tls = {"SERVER__TLS__CERTIFICATE": str(pair.certificate), "SERVER__TLS__KEY": str(pair.key)}
    arguments = ("--cluster", str(files.path), "--config", str(config))
    with service(*arguments, CLUSTER__RELOAD_INTERVAL="100ms", SERVER__DRAIN_TIME="0s", **tls) as process:
        for path in (config, pair.key, files.path):
            path.unlink()
            os.mkfifo(path)
        for path in (config, pair.key, files.path):
            until(lambda path=path: warns(process, f"{path.name}: is a FIFO, not a regular file"))
        assert [line for line in process.lines if "keeping the previous" in line and "is a FIFO" in line]
        with https(process, ssl.create_default_context(cafile=str(certificates.ca_file))) as connection:
            connection.request("POST", "/filter", json.dumps(FILTER), {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
        began = time.monotonic()
        process.say(signal.SIGTERM)
        assert process.ends() == 0
        assert time.monotonic() - began < 10


HUNG_READS = """
    import os, time

    really_open = os.open

    def open(path, *args, **options):
        while str(path).endswith(".yaml") and os.path.exists(str(path) + ".hang"):
            time.sleep(0.1)
        return really_open(path, *args, **options)

    os.open = open
"""


def test_H7_a_read_that_hangs_is_reported_and_H8_sigterm_ends_the_process(tmp_path, monkeypatch):
    patch_service(monkeypatch, tmp_path, HUNG_READS)  # as a network file system whose server is gone
    files, config = Files(tmp_path), tmp_path / "extender.yaml"
    config.write_text("scheduler: {profiles: [{schedulerName: a}]}\n")
    arguments = ("--cluster", str(files.path), "--config", str(config))
    with service(*arguments, CLUSTER__RELOAD_INTERVAL="100ms", SERVER__DRAIN_TIME="0s") as process:
        for path in (config, files.path):
            path.with_name(f"{path.name}.hang").touch()
        config.write_text("scheduler: {profiles: [{schedulerName: b}]}\n")
        files.write(cluster("n1", "n2"))
        for subject in ("configuration", "cluster file"):
            until(lambda subject=subject: warns(process, f"{subject}: a reload has been running for"))
            assert [line for line in process.lines if f"{subject}: a reload is not finished after 10s" in line]
        assert process.call("/filter", FILTER)[0] == 200
        began = time.monotonic()
        process.say(signal.SIGTERM)
        assert process.ends() == 0
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("option", ["--config", "--cluster"])
def test_H7_a_command_that_is_given_a_hostile_file_ends_with_one_line(tmp_path, option):
    files = Files(tmp_path)
    changes = {
        "is nested deeper than 100 levels": lambda: files.write(CONTENTS["25,000 brackets"][0]),
        "its aliases expand to more than": lambda: files.write(LAUGHS),
        # A configuration has each key once.
        {"--config": "duplicate key 'k'", "--cluster": "its aliases expand to more"}[option]: lambda: files.write(
            MERGES
        ),
    }
    if option == "--config":  # `--cluster <(…)` is read
        changes["is a FIFO, not a regular file"] = lambda: files.link("a FIFO")
    for problem, change in changes.items():
        change()
        lines, code = run_extender("simulate", "--pending", option, str(files.path))
        assert (len(lines), code) == (1, 2), lines
        assert problem in lines[0]


def run_extender(*arguments):
    """Lines on standard error, and the exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "extender", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr.splitlines(), done.returncode
