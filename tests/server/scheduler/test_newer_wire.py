"""What kube-scheduler v1.37 and v1.38 send to /preempt, as far as their sources tell."""

from copy import deepcopy

import pytest

from extender.server.app import create_app
from tests.server.conftest import INCOMING, URGENT, configuration, filled_cache, filter_body, preempt_body
from tests.server.conftest import scheduler_client as client_of

pytestmark = pytest.mark.anyio

GATE = "InPlacePodVerticalScalingSchedulerPreemption"


def app(version, **sections):
    return create_app(filled_cache(), configuration(scheduler={"version": version, **sections}))


async def ask(application, path, body):
    async with client_of(application) as client:
        answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    return answer


async def victims(application, body):
    found = (await ask(application, "/preempt", body)).json()["NodeNameToMetaVictims"]
    return {node: [pod["UID"] for pod in one["Pods"]] for node, one in found.items()}


# --- candidates without victims (v1.38) -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.36", "1.38"])
async def test_a_candidate_without_victims_is_given_those_of_our_own_dry_run(version):
    body = preempt_body(URGENT, **{"worker-1": []})
    assert await victims(app(version), body) == {"worker-1": ["uid-small"]}


async def test_one_where_the_pod_fits_is_passed_on_from_1_38_on_and_left_out_before():
    body = preempt_body(INCOMING, **{"worker-1": [], "worker-2": ["uid-large"]})
    assert await victims(app("1.38"), body) == {"worker-2": ["uid-large"], "worker-1": []}
    assert await victims(app("1.37"), body) == {"worker-2": ["uid-large"]}


async def test_one_where_no_victims_would_help_is_passed_on():
    body = preempt_body(URGENT, **{"worker-3": []})
    assert await victims(app("1.38"), body) == {"worker-3": []}


async def test_null_victims_are_none():
    body = preempt_body(INCOMING, **{"worker-1": []}).replace(b'"Pods": []', b'"Pods": null')
    assert await victims(app("1.38"), body) == {"worker-1": []}


async def test_a_candidate_that_another_one_outranks_is_not_passed_on():
    """One that our own dry run gives victims takes part in the choice like any other, whichever was sent without."""
    for second in (["uid-large"], list[str]()):
        found = await victims(app("1.38"), preempt_body(URGENT, **{"worker-1": [], "worker-2": second}))
        assert len(found) == 1
        assert all(found.values())


async def test_what_is_passed_on_evicts_nobody_and_is_explained():
    application = app("1.38")
    await victims(application, preempt_body(INCOMING, **{"worker-1": []}))
    (kept,) = application.server_context.decisions.newest_first()
    assert kept.summary.chosen == ["worker-1"]
    assert kept.summary.victims == []
    assert [one.outcome for one in kept.decision().nodes] == ["fits"]


# --- the preemptor of a resize (v1.37, alpha) -------------------------------------------------------------------------


def resized(reason="Deferred", on="worker-2"):
    pod = deepcopy(URGENT)
    pod["spec"]["nodeName"] = on
    pod["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
    }
    return pod


async def test_a_bound_pod_that_is_to_grow_keeps_kube_scheduler_s_own_victims():
    application = app("1.37", featureGates={GATE: True})
    assert await victims(application, preempt_body(resized(), **{"worker-2": ["uid-large"]})) == {
        "worker-2": ["uid-large"]
    }
    answer = await ask(application, "/filter", filter_body(["worker-2"], resized()))
    assert answer.json()["NodeNames"] == ["worker-2"]
    assert [one.mode for one in application.server_context.decisions.newest_first()] == ["passthrough"] * 2
    assert application.server_context.metrics.nonzero("failures") == {}


@pytest.mark.parametrize(
    ("version", "gates", "pod"),
    [
        ("1.36", {}, resized()),
        ("1.37", {}, resized()),
        ("1.37", {GATE: True}, resized("Infeasible")),
    ],
    ids=["1.36", "gate off", "infeasible"],
)
async def test_any_other_bound_pod_may_not_preempt(version, gates, pod):
    answer = await ask(app(version, featureGates=gates), "/preempt", preempt_body(pod, **{"worker-2": ["uid-large"]}))
    assert answer.json() == {"NodeNameToMetaVictims": {}}
    assert "is assigned to node worker-2 already" in answer.headers["X-Extender-Vetoed"]


# --- pods of a PodGroup (v1.37, GenericWorkload) ----------------------------------------------------------------------


def of_group(pod):
    return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "train"}}}


async def test_a_pod_of_a_group_is_placed_by_kube_scheduler_alone():
    """It may try the pod on a node without the pods that the group would preempt: they are not gone here."""
    application = app("1.37")
    body = filter_body(["worker-1", "worker-2"], of_group(URGENT))
    assert (await ask(application, "/filter", body)).json()["NodeNames"] == ["worker-1", "worker-2"]
    assert (await ask(application, "/prioritize", body)).json() == []
    assert [one.mode for one in application.server_context.decisions.newest_first()] == ["passthrough"] * 2
    assert application.server_context.metrics.nonzero("failures") == {}


async def test_up_to_1_36_it_is_judged_for_itself():
    answer = await ask(app("1.36"), "/filter", filter_body(["worker-1"], of_group(URGENT)))
    assert answer.json()["NodeNames"] == []
