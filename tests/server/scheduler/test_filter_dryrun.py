"""POST /filter-dryrun: nodes count as they were sent, and nothing is left of the call."""

import asyncio
import json
import logging

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.core import engine
from extender.errors import GuardError
from extender.k8s.limits.limits import MAX_NODE_BYTES
from extender.server.app import create_app
from extender.server.http.deadline import Deadline
from extender.server.scheduler import sent_nodes
from extender.server.scheduler.filter_dryrun import MAX_WAITING, DryRuns
from tests.cluster.watch.source_rig import serving
from tests.fakes.api_server import FakeAPI
from tests.server.conftest import (
    CLUSTER,
    INCOMING,
    URGENT,
    admin_client,
    client_for,
    configuration,
    error_of,
    filled_cache,
    filter_body,
    full_body,
    node,
    pod,
    preempt_body,
)

pytestmark = pytest.mark.anyio

BIG = pod("big", cpu="6", priority=100)
"""More than any node of the cluster has."""


def template(name="template-1", cpu="8", zone="z1", taints=(), **spec):
    sent = node(name, cpu=cpu, taints=list(taints), **spec)
    sent["metadata"] |= {"labels": {"kubernetes.io/hostname": name, "zone": zone}, "uid": f"uid-{name}"}
    return sent


def body_of(*nodes, incoming=BIG, **keys):
    sent = {"Pod": incoming, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None} | keys
    return json.dumps(sent, separators=(",", ":")).encode()


def served(cache=None, **sections):
    return client_for(create_app(cache or filled_cache(), configuration(**sections)))


async def dry_run(client, *nodes, **keys):
    return await client.post("/filter-dryrun", content=body_of(*nodes, **keys))


def names_of(answer):
    return [one["metadata"]["name"] for one in answer["Nodes"]["items"]]


def dry_error(response):
    """The message of an answer that is an ExtenderFilterResult with an error."""
    answer = response.json()
    assert response.status_code == 200
    assert (answer["Nodes"], answer["NodeNames"], answer["FailedNodes"]) == (None, None, {})
    return answer["Error"]


# --- templates ------------------------------------------------------------------------------------------------------


async def test_templates_are_judged_as_if_they_were_in_the_cluster(client):
    taint = {"key": "gpu", "effect": "NoSchedule"}
    templates = template(), template("small", cpu="2"), template("tainted", taints=[taint]), template("second")
    response = await dry_run(client, *templates)
    assert response.status_code == 200
    answer = response.json()
    assert answer["Nodes"] == {"metadata": {}, "items": [templates[0], templates[3]]}
    assert answer["FailedNodes"] == {}
    assert answer["FailedAndUnresolvableNodes"] == {
        "small": "Insufficient cpu",
        "tainted": "node(s) had untolerated taint(s)",
    }
    assert (answer["NodeNames"], answer["Error"]) == (None, "")
    assert response.headers["x-extender-cache"].startswith("version=")
    assert "x-extender-decision" not in response.headers


async def test_accepted_templates_come_back_byte_for_byte(client):
    body = body_of(template(), incoming=BIG).replace(b'"uid":"uid-template-1"', b'"uid":"uid-template-1","x":1.50')
    response = await client.post("/filter-dryrun", content=body)
    assert b'"uid":"uid-template-1","x":1.50' in response.content


async def test_nodes_of_the_cluster_and_templates_come_in_one_request(client):
    sent = node("worker-1"), template(), node("worker-2")
    answer = (await dry_run(client, *sent, incoming=INCOMING)).json()
    assert names_of(answer) == ["worker-1", "template-1"]
    assert answer["FailedNodes"] == {"worker-2": "Insufficient cpu"}  # its pod counts


async def test_a_node_that_is_sent_in_another_state_counts_as_sent(client):
    changed = node("worker-1", cpu="16"), node("worker-3")
    answer = (await dry_run(client, *changed)).json()
    assert names_of(answer) == ["worker-1"]
    assert answer["FailedAndUnresolvableNodes"] == {"worker-3": "Insufficient cpu"}
    real = (await client.post("/filter", content=body_of(*changed))).json()
    assert real["FailedAndUnresolvableNodes"]["worker-1"] == "Insufficient cpu"
    assert "unschedulable" in real["FailedAndUnresolvableNodes"]["worker-3"]


async def test_names_are_those_of_the_cluster(client):
    answer = (await client.post("/filter-dryrun", content=filter_body())).json()
    assert answer == (await client.post("/filter", content=filter_body())).json()


async def test_templates_are_domains_of_topology_spread(client):
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "small"}},
    }
    zoned = template("worker-1", cpu="4", zone="z1")  # runs pod small
    spreading = pod("small-2", cpu="1", priority=100)
    spreading["metadata"]["labels"]["app"] = "small"
    spreading["spec"]["topologySpreadConstraints"] = [spread]
    answer = (await dry_run(client, zoned, template("t-1", zone="z1"), incoming=spreading)).json()
    assert names_of(answer) == ["worker-1", "t-1"]  # z1 is the only zone
    answer = (
        await dry_run(client, zoned, template("t-1", zone="z1"), template("t-2", zone="z2"), incoming=spreading)
    ).json()
    assert names_of(answer) == ["t-2"]
    assert set(answer["FailedAndUnresolvableNodes"] | answer["FailedNodes"]) == {"worker-1", "t-1"}


async def test_anti_affinity_of_a_pod_that_runs_reaches_the_templates_of_its_zone():
    guarding = pod("guard", on="worker-1", cpu="1")
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "big"}}}
    guarding["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    zoned = template("worker-1", cpu="4", zone="z1")
    cluster = {"kind": "List", "items": [zoned, guarding]}
    async with served(filled_cache(cluster)) as client:
        answer = (await dry_run(client, template("t-1", zone="z1"), template("t-2", zone="z2"))).json()
    assert names_of(answer) == ["t-2"]


async def test_the_same_template_twice_is_answered_twice(client):
    answer = (await dry_run(client, template(), template())).json()
    assert names_of(answer) == ["template-1", "template-1"]


# --- nothing is left --------------------------------------------------------------------------------------------------


def counters(text):
    """Every sample that calls change, but that of the dry runs."""
    lines = (line for line in text.splitlines() if line.startswith("extender_"))
    return [line for line in lines if not line.startswith(("extender_filter_dryruns", "extender_cache_age"))]


async def test_nothing_changes_and_only_one_counter_counts():
    app = create_app(filled_cache(), configuration())
    cache, context = app.server_context.cache, app.server_context
    async with client_for(app) as client, admin_client(context) as admin:
        await client.post("/filter", content=filter_body())
        snapshot = cache.snapshot()
        state = cache.version, snapshot.frozen(), dict(snapshot._versions), context.last_names
        before = (await admin.get("/metrics")).text
        for nodes in ([template()], [template("none", cpu="1")], [node("worker-1", cpu="16")]):
            assert (await dry_run(client, *nodes)).status_code == 200
        assert (await client.post("/filter-dryrun", content=b"{")).status_code == 400
        assert dry_error(await client.post("/filter-dryrun", content=filter_body(["worker-9"])))
        after = (await admin.get("/metrics")).text
        assert counters(after) == counters(before)
        for result, count in (("answered", 3), ("failed", 2)):
            assert f'extender_filter_dryruns_total{{result="{result}"}} {count}.0' in after
        assert cache.snapshot() is snapshot
        assert state == (cache.version, snapshot.frozen(), dict(snapshot._versions), context.last_names)
        assert len((await admin.get("/decisions")).json()["decisions"]) == 1


async def test_a_preemption_stays_assumed():
    with FakeAPI() as api:
        for one in CLUSTER["items"]:
            api.put(one["kind"], one)
        async with serving(api.url) as (client, live):
            await live.read()
            await client.post("/preempt", content=preempt_body(**{"worker-1": ["uid-small"]}))
            assert len(live.cache.assumed) == 2
            await dry_run(client, template(), incoming=URGENT)
            assert len(live.cache.assumed) == 2
            history = live.cache.assumed
            await client.post("/filter", content=filter_body(incoming=URGENT))  # kube-scheduler tries it again
            assert len(history) == 0


async def test_the_next_filter_finds_the_verdicts_that_were_kept():
    app = create_app(filled_cache(), configuration())
    async with client_for(app) as client:
        await client.post("/filter", content=filter_body())
        snapshot = app.server_context.cache.snapshot()
        derived = dict(snapshot._derived)
        await dry_run(client, template())
        assert snapshot._derived == derived
        assert all(snapshot._derived[function] is kept for function, kept in derived.items())


# --- bad requests -----------------------------------------------------------------------------------------------------


def broken(path, value):
    """A template with another value, or without the key (None)."""
    sent = template()
    *parents, last = path
    place = sent
    for parent in parents:
        place = place[parent]
    place[last] = value
    return sent


BAD = {
    "cpu": (
        broken(("status", "allocatable"), {"cpu": "8x"}),
        400,
        "Nodes.items[1].status.allocatable[cpu]: not a quantity (such as 500m, 2 or 1Gi)",
    ),
    "cpu is a list": (
        broken(("status", "allocatable"), {"cpu": []}),
        400,
        "Nodes.items[1].status.allocatable[...]: Expected `int | float | str | null`, got `array`",
    ),
    "taints": (
        broken(("spec", "taints"), [{"effect": "NoSchedule"}]),
        400,
        "Nodes.items[1].spec.taints[0]: Object missing required field `key`",
    ),
    "labels": (
        broken(("metadata", "labels"), {"zone": 1}),
        400,
        "Nodes.items[1].metadata.labels[...]: Expected `str`, got `int`",
    ),
    "no name": (broken(("metadata", "name"), ""), 400, "Nodes.items[1].metadata.name is missing or empty"),
    "long name": (template("n" * 254), 400, "Nodes.items[1].metadata.name: 254 characters, at most 253 are accepted"),
    "twice": (template("first", cpu="1"), 400, "Nodes.items[1] has the name of Nodes.items[0] and differs from it"),
    "large": (
        broken(("metadata", "annotations"), {"x": "y" * MAX_NODE_BYTES}),
        413,
        f"bytes, at most {MAX_NODE_BYTES} are accepted",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("path", ["/filter-dryrun", "/filter", "/prioritize"])
async def test_a_bad_node_is_refused_with_its_place(client, path, name):
    bad, status, message = BAD[name]
    response = await client.post(path, content=body_of(template("first"), bad))
    assert response.status_code == status
    assert message in error_of(response)


@pytest.mark.parametrize("path", ["/filter-dryrun", "/filter", "/prioritize"])
async def test_too_many_unknown_nodes_are_refused(client, path, monkeypatch):
    monkeypatch.setattr(sent_nodes, "MAX_SENT_NODES", 2)
    assert (await client.post(path, content=body_of(node("worker-1"), *map(template, "ab")))).status_code == 200
    response = await client.post(path, content=body_of(*map(template, "abc")))
    assert response.status_code == 413
    assert "3 nodes that the cluster cache lacks or holds in another state, at most 2" in error_of(response)


async def test_in_mode_observe_unknown_nodes_that_cannot_be_judged_stand_in_no_ones_way(monkeypatch):
    monkeypatch.setattr(sent_nodes, "MAX_SENT_NODES", 2)
    async with served(mode="Observe") as client:
        for sent in ([BAD["cpu"][0]], list(map(template, "abc"))):
            assert names_of((await client.post("/filter", content=body_of(*sent))).json()) == [
                one["metadata"]["name"] for one in sent
            ]
            scores = (await client.post("/prioritize", content=body_of(*sent))).json()
            assert {one["Score"] for one in scores} <= {0}


async def test_too_many_unknown_nodes_are_refused_before_they_are_decoded(client, monkeypatch):
    monkeypatch.setattr(sent_nodes, "MAX_SENT_NODES", 2)
    response = await client.post("/filter", content=body_of(*map(template, "ab"), BAD["cpu"][0]))
    assert response.status_code == 413


async def test_what_filter_refuses_is_refused(client):
    for content, status in ((b"[]", 400), (body_of(template(), NodeNames=["a"]), 400), (b" " * (3 << 20), 400)):
        assert (await client.post("/filter-dryrun", content=content)).status_code == status
    assert (await client.get("/filter-dryrun")).status_code == 405
    names = filter_body(["n" * 200] * 20_000)
    assert (await client.post("/filter-dryrun", content=names)).status_code == 413


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "incoming"),
    [
        ({"mode": "Observe"}, BIG),
        ({"killSwitch": {"enabled": True, "preempt": "Veto"}}, BIG),
        ({}, BIG | {"spec": BIG["spec"] | {"schedulerName": "another"}}),
    ],
    ids=["Observe", "kill switch", "not ours"],
)
async def test_where_filter_accepts_every_node_the_dry_run_does(sections, incoming):
    async with served(**sections) as client:
        answer = (await dry_run(client, template("small", cpu="1"), incoming=incoming)).json()
    assert names_of(answer) == ["small"]
    assert answer["FailedNodes"] == answer["FailedAndUnresolvableNodes"] == {}


async def test_an_unknown_name_is_an_error_in_the_body(client):
    response = await client.post("/filter-dryrun", content=filter_body(["worker-1", "worker-9"]))
    assert dry_error(response) == "1 of 2 nodes are not in the cluster cache"


async def test_a_cache_that_is_not_ready_is_an_error_in_the_body():
    async with served(ClusterCache()) as client:
        assert "not synced" in dry_error(await dry_run(client, template()))


@pytest.mark.parametrize("error", [GuardError("wrong"), RuntimeError("secret")])
async def test_a_bug_is_an_error_in_the_body_and_leaves_no_node(monkeypatch, caplog, error):
    app = create_app(filled_cache(), configuration())

    def fail(*_):
        raise error

    async with client_for(app) as client:
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
            patched.setattr(engine, "filter", fail)
            message = dry_error(await dry_run(client, template()))
        assert "secret" not in message
        assert app.server_context.cache.snapshot().node_names == ["worker-1", "worker-2", "worker-3"]
        assert names_of((await dry_run(client, template())).json()) == ["template-1"]


async def test_a_deadline_that_has_passed_is_an_error_in_the_body():
    dry_runs = DryRuns(create_app(filled_cache(), configuration()).server_context)
    answer = await dry_runs.answer(body_of(template()), Deadline(0.0))
    assert "deadline exceeded" in json.loads(answer.body)["Error"]


async def test_many_dry_runs_are_decided_in_turn_and_more_are_not_kept_waiting():
    dry_runs = DryRuns(create_app(filled_cache(), configuration()).server_context)
    running = [dry_runs.answer(body_of(template()), Deadline(float("inf"))) for _ in range(MAX_WAITING + 2)]
    kinds = [answer.kind for answer in await asyncio.gather(*running)]
    assert kinds == ["decided"] * MAX_WAITING + ["error"] * 2
    assert (await dry_runs.answer(body_of(template()), Deadline(float("inf")))).kind == "decided"


async def test_a_call_of_kube_scheduler_comes_between_two_dry_runs():
    app, order = create_app(filled_cache(), configuration()), []
    dry_runs = DryRuns(app.server_context)

    async def ask(number):
        await dry_runs.answer(body_of(*map(template, map(str, range(120)))), Deadline(float("inf")))
        order.append(number)

    async with client_for(app) as client:
        asking = [asyncio.create_task(ask(number)) for number in range(20)]
        await client.post("/filter", content=filter_body())
        order.append("filter")
        await asyncio.gather(*asking)
    assert order.index("filter") < 10


# --- /filter and /prioritize with whole nodes that are unknown --------------------------------------------------------


async def test_filter_and_prioritize_judge_unknown_whole_nodes_as_sent():
    app = create_app(filled_cache(), configuration())
    body = body_of(node("worker-1", cpu="64"), template(), template("small", cpu="1"))
    async with client_for(app) as client, admin_client(app.server_context) as admin:
        answer = (await client.post("/filter", content=body)).json()
        assert names_of(answer) == ["template-1"]
        assert answer["FailedAndUnresolvableNodes"] == {
            "worker-1": "Insufficient cpu",  # of a known node the cluster cache counts
            "small": "Insufficient cpu",
        }
        scores = {one["Host"]: one["Score"] for one in (await client.post("/prioritize", content=body)).json()}
        assert scores["template-1"] >= 6 > scores["worker-1"] == scores["small"] == 0
        for decision in ("filter-1", "prioritize-1"):
            report = (await admin.get(f"/decisions/{decision}")).json()
            names = [one["name"] for one in report["nodes"]]
            assert sorted(names) == ["small", "template-1", "worker-1"]
        assert app.server_context.cache.snapshot().node_names == ["worker-1", "worker-2", "worker-3"]


async def test_names_of_unknown_nodes_still_fail(client):
    assert (await client.post("/filter", content=filter_body(["worker-9"]))).status_code == 503
    assert (await client.post("/prioritize", content=filter_body(["worker-9"]))).json() == []


async def test_a_whole_node_without_resources_takes_no_pod(client):
    answer = (await client.post("/filter", content=full_body(["worker-9"]))).json()
    assert answer["FailedAndUnresolvableNodes"] == {"worker-9": "Too many pods, Insufficient cpu"}
