"""POST /bind through the whole service, to a fake API server and back; and what is said where it is switched off."""

import asyncio
import contextlib
import json
import logging

import pytest
from pydantic import ValidationError

from extender.server.app import create_app
from extender.server.scheduler import bind as binds
from tests.cluster.watch.reflector_rig import server_at
from tests.fakes.api_server import Answer, Drop, FakeAPI, Fault, Hang
from tests.server.conftest import client_for, configuration, error_of, filled_cache, pod, stop_binding

pytestmark = pytest.mark.anyio

REQUEST = {"PodName": "web-0", "PodNamespace": "shop", "PodUID": "uid-web-0", "Node": "worker-1"}
LIVE = {"cluster": {"source": "kubernetes"}}
PATIENT = {"server": {"httpTimeout": "30s"}}


@pytest.fixture
def api():
    with FakeAPI() as fake:
        fake.put("Pod", pod("web-0"))
        yield fake


@contextlib.asynccontextmanager
async def served(api, limit="2s"):
    """The service, with /bind; no cluster is followed."""
    server = server_at(api.url)
    app = create_app(
        filled_cache(), configuration(**LIVE, **PATIENT, bind={"enabled": True, "timeout": limit}), api=server
    )
    try:
        async with app.lifespan(), client_for(app) as client:
            yield client
    finally:
        stop_binding(app)
        server.close()


async def bind(client, **changes):
    """The message of the answer, which always comes with 200; empty: bound."""
    response = await client.post("/bind", content=json.dumps(REQUEST | changes))
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["Error"]
    return response.json()["Error"]


def node_of(api, name="web-0"):
    return api.get("Pod", name, "shop")["spec"]["nodeName"]


async def counted(client):
    """Outcome -> how often."""
    lines = (await client.get("/metrics")).text.splitlines()
    found = (line.split('"') for line in lines if line.startswith("extender_binds_total{"))
    return {outcome: float(value.lstrip("} ")) for _, outcome, value in found}


# --- bound ----------------------------------------------------------------------------------------------------------


async def test_a_pod_is_bound_to_the_node(api, caplog):
    caplog.set_level(logging.INFO, "extender")
    async with served(api) as client:
        assert await counted(client) == {"bound": 0.0, "refused": 0.0, "unknown": 0.0}
        assert await bind(client) == ""
        assert node_of(api) == "worker-1"
        assert await counted(client) == {"bound": 1.0, "refused": 0.0, "unknown": 0.0}
    (request,) = api.asked("bind")
    assert json.loads(request.body)["metadata"]["uid"] == "uid-web-0"
    assert "bind 'shop/web-0' to 'worker-1': bound after 1 attempt(s) ''" in caplog.messages


async def test_a_pod_that_is_bound_there_already_is_bound(api):
    async with served(api) as client:
        assert [await bind(client), await bind(client)] == ["", ""]
        assert await counted(client) == {"bound": 2.0, "refused": 0.0, "unknown": 0.0}


async def test_an_answer_that_is_lost_on_its_way_is_asked_for(api):
    api.faults.add(Fault("bind", "Pod", Drop(done=True)))
    async with served(api) as client:
        assert await bind(client) == ""
        assert node_of(api) == "worker-1"


async def test_other_letters_and_further_keys_are_read_as_go_reads_them(api):
    body = {"podname": "web-0", "PODNAMESPACE": "shop", "poduid": "uid-web-0", "node": "worker-1", "More": 1}
    async with served(api) as client:
        assert (await client.post("/bind", content=json.dumps(body))).json() == {"Error": ""}


async def test_pods_are_bound_beside_each_other(api):
    """One slow binding does not hold up the others, nor anything else."""
    for number in range(1, 5):
        api.put("Pod", pod(f"web-{number}"))
    hang = Hang()
    api.faults.add(Fault("bind", "Pod", hang))
    async with served(api, limit="20s") as client:
        slow = asyncio.create_task(bind(client))
        await asyncio.to_thread(api.wait_for, lambda: api.asked("bind"))
        others = [bind(client, PodName=f"web-{number}", PodUID=f"uid-web-{number}") for number in range(1, 5)]
        assert await asyncio.gather(*others) == [""] * 4
        assert (await client.get("/readyz")).status_code == 200
        assert not slow.done()
        hang.release()
        assert await slow == ""


# --- not bound ------------------------------------------------------------------------------------------------------


async def test_another_pod_of_that_name_is_refused(api):
    async with served(api) as client:
        assert "was replaced by a pod with another UID" in await bind(client, PodUID="uid-of-before")
        assert node_of(api) == ""
        assert await counted(client) == {"bound": 0.0, "refused": 1.0, "unknown": 0.0}


async def test_a_pod_that_is_bound_to_another_node_is_refused(api):
    async with served(api) as client:
        await bind(client, Node="worker-2")
        assert await bind(client) == "pod shop/web-0 is bound to worker-2 already, not to worker-1"


async def test_a_pod_that_is_not_there_is_refused(api, caplog):
    caplog.set_level(logging.INFO, "extender")
    async with served(api) as client:
        assert (await bind(client, PodName="web-9")).startswith("pod shop/web-9 does not exist: ")
    assert any(one.startswith("bind 'shop/web-9' to 'worker-1': refused after 1 attempt(s)") for one in caplog.messages)


async def test_without_the_permission_the_answer_names_it(api):
    api.forbid("Pod", "bind")
    async with served(api) as client:
        assert "permission to create pods/binding in namespace shop" in await bind(client)


async def test_a_name_that_is_none_never_reaches_the_api_server(api):
    async with served(api) as client:
        assert (await bind(client, PodName="../../nodes")).startswith("PodName: ")
        assert api.requests == []


# --- not known ------------------------------------------------------------------------------------------------------


async def test_an_api_server_that_hangs_is_given_up_in_time_and_bound_is_not_said(api):
    hang = Hang()
    api.faults.add(Fault("*", "Pod", hang, times=None))
    async with served(api, limit="2s") as client:
        async with asyncio.timeout(10):
            assert "not known whether" in await bind(client)
        assert await counted(client) == {"bound": 0.0, "refused": 0.0, "unknown": 1.0}
        hang.release()


async def test_a_thread_that_does_not_come_back_is_not_waited_for(api, monkeypatch, caplog):
    """Whatever holds a call up beyond all its timeouts, the scheduler has its answer."""
    monkeypatch.setattr(binds, "MAX_TIMEOUT_OVERRUN_SECONDS", 0.0)
    hang = Hang()
    api.faults.add(Fault("bind", "Pod", hang))
    monkeypatch.setattr("extender.cluster.apiserver.binding.CALL_TIMEOUT_FRACTION", 100)
    async with served(api, limit="2s") as client:
        async with asyncio.timeout(10):
            answer = await bind(client)
        assert answer == "not known whether the pod was bound: no response within bind.timeout"
        hang.release()


async def test_an_api_server_that_is_down_is_an_error_of_the_answer(api):
    api.stop()
    async with served(api, limit="1s") as client:
        assert "no answer from the API server" in await bind(client)
        assert await counted(client) == {"bound": 0.0, "refused": 0.0, "unknown": 1.0}


async def test_an_api_server_in_trouble_is_tried_again(api):
    api.faults.add(Fault("bind", "Pod", Answer(500)))
    async with served(api) as client:
        assert await bind(client) == ""


async def test_a_bug_of_ours_is_an_error_of_the_answer(api, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("extender.cluster.apiserver.binding.bind", fail)
    async with served(api) as client:
        assert await bind(client) == "internal error; the log says more"
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["bind failed"]


# --- what is sent ---------------------------------------------------------------------------------------------------

BAD = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "no PodUID": json.dumps({key: value for key, value in REQUEST.items() if key != "PodUID"}).encode(),
    "an empty name": json.dumps(REQUEST | {"PodName": ""}).encode(),
    "a number": json.dumps(REQUEST | {"Node": 7}).encode(),
    "bad UTF-8": json.dumps(REQUEST).encode().replace(b"web-0", b"web\xff"),
    "a second value": json.dumps(REQUEST).encode() * 2,
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_a_body_that_is_no_binding_is_400_and_nothing_is_sent(api, body):
    async with served(api) as client:
        response = await client.post("/bind", content=body)
        assert response.status_code == 400
        assert error_of(response)
        assert await counted(client) == {"bound": 0.0, "refused": 0.0, "unknown": 0.0}
    assert api.requests == []


async def test_a_body_that_is_too_large_is_413(api):
    async with served(api) as client:
        response = await client.post("/bind", content=b" " * ((2 << 20) + 1))
        assert (response.status_code, response.headers["connection"]) == (413, "close")


# --- switched off ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sections", [{}, LIVE], ids=["a cluster file", "a live cluster"])
async def test_bind_is_off_by_default_and_404_says_how_to_mend_that(api, sections):
    server = server_at(api.url)
    async with client_for(create_app(filled_cache(), configuration(**sections), api=server)) as client:
        response = await client.post("/bind", content=json.dumps(REQUEST))
        assert response.status_code == 404
        assert "bind.enabled: true" in error_of(response)
        assert "bindVerb" in error_of(response)
    server.close()
    assert api.requests == []


def test_bind_without_a_live_cluster_is_an_error_of_the_configuration():
    with pytest.raises(ValidationError, match=r"bind.enabled needs cluster.source: kubernetes"):
        configuration(bind={"enabled": True})
