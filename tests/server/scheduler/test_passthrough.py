"""What is answered where nothing may be decided: the kill switch, and mode Observe."""

import json
import logging
from itertools import product

import pytest

from extender.cli.logs import JSONFormatter
from extender.cluster.cache.cache import ClusterCache
from extender.core import engine
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.server.app import create_app
from extender.server.scheduler.passthrough import (
    MAX_LISTED_NODES,
    filter_difference,
    preempt_difference,
    score_difference,
)
from extender.wire.decode import decode_filter, decode_preempt
from tests.cluster.watch.source_rig import serving
from tests.device_builders import undecided_claim
from tests.fakes.api_server import FakeAPI
from tests.fakes.source import Stale
from tests.server.conftest import (
    BODIES,
    CLUSTER,
    INCOMING,
    NODES,
    URGENT,
    client_for,
    configuration,
    filled_cache,
    filter_body,
    full_body,
    node,
    pod,
    preempt_body,
)

pytestmark = pytest.mark.anyio

VETO: dict[str, dict] = {"NodeNameToMetaVictims": {}}
OBSERVE = {"mode": "Observe"}
VERBS = [path[1:] for path in BODIES]


def killed(preempt="Veto", **more):
    return {"killSwitch": {"enabled": True, "preempt": preempt}, **more}


def served(cache=None, sections=None):
    return client_for(create_app(cache or filled_cache(), configuration(**(sections or {}))))


def offered(answer):
    return {name: [pod["UID"] for pod in one["Pods"]] for name, one in answer.json()["NodeNameToMetaVictims"].items()}


HANDS_OFF = {
    "kill switch, veto": killed("Veto"),
    "kill switch, pass through": killed("PassThrough"),
    "kill switch and Observe": killed("PassThrough", mode="Observe"),
    "Observe": OBSERVE,
    "Observe with Veto on failures": {**OBSERVE, "preemption": {"onFailure": "Veto"}},
}


@pytest.fixture(params=HANDS_OFF.values(), ids=list(HANDS_OFF))
def sections(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["a cache", "no cache"])
def cache(request):
    return filled_cache() if request.param else ClusterCache()


# --- answers --------------------------------------------------------------------------------------------------------


async def test_filter_accepts_every_name_in_its_order(cache, sections):
    nodes = ["worker-3", "worker-1", "worker-3", "not in the cache"]
    async with served(cache, sections) as client:
        response = await client.post("/filter", content=filter_body(nodes))
    assert response.status_code == 200
    assert response.json() == {
        "Nodes": None,
        "NodeNames": nodes,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


async def test_filter_gives_whole_nodes_back_byte_for_byte(cache, sections):
    items = b'[{"metadata" : {"name":"worker-3"},"x":1.50},  {"metadata":{"name":"worker-2","uid":"\\u00e9"}}]'
    one, other = items[1:-1].split(b",  ")
    body = json.dumps({"Pod": INCOMING, "NodeNames": None, "Nodes": {}}).encode()
    body = body.replace(b'"Nodes": {}', b'"Nodes": {"metadata": {"resourceVersion":"7"}, "items": ' + items + b"}")
    async with served(cache, sections) as client:
        response = await client.post("/filter", content=body)
    assert response.status_code == 200
    assert b'"Nodes":{"metadata":{"resourceVersion":"7"},"items":[' + one + b"," + other + b"]}" in response.content
    assert response.json()["NodeNames"] is None


@pytest.mark.parametrize("body", [filter_body(), full_body()], ids=["names", "whole nodes"])
async def test_prioritize_scores_nothing(cache, sections, body):
    async with served(cache, sections) as client:
        response = await client.post("/prioritize", content=body)
    assert (response.status_code, response.content) == (200, b"[]")


OFFERS = {"worker-9": ["unknown", "uid-small"], "worker-2": ["uid-large"], "worker-1": []}


async def test_preempt_answers_what_was_offered_or_a_veto(cache, sections):
    async with served(cache, sections) as client:
        response = await client.post("/preempt", content=preempt_body(**OFFERS))
    assert response.status_code == 200
    if sections == killed("Veto"):
        assert response.json() == VETO
    else:
        assert list(offered(response).items()) == list(OFFERS.items())


async def test_whole_victims_are_passed_through_by_uid_with_their_violations(cache, sections):
    pods = [{"metadata": {"uid": "b"}, "spec": {"x": 1}}, {"metadata": {"uid": "a"}}]
    whole = {"n": {"Pods": pods, "NumPDBViolations": 2}, "m": {"Pods": None, "NumPDBViolations": 0}}
    body = {"Pod": URGENT, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    async with served(cache, sections) as client:
        response = await client.post("/preempt", content=json.dumps(body))
    if sections != killed("Veto"):
        assert response.json()["NodeNameToMetaVictims"] == {
            "n": {"Pods": [{"UID": "b"}, {"UID": "a"}], "NumPDBViolations": 2},
            "m": {"Pods": [], "NumPDBViolations": 0},
        }


@pytest.mark.parametrize("path", BODIES)
async def test_a_wrong_request_is_still_refused(path, cache, sections):
    async with served(cache, sections) as client:
        response = await client.post(path, content=b"{")
        too_large = await client.post(path, content=BODIES[path], headers={"Content-Length": "999999999"})
    assert (response.status_code, too_large.status_code) == (400, 413)


def broken(*_args, **_kwargs):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("path", BODIES)
async def test_not_even_a_bug_of_the_engine_is_answered(path, sections, monkeypatch):
    for verb in ("filter", "prioritize", "preempt"):
        monkeypatch.setattr(engine, verb, broken)
    async with served(sections=sections) as client:
        assert (await client.post(path, content=BODIES[path])).status_code == 200


async def test_readyz_does_not_ask_for_a_picture_that_nobody_needs(cache, sections):
    async with client_for(create_app(cache, configuration(**sections), Stale())) as client:
        ready = await client.get("/readyz")
        verbose = await client.get("/readyz?verbose")
    assert (ready.status_code, verbose.status_code) == (200, 200)
    assert "[!] cluster: pods are stale" in verbose.text
    assert "[-]" not in verbose.text
    assert ("[!] kill switch: on: " in verbose.text) == ("killSwitch" in sections)
    assert ("[!] mode: Observe: " in verbose.text) == ("mode" in sections)


async def test_nothing_is_said_of_what_is_off(client):
    text = (await client.get("/readyz?verbose")).text
    assert "kill switch" not in text
    assert "mode" not in text
    assert "configuration" not in text


# --- the kill switch ------------------------------------------------------------------------------------------------


async def samples(client, name):
    text = (await client.get("/metrics")).text
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(name)]
    return {labels.removeprefix(name): float(value) for labels, _, value in lines}


@pytest.mark.parametrize(("sections", "value"), [(killed(), 1), (killed("PassThrough"), 1), (OBSERVE, 0), ({}, 0)])
async def test_the_kill_switch_is_a_gauge(sections, value):
    async with served(sections=sections) as client:
        assert await samples(client, "extender_kill_switch") == {"": value}


@pytest.mark.parametrize("path", BODIES)
async def test_with_the_kill_switch_nothing_is_decided_counted_or_logged(path, monkeypatch, caplog):
    for verb in ("filter", "prioritize", "preempt"):
        monkeypatch.setattr(engine, verb, lambda *_: pytest.fail("asked"))
    async with served(sections=killed("PassThrough", mode="Observe")) as client:
        with caplog.at_level(logging.INFO, logger="extender"):
            response = await client.post(path, content=BODIES[path])
        assert not any((await samples(client, "extender_observed_answers_total")).values())
    assert "X-Extender-Cache" not in response.headers
    assert "X-Extender-Not-Evaluated" not in response.headers
    assert not caplog.records


async def test_bind_goes_on_whatever_the_switch_says():
    with FakeAPI() as api:
        for one in (*CLUSTER["items"], URGENT):
            api.put(one["kind"], one)
        sections = {**killed(), "cluster": {"source": "kubernetes"}, "bind": {"enabled": True}}
        async with serving(api.url, sections) as (client, live):
            await live.read()
            body = {"PodName": "urgent", "PodNamespace": "shop", "PodUID": "uid-urgent", "Node": "worker-1"}
            assert (await client.post("/bind", content=json.dumps(body))).json() == {"Error": ""}


# --- Observe --------------------------------------------------------------------------------------------------------

FITTING = ["worker-1"]
ALIKE = {"kind": "List", "items": [node("worker-1"), node("worker-2")]}

OBSERVED = {
    "1 filter rejects no node": ("/filter", filter_body(FITTING), CLUSTER, "same"),
    "2 filter rejects a node": ("/filter", filter_body(), CLUSTER, "differs"),
    "3 filter is asked about nothing": ("/filter", filter_body([]), CLUSTER, "same"),
    "4 filter does not know a node": ("/filter", filter_body(["x"]), CLUSTER, "failed"),
    "5 prioritize finds all alike": ("/prioritize", filter_body(["worker-1", "worker-2"]), ALIKE, "same"),
    "6 prioritize prefers a node": ("/prioritize", filter_body(), CLUSTER, "differs"),
    "7 prioritize is asked about nothing": ("/prioritize", filter_body([]), CLUSTER, "same"),
    "8 prioritize does not know a node": ("/prioritize", filter_body(["x"]), CLUSTER, "failed"),
    "9 preempt agrees": ("/preempt", preempt_body(), CLUSTER, "same"),
    "10 preempt spares a victim": (
        "/preempt",
        preempt_body(INCOMING, **{"worker-2": ["uid-large", "uid-tiny"]}),
        {"kind": "List", "items": [*CLUSTER["items"], pod("tiny", on="worker-2", cpu="1", priority=5)]},
        "differs",
    ),
    "11 preempt vetoes": ("/preempt", preempt_body(**{"worker-1": ["uid-gone"]}), CLUSTER, "differs"),
    "12 preempt has no cache": ("/preempt", preempt_body(), None, "failed"),
}


@pytest.mark.parametrize(("path", "body", "cluster", "outcome"), OBSERVED.values(), ids=OBSERVED)
async def test_what_would_have_been_answered_is_counted_and_logged(path, body, cluster, outcome, caplog):
    verb = path[1:]
    async with served(filled_cache(cluster) if cluster else ClusterCache(), OBSERVE) as client:
        with caplog.at_level(logging.INFO, logger="extender.server.scheduler.verbs"):
            response = await client.post(path, content=body)
        counted = await samples(client, "extender_observed_answers_total")
    assert response.status_code == 200
    expected = {f'{{outcome="{o}",verb="{v}"}}': 0.0 for o, v in product(("same", "differs", "failed"), VERBS)}
    assert counted == expected | {f'{{outcome="{outcome}",verb="{verb}"}}': 1.0}
    said = [record for record in caplog.records if record.getMessage().startswith(f"observe {verb} 'shop/")]
    assert [record.levelname for record in said] == ["INFO"] * (outcome == "differs")
    failed = [record for record in caplog.records if record.getMessage().startswith(f"{verb} failed")]
    assert [record.levelname for record in failed] == ["WARNING"] * (outcome == "failed")
    assert ("X-Extender-Cache" in response.headers) == (outcome != "failed")


async def test_what_an_answer_would_have_been_is_said(caplog):
    async with served(sections=OBSERVE) as client:
        with caplog.at_level(logging.INFO, logger="extender.server.scheduler.verbs"):
            await client.post("/filter", content=filter_body())
            await client.post("/prioritize", content=filter_body())
            await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-gone"]}))
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("observe")]
    assert said == [
        "observe filter 'shop/incoming': the answer would have been: 2 of 3 nodes rejected: 'worker-2', 'worker-3'",
        "observe prioritize 'shop/incoming': the answer would have been: scores from 0 to 8, the best on 'worker-1'",
        "observe preempt 'shop/urgent': the answer would have been: a veto",
    ]


async def test_the_guard_s_rejections_and_what_is_not_evaluated_are_counted_as_always():
    claim = {"name": "gpu", "resourceClaimName": "gpu"}
    claiming = {**URGENT, "spec": {**URGENT["spec"], "resourceClaims": [claim]}}
    claimed = filled_cache({"kind": "List", "items": [*CLUSTER["items"], *undecided_claim("gpu", "shop")]})
    async with served(claimed, OBSERVE) as client:
        response = await client.post("/preempt", content=preempt_body(claiming))
        counted = await samples(client, "extender_not_evaluated_total")
    assert response.headers["X-Extender-Not-Evaluated"] == "DynamicResources"
    assert counted['{plugin="DynamicResources"}'] == 1


@pytest.mark.parametrize(("mode", "assumed"), [("Enforce", 2), ("Observe", 0)])
async def test_nothing_is_assumed_of_what_was_not_answered(mode, assumed):
    with FakeAPI() as api:
        for one in (*CLUSTER["items"], URGENT):
            api.put(one["kind"], one)
        async with serving(api.url, {"mode": mode}) as (client, live):
            await live.read()
            answer = await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))
            assert offered(answer) == {"worker-1": ["uid-small"]}
            assert len(live.cache.assumed) == assumed


# --- differences ----------------------------------------------------------------------------------------------------


def of_preempt(sent, *kept):
    """`kept`: (node, names of victims)."""
    snapshot = filled_cache().snapshot()
    pods = {one.metadata.name: one for name in NODES for one in snapshot.pods_on(name)}
    candidates = tuple(engine.Candidate(node, tuple(pods[name] for name in names), 0) for node, names in kept)
    request = decode_preempt(preempt_body(**sent) if sent else empty_offers())
    return preempt_difference(request, PreemptDecision(candidates, {}, (), frozenset()))


def empty_offers():
    return json.dumps({"Pod": URGENT, "NodeNameToVictims": None, "NodeNameToMetaVictims": {}}).encode()


def test_a_preemption_differs_where_kube_scheduler_could_not_have_done_it():
    sent = {"worker-1": ["uid-small"], "worker-2": ["uid-large"]}
    assert of_preempt(sent, ("worker-1", ["small"])) is None
    assert of_preempt(sent, ("worker-2", ["large"]), ("worker-3", [])) is None
    assert of_preempt({"worker-1": ["uid-large", "uid-small"]}, ("worker-1", ["small", "large"])) is None
    assert of_preempt(sent) == "a veto"
    assert of_preempt({}) is None
    assert of_preempt(sent, ("worker-3", ["small"])) == "on node 'worker-3' the victims ['shop/small']"
    assert of_preempt(sent, ("worker-1", ["large"])) == "on node 'worker-1' the victims ['shop/large']"
    assert of_preempt(sent, ("worker-1", [])) == "on node 'worker-1' the victims []"


def test_a_node_offered_twice_and_rejected_is_named_as_offered():
    request = decode_filter(filter_body(["a", "b", "a"]))
    assert filter_difference(request, FilterDecision((0, 2), {"b": ""}, {}, ())) == "1 of 3 nodes rejected: 'b'"
    assert filter_difference(request, FilterDecision((0, 1, 2), {}, {}, ())) is None


def test_a_line_of_the_log_names_few_nodes_and_no_name_forges_one():
    names = ["a\nERROR forged", *(f"n{number}" for number in range(5000))]
    request = decode_filter(filter_body(names))
    rejected = filter_difference(request, FilterDecision((), dict.fromkeys(names, ""), {}, ())) or ""
    assert rejected.isprintable()
    assert rejected.endswith(f"'n{MAX_LISTED_NODES - 2}' and {5001 - MAX_LISTED_NODES} more")
    scored = score_difference(request, PrioritizeDecision((0, *([10] * 5000)), ())) or ""
    assert scored.startswith("scores from 0 to 10, the best on 'n0', ")
    assert scored.endswith(" more")


@pytest.mark.parametrize(
    ("verb", "line", "answered"),
    [
        ("filter", "filter 'shop/incoming': 1 of 3 nodes", "every node accepted"),
        ("prioritize", "prioritize 'shop/incoming': 3 nodes", "no scores"),
        ("preempt", "preempt 'shop/urgent': {", "kube-scheduler's own candidates"),
    ],
)
@pytest.mark.parametrize("sections", [OBSERVE, {}], ids=["Observe", "Enforce"])
async def test_the_log_line_of_a_decision_says_whether_it_was_enforced(verb, line, answered, sections, caplog):
    async with served(sections=sections) as client:
        with caplog.at_level(logging.DEBUG, logger="extender.server.scheduler.journal"):
            await client.post(f"/{verb}", content=BODIES[f"/{verb}"])
    (record,) = (one for one in caplog.records if one.name == "extender.server.scheduler.journal")
    assert record.getMessage().startswith(line)
    assert (f"; not enforced (mode Observe), answered: {answered}" in record.getMessage()) == (sections is OBSERVE)
    fields = json.loads(JSONFormatter().format(record))
    expected = ("observed", "asSent") if sections else ("answered", "decided")
    assert (fields["verb"], fields["mode"], fields["answer"]) == (verb, *expected)
