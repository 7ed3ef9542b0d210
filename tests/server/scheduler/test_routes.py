"""The endpoints: what they answer, what they refuse, and what they answer when something is wrong on our side."""

import json
import logging

import anyio
import pytest
from pydantic import ValidationError

from extender.cluster.cache.cache import ClusterCache
from extender.core import engine
from extender.core.engine import Candidate
from extender.server.app import create_app
from extender.server.observability.cache_status import NoSource
from tests.server.conftest import (
    BODIES,
    NODES,
    URGENT,
    client_for,
    configuration,
    error_of,
    filled_cache,
    filter_body,
    full_body,
    preempt_body,
)

pytestmark = pytest.mark.anyio
VETO: dict[str, dict] = {"NodeNameToMetaVictims": {}}


def served(cache=None, **sections):
    return client_for(create_app(cache or filled_cache(), configuration(**sections)))


# --- answers --------------------------------------------------------------------------------------------------------


async def test_filter_by_names(client):
    response = await client.post("/filter", content=filter_body())
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert answer["NodeNames"] == ["worker-1"]
    assert answer["FailedNodes"] == {"worker-2": "Insufficient cpu"}
    assert list(answer["FailedAndUnresolvableNodes"]) == ["worker-3"]
    assert answer["Nodes"] is None
    assert answer["Error"] == ""


async def test_filter_by_whole_nodes_returns_them(client):
    answer = (await client.post("/filter", content=full_body())).json()
    assert answer["Nodes"] == {"metadata": {}, "items": [{"metadata": {"name": "worker-1"}}]}
    assert answer["NodeNames"] is None


async def test_prioritize_scores_every_offered_node(client):
    answer = (await client.post("/prioritize", content=filter_body())).json()
    assert [score["Host"] for score in answer] == list(NODES)
    assert all(type(score["Score"]) is int and 0 <= score["Score"] <= 10 for score in answer)
    assert answer[0]["Score"] > answer[1]["Score"] > answer[2]["Score"] == 0


async def test_preempt_answers_the_best_node(client):
    response = await client.post("/preempt", content=preempt_body())
    victims = {"Pods": [{"UID": "uid-small"}], "NumPDBViolations": 0}
    assert response.json() == {"NodeNameToMetaVictims": {"worker-1": victims}}


async def test_preempt_for_whole_victims_answers_uids(client):
    whole = {"worker-2": {"Pods": [{"metadata": {"uid": "uid-large"}}], "NumPDBViolations": 0}}
    body = {"Pod": URGENT, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    answer = (await client.post("/preempt", content=json.dumps(body))).json()
    victims = {"Pods": [{"UID": "uid-large"}], "NumPDBViolations": 0}
    assert answer == {"NodeNameToMetaVictims": {"worker-2": victims}}


async def test_preempt_of_a_pod_that_never_preempts_is_a_veto(client):
    never = {**URGENT, "spec": {**URGENT["spec"], "preemptionPolicy": "Never"}}
    assert (await client.post("/preempt", content=preempt_body(never))).json() == VETO


async def test_a_node_with_an_unknown_victim_is_left_out(client):
    body = preempt_body(**{"worker-1": ["uid-gone"], "worker-2": ["uid-large"]})
    answer = (await client.post("/preempt", content=body)).json()
    assert list(answer["NodeNameToMetaVictims"]) == ["worker-2"]


@pytest.mark.parametrize("path", BODIES)
async def test_the_same_request_gets_the_same_bytes(client, path):
    answers = {(await client.post(path, content=BODIES[path])).content for _ in range(50)}
    assert len(answers) == 1


# --- paths, methods, headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/filter/", "/Filter", "/filter/x", "//filter", "/docs", "/openapi.json", "/é"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unknown_paths_are_404(client, method, path):
    response = await client.request(method, "http://extender" + path)
    assert response.status_code == 404
    assert "POST /filter" in error_of(response)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", BODIES)
async def test_other_methods_are_405_and_told_the_right_one(client, method, path):
    response = await client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    error_of(response)


async def test_health_checks_are_not_posted_to(client):
    response = await client.post("/livez")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


async def test_bind_is_not_there_and_says_so(client):
    response = await client.post("/bind", content=b'{"PodName":"p","PodNamespace":"s","PodUID":"u","Node":"n"}')
    assert response.status_code == 404
    assert "bindVerb" in error_of(response)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x"])
async def test_compressed_bodies_are_415(client, path, encoding):
    response = await client.post(path, content=BODIES[path], headers={"Content-Encoding": encoding})
    assert response.status_code == 415
    assert "Content-Encoding" in error_of(response)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/json", 200),
        ("application/vnd.kubernetes+json", 200),
        ("", 200),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("application/vnd.kubernetes.protobuf", 415),
        ("json", 415),
    ],
)
@pytest.mark.parametrize("path", BODIES)
async def test_content_types(client, path, content_type, status):
    response = await client.post(path, content=BODIES[path], headers={"Content-Type": content_type})
    assert response.status_code == status
    if status == 415:
        assert "-H 'Content-Type: application/json'" in error_of(response)


async def test_a_missing_content_type_is_fine(client):
    request = client.build_request("POST", "/filter", content=filter_body())
    del request.headers["content-type"]
    assert (await client.send(request)).status_code == 200


# --- size -----------------------------------------------------------------------------------------------------------


class CountingBody:
    """A body without Content-Length that knows how much of it was taken."""

    def __init__(self, chunks, chunk=b" " * 1024):
        self.chunks, self.chunk, self.taken = chunks, chunk, 0

    async def __aiter__(self):
        for _ in range(self.chunks):
            self.taken += 1
            yield self.chunk


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_over_the_cap_is_refused_while_it_streams(path):
    body = CountingBody(chunks=1000)
    async with served(server={"maxBodyBytes": "16Ki"}) as client:
        response = await client.post(path, content=body)
    assert response.status_code == 413
    assert "16384 bytes" in error_of(response)
    assert response.headers["connection"] == "close"


async def test_no_more_than_the_cap_is_taken():
    """ASGITransport takes the whole body by itself; so ask the application directly."""
    app = create_app(filled_cache(), configuration(server={"maxBodyBytes": "16Ki"}))
    taken, sent = 0, []

    async def receive():
        nonlocal taken
        taken += 1024
        return {"type": "http.request", "body": b" " * 1024, "more_body": True}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/filter", "headers": [], "query_string": b"", "app": app}
    await app(scope, receive, send)
    assert sent[0]["status"] == 413
    assert taken <= 18 * 1024


async def test_a_length_over_the_cap_is_refused_before_anything_is_read():
    app = create_app(filled_cache(), configuration(server={"maxBodyBytes": "16Ki"}))
    sent = []

    async def receive():
        pytest.fail("the body was read")

    async def send(message):
        sent.append(message)

    headers = [(b"content-length", b"16385")]
    scope = {"type": "http", "method": "POST", "path": "/filter", "headers": headers, "query_string": b"", "app": app}
    await app(scope, receive, send)
    assert sent[0]["status"] == 413


@pytest.mark.parametrize(
    ("path", "padding", "status"),
    [("/filter", 0, 200), ("/filter", 4096, 413), ("/prioritize", 0, 200), ("/prioritize", 4096, 413)],
)
async def test_names_have_a_cap_of_their_own(path, padding, status):
    async with served(server={"maxNodeNamesBodyBytes": "4Ki"}) as client:
        response = await client.post(path, content=BODIES[path] + b" " * padding)
    assert response.status_code == status


async def test_victims_may_be_larger_than_names():
    async with served(server={"maxNodeNamesBodyBytes": "4Ki"}) as client:
        response = await client.post("/preempt", content=preempt_body() + b" " * 4096)
    assert response.status_code == 200


async def test_whole_nodes_may_be_larger_than_names():
    async with served(server={"maxNodeNamesBodyBytes": "4Ki"}) as client:
        response = await client.post("/filter", content=full_body() + b" " * 4096)
    assert response.status_code == 200


async def test_a_body_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr("extender.server.http.body.READ_TIMEOUT_SECONDS", 0.01)
    app = create_app(filled_cache(), configuration())
    sent = []

    async def receive():
        await anyio.sleep_forever()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/filter", "headers": [], "query_string": b"", "app": app}
    await app(scope, receive, send)
    assert sent[0]["status"] == 408


# --- the failure rule -----------------------------------------------------------------------------------------------


def broken(*_args, **_kwargs):
    raise RuntimeError("secret detail\x1b[31m")


@pytest.mark.parametrize("fault", ["no cache", "bug"])
@pytest.mark.parametrize(
    ("path", "on_failure", "status", "answer"),
    [
        ("/filter", "Error", 503, None),
        ("/filter", "Veto", 503, None),
        ("/prioritize", "Error", 200, []),
        ("/prioritize", "Veto", 200, []),
        ("/preempt", "Error", 503, None),
        ("/preempt", "Veto", 200, VETO),
    ],
)
async def test_the_failure_rule(path, on_failure, status, answer, fault, monkeypatch, caplog):
    if fault == "bug":
        for verb in ("filter", "prioritize", "preempt"):
            monkeypatch.setattr(engine, verb, broken)
    cache = ClusterCache() if fault == "no cache" else filled_cache()
    with caplog.at_level(logging.WARNING):
        async with served(cache, preemption={"onFailure": on_failure}) as client:
            response = await client.post(path, content=BODIES[path])
    assert response.status_code == status
    if answer is None:
        assert "secret" not in error_of(response)
    else:
        assert response.json() == answer
    assert len(caplog.records) == 1


@pytest.mark.parametrize("on_failure", ["Error", "Veto"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_bad_request_is_the_senders_whatever_the_failure_rule(path, on_failure, caplog):
    async with served(ClusterCache(), preemption={"onFailure": on_failure}) as client:
        response = await client.post(path, content=b"{")
    assert response.status_code == 400
    assert not caplog.records


async def test_an_unknown_node_makes_filter_unavailable(client):
    response = await client.post("/filter", content=filter_body(["worker-1", "worker-9"]))
    assert response.status_code == 503
    error_of(response)


async def test_an_unknown_node_makes_prioritize_silent(client):
    response = await client.post("/prioritize", content=filter_body(["worker-1", "worker-9"]))
    assert (response.status_code, response.json()) == (200, [])


def planting(*candidates):
    return lambda *_: engine.PreemptDecision(candidates, {}, (), frozenset())


@pytest.mark.parametrize(("on_failure", "status"), [("Error", 503), ("Veto", 200)])
async def test_the_guard_stands_behind_the_engine(monkeypatch, caplog, on_failure, status):
    cache = filled_cache()
    (large,) = cache.snapshot().pods_on("worker-2")
    monkeypatch.setattr(engine, "preempt", planting(Candidate("worker-1", (large,), 0)))
    async with served(cache, preemption={"onFailure": on_failure}) as client:
        response = await client.post("/preempt", content=preempt_body())
        verbose = await client.get("/readyz?verbose")
    assert response.status_code == status
    if status == 200:
        assert response.json() == VETO
    assert any("VictimUnknown" in record.message and record.levelname == "ERROR" for record in caplog.records)
    assert "VictimUnknown" in verbose.text


async def test_a_rejected_candidate_does_not_spoil_the_others(monkeypatch):
    cache = filled_cache()
    (large,) = cache.snapshot().pods_on("worker-2")
    planted = planting(Candidate("worker-1", (large,), 0), Candidate("worker-2", (large,), 0))
    monkeypatch.setattr(engine, "preempt", planted)
    async with served(cache) as client:
        answer = (await client.post("/preempt", content=preempt_body())).json()
    assert list(answer["NodeNameToMetaVictims"]) == ["worker-2"]


async def test_a_filter_answer_that_loses_a_node_is_none(monkeypatch):
    monkeypatch.setattr(engine, "filter", lambda *_: engine.FilterDecision((0,), {}, {}, ()))
    async with served() as client:
        response = await client.post("/filter", content=filter_body())
    assert response.status_code == 503


# --- health ---------------------------------------------------------------------------------------------------------


class Source(NoSource):
    def __init__(self, problem=None, *warnings):
        self.says = problem
        self.warns = warnings

    def problem(self):
        return self.says

    def warnings(self):
        return self.warns

    async def run(self):
        await anyio.sleep_forever()


@pytest.mark.parametrize("cache", [ClusterCache(), filled_cache()], ids=["no cache", "a cache"])
async def test_livez_is_always_ok(cache):
    async with served(cache) as client:
        response = await client.get("/livez")
    assert (response.status_code, response.text) == (200, "ok")


async def test_readyz_is_ok_with_a_picture(client):
    response = await client.get("/readyz")
    assert (response.status_code, response.text) == (200, "ok")


async def test_readyz_is_503_without_one():
    async with served(ClusterCache()) as client:
        response = await client.get("/readyz")
        verbose = await client.get("/readyz?verbose")
    assert response.status_code == verbose.status_code == 503
    error_of(response)
    assert "[-] cluster" in verbose.text


async def test_readyz_verbose_tells_what_is_known():
    source = Source(None, "cluster.json: pod shop/x: spec.priority")
    app = create_app(filled_cache(), configuration(), source)
    async with client_for(app) as client:
        response = await client.get("/readyz?verbose")
    assert response.status_code == 200
    assert "version 1: 3 nodes, 2 running pods, 0 budgets" in response.text
    assert "[!] cluster.json: pod shop/x: spec.priority" in response.text


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [("/filter", 503, None), ("/prioritize", 200, []), ("/preempt", 503, None)],
)
async def test_C7_nothing_is_decided_on_a_picture_that_may_not_be_true(path, status, answer):
    why = "pods are stale: not watched for 31s: connection refused"
    async with client_for(create_app(filled_cache(), configuration(), Source(why))) as client:
        response = await client.post(path, content=BODIES[path])
        ready = await client.get("/readyz")
    assert (response.status_code, ready.status_code) == (status, 503)
    assert error_of(ready) == why
    if answer is None:
        assert error_of(response) == why
    else:
        assert response.json() == answer


async def test_C7_a_stale_picture_vetoes_where_that_is_wanted():
    config = configuration(preemption={"onFailure": "Veto"})
    async with client_for(create_app(filled_cache(), config, Source("stale"))) as client:
        response = await client.post("/preempt", content=preempt_body())
    assert (response.status_code, response.json()) == (200, {"NodeNameToMetaVictims": {}})


@pytest.mark.parametrize("path", BODIES)
async def test_every_answer_says_on_which_state_of_the_cluster_it_was_made(client, path):
    response = await client.post(path, content=BODIES[path])
    assert response.headers["X-Extender-Cache"] == "version=1"


async def test_the_source_is_followed_while_the_service_runs():
    running = anyio.Event()

    class Following(Source):
        async def run(self):
            running.set()
            await super().run()

    app = create_app(filled_cache(), configuration(), Following())
    async with app.lifespan():
        await running.wait()


# --- listening ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_plain_http_is_for_loopback(host):
    assert configuration(server={"host": host}).server.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_plain_http_elsewhere_needs_a_word(host):
    with pytest.raises(ValidationError, match="allowPlainHTTP"):
        configuration(server={"host": host})
    assert configuration(server={"host": host, "allowPlainHTTP": True}).server.host == host
