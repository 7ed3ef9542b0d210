"""Calls are judged by the profile of the pod's schedulerName; a name that no profile has is not ours."""

import json
from copy import deepcopy

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.server.app import create_app
from tests.server.conftest import (
    INCOMING,
    URGENT,
    client_for,
    configuration,
    filled_cache,
    filter_body,
    full_body,
    preempt_body,
    scheduler_client,
)

pytestmark = pytest.mark.anyio

OWN = "X-Extender-Not-Evaluated"

PROFILES = [
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": "bin-packing",
        "plugins": {
            "filter": {"enabled": [{"name": "Trimaran"}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}, {"name": "Trimaran"}]},
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
            }
        ],
    },
    {"schedulerName": "anywhere", "plugins": {"filter": {"disabled": [{"name": "*"}]}}},
]

SCHEDULER = {"profiles": PROFILES, "version": "1.36"}


def of(pod, name):
    changed = deepcopy(pod)
    changed["spec"]["schedulerName"] = name
    return changed


def app(**sections):
    return create_app(filled_cache(), configuration(**{"scheduler": SCHEDULER, **sections}))


@pytest.fixture
async def client():
    async with client_for(app()) as client:
        yield client


async def counted(client, name):
    """Label values -> value, of the series that are not 0."""
    lines = (await client.get("/metrics")).text.splitlines()
    samples = (line.rpartition(" ") for line in lines if line.startswith(f"{name}{{"))
    return {labels.removeprefix(name): float(value) for labels, _, value in samples if float(value)}


async def scores(client, name):
    nodes = ("worker-1", "worker-2")
    answer = await client.post("/prioritize", content=filter_body(nodes, of(SMALL, name)))
    return {one["Host"]: one["Score"] for one in answer.json()}


SMALL = deepcopy(INCOMING)
SMALL["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"


async def test_each_pod_is_judged_by_the_profile_of_its_scheduler_name(client):
    spread, packed = await scores(client, "default-scheduler"), await scores(client, "bin-packing")
    assert spread["worker-1"] >= spread["worker-2"]
    assert packed["worker-1"] < packed["worker-2"]
    answers = [
        (await client.post("/filter", content=filter_body(incoming=of(INCOMING, name)))).json()["NodeNames"]
        for name in ("default-scheduler", "anywhere")
    ]
    assert answers == [["worker-1"], ["worker-1", "worker-2", "worker-3"]]


async def test_a_pod_that_names_no_scheduler_is_the_default_one_s(client):
    assert (await client.post("/filter", content=filter_body())).json()["NodeNames"] == ["worker-1"]


# --- not ours ---------------------------------------------------------------------------------------------------------


async def test_a_pod_of_no_profile_passes_filter_and_prioritize(client):
    for body in (filter_body, full_body):
        answer = await client.post("/filter", content=body(incoming=of(INCOMING, "other")))
        assert answer.status_code == 200
        nodes = answer.json()["NodeNames"] or [one["metadata"]["name"] for one in answer.json()["Nodes"]["items"]]
        assert nodes == ["worker-1", "worker-2", "worker-3"]
    answer = await client.post("/prioritize", content=filter_body(incoming=of(INCOMING, "other")))
    assert (answer.status_code, answer.json()) == (200, [])


@pytest.mark.parametrize(("on_failure", "status"), [("Error", 503), ("Veto", 200)])
async def test_a_preemptor_of_no_profile_is_answered_by_the_failure_rule(on_failure, status):
    async with scheduler_client(app(preemption={"onFailure": on_failure})) as client:
        answer = await client.post("/preempt", content=preempt_body(of(URGENT, "other")))
    assert answer.status_code == status
    if status == 200:
        assert answer.json() == {"NodeNameToMetaVictims": {}}
    else:
        assert answer.json()["Error"] == (
            "not ours: no profile of kube-scheduler has schedulerName 'other'; "
            "profiles: default-scheduler, bin-packing, anywhere"
        )


async def test_what_is_not_ours_needs_no_cluster():
    async with client_for(create_app(ClusterCache(), configuration(scheduler=SCHEDULER))) as client:
        answer = await client.post("/filter", content=filter_body(incoming=of(INCOMING, "other")))
        assert len(answer.json()["NodeNames"]) == 3


async def test_what_is_not_ours_is_counted_logged_and_kept(caplog):
    application = app(debug={"enabled": True})
    async with client_for(application) as client:
        for path, body in (
            ("/filter", filter_body(incoming=of(INCOMING, "other"))),
            ("/filter", filter_body(incoming=of(INCOMING, "other"))),
            ("/prioritize", filter_body(incoming=of(INCOMING, "other"))),
            ("/preempt", preempt_body(of(URGENT, "other"))),
        ):
            await client.post(path, content=body)
        assert await counted(client, "extender_failures_total") == {'{reason="UnknownScheduler"}': 4}
        assert await counted(client, "extender_answers_total") == {
            '{result="passthrough",verb="filter"}': 2,
            '{result="passthrough",verb="prioritize"}': 1,
            '{result="failed",verb="preempt"}': 1,
        }
        ready = (await client.get("/readyz?verbose")).text
        assert "[!] 4 calls for pods that are not ours: no profile has their schedulerName" in ready
    said = [line.getMessage() for line in caplog.records if "not ours" in line.getMessage()]
    assert [line.partition(": ")[0] for line in said] == [
        "filter passed through",
        "prioritize passed through",
        "preempt failed",
    ]
    kept = application.server_context.decisions.newest_first()
    assert {(one.verb, one.mode, one.profile) for one in kept} == {
        ("filter", "passthrough", None),
        ("prioritize", "passthrough", None),
        ("preempt", "failed", None),
    }
    report = json.loads(json.dumps(kept[0].decision().scheduler.version))
    assert report == "1.36"
    assert all("not ours" in one.summary.sentence for one in kept)


async def test_a_scheduler_name_of_any_length_and_content_is_said_within_limits():
    async with scheduler_client(app()) as client:
        answer = await client.post("/preempt", content=preempt_body(of(URGENT, "x\n" * 5000)))
    assert answer.status_code == 503
    assert len(answer.content) <= 1024


async def test_in_mode_observe_what_is_not_ours_is_passed_through():
    async with client_for(app(mode="Observe")) as client:
        answer = await client.post("/preempt", content=preempt_body(of(URGENT, "other")))
        assert set(answer.json()["NodeNameToMetaVictims"]) == {"worker-1", "worker-2"}
        assert await counted(client, "extender_failures_total") == {'{reason="UnknownScheduler"}': 1}


async def test_in_mode_observe_what_is_not_ours_is_no_difference_and_no_failure_to_decide():
    application = app(mode="Observe", debug={"enabled": True})
    async with client_for(application) as client:
        await client.post("/filter", content=filter_body(incoming=of(SMALL, "other")))
        await client.post("/prioritize", content=filter_body(incoming=of(SMALL, "other")))
        await client.post("/preempt", content=preempt_body(of(URGENT, "other")))
        assert await counted(client, "extender_observed_answers_total") == {
            '{outcome="same",verb="filter"}': 1,
            '{outcome="same",verb="prioritize"}': 1,
            '{outcome="failed",verb="preempt"}': 1,
        }
        assert set(await counted(client, "extender_answers_total")) == {
            '{result="passthrough",verb="filter"}',
            '{result="passthrough",verb="prioritize"}',
            '{result="passthrough",verb="preempt"}',
        }
    kept = application.server_context.decisions.newest_first()
    assert {one.verb: one.mode for one in kept} == {
        "filter": "passthrough",
        "prioritize": "passthrough",
        "preempt": "failed",
    }


# --- what is said -----------------------------------------------------------------------------------------------------


async def test_plugins_that_are_not_in_tree_are_named_for_the_pods_of_their_profile(client):
    for path, body in ("/filter", filter_body), ("/prioritize", filter_body):
        answer = await client.post(path, content=body(incoming=of(SMALL, "bin-packing")))
        assert answer.headers[OWN] == "Trimaran"
        answer = await client.post(path, content=body(incoming=of(SMALL, "default-scheduler")))
        assert OWN not in answer.headers
    answer = await client.post("/preempt", content=preempt_body(of(URGENT, "bin-packing")))
    assert answer.headers[OWN] == "Trimaran"
    assert await counted(client, "extender_not_evaluated_total") == {'{plugin="Trimaran"}': 3}


async def test_a_plugin_may_have_any_name():
    plugins = {"filter": {"enabled": [{"name": "Größe\n✓"}]}}
    async with client_for(app(scheduler={"profiles": [{"plugins": plugins}]})) as client:
        for path, body in ("/filter", filter_body()), ("/prioritize", filter_body()), ("/preempt", preempt_body()):
            answer = await client.post(path, content=body)
            assert (answer.status_code, answer.headers[OWN]) == (200, "Gr??e??")
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/readyz?verbose")).status_code == 200


async def test_health_says_version_profiles_and_what_is_not_evaluated():
    scheduler = {**SCHEDULER, "version": "1.33", "featureGates": {"PodLevelResources": True}}
    async with client_for(app(scheduler=scheduler)) as client:
        lines = (await client.get("/readyz?verbose")).text.splitlines()
    expected = "kube-scheduler 1.33 (configured); profiles: default-scheduler, bin-packing, anywhere"
    assert f"[+] {expected}; feature gates: PodLevelResources=true" in lines
    assert "[!] profile bin-packing: not evaluated, left to kube-scheduler: Trimaran" in lines


async def test_a_decision_says_version_and_profile():
    scheduler = {**SCHEDULER, "version": "1.33", "featureGates": {"PodLevelResources": True}}
    application = app(scheduler=scheduler, debug={"enabled": True})
    async with scheduler_client(application) as client:
        await client.post("/filter", content=filter_body(incoming=of(SMALL, "bin-packing")))
    (kept,) = application.server_context.decisions.newest_first()
    told = kept.decision().scheduler
    assert (told.version, told.version_source, told.profile) == ("1.33", "configured", "bin-packing")
    assert told.feature_gates == {"PodLevelResources": True}
    assert told.not_evaluated_plugins == ["Trimaran"]


async def test_profiles_do_not_change_each_other_s_answers(client):
    alone = app(scheduler={"profiles": [PROFILES[1]], "version": "1.36"})
    body = filter_body(incoming=of(INCOMING, "bin-packing"))
    async with scheduler_client(alone) as other:
        for path in ("/filter", "/prioritize"):
            assert (await other.post(path, content=body)).content == (await client.post(path, content=body)).content
