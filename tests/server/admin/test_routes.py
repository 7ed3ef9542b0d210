"""What people ask the admin listener: decisions, what-if questions, the status, recordings and the page."""

import asyncio
import gc
import json
import signal
import socket
import sys
import threading

import httpx
import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.errors import ExtenderError, ListenError
from extender.server import run
from extender.server.admin import fork_worker, routes
from extender.server.app import create_app
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import SimulationProgress
from tests.builders import stored_cluster, typed
from tests.server.conftest import (
    CLUSTER,
    NODES,
    admin_client,
    client_for,
    configuration,
    error_of,
    filled_cache,
    filter_body,
    pod,
    preempt_body,
)

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}


class Both:
    """One service behind both applications."""

    def __init__(self, cache=None, **sections):
        self.app = create_app(cache or filled_cache(), configuration(**sections))
        self.server_context = self.app.server_context
        self.scheduler = client_for(self.app)
        self.people = admin_client(self.server_context, **sections)

    async def ask(self, *verbs):
        bodies = {"filter": filter_body(), "prioritize": filter_body(), "preempt": preempt_body()}
        for verb in verbs:
            assert (await self.scheduler.post(f"/{verb}", content=bodies[verb])).status_code == 200

    async def get(self, path, **parameters):
        answer = await self.people.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def listed(self, **parameters):
        return [one["id"] for one in (await self.get("/decisions", **parameters))["decisions"]]


@pytest.fixture
def both():
    return Both()


# --- decisions ------------------------------------------------------------------------------------------------------


async def test_every_decision_is_listed_the_latest_first(both):
    await both.ask("filter", "prioritize", "preempt", "filter")
    assert await both.listed() == ["filter-2", "preempt-1", "prioritize-1", "filter-1"]


async def test_a_decision_is_shown_whole(both):
    await both.ask("preempt")
    decision = await both.get("/decisions/preempt-1")
    assert decision["sentence"].startswith("evicts shop/small from worker-1 for shop/urgent")
    assert [(node["name"], node["outcome"]) for node in decision["nodes"]] == [
        ("worker-1", "chosen"),
        ("worker-2", "outranked"),
    ]
    assert [pod["key"] for pod in decision["nodes"][0]["pods"]] == ["shop/small"]
    assert decision["cache"] == "version=1"


async def test_it_is_shown_without_pods(both):
    await both.ask("preempt")
    decision = await both.get("/decisions/preempt-1", pods="none")
    assert [node.get("pods", []) for node in decision["nodes"]] == [[], []]
    assert decision["nodes"][0]["counts"] == {"victim": 1}


async def test_one_node_of_it_is_shown_with_its_pods(both):
    await both.ask("preempt")
    decision = await both.get("/decisions/preempt-1", node="worker-2")
    assert [node["name"] for node in decision["nodes"]] == ["worker-2"]
    assert [pod["key"] for pod in decision["nodes"][0]["pods"]] == ["shop/large"]


async def test_its_pod_can_be_asked_about_once_more(both):
    await both.ask("preempt")
    asked = await both.get("/decisions/preempt-1/pod")
    assert asked["metadata"]["name"] == "urgent"
    answer = await both.people.post("/simulate", content=json.dumps({"pod": asked}), headers=JSON)
    assert [victim["pod"] for victim in answer.json()["evicted"]] == ["shop/small"]
    assert (await both.people.get("/decisions/preempt-2/pod")).status_code == 404


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({"pod": "shop/urgent"}, ["preempt-1"]),
        ({"pod": "uid-small"}, ["preempt-1"]),
        ({"pod": "incoming"}, ["prioritize-1", "filter-1"]),
        ({"pod": "unknown"}, []),
        ({"node": "worker-3"}, ["prioritize-1", "filter-1"]),
        ({"verb": "filter"}, ["filter-1"]),
        ({"since": "1h"}, ["preempt-1", "prioritize-1", "filter-1"]),
        ({"until": "1h"}, []),
        ({"since": "2126-01-01T00:00:00Z"}, []),
        ({"until": "2126-01-01T00:00:00+02:00", "verb": "preempt"}, ["preempt-1"]),
        ({"limit": "2"}, ["preempt-1", "prioritize-1"]),
        ({"limit": "1", "offset": "1"}, ["prioritize-1"]),
        ({"offset": "3"}, []),
        ({"text": "EVICTS shop/small"}, ["preempt-1"]),
        ({"text": "filter-1"}, ["filter-1"]),
        ({"text": "nothing of this"}, []),
        ({"outcome": "answered"}, ["preempt-1", "prioritize-1", "filter-1"]),
        ({"outcome": "vetoed"}, []),
        ({"sort": "time"}, ["preempt-1", "prioritize-1", "filter-1"]),
        ({"sort": "pod"}, ["prioritize-1", "filter-1", "preempt-1"]),
    ],
    ids=str,
)
async def test_decisions_are_found_by(both, parameters, found):
    await both.ask("filter", "prioritize", "preempt")
    assert await both.listed(**parameters) == found


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/decisions?verb=bind", 400, "verb: must be one of filter, prioritize, preempt, not 'bind'"),
        ("/decisions?limit=0", 400, "limit: must be a number from 1 to 1000, not '0'"),
        ("/decisions?limit=1001", 400, "limit: must be a number from 1 to 1000"),
        ("/decisions?limit=many", 400, "limit: must be a number from 1 to 1000"),
        (
            "/decisions?since=yesterday",
            400,
            "since: must be a time such as 2026-03-01T12:00:00Z, or an age such as 15m",
        ),
        ("/decisions?until=2026-03-01T12:00:00", 400, "until: must be a time such as"),
        ("/decisions?name=x", 400, "name: no such parameter; available: pod, node, verb, outcome, text, "),
        ("/decisions?outcome=good", 400, "outcome: must be one of answered, noVictims, vetoed, observed, passthrough"),
        ("/decisions?sort=size", 400, "sort: must be one of time, milliseconds, pod, not 'size'"),
        ("/decisions?offset=-1", 400, "offset: must be a number from 0 to 100000000, not '-1'"),
        ("/decisions/preempt-99", 404, "no such decision"),
        ("/decisions/nothing", 404, "no such decision"),
        ("/decisions/preempt-1?node=worker-9", 404, "the cluster has no node 'worker-9' (did you mean worker-"),
        (
            "/decisions/preempt-1?node=worker-3",
            404,
            "the decision did not consider node 'worker-3': kube-scheduler did",
        ),
        ("/decisions/preempt-1?pods=some", 400, "pods: must be all or none, not 'some'"),
        ("/filter", 404, "no such path; available: GET /livez, /readyz, /metrics, /ui, /pending, /nodes"),
        ("/ui/../app.py", 404, "no such"),
        ("/ui/%2e%2e%2fapp.py", 404, "no such"),
        ("/ui/nothing.js", 404, "no such file"),
    ],
)
async def test_it_says_what_is_wrong_with(both, path, status, message):
    await both.ask("preempt")
    answer = await both.people.get(path)
    assert answer.status_code == status
    assert error_of(answer).startswith(message)


async def test_nothing_is_kept_where_that_is_switched_off():
    both = Both(debug={"decisions": 0})
    await both.ask("filter")
    assert await both.listed() == []


async def test_the_oldest_decision_of_a_verb_goes_first():
    both = Both(debug={"decisions": 2})
    await both.ask("preempt", "filter", "filter", "filter")
    assert await both.listed() == ["filter-3", "filter-2", "preempt-1"]


async def test_an_observed_decision_is_not_marked_as_answered():
    both = Both(mode="Observe")
    await both.ask("preempt")
    decision = await both.get("/decisions/preempt-1")
    assert decision["outcome"] == "observed"
    assert decision["sentence"].startswith("would evict shop/small from worker-1")


async def test_with_the_kill_switch_nothing_is_decided():
    both = Both(killSwitch={"enabled": True})
    await both.ask("preempt")
    decision = await both.get("/decisions/preempt-1")
    assert (decision["outcome"], decision.get("nodes", [])) == ("passthrough", [])
    assert "the kill switch is on" in decision["sentence"]


async def test_a_failure_is_kept_with_its_reason(both):
    answer = await both.scheduler.post("/filter", content=filter_body([*NODES, "worker-9"]))
    assert answer.status_code == 503
    decision = await both.get("/decisions/filter-1")
    assert (decision["outcome"], decision["error"]) == ("failed", "1 of 4 nodes are not in the cluster cache")


async def test_a_decision_that_cannot_be_kept_is_answered_all_the_same(both, monkeypatch, caplog):
    monkeypatch.setattr(both.server_context.decisions, "keep", lambda _: 1 / 0)
    await both.ask("preempt")
    assert "failed to store the decision" in caplog.text


async def test_a_list_says_how_many_match_and_how_many_are_kept(both):
    await both.ask("filter", "filter", "preempt")
    page = await both.get("/decisions", verb="filter", limit="1")
    assert ([one["id"] for one in page["decisions"]], page["matching"], page["kept"]) == (["filter-2"], 2, 3)


async def test_the_slowest_decision_comes_first_when_asked_so(both):
    await both.ask("filter", "prioritize", "preempt", "filter")
    listed = (await both.get("/decisions", sort="milliseconds"))["decisions"]
    took = [one["milliseconds"] for one in listed]
    assert took == sorted(took, reverse=True)


async def test_a_decision_about_a_node_tells_it_is_not_there_only_if_the_cluster_is_known(both, monkeypatch):
    await both.ask("preempt")
    monkeypatch.setattr(both.server_context.cache, "_snapshot", None)
    answer = await both.people.get("/decisions/preempt-1?node=worker-9")
    assert error_of(answer).startswith("the decision did not consider node 'worker-9'")


# --- the cluster ----------------------------------------------------------------------------------------------------


async def test_the_cluster_is_dumped_as_a_cluster_file(both):
    answer = await both.people.get("/cluster")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert stored_cluster(answer.json()) == both.server_context.snapshot().frozen()


async def test_assumed_pods_are_dumped_as_the_api_server_sent_them_and_named(both):
    before = await both.get("/cluster")
    cache = both.server_context.cache
    victim = next(one for one in cache.snapshot().objects.pods.values() if one.metadata.name == "small")
    cache.assumed.assume_preempted(typed(pod("urgent", uid="uid-urgent", priority=100)), "worker-1", [victim])
    cache.assumed.assume_preempted(typed(pod("unseen", uid="uid-unseen", priority=100)), "worker-2", [])
    assert cache.snapshot().frozen() != stored_cluster(before)
    after = await both.get("/cluster")
    named = after["metadata"].pop("annotations")
    assumed = ["shop/small terminating", "shop/unseen nominated to worker-2", "shop/urgent nominated to worker-1"]
    assert named == {"extender/assumed": "; ".join(assumed)}
    assert after == before


async def test_a_cluster_that_is_not_there_yet_is_not_dumped():
    answer = await Both(ClusterCache()).people.get("/cluster")
    assert (answer.status_code, error_of(answer)) == (503, "the cache has not synced yet")


async def test_where_the_system_cannot_fork_the_dump_is_the_same(both, monkeypatch):
    forked = (await both.people.get("/cluster")).content
    monkeypatch.setattr(fork_worker, "IS_FORK_SUPPORTED", False)
    assert (await both.people.get("/cluster")).content == forked


# --- what if --------------------------------------------------------------------------------------------------------


async def test_H5_a_body_that_arrives_slowly_keeps_no_simulation_from_running(both):
    question, arrives = json.dumps({"pod": pod("later")}).encode(), asyncio.Event()
    waiting: list[int] = []

    async def slowly():
        yield question[:10]
        waiting.append(1)
        await arrives.wait()
        yield question[10:]

    count = routes.MAX_SIMULATIONS
    slow = [asyncio.ensure_future(both.people.post("/simulate", content=slowly(), headers=JSON)) for _ in range(count)]
    async with asyncio.timeout(20):
        while len(waiting) < count:  # noqa: ASYNC110 (the bodies are read by the application's tasks)
            await asyncio.sleep(0.01)
    assert (await both.people.post("/simulate", content=question, headers=JSON)).status_code == 200
    arrives.set()
    assert {one.status_code for one in await asyncio.gather(*slow)} == {200}


async def test_a_method_that_a_path_does_not_have_is_refused(both):
    for path, methods in (("/simulate", {"GET", "POST"}), ("/recording", {"GET", "POST"}), ("/pending", {"GET"})):
        refused = await both.people.delete(path)
        assert (refused.status_code, {*refused.headers["allow"].split(", ")}) == (405, methods), path
    for path in ("/simulate", "/recording"):
        assert (await both.people.get(f"{path}?x=1")).status_code == 400, path


@pytest.mark.skipif(not fork_worker.IS_FORK_SUPPORTED, reason="a thread cannot be killed")
async def test_the_progress_of_a_simulation_can_be_read_until_it_is_killed(both, monkeypatch):
    def stuck(cluster, scheduler, body, history, source, progress, **_):
        progress.begin(Scenario([], pending=True, drain=["worker-1"]), cluster, 1)
        signal.pause()

    def made():
        known.append(SimulationProgress())
        return known[-1]

    known: list[SimulationProgress] = []
    monkeypatch.setattr(routes, "simulate_request", stuck)
    monkeypatch.setattr(routes, "SimulationProgress", made)
    assert await both.get("/simulate") == {"inFlight": 0, "tried": 0, "pods": 0}
    asking = asyncio.ensure_future(both.people.post("/simulate", content=b"{}", headers=JSON))
    waiting = asyncio.ensure_future(both.people.post("/simulate", content=b"{}", headers=JSON))
    async with asyncio.timeout(20):
        while (found := await both.get("/simulate"))["inFlight"] < 2 or not found["pods"]:  # noqa: ASYNC110 (only the child goes on)
            await asyncio.sleep(0.01)
    assert found == {"inFlight": 2, "tried": 0, "pods": 1}
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await both.get("/simulate") == {"inFlight": 1, "tried": 0, "pods": 1}, "the other one still runs"
    asking.cancel()
    await asyncio.wait([asking])
    for one in known:  # a child that is not dead yet
        one.begin(Scenario([], drain=["worker-1"]), both.server_context.snapshot(), 1)
        assert one.pods
    assert await both.get("/simulate") == {"inFlight": 0, "tried": 0, "pods": 0}


async def test_simulate_uses_the_current_cluster(both):
    question = {"pod": pod("urgent", cpu="4", priority=100)}
    answer = await both.people.post("/simulate", content=json.dumps(question), headers=JSON)
    assert answer.status_code == 200, answer.text
    assert [victim["pod"] for victim in answer.json()["evicted"]] == ["shop/small"]
    assert both.server_context.snapshot().pod_table.row_of.keys() >= {"uid-small"}, "nothing has happened"


async def test_two_policies_are_compared(both):
    protect = {"kind": "PodDisruptionBudget", "metadata": {"name": "small", "namespace": "shop"}}
    protect |= {"spec": {"selector": {"matchLabels": {"app": "small"}}}, "status": {"disruptionsAllowed": 0}}
    both = Both(filled_cache({"kind": "List", "items": [*CLUSTER["items"], protect]}))
    question = {"pod": pod("urgent", cpu="4", priority=100), "compare": ["upstream", "strict"]}
    answer = (await both.people.post("/simulate", content=json.dumps(question), headers=JSON)).json()
    assert answer["compared"] == ["upstream", "strict"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"pod": 1}', b'{"pods": []}', b'{"preset": "none"}'])
async def test_a_question_that_cannot_be_understood(both, body):
    answer = await both.people.post("/simulate", content=body, headers=JSON)
    assert answer.status_code == 400
    error_of(answer)


async def test_a_question_that_is_too_large(both):
    answer = await both.people.post("/simulate", content=b" " * (routes.MAX_SIMULATE_BODY_BYTES + 1), headers=JSON)
    assert answer.status_code == 413


# --- status, recording, page ----------------------------------------------------------------------------------------


async def test_the_status_says_what_is_served():
    both = Both(preemption={"preset": "strict"})
    await both.ask("filter")
    status = await both.get("/status")
    assert status["cluster"] == {"nodes": 3, "pods": 2, "budgets": 0}
    assert status["decisions"] == {"filter": 1, "prioritize": 0, "preempt": 0}
    assert "disruptionBudgets: Strict" in status["policies"]
    assert status["presets"] == ["upstream", "careful", "strict"]
    assert status["ready"] == ""


async def test_recording_is_switched_on_and_off(tmp_path):
    both = Both(recording={"directory": str(tmp_path / "calls")})
    assert not (await both.get("/recording"))["enabled"]
    on = await both.people.post("/recording", content=b'{"enabled": true}', headers=JSON)
    assert (on.status_code, on.json()["enabled"]) == (200, True)
    await both.ask("preempt")
    off = await both.people.post("/recording", content=b'{"enabled": false}', headers=JSON)
    assert (off.json()["enabled"], off.json()["calls"]) == (False, 1)
    assert list(tmp_path.rglob("calls.jsonl*"))


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"enabled": true}', 409), (b"{}", 400), (b'{"enabled": 1}', 400), (b'{"enabled": true, "to": "/"}', 400)],
)
async def test_recording_is_refused(both, body, status):
    answer = await both.people.post("/recording", content=body, headers=JSON)
    assert answer.status_code == status
    error_of(answer)


@pytest.mark.parametrize("path", ["/", "/ui", "/ui/"])
async def test_the_page_is_there(both, path):
    answer = await both.people.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")


# --- listening ------------------------------------------------------------------------------------------------------


def test_an_address_in_use_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = configuration(admin={"port": port})
        with pytest.raises(ListenError, match=rf"127.0.0.1:{port}: .*in use; choose another address with admin.host"):
            run.serve(create_app(filled_cache(), config), config)
    assert issubclass(ListenError, ExtenderError)


def test_both_begin_and_end_together(monkeypatch):
    """With sockets: one process, two ports, one end."""
    config = configuration()
    app = create_app(filled_cache(), config)
    listening, people = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in (listening, people)]
    monkeypatch.setattr(run, "bind", lambda *_: people)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)  # not for all the tests that come after this one
    monkeypatch.setattr(gc, "freeze", lambda: None)
    serving = threading.Thread(target=run.serve, args=(app, config, listening))
    serving.start()
    try:
        first = httpx.post(f"http://127.0.0.1:{ports[0]}/filter", content=filter_body(), timeout=60)
        assert first.status_code == 200
        assert httpx.get(f"http://127.0.0.1:{ports[1]}/status").json()["cluster"]["nodes"] == 3
        assert httpx.get(f"http://127.0.0.1:{ports[1]}/livez").status_code == 200
        assert httpx.get(f"http://127.0.0.1:{ports[0]}/livez").status_code == 404
    finally:
        app.stop()
        serving.join(30)
    assert not serving.is_alive()
    for port in ports:
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{port}/status")
