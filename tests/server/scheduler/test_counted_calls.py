"""What is counted and timed of calls, and how many of them may be under way at once (E11, L6, section 6)."""

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import httpx
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import ClusterCache
from extender.core import engine
from extender.errors import ExtenderError, RequestError
from extender.server.app import create_app
from extender.server.http.caller import CALLER_KEY, Caller
from extender.server.observability import metrics
from extender.server.observability.metrics import DURATION_BUCKETS_SECONDS, REFUSAL_STATUSES
from extender.server.scheduler import verbs
from extender.utilities.log_throttle import LOG_INTERVAL_SECONDS, ThrottledLoggers
from tests.server.conftest import (
    BODIES,
    CLUSTER,
    URGENT,
    client_for,
    configuration,
    error_of,
    filled_cache,
    filter_body,
    preempt_body,
)

pytestmark = pytest.mark.anyio

BIND = json.dumps({"PodName": "a", "PodNamespace": "shop", "PodUID": "u", "Node": "worker-1"}).encode()


def application(cache=None, **sections):
    return create_app(cache or filled_cache(), configuration(**sections))


def samples(app):
    """(name, label=value, …) -> value, of those that are not 0."""
    lines = app.server_context.metrics.exposition().decode().splitlines(keepends=True)
    # Hundreds are 0, and parsing them takes longer than the calls.
    families = text_string_to_metric_families("".join(line for line in lines if not line.endswith(" 0.0\n")))
    found = (sample for family in families for sample in family.samples if sample.value)
    return {(one.name, *(f"{k}={v}" for k, v in sorted(one.labels.items()))): one.value for one in found}


def counted(app, name):
    """Label values, joined -> how often, of those that are not 0."""
    return {
        " ".join(label.partition("=")[2] for label in labels): value
        for (sample, *labels), value in samples(app).items()
        if sample == f"extender_{name}"
    }


# --- how long -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BODIES)
async def test_a_call_is_timed_by_verb_and_status(path):
    app = application()
    async with client_for(app) as client:
        for _ in range(2):
            await client.post(path, content=BODIES[path])
    assert counted(app, "request_duration_seconds_count") == {f"200 {path[1:]}": 2}
    assert 0 < counted(app, "request_duration_seconds_sum")[f"200 {path[1:]}"] < 10


async def test_a_call_is_timed_from_its_arrival():
    app = application()

    async def earlier(scope, receive, send):
        now = time.monotonic()
        await app(scope | {CALLER_KEY: Caller(now - 3, now)}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(earlier), base_url="http://extender") as client:
        assert (await client.post("/filter", content=BODIES["/filter"])).status_code == 200
    assert counted(app, "request_duration_seconds_sum")["200 filter"] > 3
    buckets = {one[2]: value for one, value in samples(app).items() if one[0].endswith("_bucket")}
    assert "le=3.0" not in buckets
    assert buckets["le=4.0"] == 1


def test_a_quantile_of_the_durations_is_read_within_25_percent():
    assert DURATION_BUCKETS_SECONDS[0] == 0.0005
    assert DURATION_BUCKETS_SECONDS[-1] == 5
    assert max(upper / lower for lower, upper in pairwise(DURATION_BUCKETS_SECONDS)) <= 1.25


async def test_repeated_failures_are_each_counted_and_not_each_logged(caplog):
    app, now = application(ClusterCache()), 1000.0
    log = logging.getLogger("extender.server.scheduler.failure_policy")
    context = replace(app.server_context, log_failure=ThrottledLoggers(log, clock=lambda: now))
    app.server_context = context
    async with client_for(app) as client:
        for path in ("/filter", "/filter", "/preempt", "/filter"):
            await client.post(path, content=BODIES[path])
        app.server_context = replace(context, max_in_flight=0)
        await client.post("/filter", content=BODIES["/filter"])
        app.server_context = context
        now += LOG_INTERVAL_SECONDS
        await client.post("/filter", content=BODIES["/filter"])
    assert counted(app, "failures_total") == {"NotReady": 5, "Overloaded": 1}
    said = [message.partition(":")[0] for message in caplog.messages]
    assert said == ["filter failed", "preempt failed", "filter failed", "filter failed"]
    assert "calls in flight" in caplog.messages[2]
    assert caplog.messages[3].endswith("(2 similar messages suppressed)")


@pytest.mark.parametrize("path", ["/filter", "/preempt"])
async def test_a_failure_is_timed_apart(path):
    app = application(ClusterCache())
    async with client_for(app) as client:
        assert (await client.post(path, content=BODIES[path])).status_code == 503
    assert counted(app, "request_duration_seconds_count") == {f"503 {path[1:]}": 1}


REFUSED = {
    "400": ({"content": b"{"}, "/filter"),
    "404": ({"content": BIND}, "/bind"),
    "413": ({"content": b" " * (3 << 20)}, "/filter"),
    "415": ({"content": b"{}", "headers": {"Content-Encoding": "gzip"}}, "/filter"),
}


@pytest.mark.parametrize(("code", "call"), REFUSED.items())
async def test_what_is_no_request_is_counted_by_status_and_not_timed(code, call):
    app, (given, path) = application(server={"maxBodyBytes": "2Mi"}), call
    async with client_for(app) as client:
        assert (await client.post(path, **given)).status_code == int(code)
    assert counted(app, "refused_requests_total") == {code: 1}
    assert not counted(app, "request_duration_seconds_count")
    assert not counted(app, "failures_total")


def test_every_status_of_a_refusal_has_a_counter():
    found, waiting = set(), [RequestError]
    while waiting:
        one = waiting.pop()
        found.add(one.status)
        waiting += one.__subclasses__()
    assert found <= set(REFUSAL_STATUSES)


# --- what was answered ----------------------------------------------------------------------------------------------

KILLED = {"killSwitch": {"enabled": True}}
PASSING = {"killSwitch": {"enabled": True, "preempt": "PassThrough"}}
OBSERVE = {"mode": "Observe"}
NOWHERE = filter_body(["worker-3"])

ANSWERS = {
    "filter finds a node": ("/filter", filter_body(), {}, "fits"),
    "filter finds none": ("/filter", NOWHERE, {}, "nowhere"),
    "filter observes": ("/filter", NOWHERE, OBSERVE, "passthrough"),
    "filter is switched off": ("/filter", NOWHERE, KILLED, "passthrough"),
    "filter does not know a node": ("/filter", filter_body(["x"]), {}, "failed"),
    "filter observes and fails": ("/filter", filter_body(["x"]), OBSERVE, "passthrough"),
    "prioritize scores": ("/prioritize", filter_body(), {}, "scored"),
    "prioritize does not know a node": ("/prioritize", filter_body(["x"]), {}, "failed"),
    "prioritize is switched off": ("/prioritize", filter_body(), KILLED, "passthrough"),
    "preempt evicts": ("/preempt", preempt_body(), {}, "evicted"),
    "preempt finds no victims": ("/preempt", preempt_body(**{"worker-1": ["uid-gone"]}), {}, "vetoed"),
    "preempt is switched off": ("/preempt", preempt_body(), KILLED, "vetoed"),
    "preempt is passed through": ("/preempt", preempt_body(), PASSING, "passthrough"),
    "preempt observes": ("/preempt", preempt_body(), OBSERVE, "passthrough"),
}


@pytest.mark.parametrize(("path", "body", "sections", "result"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_is_counted_once_by_what_it_says(path, body, sections, result):
    app = application(**sections)
    async with client_for(app) as client:
        await client.post(path, content=body)
    assert counted(app, "answers_total") == {f"{result} {path[1:]}": 1}


async def test_an_answer_of_which_nothing_can_follow_is_counted_as_a_failure_only(monkeypatch):
    app = application()
    monkeypatch.setattr(type(app.server_context.metrics), "count_preemption", lambda *_: 1 / 0)
    async with client_for(app) as client:
        assert (await client.post("/preempt", content=preempt_body())).status_code == 503
    assert counted(app, "answers_total") == {"failed preempt": 1}


FAILURES = {
    "NotReady": None,
    "UnknownNode": filter_body(["x"]),
    "GuardError": filter_body(["worker-1", "worker-2"]),
    "Internal": filter_body(),
    "Other": filter_body(),
}


@pytest.mark.parametrize(("reason", "body"), FAILURES.items())
@pytest.mark.parametrize("sections", [{}, OBSERVE], ids=["Enforce", "Observe"])
async def test_a_failure_is_counted_once_by_its_reason(reason, body, sections, monkeypatch):
    def fail(*_):
        raise ExtenderError("no") if reason == "Other" else ZeroDivisionError

    if reason == "GuardError":
        monkeypatch.setattr(engine, "filter", lambda *_: engine.FilterDecision((0,), {}, {}, ()))
    elif reason in ("Internal", "Other"):
        monkeypatch.setattr(engine, "filter", fail)
    app = application(ClusterCache() if body is None else None, **sections)
    async with client_for(app) as client:
        await client.post("/filter", content=body or filter_body())
    assert counted(app, "failures_total") == {reason: 1}


# --- victims and budgets --------------------------------------------------------------------------------------------


def guarded(*names, allowed=0):
    """A budget that allows so many disruptions of the pods."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"pdb-{names[0]}", "namespace": "shop", "uid": f"pdb-{names[0]}"},
        "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": list(names)}]}},
        "status": {"disruptionsAllowed": allowed},
    }


def cluster(*budgets):
    return filled_cache({"kind": "List", "items": [*CLUSTER["items"], *budgets]})


def offering(**sent):
    """Node -> (UIDs, violations as kube-scheduler counts them)."""
    meta = {
        node.replace("_", "-"): {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in sent.items()
    }
    return json.dumps({"Pod": URGENT, "NodeNameToMetaVictims": meta}).encode()


SMALL, LARGE = ["uid-small"], ["uid-large"]

PREEMPTIONS = {
    "nothing guards the victim": (
        (),
        offering(worker_1=(SMALL, 0), worker_2=(LARGE, 0)),
        {},
        {"victims_total": 1},
    ),
    "kube-scheduler itself would have taken the node without violations": (
        (guarded("small"),),
        offering(worker_1=(SMALL, 1), worker_2=(LARGE, 0)),
        {},
        {"victims_total": 1},
    ),
    "every node has one, so one is broken": (
        (guarded("small"), guarded("large")),
        offering(worker_1=(SMALL, 1), worker_2=(LARGE, 1)),
        {},
        {"victims_total": 1, "violations_total": 1},
    ),
    "with strict budgets no pod is evicted: both nodes' least count is avoided": (
        (guarded("small"), guarded("large")),
        offering(worker_1=(SMALL, 1), worker_2=(LARGE, 1)),
        {"preemption": {"disruptionBudgets": "Strict"}},
        {"violations_avoided_total": 1},
    ),
    "kube-scheduler counts more than there are any more": (
        (),
        offering(worker_1=(SMALL, 3), worker_2=(LARGE, 2)),
        {},
        {"victims_total": 1, "violations_avoided_total": 2},
    ),
    "a count below 0 is none": (
        (),
        offering(worker_1=(SMALL, -3)),
        {},
        {"victims_total": 1},
    ),
    "nothing is offered": ((), offering(), {}, {}),
    "mode Observe evicts no pod and avoids nothing": (
        (guarded("small"),),
        offering(worker_1=(SMALL, 1)),
        OBSERVE | {"preemption": {"disruptionBudgets": "Strict"}},
        {},
    ),
}


@pytest.mark.parametrize(("budgets", "body", "sections", "expected"), PREEMPTIONS.values(), ids=PREEMPTIONS)
async def test_victims_and_violations_are_those_of_the_best_node(budgets, body, sections, expected):
    app = application(cluster(*budgets), **sections)
    async with client_for(app) as client:
        assert (await client.post("/preempt", content=body)).status_code == 200
    names = ("victims_total", "violations_total", "violations_avoided_total")
    found = {name: counted(app, name) for name in names}
    assert {name: values[""] for name, values in found.items() if values} == expected


# --- how many at once -----------------------------------------------------------------------------------------------


@pytest.fixture
def hold(monkeypatch):
    """Begins so many /filter calls, whose answers wait until the returned function lets them go."""
    answer_live = verbs.answer_live

    async def begin(client, how_many):
        begun, may_end = asyncio.Semaphore(0), asyncio.Event()

        async def held(*arguments):
            begun.release()
            await may_end.wait()
            return await answer_live(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(verbs, "answer_live", held)
            calls = [asyncio.create_task(client.post("/filter", content=BODIES["/filter"])) for _ in range(how_many)]
            for _ in calls:
                await asyncio.wait_for(begun.acquire(), 5)
        return calls, may_end.set

    return begin


FULL = {"server": {"maxInFlight": 2}}

REFUSALS_OF_OVERLOAD: dict[str, tuple[bytes, dict[str, Any], int, object]] = {
    "/filter": (BODIES["/filter"], {}, 503, None),
    "/prioritize": (BODIES["/prioritize"], {}, 200, []),
    "/preempt": (BODIES["/preempt"], {}, 503, None),
    "/preempt with onFailure: Veto": (
        BODIES["/preempt"],
        {"preemption": {"onFailure": "Veto"}},
        200,
        {"NodeNameToMetaVictims": {}},
    ),
}


@pytest.mark.parametrize("case", REFUSALS_OF_OVERLOAD)
async def test_E11_above_the_limit_a_call_is_answered_at_once_by_the_failure_rule(case, hold):
    body, sections, status, expected = REFUSALS_OF_OVERLOAD[case]
    path = case.partition(" ")[0]
    app = application(**FULL, **sections)
    async with client_for(app) as client:
        calls, let_go = await hold(client, 2)
        assert counted(app, "requests_in_flight") == {"": 2}
        response = await asyncio.wait_for(client.post(path, content=body), 5)
        let_go()
        assert [(await call).status_code for call in calls] == [200, 200]
        again = await client.post(path, content=body)
    assert response.status_code == status
    assert response.headers["connection"] == "close"
    if expected is None:
        assert error_of(response) == "more than 2 calls in flight (server.maxInFlight)"
    else:
        assert response.json() == expected
    assert again.status_code == 200
    assert counted(app, "failures_total") == {"Overloaded": 1}
    assert counted(app, "answers_total")[f"failed {path[1:]}"] == 1
    assert not counted(app, "requests_in_flight")


def test_L6_connections_without_a_call_do_not_count(live_server):
    """20 that say nothing and 20 that have sent half a header, with room for 2 calls."""
    address = live_server(application(**FULL))
    with contextlib.ExitStack() as open_:
        idle = [open_.enter_context(socket.create_connection(address, 5)) for _ in range(40)]
        for one in idle[20:]:
            one.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n")
        url = f"http://{address[0]}:{address[1]}/filter"
        with httpx.Client() as client:
            answers = [client.post(url, content=BODIES["/filter"]) for _ in range(5)]
    assert [one.status_code for one in answers] == [200] * 5


@pytest.fixture
def live_server():
    """Serves an application on a socket until the test ends -> (host, port)."""
    with contextlib.ExitStack() as until_the_end:

        def serve(app):
            settings = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
            server = uvicorn.Server(settings)
            listener = until_the_end.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()

            def stop():
                server.should_exit = True
                thread.join()

            until_the_end.callback(stop)
            return listener.getsockname()

        yield serve


async def test_a_call_whose_client_goes_away_is_not_under_way_any_more():
    app = application(**FULL)
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    async def send(_):
        pass

    scope = {"type": "http", "method": "POST", "path": "/filter", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    assert not counted(app, "requests_in_flight")
    assert counted(app, "failures_total") == {"CallerGone": 1}


async def test_a_call_that_is_cancelled_is_not_under_way_any_more(hold):
    app = application(**FULL)
    async with client_for(app) as client:
        (call,), _ = await hold(client, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert not counted(app, "requests_in_flight")


async def test_with_the_kill_switch_overload_refuses_nobody(hold):
    """What is answered then needs no decision, and a failure would not be what the switch says."""
    app = application(**FULL, **KILLED)
    async with client_for(app) as client:
        calls, let_go = await hold(client, 2)
        response = await client.post("/filter", content=filter_body())
        let_go()
        await asyncio.gather(*calls)
    assert response.json()["NodeNames"] == ["worker-1", "worker-2", "worker-3"]


# --- what it costs --------------------------------------------------------------------------------------------------


def test_counting_a_call_takes_microseconds(benchmark):
    """About 5 µs, at most 50: nothing beside the 300 µs that the smallest call takes."""
    of_one = metrics.Metrics()

    def call():
        with of_one.track_in_flight():
            pass
        of_one.observe_request("filter", 200, 0.003)
        of_one.count("answers", "filter", "fits")

    benchmark(call)
    began = time.thread_time()
    for _ in range(1000):
        call()
    assert time.thread_time() - began < 0.05
