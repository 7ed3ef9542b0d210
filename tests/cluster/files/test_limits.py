"""H7: a cluster file is refused, with its name and the reason, before it can crash, hang or exhaust the process."""

import asyncio
import gzip
import json
import os
import time
import tracemalloc

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files import manifests, reading
from extender.cluster.files.manifests import load_cluster, read_cluster
from extender.cluster.files.source import FileSource
from extender.errors import ClusterFileError
from extender.utilities.daemon_thread import MAX_RELOAD_SHARE

POD = b'{"kind": "Pod", "metadata": {"name": "a"}'
HOSTILE = {
    "brackets": ("c.yaml", b"a: " + b"[" * 25_000, "c.yaml: is nested deeper than 100 levels at line 1"),
    "brackets in JSON": ("c.json", POD + b', "spec": ' + b"[" * 1_000_000, "c.json: is nested too deeply"),
    "pairs of brackets in JSON": ("c.json", b"[" * 1_000_000 + b"]" * 1_000_000, "c.json: is nested too deeply"),
    "Lists": (
        "c.json",
        b'{"kind":"List","items":[' * 100 + b"]}" * 100,
        "c.json: item 0: Lists nested more than 3 levels deep",
    ),
    "an integer": (
        "c.json",
        POD + b', "spec": {"priority": ' + b"9" * 100_000 + b"}}",
        "c.json: Pod a: integer value out",
    ),
    "a NUL byte": ("c.json", POD + b"\0}", "c.json: not JSON: "),
    "a NUL byte in YAML": ("c.yaml", b"kind: \0", "c.yaml: not YAML: control characters are not allowed"),
    "half of UTF-16": ("c.json", b"\xff\xfe\x00\xd8", "c.json: 'utf-16"),
    "gzip cut off": ("c.json.gz", gzip.compress(POD * 100)[:-20], "c.json.gz: the gzip file is truncated"),
    "gzip damaged": ("c.json.gz", gzip.compress(POD)[:-8] + b"12345678", "c.json.gz: the gzip file is damaged: CRC"),
    "a mistake in line 3": (
        "c.json",
        b'{\n"kind":\n"Pod",,}',
        "c.json: not JSON: expected '\"' at line 3",
    ),
    "an end in the middle": ("c.json", b'{"kind": "Secret"}{"kind', "c.json: not JSON: unexpected end"),
}


@pytest.mark.parametrize(("name", "data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_H7_a_file_is_refused_for(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(tmp_path / name)
    assert str(caught.value).startswith(message)


def test_H7_a_gzip_bomb_is_refused_and_takes_no_memory(tmp_path):
    packed = gzip.compress(b" " * (1 << 20)) * (reading.MAX_BYTES >> 20)
    (tmp_path / "c.json.gz").write_bytes(packed + gzip.compress(b" "))
    tracemalloc.start()
    try:
        with pytest.raises(ClusterFileError, match=r"^c\.json\.gz: is larger than 256 MiB once decompressed$"):
            load_cluster(tmp_path / "c.json.gz")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_H7_sizes_are_limited(tmp_path, monkeypatch):
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    with pytest.raises(ClusterFileError, match=r"^sparse\.json: is larger than 256 MiB$"):
        load_cluster(tmp_path / "sparse.json")
    monkeypatch.setattr(manifests, "MAX_JSON_VALUES", 1000)
    for name in ("c.json", "c.yaml"):
        (tmp_path / name).write_bytes(b'{"kind": "List", "items": [' + b"{}, " * 1001 + b"{}]}")
        with pytest.raises(ClusterFileError, match=f"^{name}: has more than 1,000 values$"):
            load_cluster(tmp_path / name)
    monkeypatch.setattr(manifests, "MAX_YAML_BYTES", 1 << 10)
    (tmp_path / "c.yaml").write_bytes(b"# comment\n" * 200)
    with pytest.raises(ClusterFileError, match=r"^c\.yaml: is YAML of more than 1 KiB: use JSON$"):
        load_cluster(tmp_path / "c.yaml")


def test_H7_a_directory_is_limited_as_a_whole(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / f"{name}.json").write_bytes(b'{"kind": "Secret"}' + b" " * 1000)
    monkeypatch.setattr(reading, "MAX_BYTES", 2048)
    with pytest.raises(ClusterFileError, match=r"files are larger than 2 KiB together$"):
        load_cluster(tmp_path)
    monkeypatch.setattr(reading, "MAX_FILES", 2)
    with pytest.raises(ClusterFileError, match=r"has more than 2 cluster files$"):
        load_cluster(tmp_path)


def test_H7_objects_and_skipped_kinds_are_limited(monkeypatch):
    monkeypatch.setattr(manifests, "MAX_OBJECTS", 5)
    for kind in ("NodeList", "SecretList"):
        with pytest.raises(ClusterFileError, match=r"^cluster: more than 5 objects$"):
            load_cluster({"kind": kind, "items": [{"metadata": {"name": str(one)}} for one in range(6)]})
    monkeypatch.setattr(manifests, "MAX_SKIPPED_KINDS", 2)
    report = read_cluster({"kind": "List", "items": [{"kind": f"{one}{'x' * 500}"} for one in range(5)]})
    assert [(len(kind), count) for kind, count in report.skipped_kinds.items()] == [(101, 1), (101, 1), (16, 3)]


def test_H7_a_message_does_not_repeat_a_long_name_or_value(tmp_path):
    for content in (
        {"kind": "Pod", "metadata": {"name": "n" * 10_000}, "spec": {"priority": "x"}},
        {"kind": "Pod", "metadata": {"name": "n"}, "spec": {"overhead": {"cpu": "v" * 10_000}}},
        {"kind": "NodeList", "items": [{"metadata": {"name": "k"}, "kind": "List" * 1000, "items": 5}]},
    ):
        (tmp_path / "c.json").write_text(json.dumps(content))
        with pytest.raises(ClusterFileError) as caught:
            load_cluster(tmp_path / "c.json")
        assert len(str(caught.value)) <= manifests.MAX_MESSAGE_CHARACTERS + 1


@pytest.mark.parametrize(("target", "reason"), [("fifo", "is a FIFO"), ("/dev/zero", "is a character device")])
def test_H7_what_is_no_regular_file_is_refused_at_a_reload_and_the_last_good_cache_stays(tmp_path, target, reason):
    path, cache = tmp_path / "c.json", ClusterCache()
    path.write_text('{"kind": "Node", "metadata": {"name": "a"}}')
    source = FileSource(path, cache)
    source.load()
    before = cache.snapshot()
    os.mkfifo(tmp_path / "fifo")
    path.unlink()
    path.symlink_to(target)

    async def look():
        return [await source.poll() for _ in range(3)]

    assert asyncio.run(look()) == [False] * 3
    assert source.warnings() == [f"cluster file: c.json: {reason}, not a regular file; using the previous cache"]
    assert cache.snapshot() is before
    path.unlink()
    path.write_text('{"kind": "Node", "metadata": {"name": "mended"}}')
    assert asyncio.run(look()).count(True) == 1


def test_H7_files_that_always_change_are_read_in_a_share_of_the_time_only(tmp_path):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError

    class SlowFiles(FileSource):
        def _read(self):
            time.sleep(0.5)
            return super()._read()

    (tmp_path / "c.json").write_text('{"kind": "Node", "metadata": {"name": "a"}}')
    source = SlowFiles(tmp_path, ClusterCache(), interval=1.0, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(source.run())
    assert slept[:2] == [1.0, 1.0]  # the second poll reads the file
    assert slept[2] >= 0.5 * (1 / MAX_RELOAD_SHARE - 1)
    assert slept[3] == 1.0
