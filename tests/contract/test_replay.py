"""Every call of a real kube-scheduler, recorded by the service and replayed: the same bytes, in both cache modes."""

from dataclasses import dataclass

import msgspec
import pytest

from extender.server.replay import ReplayResult
from extender.server.scheduler.result import Answer
from extender.wire.decode import decode_filter, decode_preempt
from tests.contract.test_recordings import (
    ENTRIES,
    SCENARIOS,
    Call,
    Replay,
    ignored_resources,
    params,
    scheduler_ignoring,
)
from tests.profiles import by_profile
from tests.server.recording.rig import Rig

POLICIES = {"preset": "strict", "ranking": ["VictimCount", "Workloads"]}
WITH_PREEMPTION = params((mode, entry) for mode, entry in ENTRIES if any("-preempt" in name for name in entry["calls"]))


@dataclass(frozen=True)
class Recorded:
    answers: list[tuple[Call, Answer]]
    results: list[ReplayResult]
    """These calls as replayed from the recording."""


def recorded(directory, mode, entry, **preemption):
    """The scenario, decided, recorded and replayed."""
    replay = Replay(mode, entry)
    scheduler = scheduler_ignoring(ignored_resources(entry))
    rig = Rig(directory, replay.cache, scheduler=scheduler, preemption=preemption)
    rig.recorder.start()
    answers = []
    for call in replay.calls:
        if call.verb != "bind":
            replay.before(call)
            answers.append((call, rig.ask(call.verb, call.request)))
            replay.after(call)
    return Recorded(answers, rig.results())


@pytest.mark.parametrize(("mode", "entry"), SCENARIOS[:: by_profile(3, 1, 1)])
def test_recorded_traffic_replays_to_the_same_bytes(tmp_path, mode, entry):
    """And what was redacted once has nothing left to redact: a recording of the replay is the same recording."""
    first = recorded(tmp_path / "first", mode, entry)
    check_replayed(first)
    calls = [result.call for result in first.results]
    again = recorded_again(tmp_path / "second", mode, entry, calls)
    assert [(call.request, call.answer) for call in again] == [(call.request, call.answer) for call in calls]


@pytest.mark.parametrize(("mode", "entry"), WITH_PREEMPTION[:: by_profile(3, 1, 1)])
def test_recorded_traffic_replays_to_the_same_bytes_with_policies(tmp_path, mode, entry):
    """Where nothing was preempted no node failed, and no policy is asked: such a scenario would be replayed twice."""
    check_replayed(recorded(tmp_path, mode, entry, **POLICIES))


def check_replayed(found):
    assert [result.differences for result in found.results] == [()] * len(found.answers)
    for result, (call, answer) in zip(found.results, found.answers, strict=True):
        assert (result.call.verb, result.status) == (call.verb, answer.status)
        if call.body.get("Nodes") is None:
            assert result.answer == answer.body
        sent, kept = call.body, msgspec.json.decode(result.call.request)
        assert [(key, value is None) for key, value in kept.items()] == [(k, v is None) for k, v in sent.items()]
        read = decode_preempt if call.verb == "preempt" else decode_filter
        before, after = read(call.request), read(result.call.request)
        assert after.pod == msgspec.structs.replace(before.pod, metadata=after.pod.metadata)
        assert getattr(after, "nodes", None) == getattr(before, "nodes", None)
        assert getattr(after, "offers", None) == getattr(before, "offers", None)


def recorded_again(directory, mode, entry, calls):
    replay = Replay(mode, entry)
    rig = Rig(directory, replay.cache, scheduler=scheduler_ignoring(ignored_resources(entry)))
    rig.recorder.start()
    asked = [call for call in replay.calls if call.verb != "bind"]
    for call, before in zip(asked, calls, strict=True):
        replay.before(call)
        rig.ask(call.verb, before.request)
        replay.after(call)
    return [result.call for result in rig.results()]
