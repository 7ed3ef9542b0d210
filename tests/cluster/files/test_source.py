"""A file that changes is read again; one that breaks never takes the good cache away."""

import asyncio
import gc
import json
import logging
import os
import threading

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files import reading
from extender.cluster.files.source import FileSource
from extender.config.scheduler.load import kube_scheduler_of
from extender.errors import ClusterFileError, NotReady
from extender.utilities.source_file import SourceFile


def write(path, *names, text=None):
    """Write a cluster of nodes with these names; each write is one second later than the one before."""
    later = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    items = [{"kind": "Node", "metadata": {"name": name}} for name in names]
    path.write_text(json.dumps({"kind": "List", "items": items}) if text is None else text)
    os.utime(path, ns=(later, later))


def nodes(cache):
    return [one.metadata.name for one in cache.snapshot().objects.nodes.values()]


def polls(source, count):
    """Look `count` times; which of the looks brought a new snapshot."""

    async def look():
        return [await source.poll() for _ in range(count)]

    return asyncio.run(look())


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "cluster.json"
    write(found, "a")
    return found


@pytest.fixture
def cache():
    return ClusterCache()


@pytest.fixture
def source(path, cache):
    loaded = FileSource(path, cache)
    loaded.load()
    return loaded


def test_the_first_load_fills_the_store_and_reports(path, cache):
    report = FileSource(path, cache).load()
    assert nodes(cache) == ["a"]
    assert report.skipped_kinds == {}


def test_the_first_load_raises_and_leaves_the_store_empty(path, cache):
    write(path, text="{")
    with pytest.raises(ClusterFileError, match=r"cluster\.json"):
        FileSource(path, cache).load()
    with pytest.raises(NotReady):
        cache.snapshot()


def test_an_unchanged_file_is_not_read_again(source, cache):
    before = cache.snapshot()
    assert polls(source, 3) == [False, False, False]
    assert cache.snapshot() is before


def test_a_changed_file_is_read_once_it_has_stood_still_for_one_look(source, cache, path):
    write(path, "a", "b")
    assert polls(source, 4) == [False, True, False, False]
    assert nodes(cache) == ["a", "b"]


def test_the_cache_has_the_time_of_the_file_that_it_was_loaded_from_not_of_a_broken_one(source, cache, path):
    first = SourceFile(path=str(path), modified="2001-09-09T01:46:40Z")
    assert cache.files == (first,)
    write(path, text="{")
    polls(source, 2)
    assert cache.files == (first,)
    write(path, "b")
    polls(source, 2)
    assert cache.files == (SourceFile(path=str(path), modified="2001-09-09T01:46:42Z"),)


def test_a_file_that_is_still_being_written_is_not_read(source, cache, path):
    names = "abcdefghij"
    for count in range(2, len(names) + 1):  # longer than any other changed file is waited for
        write(path, *names[:count])
        assert polls(source, 1) == [False]
    assert nodes(cache) == ["a"]
    assert polls(source, 1) == [True]
    assert nodes(cache) == list(names)


def test_a_broken_file_keeps_the_last_good_cache_and_is_complained_of_once(source, cache, path, caplog):
    before = cache.snapshot()
    write(path, text='{"kind": "Node", "metadata": {"name": 5}}')
    with caplog.at_level(logging.ERROR):
        assert polls(source, 5) == [False] * 5
    assert cache.snapshot() is before
    assert (
        source.last_error
        == "cluster.json: document 1: Node 5 is invalid: metadata.name: expected a string, got 5; put it in quotes"
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"cluster file not reloaded, keeping the previous cache: {source.last_error}"
    ]


def test_a_mended_file_is_read_and_the_error_forgotten(source, cache, path):
    write(path, text="{")
    polls(source, 2)
    assert source.last_error
    write(path, "mended")
    assert polls(source, 2) == [False, True]
    assert source.last_error is None
    assert nodes(cache) == ["mended"]


def test_a_file_that_was_emptied_is_broken_not_an_empty_cluster(source, cache, path):
    write(path, text="")
    polls(source, 2)
    assert source.last_error == "cluster.json: the file is empty"
    assert nodes(cache) == ["a"]


def test_a_file_that_goes_and_comes_back_the_same_is_read_again(source, cache, path):
    away = path.rename(path.with_suffix(".away"))
    assert polls(source, 2) == [False, False]
    assert "No such file" in source.last_error
    away.rename(path)
    assert polls(source, 2) == [True, False]
    assert source.last_error is None


def test_in_a_directory_every_file_counts_also_a_new_one(tmp_path, cache):
    write(tmp_path / "1.json", "a")
    source = FileSource(tmp_path, cache)
    source.load()
    write(tmp_path / "2.json", "b")
    assert polls(source, 2) == [False, True]
    assert nodes(cache) == ["a", "b"]
    (tmp_path / "1.json").unlink()
    assert polls(source, 2) == [False, True]
    assert nodes(cache) == ["b"]


class LimitedSleeps:
    """Stands in for asyncio.sleep: records the seconds, and cancels the task after `turns` sleeps."""

    def __init__(self, turns):
        self.asked = []
        self.turns = turns

    async def __call__(self, seconds):
        if len(self.asked) == self.turns:
            raise asyncio.CancelledError
        self.asked.append(seconds)


def test_run_looks_every_interval_until_cancelled(path, cache):
    sleep = LimitedSleeps(turns=3)
    source = FileSource(path, cache, interval=2.5, sleep=sleep)
    source.load()
    write(path, "a", "b")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(source.run())
    assert sleep.asked == [2.5, 2.5, 2.5]
    assert nodes(cache) == ["a", "b"]


def test_with_an_interval_of_zero_nobody_looks_again(path, cache):
    sleep = LimitedSleeps(turns=0)
    source = FileSource(path, cache, interval=0, sleep=sleep)
    asyncio.run(source.run())
    assert sleep.asked == []


def test_H8_a_read_that_hangs_leaves_garbage_collections_on(source, path, monkeypatch):
    """For ever, where a network file system does not answer: the whole process would collect nothing any more."""
    is_enabled = []

    def read(name, max_bytes):
        is_enabled.append(gc.isenabled())
        return b"{}"

    monkeypatch.setattr(reading, "read_regular_file", read)
    with pytest.raises(ClusterFileError):
        source.load()
    assert is_enabled == [True]


def test_a_read_that_hangs_does_not_keep_another_version_from_taking_effect(source, cache, path, monkeypatch):
    may_end, began = threading.Event(), threading.Event()

    def read(name, max_bytes):
        began.set()
        may_end.wait(10)
        return b'{"kind": "Node", "metadata": {"name": "b"}}'

    monkeypatch.setattr(reading, "read_regular_file", read)
    oldest = kube_scheduler_of({}, version="1.30")

    async def adopt_meanwhile():
        write(path, "b")
        await source.poll()
        poll = asyncio.create_task(source.poll())
        await asyncio.to_thread(began.wait, 10)
        await asyncio.wait_for(source.adopt(oldest, lambda: None), 10)
        assert (nodes(cache), cache.snapshot().features) == (["a"], oldest.features)
        may_end.set()
        assert await poll

    asyncio.run(adopt_meanwhile())
    assert (nodes(cache), cache.snapshot().features) == (["b"], oldest.features)


def test_H8_garbage_collections_pause_while_objects_are_built_and_go_on_after_an_error(path, monkeypatch):
    is_enabled = []

    def replace(objects):
        is_enabled.append(gc.isenabled())
        raise ValueError("unreadable")

    cache = ClusterCache()
    monkeypatch.setattr(cache, "replace", replace)
    with pytest.raises(ClusterFileError, match="unreadable"):
        FileSource(path, cache).load()
    assert (is_enabled, gc.isenabled()) == ([False], True)
