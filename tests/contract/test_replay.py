"""Every call of a real kube-scheduler, recorded by the service and replayed: the same bytes, in both cache modes."""

import msgspec
import pytest

from extender.wire import decode_filter, decode_preempt
from tests.contract.test_recordings import SCENARIOS, Replay, ignored_resources, scheduler_ignoring
from tests.server.recording.rig import Rig

POLICIES = {"preset": "strict", "ranking": ["VictimCount", "Workloads"]}


def recorded(directory, mode, entry, **preemption):
    """The scenario, decided and recorded -> the calls, and what they were answered."""
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
    return rig, answers


@pytest.mark.parametrize("preemption", [{}, POLICIES], ids=["upstream", "policies"])
@pytest.mark.parametrize(("mode", "entry"), SCENARIOS)
def test_recorded_traffic_replays_to_the_same_bytes(tmp_path, mode, entry, preemption):
    rig, answers = recorded(tmp_path, mode, entry, **preemption)
    results = rig.results()
    assert [result.differences for result in results] == [()] * len(answers)
    for result, (call, answer) in zip(results, answers, strict=True):
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


@pytest.mark.parametrize(("mode", "entry"), SCENARIOS)
def test_a_recording_of_a_replay_is_the_same_recording(tmp_path, mode, entry):
    """What was redacted once has nothing left to redact."""
    rig, _ = recorded(tmp_path / "first", mode, entry)
    first = [result.call for result in rig.results()]
    again = recorded_again(tmp_path / "second", mode, entry, first)
    assert [(call.request, call.answer) for call in again] == [(call.request, call.answer) for call in first]


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
