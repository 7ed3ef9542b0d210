"""What is recorded, when a segment begins, and what happens when the disk is slow, full or gone."""

import json
import stat
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from extender.cluster.cache.cache import Change, ClusterCache
from extender.config.serving import RecordingSection
from extender.core.eviction_history import EvictionHistory
from extender.errors import RecordingError
from extender.k8s.time import MINUTE
from extender.server.admin.collectors import recording_metrics
from extender.server.recording import segments
from extender.server.recording.disk import delete_segment, prepare_directory, segments_in, size_of
from extender.server.recording.recorder import Recorder
from extender.server.recording.segments import RecordedSegment
from extender.server.replay import open_recording
from extender.server.settings import Loaded, Settings
from tests.builders import stored_cluster
from tests.fakes.source import STALE, Live, Stale
from tests.server.conftest import (
    CLUSTER,
    URGENT,
    configuration,
    filled_cache,
    filter_body,
    full_body,
    node,
    pod,
    preempt_body,
)
from tests.server.recording.rig import NOW, FullDisk, Rig, WaitingDisk, applied, until

CALLS = {"filter": filter_body(), "prioritize": filter_body(), "preempt": preempt_body()}


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path / "recording")
    yield rig
    rig.recorder.stop()


def lines_of(segment):
    return [json.loads(line) for line in (segment / "calls.jsonl").read_bytes().splitlines()]


# --- on and off -------------------------------------------------------------------------------------------------------


def test_nothing_is_written_before_it_is_switched_on(rig):
    rig.ask("filter", filter_body())
    assert rig.recorder.is_on is False
    assert not rig.directory.exists()
    assert rig.cache.mutable_snapshot().observer is None


def test_what_is_asked_while_it_is_on_is_recorded(rig):
    rig.ask("filter", filter_body())
    rig.recorder.start()
    for verb, body in CALLS.items():
        rig.ask(verb, body)
    rig.recorder.stop()
    rig.ask("filter", filter_body())
    assert rig.cache.mutable_snapshot().observer is None
    rig.replays("filter", "prioritize", "preempt")


def test_it_can_be_switched_on_again(rig):
    for _ in range(2):
        rig.recorder.start()
        rig.recorder.start()
        rig.ask("filter", filter_body())
        rig.recorder.stop()
        rig.recorder.stop()
    assert len(rig.segments()) == 2
    rig.replays("filter", "filter")


def test_without_a_directory_it_is_not_switched_on():
    with pytest.raises(RecordingError, match=r"recording\.directory"):
        Recorder(filled_cache(), RecordingSection()).start()


def test_a_directory_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="cannot record into it"):
        Recorder(filled_cache(), RecordingSection(directory=str(tmp_path / "file"))).start()


def test_its_state_can_be_asked_for(rig):
    before = rig.recorder.status()
    rig.recorder.start()
    rig.ask("filter", filter_body())
    until(lambda: rig.recorder.status()["waiting"] == 0)
    during = rig.recorder.status()
    (segment,) = rig.segments()
    directory = str(rig.directory)
    off = {"enabled": False, "segment": None, "size": 0, "calls": 0, "dropped": 0, "waiting": 0, "error": None}
    assert before == off | {"directory": directory}
    size = sum(path.stat().st_size for path in segment.iterdir())
    assert during == before | {"enabled": True, "segment": segment.name, "size": size, "calls": 1}


def test_its_state_is_a_metric(rig):
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.note(body=b'{"Pod":7,"NodeNames":[]}')
    until(lambda: rig.recorder.status()["waiting"] == 0)
    families = recording_metrics(rig.recorder.status())
    assert {sample.name: sample.value for family in families for sample in family.samples} == {
        "extender_recording": 1,
        "extender_recording_bytes": rig.recorder.status()["size"],
        "extender_recording_calls_total": 1,
        "extender_recording_dropped_total": 1,
    }


def test_only_the_owner_can_read_it(rig):
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (rig.directory, *rig.directory.rglob("*"))}
    (segment,) = rig.segments()
    assert modes == {
        rig.directory.name: 0o700,
        segment.name: 0o700,
        "settings.json": 0o600,
        "cluster.json.gz": 0o600,
        "calls.jsonl": 0o600,
    }


def test_a_crash_leaves_what_was_written(rig):
    """Read while it is still being recorded."""
    rig.recorder.start()
    rig.ask("filter", filter_body())
    until(lambda: rig.recorder.status()["waiting"] == 0)
    assert len(list(open_recording(rig.directory).results())) == 1


def test_the_cluster_is_a_cluster_file(rig):
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    (segment,) = rig.segments()
    assert stored_cluster(segment / "cluster.json.gz") == stored_cluster(CLUSTER)


# --- object changes ----------------------------------------------------------------------------------------------


def test_changes_between_calls_are_recorded_in_their_order(rig):
    rig.recorder.start()
    rig.ask("filter", filter_body())
    applied(rig.cache, pod("more", on="worker-1", cpu="2"))
    rig.ask("filter", filter_body())
    applied(rig.cache, pod("more", on="worker-1", cpu="2"), deleted=True)
    applied(rig.cache, node("worker-1", cpu="1"))
    rig.ask("filter", filter_body())
    applied(rig.cache, node("worker-2"), deleted=True)
    rig.ask("filter", filter_body(nodes=["worker-1"]))
    rig.recorder.stop()
    (segment,) = rig.segments()
    types = [line["type"] for line in lines_of(segment)]
    assert types == ["call", "put", "call", "delete", "put", "call", "delete", "call"]
    rig.replays("filter", "filter", "filter", "filter")


def test_what_was_not_asked_about_is_not_recorded(rig):
    applied(rig.cache, pod("more", on="worker-1"))
    rig.recorder.start()
    applied(rig.cache, pod("even-more", on="worker-1"))
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    (segment,) = rig.segments()
    assert [line["type"] for line in lines_of(segment)] == ["call"]
    assert len(stored_cluster(segment / "cluster.json.gz").pods) == 4


def test_a_budget_that_changes_changes_what_is_replayed(tmp_path):
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "small", "namespace": "shop", "uid": "b", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "small"}}},
        "status": {"disruptionsAllowed": 1},
    }
    cache = filled_cache({"kind": "List", "items": [*CLUSTER["items"], budget]})
    rig = Rig(tmp_path, cache, preemption={"disruptionBudgets": "Strict"})
    rig.recorder.start()
    first = rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    (held,) = cache.snapshot().objects.budgets.values()
    status = replace(held.status, disruptions_allowed=0)
    cache.apply(
        Change(
            "PodDisruptionBudget", replace(held, status=status, metadata=replace(held.metadata, resource_version="2"))
        )
    )
    second = rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    assert first.body != second.body
    rig.replays("preempt", "preempt")


def test_another_snapshot_begins_a_segment(rig):
    rig.recorder.start()
    rig.ask("filter", filter_body())
    before = rig.cache.mutable_snapshot()
    rig.cache.replace(stored_cluster({"kind": "List", "items": [node("worker-1"), node("worker-2"), node("worker-3")]}))
    rig.ask("filter", filter_body())
    assert before.observer is None
    rig.replays("filter", "filter")
    assert len(rig.segments()) == 2


def test_kinds_that_may_not_be_read_any_more_are_noted(rig):
    def relisted(*, is_unread):
        for _ in rig.cache.relist("ReplicaSet", [], is_unread=is_unread):
            pass

    rig.recorder.start()
    for is_unread in (False, True, True, False):
        relisted(is_unread=is_unread)
        rig.ask("prioritize", filter_body())
    rig.recorder.stop()
    (segment,) = rig.segments()
    found = [line.get("fields", "call") for line in lines_of(segment)]
    assert found == ["call", ["replica_sets"], "call", "call", [], "call"]
    rig.replays(*["prioritize"] * 4)


def test_the_kinds_that_may_not_be_read_at_the_start_are_known(tmp_path):
    cache = ClusterCache()
    cache.replace(replace(stored_cluster(CLUSTER), unreadable_tables=("claims",)))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    wanting = URGENT | {"spec": URGENT["spec"] | {"volumes": [claim]}}
    rig = Rig(tmp_path, cache)
    rig.recorder.start()
    rig.ask("filter", filter_body(incoming=wanting))
    (result,) = rig.results()
    assert result.differences == ()
    assert next(iter(open_recording(tmp_path))).server_context.cache.mutable_snapshot().unreadable_tables == {"claims"}


def test_what_follows_from_an_answer_comes_after_it(tmp_path):
    rig = Rig(tmp_path, source=Live())
    rig.recorder.start()
    rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    rig.ask("filter", filter_body(incoming=pod("modest", cpu="3", priority=50)))
    rig.ask("filter", filter_body(incoming=URGENT))  # asked for again: nothing is assumed of it any more
    rig.ask("filter", filter_body(incoming=pod("modest", cpu="3", priority=50)))
    rig.recorder.stop()
    (segment,) = rig.segments()
    types = [line["type"] for line in lines_of(segment)]
    assert types[:4] == ["call", "put", "put", "call"]
    assert types.count("call") == 4
    rig.replays("preempt", "filter", "filter", "filter")


# --- what else an answer depends on -----------------------------------------------------------------------------------


def test_limits_that_look_back_see_what_was_seen_then(tmp_path):
    rig = Rig(tmp_path, source=Live(), preemption={"limits": {"workloadCooldown": "5m", "maxAttempts": 1}})
    rig.recorder.start()
    rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    rig.ask("preempt", preempt_body(**{"worker-1": ["uid-small"]}))
    results = rig.results()
    assert [result.differences for result in results] == [(), ()]
    first, second = (result.call for result in results)
    assert (len(first.history.evictions), len(second.history.evictions)) == (0, 1)
    assert (len(first.history.attempts), len(second.history.attempts)) == (0, 1)
    assert second.answer == b'{"NodeNameToMetaVictims":{}}'


def test_a_moment_is_read_back_as_it_was(rig):
    history = Rig(rig.directory, source=Live()).server_context.history()
    assert msgspec.json.decode(msgspec.json.encode(history), type=EvictionHistory) == history
    assert history.now > 365 * 24 * 60 * MINUTE


def test_other_settings_begin_a_segment(rig):
    rig.recorder.start()
    rig.ask("preempt", preempt_body())
    rig.server_context.live_settings.active = Loaded.from_config(
        configuration(preemption={"keepCandidates": "All"})
    ).settings()
    rig.ask("preempt", preempt_body())
    rig.server_context.live_settings.active = Loaded.from_config(
        configuration(preemption={"keepCandidates": "All"})
    ).settings()
    rig.ask("preempt", preempt_body())
    rig.replays("preempt", "preempt", "preempt")
    assert len(rig.segments()) == 2


@pytest.mark.parametrize("kill_switch", [None, "Veto", "PassThrough"])
@pytest.mark.parametrize("observing", [False, True], ids=["Enforce", "Observe"])
def test_what_is_answered_without_a_decision_is_replayed_without_one(tmp_path, kill_switch, observing):
    rig = Rig(tmp_path)
    rig.server_context.live_settings.active = Settings(
        rig.server_context.settings.scheduler, "Error", observing, kill_switch
    )
    rig.recorder.start()
    for verb, body in CALLS.items():
        rig.ask(verb, body)
    rig.ask("filter", full_body())
    rig.replays(*CALLS, "filter")


@pytest.mark.parametrize("on_failure", ["Error", "Veto"])
def test_failures_of_ours_are_recorded_too(tmp_path, on_failure):
    rig = Rig(tmp_path, preemption={"onFailure": on_failure})
    rig.recorder.start()
    unknown = rig.ask("filter", filter_body(nodes=["unknown"]))
    assert unknown.status == 503
    rig.ask("prioritize", filter_body(nodes=["unknown"]))
    rig.replays("filter", "prioritize")


@pytest.mark.parametrize("on_failure", ["Error", "Veto"])
def test_an_empty_cache_stays_empty_in_the_replay(tmp_path, on_failure):
    rig = Rig(tmp_path, ClusterCache(), preemption={"onFailure": on_failure})
    rig.recorder.start()
    for verb, body in CALLS.items():
        rig.ask(verb, body)
    rig.replays(*CALLS)
    (segment,) = rig.segments()
    assert not (segment / "cluster.json.gz").exists()


def test_a_stale_cache_is_stale_in_the_replay(tmp_path):
    source = Stale()
    rig = Rig(tmp_path, source=source)
    rig.recorder.start()
    for verb, body in CALLS.items():
        rig.ask(verb, body)
    source.stale = None
    rig.ask("filter", filter_body())
    results = rig.results()
    assert [result.call.status for result in results] == [503, 200, 503, 200]
    assert [result.call.problem for result in results] == [STALE] * 3 + [None]
    assert [result.differences for result in results] == [()] * 4


# --- segments ---------------------------------------------------------------------------------------------------------


def test_a_segment_that_has_its_size_is_followed_by_another(tmp_path):
    rig = Rig(tmp_path, sizes={"segment_size": 3000})
    rig.recorder.start()
    for number in range(20):
        rig.ask("filter", filter_body())
        until(lambda: rig.recorder.status()["waiting"] == 0)
        if number == 10:
            applied(rig.cache, pod("more", on="worker-1", cpu="2"))
    sizes = [(segment / "calls.jsonl").stat().st_size for segment in rig.segments()]
    assert len(sizes) >= 4
    assert all(3000 <= size < 5000 for size in sizes[:-1])
    rig.replays(*["filter"] * 20)


def test_the_oldest_segments_are_deleted_and_never_the_current_one(tmp_path):
    rig = Rig(tmp_path, sizes={"segment_size": 1000, "total_size": 16000})
    rig.recorder.start()
    for number in range(40):
        rig.ask("filter", filter_body())
        until(lambda: rig.recorder.status()["waiting"] == 0)
        assert number < 5 or rig.recorder.status()["size"] <= 16000
    kept = [result.call.id for result in rig.results()]
    assert kept == [f"filter-{number}" for number in range(41 - len(kept), 41)]
    assert 3 <= len(kept) < 20


def test_a_single_segment_may_be_larger_than_all_may_be(tmp_path):
    rig = Rig(tmp_path, sizes={"segment_size": 1 << 20, "total_size": 1})
    rig.recorder.start()
    for _ in range(5):
        rig.ask("filter", filter_body())
    rig.replays(*["filter"] * 5)


def test_what_is_no_segment_is_never_deleted(tmp_path):
    rig = Rig(tmp_path, sizes={"segment_size": 1, "total_size": 1})
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "20260101T000000.000000Z").mkdir()
    (tmp_path / "20260101T000000.000000Z" / "mine.txt").write_text("mine")
    (tmp_path / "20260101T000000.000000Z" / "settings.json").write_text("{}")
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert [path.name for path in (tmp_path / "20260101T000000.000000Z").iterdir()] == ["mine.txt"]


def test_H7_links_in_the_folder_are_neither_followed_nor_deleted(tmp_path):
    """A link instead of a segment, of an incomplete one, and of a file of a segment."""
    folder, elsewhere = tmp_path / "recording", tmp_path / "elsewhere"
    real = folder / "20000101T000000.000001Z"
    real.mkdir(parents=True)
    elsewhere.mkdir()
    for name in ("settings.json", "cluster.json.gz", "calls.jsonl"):
        (elsewhere / name).write_bytes(b"x")
        (real / name).symlink_to(elsewhere / name)
    links = folder / "20000101T000000.000000Z", folder / ".20000101T000000.000000Z.part"
    for link in links:
        link.symlink_to(elsewhere)
    assert segments_in(folder) == [real]
    prepare_directory(folder)
    for path in (*links, real):
        assert size_of(path) == 0
        delete_segment(path)
    assert len(list(elsewhere.iterdir())) == 3
    assert len(list(real.iterdir())) == 3
    assert all(link.is_symlink() for link in links)


def test_H7_a_line_that_is_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "MAX_LINE_BYTES", 1000)
    (tmp_path / "calls.jsonl").write_bytes(b"[" * 2000 + b"\n")
    with pytest.raises(RecordingError, match=r"calls\.jsonl: line 1: is larger than 0 KiB"):
        list(RecordedSegment(tmp_path).lines())


def test_H7_a_deep_line_is_named(tmp_path):
    line = b'{"type":"put","kind":"Pod","object":{"spec":%s}}\n'
    (tmp_path / "calls.jsonl").write_bytes(line % b"{}" + line % (b"[" * 1_000_000 + b"]" * 1_000_000))
    with pytest.raises(RecordingError, match=r"calls\.jsonl: line 2: nested too deeply"):
        list(RecordedSegment(tmp_path).lines())


def test_H4_an_object_change_counts_with_its_memory(rig, monkeypatch):
    """Objects that the cluster cache replaced live on in the queue."""
    rig.recorder.start()
    rig.ask("filter", filter_body())
    writer = rig.recorder._writer
    assert writer is not None
    sizes = list[int]()

    def put(item, size):
        sizes.append(size)
        return True

    monkeypatch.setattr(writer, "put", put)
    one = next(iter(rig.cache.mutable_snapshot().objects.pods.values()))
    labels = {f"k{number}": "x" for number in range(10_000)}
    rig.cache.apply(Change("Pod", replace(one, metadata=replace(one.metadata, labels=labels, resource_version=""))))
    assert sizes[0] > 1_000_000


def test_names_tell_the_order_of_segments_although_the_clock_is_set_back(tmp_path):
    rig = Rig(tmp_path)
    for number, seconds in enumerate((100, 50, 100)):
        rig.recorder.start()
        rig.note(f"filter-{number}", seconds=seconds)
        rig.recorder.stop()
    names = [segment.name for segment in rig.segments()]
    assert names == [
        "20260921T141500.000000Z",
        "20260921T141500.000001Z",
        "20260921T141500.000002Z",
    ]
    assert all(a < b for a, b in pairwise(names))
    assert [call.id for call in open_recording(tmp_path).calls()] == ["filter-0", "filter-1", "filter-2"]
    assert NOW == 1_790_000_000 * 10**9


def test_what_a_crash_left_incomplete_is_swept_away(tmp_path):
    part = tmp_path / ".20260101T000000.000000Z.part"
    part.mkdir()
    (part / "settings.json").write_text("{}")
    (tmp_path / ".hidden.part").mkdir()
    rig = Rig(tmp_path)
    rig.recorder.start()
    rig.recorder.stop()
    assert not part.exists()
    assert (tmp_path / ".hidden.part").exists()


# --- the disk ---------------------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path, caplog):
    rig = Rig(tmp_path, disk=FullDisk(2000))
    rig.recorder.start()
    for _ in range(10):
        assert rig.ask("filter", filter_body()).status == 200
        until(lambda: not rig.recorder.is_on or rig.recorder.status()["waiting"] == 0)
    assert rig.recorder.is_on is False
    until(lambda: "recording stopped" in caplog.text)
    assert rig.recorder.status()["error"] == f"{tmp_path}: No space left on device"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"recording stopped: {tmp_path}: No space left on device"
    ]
    applied(rig.cache, pod("more", on="worker-1"))
    assert rig.cache.mutable_snapshot().observer is None
    rig.recorder.stop()
    results = list(open_recording(tmp_path).results())
    assert results
    assert all(result.differences == () for result in results)


@pytest.mark.parametrize("name", ["settings.json", "cluster.json.gz"])
def test_a_segment_for_which_there_is_no_room_is_not_there(tmp_path, name):
    rig = Rig(tmp_path, disk=FullDisk(0, name))
    rig.recorder.start()
    rig.ask("filter", filter_body())
    until(lambda: not rig.recorder.is_on)
    rig.recorder.stop()
    assert list(tmp_path.iterdir()) == []


def test_after_a_disk_error_it_can_be_switched_on_again(tmp_path):
    disk = FullDisk(0)
    rig = Rig(tmp_path, disk=disk)
    rig.recorder.start()
    rig.ask("filter", filter_body())
    until(lambda: not rig.recorder.is_on)
    assert rig.recorder._writer is not None
    rig.recorder._writer.join(20)  # what its buffer still holds must not find room
    disk.room = 1 << 20
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert rig.recorder.status()["error"] is None
    assert [result.differences for result in open_recording(tmp_path).results()] == [()]


def test_a_slow_disk_drops_calls_and_the_next_segment_is_complete(tmp_path, caplog):
    disk = WaitingDisk()
    rig = Rig(tmp_path, disk=disk, max_queued_bytes=(1 << 20) + 5000)
    rig.recorder.start()
    for number in range(10):
        applied(rig.cache, pod(f"more-{number}", on="worker-1", cpu="200m"))
        assert rig.ask("prioritize", filter_body()).status == 200
    assert disk.is_asked.wait(20)
    assert rig.recorder.status()["dropped"] > 5
    assert [r.message for r in caplog.records if "too slow" in r.message] != []
    assert rig.recorder.is_on
    disk.may_go_on.set()
    until(lambda: rig.recorder.status()["waiting"] == 0)
    for number in (10, 11):
        applied(rig.cache, pod(f"more-{number}", on="worker-1", cpu="200m"))
        rig.ask("prioritize", filter_body())
        until(lambda: rig.recorder.status()["waiting"] == 0)
    results = rig.results()
    assert [result.differences for result in results] == [()] * len(results)
    assert [result.call.id for result in results[-2:]] == ["prioritize-11", "prioritize-12"]
    assert len(results) + rig.recorder.status()["dropped"] == 12
    assert results[-1].call.segment == rig.segments()[-1].name


def test_a_blocked_disk_does_not_block_the_shutdown(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("extender.server.recording.recorder.STOP_TIMEOUT_SECONDS", 0.01)
    disk = WaitingDisk()
    rig = Rig(tmp_path, disk=disk)
    rig.recorder.start()
    rig.ask("filter", filter_body())
    assert disk.is_asked.wait(20)
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert "shutdown timed out" in caplog.text
    disk.may_go_on.set()


def test_a_call_that_cannot_be_redacted_is_skipped_and_counted(rig, caplog):
    rig.recorder.start()
    rig.note(body=b'{"Pod":7,"NodeNames":[]}')
    rig.ask("filter", filter_body())
    rig.recorder.stop()
    assert (rig.recorder.status()["dropped"], rig.recorder.status()["calls"]) == (1, 1)
    assert "skipping call filter-1" in caplog.text
    rig.replays("filter")


def test_an_internal_error_stops_the_recording_and_nothing_else(rig, caplog, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    rig.recorder.start()
    monkeypatch.setattr("extender.server.recording.redact.redact_request", broken)
    assert rig.ask("filter", filter_body()).status == 200
    until(lambda: not rig.recorder.is_on)
    assert rig.ask("filter", filter_body()).status == 200
    assert "internal error" in caplog.text
