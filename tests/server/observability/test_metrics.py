"""What is counted, and how an answer says that a plugin was not evaluated.

Of the pod with `resourceClaims` only kube-scheduler knows whether its claim has waited too long.
"""

import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.cluster.cache.cache import ClusterCache
from extender.core import engine
from extender.core.engine import Candidate
from extender.core.framework.plugins import REQUIRED_TABLES
from extender.k8s.kinds import ADMISSION_KINDS, KINDS
from extender.server.app import create_app
from extender.server.guard.guard import DUPLICATE_NODE, rules
from extender.server.observability.metrics import ANSWER_RESULTS, FAILURE_REASONS, REFUSAL_STATUSES, TIMED_STATUSES
from tests.device_builders import undecided_claim
from tests.server.conftest import (
    BODIES,
    CLUSTER,
    INCOMING,
    URGENT,
    client_for,
    configuration,
    filled_cache,
    filter_body,
    full_body,
    preempt_body,
)

pytestmark = pytest.mark.anyio

PLUGIN = "DynamicResources"


def claiming(pod):
    return {**pod, "spec": {**pod["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}}


CLAIMING = {
    "/filter": filter_body(incoming=claiming(INCOMING)),
    "/prioritize": filter_body(incoming=claiming(INCOMING)),
    "/preempt": preempt_body(claiming(URGENT)),
}
"""Path -> a body about a pod with a resource claim."""


def claimed_cache():
    return filled_cache({"kind": "List", "items": [*CLUSTER["items"], *undecided_claim("gpu", "shop")]})


def served(cache=None, **sections):
    return client_for(create_app(cache or claimed_cache(), configuration(**sections)))


async def samples(client):
    """(name, labels, value) of every series."""
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


async def not_evaluated(client):
    """Plugin -> how often, of those that are not 0."""
    return {
        labels["plugin"]: value
        for name, labels, value in await samples(client)
        if name == "extender_not_evaluated_total" and value
    }


async def guard_rejections(client):
    """Rule -> how often, of those that are not 0."""
    return {
        labels["rule"]: value
        for name, labels, value in await samples(client)
        if name == "extender_guard_rejections_total" and value
    }


# --- the format -----------------------------------------------------------------------------------------------------


async def test_metrics_are_in_the_prometheus_text_format(client):
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE extender_not_evaluated_total counter\n" in response.text
    assert response.text.endswith("\n")


async def test_every_series_of_a_label_is_there_from_the_start_at_0():
    cache = ClusterCache()
    async with served(cache) as client:
        found = await samples(client)
    counters = [sample for sample in found if sample[0].endswith(("_total", "_bucket", "_count", "_sum"))]
    of_the_process = "process_cpu_seconds_total"
    assert {name for name, _, value in counters if value} <= {of_the_process}
    there = {(name, *sorted(labels.items())) for name, labels, _ in found}
    verbs = ("filter", "prioritize", "preempt")
    expected = [("extender_not_evaluated_total", {"plugin": one}) for one in REQUIRED_TABLES]
    expected += [
        ("extender_guard_rejections_total", {"rule": r}) for r in (DUPLICATE_NODE, *(name for name, _ in rules()))
    ]
    expected += [("extender_unknown_candidates_total", {"what": what}) for what in ("node", "victim")]
    expected += [("extender_binds_total", {"outcome": outcome}) for outcome in ("bound", "refused", "unknown")]
    outcomes = ("same", "differs", "failed")
    expected += [("extender_observed_answers_total", {"verb": v, "outcome": o}) for v in verbs for o in outcomes]
    expected += [
        ("extender_answers_total", {"verb": v, "result": r}) for v, results in ANSWER_RESULTS.items() for r in results
    ]
    expected += [("extender_failures_total", {"reason": reason}) for reason in FAILURE_REASONS]
    expected += [("extender_refused_requests_total", {"code": str(code)}) for code in REFUSAL_STATUSES]
    expected += [
        ("extender_request_duration_seconds_count", {"verb": v, "code": str(code)}) for v, code in TIMED_STATUSES
    ]
    expected += [("extender_cache_objects", {"kind": kind}) for kind in KINDS if kind not in ADMISSION_KINDS]
    assert not [one for one in expected if (one[0], *sorted(one[1].items())) not in there]
    assert PLUGIN in REQUIRED_TABLES


async def test_metrics_do_not_need_the_cluster_cache_and_reject_post():
    async with served(ClusterCache()) as client:
        assert (await client.get("/metrics")).status_code == 200
        response = await client.post("/metrics")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


# --- not evaluated --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CLAIMING)
async def test_a_pod_with_a_claim_is_counted_named_and_logged(path, caplog):
    verb = path[1:]
    async with served() as client:
        with caplog.at_level(logging.INFO, logger="extender"):
            for times in (1, 2):
                response = await client.post(path, content=CLAIMING[path])
                assert response.status_code == 200
                assert response.headers["X-Extender-Not-Evaluated"] == PLUGIN
                assert await not_evaluated(client) == {PLUGIN: times}
    pod = "shop/urgent" if verb == "preempt" else "shop/incoming"
    line = f"{verb} '{pod}': not evaluated, left to kube-scheduler: {PLUGIN}"
    messages = [record.getMessage() for record in caplog.records if "not evaluated" in record.getMessage()]
    assert messages == [line, line]


async def test_whole_nodes_and_whole_victims_are_counted_too():
    whole = {"worker-1": {"Pods": [{"metadata": {"uid": "uid-small"}}], "NumPDBViolations": 0}}
    body = {"Pod": claiming(URGENT), "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    async with served() as client:
        filtered = await client.post("/filter", content=full_body(incoming=claiming(INCOMING)))
        preempted = await client.post("/preempt", content=json.dumps(body))
        assert filtered.headers["X-Extender-Not-Evaluated"] == preempted.headers["X-Extender-Not-Evaluated"] == PLUGIN
        assert await not_evaluated(client) == {PLUGIN: 2}


@pytest.mark.parametrize("path", BODIES)
async def test_a_plain_pod_is_not_counted(path, caplog):
    async with served() as client:
        with caplog.at_level(logging.INFO, logger="extender"):
            response = await client.post(path, content=BODIES[path])
        assert response.status_code == 200
        assert "X-Extender-Not-Evaluated" not in response.headers
        assert await not_evaluated(client) == {}
    assert not [record for record in caplog.records if "not evaluated" in record.getMessage()]


@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
async def test_filter_and_prioritize_judge_by_the_other_plugins(path):
    async with served() as client:
        plain = await client.post(path, content=BODIES[path])
        claiming = await client.post(path, content=CLAIMING[path])
    assert claiming.content == plain.content


async def test_victims_of_a_pod_with_a_claim_are_those_of_the_scheduler():
    """incoming needs 2 cores and finds 3 free: our own dry run would evict no pods."""
    body = preempt_body(claiming(INCOMING), **{"worker-1": ["uid-small"]})
    async with served() as client:
        answer = (await client.post("/preempt", content=body)).json()
    assert answer["NodeNameToMetaVictims"]["worker-1"]["Pods"] == [{"UID": "uid-small"}]


async def test_a_pod_name_cannot_forge_a_line_of_the_log(caplog):
    pod = claiming(INCOMING)
    pod["metadata"] = {**pod["metadata"], "name": "web\nERROR forged\x1b[31m"}
    async with served() as client:
        with caplog.at_level(logging.INFO, logger="extender"):
            await client.post("/filter", content=filter_body(incoming=pod))
    (record,) = caplog.records
    assert record.getMessage().isprintable()


async def test_two_applications_count_apart():
    async with served() as one, served() as other:
        await one.post("/filter", content=CLAIMING["/filter"])
        assert await not_evaluated(one) == {PLUGIN: 1}
        assert await not_evaluated(other) == {}


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CLAIMING)
@pytest.mark.parametrize("body", [b"{", None], ids=["a bad request", "cache not ready"])
async def test_no_decision_nothing_counted(path, body):
    async with served(ClusterCache() if body is None else None) as client:
        response = await client.post(path, content=body or CLAIMING[path])
        assert "X-Extender-Not-Evaluated" not in response.headers
        assert await not_evaluated(client) == {}


async def test_a_filter_decision_that_the_guard_refuses_is_counted(monkeypatch):
    monkeypatch.setattr(engine, "filter", lambda *_: engine.FilterDecision((0,), {}, {}, (PLUGIN,)))
    async with served() as client:
        response = await client.post("/filter", content=CLAIMING["/filter"])
        assert response.status_code == 503
        assert "X-Extender-Not-Evaluated" not in response.headers
        assert await not_evaluated(client) == {PLUGIN: 1}


async def test_a_prioritize_decision_that_the_guard_refuses_is_counted(monkeypatch):
    monkeypatch.setattr(engine, "prioritize", lambda *_: engine.PrioritizeDecision((11, 0, 0), (PLUGIN,)))
    async with served() as client:
        response = await client.post("/prioritize", content=CLAIMING["/prioritize"])
        assert (response.status_code, response.json()) == (200, [])
        assert "X-Extender-Not-Evaluated" not in response.headers
        assert await not_evaluated(client) == {PLUGIN: 1}


@pytest.mark.parametrize(("on_failure", "status"), [("Error", 503), ("Veto", 200)])
async def test_a_preempt_decision_that_the_guard_refuses_is_counted_once_however_often_it_was_tried(
    monkeypatch, on_failure, status
):
    cache = claimed_cache()
    (large,) = cache.snapshot().pods_on("worker-2")
    decision = engine.PreemptDecision((Candidate("worker-1", (large,), 0),), {}, (PLUGIN,), frozenset({"worker-1"}))
    monkeypatch.setattr(engine, "preempt", lambda *_: decision)
    async with served(cache, preemption={"onFailure": on_failure}) as client:
        response = await client.post("/preempt", content=CLAIMING["/preempt"])
        assert response.status_code == status
        assert "X-Extender-Not-Evaluated" not in response.headers
        assert await not_evaluated(client) == {PLUGIN: 1}
        rejected = await guard_rejections(client)
        verbose = await client.get("/readyz?verbose")
    assert rejected == {"VictimUnknown": 1, "NodeNotSent": 2}
    assert "rejected candidates: {'NodeNotSent': 2, 'VictimUnknown': 1}" in verbose.text
