"""Reading recordings: incomplete, broken or missing files; differences of answers; the replayed server state."""

import gzip
import json

import msgspec
import pytest

import extender
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.errors import RecordingError
from extender.server.recording.answer_diff import Difference, RawAnswer, compare_answers
from extender.server.replay import open_recording
from extender.server.settings import Loaded
from tests.builders import incoming
from tests.device_builders import claim, request, using_claims
from tests.server.conftest import INCOMING, URGENT, configuration, filter_body, full_body, node, pod, preempt_body
from tests.server.recording.rig import Rig, applied


@pytest.fixture
def rig(tmp_path):
    """Three calls, a pod that comes between the first two, and other settings before the last."""
    rig = Rig(tmp_path / "recording")
    rig.recorder.start()
    rig.ask("filter", filter_body())
    applied(rig.cache, pod("more", on="worker-1", cpu="2"))
    rig.ask("filter", filter_body())
    rig.server_context.live_settings.active = Loaded.from_config(
        configuration(preemption={"keepCandidates": "All"})
    ).settings()
    rig.ask("preempt", preempt_body())
    rig.recorder.stop()
    return rig


def calls_file(rig, segment=0):
    return rig.segments()[segment] / "calls.jsonl"


# --- reading ----------------------------------------------------------------------------------------------------------


def test_calls_come_in_order_with_their_facts(rig):
    first, _, last = open_recording(rig.directory).calls()
    assert (first.id, first.verb, first.status, first.pod) == ("filter-1", "filter", 200, "shop/incoming")
    assert (last.id, last.verb, last.pod) == ("preempt-1", "preempt", "shop/urgent")
    assert json.loads(first.answer)["NodeNames"] == ["worker-1"]
    assert first.time < last.time
    assert [first.segment, last.segment] == [segment.name for segment in rig.segments()]


def test_the_pod_is_found_whatever_its_key_is_spelled_like(tmp_path):
    rig = Rig(tmp_path)
    rig.recorder.start()
    rig.ask("filter", {"nodenames": ["worker-1"], "POD": INCOMING})
    assert [result.call.pod for result in rig.results()] == ["shop/incoming"]


def test_one_segment_is_a_recording_too(rig):
    ids = [[call.id for call in open_recording(segment).calls()] for segment in rig.segments()]
    assert ids == [["filter-1", "filter-2"], ["preempt-1"]]


def test_each_call_has_the_server_state_before_it(rig):
    pods = []
    for replayed in open_recording(rig.directory):
        pods.append(len(replayed.server_context.cache.snapshot().pod_table.row_of))
        assert replayed.answer() == (200, replayed.call.answer)
        assert replayed.answer() == (200, replayed.call.answer)  # nothing follows from an answer
    assert pods == [2, 3, 3]


def test_changes_before_a_skipped_call_are_applied(rig):
    (result,) = open_recording(rig.directory).results(lambda call: call.id == "filter-2")
    assert result.differences == ()
    assert json.loads(result.answer)["NodeNames"] == []


def test_a_call_is_valid_until_the_iterator_advances(rig):
    calls = iter(open_recording(rig.directory))
    first = next(calls)
    next(calls)
    with pytest.raises(RuntimeError, match="advanced"):
        first.answer()


def test_progress_goes_up_to_the_end(rig):
    progress = [replayed.progress for replayed in open_recording(rig.directory)]
    assert progress == sorted(progress)
    assert 0 < progress[0] < progress[-1] == 1.0


def test_other_settings_show_what_they_would_change(rig):
    off = Loaded.from_config(configuration(killSwitch={"enabled": True})).settings()
    first, _, last = map(str, open_recording(rig.directory).results(under=lambda _: off))
    assert first.split("; ") == [
        "filter-1 shop/incoming: node worker-2: rejected: Insufficient cpu -> accepted",
        "node worker-3: rejected as unresolvable: node(s) were unschedulable -> accepted",
    ]
    assert last.split("; ") == [
        "preempt-1 shop/urgent: node worker-2: evicts shop/large -> not in the answer",
        "node worker-1: evicts shop/small, shop/more -> not in the answer",
    ]


def test_profiles_with_plugins_that_are_not_in_tree_are_replayed(tmp_path):
    plugins = {"filter": {"enabled": [{"name": "Trimaran"}]}}
    rig = Rig(tmp_path, scheduler={"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]})
    rig.recorder.start()
    rig.ask("filter", filter_body())
    rig.ask("preempt", preempt_body())
    assert [(result.status, result.differences) for result in rig.results()] == [(200, ()), (200, ())]


def test_an_incomplete_last_line_is_skipped_with_a_warning(rig):
    path = calls_file(rig)
    path.write_bytes(path.read_bytes()[:-20])
    recording = open_recording(rig.directory)
    assert [result.call.id for result in recording.results()] == ["filter-1", "preempt-1"]
    assert len(list(recording.calls())) == 2
    assert recording.notes == [f"{path.parent.name}/calls.jsonl: line 3 is incomplete, skipping it"]


def test_a_broken_line_is_an_error_that_names_it(rig):
    path = calls_file(rig)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"type":"put"}\n' + lines[2])
    with pytest.raises(RecordingError, match=r"Z/calls\.jsonl: line 2: Object missing required field `kind`"):
        list(open_recording(rig.directory).results())


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"delete","kind":"Pod","namespace":"shop","name":"missing"}\n',
        b'{"type":"put","kind":"Cat","object":{}}\n',
        b'{"type":"put","kind":"Pod","object":{"metadata":7}}\n',
    ],
)
def test_a_contradictory_change_is_an_error_that_names_its_line(rig, line):
    path = calls_file(rig)
    path.write_bytes(line + path.read_bytes())
    with pytest.raises(RecordingError, match="line 1 contradicts"):
        list(open_recording(rig.directory).results())


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        pytest.param("settings.json", b"{}", "Object missing required field", id="no settings"),
        pytest.param(
            "settings.json",
            b'{"format":"extender/recording/v1"}',
            "its format is .extender/recording/v1.: this version reads .extender/recording/v3. only",
            id="another format",
        ),
        pytest.param("cluster.json.gz", b"no gzip", "Not a gzipped file", id="no gzip"),
        pytest.param(
            "cluster.json.gz",
            gzip.compress(b'{"items":[{"kind":"Cat","apiVersion":"v1"}]}'),
            "unknown kind 'Cat'",
            id="another kind of object",
        ),
        pytest.param(
            "cluster.json.gz", gzip.compress(b'{"items":[]}')[:-9], "the gzip file is truncated", id="half a cluster"
        ),
        pytest.param("calls.jsonl", None, "No such file", id="no calls"),
    ],
)
def test_H7_an_unreadable_file_is_named(rig, name, data, error):
    path = rig.segments()[0] / name
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(RecordingError, match=rf"Z/{name}: .*{error}"):
        list(open_recording(rig.directory).results())


def test_an_inconsistent_cluster_is_an_error(rig):
    twice = {"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": "n"}}
    items = [twice | {"metadata": {"name": name, "uid": "u"}} for name in ("a", "b")]
    node_item = node("n") | {"apiVersion": "v1"}
    (rig.segments()[0] / "cluster.json.gz").write_bytes(
        gzip.compress(json.dumps({"items": [node_item, *items]}).encode())
    )
    with pytest.raises(RecordingError, match="inconsistent cluster"):
        list(open_recording(rig.directory).results())


@pytest.mark.parametrize(
    "make",
    [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_text("")],
    ids=["nothing", "an empty directory", "a file"],
)
def test_a_path_without_segments_is_an_error(tmp_path, make):
    make(tmp_path / "recording")
    with pytest.raises(RecordingError, match="recording"):
        open_recording(tmp_path / "recording")


# --- the public API ---------------------------------------------------------------------------------------------------


def test_the_public_api_replays_a_recording(rig):
    assert [result.differences for result in extender.replay(rig.directory)] == [(), (), ()]
    assert [result.differences for result in extender.replay(str(rig.directory))] == [(), (), ()]


def test_the_public_api_replays_by_another_configuration(rig, tmp_path):
    (tmp_path / "extender.yaml").write_text("killSwitch: {enabled: true}")
    results = list(extender.replay(rig.directory, config=tmp_path / "extender.yaml"))
    assert all(result.differences for result in results)


# --- differences ------------------------------------------------------------------------------------------------------


def filtered(names=(), failed=None, unresolvable=None, nodes=None, error=""):
    return {
        "Nodes": None if nodes is None else {"metadata": {}, "items": [{"metadata": {"name": name}} for name in nodes]},
        "NodeNames": None if nodes is not None else list(names),
        "FailedNodes": failed or {},
        "FailedAndUnresolvableNodes": unresolvable or {},
        "Error": error,
    }


def preempted(broken=0, **uids):
    victims = {n: {"Pods": [{"UID": u} for u in us], "NumPDBViolations": broken} for n, us in uids.items()}
    return {"NodeNameToMetaVictims": victims}


SCORES = [{"Host": "a", "Score": 3}, {"Host": "b", "Score": 5}]


@pytest.mark.parametrize(
    ("verb", "recorded", "now", "found"),
    [
        pytest.param("filter", filtered("ab"), filtered("ab"), [], id="the same"),
        pytest.param(
            "filter",
            filtered("a", {"b": "too few pods"}),
            filtered("b", {}, {"a": "taint"}),
            [
                ("node a", "accepted", "rejected as unresolvable: taint"),
                ("node b", "rejected: too few pods", "accepted"),
            ],
            id="nodes change sides",
        ),
        pytest.param(
            "filter",
            filtered(nodes="ab"),
            filtered(nodes="b"),
            [("node a", "accepted", None)],
            id="a whole node is missing",
        ),
        pytest.param(
            "filter", filtered("ab"), filtered("ba"), [("order", "node a, node b", "node b, node a")], id="order"
        ),
        pytest.param("prioritize", SCORES, SCORES[1:], [("node a", "score 3", None)], id="no score any more"),
        pytest.param(
            "prioritize",
            SCORES[:1],
            [{"Host": "a", "Score": 4}],
            [("node a", "score 3", "score 4")],
            id="another score",
        ),
        pytest.param(
            "preempt",
            preempted(n=["u1", "u2"]),
            preempted(1, n=["u1"], m=[]),
            [
                ("node n", "evicts pod-u1, pod-u2", "evicts pod-u1, 1 PDB violation"),
                ("node m", None, "evicts no pods, 1 PDB violation"),
            ],
            id="other victims",
        ),
        pytest.param(
            "preempt",
            preempted(2, n=[f"u{number}" for number in range(12)]),
            preempted(),
            [("node n", f"evicts {', '.join(f'pod-u{n}' for n in range(10))} and 2 more, 2 PDB violations", None)],
            id="many victims",
        ),
        pytest.param(
            "preempt", [], {"x": 1}, [("answer", "200 []", '200 {"x":1}')], id="a malformed answer is shown as it is"
        ),
        pytest.param(
            "filter",
            filtered("a"),
            filtered(error="no"),
            [
                (
                    "answer",
                    '200 {"Nodes":null,"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}',
                    '200 {"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"no"}',
                )
            ],
            id="an error",
        ),
    ],
)
def test_differences_are_named_node_by_node(verb, recorded, now, found):
    a, b = (RawAnswer(200, json.dumps(one, separators=(",", ":")).encode()) for one in (recorded, now))
    assert list(compare_answers(verb, a, b, lambda uid: f"pod-{uid}")) == found


def test_another_status_is_a_difference():
    found = compare_answers("filter", RawAnswer(200, b"[]"), RawAnswer(503, b'{"Error":"no"}'))
    assert found == (Difference("answer", "200 []", '503 {"Error":"no"}'),)


def test_the_same_json_in_other_bytes_differs_only_where_bytes_count():
    a, b = RawAnswer(200, b'[{"Host":"a","Score":1}]'), RawAnswer(200, b'[{"Host": "a", "Score": 1}]')
    (found,) = compare_answers("prioritize", a, b)
    assert found == ("bytes", 'at 9: [{"Host":"a","Score":1}]', 'at 9: [{"Host": "a", "Score": 1}]')
    assert compare_answers("prioritize", a, b, exact=False) == ()
    assert compare_answers("prioritize", a, RawAnswer(200, b"no JSON"), exact=False) != ()


def test_victims_are_named_by_pod(tmp_path):
    rig = Rig(tmp_path)
    rig.recorder.start()
    rig.ask("preempt", preempt_body(URGENT, **{"worker-1": ["uid-small"]}))
    rig.ask("filter", full_body())
    rig.recorder.stop()
    replayed = next(iter(open_recording(tmp_path)))
    result = replayed.result(RawAnswer(200, b'{"NodeNameToMetaVictims":{}}'))
    assert str(result) == "preempt-1 shop/urgent: node worker-1: evicts shop/small -> not in the answer"


def test_claims_and_devices_that_change_between_calls_are_replayed(tmp_path):
    """Another claim takes the last device that is large enough; later its node has none at all."""
    cache = ClusterCache()
    cache.replace(example_cluster())
    rig = Rig(tmp_path, cache)
    rig.recorder.start()
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    waiting = incoming("new", "100m", namespace="ml", tolerations=tolerations, **using_claims("large-accelerator"))
    body = {"Pod": waiting, "NodeNames": ["gpu-a1", "gpu-b1"]}
    device = {"request": "r", "driver": "accelerator.example.com", "pool": "gpu-a1", "device": "accelerator-1"}
    other = claim("other", request("accelerator"), allocated=[device], namespace="ml")
    answers = [rig.ask("filter", body)]
    applied(cache, other)
    answers.append(rig.ask("filter", body))
    applied(cache, other, deleted=True)
    answers.append(rig.ask("filter", body))
    published = cache.mutable_snapshot().objects.resource_slices["", "gpu-a1-accelerators"]
    cache.apply(Change("ResourceSlice", published, deleted=True))
    answers.append(rig.ask("filter", body))
    assert [msgspec.json.decode(one.body)["NodeNames"] for one in answers] == [["gpu-a1"], [], ["gpu-a1"], []]
    rig.replays(*["filter"] * 4)
